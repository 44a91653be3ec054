"""Datasets, their tasks and trajectories. Nothing here names a model, an agent or a verifier's verdict."""

import uuid
from typing import Literal

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z"
DIGEST_LENGTH = 64
validate_name = RegexValidator(
    NAME_PATTERN, "Use letters, digits, dot, hyphen and underscore, at most 100, beginning with a letter or digit."
)


def digest_field(**options: object) -> models.CharField:  # type: ignore[type-arg]
    """A SHA-256 in hexadecimal; NULL where the thing was never recorded."""
    return models.CharField(max_length=DIGEST_LENGTH, **options)  # type: ignore[arg-type]


class PartialAs(models.TextChoices):
    """What a reward between 0 and the threshold counts as."""

    FAIL = "fail", "fail"
    EXCLUDE = "exclude", "excluded"


class Role(models.TextChoices):
    """What a member of a dataset may do."""

    LEAD = "lead", "lead"
    REVIEWER = "reviewer", "reviewer"
    VIEWER = "viewer", "viewer"


class Dataset(models.Model):
    """A release under audit."""

    name = models.CharField(max_length=100, unique=True, validators=[validate_name])
    note = models.CharField(max_length=500, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, through="Membership")

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """Who may see a dataset, and as what."""

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    role = models.CharField(max_length=10, choices=Role.choices)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["dataset", "user"], name="membership_once"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="membership_role"),
        ]


class DatasetVersion(models.Model):
    """One state of a dataset: trajectories are added to it, never changed."""

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="versions")
    name = models.CharField(max_length=100, default="1", validators=[validate_name])
    pass_threshold = models.FloatField(default=1.0)
    partial_as = models.CharField(max_length=10, choices=PartialAs.choices, default=PartialAs.EXCLUDE)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["dataset", "name"], name="version_once"),
            models.CheckConstraint(condition=Q(partial_as__in=PartialAs.values), name="version_partial_as"),
        ]

    def __str__(self) -> str:
        return f"{self.dataset.name} {self.name}"

    @property
    def partial_counts_as(self) -> Literal["fail", "exclude"]:
        """`partial_as` as the type that outcomes are computed from."""
        return "fail" if self.partial_as == PartialAs.FAIL else "exclude"


class Environment(models.Model):
    """A family of tasks."""

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="environments")
    name = models.CharField(max_length=200)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["dataset", "name"], name="environment_once")]

    def __str__(self) -> str:
        return self.name


class ReferencePolicy(models.TextChoices):
    """When the judge sees the hidden reference."""

    PHASE1 = "phase1", "from the start"
    PHASE2 = "phase2", "after the blind verdict"
    NEVER = "never", "never"


class Task(models.Model):
    """One problem; its bodies are digests. `identity` is the producer's digest, which tells tasks of one name apart.

    While `rubric_frozen_at` is set, neither a lead nor a draft replaces the task's requirements.
    """

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    version = models.ForeignKey(DatasetVersion, on_delete=models.CASCADE, related_name="tasks")
    environment = models.ForeignKey(Environment, on_delete=models.PROTECT, related_name="tasks")
    name = models.CharField(max_length=300)
    identity = models.CharField(max_length=100, blank=True, default="")
    content_sha256 = digest_field()
    verifier_sha256 = digest_field(null=True)
    instruction_blob = digest_field(null=True)
    initial_tree = digest_field(null=True)
    reference_tree = digest_field(null=True)
    reference_policy = models.CharField(max_length=10, choices=ReferencePolicy.choices, default=ReferencePolicy.PHASE1)
    rubric_frozen_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["version", "environment", "name", "identity"], name="task_once"),
            models.CheckConstraint(
                condition=Q(reference_policy__in=ReferencePolicy.values), name="task_reference_policy"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class RubricOrigin(models.TextChoices):
    """Where a list of requirements came from."""

    SHIPPED = "shipped", "shipped with the task"
    DEFAULT = "default", "the instruction as a whole"
    DRAFTED = "drafted", "drafted from the instruction"
    EDITED = "edited", "edited by a lead"


class TaskRubric(models.Model):
    """The requirements that judge and reviewers answer for a task; append-only, the highest number is in force."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="rubrics")
    number = models.PositiveIntegerField(default=1)
    requirements = models.JSONField()
    digest = digest_field()
    origin = models.CharField(max_length=10, choices=RubricOrigin.choices)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["task", "number"], name="rubric_number_once")]


class Trajectory(models.Model):
    """One attempt as a blind reader may know it; bodies are digests, and NULL says "not recorded"."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    version = models.ForeignKey(DatasetVersion, on_delete=models.CASCADE, related_name="trajectories")
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="trajectories")
    content_sha256 = digest_field(db_index=True)
    steps_blob = digest_field(null=True)
    n_steps = models.PositiveIntegerField(null=True)
    n_characters = models.PositiveBigIntegerField(null=True)
    deliverable_tree = digest_field(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        indexes = [models.Index(fields=["version", "id"], name="trajectory_version_keyset")]
        constraints = [
            models.CheckConstraint(
                condition=Q(steps_blob__isnull=True, n_steps__isnull=True)
                | Q(steps_blob__isnull=False, n_steps__isnull=False),
                name="trajectory_steps_recorded_or_not",
            )
        ]
