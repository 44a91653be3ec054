"""How long people take for an item."""

from dataclasses import dataclass
from typing import Literal

from django.db.models import QuerySet

from auditapp.models.datasets import Dataset
from auditapp.models.reviews import Grade, ReviewRound, RoundKind, RoundState
from auditapp.stats.progress import median_seconds

NEWEST = 1000
ASSUMED_SECONDS = 600
"""What an item is taken to need where nobody has graded one yet: ten minutes."""


def seconds_of(grades: QuerySet[Grade]) -> float | None:
    """The median time of the newest of some grades; None where none was timed."""
    timed = grades.filter(current=True, seconds__isnull=False).order_by("-pk")
    return median_seconds([seconds or 0 for seconds in timed.values_list("seconds", flat=True)[:NEWEST]])


def usual_seconds(dataset: Dataset, kind: str = RoundKind.BLIND, *, released: bool = False) -> float | None:
    """The median time of the newest grades by people in a dataset's rounds of one kind; None before the first.

    Reading an instruction takes another time than grading a trajectory, and a script takes none: neither says how long
    the other takes. Figures rest on `released` rounds alone.
    """
    rounds = ReviewRound.objects.filter(version__dataset=dataset, kind=kind, is_scripted=False)
    if released:
        rounds = rounds.filter(state=RoundState.RELEASED)
    return seconds_of(Grade.objects.filter(slot__round__in=rounds))


@dataclass(frozen=True, slots=True)
class Pace:
    """What an item is taken to need, and by what: grades of the round itself, earlier ones, or no more than a guess."""

    seconds: float
    by: Literal["round", "earlier", "assumed"]

    def hours(self, slots: int) -> float:
        """Hours of work in so many slots."""
        return slots * self.seconds / 3600


def pace_of(dataset: Dataset, kind: str = RoundKind.BLIND, *, own: float | None = None) -> Pace:
    """The pace of a round with the median time of its `own` grades; before the first, that of earlier ones like it."""
    if own:
        return Pace(own, "round")
    earlier = usual_seconds(dataset, kind)
    return Pace(earlier, "earlier") if earlier else Pace(ASSUMED_SECONDS, "assumed")
