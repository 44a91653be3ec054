"""One loopback provider for the whole suite; the files of the cases are material, not tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.server import FakeProvider

collect_ignore = ["cases"]
CANARY = "canary-value-6b1f"


@pytest.fixture(scope="session")
def server() -> Iterator[FakeProvider]:
    with FakeProvider() as provider:
        yield provider


@pytest.fixture(scope="session")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where cases that git cannot hold are built, once for all formats."""
    return tmp_path_factory.mktemp("attacks")


@pytest.fixture(autouse=True)
def _secret_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CANARY", CANARY)
