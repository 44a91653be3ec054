"""Held-out sets: tasks kept out of training and graded by people, in a part to build with and one for the last word.

What is held out never changes: the digest of a set is that of its tasks' content digests and parts. A set that has aged
is retired and another is held out; a task of a retired set may have been trained on since, and never comes back.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

import numpy as np
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, F, Q, QuerySet

from auditapp.cell_draws import CellPlan, Unit, asked_in_all, draw_cells, plan_cells
from auditapp.models.datasets import Dataset, DatasetVersion, Task
from auditapp.models.events import AuditEvent
from auditapp.models.labels import PEOPLE, Label, LabelSource, labels
from auditapp.models.reviews import (
    HeldOutPart,
    HeldOutSet,
    HeldOutTask,
    ReviewItem,
    ReviewRound,
    RoundKind,
    RoundState,
)
from auditapp.models.rounds import RoundDraw
from auditapp.models.sources import TrajectorySource
from auditapp.round_draws import RoundSettings, earlier_draw
from auditapp.sampling import LARGEST_SEED, default_statuses, draw_keys
from auditapp.stats.allocation import equal, proportional
from judges.records import Json, content_digest

ENVIRONMENTS, TESTED = 0, -1
"""Which stream of keys orders the environments, and which the parts; those above are of the environments' tasks."""


class HeldOutError(ValueError):
    """Something that cannot be held out or changed; the message says why and what to do."""


# --- choosing


def free_tasks(version: DatasetVersion) -> QuerySet[Task]:
    """Tasks that are in no set and never were."""
    tasks = Task.objects.filter(version=version, held_out=None).select_related("environment")
    return tasks.order_by("environment__name", "name", "pk")


def split(tasks: Sequence[Task], *, share: float, test_share: float, seed: int) -> dict[int, str]:
    """A random share of the tasks of every environment, and the part of each by the task's id.

    The same tasks, shares and seed give the same answer. Shares are rounded over all environments together; where
    equal remainders decide, the seed does.
    """
    if not 0 < share <= 1 or not 0 <= test_share <= 1:
        raise HeldOutError("A share is more than 0 % and at most 100 %; that of the test part may be 0.")
    if not 0 <= seed <= LARGEST_SEED:
        raise HeldOutError(f"A seed is a whole number from 0 to {LARGEST_SEED}.")
    members = _by_environment(tasks)
    material = [[name, [task.content_sha256 for task in found]] for name, found in members.items()]
    digest = content_digest({"schema": "assay.held-out-draw/1", "environments": material})
    order = np.argsort(draw_keys(digest, seed, ENVIRONMENTS, len(members)), kind="stable")
    names = [list(members)[place] for place in order]
    taken = proportional([len(members[name]) for name in names], int(share * len(tasks) + 0.5))
    tested = proportional(taken, int(test_share * sum(taken) + 0.5))
    numbers = {name: number for number, name in enumerate(members, 1)}
    parts: dict[int, str] = {}
    for name, n, last in zip(names, taken, tested, strict=True):
        keys = draw_keys(digest, seed, numbers[name], len(members[name]))
        chosen = [members[name][place] for place in np.argsort(keys, kind="stable")[:n]]
        parts |= {task.pk: HeldOutPart.TEST if place < last else HeldOutPart.DEV for place, task in enumerate(chosen)}
    return parts


def _by_environment(tasks: Sequence[Task]) -> dict[str, list[Task]]:
    members: defaultdict[str, list[Task]] = defaultdict(list)
    for task in sorted(tasks, key=lambda task: (task.environment.name, task.content_sha256, task.name, task.pk)):
        members[task.environment.name].append(task)
    return dict(members)


# --- a set and its life


