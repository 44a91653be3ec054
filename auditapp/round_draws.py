"""Drawing a round of review: the second phase of sampling, from what the verifier and the judge had said.

A draw can be recomputed from the manifest of its pool and its seed alone. The manifest (a blob, its digest in the
round's plan) holds frame digest, sample, judge digest and, cell by cell, the source ids of the units that could be
drawn, in order. A cell is a stratum of the sample × what the judge said. With `draw_keys(manifest, seed, k, n)`:

- k = 1, 2, ...: the keys of the units of the k-th cell; those with the smallest keys are drawn;
- k = -100 - g: of the units drawn in the g-th verifier × judge cell (in order of manifest), the smallest get two slots;
- k = -1: the order of the items; -2: which come back to the same reviewer; -3: which slots ask for a guess; -4: the
  places of the slots in the queue.

An extension draws from what is left by a manifest of its own, with the same seed.
"""

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, Max, OuterRef, QuerySet

from auditapp import blobs
from auditapp.cases import rubric_in_force
from auditapp.models.datasets import DatasetVersion, Membership, Task, TaskRubric
from auditapp.models.judgments import JudgeConfig, Judgment, JudgmentState
from auditapp.models.labels import PEOPLE, LabelSource, labels
from auditapp.models.reviews import (
    POSITIONS,
    Exclusion,
    ReviewItem,
    ReviewRound,
    RoundKind,
    RoundReviewer,
    RoundState,
    Slot,
)
from auditapp.models.rounds import ItemDraw, RoundDraw, RoundStratum
from auditapp.models.samples import Sample, SampleUnit, Stratum
from auditapp.models.sources import TrajectorySource
from auditapp.observations import observe
from auditapp.review import log
from auditapp.sampling import LARGEST_SEED, draw_keys
from auditapp.stats.allocation import expected_share, floor_that_fits, neyman, proportional, proportional_with_floor
from judges.records import Json, canonical_json, content_digest

ANSWERS = ("yes", "no", "unknown")
LIVE = (RoundState.DRAWN, RoundState.OPEN, RoundState.CLOSED)
CHUNK = 500
REPEAT_DAYS = 7
"""The days after which an item may come back unannounced at the earliest: sooner, people remember what they said."""
RubricChoice = Literal["newest", "judged", "first"]
ORDER, REPEATS, GUESSES, PLACES, TWICE = -1, -2, -3, -4, -100
WRONG = {"pass": "no", "fail": "yes", "partial": "yes"}
"""The answer that makes a verdict wrong."""
AGREES, DIFFERS = (1.0, 10.0), (1.0, 2.0)
"""Expected share of wrong verdicts before any person looked, as a of b: where the judge agrees, and elsewhere."""


class RoundError(ValueError):
    """A round that cannot be drawn or changed; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class RoundPlan:
    """How many items, how they are spread over the cells, and which share of every verifier × judge cell is doubled.

    `regrade` lets trajectories in that people have labeled or are grading already. `rubric` says which version of a
    task's requirements people answer: that in force at the draw, the first, or the one that the judge answered (where
    it answered none, that in force).
    """

    size: int
    method: Literal["proportional", "neyman"] = "proportional"
    floor: int = 2
    overlap: float = 0.2
    regrade: bool = False
    rubric: RubricChoice = "newest"


@dataclass(frozen=True, slots=True)
class RoundSettings:
    """What reviewers see and are asked, as the fields of `ReviewRound` of the same names."""

    kind: str = RoundKind.BLIND
    instructions: str = ""
    shows_instructions: bool = True
    shows_reference: bool = False
    by_field: bool = False
    repeat_share: float = 0.05
    repeat_days: int = REPEAT_DAYS
    guess_share: float = 0.1
    lease_minutes: int = 15
    is_scripted: bool = False
    fallback: User | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A unit of the sample that may be drawn."""

    source_id: str
    trajectory: int
    task: int


