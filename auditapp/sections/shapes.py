"""How work fails: tags by subject and environment, capability against environment, and the tasks that are defective."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import chain
from typing import NamedTuple

from django.db.models import QuerySet

from auditapp.grading import codes_for, environment_codes
from auditapp.models.datasets import Task
from auditapp.models.judgments import CitedEvidence, JudgmentTag
from auditapp.models.labels import ImportedLabel, LabelKind
from auditapp.models.reviews import RoundKind
from auditapp.models.rounds import ReviewLabel
from auditapp.observations import Cohort, Observations, Said, Unit
from auditapp.sections.figures import YES_NO, Json, figure
from auditapp.sections.rates import UNCALIBRATED, UNDECIDED, drawn_parts
from auditapp.stats.agreement import kappa
from auditapp.stats.domains import clustered_domain_rate
from auditapp.stats.drift import benjamini_hochberg
from auditapp.stats.pairs import unpaired_difference
from auditapp.stats.proportions import InsufficientData, Proportion, proportion
from auditapp.taskrounds import behavior_tags
from judges.taxonomy import taxonomy

SIDES = {"capability": ("C",), "environment": ("E",), "both": ("C", "E")}
LINE = 0.2
"""The share of defective tasks above which a release is not fit to train on."""
FALSE_FLAGS = 0.05
Tags = Mapping[int, frozenset[str]]
"""By trajectory: the codes it was given."""
Place = tuple[str, ...]
NONE: frozenset[str] = frozenset()
ALL = frozenset(taxonomy().codes)
_OF_LETTERS = {
    letters: frozenset(code for code in ALL if code[0] in letters)
    for letters in ("B", "BC", "BE", "BH", "BCE", "BCH", "BEH", "BCEH")
}
NONE_JUDGED = "no judge has decided any of these trajectories"
NONE_TOLD = "no look of the judge could decide and came to the step that asks about the environment"
BLAMING = {"C", "E"}
"""Who blames a side was asked for codes of both."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What one labeler saw of one task in one stratum: how many units, and how many carry each code or blame a side of
    those on which both sides were asked about (`sided`).

    `weight` is that of a unit: the size of the stratum over how many of it were looked at. `asked` says of how many the
    labeler was asked for each code, None where that is all. `codes` were given to so many, `events` of these where they
    were asked for: a look that tells of a code only where it gave it would make every rate too high.
    """

    cell: tuple[str, ...]
    task: int
    weight: float
    looked: int
    asked: Counter[str] | None
    codes: Counter[str]
    events: Counter[str]
    sided: int
    sides: Counter[str]

    def looked_for(self, code: str) -> int:
        """Units on which the code would have been given."""
        return self.looked if self.asked is None else self.asked[code]


def shapes(seen: Observations) -> Json:
    """Tags by the judge where evidence was checked, by people, and the defective tasks by either."""
    if not seen.units:
        return figure(InsufficientData("no trajectory has a verdict that counts"))
    judge, people, asked = judge_tags(seen), people_tags(seen), asked_of_people(seen)
    told = told_by_judge(seen)
    return {
        "judge": _by_judge(seen, judge, told),
        "people": _by_people(seen, people, asked),
        "audit": _by_audit(seen),
        "judge_people": _judge_against_people(seen, judge, people, asked, told),
        "line": LINE,
        "defective": {"judge": _defects_by_judge(seen, judge, told), "people": _defects_by_people(seen, people, asked)},
    }


def judge_tags(seen: Observations) -> Tags:
    """The kept tags of the judge's first looks."""
    rows = _judge_rows(seen).values_list("judgment__trajectory_id", "code")
    return _grouped(rows)


def _judge_rows(seen: Observations) -> QuerySet[JudgmentTag]:
    found = JudgmentTag.objects.filter(judgment__version=seen.version, judgment__config=seen.config, kept=True)
    return found.filter(judgment__replicate=0)


def people_tags(seen: Observations) -> Tags:
    """Every tag that any person gave, here or elsewhere."""
    rows = chain(*(found.values_list("trajectory_id", "tags") for found in (_imported(seen), _released(seen))))
    return _grouped((trajectory, code) for trajectory, codes in rows for code in codes)


