"""Nothing hidden reaches who grades blind: markers in every hidden field, and every address there is, walked.

The addresses come from the resolver, so that a page made tomorrow is walked too. An id is that of a row of the kind the
address is of, and where the kind is not known here, of a row of every kind: what a guess could at best hit.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import models
from django.urls import reverse

from auditapp import blobs, judging, rounds
from auditapp.models.datasets import DatasetVersion, Membership, Role, Task, Trajectory
from auditapp.models.judgments import JudgeConfig, JudgeRun, Judgment, ProviderCall
from auditapp.models.labels import ImportedLabel
from auditapp.models.reviews import Grade, ReviewRound, RoundKind, RoundState, Slot
from auditapp.models.sources import ImportBatch, TaskSource, TrajectorySource
from auditapp.review import claim_next_slot
from auditapp.rounds import RoundPlan, RoundSettings
from judges.safefs import MemoryTree
from tests.auditapp.looks import GOOD, answer, make_run, make_world
from tests.auditapp.rounds import NOW, grade, make_reviewers
from tests.auditapp.walk import client_of, files_of, paths

__all__ = ["answer"]
pytestmark = [pytest.mark.django_db, pytest.mark.slow]
MARK = "XHIDDENX"
MARKS = (MARK, "0.8125")
COLLEAGUE = "XCOLLEAGUEX"  # whom a lead assigns, and a reviewer does not know
MEANT = ("source_id", "provider", "source")  # unique, or read by the code
QUERIES = ("", "?root=reference", "?against=reference", "?path=answer.txt&root=initial", "?q=hidden", "?version=1")


@dataclass(frozen=True)
class World:
    """A judged dataset with a blind round: `blind` reviews, `lead` leads and reviews, `other` has graded already."""

    version: DatasetVersion
    round: ReviewRound
    blind: User
    lead: User
    other: User


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Thousands of refusals are what is wanted here, not news for the log."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def world(answer: Callable[..., Any]) -> World:
    version = make_world(3, tasks=2)
    blind, other = make_reviewers(version, "blind", COLLEAGUE)
    (lead,) = make_reviewers(version, "lead", role=Role.LEAD)
    run = _judged(version, answer)
    _mark(version)
    drawn = rounds.draw_round(
        version,
        sample=run.sample,
        config=run.config,
        plan=RoundPlan(size=6, overlap=1, floor=1),
        reviewers=[blind, lead, other],
        title="Round",
        seed=3,
        by=lead,
        settings=RoundSettings(instructions="Read it.", guess_share=1, repeat_share=0),
    )
    rounds.open_round(drawn, by=lead, now=NOW)
    for _ in range(2):
        slot = claim_next_slot(drawn, by=other, now=NOW)
        assert isinstance(slot, Slot)
        grade(slot, other, note=f"{MARK}-grade", tags=["C02"])
    return World(version, drawn, blind, lead, other)


def _judged(version: DatasetVersion, answer: Callable[..., Any]) -> JudgeRun:
    run = make_run(version)
    answer(GOOD)
    for judgment in judging.queued_ids(run):
        judging.execute_judgment(judgment)
    return run


def _mark(version: DatasetVersion) -> None:
    """A marker in every text of the rows that blind people may not see, and in the trees these name."""
    tree = blobs.put_tree(MemoryTree({"answer.txt": f"{MARK}-tree".encode(), f"{MARK}-name.txt": b"x"}))
    for task in Task.objects.filter(version=version):
        TaskSource.objects.update_or_create(task=task, defaults={"verifier_tree": tree})
    Task.objects.filter(version=version).update(reference_tree=tree)
    TrajectorySource.objects.update(verifier_tree=tree, original_tree=tree, reward=0.8125, cost_usd=Decimal("0.8125"))
    for model in (TrajectorySource, ImportBatch, JudgeConfig, Judgment, ProviderCall):
        _mark_texts(model)
    for number, trajectory in enumerate(Trajectory.objects.filter(version=version)):
        TrajectorySource.objects.filter(trajectory=trajectory).update(source_id=f"{MARK}-source-{number}")
        ImportedLabel.objects.create(
            version=version,
            trajectory=trajectory,
            kind="judge",
            labeler=f"{MARK}-labeler",
            decision="satisfied",
            acceptable="yes",
            note=f"{MARK}-note",
        )


def _mark_texts(model: type[models.Model]) -> None:
    """Free texts only: digests, states and choices mean something."""
    for field in model._meta.concrete_fields:
        free = isinstance(field, models.CharField | models.TextField) and not field.choices and not field.unique
        if (
            free
            and field.name not in MEANT
            and "sha256" not in field.name
            and "blob" not in field.name
            and "tree" not in field.name
        ):
            model._default_manager.update(**{field.name: f"{MARK}-{field.name}"[: field.max_length or 60]})


# --- what is seen


def _marks(world: World, user: User) -> tuple[str, ...]:
    return (*MARKS, COLLEAGUE) if user == world.blind else MARKS


def _seen(answer: Any, asked: str, marks: tuple[str, ...]) -> list[str]:
    """Where a marker shows in an answer: body, headers or address."""
    body = b"".join(answer.streaming_content) if answer.streaming else answer.content
    texts = {"body": body.decode("utf-8", "replace"), "headers": str(answer.headers), "address": asked}
    assert answer.status_code < 500, (asked, answer.status_code)
    return [
        f"{asked}: {where}: …{text[max(0, at - 80) : at + 40]}…"
        for where, text in texts.items()
        for mark in marks
        if (at := text.find(mark)) >= 0
    ]


def _walk(world: World, user: User) -> list[str]:
    """What leaks to a user over GET; of what opens also as files, with htmx and with the queries that ask for more."""
    client, found, marks = client_of(user), [], _marks(world, user)
    for name, path in paths(world.version):
        answer = client.get(path)
        found += _seen(answer, path, marks)
        if answer.status_code == 200:
            told = [(table.name, str(table)) for table in files_of(client, path)]
            found += [f"{path}?csv={name}: {mark}" for name, text in told for mark in marks if mark in text]
        for query in QUERIES if name.startswith("review-") and answer.status_code == 200 else ():
            found += _seen(client.get(path + query, headers={"HX-Request": "true"}), path + query, marks)
    return found


def _posts(world: World, user: User) -> list[str]:
    client, marks = client_of(user), _marks(world, user)
    skipped = {"round-steer", "round-flag", "review-after", "password_change"}  # what they do is tested by itself
    asked = [path for name, path in paths(world.version) if name not in skipped]
    return [leak for path in asked for leak in _seen(client.post(path), f"POST {path}", marks)]


@pytest.mark.parametrize("who", ["blind", "lead"])
def test_no_address_shows_what_is_hidden_from_who_grades(world: World, who: str) -> None:
    user = getattr(world, who)
    slot = claim_next_slot(world.round, by=user, now=NOW)
    assert isinstance(slot, Slot)
    for state in (RoundState.OPEN, RoundState.CLOSED):
        ReviewRound.objects.update(state=state)
        assert _walk(world, user) == [], state


@pytest.mark.parametrize("who", ["blind", "lead"])
def test_no_post_answers_with_what_is_hidden(world: World, who: str) -> None:
    user = getattr(world, who)
    claim_next_slot(world.round, by=user, now=NOW)
    assert _posts(world, user) == []


def test_the_markers_are_where_they_would_be_seen(world: World) -> None:
    """A viewer who grades nothing does see them: the walk would find a leak."""
    (viewer,) = make_reviewers(world.version, "viewer", role=Role.VIEWER)
    leaks = " ".join(_walk(world, viewer))
    for page in ("/t/", "/labels/", "/runs/", "/trajectories/", "/verifier/", "/configs/"):
        assert page in leaks


@pytest.mark.parametrize("who", ["blind", "lead"])
def test_slots_and_grades_of_others_do_not_exist(world: World, who: str) -> None:
    user = getattr(world, who)
    client = client_of(user)
    for slot in Slot.objects.exclude(reviewer=user):
        for name in ("review-slot", "review-task", "review-deliverable", "review-draft", "review-submit"):
            path = reverse(name, args=[slot.public_id])
            assert {client.get(path).status_code, client.post(path).status_code} <= {404, 405}, path


def test_a_reviewer_of_another_dataset_finds_nothing(world: World) -> None:
    stranger = User.objects.create(username="stranger")
    other = make_world(1, name="elsewhere")
    Membership.objects.create(dataset=other.dataset, user=stranger, role=Role.LEAD)
    client = client_of(stranger)
    pages = [path for name, path in paths(world.version) if "/review" in path and name != "review"]
    assert pages
    assert {client.get(path).status_code for path in pages} <= {404, 405}


def test_once_released_a_lead_sees_it_all_again(world: World) -> None:
    client = client_of(world.lead)
    page = reverse("labels", args=[world.version.dataset.name])
    assert client.get(page).status_code == 403
    rounds.close_round(world.round, by=world.lead, now=NOW)
    assert client.get(page).status_code == 403
    rounds.release_round(world.round, by=world.lead, now=NOW)
    assert MARK in client.get(page).content.decode()
    assert Grade.objects.filter(slot__round__kind=RoundKind.BLIND).exists()
