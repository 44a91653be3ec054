"""Judging: one config over one sample, planned as rows, judged one by one, never twice.

The rows are the truth and the broker is only a bell, so every function here may be repeated. None enqueues: those that
make work return the ids to ring for.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, NoReturn, TypeVar

import structlog
from django.contrib.auth.models import User
from django.db import DatabaseError, DataError, IntegrityError, transaction
from django.db.models import Count, Exists, OuterRef, QuerySet, Sum
from django.utils import timezone
from django.utils.crypto import salted_hmac

from auditapp import blobs
from auditapp.cases import build_case, rubric_in_force
from auditapp.configs import register
from auditapp.documents import documents
from auditapp.ledger import (
    BUDGET_REACHED,
    DISK_FULL,
    Clock,
    DatabaseLedger,
    claim,
    due,
    end_execution,
    heart,
    is_dead,
    log_run,
    pause,
    release,
    worker_name,
)
from auditapp.models.judgments import (
    Execution,
    ExecutionState,
    JudgeConfig,
    JudgeRun,
    Judgment,
    JudgmentState,
    RunState,
)
from auditapp.models.samples import Sample
from auditapp.results import store_result
from auditapp.stats.proportions import InsufficientData
from auditapp.stats.spend import Projection, projected_spend
from judges.agent import judge
from judges.config import JudgeConfig as Config
from judges.config import parse_config
from judges.errors import ConfigError, HandBack, JudgmentFailed, JudgmentStopped
from judges.limiter import Limiter, RateLimits
from judges.providers import open_provider
from judges.records import Json
from judges.sandbox import open_sandbox
from judges.verdict import JudgmentResult

CHUNK = 500
LEASE = timedelta(seconds=90)
LOST_EXECUTIONS = 5
TASKS_AHEAD = 32
NEXT = 8
GRACE_S = 600.0
BUDGET_LIMIT = 100_000_000
OPEN = (JudgmentState.QUEUED, JudgmentState.RUNNING)
LASTING = ("input_invalid",)
LIVE = (RunState.RUNNING, RunState.PAUSED)
_FRESH = {"state": JudgmentState.QUEUED, "not_before": None, "reason": "", "detail": "", "finished_at": None}
Item = TypeVar("Item")
log = structlog.get_logger(__name__)


class JudgingError(ValueError):
    """A run that cannot be had as asked; the message says why and what to do."""


# --- planning


def ensure_config(config: Config, *, by: User | None, source: str = "") -> JudgeConfig:
    """The row of a config, made when its digest is new; `source` is the text it was read from."""
    values = {
        "name": config.name,
        "provider": config.provider,
        "model": config.model,
        "source": source,
        "canonical": config.identity(),
        "created_by": by,
    }
    row = JudgeConfig.objects.get_or_create(digest=config.digest(), defaults=values)[0]
    rate = config.rate.model_dump(exclude_none=True) or None
    if row.rate != rate:  # what was named last is in force: the limits are the account's
        row.rate = rate
        row.save(update_fields=["rate"])
    return row


def create_judge_run(
    sample: Sample,
    config: JudgeConfig,
    *,
    by: User | None,
    replicates: int = 1,
    budget_usd: Decimal | None = None,
) -> JudgeRun:
    """Plan one judgment per unit and replicate; what this config has judged or is judging already is left as it is.

    The same run asked for again is the run that is there, with the budget named now. `queued_ids` says what to judge.
    """
    if replicates < 1 or (budget_usd is not None and not _is_budget(budget_usd)):
        raise JudgingError(
            f"a run needs at least one replicate, and a budget above 0 and below {BUDGET_LIMIT} US dollars if any"
        )
    with transaction.atomic():
        Sample.objects.select_for_update().get(pk=sample.pk)  # two clicks make one run
        _steer(config.pk)
        register(sample.frame.version.dataset, config, by=by)
        same = JudgeRun.objects.filter(sample=sample, config=config, replicates=replicates)
        earlier = same.exclude(state=RunState.CANCELLED).order_by("-pk").first()
        if earlier is not None:
            if budget_usd not in (None, earlier.budget_usd):
                set_budget(earlier, budget_usd, by=by)
            _plan_again(earlier, by=by)
            return earlier
        run = JudgeRun.objects.create(
            sample=sample, config=config, replicates=replicates, budget_usd=budget_usd, created_by=by
        )
        _plan(run)
        detail = {"config": config.digest, "planned": run.planned, "reused": run.reused, "replicates": replicates}
        log_run(run, "run_planned", by=by, detail=detail)
    finish_run(run.pk, now=timezone.now())
    run.refresh_from_db()
    return run


def _is_budget(amount: Decimal) -> bool:
    return amount.is_finite() and Decimal("0.0001") <= amount < BUDGET_LIMIT


def _steer(config_id: int) -> None:
    """Hold a config until the transaction ends: its runs share judgments, so one at a time is made, steered, closed."""
    JudgeConfig.objects.select_for_update(no_key=True).get(pk=config_id)


def _plan(run: JudgeRun) -> None:
    version = run.sample.frame.version
    _take(judgments_of(run).filter(state=JudgmentState.CANCELLED), run, **_FRESH)
    units = list(run.sample.units.values_list("trajectory_id", "trajectory__task_id", "trajectory__content_sha256"))
    known = set(judgments_of(run).values_list("trajectory_id", "replicate"))
    ordered = _cache_order(sorted(units, key=lambda unit: (unit[1], unit[0])))
    rows = (
        Judgment(
            run=run, config=run.config, version=version, trajectory_id=unit, content_sha256=digest, replicate=number
        )
        for number in range(run.replicates)
        for unit, _, digest in ordered
        if (unit, number) not in known
    )
    for chunk in _chunks(rows):
        Judgment.objects.bulk_create(chunk, ignore_conflicts=True)  # another sample may plan the same ones now
    _adopt(run)
    _recount([run.pk])
    run.refresh_from_db(fields=["planned", "reused"])


def _plan_again(run: JudgeRun, *, by: User | None) -> None:
    """Plan what was cancelled since; a run that had ended is live again where something of it is open."""
    _plan(run)
    ended = JudgeRun.objects.filter(pk=run.pk, state=RunState.DONE)
    if judgments_of(run).filter(state__in=OPEN).exists() and ended.update(state=RunState.RUNNING, finished_at=None):
        _adopt(run)
        _logged(run, "run_reopened", by=by)
    run.refresh_from_db()


def _take(wanted: QuerySet[Judgment], run: JudgeRun, **columns: Any) -> int:
    """Make a run the owner of judgments: its state decides whether they are judged, and its budget pays for them."""
    owners = set(wanted.values_list("run", flat=True))
    if not owners:
        return 0
    taken = wanted.update(run=run, **columns)
    _recount({run.pk, *owners})
    return taken


def _adopt(run: JudgeRun) -> None:
    """Take over what a running run counts on and no running run judges, such as what a paused one has queued."""
    running = JudgeRun.objects.filter(config=run.config_id, state=RunState.RUNNING)
    waiting = judgments_of(run).filter(state=JudgmentState.QUEUED).exclude(run__in=running)
    if not waiting.exists():
        return
    with transaction.atomic():
        _steer(run.config_id)
        if running.filter(pk=run.pk).exists():
            _take(waiting, run)


def _adopt_all(running: QuerySet[JudgeRun]) -> None:
    for run in running.filter(state=RunState.RUNNING).select_related("sample").order_by("pk"):
        _adopt(run)


def _recount(run_ids: Iterable[int]) -> None:
    for run in JudgeRun.objects.filter(pk__in=run_ids).select_related("sample").order_by("pk"):
        planned = run.judgments.count()
        reused = run.sample.units.count() * run.replicates - planned
        JudgeRun.objects.filter(pk=run.pk).update(planned=planned, reused=reused)


def _cache_order(units: Sequence[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Units by task, but the first unit of each of the next tasks ahead: it fills the cache that the others read."""
    by_task: defaultdict[int, list[tuple[int, int, str]]] = defaultdict(list)
    for unit in units:
        by_task[unit[1]].append(unit)
    ordered: list[tuple[int, int, str]] = []
    for block in _chunks(by_task.values(), TASKS_AHEAD):
        ordered += [members[0] for members in block]
        ordered += [unit for members in block for unit in members[1:]]
    return ordered