@dataclass(frozen=True, slots=True)
class Cell:
    """Units of one stratum of which the judge said the same; `left_out` more of it have people's labels already."""

    stratum: Stratum
    answer: str
    units: tuple[Candidate, ...]
    left_out: int

    @property
    def group(self) -> tuple[str, str]:
        """What overlap is counted by: verifier status and the judge's answer."""
        return self.stratum.verifier_status, self.answer


@dataclass(frozen=True, slots=True)
class PlannedCell:
    """A cell with the number to draw, and the share of wrong verdicts expected in it (for Neyman's method)."""

    cell: Cell
    draw: int
    share: float | None


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """A verifier × judge cell: how many there are, how many would be drawn, and how many of these twice."""

    status: str
    answer: str
    size: int
    left_out: int
    draw: int
    twice: int


@dataclass(frozen=True, slots=True)
class Planned:
    """What a plan comes to, before any seed; `floor` is the one that the size allowed."""

    cells: tuple[PlannedCell, ...]
    groups: tuple[PlannedGroup, ...]
    floor: int
    digest: str

    @property
    def items(self) -> int:
        return sum(part.draw for part in self.cells)

    @property
    def slots(self) -> int:
        return self.items + sum(group.twice for group in self.groups)

    @property
    def empty(self) -> int:
        """Cells that have units and of which none would be drawn: nothing could be said about them."""
        return sum(1 for part in self.cells if part.cell.units and not part.draw)


@dataclass(frozen=True, slots=True)
class Taken:
    """One drawn unit, of which cell (from 0), and in how many slots."""

    cell: int
    unit: Candidate
    copies: int


# --- the pool and the plan


def plan_round(
    sample: Sample, config: JudgeConfig | None, plan: RoundPlan, *, within: ReviewRound | None = None
) -> Planned:
    """Sizes by cell; with `within` of an extension of that round. Raises RoundError or AllocationError.

    It stores the manifest of the pool, so that what a seed is then applied to is fixed.
    """
    if not 0 <= plan.overlap <= 1:
        raise RoundError("The overlap is a share between 0 and 1.")
    if plan.rubric == "judged" and config is None:
        raise RoundError("Choose a judge, so that people answer its requirements, or choose those in force.")
    cells = [cell for cell in _pool(sample, config, plan, within) if cell.units or cell.left_out]
    available = sum(len(cell.units) for cell in cells)
    if not 0 < plan.size <= available:
        raise RoundError(f"{available} trajectories can be drawn, {plan.size} were asked for.")
    sizes = [len(cell.units) for cell in cells]
    floor = floor_that_fits(sizes, plan.size, floor=plan.floor)
    shares = _shares(sample, config, cells) if plan.method == "neyman" else None
    if floor:
        draws = _spread(sizes, shares, plan.size, floor)
    else:
        draws = _by_group(cells, shares, plan.size, is_extension=within is not None)
    expected: Sequence[float | None] = shares or [None] * len(cells)
    parts = tuple(PlannedCell(*row) for row in zip(cells, draws, expected, strict=True))
    return Planned(
        parts, _groups(parts, plan.overlap), floor, blobs.put(_manifest(sample, config, plan, cells, within))
    )


def _pool(sample: Sample, config: JudgeConfig | None, plan: RoundPlan, within: ReviewRound | None) -> Iterator[Cell]:
    """Every stratum × answer in order, with its units in order of their source ids."""
    answers = _answers(sample, config)
    given = _given(sample.frame.version, plan.regrade) | _items_of(within)
    members: defaultdict[tuple[int, str], list[Candidate]] = defaultdict(list)
    left_out: Counter[tuple[int, str]] = Counter()
    fields = ("stratum_id", "trajectory__source__source_id", "trajectory_id", "trajectory__task_id")
    for stratum, *unit in sorted(SampleUnit.objects.filter(sample=sample).values_list(*fields)):
        key = stratum, answers.get(unit[1], "unknown") if config else ""
        if unit[1] in given:
            left_out[key] += 1
        else:
            members[key].append(Candidate(*unit))
    for found in Stratum.objects.filter(units__sample=sample).distinct().order_by("number"):
        for answer in ANSWERS if config else ("",):
            key = found.pk, answer
            yield Cell(found, answer, tuple(members[key]), left_out[key])


