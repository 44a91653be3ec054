"""A judge against itself: the same frozen trajectory looked at several times. Stable is not the same as right."""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from auditapp.stats.proportions import Z95, InsufficientData

POWER_80 = 0.8416212335729143
"""The 80 % quantile of the normal distribution."""


@dataclass(frozen=True, slots=True)
class SelfConsistency:
    """Spread between looks at one item, over `items` with two or more looks.

    `sigma_within` is on a 0-1 scale; `pairwise_flip` is the chance that two looks differ and does not depend on how
    many there were. `icc` is None where all items and looks agree or items have different numbers of looks.
    """

    sigma_within: float
    pairwise_flip: float
    icc: float | None
    items: int
    looks: int
    single: int


@dataclass(frozen=True, slots=True)
class Difference:
    """Standard error of a difference of two batch rates, the least difference that is significant at 95 %, and the
    least that is found four times in five."""

    se: float
    least_significant: float
    detectable: float
    n: int


def self_consistency(looks: Sequence[Sequence[int]]) -> SelfConsistency | InsufficientData:
    """sigma_w² is the mean of c(m-c)/(m(m-1)) over items with c ones in m looks; the flip rate is twice that.

    Looks are 0 or 1, else ValueError; items with a single look are counted by `single` and used for nothing else.
    """
    if any(value not in (0, 1) for item in looks for value in item):
        raise ValueError("looks are 0 or 1; abstentions go into pairwise_flip as a category")
    repeated = [item for item in looks if len(item) >= 2]
    if not repeated:
        return InsufficientData("no item was looked at twice")
    spreads = [(c := sum(item)) * (m - c) / (m * (m - 1)) for item in repeated for m in (len(item),)]
    variance = math.fsum(spreads) / len(spreads)
    return SelfConsistency(
        sigma_within=math.sqrt(variance),
        pairwise_flip=2 * variance,
        icc=intraclass_correlation(repeated),
        items=len(repeated),
        looks=sum(map(len, repeated)),
        single=sum(len(item) == 1 for item in looks),
    )


def intraclass_correlation(looks: Sequence[Sequence[float]]) -> float | None:
    """ICC(1) of a one-way layout, (MSB - MSW)/(MSB + (m-1) MSW) (Shrout & Fleiss 1979); None where undefined."""
    sizes = {len(item) for item in looks}
    if len(looks) < 2 or len(sizes) != 1 or (m := sizes.pop()) < 2:
        return None
    means = [math.fsum(item) / m for item in looks]
    grand = math.fsum(means) / len(means)
    between = m * math.fsum((mean - grand) ** 2 for mean in means) / (len(means) - 1)
    residuals = ((value - mean) ** 2 for item, mean in zip(looks, means, strict=True) for value in item)
    within = math.fsum(residuals) / (len(means) * (m - 1))
    total = between + (m - 1) * within
    return (between - within) / total if total else None


def pairwise_flip(looks: Sequence[Sequence[Hashable]]) -> float | InsufficientData:
    """The chance that two looks at an item give different answers, an abstention being an answer like any other."""
    repeated = [item for item in looks if len(item) >= 2]
    if not repeated:
        return InsufficientData("no item was looked at twice")
    return math.fsum(_differing(item) for item in repeated) / len(repeated)


def _differing(item: Sequence[Hashable]) -> float:
    m = len(item)
    return 1 - sum(count * (count - 1) for count in Counter(item).values()) / (m * (m - 1))


def judge_noise(sigma_within: float, *, items: int, looks: int = 1) -> Difference:
    """What the judge alone moves between two passes over one batch: SE = sigma sqrt(2/(n m))."""
    _check(sigma_within, items, looks)
    return _difference(sigma_within * math.sqrt(2 / (items * looks)), items)


def paired_models(sigma_within: float, *, sd_difference: float, items: int, looks: int = 1) -> Difference:
    """Two models on the same tasks: SE = sqrt((2 sigma²/m + sd²)/n), sd being that of the true item differences."""
    _check(sigma_within, items, looks)
    if not (sd_difference >= 0 and math.isfinite(sd_difference)):
        raise ValueError(f"a standard deviation is not {sd_difference}")
    return _difference(math.sqrt((2 * sigma_within**2 / looks + sd_difference**2) / items), items)


def _difference(se: float, items: int) -> Difference:
    return Difference(se, Z95 * se, (Z95 + POWER_80) * se, items)


def _check(sigma_within: float, items: int, looks: int) -> None:
    if not (sigma_within >= 0 and math.isfinite(sigma_within) and items >= 1 and looks >= 1):
        raise ValueError(f"no noise for sigma {sigma_within}, {items} items and {looks} looks")


@dataclass(frozen=True, slots=True)
class Separation:
    """The mean gap between two models over `items` shared ones, beside the judge's noise.

    `in_sigmas` is the gap over sigma (None where sigma is 0); `separated` says whether the gap is at least the least
    significant difference; `items_needed` finds a gap of this size four times in five, None where there is no gap.
    """

    gap: float
    in_sigmas: float | None
    difference: Difference
    separated: bool
    items_needed: int | None
    items: int


def separation(gaps: Sequence[float], *, sigma_within: float, looks: int = 1) -> Separation | InsufficientData:
    """Can a judge of this noise tell two models apart? `gaps` are their differences, item by item, each a mean of
    `looks`.

    What the observed gaps scatter beyond 2 sigma²/m is taken for true scatter. Needs two items.
    """
    n = len(gaps)
    if n < 2:
        return InsufficientData("the two models share fewer than two tasks with decided work of both")
    mean = math.fsum(gaps) / n
    observed = math.fsum((gap - mean) ** 2 for gap in gaps) / (n - 1)
    true = math.sqrt(max(0.0, observed - 2 * sigma_within**2 / looks))
    found = paired_models(sigma_within, sd_difference=true, items=n, looks=looks)
    needed = None if mean == 0 else max(2, math.ceil(n * (found.detectable / abs(mean)) ** 2))
    return Separation(
        gap=mean,
        in_sigmas=mean / sigma_within if sigma_within else None,
        difference=found,
        separated=abs(mean) >= found.least_significant and mean != 0,
        items_needed=needed,
        items=n,
    )
