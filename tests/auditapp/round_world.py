"""A judged release with reviewers, and grades given through the queue, for tests of rounds."""

import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User

from auditapp import grading, judging, review, rounds
from auditapp.models.datasets import DatasetVersion, Membership, Role, Trajectory
from auditapp.models.judgments import JudgeConfig, JudgeRun, Judgment, JudgmentState
from auditapp.models.reviews import ReviewRound, Slot
from auditapp.models.samples import Sample
from auditapp.sampling import draw_sample, freeze_frame
from auditapp.stats.allocation import Plan
from judges.config import JudgeConfig as Config
from judges.outcome import outcome
from tests.auditapp.population import add_trajectory, make_task, make_version

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
CITED = {"kind": "step", "target": "2", "part": "observation", "item": 1, "quote": "42"}
Answer = Callable[[Trajectory], str | None]


def make_release(*, tasks: int = 5, each: int = 8, name: str = "release") -> DatasetVersion:
    """Trajectories of two models on a few tasks; a task's first half passed, the rest failed."""
    version = make_version(name)
    for number in range(tasks):
        task = make_task(version, f"task {number}", environment=f"env {number % 2}")
        for place in range(each):
            status = "pass" if place < each // 2 else "fail"
            add_trajectory(task, f"t{number}-{place}", status, model="ab"[place % 2])
    return version


def said(trajectory: Trajectory) -> str | None:
    """A judge that mostly agrees with the verifier, sometimes not, and sometimes gives up."""
    place = int(trajectory.source.source_id.rpartition("-")[2])
    agrees = "yes" if trajectory.source.verifier_status == "pass" else "no"
    return {1: "no" if agrees == "yes" else "yes", 2: None, 6: "yes"}.get(place, agrees)


def make_judged(version: DatasetVersion, answer: Answer = said) -> tuple[Sample, JudgeConfig]:
    """A census of the version, each unit with a judgment that says `answer`, None being a failed one."""
    sample = draw_sample(freeze_frame(version, by=None), Plan("census"), seed=0, by=None)
    config = judging.ensure_config(
        Config(name="test judge", provider="scripted", script=__file__, sandbox="none"), by=None
    )
    run = JudgeRun.objects.create(sample=sample, config=config, state="done", planned=sample.size)
    for unit in sample.units.select_related("trajectory__source"):
        _judge(run, unit.trajectory, answer(unit.trajectory))
    return sample, config


def _judge(run: JudgeRun, trajectory: Trajectory, accepted: Any) -> None:
    decided: dict[str, Any] = {"state": JudgmentState.FAILED, "reason": "max_turns"}
    if accepted is not None:
        decision = {"yes": "satisfied", "no": "not_satisfied", "unknown": "cannot_tell"}[accepted]
        status: Any = trajectory.source.verifier_status
        result, why = outcome(status, accepted, partial_as="exclude")
        decided = {"state": JudgmentState.COMPLETED, "decision": decision, "integrity": "none", "acceptable": accepted}
        decided |= {"outcome": result, "outcome_reason": why}
    Judgment.objects.create(
        run=run,
        config=run.config,
        version=trajectory.version,
        trajectory=trajectory,
        content_sha256=trajectory.content_sha256,
        **decided,
    )


def make_people(version: DatasetVersion, *names: str, role: str = Role.REVIEWER) -> list[User]:
    """Members of the dataset."""
    users = [User.objects.create_user(name, password="not used") for name in names]
    Membership.objects.bulk_create(Membership(dataset=version.dataset, user=user, role=role) for user in users)
    return users


def make_round(
    version: DatasetVersion, people: list[User], *, size: int = 20, opened: bool = True, **more: Any
) -> ReviewRound:
    """A blind round over a judged census, open unless said otherwise."""
    sample = Sample.objects.filter(frame__version=version).first()
    sample, config = (sample, JudgeConfig.objects.first()) if sample else make_judged(version)
    plan = more.pop("plan", rounds.RoundPlan(size=size))
    made = rounds.draw_round(
        version, sample=sample, config=config, plan=plan, reviewers=people, title="Round", by=None, **{"seed": 7} | more
    )
    if opened:
        rounds.open_round(made, by=None, now=NOW)
    return made


def grade(slot: Slot, user: User, decision: str = "satisfied", integrity: str = "none", **more: Any) -> Any:
    """One blind answer with a citation."""
    answers = grading.Answers(
        decision=decision, integrity=integrity, evidence=[CITED], **{"confidence": "high", "seconds": 60} | more
    )
    return grading.submit_grade(slot, answers, token=uuid.uuid4(), by=user, now=NOW + timedelta(minutes=1))


def work_off(
    made: ReviewRound, people: Iterable[User], decide: Callable[[Slot, User], str], *, most: int = 1000
) -> int:
    """Let everyone in turn grade until nobody has anything left; returns how many grades were given."""
    given, waiting = 0, list(people)
    while waiting and given < most:
        user = waiting.pop(0)
        slot = review.claim_next_slot(made, by=user, now=NOW)
        if isinstance(slot, Slot):
            grade(slot, user, decide(slot, user))
            given += 1
            waiting.append(user)
    return given
