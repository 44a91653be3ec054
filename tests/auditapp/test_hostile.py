"""What no page sends: NUL in addresses, tokens of others. It is refused with a reason, and nothing is stored of it."""

import json
import uuid

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from auditapp import grading, review, rounds
from auditapp.forms.review import UnreadableEvidence, read_evidence
from auditapp.models.datasets import Membership, Role
from auditapp.models.reviews import Attribution, Flag, Grade, Slot
from auditapp.review import ReviewError
from tests.auditapp.population import add_trajectory, make_task, make_version
from tests.auditapp.round_world import make_release
from tests.auditapp.rounds import NOW, good, make_reviewers, make_round

pytestmark = pytest.mark.django_db


@pytest.fixture
def lead() -> Client:
    version = make_release(tasks=2)
    user = User.objects.create_user("lea", password="not used")
    Membership.objects.create(dataset=version.dataset, user=user, role=Role.LEAD)
    client = Client()
    client.force_login(user)
    return client


def of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize(
    ("page", "key"),
    [
        *(("trajectories", key) for key in ("version", "model", "before")),
        *(("labels", key) for key in ("version", "tag")),
        *(("numbers-rows", key) for key in ("environment", "model", "other", "hack")),
        ("numbers", "judge"),
        ("round-held-out-new", "version"),
    ],
)
def test_nul_in_an_address_is_no_server_error(lead: Client, page: str, key: str) -> None:
    found = lead.get(reverse(page, args=["release"]), {key: "a\x00b"})
    assert found.status_code == 400
    assert "NUL" in found.content.decode()


def test_nul_in_the_name_of_a_dataset_is_no_server_error(lead: Client) -> None:
    assert lead.get("/d/rel%00ease/").status_code == 400


def held(trajectories: int = 2, **fields: object) -> tuple[Slot, User, User]:
    """The first slot of an open round, held by one of two reviewers."""
    task = make_task(make_version("release"), "task")
    work = [add_trajectory(task, f"t{number}", "pass") for number in range(trajectories)]
    ann, ben = make_reviewers(task.version, "ann", "ben")
    slot = review.claim_next_slot(make_round(work, [ann, ben], copies=2, **fields), by=ann, now=NOW)
    assert isinstance(slot, Slot)
    return slot, ann, ben


def claimed(slot: Slot, by: User) -> Slot:
    found = review.claim_next_slot(slot.round, by=by, now=NOW)
    assert isinstance(found, Slot)
    return found


def test_a_token_of_another_item_stores_nothing_and_says_so() -> None:
    slot, ann, _ = held()
    token = uuid.uuid4()
    grading.submit_grade(slot, good(), token=token, by=ann, now=NOW)
    following = claimed(slot, ann)
    with pytest.raises(ReviewError, match="another item"):
        grading.submit_grade(following, good(decision="not_satisfied"), token=token, by=ann, now=NOW)
    assert Grade.objects.get().slot == slot
    grading.submit_grade(following, good(decision="not_satisfied"), token=uuid.uuid4(), by=ann, now=NOW)
    assert Grade.objects.count() == 2


def test_a_token_of_another_reviewer_stores_nothing_and_says_so() -> None:
    slot, ann, ben = held()
    token = uuid.uuid4()
    grading.submit_grade(slot, good(), token=token, by=ann, now=NOW)
    other = claimed(slot, ben)
    evidence = '[{"kind":"step","target":"1","part":"message","item":1,"line_start":1,"line_end":1,"quote":"done"}]'
    sent = {"decision": "satisfied", "integrity": "none", "evidence": evidence, "token": str(token)}
    found = of(ben).post(reverse("review-submit", args=[other.public_id]), sent, headers={"HX-Request": "true"})
    assert (found.status_code, Grade.objects.count()) == (422, 1)
    assert "out of date" in found.json()["problem"]


def test_no_tag_is_added_after_the_labels_are_made() -> None:
    slot, ann, _ = held()
    grading.submit_grade(slot, good(), token=uuid.uuid4(), by=ann, now=NOW)
    slot.refresh_from_db()
    grading.open_attribution(slot, by=ann, now=NOW)
    rounds.close_round(slot.round, by=None, now=NOW)
    rounds.release_round(slot.round, by=None, now=NOW)
    with pytest.raises(ReviewError, match="released"):
        grading.submit_attribution(review.slot_for(slot.public_id, by=ann), [], "late", by=ann, now=NOW)
    assert Attribution.objects.get().submitted_at is None


def test_nul_in_a_resolution_is_made_visible(lead: Client) -> None:
    task = make_task(Membership.objects.get(user__username="lea").dataset.versions.get(), "another")
    (ann,) = make_reviewers(task.version, "ann")
    slot = review.claim_next_slot(make_round([add_trajectory(task, "t", "pass")], [ann]), by=ann, now=NOW)
    assert isinstance(slot, Slot)
    flag = review.flag_slot(slot, reason="broken", by=ann, now=NOW)
    address = reverse("round-flag", args=[slot.round.public_id, flag.pk])
    assert lead.post(address, {"do": "free", "resolution": "a\x00b"}).status_code == 302
    assert Flag.objects.get().resolution == "a\ufffdb"


@pytest.mark.parametrize("number", [-1, 2**31, 10**30])
@pytest.mark.parametrize("field", ["item", "line_start", "line_end"])
def test_a_line_that_no_text_has_is_not_cited(field: str, number: int) -> None:
    place = {"kind": "step", "target": "1", "part": "message", "item": 1, "line_start": 1, "line_end": 1}
    with pytest.raises(UnreadableEvidence, match="no text has"):
        read_evidence(json.dumps([{**place, "quote": "done", field: number}]))


def test_a_form_from_elsewhere_is_refused_on_a_page_of_ours(lead: Client) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = lead.cookies
    found = strict.post(reverse("visit-dismiss", args=["release"]))
    assert found.status_code == 403
    assert "load the page anew" in found.content.decode()
    assert 'rel="stylesheet"' in found.content.decode()


@pytest.mark.parametrize("kind", ["invite", "triage", "audit"])
def test_an_id_without_end_is_nobody(lead: Client, kind: str) -> None:
    task = make_task(Membership.objects.get(user__username="lea").dataset.versions.get(), "another")
    opened = make_round([add_trajectory(task, "t", "pass")], make_reviewers(task.version, "ann"))
    make_reviewers(task.version, "ben")
    sent = {"do": "invite", "title": "T", "size": "1", "seed": "1", "users": "9" * 30, "reviewers": "9" * 30}
    steer, new = reverse("round-steer", args=[opened.public_id]), reverse("round-new", args=["release"])
    found = lead.post(steer if kind == "invite" else f"{new}?kind={kind}", sent)
    assert found.status_code == 422
    assert kind != "invite" or "is not one of the available choices" in found.content.decode()
    assert opened.reviewers.count() == 1
