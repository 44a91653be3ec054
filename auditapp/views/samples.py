"""Frames and samples: freeze the population, draw from it, look at what was drawn."""

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from auditapp.estimation import doubt_by_stratum
from auditapp.forms.samples import DrawForm
from auditapp.models.samples import Frame, Sample
from auditapp.sampling import SamplingError, draw_sample, freeze_frame
from auditapp.stats.allocation import AllocationError, allocate
from auditapp.views.access import LEADS, READERS, Access, dataset_for, object_for, version_for
from auditapp.views.listing import page_of
from auditapp.views.runs import runs_table
from auditapp.views.tables import About, Table, about_version, csv_asked


def samples(request: HttpRequest, name: str) -> HttpResponse:
    """All draws of a dataset, newest first."""
    access = dataset_for(request, name, roles=READERS)
    drawn = Sample.objects.filter(frame__version__dataset=access.dataset).select_related(
        "frame__version", "created_by", "part_of"
    )
    page = page_of(request, drawn)
    if file := csv_asked(request, About(access.dataset.name), [_sample_table(page.rows)]):
        return file
    context = {"access": access, "dataset": access.dataset, "page": page}
    return render(request, "samples/samples.html", context)


def _sample_table(found: Iterable[Sample]) -> Table:
    columns = ("draw", "draw_id", "again", "version", "drawn_at", "frame_digest", "plan", "seed", "drawn", "of")
    return Table("samples", columns, [_sample_row(row) for row in found])


def _sample_row(row: Sample) -> tuple[object, ...]:
    frame, drawn = row.frame, (row.created_at, row.frame.digest, row.plan["method"], row.seed, row.size)
    return str(row), row.public_id, row.part_of_id is not None, frame.version.name, *drawn, frame.size


@require_POST
def freeze(request: HttpRequest, name: str) -> HttpResponse:
    """Freeze the population of a version and go on to the draw."""
    access = dataset_for(request, name, roles=LEADS)
    try:
        frame = freeze_frame(version_for(request, access), by=_user(request))
    except SamplingError as error:
        messages.error(request, str(error))
        return redirect("sample-new", access.dataset.name)
    return redirect(f"{reverse('sample-new', args=[access.dataset.name])}?frame={frame.public_id}")


def sample_new(request: HttpRequest, name: str) -> HttpResponse:
    """Plan a draw from a frozen frame; asking with `preview` shows the sizes without drawing."""
    access = dataset_for(request, name, roles=LEADS)
    frame = _frame(request, access)
    if frame is None:
        context = {"access": access, "dataset": access.dataset, "version": version_for(request, access)}
        return render(request, "samples/freeze.html", context)
    form = DrawForm(request.POST if request.method == "POST" else request.GET if "method" in request.GET else None)
    strata = list(frame.strata.order_by("number"))
    sizes: tuple[int, ...] = ()
    if form.is_bound and form.is_valid():
        try:
            plan = form.plan(doubt_by_stratum(frame))
            if request.method == "POST" and "preview" not in request.POST:
                sample = draw_sample(frame, plan, seed=form.cleaned_data["seed"], by=_user(request))
                return redirect("sample", sample.public_id)
            sizes = allocate(plan, [stratum.size for stratum in strata])
        except (AllocationError, SamplingError) as error:
            form.add_error("size", str(error))
    context = {
        "access": access,
        "dataset": access.dataset,
        "frame": frame,
        "form": form,
        "rows": list(zip(strata, sizes or [None] * len(strata), strict=True)),
        "total": sum(sizes) if sizes else None,
    }
    return render(request, "samples/new.html", context, status=422 if form.errors else 200)


def _frame(request: HttpRequest, access: Access) -> Frame | None:
    text = request.GET.get("frame", "")
    if not text:
        return None
    frames = Frame.objects.filter(version__dataset=access.dataset).select_related("version")
    try:
        frame = frames.filter(public_id=uuid.UUID(text)).first()
    except ValueError:
        frame = None
    if frame is None:
        raise Http404
    return frame


def sample(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """One draw: frame digest, seed, plan, sizes by stratum, and the judge runs over it."""
    samples_ = Sample.objects.select_related("created_by", "part_of")
    access, drawn = object_for(request, samples_, public_id, "frame__version__dataset", roles=READERS)
    context = {
        "access": access,
        "dataset": access.dataset,
        "sample": drawn,
        "draws": drawn.draws.select_related("stratum").order_by("stratum__number"),
        "draw_count": drawn.frame.draw_count,
        "runs": drawn.judge_runs.select_related("config").order_by("-id"),
    }
    about = replace(about_version(drawn.frame.version), sample=str(drawn.public_id))
    return csv_asked(request, about, _tables(context)) or render(request, "samples/sample.html", context)


def _tables(shown: Mapping[str, Any]) -> Iterator[Table]:
    strata = [(row.stratum, row.size) for row in shown["draws"]]
    parts = ("verifier_status", "model", "agent", "effort", "environment")
    rows = [(*(getattr(stratum, part) for part in parts), drawn, stratum.size) for stratum, drawn in strata]
    yield Table("strata", (*parts, "drawn", "of"), rows)
    yield runs_table(shown["runs"])


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101  (every page asks for a login)
    return request.user
