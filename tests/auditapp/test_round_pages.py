"""Pages of rounds, what is closed to whoever is assigned to one, exposure to verdicts, and labels of people."""

import csv
import io
import re
import uuid
from datetime import timedelta
from html import escape, unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from auditapp import judging, review, rounds
from auditapp.configs import register
from auditapp.estimation import stored
from auditapp.exports import csv_lines, label_rows
from auditapp.forms.rounds import RoundForm, SettleForm
from auditapp.models.datasets import DatasetVersion, Membership, Role, Task, Trajectory
from auditapp.models.exchanges import Exchange
from auditapp.models.judgments import JudgeConfig, JudgeRun, Judgment, RunState
from auditapp.models.labels import Calibration, ImportedLabel, calibrated, calibrations, labels
from auditapp.models.reviews import Exclusion, Flag, Grade, ReviewerField, ReviewRound, RoundKind, RoundState, Slot
from auditapp.models.rounds import ItemDraw, ReviewLabel, RoundStratum
from auditapp.models.samples import Sample
from auditapp.models.sources import ImportBatch
from auditapp.relabel import count_not_run_as
from auditapp.sampling import draw_sample, freeze_frame
from auditapp.sections.pace import usual_seconds
from auditapp.sections.rounds import looking_cost
from auditapp.sections.watching import totals, watch
from auditapp.stats.allocation import Plan
from auditapp.stats.anytime import anytime_interval
from auditapp.stats.proportions import wilson
from auditapp.templatetags.numbers import in_percent
from judges.config import JudgeConfig as Config
from tests.addresses import Address, addresses
from tests.auditapp.round_world import NOW, grade, make_judged, make_people, make_release, make_round, work_off

pytestmark = pytest.mark.django_db

# Pages of a reviewer, of nobody in particular, and those by which a lead goes on steering.
STILL_OPEN = {"home", "dataset", "taxonomy", "methodology", "login", "logout", "healthz", "readyz", "visit-dismiss"}
STILL_OPEN |= {"password_change", "password_change_done", "rounds", "round", "round-progress", "round-steer"}
PREFIXES_OPEN = ("review", "practice-")


@pytest.fixture
def version() -> DatasetVersion:
    return make_release()


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def lead_of(version: DatasetVersion, name: str = "lea") -> User:
    return make_people(version, name, role=Role.LEAD)[0]


# --- blinding


def objects_of(name: str, version: DatasetVersion) -> uuid.UUID:
    """An object that the page of this name is about."""
    kinds: dict[str, Any] = {
        "import": ImportBatch, "sample": Sample, "run": JudgeRun, "label": Judgment, "exchange": Exchange,
        "task": Task, "round": ReviewRound, "trajectory": Trajectory,
    }  # fmt: skip
    kind = next((model for prefix, model in kinds.items() if name == prefix or name.startswith(f"{prefix}-")), None)
    assert kind is not None, f"say what the page {name} is about"
    return kind.objects.first().public_id  # type: ignore[no-any-return]


def path_of(address: Address, version: DatasetVersion) -> str:
    given: dict[str, Any] = {"name": version.dataset.name, "number": 0, "root": "deliverable"}
    given |= dict.fromkeys(("digest", "before", "after"), JudgeConfig.objects.first().digest)  # type: ignore[union-attr]
    if "public_id" in address.converters:
        given["public_id"] = objects_of(address.name or "", version)
    return reverse(address.name or "", kwargs={key: given[key] for key in address.converters})


def statuses(client: Client, version: DatasetVersion) -> dict[str, set[int]]:
    """What every page outside the open ones answers, to a GET or, where it takes none, to a POST."""
    found = {}
    for address in addresses():
        name = address.name or ""
        if name in STILL_OPEN or name.startswith(PREFIXES_OPEN) or "held-out" in name or "cold-read" in name:
            continue
        path = path_of(address, version)
        answers = {client.get(path).status_code, client.post(path).status_code} - {405}
        found[name] = answers
    return found


def test_every_page_of_readers_is_closed_to_a_lead_who_is_assigned(version: DatasetVersion) -> None:
    lead = lead_of(version)
    make_round(version, [lead, *make_people(version, "ann")])
    run = JudgeRun.objects.get()
    Exchange.objects.create(
        dataset=version.dataset, config=run.config, kind="dry_run", trajectory=version.trajectories.first()
    )
    found = statuses(client_of(lead), version)
    assert len(found) > 40
    assert {name: codes for name, codes in found.items() if codes != {403}} == {}


def test_held_out_sets_are_closed_too(version: DatasetVersion) -> None:
    lead = lead_of(version)
    make_round(version, [lead, *make_people(version, "ann")])
    assert client_of(lead).get(f"/d/{version.dataset.name}/held-out/").status_code == 403


@pytest.mark.parametrize("state", ["drawn", "open", "closed"])
def test_the_refusal_names_the_round_until_it_is_released(version: DatasetVersion, state: str) -> None:
    lead = lead_of(version)
    made = make_round(version, [lead, *make_people(version, "ann")], opened=state != "drawn")
    if state == "closed":
        rounds.close_round(made, by=None, now=NOW)
    client, address = client_of(lead), f"/d/{version.dataset.name}/labels/"
    refused = client.get(address)
    assert refused.status_code == 403
    assert b"review round \xe2\x80\x9cRound\xe2\x80\x9d of the dataset release" in refused.content
    if state == "closed":
        rounds.release_round(made, by=None, now=NOW)
        assert client.get(address).status_code == 200


def test_a_superuser_who_is_assigned_is_no_exception(version: DatasetVersion) -> None:
    lead = lead_of(version)
    User.objects.filter(pk=lead.pk).update(is_superuser=True, is_staff=True)
    make_round(version, [lead, *make_people(version, "ann")])
    assert client_of(User.objects.get(pk=lead.pk)).get(f"/d/{version.dataset.name}/numbers/").status_code == 403


def test_a_lead_outside_the_round_and_one_of_another_dataset_see_as_before(version: DatasetVersion) -> None:
    make_round(version, make_people(version, "ann", "bob"))
    assert client_of(lead_of(version)).get(f"/d/{version.dataset.name}/labels/").status_code == 200
    other = make_release(name="other", tasks=1)
    lead = lead_of(other, "zoe")
    Membership.objects.create(dataset=version.dataset, user=lead, role=Role.LEAD)
    made = make_round(version, [lead, *make_people(version, "carl")], size=10, seed=9)
    assert made.state == "open"
    assert client_of(lead).get("/d/other/labels/").status_code == 200
    assert client_of(lead).get("/d/release/labels/").status_code == 403


def test_who_is_blinded_begins_no_dataset(version: DatasetVersion) -> None:
    lead = lead_of(version)
    assert client_of(lead).get("/import/").status_code == 200
    make_round(version, [lead, *make_people(version, "ann")])
    assert client_of(lead).get("/import/").status_code == 403


def test_home_and_dataset_show_the_reviewers_view_and_the_way_to_steer(version: DatasetVersion) -> None:
    lead = lead_of(version)
    make_round(version, [lead, *make_people(version, "ann")])
    for address in ("/", f"/d/{version.dataset.name}/"):
        page = client_of(lead).get(address)
        assert page.status_code == 200
        assert f"/d/{version.dataset.name}/review/" in page.text
        assert "assigned to" in page.text
        assert "false-pass rate" not in page.text
        assert "Made by" not in page.text


