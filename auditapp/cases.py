"""From stored rows and blobs to what the judge reads: the blind case first, the verifier's side only after the lock."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import cast

from django.contrib.auth.models import User

from auditapp import blobs
from auditapp.models.datasets import RubricOrigin, Task, TaskRubric, Trajectory
from auditapp.models.sources import TaskSource, TrajectorySource
from judges.records import (
    Case,
    FileTree,
    Notice,
    ReferencePolicy,
    Requirement,
    Revealed,
    VerifierRecord,
    VerifierStatus,
    content_digest,
)
from judges.trajindex import MemorySteps

WHOLE_TASK = (Requirement("R1", "The work does all that the instruction asks for, in the way it asks for it."),)


def rubric_in_force(task: Task) -> TaskRubric:
    """The rubric with the highest number; a task without one gets the instruction as a whole, as a row of its own."""
    rubric = task.rubrics.order_by("-number").first()
    return rubric or add_rubric(task, WHOLE_TASK, number=1, origin=RubricOrigin.DEFAULT, by=None)


def add_rubric(
    task: Task, requirements: Sequence[Requirement], *, number: int, origin: RubricOrigin, by: User | None
) -> TaskRubric:
    """Store a rubric under a number; the one that is there already under that number stands."""
    rows = [asdict(requirement) for requirement in requirements]
    values = {"requirements": rows, "digest": content_digest(rows), "origin": origin, "created_by": by}
    return TaskRubric.objects.get_or_create(task=task, number=number, defaults=values)[0]


def build_case(trajectory: Trajectory, rubric: TaskRubric) -> Case:
    """Everything the blind phase may see; nothing of verifier, model or agent is read for it."""
    task = trajectory.task
    deliverable = blobs.tree(trajectory.deliverable_tree)
    return Case(
        task_digest=task.content_sha256,
        content_digest=trajectory.content_sha256,
        instruction=blobs.get_text(task.instruction_blob) if task.instruction_blob else None,
        rubric=tuple(Requirement(**row) for row in rubric.requirements),
        steps=blobs.BlobSteps(trajectory.steps_blob) if trajectory.steps_blob else MemorySteps(()),
        steps_recorded=trajectory.steps_blob is not None,
        deliverable=deliverable,
        initial=blobs.tree(task.initial_tree),
        reference=blobs.tree(task.reference_tree),
        reference_policy=cast("ReferencePolicy", task.reference_policy),
        gaps=tuple(_gaps(trajectory, deliverable)),
    )


def load_revealed(trajectory: Trajectory) -> Revealed:
    """The verifier's verdict, output and source: for the second phase only."""
    hidden = TrajectorySource.objects.get(trajectory=trajectory)
    task = TaskSource.objects.filter(task=trajectory.task_id).first()
    verifier = VerifierRecord(
        status=cast("VerifierStatus", hidden.verifier_status),
        reason=hidden.verifier_reason,
        reward=hidden.reward,
        rewards=hidden.rewards,
        streams=blobs.tree(hidden.verifier_tree),
        proof=Notice(hidden.verifier_reason, hidden.proof_locator, hidden.proof) if hidden.proof else None,
    )
    return Revealed(verifier, blobs.tree(task.verifier_tree) if task else None)


def _gaps(trajectory: Trajectory, deliverable: FileTree | None) -> Iterator[Notice]:
    recorded = {
        "steps": trajectory.steps_blob,
        "deliverable": deliverable,
        "instruction": trajectory.task.instruction_blob,
        "initial": trajectory.task.initial_tree,
    }
    yield from (Notice("not_recorded", name) for name, body in recorded.items() if body is None)
