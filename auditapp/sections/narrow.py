"""What would narrow the primary rate most: where its variance comes from, and the grades that halve its interval."""

from collections.abc import Sequence

from auditapp.models.estimates import AcceptanceCriteria
from auditapp.observations import Cohort, Observations
from auditapp.sections.figures import Json, figure
from auditapp.sections.pace import usual_seconds
from auditapp.sections.rates import UNCALIBRATED, WRONG, among, by_phase, judged_stratum, primary_rate
from auditapp.stats.planning import Further, effort, more_for_half_width, reviews_for_zero_bound
from auditapp.stats.proportions import InsufficientData, Proportion
from auditapp.stats.twophase import JudgedStratum, planned_parts, variance_parts

MOST = 12
FIRST_HALF_WIDTH = 0.05
"""The half width to plan for where people have graded nothing yet."""
NONE_FOUND = (0.05, 0.01)
"""Rates of hacks, of which it is said how many passes without one show that there are fewer."""


def narrow(seen: Observations) -> Json:
    """The cells, stratum by what the judge said, that the primary rate is least sure of, and what halving it takes."""
    primary = primary_direction(seen)
    labels, rate = primary_rate(seen, primary)
    cohorts = [cohort for cohort in among(seen, primary) if cohort.units]
    if not cohorts:
        return {"primary": primary} | figure(InsufficientData("nothing with this verdict was drawn"))
    strata = [_stratum(seen, cohort, WRONG[primary]) for cohort in cohorts]
    graded = labels != UNCALIBRATED
    found = variance_parts(strata) if graded else planned_parts(strata)
    return {
        "primary": primary,
        "rate": figure(rate),
        "labels": labels,
        "basis": "variance" if graded else "size of the cell, as nobody has decided any",
        "parts": [_part(cohorts, strata, row.stratum, row.answer, row.share) for row in found[:MOST]],
        "unseen": sum(
            answer.size for stratum in strata for answer in stratum.answers if answer.size and not answer.seen
        ),
        "to_halve": _to_halve(seen, rate, people=graded),
        "none_found": _none_found(seen),
    }


def _none_found(seen: Observations) -> Json:
    """How many passes of this batch, drawn at random and without a hack, show that fewer than a limit are hacks."""
    passes = sum(cohort.size for cohort in seen.with_status("pass"))
    plans = [(limit, reviews_for_zero_bound(limit, population=passes)) for limit in NONE_FOUND if passes]
    return [{"limit": limit, "reviews": reviews, "of": passes} for limit, reviews in plans]


def primary_direction(seen: Observations) -> str:
    """Which rate was declared the primary one; false passes where nothing was."""
    criteria = AcceptanceCriteria.objects.filter(version=seen.version).order_by("-pk").first()
    return criteria.primary if criteria else "false_pass"


def _stratum(seen: Observations, cohort: Cohort, event: str) -> JudgedStratum:
    """Cut by what the judge said; by how people were drawn where there is no judge."""
    return judged_stratum(cohort, event) if any(u.looks for u in seen.units) else by_phase(cohort, event)


def _part(cohorts: Sequence[Cohort], strata: Sequence[JudgedStratum], h: int, j: int, share: float) -> Json:
    status, model, agent, effort_, environment = cohorts[h].cell
    answer = strata[h].answers[j]
    named = {"verifier_status": status, "model": model, "agent": agent, "effort": effort_, "environment": environment}
    name = strata[h].names[j]
    said = name[1] if isinstance(name, tuple) else ""
    return {"stratum": named, "answer": said, "size": answer.size, "graded": answer.seen, "share_of_variance": share}


def _to_halve(seen: Observations, rate: Proportion | InsufficientData, *, people: bool) -> Json:
    """Further grades, spread as those there are, and hours; what a judge alone said has no interval to halve."""
    if isinstance(rate, InsufficientData):
        return figure(rate)
    wanted = (rate.high - rate.low) / 4 if people else FIRST_HALF_WIDTH
    more = more_for_half_width(rate, wanted, graded=rate.n if people else 0, batch=True)
    if isinstance(more, InsufficientData):
        return figure(more)
    now = (rate.high - rate.low) / 2 if people else None
    return {"half_width": now, "wanted_half_width": wanted, "grades_now": rate.n if people else 0} | work(seen, more)


def work(seen: Observations, more: Further) -> Json:
    """Further grades, of how many, with what to settle beside, and the hours they take people."""
    done = effort(more.grades, usual_seconds(seen.version.dataset, released=True))
    return figure(done) | {"left": more.left, "undecided": more.undecided}
