"""The script that runs what CI runs: Ctrl-C ends it and what it started, with a word and without a traceback."""

import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
WAITS = "import time; print('begun', flush=True); time.sleep(60)"


def test_ctrl_c_ends_the_checks_without_a_traceback(tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import runpy, subprocess, sys\n"
        "real = subprocess.Popen\n"
        f"waits = [sys.executable, '-c', {WAITS!r}]\n"
        "def popen(command, **given):\n"
        "    print('begun', flush=True)\n"
        "    return real(waits, **given)\n"
        "subprocess.Popen = popen\n"
        "sys.argv = ['check.py', '--lint']\n"
        "runpy.run_path('scripts/check.py', run_name='__main__')\n"
    )
    with subprocess.Popen(
        [sys.executable, str(slow)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as checks:
        assert checks.stdout is not None
        while "begun" not in checks.stdout.readline():
            pass
        os.killpg(checks.pid, signal.SIGINT)
        _, said = checks.communicate(timeout=30)
    assert checks.returncode == 130
    assert "Stopped by Ctrl-C" in said
    assert "Traceback" not in said
