"""A lead's pages of triage, cold reads and audits: draw one, and rule on what a reader of an instruction wrote."""

import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from auditapp import blobs, taskrounds
from auditapp.forms.taskrounds import INSTRUCTIONS, SIZES, RulingForm, TaskRoundForm
from auditapp.models.datasets import DatasetVersion, Task
from auditapp.models.reviews import ExclusionReason, ReviewRound, RoundKind, Slot, SlotState
from auditapp.models.sources import TaskSource
from auditapp.round_draws import RoundError
from auditapp.sections.figures import figure
from auditapp.sections.taskrounds import ColdRead, Triaged, audit, cold_reads, triage
from auditapp.stats.allocation import AllocationError
from auditapp.templatetags.textlines import Span, Text
from auditapp.views.access import LEADS, Access, dataset_for, object_for, record_exposure, version_for
from auditapp.views.readingparts import file_of, folder_of
from auditapp.views.runs import user_of
from auditapp.views.tables import RATE_COLUMNS, Table, rate_cells

KINDS = (RoundKind.TRIAGE, RoundKind.COLD_READ, RoundKind.AUDIT)
TITLES = {
    RoundKind.TRIAGE: "Triage of tasks",
    RoundKind.COLD_READ: "Cold read of instructions",
    RoundKind.AUDIT: "Full trajectories read",
}
SECTIONS = {RoundKind.TRIAGE: triage, RoundKind.COLD_READ: cold_reads, RoundKind.AUDIT: audit}
LISTED = 50


def found_in(found: ReviewRound) -> dict[str, Any]:
    """What came of a round without decisions, under the name of its kind; nothing for others."""
    section = SECTIONS.get(RoundKind(found.kind))
    return {found.kind: section(found)} if section else {}


def tables_of(found: Mapping[str, Any]) -> Iterator[Table]:
    """The tables of what `found_in` found."""
    if shown := found.get(RoundKind.TRIAGE):
        columns = ("task", "environment", "answer", "tags", "note", "by")
        yield Table("answers", columns, [_triage_row(row) for row in shown.rows])
    if shown := found.get(RoundKind.COLD_READ):
        columns = ("task", "environment", "is_read", "ruling", "note", "read_by")
        yield Table("reads", columns, [_read_row(row) for row in shown.rows])
    if shown := found.get(RoundKind.AUDIT):
        cells = [(row.environment, row.model, row.all, row.drawn, row.read) for row in shown.cells]
        yield Table("coverage", ("environment", "model", "in_release", "drawn", "read"), cells)
        tags = [(seen.code, *rate_cells(figure(seen.share))) for seen in shown.tags]
        yield Table("tags", ("code", *RATE_COLUMNS), tags)


def _triage_row(row: Triaged) -> tuple[object, ...]:
    task, grade = (row.task.name, row.task.environment.name), row.grade
    if grade is None:
        return *task, None, None, None, None
    return *task, row.answer, " ".join(grade.tags), grade.note, str(grade.reviewer)


def _read_row(row: ColdRead) -> tuple[object, ...]:
    ruled = (row.ruling, row.event.detail["note"]) if row.event else (None, None)
    by = str(row.grade.reviewer) if row.grade else None
    return row.task.name, row.task.environment.name, row.slot is not None, *ruled, by


# --- a new one


def told_again(request: HttpRequest, made: ReviewRound, since: datetime) -> bool:
    """Say that a round was there before the press that asked for it; False where the press has made it."""
    if made.created_at >= since:
        return False
    told = f"Round {made.number} was drawn already, with this title, plan and seed. Nothing was drawn by this press."
    messages.info(request, told)
    return True


def task_round_new(request: HttpRequest, name: str, kind: str) -> HttpResponse:
    """Draw a triage, a cold read or an audit; `?tasks=` names the tasks to choose from."""
    access = dataset_for(request, name, roles=LEADS)
    version, since = version_for(request, access), timezone.now()
    asked = request.POST.get("tasks", "") if request.method == "POST" else request.GET.get("tasks", "")
    tasks, unknown = ([], 0) if kind == RoundKind.AUDIT else _tasks(version, kind, asked)
    most = _most(version, kind, tasks)
    of_kind = RoundKind(kind)
    initial: dict[str, Any] = {"title": TITLES[of_kind], "instructions": INSTRUCTIONS[of_kind], "tasks": asked}
    initial["size"] = most if asked else min(SIZES[of_kind], most)
    form = TaskRoundForm(request.POST or None, kind=kind, dataset=access.dataset, initial=initial)
    if request.method == "POST" and form.is_valid():
        try:
            made = _draw(version, form, tasks, request)
        except (RoundError, AllocationError) as error:
            form.add_error(None, str(error))
        else:
            told_again(request, made, since)
            return redirect("round", made.public_id)
    context = {
        "access": access,
        "dataset": access.dataset,
        "version": version,
        "kind": kind,
        "form": form,
        "tasks": tasks[:LISTED],
        "most": most,
        "asked": asked,
        "unknown": unknown,
    }
    return render(request, "taskrounds/new.html", context, status=422 if form.errors else 200)


