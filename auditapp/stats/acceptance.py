"""Is a limit met, by an interval: yes, no, or not known yet."""

from dataclasses import dataclass
from typing import Literal

Answer = Literal["met", "not met", "not enough data"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a limit is met, and in which words that was found."""

    verdict: Answer
    why: str


def held_below(low: float, high: float, limit: float) -> Verdict:
    """Met if the whole interval is at or below the limit, not met if it is above, else unknown."""
    if high <= limit:
        return Verdict("met", "the whole interval is below the limit")
    if low > limit:
        return Verdict("not met", "the whole interval is above the limit")
    return Verdict("not enough data", "the limit lies inside the interval")


def held_above(low: float, high: float, limit: float) -> Verdict:
    """Met if the whole interval is at or above the limit, not met if it is below, else unknown."""
    if low >= limit:
        return Verdict("met", "the whole interval is above the limit")
    if high < limit:
        return Verdict("not met", "the whole interval is below the limit")
    return Verdict("not enough data", "the limit lies inside the interval")


def covers(share: float | None, limit: float) -> Verdict:
    """Whether an estimate is about enough of the population; more reviews would cover more of it."""
    if share is None:
        return Verdict("not enough data", "nothing was estimated")
    if share >= limit:
        return Verdict("met", "the estimate is about that much of the population")
    return Verdict("not enough data", "people have graded nothing in the rest of the population")