def _answers(sample: Sample, config: JudgeConfig | None) -> dict[int, str]:
    """By trajectory: what the judge's first look came to; every way of not deciding is "unknown"."""
    units = SampleUnit.objects.filter(sample=sample).values("trajectory")
    looks = Judgment.objects.filter(config=config, replicate=0, trajectory__in=units)
    return {trajectory: said or "unknown" for trajectory, said in looks.values_list("trajectory", "acceptable")}


def _given(version: DatasetVersion, regrade: bool) -> set[int]:
    """Trajectories that people have labeled, or that are in a round which is not released."""
    if regrade:
        return set()
    said = labels(version).filter(source__in=(*PEOPLE, LabelSource.ADJUDICATED))
    live = ReviewItem.objects.filter(round__version=version, round__kind=RoundKind.BLIND, round__state__in=LIVE)
    return set(said.values_list("trajectory", flat=True)) | set(_trajectories(live))


def _items_of(round: ReviewRound | None) -> set[int]:
    return set(_trajectories(round.items.all())) if round else set()


def _trajectories(items: QuerySet[ReviewItem]) -> QuerySet[ReviewItem, Any]:
    return items.filter(trajectory__isnull=False).values_list("trajectory", flat=True)


def _shares(sample: Sample, config: JudgeConfig | None, cells: Sequence[Cell]) -> list[float]:
    """The expected share of wrong verdicts in each cell, from what people said in its verifier × judge cell before."""
    seen: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for unit in observe(sample.frame.version, config=config, sample=sample, drawn_only=True).units:
        seen[unit.status, unit.judge if config else ""][unit.human or ""] += 1
    shares = []
    for cell in cells:
        status, answer = cell.group
        wrong, found = WRONG.get(status, ""), seen[cell.group]
        prior = AGREES if answer in ("yes", "no") and answer != wrong else DIFFERS
        shares.append(expected_share(found[wrong], found["yes"] + found["no"], prior=prior))
    return shares


def _spread(sizes: Sequence[int], shares: Sequence[float] | None, n: int, floor: int) -> tuple[int, ...]:
    if shares is None:
        return proportional_with_floor(sizes, n, floor=floor)
    return neyman(sizes, shares, n, floor=floor)


def _by_group(
    cells: Sequence[Cell], shares: Sequence[float] | None, size: int, *, is_extension: bool
) -> tuple[int, ...]:
    """Too few for every cell: every verifier × judge cell has its part, spread over its strata.

    An extension may be smaller still: every cell has its part in the round already.
    """
    members: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for index, cell in enumerate(cells):
        members[cell.group].append(index)
    groups = list(members.values())
    totals = [sum(len(cells[index].units) for index in found) for found in groups]
    floor = floor_that_fits(totals, size, floor=1)
    if not floor and not is_extension:
        raise RoundError(f"{size} are too few: {len(groups)} cells of verifier × judge need one each at least.")
    by_group = shares and [shares[found[0]] for found in groups]
    parts = _spread(totals, by_group, size, floor) if floor else proportional(totals, size)
    draws = [0] * len(cells)
    for found, part in zip(groups, parts, strict=True):
        sizes = proportional([len(cells[index].units) for index in found], part)
        for index, drawn in zip(found, sizes, strict=True):
            draws[index] = drawn
    return tuple(draws)


