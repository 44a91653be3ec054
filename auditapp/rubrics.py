"""Requirements of tasks: versions that a lead edits and freezes, drafts that are asked for where there are none.

A version that judgments answered stays as it is: an edit is the next version, and what answered the older one says so.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict
from datetime import datetime
from uuid import UUID, uuid4

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery

from auditapp.cases import add_rubric
from auditapp.models.datasets import DatasetVersion, RubricOrigin, Task, TaskRubric
from auditapp.models.events import AuditEvent
from auditapp.models.exchanges import Exchange, ExchangeKind, ExchangeState
from auditapp.models.judgments import JudgeConfig, Judgment, JudgmentState
from auditapp.models.sources import TrajectorySource
from judges.records import Json, Requirement, content_digest
from judges.rubric import MOST, repeated, text_faults

MOST_CHARACTERS = 1_000  # as many as an answer to it stores
OPEN = (ExchangeState.QUEUED, ExchangeState.RUNNING)


class RubricError(ValueError):
    """A change of a task's requirements that cannot be made; the message says why and what to do."""


def tasks_of(version: DatasetVersion) -> QuerySet[Task]:
    """The tasks of a version with their requirements."""
    return Task.objects.filter(version=version).select_related("environment").prefetch_related("rubrics")


def verdicts_of(tasks: Collection[Task]) -> dict[int, Counter[str]]:
    """By task: its trajectories by verifier status."""
    found: dict[int, Counter[str]] = {task.pk: Counter() for task in tasks}
    rows = TrajectorySource.objects.filter(task__in=found).values_list("task", "verifier_status")
    for task, status, n in rows.annotate(n=Count("*")).order_by():
        found[task][status] = n
    return found


def newest(task: Task) -> TaskRubric | None:
    """The requirements in force, from rubrics that may be loaded already; None where there are none yet."""
    return max(task.rubrics.all(), key=lambda rubric: rubric.number, default=None)


def answered(task: Task) -> dict[str, int]:
    """How many completed judgments answered each list of requirements of a task, by its digest."""
    done = Judgment.objects.filter(trajectory__task=task, state=JudgmentState.COMPLETED)
    rows = done.values_list("provenance__rubric").annotate(n=Count("pk")).order_by()
    return {digest: n for digest, n in rows if digest}


# --- what a lead does


def set_requirements(task: Task, requirements: Sequence[Requirement], *, by: User | None) -> TaskRubric:
    """Make a list the one in force, as a new version; the list that is in force already is left as it is."""
    faults = list(_faults(requirements))
    if faults:
        raise RubricError("\n".join(faults))
    with transaction.atomic():
        held = _unfrozen(task)
        rubric = held.rubrics.order_by("-number").first()
        if rubric and rubric.digest == content_digest([asdict(row) for row in requirements]):
            return rubric
        return _add(held, requirements, rubric, origin=RubricOrigin.EDITED, by=by)


def _faults(requirements: Sequence[Requirement]) -> list[str]:
    faults = [] if 1 <= len(requirements) <= MOST else [f"{len(requirements)} requirements: write 1 to {MOST}"]
    faults += [f"{row.id}: {fault}" for row in requirements for fault in text_faults(row.text, most=MOST_CHARACTERS)]
    return [*faults, *repeated([row.text for row in requirements])]


def _unfrozen(task: Task) -> Task:
    """The task, locked against other writers; RubricError where its requirements are frozen."""
    held = Task.objects.select_for_update(of=("self",)).select_related("version__dataset").get(pk=task.pk)
    if held.rubric_frozen_at is not None:
        raise RubricError("The requirements are frozen. Lift the freeze first; it is logged.")
    return held


def _add(
    task: Task,
    requirements: Sequence[Requirement],
    before: TaskRubric | None,
    *,
    origin: RubricOrigin,
    by: User | None,
) -> TaskRubric:
    number = (before.number if before else 0) + 1
    made = add_rubric(task, requirements, number=number, origin=origin, by=by)
    _log(task, "rubric_set", by=by, detail={"number": number, "origin": origin, "digest": made.digest})
    return made


