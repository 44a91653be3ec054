"""Double sampling: a judge looks at many, people at a random few inside each of its answers (Tenenbein 1970).

The judge's errors cancel: its answers only cut the strata. It may be bad; then it merely saves nothing.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from auditapp.stats.proportions import InsufficientData, Proportion, StratumCount, wilson


@dataclass(frozen=True, slots=True)
class JudgedStratum:
    """A stratum of `size` units (N_h) of which the judge looked at a random part, cut by what it answered.

    Each of `answers` (acceptable, not acceptable, no decision) is a StratumCount: judged so, graded by people, decided
    by people, events among these.
    """

    size: int
    answers: tuple[StratumCount, ...]

    def __post_init__(self) -> None:
        if self.judged > self.size:
            raise ValueError(f"{self.judged} were judged of {self.size}")

    @property
    def judged(self) -> int:
        return sum(answer.size for answer in self.answers)


@dataclass(frozen=True, slots=True)
class _Part:
    """One judge answer in one stratum: its weight in the population, n and rate of what people said."""

    weight: float
    n: int
    rate: float


def double_sampling(strata: Sequence[JudgedStratum]) -> Proportion | InsufficientData:
    """The population rate, post-stratified on the judge's answers: p_h = sum over answers of (N_hj/N_h) y_j/n_j.

    Wilson's interval with n_eff = p(1-p)/V, the smaller of two: V of `double_variance`, and V with the rate of each
    answer drawn toward the rate of all by two imagined units, so that an answer people have seen little of never
    passes for certain. Kish's size would forbid the very gain this is for. A judge's answer of which people decided
    nothing leaves the claim and is counted by `covered` against `population`; it is in the bounds.
    """
    parts = list(_parts(strata))
    population = sum(stratum.size for stratum in strata)
    missing = sum(answer.drawn - answer.seen for stratum in strata for answer in stratum.answers)
    if not parts:
        return InsufficientData("people decided none of what the judge looked at")
    share = math.fsum(part.weight for part in parts)
    rate = min(1.0, max(0.0, math.fsum(part.weight * part.rate for part in parts) / share))
    n_effective = _effective_size(strata, rate)
    low, high = wilson(rate, n_effective)
    return Proportion(
        estimate=rate,
        low=low,
        high=high,
        n=sum(part.n for part in parts),
        n_effective=n_effective,
        method="double sampling, post-stratified on the judge's answers, Wilson on the effective size",
        missing=missing,
        bounds=_bounds(strata, population),
        covered=round(share * population),
        population=population,
    )


def double_variance(strata: Sequence[JudgedStratum]) -> float:
    """V = sum W_j² p_j(1-p_j)/n_j + sum_h W_h² (1 - N'_h/N_h) sum_j w_j (p_j - p_h)² / N'_h, N'_h being judged.

    A judge that looked at everything adds no error of its own: the second sum is then 0. Nothing decided raises
    ValueError.
    """
    return _variance(strata, list(_parts(strata)))


def _variance(strata: Sequence[JudgedStratum], parts: Sequence[_Part]) -> float:
    if not parts:
        raise ValueError("nothing was decided")
    share = math.fsum(part.weight for part in parts)
    within = math.fsum(part.weight**2 * part.rate * (1 - part.rate) / part.n for part in parts)
    population = sum(stratum.size for stratum in strata)
    between = math.fsum((s.size / population) ** 2 * _first_phase(s) for s in strata if s.judged)
    return (within + between) / share**2


def _effective_size(strata: Sequence[JudgedStratum], rate: float) -> float:
    """The smaller of the plug-in size and that with shrunken rates, which is never degenerate."""
    parts = list(_parts(strata))
    overall = (sum(part.n * part.rate for part in parts) + 0.5) / (sum(part.n for part in parts) + 1)
    shrunk = [replace(part, rate=(part.n * part.rate + 2 * overall) / (part.n + 2)) for part in parts]
    middle = math.fsum(part.weight * part.rate for part in shrunk) / math.fsum(part.weight for part in shrunk)
    sizes = [middle * (1 - middle) / _variance(strata, shrunk)]
    if 0 < rate < 1 and (variance := _variance(strata, parts)) > 0:
        sizes.append(rate * (1 - rate) / variance)
    return min(sizes)


def _parts(strata: Sequence[JudgedStratum]) -> Iterator[_Part]:
    population = sum(stratum.size for stratum in strata)
    for stratum in strata:
        for answer in stratum.answers:
            if answer.seen:
                weight = stratum.size / population * answer.size / stratum.judged
                yield _Part(weight, answer.seen, answer.events / answer.seen)


def _first_phase(stratum: JudgedStratum) -> float:
    """The error of the judged part as a sample of its stratum."""
    seen = [answer for answer in stratum.answers if answer.seen]
    covered = sum(answer.size for answer in seen)
    if not covered:
        return 0.0
    rate = sum(answer.size * answer.events / answer.seen for answer in seen) / covered
    spread = sum(answer.size / covered * (answer.events / answer.seen - rate) ** 2 for answer in seen)
    return (1 - stratum.judged / stratum.size) * spread / stratum.judged


def _bounds(strata: Sequence[JudgedStratum], population: int) -> tuple[float, float]:
    """The rate with all that people left undecided good, and all of it bad; of what nobody saw nothing is known."""
    low = high = 0.0
    for stratum in strata:
        weight = stratum.size / stratum.judged if stratum.judged else 0.0
        for answer in stratum.answers:
            scale = weight * answer.size / answer.drawn if answer.drawn else 0.0
            low += scale * answer.events
            undecided = answer.events + answer.drawn - answer.seen
            high += scale * undecided if answer.drawn else weight * answer.size
        high += 0 if stratum.judged else stratum.size
    return low / population, min(1.0, high / population)
