"""How many reviews are needed, fixed before the draw."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from auditapp.stats.proportions import Z95, InsufficientData, Proportion, wilson

LARGEST = 10_000_000


def reviews_for_half_width(rate: float, half_width: float, *, population: int | None = None) -> int:
    """The fewest reviews whose Wilson interval at this rate is at most twice `half_width` wide.

    A `population` applies the finite-population correction and caps the answer. Raises ValueError outside 0 < w < 1/2.
    """
    if not (0 <= rate <= 1 and 0 < half_width < 0.5):
        raise ValueError(f"no sample size for rate {rate} and half width {half_width}")
    n = _first(lambda n: _width(rate, n) <= 2 * half_width)
    return n if population is None else min(population, math.ceil(n / (1 + (n - 1) / max(population, 1))))


def _width(rate: float, n: int) -> float:
    low, high = wilson(rate, n)
    return high - low


def reviews_for_upper_limit(rate: float, limit: float) -> int:
    """The fewest reviews whose interval stays below `limit` if the true rate is `rate`: needs rate < limit."""
    if not 0 <= rate < limit <= 1:
        raise ValueError(f"an upper limit of {limit} cannot be met at a rate of {rate}")
    return _first(lambda n: wilson(rate, n)[1] <= limit)


def reviews_for_zero_bound(limit: float, *, confidence: float = 0.95) -> int:
    """How many simple random units without an event bound the rate below `limit` (one-sided)."""
    if not (0 < limit < 1 and 0 < confidence < 1):
        raise ValueError(f"no sample size for a bound of {limit} at {confidence}")
    return max(1, math.ceil(math.log1p(-confidence) / math.log1p(-limit) - 1e-9))


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


def effort(grades: int, seconds: Sequence[int]) -> Effort:
    """What `grades` further ones take at the mean of those that were timed, in seconds."""
    if not seconds:
        return Effort(grades, None, None)
    minutes = math.fsum(seconds) / len(seconds) / 60
    return Effort(grades, minutes, grades * minutes / 60)


def more_for_half_width(
    rate: Proportion, half_width: float, *, graded: int, population: int | None = None
) -> int | InsufficientData:
    """Grades beyond the `graded` ones until the interval is 2 x `half_width` wide, if they are spread as these are.

    The effective size is taken to grow with the number of grades. With none graded yet each counts as one.
    """
    if not 0 < half_width < 0.5:
        return InsufficientData("the interval has no width to halve")
    needed = reviews_for_half_width(rate.estimate, half_width, population=population)
    if not graded or math.isinf(rate.n_effective):
        return needed
    return max(0, math.ceil(needed * graded / rate.n_effective) - graded)


def more_for_upper_limit(rate: Proportion, limit: float) -> int | InsufficientData:
    """Further grades until the interval lies below `limit`, if the rate stays what it is; needs a rate below it."""
    if rate.estimate >= limit:
        return InsufficientData(f"the estimate is not below {limit:g}: no number of grades would show that it is")
    if rate.high <= limit:
        return 0
    needed = reviews_for_upper_limit(rate.estimate, limit)
    return max(0, math.ceil(needed * rate.n / rate.n_effective) - rate.n)
