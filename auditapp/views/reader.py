"""The reader of leads and viewers: steps, deliverable, task. `reader_tabs` has what is hidden from the blind."""

import uuid
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from auditapp.blobs import BlobTree
from auditapp.models.datasets import Trajectory
from auditapp.templatetags.textlines import Span
from auditapp.views import filereading, reading
from auditapp.views.access import Access, trajectory_for
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
    place = reading.place_of(request.GET)
    number = reading.chunk_of(opened.reading, place)
    shown = reading.chunk(opened.reading, number, place) if opened.reading.total else []
    context = {
        "outline": reading.outline(opened.reading),
        "chunks": reading.chunk_slots(opened.reading),
        "open_chunk": number,
        "steps": shown,
        "missing": reading.missing(place, shown),
    }
    return page(request, opened, "trajectories/steps.html", context)


@require_safe
@gzip_page
def chunk(request: HttpRequest, public_id: uuid.UUID, number: int) -> HttpResponse:
    """Twenty-five steps; without JavaScript the page that holds them."""
    opened = open_trajectory(request, public_id)
    shown = reading.chunk(opened.reading, number, reading.place_of(request.GET))
    context = {"reading": opened.reading, "steps": shown, "number": number}
    return render(request, "trajectories/_chunk.html", context)


@require_safe
@vary_on_headers("HX-Request")
@gzip_page
def lines(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Lines of one item that the steps page had folded."""
    opened = open_trajectory(request, public_id)
    context = {"reading": opened.reading, "excerpt": reading.excerpt(opened.reading, reading.place_of(request.GET))}
    if request.headers.get("HX-Request"):
        return render(request, "trajectories/_excerpt.html", context)
    return page(request, opened, "trajectories/lines.html", context)


@require_safe
@vary_on_headers("HX-Request")
@gzip_page
def search(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Where a text occurs in the steps: totals and, by step, the first hits."""
    opened = open_trajectory(request, public_id)
    found = reading.find(opened.reading, request.GET.get("q", ""), pattern="pattern" in request.GET)
    context = {"reading": opened.reading, "found": found}
    if request.headers.get("HX-Request"):
        return render(request, "trajectories/_found.html", context)
    return page(request, opened, "trajectories/found.html", context)


@require_safe
@gzip_page
def deliverable(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """What the agent left behind, or the files it began with, with line numbers and against each other."""
    opened = open_trajectory(request, public_id)
    shown = opened.reading
    roots = {"deliverable": shown.deliverable, "initial": shown.initial}
    root = request.GET.get("root", "deliverable")
    if root not in roots:
        raise Http404
    sides = {"initial": shown.initial, "reference": shown.reference} if root == "deliverable" else {}
    against = request.GET.get("against", "")
    context: dict[str, Any] = {
        "root": root,
        "roots": [name for name, tree in roots.items() if tree],
        "sides": [name for name, tree in sides.items() if tree],
        "against": against if sides.get(against) else "",
        "files_address": reverse("trajectory-file", args=[public_id, root]),
    }
    tree = roots[root]
    if tree:
        initial = shown.initial if root == "deliverable" else None
        context["folder"] = folder_of(request, tree, initial=initial, against=sides.get(against))
    return page(request, opened, "trajectories/deliverable.html", context)


def folder_of(
    request: HttpRequest,
    tree: BlobTree,
    *,
    initial: BlobTree | None = None,
    against: BlobTree | None = None,
    unless_asked: tuple[str, Span | None] = ("", None),
) -> filereading.Folder:
    """The folder as the address asks for it: `path`, cited `lines`, a page of them in `show`."""
    path, lines = request.GET.get("path", ""), reading.span_of(request.GET.get("lines", ""))
    if not path:
        path, lines = unless_asked
    return filereading.read_folder(
        tree,
        path,
        initial=initial,
        against=against,
        cited=lines,
        shown=reading.span_of(request.GET.get("show", "")),
        as_text=request.GET.get("view") == "text",
    )


@require_safe
def file(request: HttpRequest, public_id: uuid.UUID, root: str) -> HttpResponse:
    """Download one file of the deliverable or of the initial files; `picture` shows one instead."""
    opened = open_trajectory(request, public_id)
    trees = {"deliverable": opened.reading.deliverable, "initial": opened.reading.initial}
    return filereading.download(trees.get(root), request.GET.get("path", ""), as_picture="picture" in request.GET)


@require_safe
@gzip_page
def task(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """The instruction as the agent got it, and the requirements that judge and reviewers answer."""
    opened = open_trajectory(request, public_id)
    text = reading.instruction_text(opened.reading, reading.span_of(request.GET.get("lines", "")))
    context = {"instruction": text.html(Span(1, len(text))) if text else None, "lines": len(text or "")}
    return page(request, opened, "trajectories/task.html", context)