def judgments_of(run: JudgeRun) -> QuerySet[Judgment]:
    """All judgments that answer for a run, those it reuses included; `run.judgments` are those that it owns."""
    units = run.sample.units.values("trajectory")
    return Judgment.objects.filter(config=run.config_id, replicate__lt=run.replicates, trajectory__in=units)


def queued_ids(run: JudgeRun | None = None) -> list[int]:
    """What may be judged now, in order: of one run, what others judge for it included, or of all that are running."""
    judgments = Judgment.objects.all() if run is None else judgments_of(run)
    waiting = judgments.filter(due(timezone.now()), state=JudgmentState.QUEUED, run__state=RunState.RUNNING)
    return list(waiting.order_by("pk").values_list("pk", flat=True))


def progress(run: JudgeRun) -> dict[str, int]:
    """How many judgments of a run are in each state, those it reuses included."""
    return dict.fromkeys(JudgmentState.values, 0) | _counts(judgments_of(run), "state")


def spend_forecast(run: JudgeRun) -> Projection | InsufficientData:
    """What a run will have cost by its end, from the judgments it has finished itself."""
    ended = run.judgments.filter(state__in=[JudgmentState.COMPLETED, JudgmentState.FAILED])
    totals = ended.aggregate(cost=Sum("cost_usd"), known=Count("cost_usd"), all=Count("pk"))
    return projected_spend(
        cost=totals["cost"] or Decimal(0),
        finished=totals["known"],
        planned=run.planned,
        of_unknown_cost=totals["all"] - totals["known"],
    )


