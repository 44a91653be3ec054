"""How often the verifier is wrong: by people, by the judge, by the judge corrected by people, in both scopes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from auditapp.observations import Cell, Cohort, Observations, Unit
from auditapp.sections.figures import ANSWERS, YES_NO, Answer, Json, by_judge, by_people, count_of, figure
from auditapp.stats.domains import DomainCount, clustered_domain_rate, domain_rate
from auditapp.stats.proportions import (
    InsufficientData,
    Proportion,
    StratumCount,
    korn_graubard,
    proportion,
    stratified_proportion,
    undecided_bounds,
)
from auditapp.stats.sensitivity import error_band
from auditapp.stats.twophase import JudgedStratum, double_sampling, lent_sizes

Rate = Proportion | InsufficientData
NO_PEOPLE = InsufficientData("no person has labeled any of these trajectories")
NO_JUDGE = InsufficientData("no judge has decided any of these trajectories")
NONE_DRAWN = InsufficientData("nothing with this verdict was drawn")
NONE_DECIDED = InsufficientData("people have decided none of these trajectories")
RANDOM_PART = "human labels made elsewhere count as a random part of each stratum; how they were chosen is not recorded"

NOT_BY_PEOPLE = InsufficientData("the rate is the judge's word alone: errors of people are not in it")
BY_ROUNDS = "people were drawn at random inside known cells of the sample; their answers are weighted by these"
LATE = "{} that were labeled elsewhere after the first draw, and that no round drew, are not counted as graded"
BY_CELL = "people by the cell they were drawn from"
WEIGHTED = "weighted by the cells that people were drawn from"
BY_VERDICT = "weighted by the verdicts of the verifier"
UNWEIGHTED = "unweighted, of the pairs looked at"
UNDECIDED = (None, "unknown", "cannot_tell")

UNCALIBRATED = "judge, uncalibrated"
WRONG = {"false_pass": "no", "false_fail": "yes"}
"""Each direction, and the answer that makes the verifier's verdict wrong."""


def rates(seen: Observations) -> Json:
    """Both directions: the primary figure first, then each way of getting at it, both scopes, and what could be off."""
    primary = {direction: primary_rate(seen, direction) for direction in WRONG}
    said = {name: by_judge if labels == UNCALIBRATED else by_people for name, (labels, _) in primary.items()}
    return {
        **{name: figure(found) | {"labels": labels} for name, (labels, found) in primary.items()},
        "corrected": {name: figure(corrected_rate(seen, name)) for name in WRONG},
        "human_only": {name: figure(human_rate(seen, name)) for name in WRONG},
        "judge_only": {name: figure(judge_rate(seen, name)) for name in WRONG},
        "conservative": {name: figure(conservative_rate(seen, name, said[name])) for name in WRONG},
        "scope": {
            "batch": {name: figure(found) for name, (_, found) in primary.items()},
            "environment": {name: figure(clustered_rate(seen, name, said[name])) for name in WRONG},
        },
        "human_error": {name: human_error(seen, *found) for name, found in primary.items()},
        "verifier_error": verifier_error(seen, by_people if has_people(seen) else by_judge),
        "note": _note(seen),
    }


def _note(seen: Observations) -> str:
    if not has_people(seen):
        return ""
    if not seen.rounds:
        return RANDOM_PART
    return BY_ROUNDS + (f"; {LATE.format(seen.late)}" if seen.late else "")


def has_people(seen: Observations) -> bool:
    """Whether a person has labeled any unit."""
    return any(unit.people for cohort in seen.cohorts for unit in cohort.units)


def among(seen: Observations, direction: str) -> list[Cohort]:
    """The strata a rate is among: passes, or what counts as a fail."""
    return seen.with_status("pass") if direction == "false_pass" else seen.with_status(*seen.failing)


def counts(seen: Observations, direction: str, answer: Answer) -> list[StratumCount]:
    """Each stratum of a direction with what one labeler decided; for people, each cell they were drawn from."""
    cohorts = among(seen, direction)
    parts = drawn_parts(seen, cohorts) if answer is by_people else cohorts
    return [count_of(part, answer, WRONG[direction]) for part in parts]


