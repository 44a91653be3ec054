"""What a run will have cost, from what its finished judgments cost."""

from dataclasses import dataclass
from decimal import Decimal

from auditapp.stats.proportions import InsufficientData

LEAST_FINISHED = 5


@dataclass(frozen=True, slots=True)
class Projection:
    """US dollars: the mean of the finished judgments, and that times all the planned ones."""

    per_judgment: Decimal
    total: Decimal
    finished: int


def projected_spend(
    *, cost: Decimal, finished: int, planned: int, of_unknown_cost: int = 0
) -> Projection | InsufficientData:
    """Mean cost of the `finished` judgments of known cost, in US dollars, times `planned`.

    The first judgments of a task fill the cache that later ones read: early figures are high rather than low. Where a
    tenth of what is finished has no known cost, a mean over the rest would say nothing of the whole.
    """
    if finished < min(LEAST_FINISHED, planned):
        return InsufficientData(f"too little data: {finished} finished judgments of known cost")
    if finished == 0:
        return InsufficientData("nothing is planned")
    if of_unknown_cost * 10 > finished + of_unknown_cost:
        return InsufficientData(f"{of_unknown_cost} finished judgments have no known cost")
    mean = cost / finished
    return Projection(mean, mean * planned, finished)


def share(part: int, whole: int) -> float | None:
    """A part of a whole between 0 and 1; None of nothing."""
    return part / whole if whole else None
