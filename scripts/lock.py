"""Write requirements.lock and requirements-test.lock from pyproject.toml: hashes, all platforms, no index host.

Locked versions stay unless pyproject.toml no longer allows them; `--upgrade` takes the newest.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILE = (
    *(str(Path(sys.executable).parent / "uv"), "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
    *("--generate-hashes", "--no-header", "--no-annotate", "pyproject.toml"),
)


def main() -> int:
    """Resolve the runtime first; the tests get the same versions."""
    test = ["--group", "pyproject.toml:test", "-c", "requirements.lock", "-o", "requirements-test.lock"]
    for target in (["-o", "requirements.lock"], test):
        done = subprocess.run([*COMPILE, *target, *sys.argv[1:]], check=False, cwd=ROOT)
        if done.returncode != 0:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