def summary(run: JudgeRun) -> Json:
    """A run as the command prints it; `failed` lists each judgment without a decision that was tried."""
    judgments, sample = judgments_of(run), run.sample
    labels = judgments.filter(state=JudgmentState.COMPLETED, replicate=0)
    failed = judgments.filter(state=JudgmentState.FAILED).order_by("pk")
    return {
        "dataset": sample.frame.version.dataset.name,
        "dataset_version": sample.frame.version.name,
        "run": str(run.public_id),
        "config": run.config.digest,
        "judge": run.config.name,
        "frame": sample.frame.digest,
        "sample": str(sample.public_id),
        "size": sample.size,
        "seed": sample.seed,
        "draw": sample.draw_number,
        "planned": run.planned,
        "reused": run.reused,
        "state": run.state,
        "reason": run.reason,
        "states": _counts(judgments, "state"),
        "decisions": _counts(labels, "decision"),
        "outcomes": _counts(labels.filter(outcome__isnull=False), "outcome"),
        "without_outcome": _counts(labels.filter(outcome__isnull=True), "outcome_reason"),
        "failed": [
            {"trajectory": source_id, "replicate": replicate, "reason": reason, "detail": detail}
            for source_id, replicate, reason, detail in failed.values_list(
                "trajectory__source__source_id", "replicate", "reason", "detail"
            )
        ],
        "spent_usd": None if run.known_spent_usd is None else str(run.known_spent_usd),
        "unpriced_calls": run.unpriced_calls,
    }


def _counts(judgments: QuerySet[Judgment], column: str) -> dict[str, int]:
    return dict(judgments.values_list(column).annotate(number=Count("pk")).order_by(column))


# --- judging


