"""Blind review: rounds, their queue, grades, and who may no longer grade what. Nothing here tells what a verifier, a
judge or another reviewer said; `rounds` holds the hidden half.
"""

import uuid

from django.conf import settings
from django.db import models
from django.db.models import Q

from auditapp.models.answers import Acceptable, Decision, Integrity
from auditapp.models.datasets import Dataset, DatasetVersion, Task, TaskRubric, Trajectory

USER = settings.AUTH_USER_MODEL
POSITIONS = 2**62
"""Positions in a queue are drawn from 0 to this number, so that they tell nothing of a stratum."""


class RoundKind(models.TextChoices):
    """What reviewers of a round are asked. Practice is graded like blind work and never becomes a label."""

    BLIND = "blind", "blind review"
    TRIAGE = "triage", "triage of tasks"
    AUDIT = "audit", "reading of full trajectories"
    COLD_READ = "cold_read", "cold read of instructions"
    PRACTICE = "practice", "practice"


class RoundState(models.TextChoices):
    """States of a round; `released` ends its blindness, `discarded` was drawn and never opened."""

    DRAWN = "drawn", "drawn"
    OPEN = "open", "open"
    CLOSED = "closed", "closed"
    RELEASED = "released", "released"
    DISCARDED = "discarded", "discarded"


class ReviewRound(models.Model):
    """A set of items to grade. `number` counts the draws of its version, practice apart, so that a seed cannot be
    shopped unseen.

    `repeat_share` of the items come back to the same reviewer after `repeat_days`; `guess_share` of the slots ask for
    a guess of the verifier's verdict. `fallback` gets what was skipped twice.
    """

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    version = models.ForeignKey(DatasetVersion, on_delete=models.CASCADE, related_name="rounds")
    kind = models.CharField(max_length=10, choices=RoundKind.choices, default=RoundKind.BLIND)
    state = models.CharField(max_length=10, choices=RoundState.choices, default=RoundState.DRAWN)
    number = models.PositiveIntegerField()
    title = models.CharField(max_length=200)
    seed = models.BigIntegerField()
    instructions = models.TextField(blank=True, default="")
    shows_instructions = models.BooleanField(default=True)
    shows_reference = models.BooleanField(default=False)
    by_field = models.BooleanField(default=False)
    repeat_share = models.FloatField(default=0.05)
    repeat_days = models.PositiveIntegerField(default=7)
    guess_share = models.FloatField(default=0.1)
    lease_minutes = models.PositiveIntegerField(default=15)
    extensions = models.PositiveIntegerField(default=0)
    is_scripted = models.BooleanField(default=False)
    fallback = models.ForeignKey(USER, null=True, on_delete=models.SET_NULL, related_name="+")
    created_by = models.ForeignKey(USER, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    opened_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True)
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["version", "number"], condition=~Q(kind="practice"), name="round_number_once"
            ),
            models.CheckConstraint(condition=Q(kind__in=RoundKind.values), name="round_kind"),
            models.CheckConstraint(condition=Q(state__in=RoundState.values), name="round_state"),
        ]

    def __str__(self) -> str:
        return self.title


class RoundReviewer(models.Model):
    """A member of a round. Their queue starts at `cursor`, which is seeded and follows the last slot they took."""

    round = models.ForeignKey(ReviewRound, on_delete=models.CASCADE, related_name="reviewers")
    user = models.ForeignKey(USER, on_delete=models.CASCADE, related_name="round_places")
    cursor = models.BigIntegerField(default=0)
    read_instructions_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["round", "user"], name="round_reviewer_once")]


class ReviewerField(models.Model):
    """An environment that a reviewer knows; one without any takes work of all."""

    dataset = models.ForeignKey(Dataset, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(USER, on_delete=models.CASCADE, related_name="review_fields")
    environment = models.CharField(max_length=200)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["dataset", "user", "environment"], name="reviewer_field_once")]


class ReviewItem(models.Model):
    """One thing to look at: a trajectory, or a task where the round is about tasks. `rubric` is that of the draw."""

    round = models.ForeignKey(ReviewRound, on_delete=models.CASCADE, related_name="items")
    number = models.PositiveIntegerField()
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="+")
    trajectory = models.ForeignKey(Trajectory, null=True, on_delete=models.PROTECT, related_name="+")
    rubric = models.ForeignKey(TaskRubric, null=True, on_delete=models.PROTECT, related_name="+")
    repeats = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["round", "number"], name="item_number_once"),
            models.UniqueConstraint(
                fields=["round", "trajectory"], condition=Q(trajectory__isnull=False), name="item_trajectory_once"
            ),
        ]


