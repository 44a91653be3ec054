"""The environment is made from the lock, once, and only from files whose hashes fit."""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


class Checkout:
    """A folder with the script and a lock of one package, installable without a network."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "scripts").mkdir()
        shutil.copy(ROOT / "scripts" / "bootstrap.py", folder / "scripts")
        (folder / "requirements-test.lock").write_text("")
        self.lock = folder / "requirements.lock"
        self.stamp = folder / ".venv" / "assay-lock.json"

    def wheel(self, version: str) -> str:
        """Make a wheel; gives its line in a lock."""
        path = self.folder / f"tiny-{version}-py3-none-any.whl"
        info = f"tiny-{version}.dist-info"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("tiny.py", f"VERSION = '{version}'\n")
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
        return f"tiny=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"

    def bootstrap(self) -> "subprocess.CompletedProcess[str]":
        local = {"NO_INDEX": "1", "FIND_LINKS": str(self.folder)}
        variables = {f"{tool}_{name}": value for tool in ("PIP", "UV") for name, value in local.items()}
        return subprocess.run(
            [sys.executable, "scripts/bootstrap.py"],
            check=False,
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **variables},
            capture_output=True,
            text=True,
            timeout=300,
        )

    def version(self) -> str:
        command = [self.folder / ".venv/bin/python", "-c", "import tiny; print(tiny.VERSION)"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.slow
def test_environment_follows_the_lock_and_refuses_what_does_not_fit(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    checkout.lock.write_text(checkout.wheel("1.0"))
    first = checkout.bootstrap()
    assert first.returncode == 0, first.stderr
    assert "Installing 1 packages" in first.stdout
    assert checkout.version() == "1.0"

    again = checkout.bootstrap()
    assert (again.returncode, again.stdout) == (0, "")

    checkout.lock.write_text(checkout.wheel("2.0"))
    assert checkout.bootstrap().returncode == 0
    assert checkout.version() == "2.0"

    checkout.lock.write_text(checkout.wheel("3.0").replace("sha256:", "sha256:00")[:-3] + "\n")
    refused = checkout.bootstrap()
    assert refused.returncode == 1
    assert "could not be installed" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert checkout.version() == "2.0"

    (tmp_path / ".venv/bin/python").unlink()
    checkout.lock.write_text(checkout.wheel("2.0"))
    assert "Making .venv" in checkout.bootstrap().stdout
    assert checkout.version() == "2.0"
