"""The reader of leads and viewers: steps, deliverable, task. `reader_tabs` has what is hidden from the blind."""

import uuid
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from auditapp.models.datasets import Trajectory
from auditapp.views import reading, readingparts
from auditapp.views.access import Access, record_exposure, trajectory_for
from auditapp.views.reader_hidden import Provenance, provenance


@dataclass(frozen=True, slots=True)
class Tab:
    """One part of the reader; `note` says how much is in it, or that nothing was recorded."""

    name: str
    address: str
    current: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class Opened:
    """A trajectory with the caller's access, what they may read of it, and what is known of its making."""

    access: Access
    trajectory: Trajectory
    reading: reading.Reading
    provenance: Provenance


def open_trajectory(request: HttpRequest, public_id: uuid.UUID) -> Opened:
    """Fetch, authorise and read; used by every page of the reader."""
    access, trajectory = trajectory_for(request, public_id)
    record_exposure(request, trajectory.task_id)
    base = reverse("trajectory", args=[public_id])
    shown = reading.read_trajectory(trajectory, base=base, with_reference=access.is_lead, show_hints=True)
    return Opened(access, trajectory, shown, provenance(trajectory))


def page(request: HttpRequest, opened: Opened, template: str, context: dict[str, Any]) -> HttpResponse:
    """Render one tab with the head that all tabs share."""
    match = request.resolver_match
    shared = {
        "access": opened.access,
        "dataset": opened.access.dataset,
        "trajectory": opened.trajectory,
        "reading": opened.reading,
        "provenance": opened.provenance,
        "tabs": _tabs(opened, match.url_name or "" if match else ""),
    }
    return render(request, template, shared | context)


def _tabs(opened: Opened, current: str) -> list[Tab]:
    shown, task = opened.reading, opened.trajectory.task
    names = [
        ("trajectory", "Steps", "not recorded" if shown.steps is None else f"{shown.total:,}"),
        ("trajectory-deliverable", "Deliverable", "" if shown.deliverable else "not recorded"),
        ("trajectory-task", "Task", "" if shown.instruction is not None else "not recorded"),
        ("trajectory-verifier", "Verifier", opened.provenance.source.verifier_status),
    ]
    if opened.access.is_lead:
        names.append(("trajectory-reference", "Reference", "" if task.reference_tree else "not recorded"))
    names.append(("trajectory-recording", "Recording", ""))
    address = [opened.trajectory.public_id]
    return [Tab(name, reverse(view, args=address), view == current, note) for view, name, note in names]


@require_safe
@gzip_page
def steps(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """The outline whole, and the chunk of steps that the address asks for; all other chunks follow on demand."""
    opened = open_trajectory(request, public_id)
    return page(request, opened, "trajectories/steps.html", readingparts.steps_part(request, opened.reading))


@require_safe
@gzip_page
def chunk(request: HttpRequest, public_id: uuid.UUID, number: int) -> HttpResponse:
    """Twenty-five steps; without JavaScript the page that holds them."""
    opened = open_trajectory(request, public_id)
    return render(request, "trajectories/_chunk.html", readingparts.chunk_part(request, opened.reading, number))


@require_safe
@vary_on_headers("HX-Request")
@gzip_page
def lines(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Lines of one item that the steps page had folded."""
    opened = open_trajectory(request, public_id)
    context = readingparts.lines_part(request, opened.reading)
    if request.headers.get("HX-Request"):
        return render(request, "trajectories/_excerpt.html", context)
    return page(request, opened, "trajectories/lines.html", context)


@require_safe
@vary_on_headers("HX-Request")
@gzip_page
def search(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Where a text occurs in the steps: totals and, by step, the first hits."""
    opened = open_trajectory(request, public_id)
    context = readingparts.search_part(request, opened.reading)
    if request.headers.get("HX-Request"):
        return render(request, "trajectories/_found.html", context)
    return page(request, opened, "trajectories/found.html", context)


@require_safe
@gzip_page
def deliverable(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """What the agent left behind, or the files it began with, with line numbers and against each other."""
    opened = open_trajectory(request, public_id)
    return page(
        request, opened, "trajectories/deliverable.html", readingparts.deliverable_part(request, opened.reading)
    )


@require_safe
def file(request: HttpRequest, public_id: uuid.UUID, root: str) -> HttpResponse:
    """Download one file of the deliverable or of the initial files; `picture` shows one instead."""
    shown = open_trajectory(request, public_id).reading
    return readingparts.file_of(request, {"deliverable": shown.deliverable, "initial": shown.initial}.get(root))


@require_safe
@gzip_page
def task(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """The instruction as the agent got it, and the requirements that judge and reviewers answer."""
    opened = open_trajectory(request, public_id)
    return page(request, opened, "trajectories/task.html", readingparts.task_part(request, opened.reading))
