"""The queue of blind review: one holder a slot, nothing lost, nothing twice, and who may not have what."""

import threading
import uuid
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, connections

from auditapp import grading, review, rounds
from auditapp.grading import Incomplete, Late, submit_grade
from auditapp.models.datasets import Membership
from auditapp.models.reviews import (
    Draft,
    Exclusion,
    Flag,
    Grade,
    ReviewerField,
    ReviewRound,
    RoundState,
    Slot,
    SlotRole,
    SlotState,
    VerifierGuess,
)
from auditapp.models.rounds import ReviewLabel
from auditapp.review import End, ReviewError, claim_next_slot
from tests.auditapp.population import add_trajectory, make_task, make_version
from tests.auditapp.rounds import CITED, NOW, good, grade, make_reviewers, make_round

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


def world(n: int = 3, *, copies: int = 1, people: tuple[str, ...] = ("ann", "ben"), **fields):
    version = make_version()
    found = [add_trajectory(make_task(version, f"task {k}", environment=f"env {k % 2}"), f"t{k}") for k in range(n)]
    users = make_reviewers(version, *people)
    return make_round(found, users, copies=copies, **fields), users


def claim(opened: ReviewRound, user: User, now=NOW) -> Slot:
    slot = claim_next_slot(opened, by=user, now=now)
    assert isinstance(slot, Slot), slot
    return slot


def end(opened: ReviewRound, user: User, now=NOW) -> End:
    found = claim_next_slot(opened, by=user, now=now)
    assert isinstance(found, End), found
    return found


def test_what_comes_next_is_known_and_not_claimed():
    opened, (ann, ben) = world(4)
    held = claim(opened, ann)
    likely = review.likely_next(opened, by=ann, now=NOW)
    assert likely
    assert likely.pk != held.pk
    assert Slot.objects.get(pk=likely.pk).state == SlotState.FREE
    assert claim(opened, ann).pk == held.pk
    grade(held, ann)
    assert claim(opened, ann).pk == likely.pk
    for _ in range(2):
        grade(claim(opened, ben), ben)
    assert review.likely_next(opened, by=ann, now=NOW) is None


def test_a_second_tab_shows_the_same_slot_and_renews_it():
    opened, (ann, _) = world()
    first = claim(opened, ann)
    again = claim(opened, ann, NOW + MINUTE)
    assert again.pk == first.pk
    assert Slot.objects.get(pk=first.pk).lease_until == NOW + 16 * MINUTE


def test_two_reviewers_never_hold_one_slot_and_never_grade_one_item_twice():
    opened, (ann, ben) = world(4, copies=2)
    graded = {ann: [], ben: []}
    for _ in range(4):
        slots = {user: claim(opened, user) for user in (ann, ben)}
        assert slots[ann].pk != slots[ben].pk
        for user, slot in slots.items():
            grade(slot, user)
            graded[user].append(slot.item_id)
    assert all(len(set(items)) == 4 for items in graded.values())
    assert end(opened, ann).kind == "done"


def test_a_slot_without_a_visit_runs_out_and_goes_to_another():
    opened, (ann, ben) = world(1)
    claim(opened, ann)
    waiting = end(opened, ben)
    assert (waiting.kind, waiting.held, waiting.next_free) == ("waiting", 1, NOW + 15 * MINUTE)
    assert claim(opened, ben, NOW + 16 * MINUTE).reviewer_id == ben.pk


def test_a_heartbeat_keeps_the_lease_and_says_when_it_is_lost():
    opened, (ann, ben) = world(1)
    slot = claim(opened, ann)
    assert review.heartbeat(slot, by=ann, now=NOW + 10 * MINUTE) == NOW + 25 * MINUTE
    assert end(opened, ben, NOW + 16 * MINUTE).kind == "waiting"
    claim(opened, ben, NOW + 26 * MINUTE)
    assert review.heartbeat(slot, by=ann, now=NOW + 27 * MINUTE) is None


