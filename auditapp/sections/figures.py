"""Results as plain objects, and who answered what."""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

from auditapp.observations import Cohort, Unit
from auditapp.stats.proportions import InsufficientData, StratumCount

Json = Any
Answer = Callable[[Unit], str | None]
"""Yes, no or unknown of a unit, None where it was not looked at."""

YES_NO, ANSWERS = ("yes", "no"), ("yes", "no", "unknown")


def figure(found: Any) -> Json:
    """A result as an object; what cannot be estimated says why, and an infinite size is null."""
    if isinstance(found, InsufficientData):
        return {"insufficient": found.reason}
    if is_dataclass(found) and not isinstance(found, type):
        return {field.name: figure(getattr(found, field.name)) for field in fields(found)}
    if isinstance(found, dict):
        return {key: figure(value) for key, value in found.items()}
    if isinstance(found, (list, tuple)):
        return [figure(value) for value in found]
    return None if isinstance(found, float) and not math.isfinite(found) else found


def by_people(unit: Unit) -> str | None:
    """What people said of a unit together."""
    return unit.human


def by_judge(unit: Unit) -> str | None:
    """What the judge said of a unit; it was to look at every unit of the sample."""
    return unit.judge


def count_of(cohort: Cohort, answer: Answer, event: str) -> StratumCount:
    """Of a stratum: its size, how many were looked at, decided, and of these gave one answer."""
    found = Counter(answer(unit) for unit in cohort.units)
    decided = found["yes"] + found["no"]
    return StratumCount(cohort.size, decided + found["unknown"], decided, found[event])
