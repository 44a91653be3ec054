"""What a set of calls used in all; unknown as a whole where one of them is unknown."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Spent:
    """Sums over calls, in tokens and US dollars; None where a part of the sum is not known."""

    calls: int
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    cost: Decimal | None


def spent(calls: Iterable[tuple[int | None, int | None, int | None, Decimal | None]]) -> Spent:
    """Sum input, cached and output tokens and cost of each call."""
    rows = list(calls)
    costs = [row[3] for row in rows]
    known = [cost for cost in costs if cost is not None]
    return Spent(
        len(rows),
        _sum([row[0] for row in rows]),
        _sum([row[1] for row in rows]),
        _sum([row[2] for row in rows]),
        sum(known, Decimal(0)) if len(known) == len(costs) else None,
    )


def _sum(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
