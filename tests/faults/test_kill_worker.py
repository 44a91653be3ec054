"""kill -9 of a real worker in the middle of judgments, twice: no label is lost or doubled, and all spend is counted."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from urllib.parse import quote

import pytest
import redis
from django.conf import settings
from django.db import connection

from auditapp import judging, tasks
from auditapp.models.judgments import Execution, JudgeRun, Judgment, ProviderCall
from tests.auditapp.looks import make_run, make_world
from tests.platform.conftest import ROOT, wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
JUDGMENTS, THREADS = 7, 3
PATIENCE_S = 120


def database_url() -> str:
    """The test database, for another process."""
    values = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{values['NAME']}"
    return f"postgres://{values['USER']}@{quote(values['HOST'], safe='')}/{values['NAME']}"


@contextmanager
def worker(folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    options = ["-Q", "judge", "-P", "threads", "-c", str(THREADS), "--without-gossip", "--without-mingle"]
    environment = os.environ | {
        "DATABASE_URL": database_url(),
        "ASSAY_TEST_GATE": str(folder),
        "DJANGO_SETTINGS_MODULE": "tests.settings",
    }
    with (folder / "log").open("ab") as log:
        command = [sys.executable, "-m", "celery", "-A", "tests.faults.slow_worker", "worker", *options]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def kill_in_mid_judgment(folder: Path) -> None:
    """Let a worker take as much as it can hold at once, and kill it while all of it waits for an answer."""
    with worker(folder):
        in_flight = ProviderCall.objects.filter(state="reserved", turn=2, execution__state="running")
        wait_until(lambda: in_flight.count() == THREADS, "all threads wait for the provider", within_s=PATIENCE_S)


def run_to_the_end(folder: Path, run: JudgeRun) -> None:
    """Let a worker go on while the clock rings, which finds also what a dead worker had fetched and not begun."""
    (folder / "go").touch()

    def is_done() -> bool:
        tasks.reconcile()
        time.sleep(1)
        return JudgeRun.objects.get(pk=run.pk).state == "done"

    with worker(folder):
        wait_until(is_done, "the end of the run", within_s=PATIENCE_S)


@pytest.fixture
def broker() -> Iterator[None]:
    broker = redis.from_url(settings.REDIS_URL)
    broker.flushdb()
    yield
    broker.flushdb()


@pytest.mark.usefixtures("broker")
def test_no_label_is_lost_or_doubled_and_all_spend_is_counted(tmp_path: Path) -> None:
    run = make_run(make_world(JUDGMENTS))
    tasks.ring(judging.queued_ids(run))
    for _ in range(2):
        kill_in_mid_judgment(tmp_path)
        tasks.reconcile()
    run_to_the_end(tmp_path, run)

    assert judging.progress(run)["completed"] == JUDGMENTS
    for judgment in Judgment.objects.all():
        assert_whole(judgment)
    assert Counter(Execution.objects.values_list("state", flat=True)) == {"lost": 2 * THREADS, "finished": JUDGMENTS}
    asked = (tmp_path / "calls").read_text().split()
    assert len(asked) == ProviderCall.objects.count() == 3 * JUDGMENTS + 2 * THREADS
    assert ProviderCall.objects.filter(state="reserved").count() == 2 * THREADS
    run.refresh_from_db()
    assert run.spent_micros == 3 * JUDGMENTS * 10_000
    assert run.reserved_micros == 2 * THREADS * 20_000


def assert_whole(judgment: Judgment) -> None:
    """One label with one set of evidence; a call that was answered was replayed, not paid for again."""
    assert (judgment.decision, judgment.criteria.count(), judgment.citations.count()) == ("satisfied", 1, 1)
    assert judgment.executions.filter(state="finished").count() == 1
    settled = judgment.executions.filter(calls__state="settled").values_list("calls__turn", flat=True)
    assert sorted(settled) == [1, 2, 3]
    a_call_was_lost = judgment.executions.filter(state="lost").exists()
    assert judgment.cost_usd == (None if a_call_was_lost else Decimal("0.03"))
