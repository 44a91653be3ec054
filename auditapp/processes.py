"""Child processes: started, watched, restarted and stopped together; none outlives its parent."""

import contextlib
import ctypes
import fcntl
import functools
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

Say = Callable[[str], None]

STEADY_S = 10  # a child that lived this long is not in a crash loop
LONGEST_PAUSE_S = 30
LOG_BYTES = 5_000_000

_PR_SET_PDEATHSIG = 1
# Loaded at import: between fork and exec only the plain system call may run.
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def die_with_parent(signum: signal.Signals = signal.SIGTERM) -> None:
    """Ask the kernel to send `signum` to this process when the thread that forked it ends (Linux only).

    For use as `preexec_fn`; fork from the main thread, because it is the thread's end that counts.
    """
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signum))


@contextlib.contextmanager
def held_folder(parent: Path) -> Iterator[Path]:
    """A new folder that goes when the block ends, or, where its process is killed, when another is made beside it."""
    parent.mkdir(mode=0o700, exist_ok=True)
    with contextlib.ExitStack() as stack:
        with _lock(parent):
            _drop_abandoned(parent)
            folder = stack.enter_context(tempfile.TemporaryDirectory(dir=parent, ignore_cleanup_errors=True))
            stack.enter_context(_lock(Path(folder)))
        yield Path(folder)


def drop_abandoned(parent: Path) -> None:
    """Remove the folders that `held_folder` made and whose process is gone; those of running ones stay."""
    if parent.is_dir():
        with _lock(parent):
            _drop_abandoned(parent)


def _drop_abandoned(parent: Path) -> None:
    for folder in parent.iterdir():
        with contextlib.suppress(OSError), _lock(folder, fcntl.LOCK_NB):
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _lock(folder: Path, how: int = 0) -> Iterator[None]:
    """Hold a folder; the kernel frees it when the process ends, however it ends."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | how)
        yield
    finally:
        os.close(held)


class DidNotStart(Exception):
    """A child ended, or could not be used, before it was ready; the text ends with the last of its log."""


class Interrupted(Exception):
    """A stop was asked for while a child was starting."""


class NotYet(Exception):
    """A child cannot be restarted at this moment; it is tried again."""


@dataclass(slots=True, kw_only=True)
class Child:
    """A process to keep running, and what has happened to it.

    `ready` says when it can be used. `before` runs before each start and returns a remark or an empty text.
    `once` is for a job that is not started again; its output goes to the terminal.
    """

    name: str
    command: Sequence[str]
    pass_fds: Sequence[int] = ()
    when_orphaned: signal.Signals = signal.SIGTERM
    ready: Callable[[], bool] = lambda: True
    before: Callable[[], str] = lambda: ""
    once: bool = False
    process: "subprocess.Popen[bytes] | None" = None
    started: float = 0.0
    quick_deaths: int = 0
    due: float | None = None

    def alive(self) -> bool:
        """Tell whether the process runs."""
        return self.process is not None and self.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Signal the process; SIGKILL goes to its whole session, which may have outlived it."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            if number is signal.SIGKILL:
                os.killpg(self.process.pid, number)
            elif self.alive():
                self.process.send_signal(number)


class StopRequest:
    """Counts the signals that ask for the end, and sleeps until one comes or a child dies."""

    def __init__(self) -> None:
        self.count = 0
        self._read = -1

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals inside the block; SIGCHLD only wakes us, and a SIGHUP that nohup ignores stays so."""
        self._read, write = os.pipe()
        os.set_blocking(write, False)
        previous = {number: signal.getsignal(number) for number in (*_ENDINGS, signal.SIGCHLD)}
        for number, handler in previous.items():
            if number is not signal.SIGHUP or handler is not signal.SIG_IGN:
                signal.signal(number, self._note)
        wakeup = signal.set_wakeup_fd(write)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in previous.items():
                signal.signal(number, handler)
            os.close(self._read)
            os.close(write)

    def wait(self, timeout: float) -> bool:
        """Sleep until a signal or for `timeout` seconds; tell whether to stop."""
        if not self.count and select.select([self._read], [], [], timeout)[0]:
            os.read(self._read, 4096)
        return self.count > 0

    def _note(self, number: int, _frame: object) -> None:
        self.count += number != signal.SIGCHLD


