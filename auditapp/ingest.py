"""Import: from files to stored trajectories. Bodies go to the blob storage first, rows follow in short transactions."""

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import structlog
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from auditapp import blobs
from auditapp.importers import FORMATS, ImportOptions
from auditapp.importers.archives import archive_kind, unpack
from auditapp.importers.detect import detect
from auditapp.ingest_writer import BatchWriter, ImportReport
from auditapp.ledger import Heart, is_dead, is_here, worker_name
from auditapp.models.datasets import Dataset, DatasetVersion
from auditapp.models.events import AuditEvent
from auditapp.models.sources import (
    ImportBatch,
    ImportState,
)
from auditapp.processes import held_folder
from judges.records import (
    ParseFailure,
    TrajectoryRecord,
)

CHUNK = 50
SILENCE = timedelta(minutes=5)
STAGING = timedelta(hours=1)
HANGS_S = 24 * 3600.0
MOST_LOST_WORKERS = 3
LIVE = (ImportState.QUEUED, ImportState.RUNNING)
ENDED = "The command that imported this ended. Import the path again: what is stored already is not stored twice."
LOST = (
    f"{MOST_LOST_WORKERS} workers ended while they had this import, so it is not tried again: something in it may need "
    "more memory than there is. What is stored already stays; import the rest in smaller parts, or find the file that "
    "ends a worker with import_trajectories."
)
ENDED_OUTSIDE = "This import was taken over by another worker, or was ended; its page says which."
CANCELLED = "Cancelled. What was stored before stays; importing the same files again stores none of it twice."
NO_ROOM = "The disk is full. What was stored before stays; make room and import again: nothing is stored twice."
Item = TypeVar("Item")
Named = TypeVar("Named", Dataset, DatasetVersion)
Progress = Callable[[ImportBatch], None]
log = structlog.get_logger(__name__)


class ImportRefusedError(ValueError):
    """The whole import cannot begin; the message says why and what to do."""


class ImportLostError(ImportRefusedError):
    """Another worker has taken the import over, or it was ended from outside: it stops, and what is stored stays."""


# --- preparing


def open_version(
    dataset: str, version: str, *, options: ImportOptions, by: User | None, must_be_new: bool = False
) -> DatasetVersion:
    """The version to import into, made when it is new; refused when its settings differ from those asked for.

    `must_be_new` refuses a dataset that is there already: two people may ask for one name at the same moment.
    """
    chosen = {"pass_threshold": options.pass_threshold, "partial_as": options.partial_as}
    with transaction.atomic():
        owner, created = Dataset.objects.get_or_create(name=_valid(Dataset(name=dataset)).name)
        if must_be_new and not created:
            raise ImportRefusedError(
                f"There is a dataset {dataset} already. Import into it from its own page, if you lead it."
            )
        if created and by is not None:
            owner.membership_set.create(user=by, role="lead")
        fresh = _valid(DatasetVersion(dataset=owner, name=version, **chosen), exclude=["dataset"])
        target, _ = DatasetVersion.objects.get_or_create(dataset=owner, name=fresh.name, defaults=chosen)
    stored = {key: getattr(target, key) for key in chosen}
    if stored != chosen:
        raise ImportRefusedError(
            f"Dataset {dataset} {version} was begun with {stored}, and this import asks for {chosen}. "
            "Repeat those settings, or name a new version with --dataset-version."
        )
    return target


def discard_unused(version: DatasetVersion) -> bool:
    """Remove a version that nothing was stored in, and its dataset where that was all; False where it is used."""
    with transaction.atomic():
        owner = Dataset.objects.select_for_update().get(pk=version.dataset_id)
        wanted = ImportBatch.objects.filter(version=version, state__in=LIVE)
        if version.trajectories.exists() or wanted.exists():
            return False
        version.tasks.all().delete()  # of records that were refused; they protect their environments
        version.delete()
        if not owner.versions.exists():
            owner.delete()
    return True


def _valid(row: Named, *, exclude: Sequence[str] = ()) -> Named:
    try:
        row.clean_fields(exclude=[*exclude, "id"])
    except ValidationError as error:
        raise ImportRefusedError(f"{row.name!r} is not a usable name: {' '.join(error.messages)}") from None
    return row


def create_batch(version: DatasetVersion, *, label: str, options: dict[str, object], by: User | None) -> ImportBatch:
    """Record that an import is wanted; `run_import` carries it out."""
    return ImportBatch.objects.create(version=version, label=label[:300], options=options, created_by=by)


# --- running


