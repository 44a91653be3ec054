"""A 10,000-step, 50 MB trajectory opens, moves and is searched within its budget.

Run with `-m bench`. Times are CPU seconds of the server, so that a busy machine does not fail them.
"""

import gzip
import random
import time
from collections.abc import Iterator

import pytest
from django.test import Client

from auditapp.models.datasets import Role, Trajectory
from judges.records import Action, Observation, StepRecord
from tests.auditapp.population import add_trajectory
from tests.auditapp.reader_world import make_member, make_world

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

WORDS = ("test", "module", "fails", "because", "path", "index", "value", "error", "none", "list", "start", "file")


def _steps(*, seed: int, count: int) -> Iterator[StepRecord]:
    """Steps whose texts repeat no more than real ones do; about 4.7 kB each."""
    chance = random.Random(seed)
    for number in range(1, count + 1):
        output = "\n".join(
            f"output line {line} " + " ".join(chance.choices(WORDS, k=9)) for line in range(chance.randint(5, 145))
        )
        command = f"pytest -q tests/test_{chance.randint(1, 99_999)}.py " + " ".join(chance.choices(WORDS, k=7))
        yield StepRecord(
            str(number),
            "agent",
            " ".join(chance.choices(WORDS, k=chance.randint(5, 60))),
            actions=(Action("bash", {"command": command}, "c"),),
            observations=(Observation(output, "c", "explicit", int(chance.random() < 0.1)),),
            timestamp=f"2026-11-20T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z",
        )


@pytest.fixture
def long() -> Trajectory:
    return add_trajectory(make_world().task, "long", steps=list(_steps(seed=7, count=10_000)))


@pytest.fixture
def lead(long: Trajectory) -> Client:
    client = Client()
    client.force_login(make_member(long.version.dataset, Role.LEAD))
    return client


def _timed(client: Client, address: str) -> tuple[float, bytes]:
    started = time.process_time()
    response = client.get(address, headers={"Accept-Encoding": "gzip", "HX-Request": "true"})
    spent = time.process_time() - started
    assert response.status_code == 200
    return spent, response.content


def test_a_long_trajectory_stays_within_its_budget(lead: Client, long: Trajectory) -> None:
    base = f"/t/{long.public_id}/"
    lead.get("/healthz")  # the first request of a process loads the application
    opened, page = _timed(lead, base)
    again, _ = _timed(lead, base)
    late, _ = _timed(lead, f"{base}?step=9990&part=observation&item=1&lines=3#cite")
    chunk, _ = _timed(lead, f"{base}chunk/399/")
    rows, _ = _timed(lead, f"{base}chunk/39/?outline")
    searched, _ = _timed(lead, f"{base}search/?q=module+fails")
    rare, _ = _timed(lead, f"{base}search/?q=needle")
    print(f"\nopen {opened:.2f} s, again {again:.2f} s, at step 9,990 {late:.2f} s, chunk {chunk:.2f} s, ", end="")
    print(f"outline {rows:.2f} s, search {searched:.2f} s, of what is rare {rare:.2f} s; ", end="")
    print(f"page {len(page) / 1000:.0f} kB of {len(gzip.decompress(page)) / 1000:.0f} kB")
    assert opened < 1
    assert late < 1
    assert chunk < 0.3
    assert rows < 0.3
    assert searched < 1
    assert rare < 0.5
    assert len(page) < 100_000
