"""Rounds: what is drawn with which probability, how a round goes on, and what becomes of its grades."""

import math
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from auditapp import blobs, relabel, review, rounds
from auditapp.cases import add_rubric
from auditapp.counters import Counts
from auditapp.grading import Late
from auditapp.models.datasets import DatasetVersion, RubricOrigin
from auditapp.models.events import AuditEvent
from auditapp.models.judgments import Judgment
from auditapp.models.labels import ImportedLabel, labels
from auditapp.models.reviews import (
    POSITIONS,
    Exclusion,
    Grade,
    ReviewItem,
    ReviewRound,
    RoundReviewer,
    RoundState,
    Slot,
    SlotState,
)
from auditapp.models.rounds import ItemDraw, ReviewLabel, RoundDraw, RoundStratum
from auditapp.models.sources import TrajectorySource
from auditapp.round_draws import select
from auditapp.sampling import draw_keys, draw_sample, freeze_frame
from auditapp.stats.allocation import AllocationError, Plan
from judges.outcome import outcome
from judges.rubric import Requirement
from tests.auditapp.population import add_trajectory, make_task
from tests.auditapp.round_world import NOW, grade, make_judged, make_people, make_release, make_round, work_off

pytestmark = pytest.mark.django_db


@pytest.fixture
def version() -> DatasetVersion:
    return make_release()


def group_of(item: ItemDraw) -> tuple[str, str]:
    return item.stratum.stratum.verifier_status, item.stratum.answer


# --- the draw


def test_every_item_has_the_probability_of_its_cell(version: DatasetVersion) -> None:
    made = make_round(version, make_people(version, "ann", "bob"))
    drawn = Counter(ItemDraw.objects.filter(item__round=made).values_list("stratum", flat=True))
    cells = RoundStratum.objects.filter(draw__round=made)
    assert sum(drawn.values()) == made.items.count() == 20
    assert {cell.pk: cell.drawn for cell in cells if cell.drawn} == dict(drawn)
    for item in ItemDraw.objects.filter(item__round=made).select_related("stratum"):
        assert item.inclusion_probability == pytest.approx(item.stratum.drawn / item.stratum.size)
    weights = sum(1 / item.inclusion_probability for item in ItemDraw.objects.filter(item__round=made))
    assert weights == pytest.approx(sum(cell.size for cell in cells if cell.drawn))


def test_a_cell_holds_what_the_judge_said_then(version: DatasetVersion) -> None:
    made = make_round(version, make_people(version, "ann", "bob"))
    for item in ItemDraw.objects.filter(item__round=made).select_related("item", "stratum__stratum"):
        look = Judgment.objects.get(trajectory=item.item.trajectory)
        assert item.stratum.answer == (look.acceptable or "unknown")
        assert item.stratum.stratum.verifier_status == look.trajectory.source.verifier_status


def test_all_three_answers_are_drawn_even_when_there_is_no_room_for_every_cell(version: DatasetVersion) -> None:
    make_round(version, make_people(version, "ann", "bob"), size=6)
    found = {group_of(item) for item in ItemDraw.objects.select_related("stratum__stratum")}
    assert found == {(status, answer) for status in ("pass", "fail") for answer in ("yes", "no", "unknown")} - {
        ("fail", "unknown")
    }


@pytest.mark.parametrize("overlap", [0.0, 0.2, 0.5, 1.0])
def test_every_verifier_by_judge_cell_is_doubled_by_its_share_rounded_up(
    version: DatasetVersion, overlap: float
) -> None:
    plan = rounds.RoundPlan(size=20, overlap=overlap)
    made = make_round(version, make_people(version, "ann", "bob"), plan=plan)
    slots = Counter(Slot.objects.filter(round=made).values_list("item", flat=True))
    drawn: Counter[Any] = Counter()
    doubled: Counter[Any] = Counter()
    for item in ItemDraw.objects.select_related("stratum__stratum"):
        drawn[group_of(item)] += 1
        doubled[group_of(item)] += slots[item.pk] == 2
    assert {key: doubled[key] for key in drawn} == {key: math.ceil(overlap * n - 1e-9) for key, n in drawn.items()}
    assert sum(RoundStratum.objects.values_list("twice", flat=True)) == sum(doubled.values())