def test_a_late_answer_counts_where_the_slot_is_free_again():
    opened, (ann, _) = world(1)
    slot = claim(opened, ann)
    late = grade(slot, ann, now=NOW + 60 * MINUTE)
    assert late.current
    assert Slot.objects.get(pk=slot.pk).state == SlotState.SUBMITTED


def test_a_late_answer_takes_a_free_copy_of_the_item():
    opened, (ann, ben) = world(1, copies=2)
    slot = claim(opened, ann)
    Slot.objects.filter(pk=slot.pk).update(lease_until=NOW - MINUTE)
    other = Slot.objects.exclude(pk=slot.pk).get()
    Slot.objects.filter(pk=slot.pk).update(reviewer=ben, lease_until=NOW + 60 * MINUTE)
    assert grade(slot, ann).slot_id == other.pk


def test_a_late_answer_counts_although_its_reviewer_holds_another_slot_by_now():
    opened, (ann, ben) = world(2, copies=2)
    slot = claim(opened, ann)
    Slot.objects.filter(pk=slot.pk).update(reviewer=ben, lease_until=NOW + 60 * MINUTE)
    other = next(found for found in opened.slots.filter(state=SlotState.FREE) if found.item_id != slot.item_id)
    Slot.objects.filter(pk=other.pk).update(reviewer=ann, state=SlotState.LEASED, lease_until=NOW + MINUTE)
    stored = grade(slot, ann)
    assert (stored.slot.item_id, stored.slot_id != slot.pk) == (slot.item_id, True)
    assert Slot.objects.get(pk=stored.slot_id).state == SlotState.SUBMITTED
    assert Slot.objects.get(pk=other.pk).state == SlotState.LEASED


def test_a_late_answer_whose_slot_is_taken_is_kept_and_said_to_be():
    opened, (ann, ben) = world(1)
    slot = claim(opened, ann)
    claim(opened, ben, NOW + 16 * MINUTE)
    with pytest.raises(Late, match="kept"):
        grade(slot, ann, now=NOW + 17 * MINUTE, note="what I found")
    kept = Draft.objects.get(slot=slot, reviewer=ann)
    assert kept.kept
    assert kept.content["note"] == "what I found"
    assert review.slot_for(slot.public_id, by=ann).pk == slot.pk
    assert not Grade.objects.exists()


def test_who_lost_a_slot_before_typing_still_finds_it_and_its_answer_is_kept():
    opened, (ann, ben) = world(1)
    slot = claim(opened, ann)
    claim(opened, ben, NOW + 16 * MINUTE)
    mine = review.slot_for(slot.public_id, by=ann)
    with pytest.raises(Late):
        grade(mine, ann, now=NOW + 17 * MINUTE, note="typed offline")
    assert grading.draft_of(mine, by=ann).content["note"] == "typed offline"


def test_a_late_press_sent_twice_finds_the_grade_that_went_to_another_copy():
    opened, (ann, ben) = world(1, copies=2)
    slot, token = claim(opened, ann), uuid.uuid4()
    Slot.objects.filter(pk=slot.pk).update(lease_until=NOW - MINUTE)
    other = Slot.objects.exclude(pk=slot.pk).get()
    ReviewRound.objects.get(pk=opened.pk).reviewers.filter(user=ben).update(cursor=slot.position)
    assert claim(opened, ben).pk == slot.pk
    stored = [
        submit_grade(review.slot_for(slot.public_id, by=ann), good(), token=token, by=ann, now=NOW) for _ in range(2)
    ]
    assert {found.pk for found in stored} == {Grade.objects.get().pk}
    assert stored[0].slot_id == other.pk


def test_one_press_stores_one_grade():
    opened, (ann, _) = world()
    slot, token = claim(opened, ann), uuid.uuid4()
    grades = [submit_grade(slot, good(), token=token, by=ann, now=NOW) for _ in range(2)]
    assert grades[0].pk == grades[1].pk
    assert Grade.objects.count() == 1


