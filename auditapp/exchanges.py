"""Talks with a provider outside any run: a dry run of a config, a probe of its provider, a draft of requirements.

They are stored as the calls of judgments are, and read on the same pages, but in tables of their own: no label, rate or
export can see them. Each is asked for once; one whose worker ended is marked failed and never asked again by itself.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from decimal import Decimal

import structlog
from django.contrib.auth.models import User
from django.db import DatabaseError
from django.utils import timezone
from django.utils.crypto import salted_hmac

from auditapp import blobs
from auditapp.cases import build_case, load_revealed, rubric_in_force
from auditapp.documents import documents
from auditapp.importers.lenient import storable_text
from auditapp.judging import chosen_config, stored_config
from auditapp.ledger import Clock, end_of_call, is_dead, worker_name
from auditapp.models.datasets import Dataset, Trajectory
from auditapp.models.events import AuditEvent
from auditapp.models.exchanges import Exchange, ExchangeCall, ExchangeKind, ExchangeState
from auditapp.models.judgments import CallState, JudgeConfig
from auditapp.rubrics import take_draft
from judges.agent import judge
from judges.budget import TokenUsage
from judges.config import JudgeConfig as Config
from judges.errors import ConfigError, HandBack, JudgmentFailed
from judges.ledger import Phase, StoredTurn
from judges.limiter import Limiter
from judges.providers import open_provider
from judges.records import Json, Revealed
from judges.results import result_json
from judges.rubric import draft
from judges.sandbox import open_sandbox

LONGEST = timedelta(hours=2)
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Found:
    """How an exchange ended."""

    state: ExchangeState
    result: Json = None
    reason: str = ""
    detail: str = ""


# --- asking


def ask_dry_run(dataset: Dataset, config: JudgeConfig, trajectory: Trajectory, *, by: User | None) -> Exchange:
    """Plan one look of a config at one trajectory, before any money goes into a run."""
    made = Exchange.objects.create(
        dataset=dataset, config=config, kind=ExchangeKind.DRY_RUN, trajectory=trajectory, created_by=by
    )
    detail = {"config": config.digest, "trajectory": str(trajectory.public_id)}
    AuditEvent.objects.create(
        dataset=dataset, actor=by, action="dry_run_asked", subject=f"exchange {made.public_id}", detail=detail
    )
    return made


def ask_probe(dataset: Dataset, config: JudgeConfig, *, by: User | None) -> Exchange:
    """Plan a look at the provider of a config: key, model, tools, price."""
    return Exchange.objects.create(dataset=dataset, config=config, kind=ExchangeKind.PROBE, created_by=by)


def queued_exchange_ids() -> list[int]:
    """What waits for a worker, in order."""
    return list(Exchange.objects.filter(state=ExchangeState.QUEUED).order_by("pk").values_list("pk", flat=True))


# --- carrying out


def execute_exchange(exchange_id: int, *, clock: Clock = timezone.now, limiter: Limiter | None = None) -> bool:
    """Carry out one queued exchange and store what came of it; False where it is not queued any more."""
    queued = Exchange.objects.filter(pk=exchange_id, state=ExchangeState.QUEUED)
    if not queued.update(state=ExchangeState.RUNNING, worker=worker_name()[:200], started_at=clock()):
        return False
    exchange = Exchange.objects.select_related("config", "dataset", "trajectory__task", "task__version__dataset").get(
        pk=exchange_id
    )
    found = _contained(exchange, clock, limiter)
    values = {
        "state": found.state,
        "reason": found.reason[:60],
        "detail": storable_text(found.detail)[:500],
        "result_blob": None if found.result is None else blobs.put_json(found.result),
        "rubric": exchange.rubric,
        "finished_at": clock(),
    }
    return bool(Exchange.objects.filter(pk=exchange_id, state=ExchangeState.RUNNING).update(**values))


def _contained(exchange: Exchange, clock: Clock, limiter: Limiter | None) -> _Found:
    """What an exchange found, or why it failed; errors of the database travel."""
    try:
        return _carried_out(exchange, ExchangeLedger(exchange, clock), limiter)
    except DatabaseError:
        raise
    except JudgmentFailed as failure:
        return _failed(failure.reason, failure.detail)
    except Exception as error:
        return _failed(*_why(error))


def _why(error: Exception) -> tuple[str, str]:
    """Reason and detail of an exchange that ended with an error."""
    if isinstance(error, HandBack):
        return "provider_rate_limited", f"The provider asks to come back later: {error}."
    if isinstance(error, ConfigError):
        return "provider_config", str(error)
    if isinstance(error, blobs.MissingBlobError):
        return "body_missing", str(error)
    log.error("exchange failed", exc_info=error)
    return "internal_error", f"{type(error).__name__}: {error}"


def _carried_out(exchange: Exchange, ledger: "ExchangeLedger", limiter: Limiter | None) -> _Found:
    if exchange.kind == ExchangeKind.PROBE:
        return _probe(chosen_config(exchange.config))
    if exchange.kind == ExchangeKind.DRAFT:
        return _draft(exchange, chosen_config(exchange.config), ledger, limiter)
    return _dry_run(exchange, stored_config(exchange.config), ledger, limiter)


def _failed(reason: str, detail: str) -> _Found:
    return _Found(ExchangeState.FAILED, None, reason, detail)


def _dry_run(exchange: Exchange, config: Config, ledger: "ExchangeLedger", limiter: Limiter | None) -> _Found:
    trajectory = exchange.trajectory
    assert trajectory is not None  # noqa: S101  (a constraint of the table)
    result = judge(
        build_case(trajectory, rubric_in_force(trajectory.task)),
        config,
        provider=open_provider(config, limiter=limiter),
        sandbox=open_sandbox(config.sandbox),
        ledger=ledger,
        secret=_secret(),
        documents=documents(),
    )
    state = ExchangeState.COMPLETED if result.status == "completed" else ExchangeState.FAILED
    return _Found(state, result_json(result), result.reason, result.detail)


def _draft(exchange: Exchange, config: Config, ledger: "ExchangeLedger", limiter: Limiter | None) -> _Found:
    """Requirements from the instruction alone: no trajectory of the task is read for them."""
    task = exchange.task
    if task is None or task.instruction_blob is None:
        return _failed("input_invalid", "The instruction was not recorded.")
    provider = open_provider(config, limiter=limiter)
    found = draft(blobs.get_text(task.instruction_blob), config, provider=provider, ledger=ledger, secret=_secret())
    exchange.rubric = take_draft(exchange, found.requirements)
    rows = [asdict(row) for row in found.requirements]
    left = "" if exchange.rubric else "Others were set or frozen meanwhile: the draft was not taken."
    return _Found(ExchangeState.COMPLETED, {"requirements": rows, "provenance": dict(found.provenance)}, "", left)


def _probe(config: Config) -> _Found:
    from judges.providers.probe import probe  # noqa: PLC0415  its libraries take a second to import

    report = probe(config)
    state = ExchangeState.COMPLETED if report.ok else ExchangeState.FAILED
    return _Found(state, {"checks": [asdict(check) for check in report.checks]}, "" if report.ok else "provider_config")


def _secret() -> bytes:
    return salted_hmac("auditapp.exchanges", "frames").digest()


def close_lost(*, now: datetime) -> int:
    """Mark exchanges failed whose worker has ended, or that have run for hours; returns how many."""
    lost = 0
    for exchange in Exchange.objects.filter(state=ExchangeState.RUNNING).exclude(started_at=None):
        begun = exchange.started_at
        if begun and (is_dead(exchange.worker) or begun < now - LONGEST):
            held = Exchange.objects.filter(pk=exchange.pk, state=ExchangeState.RUNNING, started_at=begun)
            told = {"reason": "worker_lost", "detail": "The worker ended while it was at it. Ask again."}
            lost += held.update(state=ExchangeState.FAILED, finished_at=now, **told)
    return lost


# --- its memory


@dataclass(slots=True)
class ExchangeLedger:
    """Implements `judges.ledger.Ledger` for one exchange: every call is stored, nothing is replayed."""

    exchange: Exchange
    clock: Clock = timezone.now
    _locked: bytes | None = None

    def stored_turns(self) -> Sequence[StoredTurn]:
        """None: an exchange is asked for once."""
        return ()

    def reserve(self, turn: int, phase: Phase, request: bytes, worst_cost: Decimal | None) -> str:  # noqa: ARG002
        """Record a call before it is made."""
        digest = blobs.put(request)
        call = ExchangeCall.objects.create(
            exchange=self.exchange, turn=turn, phase=phase, request_sha256=digest, request_blob=digest
        )
        return str(call.pk)

    def settle(
        self,
        call_id: str,
        response: bytes | None,
        *,
        usage: TokenUsage,
        cost: Decimal | None,
        request_id: str,
        error: str,
    ) -> None:
        """Record how a call ended; tokens of one without an answer are not known."""
        ended = end_of_call(response, usage=usage, cost=cost, request_id=request_id, error=error, now=self.clock())
        ExchangeCall.objects.filter(pk=int(call_id), state=CallState.RESERVED).update(**ended)

    def lock(self, blind: bytes) -> None:
        """Keep the blind verdict, for the exchange alone."""
        self._locked = blind

    def reveal(self) -> Revealed:
        """The verifier's side, once a verdict is locked."""
        if self._locked is None or self.exchange.trajectory is None:
            raise RuntimeError("the verifier is not revealed before the blind verdict is locked")
        return load_revealed(self.exchange.trajectory)

    def heartbeat(self) -> None:
        """Nobody takes an exchange over."""