def next_turn(judgment_id: int, *, now: datetime) -> int:
    """Which judgment a worker that was rung for one judges: runs take turns, whichever stands first in the queue.

    It is this one where its run is the one of which the fewest are being judged, or where it does not wait at all, as
    claiming it tells why. Where it is one of another run, this one still waits and must be rung for again.
    """
    runs = list(JudgeRun.objects.filter(state=RunState.RUNNING).values_list("pk", flat=True))
    if len(runs) < 2:
        return judgment_id
    waiting = Judgment.objects.filter(due(now), state=JudgmentState.QUEUED)
    own = waiting.filter(pk=judgment_id).values_list("run", flat=True).first()
    if own not in runs:
        return judgment_id
    lot = now.microsecond  # to one worker alone all runs are level, and many at once would take the same judgment
    run = _whose_turn(runs, waiting, lot=lot)
    first = (
        [] if run in (None, own) else list(waiting.filter(run=run).order_by("pk")[:NEXT].values_list("pk", flat=True))
    )
    return first[lot % len(first)] if first else judgment_id


def _whose_turn(runs: Sequence[int], waiting: QuerySet[Judgment], *, lot: int) -> int | None:
    """A run that has something waiting, and the fewest that are being judged."""
    able = JudgeRun.objects.filter(Exists(waiting.filter(run=OuterRef("pk"))), pk__in=runs).order_by("pk")
    held = Judgment.objects.filter(run__in=runs, state=JudgmentState.RUNNING)
    judged = dict(held.values_list("run").annotate(number=Count("pk")).order_by())
    running = {run: judged.get(run, 0) for run in able.values_list("pk", flat=True)}
    level = [run for run, number in running.items() if number == min(running.values())]
    return level[lot % len(level)] if level else None


def execute_judgment(judgment_id: int, *, clock: Clock = timezone.now, limiter: Limiter | None = None) -> float | None:
    """Judge one queued judgment and store what came of it; a no-op where it is held, done, paused or cancelled.

    Returns the seconds after which to try again, where it was given back to the queue; else None. `limiter` keeps the
    rate limits among all workers; without one, this process keeps them alone.
    """
    execution = _claim(judgment_id, now=clock())
    if execution is None:
        return None
    judgment = _load(judgment_id)
    ledger = DatabaseLedger(execution, judgment, clock)
    try:
        result = _contained(judgment, ledger, limiter)
    except JudgmentStopped as stop:
        log.info("judgment stopped", judgment=judgment_id, reason=str(stop))
        end_execution(execution, ExecutionState.STOPPED, reason=str(stop), now=clock())
        _adopt_all(JudgeRun.objects.filter(config=judgment.config_id))  # where its run has been paused
        return ledger.retry_after
    except HandBack as wait:
        released = release(execution, reason=f"hand_back: {wait}", now=clock(), wait_s=wait.seconds)
        return wait.seconds if released else None
    _store(execution, judgment, result, now=clock())
    _finish_all(JudgeRun.objects.filter(config=judgment.config_id), now=clock())
    return None


def _claim(judgment_id: int, *, now: datetime) -> Execution | None:
    """Claim a judgment; a message that comes again finds what a dead process of this machine had held."""
    for held in Execution.objects.filter(judgment=judgment_id, state=ExecutionState.RUNNING):
        if is_dead(held.worker):
            _take_back(held, now=now)
    return claim(judgment_id, worker=worker_name(), now=now)


def _load(judgment_id: int) -> Judgment:
    related = ("config", "version", "trajectory__task", "run__sample__frame__version__dataset")
    return Judgment.objects.select_related(*related).get(pk=judgment_id)


