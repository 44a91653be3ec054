"""How many reviews are needed, fixed before the draw."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from auditapp.stats.anytime import anytime_interval
from auditapp.stats.bounds import zero_events_finite
from auditapp.stats.proportions import Z95, InsufficientData, Proportion, wilson

LARGEST = 10_000_000


def reviews_for_half_width(rate: float, half_width: float, *, population: int | None = None) -> int:
    """The fewest reviews whose Wilson interval at this rate is at most twice `half_width` wide.

    A `population` applies the finite-population correction and caps the answer. Raises ValueError outside 0 < w < 1/2.
    """
    if not (0 <= rate <= 1 and 0 < half_width < 0.5):
        raise ValueError(f"no sample size for rate {rate} and half width {half_width}")
    size = _size_for_half_width(rate, half_width)
    if population is None:
        return max(1, math.ceil(size - 1e-9))
    # n of N are worth n / (1 - n/N), so n = size / (1 + size/N) (Cochran 1977, 4.2)
    return min(population, max(1, math.ceil(size / (1 + size / population) - 1e-9))) if population else 0


def reviews_for_upper_limit(rate: float, limit: float) -> int:
    """The fewest reviews whose interval stays below `limit` if the true rate is `rate`: needs rate < limit."""
    if not 0 <= rate < limit <= 1:
        raise ValueError(f"an upper limit of {limit} cannot be met at a rate of {rate}")
    return _first(lambda n: wilson(rate, n)[1] <= limit)


def reviews_for_zero_bound(limit: float, *, confidence: float = 0.95, population: int | None = None) -> int:
    """How many simple random units without an event bound the rate below `limit` (one-sided), of a finite `population`
    or of an endless one."""
    if not (0 < limit < 1 and 0 < confidence < 1 and population != 0):
        raise ValueError(f"no sample size for a bound of {limit} at {confidence}")
    if population is None:
        return max(1, math.ceil(math.log1p(-confidence) / math.log1p(-limit) - 1e-9))
    size = population

    def bounded(n: int) -> bool:
        found = zero_events_finite(size, min(n, size), confidence=confidence)
        return not isinstance(found, InsufficientData) and found.upper < limit

    return _first(bounded)


def items_for_difference(sigma_within: float, difference: float, *, looks: int = 1) -> int:
    """Items that make the judge's own noise small enough to find `difference` four times in five."""
    if not (sigma_within >= 0 and difference > 0 and looks >= 1):
        raise ValueError(f"no sample size for sigma {sigma_within} and a difference of {difference}")
    quantiles = Z95 + 0.8416212335729143
    return max(1, math.ceil(2 * (quantiles * sigma_within / difference) ** 2 / looks - 1e-9))


def _first(holds: Callable[[int], bool]) -> int:
    """The least n from 1 on for which a condition holds that stays true once it is."""
    high = 1
    while not holds(high):
        high *= 2
        if high > LARGEST:
            raise ValueError(f"more than {LARGEST:,} reviews would be needed")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


@dataclass(frozen=True, slots=True)
class Effort:
    """Further grades and the hours they take; None where no grade was timed."""

    grades_more: int
    minutes_per_grade: float | None
    hours: float | None


def effort(grades: int, seconds: float | None) -> Effort:
    """What `grades` further ones take at so many seconds each; None where no grade was timed."""
    if seconds is None:
        return Effort(grades, None, None)
    return Effort(grades, seconds / 60, grades * seconds / 3600)


@dataclass(frozen=True, slots=True)
class Further:
    """So many `grades` more, of the `left` ones of a finite population that nobody has graded; None is no end of them.

    They are enough once the `undecided` ones among those graded are settled too.
    """

    grades: int
    left: int | None = None
    undecided: int = 0


Needed = Further | InsufficientData


def more_for_half_width(rate: Proportion, half_width: float, *, graded: int, batch: bool = False) -> Needed:
    """Grades beyond the `graded` ones until the interval is 2 x `half_width` wide, if they are spread as these are.

    The effective size is taken to grow with the number of grades; with none graded yet each counts as one. `batch` and
    the rest are as in `more_for_upper_limit`.
    """
    if not 0 < half_width < 0.5:
        return InsufficientData("the interval has no width to halve")
    if not graded:
        whole = rate.population if batch else None
        return Further(reviews_for_half_width(rate.estimate, half_width, population=whole), whole)
    return _further(rate, _size_for_half_width(rate.estimate, half_width), batch=batch)


def _size_for_half_width(rate: float, half_width: float) -> float:
    """The effective size, a fraction as they are, at which Wilson's interval is 2 x `half_width` wide.

    With a = z²/n its half width is sqrt(a p q + a²/4) / (1 + a), which this solves for n.
    """
    spread, wanted = rate * (1 - rate), half_width**2
    return Z95**2 * (spread - 2 * wanted + math.sqrt(spread**2 + wanted * (1 - 4 * spread))) / (2 * wanted)


def more_for_upper_limit(rate: Proportion, limit: float, *, batch: bool = False, anytime: bool = False) -> Needed:
    """Further grades until the interval lies below `limit`, if the rate stays what it is; needs a rate below it.

    `batch` says that the rate is of the finite population it was drawn from: grading all of that ends all doubt, so no
    more are ever needed. `anytime` asks it of the interval that holds whenever one stopped.
    """
    if rate.estimate >= limit:
        return InsufficientData(f"the estimate is not below {limit:g}: no number of grades would show that it is")
    if anytime:
        return _further(rate, _least(lambda n: anytime_interval(rate.estimate, n)[1] <= limit), batch=batch)
    return _further(rate, Z95**2 * limit * (1 - limit) / (limit - rate.estimate) ** 2, batch=batch)


def _least(holds: Callable[[int], bool]) -> float:
    """As `_first`, infinite where that gives up."""
    try:
        return _first(holds)
    except ValueError:
        return math.inf


def _further(rate: Proportion, size: float, *, batch: bool) -> Needed:
    """Grades until the effective size is `size`, with the design effect d of those there are.

    m grades of a finite population are worth m / (d (1 - m/N)), so m = d size / (1 + d size / N) (Cochran 1977, 4.2).
    That correction is not made while drawn units are undecided: it is counted on only where nothing less is enough.
    """
    left = max(0, rate.covered - rate.n - rate.missing) if batch else None
    if rate.n_effective >= size:
        return Further(0, left)
    wanted = size * rate.n / rate.n_effective
    if left is None or (rate.missing and wanted - rate.n <= left):
        return _uncorrected(rate, wanted, left)
    if not (left or rate.missing):
        return InsufficientData("all that the estimate is about is graded")
    if not rate.missing:  # the effective size has the correction in it
        wanted /= 1 - rate.n / rate.covered
    wanted = rate.covered / (1 + rate.covered / wanted)
    grades = math.ceil(wanted - 1e-9) - rate.n - rate.missing
    return Further(min(left, max(0, grades)), left, rate.missing)


def _uncorrected(rate: Proportion, wanted: float, left: int | None) -> Needed:
    if math.isinf(wanted):
        return InsufficientData("the rate is so near the limit that no number of grades in sight would show it")
    return Further(max(0, math.ceil(wanted - 1e-9) - rate.n), left)
