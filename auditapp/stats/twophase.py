"""Double sampling: a judge looks at many, people at a random few inside each of its answers (Tenenbein 1970).

The judge's errors cancel: its answers only cut the strata. It may be bad; then it merely saves nothing.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from auditapp.stats.proportions import InsufficientData, Proportion, StratumCount, wilson

METHOD = "double sampling, post-stratified on the judge's answers, Wilson on the effective size"


EPSILON = 1e-15
"""A variance below this is rounding: everything was decided."""


@dataclass(frozen=True, slots=True)
class JudgedStratum:
    """A stratum of `size` units (N_h) of which the judge looked at a random part, cut by what it answered.

    Each of `answers` (acceptable, not acceptable, no decision) is a StratumCount: judged so, graded by people, decided
    by people, events among these. `names` say which answers are the same in two strata, their places where they are not
    given. `kin` names, nearest first, what this stratum shares with those that may lend it what people said.
    """

    size: int
    answers: tuple[StratumCount, ...]
    names: tuple[Hashable, ...] = ()
    kin: tuple[Hashable, ...] = ()

    def __post_init__(self) -> None:
        if self.judged > self.size:
            raise ValueError(f"{self.judged} were judged of {self.size}")
        if self.names and len(self.names) != len(self.answers):
            raise ValueError(f"{len(self.names)} names for {len(self.answers)} answers")

    @property
    def judged(self) -> int:
        return sum(answer.size for answer in self.answers)


@dataclass(frozen=True, slots=True)
class _Part:
    """One judge answer in one stratum: its weight in the population, n and rate of what people said."""

    weight: float
    n: int
    rate: float
    stratum: int
    answer: int
    lent: float = 0.0


def double_sampling(strata: Sequence[JudgedStratum]) -> Proportion | InsufficientData:
    """The population rate, post-stratified on the judge's answers: p_h = sum over answers of (N_hj/N_h) y_j/n_j.

    Wilson's interval with n_eff = p(1-p)/V, the smaller of two: V of `double_variance`, and V with the rate of each
    answer drawn toward the rate of all by two imagined units, so that an answer people have seen little of never
    passes for certain. Kish's size would forbid the very gain this is for. Unless drawn units are undecided, V is that
    of a sample without replacement from this very population: W_j² p_j(1-p_j) (1/n_j - f_h/N_hj).

    An answer of which people decided nothing in a stratum is taken to be like the same answer in strata of its kin, and
    the method says of how many units that holds; without such it leaves the claim and is counted by `covered` against
    `population`. It is in the bounds as unknown.
    """
    parts = list(_parts(strata))
    population = sum(stratum.size for stratum in strata)
    missing = sum(answer.drawn - answer.seen for stratum in strata for answer in stratum.answers)
    if not parts:
        return InsufficientData("people decided none of what the judge looked at")
    share = math.fsum(part.weight for part in parts)
    rate = min(1.0, max(0.0, math.fsum(part.weight * part.rate for part in parts) / share))
    n_effective = _effective_size(strata, rate, batch=not missing)
    low, high = wilson(rate, n_effective)
    return Proportion(
        estimate=rate,
        low=low,
        high=high,
        n=sum(part.n for part in parts),
        n_effective=n_effective,
        method=METHOD + ("" if missing else ", this batch") + _lent(parts, population),
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


def _variance(strata: Sequence[JudgedStratum], parts: Sequence[_Part], *, batch: bool = False) -> float:
    """With `batch`, each within-term loses its share of a finite population, W_j² p_j(1-p_j) f_h / N_hj."""
    if not parts:
        raise ValueError("nothing was decided")
    share = math.fsum(part.weight for part in parts)
    within = math.fsum(part.weight**2 * part.rate * (1 - part.rate) / part.n for part in parts)
    if batch:
        within -= math.fsum(_known(strata[part.stratum], part) for part in parts)
    population = sum(stratum.size for stratum in strata)
    between = math.fsum((s.size / population) ** 2 * _first_phase(s) for s in strata if s.judged)
    return max(0.0, within + between) / share**2


def _known(stratum: JudgedStratum, part: _Part) -> float:
    own = part.weight - part.lent
    judged = stratum.judged / stratum.size
    return own**2 * part.rate * (1 - part.rate) * judged / stratum.answers[part.answer].size


def _effective_size(strata: Sequence[JudgedStratum], rate: float, *, batch: bool) -> float:
    """The smaller of the plug-in size and that with shrunken rates, which is never degenerate; infinite where all is
    known."""
    parts = list(_parts(strata))
    shrunk = _shrunk(parts)
    middle = math.fsum(part.weight * part.rate for part in shrunk) / math.fsum(part.weight for part in shrunk)
    careful = _variance(strata, shrunk, batch=batch)
    sizes = [middle * (1 - middle) / careful if careful > EPSILON else math.inf]
    if 0 < rate < 1 and (variance := _variance(strata, parts, batch=batch)) > EPSILON:
        sizes.append(rate * (1 - rate) / variance)
    return min(sizes)


def _parts(strata: Sequence[JudgedStratum]) -> Iterator[_Part]:
    """What people decided; weights hold those of kin of which they decided nothing."""
    weights, lenders = _weights(strata), _lenders(strata)
    wanted: defaultdict[_Key, float] = defaultdict(float)
    for h, j, stratum, answer in _cells(strata):
        if not answer.seen and (nearest := _nearest(stratum, j, lenders)):
            wanted[nearest] += weights[h, j]
    for h, j, stratum, answer in _cells(strata):
        if answer.seen:
            weight = weights[h, j]
            lent = math.fsum(wanted[key] * weight / lenders[key] for key in _keys(stratum, j) if key in wanted)
            yield _Part(weight + lent, answer.seen, answer.events / answer.seen, h, j, lent)


def _weights(strata: Sequence[JudgedStratum]) -> dict[tuple[int, int], float]:
    population = sum(stratum.size for stratum in strata)
    return {(h, j): s.size / population * answer.size / s.judged for h, j, s, answer in _cells(strata)}


def _lenders(strata: Sequence[JudgedStratum]) -> "dict[_Key, float]":
    """The weight of all that people decided something of, by what could be lent from it."""
    weights = _weights(strata)
    found: defaultdict[_Key, float] = defaultdict(float)
    for h, j, stratum, answer in _cells(strata):
        for key in _keys(stratum, j) if answer.seen else ():
            found[key] += weights[h, j]
    return dict(found)


def _nearest(stratum: JudgedStratum, answer: int, lenders: "dict[_Key, float]") -> "_Key | None":
    return next((key for key in _keys(stratum, answer) if key in lenders), None)


_Key = tuple[int, Hashable, Hashable]
"""Which of its kin, the nearest being 0, what they share, and the answer."""


def _keys(stratum: JudgedStratum, answer: int) -> list[_Key]:
    name = stratum.names[answer] if stratum.names else answer
    return [(level, shared, name) for level, shared in enumerate(stratum.kin)]


def _cells(strata: Sequence[JudgedStratum]) -> Iterator[tuple[int, int, JudgedStratum, StratumCount]]:
    for h, stratum in enumerate(strata):
        for j, answer in enumerate(stratum.answers):
            if answer.size:
                yield h, j, stratum, answer


def _lent(parts: Sequence[_Part], population: int) -> str:
    lent = round(math.fsum(part.lent for part in parts) * population)
    return f"; {lent} units that people saw none of taken to be like their neighbors" if lent else ""


def lent_sizes(strata: Sequence[JudgedStratum]) -> list[list[int]]:
    """By stratum and answer, how many units of the population each stands for once empty ones were lent to their kin.

    Whole numbers by largest remainder that sum to N; 0 for an empty answer that some kin stands for.
    """
    population = sum(stratum.size for stratum in strata)
    weights, lenders = _weights(strata), _lenders(strata)
    quotas = {(part.stratum, part.answer): part.weight * population for part in _parts(strata)}
    for h, j, stratum, _ in _cells(strata):
        alone = _nearest(stratum, j, lenders) is None
        quotas.setdefault((h, j), weights[h, j] * population if alone else 0.0)
    sizes = {cell: math.floor(quota + 1e-9) for cell, quota in quotas.items()}
    left = round(math.fsum(quotas.values())) - sum(sizes.values())
    for cell in sorted(quotas, key=lambda cell: (sizes[cell] - quotas[cell], cell))[:left]:
        sizes[cell] += 1
    return [[sizes.get((h, j), 0) for j in range(len(stratum.answers))] for h, stratum in enumerate(strata)]


@dataclass(frozen=True, slots=True)
class VariancePart:
    """What one answer in one stratum adds to the variance, as a share of the whole; both counted from 0."""

    stratum: int
    answer: int
    weight: float
    n: int
    share: float


def variance_parts(strata: Sequence[JudgedStratum]) -> tuple[VariancePart, ...]:
    """Where the variance of `double_sampling` comes from, largest first: W_j² p_j(1-p_j)/n_j with shrunken rates.

    The rates are drawn toward the mean by two imagined units: an answer that was seen once is not certain.
    """
    parts = _shrunk(list(_parts(strata)))
    found = [part.weight**2 * part.rate * (1 - part.rate) / part.n for part in parts]
    total = math.fsum(found)
    rows = [
        VariancePart(part.stratum, part.answer, part.weight, part.n, value / total)
        for part, value in zip(parts, found, strict=True)
    ]
    return tuple(sorted(rows, key=lambda row: -row.share))


def planned_parts(strata: Sequence[JudgedStratum]) -> tuple[VariancePart, ...]:
    """As `variance_parts` before anybody graded: what each answer would add at one rate and one grade each."""
    cells = list(_cells(strata))
    weights = _weights(strata)
    total = math.fsum(weights[h, j] ** 2 for h, j, _, _ in cells)
    rows = [VariancePart(h, j, weights[h, j], 0, weights[h, j] ** 2 / total) for h, j, _, _ in cells]
    return tuple(sorted(rows, key=lambda row: -row.share))


def _shrunk(parts: Sequence[_Part]) -> list[_Part]:
    if not parts:
        return []
    overall = (sum(part.n * part.rate for part in parts) + 0.5) / (sum(part.n for part in parts) + 1)
    return [replace(part, rate=(part.n * part.rate + 2 * overall) / (part.n + 2)) for part in parts]


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
    return min(1.0, low / population), min(1.0, high / population)