def hold_out(
    version: DatasetVersion,
    parts: Mapping[int, str],
    *,
    name: str,
    refresh_on: date,
    today: date,
    by: User | None,
    drawn: Json = None,
) -> HeldOutSet:
    """Keep these tasks, given by id with their part, out of training; `drawn` is how they were chosen, for the log.

    The same tasks and parts under the same name again are the set that is there.
    """
    _check(parts, name, refresh_on, today)
    with transaction.atomic():
        held = DatasetVersion.objects.select_for_update(of=("self",)).select_related("dataset").get(pk=version.pk)
        tasks = list(Task.objects.filter(version=held, pk__in=parts).select_related("held_out__held_out"))
        if named := HeldOutSet.objects.filter(version=held, name=name.strip()).first():
            if named.retired_at is None and named.digest == _digest(tasks, parts):
                return named
            raise HeldOutError(f"There is a held-out set named {name.strip()} already: choose another name.")
        _check_tasks(tasks, parts)
        made = HeldOutSet.objects.create(
            version=held, name=name.strip(), digest=_digest(tasks, parts), refresh_on=refresh_on, created_by=by
        )
        HeldOutTask.objects.bulk_create(HeldOutTask(held_out=made, task=task, part=parts[task.pk]) for task in tasks)
        _log(made, "held_out", by=by, digest=made.digest, tasks=len(tasks), refresh_on=str(refresh_on), drawn=drawn)
    return made


def _check(parts: Mapping[int, str], name: str, refresh_on: date, today: date) -> None:
    if not name.strip():
        raise HeldOutError("Give the set a name.")
    if not parts:
        raise HeldOutError("No task is chosen: give at least one the part dev or test.")
    if set(parts.values()) - set(HeldOutPart.values):
        raise HeldOutError("A part is dev or test.")
    if refresh_on <= today:
        raise HeldOutError("The refresh date has to lie ahead.")


def _check_tasks(tasks: Sequence[Task], parts: Mapping[int, str]) -> None:
    if len(tasks) != len(parts):
        raise HeldOutError("A task that was chosen is not of this version any more: load the page anew.")
    taken = [task for task in tasks if hasattr(task, "held_out")]
    if taken:
        sets = sorted({task.held_out.held_out.name for task in taken})
        raise HeldOutError(f"{taken[0].name} is in the held-out set {sets[0]} already; a task is in one set at most.")


def _digest(tasks: Sequence[Task], parts: Mapping[int, str]) -> str:
    rows = sorted([task.content_sha256, parts[task.pk]] for task in tasks)
    return content_digest({"schema": "assay.held-out/1", "tasks": rows})


def digest_of(held_out: HeldOutSet) -> str:
    """The digest made anew from what is stored; another than the set's own says that a task was altered."""
    rows = list(held_out.tasks.select_related("task"))
    return _digest([row.task for row in rows], {row.task_id: row.part for row in rows})


def postpone(held_out: HeldOutSet, *, refresh_on: date, today: date, by: User | None) -> None:
    """Move the refresh date, which is logged."""
    _check({0: HeldOutPart.DEV}, held_out.name, refresh_on, today)
    with transaction.atomic():
        before = _live(held_out).refresh_on
        if before == refresh_on:
            return
        HeldOutSet.objects.filter(pk=held_out.pk).update(refresh_on=refresh_on)
        _log(held_out, "held_out_postponed", by=by, before=str(before), after=str(refresh_on))
    held_out.refresh_on = refresh_on


def retire(held_out: HeldOutSet, *, by: User | None, now: datetime) -> None:
    """Its tasks may be trained on from now on, and go out with exports; their grades stay."""
    with transaction.atomic():
        _live(held_out)
        HeldOutSet.objects.filter(pk=held_out.pk).update(retired_at=now)
        _log(held_out, "held_out_retired", by=by)
    held_out.retired_at = now


def discard(held_out: HeldOutSet, *, by: User | None) -> None:
    """Take back a set that was made by mistake; not once a round was drawn from it."""
    with transaction.atomic():
        found = _live(held_out)
        if RoundDraw.objects.filter(held_out=found).exists():
            raise HeldOutError("A round was drawn from this set, so it stays on record: retire it instead.")
        _log(found, "held_out_discarded", by=by, name=found.name, digest=found.digest)
        found.delete()


