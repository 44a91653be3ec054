"""Builds small datasets row by row, for tests that begin after the import."""

from collections.abc import Sequence
from typing import Any

from auditapp import blobs
from auditapp.models.datasets import Dataset, DatasetVersion, Environment, PartialAs, Task, Trajectory
from auditapp.models.sources import ImportBatch, TrajectorySource
from judges.records import StepRecord, content_digest


def make_version(name: str = "release", *, partial_as: str = PartialAs.EXCLUDE) -> DatasetVersion:
    """An empty version of a new dataset."""
    return DatasetVersion.objects.create(dataset=Dataset.objects.create(name=name), partial_as=partial_as)


def make_task(version: DatasetVersion, name: str = "task", *, environment: str = "env", **fields: Any) -> Task:
    """A task with an instruction."""
    owner, _ = Environment.objects.get_or_create(dataset=version.dataset, name=environment)
    fields.setdefault("instruction_blob", blobs.put_text(f"Do {name}."))
    task, _ = Task.objects.get_or_create(
        version=version, environment=owner, name=name, defaults={"content_sha256": content_digest(name), **fields}
    )
    return task


def add_trajectory(
    task: Task,
    source_id: str,
    status: str = "pass",
    *,
    steps: Sequence[StepRecord] | None = None,
    deliverable: str | None = None,
    **source: Any,
) -> Trajectory:
    """A trajectory and its hidden half; without `steps` they were not recorded."""
    batch, _ = ImportBatch.objects.get_or_create(version=task.version, label="made by a test")
    stored = None if steps is None else blobs.put_steps(steps)
    trajectory = Trajectory.objects.create(
        version=task.version,
        task=task,
        content_sha256=content_digest(source_id),
        steps_blob=stored.digest if stored else None,
        n_steps=stored.count if stored else None,
        deliverable_tree=deliverable,
    )
    hidden = {"model": "m", "agent": "a", "recorded_status": status, **source}
    place = {"trajectory": trajectory, "task": task, "version": task.version, "batch": batch}
    TrajectorySource.objects.create(**place, source_id=source_id, verifier_status=status, **hidden)
    return trajectory


def fill(version: DatasetVersion, counts: dict[tuple[str, str, str], int]) -> None:
    """Add so many trajectories to each cell (verifier status, model, environment)."""
    for (status, model, environment), count in counts.items():
        task = make_task(version, f"task of {environment}", environment=environment)
        for number in range(count):
            add_trajectory(task, f"{environment}/{model}/{status}/{number:04}", status, model=model)
