"""Shows on a terminal how a judgment goes on, turn by turn, from what its ledger is told."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal

from judges.budget import NO_TOKENS, TokenUsage
from judges.display import safe_name
from judges.ledger import MemoryLedger, Phase
from judges.messages import TurnReply

Say = Callable[[str], None]
_CLEAR_LINE = "\r\x1b[2K"


@dataclass(slots=True)
class SpokenLedger(MemoryLedger):
    """A ledger in memory that says each turn; `say` gets texts as a terminal shows them, newlines included."""

    say: Say = print
    used: TokenUsage = NO_TOKENS
    spent: Decimal | None = Decimal(0)
    _turns: dict[str, tuple[int, Phase]] = field(default_factory=dict)

    def reserve(self, turn: int, phase: Phase, request: bytes, worst_cost: Decimal | None) -> str:
        """Say that an answer is awaited."""
        call_id = MemoryLedger.reserve(self, turn, phase, request, worst_cost)
        self._turns[call_id] = (turn, phase)
        at_most = "price unknown" if worst_cost is None else f"at most ${worst_cost:.4f}"
        self.say(f"{_head(turn, phase)}waiting for the answer ({at_most}) …")
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
        """Say what came, what it used, and what all calls cost so far."""
        MemoryLedger.settle(self, call_id, response, usage=usage, cost=cost, request_id=request_id, error=error)
        self.used += usage
        self.spent = None if cost is None or self.spent is None else self.spent + cost
        turn, phase = self._turns[call_id]
        said = safe_name(f"no answer: {error}", 300) if response is None else _calls(TurnReply.from_bytes(response))
        cached = f", {usage.cache_read:,} cached" if usage.cache_read else ""
        tokens = f"{usage.input:,} in{cached}, {usage.output:,} out"
        self.say(f"{_CLEAR_LINE}{_head(turn, phase)}{said} · {tokens} · {_money(self.spent)} so far\n")

    def lock(self, blind: bytes) -> None:
        """Say that the blind verdict stands."""
        MemoryLedger.lock(self, blind)
        self.say("the blind verdict is locked; the verifier is revealed\n")


def _head(turn: int, phase: Phase) -> str:
    return f"turn {turn}, {'blind' if phase == 1 else 'after the reveal'}: "


def _calls(reply: TurnReply) -> str:
    """The tools of a turn, each with its number; how the turn ended where there are none."""
    counted = Counter(safe_name(call.name, 40) for call in reply.calls)
    named = ", ".join(name if times == 1 else f"{name} ×{times}" for name, times in counted.items())
    return named or f"no tool called ({reply.stop})"


def _money(amount: Decimal | None) -> str:
    return "price unknown" if amount is None else f"${amount:.4f}"
