"""Running one confined process tree: reads its output, watches time, memory and amount of output, kills all of it."""

import contextlib
import os
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from judges.sandbox import SandboxUnavailableError, WhyStopped

_POLL_S: Final = 0.05
_READ: Final = 65_536
_PATIENCE_S: Final = 5.0
# bwrap's own environment can be read from inside (/proc/1/environ), so it must hold nothing.
_EMPTY_ENVIRONMENT: Final = {"PATH": "/usr/bin:/bin"}


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process tree ended; `exit_code` is None where the sandbox never started the command or we stopped it."""

    exit_code: int | None
    output: bytes
    why_stopped: WhyStopped | None
    seconds: float


def watch(argv: Sequence[str], *, seconds: float, memory: int, output: int) -> Ended:
    """Run `argv`, in which "{status}" stands for the descriptor of bwrap's status, until it ends or breaks a limit."""
    started = time.monotonic()
    status, status_write = os.pipe()
    try:
        try:
            process = _start(argv, status_write)
        finally:
            os.close(status_write)
        collected = bytearray()
        try:
            why = _follow(process, collected, started + seconds, memory, output)
        finally:
            told = _end(process, status)
    finally:
        os.close(status)
    return Ended(told.get("exit-code"), bytes(collected[:output]), why, time.monotonic() - started)


def _start(argv: Sequence[str], status: int) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            [str(status) if part == "{status}" else part for part in argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=_EMPTY_ENVIRONMENT,
            pass_fds=[status],
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise SandboxUnavailableError(f"the sandbox could not start: {error}") from error


def _follow(
    process: "subprocess.Popen[bytes]", collected: bytearray, deadline: float, memory: int, output: int
) -> WhyStopped | None:
    """Collect output until the tree ends (None) or a limit is broken."""
    stream = process.stdout
    if stream is None:
        raise RuntimeError("the process has no output pipe")
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        checked = 0.0
        while (now := time.monotonic()) < deadline:
            if now - checked >= _POLL_S:
                checked = now
                if _resident(process.pid) > memory:
                    return "memory"
            if selector.select(min(_POLL_S, deadline - now)):
                chunk = os.read(stream.fileno(), _READ)
                collected += chunk
                if not chunk:
                    return _wait(process, deadline)
                if len(collected) > output:
                    return "output"
            elif process.poll() is not None:
                return None
    return "timeout"


def _wait(process: "subprocess.Popen[bytes]", deadline: float) -> WhyStopped | None:
    """All output is read; a process that closed its output may still run."""
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return "timeout"
    return None


def _end(process: "subprocess.Popen[bytes]", status: int) -> dict[str, int]:
    """Kill what still runs, wait until nothing does, and return what bwrap told of its child.

    The first process of the namespace goes first: with it the kernel kills all others in it, and bwrap can reap it.
    """
    os.set_blocking(status, False)
    told = _told(status)
    first = told.get("child-pid")
    if process.poll() is None and first:
        _signal(os.kill, first)
    try:
        process.wait(_PATIENCE_S if first else 0)
    except subprocess.TimeoutExpired:
        _signal(os.killpg, process.pid)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()
    if first:
        _wait_until_gone(first)
    return told | _told(status)


def _signal(send: Callable[[int, int], None], target: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        send(target, signal.SIGKILL)


def _told(status: int) -> dict[str, int]:
    """The lines written to the status descriptor so far: `child-pid` once it started, `exit-code` once it ended."""
    data = b""
    with contextlib.suppress(BlockingIOError):
        while chunk := os.read(status, _READ):
            data += chunk
    told: dict[str, int] = {}
    for line in data.splitlines():
        told |= orjson.loads(line)
    return told


def _wait_until_gone(pid: int) -> None:
    """Until the first process of a namespace is dead, which it is only after all others in it."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
        except (OSError, IndexError):
            return
        if state in (b"Z", b"X"):
            return
        time.sleep(0.005)


def _resident(pid: int) -> int:
    """Bytes of memory that the process and all its descendants hold."""
    page = resource.getpagesize()
    total = 0
    for member in _tree(pid):
        try:
            total += int(Path(f"/proc/{member}/statm").read_bytes().split()[1]) * page
        except (OSError, IndexError, ValueError):
            continue  # ended meanwhile
    return total


def _tree(pid: int) -> Iterator[int]:
    waiting = [pid]
    while waiting:
        member = waiting.pop()
        yield member
        for task in _tasks(member):
            try:
                waiting += map(int, Path(f"/proc/{member}/task/{task}/children").read_bytes().split())
            except OSError:
                continue


def _tasks(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
