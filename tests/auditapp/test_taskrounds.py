"""Triage, cold reads and audits: who is asked, what each shows and hides, and what a lead makes of the answers."""

import re
import uuid
from collections import Counter
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from auditapp import blobs, grading, heldout, review, rounds, taskrounds
from auditapp.cases import add_rubric
from auditapp.estimation import compute
from auditapp.grading import Answers, Incomplete
from auditapp.models.datasets import DatasetVersion, Membership, Task, Trajectory
from auditapp.models.events import AuditEvent
from auditapp.models.reviews import Exclusion, ReviewRound, Slot, SlotState
from auditapp.models.rounds import ReviewLabel, RoundDraw
from auditapp.models.sources import TaskSource
from auditapp.round_draws import RoundError, RoundSettings
from auditapp.sections.taskrounds import audit, cold_reads, said_of, triage
from auditapp.sections.watching import totals, watch
from auditapp.stats.proportions import InsufficientData, Proportion
from judges.records import Requirement, StepRecord
from judges.safefs import MemoryTree
from judges.taxonomy import taxonomy
from tests.auditapp.population import add_trajectory, make_task, make_version
from tests.auditapp.round_world import NOW, make_people, make_round

pytestmark = pytest.mark.django_db
STEPS = (StepRecord("1", "user", message="go"), StepRecord("2", "agent", message="what the agent did"))
SECRET_CHECK = "assert total == 42  # marker-of-the-verifier"
RUBRIC = "The total is in answer.txt, says the rubric"


@pytest.fixture
def version() -> DatasetVersion:
    """Six tasks of two environments, four of them unsolved; their verifier and their initial files are recorded."""
    made = make_version()
    initial = blobs.put_tree(MemoryTree({"start.txt": b"marker-of-the-start\n"}))
    reference = blobs.put_tree(MemoryTree({"answer.txt": b"marker-of-the-reference\n"}))
    for number in range(6):
        task = make_task(
            made,
            f"task {number}",
            environment=f"env {number % 2}",
            instruction_blob=blobs.put_text(f"Write total {number} down."),
            initial_tree=initial,
            reference_tree=reference,
        )
        tree = blobs.put_tree(MemoryTree({"check.py": SECRET_CHECK.encode()}))
        TaskSource.objects.create(task=task, verifier_tree=tree)
        add_rubric(task, [Requirement("R1", RUBRIC)], number=1, origin="shipped", by=None)
        for attempt in range(4):
            status = "pass" if number > 3 and attempt == 0 else "fail"
            output = blobs.put_tree(MemoryTree({"stdout.txt": b"marker-of-the-output\n"}))
            add_trajectory(
                task, f"{number}-{attempt}", status, steps=STEPS, model="ab"[attempt % 2], verifier_tree=output
            )
    return made


def ask(version: DatasetVersion, kind: str, people: list[User], *, size: int = 4, seed: int = 3) -> ReviewRound:
    """An open round of this kind."""
    settings = RoundSettings(kind=kind, shows_reference=kind == "triage", repeat_share=0, guess_share=0)
    options: dict[str, Any] = {"size": size, "reviewers": people, "title": kind, "seed": seed, "by": None}
    if kind == "audit":
        made = taskrounds.draw_audit(version, settings=settings, **options)
    else:
        tasks = list(taskrounds.tasks_to_ask(version, kind))
        made = taskrounds.draw_tasks(version, tasks, settings=settings, **options)
    rounds.open_round(made, by=None, now=NOW)
    return made


def claim(made: ReviewRound, user: User) -> Slot:
    slot = review.claim_next_slot(made, by=user, now=NOW)
    assert isinstance(slot, Slot)
    return slot


def answer(slot: Slot, user: User, **said: Any) -> Any:
    return grading.submit_grade(slot, Answers(**said), token=uuid.uuid4(), by=user, now=NOW)


