"""Celery tasks, and the only place that enqueues. A lost or doubled message changes nothing: the rows are the truth."""

from collections.abc import Iterable, Sequence
from functools import partial

from celery import shared_task
from django.db import transaction
from django.utils import timezone

from auditapp import ingest, judging
from auditapp.celery import app
from auditapp.models.judgments import JudgeRun
from auditapp.models.sources import ImportBatch


@shared_task
def judge_trajectory(judgment_id: int) -> None:
    """Judge one queued judgment; one that was given back is rung for again after its wait."""
    wait = judging.execute_judgment(judgment_id)
    if wait is not None:
        judge_trajectory.apply_async((judgment_id,), countdown=wait)


@shared_task
def start_run(run_id: int) -> None:
    """Ring for all that waits in a run: thousands of messages, which no page should wait for."""
    ring(judging.queued_ids(JudgeRun.objects.get(pk=run_id)))


@shared_task
def import_batch(batch_id: int) -> None:
    """Carry out a queued import."""
    ingest.run_import(batch_id)


@shared_task
def reconcile() -> None:
    """Take back what dead workers held; where the broker has no messages left, ring for all that waits."""
    lost = judging.reconcile(now=timezone.now())
    ring(judging.queued_ids() if broker_is_empty() else lost)


def enqueue_run(run: JudgeRun) -> None:
    """Have workers begin or go on with a run, once the transaction is committed."""
    start_run.delay_on_commit(run.pk)


def enqueue_judgments(judgment_ids: Sequence[int]) -> None:
    """Have workers judge these, once the transaction is committed."""
    transaction.on_commit(partial(ring, judgment_ids))


def enqueue_import(batch: ImportBatch) -> None:
    """Have a worker carry out an import, once the transaction is committed."""
    import_batch.delay_on_commit(batch.pk)


def ring(judgment_ids: Iterable[int]) -> None:
    """One message for each judgment, over one connection."""
    with app.producer_or_acquire() as producer:
        for judgment_id in judgment_ids:
            judge_trajectory.apply_async((judgment_id,), producer=producer)


def broker_is_empty() -> bool:
    """Whether no message of the judge's queue waits for a worker."""
    with app.connection_for_read() as connection:
        waiting: int = connection.default_channel.queue_declare("judge").message_count
    return waiting == 0
