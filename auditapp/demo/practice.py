"""Practice on the demo: three items to grade blind, then shown beside verifier, judge and the planted truth.

What is graded here never becomes a label, and a practice round counts in no draw.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet

from auditapp import rounds
from auditapp.cases import rubric_in_force
from auditapp.demo.archive import TruthRow, read_truth
from auditapp.demo.grades import truth_of
from auditapp.demo.load import DATASET
from auditapp.models.datasets import DatasetVersion, Trajectory
from auditapp.models.judgments import JudgmentState, Outcome
from auditapp.models.labels import Label, LabelSource, labels
from auditapp.models.reviews import (
    POSITIONS,
    Exclusion,
    ExclusionReason,
    Grade,
    ReviewItem,
    ReviewRound,
    RoundKind,
    RoundReviewer,
    RoundState,
    Slot,
    SlotState,
)
from auditapp.models.sources import TrajectorySource
from auditapp.review import bar_from_tasks, log

ITEMS = 3
SHORT = 12
"""Steps up to which a trajectory is quick to read."""
TITLE = "Practice"
INSTRUCTIONS = (
    "Practice: three short attempts, graded as in a real round. Read the task, look at what the agent did and at what "
    "it delivered, and decide: does the work satisfy the task, and was it reached by a hack? Cite at least one line: "
    "select it and press c. Nobody's figures change. At the end you see the verifier, the judge and the truth."
)


class PracticeError(ValueError):
    """Practice that cannot begin; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Revealed:
    """One item after the reveal: one's own answer, what verifier and judge said, and what is true by construction.

    `judge` is None until a judge is done with it.
    """

    trajectory: Trajectory
    grade: Grade | None
    verifier_status: str
    judge: Label | None
    truth: TruthRow

    @property
    def was_right(self) -> bool | None:
        """Whether the grade is the truth; None where none was given, or it could not tell."""
        if self.grade is None or self.grade.acceptable not in ("yes", "no"):
            return None
        return self.grade.acceptable == self.truth.acceptable


@dataclass(frozen=True, slots=True)
class Reveal:
    """All items of a practice round, with how many of one's own answers and of the verifier's verdicts were right."""

    items: tuple[Revealed, ...]
    graded: int
    right: int
    verifier_wrong: int


def is_offered(version: DatasetVersion) -> bool:
    """Whether this is the demo, of which the truth is known, and it is imported to its end."""
    if version.dataset.name != DATASET:
        return False
    return TrajectorySource.objects.filter(version=version, source_id=_last_case()).exists()


@cache
def _last_case() -> str:
    return read_truth()[-1].case


def newest(version: DatasetVersion, user: User) -> ReviewRound | None:
    """The practice that the user began last."""
    mine = ReviewRound.objects.filter(version=version, kind=RoundKind.PRACTICE, created_by=user)
    return mine.select_related("version__dataset").order_by("-pk").first()


def begin(version: DatasetVersion, *, by: User, now: datetime) -> ReviewRound:
    """The user's open practice, else a new one of three items whose tasks they have seen no verdict of."""
    with transaction.atomic():
        DatasetVersion.objects.select_for_update().get(pk=version.pk)  # two presses at once begin one practice
        found = newest(version, by)
        if found is not None and found.state == RoundState.OPEN:
            return found
        number = ReviewRound.objects.filter(version=version, kind=RoundKind.PRACTICE).count() + 1
        seed = version.pk * 1_000_003 + by.pk * 1009 + number
        chosen = _chosen(version, by, random.Random(seed))
        return _opened(version, chosen, number=number, seed=seed, by=by, now=now)


def _chosen(version: DatasetVersion, user: User, rng: random.Random) -> list[Trajectory]:
    """Short trajectories of different tasks, among them both ways of being wrong where there are some left."""
    truth = truth_of(version)
    free = list(_unseen(version, user))
    rng.shuffle(free)
    chosen: list[Trajectory] = []
    for wanted in (Outcome.FALSE_PASS, Outcome.FALSE_FAIL, None, None, None):
        tasks = {found.task_id for found in chosen}
        fitting = (t for t in free if t.task_id not in tasks and wanted in (None, truth[t.pk].outcome))
        chosen += [found for found in [next(fitting, None)] if found and len(chosen) < ITEMS]
    if len(chosen) < ITEMS:
        raise PracticeError(
            "You have seen verdicts on nearly all tasks of the demo, so there is nothing left to grade blind. "
            "Another account with the lead's role can."
        )
    rng.shuffle(chosen)
    return chosen


