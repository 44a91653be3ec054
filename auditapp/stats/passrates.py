"""How the pass rates of tasks are spread, and what becomes of them when people correct the verifier."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from auditapp.stats.attempts import BetaBinomial
from auditapp.stats.clusters import ClusterUnit, clustered_proportion
from auditapp.stats.proportions import InsufficientData, Proportion

Part = Literal["expansion", "below", "productive", "above", "saturated"]
PARTS: tuple[Part, ...] = ("expansion", "below", "productive", "above", "saturated")
BAND = (0.2, 0.8)
Shape = Literal["two heaps", "one heap", "leaning to fail", "leaning to pass"]


def part_of(n: int, c: int) -> Part:
    """Where a unit of n attempts with c passes lies: nothing passed, below the band, in it, above it, all passed.

    Nothing passed means pass@k = 0 at the largest k there is; the band holds its ends.
    """
    if not (n >= 1 and 0 <= c <= n):
        raise ValueError(f"{c} passes of {n} attempts is no count")
    if c in (0, n):
        return "saturated" if c else "expansion"
    low, high = BAND
    if c < low * n:
        return "below"
    return "above" if c > high * n else "productive"


def share_of_units(tasks: Sequence[Hashable], members: Sequence[bool]) -> Proportion | InsufficientData:
    """The share of units that are members, for new tasks like these: units of one task count together."""
    units = [ClusterUnit(task, 1.0, member) for task, member in zip(tasks, members, strict=True)]
    return clustered_proportion(units)


def shape_of(fitted: BetaBinomial) -> Shape:
    """The form of a fitted Beta distribution of pass rates: with a < 1 and b < 1 it has a heap at either end."""
    if fitted.a < 1 and fitted.b < 1:
        return "two heaps"
    if fitted.a > 1 and fitted.b > 1:
        return "one heap"
    return "leaning to pass" if fitted.a > fitted.b else "leaning to fail"


@dataclass(frozen=True, slots=True)
class GradedCount:
    """Attempts at one task, those passed, and what people decided of the passes and of the fails."""

    attempts: int
    passes: int
    right_passes: int = 0
    wrong_passes: int = 0
    right_fails: int = 0
    wrong_fails: int = 0

    def __post_init__(self) -> None:
        decided = self.right_passes + self.wrong_passes, self.right_fails + self.wrong_fails
        if min(self.right_passes, self.wrong_passes, self.right_fails, self.wrong_fails) < 0:
            raise ValueError(f"counts are not negative: {self}")
        if not (decided[0] <= self.passes <= self.attempts and decided[1] <= self.attempts - self.passes):
            raise ValueError(f"more decided than there are: {self}")


@dataclass(frozen=True, slots=True)
class VerdictShares:
    """Of one task, the share of its passes and of its fails that people call acceptable; None where none is decided."""

    passes: float | None
    fails: float | None


def verdict_shares(counts: Sequence[GradedCount]) -> VerdictShares:
    """The shares of one task over all who attempted it: the verifier's errors are taken to be the task's."""
    right, wrong = sum(c.right_passes for c in counts), sum(c.wrong_passes for c in counts)
    good, bad = sum(c.wrong_fails for c in counts), sum(c.right_fails for c in counts)
    return VerdictShares(
        right / (right + wrong) if right + wrong else None, good / (good + bad) if good + bad else None
    )


def corrected_passes(count: GradedCount, shares: VerdictShares) -> float | None:
    """The expected number of acceptable attempts; None where people decided none of a verdict that the unit has."""
    fails = count.attempts - count.passes
    if (count.passes and shares.passes is None) or (fails and shares.fails is None):
        return None
    return count.passes * (shares.passes or 0.0) + fails * (shares.fails or 0.0)


def possible_passes(count: GradedCount) -> tuple[int, int]:
    """The least and the most acceptable attempts that what people decided allows; nothing else is assumed."""
    return count.right_passes + count.wrong_fails, count.attempts - count.wrong_passes - count.right_fails


def informative_at(rate: float, group: int) -> float:
    """1 - p^G - (1-p)^G: the chance that a group drawn at this rate holds a pass and a fail."""
    return max(0.0, 1 - rate**group - (1 - rate) ** group)


def informative_bounds(counts: Sequence[GradedCount], group: int) -> tuple[float, float] | InsufficientData:
    """The mean over units of the least and the most of `informative_at`, over all rates that the grades allow."""
    if not counts:
        return InsufficientData("no attempt has a verdict that counts")
    ends = [_ends(count, group) for count in counts]
    return math.fsum(low for low, _ in ends) / len(ends), math.fsum(high for _, high in ends) / len(ends)


def _ends(count: GradedCount, group: int) -> tuple[float, float]:
    least, most = (found / count.attempts for found in possible_passes(count))
    values = informative_at(least, group), informative_at(most, group)
    return min(values), informative_at(0.5, group) if least <= 0.5 <= most else max(values)
