"""The demo's practice: begin, and be shown what was graded beside verifier, judge and truth; and the first visit."""

import uuid

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST

from auditapp.demo import practice, visit
from auditapp.models.datasets import DatasetVersion
from auditapp.models.reviews import ReviewRound, RoundKind, RoundState
from auditapp.views.access import LEADS, Access, dataset_for, version_for
from auditapp.views.review import user_of
from auditapp.views.tables import Table, about_version, csv_asked


def _demo(request: HttpRequest, name: str) -> tuple[Access, DatasetVersion]:
    """The demo and its version; 404 for any other dataset."""
    access = dataset_for(request, name, roles=LEADS)
    version = version_for(request, access)
    if not practice.is_offered(version):
        raise Http404
    return access, version


@require_POST
def begin(request: HttpRequest, name: str) -> HttpResponse:
    """Three items to grade blind, one press away; practice that is open already is gone on with."""
    _, version = _demo(request, name)
    try:
        found = practice.begin(version, by=user_of(request), now=timezone.now())
    except practice.PracticeError as error:
        messages.error(request, str(error))
        return redirect("home")
    return redirect("review-next", found.public_id)


def reveal(request: HttpRequest, name: str, public_id: uuid.UUID) -> HttpResponse:
    """What was graded beside what is true; a press of the button ends an open practice first."""
    access, version = _demo(request, name)
    mine = ReviewRound.objects.filter(version=version, kind=RoundKind.PRACTICE, created_by=user_of(request))
    found = get_object_or_404(mine.select_related("version__dataset"), public_id=public_id)
    if found.state == RoundState.OPEN and request.method != "POST":
        return redirect("review-next", found.public_id)
    shown = practice.reveal(found, by=user_of(request), now=timezone.now())
    if request.method == "POST":
        return redirect("practice-reveal", access.dataset.name, found.public_id)
    context = {"access": access, "dataset": access.dataset, "version": version, "round": found, "reveal": shown}
    about = about_version(version, part=("round", found.number))
    return csv_asked(request, about, [_table(shown)]) or render(request, "review/practice.html", context)


def _table(shown: practice.Reveal) -> Table:
    columns = (
        "task",
        "decision",
        "integrity",
        "right",
        "verifier_status",
        "judge_decision",
        "judge_integrity",
        "true_decision",
        "true_integrity",
        "true_outcome",
        "why",
    )
    return Table("practice", columns, [_row(item) for item in shown.items])


def _row(item: practice.Revealed) -> tuple[object, ...]:
    mine = (item.grade.decision, item.grade.integrity, item.was_right) if item.grade else (None, None, None)
    judge = (item.judge.decision, item.judge.integrity) if item.judge else (None, None)
    truth = (item.truth.decision, item.truth.integrity, item.truth.outcome, item.truth.note)
    return item.trajectory.task.name, *mine, item.verifier_status, *judge, *truth


@require_POST
def dismiss(request: HttpRequest, name: str) -> HttpResponse:
    """Put the steps of the first visit away."""
    _, version = _demo(request, name)
    visit.note(version, visit.DISMISSED, by=user_of(request))
    return redirect("home")