def test_other_kinds_of_rounds_blind_nobody_but_a_cold_read_until_its_texts_are_in(version: DatasetVersion) -> None:
    lead, tasks = lead_of(version), list(version.tasks.all())
    common: dict[str, Any] = {"tasks": tasks[:1], "reviewers": [lead], "by": None}
    rounds.draw_task_round(version, title="t", seed=1, settings=rounds.RoundSettings(kind="triage"), **common)
    client, address = client_of(lead), f"/d/{version.dataset.name}/labels/"
    assert client.get(address).status_code == 200
    cold = rounds.RoundSettings(kind="cold_read")
    made = rounds.draw_task_round(version, title="c", seed=1, settings=cold, **common)
    rounds.open_round(made, by=None, now=NOW)
    assert client.get(address).status_code == 403
    Slot.objects.filter(round=made).update(state="submitted", reviewer=lead)
    assert client.get(address).status_code == 200


# --- the lead's pages


def form_of(page: Any, **changes: Any) -> dict[str, Any]:
    """What a browser would send of the form of a new round."""
    form = page.context["form"]
    data = {name: form[name].value() for name in form.fields if form[name].value() not in (None, False, [])}
    return {**data, "sample": str(data["sample"]), **changes}


def test_a_round_is_previewed_then_drawn_by_the_form(version: DatasetVersion) -> None:
    make_judged(version)
    ann, bob = make_people(version, "ann", "bob")
    client, address = client_of(lead_of(version)), f"/d/{version.dataset.name}/review/new/"
    data = form_of(client.get(address), size=20, seed=5) | {f"fields{ann.pk}": ["env 1"]}
    preview = client.post(address, data | {"preview": "yes"})
    assert preview.status_code == 200
    assert preview.context["planned"].items == 20
    assert not ReviewRound.objects.exists()
    drawn = client.post(address, data)
    made = ReviewRound.objects.get()
    assert drawn["Location"] == f"/review/rounds/{made.public_id}/"
    assert (made.seed, made.items.count(), made.state, made.title) == (5, 20, "drawn", "Round 1")
    assert set(made.reviewers.values_list("user", flat=True)) == {ann.pk, bob.pk}
    assert list(ReviewerField.objects.values_list("user", "environment")) == [(ann.pk, "env 1")]


def test_a_round_by_the_judges_requirements_takes_a_judge(version: DatasetVersion) -> None:
    make_judged(version)
    make_people(version, "ann", "bob")
    client, address = client_of(lead_of(version)), f"/d/{version.dataset.name}/review/new/"
    data = form_of(client.get(address), size=20, seed=5, rubric="judged")
    assert (
        "Choose a judge, so that people answer its requirements" in client.post(address, data | {"judge": "none"}).text
    )
    assert not ReviewRound.objects.exists()
    page = client.get(client.post(address, data)["Location"]).text
    assert "<dt>Requirements</dt><dd>those that the judge answered</dd>" in page


def shown(text: str) -> str:
    """The text of a page without its tags."""
    return " ".join(re.sub(r"<[^>]+>", " ", text).split())


def test_preview_and_page_tell_the_same_hours_and_what_was_possible(version: DatasetVersion) -> None:
    make_judged(version)
    people = make_people(version, "ann", "bob")
    client, address = client_of(lead_of(version)), f"/d/{version.dataset.name}/review/new/"
    data = form_of(client.get(address), size=9, floor=2, overlap=0, seed=5)

    def preview_and_page() -> tuple[str, str]:
        preview = client.post(address, data | {"preview": "yes"})
        page = client.get(client.post(address, data)["Location"])
        assert page.context["watch"].hours_left == preview.context["hours"]
        return shown(preview.text), shown(page.text)

    for text in preview_and_page():
        assert "taking ten minutes an item, as nobody has graded one yet" in text
        assert (
            "at least 1 of every verifier × judge cell, where 2 of every cell of stratum and judge were asked" in text
        )
        assert "at least 0" not in text
    first = ReviewRound.objects.get()
    rounds.open_round(first, by=None, now=NOW)
    work_off(first, people, lambda *_: "satisfied", most=3)
    at_work = client.get(f"/review/rounds/{first.public_id}/")
    assert "at 1\u202fmin 00\u202fs an item, as so far" in at_work.text.replace("\n", "")
    data |= {"size": 20, "seed": 6}
    for text in preview_and_page():
        assert "at 1 min 00 s an item, as in earlier rounds" in text
        assert "at least 1 of every cell of stratum and judge, where 2 were asked for" in text


def test_nothing_comes_back_sooner_than_after_a_week(version: DatasetVersion) -> None:
    make_judged(version)
    people = make_people(version, "ann", "bob")
    client, address = client_of(lead_of(version)), f"/d/{version.dataset.name}/review/new/"
    data = form_of(client.get(address), size=20, seed=5)
    refused = client.post(address, data | {"repeat_days": 6})
    assert refused.status_code == 422
    assert refused.context["form"].errors["repeat_days"]
    with pytest.raises(rounds.RoundError, match="7 days at the earliest"):
        make_round(version, people, settings=rounds.RoundSettings(repeat_days=6))
    assert not ReviewRound.objects.exists()


def test_a_preview_refuses_what_drawing_would_refuse(version: DatasetVersion) -> None:
    make_judged(version)
    make_people(version, "ann")
    client, address = client_of(lead_of(version)), f"/d/{version.dataset.name}/review/new/"
    data = form_of(client.get(address), size=20, seed=5, overlap=20)
    preview = client.post(address, data | {"preview": "yes"})
    assert preview.status_code == 422
    assert "needs two reviewers" in preview.text
    assert preview.context["planned"] is None


def test_a_preview_says_that_the_judge_is_not_done(version: DatasetVersion) -> None:
    make_judged(version)
    make_people(version, "ann", "bob")
    client, address = client_of(lead_of(version)), f"/d/{version.dataset.name}/review/new/"
    data = form_of(client.get(address), size=20, seed=5) | {"preview": "yes"}
    JudgeRun.objects.update(state=RunState.RUNNING)
    assert "The judge has not finished this sample" in client.post(address, data).text
    JudgeRun.objects.update(state=RunState.DONE)
    assert "The judge has not finished this sample" not in client.post(address, data).text


@pytest.mark.parametrize(
    ("change", "message"),
    [({"size": 999}, "40 trajectories can be drawn"), ({"seed": "x"}, "whole number"), ({"overlap": 120}, "100")],
)
def test_a_wrong_form_says_what_and_loses_nothing(
    version: DatasetVersion, change: dict[str, Any], message: str
) -> None:
    make_judged(version)
    make_people(version, "ann", "bob")
    client, address = client_of(lead_of(version)), f"/d/{version.dataset.name}/review/new/"
    data = form_of(client.get(address), title="kept title") | change
    page = client.post(address, data)
    assert page.status_code == 422
    assert message in page.text
    assert "kept title" in page.text
    assert not ReviewRound.objects.exists()


def test_without_a_reviewer_nothing_is_drawn(version: DatasetVersion) -> None:
    make_judged(version)
    client, address = client_of(lead_of(version)), f"/d/{version.dataset.name}/review/new/"
    page = client.post(address, form_of(client.get(address)))
    assert page.status_code == 422
    assert "Choose at least one reviewer" in page.text