def _groups(parts: Sequence[PlannedCell], overlap: float) -> tuple[PlannedGroup, ...]:
    members: defaultdict[tuple[str, str], list[PlannedCell]] = defaultdict(list)
    for part in parts:
        members[part.cell.group].append(part)
    return tuple(
        PlannedGroup(
            *key,
            size=sum(len(part.cell.units) for part in found),
            left_out=sum(part.cell.left_out for part in found),
            draw=(drawn := sum(part.draw for part in found)),
            twice=ceil(overlap * drawn),
        )
        for key, found in members.items()
    )


def ceil(value: float) -> int:
    """The next whole number, but for what floating point adds."""
    return math.ceil(value - 1e-9)  # 0.2 * 15 is 3.0000000000000004


def _manifest(
    sample: Sample, config: JudgeConfig | None, plan: RoundPlan, cells: Sequence[Cell], within: ReviewRound | None
) -> bytes:
    return canonical_json(
        {
            "schema": "assay.round/1",
            "frame": sample.frame.digest,
            "sample": {"seed": sample.seed, "draw": sample.draw_number, "plan": sample.plan},
            "judge": config.digest if config else None,
            "regrade": plan.regrade,
            "extension": within.extensions + 1 if within else 0,
            "cells": [
                {
                    "stratum": cell.stratum.number,
                    "answer": cell.answer,
                    "left_out": cell.left_out,
                    "units": [unit.source_id for unit in cell.units],
                }
                for cell in cells
            ],
        }
    )


# --- the draw


def draw_round(
    version: DatasetVersion,
    *,
    sample: Sample,
    config: JudgeConfig | None,
    plan: RoundPlan,
    reviewers: Sequence[User],
    title: str,
    seed: int,
    by: User | None,
    settings: RoundSettings | None = None,
) -> ReviewRound:
    """Draw items from a sample and make their slots; the same request twice gives the round that is there.

    Raises RoundError or AllocationError for what cannot be drawn.
    """
    settings = settings or RoundSettings()
    if sample.frame.version_id != version.pk:
        raise RoundError("The sample is of another version.")
    check_round(version, reviewers, settings, seed=seed, twice=plan.overlap > 0)
    asked = _asked(plan, settings, sample=str(sample.public_id), judge=config.digest if config else None)
    with transaction.atomic():
        DatasetVersion.objects.select_for_update().get(pk=version.pk)  # one draw at a time: rounds are numbered
        if earlier := earlier_draw(version, title, seed, asked):
            return earlier
        planned = plan_round(sample, config, plan)
        round = create(version, settings, title=title, seed=seed, by=by)
        detail = {"asked": asked, "floor": planned.floor, **recorded(planned)}
        draw = RoundDraw.objects.create(round=round, sample=sample, config=config, plan=detail)
        store(draw, planned, rubric=plan.rubric)
        assign(round, reviewers, planned.digest)
        log(round, "round_drawn", by=by, number=round.number, seed=seed, items=planned.items, slots=planned.slots)
    return round


def draw_task_round(
    version: DatasetVersion,
    *,
    tasks: Sequence[Task],
    reviewers: Sequence[User],
    title: str,
    seed: int,
    by: User | None,
    settings: RoundSettings,
) -> ReviewRound:
    """A round about tasks instead of trajectories (triage, cold read): every task is one item with one slot."""
    if settings.kind not in (RoundKind.TRIAGE, RoundKind.COLD_READ):
        raise RoundError("Only a triage or a cold read is about tasks.")
    if not tasks:
        raise RoundError("There is no task to look at.")
    check_round(version, reviewers, settings, seed=seed, twice=False)
    asked = {"tasks": sorted(str(task.public_id) for task in tasks), "kind": settings.kind}
    with transaction.atomic():
        DatasetVersion.objects.select_for_update().get(pk=version.pk)
        if earlier := earlier_draw(version, title, seed, asked):
            return earlier
        round = create(version, settings, title=title, seed=seed, by=by)
        digest = content_digest(asked)
        RoundDraw.objects.create(round=round, plan={"asked": asked, "manifest": digest})
        keys = draw_keys(digest, seed, ORDER, len(tasks))
        ordered = [tasks[index] for index in np.argsort(keys, kind="stable")]
        items = [
            ReviewItem(round=round, number=number, task=task, rubric=rubric_in_force(task))
            for number, task in enumerate(ordered, 1)
        ]
        make_slots(round, digest, [(item, 1) for item in ReviewItem.objects.bulk_create(items, CHUNK)])
        assign(round, reviewers, digest)
        log(round, "round_drawn", by=by, number=round.number, seed=seed, items=len(items), kind=settings.kind)
    return round


