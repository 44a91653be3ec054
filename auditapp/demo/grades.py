"""Grades of the demo by scripted reviewers, who know the planted truth and err in a known share of their answers.

They go through the same queue as people do. The round, its title and its reviewers say that they are scripted.
"""

import hashlib
import uuid
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.utils import timezone

from auditapp import blobs, rounds
from auditapp.demo.archive import TruthRow, read_truth
from auditapp.grading import Answers, submit_grade
from auditapp.models.datasets import DatasetVersion, Membership, Role, Trajectory
from auditapp.models.judgments import JudgeRun
from auditapp.models.reviews import ReviewRound, RoundState, Slot
from auditapp.models.sources import TrajectorySource
from auditapp.review import claim_next_slot
from auditapp.rounds import RoundPlan, RoundSettings

TITLE = "Scripted grades of the demo"
REVIEWERS = ("scripted-reviewer-1", "scripted-reviewer-2", "scripted-reviewer-3")
SIZE, OVERLAP, SEED = 160, 0.25, 20261130
ERROR = 0.05
"""Share of a scripted reviewer's answers that are the opposite of the truth."""
NOTE = (
    f"Made by a script that knows the planted truth and gives the opposite in {ERROR:.0%} of its answers. "
    "No person has graded this."
)
_OPPOSITE = {"yes": "not_satisfied", "no": "satisfied"}
_QUOTE = 300


@dataclass(frozen=True, slots=True)
class _Script:
    """What a scripted reviewer goes by: the truth of each trajectory, by its row id."""

    truth: dict[int, TruthRow]

    def answer(self, slot: Slot, by: User) -> Answers:
        """The truth, or its opposite where this reviewer errs on this item."""
        trajectory = Trajectory.objects.get(pk=slot.item.trajectory_id or 0)
        row = self.truth[trajectory.pk]
        errs = _chance(f"{slot.round.seed}|{slot.item.number}|{slot.role}|{by.get_username()}") < ERROR
        decision = _OPPOSITE[row.acceptable] if errs else row.decision
        satisfied = decision == "satisfied"
        rubric = slot.item.rubric.requirements if slot.item.rubric else []
        return Answers(
            decision=decision,
            integrity="none" if errs else row.integrity,
            confidence="medium",
            note=NOTE,
            requirements={item["id"]: "met" for item in rubric} if satisfied else {},
            evidence=[_quote(trajectory)],
            tags=() if satisfied else [tag for tag in row.tags if tag.startswith("C")],
        )


def _chance(material: str) -> float:
    """A number from 0 to 1 that is the same each time."""
    return int.from_bytes(hashlib.sha256(material.encode()).digest()[:8], "big") / 2**64


def _quote(trajectory: Trajectory) -> dict[str, object]:
    """The first line of the agent's last message: what a script can cite without reading."""
    steps = list(blobs.BlobSteps(trajectory.steps_blob or "").iterate())
    last = next(step for step in reversed(steps) if step.message.strip())
    number, line = next((n, line) for n, line in enumerate(last.message.split("\n"), 1) if line.strip())
    place = {"kind": "step", "target": last.locator, "part": "message", "item": 1}
    return {**place, "line_start": number, "line_end": number, "quote": line[:_QUOTE], "ok": True, "result": "exact"}


def grade_demo(run: JudgeRun) -> ReviewRound:
    """A released round of scripted grades over the sample of `run`; what is there already is gone on with."""
    version = run.sample.frame.version
    round = ReviewRound.objects.filter(version=version, is_scripted=True).first() or _draw(run, version)
    if round.state == RoundState.DRAWN:
        rounds.open_round(round, by=None, now=timezone.now())
    if round.state == RoundState.OPEN:
        script = _Script(truth_of(version))
        _grade_all(round, script)
        rounds.create_adjudications(round, by=None)
        _grade_all(round, script)
        rounds.close_round(round, by=None, now=timezone.now())
    rounds.release_round(round, by=None, now=timezone.now())
    return round


def _draw(run: JudgeRun, version: DatasetVersion) -> ReviewRound:
    return rounds.draw_round(
        version,
        sample=run.sample,
        config=run.config,
        plan=RoundPlan(size=SIZE, overlap=OVERLAP),
        reviewers=_reviewers(version),
        title=TITLE,
        seed=SEED,
        by=None,
        settings=RoundSettings(instructions=NOTE, repeat_share=0, guess_share=0, is_scripted=True),
    )


def _reviewers(version: DatasetVersion) -> list[User]:
    """Accounts that nobody can log in to."""
    users = []
    for name in REVIEWERS:
        user, created = User.objects.get_or_create(username=name)
        if created:
            user.set_unusable_password()
            user.save()
        Membership.objects.get_or_create(dataset=version.dataset, user=user, defaults={"role": Role.REVIEWER})
        users.append(user)
    return users


def truth_of(version: DatasetVersion) -> dict[int, TruthRow]:
    """What is known of each trajectory by construction, by its row id."""
    rows = {row.case: row for row in read_truth()}
    sources = TrajectorySource.objects.filter(version=version).values_list("trajectory_id", "source_id")
    return {trajectory: rows[source_id] for trajectory, source_id in sources}


def _grade_all(round: ReviewRound, script: _Script) -> None:
    """Each reviewer in turn takes slots until there is none for them."""
    users = list(User.objects.filter(round_places__round=round).order_by("username"))
    while users:
        for user in list(users):
            slot = claim_next_slot(round, by=user, now=timezone.now())
            if not isinstance(slot, Slot):
                users.remove(user)
                continue
            token = uuid.uuid5(slot.public_id, user.get_username())
            submit_grade(slot, script.answer(slot, user), token=token, by=user, now=timezone.now())
