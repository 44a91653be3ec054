"""The hidden half of a review round: how its items were drawn, from what the verifier and the judge had said."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from auditapp.models.answers import Acceptable, Decision, Integrity
from auditapp.models.datasets import DatasetVersion, Trajectory
from auditapp.models.judgments import JudgeConfig, Outcome
from auditapp.models.reviews import Grade, HeldOutSet, ReviewItem, ReviewRound
from auditapp.models.samples import Sample, Stratum


class RoundDraw(models.Model):
    """The second phase: `size` trajectories out of a sample, stratified by stratum and the answer of `config`."""

    round = models.OneToOneField(ReviewRound, primary_key=True, on_delete=models.CASCADE, related_name="+")
    sample = models.ForeignKey(Sample, null=True, on_delete=models.PROTECT, related_name="rounds")
    config = models.ForeignKey(JudgeConfig, null=True, on_delete=models.PROTECT, related_name="+")
    held_out = models.ForeignKey(HeldOutSet, null=True, on_delete=models.PROTECT, related_name="rounds")
    plan = models.JSONField(default=dict)


class RoundStratum(models.Model):
    """A cell of the second phase: a stratum of the sample × what the judge said ("" where there is no judge).

    `extension` 0 is the draw before the round opened; later ones are counted apart.
    """

    draw = models.ForeignKey(RoundDraw, on_delete=models.CASCADE, related_name="strata")
    stratum = models.ForeignKey(Stratum, on_delete=models.PROTECT, related_name="+")
    answer = models.CharField(max_length=10, blank=True, default="")
    extension = models.PositiveIntegerField(default=0)
    size = models.PositiveIntegerField()
    drawn = models.PositiveIntegerField()
    twice = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["draw", "stratum", "answer", "extension"], name="round_stratum_once")
        ]


class ItemDraw(models.Model):
    """The cell an item was drawn from, and the probability with which it was, given the sample."""

    item = models.OneToOneField(ReviewItem, primary_key=True, on_delete=models.CASCADE, related_name="+")
    stratum = models.ForeignKey(RoundStratum, on_delete=models.PROTECT, related_name="items")
    inclusion_probability = models.FloatField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(inclusion_probability__gt=0, inclusion_probability__lte=1), name="item_probability"
            )
        ]


class ReviewLabelKind(models.TextChoices):
    """A reviewer's own grade, or the one after adjudication."""

    HUMAN = "human", "human"
    ADJUDICATED = "adjudicated", "human, adjudicated"


class ReviewLabel(models.Model):
    """A grade as it was when its round was released; only then is it set against the verifier."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    version = models.ForeignKey(DatasetVersion, on_delete=models.CASCADE, related_name="+")
    trajectory = models.ForeignKey(Trajectory, on_delete=models.PROTECT, related_name="+")
    round = models.ForeignKey(ReviewRound, on_delete=models.PROTECT, related_name="+")
    grade = models.OneToOneField(Grade, on_delete=models.PROTECT, related_name="+")
    kind = models.CharField(max_length=12, choices=ReviewLabelKind.choices)
    reviewer = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    labeler = models.CharField(max_length=200)
    decision = models.CharField(max_length=15, choices=Decision.choices)
    integrity = models.CharField(max_length=15, choices=Integrity.choices)
    acceptable = models.CharField(max_length=10, choices=Acceptable.choices)
    outcome = models.CharField(max_length=12, choices=Outcome.choices, null=True)
    outcome_reason = models.CharField(max_length=60, blank=True, default="")
    confidence = models.CharField(max_length=10, blank=True, default="")
    n_citations = models.PositiveIntegerField(default=0)
    n_citations_verified = models.PositiveIntegerField(default=0)
    tags = models.JSONField(default=list)
    created_at = models.DateTimeField()

    label_key = F("id") * 4 + 2
    """The key of `Label`, as the view computes it."""

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(kind__in=ReviewLabelKind.values), name="review_label_kind")]
        indexes = [
            models.Index(fields=["version", "-id"], name="review_label_keyset"),
            models.Index(fields=["trajectory", "kind"], name="review_label_of"),
            models.Index("version", F("id") * 4 + 2, name="review_by_label_key"),
        ]
