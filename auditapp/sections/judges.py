"""Two judges on the same trajectories: who says what, and who agrees with people more often."""

from collections import defaultdict
from itertools import combinations
from typing import Any

from auditapp.models.labels import LabelSource, labels
from auditapp.observations import Observations
from auditapp.sections.figures import ANSWERS, YES_NO, Json, figure
from auditapp.stats.pairs import paired_proportions
from auditapp.stats.proportions import InsufficientData

Answers = dict[int, str]
"""What one judge said, by trajectory."""


def judges_paired(seen: Observations) -> Json:
    """Every two judges that looked at the same drawn trajectories, those made here and those imported."""
    said = said_by_judges(seen)
    people = {unit.trajectory: unit.human for unit in seen.units if unit.human in YES_NO}
    found = [
        _pair(one, other, said[one], said[other], people)
        for one, other in combinations(sorted(said), 2)
        if said[one].keys() & said[other].keys()
    ]
    return found or figure(InsufficientData("no two judges have looked at the same trajectories"))


def said_by_judges(seen: Observations) -> dict[tuple[str, str], Answers]:
    """By name and digest of each judge: its first looks at drawn trajectories, unknown where it did not decide."""
    drawn = {unit.trajectory for unit in seen.units}
    sources = (LabelSource.JUDGE, LabelSource.IMPORTED_JUDGE)
    rows: Any = labels(seen.version).filter(source__in=sources).exclude(replicate__gt=0)
    finished = rows.filter(state="completed").values_list(
        "trajectory_id", "config__name", "config__digest", "labeler", "acceptable"
    )
    found: defaultdict[tuple[str, str], Answers] = defaultdict(dict)
    for trajectory, name, digest, labeler, acceptable in finished:
        if trajectory in drawn:
            found[name or labeler, digest or ""][trajectory] = acceptable or "unknown"
    return dict(found)


def _pair(one: tuple[str, str], other: tuple[str, str], first: Answers, second: Answers, people: Any) -> Json:
    both = sorted(first.keys() & second.keys())
    table = [[sum(first[t] == a and second[t] == b for t in both) for b in ANSWERS] for a in ANSWERS]
    decided = [t for t in both if first[t] in YES_NO and second[t] in YES_NO]
    graded = [t for t in decided if t in people]
    return {
        "first": {"name": one[0], "digest": one[1]},
        "second": {"name": other[0], "digest": other[1]},
        "n": len(both),
        "answers": list(ANSWERS),
        "table": table,
        "said_acceptable": figure(_compared([(first[t] == "yes", second[t] == "yes") for t in decided])),
        "agree_with_people": figure(_compared([(first[t] == people[t], second[t] == people[t]) for t in graded])),
    }


def _compared(pairs: list[tuple[bool, bool]]) -> object:
    cells = {"both": (True, True), "first": (True, False), "second": (False, True), "neither": (False, False)}
    return paired_proportions(**{name: pairs.count(cell) for name, cell in cells.items()})