def drawn_parts(seen: Observations, cohorts: Sequence[Cohort], asked: Answer = by_people) -> list[Cohort]:
    """Strata cut by the cells that rounds drew people's part from, each with the number of units it stands for.

    Without a round people's labels are taken for a random part of each stratum. A cell that nobody was asked about is
    stood for by its kin.
    """
    if not seen.rounds:
        return list(cohorts)
    sizes = lent_sizes([by_phase(cohort, answer=asked) for cohort in cohorts])
    return [
        replace(part, size=size)
        for cohort, row in zip(cohorts, sizes, strict=True)
        for part, size in zip(cohort.phases, row, strict=True)
        if size
    ]


def by_phase(cohort: Cohort, *events: str, answer: Answer = by_people) -> JudgedStratum:
    """A stratum cut by the cells that people were drawn from; each weighs what it is in the sample."""
    parts = cohort.phases
    counted = tuple(_decided(part, answer, events) for part in parts)
    return JudgedStratum(cohort.size, counted, tuple(part.units[0].phase for part in parts), kin(cohort))


def _decided(cohort: Cohort, answer: Answer, events: Sequence[str]) -> StratumCount:
    """As `count_of`; whatever is neither unknown nor None is decided."""
    found = Counter(answer(unit) for unit in cohort.units)
    decided = sum(n for said, n in found.items() if said not in UNDECIDED)
    return StratumCount(cohort.size, len(cohort.units) - found[None], decided, sum(found[event] for event in events))


def kin(cohort: Cohort) -> tuple[object, ...]:
    """Strata of one verdict and environment are nearest, then those of one verdict."""
    status, *_, environment = cohort.cell
    return (status, environment), status


def primary_rate(seen: Observations, direction: str) -> tuple[str, Rate]:
    """Whose labels the headline rests on, and the headline: corrected by people, else people alone, else the judge."""
    for labels, found in (
        ("judge corrected by people", corrected_rate(seen, direction)),
        ("people", human_rate(seen, direction)),
    ):
        if isinstance(found, Proportion):
            return labels, found
    return UNCALIBRATED, judge_rate(seen, direction)


def human_rate(seen: Observations, direction: str) -> Rate:
    """By what people said together; who they differ on is missing."""
    cohorts = among(seen, direction)
    if missing := _no_people(cohorts):
        return missing
    if not seen.rounds:
        return stratified_proportion(counts(seen, direction, by_people), batch=True)
    found = double_sampling([by_phase(cohort, WRONG[direction]) for cohort in cohorts])
    return NONE_DECIDED if isinstance(found, InsufficientData) else replace(found, method=f"{BY_CELL}; {found.method}")


def _no_people(cohorts: Sequence[Cohort]) -> InsufficientData | None:
    """Why people say nothing of these strata, where nothing of them was drawn or no person has looked."""
    if not any(cohort.units for cohort in cohorts):
        return NONE_DRAWN
    return None if any(unit.people for cohort in cohorts for unit in cohort.units) else NO_PEOPLE


def judge_rate(seen: Observations, direction: str) -> Rate:
    """By the judge's first looks."""
    cohorts = among(seen, direction)
    if not any(cohort.units for cohort in cohorts):
        return NONE_DRAWN
    if not decided_by_judge(cohorts):
        return NO_JUDGE
    return stratified_proportion(counts(seen, direction, by_judge), batch=True)


def conservative_rate(seen: Observations, direction: str, answer: Answer) -> Rate:
    """The rate by one labeler with the exact interval; where there is none, why."""
    plain = human_rate(seen, direction) if answer is by_people else judge_rate(seen, direction)
    if isinstance(plain, InsufficientData):
        return plain
    return korn_graubard(counts(seen, direction, answer), batch=True)


def corrected_rate(seen: Observations, direction: str) -> Rate:
    """Double sampling: the judge on every unit of the sample, people on some of each of its three answers."""
    cohorts = among(seen, direction)
    if missing := _no_people(cohorts):
        return missing
    if not decided_by_judge(cohorts):
        return NO_JUDGE
    return double_sampling([judged_stratum(cohort, WRONG[direction]) for cohort in cohorts])


def decided_by_judge(cohorts: Sequence[Cohort]) -> bool:
    """Whether the judge decided anything; else people correct nothing, and what they say stands alone."""
    return any(unit.judge in YES_NO for cohort in cohorts for unit in cohort.units)


