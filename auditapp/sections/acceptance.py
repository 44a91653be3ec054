"""Whether the verifier meets what was asked of it, and the work it takes to know."""

from datetime import datetime
from typing import Any

from auditapp.criteria import first_draw
from auditapp.models.estimates import AcceptanceCriteria
from auditapp.observations import Observations
from auditapp.sections.figures import Json, figure
from auditapp.sections.narrow import work
from auditapp.sections.rates import UNCALIBRATED, primary_rate
from auditapp.sections.rounds import extended
from auditapp.stats.acceptance import Verdict, covers, held_above, held_below
from auditapp.stats.anytime import anytime_rate
from auditapp.stats.planning import more_for_upper_limit
from auditapp.stats.proportions import InsufficientData, Proportion

UPPER = {"false_pass_upper": "false_pass", "false_fail_upper": "false_fail"}
ALONE = InsufficientData("the judge's word alone meets no criterion: people have graded none of it")


def acceptance(seen: Observations, judged: Json) -> Json:
    """The criteria in force with a verdict each; null where none were stated. `judged` is agreement with people."""
    criteria = AcceptanceCriteria.objects.filter(version=seen.version).order_by("-pk").first()
    if criteria is None:
        return None
    return {
        "stated_at": criteria.created_at.isoformat(),
        "by": criteria.created_by.get_username() if criteria.created_by else None,
        "before_draw": _before_draw(seen, criteria.created_at),
        "primary": criteria.primary,
        "checks": list(_checks(seen, criteria, judged)),
    }


def _before_draw(seen: Observations, stated: datetime) -> bool | None:
    """Whether they stood before the first draw of the version, whichever is shown; null where nothing was drawn."""
    drawn = first_draw(seen.version)
    return stated < drawn if drawn else None


def _checks(seen: Observations, criteria: AcceptanceCriteria, judged: Json) -> Any:
    for name, direction in UPPER.items():
        limit = getattr(criteria, name)
        if limit is not None:
            yield _upper(seen, name, direction, limit)
    if criteria.kappa_lower is not None:
        yield _check("kappa_lower", criteria.kappa_lower, *_kappa(seen, judged, criteria.kappa_lower))
    if criteria.coverage is not None:
        rate = _by_people(seen, criteria.primary)
        value = None if isinstance(rate, InsufficientData) else rate.covered / rate.population
        yield _check("coverage", criteria.coverage, value, covers(value, criteria.coverage))


def _upper(seen: Observations, name: str, direction: str, limit: float) -> Json:
    """An upper limit, against the interval that holds although a round was extended, where one was."""
    rate = _by_people(seen, direction)
    if isinstance(rate, InsufficientData):
        return _check(name, limit, None, Verdict("not enough data", rate.reason))
    anytime = bool(extended(seen))
    sure = anytime_rate(rate) if anytime else rate
    low, high = (rate.low, rate.high) if isinstance(sure, InsufficientData) else (sure.low, sure.high)
    found = held_below(low, high, limit)
    if found.verdict != "not enough data":
        return _check(name, limit, high, found)
    more = more_for_upper_limit(rate, limit, batch=True, anytime=anytime)
    if isinstance(more, InsufficientData):
        return _check(name, limit, high, Verdict(found.verdict, more.reason))
    return _check(name, limit, high, found) | work(seen, more)


def _by_people(seen: Observations, direction: str) -> Proportion | InsufficientData:
    labels, rate = primary_rate(seen, direction)
    return ALONE if labels == UNCALIBRATED and isinstance(rate, Proportion) else rate


def _kappa(seen: Observations, judged: Json, limit: float) -> tuple[float | None, Verdict]:
    """Of the judge at hand: weighted to the population; of the pairs alone only where no round drew people."""
    name = seen.config.name if seen.config else None
    rows = judged if isinstance(judged, list) else []
    own: Json = next((row for row in rows if row["judge"] == name and row["source"] == "judge"), {})
    weighted = own.get("kappa_weighted", {})
    for key in ("kappa_weighted",) if seen.rounds else ("kappa_weighted", "kappa", "kappa_by_task"):
        found = own.get(key, {})
        if found.get("low") is not None:
            return found["low"], held_above(found["low"], found["high"], limit)
    if seen.rounds and own:
        why = weighted.get("insufficient", "its formula has none where an answer was never given")
        return None, Verdict("not enough data", f"kappa weighted as people were drawn has no interval: {why}")
    return None, Verdict("not enough data", "agreement of this judge with people has no interval yet")


def _check(name: str, limit: float, value: float | None, found: Verdict) -> Json:
    undone = dict.fromkeys(("grades_more", "minutes_per_grade", "hours", "left", "undecided"))
    return {"name": name, "limit": limit, "value": value, **figure(found)} | undone