def asked_of_people(seen: Observations) -> Tags:
    """By trajectory: the codes that some person was asked for, or gave unasked.

    A round asks for those of its kind, the step after a grade for those of the environment. What was asked elsewhere is
    not recorded: imported labels are taken to have asked for every code of a letter of which they hold any.
    """
    imported = list(_imported(seen).values_list("trajectory_id", "tags"))
    given = {code for _, codes in imported for code in codes}
    elsewhere = {*given, *(code for code in taxonomy().codes if code[0] in _letters(given))}
    fields = ("trajectory_id", "tags", "round__kind", "grade__attribution__submitted_at")
    here = [
        (trajectory, code)
        for trajectory, tags, kind, attributed in _released(seen).values_list(*fields)
        for code in (*tags, *codes_for(kind), *(environment_codes() if attributed else ()))
    ]
    return _grouped([*here, *((trajectory, code) for trajectory, _ in imported for code in elsewhere)])


def told_by_judge(seen: Observations) -> Tags:
    """By trajectory: the codes of which the judge's first look tells, whether it gave them or not.

    A look that could not decide has not looked for whose fault it is, nor one that could not tell about hacks for
    those: what it did not give there is unknown. Codes of the environment are asked for in the step after the decision,
    which shows the verifier: a look tells of them that came there and could decide before it or in it. Behavior it sees
    either way.
    """
    return {unit.trajectory: _told(unit.looks[0]) for unit in chain(seen.units, seen.others) if unit.is_judged}


def _told(look: Said) -> frozenset[str]:
    is_decided = look.acceptable in YES_NO
    sees_verifier = look.after is not None and (is_decided or look.after not in UNDECIDED)
    return _OF_LETTERS["B" + "C" * is_decided + "E" * sees_verifier + "H" * (look.integrity in ("none", "hacked"))]


def _imported(seen: Observations) -> QuerySet[ImportedLabel]:
    return ImportedLabel.objects.filter(version=seen.version, kind=LabelKind.HUMAN)


def _released(seen: Observations) -> QuerySet[ReviewLabel]:
    return ReviewLabel.objects.filter(version=seen.version)


def _grouped(rows: Iterable[tuple[int, str]]) -> Tags:
    found: defaultdict[int, set[str]] = defaultdict(set)
    for trajectory, code in rows:
        found[trajectory].add(code)
    return {trajectory: frozenset(codes) for trajectory, codes in found.items()}


def _by_judge(seen: Observations, tags: Tags, told: Tags) -> Json:
    if not any(unit.is_judged for unit in seen.units):
        return figure(InsufficientData(NONE_JUDGED))
    return {"labels": UNCALIBRATED} | _shapes(seen, seen.cohorts, tags, lambda unit: unit.is_judged, told)


def _by_people(seen: Observations, tags: Tags, asked: Tags) -> Json:
    if not any(unit.people for unit in seen.units):
        return figure(InsufficientData("no person has labeled any of these trajectories"))
    if not tags:
        return figure(InsufficientData("people labeled some of these trajectories, but gave no tag"))
    parts = drawn_parts(seen, seen.cohorts)
    return {"labels": "people"} | _shapes(seen, parts, tags, lambda unit: bool(unit.people), asked)


def _by_audit(seen: Observations) -> Json:
    """Tags of people who read whole trajectories in released audits: a random part of each stratum, no decisions."""
    read = behavior_tags(seen.version)
    tags = _grouped((trajectory, code) for trajectory, _, codes, _ in read for code in codes)
    looked = {trajectory for trajectory, *_ in read}
    if not any(unit.trajectory in looked for unit in seen.units):
        return figure(InsufficientData("no audit of these trajectories has been released"))
    asked = {at: tags.get(at, NONE).union(codes_for(RoundKind.AUDIT)) for at in looked}
    return {"labels": "people"} | _shapes(seen, seen.cohorts, tags, lambda unit: unit.trajectory in looked, asked)


