"""Running a command over a recorded folder as if it were hostile: no network, no secrets, read-only inputs, limits.

Where that cannot be had, nothing is run: a refusal names the reason, and no command ever runs outside a sandbox.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Protocol, Self

from judges.records import FileTree

WhyStopped = Literal["timeout", "memory", "output"]
Skipped = Mapping[str, tuple[tuple[str, str], ...]]


class SandboxUnavailableError(Exception):
    """There is no sandbox to run in; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """One finished command. `exit_code` is None where it was stopped by us; output is standard output and error."""

    exit_code: int | None
    output: str
    why_stopped: WhyStopped | None
    seconds: float
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """Whether a sandbox really works here, found by running in it."""

    ok: bool
    kind: str
    reason: str = ""


class Session(Protocol):
    """One case laid out for commands: each tree read-only at /case/<name>. Every run starts in an empty work folder."""

    @property
    def skipped(self) -> Skipped:
        """Members of each tree that could not be laid out, with the reason."""
        ...

    def run(self, command: str | Sequence[str], *, timeout_s: float = 60.0, cwd: str = "") -> RunResult:
        """Run a shell line or an argument list; SandboxUnavailableError where the sandbox itself fails."""
        ...

    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Sandbox(Protocol):
    """A way to run commands."""

    @property
    def kind(self) -> str: ...

    def probe(self) -> ProbeResult:
        """Run in it for real and say whether it holds."""
        ...

    def session(self, trees: Mapping[str, FileTree]) -> Session:
        """Lay out the trees; SandboxUnavailableError where commands cannot be run."""
        ...


@dataclass(frozen=True, slots=True)
class NoSandbox:
    """Runs nothing, ever, and says why."""

    reason: str = "running commands is switched off in the judge's configuration"
    kind: str = "none"

    def probe(self) -> ProbeResult:
        """Never ok."""
        return ProbeResult(False, self.kind, self.reason)

    def session(self, trees: Mapping[str, FileTree]) -> Session:  # noqa: ARG002  (the interface)
        """Always refuses."""
        raise SandboxUnavailableError(self.reason)


def open_sandbox(kind: str) -> Sandbox:
    """The sandbox of a judge's configuration: "bwrap" or "none"."""
    if kind == "bwrap":
        from judges.sandbox.bwrap import BwrapSandbox  # noqa: PLC0415  (Linux only)

        return BwrapSandbox()
    if kind == "none":
        return NoSandbox()
    return NoSandbox(f"there is no sandbox of kind {kind!r} in this version: choose bwrap or none")