def test_a_lead_outside_watches_cells_people_and_agreement(version: DatasetVersion) -> None:
    people = make_people(version, "ann", "bob", "carl")
    made = make_round(version, people, plan=rounds.RoundPlan(size=6, overlap=1))
    work_off(made, people[:2], lambda _, user: "satisfied" if user.username == "ann" else "not_satisfied")
    page = client_of(lead_of(version)).get(f"/review/rounds/{made.public_id}/")
    watch = page.context["watch"]
    assert sum(part.items for part in watch.groups) == 6
    assert sum(part.done for part in watch.groups) == 12
    assert [(place.user.username, place.done) for place in watch.places] == [("ann", 6), ("bob", 6), ("carl", 0)]
    assert (watch.agreement.pairs, watch.agreement.raw.estimate, page.context["unsettled"]) == (6, 0.0, 6)
    assert watch.seconds == 60
    assert watch.answers == {"yes": 6, "no": 6, "unknown": 0}
    assert "Below 30 pairs this is an anecdote" in page.text


def test_grades_without_a_time_are_not_no_grades(version: DatasetVersion) -> None:
    people = make_people(version, "ann", "bob")
    made = make_round(version, people)
    address, lead = f"/review/rounds/{made.public_id}/", client_of(lead_of(version))
    assert "nothing graded yet" in lead.get(address).text
    work_off(made, people, lambda *_: "satisfied")
    assert "nothing graded yet" not in lead.get(address).text
    Grade.objects.update(seconds=None)
    page = lead.get(address).text
    assert "no times recorded" in page
    assert "nothing graded yet" not in page


def test_a_lease_that_ran_out_is_held_by_nobody(version: DatasetVersion) -> None:
    ann, bob = make_people(version, "ann", "bob")
    made = make_round(version, [ann, bob])
    review.claim_next_slot(made, by=ann, now=NOW)
    later = NOW + timedelta(hours=1)
    review.claim_next_slot(made, by=bob, now=later)
    held = {place.user: place.held for place in watch(made, totals(made, now=later), now=later).places}
    assert held == {ann: 0, bob: 1}


def strip_of(page: str) -> dict[str, str]:
    """The figures under the bar of progress, by name, without tags."""
    strip = page.split('id="round-progress"')[1].split('<dl class="strip">')[1].split("</dl>", maxsplit=1)[0]
    parts = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", strip)
    return {name: re.sub(r"<[^>]+>", "", figure) for name, figure in parts}


def test_what_is_held_and_free_to_adjudicate_counts_after_the_close(version: DatasetVersion) -> None:
    lead = lead_of(version)
    people = [lead, *make_people(version, "ann", "carl", "dora")]
    made = make_round(version, people, plan=rounds.RoundPlan(size=6, overlap=1))
    work_off(made, people[:2], lambda _, user: "satisfied" if user.username == "ann" else "not_satisfied")
    rounds.close_round(made, by=None, now=NOW)
    rounds.create_adjudications(made, by=None)
    slots = [review.claim_next_slot(made, by=person, now=timezone.now()) for person in people[2:]]
    assert isinstance(slots[0], Slot)
    assert isinstance(slots[1], Slot)
    review.flag_slot(slots[1], reason="it does not open", by=people[3], now=timezone.now())
    address = f"/review/rounds/{made.public_id}/"
    page = client_of(lead_of(version, "outside")).get(address)
    strip = strip_of(page.text)
    assert [strip[name] for name in ("Held now", "Free", "Flagged")] == [
        "1 to adjudicate",
        "4 to adjudicate",
        "1 to adjudicate",
    ]
    assert page.context["watch"].hours_left == pytest.approx(5 * 60 / 3600)
    assigned = client_of(lead).get(address).text  # how often reviewers differ is not for one of them
    assert "adjudicate" not in str(strip_of(assigned)).lower()
    assert strip_of(assigned)["Held now to grade"] == "0"


def test_the_end_of_a_closed_round_says_what_can_still_come(version: DatasetVersion) -> None:
    ann, bob, carl, dora = people = make_people(version, "ann", "bob", "carl", "dora")
    made = make_round(version, people, plan=rounds.RoundPlan(size=6, overlap=1))
    work_off(made, people[:2], lambda s, user: "satisfied" if user == ann or s.item.number > 1 else "not_satisfied")
    rounds.close_round(made, by=None, now=NOW)
    rounds.create_adjudications(made, by=None)
    held = review.claim_next_slot(made, by=carl, now=timezone.now())
    assert isinstance(held, Slot)

    def end_for(user: User) -> str:
        text: str = client_of(user).get(f"/review/{made.public_id}/next/").text
        return text.split('id="end"')[1]

    waits = end_for(dora)
    assert "Others hold 1 item that can still come to you" in waits
    assert "This round is closed" not in waits
    assert "Look again" in waits
    for user in (ann, bob):  # graded it themselves, so it never comes to them
        assert "This round is closed" in end_for(user)
        assert "<dt>Held by others, to come to you</dt><dd>0</dd>" in end_for(user)
    grade(held, carl)
    ended = end_for(carl)
    assert "This round is closed" in ended
    assert "What you adjudicated can be changed until its release." in ended
    assert "can be changed until the round is released" in client_of(carl).get("/review/").text


def test_the_plan_says_how_many_items_there_are_after_an_extension(version: DatasetVersion) -> None:
    made = make_round(version, make_people(version, "ann", "bob"), plan=rounds.RoundPlan(size=6))
    client, address = client_of(lead_of(version)), f"/review/rounds/{made.public_id}/"
    assert "6 items, at least" in client.get(address).text
    rounds.extend_round(made, size=4, by=None)
    rounds.extend_round(made, size=3, by=None)
    assert "13 items (6, then 4 more, then 3 more after looking), at least" in client.get(address).text


def test_an_assigned_lead_sees_totals_and_buttons_alone(version: DatasetVersion) -> None:
    lead = lead_of(version)
    people = [lead, *make_people(version, "ann")]
    made = make_round(version, people)
    work_off(made, people[1:], lambda *_: "satisfied", most=4)
    page = client_of(lead).get(f"/review/rounds/{made.public_id}/")
    assert page.status_code == 200
    assert "watch" not in page.context
    assert (page.context["totals"].done, "Close the round" in page.text) == (4, True)
    for hidden in (
        "Two people on one item",
        "Not acceptable",
        "By what the verifier",
        "ann</th>",
        "test judge",
        "round_opened",
    ):
        assert hidden not in page.text
    steer = f"/review/rounds/{made.public_id}/steer/"
    asked = client_of(lead).post(steer, {"do": "adjudicate", "assigned": ""}, follow=True)
    assert "Wherever two reviewers differ" in asked.text
    assert "in the queue" not in asked.text
    assert "Nothing new" not in asked.text
    assert "Adjudicated" not in asked.text
    assert client_of(lead).post(steer, {"do": "close", "known": "on"}).status_code == 302
    made.refresh_from_db()
    assert made.state == "closed"


