"""Labels of every origin, read through one query: `labels()`."""

import uuid

from django.db import models
from django.db.models import Exists, F, OuterRef, Q

from auditapp.models.answers import Acceptable, Decision, Integrity
from auditapp.models.datasets import DatasetVersion, Trajectory
from auditapp.models.judgments import JudgeConfig, JudgeRun, Judgment, Outcome
from auditapp.models.rounds import ReviewLabel


class LabelKind(models.TextChoices):
    """Who made an imported label."""

    HUMAN = "human", "human"
    JUDGE = "judge", "judge"


class ImportedLabel(models.Model):
    """A label made elsewhere. Integrity is NULL where its makers were not asked about it."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    version = models.ForeignKey(DatasetVersion, on_delete=models.CASCADE, related_name="+")
    trajectory = models.ForeignKey(Trajectory, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=10, choices=LabelKind.choices)
    labeler = models.CharField(max_length=200)
    decision = models.CharField(max_length=15, choices=Decision.choices)
    integrity = models.CharField(max_length=15, choices=Integrity.choices, null=True)
    acceptable = models.CharField(max_length=10, choices=Acceptable.choices)
    outcome = models.CharField(max_length=12, choices=Outcome.choices, null=True)
    outcome_reason = models.CharField(max_length=60, blank=True, default="")
    tags = models.JSONField(default=list)
    note = models.CharField(max_length=2000, blank=True, default="")
    made_at = models.CharField(max_length=40, blank=True, default="")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["trajectory", "kind", "labeler"], name="imported_label_once"),
            models.CheckConstraint(condition=Q(kind__in=LabelKind.values), name="imported_label_kind"),
        ]
        indexes = [
            models.Index(fields=["version", "-id"], name="imported_label_keyset"),
            models.Index("version", F("id") * 4 + 1, name="imported_by_label_key"),  # as the view computes it
        ]


class LabelSource(models.TextChoices):
    """Origins of a label."""

    JUDGE = "judge", "judge"
    HUMAN = "human", "human"
    ADJUDICATED = "adjudicated", "human, adjudicated"
    IMPORTED_HUMAN = "imported_human", "human, imported"
    IMPORTED_JUDGE = "imported_judge", "judge, imported"


PEOPLE = (LabelSource.HUMAN, LabelSource.IMPORTED_HUMAN)
"""Single people, each by themselves; an adjudicated label is what they came to, and stands apart from agreement."""


class Label(models.Model):
    """A row of the view over all origins; `key` is unique over all of them."""

    key = models.BigIntegerField(primary_key=True)
    public_id = models.UUIDField()
    source = models.CharField(max_length=20, choices=LabelSource.choices)
    version = models.ForeignKey(DatasetVersion, on_delete=models.DO_NOTHING, related_name="+")
    trajectory = models.ForeignKey(Trajectory, on_delete=models.DO_NOTHING, related_name="+")
    judgment = models.ForeignKey(Judgment, null=True, on_delete=models.DO_NOTHING, related_name="+")
    config = models.ForeignKey(JudgeConfig, null=True, on_delete=models.DO_NOTHING, related_name="+")
    replicate = models.PositiveIntegerField(null=True)
    labeler = models.CharField(max_length=200)
    state = models.CharField(max_length=10)
    reason = models.CharField(max_length=60)
    decision = models.CharField(max_length=15, choices=Decision.choices, null=True)
    integrity = models.CharField(max_length=15, choices=Integrity.choices, null=True)
    acceptable = models.CharField(max_length=10, choices=Acceptable.choices, null=True)
    outcome = models.CharField(max_length=12, choices=Outcome.choices, null=True)
    outcome_reason = models.CharField(max_length=60)
    decision_after = models.CharField(max_length=15, choices=Decision.choices, null=True)
    confidence = models.CharField(max_length=10)
    n_citations = models.PositiveIntegerField(null=True)
    n_citations_verified = models.PositiveIntegerField(null=True)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6, null=True)
    input_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        managed = False
        db_table = "auditapp_label"


def labels(version: DatasetVersion) -> models.QuerySet[Label]:
    """Every label of a version, whatever its origin; unfinished and failed judgments are rows without a decision."""
    return Label.objects.filter(version=version)


def calibrated(version: DatasetVersion) -> set[int]:
    """Ids of the judge configs that were held against people: some trajectory was decided by both.

    People are those of released rounds and of imported labels. What a config said elsewhere is calibrated by that, too;
    how well it did is for the figures to say.
    """
    decided = {"version": version, "acceptable__in": (Acceptable.YES, Acceptable.NO)}
    people = (ReviewLabel.objects.filter(**decided), ImportedLabel.objects.filter(**decided, kind=LabelKind.HUMAN))
    runs = JudgeRun.objects.filter(sample__frame__version=version)
    return {
        config
        for config in runs.order_by().values_list("config", flat=True).distinct()
        if any(rows.filter(_looked_at(config)).exists() for rows in people)  # people's labels are the fewer
    }


def _looked_at(config: int) -> Exists:
    looks = Judgment.objects.filter(trajectory=OuterRef("trajectory"), config=config, replicate=0)
    return Exists(looks.filter(acceptable__in=(Acceptable.YES, Acceptable.NO)))
