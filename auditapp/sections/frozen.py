"""Held-out sets: both rates on tasks that were kept out of training, dev and test apart."""

from dataclasses import replace

from auditapp.models.reviews import HeldOutPart, HeldOutSet
from auditapp.observations import Observations, observe
from auditapp.sections.figures import Json, figure
from auditapp.sections.rates import WRONG, primary_rate


def frozen_set(seen: Observations) -> Json:
    """Every set in force, over all trajectories of its tasks that have a verdict, drawn or not."""
    sets = list(HeldOutSet.objects.filter(version=seen.version, retired_at__isnull=True).order_by("pk"))
    if not sets:
        return []
    whole = observe(seen.version, config=seen.config, sample=None)
    return [_part(whole, held, part) for held in sets for part in HeldOutPart.values]


def _part(whole: Observations, held: HeldOutSet, part: str) -> Json:
    tasks = set(held.tasks.filter(part=part).values_list("task", flat=True))
    found = _only(whole, tasks)
    rates = {direction: primary_rate(found, direction) for direction in WRONG}
    return {
        "name": held.name,
        "digest": held.digest,
        "refresh_on": held.refresh_on.isoformat(),
        "part": part,
        "tasks": len(tasks),
        "trajectories": len(found.units),
        **{direction: figure(rate) for direction, (_, rate) in rates.items()},
        "labels": {direction: labels for direction, (labels, _) in rates.items()},
    }


def _only(whole: Observations, tasks: set[int]) -> Observations:
    """The trajectories of some tasks, as a population of their own."""
    cohorts = []
    for cohort in whole.cohorts:
        units = tuple(unit for unit in cohort.units if unit.task in tasks)
        if units:
            cohorts.append(replace(cohort, size=len(units), units=units))
    return replace(whole, cohorts=tuple(cohorts), others=())
