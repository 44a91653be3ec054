"""Messages go out after the commit, one for each judgment, and again only where none is left."""

import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from kombu.exceptions import OperationalError

from auditapp import ingest, judging, tasks
from auditapp.ledger import claim, worker_name
from auditapp.models.exchanges import Exchange
from auditapp.models.judgments import Execution, JudgeRun, Judgment
from auditapp.models.sources import ImportBatch
from judges.errors import HandBack
from judges.messages import TurnRequest
from judges.providers.scripted import ScriptedProvider, Turn
from tests.auditapp.looks import answer, make_run, make_world
from tests.auditapp.population import make_version

__all__ = ["answer"]
pytestmark = pytest.mark.django_db(transaction=True)


class Broker:
    """The queues as they are in the broker."""

    def __init__(self) -> None:
        self.client = redis.from_url(settings.REDIS_URL)

    def messages(self, queue: str) -> list[dict[str, Any]]:
        """Oldest first."""
        return [orjson.loads(raw) for raw in reversed(self.client.lrange(queue, 0, -1))]

    def rung(self) -> list[int]:
        """The judgments that workers were told of."""
        return [int(message["headers"]["argsrepr"].strip("(,)")) for message in self.messages("judge")]


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    broker.client.flushdb()
    yield broker
    broker.client.flushdb()


