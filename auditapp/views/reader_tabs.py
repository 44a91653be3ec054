"""Pages of the reader that show what the blind never see: verifier, reference, recording."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from auditapp import blobs
from auditapp.templatetags.textlines import Span
from auditapp.views import reader_hidden
from auditapp.views.access import LEADS
from auditapp.views.reader import Opened, open_trajectory, page
from auditapp.views.reading import span_of
from auditapp.views.readingparts import file_of, folder_of
from auditapp.views.tables import Table, about_version, csv_asked

LEADS_ONLY = ("reference", "verifier-code", "original")


def _tree(opened: Opened, root: str) -> blobs.BlobTree | None:
    """One hidden folder, if the caller may see it."""
    if root in LEADS_ONLY:
        opened.access.require(LEADS)
    if root == "reference":
        return opened.reading.reference
    if root == "verifier-code":
        return reader_hidden.verifier_code(opened.trajectory)
    if root == "original":
        return reader_hidden.originals(opened.provenance.source)
    if root != "streams":
        raise Http404
    return reader_hidden.verifier_streams(opened.provenance.source)


@require_safe
@gzip_page
def verifier(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Status with the line that proves it, rewards, and what the verifier wrote."""
    opened = open_trajectory(request, public_id)
    source = opened.provenance.source
    root = "verifier-code" if request.GET.get("root") == "verifier-code" and opened.access.is_lead else "streams"
    roots = [("streams", "Output")]
    if opened.access.is_lead and reader_hidden.verifier_code(opened.trajectory):
        roots.append(("verifier-code", "Source"))
    tree = _tree(opened, root)
    context = {
        "source": source,
        "root": root,
        "roots": roots,
        "folder": folder_of(request, tree, unless_asked=_proof(source.proof_locator, tree)) if tree else None,
        "files_address": reverse("trajectory-hidden-file", args=[public_id, root]),
    }
    return page(request, opened, "trajectories/verifier.html", context)


def _proof(locator: str, tree: blobs.BlobTree) -> tuple[str, Span | None]:
    """The stream and line that prove the status, where the locator names them, as in `verifier/test-stdout.txt:12`."""
    named, _, line = locator.rpartition(":")
    paths = [entry.path for entry in tree.entries() if named == entry.path or named.endswith(f"/{entry.path}")]
    return (max(paths, key=len), span_of(line)) if paths else ("", None)


@require_safe
@gzip_page
def reference(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """The hidden reference of the task: one valid solution, for leads only."""
    opened = open_trajectory(request, public_id)
    tree = _tree(opened, "reference")
    context = {
        "folder": folder_of(request, tree) if tree else None,
        "files_address": reverse("trajectory-hidden-file", args=[public_id, "reference"]),
        "policy": opened.trajectory.task.get_reference_policy_display(),
    }
    return page(request, opened, "trajectories/reference.html", context)


@require_safe
@gzip_page
def recording(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Where the trajectory came from, what the import repaired or found in it, and the files as they came."""
    opened = open_trajectory(request, public_id)
    tree = reader_hidden.originals(opened.provenance.source) if opened.access.is_lead else None
    context = {
        "source": opened.provenance.source,
        "notices": reader_hidden.notices(opened.trajectory),
        "folder": folder_of(request, tree) if tree and "path" in request.GET else None,
        "originals": tree.entries() if tree else (),
        "files_address": reverse("trajectory-hidden-file", args=[public_id, "original"]),
    }
    about = about_version(opened.trajectory.version, part=("trajectory", public_id))
    return csv_asked(request, about, [_notice_table(context)]) or page(
        request, opened, "trajectories/recording.html", context
    )


def _notice_table(shown: Mapping[str, Any]) -> Table:
    """Notices of the import; where there are none, the flags that came with the trajectory."""
    noted: list[tuple[object, ...]] = [(row.kind, row.code, row.locator, row.detail) for row in shown["notices"]]
    return Table(
        "notices", ("kind", "code", "where", "what"), noted or [_flag_row(one) for one in shown["source"].flags]
    )


def _flag_row(flag: Any) -> tuple[object, ...]:
    told = flag if isinstance(flag, Mapping) else {"code": str(flag)}
    return "flag", told.get("code"), told.get("locator"), told.get("detail")


@require_safe
def hidden_file(request: HttpRequest, public_id: uuid.UUID, root: str) -> HttpResponse:
    """Download one file of a hidden folder."""
    opened = open_trajectory(request, public_id)
    return file_of(request, _tree(opened, root))