class SlotRole(models.TextChoices):
    """Why a slot exists."""

    GRADE = "grade", "grade"
    REPEAT = "repeat", "hidden repeat"
    ADJUDICATE = "adjudicate", "adjudication"


class SlotState(models.TextChoices):
    """States of a slot. A lease that has run out is as good as free."""

    FREE = "free", "free"
    LEASED = "leased", "leased"
    SUBMITTED = "submitted", "submitted"
    FLAGGED = "flagged", "flagged"
    CLOSED = "closed", "closed"


class Slot(models.Model):
    """One place in the queue; its random id is the only one that a reviewer sees.

    `assigned` keeps it for one person, `field` for those who know an environment; `free_from` hides it until then.
    `reviewer` holds or has submitted it.
    """

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    round = models.ForeignKey(ReviewRound, on_delete=models.CASCADE, related_name="slots")
    item = models.ForeignKey(ReviewItem, on_delete=models.CASCADE, related_name="slots")
    role = models.CharField(max_length=10, choices=SlotRole.choices, default=SlotRole.GRADE)
    copy = models.PositiveIntegerField(default=0)
    position = models.BigIntegerField()
    state = models.CharField(max_length=10, choices=SlotState.choices, default=SlotState.FREE)
    assigned = models.ForeignKey(USER, null=True, on_delete=models.SET_NULL, related_name="+")
    field = models.CharField(max_length=200, blank=True, default="")
    free_from = models.DateTimeField(null=True)
    reviewer = models.ForeignKey(USER, null=True, on_delete=models.SET_NULL, related_name="+")
    lease_until = models.DateTimeField(null=True)
    first_viewed_at = models.DateTimeField(null=True)
    asks_guess = models.BooleanField(default=False)
    skips = models.PositiveIntegerField(default=0)
    submitted_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["item", "role", "copy"], name="slot_copy_once"),
            models.UniqueConstraint(
                fields=["round", "reviewer"], condition=Q(state="leased"), name="one_lease_per_reviewer_and_round"
            ),
            models.UniqueConstraint(
                fields=["item", "role", "reviewer"],
                condition=Q(reviewer__isnull=False),
                name="slot_reviewer_once_per_item",
            ),
            models.CheckConstraint(condition=Q(state__in=SlotState.values), name="slot_state"),
            models.CheckConstraint(
                condition=Q(state="leased", lease_until__isnull=False, reviewer__isnull=False)
                | (~Q(state="leased") & Q(lease_until__isnull=True)),
                name="slot_lease",
            ),
            models.CheckConstraint(
                condition=~Q(state="free") | Q(reviewer__isnull=True), name="slot_free_has_no_reviewer"
            ),
        ]
        indexes = [
            models.Index(fields=["round", "position"], condition=Q(state__in=["free", "leased"]), name="slot_queue"),
            models.Index(fields=["round", "state"], name="slot_by_state"),
            models.Index(fields=["reviewer", "-submitted_at"], name="slot_by_reviewer"),
        ]


class Grade(models.Model):
    """One blind answer. An edit is a new version: `current` is the highest number, the others are kept.

    `token` names one press of "submit", so that doing it twice stores one grade. `answer` is that of a triage, `text`
    that of a cold read. `evidence` holds locators with quotes, `seconds` the time looked at it, idle time removed.
    """

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    slot = models.ForeignKey(Slot, on_delete=models.PROTECT, related_name="grades")
    reviewer = models.ForeignKey(USER, on_delete=models.PROTECT, related_name="grades")
    number = models.PositiveIntegerField(default=1)
    current = models.BooleanField(default=True)
    token = models.UUIDField(unique=True)
    decision = models.CharField(max_length=15, choices=Decision.choices, null=True)
    integrity = models.CharField(max_length=15, choices=Integrity.choices, null=True)
    acceptable = models.CharField(max_length=10, choices=Acceptable.choices, null=True)
    answer = models.CharField(max_length=20, blank=True, default="")
    text = models.TextField(blank=True, default="")
    confidence = models.CharField(max_length=10, blank=True, default="")
    note = models.CharField(max_length=4000, blank=True, default="")
    requirements = models.JSONField(default=dict)
    evidence = models.JSONField(default=list)
    tags = models.JSONField(default=list)
    seconds = models.PositiveIntegerField(null=True)
    submitted_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["slot", "number"], name="grade_number_once"),
            models.UniqueConstraint(fields=["slot"], condition=Q(current=True), name="one_current_grade_per_slot"),
            models.CheckConstraint(
                condition=Q(decision__isnull=True, integrity__isnull=True, acceptable__isnull=True)
                | Q(decision__isnull=False, integrity__isnull=False, acceptable__isnull=False),
                name="grade_decided_whole",
            ),
        ]
        indexes = [models.Index(fields=["reviewer", "-submitted_at"], name="grade_by_reviewer")]


