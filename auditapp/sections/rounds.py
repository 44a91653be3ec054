"""Rounds of a version: how far they got, whether they were extended after looking, and what stayed undone."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from auditapp.models.reviews import ReviewRound, RoundKind, RoundState, Slot, SlotRole, SlotState
from auditapp.models.rounds import ItemDraw, RoundDraw
from auditapp.observations import Observations
from auditapp.sections.figures import Json, figure
from auditapp.sections.rates import WRONG, primary_rate
from auditapp.stats.anytime import AnytimeInterval, anytime_rate
from auditapp.stats.proportions import InsufficientData, Proportion, as_result

ENDED = (RoundState.CLOSED, RoundState.RELEASED)
NOT_EXTENDED = "no released round was extended after looking: the other intervals hold"


def rounds(seen: Observations) -> Json:
    """Every round that has ended, with counts; never what its grades say before release."""
    return [
        _round(found)
        for found in ReviewRound.objects.filter(version=seen.version, state__in=ENDED)
        .exclude(kind=RoundKind.PRACTICE)
        .order_by("number")
    ]


def _round(found: ReviewRound) -> Json:
    slots = Slot.objects.filter(round=found, role=SlotRole.GRADE)
    done = set(slots.filter(state=SlotState.SUBMITTED).values_list("item", flat=True))
    items = found.items.count()
    return {
        "number": found.number,
        "title": found.title,
        "kind": found.kind,
        "state": found.state,
        "seed": found.seed,
        "items": items,
        "graded": len(done),
        "finished": len(done) == items,
        "extensions": found.extensions,
        "is_scripted": found.is_scripted,
        "released_at": found.released_at.isoformat() if found.released_at else None,
        "by_stratum": _by_stratum(found, done),
    }


def _by_stratum(found: ReviewRound, done: set[int]) -> Json:
    """Finished against unfinished items: those that take long end last, and are not like the others."""
    draws: Any = ItemDraw.objects.filter(item__round=found).select_related("stratum__stratum")
    counts: defaultdict[tuple[str, str, str], Counter[bool]] = defaultdict(Counter)
    for draw in draws:
        stratum = draw.stratum.stratum
        counts[stratum.verifier_status, stratum.environment, draw.stratum.answer][draw.item_id in done] += 1
    return [
        {"verifier_status": status, "environment": environment, "answer": answer, "done": n[True], "undone": n[False]}
        for (status, environment, answer), n in sorted(counts.items())
    ]


def anytime(seen: Observations) -> Json:
    """The intervals that hold although somebody looked and went on; needed where a round was extended."""
    names = extended(seen)
    if not names:
        return {direction: figure(InsufficientData(NOT_EXTENDED)) for direction in WRONG}
    return {direction: _anytime(seen, direction, names) for direction in WRONG}


def extended(seen: Observations) -> list[str]:
    """Titles of released rounds of this sample that were extended after they had been looked at."""
    drawn = RoundDraw.objects.filter(sample=seen.sample, round__state=RoundState.RELEASED, round__extensions__gt=0)
    return list(drawn.order_by("pk").values_list("round__title", flat=True)) if seen.sample else []


def _anytime(seen: Observations, direction: str, names: list[str]) -> Json:
    labels, rate = primary_rate(seen, direction)
    found = rate if isinstance(rate, InsufficientData) else anytime_rate(rate)
    return figure(found) | {"labels": labels, "rounds": names}


# --- before a round is extended


@dataclass(frozen=True, slots=True)
class Widened:
    """A rate as it is stated today, and with the interval it would have if one may look and go on."""

    direction: str
    today: Proportion
    sure: AnytimeInterval

    @property
    def times(self) -> float:
        return (self.sure.high - self.sure.low) / (self.today.high - self.today.low)


@dataclass(frozen=True, slots=True)
class LookingCost:
    """What extending costs the rates of today; `rounds` are extended ones for which they pay already."""

    rounds: list[str]
    rates: list[Widened]


def looking_cost(figures: Mapping[str, Any]) -> LookingCost:
    """What the intervals among stored figures become once a round was extended after looking."""
    paid = [found["rounds"] for found in figures["anytime"].values() if "insufficient" not in found]
    rates = [] if paid else [_widened(direction, as_result(figures[direction])) for direction in WRONG]
    return LookingCost(paid[0] if paid else [], [found for found in rates if found])


def _widened(direction: str, rate: Proportion | InsufficientData) -> Widened | None:
    if isinstance(rate, InsufficientData) or rate.high <= rate.low:
        return None
    sure = anytime_rate(rate)
    return None if isinstance(sure, InsufficientData) else Widened(direction, rate, sure)
