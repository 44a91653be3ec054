"""One loopback provider for all tests of this folder; each test has a session of its own on it."""

from collections.abc import Iterator

import pytest

from tests.fakes.server import FakeProvider


@pytest.fixture(scope="session")
def server() -> Iterator[FakeProvider]:
    with FakeProvider() as provider:
        yield provider
