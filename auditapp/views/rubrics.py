"""Tasks of a dataset with their requirements: the list, one task, editing, freezing, drafting."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_POST, require_safe

from auditapp import blobs, rubrics, tasks
from auditapp.forms.configs import DraftForm
from auditapp.forms.rubrics import RubricForm
from auditapp.heldout import parts
from auditapp.models.datasets import DatasetVersion, ReferencePolicy, Task, TaskRubric
from auditapp.models.events import AuditEvent
from auditapp.models.exchanges import Exchange, ExchangeKind
from auditapp.models.reviews import HeldOutTask
from auditapp.models.sources import VerifierStatusChoice
from auditapp.sections.taskrounds import said_of
from auditapp.templatetags.textlines import Span, Text
from auditapp.views.access import LEADS, READERS, Access, dataset_for, object_for, record_exposure, version_for
from auditapp.views.listing import page_of
from auditapp.views.runs import user_of
from auditapp.views.tables import Table, about_version, csv_asked

STATUSES = VerifierStatusChoice.values


@require_safe
def task_list(request: HttpRequest, name: str) -> HttpResponse:
    """The tasks of a version: what the verifier said of their trajectories, and where their requirements come from."""
    access = dataset_for(request, name, roles=READERS)
    version = version_for(request, access)
    page = page_of(request, rubrics.tasks_of(version))
    held_out = parts(version)
    verdicts = rubrics.verdicts_of(page.rows)
    for task in page.rows:
        task.part = held_out.get(task.pk)  # type: ignore[attr-defined]
        task.rubric = rubrics.newest(task)  # type: ignore[attr-defined]
        task.n_all = verdicts[task.pk].total()  # type: ignore[attr-defined]
        task.counts = [(status, verdicts[task.pk][status]) for status in STATUSES]  # type: ignore[attr-defined]
    if file := csv_asked(request, about_version(version), [_task_table(page.rows)]):
        return file
    context = {
        "access": access,
        "dataset": access.dataset,
        "version": version,
        "page": page,
        "statuses": STATUSES,
    }
    return render(request, "tasks/tasks.html", context | _drafting(version) | _missing(access, version))


def _task_table(found: Iterable[Any]) -> Table:
    columns = ("task", "environment", "held_out", "requirements", "rubric_version", "origin", "frozen", "reference")
    return Table("tasks", (*columns, *STATUSES, "all"), [_task_row(task) for task in found])


def _task_row(task: Any) -> tuple[object, ...]:
    rubric = task.rubric
    listed = (len(rubric.requirements), rubric.number, rubric.origin) if rubric else (None, None, None)
    shown = task.reference_policy if task.reference_tree else None
    rules = (*listed, task.rubric_frozen_at is not None, shown)
    return task.name, task.environment.name, task.part, *rules, *(n for _, n in task.counts), task.n_all


def _drafting(version: DatasetVersion) -> dict[str, Any]:
    """How far the drafts are that somebody asked for last."""
    found = rubrics.drafting(version)
    if found is None:
        return {"drafts": None}
    group, counts = found
    failed = Exchange.objects.filter(group=group, state="failed").select_related("task").order_by("pk")[:10]
    open_now = counts["queued"] + counts["running"]
    return {"drafts": counts, "drafting": bool(open_now), "planned": sum(counts.values()), "failed": failed}


def _missing(access: Access, version: DatasetVersion) -> dict[str, Any]:
    if not access.is_lead:
        return {"n_missing": 0}
    return {"n_missing": rubrics.undrafted(version).count(), "form": DraftForm(dataset=access.dataset)}


@require_safe
def drafts_progress(request: HttpRequest, name: str) -> HttpResponse:
    """The progress of drafting as a fragment; where it has ended, the page is loaded anew."""
    access = dataset_for(request, name, roles=READERS)
    version = version_for(request, access)
    context = {"access": access, "dataset": access.dataset, "version": version, **_drafting(version)}
    response = render(request, "tasks/_drafting.html", context)
    if not context.get("drafting"):
        response["HX-Refresh"] = "true"
    return response


@require_POST
def draft_missing(request: HttpRequest, name: str) -> HttpResponse:
    """Ask for drafts of all tasks of a version that lack requirements."""
    access = dataset_for(request, name, roles=LEADS)
    version = version_for(request, access)
    form = DraftForm(request.POST, dataset=access.dataset)
    if form.is_valid():
        made = rubrics.plan_drafts(version, form.cleaned_data["config"].config, by=user_of(request))
        for exchange in made:
            tasks.enqueue_exchange(exchange)
        messages.success(request, f"{len(made)} drafts are asked for." if made else "No task lacks requirements.")
    else:
        messages.error(request, "Nothing was asked for: choose a config that asks a model.")
    return redirect(f"{reverse('tasks', args=[name])}?version={version.name}")


@gzip_page
def task_page(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """One task: instruction, requirements in force, earlier versions; a lead edits and freezes them."""
    access, task = _task(request, public_id, roles=LEADS if request.method == "POST" else READERS)
    rubric = rubrics.newest(task)
    form = RubricForm(request.POST or None, rubric=rubric)
    if request.method == "POST" and form.is_valid():
        try:
            made = rubrics.set_requirements(task, form.cleaned_data["requirements"], by=user_of(request))
        except rubrics.RubricError as error:
            form.add_error(None, str(error).split("\n"))
        else:
            unchanged = rubric is not None and made.number == rubric.number
            messages.success(request, "Nothing has changed." if unchanged else f"Version {made.number} is in force.")
            return redirect("task", public_id)
    context = _context(access, task, form)
    if context["said"]:  # what a triage or a cold read found wrong with the verifier
        record_exposure(request, task.pk)
    return csv_asked(request, about_version(task.version, part=("task", task.name)), _tables(context)) or render(
        request, "tasks/task.html", context, status=422 if form.errors else 200
    )


def _tables(shown: Mapping[str, Any]) -> Iterator[Table]:
    said = [
        (row.words, " ".join(row.grade.tags), row.note, row.grade.slot.round.number, str(row.grade.reviewer))
        for row in shown["said"]
    ]
    yield Table("said", ("said", "tags", "note", "round", "by"), said)
    versions = [
        (row.number, row.origin, row.digest, len(row.requirements), row.n_answered, row.created_at, _name(row))
        for row in shown["versions"]
    ]
    yield Table("versions", ("number", "origin", "digest", "requirements", "judgments", "created", "by"), versions)


def _name(rubric: TaskRubric) -> str | None:
    return rubric.created_by.get_username() if rubric.created_by else None


def _task(request: HttpRequest, public_id: uuid.UUID, *, roles: Any) -> tuple[Access, Task]:
    objects = Task.objects.select_related("environment").prefetch_related("rubrics__created_by")
    return object_for(request, objects, public_id, "version__dataset", roles=roles)


def _context(access: Access, task: Task, form: RubricForm) -> dict[str, Any]:
    answered = rubrics.answered(task)
    versions = sorted(task.rubrics.all(), key=lambda rubric: -rubric.number)
    for rubric in versions:
        rubric.n_answered = answered.get(rubric.digest, 0)  # type: ignore[attr-defined]
    text = Text(blobs.get_text(task.instruction_blob)) if task.instruction_blob else None
    drafts = Exchange.objects.filter(task=task, kind=ExchangeKind.DRAFT).select_related("config").order_by("-pk")[:5]
    about = AuditEvent.objects.filter(dataset=access.dataset, subject=f"task {task.public_id}")
    return {
        "access": access,
        "dataset": access.dataset,
        "task": task,
        "form": form if access.is_lead else None,
        "versions": versions,
        "rubric": versions[0] if versions else None,
        "earlier": any(rubric.n_answered for rubric in versions[1:]),  # type: ignore[attr-defined]
        "instruction": text.html(Span(1, len(text))) if text else None,
        "policies": ReferencePolicy.choices,
        "drafts": drafts if access.is_lead else (),
        "events": about.select_related("actor").order_by("-pk")[:10],
        "said": said_of(task),
        "held_out": HeldOutTask.objects.filter(task=task, held_out__retired_at=None).select_related("held_out").first(),
    }


@require_POST
def task_steer(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Freeze the requirements, lift the freeze, or choose when a judge sees the reference, as the button says."""
    _, task = _task(request, public_id, roles=LEADS)
    action, by = request.POST.get("do", ""), user_of(request)
    try:
        if action in ("freeze", "unfreeze"):
            rubrics.set_frozen(task, action == "freeze", by=by, now=timezone.now())
        elif action in ReferencePolicy.values:
            rubrics.set_policy(task, action, by=by)
        else:
            raise Http404
    except rubrics.RubricError as error:
        messages.error(request, str(error))
    return redirect("task", public_id)
