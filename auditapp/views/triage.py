"""What a triage shows beside the task: the verifier's source, and the task's trajectories with what it said of them.

These are the only pages of a reviewer, but for the step after the lock, that know a verifier. Opening them keeps the
reviewer from every blind slot of the task, so it is a press of its own: nothing of them exists before.
"""

import uuid
from dataclasses import replace
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_http_methods, require_safe
from django.views.decorators.vary import vary_on_headers

from auditapp import blobs
from auditapp.models.datasets import Task, Trajectory
from auditapp.models.reviews import Exclusion, ExclusionReason, RoundKind
from auditapp.models.sources import TaskSource, TrajectorySource
from auditapp.review import bar_from_tasks, withdraw
from auditapp.sections.taskrounds import statuses_of
from auditapp.views import readingparts
from auditapp.views.reading import Reading, with_work
from auditapp.views.readingparts import file_of, folder_of
from auditapp.views.review import Opened, open_slot, slot_context

PARTS = {
    "": ("Steps", readingparts.steps_part),
    "deliverable": ("Deliverable", readingparts.deliverable_part),
    "verifier": ("Verifier", None),
}


def _triaged(request: HttpRequest, public_id: uuid.UUID) -> Opened:
    """The caller's slot of a triage."""
    found = open_slot(request, public_id)
    if found.round.kind != RoundKind.TRIAGE:
        raise Http404
    return found


def _may_see(found: Opened) -> bool:
    """Whether they grade nothing of the task blind, having opened this or seen a verdict before."""
    return Exclusion.objects.filter(user=found.user, task=found.slot.item.task_id).exists()


def _open(request: HttpRequest, public_id: uuid.UUID) -> Opened:
    """The caller's slot of a triage whose verifier they have opened; Http404 before."""
    found = _triaged(request, public_id)
    if not _may_see(found):
        raise Http404
    return found


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@vary_on_headers("HX-Request")
@gzip_page
def trials(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """The verifier's source and the list of trials, as a part of the item; before the press of a button, what it does.

    From the press on the caller grades nothing of the task blind.
    """
    found = _triaged(request, public_id)
    if request.method == "POST":
        task = found.slot.item.task_id
        bar_from_tasks(found.user, [task], reason=ExclusionReason.SAW_VERIFIER)
        withdraw(found.user, task)
        return redirect("review-trials", public_id)
    context = {"slot": found.slot, "asks": True} if not _may_see(found) else _shown(request, found)
    if request.headers.get("HX-Request"):
        return render(request, "review/_trials.html", context)
    return render(request, "review/slot.html", slot_context(found, "trials") | context)


def _shown(request: HttpRequest, found: Opened) -> dict[str, Any]:
    tree = _verifier(found.slot.item.task)
    return {
        "slot": found.slot,
        "trials": statuses_of(found.slot.item.task),
        "root": "verifier",
        "folder": folder_of(request, tree) if tree else None,
        "files_address": reverse("review-trials-file", args=[found.slot.public_id]),
    }


def _verifier(task: Task) -> blobs.BlobTree | None:
    found = TaskSource.objects.filter(task=task).first()
    return blobs.tree(found.verifier_tree) if found else None


@require_safe
def trials_file(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Download one file of the verifier's source."""
    return file_of(request, _verifier(_open(request, public_id).slot.item.task))


# --- one trial


def _trial(request: HttpRequest, public_id: uuid.UUID, trial: uuid.UUID) -> tuple[Opened, Trajectory, Reading]:
    """A trajectory of the task of the slot; Http404 for any other."""
    found = _open(request, public_id)
    trajectory = Trajectory.objects.filter(public_id=trial, task=found.slot.item.task_id).first()
    if trajectory is None:
        raise Http404
    base = reverse("review-trial", args=[public_id, trial])
    return found, trajectory, replace(with_work(found.reading, trajectory), base=base)


@require_safe
@never_cache
@gzip_page
def trial(request: HttpRequest, public_id: uuid.UUID, trial: uuid.UUID, part: str = "") -> HttpResponse:
    """One trial: its steps, what it delivered, or what the verifier wrote of it."""
    if part not in PARTS:
        raise Http404
    found, trajectory, shown = _trial(request, public_id, trial)
    source = TrajectorySource.objects.get(pk=trajectory.pk)
    read = PARTS[part][1]
    context = read(request, shown) if read else _output(request, shown, source)
    tabs = [(name, shown.base + (f"{key}/" if key else ""), key == part) for key, (name, _) in PARTS.items()]
    around = {"slot": found.slot, "round": found.round, "dataset": found.round.version.dataset, "source": source}
    return render(request, "review/trial.html", around | {"reading": shown, "part": part, "tabs": tabs} | context)


def _output(request: HttpRequest, shown: Reading, source: TrajectorySource) -> dict[str, Any]:
    tree = blobs.tree(source.verifier_tree)
    return {
        "root": "streams",
        "folder": folder_of(request, tree) if tree else None,
        "files_address": f"{shown.base}file/streams/",
    }


@require_safe
@gzip_page
def trial_chunk(request: HttpRequest, public_id: uuid.UUID, trial: uuid.UUID, number: int) -> HttpResponse:
    """Twenty-five steps."""
    _, _, shown = _trial(request, public_id, trial)
    return render(request, "trajectories/_chunk.html", readingparts.chunk_part(request, shown, number))


@require_safe
@vary_on_headers("HX-Request")
@gzip_page
def trial_lines(request: HttpRequest, public_id: uuid.UUID, trial: uuid.UUID) -> HttpResponse:
    """Lines of one item that the steps had folded."""
    return _piece(request, public_id, trial, readingparts.lines_part, "_excerpt")


@require_safe
@vary_on_headers("HX-Request")
@gzip_page
def trial_search(request: HttpRequest, public_id: uuid.UUID, trial: uuid.UUID) -> HttpResponse:
    """Where a text occurs in the steps."""
    return _piece(request, public_id, trial, readingparts.search_part, "_found")


def _piece(request: HttpRequest, public_id: uuid.UUID, trial: uuid.UUID, read: Any, name: str) -> HttpResponse:
    found, trajectory, shown = _trial(request, public_id, trial)
    context = read(request, shown)
    if request.headers.get("HX-Request"):
        return render(request, f"trajectories/{name}.html", context)
    source = TrajectorySource.objects.get(pk=trajectory.pk)
    around = {"slot": found.slot, "round": found.round, "dataset": found.round.version.dataset, "source": source}
    return render(
        request, "review/trial.html", around | {"part": name, "tabs": [("Steps", shown.base, False)]} | context
    )


@require_safe
def trial_file(request: HttpRequest, public_id: uuid.UUID, trial: uuid.UUID, root: str) -> HttpResponse:
    """Download one file of what was delivered, of the initial files, or of what the verifier wrote."""
    _, trajectory, shown = _trial(request, public_id, trial)
    if root == "streams":
        return file_of(request, blobs.tree(TrajectorySource.objects.get(pk=trajectory.pk).verifier_tree))
    return file_of(request, {"deliverable": shown.deliverable, "initial": shown.initial}.get(root))
