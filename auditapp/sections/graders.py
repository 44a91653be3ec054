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
    """The first grade and the repeat of each item and reviewer; the current version of both."""
    grades = Grade.objects.filter(
        slot__round__version=seen.version,
        slot__round__state=RoundState.RELEASED,
        current=True,
        acceptable__isnull=False,
    )
    rows = grades.order_by("pk").values_list("slot__item", "reviewer__username", "slot__role", "acceptable")
    firsts = {(item, who): said for item, who, role, said in rows if role == SlotRole.GRADE}
    repeats = {(item, who): said for item, who, role, said in rows if role == SlotRole.REPEAT}
    return [(key[1], str(firsts[key]), str(said)) for key, said in repeats.items() if key in firsts]


def _by_reviewer(looks: Looks) -> Json:
    found: defaultdict[str, list[bool]] = defaultdict(list)
    for who, first, again in looks:
        found[who].append(first == again)
    return [{"reviewer": who, "n": len(same), "same": sum(same)} for who, same in sorted(found.items())]
