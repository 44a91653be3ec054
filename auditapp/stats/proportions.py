"""Proportions with intervals: one sample (Wilson 1927) and stratified samples (Wilson on a guarded effective size)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from scipy.special import betaincinv, stdtrit

Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class InsufficientData:
    """What cannot be estimated, and why; never shown as a number."""

    reason: str


@dataclass(frozen=True, slots=True)
class Proportion:
    """A rate between 0 and 1 with a 95 % interval.

    `n` units were seen, `n_effective` is what they are worth after weighting (infinite for a whole population),
    `missing` units were drawn and not decided; `bounds` is the rate with all of them good, and with all of them bad.
    `covered` of `population` units lie in strata of which something was seen; the claim is about those.
    """

    estimate: float
    low: float
    high: float
    n: int
    n_effective: float
    method: str
    missing: int = 0
    bounds: tuple[float, float] = (0.0, 1.0)
    covered: int = 0
    population: int = 0
    confidence: float = 0.95


def as_result(found: Mapping[str, Any]) -> Proportion | InsufficientData:
    """The result that a stored figure was; one without an estimate is insufficient, and says why if that is known."""
    if "insufficient" in found or "estimate" not in found:
        return InsufficientData(str(found.get("insufficient", "not estimated yet")))
    names = {field.name for field in fields(Proportion)}
    known = {name: value for name, value in found.items() if name in names}
    known["n_effective"] = math.inf if known.get("n_effective") is None else known["n_effective"]
    return Proportion(**known | {"bounds": tuple(known.get("bounds", (0.0, 1.0)))})


@dataclass(frozen=True, slots=True)
class StratumCount:
    """Of `size` units (N_h) `drawn` were sampled, `seen` of these were decided (n_h), `events` of those count (x_h)."""

    size: int
    drawn: int
    seen: int
    events: int

    def __post_init__(self) -> None:
        if not 0 <= self.events <= self.seen <= self.drawn <= self.size:
            raise ValueError(f"events <= seen <= drawn <= size does not hold: {self}")


def wilson(p: float, n: float) -> tuple[float, float]:
    """Wilson's 95 % interval for a rate p among n units; n may be a fraction, and infinite gives the rate itself.

    Raises ValueError unless n > 0 and 0 <= p <= 1.
    """
    if not (n > 0 and 0 <= p <= 1):
        raise ValueError(f"no interval for p = {p}, n = {n}")
    if math.isinf(n):
        return p, p
    z = Z95
    center = p + z * z / (2 * n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return (0.0 if p == 0 else (center - half) / scale), (1.0 if p == 1 else (center + half) / scale)


def proportion(events: int, n: int) -> Proportion | InsufficientData:
    """The rate of events among n units of one simple sample, with Wilson's interval."""
    if n == 0:
        return InsufficientData("nothing was seen")
    low, high = wilson(events / n, n)
    rate = events / n
    return Proportion(rate, low, high, n, float(n), "Wilson", 0, (rate, rate), n, n)


def stratified_proportion(strata: Sequence[StratumCount], *, batch: bool) -> Proportion | InsufficientData:
    """The population rate from a stratified sample: sum of W_h x_h / n_h.

    The interval is Wilson's with n_eff = min(p(1-p)/V, 1/sum(W_h²/n_h)), which is never degenerate. `batch` applies the
    finite-population correction 1 - n_h/N_h: the claim is then about this very population and no other; it is not made
    where drawn units are undecided, since what is decided is then no random part of what was drawn. Strata of which
    nothing was seen are left out of the claim and counted by `covered` against `population`.
    """
    seen = [stratum for stratum in strata if stratum.seen]
    missing = sum(stratum.drawn - stratum.seen for stratum in strata)
    if not seen:
        return InsufficientData("no unit was decided" if missing else "nothing was drawn")
    covered = sum(stratum.size for stratum in seen)
    weights = [stratum.size / covered for stratum in seen]
    rates = (weight * stratum.events / stratum.seen for weight, stratum in zip(weights, seen, strict=True))
    rate = min(1.0, math.fsum(rates))  # shares of a whole can add up to a little more than 1
    batch = batch and not missing
    n_effective = _effective_size(seen, weights, rate, batch=batch)
    low, high = wilson(rate, n_effective)
    return Proportion(
        estimate=rate,
        low=low,
        high=high,
        n=sum(stratum.seen for stratum in seen),
        n_effective=n_effective,
        method="stratified, Wilson on the smaller effective size" + (", this batch" if batch else ""),
        missing=missing,
        bounds=undecided_bounds(strata),
        covered=covered,
        population=sum(stratum.size for stratum in strata),
    )


def korn_graubard(strata: Sequence[StratumCount], *, batch: bool) -> Proportion | InsufficientData:
    """The conservative option: Clopper-Pearson on n* = n_eff (t_{n-1} / t_{n-H})², n* <= n (Korn & Graubard 1998).

    n_eff is that of `stratified_proportion`, the smaller of p(1-p)/V and Kish's size: with the first alone this one was
    at times the narrower of the two. Needs more decided units than strata.
    """
    found = stratified_proportion(strata, batch=batch)
    if isinstance(found, InsufficientData) or math.isinf(found.n_effective):
        return found
    seen = [stratum for stratum in strata if stratum.seen]
    freedom = found.n - len(seen)
    if freedom < 1:
        return InsufficientData("no stratum has two decided units: no degree of freedom is left")
    n = min(found.n_effective * float(stdtrit(found.n - 1, 0.975) / stdtrit(freedom, 0.975)) ** 2, found.n)
    events = n * found.estimate
    low = float(betaincinv(events, n - events + 1, 0.025)) if events > 0 else 0.0
    high = float(betaincinv(events + 1, n - events, 0.975)) if found.estimate < 1 else 1.0
    return replace(found, low=low, high=high, n_effective=n, method="stratified, Korn-Graubard")


def _effective_size(strata: Sequence[StratumCount], weights: Sequence[float], rate: float, *, batch: bool) -> float:
    """The smaller of the plug-in size and Kish's, which takes every stratum to have the same rate (Kish 1965)."""
    variance = kish = 0.0
    for weight, stratum in zip(weights, strata, strict=True):
        p, n = stratum.events / stratum.seen, stratum.seen
        left = 1 - n / stratum.size if batch else 1.0
        variance += weight**2 * left * p * (1 - p) / max(n - 1, 1)
        kish += weight**2 * left / n
    size = 1 / kish if kish else math.inf
    return min(size, rate * (1 - rate) / variance) if variance > 0 else size


def undecided_bounds(strata: Sequence[StratumCount]) -> tuple[float, float]:
    """The rate with every undecided unit good, and with every one bad; of a stratum not drawn nothing is known."""
    population = sum(stratum.size for stratum in strata)
    low = math.fsum(s.size * s.events / s.drawn for s in strata if s.drawn)
    high = math.fsum(s.size * (s.events + s.drawn - s.seen) / s.drawn if s.drawn else s.size for s in strata)
    return min(1.0, low / population), min(1.0, high / population)
