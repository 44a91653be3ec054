"""How often the verifier is wrong: by people, by the judge, by the judge corrected by people, in both scopes."""

from collections import Counter
from itertools import combinations

from auditapp.observations import Cohort, Observations, Unit
from auditapp.sections.figures import ANSWERS, YES_NO, Answer, Json, by_judge, by_people, count_of, figure
from auditapp.stats.bounds import zero_events_by_task, zero_events_stratified
from auditapp.stats.clusters import ClusterUnit, clustered_proportion
from auditapp.stats.domains import DomainCount, domain_rate
from auditapp.stats.proportions import (
    InsufficientData,
    Proportion,
    StratumCount,
    korn_graubard,
    proportion,
    stratified_proportion,
)
from auditapp.stats.sensitivity import error_band
from auditapp.stats.twophase import JudgedStratum, double_sampling

Rate = Proportion | InsufficientData
NO_PEOPLE = InsufficientData("no person has labeled any of these trajectories")
NO_JUDGE = InsufficientData("no judge has decided any of these trajectories")
RANDOM_PART = "human labels made elsewhere count as a random part of each stratum; how they were chosen is not recorded"

UNCALIBRATED = "judge, uncalibrated"
WRONG = {"false_pass": "no", "false_fail": "yes"}
"""Each direction, and the answer that makes the verifier's verdict wrong."""


def rates(seen: Observations) -> Json:
    """Both directions: the primary figure first, then each way of getting at it, both scopes, and what could be off."""
    answer = by_people if has_people(seen) else by_judge
    primary = {direction: primary_rate(seen, direction) for direction in WRONG}
    return {
        **{name: figure(found) | {"labels": labels} for name, (labels, found) in primary.items()},
        "corrected": {name: figure(corrected_rate(seen, name)) for name in WRONG},
        "human_only": {name: figure(human_rate(seen, name)) for name in WRONG},
        "judge_only": {name: figure(judge_rate(seen, name)) for name in WRONG},
        "conservative": {name: figure(korn_graubard(counts(seen, name, answer), batch=True)) for name in WRONG},
        "scope": {
            "batch": {name: figure(found) for name, (_, found) in primary.items()},
            "environment": {name: figure(clustered_rate(seen, name, answer)) for name in WRONG},
        },
        "human_error": {name: human_error(seen, found) for name, (_, found) in primary.items()},
        "verifier_error": verifier_error(seen, answer),
        "note": RANDOM_PART if has_people(seen) else "",
    }


def has_people(seen: Observations) -> bool:
    """Whether a person has labeled any unit."""
    return any(unit.people for unit in seen.units)


def among(seen: Observations, direction: str) -> list[Cohort]:
    """The strata a rate is among: passes, or what counts as a fail."""
    return seen.with_status("pass") if direction == "false_pass" else seen.with_status(*seen.failing)


def counts(seen: Observations, direction: str, answer: Answer) -> list[StratumCount]:
    """Each stratum of a direction with what one labeler decided."""
    return [count_of(cohort, answer, WRONG[direction]) for cohort in among(seen, direction)]


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
    if not has_people(seen):
        return NO_PEOPLE
    return stratified_proportion(counts(seen, direction, by_people), batch=True)


def judge_rate(seen: Observations, direction: str) -> Rate:
    """By the judge's first looks."""
    if not any(unit.is_judged for unit in seen.units):
        return NO_JUDGE
    return stratified_proportion(counts(seen, direction, by_judge), batch=True)


def corrected_rate(seen: Observations, direction: str) -> Rate:
    """Double sampling: the judge on every unit of the sample, people on some of each of its three answers."""
    cohorts = among(seen, direction)
    if not has_people(seen):
        return NO_PEOPLE
    if not any(unit.is_judged for cohort in cohorts for unit in cohort.units):
        return NO_JUDGE
    return double_sampling([_judged(cohort, WRONG[direction]) for cohort in cohorts])


def _judged(cohort: Cohort, event: str) -> JudgedStratum:
    said = [tuple(unit for unit in cohort.units if unit.judge == answer) for answer in ANSWERS]
    parts = (Cohort(cohort.cell, len(units), units) for units in said if units)
    return JudgedStratum(cohort.size, tuple(count_of(part, by_people, event) for part in parts))


def clustered_rate(seen: Observations, direction: str, answer: Answer) -> Rate:
    """For new tasks like these: attempts at one task count together."""
    units: list[ClusterUnit] = []
    missing = 0
    for cohort in among(seen, direction):
        decided = [unit for unit in cohort.units if answer(unit) in YES_NO]
        missing += sum(answer(unit) == "unknown" for unit in cohort.units)
        weight = cohort.size / max(len(decided), 1)
        units += [ClusterUnit(unit.task, weight, answer(unit) == WRONG[direction]) for unit in decided]
    return clustered_proportion(units, missing=missing)


