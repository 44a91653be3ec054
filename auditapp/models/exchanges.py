"""Talks with a provider outside any run, and the configs of a dataset. Nothing here is, or can become, a label."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from auditapp.models.datasets import Dataset, Task, TaskRubric, Trajectory, digest_field
from auditapp.models.judgments import Call, JudgeConfig


class ConfigVersion(models.Model):
    """A judge config as a dataset knows it: versions of one name in order, with the text they were read from."""

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="config_versions")
    config = models.ForeignKey(JudgeConfig, on_delete=models.PROTECT, related_name="versions")
    name = models.CharField(max_length=100)
    number = models.PositiveIntegerField()
    source = models.TextField(blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["dataset", "name", "number"], name="config_number_once"),
            models.UniqueConstraint(fields=["dataset", "config"], name="config_once_per_dataset"),
        ]


class ExchangeKind(models.TextChoices):
    """What is asked for outside a run."""

    DRY_RUN = "dry_run", "dry run"
    DRAFT = "draft", "draft of requirements"
    PROBE = "probe", "probe"


class ExchangeState(models.TextChoices):
    """States of an exchange."""

    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    COMPLETED = "completed", "completed"
    FAILED = "failed", "failed"


class Exchange(models.Model):
    """One talk outside any run: a dry run of a config, a probe of its provider, a draft of a task's requirements.

    `result_blob` is what was found, as JSON; `rubric` is what a draft became, NULL where it was not taken. `group`
    holds the drafts that one click asked for. `worker` is the process that has it, as in executions.
    """

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="exchanges")
    config = models.ForeignKey(JudgeConfig, on_delete=models.PROTECT, related_name="+")
    kind = models.CharField(max_length=10, choices=ExchangeKind.choices)
    state = models.CharField(max_length=10, choices=ExchangeState.choices, default=ExchangeState.QUEUED)
    group = models.UUIDField(null=True)
    trajectory = models.ForeignKey(Trajectory, null=True, on_delete=models.CASCADE, related_name="+")
    task = models.ForeignKey(Task, null=True, on_delete=models.CASCADE, related_name="+")
    rubric = models.ForeignKey(TaskRubric, null=True, on_delete=models.SET_NULL, related_name="+")
    reason = models.CharField(max_length=60, blank=True, default="")
    detail = models.CharField(max_length=500, blank=True, default="")
    result_blob = digest_field(null=True)
    worker = models.CharField(max_length=200, blank=True, default="")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=ExchangeState.values), name="exchange_state"),
            models.CheckConstraint(condition=Q(kind__in=ExchangeKind.values), name="exchange_kind"),
            models.CheckConstraint(
                condition=~Q(kind="dry_run") | Q(trajectory__isnull=False), name="dry_run_has_trajectory"
            ),
            models.CheckConstraint(condition=~Q(kind="draft") | Q(task__isnull=False), name="draft_has_task"),
        ]
        indexes = [
            models.Index(fields=["state", "id"], name="exchange_by_state"),
            models.Index(fields=["config", "-id"], name="exchange_by_config"),
            models.Index(fields=["group", "state"], name="exchange_by_group"),
        ]


class ExchangeCall(Call):
    """One call of an exchange, stored as those of a judgment are."""

    exchange = models.ForeignKey(Exchange, on_delete=models.CASCADE, related_name="calls")