def judged_stratum(cohort: Cohort, event: str) -> JudgedStratum:
    """A stratum cut by the judge's three answers, inside the cells people were drawn from, with what people said."""
    parts = {
        (phase.units[0].phase, said): tuple(unit for unit in phase.units if unit.judge == said)
        for phase in cohort.phases
        for said in ANSWERS
    }
    counted = [count_of(Cohort(cohort.cell, len(units), units), by_people, event) for units in parts.values()]
    return JudgedStratum(cohort.size, tuple(counted), tuple(parts), kin(cohort))


@dataclass(frozen=True, slots=True)
class Part:
    """Units that weigh alike: by task how many were decided and how many of these are wrong, and how many were not."""

    decided: Counter[int]
    wrong: Counter[int]
    missing: int


@dataclass(frozen=True, slots=True)
class Gathered:
    """A stratum with what one labeler decided of each part of it; gathered once, it serves every set of strata.

    `judged` is the same stratum for `lent_sizes`, None where its parts are not drawn by cells.
    """

    size: int
    parts: tuple[Part, ...]
    judged: JudgedStratum | None


def gather(seen: Observations, direction: str, answer: Answer) -> dict[Cell, Gathered]:
    """Each stratum of a direction, cut by the cells that people were drawn from where it is people's word."""
    by_cell, event = answer is by_people and bool(seen.rounds), WRONG[direction]
    return {
        cohort.cell: Gathered(
            cohort.size,
            tuple(_part(part.units, event, answer) for part in (cohort.phases if by_cell else (cohort,))),
            by_phase(cohort) if by_cell else None,
        )
        for cohort in among(seen, direction)
    }


def _part(units: Sequence[Unit], event: str, answer: Answer) -> Part:
    said = Counter((unit.task, answer(unit)) for unit in units)
    decided: Counter[int] = Counter()
    for (task, found), n in said.items():
        decided[task] += n if found in YES_NO else 0
    wrong = Counter({task: n for (task, found), n in said.items() if found == event})
    return Part(+decided, wrong, sum(n for (_, found), n in said.items() if found == "unknown"))


def clustered_rate(seen: Observations, direction: str, answer: Answer) -> Rate:
    """For new tasks like these: attempts at one task count together."""
    return clustered(list(gather(seen, direction, answer).values()))


def clustered(strata: Sequence[Gathered]) -> Rate:
    """The rate for new tasks like those of some strata."""
    places: dict[int, int] = {}
    rows: list[tuple[int, float, int, int]] = []
    missing = 0
    looked_at: list[StratumCount] = []
    for part, size in _weighted(strata):
        missing += part.missing
        decided = part.decided.total()
        weight = size / max(decided, 1)
        for task, n in part.decided.items():
            rows.append((places.setdefault(task, len(places)), weight, n, part.wrong[task]))
        if decided + part.missing:
            looked_at.append(StratumCount(size, decided + part.missing, decided, part.wrong.total()))
    found = clustered_domain_rate(*(zip(*rows, strict=True) if rows else [()] * 4), missing=missing)
    return found if isinstance(found, InsufficientData) else replace(found, bounds=undecided_bounds(looked_at))


def _weighted(strata: Sequence[Gathered]) -> list[tuple[Part, int]]:
    """The parts with how many each stands for; one that nobody was asked about is stood for by its kin."""
    judged = [stratum.judged for stratum in strata if stratum.judged]
    sizes = lent_sizes(judged) if judged else [[stratum.size] for stratum in strata]
    return [
        (part, size)
        for stratum, row in zip(strata, sizes, strict=True)
        for part, size in zip(stratum.parts, row, strict=True)
        if size
    ]


def people_cells(seen: Observations) -> list[Cohort]:
    """Verdict × cell that rounds drew people from, over all strata: one alone has too few to say how labelers agree."""
    found: dict[tuple[str, str], Cohort] = {}
    for statuses in (("pass",), seen.failing):
        for part in drawn_parts(seen, seen.with_status(*statuses)):
            key = statuses[0], part.units[0].phase if part.units else ""
            held = found.get(key, Cohort(part.cell, 0, ()))
            found[key] = replace(held, size=held.size + part.size, units=held.units + part.units)
    return list(found.values())


