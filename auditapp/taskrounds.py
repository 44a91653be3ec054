"""The other rounds on the queue: triage of tasks, cold reads of their instructions, audits of whole trajectories.

None of them asks for a decision, so none of them makes a label. What is read is drawn by a seed from what there is, and
the plan of the round holds of how much.
"""

from collections.abc import Sequence
from datetime import datetime

import numpy as np
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet

from auditapp.cell_draws import CellPlan, Unit, draw_cells, plan_cells
from auditapp.models.datasets import DatasetVersion, Task
from auditapp.models.events import AuditEvent
from auditapp.models.reviews import Grade, ReviewRound, RoundKind, Slot, SlotState
from auditapp.models.rounds import RoundDraw
from auditapp.models.sources import TrajectorySource
from auditapp.round_draws import RoundError, RoundSettings, draw_task_round, unsolved_tasks
from auditapp.sampling import draw_keys
from auditapp.stats.allocation import proportional
from judges.records import content_digest

CHOSEN = 1
RULED = "cold_read_ruled"
RULINGS = {
    "none": "they ask the same",
    "rubric_misses": "the rubric misses something",
    "rubric_asks_more": "the rubric asks for more",
    "verifier_misses": "the verifier misses something (E02)",
    "verifier_asks_more": "the verifier asks for more (E03)",
}
"""How rubric and verifier stand to the instruction: each may leave out what it asks for, or go beyond it."""
LONGEST_NOTE = 2000


# --- tasks


def tasks_to_ask(version: DatasetVersion, kind: str) -> QuerySet[Task]:
    """What such a round is about unless tasks are named: a triage about those nobody solved, a cold read about all."""
    if kind == RoundKind.TRIAGE:
        return unsolved_tasks(version)
    return Task.objects.filter(version=version).select_related("environment").order_by("pk")


def draw_tasks(
    version: DatasetVersion,
    tasks: Sequence[Task],
    *,
    size: int,
    reviewers: Sequence[User],
    title: str,
    seed: int,
    by: User | None,
    settings: RoundSettings,
) -> ReviewRound:
    """A round about `size` of these tasks, chosen by the seed; the same request twice gives the round that is there."""
    if not 0 < size <= len(tasks):
        raise RoundError(f"There are {len(tasks)} tasks to choose from, {size} were asked for.")
    ordered = sorted(tasks, key=lambda task: (task.content_sha256, task.pk))
    digest = content_digest({"schema": "assay.task-round/1", "tasks": [task.content_sha256 for task in ordered]})
    keys = draw_keys(digest, seed, CHOSEN, len(ordered))
    chosen = [ordered[place] for place in sorted(np.argsort(keys, kind="stable")[:size])]
    with transaction.atomic():
        made = draw_task_round(
            version, tasks=chosen, reviewers=reviewers, title=title, seed=seed, by=by, settings=settings
        )
        draw = RoundDraw.objects.get(round=made)
        draw.plan = {**draw.plan, "of": {"tasks": len(ordered), "digest": digest}}
        draw.save(update_fields=["plan"])
    return made


# --- trajectories


def to_audit(version: DatasetVersion) -> QuerySet[TrajectorySource]:
    """What can be read: trajectories whose steps were recorded, without controls."""
    return TrajectorySource.objects.filter(version=version, is_control=False, trajectory__steps_blob__isnull=False)


def plan_audit(version: DatasetVersion, *, size: int) -> CellPlan:
    """Whole trajectories, as many from every environment and model as their share of the release is."""
    fields = ("trajectory__task__environment__name", "model", "source_id", "trajectory_id", "trajectory__task_id")
    rows = sorted(to_audit(version).values_list(*fields, "verifier_status"))
    labeled = (({"environment": row[0], "model": row[1]}, Unit(*row[2:])) for row in rows)
    return plan_cells(labeled, size=size, allocate=proportional)


def draw_audit(
    version: DatasetVersion,
    *,
    size: int,
    reviewers: Sequence[User],
    title: str,
    seed: int,
    by: User | None,
    settings: RoundSettings,
) -> ReviewRound:
    """A round that reads `size` trajectories by `plan_audit`; the same request twice gives the round that is there."""
    return draw_cells(
        version,
        plan_audit(version, size=size),
        asked={"release": version.name},
        reviewers=reviewers,
        title=title,
        seed=seed,
        by=by,
        settings=settings,
    )


# --- what a lead makes of a cold read


def rule_cold_read(slot: Slot, ruling: str, note: str, *, by: User | None) -> AuditEvent:
    """Say how a reader's text stands to rubric and verifier; the newest ruling counts, the others stay in the log.

    The newest one said again is the one that is there.
    """
    if slot.round.kind != RoundKind.COLD_READ or slot.state != SlotState.SUBMITTED:
        raise RoundError("There is no cold read here to rule on.")
    if ruling not in RULINGS:
        raise RoundError(
            "Say whether they ask the same, or which of rubric and verifier misses something or asks for more."
        )
    if ruling != "none" and not note.strip():
        raise RoundError("Say in the note what is missing or what is asked for beyond the instruction.")
    if len(note) > LONGEST_NOTE:
        raise RoundError(f"The note has {len(note):,} characters; {LONGEST_NOTE:,} are kept. Shorten it.")
    detail = {"ruling": ruling, "note": note.strip(), "task": str(slot.item.task.public_id)}
    with transaction.atomic():
        Slot.objects.select_for_update(of=("self",)).get(pk=slot.pk)  # two presses make one ruling
        newest = rulings_of([slot]).get(slot.pk)
        if newest and (newest.detail, newest.actor) == (detail, by):
            return newest
        return AuditEvent.objects.create(
            dataset=slot.round.version.dataset, actor=by, action=RULED, subject=_subject(slot), detail=detail
        )


def rulings_of(slots: Sequence[Slot]) -> dict[int, AuditEvent]:
    """The newest ruling on each of these slots, by its id."""
    by_subject = {_subject(slot): slot.pk for slot in slots}
    found = AuditEvent.objects.filter(action=RULED, subject__in=by_subject).select_related("actor").order_by("pk")
    return {by_subject[event.subject]: event for event in found}


def _subject(slot: Slot) -> str:
    return f"slot {slot.public_id}"


# --- tags of audits


def behavior_tags(version: DatasetVersion) -> list[tuple[int, str, list[str], datetime]]:
    """Trajectory, reader, tags and time of every answer of a released audit: what people saw, not what they decided."""
    found = Grade.objects.filter(
        slot__round__version=version, slot__round__kind=RoundKind.AUDIT, slot__round__state="released", current=True
    )
    rows = found.order_by("pk").values_list("slot__item__trajectory", "reviewer__username", "tags", "submitted_at")
    return [(trajectory or 0, name, tags, at) for trajectory, name, tags, at in rows]