def _shapes(
    seen: Observations,
    parts: Sequence[Cohort],
    tags: Tags,
    looked: Callable[[Unit], bool],
    asked: Tags | None = None,
) -> Json:
    """Counts and rates of the codes in all, by subject, by environment and by both; None in `asked` is all codes."""
    counted = [found for cohort in parts for found in _counted(cohort, tags, looked, asked)]
    codes = sorted({code for found in counted for code in found.codes})
    return {
        "looked_at": sum(found.looked for found in counted),
        "drawn": len(seen.units),
        "codes": codes,
        "asked": None if asked is None else sorted({code for found in counted for code in found.asked or ()}),
        "all": _figures(counted, codes),
        "by_subject": _by_place(counted, codes, lambda cell: cell[1:4], ("model", "agent", "effort")),
        "by_environment": _by_place(counted, codes, lambda cell: cell[4:], ("environment",)),
        "by_cell": _by_place(counted, codes, lambda cell: cell[1:], ("model", "agent", "effort", "environment")),
    }


def _counted(cohort: Cohort, tags: Tags, looked: Callable[[Unit], bool], asked: Tags | None) -> list[Counted]:
    by_task: defaultdict[int, list[int]] = defaultdict(list)
    for unit in cohort.units:
        if looked(unit):
            by_task[unit.task].append(unit.trajectory)
    weight = cohort.size / max(sum(map(len, by_task.values())), 1)
    return [_of_task(cohort.cell, task, weight, at, tags, asked) for task, at in by_task.items()]


def _of_task(
    cell: tuple[str, ...], task: int, weight: float, at: Sequence[int], tags: Tags, asked: Tags | None
) -> Counted:
    given = [(tags.get(one, NONE), ALL if asked is None else asked.get(one, NONE)) for one in at]
    codes = Counter(chain.from_iterable(found for found, _ in given))
    events = Counter(chain.from_iterable(found & wanted for found, wanted in given))
    both = [found for found, wanted in given if _letters(wanted) >= BLAMING]
    sides = Counter(side for found in both if (side := _side(found)))
    wanted = None if asked is None else _spread(Counter(wanted for _, wanted in given))
    return Counted(cell, task, weight, len(at), wanted, codes, events, len(both), sides)


def _spread(sets: Mapping[frozenset[str], int]) -> Counter[str]:
    """How often each code is in so many equal sets."""
    found: Counter[str] = Counter()
    for codes, n in sets.items():
        found.update(dict.fromkeys(codes, n))
    return found


def _letters(codes: Iterable[str]) -> set[str]:
    return {code[0] for code in codes}


def _side(codes: frozenset[str]) -> str:
    """What the codes of a trajectory blame: the agent, the environment, both, or nothing."""
    found = tuple(sorted({code[0] for code in codes if code[0] in "CE"}))
    return next((side for side, letters in SIDES.items() if letters == found), "")


def _by_place(
    counted: Sequence[Counted], known: Sequence[str], place: Callable[[tuple[str, ...]], Place], names: Sequence[str]
) -> Json:
    places: defaultdict[Place, list[Counted]] = defaultdict(list)
    for found in counted:
        places[place(found.cell)].append(found)
    return [dict(zip(names, key, strict=True)) | _figures(found, known) for key, found in sorted(places.items())]


def _figures(counted: Sequence[Counted], known: Sequence[str]) -> Json:
    """Each code among what was looked at, and what is blamed where a capability or environment code was given.

    `asked` are those of the `known` codes that were asked for on fewer than was looked at, with how many.
    """
    tasks = {task: number for number, task in enumerate({found.task for found in counted})}
    where = [tasks[found.task] for found in counted], [found.weight for found in counted]
    blamed = [found.sides.total() for found in counted]
    codes = sorted({code for found in counted for code in found.codes})
    looked = sum(found.looked for found in counted)
    wanted = {code: sum(found.looked_for(code) for found in counted) for code in known}
    return {
        "looked_at": looked,
        "asked": {code: n for code, n in wanted.items() if n < looked},
        "blamed": sum(blamed),
        "sided": sum(found.sided for found in counted),
        "tasks": len(tasks),
        "tags": {code: _tag_rate(code, where, counted) for code in codes},
        "sides": {side: _rate(where, blamed, [found.sides[side] for found in counted]) for side in SIDES},
    }