def client_for(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def lead_of(version: DatasetVersion) -> tuple[User, Client]:
    user = User.objects.get_or_create(username="lead")[0]
    Membership.objects.get_or_create(dataset=version.dataset, user=user, defaults={"role": "lead"})
    return user, client_for(user)


# --- draws


def test_a_triage_is_about_tasks_that_nobody_solved(version: DatasetVersion) -> None:
    made = ask(version, "triage", make_people(version, "ann"))
    assert {item.task.name for item in made.items.all()} == {"task 0", "task 1", "task 2", "task 3"}
    assert RoundDraw.objects.get(round=made).plan["of"]["tasks"] == 4


def test_a_part_of_the_tasks_is_chosen_by_the_seed_alone(version: DatasetVersion) -> None:
    people = make_people(version, "ann")
    first = ask(version, "cold_read", people, size=3)
    again = taskrounds.draw_tasks(
        version,
        list(taskrounds.tasks_to_ask(version, "cold_read"))[::-1],
        size=3,
        reviewers=people,
        title="again",
        seed=3,
        by=None,
        settings=RoundSettings(kind="cold_read"),
    )
    names = [sorted(item.task.name for item in made.items.all()) for made in (first, again)]
    assert names[0] == names[1]
    assert RoundDraw.objects.get(round=first).plan["of"]["tasks"] == 6
    drawn = {
        tuple(sorted(i.task.name for i in ask(version, "cold_read", people, size=3, seed=s).items.all()))
        for s in range(6)
    }
    assert len(drawn) > 1
    with pytest.raises(RoundError, match="6 tasks to choose from, 7"):
        ask(version, "cold_read", people, size=7)


def test_an_audit_is_drawn_in_proportion_to_environment_and_model(version: DatasetVersion) -> None:
    made = ask(version, "audit", make_people(version, "ann"), size=8)
    cells = Counter((item.task.environment.name, item.trajectory.source.model) for item in made.items.all())  # type: ignore[union-attr]
    assert cells == {(f"env {n}", model): 2 for n in (0, 1) for model in "ab"}
    assert made.slots.count() == 8
    plan = RoundDraw.objects.get(round=made).plan
    assert {cell["inclusion_probability"] for cell in plan["cells"]} == {2 / 6}


# --- triage


def test_a_triage_shows_the_verifier_and_bars_from_blind_slots_of_the_task_alone(version: DatasetVersion) -> None:
    ann, bob = make_people(version, "ann", "bob")
    blind = make_round(version, [ann, bob], size=20)
    made = ask(version, "triage", [ann])
    slot = claim(made, ann)
    client = client_for(ann)
    page = client.get(reverse("review-slot", args=[slot.public_id]))
    assert "Verifier and trials" in page.content.decode()
    assert SECRET_CHECK.split("#")[1] not in page.content.decode()
    address = reverse("review-trials", args=[slot.public_id])
    for asked in (client.get(address), client.get(address, headers={"HX-Request": "true"})):
        assert "nothing of this task to grade blind" in asked.content.decode()
        assert "marker-of-the-verifier" not in asked.content.decode()
    assert not Exclusion.objects.filter(user=ann).exists()  # looking at the question changes nothing
    assert client.post(address).status_code == 302
    trials = client.get(address, headers={"HX-Request": "true"})
    shown = trials.content.decode()
    assert "marker-of-the-verifier" in shown
    assert shown.count("status-fail") == 4
    assert Exclusion.objects.get(user=ann).task_id == slot.item.task_id
    open_to = review.may_take(blind.slots.all(), ann, round=blind)
    assert not open_to.filter(item__task=slot.item.task_id).exists()
    assert open_to.exists()
    assert answer(slot, ann, answer="hard").answer == "hard"
    assert client.get(reverse("review-trials", args=[slot.public_id])).status_code == 200


def test_a_blind_item_that_was_held_is_given_back_and_the_triage_item_is_not(version: DatasetVersion) -> None:
    ann, bob = make_people(version, "ann", "bob")
    blind = make_round(version, [ann, bob], size=24)
    held = claim(blind, ann)
    made = ask(version, "triage", [ann])
    slot = (
        Slot.objects.get(round=made, item__task=held.item.task_id)
        if held.item.task_id in set(made.items.values_list("task", flat=True))
        else None
    )
    while slot is None:
        review.skip_slot(held, reason="", outside=False, by=ann, now=NOW)
        held = claim(blind, ann)
        slot = Slot.objects.filter(round=made, item__task=held.item.task_id).first()
    Slot.objects.filter(round=made).exclude(pk=slot.pk).update(state=SlotState.CLOSED)
    assert claim(made, ann) == slot
    client_for(ann).post(reverse("review-trials", args=[slot.public_id]))
    held.refresh_from_db()
    slot.refresh_from_db()
    assert (held.state, slot.state) == (SlotState.FREE, SlotState.LEASED)


def test_who_saw_verdicts_triages_and_may_mend_the_answer(version: DatasetVersion) -> None:
    (ann,) = make_people(version, "ann")
    review.bar_from_tasks(ann, Task.objects.filter(version=version).values_list("pk", flat=True), reason="saw_verdict")
    made = ask(version, "triage", [ann])
    slot = claim(made, ann)
    answer(slot, ann, answer="hard")
    slot.refresh_from_db()
    assert review.is_editable(slot, by=ann)
    again = answer(slot, ann, answer="broken", tags=["E01"])
    assert (again.number, again.tags) == (2, ["E01"])


def test_broken_needs_a_word_of_what(version: DatasetVersion) -> None:
    (ann,) = make_people(version, "ann")
    slot = claim(ask(version, "triage", [ann]), ann)
    with pytest.raises(Incomplete) as refused:
        answer(slot, ann, answer="broken")
    assert "tags" in refused.value.fields
    with pytest.raises(Incomplete):
        answer(slot, ann, answer="broken", tags=["C01"])
    assert answer(slot, ann, answer="broken", note="The fixture is empty.")


def test_a_trial_opens_in_a_triage_and_nowhere_else(version: DatasetVersion) -> None:
    ann, bob = make_people(version, "ann", "bob")
    made = ask(version, "triage", [ann])
    slot = claim(made, ann)
    client = client_for(ann)
    trial = Trajectory.objects.filter(task=slot.item.task).first()
    other = Trajectory.objects.exclude(task=slot.item.task).first()
    assert trial
    assert other
    address = reverse("review-trial", args=[slot.public_id, trial.public_id])
    paths = ("", "verifier/", "chunk/0/", "search/?q=agent", "file/streams/?path=out.txt")
    files = reverse("review-trials-file", args=[slot.public_id])
    assert {client.get(asked).status_code for asked in (files, *(address + path for path in paths))} == {404}
    client.post(reverse("review-trials", args=[slot.public_id]))
    assert "what the agent did" in client.get(address).content.decode()
    assert "marker-of-the-output" in client.get(f"{address}verifier/").content.decode()
    assert client.get(f"{address}deliverable/").status_code == 200
    assert client.get(f"{address}chunk/0/").status_code == 200
    assert client.get(f"{address}search/?q=agent").status_code == 200
    assert client.get(f"{address}lines/?step=2&part=message&item=1").status_code == 200
    assert client.get(f"{address}other/").status_code == 404
    assert client.get(reverse("review-trial", args=[slot.public_id, other.public_id])).status_code == 404
    assert client_for(bob).get(address).status_code == 404
    blind = make_round(version, [ann, bob], size=20)
    held = claim(blind, bob)
    for name in ("review-trials", "review-trials-file"):
        assert client_for(bob).get(reverse(name, args=[held.public_id])).status_code == 404
    inside = reverse("review-trial", args=[held.public_id, held.item.trajectory.public_id])  # type: ignore[union-attr]
    assert client_for(bob).get(inside).status_code == 404


def test_the_share_of_broken_tasks_has_an_interval_and_bounds(version: DatasetVersion) -> None:
    (ann,) = make_people(version, "ann")
    made = ask(version, "triage", [ann])
    assert isinstance(triage(made).broken, InsufficientData)
    for said in ({"answer": "broken", "tags": ["E01"]}, {"answer": "hard"}, {"answer": "cannot_tell"}):
        answer(claim(made, ann), ann, **said)
    found = triage(made)
    assert dict(found.counts) == {"broken": 1, "hard": 1, "cannot tell": 1}
    assert isinstance(found.broken, Proportion)
    assert (found.broken.estimate, found.broken.n, found.broken.missing) == (0.5, 2, 2)
    assert found.broken.bounds == (0.25, 0.75)
    assert found.tags == (("E01", 1),)
    assert [row.answer for row in found.rows] == ["broken", "hard", "cannot tell", ""]
    _, client = lead_of(version)
    page = client.get(reverse("round", args=[made.public_id])).content.decode()
    assert "Broken, of those called hard or broken" in page
    broken = found.rows[0].task
    assert [row.words for row in said_of(broken)] == ["broken"]
    assert "in triage and cold reads" in client.get(reverse("task", args=[broken.public_id])).content.decode()


def test_a_ruling_pressed_twice_is_one(version: DatasetVersion) -> None:
    ann, lea = make_people(version, "ann", "lea")
    slot = claim(ask(version, "cold_read", [ann], size=2), ann)
    answer(slot, ann, text="Write the total down.")
    slot.refresh_from_db()
    first = taskrounds.rule_cold_read(slot, "none", "", by=lea)
    assert taskrounds.rule_cold_read(slot, "none", " ", by=lea) == first
    assert taskrounds.rule_cold_read(slot, "none", "in other words", by=lea) != first
    assert AuditEvent.objects.filter(action=taskrounds.RULED).count() == 2


@pytest.mark.parametrize("kind", ["triage", "cold_read", "audit"])
def test_a_round_asked_for_twice_is_the_one_that_is_there(version: DatasetVersion, kind: str) -> None:
    (ann,) = make_people(version, "ann")
    _, client = lead_of(version)
    address = f"/d/{version.dataset.name}/review/new/?kind={kind}"
    sent = {"title": "once", "size": 2, "reviewers": [ann.pk], "instructions": "", "seed": 5, "tasks": ""}
    assert "drawn already" not in client.post(address, sent, follow=True).content.decode()
    made = ReviewRound.objects.get()
    rounds.open_round(made, by=None, now=NOW)
    again = client.post(address, sent, follow=True)
    assert "drawn already, with this title, plan and seed" in again.content.decode()
    assert ReviewRound.objects.get() == made
    client.post(address, sent | {"seed": 6})
    assert ReviewRound.objects.count() == 2


# --- cold read


def test_a_cold_read_shows_the_instruction_and_nothing_else(version: DatasetVersion) -> None:
    (ann,) = make_people(version, "ann")
    made = ask(version, "cold_read", [ann])
    slot = claim(made, ann)
    client = client_for(ann)
    base = reverse("review-slot", args=[slot.public_id])
    pages = [client.get(base), client.get(f"{base}task/"), client.get(f"{base}task/", headers={"HX-Request": "true"})]
    for page in pages:
        shown = page.content.decode()
        assert "down." in shown
        assert "Write total" in shown
        assert not [mark for mark in (RUBRIC, "marker-of-the", "Rubric", "Requirements") if mark in shown]
    for path in (
        "reference/",
        "deliverable/",
        "trials/",
        "file/initial/?path=start.txt",
        "file/reference/?path=answer.txt",
    ):
        assert client.get(f"{base}{path}").status_code == 404


def test_who_was_given_work_on_a_task_is_not_asked_to_read_it_cold(version: DatasetVersion) -> None:
    ann, bob = make_people(version, "ann", "bob")
    held = claim(make_round(version, [ann, bob], size=24), ann)
    made = ask(version, "cold_read", [ann], size=6)
    seen = set()
    while isinstance(slot := review.claim_next_slot(made, by=ann, now=NOW), Slot):
        seen.add(slot.item.task_id)
        answer(slot, ann, text="Write the total down.")
    assert held.item.task_id not in seen
    assert len(seen) == 5


def test_a_lead_sees_nothing_of_the_dataset_until_their_own_texts_are_in(version: DatasetVersion) -> None:
    lead, client = lead_of(version)
    made = ask(version, "cold_read", [lead], size=1)
    address = reverse("dataset", args=[version.dataset.name])
    task = reverse("task", args=[made.items.get().task.public_id])
    assert "What the verifier said" not in client.get(address).content.decode()
    assert client.get(task).status_code == 403
    slot = claim(made, lead)
    answer(slot, lead, text="Write the total down.")
    assert client.get(task).status_code == 200
    assert "What the verifier said" in client.get(address).content.decode()


def test_a_lead_rules_beside_rubric_and_verifier(version: DatasetVersion) -> None:
    (ann,) = make_people(version, "ann")
    made = ask(version, "cold_read", [ann], size=2)
    slot = claim(made, ann)
    lead, client = lead_of(version)
    address = reverse("round-cold-read", args=[slot.public_id])
    assert client.get(address).status_code == 404
    answer(slot, ann, text="Write the total down. <script>alert(1)</script>")
    page = client.get(address).content.decode()
    assert RUBRIC in page
    assert "marker-of-the-verifier" in page
    assert "&lt;script&gt;" in page
    assert Exclusion.objects.get(user=lead).reason == "saw_verifier"
    assert client_for(ann).get(address).status_code == 403
    assert cold_reads(made).waiting == 1
    refused = client.post(address, {"ruling": "verifier_asks_more", "note": ""})
    assert refused.status_code == 422
    stored = client.post(address, {"ruling": "verifier_asks_more", "note": "It checks for 42."})
    assert stored.url == reverse("round", args=[made.public_id])
    client.post(address, {"ruling": "rubric_misses", "note": "The form."})
    found = cold_reads(made)
    assert (found.waiting, dict(found.rulings)["the rubric misses something"]) == (0, 1)
    assert found.rows[0].event
    assert found.rows[0].event.actor == lead
    assert [(row.words, row.note) for row in said_of(slot.item.task)] == [("the rubric misses something", "The form.")]
    assert client.post(address, {"ruling": "verifier_misses", "note": "Nobody checks the date."}).status_code == 302
    found = cold_reads(made)
    assert isinstance(found.verifier_misses, Proportion)
    assert isinstance(found.verifier_asks_more, Proportion)
    assert (found.verifier_misses.estimate, found.verifier_asks_more.estimate) == (1, 0)
    page = client.get(reverse("round", args=[made.public_id])).content.decode()
    assert "What readers understood" in page
    assert '<span class="chip alarm">the verifier misses something (E02)</span>' in page
    with pytest.raises(RoundError):
        taskrounds.rule_cold_read(slot, "other", "", by=None)


def test_who_reads_what_people_said_of_a_verifier_grades_none_of_its_task(version: DatasetVersion) -> None:
    (ann,) = make_people(version, "ann")
    made = ask(version, "triage", [ann], size=1)
    slot = claim(made, ann)
    (lead, client), address = lead_of(version), reverse("task", args=[slot.item.task.public_id])
    client.get(address)
    assert not Exclusion.objects.filter(user=lead).exists()
    answer(slot, ann, answer="broken", note="It wants 42.")
    assert "It wants 42." in client.get(address).text
    assert Exclusion.objects.get(user=lead).task == slot.item.task


def test_rubric_and_verifier_can_each_be_said_to_ask_for_less_and_for_more() -> None:
    assert {f"{who}_{what}" for who in ("rubric", "verifier") for what in ("misses", "asks_more")} | {"none"} == set(
        taskrounds.RULINGS
    )
    codes = {ruling: re.findall(r"E\d\d", words) for ruling, words in taskrounds.RULINGS.items()}
    names = {ruling: taxonomy().codes[found[0]].name for ruling, found in codes.items() if found}
    assert names == {"verifier_misses": "grader_too_lenient", "verifier_asks_more": "hidden_requirement"}


# --- audit


def test_an_audit_takes_tags_and_makes_no_label(version: DatasetVersion) -> None:
    (ann,) = make_people(version, "ann")
    made = ask(version, "audit", [ann], size=4)
    first, second = claim(made, ann), None
    with pytest.raises(Incomplete):
        answer(first, ann)
    answer(first, ann, tags=["B01"], note="It read the tests first.")
    second = claim(made, ann)
    answer(second, ann, note="Nothing stands out.")
    found = audit(made)
    assert (found.read, found.drawn) == (2, 4)
    assert sum(cell.all for cell in found.cells) == 24
    assert sum(cell.read for cell in found.cells) == 2
    (tag,) = found.tags
    assert isinstance(tag.share, Proportion)
    assert (tag.code, tag.share.estimate, tag.share.n) == ("B01", 0.5, 2)
    assert [grade.note for grade in found.notes] == ["Nothing stands out.", "It read the tests first."]
    _, client = lead_of(version)
    assert "What was read" in client.get(reverse("round", args=[made.public_id])).content.decode()
    assert taskrounds.behavior_tags(version) == []
    steer = reverse("round-steer", args=[made.public_id])
    assert "to lock its answers" in client.post(steer, {"do": "close", "known": "on"}, follow=True).content.decode()
    assert (
        "none of them is a label" in client.post(steer, {"do": "release", "known": "on"}, follow=True).content.decode()
    )
    tags = taskrounds.behavior_tags(version)
    assert [(trajectory, reader, codes) for trajectory, reader, codes, _ in tags] == [
        (first.item.trajectory_id, "ann", ["B01"]),
        (second.item.trajectory_id, "ann", []),
    ]
    assert not ReviewLabel.objects.exists()
    shown = compute(version)["shapes"]["audit"]
    assert (shown["looked_at"], shown["codes"], shown["all"]["tags"]["B01"]["count"]) == (2, ["B01"], 1)
    page = client.get(reverse("numbers-shapes", args=[version.dataset.name]), {"by": "audit"}).content.decode()
    assert "people who read whole trajectories" in page
    assert shown["all"]["sided"] == 0  # nobody was asked about the environment, so nobody is cleared or blamed
    assert "is not asked about the environment" in page


def test_before_its_release_an_audit_is_in_no_figure(version: DatasetVersion) -> None:
    (ann,) = make_people(version, "ann")
    answer(claim(ask(version, "audit", [ann], size=4), ann), ann, tags=["B01"])
    assert "no audit" in compute(version)["shapes"]["audit"]["insufficient"]


# --- the lead draws them from pages


def test_a_lead_draws_each_kind_from_its_page(version: DatasetVersion) -> None:
    people = make_people(version, "ann")
    _, client = lead_of(version)
    for kind, most in (("triage", 4), ("cold_read", 6), ("audit", 24)):
        address = f"{reverse('round-new', args=[version.dataset.name])}?kind={kind}"
        page = client.get(address)
        assert page.context["most"] == most
        sent = {"title": kind, "size": "2", "reviewers": [people[0].pk], "seed": "5", "instructions": "Look."}
        assert client.post(address, {**sent, "size": "99"}).status_code == 422
        assert client.post(address, {**sent, "reviewers": []}).status_code == 422
        drawn = client.post(address, sent)
        made = ReviewRound.objects.get(kind=kind)
        assert drawn.url == reverse("round", args=[made.public_id])
        assert (made.items.count(), made.instructions) == (2, "Look.")
        assert client.get(drawn.url).status_code == 200
    assert client_for(people[0]).get(address).status_code == 403


def test_named_tasks_are_those_asked_about(version: DatasetVersion) -> None:
    people = make_people(version, "ann")
    _, client = lead_of(version)
    task = Task.objects.get(name="task 5")
    address = f"{reverse('round-new', args=[version.dataset.name])}?kind=triage&tasks={task.public_id},{uuid.uuid4()},x"
    page = client.get(address)
    assert (page.context["most"], page.context["unknown"]) == (1, 2)
    sent = {"title": "t", "size": "1", "reviewers": [people[0].pk], "seed": "5", "tasks": page.context["asked"]}
    client.post(address, sent)
    assert [item.task for item in ReviewRound.objects.get().items.all()] == [task]


def test_a_held_out_task_says_so_on_its_page(version: DatasetVersion) -> None:
    _, client = lead_of(version)
    task = Task.objects.get(name="task 0")
    heldout.hold_out(
        version, {task.pk: "dev"}, name="final", refresh_on=NOW.date().replace(year=2099), today=NOW.date(), by=None
    )
    assert "held out, dev" in client.get(reverse("task", args=[task.public_id])).content.decode()


def test_the_page_of_a_cold_read_counts_what_each_reader_may_still_take(version: DatasetVersion) -> None:
    ann, bob = make_people(version, "ann", "bob")
    blind = make_round(version, [ann, bob], size=24)
    claim(blind, ann)
    review.skip_slot(claim(blind, bob), reason="", outside=False, by=bob, now=NOW)
    made = ask(version, "cold_read", [ann, bob], size=6)
    places = watch(made, totals(made, now=NOW), now=NOW).places
    assert {place.user.username: place.open_to for place in places} == {"ann": 5, "bob": 5}