def test_reviewers_viewers_and_strangers_have_no_page_of_a_round(version: DatasetVersion) -> None:
    ann, bob = make_people(version, "ann", "bob")
    made = make_round(version, [ann, bob])
    viewer = make_people(version, "vic", role=Role.VIEWER)[0]
    stranger = lead_of(make_release(name="other", tasks=1), "zoe")
    for address in (f"/review/rounds/{made.public_id}/", "/d/release/review/", "/d/release/review/new/"):
        codes = [client_of(user).get(address).status_code for user in (ann, viewer, stranger)]
        assert codes == [403, 403, 404]


def test_hours_are_told_by_what_people_took_in_earlier_rounds(version: DatasetVersion) -> None:
    people = make_people(version, "ann", "bob")
    made = make_round(version, people)
    work_off(made, people, lambda *_: "satisfied", most=3)
    assert usual_seconds(version.dataset) == 60
    assert usual_seconds(version.dataset, RoundKind.COLD_READ) is None
    scripted = {"is_scripted": True, "kind": "blind"}
    for told_nothing in (scripted, *({"is_scripted": False, "kind": kind} for kind in ("practice", "cold_read"))):
        ReviewRound.objects.filter(pk=made.pk).update(**told_nothing)
        assert usual_seconds(version.dataset) is None
    assert usual_seconds(version.dataset, RoundKind.COLD_READ) == 60


def test_who_cannot_log_in_is_not_asked_unless_chosen(version: DatasetVersion) -> None:
    ann, robot = make_people(version, "ann", "robot")
    ann.set_password("a long password")
    ann.save()
    robot.set_unusable_password()
    robot.save()
    form = RoundForm(dataset=version.dataset, exposed={})
    assert [form.fields[f"ask{user.pk}"].initial for user in (ann, robot)] == [True, False]
    make_judged(version)
    page = client_of(lead_of(version)).get(reverse("round-new", args=[version.dataset.name])).content.decode()
    assert f'<label for="id_ask{robot.pk}">robot (cannot log in)</label>' in page
    assert f'<label for="id_ask{ann.pk}">ann</label>' in page


def test_buttons_carry_a_round_from_draw_to_release(version: DatasetVersion) -> None:
    people = make_people(version, "ann", "bob", "carl")
    made = make_round(version, people, opened=False, plan=rounds.RoundPlan(size=6, overlap=1))
    client, steer = client_of(lead_of(version)), f"/review/rounds/{made.public_id}/steer/"
    client.post(steer, {"do": "open"})
    work_off(made, people[:2], lambda _, user: "satisfied" if user.username == "ann" else "not_satisfied")
    assert "6 new adjudications" in client.post(steer, {"do": "adjudicate", "assigned": ""}, follow=True).text
    assert "Nothing new to adjudicate" in client.post(steer, {"do": "adjudicate", "assigned": ""}, follow=True).text
    assert "4 more items" in client.post(steer, {"do": "extend", "size": 4, "seen": 0}, follow=True).text
    dora = make_people(version, "dora")[0]
    assert "1 more reviewer." in client.post(steer, {"do": "invite", "users": [dora.pk]}, follow=True).text
    assert client.post(steer, {"do": "extend", "size": 0, "seen": 1}).status_code == 422
    assert client.post(steer, {"do": "extend", "size": 1}).status_code == 422
    assert "only one that is drawn" in client.post(steer, {"do": "discard"}, follow=True).text
    client.post(steer, {"do": "close", "known": "on"})
    assert "Released: 12 labels by reviewers" in client.post(steer, {"do": "release", "known": "on"}, follow=True).text
    assert client.post(steer, {"do": "nothing"}).status_code == 404
    assert ReviewLabel.objects.count() == 12


def test_a_release_without_its_tick_releases_nothing_and_says_so_in_place(version: DatasetVersion) -> None:
    made = make_round(version, make_people(version, "ann", "bob"), size=6)
    client, steer = client_of(lead_of(version)), f"/review/rounds/{made.public_id}/steer/"
    told = client.post(steer, {"do": "release"}, follow=True).text
    assert "The round is open; only a closed one is released." in told
    client.post(steer, {"do": "close", "known": "on"})
    assert "Nothing was released" not in client.get(f"/review/rounds/{made.public_id}/").text
    refused = client.post(steer, {"do": "release"})
    made.refresh_from_db()
    assert (refused.status_code, made.state) == (422, RoundState.CLOSED)
    form = refused.text.split('<form id="release"')[1].split("</form>")[0]
    assert "Nothing was released: tick that you know it cannot be taken back" in form
    client.post(steer, {"do": "release", "known": "on"})
    made.refresh_from_db()
    assert made.state == RoundState.RELEASED


def test_a_close_that_ends_slots_says_how_many_and_asks_first(version: DatasetVersion) -> None:
    ann, bob = make_people(version, "ann", "bob")
    made = make_round(version, [ann, bob], plan=rounds.RoundPlan(size=6, overlap=1))
    work_off(made, [ann], lambda *_: "satisfied", most=4)
    work_off(made, [bob], lambda *_: "satisfied", most=1)
    address, client = f"/review/rounds/{made.public_id}/", client_of(lead_of(version))
    page = client.get(address)
    ends = page.context["ending"]
    graded = {slot.item_id for slot in made.slots.filter(state="submitted")}
    assert (ends.slots, ends.bare) == (12 - 5, 6 - len(graded))
    assert sum(cell.ending for cell in ends.cells) == ends.slots
    assert {(cell.status, cell.answer): cell.slots - cell.ending for cell in ends.cells}.items() <= {
        (part.status, part.answer): part.done for part in page.context["watch"].groups
    }.items()
    assert "7 slots end without a grade, for good" in page.text
    refused = client.post(f"{address}steer/", {"do": "close"})
    made.refresh_from_db()
    assert (refused.status_code, made.state) == (422, RoundState.OPEN)
    form = refused.text.split('<form id="close"')[1].split("</form>")[0]
    assert "Nothing was closed: tick that you know what ends" in form
    client.post(f"{address}steer/", {"do": "close", "known": "on"})
    made.refresh_from_db()
    assert (made.state, made.slots.filter(state="closed", role="grade").count()) == (RoundState.CLOSED, 7)


def test_a_close_that_ends_nothing_takes_one_press(version: DatasetVersion) -> None:
    people = make_people(version, "ann", "bob")
    made = make_round(version, people, size=6, settings=rounds.RoundSettings(repeat_share=0))
    address, client = f"/review/rounds/{made.public_id}/", client_of(lead_of(version))
    assert 'class="button primary" href="#close"' not in client.get(address).text
    work_off(made, people, lambda *_: "satisfied")
    assert 'name="known"' not in client.get(address).text
    assert 'class="button primary" href="#close"' in client.get(address).text
    assert client.post(f"{address}steer/", {"do": "close"}).status_code == 302
    made.refresh_from_db()
    assert made.state == RoundState.CLOSED