def test_a_draw_is_recomputed_from_its_manifest_and_seed(version: DatasetVersion) -> None:
    made = make_round(version, make_people(version, "ann", "bob"))
    digest = RoundDraw.objects.get(round=made).plan["manifest"]
    manifest = blobs.get_json(digest)
    strata = {(cell.stratum.number, cell.answer): cell for cell in RoundStratum.objects.select_related("stratum")}
    chosen = set()
    for number, cell in enumerate(manifest["cells"], 1):
        keys = draw_keys(digest, made.seed, number, len(cell["units"])).tolist()
        wanted = strata[cell["stratum"], cell["answer"]].drawn
        chosen |= {unit for _, unit in sorted(zip(keys, cell["units"], strict=True))[:wanted]}
    assert chosen == set(made.items.values_list("trajectory__source__source_id", flat=True))


def test_another_seed_draws_another_part_and_the_same_one_the_same(version: DatasetVersion) -> None:
    sample, config = make_judged(version)
    planned = rounds.plan_round(sample, config, rounds.RoundPlan(size=20))
    drawn = [[one.unit.source_id for one in select(planned, seed)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    assert set(drawn[0]) != set(drawn[2])


def test_every_unit_of_a_cell_is_drawn_equally_often(version: DatasetVersion) -> None:
    sample, config = make_judged(version)
    planned = rounds.plan_round(sample, config, rounds.RoundPlan(size=20))
    times = Counter(one.unit.source_id for seed in range(600) for one in select(planned, seed))
    for part in planned.cells:
        expected = 600 * part.draw / len(part.cell.units) if part.cell.units else 0
        spread = math.sqrt(expected * (1 - expected / 600)) if expected else 0
        for unit in part.cell.units:
            assert abs(times[unit.source_id] - expected) <= 4.5 * spread + 1e-9


def test_order_position_and_number_tell_nothing_of_the_stratum(version: DatasetVersion) -> None:
    made = make_round(version, make_people(version, "ann", "bob"), size=40, plan=rounds.RoundPlan(size=40))
    ordered = [item.trajectory.source.verifier_status for item in made.items.order_by("number")]  # type: ignore[union-attr]
    assert 0 < ordered[:20].count("pass") < 20
    places = list(Slot.objects.filter(round=made).values_list("position", flat=True))
    assert len(set(places)) == len(places)
    assert all(0 <= place < POSITIONS for place in places)
    cursors = RoundReviewer.objects.filter(round=made).values_list("cursor", flat=True)
    assert len(set(cursors)) == 2


def asked_for(made: ReviewRound) -> set[str]:
    """The requirements of its items, in words."""
    return {row["text"] for item in made.items.select_related("rubric") for row in item.rubric.requirements}  # type: ignore[union-attr]


def test_people_answer_the_version_of_the_requirements_that_the_lead_chose(version: DatasetVersion) -> None:
    sample = make_judged(version, lambda _: "yes")[0]
    for task in version.tasks.all():
        task.rubrics.all().delete()
        for number, text in enumerate(("as shipped", "as judged", "as edited since"), 1):
            add_rubric(task, [Requirement("R1", text)], number=number, origin=RubricOrigin.EDITED, by=None)
        judged = task.rubrics.get(number=2).digest
        Judgment.objects.filter(trajectory__task=task).update(provenance={"rubric": judged})
    people = make_people(version, "ann", "bob")
    made = {
        choice: make_round(version, people, plan=rounds.RoundPlan(size=6, rubric=choice, regrade=True))
        for choice in ("newest", "judged", "first")
    }
    asked = {choice: asked_for(found) for choice, found in made.items()}
    assert asked == {"newest": {"as edited since"}, "judged": {"as judged"}, "first": {"as shipped"}}
    rounds.extend_round(made["judged"], size=4, by=None)
    assert made["judged"].items.count() == 10
    assert asked_for(made["judged"]) == {"as judged"}
    Judgment.objects.update(provenance={})
    unknown = make_round(version, people, plan=rounds.RoundPlan(size=7, rubric="judged", regrade=True))
    assert asked_for(unknown) == {"as edited since"}
    with pytest.raises(rounds.RoundError, match="Choose a judge"):
        rounds.plan_round(sample, None, rounds.RoundPlan(size=6, rubric="judged"))


def test_a_round_that_was_drawn_before_there_was_a_choice_can_be_extended(version: DatasetVersion) -> None:
    made = make_round(version, make_people(version, "ann", "bob"), size=6)
    draw = RoundDraw.objects.get(round=made)
    del draw.plan["asked"]["rubric"]
    draw.save()
    assert rounds.extend_round(made, size=4, by=None) == 4


def test_shares_of_repeats_and_guesses(version: DatasetVersion) -> None:
    settings = rounds.RoundSettings(repeat_share=0.25, guess_share=0.5)
    made = make_round(version, make_people(version, "ann", "bob"), settings=settings)
    assert made.items.filter(repeats=True).count() == 5
    assert Slot.objects.filter(asks_guess=True).count() == round(0.5 * Slot.objects.count())


def test_neyman_draws_more_where_judge_and_verifier_differ(version: DatasetVersion) -> None:
    sample, config = make_judged(version)
    plan = rounds.RoundPlan(size=20, method="neyman", floor=1)
    planned = rounds.plan_round(sample, config, plan)
    flat = rounds.plan_round(sample, config, rounds.RoundPlan(size=20, floor=1))
    share = {group.answer: group.draw / group.size for group in planned.groups if group.status == "pass"}
    assert share["no"] > share["yes"]
    assert planned.items == flat.items == 20
    assert all(part.share is not None for part in planned.cells)


def test_earlier_human_labels_move_the_expected_share(version: DatasetVersion) -> None:
    sample, config = make_judged(version)
    plan = rounds.RoundPlan(size=10, method="neyman", floor=1, regrade=True)
    before = {part.cell.group: part.share for part in rounds.plan_round(sample, config, plan).cells}
    for look in Judgment.objects.filter(outcome="true_pass"):
        ImportedLabel.objects.create(
            version=version, trajectory=look.trajectory, kind="human", labeler="x", decision="not_satisfied",
            integrity="none", acceptable="no",
        )  # fmt: skip
    after = {part.cell.group: part.share for part in rounds.plan_round(sample, config, plan).cells}
    assert after["pass", "yes"] > 0.5 > before["pass", "yes"]  # type: ignore[operator]
    assert after["fail", "no"] == before["fail", "no"]


def test_what_people_labeled_or_grade_now_is_left_out_unless_asked_for(version: DatasetVersion) -> None:
    people = make_people(version, "ann", "bob")
    first = make_round(version, people)
    sample, config = first.version.frames.get().samples.get(), Judgment.objects.first().config  # type: ignore[union-attr]
    rest = rounds.plan_round(sample, config, rounds.RoundPlan(size=20))
    assert sum(len(part.cell.units) for part in rest.cells) == 20
    assert sum(part.cell.left_out for part in rest.cells) == 20
    assert RoundDraw.objects.get().plan["asked"]["regrade"] is False
    again = rounds.plan_round(sample, config, rounds.RoundPlan(size=20, regrade=True))
    assert sum(len(part.cell.units) for part in again.cells) == 40


def test_a_round_without_any_judge_has_the_strata_as_cells(version: DatasetVersion) -> None:
    sample = draw_sample(freeze_frame(version, by=None), Plan("census"), seed=0, by=None)
    made = rounds.draw_round(
        version, sample=sample, config=None, plan=rounds.RoundPlan(size=16), reviewers=make_people(version, "a", "b"),
        title="cold", seed=1, by=None,
    )  # fmt: skip
    assert set(RoundStratum.objects.values_list("answer", flat=True)) == {""}
    assert made.items.count() == 16
    assert sample.draws.count() == RoundStratum.objects.count()


def test_rounds_are_numbered_and_a_second_press_draws_nothing(version: DatasetVersion) -> None:
    people = make_people(version, "ann", "bob")
    first = make_round(version, people, opened=False)
    assert make_round(version, people, opened=False) == first
    second = make_round(version, people, opened=False, size=5, seed=8)
    assert (first.number, second.number) == (1, 2)
    rounds.discard_round(second, by=None)
    assert make_round(version, people, opened=False, size=5, seed=9).number == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 41}, "40 trajectories can be drawn"),
        ({"size": 0}, "0 were asked for"),
        ({"size": 4}, "4 are too few: 5 cells"),
        ({"seed": -1}, "A seed is"),
        ({"people": 1}, "needs two reviewers"),
        ({"people": 0}, "at least one reviewer"),
    ],
)
def test_a_round_that_cannot_be_drawn_says_why(version: DatasetVersion, change: dict[str, Any], message: str) -> None:
    people = make_people(version, "ann", "bob")[: change.get("people", 2)]
    with pytest.raises((rounds.RoundError, AllocationError), match=message):
        make_round(version, people, size=change.get("size", 20), seed=change.get("seed", 7))
    assert not RoundDraw.objects.exists()