def test_a_broker_that_is_away_fails_no_page(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def away(*_: object, **__: object) -> None:
        raise OperationalError("no such socket")

    for task in (tasks.start_run, tasks.import_batch, tasks.compute_estimate, tasks.draft_rubric, tasks.judge_outside):
        monkeypatch.setattr(task, "delay", away)
    monkeypatch.setattr(tasks, "ring", away)
    run = make_run(make_world(1))
    version = run.sample.frame.version
    tasks.enqueue_run(run)
    tasks.enqueue_judgments([1])
    tasks.enqueue_import(ImportBatch(pk=1))
    tasks.enqueue_exchange(Exchange(pk=1))
    tasks.enqueue_estimate(version, None, None)
    assert caplog.text.count("no such socket") >= 5


def test_a_run_is_rung_for_after_the_commit(broker: Broker) -> None:
    run = make_run(make_world(3))
    with transaction.atomic():
        tasks.enqueue_run(run)
        assert broker.messages("control") == []
    assert [message["headers"]["task"] for message in broker.messages("control")] == ["auditapp.tasks.start_run"]
    tasks.start_run(run.pk)
    assert broker.rung() == judging.queued_ids(run)


def test_nothing_is_sent_where_the_transaction_fails(broker: Broker) -> None:
    run = make_run(make_world(1))
    with pytest.raises(RuntimeError), transaction.atomic():
        tasks.enqueue_judgments(judging.queued_ids(run))
        raise RuntimeError
    assert broker.rung() == []


def test_an_import_is_sent_after_the_commit(broker: Broker) -> None:
    batch = ImportBatch.objects.create(version=make_version(), label="x")
    with transaction.atomic():
        tasks.enqueue_import(batch)
        assert broker.messages("cpu") == []
    assert len(broker.messages("cpu")) == 1


def test_a_judgment_handed_back_is_rung_for_after_its_wait(
    broker: Broker, answer: Callable[..., ScriptedProvider]
) -> None:
    def wait(_request: TurnRequest) -> Turn:
        raise HandBack(300)

    answer([wait])
    make_run(make_world(1))
    judgment = Judgment.objects.get().pk
    tasks.judge_trajectory(judgment)
    (message,) = broker.messages("judge")
    due = datetime.fromisoformat(message["headers"]["eta"])
    assert timedelta(seconds=290) < due - timezone.now() <= timedelta(seconds=300)
    assert broker.rung() == [judgment]
    broker.client.flushdb()  # as when a worker holds the message until it is due
    tasks.reconcile()
    assert broker.rung() == []


def test_the_clock_rings_for_everything_only_when_the_broker_forgot(broker: Broker) -> None:
    run = make_run(make_world(3))
    ids = judging.queued_ids(run)
    tasks.reconcile()
    assert broker.rung() == ids
    tasks.reconcile()
    assert broker.rung() == ids


def test_the_clock_rings_for_what_a_lost_worker_held(broker: Broker) -> None:
    run = make_run(make_world(3))
    ids = judging.queued_ids(run)
    tasks.ring(ids)
    claim(ids[1], worker="elsewhere", now=timezone.now() - timedelta(minutes=10))
    tasks.reconcile()
    assert broker.rung() == [*ids, ids[1]]


def test_doubled_messages_judge_once(answer: Callable[..., ScriptedProvider]) -> None:
    provider = answer()
    make_run(make_world(1))
    for _ in range(3):
        tasks.judge_trajectory(Judgment.objects.get().pk)
    assert len(provider.requests) == 3
    assert Judgment.objects.get().state == "completed"


class TestTurns:
    """Runs take turns: one that stands first in the queue, and is long, does not keep the others waiting."""

    @pytest.fixture
    def runs(self, broker: Broker) -> tuple[JudgeRun, JudgeRun]:
        long, short = make_run(make_world(12, name="long")), make_run(make_world(3, name="short"))
        tasks.ring([*judging.queued_ids(long), *judging.queued_ids(short)])
        return long, short

    def work(self, broker: Broker, number: int | None = None) -> int:
        """Serve so many messages of the queue, or all, as one worker of one thread; returns how many it were."""
        served = 0
        while (number is None or served < number) and (rung := broker.rung()):
            broker.client.rpop("judge")
            tasks.judge_trajectory(rung[0])
            served += 1
        return served

    def test_a_short_run_ends_long_before_the_long_one_ahead_of_it(
        self, broker: Broker, runs: tuple[JudgeRun, JudgeRun], answer: Callable[..., ScriptedProvider]
    ) -> None:
        answer()
        while not JudgeRun.objects.filter(pk=runs[1].pk, state="done").exists():
            assert self.work(broker, 1) == 1
        assert judging.progress(runs[0])["queued"] > 0

    def test_every_judgment_is_judged_once_and_no_message_is_left(
        self, broker: Broker, runs: tuple[JudgeRun, JudgeRun], answer: Callable[..., ScriptedProvider]
    ) -> None:
        answer()
        assert self.work(broker) <= 15 + 2 * 12
        assert set(JudgeRun.objects.values_list("state", flat=True)) == {"done"}
        assert Execution.objects.count() == 15

    def test_the_next_is_of_the_run_of_which_the_fewest_are_judged(self, runs: tuple[JudgeRun, JudgeRun]) -> None:
        long, short = (judging.queued_ids(run) for run in runs)
        now = timezone.now()
        for judgment_id in long[:2]:
            assert claim(judgment_id, worker="elsewhere", now=now)
        assert {judging.next_turn(long[2], now=now.replace(microsecond=lot)) for lot in range(6)} == set(short)
        assert judging.next_turn(short[1], now=now) == short[1]
        for judgment_id in short:
            assert claim(judgment_id, worker="elsewhere", now=now)
        assert judging.next_turn(long[2], now=now) == long[2]

    @pytest.mark.parametrize("state", ["paused", "cancelled"])
    def test_what_is_not_to_be_judged_has_no_turn(self, runs: tuple[JudgeRun, JudgeRun], state: str) -> None:
        make_run(make_world(1, name="third"))
        ids, now = judging.queued_ids(runs[0]), timezone.now()
        claim(ids[0], worker="elsewhere", now=now)
        JudgeRun.objects.exclude(pk=runs[0].pk).update(state=state)
        assert {judging.next_turn(ids[1], now=now.replace(microsecond=lot)) for lot in range(6)} == {ids[1]}

    def test_the_rows_are_asked_once_where_there_is_one_run(
        self, broker: Broker, django_assert_num_queries: Callable[[int], Any]
    ) -> None:
        (judgment_id,) = judging.queued_ids(make_run(make_world(1)))
        with django_assert_num_queries(1):
            assert judging.next_turn(judgment_id, now=timezone.now()) == judgment_id


def batch_of(broker: Broker) -> list[int]:
    return [int(message["headers"]["argsrepr"].strip("(,)")) for message in broker.messages("cpu")]


def test_an_import_that_the_queue_lost_is_rung_for_once(broker: Broker) -> None:
    batch = ImportBatch.objects.create(version=make_version(), label="x")
    tasks.reconcile()
    tasks.reconcile()
    assert batch_of(broker) == [batch.pk]


@pytest.mark.parametrize(
    ("worker", "silent_for", "rung"),
    [
        ("elsewhere:[pid:1]:7", timedelta(minutes=6), True),
        ("elsewhere:[pid:1]:7", timedelta(minutes=4), False),
        ("dead", timedelta(seconds=1), True),
        ("alive", timedelta(hours=1), False),
    ],
)
def test_an_import_is_taken_up_again_where_nobody_works_at_it(
    broker: Broker, worker: str, silent_for: timedelta, rung: bool
) -> None:
    place = worker_name().rpartition(":")[0]
    names = {"alive": worker_name(), "dead": f"{place}:{2**22 + 1}"}
    batch = ImportBatch.objects.create(
        version=make_version(),
        label="x",
        state="running",
        worker=names.get(worker, worker),
        heartbeat_at=timezone.now() - silent_for,
    )
    tasks.reconcile()
    assert batch_of(broker) == ([batch.pk] if rung else [])


def test_an_import_of_a_command_that_ended_is_failed_with_what_to_do(broker: Broker) -> None:
    batch = ImportBatch.objects.create(
        version=make_version(),
        label="x",
        state="running",
        worker="elsewhere:[pid:1]:7",
        options={"path": "/x", "by_command": True},
        heartbeat_at=timezone.now() - timedelta(minutes=6),
    )
    tasks.reconcile()
    batch.refresh_from_db()
    assert (batch.state, batch_of(broker)) == ("failed", [])
    assert "again" in batch.reason


def test_doubled_messages_import_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    monkeypatch.setattr(ingest, "run_batch", lambda batch, *_, **__: seen.append(batch.pk))
    batch = ImportBatch.objects.create(version=make_version(), label="x", options={"path": str(tmp_path)})
    for _ in range(3):
        tasks.import_batch(batch.pk)
    assert seen == [batch.pk]


def test_messages_are_not_logged_one_by_one() -> None:
    assert logging.getLogger("django_structlog.celery.receivers").getEffectiveLevel() == logging.WARNING
