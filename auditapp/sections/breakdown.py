"""Both rates by environment, by model and by cell, with flags that many rows do not raise by chance."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from auditapp.observations import Cohort, Observations
from auditapp.sections.figures import Json, by_judge, by_people, figure
from auditapp.sections.rates import WRONG, Rate, clustered_rate, has_people, primary_rate
from auditapp.stats.drift import benjamini_hochberg
from auditapp.stats.pairs import unpaired_difference
from auditapp.stats.proportions import Proportion

NAMES = {
    "environment": ("environment",),
    "model": ("model", "agent", "effort"),
    "cell": ("environment", "model", "agent", "effort"),
}
_PLACES = ("verifier_status", "model", "agent", "effort", "environment")


def breakdown(seen: Observations) -> Json:
    """Tables of rows, each against all the others together; flags hold over all rows and both rates of a table."""
    return {table: _table(seen, fields) for table, fields in NAMES.items()}


def _table(seen: Observations, fields: Sequence[str]) -> Json:
    places = [_PLACES.index(field) for field in fields]
    groups = _groups(seen, lambda cohort: tuple(cohort.cell[place] for place in places))
    rows = [
        dict(zip(fields, key, strict=True)) | _row(seen, key, groups, alone=len(groups) == 1) for key in sorted(groups)
    ]
    return _flagged(rows)


def _groups(seen: Observations, key: Callable[[Cohort], tuple[str, ...]]) -> dict[tuple[str, ...], list[Cohort]]:
    found: defaultdict[tuple[str, ...], list[Cohort]] = defaultdict(list)
    for cohort in seen.cohorts:
        found[key(cohort)].append(cohort)
    return dict(found)


def _row(seen: Observations, key: Hashable, groups: dict[tuple[str, ...], list[Cohort]], *, alone: bool) -> Json:
    """One row: what it holds, its rates in both scopes, and how likely such a distance from the rest is by chance."""
    own = replace(seen, cohorts=tuple(groups[key]))  # type: ignore[index]
    rest = replace(seen, cohorts=tuple(cohort for other, found in groups.items() if other != key for cohort in found))
    rates = {direction: primary_rate(own, direction) for direction in WRONG}
    wider, others = _for_new_tasks(own), _for_new_tasks(rest)
    comparable = not alone and has_people(own) == has_people(rest)
    return {
        "size": sum(cohort.size for cohort in own.cohorts),
        "drawn": len(own.units),
        "tasks": len({unit.task for unit in own.units}),
        **{direction: figure(found) for direction, (_, found) in rates.items()},
        "labels": {direction: labels for direction, (labels, _) in rates.items()},
        "scope_environment": {direction: figure(found) for direction, found in wider.items()},
        "p_value": {d: _p_value(wider[d], others[d]) if comparable else None for d in WRONG},
    }


def _for_new_tasks(seen: Observations) -> dict[str, Rate]:
    answer = by_people if has_people(seen) else by_judge
    return {direction: clustered_rate(seen, direction, answer) for direction in WRONG}


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
