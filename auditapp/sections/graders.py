"""One person against themselves: hidden repeats of items that they had graded before."""

from collections import Counter, defaultdict

from auditapp.models.reviews import Grade, RoundState, SlotRole
from auditapp.observations import Observations
from auditapp.sections.figures import ANSWERS, YES_NO, Json, figure
from auditapp.stats.agreement import kappa, raw_agreement
from auditapp.stats.proportions import InsufficientData, Proportion
from auditapp.stats.sensitivity import grader_error

Looks = list[tuple[str, str, str]]
"""Reviewer, what they said first, and what they said when it came back."""
_KEY = ("slot__item", "reviewer__username")


def grader_consistency(seen: Observations) -> Json:
    """First answer against repeat, in released rounds; the error of one grader from how often the two differ."""
    looks = _looks(seen)
    if not looks:
        return figure(InsufficientData("no item of a released round came back to the same reviewer"))
    counts = Counter((first, again) for _, first, again in looks)
    table = [[counts[first, again] for again in ANSWERS] for first in ANSWERS]
    decided = [row[: len(YES_NO)] for row in table[: len(YES_NO)]]
    raw = raw_agreement(decided)
    return {
        "items": len(looks),
        "answers": list(ANSWERS),
        "table": table,
        "raw": figure(raw),
        "kappa": figure(kappa(decided)),
        "error": figure(grader_error(1 - raw.estimate) if isinstance(raw, Proportion) else raw),
        "by_reviewer": _by_reviewer(looks),
    }


def _looks(seen: Observations) -> Looks:
    """The first grade and the repeat of each item and reviewer: the first as it was when the item came back."""
    grades = Grade.objects.filter(
        slot__round__version=seen.version, slot__round__state=RoundState.RELEASED, acceptable__isnull=False
    )
    repeats = grades.filter(slot__role=SlotRole.REPEAT, current=True).order_by("pk")
    came = {
        (item, who): (said, at)
        for item, who, said, at in repeats.values_list(*_KEY, "acceptable", "slot__first_viewed_at")
    }
    firsts: dict[tuple[int, str], str] = {}
    before = grades.filter(slot__role=SlotRole.GRADE, slot__item__in={item for item, _ in came}).order_by("number")
    for item, who, said, at in before.values_list(*_KEY, "acceptable", "submitted_at"):
        again = came.get((item, who))
        if again and (again[1] is None or at < again[1]):
            firsts[item, who] = str(said)
    return [(key[1], firsts[key], str(said)) for key, (said, _) in came.items() if key in firsts]


def _by_reviewer(looks: Looks) -> Json:
    found: defaultdict[str, list[bool]] = defaultdict(list)
    for who, first, again in looks:
        found[who].append(first == again)
    return [{"reviewer": who, "n": len(same), "same": sum(same)} for who, same in sorted(found.items())]