def run_import(batch_id: int) -> None:
    """Carry out a queued import, or one whose worker is gone; a second delivery changes nothing."""
    if not _claimed(batch_id, now=timezone.now()):
        return
    batch = ImportBatch.objects.select_related("version__dataset").get(id=batch_id)
    wanted = batch.options
    staged = wanted.get("staged")
    options = ImportOptions(
        pass_threshold=batch.version.pass_threshold,
        partial_as=batch.version.partial_counts_as,
        verifier=wanted.get("verifier") or None,
        environment=wanted.get("environment") or None,
        tasks=Path(wanted["tasks"]) if wanted.get("tasks") else None,
        mapping=Path(wanted["mapping"]) if wanted.get("mapping") else None,
    )
    try:
        run_batch(batch, Path(wanted["path"]), options=options, format_name=wanted.get("format") or "auto")
    except ImportLostError as error:
        if ImportBatch.objects.filter(id=batch_id, state__in=LIVE).exists():
            staged = None  # whoever has it now reads the upload
        log.info("import lost", batch=str(batch.public_id), reason=str(error))
    except ImportRefusedError as error:
        log.info("import refused", batch=str(batch.public_id), reason=str(error))
    finally:  # a worker that was killed does not get here, and its upload waits for the next one
        if staged:
            shutil.rmtree(staged, ignore_errors=True)


def _claimed(batch_id: int, *, now: datetime) -> bool:
    """Take an import that nobody works at; one that has lost worker after worker fails instead."""
    batch = ImportBatch.objects.get(id=batch_id)
    if batch.state not in LIVE and _has_no_worker(batch, now=now):  # it was killed after the end
        _clear_staged(batch)
    if not _is_forgotten(batch, now=now):
        return False
    lost = batch.lost_workers + (batch.state == ImportState.RUNNING)
    same = ImportBatch.objects.filter(id=batch_id, state=batch.state, heartbeat_at=batch.heartbeat_at)
    if lost < MOST_LOST_WORKERS:
        mine = {"state": ImportState.RUNNING, "heartbeat_at": now, "worker": worker_name()}
        return bool(same.update(lost_workers=lost, **mine))
    if same.update(state=ImportState.FAILED, reason=LOST, lost_workers=lost, finished_at=now):
        _clear_staged(batch)
    return False


def _clear_staged(batch: ImportBatch) -> None:
    if batch.options.get("staged"):
        shutil.rmtree(batch.options["staged"], ignore_errors=True)


def cancel_import(batch: ImportBatch, *, by: User | None, now: datetime) -> bool:
    """End an import that waits or runs; what it has stored stays. False where it had ended already.

    Whoever carries it out notices when it next stores something, and clears its upload away then.
    """
    with transaction.atomic():
        live = ImportBatch.objects.filter(id=batch.id, state__in=LIVE)
        batch = live.select_for_update().select_related("version__dataset").first() or batch
        if not live.update(state=ImportState.CANCELLED, reason=CANCELLED, finished_at=now):
            return False
        AuditEvent.objects.create(
            dataset=batch.version.dataset, actor=by, action="import_cancelled", subject=f"import {batch.public_id}"
        )
    if _is_forgotten(batch, now=now):
        _clear_staged(batch)
    return True


def _is_forgotten(batch: ImportBatch, *, now: datetime) -> bool:
    """Whether nobody works at an import: it waits, or its process is known to be gone, or it is silent elsewhere."""
    if batch.state != ImportState.RUNNING:
        return batch.state == ImportState.QUEUED
    return _has_no_worker(batch, now=now)


def _has_no_worker(batch: ImportBatch, *, now: datetime) -> bool:
    if is_dead(batch.worker):
        return True
    return not is_here(batch.worker) and (batch.heartbeat_at is None or batch.heartbeat_at < now - SILENCE)


def forgotten_imports(*, now: datetime) -> list[int]:
    """Imports to ring for where the queue holds no message of them; those of a command that ended are failed."""
    live = ImportBatch.objects.filter(state__in=LIVE).order_by("id")
    forgotten = [batch for batch in live if _is_forgotten(batch, now=now)]
    by_command = [batch.id for batch in forgotten if batch.options.get("by_command")]
    unchanged = ImportBatch.objects.filter(id__in=by_command, heartbeat_at__lt=now - SILENCE)
    unchanged.update(state=ImportState.FAILED, reason=ENDED, finished_at=now)
    return [batch.id for batch in forgotten if batch.id not in by_command]


def forget_uploads(*, now: datetime) -> None:
    """Remove uploads that no import waits for: the server was killed before it could record one, or after its end."""
    live = ImportBatch.objects.filter(state__in=LIVE)
    wanted = {PurePosixPath(batch.options.get("staged") or "").name for batch in live}  # homes may be mounted elsewhere
    for folder in _staging().glob("*"):
        with suppress(FileNotFoundError):  # its import ended just now
            age = now.timestamp() - folder.stat().st_mtime
            if age > STAGING.total_seconds() and folder.name not in wanted:
                shutil.rmtree(folder, ignore_errors=True)


def ingest_path(
    version: DatasetVersion,
    path: Path,
    *,
    options: ImportOptions,
    format_name: str = "auto",
    by: User | None = None,
    progress: Progress | None = None,
) -> tuple[ImportBatch, ImportReport]:
    """Import one file, folder or archive into a version and say what became of each part of it."""
    wanted: dict[str, object] = {"path": str(path), "format": format_name, "by_command": True}
    batch = create_batch(version, label=path.name, options=wanted, by=by)
    return batch, run_batch(batch, path, options=options, format_name=format_name, progress=progress)