def test_a_stranger_is_no_reviewer(version: DatasetVersion) -> None:
    stranger = make_people(make_release(name="other", tasks=1), "eve")
    with pytest.raises(rounds.RoundError, match="Not a member of the dataset: eve"):
        make_round(version, [*make_people(version, "ann"), *stranger])


def test_a_round_by_field_keeps_the_environment_of_each_slot(version: DatasetVersion) -> None:
    made = make_round(version, make_people(version, "a", "b"), settings=rounds.RoundSettings(by_field=True))
    for slot in Slot.objects.filter(round=made).select_related("item__task__environment"):
        assert slot.field == slot.item.task.environment.name


def test_a_triage_is_of_tasks_that_nobody_solved(version: DatasetVersion) -> None:
    task = make_task(version, "impossible")
    add_trajectory(task, "never", "fail")
    tasks = list(rounds.unsolved_tasks(version))
    assert tasks == [task]
    made = rounds.draw_task_round(
        version, tasks=tasks, reviewers=make_people(version, "a"), title="t", seed=1, by=None,
        settings=rounds.RoundSettings(kind="triage"),
    )  # fmt: skip
    assert list(made.items.values_list("task", "trajectory")) == [(task.pk, None)]
    assert Slot.objects.filter(round=made).count() == 1


