"""The script that runs what CI runs: Ctrl-C ends it and what it started, with a word and without a traceback."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.platform.conftest import ROOT, wait_until


def test_ctrl_c_ends_the_checks_without_a_traceback(tmp_path: Path) -> None:
    """Pressed while a step is at work, whose place a process takes that says when it is."""
    slow, at_work = tmp_path / "slow.py", tmp_path / "at_work"
    waits = f"import pathlib, time; pathlib.Path({str(at_work)!r}).touch(); time.sleep(60)"
    slow.write_text(
        "import runpy, subprocess, sys\n"
        "real = subprocess.Popen\n"
        f"waits = [sys.executable, '-c', {waits!r}]\n"
        "subprocess.Popen = lambda command, **given: real(waits, **given)\n"
        "sys.argv = ['check.py', '--lint']\n"
        "runpy.run_path('scripts/check.py', run_name='__main__')\n"
    )
    with subprocess.Popen(
        [sys.executable, str(slow)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # what runs in the background ignores it
    ) as checks:
        try:
            wait_until(at_work.exists, "a step at work", within_s=60)
            os.killpg(checks.pid, signal.SIGINT)
            _, said = checks.communicate(timeout=30)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(checks.pid, signal.SIGKILL)
    assert checks.returncode == 130
    assert "Stopped by Ctrl-C" in said
    assert "Traceback" not in said