def _contained(judgment: Judgment, ledger: DatabaseLedger, limiter: Limiter | None) -> JudgmentResult:
    """The one place where an error of a judgment becomes its failure; errors of the database travel."""
    try:
        return _look(judgment, ledger, limiter)
    except (JudgmentStopped, HandBack, DatabaseError):
        raise
    except JudgmentFailed as failure:
        return JudgmentResult("failed", reason=failure.reason, detail=failure.detail)
    except ConfigError as error:
        return JudgmentResult("failed", reason="provider_config", detail=str(error))
    except blobs.MissingBlobError as error:
        return JudgmentResult("failed", reason="body_missing", detail=str(error))
    except Exception as error:
        if blobs.has_no_room(error):
            _stop_for_room(ledger)
        log.exception("judgment failed", judgment=judgment.pk)
        return JudgmentResult("failed", reason="internal_error", detail=f"{type(error).__name__}: {error}")


def _stop_for_room(ledger: DatabaseLedger) -> NoReturn:
    """Give the judgment back and pause its run: each further one would fail in the same way."""
    run = ledger.judgment.run
    with transaction.atomic():
        release(ledger.execution, reason=DISK_FULL, now=ledger.clock())
        if pause(run, reason=DISK_FULL):
            log_run(run, "run_paused", detail={"reason": DISK_FULL})
    raise JudgmentStopped("the disk is full")


def _store(execution: Execution, judgment: Judgment, result: JudgmentResult, *, now: datetime) -> None:
    """Store a result; one that the database refuses is a failure, not a judgment that would be tried for ever."""
    try:
        store_result(execution, judgment, result, now=now)
    except (DataError, IntegrityError) as error:
        log.exception("result refused by the database", judgment=judgment.pk)
        refused = JudgmentResult("failed", reason="internal_error", detail=f"{type(error).__name__}: {error}")
        store_result(execution, judgment, refused, now=now)


def _look(judgment: Judgment, ledger: DatabaseLedger, limiter: Limiter | None) -> JudgmentResult:
    config = stored_config(judgment.config)
    rubric = rubric_in_force(judgment.trajectory.task)
    case = build_case(judgment.trajectory, rubric)
    with heart.beats_for(ledger.execution.token, at_most_s=config.limits.wall_seconds + GRACE_S):
        result = judge(
            case,
            config,
            provider=open_provider(config, limiter=limiter),
            sandbox=open_sandbox(config.sandbox),
            ledger=ledger,
            # One secret for all workers: stored turns are replayed only where the requests are the same bytes.
            secret=salted_hmac("auditapp.judging", "frames").digest(),
            documents=documents(),
        )
    return replace(result, provenance={**result.provenance, "rubric": rubric.digest})


def stored_config(row: JudgeConfig) -> Config:
    """The config of a row; ConfigError where this build would judge otherwise than its digest says."""
    return _config(row.digest).model_copy(update={"rate": RateLimits.model_validate(row.rate or {})})


def chosen_config(row: JudgeConfig) -> Config:
    """What was chosen for a row, whichever build made it: enough to ask its provider something, not to judge."""
    parsed = parse_config({**row.canonical["chosen"], "name": row.name}, name=f"config {row.digest[:12]}")
    return parsed.model_copy(update={"rate": RateLimits.model_validate(row.rate or {})})


@lru_cache(maxsize=32)
def _config(digest: str) -> Config:
    config = chosen_config(JudgeConfig.objects.get(digest=digest))
    if config.digest() != digest:
        raise ConfigError(
            f"config {digest[:12]} was made by another version of the judge: store it again, as its next version"
        )
    return config


# --- steering


def pause_run(run: JudgeRun, *, by: User | None) -> bool:
    """Claim nothing more; running judgments end as they would. False where the run was not running.

    What another running run counts on goes to that run.
    """
    with transaction.atomic():
        _steer(run.config_id)
        if not pause(run, reason="asked_for"):
            return False
        _logged(run, "run_paused", by=by)
        _adopt_all(JudgeRun.objects.filter(config=run.config_id))
        return True


