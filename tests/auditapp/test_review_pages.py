"""The reviewer's pages: what they show and hide, what they take, and what they say when something is missing."""

import json
import re
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.test import Client
from django.urls import reverse

from auditapp import review
from auditapp.models.datasets import Trajectory
from auditapp.models.reviews import (
    Attribution,
    Draft,
    Exclusion,
    Flag,
    Grade,
    ReviewRound,
    RoundReviewer,
    RoundState,
    Skip,
    Slot,
    SlotState,
    VerifierGuess,
)
from auditapp.views import reading
from auditapp.views.review import FORMS, opened, slot_context
from tests.auditapp.population import add_trajectory
from tests.auditapp.reader_world import HIDDEN_MARKS, make_world, steps
from tests.auditapp.review_world import NOW, add_item, make_reviewer, make_round

pytestmark = pytest.mark.django_db

STEP = {"kind": "step", "target": "4", "part": "observation", "item": 2, "line_start": 200, "line_end": 200}
EVIDENCE = {**STEP, "quote": "PASSED test_200"}
HIDDEN = [mark for mark in HIDDEN_MARKS if mark != "the-reference-mark"]
PARTS = ["", "deliverable/", "task/", "chunk/0/", "search/?q=page", "lines/?step=4&part=observation&item=2&lines=31-32"]


@pytest.fixture
def trajectory() -> Trajectory:
    return make_world()


@pytest.fixture
def ana(trajectory: Trajectory) -> User:
    return make_reviewer(trajectory.version, "ana")


@pytest.fixture
def bo(trajectory: Trajectory) -> User:
    return make_reviewer(trajectory.version, "bo")


@pytest.fixture
def round_(trajectory: Trajectory, ana: User, bo: User) -> ReviewRound:
    return make_round(trajectory.version, ana, bo)


@pytest.fixture
def slot(round_: ReviewRound, trajectory: Trajectory) -> Slot:
    """The first item of the queue; a second one follows it."""
    first = add_item(round_, trajectory)[0]
    add_item(round_, add_trajectory(trajectory.task, "second", steps=steps()))
    return first


def of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def claim(client: Client, round_: ReviewRound) -> str:
    response = client.get(reverse("review-next", args=[round_.public_id]))
    assert response.status_code == 302
    return str(response["Location"])


def answer(**fields: Any) -> dict[str, Any]:
    whole = {
        "token": str(uuid.uuid4()),
        "decision": "satisfied",
        "integrity": "none",
        "requirement-R1": "met",
        "confidence": "high",
        "note": "It is right.",
        "evidence": json.dumps([EVIDENCE]),
        "seconds": "75",
    }
    return {**whole, **fields}


def submit(client: Client, address: str, **fields: Any) -> Any:
    return client.post(f"{address}submit/", answer(**fields), headers={"HX-Request": "true"})


# --- what is shown, and to whom


def test_the_queue_gives_an_item_and_gives_it_again(round_: ReviewRound, slot: Slot, ana: User) -> None:
    address = claim(of(ana), round_)
    assert address == f"/review/slots/{slot.public_id}/"
    assert claim(of(ana), round_) == address
    assert claim(of(User.objects.get(username="bo")), round_) != address


def test_what_comes_next_is_read_and_neither_shown_nor_claimed(
    round_: ReviewRound, slot: Slot, ana: User, bo: User
) -> None:
    reading._outline_rows.cache_clear()
    answer = of(ana).get(f"/review/{round_.public_id}/ahead/")
    assert (answer.status_code, answer.content) == (204, b"")
    read = reading._outline_rows.cache_info().misses
    assert read
    assert Slot.objects.get(pk=slot.pk).state == SlotState.FREE
    assert of(bo).get(claim(of(bo), round_)).status_code == 200
    assert reading._outline_rows.cache_info().misses == read
    assert of(ana).get(f"/review/{round_.public_id}/ahead/").status_code == 204
    assert of(User.objects.create_user("stranger")).get(f"/review/{round_.public_id}/ahead/").status_code == 404


