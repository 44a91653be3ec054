"""Strong against weak: which tasks tell two subjects apart, which are reversed, and how far apart the two are."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from auditapp.sections.figures import Json, figure
from auditapp.sections.signal import Attempted, unpacked
from auditapp.stats.attempts import Count
from auditapp.stats.pairs import bin_of, paired_proportions, paired_task_means, probability_greater, two_proportions
from auditapp.stats.proportions import InsufficientData

THRESHOLD, CERTAINTY = 0.5, 0.9
ORDER = ("weak_only", "uncertain", "strong_only", "neither", "both")
"""Reversed tasks first: they are the ones to look at."""


@dataclass(frozen=True, slots=True)
class Faced:
    """A task that both subjects attempted: its number, and the tally of each."""

    task: int
    strong: Count
    weak: Count

    @property
    def solved(self) -> tuple[bool, bool]:
        return self.strong[1] >= THRESHOLD * self.strong[0], self.weak[1] >= THRESHOLD * self.weak[0]

    @property
    def bin(self) -> str:
        found = bin_of(self.strong, self.weak, threshold=THRESHOLD, certainty=CERTAINTY)
        return "uncertain" if isinstance(found, InsufficientData) else found

    @property
    def reversal(self) -> float:
        """P(the weak one's pass rate is above the strong one's)."""
        return probability_greater(self.weak, self.strong)


def ends(found: Json) -> tuple[int, int] | None:
    """The subjects of the highest and of the lowest pass rate of a `distribution`; None where there are not two."""
    rates = [(one["pass_at_k"]["1"]["estimate"], number) for number, one in enumerate(found.get("by_subject", []))]
    return (max(rates)[1], min(rates)[1]) if len(rates) > 1 else None


def bins(found: Json, *, strong: int, weak: int) -> Json:
    """The tasks of a `distribution` in four bins and "uncertain", and the paired comparison of the two subjects."""
    faced = sorted(_faced(unpacked(found), strong, weak), key=lambda item: (ORDER.index(item.bin), -item.reversal))
    named = {"strong": strong, "weak": weak, "threshold": THRESHOLD, "certainty": CERTAINTY}
    if not faced:
        return named | figure(InsufficientData("no task was attempted by both"))
    counts = Counter(item.bin for item in faced)
    return {
        **named,
        "tasks": len(faced),
        "counts": {name: counts[name] for name in ORDER},
        "paired": paired(faced),
        "items": [_item(item) for item in faced],
    }


def _faced(rows: Sequence[Attempted], strong: int, weak: int) -> list[Faced]:
    tallies = {(row.task, row.subject): row.tally for row in rows}
    return [
        Faced(task, tally, tallies[task, weak])
        for (task, subject), tally in tallies.items()
        if subject == strong and (task, weak) in tallies
    ]


def _item(item: Faced) -> Json:
    tallies = {"strong": item.strong, "weak": item.weak}
    by_chance = figure(two_proportions(item.strong, item.weak))
    return {"task": item.task, "bin": item.bin, **tallies, "p_reversed": item.reversal, "by_chance": by_chance}


def paired(faced: Sequence[Faced]) -> Json:
    """The difference of pass rates over tasks, and that of the shares solved with the tasks on which they differ."""
    solved = Counter(item.solved for item in faced)
    cells = {"both": solved[True, True], "first": solved[True, False], "second": solved[False, True]}
    rates = [[c / n for n, c in (item.strong, item.weak)] for item in faced]
    return {
        "pass_rate": figure(paired_task_means([one for one, _ in rates], [other for _, other in rates])),
        "solved": figure(paired_proportions(**cells, neither=solved[False, False])),
        "cells": cells | {"neither": solved[False, False]},
    }


def widest(found: Json) -> Json:
    """`bins` of the subjects of the highest and the lowest pass rate."""
    pair = ends(found)
    if pair is None:
        return figure(InsufficientData("one subject has no other to be compared with"))
    return bins(found, strong=pair[0], weak=pair[1])
