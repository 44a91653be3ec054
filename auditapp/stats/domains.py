"""Rates in domains that cut across strata: a judge's precision, a verifier's own error, the share of a tag."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from auditapp.stats.proportions import Z95, InsufficientData, Proportion, wilson


@dataclass(frozen=True, slots=True)
class DomainCount:
    """Of `n` units seen in a stratum of `size`, `members` belong to the domain, and `events` of these count.

    `undecided` more were drawn. Whether they belong to it is not known; if they do, they are `undecided_as`: an event,
    another member, or either.
    """

    size: int
    n: int
    members: int
    events: int
    undecided: int = 0
    undecided_as: Literal["event", "other", "either"] = "either"

    def __post_init__(self) -> None:
        counts = 0 <= self.events <= self.members <= self.n and self.undecided >= 0
        if not (counts and self.n + self.undecided <= self.size):
            raise ValueError(f"events <= members <= n and n + undecided <= size do not hold: {self}")


def domain_rate(strata: Sequence[DomainCount]) -> Proportion | InsufficientData:
    """R = sum W_h events_h/n_h over sum W_h members_h/n_h; the interval is Wilson's.

    n_eff = min(R(1-R)/V, Kish's size of the domain), V = `domain_variance`. Strata of which nothing was seen are left
    out and counted by `covered` against `population`, which are units of the frame, not of the domain. How many of the
    undecided belong to the domain is unknown: the bounds have those in it that make the rate the least or the most.
    """
    seen = [stratum for stratum in strata if stratum.n]
    members = math.fsum(stratum.size * stratum.members / stratum.n for stratum in seen)
    if not members:
        return InsufficientData("no unit of this kind was seen")
    rate = min(1.0, math.fsum(stratum.size * stratum.events / stratum.n for stratum in seen) / members)
    sizes = [members**2 / math.fsum((s.size / s.n) ** 2 * s.members for s in seen)]
    if 0 < rate < 1 and (variance := domain_variance(seen)) > 0:
        sizes.append(rate * (1 - rate) / variance)
    low, high = wilson(rate, min(sizes))
    n = sum(stratum.members for stratum in seen)
    return Proportion(
        estimate=rate,
        low=low,
        high=high,
        n=n,
        n_effective=min(sizes),
        method="ratio of stratified totals, linearised, Wilson on the smaller effective size",
        missing=sum(stratum.undecided for stratum in strata),
        bounds=_bounds(strata),
        covered=sum(stratum.size for stratum in seen),
        population=sum(stratum.size for stratum in strata),
    )


def _bounds(strata: Sequence[DomainCount]) -> tuple[float, float]:
    """The rate when every unit that was drawn weighs alike in its stratum, decided or not: at the least without those
    undecided that could only be events, at the most without those that could not be."""
    drawn = [(s.size / (s.n + s.undecided), s) for s in strata if s.n + s.undecided]
    members = math.fsum(weight * s.members for weight, s in drawn)
    events = math.fsum(weight * s.events for weight, s in drawn)
    others = math.fsum(weight * s.undecided for weight, s in drawn if s.undecided_as != "event")
    more = math.fsum(weight * s.undecided for weight, s in drawn if s.undecided_as != "other")
    return min(1.0, events / (members + others)), min(1.0, (events + more) / (members + more))


def domain_variance(strata: Sequence[DomainCount]) -> float:
    """sum W_h² s²_h / n_h over X², s²_h of e = y - R x with n_h - 1: equal to R's `svyratio` without correction.

    A stratum of one unit gives its squared residual. An empty domain raises ValueError.
    """
    seen = [stratum for stratum in strata if stratum.n]
    members = math.fsum(stratum.size * stratum.members / stratum.n for stratum in seen)
    if not members:
        raise ValueError("the domain is empty")
    rate = math.fsum(stratum.size * stratum.events / stratum.n for stratum in seen) / members
    return math.fsum(stratum.size**2 * _spread(stratum, rate) / stratum.n for stratum in seen) / members**2


def _spread(stratum: DomainCount, rate: float) -> float:
    """The variance of e: 1 - R for an event, -R for another member, 0 outside the domain."""
    others = stratum.members - stratum.events
    squares = stratum.events * (1 - rate) ** 2 + others * rate**2
    if stratum.n == 1:
        return squares
    mean = (stratum.events - rate * stratum.members) / stratum.n
    return max(0.0, squares - stratum.n * mean**2) / (stratum.n - 1)


def clustered_domain_rate(
    tasks: ArrayLike, weights: ArrayLike, members: ArrayLike, events: ArrayLike, *, missing: int = 0
) -> Proportion | InsufficientData:
    """R = sum w events / sum w members for new tasks like these, linearised on tasks with T - 1 degrees of freedom.

    One entry is all that was seen of a task (a number from 0) in a stratum, of weight w = N_h / n_h. It is
    `clustered_proportion` from counts: the same rate, variance and interval, with tasks outside the domain left out.
    `missing` were drawn and not decided.
    """
    t, w = np.asarray(tasks, dtype=np.int64), np.asarray(weights, dtype=np.float64)
    m, y = np.asarray(members, dtype=np.float64), np.asarray(events, dtype=np.float64)
    if not (t.shape == w.shape == m.shape == y.shape and (w > 0).all() and (y >= 0).all() and (y <= m).all()):
        raise ValueError("events <= members and weights above 0 do not hold")
    n = int(m.sum())
    if n == 0:
        return InsufficientData("no unit of this kind was seen")
    by_task = np.bincount(t, w * m)
    inside = by_task > 0
    seen = int(inside.sum())
    if seen < 2:
        return InsufficientData(f"{seen} task: a rate for new tasks needs at least 2")
    total = float(by_task.sum())
    rate = min(1.0, float((w * y).sum()) / total)
    residuals = np.bincount(t, w * (y - rate * m), minlength=by_task.size)[inside] / total
    variance = seen / (seen - 1) * float((residuals**2).sum())
    size = total**2 / float((w**2 * m).sum())
    if rate in (0.0, 1.0) or variance == 0:
        size = min(size, total**2 / float((by_task**2).sum()))
    else:
        size = min(size, rate * (1 - rate) / variance)
    n_effective = size * (Z95 / float(stdtrit(seen - 1, 0.975))) ** 2
    low, high = wilson(rate, n_effective)
    method = f"ratio clustered on {seen} tasks, linearised, Wilson on t"
    drawn = n + missing
    bounds = (rate * n / drawn, (rate * n + missing) / drawn)
    return Proportion(rate, low, high, n, n_effective, method, missing, bounds, n, drawn)
