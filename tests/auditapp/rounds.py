"""Builds small review rounds row by row, for tests that begin once a round is open."""

import random
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User

from auditapp.grading import Answers, submit_grade
from auditapp.models.datasets import DatasetVersion, Membership, Role, Trajectory
from auditapp.models.reviews import POSITIONS, Grade, ReviewItem, ReviewRound, RoundReviewer, RoundState, Slot

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
CITED = {"kind": "step", "target": "1", "part": "message", "item": 1, "line_start": 1, "line_end": 1, "quote": "done"}


def make_reviewers(version: DatasetVersion, *names: str, role: str = Role.REVIEWER) -> list[User]:
    """Members of the dataset with this role."""
    users = [User.objects.get_or_create(username=name)[0] for name in names]
    for user in users:
        Membership.objects.get_or_create(dataset=version.dataset, user=user, defaults={"role": role})
    return users


def make_round(
    trajectories: Sequence[Trajectory], users: Sequence[User], *, copies: int = 1, seed: int = 7, **fields: Any
) -> ReviewRound:
    """An open round over these trajectories, each with so many slots."""
    version = trajectories[0].version
    fields = {"title": "Round", "state": RoundState.OPEN, "guess_share": 0, "repeat_share": 0, **fields}
    fields.setdefault("number", version.rounds.count() + 1)
    opened = ReviewRound.objects.create(version=version, seed=seed, **fields)
    drawn = random.Random(seed)
    for user in users:
        RoundReviewer.objects.create(round=opened, user=user, cursor=drawn.randrange(POSITIONS))
    items = [
        ReviewItem(round=opened, number=number, trajectory=found, task=found.task, rubric=found.task.rubrics.last())
        for number, found in enumerate(trajectories, 1)
    ]
    slots = [
        Slot(round=opened, item=item, copy=copy, position=drawn.randrange(POSITIONS))
        for item in ReviewItem.objects.bulk_create(items)
        for copy in range(copies)
    ]
    Slot.objects.bulk_create(slots)
    return opened


def good(**changes: Any) -> Answers:
    """An answer that a blind round accepts."""
    return Answers(**{"decision": "satisfied", "integrity": "none", "evidence": [CITED], "seconds": 60, **changes})


def grade(slot: Slot, by: User, *, now: datetime = NOW, **changes: Any) -> Grade:
    """Submit `good` for a held slot."""
    return submit_grade(slot, good(**changes), token=uuid.uuid4(), by=by, now=now)
