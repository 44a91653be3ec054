"""Labels made elsewhere, by people or by other judges, brought into the one relation of labels."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal

from django.contrib.auth.models import User
from django.db import transaction

from auditapp.importers.labels import parse_labels
from auditapp.importers.lenient import Repairs
from auditapp.ingest_rows import storable
from auditapp.models.datasets import DatasetVersion
from auditapp.models.events import AuditEvent
from auditapp.models.labels import ImportedLabel
from auditapp.models.sources import TrajectorySource
from judges.outcome import acceptable, outcome
from judges.records import LabelRecord, ParseFailure

CHUNK = 500
LONGEST_ID = 300  # characters of a stored source id: a longer one is nobody's, and is not repeated whole


@dataclass(slots=True)
class LabelReport:
    """What one import of labels did, as the command prints it."""

    dataset: str
    found: int = 0
    imported: int = 0
    duplicates: int = 0
    failed: list[dict[str, str]] = field(default_factory=list)
    warnings: dict[str, int] = field(default_factory=dict)


def import_labels(
    version: DatasetVersion, path: Path, *, kind: Literal["human", "judge"], mapping: Path | None, by: User | None
) -> LabelReport:
    """Store each label whose trajectory is known; the same label again is a duplicate, another decision a failure."""
    report = LabelReport(version.dataset.name)
    repairs = Repairs()
    records = parse_labels(path, kind, mapping, repairs)
    while chunk := list(islice(records, CHUNK)):
        report.found += len(chunk)
        _store(version, chunk, report)
    report.warnings = dict(sorted(repairs.counts().items()))
    AuditEvent.objects.create(
        dataset=version.dataset, actor=by, action="labels_imported", subject=path.name[:200], detail=_counts(report)
    )
    return report


def _counts(report: LabelReport) -> dict[str, object]:
    counts = {"imported": report.imported, "duplicates": report.duplicates, "failed": len(report.failed)}
    return counts | ({"warnings": report.warnings} if report.warnings else {})


def _store(version: DatasetVersion, chunk: Sequence[LabelRecord | ParseFailure], report: LabelReport) -> None:
    labels = [item for item in chunk if isinstance(item, LabelRecord)]
    report.failed += [asdict(item) for item in chunk if isinstance(item, ParseFailure)]
    wanted = {label.source_id for label in labels}
    with transaction.atomic():
        found = TrajectorySource.objects.filter(version=version, source_id__in=wanted)
        # Locked, in one order, so that a ruling on the status waits for these outcomes or is seen by them.
        sources = {row.source_id: row for row in found.select_for_update().order_by("pk")}
        rows = list(_rows(version, labels, sources, report))
        ImportedLabel.objects.bulk_create(rows)
        report.imported += len(rows)


def _rows(
    version: DatasetVersion, labels: Sequence[LabelRecord], sources: dict[str, TrajectorySource], report: LabelReport
) -> Iterator[ImportedLabel]:
    stored = ImportedLabel.objects.filter(trajectory__in=[source.trajectory_id for source in sources.values()])
    known = {(row.trajectory_id, row.kind, row.labeler): row for row in stored}
    for label in labels:
        source = sources.get(label.source_id)
        if source is None:
            report.failed.append(
                {"path": label.source_id[:LONGEST_ID], "reason": f"{version} has no trajectory with this source id"}
            )
            continue
        row = _row(version, label, source)
        key = (row.trajectory_id, row.kind, row.labeler)
        earlier = known.setdefault(key, row)
        if earlier is row:
            yield row
        elif (earlier.decision, earlier.integrity) == (row.decision, row.integrity):
            report.duplicates += 1
        else:
            reason = f"{row.labeler} already said {earlier.decision} here; this file says {row.decision}"
            report.failed.append({"path": label.source_id, "reason": reason})


def _row(version: DatasetVersion, label: LabelRecord, source: TrajectorySource) -> ImportedLabel:
    accepted = acceptable(label.decision, label.integrity or "none")
    result, why = outcome(source.verifier_status, accepted, partial_as=version.partial_counts_as)  # type: ignore[arg-type]
    return ImportedLabel(
        version=version,
        trajectory_id=source.trajectory_id,
        kind=label.kind,
        labeler=storable(label.labeler, 200),
        decision=label.decision,
        integrity=label.integrity,
        acceptable=accepted or "unknown",
        outcome=result,
        outcome_reason=why,
        tags=list(label.tags),
        note=storable(label.note, 2000),
        made_at=storable(label.created_at or "", 40),
    )