@pytest.mark.parametrize("tail", PARTS)
@pytest.mark.parametrize("fragment", [False, True])
def test_no_part_of_an_item_tells_what_is_hidden(
    round_: ReviewRound, slot: Slot, ana: User, trajectory: Trajectory, tail: str, fragment: bool
) -> None:
    client = of(ana)
    response = client.get(claim(client, round_) + tail, headers={"HX-Request": "true"} if fragment else {})
    assert response.status_code == 200
    page = response.content.decode() + str(response.headers)
    for mark in [*HIDDEN, "the-reference-mark", str(trajectory.public_id), "invalid", "verifier_did_not_run"]:
        assert mark not in page, mark


def test_the_reference_is_there_only_where_the_round_shows_it(round_: ReviewRound, slot: Slot, ana: User) -> None:
    client = of(ana)
    address = claim(client, round_)
    for tail in ("reference/", "file/reference/?path=notes.md"):
        assert client.get(address + tail).status_code == 404
    assert "Against reference" not in client.get(address + "deliverable/").content.decode()
    ReviewRound.objects.update(shows_reference=True)
    assert "notes.md" in client.get(address + "reference/").content.decode()
    assert client.get(address + "file/reference/?path=notes.md").status_code == 200


def test_hints_are_not_for_reviewers(round_: ReviewRound, slot: Slot, ana: User) -> None:
    client = of(ana)
    assert 'class="hint"' not in client.get(claim(client, round_)).content.decode()


@pytest.mark.parametrize(
    "tail", [*PARTS, "reference/", "file/deliverable/?path=README.md", "after/", "guess/", "skip/"]
)
def test_a_slot_of_someone_else_does_not_exist(round_: ReviewRound, slot: Slot, ana: User, bo: User, tail: str) -> None:
    address = claim(of(ana), round_)
    assert of(bo).get(address + tail).status_code == 404
    assert of(bo).get(f"/review/slots/{uuid.uuid4()}/{tail}").status_code == 404


@pytest.mark.parametrize("tail", ["draft/", "heartbeat/", "submit/", "skip/", "flag/", "undo/", "guess/", "after/"])
def test_nothing_can_be_sent_to_a_slot_of_someone_else(
    round_: ReviewRound, slot: Slot, ana: User, bo: User, tail: str
) -> None:
    address = claim(of(ana), round_)
    assert of(bo).post(address + tail, answer(reason="x", do="open")).status_code == 404
    slot.refresh_from_db()
    assert slot.reviewer == ana
    assert not Grade.objects.exists()
    assert not Draft.objects.exists()


def test_a_round_of_others_does_not_exist(round_: ReviewRound, trajectory: Trajectory) -> None:
    stranger = of(make_reviewer(trajectory.version, "stranger"))
    for name in ("review-next", "review-instructions"):
        assert stranger.get(reverse(name, args=[round_.public_id])).status_code == 404
    assert round_.title not in stranger.get(reverse("review")).content.decode()


def test_the_form_opens_empty(round_: ReviewRound, slot: Slot, ana: User) -> None:
    client = of(ana)
    page = client.get(claim(client, round_)).content.decode()
    assert "checked" not in page[page.index('id="grade"') : page.index('class="actions"')]
    tags = re.findall(r'name="tags" value="(\w+)"', page)  # not the page: a random token may hold any three characters
    assert "C02" in tags
    assert {code[0] for code in tags} == {"C"}


@pytest.mark.parametrize("kind", [kind for kind in FORMS if kind != "triage"])
def test_a_form_that_is_kept_empty_is_the_one_its_item_would_have(trajectory: Trajectory, ana: User, kind: str) -> None:
    round_ = make_round(trajectory.version, ana, kind=kind)
    add_item(round_, trajectory)
    found = review.claim_next_slot(round_, by=ana, now=NOW)
    assert isinstance(found, Slot)
    context = slot_context(opened(found, ana), "steps")
    assert context["blank"]
    assert context["blank"] == render_to_string(FORMS[kind], context)