def resume_run(run: JudgeRun, *, by: User | None) -> list[int]:
    """Go on with a paused run; returns the ids to ring for."""
    with transaction.atomic():
        _steer(run.config_id)
        paused = JudgeRun.objects.filter(pk=run.pk, state=RunState.PAUSED)
        if not paused.update(state=RunState.RUNNING, reason=""):
            return []
        _logged(run, "run_resumed", by=by)
        _adopt(run)
    finish_run(run.pk, now=timezone.now())
    return queued_ids(run)


def cancel_run(run: JudgeRun, *, by: User | None, now: datetime) -> bool:
    """End a run: queued judgments are cancelled at once, running ones stop before their next call.

    What another live run of the same config counts on goes to that run instead.
    """
    with transaction.atomic():
        _steer(run.config_id)
        live = JudgeRun.objects.filter(pk=run.pk, state__in=LIVE)
        if not live.exists():
            return False
        # In the order in which a worker locks them: its lease, its judgment, the run.
        heirs = _hand_over(run)
        held = Execution.objects.filter(judgment__run=run, state=ExecutionState.RUNNING)
        held.update(state=ExecutionState.STOPPED, reason="cancelled", finished_at=now)
        stopped = run.judgments.filter(state__in=OPEN).update(state=JudgmentState.CANCELLED, finished_at=now)
        live.update(state=RunState.CANCELLED, reason="", finished_at=now)
        _recount({run.pk, *heirs})
        return _logged(run, "run_cancelled", by=by, detail={"judgments": stopped, "handed_over": sum(heirs.values())})


def _hand_over(run: JudgeRun) -> dict[int, int]:
    """Give the open judgments of a run that ends to live runs of its config that count on them: how many to which.

    One that is being judged goes on; its calls stay in the books of the run that made them.
    """
    live = JudgeRun.objects.filter(config=run.config_id, state__in=LIVE).exclude(pk=run.pk)
    running_first = live.select_related("sample").order_by("-state", "pk")
    return {other.pk: judgments_of(other).filter(run=run, state__in=OPEN).update(run=other) for other in running_first}


def worth_retrying(run: JudgeRun) -> QuerySet[Judgment]:
    """The failed judgments of a run that a second try may complete: nothing but another import changes the others."""
    return judgments_of(run).filter(state=JudgmentState.FAILED).exclude(reason__in=LASTING)


def retry_failed(run: JudgeRun, *, by: User | None, lasting: bool = False) -> list[int]:
    """Queue the failed judgments of a run again, those it reuses included, as its own from then on.

    Those that would fail again as they did only where `lasting`. What a failure of the judge had asked is asked anew,
    the rest replayed.
    """
    with transaction.atomic():
        _steer(run.config_id)
        if JudgeRun.objects.filter(pk=run.pk, state=RunState.CANCELLED).exists():
            return []
        failed = judgments_of(run).filter(state=JudgmentState.FAILED) if lasting else worth_retrying(run)
        ids = list(failed.order_by("pk").values_list("pk", flat=True))
        again = _take(failed, run, **_FRESH)
        if again:
            JudgeRun.objects.filter(pk=run.pk, state=RunState.DONE).update(state=RunState.RUNNING, finished_at=None)
            _logged(run, "run_retried", by=by, detail={"judgments": again})
    return ids


def set_budget(run: JudgeRun, budget_usd: Decimal | None, *, by: User | None) -> None:
    """Change what a run may spend in all; a run that its budget paused is resumed by `resume_run`."""
    with transaction.atomic():
        JudgeRun.objects.filter(pk=run.pk).update(budget_usd=budget_usd)
        run.budget_usd = budget_usd
        _logged(run, "run_budget_set", by=by, detail={"usd": None if budget_usd is None else str(budget_usd)})


def change_budget(run: JudgeRun, budget_usd: Decimal | None, *, by: User | None) -> list[int]:
    """Set a budget; a run that the old one had paused goes on where there is room now: the ids to ring for."""
    set_budget(run, budget_usd, by=by)
    return resume_within_budget(run, by=by)


