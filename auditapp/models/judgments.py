"""The ledger of the judge: config, run, judgment, execution, provider call; and what a completed judgment said."""

import uuid
from decimal import Decimal

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from auditapp.models.answers import Acceptable, Decision, Integrity
from auditapp.models.datasets import DatasetVersion, Trajectory, digest_field
from auditapp.models.samples import Sample


class Outcome(models.TextChoices):
    """Verifier status against the blind acceptable."""

    TRUE_PASS = "true_pass", "true pass"
    FALSE_PASS = "false_pass", "false pass"
    TRUE_FAIL = "true_fail", "true fail"
    FALSE_FAIL = "false_fail", "false fail"


class JudgmentState(models.TextChoices):
    """States of a judgment; only a completed one has a decision."""

    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    COMPLETED = "completed", "completed"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"


class RunState(models.TextChoices):
    """States of a judge run."""

    RUNNING = "running", "running"
    PAUSED = "paused", "paused"
    CANCELLED = "cancelled", "cancelled"
    DONE = "done", "done"


class JudgeConfig(models.Model):
    """All that was chosen for a judge, identified by its digest; `rate` changes no label and is not part of it."""

    digest = digest_field(unique=True)
    name = models.CharField(max_length=100)
    provider = models.CharField(max_length=40)
    model = models.CharField(max_length=200, blank=True, default="")
    source = models.TextField()
    canonical = models.JSONField()
    rate = models.JSONField(null=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"{self.name} {self.digest[:8]}"


class JudgeRun(models.Model):
    """One config over one sample. `reused` counts units that already had a judgment of this config and replicate.

    `spent_micros` is what calls cost and `reserved_micros` the most that calls of unknown cost can (in flight, lost or
    failed), both in millionths of a US dollar. `unpriced_calls` have no price. Tokens are those of calls that counted
    them; `uncounted_calls` did not. `reason` says why it is paused.
    """

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    sample = models.ForeignKey(Sample, on_delete=models.PROTECT, related_name="judge_runs")
    config = models.ForeignKey(JudgeConfig, on_delete=models.PROTECT, related_name="runs")
    state = models.CharField(max_length=10, choices=RunState.choices, default=RunState.RUNNING)
    replicates = models.PositiveIntegerField(default=1)
    reason = models.CharField(max_length=60, blank=True, default="")
    budget_usd = models.DecimalField(max_digits=12, decimal_places=4, null=True)
    spent_micros = models.BigIntegerField(default=0)
    reserved_micros = models.BigIntegerField(default=0)
    unpriced_calls = models.PositiveIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(default=0)
    cached_tokens = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    uncounted_calls = models.PositiveIntegerField(default=0)
    planned = models.PositiveIntegerField(default=0)
    reused = models.PositiveIntegerField(default=0)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(state__in=RunState.values), name="run_state")]

    @property
    def spent_usd(self) -> Decimal:
        """What settled calls cost, in US dollars; calls whose price is unknown are not in it."""
        return Decimal(self.spent_micros) / 1_000_000

    @property
    def known_spent_usd(self) -> Decimal | None:
        """The same; None where no call had a price, which is not to cost nothing."""
        return None if self.unpriced_calls and not self.spent_micros else self.spent_usd

    @property
    def reserved_usd(self) -> Decimal:
        """The most that calls of unknown cost can come to, in US dollars."""
        return Decimal(self.reserved_micros) / 1_000_000


def _decided(yes: bool) -> dict[str, bool]:
    return {f"{column}__isnull": not yes for column in ("decision", "integrity", "acceptable")}