def test_a_close_ends_repeats_too_and_tells_no_assigned_lead_whether_any_is_left(version: DatasetVersion) -> None:
    lead, ann = lead_of(version), make_people(version, "ann")[0]
    made = make_round(version, [lead, ann], size=6, settings=rounds.RoundSettings(repeat_share=1))
    work_off(made, [lead, ann], lambda *_: "satisfied")
    address = f"/review/rounds/{made.public_id}/"
    waiting = made.slots.filter(role="repeat", state="free").count()
    assert f"{waiting} hidden repeats have not come back" in client_of(lead_of(version, "outside")).get(address).text
    before = client_of(lead).get(address).text.split('<form id="close"')[1].split("</form>")[0]
    assert client_of(lead).post(f"{address}steer/", {"do": "close"}).status_code == 422
    made.slots.filter(role="repeat").delete()
    after = client_of(lead).get(address).text.split('<form id="close"')[1].split("</form>")[0]
    token = re.compile(r'name="csrfmiddlewaretoken" value="[^"]*"')
    assert token.sub("", before) == token.sub("", after)


def extend_part(client: Client, made: ReviewRound) -> str:
    """The part of a round's page that extends it."""
    text = client.get(f"/review/rounds/{made.public_id}/").text
    return text.split("<h3>Extend</h3>")[1].split("</form>")[0]


def test_what_extending_costs_is_said_before_the_press(version: DatasetVersion) -> None:
    lead, *people = lead_of(version), *make_people(version, "ann", "bob")
    first = make_round(version, people, size=20)
    client = client_of(lead_of(version, "outside"))
    assert "false-pass rate" in extend_part(client, first)  # the judge's word alone gives rates, too
    work_off(first, people, lambda *_: "satisfied")
    rounds.close_round(first, by=None, now=NOW)
    rounds.release_round(first, by=None, now=NOW)
    made = make_round(version, [lead, *people], size=6, seed=8)
    part, figures = extend_part(client, made), stored(version)
    assert "that hold however often one looks" in part
    assert 'href="/methodology/#looked-at-and-extended"' in part
    assert figures
    cost = looking_cost(figures.payload)
    assert [found.direction for found in cost.rates] == ["false_pass", "false_fail"]
    for found in cost.rates:
        assert f"[{in_percent(found.sure.low)}, {in_percent(found.sure.high)}]" in part
        assert 1.2 < found.times < 2
    assigned = extend_part(client_of(lead), made)
    assert "that hold however often one looks" in assigned
    assert "false-pass rate" not in assigned
    rounds.extend_round(made, size=2, by=None)
    assert "Once more costs nothing further" in extend_part(client, made)


def test_the_page_states_how_much_wider_such_intervals_are() -> None:
    def times(share: float, n: int) -> float:
        sure, plain = anytime_interval(share, n), wilson(share, n)
        return round((sure[1] - sure[0]) / (plain[1] - plain[0]), 1)

    found = [times(share, n) for share in (0.02, 0.1, 0.5) for n in (20, 100, 500, 2000)]
    assert (min(found), max(found)) == (1.4, 1.9)


def test_figures_of_a_released_round_lead_to_its_labels_and_to_the_numbers(version: DatasetVersion) -> None:
    people = make_people(version, "ann", "bob", "carl")
    other = make_round(version, people[:2], size=8, seed=3)
    made = make_round(version, people, plan=rounds.RoundPlan(size=12, overlap=0.5))
    work_off(other, people[:2], lambda *_: "satisfied")
    work_off(made, people[:2], lambda _, user: "satisfied" if user.username == "ann" else "not_satisfied")
    rounds.create_adjudications(made, by=None)
    work_off(made, people[2:], lambda *_: "satisfied")
    client, address = client_of(lead_of(version)), f"/review/rounds/{made.public_id}/"
    for ended in (other, made):
        assert "See its labels" not in client.get(address).text
        rounds.close_round(ended, by=None, now=NOW)
        rounds.release_round(ended, by=None, now=NOW)
    page = client.get(address)
    links = re.findall(r'<a[^>]* href="([^"]*/labels/[^"]*round=[^"]*)">([^<]+)</a>', page.text)
    assert {unescape(link) for link, _ in links} > {page.context["rows"]}
    for link, figure in links:
        rows = client.get(unescape(link)).context["page"].rows
        assert {row.public_id for row in rows} <= {row.public_id for row in ReviewLabel.objects.filter(round=made)}
        assert len(rows) == (page.context["labels"] if figure == "See its labels" else int(figure)), (link, figure)
    cells = [part for part in page.context["watch"].groups if part.done]
    assert sum("cell=" in link for link, _ in links) == len(cells)
    assert "source=adjudicated" in str(links)
    numbers = client.get(page.context["its_numbers"])
    draw = page.context["draw"]
    assert (numbers.context["sample"], numbers.context["config"]) == (draw.sample, draw.config)
    assert f'href="{escape(page.context["its_numbers"])}"' in page.text


def test_the_filter_by_round_names_it_and_knows_no_other_version(version: DatasetVersion) -> None:
    made = make_round(version, make_people(version, "ann", "bob"))
    client, address = client_of(lead_of(version)), f"/d/{version.dataset.name}/labels/"
    ReviewRound.objects.filter(pk=made.pk).update(title="Spring round")
    assert "Spring round" in client.get(address, {"round": str(made.public_id)}).text
    for unknown in (str(uuid.uuid4()), "x"):
        assert client.get(address, {"round": unknown}).status_code == 404


def test_extending_pressed_twice_draws_once(version: DatasetVersion) -> None:
    made = make_round(version, make_people(version, "ann", "bob"), plan=rounds.RoundPlan(size=6))
    client, address = client_of(lead_of(version)), f"/review/rounds/{made.public_id}/"
    page = client.get(address)
    assert '<input type="hidden" name="seen" value="0"' in page.text
    sent = {"do": "extend", "size": 4, "seen": 0}
    client.post(f"{address}steer/", sent)
    told = client.post(f"{address}steer/", sent, follow=True).text
    assert "extended already while you looked: 4 more items, 10 in all now" in told
    made.refresh_from_db()
    assert (made.extensions, made.items.count()) == (1, 10)
    client.post(f"{address}steer/", sent | {"seen": 1})
    assert made.items.count() == 14


def test_a_close_ends_nothing_that_was_drawn_after_its_page(version: DatasetVersion) -> None:
    made = make_round(version, make_people(version, "ann", "bob"), plan=rounds.RoundPlan(size=6))
    client, address = client_of(lead_of(version)), f"/review/rounds/{made.public_id}/"
    assert '<input type="hidden" name="seen" value="0"><h3>End grading' in client.get(address).text
    rounds.extend_round(made, size=4, by=None)
    sent = {"do": "close", "known": "on", "seen": 0}
    told = client.post(f"{address}steer/", sent, follow=True).text
    assert "extended while you looked, to 10 items. Nothing was closed" in told
    made.refresh_from_db()
    assert made.state == "open"
    client.post(f"{address}steer/", sent | {"seen": 1})
    made.refresh_from_db()
    assert made.state == "closed"


@pytest.mark.parametrize("seen", ["", "x", "9" * 5000, "-1"])
def test_a_close_that_says_nothing_sensible_of_extensions_closes(version: DatasetVersion, seen: str) -> None:
    made = make_round(version, make_people(version, "ann", "bob"), plan=rounds.RoundPlan(size=6))
    steer = f"/review/rounds/{made.public_id}/steer/"
    assert client_of(lead_of(version)).post(steer, {"do": "close", "known": "on", "seen": seen}).status_code == 302
    made.refresh_from_db()
    assert made.state == "closed"


