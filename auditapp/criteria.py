"""Acceptance criteria: what a lead calls good enough, written down before anything is drawn; append-only."""

from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction

from auditapp.models.datasets import DatasetVersion
from auditapp.models.estimates import AcceptanceCriteria
from auditapp.models.events import AuditEvent
from auditapp.models.samples import Sample

SHARES = ("false_pass_upper", "false_fail_upper", "coverage")


class CriteriaError(ValueError):
    """Criteria that cannot be; the message says which and why."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What is asked, as shares between 0 and 1 (kappa from -1 to 1); None asks for nothing."""

    primary: str = "false_pass"
    false_pass_upper: float | None = None
    false_fail_upper: float | None = None
    kappa_lower: float | None = None
    coverage: float | None = None


def criteria_in_force(version: DatasetVersion) -> AcceptanceCriteria | None:
    """The newest criteria of a version."""
    return AcceptanceCriteria.objects.filter(version=version).select_related("created_by").order_by("-pk").first()


def first_draw(version: DatasetVersion) -> datetime | None:
    """When the first sample of a version was drawn."""
    found = Sample.objects.filter(frame__version=version).order_by("created_at").first()
    return found.created_at if found else None


def set_criteria(version: DatasetVersion, limits: Limits, *, by: User | None) -> AcceptanceCriteria:
    """Put criteria in force; those in force already are returned as they are. Raises CriteriaError."""
    _check(limits)
    asked = {field: getattr(limits, field) for field in ("primary", "kappa_lower", *SHARES)}
    with transaction.atomic():
        DatasetVersion.objects.select_for_update().get(pk=version.pk)
        now = criteria_in_force(version)
        if now and all(getattr(now, field) == value for field, value in asked.items()):
            return now
        made = AcceptanceCriteria.objects.create(version=version, created_by=by, **asked)
        AuditEvent.objects.create(
            dataset=version.dataset, actor=by, action="criteria_set", subject=f"version {version}", detail=asked
        )
    return made


def _check(limits: Limits) -> None:
    if limits.primary not in ("false_pass", "false_fail"):
        raise CriteriaError("The primary rate is either that of wrong passes or that of wrong fails.")
    for field in SHARES:
        value = getattr(limits, field)
        if value is not None and not 0 < value <= 1:
            raise CriteriaError(f"{field} is a share above 0 and up to 1, not {value:g}.")
    if limits.kappa_lower is not None and not -1 <= limits.kappa_lower < 1:
        raise CriteriaError(f"kappa lies from -1 to 1, and an interval never lies above {limits.kappa_lower:g}.")
    if all(getattr(limits, field) is None for field in ("kappa_lower", *SHARES)):
        raise CriteriaError("Ask for something: give at least one limit.")