# --- steering


def test_an_extension_draws_from_what_is_left_and_is_counted_apart(version: DatasetVersion) -> None:
    made = make_round(version, make_people(version, "ann", "bob"))
    before = set(made.items.values_list("trajectory", flat=True))
    assert rounds.extend_round(made, size=8, by=None) == 8
    after = ReviewItem.objects.filter(round=made)
    new = after.exclude(trajectory__in=before)
    assert (after.count(), new.count(), made.extensions) == (28, 8, 1)
    assert sorted(new.values_list("number", flat=True)) == list(range(21, 29))
    cells = RoundStratum.objects.filter(draw__round=made, extension=1)
    assert (sum(cell.size for cell in cells), sum(cell.drawn for cell in cells)) == (20, 8)
    assert rounds.extend_round(made, size=2, by=None) == 2  # fewer than there are cells
    rounds.extend_round(made, size=10, by=None)
    with pytest.raises(rounds.RoundError, match="0 trajectories can be drawn"):
        rounds.extend_round(made, size=1, by=None)
    assert AuditEvent.objects.filter(action="round_extended").count() == 3


def test_states_follow_each_other_once_and_are_logged(version: DatasetVersion) -> None:
    made = make_round(version, make_people(version, "ann", "bob"), opened=False)
    with pytest.raises(rounds.RoundError, match="this can be done while it is closed"):
        rounds.release_round(made, by=None, now=NOW)
    assert rounds.open_round(made, by=None, now=NOW)
    assert not rounds.open_round(made, by=None, now=NOW)
    with pytest.raises(rounds.RoundError):
        rounds.discard_round(made, by=None)
    assert rounds.close_round(made, by=None, now=NOW)
    assert not rounds.close_round(made, by=None, now=NOW)
    rounds.release_round(made, by=None, now=NOW)
    rounds.release_round(made, by=None, now=NOW)
    actions = list(
        AuditEvent.objects.filter(subject__startswith="round").order_by("pk").values_list("action", flat=True)
    )
    assert actions == ["round_drawn", "round_opened", "round_closed", "round_released"]