def test_inviting_pressed_twice_says_that_they_are_in(version: DatasetVersion) -> None:
    ann, bob, dora = make_people(version, "ann", "bob", "dora")
    made = make_round(version, [ann, bob], size=6)
    client, steer = client_of(lead_of(version)), f"/review/rounds/{made.public_id}/steer/"
    sent = {"do": "invite", "users": [dora.pk]}
    assert "1 more reviewer." in client.post(steer, sent, follow=True).text
    make_people(version, "eva")
    again = client.post(steer, sent)
    assert again.status_code == 422
    assert "in the round already" in again.text
    assert made.reviewers.filter(user=dora).count() == 1


def test_a_round_drawn_and_opened_is_not_drawn_again_by_the_same_form(version: DatasetVersion) -> None:
    make_judged(version)
    make_people(version, "ann", "bob")
    client, address = client_of(lead_of(version)), f"/d/{version.dataset.name}/review/new/"
    sent = form_of(client.get(address), size=20, seed=5)
    assert "drawn already" not in client.post(address, sent, follow=True).text
    rounds.open_round(ReviewRound.objects.get(), by=None, now=NOW)
    assert "drawn already" in client.post(address, sent, follow=True).text
    assert ReviewRound.objects.count() == 1


def test_who_gets_what_was_skipped_is_a_member_and_of_the_round(version: DatasetVersion) -> None:
    ann, bob = make_people(version, "ann", "bob")
    stranger = User.objects.create(username="stranger")
    form = RoundForm(dataset=version.dataset, exposed={})
    assert set(form.fields["fallback"].queryset) == {ann, bob}  # type: ignore[attr-defined]
    sent = {"fallback": stranger.pk, f"ask{ann.pk}": "on"}
    refused = RoundForm(sent, dataset=version.dataset, exposed={})
    assert "fallback" in refused.errors
    refused = RoundForm(sent | {"fallback": bob.pk}, dataset=version.dataset, exposed={})
    assert refused.errors["fallback"] == ["Choose one of the reviewers of this round, or nobody."]


def test_the_page_says_that_who_gets_what_was_skipped_has_left(version: DatasetVersion) -> None:
    ann, bob = make_people(version, "ann", "bob")
    made = make_round(version, [ann, bob], size=6)
    ReviewRound.objects.update(fallback=bob)
    client, address = client_of(lead_of(version)), f"/review/rounds/{made.public_id}/"
    assert "no member any more" not in client.get(address).text
    Membership.objects.filter(user=bob).delete()
    assert "bob, who is no member any more" in client.get(address).text


def test_who_has_left_is_not_asked_to_adjudicate(version: DatasetVersion) -> None:
    ann, bob, carl = make_people(version, "ann", "bob", "carl")
    made = make_round(version, [ann, bob, carl], size=6)
    Membership.objects.filter(user=carl).delete()
    assert carl not in SettleForm(round=made).fields["assigned"].queryset  # type: ignore[attr-defined]
    with pytest.raises(rounds.RoundError, match="Not a member of the dataset: carl"):
        rounds.create_adjudications(made, by=None, assigned=carl)


def test_an_assigned_lead_is_told_who_decides_on_a_flag(version: DatasetVersion) -> None:
    lea = lead_of(version)
    (ann,) = make_people(version, "ann")
    made = make_round(version, [lea, ann], size=6)
    slot = review.claim_next_slot(made, by=ann, now=NOW)
    assert isinstance(slot, Slot)
    flag = review.flag_slot(slot, reason="marker-of-the-flag", by=ann, now=NOW)
    client, address = client_of(lea), f"/review/rounds/{made.public_id}/"
    for asked in (address, f"{address}progress/"):
        told = client.get(asked).text
        assert "1 flagged slot waits for a lead who is assigned to no round" in told
        assert "All leads of this dataset are assigned" in told
        assert "marker-of-the-flag" not in told
    refused = client.post(f"{address}flags/{flag.pk}/", {"do": "free"})
    assert refused.status_code == 403
    assert "make somebody else one (manage.py grant)" in refused.text
    other = lead_of(version, "mia")
    assert "can be decided by <strong>mia</strong>" in client.get(address).text
    assert "mia can." in client.post(f"{address}flags/{flag.pk}/", {"do": "free"}).text
    assert "marker-of-the-flag" in client_of(other).get(address).text
    client_of(other).post(f"{address}flags/{flag.pk}/", {"do": "free"})
    slot.refresh_from_db()
    assert slot.state == "free"
    assert "flagged slot" not in client.get(address).text


def test_a_flagged_slot_ends_with_a_round_whose_leads_are_all_assigned(version: DatasetVersion) -> None:
    lea = lead_of(version)
    made = make_round(version, [lea, *make_people(version, "ann")], size=6)
    slot = review.claim_next_slot(made, by=lea, now=NOW)
    assert isinstance(slot, Slot)
    review.flag_slot(slot, reason="it does not open", by=lea, now=NOW)
    client_of(lea).post(f"/review/rounds/{made.public_id}/steer/", {"do": "close", "known": "on"})
    slot.refresh_from_db()
    assert slot.state == "closed"
    assert "1</dd>" in client_of(lea).get(f"/review/rounds/{made.public_id}/").text.split("Closed without a grade")[1]


def test_polling_ends_with_the_round(version: DatasetVersion) -> None:
    made = make_round(version, make_people(version, "ann", "bob"))
    client, address = client_of(lead_of(version)), f"/review/rounds/{made.public_id}/progress/"
    assert "hx-get" in client.get(address).text
    rounds.close_round(made, by=None, now=NOW)
    assert "hx-get" not in client.get(address).text


def test_a_flag_is_resolved_on_the_page(version: DatasetVersion) -> None:
    ann, bob = make_people(version, "ann", "bob")
    made = make_round(version, [ann, bob])
    slot = review.claim_next_slot(made, by=ann, now=NOW)
    assert isinstance(slot, Slot)
    flag = review.flag_slot(slot, reason="<b>broken</b>", by=ann, now=NOW)
    client = client_of(lead_of(version))
    page = client.get(f"/review/rounds/{made.public_id}/")
    assert "&lt;b&gt;broken&lt;/b&gt;" in page.text
    client.post(f"/review/rounds/{made.public_id}/flags/{flag.pk}/", {"do": "free", "resolution": "it opens now"})
    assert Flag.objects.get().resolution == "it opens now"
    slot.refresh_from_db()
    assert slot.state == "free"
    assert client.post(f"/review/rounds/{made.public_id}/flags/999/", {"do": "free"}).status_code == 404


def test_slots_that_nobody_may_take_are_reported(version: DatasetVersion) -> None:
    ann, bob = make_people(version, "ann", "bob")
    made = make_round(version, [ann, bob], size=40, plan=rounds.RoundPlan(size=40))
    task = version.tasks.first()
    assert task is not None
    review.bar_from_tasks(ann, [task.pk], reason="saw_verdict")
    client = client_of(lead_of(version))
    assert client.get(f"/review/rounds/{made.public_id}/").context["watch"].missing == 0
    review.bar_from_tasks(bob, [task.pk], reason="saw_verdict")
    slots = Slot.objects.filter(round=made, item__task=task).count()
    assert client.get(f"/review/rounds/{made.public_id}/").context["watch"].missing == slots > 0


