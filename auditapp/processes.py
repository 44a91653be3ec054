"""Ties the life of a child process to its parent's."""

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1
# Loaded at import: between fork and exec only the plain system call may run.
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def die_with_parent(signum: signal.Signals = signal.SIGTERM) -> None:
    """Ask the kernel to send `signum` to this process when the thread that forked it ends (Linux only).

    For use as `preexec_fn`; fork from the main thread, because it is the thread's end that counts.
    """
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signum))