def test_closing_ends_what_is_free_or_held_and_keeps_what_is_in(version: DatasetVersion) -> None:
    ann, bob = people = make_people(version, "ann", "bob")
    made = make_round(version, people)
    work_off(made, [ann], lambda *_: "satisfied", most=3)
    held = review.claim_next_slot(made, by=bob, now=NOW)
    rounds.close_round(made, by=None, now=NOW)
    states = Counter(Slot.objects.filter(round=made).values_list("state", flat=True))
    assert states == {"submitted": 3, "closed": Slot.objects.filter(round=made).count() - 3}
    assert isinstance(held, Slot)
    held.refresh_from_db()
    assert (held.state, held.reviewer, held.lease_until) == (SlotState.CLOSED, None, None)


def test_a_flagged_slot_is_freed_or_closed_once(version: DatasetVersion) -> None:
    ann, *_ = people = make_people(version, "ann", "bob")
    made = make_round(version, people)
    for free, state in ((True, SlotState.FREE), (False, SlotState.CLOSED)):
        slot = review.claim_next_slot(made, by=ann, now=NOW)
        assert isinstance(slot, Slot)
        flag = review.flag_slot(slot, reason="the file does not open", by=ann, now=NOW)
        assert rounds.resolve_flag(flag, free=free, resolution="mended", by=ann, now=NOW)
        assert not rounds.resolve_flag(flag, free=not free, resolution="", by=ann, now=NOW)
        slot.refresh_from_db()
        assert slot.state == state


def test_a_flagged_adjudication_of_a_closed_round_goes_back_to_who_can_settle_it(version: DatasetVersion) -> None:
    ann, bob, carl = make_people(version, "ann", "bob", "carl")
    made = make_round(version, [ann, bob, carl], plan=rounds.RoundPlan(size=6, overlap=1))
    work_off(made, [ann, bob], lambda _, user: "satisfied" if user == ann else "not_satisfied")
    rounds.create_adjudications(made, by=None, assigned=carl)
    rounds.close_round(made, by=None, now=NOW)
    slot = review.claim_next_slot(made, by=carl, now=NOW)
    assert isinstance(slot, Slot)
    flag = review.flag_slot(slot, reason="the file does not open", by=carl, now=NOW)
    assert rounds.resolve_flag(flag, free=True, resolution="it does now", by=None, now=NOW)
    slot.refresh_from_db()
    assert (slot.role, slot.state) == ("adjudicate", SlotState.FREE)
    assert work_off(made, [carl], lambda *_: "satisfied") == 6


def test_who_saw_a_verdict_in_another_version_grades_none_of_the_same_task(version: DatasetVersion) -> None:
    ann, bob = make_people(version, "ann", "bob")
    before = DatasetVersion.objects.create(dataset=version.dataset, name="before")
    task = version.tasks.order_by("pk")[0]
    same = make_task(before, "its name then", environment="env 0", content_sha256=task.content_sha256)
    other = make_task(before, "of that version alone", environment="env 0")
    review.bar_from_tasks(bob, [same.pk, other.pk], reason="saw_verdict")
    made = make_round(version, [ann], plan=rounds.RoundPlan(size=20, overlap=0))
    assert not Exclusion.objects.filter(task__version=version).exists()
    rounds.invite(made, [bob], by=None)
    barred = Exclusion.objects.filter(task__version=version)
    assert list(barred.values_list("user", "task", "reason")) == [(bob.pk, task.pk, "saw_verdict")]
    open_to = review.may_take(made.slots.all(), bob, round=made)
    assert open_to.count() == made.slots.exclude(item__task=task).count() < made.slots.count()


