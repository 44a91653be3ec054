"""A product that runs in its own process, data folder and port."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_EMBEDDED = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "DJANGO_ALLOW_ASYNC_UNSAFE")


def wait_until(condition: Callable[[], object], what: str, *, within_s: float = 180) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, f"{what} did not happen within {within_s} s"
        time.sleep(0.05)


class Product:
    """`manage.py serve` as a user starts it, with nothing set but the data folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.environment = {name: value for name, value in os.environ.items() if name not in _EMBEDDED} | {
            "ASSAY_HOME": str(home),
            "DJANGO_SETTINGS_MODULE": "tests.platform.settings",
            "LOG_LEVEL": "INFO",
        }
        self.process: subprocess.Popen[bytes] | None = None
        self.output = home.parent / "output"

    def start(self, command: Sequence[str] = ()) -> "Product":
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                command or self.serve(), cwd=ROOT, env=self.environment, stdout=output, stderr=output
            )
        wait_until(lambda: self.is_up() and f"Assay is at http://127.0.0.1:{self.port}" in self.said(), "first page")
        return self

    def serve(self) -> list[str]:
        return [sys.executable, "manage.py", "serve", "--port", str(self.port)]

    def run(self, *command: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command, check=False, cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=120
        )

    def enqueue(self, task: str, *names: str) -> None:
        calls = "; ".join(f"tasks.{task}.delay({name!r})" for name in names)
        done = self.run(
            sys.executable, "-c", f"import django; django.setup(); from tests.platform import tasks; {calls}"
        )
        assert done.returncode == 0, done.stderr

    def is_up(self) -> bool:
        try:
            return bool(urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=5).status == 200)
        except OSError:
            return False

    def said(self) -> str:
        return self.output.read_text() if self.output.exists() else ""

    def lines(self, name: str) -> list[str]:
        path = self.home / name
        return sorted(path.read_text().split()) if path.exists() else []

    def pids(self, containing: str = "") -> list[int]:
        """The processes that were given our data folder or stand in it, narrowed by their command line.

        The broker overwrites its environment with its title, so it is known by its working folder.
        """
        mine = f"ASSAY_HOME={self.home}\0".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                ours = mine in (folder / "environ").read_bytes() or (folder / "cwd").readlink().is_relative_to(
                    self.home
                )
                if ours and command and containing in command:
                    found.append(int(folder.name))
            except OSError:
                continue
        return sorted(found)

    def kill(self, containing: str) -> None:
        """kill -9 the oldest process with this in its command line."""
        os.kill(self.pids(containing)[0], signal.SIGKILL)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(30)


@pytest.fixture
def product() -> Iterator[Product]:
    folder = Path(tempfile.mkdtemp(prefix="assay-", dir="/tmp"))
    home = folder / "home"
    home.mkdir()
    product = Product(home)
    yield product
    for pid in product.pids():
        os.kill(pid, signal.SIGKILL)
    if product.process is not None:
        product.process.wait(10)
    shutil.rmtree(folder, ignore_errors=True)
