"""The parts of the reader as leads and blind reviewers get them: what the address asks for, ready for a template.

Everything here comes from a `Reading`; where verifier, model or source are stored may not be imported.
"""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse

from auditapp.blobs import BlobTree
from auditapp.templatetags.textlines import Span
from auditapp.views import filereading, reading
from auditapp.views.reading import Reading

Context = dict[str, Any]


def steps_part(request: HttpRequest, shown: Reading) -> Context:
    """The outline, and the chunk of steps that the address asks for."""
    place = reading.place_of(request.GET)
    number = reading.chunk_of(shown, place)
    steps = reading.chunk(shown, number, place) if shown.total else []
    return {
        "reading": shown,
        "outline": reading.outline(shown, number),
        "chunks": reading.chunk_slots(shown),
        "open_chunk": number,
        "steps": steps,
        "missing": reading.missing(place, steps),
    }


def chunk_part(request: HttpRequest, shown: Reading, number: int) -> Context:
    """Twenty-five steps, or with `outline` the rows of that part of the outline; Http404 where there are none."""
    if "outline" in request.GET:
        return {"rows": reading.outline_part(shown, number)}
    steps = reading.chunk(shown, number, reading.place_of(request.GET))
    return {"reading": shown, "steps": steps, "number": number}


def lines_part(request: HttpRequest, shown: Reading) -> Context:
    """Lines of one item that the steps had folded."""
    return {"reading": shown, "excerpt": reading.excerpt(shown, reading.place_of(request.GET))}


def search_part(request: HttpRequest, shown: Reading) -> Context:
    """Where a text occurs in the steps."""
    found = reading.find(shown, request.GET.get("q", ""), pattern="pattern" in request.GET)
    return {"reading": shown, "found": found}


def deliverable_part(request: HttpRequest, shown: Reading) -> Context:
    """What the agent left behind, or the files it began with, with line numbers and against each other."""
    roots = {"deliverable": shown.deliverable, "initial": shown.initial}
    root = request.GET.get("root", "deliverable")
    if root not in roots:
        raise Http404
    sides = {"initial": shown.initial, "reference": shown.reference} if root == "deliverable" else {}
    against = request.GET.get("against", "")
    context: Context = {
        "root": root,
        "roots": [name for name, tree in roots.items() if tree],
        "sides": [name for name, tree in sides.items() if tree],
        "against": against if sides.get(against) else "",
        "files_address": f"{shown.base}file/{root}/",
    }
    tree = roots[root]
    if tree:
        initial = shown.initial if root == "deliverable" else None
        context["folder"] = folder_of(request, tree, initial=initial, against=sides.get(against))
    return context


def reference_part(request: HttpRequest, shown: Reading) -> Context:
    """The reference of the task, where it may be seen."""
    tree = shown.reference
    return {
        "root": "reference",
        "folder": folder_of(request, tree) if tree else None,
        "files_address": f"{shown.base}file/reference/",
    }


def task_part(request: HttpRequest, shown: Reading) -> Context:
    """The instruction as the agent got it, and the requirements that judge and reviewers answer."""
    text = reading.instruction_text(shown, reading.span_of(request.GET.get("lines", "")))
    return {
        "reading": shown,
        "instruction": text.html(Span(1, len(text))) if text else None,
        "lines": len(text or ""),
    }


def file_of(request: HttpRequest, tree: BlobTree | None) -> HttpResponse:
    """Download the file of `tree` that the address names; `picture` shows one instead. Http404 where there is none."""
    return filereading.download(tree, request.GET.get("path", ""), as_picture="picture" in request.GET)


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
