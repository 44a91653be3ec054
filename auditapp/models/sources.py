"""What identifies verifier, reward, model, agent, attempt and source of a trajectory. Review code may not import it."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from auditapp.models.datasets import DatasetVersion, Task, Trajectory, digest_field


class VerifierStatusChoice(models.TextChoices):
    """What the verifier said; `invalid` is a verdict that cannot count, `none` is no verdict."""

    PASS = "pass", "pass"
    FAIL = "fail", "fail"
    PARTIAL = "partial", "partial"
    NONE = "none", "none"
    INVALID = "invalid", "invalid"


class ImportState(models.TextChoices):
    """States of an import."""

    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    DONE = "done", "done"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"


class ImportBatch(models.Model):
    """One import of one path or upload, with what it found, repaired and refused.

    `lost_workers` counts those that ended while they had it: what kills worker after worker is not tried for ever.
    """

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    version = models.ForeignKey(DatasetVersion, on_delete=models.CASCADE, related_name="imports")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    label = models.CharField(max_length=300)
    options = models.JSONField(default=dict)
    format = models.CharField(max_length=20, blank=True, default="")
    format_reason = models.CharField(max_length=500, blank=True, default="")
    state = models.CharField(max_length=10, choices=ImportState.choices, default=ImportState.QUEUED)
    reason = models.CharField(max_length=500, blank=True, default="")
    found = models.PositiveIntegerField(default=0)
    imported = models.PositiveIntegerField(default=0)
    duplicates = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)
    warning_counts = models.JSONField(default=dict)
    worker = models.CharField(max_length=200, blank=True, default="")
    lost_workers = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)
    heartbeat_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(state__in=ImportState.values), name="import_state")]
        indexes = [models.Index(fields=["version", "-id"], name="import_version_recent")]


class ImportFailure(models.Model):
    """One file that did not become a trajectory, and why."""

    batch = models.ForeignKey(ImportBatch, on_delete=models.CASCADE, related_name="failures")
    path = models.CharField(max_length=1000)
    reason = models.CharField(max_length=1000)


class TrajectorySource(models.Model):
    """The hidden half of a trajectory. `reward` is NULL where none was recorded, which is not 0.

    `task` is the trajectory's own, which never changes: here it lets verdicts be counted by task without a join.
    """

    trajectory = models.OneToOneField(Trajectory, primary_key=True, on_delete=models.CASCADE, related_name="source")
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="+", db_index=False)
    version = models.ForeignKey(DatasetVersion, on_delete=models.CASCADE, related_name="+")
    batch = models.ForeignKey(ImportBatch, on_delete=models.PROTECT, related_name="sources")
    source_id = models.CharField(max_length=300)
    agent = models.CharField(max_length=200, blank=True, default="")
    agent_version = models.CharField(max_length=100, blank=True, default="")
    model = models.CharField(max_length=200, blank=True, default="")
    effort = models.CharField(max_length=50, blank=True, default="")
    attempt = models.PositiveIntegerField(null=True)
    training_step = models.PositiveBigIntegerField(null=True)
    is_control = models.BooleanField(default=False)
    verifier_status = models.CharField(max_length=10, choices=VerifierStatusChoice.choices)
    verifier_reason = models.CharField(max_length=200, blank=True, default="")
    recorded_status = models.CharField(max_length=10, choices=VerifierStatusChoice.choices)
    proof_locator = models.CharField(max_length=300, blank=True, default="")
    proof = models.CharField(max_length=1000, blank=True, default="")
    reward = models.FloatField(null=True)
    rewards = models.JSONField(default=dict)
    verifier_tree = digest_field(null=True)
    original_tree = digest_field(null=True)
    exception = models.CharField(max_length=200, blank=True, default="")
    input_tokens = models.PositiveBigIntegerField(null=True)
    cached_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6, null=True)
    started_at = models.CharField(max_length=40, blank=True, default="")
    finished_at = models.CharField(max_length=40, blank=True, default="")
    flags = models.JSONField(default=list)
    extra = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["version", "source_id"], name="source_id_once_per_version"),
            models.CheckConstraint(
                condition=Q(verifier_status__in=VerifierStatusChoice.values), name="source_verifier_status"
            ),
        ]
        indexes = [
            models.Index(
                fields=["version", "verifier_status", "verifier_reason", "is_control"], name="source_by_verdict"
            ),
            models.Index(fields=["version", "model", "agent", "effort"], name="source_by_model"),
            models.Index(fields=["task", "verifier_status"], name="source_by_task"),
            models.Index(fields=["version", "trajectory", "source_id"], name="source_by_name"),
            models.Index(fields=["version", "trajectory"], name="source_control", condition=Q(is_control=True)),
        ]

    @property
    def subject(self) -> str:
        """The unit of comparison: model, agent and effort, as one line."""
        return " · ".join(part for part in (self.model, self.agent, self.effort) if part) or "unknown"


class TaskSource(models.Model):
    """The verifier's source of a task: hidden until the blind verdict is locked."""

    task = models.OneToOneField(Task, primary_key=True, on_delete=models.CASCADE, related_name="source")
    verifier_tree = digest_field(null=True)


class NoticeKind(models.TextChoices):
    """A warning is a repair that the importer made; a flag is something it found."""

    WARNING = "warning", "warning"
    FLAG = "flag", "flag"


class ImportNotice(models.Model):
    """One repair or finding of an import, with the place it was seen."""

    batch = models.ForeignKey(ImportBatch, on_delete=models.CASCADE, related_name="notices")
    trajectory = models.ForeignKey(Trajectory, null=True, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=10, choices=NoticeKind.choices)
    code = models.CharField(max_length=60)
    locator = models.CharField(max_length=300, blank=True, default="")
    detail = models.CharField(max_length=500, blank=True, default="")

    class Meta:
        indexes = [models.Index(fields=["batch", "code", "id"], name="notice_by_code")]
