"""Two models, or two judges, on the same units: paired differences and the four bins of strong against weak."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy.special import betaln, ndtr, stdtr, stdtrit
from scipy.stats import hypergeom

from auditapp.stats.attempts import Count
from auditapp.stats.proportions import Z95, InsufficientData, Proportion, wilson

Bin = Literal["both", "strong_only", "weak_only", "neither", "uncertain"]


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """A difference of two rates of the same units with its interval; `p_value` is of no difference at all."""

    difference: float
    low: float
    high: float
    p_value: float
    n: int
    method: str


@dataclass(frozen=True, slots=True)
class TwoProportions:
    """Two independent rates against each other: z with its two-sided p, and Fisher's exact p, which holds for few."""

    z: float
    p_value: float
    fisher_p_value: float


@lru_cache(maxsize=4096)
def two_proportions(first: Count, second: Count) -> TwoProportions | InsufficientData:
    """Of (n, events) each: no difference, by the pooled z test and by Fisher's exact test (1935), both two-sided.

    Raises ValueError where events are none of n.
    """
    (n1, x1), (n2, x2) = first, second
    if not (0 <= x1 <= n1 and 0 <= x2 <= n2):
        raise ValueError(f"no rates in {first} and {second}")
    if not n1 or not n2:
        return InsufficientData("one of the two has no unit")
    pooled, gap = (x1 + x2) / (n1 + n2), x1 / n1 - x2 / n2
    error = math.sqrt(pooled * (1 - pooled) * (1 / n1 + 1 / n2))
    z = gap / error if error else 0.0
    tables = hypergeom.pmf(np.arange(max(0, x1 + x2 - n2), min(n1, x1 + x2) + 1), n1 + n2, x1 + x2, n1)
    seen = hypergeom.pmf(x1, n1 + n2, x1 + x2, n1)
    fisher = float(tables[tables <= seen * (1 + 1e-7)].sum())  # as likely as what was seen, or less
    return TwoProportions(z, 2 * float(ndtr(-abs(z))), min(1.0, fisher))


def paired_proportions(*, both: int, first: int, second: int, neither: int) -> PairedDifference | InsufficientData:
    """Rate of the first minus rate of the second: Newcombe's interval (1998, method 10) and McNemar's exact mid-p.

    `first` and `second` are units where only that one succeeded.
    """
    if min(both, first, second, neither) < 0:
        raise ValueError("counts are not negative")
    n = both + first + second + neither
    if n == 0:
        return InsufficientData("no unit has both")
    p1, p2 = (both + first) / n, (both + second) / n
    (low1, high1), (low2, high2) = wilson(p1, n), wilson(p2, n)
    phi = _correlation(both, first, second, neither)
    below = _distance(p1 - low1, high2 - p2, phi)
    above = _distance(high1 - p1, p2 - low2, phi)
    difference = p1 - p2
    low, high = max(-1.0, difference - below), min(1.0, difference + above)
    return PairedDifference(difference, low, high, mcnemar_mid_p(first, second), n, "Newcombe paired, McNemar mid-p")


def _correlation(both: int, first: int, second: int, neither: int) -> float:
    """Newcombe's phi with continuity correction for a positive association."""
    margins = math.sqrt((both + first) * (second + neither) * (both + second) * (first + neither))
    if not margins:
        return 0.0
    cross = both * neither - first * second
    n = both + first + second + neither
    return max(cross - n / 2, 0) / margins if cross > 0 else cross / margins


def _distance(one: float, other: float, phi: float) -> float:
    return math.sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))


def mcnemar_mid_p(first: int, second: int) -> float:
    """Two-sided mid-p of the discordant pairs under a fair coin (Fagerland et al. 2013); 1 where there are none."""
    n, fewer = first + second, min(first, second)
    if n == 0:
        return 1.0
    at = math.comb(n, fewer) / 2**n
    below = math.fsum(math.comb(n, k) / 2**n for k in range(fewer))
    return 1.0 if first == second else min(1.0, 2 * (below + at / 2))


def paired_task_means(first: Sequence[float], second: Sequence[float]) -> PairedDifference | InsufficientData:
    """Mean difference over tasks of two pass rates each, with a t interval on tasks (Miller 2024); needs two tasks.

    Tasks that all differ by the same amount show no spread: there is no interval then.
    """
    gaps = [one - other for one, other in zip(first, second, strict=True)]
    if len(gaps) < 2:
        return InsufficientData(f"{len(gaps)} tasks have both: an interval needs 2")
    mean = math.fsum(gaps) / len(gaps)
    se = math.sqrt(math.fsum((gap - mean) ** 2 for gap in gaps) / (len(gaps) - 1) / len(gaps))
    if se == 0:
        return InsufficientData(f"all {len(gaps)} tasks differ by exactly {mean:g}: no spread to judge by")
    freedom = len(gaps) - 1
    half = float(stdtrit(freedom, 0.975)) * se
    p_value = 2 * float(stdtr(freedom, -abs(mean) / se))
    low, high = max(-1.0, mean - half), min(1.0, mean + half)
    return PairedDifference(mean, low, high, p_value, len(gaps), "mean over tasks, t on tasks")


def unpaired_difference(first: Proportion, second: Proportion) -> PairedDifference:
    """Difference of two rates of separate units from their own intervals, by squaring and adding (Zou & Donner 2008).

    The p-value is of the distance between the rates in errors that these intervals imply. `n` counts both.
    """
    gap = first.estimate - second.estimate
    below = math.hypot(first.estimate - first.low, second.high - second.estimate)
    above = math.hypot(first.high - first.estimate, second.estimate - second.low)
    error = (below if gap > 0 else above) / Z95
    p_value = 2 * float(ndtr(-abs(gap) / error)) if error else float(gap == 0)
    low, high = max(-1.0, gap - below), min(1.0, gap + above)
    return PairedDifference(gap, low, high, p_value, first.n + second.n, "square and add of separate intervals")


def probability_greater(first: Count, second: Count) -> float:
    """P(p_first > p_second) with independent uniform priors; counts are (n, c), n attempts with c passes.

    A finite sum over the first's beta parameter, exact.
    """
    (n1, c1), (n2, c2) = first, second
    if not (0 <= c1 <= n1 and 0 <= c2 <= n2):
        raise ValueError(f"no counts: {first}, {second}")
    a1, b1, a2, b2 = c1 + 1, n1 - c1 + 1, c2 + 1, n2 - c2 + 1
    i = np.arange(a1, dtype=np.float64)
    terms = np.exp(betaln(a2 + i, b1 + b2) - np.log(b1 + i) - betaln(1 + i, b1) - betaln(a2, b2))
    return min(1.0, max(0.0, float(terms.sum())))


def bin_of(strong: Count, weak: Count, *, threshold: float = 0.5, certainty: float = 0.9) -> Bin | InsufficientData:
    """Which of the four bins a task is in; solved means a pass rate of at least `threshold`.

    "weak_only" is an accusation of the task: it needs P(p_weak > p_strong) >= `certainty`, and "strong_only" the
    converse; else the bin is "uncertain".
    """
    if not (strong[0] and weak[0]):
        return InsufficientData("one of the two has no attempt at this task")
    solved = strong[1] / strong[0] >= threshold, weak[1] / weak[0] >= threshold
    if solved[0] == solved[1]:
        return "both" if solved[0] else "neither"
    pair = (strong, weak) if solved[0] else (weak, strong)
    if probability_greater(*pair) < certainty:
        return "uncertain"
    return "strong_only" if solved[0] else "weak_only"
