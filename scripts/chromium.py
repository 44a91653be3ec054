"""Say where a Chromium is, fetching one when there is none; standard library alone.

Prints its path. Tried in this order: ASSAY_CHROMIUM, the system's, the one fetched before, the npm package
@sparticuz/chromium (Linux x86_64, needs neither root nor apt), apt-get as root.
"""

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "@sparticuz/chromium@147.0.0"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "assay", "chromium")
NAMES = ("chromium", "chromium-browser", "google-chrome")


def main() -> int:
    """Print the path of a browser that starts."""
    found = installed() or from_npm() or from_apt()
    if found is None:
        print("No Chromium. Install one (apt-get install chromium) or set ASSAY_CHROMIUM.", file=sys.stderr)
        return 1
    print(found)
    return 0


def installed() -> str | None:
    """Find a browser that is already here."""
    places = [os.environ.get("ASSAY_CHROMIUM"), *map(shutil.which, NAMES), str(CACHE / "chromium")]
    return next((place for place in places if place and starts(place)), None)


def starts(path: str) -> bool:
    """Tell whether this browser runs: a file that lacks a library is no browser."""
    try:
        return subprocess.run([path, "--version"], check=False, capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def from_npm() -> str | None:
    """Unpack the browser of the npm package into the cache folder."""
    if not (shutil.which("npm") and shutil.which("node") and platform.machine() == "x86_64"):
        return None
    print(f"Fetching {PACKAGE} from npm ...", file=sys.stderr, flush=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    show = "import chromium from '@sparticuz/chromium'; console.log(await chromium.executablePath())"
    with tempfile.TemporaryDirectory() as folder:
        npm = ["npm", "install", "--silent", "--no-save", "--no-audit", "--no-fund", "--prefix", folder, PACKAGE]
        # The package unpacks into the temporary folder, wherever that is.
        unpack = ["node", "--input-type=module", "-e", show]
        environment = {**os.environ, "TMPDIR": str(CACHE)}
        for command, variables in ((npm, dict(os.environ)), (unpack, environment)):
            if subprocess.run(command, check=False, cwd=folder, env=variables, stdout=sys.stderr).returncode != 0:
                return None
    return installed()


def from_apt() -> str | None:
    """Install Debian's browser when we may."""
    if not (shutil.which("apt-get") and os.geteuid() == 0):
        return None
    print("Installing chromium with apt-get ...", file=sys.stderr, flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-qq"], ["install", "-qq", "-y", "--no-install-recommends", "chromium"]):
        subprocess.run(["apt-get", *command], check=False, env=quiet, stdout=subprocess.DEVNULL)
    return installed()


if __name__ == "__main__":
    sys.exit(main())