def test_reviewers_can_be_invited_later(version: DatasetVersion) -> None:
    made = make_round(version, make_people(version, "ann", "bob"))
    late = make_people(version, "carl")
    assert (rounds.invite(made, late, by=None), rounds.invite(made, late, by=None)) == (1, 0)
    assert work_off(made, late, lambda *_: "satisfied", most=1) == 1


# --- release


def test_release_sets_every_grade_of_record_against_the_verifier(version: DatasetVersion) -> None:
    people = make_people(version, "ann", "bob")
    made = make_round(version, people)
    given = work_off(made, people, lambda slot, user: "satisfied" if slot.item.number % 2 else "not_satisfied")
    assert given == Slot.objects.filter(round=made, role="grade").count()
    assert not ReviewLabel.objects.exists()
    rounds.close_round(made, by=None, now=NOW)
    released = rounds.release_round(made, by=None, now=NOW)
    assert (released.grades, released.adjudicated, released.unsettled) == (given, 0, 0)
    for label in labels(version).filter(source="human").select_related("trajectory__source"):
        wrong = (label.trajectory.source.verifier_status == "pass") != (label.acceptable == "yes")
        passed = label.trajectory.source.verifier_status == "pass"
        names = {
            (True, True): "false_pass",
            (True, False): "true_pass",
            (False, True): "false_fail",
            (False, False): "true_fail",
        }
        assert label.outcome == names[passed, wrong]
    assert rounds.release_round(made, by=None, now=NOW) == released
    assert ReviewLabel.objects.count() == given


def test_only_the_newest_version_of_a_grade_counts(version: DatasetVersion) -> None:
    ann, *_ = people = make_people(version, "ann", "bob")
    made = make_round(version, people)
    slot = review.claim_next_slot(made, by=ann, now=NOW)
    assert isinstance(slot, Slot)
    grade(slot, ann, "satisfied")
    slot.refresh_from_db()
    grade(slot, ann, "not_satisfied")
    rounds.close_round(made, by=None, now=NOW)
    assert rounds.release_round(made, by=None, now=NOW).grades == 1
    assert ReviewLabel.objects.get().acceptable == "no"
    assert Grade.objects.filter(slot=slot).count() == 2


def test_hidden_repeats_never_become_labels(version: DatasetVersion) -> None:
    (ann,) = people = make_people(version, "ann")
    settings = rounds.RoundSettings(repeat_share=1.0, repeat_days=7)
    made = make_round(version, people, plan=rounds.RoundPlan(size=5, overlap=0), settings=settings)
    assert work_off(made, people, lambda *_: "satisfied") == 5
    later = NOW + timedelta(days=8)
    again = review.claim_next_slot(made, by=ann, now=later)
    assert isinstance(again, Slot)
    assert again.role == "repeat"
    grade(again, ann, "not_satisfied")
    rounds.close_round(made, by=None, now=later)
    assert rounds.release_round(made, by=None, now=later).grades == 5
    assert set(ReviewLabel.objects.values_list("acceptable", flat=True)) == {"yes"}


@pytest.mark.django_db(transaction=True)
def test_a_release_waits_for_a_changed_answer_that_is_on_its_way(version: DatasetVersion) -> None:
    ann, bob, carl = people = make_people(version, "ann", "bob", "carl")
    made = make_round(version, people, plan=rounds.RoundPlan(size=6, overlap=1))
    work_off(made, [ann, bob], lambda _, user: "satisfied" if user == ann else "not_satisfied")
    rounds.create_adjudications(made, by=None)
    rounds.close_round(made, by=None, now=NOW)
    work_off(made, [carl], lambda *_: "satisfied", most=1)
    ruling = Slot.objects.select_related("round", "item__task").get(role="adjudicate", state="submitted")

    def release() -> rounds.Released:
        try:
            return rounds.release_round(made, by=None, now=NOW)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            grade(ruling, carl, "not_satisfied")
            released = pool.submit(release)
            with pytest.raises(TimeoutError):
                released.result(timeout=0.5)
        assert released.result(timeout=20).adjudicated == 1
    assert ReviewLabel.objects.get(kind="adjudicated").acceptable == "no"
    with pytest.raises(Late):
        grade(ruling, carl, "satisfied")