def run_batch(
    batch: ImportBatch,
    path: Path,
    *,
    options: ImportOptions,
    format_name: str = "auto",
    progress: Progress | None = None,
) -> ImportReport:
    """Read `path`, store what can be stored, and leave the batch done, or failed with a reason."""
    batch.worker = worker_name()
    running = {"state": ImportState.RUNNING, "heartbeat_at": timezone.now(), "worker": batch.worker}
    if not ImportBatch.objects.filter(id=batch.id, state__in=LIVE).update(**running):
        raise ImportLostError(ENDED_OUTSIDE)
    batch.failures.all().delete()
    report = ImportReport(batch.version.dataset.name)
    writer = BatchWriter(batch, report)
    try:
        with heart.beats_for(batch.id, at_most_s=HANGS_S), _opened(path) as (folder, refused):
            for failure in refused:
                writer.refuse(failure)
            batch.format, batch.format_reason = _format(folder, options, format_name)
            for chunk in _chunks(_contained(FORMATS[batch.format](folder, options), path)):
                writer.write(chunk)
                _save(writer, ImportState.RUNNING)
                if progress:
                    progress(batch)
    except BaseException as error:
        batch.reason = _why_ended(error)
        writer.save_counts(ImportState.FAILED)
        if blobs.has_no_room(error):
            raise ImportRefusedError(NO_ROOM) from error
        raise
    _save(writer, ImportState.DONE)
    log.info("import done", batch=str(batch.public_id), imported=report.imported, failed=len(report.failed))
    return report


def _why_ended(error: BaseException) -> str:
    if isinstance(error, ImportRefusedError):
        return str(error)[:500]
    if blobs.has_no_room(error):
        return NO_ROOM
    return "The import stopped on an unexpected error; the log of the worker names it."


def _save(writer: BatchWriter, state: ImportState) -> None:
    if not writer.save_counts(state):
        raise ImportLostError(ENDED_OUTSIDE)


def _held(batch_ids: Sequence[int]) -> QuerySet[ImportBatch]:
    return ImportBatch.objects.filter(id__in=batch_ids, worker=worker_name(), state=ImportState.RUNNING)


heart = Heart(_held)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Path, Sequence[ParseFailure]]]:
    """The folder or file to parse: archives are unpacked into a temporary folder that goes when the import ends."""
    if not path.exists():
        raise ImportRefusedError(f"{path} does not exist.")
    if path.is_dir() or archive_kind(path) is None:
        yield path, ()
        return
    with held_folder(settings.ASSAY_HOME / "unpacked") as room:
        unpacked = unpack(path, room / "archive")
        if unpacked.failure:
            raise ImportRefusedError(f"{unpacked.failure.path}: {unpacked.failure.reason}")
        yield _root_of(unpacked.folder), unpacked.refused


def _root_of(folder: Path) -> Path:
    """The folder that was packed: an archive of a folder must give the same names as the folder itself."""
    inside = list(folder.iterdir())
    return inside[0] if len(inside) == 1 and inside[0].is_dir() else folder


def _format(folder: Path, options: ImportOptions, wanted: str) -> tuple[str, str]:
    if wanted != "auto":
        if wanted not in FORMATS:
            raise ImportRefusedError(f"Unknown format {wanted!r}; known are auto, {', '.join(FORMATS)}.")
        return wanted, "named by whoever imported it"
    found = detect(folder, options)
    if found.format is None:
        raise ImportRefusedError(found.reason)
    return found.format, found.reason[:500]


def _contained(
    records: Iterator[TrajectoryRecord | ParseFailure], path: Path
) -> Iterator[TrajectoryRecord | ParseFailure]:
    """Importers do not raise for a bad file; should one do so all the same, what was read before it stays."""
    try:
        yield from records
    except Exception as error:
        log.exception("importer failed", path=str(path))
        yield ParseFailure(path.name, f"the reader stopped here: {type(error).__name__}: {error}")


def _chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    source = iter(items)
    while chunk := list(islice(source, CHUNK)):
        yield chunk


# --- from the web


def stage_upload(upload: "UploadedFile[Any]", folder: Path) -> Path:
    """Keep an uploaded file in a folder of its own until it is imported; the name is only ever a label."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = PurePosixPath((upload.name or "upload").replace("\\", "/")).name.lstrip(".") or "upload"
    target = folder / name.encode("utf-8", "replace")[-150:].decode("utf-8", "ignore")  # a file name is bytes
    with target.open("wb") as out:
        for chunk in upload.chunks():
            out.write(chunk)
    return target


def staging_folder() -> Path:
    """A new folder below ASSAY_HOME for the files of one import."""
    return _staging() / uuid.uuid4().hex


def _staging() -> Path:
    return Path(settings.ASSAY_HOME, "staged")
