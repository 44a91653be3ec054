"""Limits of one judgment and what it has spent. Unknown cost stays unknown; token limits hold without prices."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from decimal import Decimal

from pydantic import BaseModel, ConfigDict, Field

from judges.errors import JudgmentFailed


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of a call, all counts disjoint but `reasoning`, which is part of `output`."""

    fresh: int = 0
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    reasoning: int = 0

    @property
    def input(self) -> int:
        """All input tokens, cached or not."""
        return self.fresh + self.cache_read + self.cache_write

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(*(getattr(self, item.name) + getattr(other, item.name) for item in fields(self)))


NO_TOKENS = TokenUsage()


class Limits(BaseModel):
    """The budgets of one judgment: counts, tokens, US dollars, seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    turns: int = Field(default=30, ge=2, le=500)
    re_asks: int = Field(default=2, ge=0, le=5)
    calls_per_turn: int = Field(default=8, ge=1, le=32)
    commands: int = Field(default=10, ge=0, le=100)
    command_seconds: int = Field(default=120, ge=1, le=600)
    result_characters: int = Field(default=8_000, ge=500, le=100_000)
    context_tokens: int = Field(default=95_000, ge=1_000, le=100_000_000)
    input_tokens: int = Field(default=600_000, ge=1_000, le=10_000_000_000)
    output_tokens: int = Field(default=40_000, ge=100, le=10_000_000_000)
    usd: Decimal | None = Field(default=Decimal("1.00"), ge=0, le=1_000_000)
    wall_seconds: int = Field(default=1_200, ge=1, le=86_400)


@dataclass(slots=True)
class Budget:
    """Counts what one judgment spends; `check` ends it when a limit is passed. `clock` returns seconds.

    `cost` is what it has cost in US dollars, None once a part of that is unknown; `bound` is the most it can have cost,
    calls without any price left out.
    """

    limits: Limits
    clock: Callable[[], float] = time.monotonic
    usage: TokenUsage = NO_TOKENS
    cost: Decimal | None = Decimal(0)
    bound: Decimal = Decimal(0)
    turns: int = 0
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def charge(self, usage: TokenUsage, cost: Decimal | None, *, worst: Decimal | None) -> None:
        """Add what a call spent. One of unknown cost makes the total unknown for good, and counts as its worst."""
        self.usage += usage
        self.bound += (worst or Decimal(0)) if cost is None else cost
        self.cost = None if cost is None or self.cost is None else self.cost + cost

    def check(self, worst_cost: Decimal | None) -> None:
        """Raise JudgmentFailed where the next call, at its worst, would pass a limit."""
        limits, used = self.limits, self.usage
        if used.input >= limits.input_tokens or used.output >= limits.output_tokens:
            raise JudgmentFailed("budget_tokens", f"{used.input} input and {used.output} output tokens used")
        if limits.usd is not None and self.bound + (worst_cost or Decimal(0)) > limits.usd:
            raise JudgmentFailed("budget_usd", f"the next call could pass {limits.usd} US dollars")
        if self.clock() - self.started > limits.wall_seconds:
            raise JudgmentFailed("budget_wall", f"{limits.wall_seconds} s have passed")

    def turn_limit(self, phase: int) -> int:
        """How many turns may have been used when a phase ends: some are kept for explaining the verdict."""
        kept = max(1, min(6, self.limits.turns // 4))
        return self.limits.turns - kept if phase == 1 else self.limits.turns