def test_the_form_is_empty_for_the_next_one_whatever_was_typed_in_another(
    round_: ReviewRound, slot: Slot, ana: User, bo: User
) -> None:
    client = of(ana)
    address = claim(client, round_)
    client.get(address)
    client.post(f"{address}draft/", answer(note="of ana"))
    assert "of ana" in client.get(address).content.decode()
    client = of(bo)
    page = client.get(claim(client, round_)).content.decode()
    form = page[page.index('id="grade"') : page.index('class="actions"')]
    assert "of ana" not in form
    assert "checked" not in form
    assert "PASSED test_200" not in form


def test_an_audit_round_asks_for_behavior_and_no_decision(trajectory: Trajectory, ana: User) -> None:
    round_ = make_round(trajectory.version, ana, kind="audit")
    add_item(round_, trajectory)
    client = of(ana)
    address = claim(client, round_)
    page = client.get(address).content.decode()
    assert "B01" in page
    assert 'name="decision"' not in page
    assert submit(client, address, decision="", integrity="", tags=["B03"], **{"requirement-R1": ""}).status_code == 200
    assert Grade.objects.get().tags == ["B03"]


def test_the_requirements_are_those_of_the_draw(round_: ReviewRound, slot: Slot, ana: User) -> None:
    slot.item.task.rubrics.create(
        number=2, requirements=[{"id": "R1", "text": "something newer"}], digest="1" * 64, origin="edited"
    )
    client = of(ana)
    page = client.get(claim(client, round_)).content.decode()
    assert "page 1 is first" in page
    assert "something newer" not in page


# --- drafts and leases


def test_a_draft_is_kept_and_comes_back(round_: ReviewRound, slot: Slot, ana: User) -> None:
    client = of(ana)
    address = claim(client, round_)
    typed = answer(note="half a thou", decision="", evidence=json.dumps([EVIDENCE]))
    assert client.post(f"{address}draft/", typed).json()["saved"].endswith("Z")
    page = client.get(address).content.decode()
    assert "half a thou" in page
    assert "PASSED test_200" in page
    assert not Grade.objects.exists()


def test_a_draft_longer_than_any_answer_is_refused(round_: ReviewRound, slot: Slot, ana: User) -> None:
    client = of(ana)
    address = claim(client, round_)
    client.post(f"{address}draft/", answer(note="short"))
    refused = client.post(f"{address}draft/", answer(note="x" * 400_000))
    assert refused.status_code == 422
    assert "300,000 are kept. Shorten it." in refused.json()["problem"]
    assert Draft.objects.get().content["note"] == "short"


def test_a_draft_of_a_lost_item_is_kept_and_says_so(round_: ReviewRound, slot: Slot, ana: User, bo: User) -> None:
    client = of(ana)
    address = claim(client, round_)
    client.post(f"{address}draft/", answer(note="mine"))
    Slot.objects.filter(pk=slot.pk).update(reviewer=bo)
    for response in (client.post(f"{address}draft/", answer(note="mine, longer")), client.post(f"{address}heartbeat/")):
        assert response.status_code == 409
        assert "went to someone else" in response.json()["problem"]
    assert "mine, longer" in client.get(address).content.decode()


def test_a_heartbeat_holds_the_item(round_: ReviewRound, slot: Slot, ana: User) -> None:
    client = of(ana)
    address = claim(client, round_)
    Slot.objects.filter(pk=slot.pk).update(lease_until=NOW)
    assert client.post(f"{address}heartbeat/").status_code == 200
    slot.refresh_from_db()
    assert slot.lease_until
    assert slot.lease_until > NOW


def test_what_a_database_cannot_keep_is_made_visible(round_: ReviewRound, slot: Slot, ana: User) -> None:
    client = of(ana)
    address = claim(client, round_)
    assert client.post(f"{address}draft/", answer(note="a\x00b", **{"requirement-R\x00": "met"})).status_code == 200
    assert submit(client, address, note="a\x00b").status_code == 200
    assert Grade.objects.get().note == "a\ufffdb"


