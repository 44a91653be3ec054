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
RULINGS = RULED_RECORDED, RULED_INVALID = "not_run_counts_as_recorded", "not_run_counts_as_invalid"
ACCEPTABLE: tuple[Acceptable, ...] = get_args(Acceptable)


def count_not_run_as(version: DatasetVersion, *, recorded: bool, by: User) -> int:
    """Let trials whose verifier never ran count as what was recorded, or as invalid again; returns how many changed.

    A second press, which rules what is ruled and changes nothing, is not logged.
    """
    trials = TrajectorySource.objects.filter(version=version, verifier_reason=NOT_RUN)
    action = RULED_RECORDED if recorded else RULED_INVALID
    with transaction.atomic():
        # One ruling at a time; rows that name the version, as labels on their way do, need not wait for it.
        DatasetVersion.objects.select_for_update(no_key=True).get(pk=version.pk)
        list(trials.select_for_update().order_by("pk").values_list("pk"))  # in the order of whoever stores an outcome
        status = models.F("recorded_status") if recorded else models.Value("invalid")
        changed = trials.exclude(verifier_status=status).update(verifier_status=status)
        if not changed and _newest_ruling(version) == action:
            return 0
        _renew_outcomes(version, trials)
        AuditEvent.objects.create(
            dataset=version.dataset,
            actor=by,
            action=action,
            subject=f"version {version}",
            detail={"trajectories": changed},
        )
    return changed


def _newest_ruling(version: DatasetVersion) -> str | None:
    rulings = AuditEvent.objects.filter(dataset=version.dataset, subject=f"version {version}", action__in=RULINGS)
    return rulings.order_by("-pk").values_list("action", flat=True).first()


def _renew_outcomes(version: DatasetVersion, trials: models.QuerySet[TrajectorySource]) -> None:
    for status, accepted in product(VERIFIER_STATUSES, ACCEPTABLE):
        chosen = trials.filter(verifier_status=status).values("trajectory")
        result, why = outcome(status, accepted, partial_as=version.partial_counts_as)
        for rows in (Judgment.objects.all(), ImportedLabel.objects.all(), ReviewLabel.objects.all()):
            rows.filter(trajectory__in=chosen, acceptable=accepted).update(outcome=result, outcome_reason=why)
