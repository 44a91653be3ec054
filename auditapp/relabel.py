"""A lead's ruling on trials whose verifier never ran, and the outcomes that follow from it."""

from itertools import product
from typing import get_args

from django.contrib.auth.models import User
from django.db import models, transaction

from auditapp.models.datasets import DatasetVersion
from auditapp.models.events import AuditEvent
from auditapp.models.judgments import Judgment
from auditapp.models.labels import ImportedLabel
from auditapp.models.rounds import ReviewLabel
from auditapp.models.sources import TrajectorySource
from judges.outcome import outcome
from judges.records import VERIFIER_STATUSES
from judges.verdict import Acceptable

NOT_RUN = "verifier_did_not_run"
ACCEPTABLE: tuple[Acceptable, ...] = get_args(Acceptable)


def count_not_run_as(version: DatasetVersion, *, recorded: bool, by: User) -> int:
    """Let trials whose verifier never ran count as what was recorded, or as invalid again; returns how many changed."""
    trials = TrajectorySource.objects.filter(version=version, verifier_reason=NOT_RUN)
    with transaction.atomic():
        status = models.F("recorded_status") if recorded else models.Value("invalid")
        changed = trials.exclude(verifier_status=status).update(verifier_status=status)
        _renew_outcomes(version, trials)
        AuditEvent.objects.create(
            dataset=version.dataset,
            actor=by,
            action="not_run_counts_as_recorded" if recorded else "not_run_counts_as_invalid",
            subject=f"version {version}",
            detail={"trajectories": changed},
        )
    return changed


def _renew_outcomes(version: DatasetVersion, trials: models.QuerySet[TrajectorySource]) -> None:
    for status, accepted in product(VERIFIER_STATUSES, ACCEPTABLE):
        chosen = trials.filter(verifier_status=status).values("trajectory")
        result, why = outcome(status, accepted, partial_as=version.partial_counts_as)
        for rows in (Judgment.objects.all(), ImportedLabel.objects.all(), ReviewLabel.objects.all()):
            rows.filter(trajectory__in=chosen, acceptable=accepted).update(outcome=result, outcome_reason=why)