class Family:
    """The children in the order of their start; the first ones serve the later ones and are stopped last."""

    def __init__(
        self, *, folder: Path, environment: Mapping[str, str], logs: Path, scratch: Path, say: Say, stop: StopRequest
    ) -> None:
        self.stop_request = stop
        self.folder = folder
        self.environment = environment
        self.logs = logs
        self.scratch = scratch
        self.say = say
        self.children: list[Child] = []

    def start(self, child: Child, *, within_s: float = 60) -> None:
        """Start a child and wait until it is ready; raise DidNotStart or Interrupted otherwise."""
        child.before()
        self.children.append(child)
        self._spawn(child)
        end = time.monotonic() + within_s
        while not child.ready():
            if self.stop_request.count:
                raise Interrupted
            if not child.alive() or time.monotonic() > end:
                tail = self._log_path(child).read_text(errors="replace")[-2000:]
                raise DidNotStart(f"The {child.name} process did not start. The end of its log:\n{tail}")
            time.sleep(0.03)

    def watch(self) -> None:
        """Restart what dies, until a stop is asked for."""
        while not self.stop_request.wait(self._pause()):
            for child in self.children:
                self._look_after(child)

    def stop(self, *, patience_s: float) -> None:
        """End all children: the first one, which the others use, after them. A second request ends the patience."""
        for group in (self.children[1:], self.children):
            for child in reversed(group):
                child.signal(signal.SIGTERM)
            end = time.monotonic() + patience_s
            while any(child.alive() for child in group) and time.monotonic() < end and self.stop_request.count < 2:
                time.sleep(0.02)
            for child in group:
                child.signal(signal.SIGKILL)
                if child.process is not None:
                    child.process.wait()

    def _look_after(self, child: Child) -> None:
        if child.process is not None and not child.alive():
            self._note_death(child, child.process.returncode)
        if child.due is not None and time.monotonic() >= child.due:
            self._restart(child)

    def _note_death(self, child: Child, code: int) -> None:
        child.signal(signal.SIGKILL)  # what is left of its own children
        child.process = None
        cause = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        if child.once:
            if code:
                self.say(f"`{' '.join(child.command[1:])}` failed ({cause}); the rest goes on.")
            return
        child.quick_deaths = 0 if time.monotonic() - child.started > STEADY_S else child.quick_deaths + 1
        pause = min(2.0**child.quick_deaths - 1, LONGEST_PAUSE_S)
        child.due = time.monotonic() + pause
        self.say(
            f"{child.name} ended unexpectedly ({cause}), starts again in {pause:.0f} s; see {self._log_path(child)}"
        )

    def _restart(self, child: Child) -> None:
        try:
            remark = child.before()
        except NotYet:
            child.due = time.monotonic() + 1
            return
        self._spawn(child)
        self.say(f"{child.name} runs again" + (f"; {remark}" if remark else ""))

    def _spawn(self, child: Child) -> None:
        child.due = None
        child.started = time.monotonic()
        with contextlib.ExitStack() as stack:
            log = None if child.once else stack.enter_context(_open_log(self._log_path(child)))
            child.process = subprocess.Popen(
                child.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**self.environment, "ASSAY_WORKER": child.name, "TMPDIR": str(self._scratch_of(child))},
                pass_fds=child.pass_fds,
                start_new_session=True,  # away from the terminal's Ctrl-C: the order of ending is ours to give
                preexec_fn=functools.partial(die_with_parent, child.when_orphaned),
            )

    def _scratch_of(self, child: Child) -> Path:
        """An empty folder for temporary files: those of the one before, which may have been killed, are gone."""
        folder = self.scratch / child.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def _pause(self) -> float:
        """Seconds until a restart is due; a death wakes us by SIGCHLD."""
        due = [child.due for child in self.children if child.due is not None]
        return max(0.0, min(due) - time.monotonic()) if due else 60.0

    def _log_path(self, child: Child) -> Path:
        return self.logs / f"{child.name}.log"


def _open_log(path: Path) -> IO[bytes]:
    """Open a log for appending; one that has grown large becomes the .1 file."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if path.exists() and path.stat().st_size > LOG_BYTES:
        path.replace(path.with_suffix(".log.1"))
    return path.open("ab")
