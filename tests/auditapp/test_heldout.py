"""Held-out sets: chosen by a seed or by hand, never in two, graded as training goes on, left out of exports."""

import csv
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from auditapp import blobs, heldout, rounds
from auditapp.exports import COLUMNS, label_rows
from auditapp.heldout import HeldOutError
from auditapp.models.datasets import DatasetVersion, Membership, Task, Trajectory
from auditapp.models.events import AuditEvent
from auditapp.models.labels import ImportedLabel
from auditapp.models.reviews import HeldOutSet, ReviewRound, Slot
from auditapp.models.rounds import RoundDraw
from auditapp.round_draws import RoundError, RoundSettings
from auditapp.sampling import draw_keys
from tests.auditapp.population import add_trajectory, make_task, make_version
from tests.auditapp.round_world import make_people

pytestmark = pytest.mark.django_db
TODAY = date(2026, 11, 29)
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
LATER = TODAY + timedelta(days=90)
STEPS = (100, 200, None)


@pytest.fixture
def version() -> DatasetVersion:
    """Twelve tasks of two environments; of each, two trajectories by two models at two training steps and none."""
    made = make_version()
    for number in range(12):
        task = make_task(made, f"task {number:02}", environment=f"env {number % 2}")
        for step in STEPS:
            for model in "ab":
                for attempt, status in enumerate(("pass", "fail")):
                    add_trajectory(task, f"{number}-{step}-{model}-{attempt}", status, model=model, training_step=step)
    return made


def hold(version: DatasetVersion, *names: str, part: str = "test", **more: Any) -> HeldOutSet:
    tasks = Task.objects.filter(version=version, name__in=names)
    options = {"name": "set", "refresh_on": LATER, "today": TODAY, "by": None, **more}
    return heldout.hold_out(version, {task.pk: part for task in tasks}, **options)


def grade_by_hand(trajectory: Trajectory, kind: str = "human") -> None:
    ImportedLabel.objects.create(
        version=trajectory.version,
        trajectory=trajectory,
        kind=kind,
        labeler="ann",
        decision="satisfied",
        acceptable="yes",
        outcome="true_pass",
    )


# --- choosing


def test_a_random_share_is_of_every_environment_and_comes_again_with_its_seed(version: DatasetVersion) -> None:
    tasks = list(heldout.free_tasks(version))
    chosen = heldout.split(tasks, share=0.5, test_share=2 / 3, seed=3)
    assert chosen == heldout.split(tasks[::-1], share=0.5, test_share=2 / 3, seed=3)
    assert Counter(chosen.values()) == {"test": 4, "dev": 2}
    environments = Counter(task.environment.name for task in tasks if task.pk in chosen)
    assert environments == {"env 0": 3, "env 1": 3}
    assert any(heldout.split(tasks, share=0.5, test_share=2 / 3, seed=seed) != chosen for seed in range(4, 8))


def test_where_remainders_are_equal_the_seed_decides_and_not_the_name(version: DatasetVersion) -> None:
    tasks = list(heldout.free_tasks(version))
    odd = [heldout.split(tasks, share=0.25, test_share=1, seed=seed) for seed in range(20)]
    more = {Counter(task.environment.name for task in tasks if task.pk in found)["env 1"] for found in odd}
    assert {len(found) for found in odd} == {3}
    assert more == {1, 2}


@pytest.mark.parametrize(("share", "test_share", "seed"), [(0, 0.5, 1), (1.1, 0.5, 1), (0.5, -0.1, 1), (0.5, 0.5, -1)])
def test_a_share_or_seed_that_is_none_is_refused(
    version: DatasetVersion, share: float, test_share: float, seed: int
) -> None:
    with pytest.raises(HeldOutError):
        heldout.split(list(heldout.free_tasks(version)), share=share, test_share=test_share, seed=seed)


# --- a set and its life


def test_the_digest_is_of_the_contents_and_parts_of_its_tasks(version: DatasetVersion) -> None:
    first = hold(version, "task 00", "task 01")
    assert first.digest == heldout.digest_of(first)
    assert len(first.digest) == 64
    first.tasks.filter(task__name="task 00").update(part="dev")
    assert heldout.digest_of(first) != first.digest