def test_an_edit_is_a_new_version_and_the_old_one_is_kept():
    opened, (ann, _) = world()
    slot = claim(opened, ann)
    grade(slot, ann)
    opened_again = next(iter(review.still_open(opened, ann)), None)
    assert opened_again == slot
    grade(opened_again, ann, now=NOW + MINUTE, decision="not_satisfied")
    assert list(slot.grades.order_by("number").values_list("decision", "acceptable", "current")) == [
        ("satisfied", "yes", False),
        ("not_satisfied", "no", True),
    ]


def test_only_the_last_ten_can_be_edited_and_none_once_the_round_is_closed():
    opened, (ann, _) = world(12)
    slots = []
    for minute in range(11):
        slots.append(claim(opened, ann, NOW + minute * MINUTE))
        grade(slots[-1], ann, now=NOW + minute * MINUTE)
    assert [review.is_editable(review.slot_for(slot.public_id, by=ann), by=ann) for slot in slots] == [False] + [
        True
    ] * 10
    ReviewRound.objects.update(state=RoundState.CLOSED)
    with pytest.raises(Late, match="closed"):
        grade(review.slot_for(slots[-1].public_id, by=ann), ann)


def test_what_can_still_be_changed_is_asked_of_ten_at_once(django_assert_max_num_queries):
    opened, (ann, _) = world(6)
    for _ in range(6):
        grade(claim(opened, ann), ann)
    with django_assert_max_num_queries(2):
        assert len(review.still_open(opened, ann)) == 6


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"decision": ""}, "decision"),
        ({"decision": "maybe"}, "decision"),
        ({"integrity": ""}, "integrity"),
        ({"evidence": []}, "evidence"),
        ({"integrity": "hacked", "decision": "cannot_tell", "evidence": []}, "evidence"),
        ({"tags": ["E01"]}, "tags"),
        ({"tags": ["B06"]}, "tags"),
        ({"requirements": {"R9": "met"}}, "requirements"),
        ({"requirements": {"R1": "not_met"}}, "decision"),
        ({"confidence": "sure"}, "confidence"),
        ({"note": "x" * 4001}, "note"),
        ({"evidence": [CITED] * 51}, "evidence"),
        ({"answer": "broken"}, "answer"),
        ({"text": "what it asks for"}, "text"),
    ],
)
def test_an_answer_that_lacks_something_names_the_field_and_keeps_the_slot(changes, field):
    opened, (ann, _) = world()
    slot = claim(opened, ann)
    with pytest.raises(Incomplete) as refused:
        grade(slot, ann, **changes)
    assert field in refused.value.fields
    assert not Grade.objects.exists()
    assert claim(opened, ann).pk == slot.pk


@pytest.mark.parametrize("kind", ["audit", "triage", "cold_read"])
def test_a_round_that_asks_for_no_decision_takes_none(kind):
    opened, (ann, _) = world(kind=kind)
    slot = claim(opened, ann)
    said = {"audit": {"note": "quick"}, "triage": {"answer": "hard"}, "cold_read": {"text": "a file"}}[kind]
    with pytest.raises(Incomplete) as refused:
        submit_grade(slot, good(**said), token=uuid.uuid4(), by=ann, now=NOW)
    assert set(refused.value.fields) == {"decision", "integrity"}
    taken = submit_grade(slot, good(decision="", integrity="", **said), token=uuid.uuid4(), by=ann, now=NOW)
    assert taken.acceptable is None


def test_cannot_tell_needs_no_evidence_and_is_no_verdict():
    opened, (ann, _) = world()
    found = grade(claim(opened, ann), ann, decision="cannot_tell", evidence=[])
    assert found.acceptable == "unknown"


def test_a_skip_frees_the_slot_for_others_and_can_be_taken_back():
    opened, (ann, ben) = world(1)
    slot = review.slot_for(claim(opened, ann).public_id, by=ann)
    skip = review.skip_slot(slot, reason="no idea", outside=False, by=ann, now=NOW)
    assert end(opened, ann).skipped == 1
    assert Slot.objects.get().state == SlotState.FREE
    assert review.undo_skip(skip, by=ann, now=NOW) == slot
    assert claim(opened, ann).pk == slot.pk
    assert end(opened, ben).kind == "waiting"


