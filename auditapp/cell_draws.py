"""Drawing a round over trajectories outside any sample, from cells that are named for what matters to the round.

A draw can be recomputed from its manifest (a blob, its digest in the round's plan) and its seed, as one from a sample
can: see `round_draws`. `k` = 1, 2, ... are the cells here, and the g-th verifier status (in order of name) takes the
place of the g-th verifier × judge cell where some units get two slots.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from django.contrib.auth.models import User
from django.db import transaction

from auditapp import blobs
from auditapp.models.datasets import DatasetVersion
from auditapp.models.reviews import HeldOutSet, ReviewRound
from auditapp.models.rounds import RoundDraw
from auditapp.review import log
from auditapp.round_draws import (
    ORDER,
    TWICE,
    Candidate,
    RoundError,
    RoundSettings,
    Taken,
    assign,
    ceil,
    check_round,
    create,
    earlier_draw,
    make_items,
    make_slots,
    smallest,
)
from auditapp.sampling import draw_keys
from judges.records import Json, canonical_json

Allocate = Callable[[Sequence[int], int], tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Unit:
    """A trajectory that may be drawn; `status` is what its verifier said."""

    source_id: str
    trajectory: int
    task: int
    status: str


@dataclass(frozen=True, slots=True)
class Cell:
    """Units that share what `label` says, and how many of them are drawn."""

    label: Mapping[str, Json]
    units: tuple[Unit, ...]
    draw: int

    @property
    def size(self) -> int:
        return len(self.units)

    @property
    def probability(self) -> float:
        """With which each unit is drawn."""
        return self.draw / self.size


@dataclass(frozen=True, slots=True)
class CellPlan:
    """Cells with what is drawn from each, and the share of every verifier status that gets two slots."""

    cells: tuple[Cell, ...]
    overlap: float = 0.0

    @property
    def items(self) -> int:
        return sum(cell.draw for cell in self.cells)

    @property
    def available(self) -> int:
        return sum(len(cell.units) for cell in self.cells)


def plan_cells(
    units: Iterable[tuple[Mapping[str, Json], Unit]], *, size: int, allocate: Allocate, overlap: float = 0.0
) -> CellPlan:
    """Gather units by label, in the order they come, and say how many each cell gives. Raises RoundError."""
    members: defaultdict[tuple[tuple[str, Json], ...], list[Unit]] = defaultdict(list)
    for label, unit in units:
        members[tuple(label.items())].append(unit)
    available = sum(len(found) for found in members.values())
    if not 0 < size <= available:
        raise RoundError(f"{available} trajectories can be drawn, {size} were asked for.")
    if not 0 <= overlap <= 1:
        raise RoundError("The overlap is a share between 0 and 1.")
    draws = allocate([len(found) for found in members.values()], size)
    cells = (Cell(dict(key), tuple(found), n) for (key, found), n in zip(members.items(), draws, strict=True))
    return CellPlan(tuple(cells), overlap)


def draw_cells(
    version: DatasetVersion,
    plan: CellPlan,
    *,
    asked: Json,
    reviewers: Sequence[User],
    title: str,
    seed: int,
    by: User | None,
    settings: RoundSettings,
    held_out: HeldOutSet | None = None,
) -> ReviewRound:
    """Draw items and make their slots; the same request twice gives the round that is there. Raises RoundError."""
    check_round(version, reviewers, settings, seed=seed, twice=plan.overlap > 0)
    digest = blobs.put(_manifest(plan))
    asked = asked_in_all(asked, settings, size=plan.items, overlap=plan.overlap)
    with transaction.atomic():
        DatasetVersion.objects.select_for_update().get(pk=version.pk)  # one draw at a time: rounds are numbered
        if earlier := earlier_draw(version, title, seed, asked):
            return earlier
        round = create(version, settings, title=title, seed=seed, by=by)
        recorded = {"asked": asked, "manifest": digest, "cells": [_recorded(cell) for cell in plan.cells]}
        RoundDraw.objects.create(round=round, held_out=held_out, plan=recorded)
        taken = _select(plan, digest, seed)
        items = make_items(round, digest, taken, first=1)
        slots = make_slots(round, digest, [(item, one.copies) for item, one in zip(items, taken, strict=True)])
        assign(round, reviewers, digest)
        log(round, "round_drawn", by=by, number=round.number, seed=seed, items=len(items), slots=slots)
    return round


def asked_in_all(asked: Json, settings: RoundSettings, *, size: int, overlap: float) -> Json:
    """What a round is known by if it is asked for again."""
    return {**asked, "kind": settings.kind, "size": size, "overlap": overlap}


def _manifest(plan: CellPlan) -> bytes:
    cells = [{**cell.label, "units": [unit.source_id for unit in cell.units]} for cell in plan.cells]
    return canonical_json({"schema": "assay.round-cells/1", "overlap": plan.overlap, "cells": cells})


def _recorded(cell: Cell) -> Json:
    found = {"size": cell.size, "drawn": cell.draw, "inclusion_probability": cell.probability}
    return {"label": dict(cell.label), **found}


def _select(plan: CellPlan, digest: str, seed: int) -> list[Taken]:
    """The units a seed draws, in the order of their items, each with its number of slots."""
    chosen: list[tuple[int, Unit]] = []
    for index, cell in enumerate(plan.cells):
        places = smallest(digest, seed, index + 1, len(cell.units), cell.draw)
        chosen += [(index, cell.units[place]) for place in sorted(places)]
    doubled: set[int] = set()
    for number, status in enumerate(sorted({unit.status for _, unit in chosen})):
        of_status = [place for place, (_, unit) in enumerate(chosen) if unit.status == status]
        wanted = ceil(plan.overlap * len(of_status))
        doubled |= {of_status[place] for place in smallest(digest, seed, TWICE - number, len(of_status), wanted)}
    order = np.argsort(draw_keys(digest, seed, ORDER, len(chosen)), kind="stable")
    return [
        Taken(index, Candidate(unit.source_id, unit.trajectory, unit.task), 2 if place in doubled else 1)
        for place in order
        for index, unit in [chosen[place]]
    ]
