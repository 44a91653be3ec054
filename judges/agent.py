"""The two-phase loop: blind verdict, lock, reveal, attribution. Exceptions are its exits."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, Protocol

from judges.budget import TokenUsage
from judges.records import Revealed

Phase = Literal[1, 2]


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn of an earlier execution: the digest of its request and the reply, None where none was settled."""

    turn: int
    phase: Phase
    request_sha256: str
    response: bytes | None


class Ledger(Protocol):
    """The durable memory of one judgment, written before and after each call.

    Turns count from 1. `request` is a JSON document of what is new since the turn before, chained by digest.
    """

    def stored_turns(self) -> Sequence[StoredTurn]:
        """Turns of earlier executions in order, to be replayed instead of paid for again."""
        ...

    def reserve(self, turn: int, phase: Phase, request: bytes, worst_cost: Decimal | None) -> str:
        """Record a call before it is made; returns its id."""
        ...

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
        """Record how a reserved call ended; `response` is None and `error` says why where none came."""
        ...

    def lock(self, blind: bytes) -> None:
        """Store the locked blind record durably; the same bytes again are a no-op, others raise LockConflict."""
        ...

    def reveal(self) -> Revealed:
        """The verifier's side; called only after `lock` returned."""
        ...

    def heartbeat(self) -> None:
        """Say that this worker is alive; raises JudgmentStopped when it should write nothing more."""
        ...
