"""What a blind reader never sees: verifier, reference, model, agent and source of a trajectory.

Review code may not import this module. A viewer sees verifier and recording; only a lead sees the reference, the
verifier's source and the original files, which can quote it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from auditapp import blobs
from auditapp.models.datasets import Trajectory
from auditapp.models.sources import ImportNotice, TaskSource, TrajectorySource

MAX_NOTICES = 500


@dataclass(frozen=True, slots=True)
class Provenance:
    """Who made a trajectory and what the verifier said of it."""

    source: TrajectorySource

    @property
    def has_other_record(self) -> bool:
        """What the release recorded and what counts are not the same."""
        return self.source.recorded_status != self.source.verifier_status


def provenance(trajectory: Trajectory) -> Provenance:
    """The hidden half of a trajectory; every trajectory has one."""
    return Provenance(TrajectorySource.objects.select_related("batch").get(pk=trajectory.pk))


def verifier_streams(source: TrajectorySource) -> blobs.BlobTree | None:
    """What the verifier wrote; None where that was not recorded."""
    return blobs.tree(source.verifier_tree)


def verifier_code(trajectory: Trajectory) -> blobs.BlobTree | None:
    """The verifier's source files, for leads; None where they were not recorded."""
    found = TaskSource.objects.filter(task_id=trajectory.task_id).first()
    return blobs.tree(found.verifier_tree) if found else None


def originals(source: TrajectorySource) -> blobs.BlobTree | None:
    """The files as they came, for leads."""
    return blobs.tree(source.original_tree)


def notices(trajectory: Trajectory) -> Sequence[ImportNotice]:
    """Repairs and findings of the import that concern this trajectory."""
    return list(ImportNotice.objects.filter(trajectory_id=trajectory.pk).order_by("kind", "code", "id")[:MAX_NOTICES])