@pytest.mark.parametrize(
    "evidence",
    [
        *("{", "{}", "[1]", '[{"kind": "step"}]', json.dumps([{**EVIDENCE, "kind": "rumor"}])),
        *(json.dumps([{**EVIDENCE, "quote": text}]) for text in ("a\x00b", "a\ud800b")),
    ],
)
def test_evidence_that_no_page_makes_is_refused(round_: ReviewRound, slot: Slot, ana: User, evidence: str) -> None:
    client = of(ana)
    address = claim(client, round_)
    response = submit(client, address, evidence=evidence)
    assert response.status_code == 422
    assert "evidence" in response.json()["fields"]
    assert client.post(f"{address}draft/", answer(evidence=evidence)).status_code == 422


# --- submitting


def test_an_answer_is_stored_and_brings_the_next_item(round_: ReviewRound, slot: Slot, ana: User) -> None:
    client = of(ana)
    address = claim(client, round_)
    response = submit(client, address)
    grade = Grade.objects.get()
    assert (grade.decision, grade.integrity, grade.acceptable, grade.seconds) == ("satisfied", "none", "yes", 75)
    assert grade.requirements == {"R1": "met"}
    follower = Slot.objects.get(state="leased")
    assert f'data-base="/review/slots/{follower.public_id}/"' in response.content.decode()
    assert "<html" not in response.content.decode()


def test_without_scripts_an_answer_leads_to_the_next_item(round_: ReviewRound, slot: Slot, ana: User) -> None:
    client = of(ana)
    response = client.post(f"{claim(client, round_)}submit/", answer())
    assert response["Location"] == reverse("review-next", args=[round_.public_id])


def test_a_refused_answer_without_scripts_loses_nothing(round_: ReviewRound, slot: Slot, ana: User) -> None:
    client = of(ana)
    response = client.post(f"{claim(client, round_)}submit/", answer(decision="", note="keep this"))
    assert response.status_code == 422
    page = response.content.decode()
    assert "Decide whether the work satisfies the task." in page
    assert "keep this" in page
    assert "PASSED test_200" in page


@pytest.mark.parametrize(
    ("fields", "missing"),
    [
        ({"decision": ""}, {"decision"}),
        ({"integrity": ""}, {"integrity"}),
        ({"evidence": "[]"}, {"evidence"}),
        ({"evidence": "[]", "decision": "", "integrity": ""}, {"decision", "integrity", "evidence"}),
        ({"evidence": "[]", "decision": "cannot_tell", "integrity": "hacked"}, {"evidence"}),
        ({"requirement-R9": "met"}, {"requirements"}),
        ({"tags": ["E01"]}, {"tags"}),
    ],
)
def test_what_is_missing_is_named_by_field(
    round_: ReviewRound, slot: Slot, ana: User, fields: dict[str, Any], missing: set[str]
) -> None:
    client = of(ana)
    response = submit(client, claim(client, round_), **fields)
    assert response.status_code == 422
    assert set(response.json()["fields"]) == missing
    assert not Grade.objects.exists()


def test_cannot_tell_needs_no_evidence(round_: ReviewRound, slot: Slot, ana: User) -> None:
    client = of(ana)
    assert submit(client, claim(client, round_), decision="cannot_tell", evidence="[]").status_code == 200
    assert Grade.objects.get().acceptable == "unknown"


