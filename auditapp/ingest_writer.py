"""Storing what an importer read: bodies first, then rows in short transactions, each trajectory whole or not at all."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field

from django.db import DataError, IntegrityError, transaction
from django.utils import timezone

from auditapp import blobs
from auditapp.ingest_rows import conflict, countable, notice_rows, put_tree, source_row, storable, trajectory_row
from auditapp.models.datasets import Environment, RubricOrigin, Task, TaskRubric, Trajectory
from auditapp.models.events import AuditEvent
from auditapp.models.sources import ImportBatch, ImportFailure, ImportNotice, ImportState, TaskSource, TrajectorySource
from judges.records import (
    VERIFIER_STATUSES,
    Notice,
    ParseFailure,
    Requirement,
    TaskRecord,
    TrajectoryRecord,
    content_digest,
)

FAILURES_KEPT = 1000
_UNFIT = (IntegrityError, DataError, ArithmeticError)
"""What a database raises for a row that it cannot hold; numbers overflow before it is asked."""
_SAVED = (
    *("state", "reason", "format", "format_reason", "heartbeat_at", "finished_at"),
    *("found", "imported", "duplicates", "failed", "warning_counts"),
)


@dataclass(slots=True)
class ImportReport:
    """What one import did, as the command prints it; `verifier` counts every trajectory found, duplicates included."""

    dataset: str
    found: int = 0
    imported: int = 0
    duplicates: int = 0
    failed: list[dict[str, str]] = field(default_factory=list)
    warnings: Counter[str] = field(default_factory=Counter)
    verifier: dict[str, int] = field(default_factory=lambda: dict.fromkeys(VERIFIER_STATUSES, 0))

    def add(self, other: "ImportReport") -> None:
        """Add the counts of another import of the same command."""
        self.found += other.found
        self.imported += other.imported
        self.duplicates += other.duplicates
        self.failed += other.failed
        self.warnings += other.warnings
        self.verifier = {status: count + other.verifier[status] for status, count in self.verifier.items()}

    def to_json(self) -> dict[str, object]:
        """The object that `import_trajectories --json` prints."""
        return asdict(self) | {"warnings": dict(sorted(self.warnings.items()))}


@dataclass(slots=True)
class _Prepared:
    """A record whose bodies are stored, and the rows it will become."""

    record: TrajectoryRecord
    trajectory: Trajectory
    source: TrajectorySource
    warnings: tuple[Notice, ...]

    def notices(self, batch: ImportBatch) -> Iterator[ImportNotice]:
        return notice_rows(self.trajectory, batch, self.warnings, self.record.flags)


@dataclass(slots=True)
class _Sorted:
    """What is new, what this very import had stored before it was interrupted, and what others had."""

    fresh: list[_Prepared] = field(default_factory=list)
    again: list[_Prepared] = field(default_factory=list)
    duplicates: list[_Prepared] = field(default_factory=list)
    conflicts: list[ParseFailure] = field(default_factory=list)


class BatchWriter:
    """Stores chunks of records of one batch; tasks and environments are looked up once."""

    def __init__(self, batch: ImportBatch, report: ImportReport) -> None:
        self.batch, self.version, self.report = batch, batch.version, report
        self.tasks: dict[tuple[str, str, str], Task] = {}
        self.environments: dict[str, Environment] = {}

    def refuse(self, failure: ParseFailure) -> None:
        self.report.failed.append(asdict(failure))
        if len(self.report.failed) <= FAILURES_KEPT:
            path, reason = storable(failure.path, 1000), storable(failure.reason, 1000)
            ImportFailure.objects.create(batch=self.batch, path=path, reason=reason)

    def write(self, chunk: Sequence[TrajectoryRecord | ParseFailure]) -> None:
        self.report.found += len(chunk)
        prepared: list[_Prepared] = []
        for item in chunk:
            if isinstance(item, ParseFailure):
                self.refuse(item)
            elif (ready := self._prepare(item)) is not None:
                prepared.append(ready)
        try:
            self._insert(prepared)
        except _UNFIT:  # somebody else imports into the same version, or one of them does not fit: one by one then
            for ready in prepared:
                self._insert_alone(ready)

    def _insert_alone(self, ready: _Prepared) -> None:
        ready.trajectory.pk = None
        try:
            self._insert([ready])
        except _UNFIT as error:
            self._refuse_unstorable(ready.record, error)

    def _prepare(self, record: TrajectoryRecord) -> _Prepared | None:
        """Store the bodies of one record; what cannot be stored is refused by name and the others go on."""
        try:
            record = countable(record)
            streams = put_tree(record.verifier.streams)
            source = source_row(record, self.batch, streams)
            trajectory = trajectory_row(record, self.version, streams)
            trajectory.task, differs = self._task(record.task)
            return _Prepared(record, trajectory, source, (*record.warnings, *differs))
        except (TypeError, ValueError, OverflowError, OSError, KeyError) as error:
            if blobs.has_no_room(error):  # no fault of this record, and no other would fare better
                raise
            self._refuse_unstorable(record, error)
            return None

    def _refuse_unstorable(self, record: TrajectoryRecord, error: Exception) -> None:
        self.refuse(ParseFailure(record.source_id, f"could not be stored: {type(error).__name__}: {error}"))

    def _insert(self, prepared: Sequence[_Prepared]) -> None:
        with transaction.atomic():
            found = self._sort(prepared)
            Trajectory.objects.bulk_create([item.trajectory for item in found.fresh])
            for item in found.fresh:
                item.source.trajectory, item.source.task = item.trajectory, item.trajectory.task
            TrajectorySource.objects.bulk_create([item.source for item in found.fresh])
            notices = [notice for item in found.fresh for notice in item.notices(self.batch)]
            ImportNotice.objects.bulk_create(notices, batch_size=500)
        self._count(found)

    def _sort(self, prepared: Sequence[_Prepared]) -> _Sorted:
        rows = TrajectorySource.objects.filter(
            version=self.version, source_id__in=[item.source.source_id for item in prepared]
        ).values_list("source_id", "trajectory__content_sha256", "batch_id")
        known = {source_id: (digest, batch_id) for source_id, digest, batch_id in rows}
        found = _Sorted()
        for item in prepared:
            source_id, digest = item.source.source_id, item.trajectory.content_sha256
            stored, batch_id = known.get(source_id, (None, 0))
            if stored is None:
                known[source_id] = (digest, 0)
                found.fresh.append(item)
            elif stored != digest:
                found.conflicts.append(conflict(source_id, stored, digest, self.version))
            else:
                (found.again if batch_id == self.batch.id else found.duplicates).append(item)
        return found

    def _count(self, found: _Sorted) -> None:
        self.report.imported += len(found.fresh) + len(found.again)
        self.report.duplicates += len(found.duplicates)
        for item in (*found.fresh, *found.again, *found.duplicates):
            self.report.verifier[item.source.verifier_status] += 1
            self.report.warnings.update(notice.code for notice in item.warnings)
        for failure in found.conflicts:
            self.refuse(failure)

    def save_counts(self, state: ImportState) -> bool:
        """Store where the import stands; False where another worker has it or it was ended from outside."""
        batch, report, now = self.batch, self.report, timezone.now()
        batch.state, batch.heartbeat_at = state, now
        batch.found, batch.imported, batch.duplicates = report.found, report.imported, report.duplicates
        batch.failed, batch.warning_counts = len(report.failed), dict(report.warnings)
        if state != ImportState.RUNNING:
            batch.finished_at = now
        held = ImportBatch.objects.filter(id=batch.id, worker=batch.worker, state=ImportState.RUNNING)
        return bool(held.update(**{name: getattr(batch, name) for name in _SAVED}))

    def _task(self, record: TaskRecord) -> tuple[Task, tuple[Notice, ...]]:
        """The row of a task, and a warning where this record's instruction is not the one stored with it."""
        key = (record.environment, record.task_id, record.digest or "")
        if key not in self.tasks or _brings_more(record, self.tasks[key]):
            self.tasks[key] = self._stored_task(record)
        task = self.tasks[key]
        same = record.instruction is None or blobs.text_digest(record.instruction) == task.instruction_blob
        return task, () if same else (Notice("task_instruction_differs", "instruction", f"kept that of {task.name}"),)

    def _stored_task(self, record: TaskRecord) -> Task:
        bodies = _task_bodies(record)
        verifier_tree = bodies.pop("verifier_tree")
        environment = self._environment(record.environment)
        with transaction.atomic():  # a task with half of its rows would never be completed
            task, created = Task.objects.get_or_create(
                version=self.version,
                environment=environment,
                name=storable(record.task_id, 300),
                identity=storable(record.digest or "", 100),
                defaults={**bodies, "verifier_sha256": verifier_tree, "content_sha256": content_digest(bodies)},
            )
            if created:
                TaskSource.objects.create(task=task, verifier_tree=verifier_tree)
                _store_rubric(task, record.rubric)
            else:
                _complete_task(task, bodies, verifier_tree, record.rubric)
        return task

    def _environment(self, name: str) -> Environment:
        if name not in self.environments:
            self.environments[name], _ = Environment.objects.get_or_create(
                dataset=self.version.dataset, name=storable(name, 200) or "adhoc"
            )
        return self.environments[name]