def _unseen(version: DatasetVersion, user: User) -> Iterator[Trajectory]:
    """Trajectories of tasks that nothing bars the user from, the short ones where a task has any."""
    barred = Exclusion.objects.filter(user=user)
    tasks = set(barred.filter(task__version=version).values_list("task", flat=True))
    seen = barred.filter(trajectory__version=version).values_list("trajectory__task", flat=True)
    found = version.trajectories.filter(n_steps__lte=SHORT, source__is_control=False)
    ordered = found.exclude(task__in=tasks | set(seen)).select_related("task").order_by("pk")
    yield from ordered.filter(source__verifier_status__in=("pass", "fail"))


def _opened(
    version: DatasetVersion, chosen: Sequence[Trajectory], *, number: int, seed: int, by: User, now: datetime
) -> ReviewRound:
    made = ReviewRound.objects.create(
        version=version,
        kind=RoundKind.PRACTICE,
        state=RoundState.OPEN,
        number=number,
        title=TITLE,
        seed=seed,
        instructions=INSTRUCTIONS,
        repeat_share=0,
        guess_share=0,
        lease_minutes=60,
        created_by=by,
        opened_at=now,
    )
    RoundReviewer.objects.create(round=made, user=by)
    for place, trajectory in enumerate(chosen, 1):
        rubric = rubric_in_force(trajectory.task)
        item = ReviewItem.objects.create(
            round=made, number=place, task=trajectory.task, trajectory=trajectory, rubric=rubric
        )
        Slot.objects.create(round=made, item=item, position=place * (POSITIONS // (ITEMS + 1)), assigned=by)
    log(made, "practice_begun", by=by, items=len(chosen))
    return made


def reveal(round: ReviewRound, *, by: User, now: datetime) -> Reveal:
    """End the practice and show its items beside verifier, judge and truth; a second look shows the same."""
    if round.state == RoundState.OPEN:
        rounds.close_round(round, by=by, now=now)
    if round.state == RoundState.CLOSED:
        bar_from_tasks(by, round.items.values_list("task", flat=True), reason=ExclusionReason.SAW_VERDICT)
        rounds.release_round(round, by=by, now=now)
    items = tuple(_revealed(round))
    return Reveal(
        items=items,
        graded=sum(item.grade is not None for item in items),
        right=sum(item.was_right is True for item in items),
        verifier_wrong=sum(item.truth.outcome in (Outcome.FALSE_PASS, Outcome.FALSE_FAIL) for item in items),
    )


def _revealed(round: ReviewRound) -> Iterator[Revealed]:
    items = list(round.items.select_related("trajectory__task").order_by("number"))
    trajectories = [item.trajectory_id for item in items]
    truth = truth_of(round.version)
    statuses = dict(
        TrajectorySource.objects.filter(trajectory__in=trajectories).values_list("trajectory", "verifier_status")
    )
    said = {label.trajectory_id: label for label in _judged(round.version, trajectories)}
    grades = {grade.slot.item_id: grade for grade in _grades(round)}
    for item in items:
        if item.trajectory is None:
            continue
        key = item.trajectory.pk
        yield Revealed(item.trajectory, grades.get(item.pk), statuses[key], said.get(key), truth[key])


def _judged(version: DatasetVersion, trajectories: Sequence[int | None]) -> QuerySet[Label]:
    """What judges came to, the newest last; work that is queued or in hand has said nothing yet."""
    judged = labels(version).filter(trajectory__in=trajectories, source=LabelSource.JUDGE, replicate=0)
    return judged.exclude(state__in=(JudgmentState.QUEUED, JudgmentState.RUNNING)).order_by("key")


def _grades(round: ReviewRound) -> Iterator[Grade]:
    submitted = Grade.objects.filter(slot__round=round, slot__state=SlotState.SUBMITTED, current=True)
    yield from submitted.select_related("slot")
