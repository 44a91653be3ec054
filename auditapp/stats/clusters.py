"""Rates about new tasks like these: attempts at one task move together, so the task is what was sampled."""

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from scipy.special import stdtrit

from auditapp.stats.proportions import Z95, InsufficientData, Proportion, wilson


@dataclass(frozen=True, slots=True)
class ClusterUnit:
    """One decided unit: its task, its weight (any positive scale, usually N_h / n_h) and whether it counts."""

    task: Hashable
    weight: float
    event: bool

    def __post_init__(self) -> None:
        if not (self.weight > 0 and math.isfinite(self.weight)):
            raise ValueError(f"a weight must be positive and finite, not {self.weight}")


def clustered_proportion(units: Sequence[ClusterUnit], *, missing: int = 0) -> Proportion | InsufficientData:
    """The weighted rate with a linearised standard error from tasks as ultimate clusters, T - 1 degrees of freedom.

    V = T/(T-1) sum over tasks of (sum w (y - R) / sum w)² (Cochran 1977 ch. 11). The interval is Wilson's with
    n_eff = min(R(1-R)/V, (sum W)²/sum W² over units, and over tasks where V is 0) times (z/t)². Needs two tasks.
    """
    tasks = _by_task(units)
    if len(tasks) < 2:
        return InsufficientData(f"{len(tasks)} task{'' if tasks else 's'}: a rate for new tasks needs at least 2")
    total = sum(unit.weight for unit in units)
    rate = min(1.0, sum(unit.weight for unit in units if unit.event) / total)
    n_effective = _size(units, tasks, rate) * (Z95 / float(stdtrit(len(tasks) - 1, 0.975))) ** 2
    low, high = wilson(rate, n_effective)
    n = len(units)
    return Proportion(
        estimate=rate,
        low=low,
        high=high,
        n=n,
        n_effective=n_effective,
        method=f"clustered on {len(tasks)} tasks, linearised, Wilson on t",
        missing=missing,
        bounds=(rate * n / (n + missing), (rate * n + missing) / (n + missing)),
        covered=n,
        population=n + missing,
    )


def _by_task(units: Sequence[ClusterUnit]) -> dict[Hashable, list[ClusterUnit]]:
    tasks: defaultdict[Hashable, list[ClusterUnit]] = defaultdict(list)
    for unit in units:
        tasks[unit.task].append(unit)
    return tasks


def _size(units: Sequence[ClusterUnit], tasks: dict[Hashable, list[ClusterUnit]], rate: float) -> float:
    """Without variance between tasks nothing says how alike attempts are: a task then counts once."""
    size = _kish([unit.weight for unit in units])
    variance = cluster_variance(units, rate)
    if rate in (0.0, 1.0) or variance == 0:
        return min(size, _kish([sum(unit.weight for unit in group) for group in tasks.values()]))
    return min(size, rate * (1 - rate) / variance)


def cluster_variance(units: Sequence[ClusterUnit], rate: float) -> float:
    """The linearised variance of the weighted rate, from the spread of tasks; ValueError for fewer than two."""
    tasks = _by_task(units)
    if len(tasks) < 2:
        raise ValueError("the spread of tasks needs at least two")
    total = sum(unit.weight for unit in units)
    sums = (sum(unit.weight * (unit.event - rate) for unit in group) / total for group in tasks.values())
    return len(tasks) / (len(tasks) - 1) * math.fsum(value * value for value in sums)


def _kish(weights: Sequence[float]) -> float:
    total = math.fsum(weights)
    return 1 / math.fsum((weight / total) ** 2 for weight in weights)