def test_a_task_is_in_one_set_at_most_and_not_in_another_after_it_retired(version: DatasetVersion) -> None:
    first = hold(version, "task 00")
    with pytest.raises(HeldOutError, match="in the held-out set set already"):
        hold(version, "task 00", "task 01", name="other")
    heldout.retire(first, by=None, now=NOW)
    with pytest.raises(HeldOutError, match="one set at most"):
        hold(version, "task 00", name="other")
    assert HeldOutSet.objects.count() == 1
    assert "task 00" not in {task.name for task in heldout.free_tasks(version)}


def test_a_set_made_by_mistake_is_taken_back_and_its_tasks_are_free(version: DatasetVersion) -> None:
    heldout.discard(hold(version, "task 00"), by=None)
    assert hold(version, "task 00").tasks.count() == 1
    assert "held_out_discarded" in set(AuditEvent.objects.values_list("action", flat=True))


@pytest.mark.parametrize(
    ("names", "more", "message"),
    [
        ((), {}, "No task is chosen"),
        (("task 00",), {"name": " "}, "name"),
        (("task 00",), {"refresh_on": TODAY}, "ahead"),
        (("task 00",), {"part": "train"}, "dev or test"),
    ],
)
def test_what_cannot_be_held_out_is_refused_in_words(
    version: DatasetVersion, names: tuple[str, ...], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(HeldOutError, match=message):
        hold(version, *names, **more)
    assert not HeldOutSet.objects.exists()


def test_a_name_is_taken_once(version: DatasetVersion) -> None:
    hold(version, "task 00")
    with pytest.raises(HeldOutError, match="another name"):
        hold(version, "task 01")


def test_holding_out_pressed_twice_makes_one_set(version: DatasetVersion) -> None:
    page = choose(version, "random")
    ids = {task.pk: str(task.public_id) for task in page.context["tasks"]}
    fields = {f"part-{ids[pk]}": part for pk, part in page.context["choosing"].parts.items()}
    first = choose(version, "store", drawn=page.context["drawn"], **fields)
    assert choose(version, "store", drawn=page.context["drawn"], **fields).url == first.url
    made = HeldOutSet.objects.get()
    heldout.postpone(made, refresh_on=made.refresh_on, today=TODAY, by=None)
    assert list(AuditEvent.objects.values_list("action", flat=True)) == ["held_out"]
    stale = choose(version, "store", name="another", **fields)
    assert stale.status_code == 422
    assert f"is in the held-out set {made.name} already" in stale.content.decode()


def test_a_set_is_due_from_its_date_on_until_it_is_postponed_or_retired(version: DatasetVersion) -> None:
    found = hold(version, "task 00")
    dataset = version.dataset
    assert heldout.due(dataset, today=LATER - timedelta(days=1)) == []
    assert heldout.due(dataset, today=LATER) == [found]
    heldout.postpone(found, refresh_on=LATER + timedelta(days=1), today=LATER, by=None)
    assert heldout.due(dataset, today=LATER) == []
    heldout.retire(found, by=None, now=NOW)
    assert heldout.due(dataset, today=LATER + timedelta(days=9)) == []
    assert heldout.parts(version) == {}
    with pytest.raises(HeldOutError, match="retired already"):
        heldout.retire(found, by=None, now=NOW)


def test_parts_are_told_by_task(version: DatasetVersion) -> None:
    hold(version, "task 00", part="dev")
    hold(version, "task 01", "task 02", name="other")
    names = dict(Task.objects.filter(version=version).values_list("pk", "name"))
    assert {names[pk]: part for pk, part in heldout.parts(version).items()} == {
        "task 00": "dev",
        "task 01": "test",
        "task 02": "test",
    }


# --- how far it is


def test_standing_counts_by_model_step_and_part(version: DatasetVersion) -> None:
    found = hold(version, "task 00", "task 01")
    add_trajectory(Task.objects.get(name="task 00"), "oracle", model="a", training_step=100, is_control=True)
    add_trajectory(Task.objects.get(name="task 00"), "no verdict", "none", model="a", training_step=100)
    one = Trajectory.objects.get(source__source_id="0-100-a-0")
    grade_by_hand(one)
    grade_by_hand(Trajectory.objects.get(source__source_id="0-100-a-1"), kind="judge")
    told = heldout.standing(found)
    assert [(row.model, row.training_step) for row in told.rows] == [(m, s) for m in "ab" for s in STEPS]
    assert told.rows[0].test == heldout.Tally(all=5, graded=1, open=3)
    assert (told.test, told.dev) == (heldout.Tally(25, 1, 23), heldout.Tally())
    assert (told.new, told.last_round) == (25, None)


# --- a round of what is new


def draw(found: HeldOutSet, people: list[Any], *, size: int = 12, seed: int = 5, overlap: float = 0.2) -> ReviewRound:
    return heldout.draw_round(
        found,
        size=size,
        overlap=overlap,
        reviewers=people,
        title="New ones",
        seed=seed,
        by=None,
        settings=RoundSettings(),
    )


def test_a_round_is_drawn_equally_over_models_and_steps_with_known_probability(version: DatasetVersion) -> None:
    found = hold(version, "task 00", "task 01", "task 02")
    made = draw(found, make_people(version, "ann", "bob"))
    items = made.items.select_related("trajectory__source", "task")
    assert {item.task.name for item in items} <= {"task 00", "task 01", "task 02"}
    cells = Counter((item.trajectory.source.model, item.trajectory.source.training_step) for item in items)  # type: ignore[union-attr]
    assert cells == {(model, step): 2 for model in "ab" for step in STEPS}
    drawn = RoundDraw.objects.get(round=made)
    assert drawn.held_out == found
    assert drawn.sample is None
    assert {cell["inclusion_probability"] for cell in drawn.plan["cells"]} == {2 / 6}
    assert drawn.plan["asked"]["digest"] == found.digest
    statuses = Counter(item.trajectory.source.verifier_status for item in items)  # type: ignore[union-attr]
    twice = Slot.objects.filter(round=made, copy=1).select_related("item__trajectory__source")
    doubled = Counter(slot.item.trajectory.source.verifier_status for slot in twice)  # type: ignore[union-attr]
    assert all(doubled[status] >= 0.2 * n for status, n in statuses.items())


def test_a_draw_can_be_recomputed_from_manifest_and_seed(version: DatasetVersion) -> None:
    made = draw(hold(version, "task 00", "task 01"), make_people(version, "ann", "bob"))
    plan = RoundDraw.objects.get(round=made).plan
    expected = set()
    for number, cell in enumerate(blobs.get_json(plan["manifest"])["cells"], 1):
        keys = draw_keys(plan["manifest"], 5, number, len(cell["units"]))
        order = sorted(range(len(keys)), key=lambda place: int(keys[place]))
        expected |= {cell["units"][place] for place in order[: plan["cells"][number - 1]["drawn"]]}
    assert expected == set(made.items.values_list("trajectory__source__source_id", flat=True))


def test_only_what_is_new_is_drawn_the_next_time(version: DatasetVersion) -> None:
    found = hold(version, "task 00")
    people = make_people(version, "ann", "bob")
    grade_by_hand(Trajectory.objects.get(source__source_id="0-100-a-0"))
    assert heldout.standing(found).test.open == 11
    first = draw(found, people, size=6)
    told = heldout.standing(found)
    assert (told.test.open, told.new, told.last_round) == (5, 0, first)
    later = add_trajectory(Task.objects.get(name="task 00"), "later", model="a", training_step=300)
    second = draw(found, people, size=6, seed=6)
    drawn = set(second.items.values_list("trajectory", flat=True))
    assert later.pk in drawn
    assert not drawn & set(first.items.values_list("trajectory", flat=True))
    assert "0-100-a-0" not in set(second.items.values_list("trajectory__source__source_id", flat=True))
    with pytest.raises(RoundError, match="0 trajectories can be drawn"):
        draw(found, people, size=1, seed=7)


def test_the_same_request_twice_is_one_round_and_a_given_up_one_frees_its_items(version: DatasetVersion) -> None:
    found = hold(version, "task 00")
    people = make_people(version, "ann", "bob")
    first = draw(found, people, size=6)
    assert heldout.standing(found).test.open == 6
    rounds.discard_round(first, by=None)
    assert heldout.standing(found).test.open == 12
    again = draw(found, people, size=6)
    assert again != first
    with pytest.raises(HeldOutError, match="stays on record"):
        heldout.discard(found, by=None)
    heldout.retire(found, by=None, now=NOW)
    with pytest.raises(HeldOutError, match="retired"):
        draw(found, people, size=1)


# --- exports


def test_labels_of_held_out_tasks_stay_out_of_exports_until_asked_for(
    version: DatasetVersion, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = hold(version, "task 00")
    for trajectory in Trajectory.objects.filter(task__name__in=("task 00", "task 01")):
        grade_by_hand(trajectory)
    assert {row["task"] for row in label_rows(version, with_evidence=False)} == {"task 01"}
    whole = list(label_rows(version, with_evidence=False, with_held_out=True))
    assert Counter(row["task"] for row in whole) == {"task 00": 12, "task 01": 12}
    assert heldout.left_out(version) == heldout.LeftOut(labels=12, tasks=1)
    out = tmp_path / "labels.csv"
    call_command("export_labels", "--dataset", version.dataset.name, "--out", str(out))
    assert "Left out: 12 labels of 1 tasks" in capsys.readouterr().err
    assert _tasks_in(out) == {"task 01"}
    call_command("export_labels", "--dataset", version.dataset.name, "--out", str(out), "--with-held-out")
    assert "Left out" not in capsys.readouterr().err
    assert _tasks_in(out) == {"task 00", "task 01"}
    heldout.retire(found, by=None, now=NOW)
    assert len(list(label_rows(version, with_evidence=False))) == 24


def _tasks_in(path: Path) -> set[str]:
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        assert tuple(rows.fieldnames or ()) == COLUMNS
        return {row["task"] for row in rows}


# --- pages


def client_of(version: DatasetVersion, role: str) -> Client:
    user, _ = User.objects.get_or_create(username=role)
    Membership.objects.get_or_create(dataset=version.dataset, user=user, defaults={"role": role})
    client = Client()
    client.force_login(user)
    return client


def choose(version: DatasetVersion, do: str, **sent: Any) -> Any:
    address = reverse("round-held-out-new", args=[version.dataset.name])
    usual = {"name": "final", "refresh_on": "2099-01-01", "share": "50", "test_share": "50", "seed": "3"}
    return client_of(version, "lead").post(address, {"do": do, **usual, **sent})


def test_a_lead_chooses_by_seed_and_holds_out_what_the_page_showed(version: DatasetVersion) -> None:
    page = choose(version, "random")
    assert page.status_code == 200
    assert (page.context["n_dev"], page.context["n_test"]) == (3, 3)
    chosen = page.context["choosing"].parts
    assert chosen == heldout.split(list(heldout.free_tasks(version)), share=0.5, test_share=0.5, seed=3)
    ids = {task.pk: str(task.public_id) for task in page.context["tasks"]}
    fields = {f"part-{ids[pk]}": part for pk, part in chosen.items()}
    stored = choose(version, "store", drawn=page.context["drawn"], **fields)
    made = HeldOutSet.objects.get()
    assert stored.url == reverse("round-held-out", args=[made.public_id])
    assert heldout.parts(version) == chosen
    detail = AuditEvent.objects.get(action="held_out").detail
    assert detail["drawn"]["seed"] == 3
    shown = client_of(version, "viewer").get(stored.url).content.decode()
    assert made.digest in shown
    assert "with seed" in shown


def test_a_share_that_was_changed_by_hand_is_not_logged_as_drawn(version: DatasetVersion) -> None:
    page = choose(version, "random")
    ids = {task.pk: str(task.public_id) for task in page.context["tasks"]}
    kept = list(page.context["choosing"].parts.items())[1:]
    changed = {f"part-{ids[pk]}": part for pk, part in kept}
    assert "chosen by hand" in choose(version, "filter", drawn=page.context["drawn"], **changed).content.decode()
    choose(version, "store", drawn=page.context["drawn"], **changed)
    assert AuditEvent.objects.get(action="held_out").detail["drawn"] is None


def fields_of(page: Any) -> dict[str, str]:
    """What a browser sends of the page's choices: those listed, those not shown, and how they were drawn."""
    listed = {f"part-{task.public_id}": task.part for task in page.context["shown"] if task.part}
    return {**listed, "chosen": page.context["unshown"], "drawn": page.context["drawn"]}


def test_method_and_seed_outlive_a_filter(version: DatasetVersion) -> None:
    page = choose(version, "random", solved="some")
    drawn = dict(page.context["choosing"].parts)
    page = choose(version, "filter", q="task 0", environment="env 1", **fields_of(page))
    assert len(page.context["shown"]) < len(page.context["tasks"])
    assert "chosen at random with seed" in page.content.decode()
    assert choose(version, "store", name="", q="task 0", **fields_of(page)).context["recorded"]["seed"] == 3
    assert choose(version, "store", q="task 0", **fields_of(page) | {"seed": "4"}).status_code == 302
    assert heldout.parts(version) == drawn
    detail = AuditEvent.objects.get(action="held_out").detail["drawn"]
    assert (detail["seed"], detail["solved"], detail["q"], detail["others"]) == (3, "some", "", 0)


def test_a_draw_among_a_part_says_how_many_were_chosen_otherwise(version: DatasetVersion) -> None:
    one = Task.objects.filter(environment__name="env 0").earliest("pk")
    page = choose(version, "random", environment="env 1", **{f"part-{one.public_id}": "dev"})
    choose(version, "store", **fields_of(page))
    shown = client_of(version, "viewer").get(reverse("round-held-out", args=[HeldOutSet.objects.get().public_id]))
    assert AuditEvent.objects.get(action="held_out").detail["drawn"]["others"] == 1
    assert "among a part of them; 1 more task otherwise" in shown.content.decode()


@pytest.mark.parametrize("drawn", ["yes", "[]", '{"share": 0}', '{"share": 50, "test_share": 50, "seed": 4}'])
def test_what_is_no_draw_of_the_list_is_recorded_as_chosen_by_hand(version: DatasetVersion, drawn: str) -> None:
    choose(version, "store", **fields_of(choose(version, "random")) | {"drawn": drawn})
    assert AuditEvent.objects.get(action="held_out").detail["drawn"] is None


def test_choices_outlive_a_filter_and_a_refusal(version: DatasetVersion) -> None:
    task = Task.objects.get(name="task 00")
    page = choose(version, "filter", q="task 01", **{f"part-{task.public_id}": "dev"})
    assert [found.name for found in page.context["shown"]] == ["task 01"]
    assert page.context["unshown"] == f"{task.public_id}:dev"
    page = choose(version, "test", q="task 01", chosen=page.context["unshown"])
    names = {found.pk: found.name for found in page.context["tasks"]}
    assert {names[pk]: part for pk, part in page.context["choosing"].parts.items()} == {
        "task 00": "dev",
        "task 01": "test",
    }
    refused = choose(version, "store", name="", chosen=f"{task.public_id}:dev")
    assert refused.status_code == 422
    assert refused.context["n_dev"] == 1
    assert not HeldOutSet.objects.exists()


def test_nonsense_is_refused_in_place(version: DatasetVersion) -> None:
    assert "No task is chosen" in choose(version, "store").content.decode()
    assert choose(version, "random", share="0").status_code == 422
    assert choose(version, "random", seed="x").status_code == 422
    late = choose(version, "store", refresh_on="2001-01-01", chosen=f"{Task.objects.all()[0].public_id}:dev")
    assert "has to lie ahead" in late.content.decode()
    unknown = choose(version, "filter", chosen="nothing:dev 00000000-0000-0000-0000-000000000000:test x")
    assert (unknown.status_code, unknown.context["n_dev"]) == (200, 0)


def test_only_leads_hold_out_and_reviewers_see_nothing(version: DatasetVersion) -> None:
    found = hold(version, "task 00")
    pages = [
        reverse("held-out", args=[version.dataset.name]),
        reverse("round-held-out", args=[found.public_id]),
        reverse("round-held-out-new", args=[version.dataset.name]),
        reverse("round-held-out-draw", args=[found.public_id]),
    ]
    assert [client_of(version, "lead").get(page).status_code for page in pages] == [200] * 4
    assert [client_of(version, "viewer").get(page).status_code for page in pages] == [200, 200, 403, 403]
    assert [client_of(version, "reviewer").get(page).status_code for page in pages] == [403] * 4
    stranger = Client()
    stranger.force_login(User.objects.create_user("stranger"))
    assert [stranger.get(page).status_code for page in pages] == [404] * 4
    steer = reverse("round-held-out-steer", args=[found.public_id])
    assert client_of(version, "viewer").post(steer, {"do": "retire"}).status_code == 403
    assert client_of(version, "lead").post(steer, {"do": "other"}).status_code == 404


def to_draw(version: DatasetVersion, **said: str) -> tuple[str, dict[str, object]]:
    """Where a round of a held-out set with two tasks is drawn, and what is sent there."""
    found = hold(version, "task 00", "task 01")
    people = make_people(version, "ann", "bob")
    sent = {"overlap": "20", "seed": "4", "reviewers": [user.pk for user in people], **said}
    return reverse("round-held-out-draw", args=[found.public_id]), sent


def test_a_round_is_previewed_and_then_drawn(version: DatasetVersion) -> None:
    address, sent = to_draw(version, title="Step 200", size="12")
    client = client_of(version, "lead")
    preview = client.post(address, {**sent, "preview": "yes"})
    assert [(cell.size, cell.draw) for cell in preview.context["plan"].cells] == [(4, 2)] * 6
    assert not ReviewRound.objects.exists()
    too_many = client.post(address, {**sent, "size": "99"})
    assert too_many.status_code == 422
    assert "24 trajectories can be drawn, 99 were asked for" in too_many.content.decode()
    drawn = client.post(address, sent)
    made = ReviewRound.objects.get()
    assert drawn.url == reverse("round", args=[made.public_id])
    assert (made.items.count(), made.title, made.seed) == (12, "Step 200", 4)
    told = client.get(drawn.url).content.decode()
    assert "Not this one" not in told  # nothing is extended before it is open
    assert "leaves their weight empty" in told
    rounds.open_round(made, by=None, now=NOW)
    assert (
        "drawn from the new trajectories of a held-out set and from no sample" in client.get(drawn.url).content.decode()
    )


def test_a_round_of_all_that_is_left_pressed_twice_is_one_round(version: DatasetVersion) -> None:
    address, sent = to_draw(version, title="All", size="24")
    client = client_of(version, "lead")
    assert "is drawn. Open it" in client.post(address, sent, follow=True).content.decode()
    again = client.post(address, sent, follow=True).content.decode()
    assert "drawn already" in again
    assert "is drawn. Open it" not in again
    assert ReviewRound.objects.get().items.count() == 24


def test_a_due_set_is_said_on_the_pages_that_a_lead_opens(version: DatasetVersion) -> None:
    found = hold(version, "task 00")
    client = client_of(version, "lead")
    name = version.dataset.name
    pages = [reverse(page, args=[name]) for page in ("dataset", "held-out", "rounds")]
    assert not any("was to be refreshed" in client.get(page).content.decode() for page in pages)
    HeldOutSet.objects.update(refresh_on=date(2001, 1, 1))
    assert all("was to be refreshed" in client.get(page).content.decode() for page in pages)
    steer = reverse("round-held-out-steer", args=[found.public_id])
    refused = client.post(steer, {"do": "postpone", "refresh_on": "2001-01-02"})
    assert "has to lie ahead" in refused.content.decode()
    client.post(steer, {"do": "postpone", "refresh_on": "2099-01-01"})
    assert not any("was to be refreshed" in client.get(page).content.decode() for page in pages)


def test_the_export_page_says_what_is_left_out(version: DatasetVersion) -> None:
    hold(version, "task 00")
    for trajectory in Trajectory.objects.filter(task__name__in=("task 00", "task 01")):
        grade_by_hand(trajectory)
    address = reverse("export", args=[version.dataset.name])
    client = client_of(version, "lead")
    page = client.get(address)
    assert (page.context["n"], page.context["missing"].labels) == (12, 12)
    assert "12 more labels of 1 task held out from training are left out" in page.content.decode()
    file = client.get(address, {"format": "csv"})
    assert "labels-without-held-out.csv" in file["Content-Disposition"]
    assert len(b"".join(file).splitlines()) == 13  # type: ignore[call-overload]
    whole = client.get(address, {"format": "csv", "held_out": "yes"})
    assert "without" not in whole["Content-Disposition"]
    assert len(b"".join(whole).splitlines()) == 25  # type: ignore[call-overload]
