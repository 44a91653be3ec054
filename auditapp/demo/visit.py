"""The first visit to the demo: five steps, done where something real says so, or by a page that was opened."""

from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import QuerySet

from auditapp.demo.practice import ITEMS, is_offered, newest
from auditapp.models.datasets import DatasetVersion
from auditapp.models.events import AuditEvent
from auditapp.models.reviews import Exclusion, ExclusionReason, ReviewRound, RoundState, SlotState

DISMISSED = "first_visit_dismissed"
RATES = "first_visit_rates_opened"
REPORT = "first_visit_report_opened"


@dataclass(frozen=True, slots=True)
class Visit:
    """How far a visitor has come: a verdict opened, items graded in practice and shown, rates and report opened."""

    version: DatasetVersion
    has_read: bool
    practice: ReviewRound | None
    graded: int
    items: int
    has_compared: bool
    has_report: bool

    @property
    def has_graded(self) -> bool:
        return self.graded >= self.items

    @property
    def is_revealed(self) -> bool:
        return self.practice is not None and self.practice.state == RoundState.RELEASED


def visit_of(version: DatasetVersion, user: User) -> Visit | None:
    """The visit of this user; None where the dataset is not the demo, or they have put the steps away."""
    if not is_offered(version):
        return None
    noted = set(_noted(version, user, DISMISSED, RATES, REPORT).values_list("action", flat=True))
    if DISMISSED in noted:
        return None
    read = Exclusion.objects.filter(user=user, task__version=version, reason=ExclusionReason.SAW_VERDICT)
    practice = newest(version, user)
    graded = practice.slots.filter(state=SlotState.SUBMITTED).count() if practice else 0
    return Visit(version, read.exists(), practice, graded, ITEMS, RATES in noted, REPORT in noted)


def _noted(version: DatasetVersion, user: User, *actions: str) -> QuerySet[AuditEvent]:
    return AuditEvent.objects.filter(dataset=version.dataset, actor=user, action__in=actions)


def note(version: DatasetVersion, action: str, *, by: User) -> None:
    """Keep, once, that this user opened a page of the visit or put the steps away; nothing but in the demo."""
    if is_offered(version) and not _noted(version, by, action).exists():
        AuditEvent.objects.create(dataset=version.dataset, actor=by, action=action, subject=f"version {version}")