def test_adjudications_that_nobody_may_take_are_reported_after_the_close(version: DatasetVersion) -> None:
    people = make_people(version, "ann", "bob")
    made = make_round(version, people, plan=rounds.RoundPlan(size=6, overlap=1))
    work_off(made, people, lambda _, user: "satisfied" if user.username == "ann" else "not_satisfied")
    rounds.close_round(made, by=None, now=NOW)
    rounds.create_adjudications(made, by=None)
    client, address = client_of(lead_of(version)), f"/review/rounds/{made.public_id}/"
    page = client.get(address)
    assert page.context["watch"].missing == 6
    assert "release it without them" in page.text
    rounds.release_round(made, by=None, now=NOW)
    assert client.get(address).context["watch"].missing == 0


def test_watching_asks_as_many_questions_whatever_the_reviewers(version: DatasetVersion) -> None:
    made = make_round(version, make_people(version, "ann", "bob"), size=20, plan=rounds.RoundPlan(size=20))

    def asked() -> int:
        with CaptureQueriesContext(connection) as found:
            watch(made, totals(made, now=NOW), now=NOW)
        return len(found)

    watch(made, totals(made, now=NOW), now=NOW)  # loads what the round itself keeps
    few = asked()
    rounds.invite(made, make_people(version, *(f"more{number}" for number in range(12))), by=None)
    assert len(watch(made, totals(made, now=NOW), now=NOW).places) == 14
    assert asked() == few


# --- adjudication


def test_an_adjudicator_sees_both_answers_without_names(version: DatasetVersion) -> None:
    people = make_people(version, "annabelle", "bobbington", "carl")
    made = make_round(version, people, plan=rounds.RoundPlan(size=6, overlap=1))
    work_off(made, people[:2], lambda _, user: "satisfied" if user == people[0] else "not_satisfied")
    rounds.create_adjudications(made, by=None)
    orders = set()
    for _ in range(6):
        slot = review.claim_next_slot(made, by=people[2], now=NOW)
        assert isinstance(slot, Slot)
        page = client_of(people[2]).get(f"/review/slots/{slot.public_id}/task/")
        shown = page.context["versions"]
        assert {version.decision for version in shown} == {"satisfied", "not satisfied"}
        assert [version.label for version in shown] == ["A", "B"]
        assert "Reviewer A" in page.text
        assert "annabelle" not in page.text
        assert "bobbington" not in page.text
        again = client_of(people[2]).get(f"/review/slots/{slot.public_id}/task/").context["versions"]
        assert [version.decision for version in again] == [version.decision for version in shown]
        of_ann = Slot.objects.get(item=slot.item, role="grade", reviewer=people[0])
        orders.add((shown[0].decision == "satisfied") == (of_ann.copy == 0))
        grade(slot, people[2])
    assert orders == {True, False}  # of two copies, now the first is A, now the second


def test_other_slots_show_no_earlier_answer(version: DatasetVersion) -> None:
    ann, bob = make_people(version, "ann", "bob")
    made = make_round(version, [ann, bob], plan=rounds.RoundPlan(size=6, overlap=1))
    work_off(made, [ann], lambda *_: "not_satisfied")
    slot = review.claim_next_slot(made, by=bob, now=NOW)
    assert isinstance(slot, Slot)
    assert client_of(bob).get(f"/review/slots/{slot.public_id}/task/").context["versions"] == []


# --- exposure


def test_a_look_at_one_verdict_is_recorded_once(version: DatasetVersion) -> None:
    make_judged(version)
    lead = lead_of(version)
    client, look = client_of(lead), Judgment.objects.filter(outcome="true_pass").first()
    assert look is not None
    trajectory = look.trajectory
    for address in (
        f"/labels/{look.public_id}/",
        f"/t/{trajectory.public_id}/task/",
        f"/labels/{look.public_id}/exchange/",
    ):
        assert client.get(address).status_code == 200
        assert list(Exclusion.objects.values_list("user", "task", "reason")) == [
            (lead.pk, trajectory.task_id, "saw_verdict")
        ]


def test_lists_and_totals_are_no_exposure(version: DatasetVersion) -> None:
    make_judged(version)
    client, name = client_of(lead_of(version)), version.dataset.name
    for address in (f"/d/{name}/labels/", f"/d/{name}/trajectories/", f"/d/{name}/tasks/", f"/d/{name}/"):
        assert client.get(address).status_code == 200
    assert not Exclusion.objects.exists()


def test_verdicts_with_what_proves_them_are_exposure_to_every_task_shown(version: DatasetVersion) -> None:
    make_judged(version)
    client, name = client_of(lead_of(version)), version.dataset.name
    assert client.get(f"/d/{name}/numbers/rows/").status_code == 200
    shown = set(version.trajectories.values_list("task", flat=True))
    assert set(Exclusion.objects.values_list("task", flat=True)) == shown


def test_a_refused_page_is_no_exposure(version: DatasetVersion) -> None:
    make_judged(version)
    ann = make_people(version, "ann")[0]
    trajectory = version.trajectories.first()
    assert trajectory is not None
    assert client_of(ann).get(f"/t/{trajectory.public_id}/verifier/").status_code == 403
    assert not Exclusion.objects.exists()


def test_who_saw_a_verdict_gets_no_item_of_its_task(version: DatasetVersion) -> None:
    lead = lead_of(version)
    make_judged(version)
    for task in version.tasks.all()[:4]:
        first = task.trajectories.first()
        assert first is not None
        client_of(lead).get(f"/t/{first.public_id}/task/")
    made = make_round(version, [lead, *make_people(version, "ann")], plan=rounds.RoundPlan(size=40, overlap=0.2))
    work_off(made, [lead], lambda *_: "satisfied")
    mine = Slot.objects.filter(round=made, reviewer=lead).values_list("item__task", flat=True)
    assert set(mine) == {version.tasks.order_by("pk").last().pk}  # type: ignore[union-attr]


# --- labels of people


def released(version: DatasetVersion, **more: Any) -> ReviewRound:
    people = make_people(version, "ann", "bob")
    made = make_round(version, people, **more)
    work_off(made, people, lambda slot, _: "satisfied" if slot.item.number % 2 else "not_satisfied")
    rounds.close_round(made, by=None, now=NOW)
    rounds.release_round(made, by=None, now=NOW)
    return made


def table(version: DatasetVersion) -> list[dict[str, str]]:
    text = "".join(csv_lines(label_rows(version, with_evidence=True)))
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_an_export_has_the_weight_of_both_draws(version: DatasetVersion) -> None:
    draw_sample(freeze_frame(version, by=None), Plan("equal", 32), seed=3, by=None)
    sample = Sample.objects.get()
    made = released(version, plan=rounds.RoundPlan(size=16))
    rows = [row for row in table(version) if row["label_source"] == "human"]
    assert len(rows) == ReviewLabel.objects.filter(round=made).count() > 16
    draws = {str(draw.item.trajectory.public_id): draw for draw in ItemDraw.objects.select_related("item__trajectory")}  # type: ignore[union-attr]
    for row in rows:
        draw = draws[row["trajectory_id"]]
        unit = sample.units.get(trajectory=draw.item.trajectory)
        both = unit.inclusion_probability * draw.inclusion_probability
        assert float(row["inclusion_probability"]) == pytest.approx(both)
        assert float(row["weight"]) == pytest.approx(1 / both)
        assert row["frame_digest"] == sample.frame.digest
        assert row["stratum"] == str(unit.stratum)
        assert row["reviewer"] in ("ann", "bob")
        assert '"quote":"42"' in row["evidence"]
    first = {row["trajectory_id"]: float(row["weight"]) for row in rows}
    assert sum(first.values()) == pytest.approx(40, rel=0.35)