class Attribution(models.Model):
    """What a reviewer said after the lock, having seen the verifier: E tags. The grade can no longer be changed."""

    grade = models.OneToOneField(Grade, on_delete=models.CASCADE, related_name="attribution")
    tags = models.JSONField(default=list)
    note = models.CharField(max_length=4000, blank=True, default="")
    opened_at = models.DateTimeField()
    submitted_at = models.DateTimeField(null=True)


class VerifierGuess(models.Model):
    """What a reviewer thinks the verifier said, asked of some slots after the grade."""

    slot = models.OneToOneField(Slot, on_delete=models.CASCADE, related_name="guess")
    guess = models.CharField(max_length=10)
    at = models.DateTimeField()


class Draft(models.Model):
    """What a reviewer has typed and not submitted; `kept` marks one whose slot someone else had finished meanwhile."""

    slot = models.ForeignKey(Slot, on_delete=models.CASCADE, related_name="drafts")
    reviewer = models.ForeignKey(USER, on_delete=models.CASCADE, related_name="+")
    content = models.JSONField(default=dict)
    kept = models.BooleanField(default=False)
    saved_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["slot", "reviewer"], name="draft_once")]


class Skip(models.Model):
    """A slot that someone gave back; `outside` means that it is not of their field."""

    slot = models.ForeignKey(Slot, on_delete=models.CASCADE, related_name="skipped")
    reviewer = models.ForeignKey(USER, on_delete=models.CASCADE, related_name="+")
    outside = models.BooleanField(default=False)
    reason = models.CharField(max_length=1000, blank=True, default="")
    at = models.DateTimeField()
    undone_at = models.DateTimeField(null=True)


class Flag(models.Model):
    """Something that a lead has to see before the slot goes on."""

    slot = models.ForeignKey(Slot, on_delete=models.CASCADE, related_name="flags")
    reviewer = models.ForeignKey(USER, on_delete=models.CASCADE, related_name="+")
    reason = models.CharField(max_length=1000)
    at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True)
    resolved_by = models.ForeignKey(USER, null=True, on_delete=models.SET_NULL, related_name="+")
    resolution = models.CharField(max_length=1000, blank=True, default="")


class ExclusionReason(models.TextChoices):
    """Why someone may no longer grade a trajectory or a task."""

    GRADED = "graded", "graded it already"
    SAW_VERDICT = "saw_verdict", "saw a verdict on this task"
    SAW_VERIFIER = "saw_verifier", "saw the verifier after a grade"


class Exclusion(models.Model):
    """One person who may not be given one trajectory, or any of one task."""

    user = models.ForeignKey(USER, on_delete=models.CASCADE, related_name="+")
    trajectory = models.ForeignKey(Trajectory, null=True, on_delete=models.CASCADE, related_name="+")
    task = models.ForeignKey(Task, null=True, on_delete=models.CASCADE, related_name="+")
    reason = models.CharField(max_length=15, choices=ExclusionReason.choices)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "trajectory"], condition=Q(trajectory__isnull=False), name="excluded_trajectory_once"
            ),
            models.UniqueConstraint(
                fields=["user", "task"], condition=Q(task__isnull=False), name="excluded_task_once"
            ),
            models.CheckConstraint(
                condition=Q(trajectory__isnull=True, task__isnull=False)
                | Q(trajectory__isnull=False, task__isnull=True),
                name="exclusion_of_one_thing",
            ),
        ]


class HeldOutPart(models.TextChoices):
    """Part of a held-out set: one to look at while building, one for the last word."""

    DEV = "dev", "dev"
    TEST = "test", "test"


class HeldOutSet(models.Model):
    """Tasks kept out of training, graded by people; `digest` is of the tasks' content digests and parts."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    version = models.ForeignKey(DatasetVersion, on_delete=models.CASCADE, related_name="held_out_sets")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64)
    refresh_on = models.DateField()
    created_by = models.ForeignKey(USER, null=True, on_delete=models.SET_NULL, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    retired_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["version", "name"], name="held_out_name_once")]


class HeldOutTask(models.Model):
    """A task of a held-out set; a task is in one set at most."""

    held_out = models.ForeignKey(HeldOutSet, on_delete=models.CASCADE, related_name="tasks")
    task = models.OneToOneField(Task, on_delete=models.PROTECT, related_name="held_out")
    part = models.CharField(max_length=5, choices=HeldOutPart.choices)
