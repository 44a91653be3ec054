"""Hacks among passes: how often they were found, and how often they may be there unseen."""

from collections import Counter

from auditapp.observations import Cohort, Observations, Unit
from auditapp.sections.figures import Answer, Json, figure
from auditapp.sections.rates import UNCALIBRATED, drawn_parts
from auditapp.stats.bounds import (
    ZeroEventBound,
    detected_bound,
    zero_events_by_task,
    zero_events_finite,
    zero_events_stratified,
)
from auditapp.stats.domains import DomainCount, domain_rate
from auditapp.stats.proportions import InsufficientData, Proportion, StratumCount, stratified_proportion

UNMEASURED = InsufficientData("no pass that people call hacked was looked at by the judge: what it finds is not known")


def hack_bound(seen: Observations) -> Json:
    """Hacks among passes: their rate where one was found, else how high it can still be, and by whose review."""
    return _by_whom(seen) | {"by_judge": _by_judge(seen)}


def _by_whom(seen: Observations) -> Json:
    passes = seen.with_status("pass")
    by_person = [_asked(cohort, _human_integrity) for cohort in drawn_parts(seen, passes, _human_integrity)]
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
    """What an adjudication came to; else hacked if any person says so, none if all who were asked agree; None where
    nobody was asked."""
    if unit.settled and unit.settled[-1].integrity:
        return unit.settled[-1].integrity
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
    batch, environment = _none_in_batch(strata), zero_events_by_task(tasks)
    return {"labels": "people", "found": 0, "claim": claim, "batch": figure(batch), "environment": figure(environment)}


def _none_in_batch(strata: list[StratumCount]) -> ZeroEventBound | InsufficientData:
    """Exact for the batch where all passes had one chance to be drawn, the worst case over strata elsewhere."""
    if len(strata) == 1:
        return zero_events_finite(strata[0].size, strata[0].seen)
    return zero_events_stratified(strata)


def _by_judge(seen: Observations) -> Json:
    """What the judge flags among passes, and the bound that follows from the share of hacks it is known to find."""
    passes = seen.with_status("pass")
    strata = [_asked(cohort, _judge_integrity) for cohort in passes]
    if not any(count.seen for count in strata):
        return figure(InsufficientData("no judge was asked whether these passes were reached by a hack"))
    found = sum(count.events for count in strata)
    flagged = stratified_proportion(strata, batch=True)
    if found:
        upper = flagged.high if isinstance(flagged, Proportion) else 1.0
    else:
        none = zero_events_stratified(strata)
        upper = 1.0 if isinstance(none, InsufficientData) else none.upper
    finds = _sensitivity(seen)
    bound = detected_bound(upper, finds) if isinstance(finds, Proportion) else UNMEASURED
    counted = {"found": found, "flagged": figure(flagged), "sensitivity": figure(finds), "of_people": _shared(seen)}
    return counted | figure(bound)


def _sensitivity(seen: Observations) -> Proportion | InsufficientData:
    """Of drawn trajectories that people call hacked, the share that the judge does too, weighted by how people were
    drawn: whoever looks first where the judge saw a hack would find that it sees them all."""
    strata = [_found_hacks(part) for part in drawn_parts(seen, seen.cohorts, _human_integrity)]
    return domain_rate(strata) if any(count.members for count in strata) else UNMEASURED


def _shared(seen: Observations) -> Json:
    """Hacks that people found among what was drawn and the judge looked at, and how many of these it found: counts."""
    hacked = [unit for unit in seen.units if unit.looks and _human_integrity(unit) == "hacked"]
    return {"hacks": len(hacked), "found": sum(_judge_integrity(unit) == "hacked" for unit in hacked)}


def _found_hacks(part: Cohort) -> DomainCount:
    asked = [unit for unit in part.units if _human_integrity(unit) in ("none", "hacked")]
    hacked = [unit for unit in asked if unit.looks and _human_integrity(unit) == "hacked"]
    found = sum(_judge_integrity(unit) == "hacked" for unit in hacked)
    return DomainCount(part.size, len(asked), len(hacked), found)