def test_outside_the_field_it_waits_for_who_knows_it():
    opened, (ann, ben) = world(1)
    ReviewerField.objects.create(dataset=opened.version.dataset, user=ben, environment="elsewhere")
    slot = review.slot_for(claim(opened, ann).public_id, by=ann)
    review.skip_slot(slot, reason="", outside=True, by=ann, now=NOW)
    assert end(opened, ben).kind == "done"
    ReviewerField.objects.create(dataset=opened.version.dataset, user=ben, environment="env 0")
    assert claim(opened, ben).pk == slot.pk


@pytest.mark.parametrize("has_fallback", [True, False])
def test_twice_skipped_goes_to_the_named_reviewer_or_is_missing(has_fallback):
    opened, (ann, ben, cem, _) = world(1, people=("ann", "ben", "cem", "dia"))
    if has_fallback:
        opened.fallback = cem
        opened.save()
    for user in (ann, ben):
        slot = review.slot_for(claim(opened, user).public_id, by=user)
        review.skip_slot(slot, reason="", outside=False, by=user, now=NOW)
    left = Slot.objects.get()
    assert left.state == (SlotState.FREE if has_fallback else SlotState.CLOSED)
    assert left.assigned == (cem if has_fallback else None)
    assert end(opened, ann).missing == (0 if has_fallback else 1)


def test_the_first_who_takes_a_second_skip_back_has_the_item_again():
    """With a fallback it had gone to that one alone: whoever took the skip back held nothing."""
    opened, (ann, ben, cem) = world(1, people=("ann", "ben", "cem"))
    opened.fallback = cem
    opened.save()
    skips = []
    for user in (ann, ben):
        slot = review.slot_for(claim(opened, user).public_id, by=user)
        skips.append(review.skip_slot(slot, reason="", outside=False, by=user, now=NOW))
    again = review.undo_skip(skips[0], by=ann, now=NOW)
    assert again is not None
    assert (again.reviewer_id, Slot.objects.get().assigned, Slot.objects.get().skips) == (ann.pk, None, 1)


def test_a_flagged_slot_leaves_the_queue_and_says_why():
    opened, (ann, ben) = world(1)
    slot = claim(opened, ann)
    with pytest.raises(ReviewError, match="Say what"):
        review.flag_slot(slot, reason=" ", by=ann, now=NOW)
    review.flag_slot(slot, reason="the log is cut", by=ann, now=NOW)
    assert Slot.objects.get().state == SlotState.FLAGGED
    assert end(opened, ann).kind == end(opened, ben).kind == "done"


def test_an_item_is_flagged_once_until_the_lead_has_answered():
    opened, (ann, _) = world(1)
    slot = claim(opened, ann)
    grade(slot, ann)
    first = review.flag_slot(slot, reason="the log is cut", by=ann, now=NOW)
    assert review.flag_slot(slot, reason=" the log is cut ", by=ann, now=NOW + MINUTE) == first
    with pytest.raises(ReviewError, match="flagged this item already"):
        review.flag_slot(slot, reason="and there is more", by=ann, now=NOW)
    Flag.objects.update(resolved_at=NOW)
    assert review.flag_slot(slot, reason="and there is more", by=ann, now=NOW) != first
    assert Flag.objects.count() == 2


def test_whoever_was_removed_takes_no_skip_back():
    opened, (ann, _) = world(1)
    slot = review.slot_for(claim(opened, ann).public_id, by=ann)
    skip = review.skip_slot(slot, reason="", outside=False, by=ann, now=NOW)
    Membership.objects.filter(user=ann).delete()
    with pytest.raises(ReviewError, match="no longer a reviewer"):
        review.undo_skip(skip, by=ann, now=NOW)
    skip.refresh_from_db()
    assert skip.undone_at is None
    assert Slot.objects.get().state == SlotState.FREE