class Judgment(models.Model):
    """One stored look of one config at one trajectory. A decision exists exactly when the state is completed."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    run = models.ForeignKey(JudgeRun, on_delete=models.PROTECT, related_name="judgments")
    config = models.ForeignKey(JudgeConfig, on_delete=models.PROTECT, related_name="+")
    version = models.ForeignKey(DatasetVersion, on_delete=models.CASCADE, related_name="+")
    trajectory = models.ForeignKey(Trajectory, on_delete=models.PROTECT, related_name="+")
    content_sha256 = digest_field()
    replicate = models.PositiveIntegerField(default=0)
    state = models.CharField(max_length=10, choices=JudgmentState.choices, default=JudgmentState.QUEUED)
    not_before = models.DateTimeField(null=True)
    reason = models.CharField(max_length=60, blank=True, default="")
    detail = models.CharField(max_length=500, blank=True, default="")
    decision = models.CharField(max_length=15, choices=Decision.choices, null=True)
    integrity = models.CharField(max_length=15, choices=Integrity.choices, null=True)
    acceptable = models.CharField(max_length=10, choices=Acceptable.choices, null=True)
    outcome = models.CharField(max_length=12, choices=Outcome.choices, null=True)
    outcome_reason = models.CharField(max_length=60, blank=True, default="")
    decision_after = models.CharField(max_length=15, choices=Decision.choices, null=True)
    confidence = models.CharField(max_length=10, blank=True, default="")
    lock_sha256 = digest_field(null=True)
    blind_blob = digest_field(null=True)
    attribution_blob = digest_field(null=True)
    provenance = models.JSONField(default=dict)
    n_citations = models.PositiveIntegerField(default=0)
    n_citations_verified = models.PositiveIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6, null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["trajectory", "config", "replicate"], name="judgment_once"),
            models.CheckConstraint(condition=Q(state__in=JudgmentState.values), name="judgment_state"),
            models.CheckConstraint(
                condition=Q(state="completed", **_decided(True)) | (~Q(state="completed") & Q(**_decided(False))),
                name="decision_exactly_when_completed",
            ),
            models.CheckConstraint(
                condition=Q(outcome__isnull=True) | Q(acceptable__in=["yes", "no"]), name="outcome_needs_acceptable"
            ),
        ]
        indexes = [
            models.Index(fields=["run", "state", "id", "cost_usd"], name="judgment_run_queue"),
            models.Index(
                fields=["run", "state", "replicate", "outcome", "outcome_reason", "reason"], name="judgment_run_tally"
            ),
            models.Index(fields=["version", "-id"], name="judgment_version_keyset"),
            # Lists of labels go by the key that their view computes, and find what is rare without what is not.
            models.Index("version", F("id") * 4, name="judgment_by_label_key"),
            models.Index("version", "config", F("id") * 4, name="judgment_by_judge"),
            models.Index("version", "outcome", "config", F("id") * 4, name="judgment_by_outcome"),
            models.Index("version", "reason", F("id") * 4, name="judgment_by_reason", condition=~Q(reason="")),
            models.Index(
                "version", "outcome_reason", F("id") * 4, name="judgment_by_open", condition=~Q(outcome_reason="")
            ),
            models.Index("version", F("id") * 4, name="judgment_hacked", condition=Q(integrity="hacked")),
            # Rows behind a figure.
            models.Index(
                fields=["config", "acceptable", "trajectory"], name="judgment_by_answer", condition=Q(replicate=0)
            ),
            models.Index(fields=["config", "trajectory"], name="judgment_again", condition=Q(replicate__gt=0)),
        ]


class ExecutionState(models.TextChoices):
    """States of one attempt of a worker at a judgment."""

    RUNNING = "running", "running"
    FINISHED = "finished", "finished"
    LOST = "lost", "lost"
    STOPPED = "stopped", "stopped"


class Execution(models.Model):
    """One worker's hold on a judgment: a lease that its heartbeat keeps alive. Writes are conditional on the token."""

    judgment = models.ForeignKey(Judgment, on_delete=models.CASCADE, related_name="executions")
    token = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    worker = models.CharField(max_length=200, blank=True, default="")
    state = models.CharField(max_length=10, choices=ExecutionState.choices, default=ExecutionState.RUNNING)
    reason = models.CharField(max_length=200, blank=True, default="")
    started_at = models.DateTimeField()
    heartbeat_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["judgment"], condition=Q(state="running"), name="one_running_execution_per_judgment"
            )
        ]
        indexes = [models.Index(fields=["state", "heartbeat_at"], name="execution_stale")]


class CallState(models.TextChoices):
    """Reserved before it is sent, settled by what came back; one never settled was lost with its worker."""

    RESERVED = "reserved", "reserved"
    SETTLED = "settled", "settled"
    FAILED = "failed", "failed"


class Call(models.Model):
    """One exchange with a provider, as each table of calls holds it."""

    turn = models.PositiveIntegerField()
    phase = models.PositiveSmallIntegerField()
    state = models.CharField(max_length=10, choices=CallState.choices, default=CallState.RESERVED)
    request_sha256 = digest_field()
    request_blob = digest_field(null=True)
    response_blob = digest_field(null=True)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6, null=True)
    input_tokens = models.PositiveBigIntegerField(null=True)
    cached_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)
    request_id = models.CharField(max_length=200, blank=True, default="")
    error = models.CharField(max_length=500, blank=True, default="")
    reserved_at = models.DateTimeField(auto_now_add=True)
    settled_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True


class ProviderCall(Call):
    """A call of an execution. Every call's spend counts, also those of lost executions."""

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="calls")
    reserved_usd = models.DecimalField(max_digits=14, decimal_places=6, null=True)

    class Meta:
        indexes = [models.Index(fields=["execution", "turn"], name="call_by_turn")]


class CriterionAnswer(models.Model):
    """What a judgment said of one requirement; `own` marks one that it added itself."""

    judgment = models.ForeignKey(Judgment, on_delete=models.CASCADE, related_name="criteria")
    code = models.CharField(max_length=10)
    requirement = models.CharField(max_length=1000)
    status = models.CharField(max_length=10)
    own = models.BooleanField(default=False)
    evidence = models.JSONField(default=list)


class CitedEvidence(models.Model):
    """One citation and the result of its check; failed ones are kept and counted."""

    judgment = models.ForeignKey(Judgment, on_delete=models.CASCADE, related_name="citations")
    code = models.CharField(max_length=10)
    phase = models.PositiveSmallIntegerField()
    kind = models.CharField(max_length=12)
    target = models.CharField(max_length=1200)
    part = models.CharField(max_length=12, default="none")
    item = models.PositiveIntegerField(default=0)
    line_start = models.PositiveIntegerField(default=0)
    line_end = models.PositiveIntegerField(default=0)
    quote = models.CharField(max_length=2000)
    ok = models.BooleanField()
    result = models.CharField(max_length=20)
    detail = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["judgment", "code"], name="citation_code_once")]


class JudgmentTag(models.Model):
    """A taxonomy code of a judgment; `kept` is false where no verified citation supports it."""

    judgment = models.ForeignKey(Judgment, on_delete=models.CASCADE, related_name="tags")
    code = models.CharField(max_length=5)
    role = models.CharField(max_length=12)
    phase = models.PositiveSmallIntegerField()
    kept = models.BooleanField()
    evidence = models.JSONField(default=list)
    note = models.CharField(max_length=500, blank=True, default="")

    class Meta:
        indexes = [models.Index(fields=["code", "judgment"], name="tag_by_code")]
