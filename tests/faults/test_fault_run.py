"""A whole run through a provider that fails now and then, with a worker killed twice: nothing lost, doubled or unpaid.

ASSAY_FAULT_RUN=300 makes the run of full size.
"""

import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Sum

from auditapp import judging, tasks
from auditapp.ledger import micros
from auditapp.models.judgments import Execution, JudgeRun, Judgment, ProviderCall
from judges.config import JudgeConfig
from tests.auditapp.looks import GOOD, make_run, make_world
from tests.fakes.server import FakeProvider, Session
from tests.fakes.steps import Step, call, disconnect, error, rate_limited
from tests.faults.test_kill_worker import broker, database_url
from tests.platform.conftest import ROOT, wait_until

__all__ = ["broker"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
JUDGMENTS = int(os.environ.get("ASSAY_FAULT_RUN", "40"))
THREADS, LATENCY_S, BUDGET = 8, 0.1, Decimal(40)
RATE_LIMITED, OVERLOADED, DISCONNECTED = 0.05, 0.02, 0.01
PRICES = '[[price]]\nmodel = "fake-judge"\ninput = 1.0\noutput = 5.0\ncache_read = 0.1\ncache_write = 1.25\n'


class Weather:
    """What the provider answers: the next turn of a good judge, or a fault by a seeded chance."""

    def __init__(self, seed: int) -> None:
        self.chance, self.lock = random.Random(seed), threading.Lock()
        self.met: Counter[str] = Counter()

    def __call__(self, body: Any) -> Step:
        with self.lock:
            drawn = self.chance.random()
        kind, step = self._fault(drawn)
        if step is None:
            turn = sum(message["role"] == "assistant" for message in body["messages"])
            kind, step = "answered", call(*GOOD[turn].calls)
        with self.lock:
            self.met[kind] += 1
        return replace(step, hang_s=LATENCY_S)

    def _fault(self, drawn: float) -> tuple[str, Step | None]:
        if drawn < RATE_LIMITED:
            return "429", rate_limited(0.2)
        if drawn < RATE_LIMITED + OVERLOADED:
            return "529", error(529, "overloaded", error_type="overloaded_error")
        if drawn < RATE_LIMITED + OVERLOADED + DISCONNECTED:
            return "disconnected", disconnect()
        return "", None


@contextmanager
def worker(folder: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """A real worker, as it is started in production; killed when the block ends."""
    options = ["-Q", "judge", "-P", "threads", "-c", str(THREADS), "--without-gossip", "--without-mingle"]
    environment = os.environ | {
        "DATABASE_URL": database_url(),
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "ASSAY_PRICES": str(folder / "prices.toml"),
    }
    with (folder / "log").open("ab") as log:
        command = [sys.executable, "-m", "celery", "-A", "auditapp", "worker", *options]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def begin(session: Session) -> JudgeRun:
    config = JudgeConfig(
        name="faulty provider",
        provider="anthropic",
        model="fake-judge",
        base_url=session.url("anthropic"),
        sandbox="none",
        max_output_tokens=2_000,
    )
    world = make_world(JUDGMENTS // 4, tasks=4)
    return make_run(world, config=judging.ensure_config(config, by=None), budget_usd=BUDGET)


def kill_when(folder: Path, run: JudgeRun, *, finished: int) -> None:
    """Let a worker finish so many judgments, and kill it while calls are in flight."""
    in_flight = ProviderCall.objects.filter(state="reserved", execution__state="running")
    ended = run.judgments.filter(state__in=["completed", "failed"])
    with worker(folder):
        wait_until(lambda: ended.count() >= finished and in_flight.count() >= THREADS // 2, f"{finished} judgments")


def run_to_the_end(folder: Path, run: JudgeRun) -> None:
    def is_done() -> bool:
        tasks.reconcile()
        time.sleep(1)
        return JudgeRun.objects.get(pk=run.pk).state == "done"

    with worker(folder):
        wait_until(is_done, "the end of the run", within_s=60 + 2 * JUDGMENTS)


@pytest.mark.usefixtures("broker")
def test_every_judgment_ends_once_and_the_books_balance(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text(PRICES)
    weather = Weather(seed=11)
    with FakeProvider() as server:
        run = begin(server.session(weather, repeat=True))
        tasks.ring(judging.queued_ids(run))
        for share in (4, 2):
            kill_when(tmp_path, run, finished=run.planned // share)
            tasks.reconcile()
        run_to_the_end(tmp_path, run)
    run.refresh_from_db()
    print(f"\n{JUDGMENTS} judgments: {judging.progress(run)}, provider {dict(weather.met)}, spent {run.spent_usd}")

    assert_all_ended(run)
    assert_books_balance(run)
    assert Execution.objects.filter(state="lost").count() >= THREADS  # both kills hit something
    if JUDGMENTS >= 300:
        assert min(weather.met.values()) > 0
        assert len(weather.met) == 4


def assert_all_ended(run: JudgeRun) -> None:
    """A label or a stated reason for each, and nothing twice."""
    assert run.judgments.count() == run.planned == JUDGMENTS
    for judgment in run.judgments.all():
        assert judgment.state == "completed" or (judgment.state == "failed" and judgment.reason)
        assert judgment.executions.filter(state="finished").count() == 1
    labels = run.judgments.filter(state="completed")
    assert labels.count() >= 0.97 * JUDGMENTS
    for judgment in labels:
        assert (judgment.decision, judgment.criteria.count(), judgment.citations.count()) == ("satisfied", 1, 1)
        settled = ProviderCall.objects.filter(execution__judgment=judgment, state="settled", cost_usd__isnull=False)
        turns = sorted(settled.values_list("turn", flat=True))
        assert turns in ([1, 2, 3], [1, 2]), "an answered call was replayed, not paid for again"


def assert_books_balance(run: JudgeRun) -> None:
    """What the run has spent is the sum of its calls; what is still reserved are calls whose cost nobody knows."""
    calls = ProviderCall.objects.filter(execution__judgment__run=run)
    spent = calls.aggregate(total=Sum("cost_usd"))["total"]
    unknown = calls.filter(cost_usd=None).aggregate(total=Sum("reserved_usd"))["total"] or Decimal(0)
    assert run.spent_micros == micros(spent) > 0
    assert run.reserved_micros == micros(unknown)
    assert run.spent_usd + run.reserved_usd <= BUDGET
    for judgment in Judgment.objects.filter(run=run, cost_usd__isnull=False):
        own = calls.filter(execution__judgment=judgment).aggregate(total=Sum("cost_usd"))["total"]
        assert judgment.cost_usd == own
    tokens = calls.aggregate(input=Sum("input_tokens"), cached=Sum("cached_tokens"), output=Sum("output_tokens"))
    assert (run.input_tokens, run.cached_tokens, run.output_tokens) == tuple(tokens.values())
    assert run.unpriced_calls == 0
