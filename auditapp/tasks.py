"""Celery tasks, and the only place that enqueues. A lost or doubled message changes nothing: the rows are the truth."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial

import redis
from celery import shared_task
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from auditapp import bundle, estimation, exchanges, ingest, judging
from auditapp.celery import app
from auditapp.estimation import Subject
from auditapp.models.datasets import DatasetVersion
from auditapp.models.exchanges import Exchange, ExchangeKind
from auditapp.models.judgments import JudgeConfig, JudgeRun
from auditapp.models.samples import Sample
from auditapp.models.sources import ImportBatch
from judges.limiter import Limiter, RedisLimiter


@shared_task
def judge_trajectory(judgment_id: int) -> None:
    """Judge the queued judgment whose turn it is; one that was given back is rung for again after its wait."""
    turn = judging.next_turn(judgment_id, now=timezone.now())
    if turn != judgment_id:  # before the look, which may take minutes
        judge_trajectory.delay(judgment_id)
    wait = judging.execute_judgment(turn, limiter=shared_limiter())
    if wait is not None:
        judge_trajectory.apply_async((turn,), countdown=wait)


@shared_task
def judge_outside(exchange_id: int) -> None:
    """Carry out a dry run or a probe."""
    exchanges.execute_exchange(exchange_id, limiter=shared_limiter())


@shared_task
def draft_rubric(exchange_id: int) -> None:
    """Draft the requirements of a task."""
    exchanges.execute_exchange(exchange_id, limiter=shared_limiter())


@shared_task
def start_run(run_id: int) -> None:
    """Ring for all that waits in a run: thousands of messages, which no page should wait for."""
    ring(judging.queued_ids(JudgeRun.objects.get(pk=run_id)))


@shared_task
def import_batch(batch_id: int) -> None:
    """Carry out a queued import."""
    ingest.run_import(batch_id)


@shared_task
def compute_estimate(version_id: int, config_id: int | None = None, sample_id: int | None = None) -> None:
    """Make stored figures anew, unless they hold."""
    estimation.renew_outdated(version_id, config_id, sample_id)


@shared_task
def make_bundle(version_id: int, config_id: int | None, sample_id: int) -> None:
    """Make a bundle for download, unless it lies ready or a row is gone."""
    version = DatasetVersion.objects.filter(pk=version_id).select_related("dataset").first()
    config = JudgeConfig.objects.filter(pk=config_id or 0).first()
    sample = Sample.objects.filter(pk=sample_id).select_related("frame").first()
    if version and sample and bool(config) == bool(config_id):
        bundle.keep_bundle(version, Subject(config, sample))


@shared_task
def reconcile() -> None:
    """Take back what dead workers held; where the broker has no messages left, ring for all that waits."""
    now = timezone.now()
    lost = judging.reconcile(now=now)
    exchanges.close_lost(now=now)
    ingest.forget_uploads(now=now)
    if is_empty("judge"):
        for exchange_id in exchanges.queued_exchange_ids():
            judge_outside.delay(exchange_id)
        lost = judging.queued_ids()
    ring(lost)
    if is_empty("cpu"):
        for batch_id in ingest.forgotten_imports(now=now):
            import_batch.delay(batch_id)
        for version_id in estimation.outdated(now=now):
            compute_estimate.delay(version_id)


def enqueue_run(run: JudgeRun) -> None:
    """Have workers begin or go on with a run, once the transaction is committed."""
    _send(partial(start_run.delay, run.pk))


def enqueue_judgments(judgment_ids: Sequence[int]) -> None:
    """Have workers judge these, once the transaction is committed."""
    _send(partial(ring, judgment_ids))


def enqueue_exchange(exchange: Exchange) -> None:
    """Have a worker carry out a dry run, a probe or a draft, once the transaction is committed."""
    task = draft_rubric if exchange.kind == ExchangeKind.DRAFT else judge_outside
    _send(partial(task.delay, exchange.pk))


def enqueue_import(batch: ImportBatch) -> None:
    """Have a worker carry out an import, once the transaction is committed."""
    _send(partial(import_batch.delay, batch.pk))


def enqueue_estimate(version: DatasetVersion, config: JudgeConfig | None, sample: Sample | None) -> None:
    """Have a worker make the figures of a version by one judge and draw, once the transaction is committed."""
    _send(partial(compute_estimate.delay, version.pk, config and config.pk, sample and sample.pk))


def enqueue_bundle(version: DatasetVersion, config: JudgeConfig | None, sample: Sample) -> None:
    """Have a worker make a bundle for download, once the transaction is committed."""
    _send(partial(make_bundle.delay, version.pk, config and config.pk, sample.pk))


def _send(message: Callable[[], object]) -> None:
    """Send once the transaction is committed. A broker that is away is logged and fails no page: what was asked for is
    in the rows, and `reconcile` rings for what waits."""

    def send() -> None:  # Django's log asks for a name, which a partial does not have
        message()

    transaction.on_commit(send, robust=True)


def ring(judgment_ids: Iterable[int]) -> None:
    """One message for each judgment, over one connection."""
    with app.producer_or_acquire() as producer:
        for judgment_id in judgment_ids:
            judge_trajectory.apply_async((judgment_id,), producer=producer)


def is_empty(queue: str) -> bool:
    """Whether no message of a queue waits for a worker."""
    with app.connection_for_read() as connection:
        waiting: int = connection.default_channel.queue_declare(queue).message_count
    return waiting == 0


@cache
def shared_limiter() -> Limiter:
    """The rate limits of all workers, kept where the queue is; while it is away, each process keeps them alone."""
    url = settings.REDIS_URL or f"unix://{settings.EMBEDDED_BROKER_SOCKET}"
    client = redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=2)
    return RedisLimiter(client, errors=(redis.RedisError,))
