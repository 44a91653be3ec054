"""Both rates by environment, by model and by cell, with flags that many rows do not raise by chance."""

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

from auditapp.observations import Cell, Cohort, Observations
from auditapp.sections.figures import Answer, Json, by_judge, by_people, figure
from auditapp.sections.rates import WRONG, Gathered, Rate, clustered, gather, primary_rate
from auditapp.stats.drift import benjamini_hochberg
from auditapp.stats.pairs import unpaired_difference
from auditapp.stats.proportions import Proportion

NAMES = {
    "environment": ("environment",),
    "model": ("model", "agent", "effort"),
    "cell": ("environment", "model", "agent", "effort"),
}
Everything = Mapping[Answer, Mapping[str, Mapping[Cell, Gathered]]]
"""By labeler and direction, what was decided of each stratum."""
_PLACES = ("verifier_status", "model", "agent", "effort", "environment")


def breakdown(seen: Observations) -> Json:
    """Tables of rows, each against all the others together; flags hold over all rows and both rates of a table."""
    gathered: Everything = {answer: {d: gather(seen, d, answer) for d in WRONG} for answer in (by_people, by_judge)}
    return {table: _table(seen, fields, gathered) for table, fields in NAMES.items()}


def _table(seen: Observations, fields: Sequence[str], gathered: Everything) -> Json:
    places = [_PLACES.index(field) for field in fields]
    groups: defaultdict[tuple[str, ...], list[Cohort]] = defaultdict(list)
    for cohort in seen.cohorts:
        groups[tuple(cohort.cell[place] for place in places)].append(cohort)
    peopled = {key: _has_people(cohorts) for key, cohorts in groups.items()}
    rows = []
    for key in sorted(groups):
        own = {cohort.cell for cohort in groups[key]}
        others = [peopled[other] for other in groups if other != key]
        answers = by_people if peopled[key] else by_judge
        tested = _against(gathered[answers], own, comparable=bool(others) and peopled[key] == any(others))
        rows.append(dict(zip(fields, key, strict=True)) | _row(seen, groups[key]) | tested)
    return _flagged(rows)


def _has_people(cohorts: Sequence[Cohort]) -> bool:
    return any(unit.people for cohort in cohorts for unit in cohort.units)


def _row(seen: Observations, cohorts: Sequence[Cohort]) -> Json:
    """What one row holds, and its rates in this batch."""
    own = replace(seen, cohorts=tuple(cohorts))
    rates = {direction: primary_rate(own, direction) for direction in WRONG}
    return {
        "size": sum(cohort.size for cohort in own.cohorts),
        "drawn": len(own.units),
        "tasks": len({unit.task for unit in own.units}),
        **{direction: figure(found) for direction, (_, found) in rates.items()},
        "labels": {direction: labels for direction, (labels, _) in rates.items()},
    }


def _against(gathered: Mapping[str, Mapping[Cell, Gathered]], own: Set[Cell], *, comparable: bool) -> Json:
    """A row's rates for new tasks, and how likely such a distance from all the others is by chance."""
    inside = {d: clustered([row for cell, row in found.items() if cell in own]) for d, found in gathered.items()}
    p_values: dict[str, float | None] = dict.fromkeys(WRONG)
    if comparable:
        rest = {d: clustered([row for cell, row in found.items() if cell not in own]) for d, found in gathered.items()}
        p_values = {direction: _p_value(inside[direction], rest[direction]) for direction in WRONG}
    return {"scope_environment": {d: figure(found) for d, found in inside.items()}, "p_value": p_values}


def _p_value(one: Rate, rest: Rate) -> float | None:
    """Of no difference for new tasks like these: in a batch that was decided whole, any difference is certain."""
    if isinstance(one, Proportion) and isinstance(rest, Proportion):
        return unpaired_difference(one, rest).p_value
    return None


def _flagged(rows: list[Json]) -> list[Json]:
    """Benjamini and Hochberg over all tests of the table: at most one flag in twenty is false on average."""
    tests = [(number, direction) for number, row in enumerate(rows) for direction in WRONG]
    made = [(test, row) for test in tests if (row := rows[test[0]]["p_value"][test[1]]) is not None]
    flags = dict(zip((test for test, _ in made), benjamini_hochberg([p for _, p in made]), strict=True))
    return [
        row | {"flagged": {direction: flags.get((number, direction), False) for direction in WRONG}}
        for number, row in enumerate(rows)
    ]