def test_what_waits_for_somebody_goes_to_anyone_once_they_are_removed():
    opened, (ann, ben, cem, dia) = world(2, people=("ann", "ben", "cem", "dia"))
    first, second = opened.slots.order_by("position")
    for slot, user in ((first, cem), (second, dia)):
        Slot.objects.filter(pk=slot.pk).update(assigned=user)
    repeat = {"round": opened, "item": first.item, "role": SlotRole.REPEAT, "position": 9, "assigned": cem}
    Slot.objects.create(**repeat, free_from=NOW - MINUTE)
    elsewhere = make_version("elsewhere")
    make_reviewers(elsewhere, "cem")
    assert end(opened, ann).kind == "done"
    call_command("grant", "cem", elsewhere.dataset.name, "none")
    assert end(opened, ann).kind == "done"
    call_command("grant", "cem", opened.version.dataset.name, "none")
    assert claim(opened, ann).pk == first.pk
    assert end(opened, ben).kind == "waiting"


def test_twice_skipped_waits_for_nobody_who_was_removed():
    opened, (ann, ben, cem) = world(1, people=("ann", "ben", "cem"))
    opened.fallback = cem
    opened.save()
    Membership.objects.filter(user=cem).delete()
    for user in (ann, ben):
        slot = review.slot_for(claim(opened, user).public_id, by=user)
        review.skip_slot(slot, reason="", outside=False, by=user, now=NOW)
    assert Slot.objects.get().state == SlotState.CLOSED
    assert end(opened, ann).missing == 1


def test_adjudications_are_counted_apart_and_repeats_like_any_other():
    opened, (ann, _) = world(3)
    opened.items.filter(number=1).update(repeats=True)
    for _ in range(3):
        grade(claim(opened, ann), ann)
    item = opened.items.get(number=2)
    Slot.objects.create(round=opened, item=item, role=SlotRole.ADJUDICATE, position=1, reviewer=ann, state="submitted")
    later = NOW + timedelta(days=8)
    again = claim(opened, ann, later)
    assert again.role == SlotRole.REPEAT
    grade(again, ann, now=later)
    assert review.progress_of(again, ann) == review.progress_of(review.slot_for(again.public_id, by=ann), ann)
    assert review.progress_of(again, ann) == review.Progress(3, 3)
    [row] = review.my_rounds(ann, now=NOW)
    assert (row.mine, row.adjudicated, row.total) == (3, 1, 3)
    found = end(opened, ann, later)
    assert (found.done, found.adjudicated, found.total) == (3, 1, 3)


def test_a_claimed_slot_comes_with_what_its_page_counts(django_assert_num_queries):
    opened, (ann, ben) = world(4)
    of_ben = claim(opened, ben)
    grade(of_ben, ben)
    settled = {"item": of_ben.item, "role": SlotRole.ADJUDICATE, "reviewer": ann, "state": SlotState.SUBMITTED}
    Slot.objects.create(round=opened, position=1, **settled)
    for done in range(3):
        slot = claim(opened, ann)
        anew = review.slot_for(slot.public_id, by=ann)
        assert review.progress_of(anew, ann) == review.Progress(done, 4)
        with django_assert_num_queries(0):
            assert review.progress_of(slot, ann) == review.Progress(done, 4)
            assert grading.draft_of(slot, by=ann) is None
        grade(slot, ann)


def test_a_claimed_slot_comes_with_what_its_reviewer_had_typed_there_and_nobody_else():
    opened, (ann, ben, cem) = world(1, people=("ann", "ben", "cem"))
    grading.save_draft(claim(opened, ann), {"note": "of ann"}, by=ann, now=NOW)
    later = NOW + 16 * MINUTE
    lost = claim(opened, ben, later)
    assert grading.draft_of(lost, by=ben) is None
    grading.save_draft(lost, {"note": "of ben"}, by=ben, now=later)
    assert grading.draft_of(claim(opened, ann, later + 16 * MINUTE), by=ann).content == {"note": "of ann"}
    assert grading.draft_of(claim(opened, cem, later + 32 * MINUTE), by=cem) is None