def _tag_rate(code: str, where: tuple[list[int], list[float]], counted: Sequence[Counted]) -> Json:
    """How many carry the code, and its rate among those on which it was asked for."""
    members, events = [found.looked_for(code) for found in counted], [found.events[code] for found in counted]
    return _rate(where, members, events) | {"count": sum(found.codes[code] for found in counted)}


def _rate(where: tuple[list[int], list[float]], members: Sequence[int], events: Sequence[int]) -> Json:
    """The rate of a domain, weighted by the draw, and the plain count of trajectories."""
    return {"count": sum(events)} | figure(clustered_domain_rate(*where, members, events))


def _judge_against_people(seen: Observations, judge: Tags, people: Tags, asked: Tags, told: Tags) -> Json:
    """Each code on the trajectories that both looked at: given by both, by one, and how far they agree beyond chance.

    Only where people were asked for it and the judge tells of it; `not_asked` counts what the judge gave where people
    were not. A code that neither gave is not listed.
    """
    both = [unit.trajectory for unit in [*seen.units, *seen.others] if unit.is_judged and unit.people]
    if not both:
        return figure(InsufficientData("no trajectory was looked at by the judge and by a person"))
    given = [_Given(*(found.get(at, NONE) for found in (judge, people, asked, told))) for at in both]
    codes = sorted({code for one in given for code in one.judge | one.people})
    return {"looked_at": len(both), "codes": [_agreed(code, given) for code in codes]}


class _Given(NamedTuple):
    """The codes that each gave to a trajectory, those that people were asked for, and those the judge tells of."""

    judge: frozenset[str]
    people: frozenset[str]
    asked: frozenset[str]
    told: frozenset[str]


def _agreed(code: str, given: Sequence[_Given]) -> Json:
    asked = [one for one in given if code in one.asked]
    found = Counter((code in one.judge, code in one.people) for one in asked if code in one.told)
    table = [[found[judge, people] for people in (True, False)] for judge in (True, False)]
    counts = {"both": table[0][0], "judge_only": table[0][1], "people_only": table[1][0], "neither": table[1][1]}
    elsewhere = sum(code in one.judge and code not in one.asked for one in given)
    reason = "the judge could not tell where people were asked for it" if asked else "people were not asked for it"
    agreed = kappa(table) if found else InsufficientData(reason)
    return {"code": code, "asked": found.total(), **counts, "not_asked": elsewhere, "kappa": figure(agreed)}


# --- defective tasks


def _defects_by_judge(seen: Observations, tags: Tags, told: Tags) -> Json:
    """Of the tasks of which a look tells; a defect that another look found in one of these is one all the same."""
    looked = told_of_environment(seen.units, told)
    if not looked:
        return figure(InsufficientData(NONE_TOLD if told else NONE_JUDGED))
    named = {unit.trajectory for unit in looked}
    besides = [unit for unit in seen.units if unit.is_judged and unit.trajectory not in named]
    return {"labels": UNCALIBRATED} | _defects(looked, tags, _citations(seen), besides=besides)


def _defects_by_people(seen: Observations, tags: Tags, asked: Tags) -> Json:
    """Of the tasks of which somebody was asked for tags of the environment."""
    labeled = [unit for unit in seen.units if unit.people]
    if not labeled:
        return figure(InsufficientData("no person has labeled any of these trajectories"))
    looked = told_of_environment(labeled, asked)
    if not looked:
        return figure(InsufficientData("nobody was asked for tags of the environment"))
    return {"labels": "people"} | _defects(looked, tags, {})


def told_of_environment(units: Iterable[Unit], asked: Tags) -> list[Unit]:
    """The units on which somebody was asked for codes of the environment."""
    return [unit for unit in units if any(code.startswith("E") for code in asked.get(unit.trajectory, ()))]


def _citations(seen: Observations) -> dict[tuple[int, str], int]:
    """By trajectory and code: the checked citations that an environment tag rests on."""
    rows = list(
        _judge_rows(seen)
        .filter(code__startswith="E")
        .values_list("judgment_id", "judgment__trajectory_id", "code", "evidence")
    )
    judgments = {judgment for judgment, *_ in rows}
    checked = set(CitedEvidence.objects.filter(judgment__in=judgments, ok=True).values_list("judgment_id", "code"))
    found: Counter[tuple[int, str]] = Counter()
    for judgment, trajectory, code, evidence in rows:
        found[trajectory, code] += sum((judgment, cited) in checked for cited in evidence)
    return dict(found)


