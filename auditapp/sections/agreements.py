"""Who agrees with whom: people with people, each judge with people, a judge with itself."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

from auditapp.observations import Observations, Said, Unit
from auditapp.sections.figures import ANSWERS, YES_NO, Json, figure
from auditapp.sections.rates import drawn_parts
from auditapp.stats.agreement import (
    ac1,
    accuracy,
    bootstrap_by_task,
    kappa,
    kappa_value,
    krippendorff_alpha,
    raw_agreement,
    weighted_kappa,
    within_stratum,
)
from auditapp.stats.consistency import judge_noise, pairwise_flip, self_consistency
from auditapp.stats.planning import items_for_difference
from auditapp.stats.proportions import InsufficientData

DRAWS, SEED, FEW = 1000, 1, 30
DIFFERENCE = 0.02
"""The difference between two passes of a judge that the number of trajectories is planned for."""
AFTER = {"satisfied": "yes", "not_satisfied": "no", "cannot_tell": "unknown"}
Table = list[list[int]]
Key = TypeVar("Key", bound=Hashable)
LENGTHS: tuple[tuple[int | None, int | None], ...] = ((1, 10), (11, 30), (31, 100), (101, None), (None, None))
"""Steps of a trajectory, from and to; the last holds those whose steps were not recorded."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two labels of one unit, as yes, no or unknown."""

    unit: Unit
    first: str
    second: str


def agreement(seen: Observations) -> Json:
    """People among themselves, each judge against people, and the judge after it saw the verifier."""
    judge = seen.config.name if seen.config else ""
    return {
        "human_human": human_human(seen),
        "judge_human": judge_human(seen, judge),
        "judge_after": judge_after(seen, judge),
    }


def everyone(seen: Observations) -> list[Unit]:
    """Whoever was labeled, drawn or not, whatever the verifier said: agreement is of labelers."""
    return [*seen.units, *seen.others]


def human_human(seen: Observations) -> Json:
    """Every two labels of different people on one trajectory, in order of their names."""
    pairs = [
        Pair(unit, one.acceptable or "unknown", other.acceptable or "unknown")
        for unit in everyone(seen)
        for one, other in combinations(sorted(unit.people, key=lambda said: said.labeler), 2)
    ]
    if not pairs:
        return figure(InsufficientData("no trajectory has labels of two people"))
    alpha = krippendorff_alpha([[said.acceptable for said in unit.people] for unit in everyone(seen)])
    return compared(pairs) | {"alpha": figure(alpha), "anecdote": len(pairs) < FEW}


def judge_human(seen: Observations, name: str) -> Json:
    """Each judge against what people said together; trajectories on which people differ are left out and counted."""
    answers = _by_judge(seen, name)
    found = [
        {"judge": labeler, "source": source} | _against_people(seen, said) | _apart(said)
        for (source, labeler), said in sorted(answers.items())
    ]
    return found or figure(InsufficientData("no trajectory has labels of a judge and of a person"))


def _by_judge(seen: Observations, name: str) -> dict[tuple[str, str], list[Pair]]:
    answers: defaultdict[tuple[str, str], list[Pair]] = defaultdict(list)
    for unit in everyone(seen):
        if unit.human is None:
            continue
        if unit.is_judged:
            answers["judge", name].append(Pair(unit, unit.judge, unit.human))
        for said in unit.judges:
            answers["imported_judge", said.labeler].append(Pair(unit, said.acceptable or "unknown", unit.human))
    return answers


def _against_people(seen: Observations, pairs: Sequence[Pair]) -> Json:
    """A comparison with accuracy, overall and where the verifier said one thing."""
    decided = [pair for pair in pairs if pair.second in YES_NO]
    strata = {"pass": ("pass",), "fail": seen.failing}
    return compared(pairs) | {
        "accuracy": figure(accuracy(table_of(decided))),
        "within": {
            name: figure(within_stratum(table_of([pair for pair in decided if pair.unit.status in statuses])))
            for name, statuses in strata.items()
        },
        "kappa_weighted": figure(_weighted(seen, decided)),
    }


def _apart(pairs: Sequence[Pair]) -> Json:
    """The three answers of both by verdict and environment, and by how long the trajectory is."""
    strata, lengths = (
        _grouped(pairs, _stratum_of),
        _grouped(pairs, lambda pair: _length_of(pair.unit.steps)),
    )
    return {
        "by_stratum": [
            {"verifier_status": status, "environment": environment} | _counted(found)
            for (status, environment), found in sorted(strata.items())
        ],
        "by_length": [
            {"least": band[0], "most": band[1]} | _counted(lengths[band]) for band in LENGTHS if band in lengths
        ],
    }


def _stratum_of(pair: Pair) -> tuple[str, str]:
    return pair.unit.cell[0], pair.unit.cell[4]


def _length_of(steps: int | None) -> tuple[int | None, int | None]:
    return next(
        (band for band in LENGTHS if steps and band[0] and band[0] <= steps <= (band[1] or steps)), (None, None)
    )


def _grouped(pairs: Sequence[Pair], key: Callable[[Pair], Key]) -> dict[Key, list[Pair]]:
    found: defaultdict[Key, list[Pair]] = defaultdict(list)
    for pair in pairs:
        found[key(pair)].append(pair)
    return dict(found)


def _counted(pairs: Sequence[Pair]) -> Json:
    decided = table_of(pairs)
    return {"counts": table_of(pairs, ANSWERS), "n": len(pairs), "raw": figure(raw_agreement(decided))}


def _weighted(seen: Observations, pairs: Sequence[Pair]) -> object:
    """Kappa of the population by verifier verdict and, where rounds drew people's part, by the cells of the draw.

    Strata of the frame would leave too few pairs in each.
    """
    said = {id(pair.unit): pair for pair in pairs if pair.first in YES_NO}  # a late label is of an undrawn copy
    cells = [cell for statuses in (("pass",), seen.failing) for cell in _cells(seen, statuses, said)]
    if not cells:
        return InsufficientData("no trajectory of the sample was decided by both")
    return weighted_kappa([size for size, _ in cells], [table_of(found) for _, found in cells])


def _cells(seen: Observations, statuses: Sequence[str], said: Mapping[int, Pair]) -> list[tuple[int, list[Pair]]]:
    """What each cell of a verdict stands for, and its pairs; a single pair is taken together with the most."""
    sizes: Counter[str] = Counter()
    found: defaultdict[str, list[Pair]] = defaultdict(list)
    for part in drawn_parts(seen, seen.with_status(*statuses)):
        cell = part.units[0].phase if part.units else ""
        sizes[cell] += part.size
        found[cell] += [said[id(unit)] for unit in part.units if id(unit) in said]
    most = max(found, key=lambda cell: len(found[cell]), default="")
    for cell in [cell for cell, given in found.items() if len(given) == 1 and cell != most]:
        sizes[most] += sizes.pop(cell)
        found[most] += found.pop(cell)
    return [(sizes[cell], given) for cell, given in found.items() if given]


def judge_after(seen: Observations, name: str) -> Json:
    """What the judge said after it saw verdict and reference, against people: never its blind label."""
    pairs = [
        Pair(unit, AFTER[unit.looks[0].after], unit.human)
        for unit in everyone(seen)
        if unit.human and unit.looks and unit.looks[0].after
    ]
    if not pairs:
        return figure(InsufficientData("no trajectory has a judge's second decision and a person's label"))
    return {"judge": name} | compared(pairs)


def compared(pairs: Sequence[Pair]) -> Json:
    """Counts first, then agreement of what both decided: raw, beyond chance, and when tasks are drawn anew."""
    decided = [pair for pair in pairs if pair.first in YES_NO and pair.second in YES_NO]
    table = table_of(decided)
    return {
        "answers": list(ANSWERS),
        "counts": table_of(pairs, ANSWERS),
        "table": table,
        "n": len(pairs),
        "decided": len(decided),
        "raw": figure(raw_agreement(table)),
        "raw_with_abstentions": figure(raw_agreement(table_of(pairs, ANSWERS))),
        "kappa": figure(kappa(table)),
        "kappa_by_task": figure(bootstrap_by_task(_by_task(decided), kappa_value, seed=SEED, draws=DRAWS)),
        "ac1": figure(ac1(table)),
    }


def table_of(pairs: Iterable[Pair], answers: Sequence[str] = YES_NO) -> Table:
    """Rows the first labeler, columns the second; pairs with another answer are not in it."""
    found = Counter((pair.first, pair.second) for pair in pairs)
    return [[found[row, column] for column in answers] for row in answers]


def _by_task(pairs: Sequence[Pair]) -> list[Table]:
    tasks: defaultdict[int, list[Pair]] = defaultdict(list)
    for pair in pairs:
        tasks[pair.unit.task].append(pair)
    return [table_of(found) for found in tasks.values()]


def consistency(seen: Observations) -> Json:
    """The judge against itself: spread, flips, and the least difference between two batches that it can show."""
    looks = [_answers(unit.looks) for unit in seen.units]
    repeated = [item for item in looks if len(item) >= 2]
    if not repeated:
        return figure(InsufficientData("no trajectory has two completed looks of this judge"))
    binary = [[int(answer == "yes") for answer in item if answer in YES_NO] for item in repeated]
    found = self_consistency(binary)
    flips = {"flip_with_abstentions": figure(pairwise_flip(repeated)), "items": len(repeated)}
    if isinstance(found, InsufficientData):
        return figure(found) | flips
    noise = {"noise": figure(judge_noise(found.sigma_within, items=len(seen.units)))}
    needed = items_for_difference(found.sigma_within, DIFFERENCE)
    return figure(found) | flips | noise | {"planned": {"difference": DIFFERENCE, "items": needed}}


def _answers(looks: Sequence[Said]) -> list[str]:
    return [said.acceptable for said in looks if said.acceptable]
