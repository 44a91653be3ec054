"""The durable memory of one judgment, as the loop needs it: what a web app or a test implements."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal, Protocol

from judges.budget import TokenUsage
from judges.errors import LockConflict
from judges.records import Revealed

Phase = Literal[1, 2]


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn of an earlier execution: SHA-256 of its request document, the reply, None where none came, and the most
    that the call could cost in US dollars, None where that is unknown.
    """

    turn: int
    phase: Phase
    request_sha256: str
    response: bytes | None
    worst: Decimal | None = None


class Ledger(Protocol):
    """Written before and after each call. Turns count from 1; `request` is a document chained to the one before."""

    def stored_turns(self) -> Sequence[StoredTurn]:
        """Settled turns of all earlier executions, to be replayed instead of paid for again."""
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
        """Store the locked record durably; the same bytes again are a no-op, others raise LockConflict."""
        ...

    def reveal(self) -> Revealed:
        """The verifier's side; called only after `lock` returned."""
        ...

    def heartbeat(self) -> None:
        """Say that this worker is alive; raises JudgmentStopped when it should write nothing more."""
        ...


@dataclass(slots=True)
class MemoryLedger:
    """A ledger for one process: nothing durable. `stored` are the turns of an earlier execution, to be replayed."""

    revealed: Revealed
    stored: Sequence[StoredTurn] = ()
    locked: bytes | None = None
    reserved: list[tuple[int, Phase, bytes, Decimal | None]] = field(default_factory=list)
    settled: list[tuple[str, bytes | None, TokenUsage, Decimal | None, str, str]] = field(default_factory=list)

    def stored_turns(self) -> Sequence[StoredTurn]:
        """What was given."""
        return self.stored

    def reserve(self, turn: int, phase: Phase, request: bytes, worst_cost: Decimal | None) -> str:
        """Keep the request."""
        self.reserved.append((turn, phase, request, worst_cost))
        return str(turn)

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
        """Keep the response."""
        self.settled.append((call_id, response, usage, cost, request_id, error))

    def lock(self, blind: bytes) -> None:
        """Keep the record; the first one stands."""
        if self.locked not in (None, blind):
            raise LockConflict(self.locked or b"")
        self.locked = blind

    def reveal(self) -> Revealed:
        """The verifier's side, once locked."""
        if self.locked is None:
            raise RuntimeError("the verifier is revealed only after the lock")
        return self.revealed

    def heartbeat(self) -> None:
        """There is nobody to tell."""