def unsolved_tasks(version: DatasetVersion) -> QuerySet[Task]:
    """Tasks of which trajectories have a verdict and none is a pass: what a triage looks at."""
    trials = TrajectorySource.objects.filter(trajectory__task=OuterRef("pk"), is_control=False)
    failed = trials.filter(verifier_status__in=("fail", "partial"))
    tasks = Task.objects.filter(version=version).select_related("environment").order_by("pk")
    return tasks.filter(Exists(failed), ~Exists(trials.filter(verifier_status="pass")))


def check_round(
    version: DatasetVersion, reviewers: Sequence[User], settings: RoundSettings, *, seed: int, twice: bool
) -> None:
    """Raise RoundError where seed or reviewers will not do; `twice` says that some items need two of them."""
    if not 0 <= seed <= LARGEST_SEED:
        raise RoundError(f"A seed is a whole number from 0 to {LARGEST_SEED}.")
    if not reviewers:
        raise RoundError("Choose at least one reviewer.")
    if twice and len(reviewers) < 2:
        raise RoundError("Grading a part twice needs two reviewers: choose another, or set “Graded twice” to 0.")
    check_members(version, reviewers)
    if settings.repeat_days < REPEAT_DAYS:
        raise RoundError(f"Items come back after {REPEAT_DAYS} days at the earliest.")
    if settings.fallback and settings.fallback not in reviewers:
        raise RoundError("Who gets what was skipped twice has to be one of the reviewers.")


def check_members(version: DatasetVersion, reviewers: Sequence[User]) -> None:
    members = set(Membership.objects.filter(dataset=version.dataset_id).values_list("user", flat=True))
    strangers = sorted(user.get_username() for user in reviewers if user.pk not in members)
    if strangers:
        raise RoundError(f"Not a member of the dataset: {', '.join(strangers)}. Let them in first.")


def _asked(plan: RoundPlan, settings: RoundSettings, **more: Json) -> Json:
    return {**asdict(plan), "kind": settings.kind, **more}


def earlier_draw(version: DatasetVersion, title: str, seed: int, asked: Json) -> ReviewRound | None:
    """The round that a first press of the button has made, and that is neither released nor given up since."""
    drawn = RoundDraw.objects.filter(round__version=version, round__state__in=LIVE).select_related("round")
    rounds = [draw.round for draw in drawn.filter(round__seed=seed) if draw.plan["asked"] == asked]
    return next((round for round in rounds if round.title == _title(title, round.number)), None)


def _title(title: str, number: int) -> str:
    return title.strip() or f"Round {number}"


def create(version: DatasetVersion, settings: RoundSettings, *, title: str, seed: int, by: User | None) -> ReviewRound:
    """A round under the next number of its version."""
    fields = {name: getattr(settings, name) for name in RoundSettings.__dataclass_fields__}
    drawn = ReviewRound.objects.filter(version=version).exclude(kind=RoundKind.PRACTICE)
    number = (drawn.aggregate(n=Max("number"))["n"] or 0) + 1
    return ReviewRound.objects.create(
        version=version, number=number, title=_title(title, number), seed=seed, created_by=by, **fields
    )


