"""The durable memory of judgments: leases that a heartbeat keeps alive, and every call to a provider with its cost.

No transaction here spans a call: a call is reserved and committed, made, and settled in a transaction of its own.
"""

import contextlib
import math
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_UP, Decimal
from functools import cache
from typing import Any, NoReturn

import structlog
from django.contrib.auth.models import User
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.models import F, Q, QuerySet, Sum
from django.utils import timezone

from auditapp import blobs
from auditapp.cases import load_revealed
from auditapp.importers.lenient import storable_text
from auditapp.models.events import AuditEvent
from auditapp.models.judgments import (
    CallState,
    Execution,
    ExecutionState,
    JudgeRun,
    Judgment,
    JudgmentState,
    ProviderCall,
    RunState,
)
from judges.budget import TokenUsage
from judges.errors import JudgmentFailed, JudgmentStopped, LockConflict
from judges.ledger import Phase, StoredTurn
from judges.records import Json, Revealed

Clock = Callable[[], datetime]
BEAT_S = 15.0
BUDGET_WAIT_S = 20.0
BUDGET_REACHED = "budget_reached"
DISK_FULL = "disk_full"
# Failures that a second try may pass; after any other one, stored replies would only lead to the same end again.
PASSING = (
    "provider_outage",
    "provider_quota",
    "provider_config",
    "provider_rate_limited",
    "invalid_response",
    "sandbox",
    "input_invalid",
    "body_missing",
    "internal_error",
)
_MICRO = Decimal("0.000001")
log = structlog.get_logger(__name__)


def claim(judgment_id: int, *, worker: str, now: datetime) -> Execution | None:
    """Take a queued judgment of a running run; None where somebody else has it or it is not to be judged now."""
    running = JudgeRun.objects.filter(state=RunState.RUNNING)
    values = {"judgment_id": judgment_id, "worker": worker[:200], "started_at": now, "heartbeat_at": now}
    try:
        with transaction.atomic():
            queued = Judgment.objects.filter(due(now), pk=judgment_id, state=JudgmentState.QUEUED, run__in=running)
            return Execution.objects.create(**values) if queued.update(state=JudgmentState.RUNNING) else None
    except IntegrityError:  # cancelled and planned again, while the worker of then has not noticed yet
        return None


def due(now: datetime) -> Q:
    """Judgments that nobody asked to leave alone for a while."""
    return Q(not_before__isnull=True) | Q(not_before__lte=now)


def release(execution: Execution, *, reason: str, now: datetime, wait_s: float = 0) -> bool:
    """Give a held judgment back to the queue, for `wait_s` seconds untouched; its stored turns are replayed then."""
    with transaction.atomic():
        if not end_execution(execution, ExecutionState.STOPPED, reason=reason, now=now):
            return False
        held = Judgment.objects.filter(pk=execution.judgment_id, state=JudgmentState.RUNNING)
        return bool(held.update(state=JudgmentState.QUEUED, not_before=now + timedelta(seconds=wait_s)))


def end_execution(execution: Execution, state: ExecutionState, *, reason: str, now: datetime) -> bool:
    """End a lease that is still held; False where it was lost or stopped before."""
    held = Execution.objects.filter(token=execution.token, state=ExecutionState.RUNNING)
    return bool(held.update(state=state, reason=reason[:200], finished_at=now))


def pause(run: JudgeRun, *, reason: str) -> bool:
    """Stop claiming: running judgments end as they would, queued ones stay queued."""
    return bool(JudgeRun.objects.filter(pk=run.pk, state=RunState.RUNNING).update(state=RunState.PAUSED, reason=reason))


def log_run(run: JudgeRun, action: str, *, by: User | None = None, detail: Json = None) -> None:
    """Write a state change of a run to the log of events."""
    AuditEvent.objects.create(
        dataset=run.sample.frame.version.dataset,
        actor=by,
        action=action,
        subject=f"judge run {run.public_id}",
        detail=detail or {},
    )


def worker_name() -> str:
    """The host, its space of process ids and the process that hold a lease."""
    return f"{_place()}:{os.getpid()}"


def is_dead(worker: str) -> bool:
    """Whether the process that held a lease is known to be gone; of another host only its silence tells."""
    if not is_here(worker):
        return False
    pid = worker.rpartition(":")[2]
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def is_here(worker: str) -> bool:
    """Whether the process that held a lease was one of this machine, whose life we can see."""
    return worker.rpartition(":")[0] == _place()


@cache
def _place() -> str:
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    return f"{socket.gethostname()}:{space}"


# --- the memory of one judgment


