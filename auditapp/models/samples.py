"""Survey sampling: a frame frozen before the seed, its strata, and draws with inclusion probabilities."""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from auditapp.models.datasets import DatasetVersion, Trajectory, digest_field


class Frame(models.Model):
    """The population a sample stands for, fixed by the digest of its manifest before any seed was chosen."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    version = models.ForeignKey(DatasetVersion, on_delete=models.CASCADE, related_name="frames")
    digest = digest_field()
    manifest_blob = digest_field()
    size = models.PositiveIntegerField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["version", "digest"], name="frame_once")]

    @property
    def draw_count(self) -> int:
        """How many draws were made from it; a part of one is no draw of its own."""
        return self.samples.filter(part_of=None).count()


class Stratum(models.Model):
    """A cell of the frame: verifier status × model, agent and effort × environment, with its size N_h."""

    frame = models.ForeignKey(Frame, on_delete=models.CASCADE, related_name="strata")
    number = models.PositiveIntegerField()
    verifier_status = models.CharField(max_length=10)
    model = models.CharField(max_length=200, blank=True, default="")
    agent = models.CharField(max_length=200, blank=True, default="")
    effort = models.CharField(max_length=50, blank=True, default="")
    environment = models.CharField(max_length=200)
    size = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["frame", "number"], name="stratum_number_once"),
            models.CheckConstraint(condition=Q(size__gt=0), name="stratum_not_empty"),
        ]

    def __str__(self) -> str:
        subject = " · ".join(part for part in (self.model, self.agent, self.effort) if part) or "unknown"
        return f"{self.verifier_status} / {subject} / {self.environment}"


class Sample(models.Model):
    """One draw from a frame. `draw_number` counts the draws of that frame, so that a seed cannot be shopped unseen.

    A part of a draw is by the same seed, for a judge to look at again: it has the number of `part_of`.
    """

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    frame = models.ForeignKey(Frame, on_delete=models.PROTECT, related_name="samples")
    plan = models.JSONField()
    seed = models.BigIntegerField()
    draw_number = models.PositiveIntegerField()
    part_of = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="parts")
    size = models.PositiveIntegerField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["frame", "draw_number"], condition=Q(part_of__isnull=True), name="draw_number_once"
            )
        ]

    def __str__(self) -> str:
        return f"draw {self.draw_number}" if self.part_of_id is None else f"part of draw {self.draw_number}"


class StratumDraw(models.Model):
    """How many of a stratum's N_h were drawn: n_h, which may be 0 or N_h."""

    sample = models.ForeignKey(Sample, on_delete=models.CASCADE, related_name="draws")
    stratum = models.ForeignKey(Stratum, on_delete=models.PROTECT, related_name="draws")
    size = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["sample", "stratum"], name="stratum_drawn_once")]


class SampleUnit(models.Model):
    """A drawn trajectory with its inclusion probability n_h / N_h and weight N_h / n_h."""

    sample = models.ForeignKey(Sample, on_delete=models.CASCADE, related_name="units")
    trajectory = models.ForeignKey(Trajectory, on_delete=models.PROTECT, related_name="+")
    stratum = models.ForeignKey(Stratum, on_delete=models.PROTECT, related_name="units")
    inclusion_probability = models.FloatField()
    weight = models.FloatField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["sample", "trajectory"], name="unit_once"),
            models.CheckConstraint(
                condition=Q(inclusion_probability__gt=0, inclusion_probability__lte=1, weight__gte=1),
                name="unit_probability",
            ),
        ]
