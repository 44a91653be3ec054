"""What work costs: weighted means and medians of amounts, and totals per result; attempts at a task move together."""

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from auditapp.stats.proportions import InsufficientData


@dataclass(frozen=True, slots=True)
class Amount:
    """One trajectory: its task, its weight (N_h / n_h), what it cost, and how many results it is: 0 or 1."""

    task: Hashable
    weight: float
    value: float
    results: int = 1

    def __post_init__(self) -> None:
        if not (self.weight > 0 and math.isfinite(self.weight) and math.isfinite(self.value)):
            raise ValueError(f"weight and value must be finite, the weight positive: {self}")


@dataclass(frozen=True, slots=True)
class AmountEstimate:
    """An amount with its interval for new tasks like these; `low` and `high` are None with a single task."""

    estimate: float
    low: float | None
    high: float | None
    n: int
    tasks: int
    method: str


def mean_amount(amounts: Sequence[Amount]) -> AmountEstimate | InsufficientData:
    """The weighted mean, R = sum w x / sum w, linearised on tasks, with t on T - 1 degrees of freedom."""
    return _ratio(amounts, [1.0] * len(amounts), "weighted mean, linearised on tasks, t")


def amount_per_result(amounts: Sequence[Amount]) -> AmountEstimate | InsufficientData:
    """What all attempts cost over the results among them: R = sum w x / sum w y, linearised on tasks."""
    if amounts and not any(amount.results for amount in amounts):
        return InsufficientData("no attempt of known cost had a result")
    return _ratio(amounts, [float(amount.results) for amount in amounts], "ratio of totals, linearised on tasks, t")


def median_amount(amounts: Sequence[Amount]) -> AmountEstimate | InsufficientData:
    """The weighted median with Woodruff's interval (1952): the amounts at 1/2 ± t SE of the share below the median.

    The share's error is linearised on tasks. An end that would lie beyond the smallest or largest amount is that one.
    """
    if not amounts:
        return InsufficientData("no amount is known")
    middle = _quantile(amounts, 0.5)
    tasks = len({amount.task for amount in amounts})
    method = "weighted median, Woodruff on tasks"
    if tasks < 2:
        return AmountEstimate(middle, None, None, len(amounts), tasks, method)
    total = math.fsum(amount.weight for amount in amounts)
    share = math.fsum(amount.weight for amount in amounts if amount.value <= middle) / total
    residuals = [amount.weight * ((amount.value <= middle) - share) / total for amount in amounts]
    half = _t(tasks) * math.sqrt(_clustered(amounts, residuals))
    low, high = _quantile(amounts, max(0.0, 0.5 - half)), _quantile(amounts, min(1.0, 0.5 + half))
    return AmountEstimate(middle, low, high, len(amounts), tasks, method)


def _ratio(amounts: Sequence[Amount], bases: Sequence[float], method: str) -> AmountEstimate | InsufficientData:
    if not amounts:
        return InsufficientData("no amount is known")
    pairs = list(zip(amounts, bases, strict=True))
    base = math.fsum(amount.weight * y for amount, y in pairs)
    ratio = math.fsum(amount.weight * amount.value for amount in amounts) / base
    tasks = len({amount.task for amount in amounts})
    if tasks < 2:
        return AmountEstimate(ratio, None, None, len(amounts), tasks, method)
    residuals = [amount.weight * (amount.value - ratio * y) / base for amount, y in pairs]
    half = _t(tasks) * math.sqrt(_clustered(amounts, residuals))
    low = ratio - half
    low = max(0.0, low) if min(amount.value for amount in amounts) >= 0 else low
    return AmountEstimate(ratio, low, ratio + half, len(amounts), tasks, method)


def _clustered(amounts: Sequence[Amount], residuals: Sequence[float]) -> float:
    """T/(T-1) sum over tasks of the squared sum of residuals, which add up to 0 over all."""
    sums: defaultdict[Hashable, float] = defaultdict(float)
    for amount, residual in zip(amounts, residuals, strict=True):
        sums[amount.task] += residual
    return len(sums) / (len(sums) - 1) * math.fsum(value * value for value in sums.values())


def _t(tasks: int) -> float:
    return float(stdtrit(tasks - 1, 0.975))


def _quantile(amounts: Sequence[Amount], share: float) -> float:
    """The least amount at or below which that share of the weight lies; the mean of two where it is met exactly."""
    ordered = sorted(amounts, key=lambda amount: amount.value)
    wanted = share * math.fsum(amount.weight for amount in ordered)
    reached = 0.0
    for place, amount in enumerate(ordered):
        reached += amount.weight
        if math.isclose(reached, wanted, rel_tol=1e-12) and place + 1 < len(ordered):
            return (amount.value + ordered[place + 1].value) / 2
        if reached > wanted:
            return amount.value
    return ordered[-1].value


def undominated(points: Sequence[tuple[float, float]]) -> tuple[bool, ...]:
    """Which (cost, rate) points no other beats: none is as cheap and as good, and better in one of the two."""
    return tuple(not any(_beats(other, point) for other in points) for point in points)


def _beats(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[0] <= other[0] and one[1] >= other[1] and one != other
