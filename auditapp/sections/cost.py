"""What acceptable work costs by subject, and how often work is acceptable: effort against outcome."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from auditapp.models.sources import TrajectorySource
from auditapp.observations import Cohort, Observations, Unit
from auditapp.sections.figures import YES_NO, Answer, Json, by_judge, by_people, count_of, figure
from auditapp.sections.rates import (
    UNCALIBRATED,
    Rate,
    by_phase,
    decided_by_judge,
    drawn_parts,
    has_people,
    judged_stratum,
)
from auditapp.stats.costs import Amount, amount_per_result, mean_amount, median_amount, undominated
from auditapp.stats.proportions import InsufficientData, Proportion, stratified_proportion
from auditapp.stats.twophase import double_sampling

MEASURES = ("output_tokens", "input_tokens", "cost_usd", "steps", "seconds")
Subject = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Spent:
    """What one trajectory cost; None is not recorded, and never 0."""

    output_tokens: float | None
    input_tokens: float | None
    cost_usd: float | None
    steps: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Done:
    """A drawn trajectory with its weight: whether its work is acceptable, and what it cost."""

    unit: Unit
    weight: float
    acceptable: bool
    spent: Spent


def cost(seen: Observations) -> Json:
    """By subject: what acceptable work costs, the share of work that is acceptable, and who is not beaten in both."""
    answer = by_people if has_people(seen) else by_judge
    if not any(answer(unit) in YES_NO for unit in seen.units):
        return figure(InsufficientData("nobody has decided which of these trajectories are acceptable"))
    subjects: defaultdict[Subject, list[Cohort]] = defaultdict(list)
    for cohort in seen.cohorts:
        subjects[cohort.cell[1], cohort.cell[2], cohort.cell[3]].append(cohort)
    spent = _spent(seen)
    rows = [
        {"model": model, "agent": agent, "effort": effort} | _of_subject(seen, cohorts, answer, spent)
        for (model, agent, effort), cohorts in sorted(subjects.items())
    ]
    return {
        "labels": "people" if answer is by_people else UNCALIBRATED,
        "measures": list(MEASURES),
        "recorded": {name: sum(row["per_attempt"][name]["known"] for row in rows) for name in MEASURES},
        "by_subject": rows,
        "front": {name: front(rows, name) for name in MEASURES},
    }


def _spent(seen: Observations) -> dict[int, Spent]:
    drawn = {unit.trajectory for unit in seen.units}
    names = ("input_tokens", "output_tokens", "cost_usd", "trajectory__n_steps", "started_at", "finished_at")
    rows = TrajectorySource.objects.filter(version=seen.version).values_list("trajectory_id", *names)
    return {
        trajectory: Spent(
            output_tokens=_number(written),
            input_tokens=_number(read),
            cost_usd=_number(dollars),
            steps=_number(steps),
            seconds=seconds_between(started, finished),
        )
        for trajectory, read, written, dollars, steps, started, finished in rows.iterator()
        if trajectory in drawn
    }


def _number(value: object) -> float | None:
    return None if value is None else float(str(value))


def seconds_between(started: str, finished: str) -> float | None:
    """The time from one recorded moment to another; None where one is no moment, or they run backward."""
    moments = [_moment(text) for text in (started, finished)]
    if moments[0] is None or moments[1] is None:
        return None
    passed = (moments[1] - moments[0]).total_seconds()
    return passed if passed >= 0 else None


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found
    except (ValueError, OverflowError):
        return None


def _of_subject(seen: Observations, cohorts: Sequence[Cohort], answer: Answer, spent: dict[int, Spent]) -> Json:
    parts = drawn_parts(seen, cohorts) if answer is by_people else cohorts
    done = [item for part in parts for item in _done(part, answer, spent)]
    drawn = sum(len(cohort.units) for cohort in cohorts)
    labels, rate = acceptable_rate(seen, cohorts)
    amounts = {name: _amounts(done, name) for name in MEASURES}
    accepted = sum(item.acceptable for item in done)
    return {
        "drawn": drawn,
        "decided": len(done),
        "undecided": drawn - len(done),
        "acceptable": accepted,
        "rate": figure(rate) | {"labels": labels},
        "per_acceptable_work": {
            name: _summary([amount for amount in found if amount.results], accepted) for name, found in amounts.items()
        },
        "per_attempt": {name: _summary(found, len(done)) for name, found in amounts.items()},
        "per_result": {name: figure(amount_per_result(found)) for name, found in amounts.items()},
    }


def _done(cohort: Cohort, answer: Answer, spent: dict[int, Spent]) -> list[Done]:
    decided = [unit for unit in cohort.units if answer(unit) in YES_NO]
    weight = cohort.size / max(len(decided), 1)
    return [Done(unit, weight, answer(unit) == "yes", spent[unit.trajectory]) for unit in decided]


def _amounts(done: Sequence[Done], name: str) -> list[Amount]:
    """The amounts that are recorded; the others are counted beside them."""
    known = ((item, getattr(item.spent, name)) for item in done)
    return [Amount(i.unit.task, i.weight, value, int(i.acceptable)) for i, value in known if value is not None]


def _summary(amounts: Sequence[Amount], of: int) -> Json:
    found = {"known": len(amounts), "unknown": of - len(amounts)}
    return found | {"median": figure(median_amount(amounts)), "mean": figure(mean_amount(amounts))}


def acceptable_rate(seen: Observations, cohorts: Sequence[Cohort]) -> tuple[str, Rate]:
    """The share of a subject's work that is acceptable, on the best labels there are, and whose they are.

    This is its outcome rate without the verifier's errors.
    """
    if not has_people(seen):
        return UNCALIBRATED, stratified_proportion([count_of(c, by_judge, "yes") for c in cohorts], batch=True)
    if decided_by_judge(cohorts):
        corrected = double_sampling([judged_stratum(cohort, "yes") for cohort in cohorts])
        if isinstance(corrected, Proportion):
            return "judge corrected by people", corrected
    if seen.rounds:
        return "people", double_sampling([by_phase(cohort, "yes") for cohort in cohorts])
    return "people", stratified_proportion([count_of(cohort, by_people, "yes") for cohort in cohorts], batch=True)


def front(rows: Sequence[Json], name: str) -> list[int]:
    """The numbers of the subjects that no other beats: as cheap in the median and as often acceptable."""
    points = {number: at for number, row in enumerate(rows) if (at := _point(row, name))}
    best = undominated(list(points.values()))
    return [number for number, kept in zip(points, best, strict=True) if kept]


def _point(row: Json, name: str) -> tuple[float, float] | None:
    spent, rate = row["per_acceptable_work"][name]["median"], row["rate"]
    return (spent["estimate"], rate["estimate"]) if "estimate" in spent and "estimate" in rate else None