@dataclass(slots=True)
class DatabaseLedger:
    """Implements `judges.ledger.Ledger` for one held judgment.

    `retry_after` is set where the loop was stopped because the run's budget is bound in calls that are in flight.
    """

    execution: Execution
    judgment: Judgment
    clock: Clock = timezone.now
    retry_after: float | None = None
    _open: dict[str, int] = field(default_factory=dict)
    _held_at: float = -math.inf

    def stored_turns(self) -> Sequence[StoredTurn]:
        """Settled turns of earlier executions, but of none before a failure that would only happen again."""
        earlier = Execution.objects.filter(judgment=self.judgment, pk__lt=self.execution.pk)
        held = list(earlier.order_by("pk").values_list("pk", "state", "reason"))
        if not held:  # as it is for nearly every judgment
            return []
        ended = [pk for pk, state, reason in held if state == ExecutionState.FINISHED and reason not in PASSING]
        asked = [pk for pk, _, _ in held if pk > max(ended, default=0)]
        calls = ProviderCall.objects.filter(execution__in=asked, response_blob__isnull=False)
        return [_stored_turn(call) for call in calls.order_by("pk")]

    def reserve(self, turn: int, phase: Phase, request: bytes, worst_cost: Decimal | None) -> str:
        """Record a call and set aside the most it can cost, in one statement that other workers cannot come between."""
        digest = blobs.put(request)
        with transaction.atomic():
            self._hold()
            call = self._book(turn, phase, digest, worst_cost)
        if call is None:
            self._give_way(worst_cost or Decimal(0))
        call_id = str(call.pk)
        self._open[call_id] = 0 if worst_cost is None else micros(worst_cost)
        return call_id

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
        """Record how a call ended, even where the lease was lost meanwhile: what it cost was spent."""
        known = response is not None or cost is not None
        ended = end_of_call(response, usage=usage, cost=cost, request_id=request_id, error=error, now=self.clock())
        with transaction.atomic():
            open_call = ProviderCall.objects.filter(pk=int(call_id), state=CallState.RESERVED)
            if open_call.update(**ended):
                self._charge(usage if known else None, cost, reserved=self._open[call_id])

    def lock(self, blind: bytes) -> None:
        """Store the blind verdict for good, before anything is revealed."""
        digest = blobs.put(blind)
        with transaction.atomic():
            self._hold()
            unlocked = Judgment.objects.filter(pk=self.judgment.pk, lock_sha256__isnull=True)
            if unlocked.update(lock_sha256=digest, blind_blob=digest):
                self.judgment.lock_sha256 = digest
                return
        self.judgment.refresh_from_db(fields=["lock_sha256"])
        if self.judgment.lock_sha256 != digest:
            raise LockConflict(blobs.get(str(self.judgment.lock_sha256)))

    def reveal(self) -> Revealed:
        """The verifier's side, once a verdict is locked."""
        if self.judgment.lock_sha256 is None:
            raise RuntimeError("the verifier is not revealed before the blind verdict is locked")
        return load_revealed(self.judgment.trajectory)

    def heartbeat(self) -> None:
        """Renew the lease every few seconds; raises JudgmentStopped where it was lost or the run was cancelled."""
        if time.monotonic() - self._held_at > BEAT_S / 3:
            self._hold()

    def _hold(self) -> None:
        # The judgment too: a cancellation that met a claim half-way has not seen the lease to stop.
        judged = Judgment.objects.filter(pk=self.judgment.pk, state=JudgmentState.RUNNING)
        held = Execution.objects.filter(token=self.execution.token, state=ExecutionState.RUNNING, judgment__in=judged)
        if not held.update(heartbeat_at=self.clock()):
            raise JudgmentStopped("the judgment was cancelled, or another worker has it")
        self._held_at = time.monotonic()

    def _book(self, turn: int, phase: Phase, digest: str, worst: Decimal | None) -> ProviderCall | None:
        """The call as a row, with its worst cost set aside; None where the run's budget has no room for it."""
        if not self._set_aside(worst):
            self.judgment.run.refresh_from_db(fields=["budget_usd"])  # a lead may have changed it meanwhile
            if worst is None and self.judgment.run.budget_usd is not None:
                raise JudgmentFailed("budget_usd", "this model has no known price, so the run's budget cannot be kept")
            if not self._set_aside(worst):
                return None
        return ProviderCall.objects.create(
            execution=self.execution,
            turn=turn,
            phase=phase,
            request_sha256=digest,
            request_blob=digest,
            reserved_usd=None if worst is None else worst.quantize(_MICRO, ROUND_UP),
        )

    def _set_aside(self, worst: Decimal | None) -> bool:
        """Bind the worst cost of a call; False where the budget last read has no room, or is no longer in force."""
        budget = self.judgment.run.budget_usd
        same = {"budget_usd__isnull": True} if budget is None else {"budget_usd": budget}
        run = JudgeRun.objects.filter(pk=self.judgment.run_id, **same)
        if worst is None:
            return budget is None and bool(run.update(unpriced_calls=F("unpriced_calls") + 1))
        needed = micros(worst)
        if budget is not None:
            run = run.filter(spent_micros__lte=micros(budget) - needed - F("reserved_micros"))
        return bool(run.update(reserved_micros=F("reserved_micros") + needed))

    def _charge(self, usage: TokenUsage | None, cost: Decimal | None, *, reserved: int) -> None:
        """Add a call to the counters of its run; what may have been billed and is not known stays reserved."""
        more: dict[str, int] = {}
        if usage is None:
            more["uncounted_calls"] = 1
        else:
            more |= {"input_tokens": usage.input, "cached_tokens": usage.cache_read, "output_tokens": usage.output}
        if cost is not None:
            more |= {"reserved_micros": -reserved, "spent_micros": micros(cost)}
        changed = {name: F(name) + number for name, number in more.items() if number}
        if changed:
            JudgeRun.objects.filter(pk=self.judgment.run_id).update(**changed)

    def _give_way(self, worst: Decimal) -> NoReturn:
        """The budget has no room: wait for calls in flight to settle, or pause the run where that cannot help."""
        run = JudgeRun.objects.select_related("sample__frame__version__dataset").get(pk=self.judgment.run_id)
        flying = ProviderCall.objects.filter(state=CallState.RESERVED, execution__state=ExecutionState.RUNNING)
        bound = flying.filter(execution__judgment__run=run).aggregate(total=Sum("reserved_usd"))["total"]
        certain = run.spent_micros + run.reserved_micros - micros(bound or Decimal(0)) + micros(worst)
        if certain <= micros(run.budget_usd or Decimal(0)):
            self.retry_after = BUDGET_WAIT_S
        with transaction.atomic():
            release(self.execution, reason=BUDGET_REACHED, now=self.clock(), wait_s=self.retry_after or 0)
            if self.retry_after is None and pause(run, reason=BUDGET_REACHED):
                log_run(run, "run_paused", detail={"reason": BUDGET_REACHED})
        raise JudgmentStopped("the run's budget has no room for the next call")


