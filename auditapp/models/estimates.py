"""Stored estimates, and the criteria a verifier is held to, which are fixed before anything is drawn."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from auditapp.models.datasets import DatasetVersion, digest_field
from auditapp.models.judgments import JudgeConfig
from auditapp.models.samples import Sample


class Estimate(models.Model):
    """Every figure of one version, judge and draw as one JSON blob, with the digest of what it was computed from.

    A row whose `inputs_sha256` is not that of the rows of today is stale, and pages say so.
    """

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    version = models.ForeignKey(DatasetVersion, on_delete=models.CASCADE, related_name="estimates")
    sample = models.ForeignKey(Sample, null=True, on_delete=models.CASCADE, related_name="+")
    config = models.ForeignKey(JudgeConfig, null=True, on_delete=models.CASCADE, related_name="+")
    inputs_sha256 = digest_field()
    payload_blob = digest_field()
    computed_at = models.DateTimeField()
    seconds = models.FloatField()

    class Meta:
        indexes = [models.Index(fields=["version", "sample", "config", "-id"], name="estimate_newest")]


class AcceptanceCriteria(models.Model):
    """What a lead calls good enough, written down before a draw; append-only, the newest is in force.

    Limits are upper ends of intervals, as shares; NULL asks for nothing. `coverage` is the share of the population
    that an estimate has to be about.
    """

    version = models.ForeignKey(DatasetVersion, on_delete=models.CASCADE, related_name="criteria")
    primary = models.CharField(max_length=20, default="false_pass")
    false_pass_upper = models.FloatField(null=True)
    false_fail_upper = models.FloatField(null=True)
    kappa_lower = models.FloatField(null=True)
    coverage = models.FloatField(null=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(primary__in=["false_pass", "false_fail"]), name="criteria_primary")
        ]