def human_error(seen: Observations, labels: str, found: Rate) -> Json:
    """The interval of a rate by people when they err as often as their differences among themselves imply."""
    if isinstance(found, InsufficientData):
        return figure(found)
    if labels == UNCALIBRATED:
        return figure(NOT_BY_PEOPLE)
    differ = people_rate(seen, agree=False)
    if isinstance(differ, InsufficientData):
        return figure(differ)
    weighting = WEIGHTED if seen.rounds else UNWEIGHTED
    return figure(error_band(found, disagreement=differ.estimate)) | {"pairs": differ.n, "weighting": weighting}


def people_rate(seen: Observations, *, agree: bool) -> Rate:
    """How often two people who decided the same drawn trajectory agree, or differ; weighted as rounds drew people."""
    cells = [(cell.size, cell.units) for cell in people_cells(seen)] if seen.rounds else [(len(seen.units), seen.units)]
    counted = [(size, [pairs_of(unit) for unit in units]) for size, units in cells]
    most = max((len(pairs) for _, units in counted for pairs in units), default=0)
    strata = []
    for size, units in counted:
        pairs = [pair for found in units for pair in found]
        decided = [pair for pair in pairs if set(pair) <= set(YES_NO)]
        events = sum((one == other) is agree for one, other in decided)
        strata.append(DomainCount(size * most, len(pairs), len(decided), events))  # a unit may hold several pairs
    if not any(stratum.members for stratum in strata):
        return InsufficientData("no trajectory was decided by two people: their error is not known")
    return domain_rate(strata)


def pairs_of(unit: Unit) -> list[tuple[str, str]]:
    """What every two people said of a unit, in order of their names."""
    people = sorted(unit.people, key=lambda said: said.labeler)
    return list(combinations([said.acceptable or "unknown" for said in people], 2))


def verifier_error(seen: Observations, answer: Answer) -> Json:
    """P(pass | not acceptable) and P(fail | acceptable): the verifier's own, which prevalence does not move."""
    return {
        "pass_given_not_acceptable": figure(_given(seen, answer, "no", ("pass",))),
        "fail_given_acceptable": figure(_given(seen, answer, "yes", seen.failing)),
    }


def _given(seen: Observations, answer: Answer, given: str, statuses: tuple[str, ...]) -> Rate:
    strata = []
    if unknown := _side_undecided(seen, answer):
        return InsufficientData(unknown)
    for cohort in drawn_parts(seen, seen.cohorts) if answer is by_people else seen.cohorts:
        count = count_of(cohort, answer, given)
        counts = cohort.cell[0] in statuses
        open_, events = count.drawn - count.seen, count.events if counts else 0
        strata.append(DomainCount(count.size, count.seen, count.events, events, open_, "event" if counts else "other"))
    return domain_rate(strata)


def _side_undecided(seen: Observations, answer: Answer) -> str:
    """Why the passes, or the fails, cannot be set against the others: there are some, and none was decided."""
    for name, statuses in (("passes", ("pass",)), ("fails", seen.failing)):
        cohorts = seen.with_status(*statuses)
        if cohorts and not any(answer(unit) in YES_NO for cohort in cohorts for unit in cohort.units):
            return f"none of the {name} was decided: how many of them are such work is not known"
    return ""


def by_stratum(seen: Observations) -> Json:
    """Each stratum: what it holds, who decided how much of it, and the share of wrong verdicts by each."""
    return [_stratum(seen, cohort) for cohort in seen.cohorts]


def _stratum(seen: Observations, cohort: Cohort) -> Json:
    status, model, agent, effort, environment = cohort.cell
    event = "no" if status == "pass" else "yes"
    people, judge = count_of(cohort, by_people, event), count_of(cohort, by_judge, event)
    named = {"verifier_status": status, "model": model, "agent": agent, "effort": effort, "environment": environment}
    return {
        **named,
        "size": cohort.size,
        "drawn": len(cohort.units),
        "tasks": len({unit.task for unit in cohort.units}),
        "human": _share(people) | ({"rate": figure(_weighted_share(cohort, event))} if seen.rounds else {}),
        "judge": _share(judge) | {"answered": sum(unit.is_judged for unit in cohort.units)},
    }


def _weighted_share(cohort: Cohort, event: str) -> Rate:
    """What people said of one stratum, weighted by the cells they were drawn from."""
    return double_sampling([by_phase(cohort, event)]) if cohort.units else NO_PEOPLE


def _share(count: StratumCount) -> Json:
    found = proportion(count.events, count.seen)
    return {"looked_at": count.drawn, "decided": count.seen, "wrong": count.events, "rate": figure(found)}