def test_a_round_goes_on_as_long_as_something_can_be_taken():
    opened, (ann, ben) = world(1)

    def goes_on(user):
        return review.my_rounds(user, now=NOW)[0].goes_on

    assert goes_on(ann)
    slot = claim(opened, ann)
    assert goes_on(ann)
    assert not goes_on(ben)
    grade(slot, ann)
    assert not goes_on(ann)
    Slot.objects.create(round=opened, item=slot.item, role=SlotRole.ADJUDICATE, position=1)
    assert not goes_on(ann)  # never their own
    opened.state = RoundState.CLOSED
    opened.save()
    assert goes_on(ben)


def test_rounds_that_have_ended_cost_a_reviewer_no_question(django_assert_num_queries):
    first, (ann, _) = world(4)
    for seconds, item in zip((40, 60, 80), first.items.order_by("number"), strict=False):
        ended = make_round([item.trajectory], [ann])
        grade(claim(ended, ann), ann, seconds=seconds)
        ReviewRound.objects.filter(pk=ended.pk).update(state=RoundState.RELEASED)
    claim(first, ann)
    with django_assert_num_queries(3):  # rounds, what is held, times
        rows = review.my_rounds(ann, now=NOW)
    assert [(row.seconds, row.goes_on) for row in rows] == [(80, False), (60, False), (40, False), (None, True)]


def test_a_page_leads_to_the_first_round_that_goes_on():
    older, (ann, _) = world(2)
    newer = make_round([older.items.first().trajectory], [ann])
    assert review.first_of(review.my_rounds(ann, now=NOW)) == newer.pk
    grade(claim(newer, ann), ann)
    assert review.first_of(review.my_rounds(ann, now=NOW)) == older.pk
    assert review.first_of([]) is None


def test_what_a_reviewer_flagged_is_told_at_the_end():
    opened, (ann, ben) = world(2)
    review.flag_slot(claim(opened, ann), reason="the log is cut", by=ann, now=NOW)
    grade(claim(opened, ann), ann)
    assert (end(opened, ann).flagged, end(opened, ben).flagged) == (1, 0)


@pytest.mark.parametrize("kind", ["blind", "triage", "cold_read"])
def test_takers_are_those_whom_may_take_lets_through(kind):
    names = ("ann", "ben", "cem", "dia", "eva")
    opened, users = world(6, people=names, kind=kind)
    ann, ben, cem, dia, eva = users
    tasks = list(opened.items.values_list("task", flat=True).order_by("number"))
    review.bar_from_tasks(ben, tasks[:2], reason="saw_verdict")
    ReviewerField.objects.create(dataset=opened.version.dataset, user=cem, environment="elsewhere")
    opened.slots.filter(item__number=3).update(field="env 0")
    opened.slots.filter(item__number=4).update(assigned=dia)
    slot = review.slot_for(claim(opened, ann).public_id, by=ann)
    review.skip_slot(slot, reason="", outside=False, by=ann, now=NOW)
    claim(opened, dia)
    Membership.objects.filter(user=eva).delete()
    found = review.takers(Slot.objects.all(), round=opened).values_list("round__reviewers__user", "pk")
    one_by_one = [
        (user.pk, slot.pk) for user in users[:-1] for slot in review.may_take(Slot.objects.all(), user, round=opened)
    ]
    assert sorted(found) == sorted(one_by_one)
    assert 0 < len(one_by_one) < 4 * 6


def test_a_hidden_repeat_comes_back_to_the_same_reviewer_after_its_days():
    opened, (ann, ben) = world(1)
    opened.items.update(repeats=True)
    grade(claim(opened, ann), ann)
    week = timedelta(days=7)
    assert end(opened, ann, NOW + week - MINUTE).kind == "done"
    assert end(opened, ben, NOW + week + MINUTE).kind == "done"
    again = claim(opened, ann, NOW + week + MINUTE)
    assert again.role == SlotRole.REPEAT
    grade(again, ann, now=NOW + week + MINUTE)
    assert Slot.objects.count() == 2