def recorded(planned: Planned) -> Json:
    return {
        "manifest": planned.digest,
        "shares": [part.share for part in planned.cells]
        if planned.cells and planned.cells[0].share is not None
        else [],
    }


def store(draw: RoundDraw, planned: Planned, *, rubric: RubricChoice, extension: int = 0) -> None:
    """Cells, items, slots; items are numbered in an order that tells nothing of their cell."""
    round = draw.round
    taken = select(planned, round.seed)
    twice = Counter(one.cell for one in taken if one.copies > 1)
    strata = RoundStratum.objects.bulk_create(
        RoundStratum(
            draw=draw,
            stratum=part.cell.stratum,
            answer=part.cell.answer,
            extension=extension,
            size=len(part.cell.units),
            drawn=part.draw,
            twice=twice[index],
        )
        for index, part in enumerate(planned.cells)
    )
    first = (round.items.aggregate(n=Max("number"))["n"] or 0) + 1
    items = make_items(round, planned.digest, taken, first=first, rubric=rubric, config=draw.config)
    ItemDraw.objects.bulk_create(
        [
            ItemDraw(
                item=item,
                stratum=strata[one.cell],
                inclusion_probability=strata[one.cell].drawn / strata[one.cell].size,
            )
            for item, one in zip(items, taken, strict=True)
        ],
        CHUNK,
    )
    make_slots(round, planned.digest, [(item, one.copies) for item, one in zip(items, taken, strict=True)])


def select(planned: Planned, seed: int) -> list[Taken]:
    """The units a seed draws, in the order of their items, each with its number of slots."""
    chosen: list[tuple[int, Candidate]] = []
    for index, part in enumerate(planned.cells):
        keys = draw_keys(planned.digest, seed, index + 1, len(part.cell.units))
        places = sorted(int(place) for place in np.argsort(keys, kind="stable")[: part.draw])
        chosen += [(index, part.cell.units[place]) for place in places]
    doubled: set[int] = set()
    for number, group in enumerate(planned.groups):
        places = [
            p for p, (index, _) in enumerate(chosen) if planned.cells[index].cell.group == (group.status, group.answer)
        ]
        doubled |= {places[place] for place in smallest(planned.digest, seed, TWICE - number, len(places), group.twice)}
    order = np.argsort(draw_keys(planned.digest, seed, ORDER, len(chosen)), kind="stable").tolist()
    return [Taken(chosen[place][0], chosen[place][1], 2 if place in doubled else 1) for place in order]


def smallest(digest: str, seed: int, purpose: int, n: int, wanted: int) -> set[int]:
    """The places of the `wanted` smallest of n keys."""
    return {int(place) for place in np.argsort(draw_keys(digest, seed, purpose, n), kind="stable")[:wanted]}


def make_items(
    round: ReviewRound,
    digest: str,
    taken: Sequence[Taken],
    *,
    first: int,
    rubric: RubricChoice = "newest",
    config: JudgeConfig | None = None,
) -> list[ReviewItem]:
    """Store the units as items, numbered from `first`; some of a blind round come back to the same reviewer."""
    again = smallest(digest, round.seed, REPEATS, len(taken), int(round.repeat_share * len(taken) + 0.5))
    rubrics = _rubrics([one.unit for one in taken], rubric, config)
    items = [
        ReviewItem(
            round=round,
            number=first + place,
            task_id=one.unit.task,
            trajectory_id=one.unit.trajectory,
            rubric=rubrics[one.unit.trajectory],
            repeats=round.kind == RoundKind.BLIND and place in again,
        )
        for place, one in enumerate(taken)
    ]
    return ReviewItem.objects.bulk_create(items, CHUNK)


