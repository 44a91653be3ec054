"""The step after the lock: what the verifier said, and the E tags that a reviewer gives once they know.

It is the one page of a reviewer that knows a verifier. Opening it locks the grade and withdraws the reviewer from the
other slots of the task, so it is a press of its own.
"""

import uuid
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from auditapp import blobs, grading
from auditapp.forms.review import text_of
from auditapp.grading import Incomplete
from auditapp.models.reviews import Attribution, Slot
from auditapp.models.sources import TrajectorySource
from auditapp.review import ReviewError
from auditapp.views.readingparts import file_of, folder_of
from auditapp.views.review import slot_of, tag_rows, user_of

LONGEST_PROOF = 2000


@never_cache
def after(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Ask whether to open it; once it is open, the verifier's side and the form for E tags."""
    slot = slot_of(request, public_id)
    if request.method == "POST":
        return _open(request, slot) if request.POST.get("do") == "open" else _store(request, slot)
    found = grading.attribution_of(slot, by=user_of(request))
    if found is None and not grading.may_attribute(slot, by=user_of(request)):
        raise Http404
    return _page(request, slot, found)


def _open(request: HttpRequest, slot: Slot) -> HttpResponse:
    try:
        grading.open_attribution(slot, by=user_of(request), now=timezone.now())
    except ReviewError as error:
        return _page(request, slot, None, {"problem": str(error)}, status=422)
    return redirect("review-after", slot.public_id)


def _store(request: HttpRequest, slot: Slot) -> HttpResponse:
    tags, note = request.POST.getlist("tags"), text_of(request.POST, "note")
    try:
        grading.submit_attribution(slot, tags, note, by=user_of(request), now=timezone.now())
    except Incomplete as error:
        typed = {"wrong": error.fields, "note": note, "chosen": tags}
        return _page(request, slot, grading.attribution_of(slot, by=user_of(request)), typed, status=422)
    except ReviewError as error:
        typed = {"problem": str(error), "note": note, "chosen": tags}
        return _page(request, slot, grading.attribution_of(slot, by=user_of(request)), typed, status=422)
    return redirect("review-next", slot.round.public_id)


def _page(
    request: HttpRequest,
    slot: Slot,
    found: Attribution | None,
    typed: dict[str, Any] | None = None,
    *,
    status: int = 200,
) -> HttpResponse:
    context: dict[str, Any] = {"slot": slot, "round": slot.round, "dataset": slot.round.version.dataset}
    if found is None:
        return render(request, "review/after_ask.html", context | (typed or {}), status=status)
    context |= _revealed(request, slot) | {"found": found, "note": found.note, "chosen": found.tags} | (typed or {})
    context["tags"] = tag_rows(tuple(grading.environment_codes()), frozenset(context["chosen"]))
    return render(request, "review/after.html", context, status=status)


def _revealed(request: HttpRequest, slot: Slot) -> dict[str, Any]:
    """Status, reason and output; not the model, the agent or the attempt."""
    source = _source(slot)
    tree = blobs.tree(source.verifier_tree)
    return {
        "status": source.verifier_status,
        "reason": source.verifier_reason,
        "reward": source.reward,
        "proof": source.proof[:LONGEST_PROOF],
        "root": "verifier",
        "folder": folder_of(request, tree, unless_asked=(_longest(tree), None)) if tree else None,
        "files_address": reverse("review-after-file", args=[slot.public_id]),
    }


def _longest(tree: blobs.BlobTree) -> str:
    """The file that says most: the output rather than the number."""
    entries = sorted(tree.entries(), key=lambda entry: entry.size)
    return entries[-1].path if entries else ""


def _source(slot: Slot) -> TrajectorySource:
    return TrajectorySource.objects.get(pk=slot.item.trajectory_id)


@require_safe
def after_file(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Download one file that the verifier wrote, once the step is open."""
    slot = slot_of(request, public_id)
    if grading.attribution_of(slot, by=user_of(request)) is None:
        raise Http404
    return file_of(request, blobs.tree(_source(slot).verifier_tree))