def test_a_changed_answer_comes_back_its_days_after_the_change():
    opened, (ann, _) = world(1)
    opened.items.update(repeats=True)
    slot = claim(opened, ann)
    grade(slot, ann)
    week, later = timedelta(days=7), NOW + timedelta(days=6)
    grade(slot, ann, now=later, decision="not_satisfied")
    assert end(opened, ann, NOW + week + MINUTE).kind == "done"
    again = claim(opened, ann, later + week + MINUTE)
    assert again.role == SlotRole.REPEAT
    grade(slot, ann, now=later + week + MINUTE)
    held = Slot.objects.get(pk=again.pk)
    assert (held.state, held.free_from) == (SlotState.LEASED, later + week)


def test_a_repeat_offers_the_step_after_the_grade_like_any_item_and_adds_to_the_first():
    opened, (ann, _) = world(1)
    opened.items.update(repeats=True)
    slot, later = claim(opened, ann), NOW + timedelta(days=8)
    first = grade(slot, ann)
    again = claim(opened, ann, later)
    grade(again, ann, now=later)
    mine, back = (review.slot_for(found.public_id, by=ann) for found in (slot, again))
    assert grading.may_attribute(mine, by=ann)
    assert grading.may_attribute(back, by=ann)
    found = grading.open_attribution(back, by=ann, now=later)
    assert found.grade == first
    assert grading.attribution_of(mine, by=ann) == grading.attribution_of(back, by=ann) == found
    assert not review.still_open(opened, ann)
    grading.submit_attribution(back, ["E01"], "", by=ann, now=later)
    rounds.close_round(opened, by=None, now=later)
    rounds.release_round(opened, by=None, now=later)
    assert ReviewLabel.objects.get().tags == ["E01"]


def test_what_was_graded_in_one_round_is_not_given_again_in_the_next():
    first, (ann, ben) = world(1)
    grade(claim(first, ann), ann)
    second = make_round([item.trajectory for item in first.items.all()], [ann, ben])
    assert end(second, ann).kind == "done"
    assert claim(second, ben)


def test_who_saw_a_verdict_of_the_task_gets_none_of_it():
    opened, (ann, ben) = world(1)
    review.bar_from_tasks(ann, [opened.items.get().task_id], reason="saw_verdict")
    review.bar_from_tasks(ann, [opened.items.get().task_id], reason="saw_verdict")
    assert Exclusion.objects.count() == 1
    assert end(opened, ann).kind == "done"
    assert claim(opened, ben)


def test_seeing_the_verifier_locks_the_grade_and_withdraws_from_the_task():
    version = make_version()
    task = make_task(version)
    found = [add_trajectory(task, f"t{k}") for k in range(3)]
    (ann,) = make_reviewers(version, "ann")
    opened = make_round(found, [ann])
    slot = claim(opened, ann)
    with pytest.raises(ReviewError, match="own grade"):
        grading.open_attribution(slot, by=ann, now=NOW)
    grade(slot, ann)
    held = claim(opened, ann)
    mine = review.slot_for(slot.public_id, by=ann)
    assert review.is_editable(mine, by=ann)
    grading.open_attribution(mine, by=ann, now=NOW)
    assert not review.is_editable(mine, by=ann)
    assert Slot.objects.get(pk=held.pk).state == SlotState.FREE
    assert end(opened, ann).kind == "done"
    grading.submit_attribution(mine, ["E01"], "too strict", by=ann, now=NOW)
    with pytest.raises(Incomplete):
        grading.submit_attribution(mine, ["C01"], "", by=ann, now=NOW)
    ReviewRound.objects.update(state=RoundState.RELEASED)
    with pytest.raises(ReviewError, match="released"):
        grading.submit_attribution(review.slot_for(mine.public_id, by=ann), ["E02"], "", by=ann, now=NOW)


def test_a_guess_is_asked_of_marked_slots_only_and_the_first_one_counts():
    opened, (ann, _) = world(2)
    slot = claim(opened, ann)
    grade(slot, ann)
    with pytest.raises(ReviewError, match="No guess"):
        grading.guess_verifier(review.slot_for(slot.public_id, by=ann), "pass", by=ann, now=NOW)
    Slot.objects.update(asks_guess=True)
    marked = review.slot_for(slot.public_id, by=ann)
    grading.guess_verifier(marked, "pass", by=ann, now=NOW)
    assert grading.guess_verifier(marked, "fail", by=ann, now=NOW).guess == "pass"


