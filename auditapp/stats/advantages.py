"""What group-relative training makes of rewards: advantages, and how much of the push goes the wrong way."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from auditapp.stats.clusters import ClusterUnit, clustered_proportion
from auditapp.stats.proportions import InsufficientData, Proportion

Convention = Literal["population", "sample", "none"]
"""Divide by the population deviation, by the sample deviation (as TRL does), or not at all (Dr. GRPO)."""


@dataclass(frozen=True, slots=True)
class Advantages:
    """The advantage of a pass and of a fail in one group; both 0 where all attempts ended alike."""

    passed: float
    failed: float
    convention: Convention


@dataclass(frozen=True, slots=True)
class WrongPush:
    """The share of the positive advantage of all groups that false passes receive, with what it rests on."""

    share: float
    groups: int
    undecided: int
    low: float
    high: float


def group_advantages(
    group: int, passes: int, *, convention: Convention = "population", epsilon: float = 0.0
) -> Advantages:
    """(r - mean) / (deviation + epsilon) for 0/1 rewards, `passes` of `group` (Shao et al. 2024; Liu et al. 2025)."""
    if not (0 <= passes <= group and group >= 1 and epsilon >= 0):
        raise ValueError(f"{passes} passes in a group of {group} is no count")
    if passes in (0, group):
        return Advantages(0.0, 0.0, convention)
    mean = passes / group
    scale = 1.0
    if convention != "none":
        spread = group * mean * (1 - mean)
        scale = math.sqrt(spread / (group if convention == "population" else group - 1)) + epsilon
    return Advantages((1 - mean) / scale, -mean / scale, convention)


@dataclass(frozen=True, slots=True)
class GroupCount:
    """One task's attempts: all with a verdict, those passed, and of the passes how many are false or not decided."""

    attempts: int
    passes: int
    false_passes: int
    undecided: int = 0

    def __post_init__(self) -> None:
        if not (self.false_passes >= 0 and self.undecided >= 0 and self.passes <= self.attempts):
            raise ValueError(f"no counts: {self}")
        if self.false_passes + self.undecided > self.passes:
            raise ValueError(f"more false and undecided passes than passes: {self}")


def wrong_push(
    counts: Sequence[GroupCount], *, group: int = 16, convention: Convention = "population"
) -> WrongPush | InsufficientData:
    """The expected share of positive advantage that false passes get when groups of G are drawn from each task's rates.

    With pass rate p the expected total positive advantage of a group is sum_c P(c of G) c A(c); false passes get their
    share of the passes of the task. Undecided passes are left out of the share and span the bounds.
    """
    weighted = [
        (count, _positive(count.passes / count.attempts, group, convention)) for count in counts if count.passes
    ]
    total = math.fsum(push for _, push in weighted)
    if not total:
        return InsufficientData("no task has both passes and fails: no group would learn anything")
    known = [(count, push) for count, push in weighted if count.passes > count.undecided]
    decided = math.fsum(push for _, push in known)
    if not decided:
        return InsufficientData("nobody decided whether any of these passes is right")
    wrong = math.fsum(push * c.false_passes / (c.passes - c.undecided) for c, push in known)
    low = math.fsum(push * c.false_passes / c.passes for c, push in weighted)
    high = math.fsum(push * (c.false_passes + c.undecided) / c.passes for c, push in weighted)
    undecided = sum(count.undecided for count, _ in weighted)
    return WrongPush(wrong / decided, len(weighted), undecided, low / total, high / total)


def wrong_push_for_new_tasks(
    tasks: Sequence[Hashable], counts: Sequence[GroupCount], *, group: int = 16, convention: Convention = "population"
) -> Proportion | InsufficientData:
    """The share of `wrong_push` with its bounds, and an interval from tasks as clusters.

    A unit's push is split evenly over its decided passes, so that the rate of false ones is the same ratio. Undecided
    passes count as missing where their unit is pushed at all.
    """
    share = wrong_push(counts, group=group, convention=convention)
    if isinstance(share, InsufficientData):
        return share
    units: list[ClusterUnit] = []
    missing = 0
    for task, count in zip(tasks, counts, strict=True):
        decided = count.passes - count.undecided
        push = _positive(count.passes / count.attempts, group, convention) if count.passes else 0.0
        if not push:
            continue
        missing += count.undecided
        events = [True] * count.false_passes + [False] * (decided - count.false_passes)
        units += [ClusterUnit(task, push / decided, event) for event in events]
    found = clustered_proportion(units, missing=missing)
    return found if isinstance(found, InsufficientData) else replace(found, bounds=(share.low, share.high))


@lru_cache(maxsize=4096)
def _positive(rate: float, group: int, convention: Convention) -> float:
    """The expected total positive advantage of a group at a pass rate."""
    chances = (math.comb(group, c) * rate**c * (1 - rate) ** (group - c) for c in range(1, group))
    pushes = (c * group_advantages(group, c, convention=convention).passed for c in range(1, group))
    return math.fsum(chance * push for chance, push in zip(chances, pushes, strict=True))
