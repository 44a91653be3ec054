"""Labels of every origin, read through one query: `labels()`."""

import uuid
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import models
from django.db.models import Exists, F, OuterRef, Q

from auditapp.models.answers import Acceptable, Decision, Integrity
from auditapp.models.datasets import DatasetVersion, Trajectory
from auditapp.models.judgments import JudgeConfig, JudgeRun, Judgment, Outcome
from auditapp.models.reviews import RoundKind
from auditapp.models.rounds import ReviewLabel, RoundDraw


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

    label_key = F("id") * 4 + 1
    """The key of `Label`, as the view computes it."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["trajectory", "kind", "labeler"], name="imported_label_once"),
            models.CheckConstraint(condition=Q(kind__in=LabelKind.values), name="imported_label_kind"),
        ]
        indexes = [
            models.Index(fields=["version", "-id"], name="imported_label_keyset"),
            models.Index("version", F("id") * 4 + 1, name="imported_by_label_key"),
            models.Index("version", "labeler", F("id") * 4 + 1, name="imported_by_labeler"),
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


CALIBRATED_FROM = 30


@dataclass(frozen=True, slots=True)
class Calibration:
    """How many trajectories a judge and people both decided, counted up to CALIBRATED_FROM, and who these people are.

    `scripted` and `imported` say that a script's grades, or labels made elsewhere, are among those counted.
    """

    decided: int = 0
    scripted: bool = False
    imported: bool = False

    @property
    def holds(self) -> bool:
        return self.decided >= CALIBRATED_FROM

    @property
    def words(self) -> str:
        """The chip's explanation."""
        if not self.holds:
            return (
                f"People, drawn at random inside its sample, have decided {self.decided} trajectories that it decided "
                f"too; from {CALIBRATED_FROM} on it counts as calibrated."
            )
        notes = [
            "Scripted grades are among them." if self.scripted else "",
            "Labels made elsewhere are among them: how those were chosen is not recorded." if self.imported else "",
        ]
        return " ".join([f"People have decided at least {CALIBRATED_FROM} trajectories that it decided too.", *notes])


def calibrations(version: DatasetVersion, *, configs: Collection[int] | None = None) -> dict[int | str, Calibration]:
    """Of each judge config (by id) and imported judge (by name) of a version: was it held against people, and whose.

    People are those whom a released blind round drew from a sample the judge looked at, and those of imported labels.
    How well a judge did is for the figures to say. `configs` leaves out other configs than these.
    """
    runs = JudgeRun.objects.filter(sample__frame__version=version).order_by().values_list("config", "sample")
    if configs is not None:
        runs = runs.filter(config__in=configs)
    samples: defaultdict[int, list[int]] = defaultdict(list)
    for config, sample in runs.distinct():
        samples[config].append(sample)
    looks = Judgment.objects.filter(trajectory=OuterRef("trajectory"), replicate=0, acceptable__in=DECIDED)
    found: dict[int | str, Calibration] = {
        config: _calibration(version, _drawn_from(drawn), looks.filter(config=config))
        for config, drawn in samples.items()
    }
    elsewhere = ImportedLabel.objects.filter(version=version, kind=LabelKind.JUDGE, acceptable__in=DECIDED)
    theirs = elsewhere.filter(trajectory=OuterRef("trajectory"))
    for name in elsewhere.order_by().values_list("labeler", flat=True).distinct():
        found[name] = _calibration(version, Q(), theirs.filter(labeler=name))
    return found


def calibrated(version: DatasetVersion, *, configs: Collection[int] | None = None) -> set[int | str]:
    """The judges of `calibrations` that count as calibrated."""
    return {judge for judge, found in calibrations(version, configs=configs).items() if found.holds}


DECIDED = (Acceptable.YES, Acceptable.NO)


def _drawn_from(samples: Sequence[int]) -> Q:
    return Q(round__in=RoundDraw.objects.filter(sample__in=samples).values("round"))


def _calibration(version: DatasetVersion, drawn: Q, looks: models.QuerySet[Any]) -> Calibration:
    """No more rows are read than make the answer sure: people's labels can be many."""
    graded = ReviewLabel.objects.filter(drawn, Exists(looks), version=version, acceptable__in=DECIDED)
    graded = graded.filter(round__kind=RoundKind.BLIND).order_by()
    by_round = set(graded.values_list("trajectory", flat=True).distinct()[:CALIBRATED_FROM])
    scripted = graded.filter(round__is_scripted=True).exists()
    if len(by_round) >= CALIBRATED_FROM:
        return Calibration(CALIBRATED_FROM, scripted)
    made = ImportedLabel.objects.filter(Exists(looks), version=version, kind=LabelKind.HUMAN, acceptable__in=DECIDED)
    imported = set(made.order_by().values_list("trajectory", flat=True).distinct()[:CALIBRATED_FROM])
    both = by_round | imported
    return Calibration(min(len(both), CALIBRATED_FROM), scripted, imported=bool(imported))
