"""What a judge's noise means: how its looks split, and which two models it can tell apart."""

from collections import Counter, defaultdict
from itertools import combinations
from statistics import fmean

from auditapp.observations import Observations, Unit
from auditapp.sections.figures import YES_NO, Json, figure
from auditapp.stats.consistency import self_consistency, separation
from auditapp.stats.proportions import InsufficientData

Subject = tuple[str, str, str]
"""Model, agent and effort."""


def splits(seen: Observations) -> Json:
    """Of the trajectories looked at most often: how many looks said yes. Abstentions and other numbers are counted."""
    looks = [[said.acceptable for said in unit.looks if said.acceptable] for unit in seen.units]
    repeated = [item for item in looks if len(item) >= 2]
    if not repeated:
        return figure(InsufficientData("no trajectory has two completed looks of this judge"))
    whole = [item for item in repeated if set(item) <= set(YES_NO)]
    if not whole:
        return figure(InsufficientData("in every repeated trajectory a look could not tell"))
    often = Counter(map(len, whole)).most_common(1)[0][0]
    said = Counter(item.count("yes") for item in whole if len(item) == often)
    return {
        "looks": often,
        "items": said.total(),
        "by_yes": [said[number] for number in range(often + 1)],
        "others": len(repeated) - said.total(),
    }


def separations(seen: Observations) -> Json:
    """Each two models on the tasks they share, by the judge's first looks, beside what its noise lets it see."""
    repeated = [[int(s.acceptable == "yes") for s in unit.looks if s.acceptable in YES_NO] for unit in seen.units]
    noise = self_consistency(repeated)
    if isinstance(noise, InsufficientData):
        return figure(InsufficientData("how much the judge varies is not known: no trajectory was looked at twice"))
    tried = _by_subject(seen.units)
    if len(tried) < 2:
        return figure(InsufficientData("the draw holds fewer than two models with decided work"))
    return [_pair(tried, one, other, noise.sigma_within) for one, other in combinations(sorted(tried), 2)]


Tried = dict[Subject, dict[int, list[float]]]
"""By subject and task: what the judge said of each attempt, 1 for acceptable."""


def _by_subject(units: list[Unit]) -> Tried:
    found: defaultdict[Subject, defaultdict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for unit in units:
        if unit.judge in YES_NO:
            found[unit.cell[1], unit.cell[2], unit.cell[3]][unit.task].append(float(unit.judge == "yes"))
    return {subject: dict(tasks) for subject, tasks in found.items()}


def _pair(tried: Tried, one: Subject, other: Subject, sigma: float) -> Json:
    shared = sorted(tried[one].keys() & tried[other].keys())
    gaps = [fmean(tried[one][task]) - fmean(tried[other][task]) for task in shared]
    looks = min((len(tried[subject][task]) for subject in (one, other) for task in shared), default=1)
    return {
        "first": _named(one),
        "second": _named(other),
        "looks": looks,
        **figure(separation(gaps, sigma_within=sigma, looks=looks)),
    }


def _named(subject: Subject) -> dict[str, str]:
    model, agent, effort = subject
    return {"model": model, "agent": agent, "effort": effort}