def test_the_weights_of_an_extended_round_stand_for_the_population_once(version: DatasetVersion) -> None:
    """Whoever was drawn first and whoever was drawn from what was left weigh the same."""
    people = make_people(version, "ann", "bob")
    made = make_round(version, people, plan=rounds.RoundPlan(size=14, overlap=0))
    rounds.extend_round(made, size=14, by=None)
    work_off(made, people, lambda _slot, _user: "satisfied")
    rounds.close_round(made, by=None, now=NOW)
    rounds.release_round(made, by=None, now=NOW)
    weights = [float(row["weight"]) for row in table(version) if row["label_source"] == "human"]
    cells = RoundStratum.objects.filter(draw__round=made)
    asked = {(cell.stratum_id, cell.answer) for cell in cells if cell.drawn}
    held = sum(cell.size for cell in cells if cell.extension == 0 and (cell.stratum_id, cell.answer) in asked)
    assert sum(weights) == pytest.approx(held)


def label_by_hand(version: DatasetVersion, trajectories: list[Trajectory], *, kind: str = "human") -> None:
    ImportedLabel.objects.bulk_create(
        ImportedLabel(
            version=version, trajectory=found, kind=kind, labeler="x", decision="satisfied", integrity="none",
            acceptable="yes",
        )
        for found in trajectories
    )  # fmt: skip


def decided_by(config: JudgeConfig) -> list[Trajectory]:
    looks = Judgment.objects.filter(config=config, acceptable__in=["yes", "no"]).order_by("pk")
    return [look.trajectory for look in looks.select_related("trajectory")]


def test_a_judge_is_calibrated_once_people_decided_thirty_that_it_decided(version: DatasetVersion) -> None:
    _, config = make_judged(version)
    assert calibrated(version) == set()
    assert {row["calibrated"] for row in table(version)} == {"false"}
    undecided = Judgment.objects.filter(state="failed").select_related("trajectory").first()
    assert undecided is not None
    label_by_hand(version, [undecided.trajectory, *decided_by(config)[:29]])
    assert calibrations(version)[config.pk] == Calibration(29, imported=True)
    assert calibrated(version) == set()
    label_by_hand(version, decided_by(config)[29:30])
    assert calibrated(version) == {config.pk}
    assert {row["calibrated"] for row in table(version) if row["label_source"] == "judge"} == {"true"}
    register(version.dataset, config, by=None, name="test judge", source="")
    client = client_of(lead_of(version))
    assert "uncalibrated" not in client.get(f"/d/{version.dataset.name}/labels/?source=judge").text
    judged = labels(version).filter(source="judge", acceptable="yes").first()
    assert judged is not None
    for page in (f"/labels/{judged.public_id}/", f"/d/{version.dataset.name}/configs/{config.digest}/"):
        assert "how those were chosen is not recorded" in client.get(page).text
    assert "people imported" in client.get(f"/d/{version.dataset.name}/numbers/agreement/").text


def test_people_of_a_round_calibrate_the_judge_of_its_sample_alone_and_a_script_is_named(
    version: DatasetVersion,
) -> None:
    _, config = make_judged(version)
    other = judging.ensure_config(Config(name="other", provider="scripted", script=__file__, sandbox="none"), by=None)
    apart = draw_sample(freeze_frame(version, by=None), Plan("equal", 4), seed=9, by=None)
    JudgeRun.objects.create(sample=apart, config=other, state="done", planned=apart.size)
    made = released(version, plan=rounds.RoundPlan(size=36))
    ReviewRound.objects.filter(pk=made.pk).update(is_scripted=True)
    assert calibrations(version) == {config.pk: Calibration(30, scripted=True), other.pk: Calibration()}
    assert "Scripted grades are among them." in calibrations(version)[config.pk].words


def test_an_imported_judge_is_held_to_the_same_number(version: DatasetVersion) -> None:
    everything = list(Trajectory.objects.filter(version=version).order_by("pk"))
    label_by_hand(version, everything[:31], kind="judge")
    label_by_hand(version, everything[2:32])
    assert calibrations(version) == {"x": Calibration(29, imported=True)}
    label_by_hand(version, everything[:1])
    assert calibrated(version) == {"x"}
    assert {row["calibrated"] for row in table(version) if row["label_source"] == "imported_judge"} == {"true"}


def test_a_label_of_a_person_opens_with_its_evidence_and_round(version: DatasetVersion) -> None:
    made = released(version)
    label = ReviewLabel.objects.first()
    assert label is not None
    page = client_of(lead_of(version)).get(f"/labels/{label.public_id}/")
    assert page.status_code == 200
    assert f"/review/rounds/{made.public_id}/" in page.text
    assert f"/t/{label.trajectory.public_id}/?step=2" in page.text
    listed = client_of(lead_of(version, "lou")).get(f"/d/{version.dataset.name}/labels/?source=human")
    assert listed.text.count("human</span>") == ReviewLabel.objects.count()


def test_a_ruling_renews_the_outcomes_of_people_too(version: DatasetVersion) -> None:
    released(version)
    label = ReviewLabel.objects.filter(outcome="true_pass").first()
    assert label is not None
    source = label.trajectory.source
    source.verifier_reason, source.verifier_status, source.recorded_status = "verifier_did_not_run", "pass", "fail"
    source.save()
    lead = lead_of(version)
    count_not_run_as(version, recorded=True, by=lead)
    label.refresh_from_db()
    assert label.outcome == "false_fail"
    count_not_run_as(version, recorded=False, by=lead)
    label.refresh_from_db()
    assert (label.outcome, label.outcome_reason) == (None, "verifier_invalid")


def test_the_weights_of_two_rounds_of_one_sample_stand_for_the_population_once(version: DatasetVersion) -> None:
    """The second draws from what the first left: its probabilities given that are no weights to add up by."""
    people = make_people(version, "ann", "bob")
    for seed, size in ((1, 14), (2, 10)):
        made = make_round(version, people, plan=rounds.RoundPlan(size=size, overlap=0), seed=seed)
        work_off(made, people, lambda _slot, _user: "satisfied")
        rounds.close_round(made, by=None, now=NOW)
        rounds.release_round(made, by=None, now=NOW)
    rows = [row for row in table(version) if row["label_source"] == "human"]
    assert len({row["trajectory_id"] for row in rows}) == len(rows) == 24
    cells = RoundStratum.objects.filter(draw__round__seed=1, extension=0)
    drawn = set(RoundStratum.objects.filter(drawn__gt=0).values_list("stratum", "answer"))
    held = sum(cell.size for cell in cells if (cell.stratum_id, cell.answer) in drawn)
    assert sum(float(row["weight"]) for row in rows) == pytest.approx(held)
    assert len({row["weight"] for row in rows if row["stratum"] == rows[0]["stratum"]}) <= 3  # one for each answer