def end_of_call(
    response: bytes | None, *, usage: TokenUsage, cost: Decimal | None, request_id: str, error: str, now: datetime
) -> dict[str, Any]:
    """The columns of a call that ended; tokens of one without an answer, whose cost nobody knows, are not known."""
    known = response is not None or cost is not None
    return {
        "state": CallState.FAILED if response is None else CallState.SETTLED,
        "response_blob": None if response is None else blobs.put(response),
        "cost_usd": None if cost is None else cost.quantize(_MICRO, ROUND_UP),
        "input_tokens": usage.input if known else None,
        "cached_tokens": usage.cache_read if known else None,
        "output_tokens": usage.output if known else None,
        "request_id": storable_text(request_id)[:200],
        "error": storable_text(error)[:500],
        "settled_at": now,
    }


def micros(amount: Decimal) -> int:
    """US dollars as millionths, rounded up, so that what was spent is never understated."""
    return int(amount.quantize(_MICRO, ROUND_UP) * 1_000_000)


def _stored_turn(call: ProviderCall) -> StoredTurn:
    phase: Phase = 1 if call.phase == 1 else 2
    return StoredTurn(call.turn, phase, call.request_sha256, blobs.get(str(call.response_blob)), call.reserved_usd)


# --- the heartbeat of this process


class Heart:
    """One thread that renews what this process holds, so that a long command or reply does not lose it.

    `held` finds the rows, with a column `heartbeat_at`, of the keys that are still ours.
    """

    def __init__(self, held: Callable[[Sequence[Any]], QuerySet[Any]]) -> None:
        self._rows = held
        self._mutex = threading.Lock()
        self._held: dict[Hashable, float] = {}
        self._beating = False

    @contextlib.contextmanager
    def beats_for(self, key: Hashable, *, at_most_s: float) -> Iterator[None]:
        """Renew a hold while the block runs; after `at_most_s` seconds no more, as it hangs."""
        with self._mutex:
            self._held[key] = time.monotonic() + at_most_s
            if not self._beating:
                self._beating = True
                threading.Thread(target=self._run, name="heart", daemon=True).start()
        try:
            yield
        finally:
            with self._mutex:
                del self._held[key]

    def _run(self) -> None:
        while True:
            time.sleep(BEAT_S)
            with self._mutex:
                if not self._held:
                    self._beating = False
                    return
                keys = [key for key, end in self._held.items() if time.monotonic() < end]
            self._beat(keys)

    def _beat(self, keys: Sequence[Any]) -> None:
        try:
            self._rows(keys).update(heartbeat_at=timezone.now())
        except DatabaseError:
            log.warning("a heartbeat was not written", exc_info=True)
        finally:
            connection.close()


def _leases(tokens: Sequence[uuid.UUID]) -> QuerySet[Execution]:
    return Execution.objects.filter(token__in=tokens, state=ExecutionState.RUNNING)


heart = Heart(_leases)
