"""What the oracles of the tasks share: looking at a final work tree by running its code or reading its files."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def evaluate(work: Path, code: str) -> Any:
    """Value of the last line that the code prints, as JSON, or None when it fails."""
    argv = [sys.executable, "-c", "import json, sys\nsys.path.insert(0, '.')\nsys.dont_write_bytecode = True\n" + code]
    with tempfile.TemporaryDirectory() as folder:  # what the code puts aside goes with it
        done = subprocess.run(
            argv,
            cwd=work,
            env={**os.environ, "TMPDIR": folder},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    if done.returncode or not done.stdout.strip():
        return None
    return json.loads(done.stdout.strip().splitlines()[-1])


def read_json(path: Path) -> Any:
    """Content of a JSON file, or None when it is absent or broken."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def read_text(path: Path) -> str:
    """Content of a text file, or nothing when it is absent."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def near(found: Any, expected: float, tolerance: float = 0.005) -> bool:
    """A number within the tolerance; a numeric string does not count as one."""
    return isinstance(found, int | float) and not isinstance(found, bool) and abs(found - expected) <= tolerance