def _brings_more(record: TaskRecord, task: Task) -> bool:
    return (record.reference is not None and task.reference_tree is None) or (
        record.initial is not None and task.initial_tree is None
    )


def _task_bodies(record: TaskRecord) -> dict[str, str | None]:
    return {
        "instruction_blob": None if record.instruction is None else blobs.put_text(record.instruction),
        "initial_tree": put_tree(record.initial),
        "reference_tree": put_tree(record.reference),
        "verifier_tree": put_tree(record.verifier_source),
    }


def _complete_task(
    task: Task, bodies: dict[str, str | None], verifier_tree: str | None, rubric: Sequence[Requirement]
) -> None:
    """A later import may bring a body that an earlier one had not; what is already there is never replaced."""
    missing = {name: digest for name, digest in bodies.items() if digest and getattr(task, name) is None}
    if verifier_tree and task.verifier_sha256 is None:
        TaskSource.objects.update_or_create(task=task, defaults={"verifier_tree": verifier_tree})
        missing["verifier_sha256"] = verifier_tree
    if rubric and not task.rubrics.exclude(origin=RubricOrigin.DEFAULT).exists():
        _store_rubric(task, rubric)
    if not missing:
        return
    for name, digest in missing.items():
        setattr(task, name, digest)
    task.content_sha256 = content_digest({name: getattr(task, name) for name in bodies})
    task.save(update_fields=[*missing, "content_sha256"])
    AuditEvent.objects.create(
        dataset=task.version.dataset, action="task_completed", subject=f"task {task.public_id}", detail=missing
    )


def _store_rubric(task: Task, requirements: Sequence[Requirement]) -> None:
    if requirements:
        rows = [asdict(requirement) for requirement in requirements]
        number = task.rubrics.count() + 1  # after one that a judge made up for want of it
        TaskRubric.objects.create(
            task=task, number=number, requirements=rows, digest=content_digest(rows), origin=RubricOrigin.SHIPPED
        )