@pytest.mark.parametrize(
    ("change", "result"),
    [
        ({}, "exact"),
        ({"line_start": 3, "line_end": 3, "quote": "PASSED test_200\nPASSED test_201"}, "relocated"),
        ({"quote": "PASSED test_999"}, "not_found"),
        ({"target": "99"}, "no_such_target"),
        ({"line_start": 9000, "line_end": 9000}, "out_of_range"),
        ({"kind": "verifier", "target": "out.txt", "part": "none", "item": 0}, "no_such_target"),
        ({"kind": "reference", "target": "notes.md", "part": "none", "item": 0}, "no_such_target"),
        ({"kind": "file", "target": "deliverable/app/paging.py", "part": "none", "item": 0,
          "line_start": 2, "line_end": 2, "quote": "    return (n - 1) * 10"}, "exact"),
        ({"kind": "file", "target": "initial/app/paging.py", "part": "none", "item": 0,
          "line_start": 2, "line_end": 2, "quote": "return n * 10"}, "exact"),
        ({"kind": "instruction", "target": "", "part": "none", "item": 0,
          "line_start": 2, "line_end": 2, "quote": "Do not touch tests."}, "exact"),
    ],
)  # fmt: skip
def test_each_citation_is_checked_against_the_text_and_kept(
    round_: ReviewRound, slot: Slot, ana: User, change: dict[str, Any], result: str
) -> None:
    client = of(ana)
    cited = {**EVIDENCE, **change}
    assert submit(client, claim(client, round_), evidence=json.dumps([cited])).status_code == 200
    [kept] = Grade.objects.get().evidence
    assert kept["result"] == result
    assert kept["ok"] is (result in ("exact", "relocated"))
    assert kept["quote"] == cited["quote"]
    if result == "relocated":
        assert kept["line_start"] == 200


def test_the_same_press_twice_stores_one_grade(round_: ReviewRound, slot: Slot, ana: User) -> None:
    client, token = of(ana), str(uuid.uuid4())
    address = claim(client, round_)
    for _ in range(2):
        assert submit(client, address, token=token).status_code == 200
    assert Grade.objects.count() == 1


def test_a_late_answer_is_kept_and_says_so(round_: ReviewRound, slot: Slot, ana: User, bo: User) -> None:
    client = of(ana)
    address = claim(client, round_)
    client.post(f"{address}draft/", answer(note="late"))
    Slot.objects.filter(pk=slot.pk).update(reviewer=bo)
    response = submit(client, address, note="late, whole")
    assert response.status_code == 409
    assert "Your text is kept" in response.json()["problem"]
    assert not Grade.objects.exists()
    assert "late, whole" in client.get(address).content.decode()


def test_a_late_answer_that_found_another_place_is_said_to_count(
    round_: ReviewRound, slot: Slot, ana: User, bo: User
) -> None:
    client = of(ana)
    address = claim(client, round_)
    client.post(f"{address}draft/", answer(note="late"))
    Slot.objects.create(round=round_, item=slot.item, copy=9, position=99)
    Slot.objects.filter(pk=slot.pk).update(reviewer=bo)
    assert submit(client, address, note="late").status_code == 200
    page = client.get(address)
    assert "came late and counts all the same" in page.text
    assert not page.context["can_submit"]
    again = submit(client, address, note="later still")
    assert (again.status_code, "has arrived before and counts" in again.json()["problem"]) == (409, True)
    assert Grade.objects.count() == 1


def test_an_edit_is_a_new_version_and_is_filled_in(round_: ReviewRound, slot: Slot, ana: User) -> None:
    client = of(ana)
    address = claim(client, round_)
    submit(client, address)
    following = claim(client, round_)
    assert client.post(f"{following}undo/")["Location"] == address
    page = client.get(address).content.decode()
    assert "It is right." in page
    assert 'value="satisfied" checked' in page
    submit(client, address, decision="not_satisfied")
    assert list(Grade.objects.order_by("number").values_list("decision", "current")) == [
        ("satisfied", False),
        ("not_satisfied", True),
    ]


def test_undo_with_nothing_behind_it_says_so(round_: ReviewRound, slot: Slot, ana: User) -> None:
    client = of(ana)
    address = claim(client, round_)
    assert "nothing before this" in client.post(f"{address}undo/", follow=True).content.decode()


# --- the ends of a queue