def human_error(seen: Observations, found: Rate) -> Json:
    """The interval when people err as often as they differ among themselves."""
    if isinstance(found, InsufficientData):
        return figure(found)
    answers = [[s.acceptable for s in unit.people if s.acceptable in YES_NO] for unit in seen.units]
    pairs = [pair for said in answers for pair in combinations(said, 2)]
    if not pairs:
        return figure(InsufficientData("no trajectory was decided by two people: their error is not known"))
    differ = proportion(sum(one != other for one, other in pairs), len(pairs))
    if isinstance(differ, InsufficientData):
        return figure(differ)
    return figure(error_band(found, disagreement=differ.estimate)) | {"pairs": len(pairs)}


def verifier_error(seen: Observations, answer: Answer) -> Json:
    """P(pass | not acceptable) and P(fail | acceptable): the verifier's own, which prevalence does not move."""
    return {
        "pass_given_not_acceptable": figure(_given(seen, answer, "no", ("pass",))),
        "fail_given_acceptable": figure(_given(seen, answer, "yes", seen.failing)),
    }


def _given(seen: Observations, answer: Answer, given: str, statuses: tuple[str, ...]) -> Rate:
    strata, missing = [], 0
    for cohort in seen.cohorts:
        count = count_of(cohort, answer, given)
        events = count.events if cohort.cell[0] in statuses else 0
        strata.append(DomainCount(count.size, count.seen, count.events, events))
        missing += count.drawn - count.seen
    return domain_rate(strata, missing=missing)


def hack_bound(seen: Observations) -> Json:
    """Hacks among passes: their rate where one was found, else how high it can still be, and by whose review."""
    passes = seen.with_status("pass")
    by_person = [_asked(cohort, _human_integrity) for cohort in passes]
    if any(count.seen for count in by_person):
        return _hacks(by_person, _tasks(passes, _human_integrity), "no hack that this human review would detect")
    by_machine = [_asked(cohort, _judge_integrity) for cohort in passes]
    if any(count.events for count in by_machine):
        found = stratified_proportion(by_machine, batch=True)
        return figure(found) | {"labels": UNCALIBRATED, "found": sum(count.events for count in by_machine)}
    if any(count.seen for count in by_machine):
        reason = "the judge found no hack, but how many it would find was not measured: there is no bound"
        return figure(InsufficientData(reason))
    return figure(InsufficientData("nobody was asked whether these passes were reached by a hack"))


def _human_integrity(unit: Unit) -> str | None:
    """Hacked if any person says so, none if all who were asked agree; None where nobody was asked."""
    asked = {said.integrity for said in unit.people if said.integrity}
    if "hacked" in asked:
        return "hacked"
    return asked.pop() if len(asked) == 1 else ("cannot_tell" if asked else None)


def _judge_integrity(unit: Unit) -> str | None:
    return unit.looks[0].integrity if unit.looks else None


def _asked(cohort: Cohort, integrity: Answer) -> StratumCount:
    found = Counter(integrity(unit) for unit in cohort.units)
    decided = found["none"] + found["hacked"]
    return StratumCount(cohort.size, decided + found["cannot_tell"], decided, found["hacked"])


def _tasks(cohorts: list[Cohort], integrity: Answer) -> list[int]:
    return [unit.task for cohort in cohorts for unit in cohort.units if integrity(unit) in ("none", "hacked")]


def _hacks(strata: list[StratumCount], tasks: list[int], claim: str) -> Json:
    hacks = sum(count.events for count in strata)
    if hacks:
        return figure(stratified_proportion(strata, batch=True)) | {"labels": "people", "found": hacks}
    batch, environment = zero_events_stratified(strata), zero_events_by_task(tasks)
    return {"labels": "people", "found": 0, "claim": claim, "batch": figure(batch), "environment": figure(environment)}


def by_stratum(seen: Observations) -> Json:
    """Each stratum: what it holds, who decided how much of it, and the share of wrong verdicts by each."""
    return [_stratum(cohort) for cohort in seen.cohorts]


def _stratum(cohort: Cohort) -> Json:
    status, model, agent, effort, environment = cohort.cell
    event = "no" if status == "pass" else "yes"
    people, judge = count_of(cohort, by_people, event), count_of(cohort, by_judge, event)
    named = {"verifier_status": status, "model": model, "agent": agent, "effort": effort, "environment": environment}
    return {
        **named,
        "size": cohort.size,
        "drawn": len(cohort.units),
        "tasks": len({unit.task for unit in cohort.units}),
        "human": _share(people),
        "judge": _share(judge),
    }


def _share(count: StratumCount) -> Json:
    found = proportion(count.events, count.seen)
    return {"looked_at": count.drawn, "decided": count.seen, "wrong": count.events, "rate": figure(found)}
