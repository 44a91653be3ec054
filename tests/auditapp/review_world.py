"""A round of blind review in miniature: items of one task, two reviewers, an open queue."""

from datetime import UTC, datetime
from typing import Any

from django.contrib.auth.models import User

from auditapp.models.datasets import DatasetVersion, Membership, Role, Trajectory
from auditapp.models.reviews import ReviewItem, ReviewRound, RoundReviewer, Slot

NOW = datetime(2026, 11, 29, 14, 3, 22, tzinfo=UTC)


def make_round(version: DatasetVersion, *reviewers: User, **fields: Any) -> ReviewRound:
    """An open round without items."""
    defaults = {"number": version.rounds.count() + 1, "title": "First round", "seed": 1, "state": "open"}
    made = ReviewRound.objects.create(version=version, **{**defaults, "opened_at": NOW, **fields})
    for user in reviewers:
        RoundReviewer.objects.create(round=made, user=user)
    return made


def add_item(round: ReviewRound, trajectory: Trajectory, *, slots: int = 1, **fields: Any) -> list[Slot]:
    """An item with so many slots, after those that are there."""
    number = round.items.count() + 1
    rubric = trajectory.task.rubrics.order_by("-number").first()
    item = ReviewItem.objects.create(
        round=round, number=number, task=trajectory.task, trajectory=trajectory, rubric=rubric
    )
    return [
        Slot.objects.create(round=round, item=item, copy=copy, position=number * 10 + copy, **fields)
        for copy in range(slots)
    ]


def make_reviewer(version: DatasetVersion, name: str) -> User:
    """A reviewer of the dataset."""
    user = User.objects.create_user(name, password="not used")
    Membership.objects.create(dataset=version.dataset, user=user, role=Role.REVIEWER)
    return user