def _tasks(version: DatasetVersion, kind: str, asked: str) -> tuple[list[Task], int]:
    """The tasks to choose from, and how many of those named are not of this version."""
    if not asked:
        return list(taskrounds.tasks_to_ask(version, kind)), 0
    named = [text for text in dict.fromkeys(asked.split(",")) if text]
    ids = [found for text in named if (found := _uuid(text))]
    tasks = Task.objects.filter(version=version, public_id__in=ids).select_related("environment").order_by("pk")
    return list(tasks), len(named) - len(tasks)


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text.strip())
    except ValueError:
        return None


def _most(version: DatasetVersion, kind: str, tasks: list[Task]) -> int:
    return taskrounds.to_audit(version).count() if kind == RoundKind.AUDIT else len(tasks)


def _draw(version: DatasetVersion, form: TaskRoundForm, tasks: list[Task], request: HttpRequest) -> ReviewRound:
    data = form.cleaned_data
    options: dict[str, Any] = {
        "size": data["size"],
        "reviewers": list(data["reviewers"]),
        "title": data["title"],
        "seed": data["seed"],
        "by": user_of(request),
        "settings": form.settings,
    }
    if form.kind == RoundKind.AUDIT:
        return taskrounds.draw_audit(version, **options)
    return taskrounds.draw_tasks(version, tasks, **options)


# --- ruling on a cold read


def cold_read(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """A reader's text beside the rubric and the verifier's source; a lead says how they stand to each other."""
    access, slot = _read(request, public_id)
    record_exposure(request, slot.item.task_id, reason=ExclusionReason.SAW_VERIFIER)
    event = taskrounds.rulings_of([slot]).get(slot.pk)
    form = RulingForm(request.POST or None, initial=event.detail if event else {})
    if request.method == "POST" and form.is_valid():
        try:
            data = form.cleaned_data
            taskrounds.rule_cold_read(slot, data["ruling"], data["note"], by=user_of(request))
        except RoundError as error:
            form.add_error("note", str(error))
        else:
            messages.success(request, "Stored; the task's page says so.")
            return _next(slot)
    context = {"access": access, "dataset": access.dataset, "slot": slot, "round": slot.round, "form": form}
    context |= _beside(request, slot) | {"event": event}
    return render(request, "taskrounds/cold_read.html", context, status=422 if form.errors else 200)


def _read(request: HttpRequest, public_id: uuid.UUID) -> tuple[Access, Slot]:
    """A cold read that is in; until then, and of other rounds, there is none."""
    slots = Slot.objects.filter(round__kind=RoundKind.COLD_READ, state=SlotState.SUBMITTED)
    objects = slots.select_related("item__task__environment", "item__rubric", "reviewer")
    return object_for(request, objects, public_id, "round__version__dataset", roles=LEADS)


def _next(slot: Slot) -> HttpResponse:
    """The next read that waits for a ruling, else the round."""
    waiting = [row.slot for row in cold_reads(slot.round).rows if row.slot and not row.event]
    return redirect("round-cold-read", waiting[0].public_id) if waiting else redirect("round", slot.round.public_id)


def _beside(request: HttpRequest, slot: Slot) -> dict[str, Any]:
    task = slot.item.task
    text = Text(blobs.get_text(task.instruction_blob)) if task.instruction_blob else None
    tree = _verifier(task)
    return {
        "task": task,
        "grade": slot.grades.get(current=True),
        "instruction": text.html(Span(1, len(text))) if text else None,
        "rubric": task.rubrics.order_by("-number").first(),
        "root": "verifier",
        "folder": folder_of(request, tree) if tree else None,
        "files_address": "verifier/",
    }


def _verifier(task: Task) -> blobs.BlobTree | None:
    found = TaskSource.objects.filter(task=task).first()
    return blobs.tree(found.verifier_tree) if found else None


@require_safe
def cold_read_file(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Download one file of the verifier's source."""
    _, slot = _read(request, public_id)
    return file_of(request, _verifier(slot.item.task))