@pytest.mark.django_db(transaction=True)
def test_a_ruling_on_the_verifier_while_a_round_is_released_decides_its_outcomes(
    version: DatasetVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ann,) = people = make_people(version, "ann")
    made = make_round(version, people, plan=rounds.RoundPlan(size=8, overlap=0))
    work_off(made, people, lambda *_: "satisfied")
    rounds.close_round(made, by=None, now=NOW)
    not_run = {"verifier_status": "invalid", "verifier_reason": relabel.NOT_RUN, "recorded_status": "fail"}
    TrajectorySource.objects.update(**not_run)
    started: list[Any] = []

    def rule() -> None:
        try:
            relabel.count_not_run_as(version, recorded=True, by=ann)
        finally:
            connection.close()

    def rules_meanwhile(*given: Any, **options: Any) -> Any:
        if not started:
            started.append(pool.submit(rule))
            with suppress(TimeoutError):
                started[0].result(timeout=0.7)
        return outcome(*given, **options)

    monkeypatch.setattr(rounds, "outcome", rules_meanwhile)
    with ThreadPoolExecutor(1) as pool:
        rounds.release_round(made, by=None, now=NOW)
        started[0].result(timeout=20)
    assert set(ReviewLabel.objects.values_list("acceptable", "outcome")) == {("yes", "false_fail")}


# --- adjudication


def test_a_third_reviewer_settles_what_two_differ_on(version: DatasetVersion) -> None:
    ann, bob, carl = people = make_people(version, "ann", "bob", "carl")
    made = make_round(version, people, plan=rounds.RoundPlan(size=6, overlap=1))
    work_off(made, [ann, bob], lambda _, user: "satisfied" if user == ann else "not_satisfied")
    assert len(rounds.unsettled(made)) == 6
    assert rounds.create_adjudications(made, by=None).made == 6
    assert rounds.create_adjudications(made, by=None).made == 0
    assert work_off(made, [ann, bob], lambda *_: "satisfied") == 0  # nobody adjudicates their own
    assert work_off(made, [carl], lambda *_: "not_satisfied", most=5) == 5
    rounds.close_round(made, by=None, now=NOW)
    released = rounds.release_round(made, by=None, now=NOW)
    assert (released.grades, released.adjudicated, released.unsettled) == (12, 5, 1)
    kinds = Counter(labels(version).filter(source__in=("human", "adjudicated")).values_list("source", "acceptable"))
    assert kinds == {("human", "yes"): 6, ("human", "no"): 6, ("adjudicated", "no"): 5}
    against = {row.name: (row.labels, row.trajectories) for row in Counts(version).comparisons()}
    assert against.pop("test judge")  # the rest are people, each kind together and by a name
    assert against == {"Reviewers": (12, 6), "Reviewers, adjudicated": (5, 5)}


def test_a_named_adjudicator_is_passed_over_where_they_graded(version: DatasetVersion) -> None:
    ann, bob, carl = people = make_people(version, "ann", "bob", "carl")
    made = make_round(version, people, plan=rounds.RoundPlan(size=6, overlap=1))
    work_off(made, [ann, bob], lambda _, user: "satisfied" if user == ann else "not_satisfied")
    assert rounds.create_adjudications(made, by=None, assigned=ann) == rounds.Settling(made=0, own=6)
    assert rounds.create_adjudications(made, by=None, assigned=carl).made == 6
    assert set(Slot.objects.filter(role="adjudicate").values_list("assigned", flat=True)) == {carl.pk}
    stranger = make_people(version, "dora")[0]
    with pytest.raises(rounds.RoundError, match="invite them first"):
        rounds.create_adjudications(made, by=None, assigned=stranger)


def test_grades_that_agree_are_not_adjudicated(version: DatasetVersion) -> None:
    people = make_people(version, "ann", "bob", "carl")
    made = make_round(version, people, plan=rounds.RoundPlan(size=6, overlap=1))
    work_off(made, people[:2], lambda *_: "satisfied")
    assert rounds.unsettled(made) == []
    assert rounds.create_adjudications(made, by=None).made == 0
    assert made.state == RoundState.OPEN