def test_no_guess_counts_once_the_verdict_could_be_seen():
    opened, (ann, ben) = world(2)
    slots = [claim(opened, user) for user in (ann, ben)]
    Slot.objects.update(asks_guess=True)
    for slot, user in zip(slots, (ann, ben), strict=True):
        grade(slot, user)
    review.bar_from_tasks(ann, [slots[0].item.task_id], reason="saw_verdict")
    rounds.close_round(opened, by=None, now=NOW)
    with pytest.raises(ReviewError, match="tells nothing"):
        grading.guess_verifier(review.slot_for(slots[0].public_id, by=ann), "pass", by=ann, now=NOW)
    rounds.release_round(opened, by=None, now=NOW)
    with pytest.raises(ReviewError, match="tells nothing"):
        grading.guess_verifier(review.slot_for(slots[1].public_id, by=ben), "pass", by=ben, now=NOW)
    assert not VerifierGuess.objects.exists()


def test_slots_of_others_and_rounds_not_opened_do_not_exist():
    opened, (ann, ben) = world()
    slot = claim(opened, ann)
    with pytest.raises(Slot.DoesNotExist):
        review.slot_for(slot.public_id, by=ben)
    ReviewRound.objects.update(state=RoundState.DRAWN)
    with pytest.raises(Slot.DoesNotExist):
        review.slot_for(slot.public_id, by=ann)


def test_who_left_the_dataset_gets_nothing():
    opened, (ann, _) = world()
    slot = claim(opened, ann)
    Membership.objects.filter(user=ann).delete()
    with pytest.raises(Slot.DoesNotExist):
        review.slot_for(slot.public_id, by=ann)
    with pytest.raises(ReviewError, match="not a reviewer"):
        claim_next_slot(opened, by=ann, now=NOW)


def test_a_closed_round_says_so():
    opened, (ann, _) = world()
    ReviewRound.objects.update(state=RoundState.CLOSED)
    assert end(opened, ann).kind == "closed"


def test_a_closed_round_still_gives_what_settles_a_difference():
    opened, (ann, ben, cem) = world(1, copies=2, people=("ann", "ben", "cem"))
    grade(claim(opened, ann), ann)
    grade(claim(opened, ben), ben, decision="not_satisfied")
    Slot.objects.create(round=opened, item=opened.items.get(), role=SlotRole.ADJUDICATE, position=1)
    ReviewRound.objects.update(state=RoundState.CLOSED)
    assert end(opened, ann).kind == "closed"
    slot = claim(opened, cem)
    assert review.heartbeat(slot, by=cem, now=NOW + MINUTE)
    assert grade(slot, cem, now=NOW + MINUTE).current


def test_what_is_typed_is_kept_even_when_the_slot_is_gone():
    opened, (ann, ben) = world(1)
    slot = claim(opened, ann)
    assert grading.save_draft(slot, {"note": "a"}, by=ann, now=NOW) == NOW
    claim(opened, ben, NOW + 16 * MINUTE)
    mine = review.slot_for(slot.public_id, by=ann)
    assert grading.save_draft(mine, {"note": "ab"}, by=ann, now=NOW) is None
    assert grading.draft_of(mine, by=ann).content == {"note": "ab"}


@pytest.mark.django_db(transaction=True)
def test_a_burst_of_claims_gives_each_reviewer_their_own_slot():
    people = tuple(f"r{k}" for k in range(12))
    opened, users = world(6, copies=2, people=people)
    barrier, taken, trouble = threading.Barrier(len(users)), [], []

    def work(user: User) -> None:
        try:
            barrier.wait()
            found = claim_next_slot(ReviewRound.objects.get(pk=opened.pk), by=user, now=NOW)
            taken.append(found)
        except Exception as error:
            trouble.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=work, args=[user]) for user in users]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not trouble
    slots = [found for found in taken if isinstance(found, Slot)]
    assert len(slots) == len({slot.pk for slot in slots}) == len(users), connection.vendor
