"""The first visit to the demo: five steps, done where something real says so; a dismissal is all that is kept."""

from dataclasses import dataclass

from django.contrib.auth.models import User

from auditapp.demo.practice import ITEMS, is_offered, newest
from auditapp.models.datasets import DatasetVersion
from auditapp.models.events import AuditEvent
from auditapp.models.reviews import Exclusion, ExclusionReason, ReviewRound, RoundState, SlotState

DISMISSED = "first_visit_dismissed"


@dataclass(frozen=True, slots=True)
class Visit:
    """How far a visitor has come: a verdict opened, items graded in practice, and shown."""

    version: DatasetVersion
    has_read: bool
    practice: ReviewRound | None
    graded: int
    items: int

    @property
    def has_graded(self) -> bool:
        return self.graded >= self.items

    @property
    def is_revealed(self) -> bool:
        return self.practice is not None and self.practice.state == RoundState.RELEASED


def visit_of(version: DatasetVersion, user: User) -> Visit | None:
    """The visit of this user; None where the dataset is not the demo, or they have put the steps away."""
    if not is_offered(version) or _is_dismissed(version, user):
        return None
    read = Exclusion.objects.filter(user=user, task__version=version, reason=ExclusionReason.SAW_VERDICT)
    practice = newest(version, user)
    graded = practice.slots.filter(state=SlotState.SUBMITTED).count() if practice else 0
    return Visit(version, read.exists(), practice, graded, ITEMS)


def _is_dismissed(version: DatasetVersion, user: User) -> bool:
    return AuditEvent.objects.filter(dataset=version.dataset, actor=user, action=DISMISSED).exists()


def dismiss(version: DatasetVersion, *, by: User) -> None:
    """Put the steps away for this user, for good."""
    if not _is_dismissed(version, by):
        AuditEvent.objects.create(dataset=version.dataset, actor=by, action=DISMISSED, subject=f"version {version}")
