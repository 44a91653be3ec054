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

    def wheel(self, version: str, *, name: str = "tiny", needs: str = "") -> str:
        """Make a wheel; gives its line in a lock."""
        path = self.folder / f"{name}-{version}-py3-none-any.whl"
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(f"{name}.py", f"VERSION = '{version}'\n")
            metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
            archive.writestr(f"{info}/METADATA", metadata)
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
        return f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"

    def bootstrap(self, *flags: str) -> "subprocess.CompletedProcess[str]":
        local = {"NO_INDEX": "1", "FIND_LINKS": str(self.folder)}
        variables = {f"{tool}_{name}": value for tool in ("PIP", "UV") for name, value in local.items()}
        return subprocess.run(
            [sys.executable, "scripts/bootstrap.py", *flags],
            check=False,
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), **variables},
            capture_output=True,
            text=True,
            timeout=300,
        )

    def version(self, name: str = "tiny") -> str:
        command = [self.folder / ".venv/bin/python", "-c", f"import {name}; print({name}.VERSION)"]
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


@pytest.mark.slow
def test_the_small_model_comes_without_what_it_asks_for_and_is_kept_when_the_rest_changes(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    checkout.lock.write_text(checkout.wheel("1.0"))
    (tmp_path / "requirements-test.lock").write_text(checkout.lock.read_text())
    model = checkout.wheel("1.0", name="weights", needs="Requires-Dist: nowhere-to-be-had\n")
    (tmp_path / "requirements-llm.lock").write_text(model)
    first = checkout.bootstrap("--llm")
    assert first.returncode == 0, first.stderr
    assert (checkout.version(), checkout.version("weights")) == ("1.0", "1.0")
    assert (checkout.bootstrap("--llm").stdout, checkout.bootstrap("--test").stdout) == ("", "")

    (tmp_path / "requirements-test.lock").write_text(checkout.wheel("2.0"))
    assert checkout.bootstrap("--llm").stdout.count("Installing") == 1
    assert (checkout.version(), checkout.version("weights")) == ("2.0", "1.0")