def test_the_three_ends_are_told_apart_with_counts(round_: ReviewRound, slot: Slot, ana: User, bo: User) -> None:
    mine, other = of(ana), of(bo)
    mine.post(f"{claim(mine, round_)}submit/", answer())
    claim(other, round_)
    page = mine.get(reverse("review-next", args=[round_.public_id])).content.decode()
    assert "Nothing for you now" in page
    assert "Others hold 1 item" in page
    other.post(f"{claim(other, round_)}submit/", answer())
    page = mine.get(reverse("review-next", args=[round_.public_id])).content.decode()
    assert "Done: nothing is left for you" in page
    assert "1 of 2 in the round" in page
    ReviewRound.objects.update(state="closed")
    assert "This round is closed" in mine.get(reverse("review-next", args=[round_.public_id])).content.decode()


def test_instructions_come_first_and_once(round_: ReviewRound, slot: Slot, ana: User) -> None:
    ReviewRound.objects.update(instructions="Count <b>only</b> files.")
    client, following = of(ana), reverse("review-next", args=[round_.public_id])
    response = client.get(following, follow=True)
    assert "Count &lt;b&gt;only&lt;/b&gt; files." in response.content.decode()
    assert Slot.objects.filter(state="leased").count() == 0
    client.post(reverse("review-instructions", args=[round_.public_id]))
    assert RoundReviewer.objects.get(user=ana).read_instructions_at
    assert "/slots/" in claim(client, round_)


# --- giving back


def test_a_skip_is_listed_and_can_be_taken_back(round_: ReviewRound, slot: Slot, ana: User) -> None:
    client = of(ana)
    address = claim(client, round_)
    for _ in range(2):  # pressed twice
        given = client.post(f"{address}skip/", {"reason": "no idea of Rust", "outside": "1"})
        assert given["Location"] == reverse("review-next", args=[round_.public_id])
    skipped = Skip.objects.get()
    assert (skipped.reason, skipped.outside) == ("no idea of Rust", True)
    assert client.get(address).status_code == 404
    assert "no idea of Rust" in client.get(reverse("review")).content.decode()
    assert client.post(reverse("review-unskip", args=[slot.public_id]))["Location"] == address
    again = client.post(reverse("review-unskip", args=[slot.public_id]), follow=True)
    assert "This was taken back already." in again.content.decode()
    assert client.get(address).status_code == 200


def test_a_skipped_item_says_that_it_was_skipped_and_the_end_that_it_is_left(
    round_: ReviewRound, slot: Slot, ana: User
) -> None:
    client = of(ana)
    address = claim(client, round_)
    client.post(f"{address}draft/", {"note": "half a thought"})  # so that its page can still be looked at
    client.post(f"{address}skip/", {"reason": "later"})
    page = client.get(address).text
    assert "You skipped this item. Take the skip back" in page
    assert "lease had run out" not in page
    Slot.objects.exclude(pk=Slot.objects.get(public_id=address.split("/")[-2]).pk).update(state="closed")
    end = client.get(reverse("review-next", args=[round_.public_id])).text
    assert "Nothing is left but what you skipped, 1 item" in end
    assert "Every item you may grade" not in end


def test_a_released_round_offers_no_step_after_the_grade_but_one_that_was_opened(
    round_: ReviewRound, slot: Slot, ana: User
) -> None:
    client = of(ana)
    address = claim(client, round_)
    submit(client, address)
    link = f'href="{address}after/"'
    assert link in client.get(reverse("review")).text
    ReviewRound.objects.update(state=RoundState.RELEASED)
    assert link not in client.get(reverse("review")).text
    ReviewRound.objects.update(state=RoundState.OPEN)
    client.post(f"{address}after/", {"do": "open"})
    ReviewRound.objects.update(state=RoundState.RELEASED)
    assert link in client.get(reverse("review")).text
    assert client.get(f"{address}after/").status_code == 200


def test_nobody_takes_back_the_skip_of_another(round_: ReviewRound, slot: Slot, ana: User, bo: User) -> None:
    client = of(ana)
    client.post(f"{claim(client, round_)}skip/", {})
    assert of(bo).post(reverse("review-unskip", args=[slot.public_id])).status_code == 404