def _defects(
    looked: Sequence[Unit], tags: Tags, citations: Mapping[tuple[int, str], int], *, besides: Sequence[Unit] = ()
) -> Json:
    """The share of tasks in which one look or more found a defect, against the line, and what was found in each.

    The share is of the tasks of those `looked` at. What was found `besides` is listed; a task of which that is all is
    not in the share, which would count such tasks only where they are defective.
    """
    by_task: defaultdict[int, list[int]] = defaultdict(list)
    told = {unit.task for unit in looked}
    for unit in (*looked, *(unit for unit in besides if "E" in _letters(tags.get(unit.trajectory, NONE)))):
        by_task[unit.task].append(unit.trajectory)
    found = {task: _defect(at, tags, citations) for task, at in by_task.items()}
    named = _named([task for task, defect in found.items() if defect["codes"]])
    share = proportion(sum(task in told for task in named), len(told))
    rows = [named[task] | {"looked_at": len(by_task[task]), "counted": task in told} | found[task] for task in named]
    return {
        "share": figure(share),
        "against_line": against_line(share),
        "tasks": sorted(rows, key=lambda row: (-row["trajectories"], row["name"])),
    }


def _defect(trajectories: Sequence[int], tags: Tags, citations: Mapping[tuple[int, str], int]) -> Json:
    given = [(at, code) for at in trajectories for code in tags.get(at, ()) if code.startswith("E")]
    counts = Counter(code for _, code in given)
    cited: Counter[str] = Counter()
    for at, code in given:
        cited[code] += citations.get((at, code), 0)
    return {
        "trajectories": len({at for at, _ in given}),
        "codes": [{"code": code, "trajectories": n, "citations": cited[code]} for code, n in sorted(counts.items())],
    }


def _named(tasks: Sequence[int]) -> dict[int, Json]:
    rows = Task.objects.filter(pk__in=tasks).values_list("pk", "public_id", "name", "environment__name")
    return {pk: {"id": str(public_id), "name": name, "environment": where} for pk, public_id, name, where in rows}


def against_line(share: Proportion | InsufficientData) -> str:
    """Where the interval lies: above the line, below it, or on both sides, which settles nothing."""
    if isinstance(share, InsufficientData):
        return "unknown"
    if share.low > LINE:
        return "above"
    return "below" if share.high < LINE else "open"


# --- two places side by side


def side_by_side(left: Json, right: Json) -> Json:
    """Each code's rate in two places with their difference; flags are those that stand among so many (BH)."""
    codes = sorted({*left["tags"], *right["tags"]})
    rows = [_compared(code, left, right) for code in codes]
    known = [row for row in rows if "p_value" in row["difference"]]
    flags = benjamini_hochberg([row["difference"]["p_value"] for row in known], rate=FALSE_FLAGS)
    flagged = {row["code"] for row, flag in zip(known, flags, strict=True) if flag}
    return [row | {"flagged": row["code"] in flagged} for row in rows]


def _compared(code: str, left: Json, right: Json) -> Json:
    one, other = (place["tags"].get(code) or _never(code, place) for place in (left, right))
    if "insufficient" in one or "insufficient" in other:
        difference = figure(InsufficientData("one of the two has no such rate"))
    else:
        difference = figure(unpaired_difference(_proportion(one), _proportion(other)))
    return {"code": code, "left": one, "right": other, "difference": difference}


def _never(code: str, place: Json) -> Json:
    """A code that was given to nothing here: a rate of 0 where it was asked for, no rate where it was nowhere."""
    asked = place["asked"].get(code, place["looked_at"])
    nobody = place["looked_at"] and not asked
    return {"count": 0} | figure(InsufficientData("nobody was asked for it") if nobody else proportion(0, asked))


def _proportion(found: Json) -> Proportion:
    names = {field.name for field in fields(Proportion)}
    return Proportion(**{name: value for name, value in found.items() if name in names})