def set_frozen(task: Task, frozen: bool, *, by: User | None, now: datetime) -> bool:
    """Freeze the requirements or lift the freeze; False where that is how it was. Only a task with a list is frozen."""
    with transaction.atomic():
        if frozen and not task.rubrics.exists():
            raise RubricError("There is nothing to freeze: set or draft requirements first.")
        rows = Task.objects.filter(pk=task.pk, rubric_frozen_at__isnull=frozen)
        changed = bool(rows.update(rubric_frozen_at=now if frozen else None))
        if changed:
            _log(task, "rubric_frozen" if frozen else "rubric_unfrozen", by=by)
    return changed


def set_policy(task: Task, policy: str, *, by: User | None) -> bool:
    """Choose when a judge sees the reference; False where that is how it was."""
    with transaction.atomic():
        changed = Task.objects.filter(pk=task.pk).exclude(reference_policy=policy).update(reference_policy=policy)
        if changed:
            _log(task, "reference_policy_set", by=by, detail={"from": task.reference_policy, "to": policy})
    return bool(changed)


def _log(task: Task, action: str, *, by: User | None, detail: Json = None) -> None:
    AuditEvent.objects.create(
        dataset=task.version.dataset, actor=by, action=action, subject=f"task {task.public_id}", detail=detail or {}
    )


# --- drafts


def undrafted(version: DatasetVersion) -> QuerySet[Task]:
    """Tasks with an instruction that nobody has broken into requirements, and that no draft is on its way for."""
    latest = TaskRubric.objects.filter(task=OuterRef("pk")).order_by("-number").values("origin")[:1]
    on_its_way = Exchange.objects.filter(task=OuterRef("pk"), kind=ExchangeKind.DRAFT, state__in=OPEN)
    tasks = Task.objects.filter(version=version, instruction_blob__isnull=False, rubric_frozen_at__isnull=True)
    tasks = tasks.annotate(origin=Subquery(latest)).filter(Q(origin__isnull=True) | Q(origin=RubricOrigin.DEFAULT))
    return tasks.exclude(Exists(on_its_way)).order_by("pk")


def plan_drafts(version: DatasetVersion, config: JudgeConfig, *, by: User | None) -> list[Exchange]:
    """Ask for drafts of all tasks that lack requirements; returns them, queued."""
    group = uuid4()
    with transaction.atomic():
        DatasetVersion.objects.select_for_update().get(pk=version.pk)  # two clicks ask once
        rows = [
            Exchange(
                dataset=version.dataset, config=config, kind=ExchangeKind.DRAFT, task=task, group=group, created_by=by
            )
            for task in undrafted(version)
        ]
        made = Exchange.objects.bulk_create(rows)
        if made:
            detail = {"tasks": len(made), "config": config.digest, "group": str(group)}
            AuditEvent.objects.create(
                dataset=version.dataset,
                actor=by,
                action="drafts_asked",
                subject=f"version {version.name}",
                detail=detail,
            )
    return made


def take_draft(exchange: Exchange, requirements: Sequence[Requirement]) -> TaskRubric | None:
    """Make a draft the task's requirements, where nobody has set or frozen others meanwhile; else None."""
    if exchange.task is None:
        raise ValueError("a draft belongs to a task")
    with transaction.atomic():
        try:
            task = _unfrozen(exchange.task)
        except RubricError:
            return None
        before = task.rubrics.order_by("-number").first()
        if before is not None and before.origin != RubricOrigin.DEFAULT:
            return None
        return _add(task, requirements, before, origin=RubricOrigin.DRAFTED, by=exchange.created_by)


def drafting(version: DatasetVersion) -> tuple[UUID, dict[str, int]] | None:
    """The newest group of drafts of a version, and how many of it are in each state; None where none was asked for."""
    drafts = Exchange.objects.filter(kind=ExchangeKind.DRAFT, task__version=version)
    group = drafts.order_by("-pk").values_list("group", flat=True).first()
    if group is None:
        return None
    found = drafts.filter(group=group).values_list("state").annotate(n=Count("pk")).order_by()
    return group, dict.fromkeys(ExchangeState.values, 0) | dict(found)
