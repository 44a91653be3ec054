"""Imports: begin one, watch it, read what it repaired and refused."""

import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Count
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from auditapp import tasks
from auditapp.forms.imports import ImportForm
from auditapp.importers import ImportOptions
from auditapp.ingest import (
    LIVE,
    ImportRefusedError,
    cancel_import,
    create_batch,
    open_version,
    stage_upload,
    staging_folder,
)
from auditapp.models.datasets import Dataset
from auditapp.models.sources import ImportBatch, ImportNotice
from auditapp.views.access import LEADS, READERS, Access, dataset_for, may_create, object_for
from auditapp.views.listing import page_of
from auditapp.views.runs import user_of
from auditapp.views.tables import About, Table, about_version, csv_asked


def imports(request: HttpRequest, name: str) -> HttpResponse:
    """All imports into a dataset, newest first."""
    access = dataset_for(request, name, roles=READERS)
    batches = ImportBatch.objects.filter(version__dataset=access.dataset).select_related("version", "created_by")
    page = page_of(request, batches)
    if file := csv_asked(request, About(access.dataset.name), [imports_table(page.rows)]):
        return file
    context = {"access": access, "dataset": access.dataset, "page": page}
    return render(request, "imports/imports.html", context)


def imports_table(batches: Iterable[ImportBatch]) -> Table:
    """A list of imports as a file."""
    counts = ("found", "imported", "duplicates", "failed")
    rows = [
        (
            batch.public_id,
            batch.label,
            batch.version.name,
            batch.created_at,
            batch.state,
            batch.format,
            *(getattr(batch, count) for count in counts),
            " ".join(f"{code}:{n}" for code, n in batch.warning_counts.items()),
        )
        for batch in batches
    ]
    return Table("imports", ("import", "label", "version", "begun", "state", "format", *counts, "warnings"), rows)


def import_batch(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """One import: progress while it runs, then what was repaired, found and refused."""
    batches = ImportBatch.objects.select_related("created_by")
    access, batch = object_for(request, batches, public_id, "version__dataset", roles=READERS)
    notices = ImportNotice.objects.filter(batch=batch)
    code = request.GET.get("code", "")
    codes = notices.values("kind", "code").annotate(n=Count("id"), trajectories=Count("trajectory", distinct=True))
    context = {
        "access": access,
        "dataset": access.dataset,
        "batch": batch,
        "running": batch.state in LIVE,
        "codes": codes.order_by("-kind", "-n"),
        "code": code,
        "notices": notices.filter(code=code).select_related("trajectory__task").order_by("id")[:100] if code else (),
        "failures": batch.failures.order_by("id")[:200],
    }
    if file := csv_asked(request, about_version(batch.version, part=("import", batch.public_id)), _tables(context)):
        return file
    template = "imports/_progress.html" if request.htmx else "imports/import.html"  # type: ignore[attr-defined]
    return render(request, template, context)


def _tables(shown: Mapping[str, Any]) -> Iterator[Table]:
    yield Table("refused", ("path", "reason"), [(row.path, row.reason) for row in shown["failures"]])
    codes = [(row["kind"], row["code"], row["n"], row["trajectories"]) for row in shown["codes"]]
    yield Table("notices", ("kind", "code", "times", "trajectories"), codes)
    places = [(_of(row), row.locator, row.detail) for row in shown["notices"]]
    yield Table("places", ("task", "place", "detail"), places)


def _of(notice: ImportNotice) -> str | None:
    return notice.trajectory.task.name if notice.trajectory else None


@require_POST
def import_cancel(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """End an import that waits or runs."""
    _, batch = object_for(request, ImportBatch.objects.all(), public_id, "version__dataset", roles=LEADS)
    ended = cancel_import(batch, by=user_of(request), now=timezone.now())
    messages.success(request, "The import is cancelled." if ended else "The import had ended already.")
    return redirect("import", public_id)


def import_first(request: HttpRequest) -> HttpResponse:
    """Import into a new dataset; whoever does becomes its lead."""
    if not may_create(request):
        raise PermissionDenied(
            "A dataset is begun by whoever leads one, or by an account that was given the right to add datasets; "
            "never by a reviewer."
        )
    return _form_page(request, None)


def import_new(request: HttpRequest, name: str) -> HttpResponse:
    """Import more into a dataset."""
    return _form_page(request, dataset_for(request, name, roles=LEADS))


def _form_page(request: HttpRequest, access: Access | None) -> HttpResponse:
    dataset = access.dataset if access else None
    name = dataset.name if dataset else None
    form = ImportForm(request.POST or None, request.FILES or None, dataset=name, initial=_latest_choices(dataset))
    if request.method == "POST" and form.is_valid():
        batch = _begin(request, form, dataset)
        if batch is not None:
            address = reverse("import", args=[batch.public_id])
            if request.htmx:  # type: ignore[attr-defined]
                return HttpResponse(headers={"HX-Redirect": address})
            return redirect(address)
    status = 422 if form.errors else 200
    return render(request, "imports/new.html", {"form": form, "access": access, "dataset": dataset}, status=status)


def _latest_choices(dataset: Dataset | None) -> dict[str, Any]:
    version = dataset.versions.order_by("-id").first() if dataset else None
    if version is None:
        return {}
    return {"version": version.name, "pass_threshold": version.pass_threshold, "partial_as": version.partial_as}


def _begin(request: HttpRequest, form: ImportForm, dataset: Dataset | None) -> ImportBatch | None:
    """Stage what was sent and queue its import; None with an error on the form when it cannot begin."""
    data, user = form.cleaned_data, user_of(request)
    options = ImportOptions(pass_threshold=data["pass_threshold"], partial_as=data["partial_as"])
    folder = staging_folder()
    name = dataset.name if dataset else data["dataset"]
    try:  # the upload first: a full disk must not leave a dataset without anything in it
        wanted = _staged(data, folder)
        with transaction.atomic():
            version = open_version(name, data["version"], options=options, by=user, must_be_new=dataset is None)
            batch = create_batch(version, label=_label(data), options=wanted, by=user)
    except ImportRefusedError as error:
        shutil.rmtree(folder, ignore_errors=True)
        form.add_error("dataset" if dataset is None else "version", str(error))
        return None
    except Exception:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    tasks.enqueue_import(batch)
    return batch


def _label(data: dict[str, Any]) -> str:
    return str(data["upload"].name if data.get("upload") else data["path"])


def _staged(data: dict[str, Any], folder: Path) -> dict[str, object]:
    upload, mapping = data.get("upload"), data.get("mapping")
    wanted: dict[str, object] = {key: data[key] for key in ("format", "environment", "verifier")}
    if upload:
        wanted["path"] = str(stage_upload(upload, folder / "data"))
    else:
        wanted["path"] = str(data["path"])
    if mapping:
        wanted["mapping"] = str(stage_upload(mapping, folder / "mapping"))
    return wanted | ({"staged": str(folder)} if upload or mapping else {})