def _rubrics(units: Sequence[Candidate], choice: RubricChoice, config: JudgeConfig | None) -> dict[int, TaskRubric]:
    """The requirements that people answer, by trajectory."""
    tasks = Task.objects.in_bulk({unit.task for unit in units})
    newest = {pk: rubric_in_force(task) for pk, task in tasks.items()}  # makes one where there was none
    held = TaskRubric.objects.filter(task__in=tasks).order_by("-number")
    if choice == "first":
        firsts = {rubric.task_id: rubric for rubric in held}
        return {unit.trajectory: firsts[unit.task] for unit in units}
    judged = _judged_by(units, config) if choice == "judged" else {}
    by_digest = {(rubric.task_id, rubric.digest): rubric for rubric in held}
    return {
        unit.trajectory: by_digest.get((unit.task, judged.get(unit.trajectory, "")), newest[unit.task])
        for unit in units
    }


def _judged_by(units: Sequence[Candidate], config: JudgeConfig | None) -> dict[int, str]:
    """Digest of the requirements that the judge answered in the look that is its label."""
    looks = Judgment.objects.filter(config=config, replicate=0, state=JudgmentState.COMPLETED)
    rows = looks.filter(trajectory__in=[unit.trajectory for unit in units])
    return {pk: digest for pk, digest in rows.values_list("trajectory", "provenance__rubric") if digest}


def make_slots(round: ReviewRound, digest: str, items: Sequence[tuple[ReviewItem, int]]) -> int:
    """So many slots for each item, at seeded places in the queue; returns how many in all."""
    wanted = [(item, copy) for item, copies in items for copy in range(copies)]
    places = draw_keys(digest, round.seed, PLACES, len(wanted)) >> np.uint64(2)  # from 0 to POSITIONS
    asks = round.guess_share * len(wanted) if round.kind == RoundKind.BLIND else 0
    guesses = smallest(digest, round.seed, GUESSES, len(wanted), int(asks + 0.5))
    fields = _fields(item for item, _ in items) if round.by_field else {}
    slots = [
        Slot(
            round=round,
            item=item,
            copy=copy,
            position=int(place),
            field=fields.get(item.task_id, ""),
            asks_guess=number in guesses,
        )
        for number, ((item, copy), place) in enumerate(zip(wanted, places, strict=True))
    ]
    return len(Slot.objects.bulk_create(slots, CHUNK))


def _fields(items: Iterator[ReviewItem]) -> dict[int, str]:
    tasks = Task.objects.filter(pk__in={item.task_id for item in items})
    return dict(tasks.values_list("pk", "environment__name"))


def assign(round: ReviewRound, reviewers: Sequence[User], digest: str) -> int:
    there = set(round.reviewers.values_list("user", flat=True))
    rows = [
        RoundReviewer(round=round, user=user, cursor=place_of(digest, round.seed, f"reviewer {user.pk}"))
        for user in reviewers
        if user.pk not in there
    ]
    _carry_exposure(round.version, [row.user for row in rows])
    return len(RoundReviewer.objects.bulk_create(rows))


def _carry_exposure(version: DatasetVersion, users: Sequence[User]) -> None:
    """Who saw a verdict on a task in another version of the dataset grades none of the same task in this one."""
    seen = Exclusion.objects.filter(user__in=users, task__version__dataset=version.dataset_id)
    elsewhere = seen.exclude(task__version=version)
    here: defaultdict[str, list[int]] = defaultdict(list)
    same = Task.objects.filter(version=version, content_sha256__in=elsewhere.values("task__content_sha256"))
    for digest, task in same.values_list("content_sha256", "pk"):
        here[digest].append(task)
    found = elsewhere.values_list("user", "reason", "task__content_sha256").distinct()
    rows = [Exclusion(user_id=pk, task_id=task, reason=why) for pk, why, digest in found for task in here[digest]]
    Exclusion.objects.bulk_create(rows, CHUNK, ignore_conflicts=True)


def place_of(digest: str, seed: int, subject: str) -> int:
    material = hashlib.sha256(f"{digest}|{seed}|{subject}".encode()).digest()
    return int.from_bytes(material[:8], "big") % POSITIONS
