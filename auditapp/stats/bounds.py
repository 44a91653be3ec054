"""What a review that found nothing, or little, still cannot rule out: exact bounds of rates of events.

A one-sided bound is lower than the upper end of the two-sided interval of the same counts: each result names its kind,
and the two are never drawn on one axis without saying so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.optimize import brentq
from scipy.special import betaincinv, gammaln

from auditapp.stats.proportions import InsufficientData, Proportion, StratumCount


@dataclass(frozen=True, slots=True)
class ZeroEventBound:
    """The highest rate that `n` reviews without an event leave possible, one-sided; `n` counts units or tasks."""

    upper: float
    n: int
    method: str
    confidence: float = 0.95


def clopper_pearson(events: float, n: float, *, confidence: float = 0.95) -> tuple[float, float]:
    """The exact two-sided interval of `events` in `n` (Clopper & Pearson 1934); both may be fractions of a unit.

    Raises ValueError unless 0 <= events <= n and n > 0.
    """
    if not (n > 0 and 0 <= events <= n and 0 < confidence < 1):
        raise ValueError(f"no interval for {events} events in {n} at confidence {confidence}")
    tail = (1 - confidence) / 2
    low = float(betaincinv(events, n - events + 1, tail)) if events else 0.0
    high = float(betaincinv(events + 1, n - events, 1 - tail)) if events < n else 1.0
    return low, high


def zero_events(n: int, *, confidence: float = 0.95) -> ZeroEventBound | InsufficientData:
    """1 - (1 - confidence)^(1/n) for n simple random units: what "3/n" approximates."""
    if n < 1:
        return InsufficientData("nothing was reviewed")
    return ZeroEventBound(-math.expm1(math.log1p(-confidence) / n), n, "simple random sample, exact", confidence)


def zero_events_by_task(tasks: Sequence[object], *, confidence: float = 0.95) -> ZeroEventBound | InsufficientData:
    """The bound for new tasks like these, from the task of each reviewed unit.

    Attempts at one task share its flaws, so a task counts once however often it was reviewed.
    """
    found = zero_events(len(set(tasks)), confidence=confidence)
    if isinstance(found, InsufficientData):
        return found
    return ZeroEventBound(found.upper, found.n, "distinct tasks, exact", confidence)


def zero_events_finite(population: int, n: int, *, confidence: float = 0.95) -> ZeroEventBound | InsufficientData:
    """The largest D/N for which n of N units without replacement show none of D with probability >= 1 - confidence.

    Raises ValueError unless 0 <= n <= population.
    """
    if not 0 <= n <= population:
        raise ValueError(f"{n} of {population} cannot be drawn")
    if n == 0:
        return InsufficientData("nothing was reviewed")
    limit = math.log1p(-confidence)
    low, high = 0, population - n  # none seen is always possible with D = 0
    while low < high:
        middle = (low + high + 1) // 2
        if _log_none(population, n, middle) >= limit:
            low = middle
        else:
            high = middle - 1
    return ZeroEventBound(low / population, n, "this batch, hypergeometric", confidence)


def _log_none(population: int, n: int, events: int) -> float:
    """Log of C(N-D, n) / C(N, n)."""
    rest = population - events
    logs = gammaln([rest + 1, rest - n + 1, population + 1, population - n + 1])
    return float(logs[0] - logs[1] - logs[2] + logs[3]) + 1e-12


def zero_events_stratified(
    strata: Sequence[StratumCount], *, confidence: float = 0.95
) -> ZeroEventBound | InsufficientData:
    """The worst rate over all ways to spread it among strata in which nothing was found (Buehler 1957).

    Maximises sum W_h p_h subject to prod (1-p_h)^n_h >= 1 - confidence; the optimum is 1 - p_h = min(1, mu n_h / W_h).
    Of a stratum without a review nothing is known: it counts with rate 1. Raises ValueError where an event was seen.
    """
    if any(stratum.events for stratum in strata):
        raise ValueError("an event was seen: this bound is for none")
    seen = [stratum for stratum in strata if stratum.seen]
    n = sum(stratum.seen for stratum in seen)
    if n == 0:
        return InsufficientData("nothing was reviewed")
    population = sum(stratum.size for stratum in strata)
    unseen = 1 - sum(stratum.size for stratum in seen) / population
    worst = _worst([s.size / population for s in seen], [s.seen for s in seen], math.log1p(-confidence))
    return ZeroEventBound(min(1.0, unseen + worst), n, "stratified worst case, exact (Buehler)", confidence)


def _worst(weights: Sequence[float], reviewed: Sequence[int], limit: float) -> float:
    ratios = [n / weight for n, weight in zip(reviewed, weights, strict=True)]

    def log_none(log_mu: float) -> float:
        logs = (min(0.0, log_mu + math.log(ratio)) for ratio in ratios)
        return sum(n * log for n, log in zip(reviewed, logs, strict=True)) - limit

    # At the top every factor is 1; the bottom is as low as the most reviewed stratum alone needs.
    top = -math.log(min(ratios))
    bottom = limit / min(reviewed) - math.log(max(ratios)) - 1
    mu = math.exp(brentq(log_none, bottom, top, xtol=1e-13))
    return sum(weight * (1 - min(1.0, mu * ratio)) for weight, ratio in zip(weights, ratios, strict=True))


@dataclass(frozen=True, slots=True)
class DetectedBound:
    """The highest rate of events that an imperfect detector leaves possible; the detector finds at least `found_share`.

    Two 95 % limits are combined, so that the bound holds with at least 90 % (Bonferroni).
    """

    upper: float
    detected_upper: float
    found_share: float
    method: str = "upper limit of what was detected over the lower limit of the share that is detected"
    confidence: float = 0.9


def detected_bound(detected_upper: float, sensitivity: Proportion) -> DetectedBound | InsufficientData:
    """Divide the upper limit of the detected rate by the lower limit of the detector's measured sensitivity."""
    if not 0 <= detected_upper <= 1:
        raise ValueError(f"{detected_upper} is no share")
    if sensitivity.low <= 0:
        return InsufficientData("the detector may find none of them: there is no bound")
    return DetectedBound(min(1.0, detected_upper / sensitivity.low), detected_upper, sensitivity.low)