def _live(held_out: HeldOutSet) -> HeldOutSet:
    found = HeldOutSet.objects.select_for_update(of=("self",)).filter(pk=held_out.pk).first()
    if found is None or found.retired_at is not None:
        raise HeldOutError("The set is retired already." if found else "The set is gone: somebody took it back.")
    return found


def _log(held_out: HeldOutSet, action: str, *, by: User | None, **detail: Json) -> None:
    dataset, subject = held_out.version.dataset, f"held-out {held_out.public_id}"
    AuditEvent.objects.create(dataset=dataset, actor=by, action=action, subject=subject, detail=detail)


# --- what others ask


def parts(version: DatasetVersion) -> dict[int, str]:
    """The part, dev or test, of every task that is held out now, by the task's id."""
    rows = HeldOutTask.objects.filter(held_out__version=version, held_out__retired_at=None)
    return dict(rows.values_list("task", "part"))


def due(dataset: Dataset, *, today: date) -> list[HeldOutSet]:
    """Sets whose refresh date has come, the oldest first."""
    found = HeldOutSet.objects.filter(version__dataset=dataset, retired_at=None, refresh_on__lte=today)
    return list(found.select_related("version").order_by("refresh_on", "pk"))


def of_held_out(version: DatasetVersion) -> Q:
    """Labels of trajectories on tasks that are held out now."""
    held = HeldOutTask.objects.filter(held_out__version=version, held_out__retired_at=None)
    return Q(trajectory__task__in=held.values("task"))


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What an export leaves out by default: labels, and the tasks they are of."""

    labels: int
    tasks: int


def left_out(version: DatasetVersion, only: QuerySet[Label] | None = None) -> LeftOut:
    """How many labels of held-out tasks an export, or one of `only`, leaves out."""
    found = (labels(version) if only is None else only).filter(of_held_out(version)).order_by()
    counted = found.aggregate(labels=Count("key"), tasks=Count("trajectory__task", distinct=True))
    return LeftOut(**counted)


# --- how far a set is


@dataclass(frozen=True, slots=True)
class Tally:
    """Trajectories of one part: all, with a human grade, and what a round may draw.

    These have a verdict that counts, no human grade, and are in no round that is going on.
    """

    all: int = 0
    graded: int = 0
    open: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.all + other.all, self.graded + other.graded, self.open + other.open)


@dataclass(frozen=True, slots=True)
class StepRow:
    """A model at a training step, None where none was recorded; `new` came in after the last round was drawn."""

    model: str
    training_step: int | None
    dev: Tally
    test: Tally
    new: int


@dataclass(frozen=True, slots=True)
class Standing:
    """How far the grading of a set is, by model and training step, and when a round was last drawn from it."""

    rows: tuple[StepRow, ...]
    dev: Tally
    test: Tally
    new: int
    last_round: ReviewRound | None
    last_at: datetime | None

    @property
    def open(self) -> int:
        """What a round may draw."""
        return self.dev.open + self.test.open


def graded(version: DatasetVersion) -> QuerySet[Label]:
    """Human labels of a version, whatever they came in by."""
    return labels(version).filter(source__in=(*PEOPLE, LabelSource.ADJUDICATED))


def standing(held_out: HeldOutSet) -> Standing:
    """Count the trajectories on the tasks of a set; controls are left out."""
    last = rounds_of(held_out).first()
    since = last.created_at if last else None
    by_row: defaultdict[tuple[str, int | None], dict[str, Tally]] = defaultdict(dict)
    new: defaultdict[tuple[str, int | None], int] = defaultdict(int)
    for model, step, part, n, done, waiting, fresh in _counted(held_out, since):
        by_row[model, step][part] = Tally(n, done, waiting)
        new[model, step] += fresh
    rows = tuple(
        StepRow(*key, dev=by_row[key].get("dev", Tally()), test=by_row[key].get("test", Tally()), new=new[key])
        for key in sorted(by_row, key=lambda key: (key[0], key[1] is None, key[1] or 0))
    )
    dev, test = (sum((getattr(row, part) for row in rows), Tally()) for part in HeldOutPart.values)
    return Standing(rows, dev, test, sum(new.values()), last, since)


def _counted(held_out: HeldOutSet, since: datetime | None) -> QuerySet[TrajectorySource, tuple[Any, ...]]:
    done = Q(trajectory__in=graded(held_out.version).order_by().values("trajectory"))
    can_be_drawn = Q(verifier_status__in=default_statuses(held_out.version)) & ~in_live_round(held_out.version)
    fresh = Q(trajectory__created_at__gt=since) if since else Q()
    found = trajectories_of(held_out).annotate(part=F("trajectory__task__held_out__part"))
    counted = found.values("model", "training_step", "part").annotate(
        n=Count("pk"),
        done=Count("pk", filter=done),
        waiting=Count("pk", filter=~done & can_be_drawn),
        fresh=Count("pk", filter=fresh),
    )
    return counted.order_by().values_list("model", "training_step", "part", "n", "done", "waiting", "fresh")


def in_live_round(version: DatasetVersion) -> Q:
    """Trajectories that a round of blind review holds which is neither released nor given up."""
    live = (RoundState.DRAWN, RoundState.OPEN, RoundState.CLOSED)
    items = ReviewItem.objects.filter(round__version=version, round__kind=RoundKind.BLIND, round__state__in=live)
    return Q(trajectory__in=items.filter(trajectory__isnull=False).values("trajectory"))


def trajectories_of(held_out: HeldOutSet) -> QuerySet[TrajectorySource]:
    """The trajectories on the tasks of a set, without controls."""
    return TrajectorySource.objects.filter(trajectory__task__held_out__held_out=held_out, is_control=False)


def rounds_of(held_out: HeldOutSet) -> QuerySet[ReviewRound]:
    """The rounds drawn from a set, newest first."""
    drawn = RoundDraw.objects.filter(held_out=held_out).exclude(round__state="discarded")
    return ReviewRound.objects.filter(pk__in=drawn.values("round")).order_by("-created_at", "-pk")


# --- a round of what is new


def plan_round(held_out: HeldOutSet, *, size: int, overlap: float) -> CellPlan:
    """Trajectories that nobody has graded, the same number from every model and training step as far as they go."""
    can_be_drawn = Q(verifier_status__in=default_statuses(held_out.version)) & ~in_live_round(held_out.version)
    done = Q(trajectory__in=graded(held_out.version).order_by().values("trajectory"))
    fields = ("model", "training_step", "source_id", "trajectory_id", "trajectory__task_id", "verifier_status")
    found = trajectories_of(held_out).filter(can_be_drawn & ~done).values_list(*fields)
    rows = sorted(found, key=lambda row: (row[0], row[1] is None, row[1] or 0, row[2]))
    labeled = (({"model": row[0], "training_step": row[1]}, Unit(*row[2:])) for row in rows)
    return plan_cells(labeled, size=size, allocate=equal, overlap=overlap)


def draw_round(
    held_out: HeldOutSet,
    *,
    size: int,
    overlap: float,
    reviewers: Sequence[User],
    title: str,
    seed: int,
    by: User | None,
    settings: RoundSettings,
) -> ReviewRound:
    """Draw a round of blind review by `plan_round`; the same request twice gives the round that is there."""
    asked = {"held_out": str(held_out.public_id), "digest": held_out.digest}
    with transaction.atomic():
        _live(held_out)
        again = asked_in_all(asked, settings, size=size, overlap=overlap)
        if earlier := earlier_draw(held_out.version, title, seed, again):
            return earlier  # before planning, from which its trajectories are gone
        plan = plan_round(held_out, size=size, overlap=overlap)
        return draw_cells(
            held_out.version,
            plan,
            asked=asked,
            reviewers=reviewers,
            title=title,
            seed=seed,
            by=by,
            settings=settings,
            held_out=held_out,
        )
