"""Rates in domains that cut across strata: a judge's precision, a verifier's own error, the share of a tag."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from auditapp.stats.proportions import InsufficientData, Proportion, wilson


@dataclass(frozen=True, slots=True)
class DomainCount:
    """Of `n` units seen in a stratum of `size`, `members` belong to the domain, and `events` of these count."""

    size: int
    n: int
    members: int
    events: int

    def __post_init__(self) -> None:
        if not 0 <= self.events <= self.members <= self.n <= self.size:
            raise ValueError(f"events <= members <= n <= size does not hold: {self}")


def domain_rate(strata: Sequence[DomainCount], *, missing: int = 0) -> Proportion | InsufficientData:
    """R = sum W_h events_h/n_h over sum W_h members_h/n_h; the interval is Wilson's.

    n_eff = min(R(1-R)/V, Kish's size of the domain), V = `domain_variance`. Strata of which nothing was seen are left
    out and counted by `covered` against `population`, which are units of the frame, not of the domain. How many of
    `missing` undecided units belong to the domain is unknown: the bounds are taken over every split of these.
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
    events = sum(stratum.events for stratum in seen)
    return Proportion(
        estimate=rate,
        low=low,
        high=high,
        n=n,
        n_effective=min(sizes),
        method="ratio of stratified totals, linearised, Wilson on the smaller effective size",
        missing=missing,
        bounds=(events / (n + missing), (events + missing) / (n + missing)) if missing else (rate, rate),
        covered=sum(stratum.size for stratum in seen),
        population=sum(stratum.size for stratum in strata),
    )


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
