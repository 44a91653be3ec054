"""Four reviewers grade over HTTP while what serves them is killed or away: no grade is lost, none is doubled."""

import http.client
import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connection
from psycopg import sql

from auditapp.models.reviews import Grade, ReviewRound, Slot
from tests.auditapp.looks import STEPS
from tests.auditapp.population import add_trajectory, make_task, make_version
from tests.auditapp.rounds import make_reviewers, make_round
from tests.faults.reviewer_client import Reviewer, next_address
from tests.faults.test_kill_worker import broker, database_url, worker
from tests.platform.conftest import ROOT, wait_until

__all__ = ["broker"]
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.slow,
    pytest.mark.usefixtures("broker"),
]
SLOTS = int(os.environ.get("ASSAY_REVIEW_SLOTS", "200"))
REVIEWERS, KILLS = 4, 3


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def web(port: int, folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Two processes of four threads, killed as a group."""
    environment = os.environ | {"DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "tests.settings"}
    environment.pop("DJANGO_ALLOW_ASYNC_UNSAFE", None)
    options = ["--bind", f"127.0.0.1:{port}", "-w", "2", "-k", "gthread", "--threads", "4", "--no-control-socket"]
    command = [sys.executable, "-m", "gunicorn", "auditapp.wsgi", *options]
    with (folder / "web").open("ab") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until(lambda: is_up(port), "the web server", within_s=60)
        yield process
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def is_up(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def grade_all(reviewer: Reviewer, opened: ReviewRound, stop: threading.Event) -> None:
    """Until the queue ends: take an item and answer it, with the same token however often it takes."""
    address, token = None, str(uuid.uuid4())
    while not stop.is_set():
        try:
            address = address or reviewer.claim(opened.public_id)
            if address is None:
                return
            following = next_address(reviewer.submit(address, token))
            address, token = following, str(uuid.uuid4())
        except (OSError, http.client.HTTPException):
            time.sleep(0.05)  # cut off: nobody knows whether it arrived


def begin() -> ReviewRound:
    version = make_version()
    tasks = [make_task(version, f"task {number}") for number in range(10)]
    made = [add_trajectory(tasks[k % 10], f"t{k}", steps=STEPS) for k in range(SLOTS // 2)]
    users = make_reviewers(version, *(f"reviewer-{k}" for k in range(REVIEWERS)))
    return make_round(made, users, copies=2)


@contextmanager
def grading(reviewers: Sequence[Reviewer], opened: ReviewRound) -> Iterator[Sequence[threading.Thread]]:
    """Have all grade while the block runs; gives a thread of each, which ends with the queue."""
    stop = threading.Event()
    threads = [threading.Thread(target=grade_all, args=(reviewer, opened, stop)) for reviewer in reviewers]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@contextmanager
def database_away() -> Iterator[None]:
    """End every connection to the database and take no new one, as while its server restarts."""
    values = connection.settings_dict
    name = sql.Identifier(values["NAME"])
    connection.close()
    with psycopg.connect(
        host=values["HOST"], user=values["USER"], password=values["PASSWORD"], dbname="postgres", autocommit=True
    ) as server:
        server.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [values["NAME"]])
        try:
            yield
        finally:
            server.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))


def wait_for_grades(number: int) -> None:
    wait_until(lambda: Grade.objects.count() >= number, f"{number} grades")


def test_no_grade_is_lost_or_doubled_when_web_and_worker_are_killed(tmp_path: Path) -> None:
    opened, port = begin(), free_port()
    reviewers = [Reviewer(user, port) for user in User.objects.filter(round_places__round=opened)]
    with grading(reviewers, opened) as threads:
        for kill in range(1, KILLS + 1):
            with web(port, tmp_path), worker(tmp_path):
                wait_for_grades(kill * SLOTS // (KILLS + 1))
        with web(port, tmp_path):
            wait_until(lambda: not any(thread.is_alive() for thread in threads), "the end of the queue")
    assert_each_graded_once(reviewers)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="a database in a file has no server that is away")
def test_while_the_database_is_away_pages_say_so_and_go_on_by_themselves_after(tmp_path: Path) -> None:
    opened, port = begin(), free_port()
    reviewers = [Reviewer(user, port) for user in User.objects.filter(round_places__round=opened)]
    with web(port, tmp_path), grading(reviewers, opened) as threads:
        for cut in range(1, KILLS + 1):
            wait_for_grades(cut * SLOTS // (KILLS + 1))
            with database_away():
                time.sleep(1)
        wait_until(lambda: not any(thread.is_alive() for thread in threads), "the end of the queue")
    assert_each_graded_once(reviewers)
    for reviewer in reviewers:
        assert len(reviewer.refused) >= KILLS
        assert all("The database does not answer" in page for page in reviewer.refused)


def assert_each_graded_once(reviewers: Sequence[Reviewer]) -> None:
    assert set(Slot.objects.values_list("state", flat=True)) == {"submitted"}
    assert Grade.objects.count() == SLOTS
    assert set(Grade.objects.values_list("number", "current")) == {(1, True)}
    per_item = Counter(Grade.objects.values_list("slot__item", "reviewer"))
    assert set(per_item.values()) == {1}
    answered = {address.split("/")[3] for reviewer in reviewers for address in reviewer.graded}
    assert answered == {str(found) for found in Slot.objects.values_list("public_id", flat=True)}