def resume_within_budget(run: JudgeRun, *, by: User | None) -> list[int]:
    """Go on with a run that its budget paused, where that has room now; one that a lead paused stays so."""
    paused_by_it = run.state == RunState.PAUSED and run.reason == BUDGET_REACHED
    has_room = run.budget_usd is None or run.budget_usd > run.spent_usd + run.reserved_usd
    return resume_run(run, by=by) if paused_by_it and has_room else []


def _logged(run: JudgeRun, action: str, *, by: User | None, detail: Json = None) -> Literal[True]:
    log_run(run, action, by=by, detail=detail)
    return True


def finish_run(run_id: int, *, now: datetime) -> bool:
    """Close a run for which nothing is queued or running any more, not even in another run that judges for it."""
    run = JudgeRun.objects.select_related("config", "sample__frame__version__dataset").get(pk=run_id)
    if run.state not in LIVE or _is_open(run):
        return False
    with transaction.atomic():
        _steer(run.config_id)
        live = JudgeRun.objects.filter(pk=run_id, state__in=LIVE)
        if _is_open(run) or not live.update(state=RunState.DONE, reason="", finished_at=now):
            return False
        return _logged(run, "run_done", by=None, detail=_counts(judgments_of(run), "state"))


def _is_open(run: JudgeRun) -> bool:
    """Whether anything is still to be judged; its own judgments are asked first, as an index answers that."""
    return run.judgments.filter(state__in=OPEN).exists() or judgments_of(run).filter(state__in=OPEN).exists()


def _finish_all(runs: QuerySet[JudgeRun], *, now: datetime) -> None:
    """Close those of which nothing is open; one statement tells which may be, as each judgment that ends asks."""
    still_open = Judgment.objects.filter(run=OuterRef("pk"), state__in=OPEN)
    ending = runs.filter(~Exists(still_open), state__in=LIVE)
    for run_id in ending.order_by("pk").values_list("pk", flat=True):
        finish_run(run_id, now=now)


# --- repairing


def reconcile(*, now: datetime) -> list[int]:
    """Take back what dead workers held and close finished runs; returns the ids to ring for."""
    held = Execution.objects.filter(state=ExecutionState.RUNNING)
    stale = [execution for execution in held if execution.heartbeat_at < now - LEASE or is_dead(execution.worker)]
    back = [judgment for execution in stale if (judgment := _take_back(execution, now=now)) is not None]
    _adopt_all(JudgeRun.objects.all())
    _finish_all(JudgeRun.objects.filter(state=RunState.RUNNING), now=now)
    running = Judgment.objects.filter(pk__in=back, state=JudgmentState.QUEUED, run__state=RunState.RUNNING)
    return list(running.order_by("pk").values_list("pk", flat=True))


def _take_back(execution: Execution, *, now: datetime) -> int | None:
    """Mark a lease lost if it still is stale; a judgment that loses worker after worker fails."""
    still_stale = Execution.objects.filter(
        pk=execution.pk, state=ExecutionState.RUNNING, heartbeat_at=execution.heartbeat_at
    )
    with transaction.atomic():
        if not still_stale.update(state=ExecutionState.LOST, reason="no heartbeat", finished_at=now):
            return None
        lost = Execution.objects.filter(judgment=execution.judgment_id, state=ExecutionState.LOST).count()
        held = Judgment.objects.filter(pk=execution.judgment_id, state=JudgmentState.RUNNING)
        if lost < LOST_EXECUTIONS:
            held.update(state=JudgmentState.QUEUED)
        else:
            detail = f"{lost} workers ended while they judged it"
            held.update(state=JudgmentState.FAILED, reason="worker_lost", detail=detail, finished_at=now)
    return execution.judgment_id


def _chunks(items: Iterable[Item], size: int = CHUNK) -> Iterator[list[Item]]:
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk
