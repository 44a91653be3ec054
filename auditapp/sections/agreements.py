"""Who agrees with whom: people with people, each judge with people, a judge with itself."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from auditapp.observations import Cohort, Observations, Said, Unit
from auditapp.sections.figures import ANSWERS, YES_NO, Json, figure
from auditapp.sections.rates import BY_VERDICT, UNWEIGHTED, WEIGHTED, pairs_of, people_cells, people_rate
from auditapp.stats.agreement import (
    ac1,
    accuracy,
    bootstrap_by_task,
    fleiss_kappa,
    kappa,
    kappa_value,
    krippendorff_alpha,
    raw_agreement,
    weighted_kappa,
    within_stratum,
)
from auditapp.stats.consistency import judge_noise, pairwise_flip, self_consistency
from auditapp.stats.domains import DomainCount, domain_rate
from auditapp.stats.planning import items_for_difference
from auditapp.stats.proportions import InsufficientData, Proportion

DRAWS, SEED, FEW = 1000, 1, 30
DIFFERENCE = 0.02
"""The difference between two passes of a judge that the number of trajectories is planned for."""
AFTER = {"satisfied": "yes", "not_satisfied": "no", "cannot_tell": "unknown"}
PARTS = ("by_stratum", "by_length")
OF_PAIRS = ("raw", "raw_with_abstentions", "kappa", "kappa_by_task", "ac1", "alpha", "accuracy", "within", *PARTS)
"""Figures of a comparison that are of the pairs looked at, unless they are weighted."""
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


@dataclass(frozen=True, slots=True)
class _Cell:
    """What a cell of a verdict stands for, of how many people decided or could not, and the pairs both decided."""

    verdict: str
    size: int
    decided: int
    unknown: int
    pairs: tuple[Pair, ...]

    @property
    def weight(self) -> float:
        """How much of the population both would decide in it."""
        return self.size * len(self.pairs) / self.decided


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
    pairs = [Pair(unit, one, other) for unit in everyone(seen) for one, other in pairs_of(unit)]
    if not pairs:
        return figure(InsufficientData("no trajectory has labels of two people"))
    alpha = krippendorff_alpha([[said.acceptable for said in unit.people] for unit in everyone(seen)])
    found = compared(pairs) | {"alpha": figure(alpha), "fleiss": _fleiss(seen), "anecdote": len(pairs) < FEW}
    if not seen.rounds:
        return found | weighting(found)
    by_cell = {"raw": figure(people_rate(seen, agree=True)), "ac1": figure(ac1(_table_of_cells(_people_cells(seen))))}
    return found | by_cell | weighting(found, *by_cell)


def _fleiss(seen: Observations) -> Json:
    """Of the trajectories with that number of labels which most of those with two or more have; abstentions count."""
    labeled = [Counter(said.acceptable or "unknown" for said in unit.people) for unit in everyone(seen)]
    numbers = Counter(each for given in labeled if (each := given.total()) > 1)
    each, units = max(numbers.items(), key=lambda item: (item[1], item[0]))
    rows = [[given[answer] for answer in ANSWERS] for given in labeled if given.total() == each]
    return {"units": units, "labels_each": each, "kappa": figure(fleiss_kappa(rows))}


def weighting(found: Json, *weighted: str, by: str = WEIGHTED) -> Json:
    """Of each figure of a comparison whether it is of the population that rounds drew people from, or of the pairs."""
    plain = [key for key in OF_PAIRS if key in found and key not in weighted]
    return {"weighting": dict.fromkeys(weighted, by) | dict.fromkeys(plain, UNWEIGHTED)}


def judge_human(seen: Observations, name: str) -> Json:
    """Each judge against what people said together; trajectories on which people differ are left out and counted."""
    answers = _by_judge(seen, name)
    found = [
        {"judge": labeler, "source": source} | _against_people(seen, said)
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
    """A comparison with accuracy, overall and where the verifier said one thing.

    Where rounds drew people by cells, what has a weighted form is weighted by these; `weighting` says which has.
    """
    decided = [pair for pair in pairs if pair.second in YES_NO]
    cells = _cells(seen, decided)
    found = compared(pairs) | {"kappa_weighted": figure(_kappa_of_cells(cells))}
    if not seen.rounds:
        strata = {"pass": ("pass",), "fail": seen.failing}
        tables = {name: table_of(p for p in decided if p.unit.status in said) for name, said in strata.items()}
        plain = {
            "accuracy": figure(accuracy(table_of(decided))),
            "within": {name: figure(within_stratum(table)) for name, table in tables.items()},
        }
        whole = found | plain | _apart(pairs, None)
        return whole | weighting(whole, "kappa_weighted", by=BY_VERDICT)
    by_cell = (
        _by_cell(cells)
        | {
            "accuracy": figure(accuracy(_table_of_cells(cells))),
            "within": {
                name: {
                    share: figure(_agreed([cell for cell in cells if cell.verdict == name], _said_by_people(answer)))
                    for share, answer in (("sensitivity", "yes"), ("specificity", "no"))
                }
                for name in ("pass", "fail")
            },
        }
        | _apart(pairs, cells)
    )
    return found | by_cell | weighting(found, "kappa_weighted", *by_cell)


def _apart(pairs: Sequence[Pair], cells: Sequence[_Cell] | None) -> Json:
    """The three answers of both by verdict and environment, and by how long the trajectory is.

    Shares are of the population that `cells` stand for, of the pairs where there are none.
    """
    strata, lengths = _grouped(pairs, _stratum_of), _grouped(pairs, _length_of)

    def part(key: Callable[[Pair], Hashable], value: Hashable, found: Sequence[Pair]) -> Json:
        raw = raw_agreement(table_of(found)) if cells is None else _agreed(cells, lambda pair: key(pair) == value)
        return {"counts": table_of(found, ANSWERS), "n": len(found), "raw": figure(raw)}

    return {
        "by_stratum": [
            {"verifier_status": stratum[0], "environment": stratum[1]} | part(_stratum_of, stratum, found)
            for stratum, found in sorted(strata.items())
        ],
        "by_length": [
            {"least": band[0], "most": band[1]} | part(_length_of, band, lengths[band])
            for band in LENGTHS
            if band in lengths
        ],
    }


def _stratum_of(pair: Pair) -> tuple[str, str]:
    return pair.unit.cell[0], pair.unit.cell[4]


def _length_of(pair: Pair) -> tuple[int | None, int | None]:
    steps = pair.unit.steps
    return next(
        (band for band in LENGTHS if steps and band[0] and band[0] <= steps <= (band[1] or steps)), (None, None)
    )


def _grouped(pairs: Sequence[Pair], key: Callable[[Pair], Key]) -> dict[Key, list[Pair]]:
    found: defaultdict[Key, list[Pair]] = defaultdict(list)
    for pair in pairs:
        found[key(pair)].append(pair)
    return dict(found)


def _cells(seen: Observations, pairs: Sequence[Pair]) -> list[_Cell]:
    """Each verdict by the cells that rounds drew people from; a single pair is taken together with the most.

    Strata of the frame would leave too few pairs in each.
    """
    said = {id(pair.unit): pair for pair in pairs if pair.first in YES_NO}  # a late label is of an undrawn copy
    found = [_cell(cell, said) for cell in people_cells(seen)]
    return [cell for verdict in ("pass", "fail") for cell in _joined([c for c in found if c.verdict == verdict])]


def _cell(cell: Cohort, said: Mapping[int, Pair]) -> _Cell:
    answers = Counter(unit.human for unit in cell.units)
    pairs = tuple(said[id(unit)] for unit in cell.units if id(unit) in said)
    verdict = "pass" if cell.cell[0] == "pass" else "fail"
    return _Cell(verdict, cell.size, answers["yes"] + answers["no"], answers["unknown"], pairs)


def _joined(cells: Sequence[_Cell]) -> list[_Cell]:
    """One verdict's cells without empty ones."""
    seen = sorted((cell for cell in cells if cell.pairs), key=lambda cell: -len(cell.pairs))
    alone = [cell for cell in seen[1:] if len(cell.pairs) == 1]
    return [_merged([seen[0], *alone]), *(cell for cell in seen[1:] if cell not in alone)] if seen else []


def _merged(cells: Sequence[_Cell]) -> _Cell:
    return _Cell(
        verdict=cells[0].verdict,
        size=sum(cell.size for cell in cells),
        decided=sum(cell.decided for cell in cells),
        unknown=sum(cell.unknown for cell in cells),
        pairs=tuple(pair for cell in cells for pair in cell.pairs),
    )


def _people_cells(seen: Observations) -> list[_Cell]:
    """Pairs of people by the cells that rounds drew them from; in place of trajectories it counts pairs."""
    found = []
    for cell in people_cells(seen):
        given = [Pair(unit, *pair) for unit in cell.units for pair in pairs_of(unit)]
        decided = tuple(pair for pair in given if pair.first in YES_NO and pair.second in YES_NO)
        found.append(_Cell(cell.cell[0], cell.size, len(given), 0, decided))
    return [cell for cell in found if cell.pairs]


def _kappa_of_cells(cells: Sequence[_Cell]) -> object:
    """Kappa of the population by verifier verdict and, where rounds drew people's part, by the cells of the draw."""
    if not cells:
        return InsufficientData("no trajectory of the sample was decided by both")
    return weighted_kappa([cell.weight for cell in cells], [table_of(cell.pairs) for cell in cells])


def _table_of_cells(cells: Sequence[_Cell]) -> list[list[float]]:
    """The table of the population that the cells stand for."""
    found = [[0.0] * len(YES_NO) for _ in YES_NO]
    for cell in cells:
        for i, row in enumerate(table_of(cell.pairs)):
            for j, count in enumerate(row):
                found[i][j] += cell.size * count / cell.decided
    return found


def _by_cell(cells: Sequence[_Cell]) -> Json:
    """Agreement of judge and people in the population that the cells stand for."""
    return {"raw": figure(_agreed(cells, lambda _: True)), "ac1": figure(ac1(_table_of_cells(cells)))}


def _agreed(cells: Sequence[_Cell], of: Callable[[Pair], bool]) -> Proportion | InsufficientData:
    """In the population that the cells stand for, of the pairs that `of` names the share in which both say the same."""
    return domain_rate([_counted_in(cell, of) for cell in cells])


def _counted_in(cell: _Cell, of: Callable[[Pair], bool]) -> DomainCount:
    members = [pair for pair in cell.pairs if of(pair)]
    events = sum(pair.first == pair.second for pair in members)
    return DomainCount(cell.size, cell.decided, len(members), events, cell.unknown)


def _said_by_people(answer: str) -> Callable[[Pair], bool]:
    return lambda pair: pair.second == answer


def judge_after(seen: Observations, name: str) -> Json:
    """What the judge said after it saw verdict and reference, against people: never its blind label."""
    pairs = [
        Pair(unit, AFTER[unit.looks[0].after], unit.human)
        for unit in everyone(seen)
        if unit.human and unit.looks and unit.looks[0].after
    ]
    if not pairs:
        return figure(InsufficientData("no trajectory has a judge's second decision and a person's label"))
    found = compared(pairs)
    by_cell = _by_cell(_cells(seen, [pair for pair in pairs if pair.second in YES_NO])) if seen.rounds else {}
    return {"judge": name} | found | by_cell | weighting(found, *by_cell)


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
    flips |= {"decided_items": found.items}  # what sigma rests on: two looks or more that decided
    noise = {"noise": figure(judge_noise(found.sigma_within, items=len(seen.units)))}
    needed = items_for_difference(found.sigma_within, DIFFERENCE)
    return figure(found) | flips | noise | {"planned": {"difference": DIFFERENCE, "items": needed}}


def _answers(looks: Sequence[Said]) -> list[str]:
    return [said.acceptable for said in looks if said.acceptable]
