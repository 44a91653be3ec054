"""Make .venv from the lock file, with the standard library alone.

    python3 scripts/bootstrap.py            what the product needs
    python3 scripts/bootstrap.py --test     what its tests need, too
    python3 scripts/bootstrap.py --llm      and a real small model for tests/llm

Does nothing when the environment already fits the lock. Installs with uv when it can be had, else with pip; every
file is checked against the hashes in the lock.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "assay-lock.json"
RUNTIME, TEST, LLM = (ROOT / f"requirements{kind}.lock" for kind in ("", "-test", "-llm"))
OLDEST, TOO_NEW = (3, 11), (3, 14)
TICK_S = 10


class StepError(Exception):
    """A step failed; the text says what to do."""


def main() -> int:
    """Bring the environment up to date with the lock."""
    parser = argparse.ArgumentParser(description="Make .venv from the lock file.")
    parser.add_argument("--test", action="store_true", help="install what the tests need, too")
    parser.add_argument("--llm", action="store_true", help="install the tests' small model, too")
    asked = parser.parse_args()
    locks = [TEST, LLM] if asked.llm else [TEST] if asked.test else [RUNTIME]
    if not OLDEST <= sys.version_info[:2] < TOO_NEW:
        return _with_another_python()
    try:
        for lock in locks:
            _bring_up_to_date(lock)
    except StepError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    return 0


def _with_another_python() -> int:
    """Run again under a Python that fits, if one is installed."""
    for minor in range(TOO_NEW[1] - 1, OLDEST[1] - 1, -1):
        other = shutil.which(f"python3.{minor}")
        if other and subprocess.run([other, "-c", ""], check=False, stderr=subprocess.DEVNULL).returncode == 0:
            return subprocess.run([other, *sys.argv], check=False).returncode
    have = ".".join(map(str, sys.version_info[:3]))
    print(f"Assay needs Python 3.11, 3.12 or 3.13; this is {have}, and no other is on the PATH.", file=sys.stderr)
    return 1


def _bring_up_to_date(lock: Path) -> None:
    if _venv_works() and _installed().get(lock.name) == _digest(lock):
        return
    if not _venv_works():
        _step("Making .venv", _make_venv)
    count = len(re.findall(r"^[\w.-]+==", lock.read_text(encoding="utf-8"), re.MULTILINE))
    _step(f"Installing {count} packages", lambda: _install(lock))
    _stamp(lock)


def _stamp(lock: Path) -> None:
    """Note what is installed: runtime and tests replace each other's versions, the small model stands apart."""
    kept = {name: digest for name, digest in _installed().items() if lock is LLM or name == LLM.name}
    now = (RUNTIME, TEST) if lock is TEST else (lock,)
    STAMP.write_text(json.dumps(kept | {each.name: _digest(each) for each in now}), encoding="utf-8")


def _step(title: str, work: Callable[[], None]) -> None:
    started = time.monotonic()
    print(f"{title} ...", flush=True)
    work()
    print(f"  done in {time.monotonic() - started:.1f} s", flush=True)


def _venv_works() -> bool:
    """Tell whether .venv runs: it breaks when its base Python is removed or the folder is moved."""
    try:
        return subprocess.run([PYTHON, "-c", "import pip"], check=False, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def _installed() -> dict[str, str]:
    try:
        stamp: dict[str, str] = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp


def _digest(lock: Path) -> str:
    """Name the lock and the Python it was installed for: another minor version needs other wheels."""
    return hashlib.sha256(lock.read_bytes() + str(sys.version_info[:2]).encode()).hexdigest()


def _make_venv() -> None:
    try:
        venv.EnvBuilder(with_pip=True, clear=True, symlinks=os.name != "nt").create(VENV)
    except (subprocess.CalledProcessError, OSError) as error:
        raise StepError(
            f"Python could not make a virtual environment ({error}).\n"
            "On Debian and Ubuntu: apt-get install python3-venv; then run this again."
        ) from error


def _install(lock: Path) -> None:
    wanted = [*(["--no-deps"] if lock is LLM else []), "--require-hashes", "-r", str(lock)]
    uv = _find_uv()
    if uv:
        if _run([uv, "pip", "install", "--quiet", "--python", str(PYTHON), *wanted]) == 0:
            return
        print("  uv could not; trying pip", flush=True)
    command = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    if _run([*command, *wanted]) != 0:
        raise StepError("The packages could not be installed; the lines above say why. Is the package index reachable?")


def _find_uv() -> str | None:
    """Take the uv that is there, else install the locked one: 1.3 s that save twenty."""
    local = PYTHON.parent / "uv"
    if local.exists():
        return str(local)
    block = re.search(r"^uv==(?:.*\\\n)*.*", TEST.read_text(encoding="utf-8"), re.MULTILINE)
    if block is not None:
        with tempfile.TemporaryDirectory() as folder:
            requirement = Path(folder, "uv.txt")
            requirement.write_text(block.group() + "\n", encoding="utf-8")
            pip = [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:"]
            if _run([*pip, "--require-hashes", "-r", str(requirement)]) == 0 and local.exists():
                return str(local)
    return shutil.which("uv")


def _run(command: list[str]) -> int:
    """Run a command, saying every ten seconds that it is still at work; its output is shown when it fails."""
    started = time.monotonic()
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(command, stdout=output, stderr=output, cwd=ROOT) as process:
            while process.poll() is None:
                try:
                    process.wait(TICK_S)
                except subprocess.TimeoutExpired:
                    print(f"  still working, {time.monotonic() - started:.0f} s", flush=True)
        if process.returncode != 0:
            output.seek(0)
            print(output.read().decode(errors="replace")[-4000:], file=sys.stderr, flush=True)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