def test_a_flag_needs_a_reason(round_: ReviewRound, slot: Slot, ana: User) -> None:
    client = of(ana)
    address = claim(client, round_)
    response = client.post(f"{address}flag/", {"reason": " "})
    assert response.status_code == 422
    assert "Say what is wrong" in response.content.decode()
    assert client.post(f"{address}flag/", {"reason": "names its author"}).status_code == 302
    assert client.post(f"{address}flag/", {"reason": "names its author"}).status_code == 302  # pressed twice
    assert Flag.objects.get().reason == "names its author"
    assert "You flagged this item" in client.get(address).content.decode()


# --- guess and what follows the lock


def test_a_guess_is_asked_for_once_and_only_where_it_should_be(round_: ReviewRound, slot: Slot, ana: User) -> None:
    Slot.objects.filter(pk=slot.pk).update(asks_guess=True)
    client = of(ana)
    address = claim(client, round_)
    assert 'id="guess"' in submit(client, address).content.decode()
    assert client.post(f"{address}guess/", {"guess": "fail"}, headers={"HX-Request": "true"}).status_code == 204
    assert VerifierGuess.objects.get().guess == "fail"
    assert 'id="guess"' not in submit(client, address).content.decode()
    following = claim(client, round_)
    assert 'id="guess"' not in submit(client, following).content.decode()
    assert client.post(f"{following}guess/", {"guess": "fail"}, headers={"HX-Request": "true"}).status_code == 422


def test_a_guess_may_be_left_out(round_: ReviewRound, slot: Slot, ana: User) -> None:
    Slot.objects.filter(pk=slot.pk).update(asks_guess=True)
    client = of(ana)
    address = claim(client, round_)
    assert client.post(f"{address}submit/", answer())["Location"] == f"{address}guess/"
    assert client.post(f"{address}guess/", {"guess": ""}).status_code == 302
    assert not VerifierGuess.objects.exists()


def test_the_verifier_is_shown_after_the_lock_alone(round_: ReviewRound, slot: Slot, ana: User) -> None:
    client = of(ana)
    address = claim(client, round_)
    assert client.get(f"{address}after/").status_code == 404
    assert client.post(f"{address}after/", {"do": "open"}).status_code == 422
    submit(client, address)
    asked = client.get(f"{address}after/").content.decode()
    assert "withdrawn from all other items of this task" in asked
    assert "the-stream-mark" not in asked
    assert client.get(f"{address}after/file/?path=out.txt").status_code == 404
    assert not Exclusion.objects.filter(task=slot.item.task).exists()

    shown = client.post(f"{address}after/", {"do": "open"}, follow=True).content.decode()
    assert "the-stream-mark" in shown
    assert "E01" in shown
    for mark in ("the-model-mark", "the-agent-mark", "the-source-id-mark"):
        assert mark not in shown
    assert Exclusion.objects.filter(task=slot.item.task, user=ana).exists()
    assert not review.is_editable(Slot.objects.get(pk=slot.pk), by=ana)
    assert client.post(f"{address}after/", {"tags": ["C01"]}).status_code == 422
    assert client.post(f"{address}after/", {"tags": ["E01"], "note": "too strict"}).status_code == 302
    assert (Attribution.objects.get().tags, Attribution.objects.get().note) == (["E01"], "too strict")


# --- landing


def test_a_reviewer_lands_on_their_rounds(round_: ReviewRound, slot: Slot, ana: User, trajectory: Trajectory) -> None:
    client = of(ana)
    assert client.get("/")["Location"] == reverse("review")
    dataset = client.get(f"/d/{trajectory.version.dataset.name}/").content.decode()
    for page in (dataset, client.get(reverse("review")).content.decode()):
        assert round_.title in page
        assert reverse("review-next", args=[round_.public_id]) in page
        for mark in HIDDEN:
            assert mark not in page
    assert "My reviews" in dataset


def test_who_is_assigned_to_nothing_is_told(trajectory: Trajectory, ana: User) -> None:
    assert "You are not assigned to a round" in of(ana).get(reverse("review")).content.decode()
