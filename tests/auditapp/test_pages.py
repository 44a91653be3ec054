"""Pages for leads and viewers: who may see them, what they show, and that lists stay cheap."""

import csv
import html
import io
import json
import re
import sqlite3
import zipfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import DatabaseError, connection, transaction
from django.db.models import Count
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from auditapp import ingest, judging
from auditapp.ledger import worker_name
from auditapp.models.datasets import Dataset, DatasetVersion, Membership, Trajectory
from auditapp.models.events import AuditEvent
from auditapp.models.judgments import JudgeRun, Judgment, JudgmentTag
from auditapp.models.labels import ImportedLabel, Label, labels
from auditapp.models.samples import Frame, Sample
from auditapp.models.sources import ImportBatch
from auditapp.views import errors
from auditapp.views.labels import _filtered
from auditapp.views.listing import most_frequent, page_of
from auditapp.views.runs import _tallies
from judges.providers.scripted import Turn
from tests.auditapp.looks import GOOD, answer, make_run, make_world, verdict
from tests.auditapp.population import add_trajectory, fill, make_task, make_version
from tests.auditapp.test_estimate import grade
from tests.auditapp.test_ingest import write_case

__all__ = ["answer"]
pytestmark = pytest.mark.django_db
LISTS = ("dataset", "trajectories", "imports", "samples", "runs", "labels", "export")
LEAD_ONLY = ("import-new", "sample-new", "run-new")


def member(version: DatasetVersion | None, role: str) -> Client:
    user, _ = User.objects.get_or_create(username=role, is_superuser=role == "newcomer")
    if version is not None:
        Membership.objects.get_or_create(dataset=version.dataset, user=user, role=role)
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def judged(answer: Callable[..., Any]) -> JudgeRun:
    """A run of four judgments, all completed; the work was right and the verifier said fail."""
    version = make_world(4, status="fail")
    run = make_run(version)
    answer(GOOD)
    for judgment in judging.queued_ids(run):
        judging.execute_judgment(judgment)
    run.refresh_from_db()
    return run


@pytest.fixture
def no_broker(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collects what would be enqueued."""
    rung: list[Any] = []
    for name in ("enqueue_import", "enqueue_run", "enqueue_judgments"):
        monkeypatch.setattr(f"auditapp.tasks.{name}", rung.append)
    return rung


# --- who


@pytest.mark.parametrize("name", [*LISTS, *LEAD_ONLY])
def test_pages_of_a_dataset_have_its_areas_on_top(judged: JudgeRun, name: str) -> None:
    version = judged.sample.frame.version
    page = member(version, "lead").get(reverse(name, args=[version.dataset.name])).content.decode()
    assert f'<nav aria-label="{version.dataset.name}">' in page


def test_a_wrong_address_offers_a_log_in_to_whoever_has_none(judged: JudgeRun) -> None:
    stranger = Client().get("/nowhere/")
    inside = member(judged.sample.frame.version, "lead").get("/nowhere/")
    assert (stranger.status_code, inside.status_code) == (404, 404)
    assert "Log in</a>" in stranger.content.decode()
    assert "not a member" not in stranger.content.decode()
    assert "To the datasets</a>" in inside.content.decode()


@pytest.mark.parametrize("role", ["lead", "viewer"])
def test_every_area_on_top_opens_to_the_member_who_sees_it(judged: JudgeRun, role: str) -> None:
    version = judged.sample.frame.version
    client = member(version, role)
    page = client.get(reverse("dataset", args=[version.dataset.name])).content.decode()
    areas = re.findall(
        r'href="([^"]+)"', page.split(f'<nav aria-label="{version.dataset.name}">')[1].split("</nav>")[0]
    )
    assert len(areas) == {"lead": 7, "viewer": 6}[role]
    assert [area for area in areas if client.get(area).status_code != 200] == []


@pytest.mark.parametrize("name", [*LISTS, *LEAD_ONLY])
def test_pages_of_a_dataset_exist_only_for_its_members(judged: JudgeRun, name: str) -> None:
    version = judged.sample.frame.version
    address = reverse(name, args=[version.dataset.name])
    assert Client().get(address).status_code == 302
    assert member(None, "stranger").get(address).status_code == 404
    assert member(version, "lead").get(address).status_code == 200
    assert member(version, "viewer").get(address).status_code == (403 if name in LEAD_ONLY else 200)
    assert member(version, "reviewer").get(address).status_code == (200 if name == "dataset" else 403)


def test_objects_exist_only_for_members(judged: JudgeRun) -> None:
    label = Label.objects.first()
    assert label is not None
    batch = ImportBatch.objects.get()
    ids = {"label": label, "run": judged, "sample": judged.sample, "import": batch, "run-progress": judged}
    for name, row in ids.items():
        address = reverse(name, args=[row.public_id])
        assert member(None, "stranger").get(address).status_code == 404, name
        assert member(judged.sample.frame.version, "viewer").get(address).status_code == 200, name
        assert member(judged.sample.frame.version, "reviewer").get(address).status_code == 403, name


def test_a_reviewers_pages_say_nothing_of_verifier_or_judge(judged: JudgeRun) -> None:
    client = member(judged.sample.frame.version, "reviewer")
    for address in ("/", reverse("dataset", args=["release"])):
        page = client.get(address).content.decode()
        for word in ("false fail", "fail</", "satisfied", "test judge", "reward"):
            assert word not in page, word


def test_only_leads_may_steer(judged: JudgeRun, no_broker: list[Any]) -> None:
    version = judged.sample.frame.version
    steer = reverse("run-steer", args=[judged.public_id])
    assert member(version, "viewer").post(steer, {"do": "cancel"}).status_code == 403
    assert member(version, "viewer").post(reverse("frame-freeze", args=["release"])).status_code == 403
    assert member(version, "viewer").post(reverse("rule-not-run", args=["release"])).status_code == 403
    assert member(version, "lead").post(steer, {"do": "nonsense"}).status_code == 404
    assert member(version, "lead").get(steer).status_code == 405


def test_a_ruling_is_made_once_and_never_by_a_press_that_names_none(judged: JudgeRun) -> None:
    version = judged.sample.frame.version
    client, address = member(version, "lead"), reverse("rule-not-run", args=["release"])
    rulings = AuditEvent.objects.filter(action__startswith="not_run_counts_as")
    assert client.post(address, {"as": "nonsense"}).status_code == 404
    assert not rulings.exists()
    for ruled in ("recorded", "recorded", "invalid", "recorded"):
        assert client.post(address, {"as": ruled}).status_code == 302
    assert [row.action.rpartition("_")[2] for row in rulings.order_by("pk")] == ["recorded", "invalid", "recorded"]


# --- what


def test_home_names_rate_direction_and_a_way_to_the_evidence(judged: JudgeRun) -> None:
    page = member(judged.sample.frame.version, "lead").get("/").content.decode()
    assert "100.0" in page
    assert "n 4" in page
    assert "uncalibrated" in page


def test_home_of_a_newcomer_leads_to_an_import() -> None:
    page = member(None, "newcomer").get("/").content.decode()
    assert reverse("import-first") in page
    assert "No dataset yet" in page


def test_a_label_shows_its_evidence_with_a_link_to_the_cited_line(judged: JudgeRun) -> None:
    label = Label.objects.first()
    assert label is not None
    page = member(judged.sample.frame.version, "lead").get(reverse("label", args=[label.public_id])).content.decode()
    assert "the total is 42 dollars" in page
    assert f"/t/{label.trajectory.public_id}/deliverable/?root=deliverable&amp;path=answer.txt&amp;lines=1" in page
    assert "false fail" in page


def test_a_failed_judgment_says_why_and_shows_no_decision(judged: JudgeRun) -> None:
    Judgment.objects.update(
        state="failed",
        reason="provider_outage",
        decision=None,
        integrity=None,
        acceptable=None,
        outcome=None,
    )
    client = member(judged.sample.frame.version, "lead")
    label = Label.objects.first()
    assert label is not None
    page = client.get(reverse("label", args=[label.public_id])).content.decode()
    assert "provider outage" in page
    assert "neither as right nor as wrong" in page
    assert "provider outage" in client.get(reverse("run", args=[judged.public_id])).content.decode()


def test_hostile_text_is_text(answer: Callable[..., Any]) -> None:
    version = make_world(1)
    run = make_run(version)
    answer([GOOD[0], verdict(summary="<script>alert(1)</script> [E1]."), GOOD[2]])
    judging.execute_judgment(judging.queued_ids(run)[0])
    label = Label.objects.get()
    page = member(version, "lead").get(reverse("label", args=[label.public_id])).content.decode()
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page


@pytest.mark.parametrize(
    ("query", "n"),
    [
        ("", 4),
        ("?outcome=false_fail", 4),
        ("?outcome=false_pass", 0),
        ("?outcome=none", 0),
        ("?source=judge&state=completed", 4),
        ("?status=pass", 0),
        ("?environment=env&model=m", 4),
        ("?tag=H01", 0),
        ("?before=nonsense~nonsense", 4),
        ("?before=0", 0),
        ("?unknown=1", 4),
    ],
)
def test_the_address_of_the_label_table_is_its_state(judged: JudgeRun, query: str, n: int) -> None:
    response = member(judged.sample.frame.version, "lead").get(reverse("labels", args=["release"]) + query)
    assert response.status_code == 200
    assert len(response.context["page"].rows) == n


@pytest.mark.parametrize(
    ("wanted", "n"),
    [
        ({"labeler": "rules"}, 4),
        ({"labeler": "anna"}, 2),
        ({"labeler": "nobody"}, 0),
        ({"tag": "C01"}, 2),
        ({"tag": "C01", "labeler": "rules"}, 1),
        ({"tag": "C01", "labeler": "anna"}, 1),
        ({"tag": "C02", "source": "judge"}, 0),
    ],
)
def test_a_name_or_a_code_finds_labels_of_judges_and_of_people(
    judged: JudgeRun, wanted: dict[str, str], n: int
) -> None:
    """In the parts that a page walks as in the one query of an export; a person may be called as a judge is."""
    version = judged.sample.frame.version
    JudgmentTag.objects.all().delete()
    tagged, dropped, *_ = Judgment.objects.order_by("pk")
    for judgment, kept in ((tagged, True), (dropped, False)):
        JudgmentTag.objects.create(judgment=judgment, code="C01", role="primary", phase=1, kept=kept)
    type(judged.config).objects.filter(pk=judged.config_id).update(name="rules")
    for trajectory, tags in zip(version.trajectories.all(), (["C01"], []), strict=False):
        ImportedLabel.objects.create(
            version=version,
            trajectory=trajectory,
            kind="human",
            labeler="anna",
            decision="satisfied",
            acceptable="yes",
            tags=tags,
        )
    response = member(version, "lead").get(reverse("labels", args=[version.dataset.name]), wanted)
    found = {row.pk for row in response.context["page"].rows}
    assert len(found) == n
    assert found == {row.pk for row in _filtered(version, wanted)}


@pytest.mark.parametrize("listed", [2, 3])
def test_a_code_of_many_labels_is_not_sent_to_the_database_as_their_keys(
    judged: JudgeRun, listed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An import may hold a million of them, and a statement has room for some thousands."""
    monkeypatch.setattr("auditapp.views.labels.LISTED", listed)
    version = judged.sample.frame.version
    answer = {"kind": "judge", "labeler": "elsewhere", "decision": "satisfied", "acceptable": "yes"}
    made = [
        ImportedLabel.objects.create(version=version, trajectory=trajectory, tags=["E01"], **answer)
        for trajectory in version.trajectories.all()[:3]
    ]
    with CaptureQueriesContext(connection) as asked:
        page = member(version, "lead").get(reverse("labels", args=[version.dataset.name]), {"tag": "E01"})
    assert {row.public_id for row in page.context["page"].rows} == {label.public_id for label in made}
    sent = {found for query in asked for found in re.findall(r'"key" IN \(([\d, ]+)\)', query["sql"])}
    keys = [{int(key) for key in found.split(",")} for found in sent]
    assert keys == ([{label.pk * 4 + 1 for label in made}] if listed == 3 else [])


def test_calls_without_a_price_are_no_calls_that_cost_nothing(judged: JudgeRun) -> None:
    version = judged.sample.frame.version
    pages = [reverse("runs", args=[version.dataset.name]), reverse("sample", args=[judged.sample.public_id])]
    pages.append(reverse("run", args=[judged.public_id]))

    def told(page: str) -> tuple[bool, bool]:
        body = member(version, "viewer").get(page).content.decode()
        return "price unknown" in body, "$0.00" in body.split("Reserved")[0]

    JudgeRun.objects.update(unpriced_calls=3, spent_micros=0)
    assert [told(page) for page in pages] == [(True, False)] * 3
    (row,) = csv.DictReader(io.StringIO(member(version, "viewer").get(pages[0], {"csv": "runs"}).content.decode()))
    assert (row["spent_usd"], row["unpriced_calls"]) == ("", "3")
    assert judging.summary(JudgeRun.objects.get())["spent_usd"] is None
    JudgeRun.objects.update(unpriced_calls=0)
    assert judging.summary(JudgeRun.objects.get())["spent_usd"] == "0"
    assert [told(page) for page in pages] == [(False, True)] * 3


def test_a_run_counts_its_own_as_it_counts_what_it_reuses(judged: JudgeRun) -> None:
    own = _tallies(judged)
    assert (judged.planned, judged.reused, own["counts"]["completed"]) == (4, 0, 4)
    judged.reused = 1  # then they are looked for by draw and judge
    assert _tallies(judged) == own


@pytest.mark.parametrize(
    ("name", "query", "sizes"),
    [
        ("trajectories", "", [50, 50, 25]),
        ("trajectories", "?status=fail", [50, 5]),
        ("numbers-rows", "?among=labeled", [50, 50, 25]),
        ("numbers-rows", "?among=labeled&people_said=no", [50, 50]),
    ],
)
@pytest.mark.parametrize("whole", [1, 10_000])
def test_walking_a_list_by_key_meets_each_row_once_in_both_directions(
    name: str, query: str, sizes: list[int], whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the rows are looked up whole, and where they are too many for that."""
    monkeypatch.setattr("auditapp.views.numbers_rows.COUNTED", whole)
    version = make_version()
    fill(version, {("pass", "m", "e"): 70, ("fail", "m", "e"): 55})
    names = version.trajectories.order_by("pk").values_list("source__source_id", flat=True)
    grade(version, dict.fromkeys(names[:100], "no"))
    client, start = member(version, "lead"), reverse(name, args=["release"])

    def walk(address: str, way: str) -> list[Any]:
        found: list[Any] = []
        while address:
            page = client.get(address).context["page"]
            found.append([row.pk for row in page.rows])
            address = start + getattr(page, way) if getattr(page, way) else ""
        return found

    down = walk(start + query, "older")
    assert [len(page) for page in down] == sizes
    seen = [pk for page in down for pk in page]
    assert seen == sorted(set(seen), reverse=True)
    last = f"{start}{query}{'&' if query else '?'}before={down[-2][-1]}"
    assert walk(last, "newer") == down[::-1]


def test_a_list_in_parts_is_walked_as_one_and_meets_what_is_in_two_of_them_once(rf: RequestFactory) -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 7, ("fail", "m", "e"): 6})
    everything = version.trajectories.order_by("-pk")
    parts = [everything.filter(source__verifier_status="pass"), everything.filter(pk__lte=everything[4].pk)]
    expected = sorted({row.pk for part in parts for row in part}, reverse=True)
    assert len(expected) < parts[0].count() + parts[1].count()

    def walk(address: str, way: str) -> list[list[int]]:
        found = []
        while True:
            page = page_of(rf.get(address), *parts, size=4)
            found.append([row.pk for row in page.rows])
            if not (address := getattr(page, way)):
                return found

    down = walk("/", "older")
    assert [pk for page in down for pk in page] == expected
    assert walk(f"/?before={down[-2][-1]}", "newer") == down[::-1]


def test_a_page_of_labels_is_read_in_the_order_of_an_index(judged: JudgeRun) -> None:
    """Newest first by key, over both origins; neither database sorts all labels for one page."""
    version = judged.sample.frame.version
    rows = labels(version).select_related("trajectory__source", "trajectory__task__environment")
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")  # of a handful of rows the planner reads all
            cursor.execute("SET LOCAL enable_sort = off")
    plan = rows.order_by("-key")[:51].explain()
    assert "judgment_by_label_key" in plan
    assert "imported_by_label_key" in plan
    assert "B-TREE FOR" not in plan
    assert "Sort  (cost" not in plan


def test_a_poll_of_a_run_counts_its_judgments_once(judged: JudgeRun) -> None:
    client = member(judged.sample.frame.version, "lead")
    with CaptureQueriesContext(connection) as queries:
        page = client.get(reverse("run-progress", args=[judged.public_id]))
    counting = [query["sql"] for query in queries if "COUNT(" in query["sql"] and "auditapp_judgment" in query["sql"]]
    assert len([sql for sql in counting if "GROUP BY" in sql]) == 1
    assert len(counting) == 2  # the other one is the forecast, of its own judgments alone
    assert page.context["counts"] == {"completed": 4, "queued": 0, "running": 0, "failed": 0, "cancelled": 0}
    assert page.context["outcomes"] == {"false_fail": 4}
    first, second = Judgment.objects.order_by("pk")[:2]
    Judgment.objects.filter(pk=first.pk).update(outcome="true_pass")
    Judgment.objects.filter(pk=second.pk).update(
        outcome=None, outcome_reason="cannot_tell", acceptable="unknown", decision="cannot_tell"
    )
    page = client.get(reverse("run-progress", args=[judged.public_id]))
    assert list(page.context["outcomes"].items()) == [("true_pass", 1), ("false_fail", 2), ("", 1)]


def test_chips_of_labels_are_counted_only_where_they_are_asked_for(judged: JudgeRun) -> None:
    client, address = member(judged.sample.frame.version, "lead"), reverse("labels", args=["release"])
    with CaptureQueriesContext(connection) as queries:
        plain = client.get(address)
    assert sum("GROUP BY" in query["sql"] for query in queries) == 3
    outcomes = next(item for item in plain.context["filters"] if item.key == "outcome")
    assert {choice.value: choice.count for choice in outcomes.choices if choice.count} == {"false_fail": 4}
    shown = {item.key: item for item in client.get(f"{address}?state=completed").context["filters"]}
    assert [(choice.value, choice.count) for choice in shown["state"].choices] == [("completed", 4)]


def test_a_chip_counts_the_rows_it_leaves_or_does_not_count(judged: JudgeRun) -> None:
    version = judged.sample.frame.version
    client, looked_at = member(version, "lead"), list(Trajectory.objects.filter(version=version))
    said = (("anna", "true_fail"), ("anna", "true_fail"), ("bert", "false_fail"))
    for trajectory, (labeler, outcome) in zip(looked_at, said, strict=False):
        given = {"kind": "human", "labeler": labeler, "decision": "satisfied", "acceptable": "yes", "outcome": outcome}
        ImportedLabel.objects.create(version=version, trajectory=trajectory, **given)
    address = reverse("labels", args=["release"])
    environment = looked_at[0].task.environment.name
    for asked in ({}, {"labeler": "anna"}, {"labeler": "anna", "outcome": "false_fail"}, {"environment": environment}):
        for item in client.get(address, asked).context["filters"]:
            for choice in (choice for choice in item.choices if choice.count is not None):
                leaves = client.get(address, {**asked, item.key: choice.value}).context["page"].rows
                assert len(leaves) == choice.count, (asked, item.key, choice.value)
    shown = {item.key: item for item in client.get(address, {"environment": environment}).context["filters"]}
    assert {choice.count for choice in shown["labeler"].choices} == {None}  # not counted by environment
    rare = {item.key: item for item in client.get(address, {"reason": "tool_timeout"}).context["filters"]}["reason"]
    assert "tool timeout" in {choice.label for choice in rare.choices}  # a code that none has, in words as the others
    assert "cell" not in {item.key for item in client.get(address, {"cell": "yes"}).context["filters"]}


def test_a_chip_does_not_count_what_the_page_leaves_out(judged: JudgeRun) -> None:
    version = judged.sample.frame.version
    client, address = member(version, "lead"), reverse("labels", args=["release"])
    JudgeRun.objects.filter(pk=judged.pk).update(state="running")
    waiting = Judgment.objects.filter(run=judged).first()
    assert waiting is not None
    Judgment.objects.filter(pk=waiting.pk).update(
        state="queued", outcome=None, acceptable=None, decision=None, integrity=None
    )
    for asked in ({}, {"state": "queued"}, {"outcome": "none"}, {"reason": "none"}):
        for item in client.get(address, asked).context["filters"]:
            for choice in (choice for choice in item.choices if choice.count is not None):
                leaves = client.get(address, {**asked, item.key: choice.value}).context["page"].rows
                assert len(leaves) == choice.count, (asked, item.key, choice.value)
    plain = client.get(address).context
    assert (plain["hidden"], len(plain["page"].rows)) == (1, 3)
    assert "ended" not in {item.key for item in plain["filters"]}


def test_a_tag_is_counted_only_among_judgments_alone(judged: JudgeRun) -> None:
    version = judged.sample.frame.version
    client, asked = member(version, "lead"), f"{reverse('labels', args=['release'])}?tag=C01"
    looked_at = Judgment.objects.filter(run=judged).first()
    assert looked_at is not None
    JudgmentTag.objects.filter(judgment__run=judged).delete()
    JudgmentTag.objects.create(judgment=looked_at, code="C01", kept=True, phase=1)

    def shown() -> tuple[int | None, int]:
        page = client.get(asked).context
        return next(item for item in page["filters"] if item.key == "tag").choices[0].count, len(page["page"].rows)

    assert shown() == (1, 1)
    given = {"kind": "human", "labeler": "anna", "decision": "satisfied", "acceptable": "yes", "tags": ["C01"]}
    ImportedLabel.objects.create(version=version, trajectory=looked_at.trajectory, **given)
    assert shown() == (None, 2)


def test_of_a_value_too_rare_to_be_kept_it_is_not_said_that_it_leaves_nothing() -> None:
    kept = Counter({"frequent": 7})
    shown = most_frequent("reason", "Reason", lambda _: kept, {"reason": "rare"})
    assert [(choice.value, choice.count) for choice in shown.choices] == [("frequent", 7), ("rare", None)]


@pytest.mark.parametrize("name", ["dataset", "trajectories", "labels", "runs", "samples", "imports"])
def test_the_number_of_queries_does_not_grow_with_the_rows(
    answer: Callable[..., Any], django_assert_max_num_queries: Any, name: str
) -> None:
    version = make_world(12, tasks=3)
    run = make_run(version)
    answer(GOOD)
    for judgment in judging.queued_ids(run)[:20]:
        judging.execute_judgment(judgment)
    client = member(version, "lead")
    client.get(reverse("dataset", args=["release"]))  # makes the figures that pages read
    with django_assert_max_num_queries(40):
        client.get(reverse(name, args=["release"]))


# --- importing


def archive(tmp_path: Path) -> SimpleUploadedFile:
    write_case(tmp_path / "one")
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as zipped:
        for path in (tmp_path / "one").rglob("*"):
            zipped.write(path, path.relative_to(tmp_path))
    return SimpleUploadedFile("../job.zip", data.getvalue())


def test_an_upload_becomes_a_dataset_led_by_whoever_sent_it(tmp_path: Path, no_broker: list[Any]) -> None:
    client = member(None, "newcomer")
    form = {"dataset": "mine", "version": "1", "format": "auto", "pass_threshold": "1.0", "partial_as": "exclude"}
    response = client.post(
        reverse("import-first"), {**form, "upload": archive(tmp_path)}, headers={"hx-request": "true"}
    )
    batch = ImportBatch.objects.get()
    assert response.headers["HX-Redirect"] == reverse("import", args=[batch.public_id])
    assert no_broker == [batch]
    staged = Path(batch.options["staged"])
    assert staged.is_dir()
    assert client.get(reverse("import", args=[batch.public_id])).status_code == 200

    ingest.run_import(batch.id)
    assert not staged.exists()
    page = client.get(reverse("import", args=[batch.public_id]), headers={"hx-request": "true"}).content.decode()
    assert "hx-trigger" not in page
    assert client.get(reverse("dataset", args=["mine"])).context["counts"]["pass"] == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [({"dataset": "../x"}, "dataset"), ({"pass_threshold": "high"}, "pass_threshold"), ({"upload": ""}, "upload")],
)
def test_a_refused_form_says_what_is_wrong_and_queues_nothing(
    tmp_path: Path, no_broker: list[Any], change: dict[str, str], field: str
) -> None:
    form = {"dataset": "mine", "version": "1", "format": "auto", "pass_threshold": "1.0", "partial_as": "exclude"}
    data = {**form, "upload": archive(tmp_path), **change}
    response = member(None, "newcomer").post(reverse("import-first"), data)
    assert response.status_code == 422
    assert field in response.context["form"].errors
    assert no_broker == []
    assert not ImportBatch.objects.exists()


def test_an_upload_that_cannot_be_kept_leaves_no_dataset(
    tmp_path: Path, no_broker: list[Any], monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    def full(*_: Any) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("auditapp.views.imports.stage_upload", full)
    form = {"dataset": "mine", "version": "1", "format": "auto", "pass_threshold": "1.0", "partial_as": "exclude"}
    client = member(None, "newcomer")
    client.raise_request_exception = False
    answer = client.post(reverse("import-first"), {**form, "upload": archive(tmp_path)})
    assert answer.status_code == 507
    assert "The disk is full" in answer.content.decode()
    assert not Dataset.objects.exists()


@pytest.mark.skipif(connection.vendor != "sqlite", reason="a file that others hold is SQLite's")
@pytest.mark.django_db(transaction=True)
def test_a_database_that_does_not_answer_is_no_fault_of_the_page() -> None:
    client = member(None, "newcomer")
    client.raise_request_exception = False
    with closing(sqlite3.connect(connection.settings_dict["NAME"])) as other, connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout = 0")
        other.execute("BEGIN IMMEDIATE")
        answer = client.post(reverse("logout"))
        other.rollback()
        cursor.execute("PRAGMA busy_timeout = 20000")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "10")
    assert "The database does not answer" in answer.content.decode()


def test_a_question_that_the_database_does_not_understand_is_a_fault_of_the_page() -> None:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM no_such_table")
    except DatabaseError:
        answer = errors.broken(RequestFactory().get("/"))
    assert answer.status_code == 500
    assert "Something broke" in answer.content.decode()


@pytest.mark.django_db(transaction=True)
@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite can be told to take no more room")
def test_a_full_database_says_so_and_keeps_nothing_of_what_was_sent(
    tmp_path: Path, no_broker: list[Any], settings: Any
) -> None:
    settings.ASSAY_HOME = tmp_path / "home"
    client = member(None, "newcomer")
    client.raise_request_exception = False
    form = {"version": "1", "format": "auto", "pass_threshold": "1.0", "partial_as": "exclude", "path": ""}
    upload = archive(tmp_path)
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA max_page_count")
        (most,) = cursor.fetchone()
        cursor.execute("PRAGMA max_page_count = 1")  # no less than there are
    try:
        for number in range(500):  # what pages have left takes some
            upload.seek(0)
            answer = client.post(reverse("import-first"), {**form, "dataset": f"d{number}", "upload": upload})
            if answer.status_code != 302:
                break
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA max_page_count = {most}")
    assert answer.status_code == 507
    assert "The disk is full" in answer.content.decode()
    assert Dataset.objects.count() == ImportBatch.objects.count() == number
    assert len(list((settings.ASSAY_HOME / "staged").iterdir())) == number


def test_a_refused_dataset_name_keeps_no_upload(tmp_path: Path, settings: Any, no_broker: list[Any]) -> None:
    make_version("mine")
    settings.ASSAY_HOME = tmp_path / "home"
    form = {"dataset": "mine", "version": "1", "format": "auto", "pass_threshold": "1.0", "partial_as": "exclude"}
    response = member(None, "newcomer").post(reverse("import-first"), {**form, "upload": archive(tmp_path)})
    assert response.status_code == 422
    assert list((tmp_path / "home" / "staged").iterdir()) == []


@pytest.mark.parametrize("state", ["queued", "running"])
def test_a_lead_cancels_an_import_that_waits_or_runs(state: str) -> None:
    version = make_version()
    batch = ImportBatch.objects.create(version=version, label="x", state=state, worker=worker_name())
    page, address = reverse("import", args=[batch.public_id]), reverse("import-cancel", args=[batch.public_id])
    assert address not in member(version, "viewer").get(page).content.decode()
    assert member(version, "viewer").post(address).status_code == 403
    assert member(None, "stranger").post(address).status_code == 404
    lead = member(version, "lead")
    assert lead.get(address).status_code == 405
    assert address in lead.get(page).content.decode()
    shown = lead.post(address, follow=True).content.decode()
    assert "What was stored before stays" in shown
    assert address not in shown
    assert "had ended already" in lead.post(address, follow=True).content.decode()
    batch.refresh_from_db()
    assert batch.state == "cancelled"


def test_who_may_begin_a_dataset(judged: JudgeRun) -> None:
    version = judged.sample.frame.version
    address = reverse("import-first")
    assert member(None, "newcomer").get(address).status_code == 200
    assert member(None, "stranger").get(address).status_code == 403
    assert member(version, "lead").get(address).status_code == 200
    assert member(version, "viewer").get(address).status_code == 403
    reviewer = member(version, "reviewer")
    assert reviewer.get(address).status_code == 403
    other = make_version("other")
    Membership.objects.create(dataset=other.dataset, user=User.objects.get(username="reviewer"), role="lead")
    assert reviewer.get(address).status_code == 403
    assert address not in reviewer.get("/").content.decode()


def test_a_taken_name_is_not_given_to_somebody_else(tmp_path: Path, no_broker: list[Any]) -> None:
    make_version("mine")
    form = {"dataset": "mine", "version": "1", "format": "auto", "pass_threshold": "1.0", "partial_as": "exclude"}
    response = member(None, "newcomer").post(reverse("import-first"), {**form, "upload": archive(tmp_path)})
    assert response.status_code == 422
    assert not Membership.objects.exists()


def test_paths_are_read_only_inside_the_roots(tmp_path: Path, settings: Any, no_broker: list[Any]) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    write_case(inside / "one")
    write_case(outside / "two")
    (inside / "link").symlink_to(outside)
    settings.ASSAY_IMPORT_ROOTS = [inside]
    form = {"version": "1", "format": "auto", "pass_threshold": "1.0", "partial_as": "exclude"}
    client = member(make_version("mine"), "lead")
    for path in (outside, inside / "link", inside / ".." / "outside", "/etc/passwd", "nowhere", "\x00"):
        response = client.post(reverse("import-new", args=["mine"]), {**form, "path": str(path)})
        assert response.status_code == 422, path
    response = client.post(reverse("import-new", args=["mine"]), {**form, "path": str(inside / "one")})
    assert response.status_code == 302


def test_a_dataset_says_why_verdicts_are_invalid_and_leads_to_them() -> None:
    version = make_version()
    task = make_task(version)
    reasons = {"verifier_did_not_run": 2, "reward_invalid": 1, "the <b>sandbox</b> & its net": 3, "": 1}
    for reason, count in reasons.items():
        for number in range(count):
            add_trajectory(task, f"{reason or 'unstated'}-{number}", "invalid", verifier_reason=reason)
    add_trajectory(task, "control", "invalid", verifier_reason="reward_invalid", is_control=True)
    add_trajectory(task, "ruled", "fail", verifier_reason="verifier_did_not_run")
    lead = member(version, "lead")
    response = lead.get(reverse("dataset", args=["release"]))
    assert dict(response.context["invalid"]) == reasons
    table = response.content.decode().partition("Why verdicts are invalid")[2].partition("</table>")[0]
    assert "verifier did not run" in table
    rows = re.findall(r'<th scope="row">.*?href="([^"]*)">(\d+)</a>', table)
    assert [int(number) for _, number in rows] == [3, 2, 1, 1]
    for (address, number), reason in zip(rows, sorted(reasons, key=lambda name: (-reasons[name], name)), strict=True):
        listed = lead.get(html.unescape(address))
        if reason:
            assert len(listed.context["page"].rows) == int(number), reason
    plain = make_version("plain")
    fill(plain, {("pass", "m", "e"): 1})
    assert (
        "Why verdicts are invalid" not in member(plain, "lead").get(reverse("dataset", args=["plain"])).content.decode()
    )


def test_a_run_offers_to_retry_only_what_a_retry_can_change(answer: Any, no_broker: list[Any]) -> None:
    answer([Turn(stop="refusal")])
    version = make_world(2, tasks=2)
    version.tasks.filter(name="invoice-0").update(instruction_blob=None)
    run = make_run(version)
    for judgment in judging.queued_ids(run):
        judging.execute_judgment(judgment)
    page, steer = reverse("run", args=[run.public_id]), reverse("run-steer", args=[run.public_id])
    lead = member(version, "lead")
    shown = lead.get(page).content.decode()
    assert "Retry the 2 failed" in shown
    assert "2 more would fail again" in shown
    lead.post(steer, {"do": "retry"})
    assert dict(Judgment.objects.values_list("reason").annotate(n=Count("pk")).order_by()) == {
        "": 2,
        "input_invalid": 2,
    }
    Judgment.objects.exclude(state="failed").update(state="cancelled")
    shown = lead.get(page).content.decode()
    assert 'value="retry"' not in shown
    assert "The 2 failed would fail again" in shown
    assert "No failed judgment would end otherwise" in lead.post(steer, {"do": "retry"}, follow=True).content.decode()
    assert len(judging.retry_failed(run, by=None, lasting=True)) == 2


# --- from population to run


def test_from_frame_to_run_in_the_browser(no_broker: list[Any]) -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 30, ("fail", "m", "e"): 20, ("none", "m", "e"): 3})
    client = member(version, "lead")
    response = client.post(reverse("frame-freeze", args=["release"]))
    frame = Frame.objects.get()
    assert response.url == f"{reverse('sample-new', args=['release'])}?frame={frame.public_id}"  # type: ignore[attr-defined]
    assert frame.size == 50

    plan = {"method": "proportional", "size": "10", "seed": "7", "floor": "", "cap": ""}
    preview = client.post(response.url, {**plan, "preview": "yes"})  # type: ignore[attr-defined]
    assert preview.context["total"] == 10
    assert not Sample.objects.exists()
    assert client.post(response.url, {**plan, "size": "51"}).status_code == 422  # type: ignore[attr-defined]
    drawn = client.post(response.url, plan)  # type: ignore[attr-defined]
    sample = Sample.objects.get()
    assert drawn.url == reverse("sample", args=[sample.public_id])  # type: ignore[attr-defined]
    assert (sample.size, sample.seed) == (10, 7)

    form = {"sample": sample.public_id, "judge": "shipped:rules", "replicates": "1", "budget_usd": ""}
    begun = client.post(reverse("run-new", args=["release"]), form)
    run = JudgeRun.objects.get()
    assert begun.url == reverse("run", args=[run.public_id])  # type: ignore[attr-defined]
    assert (run.planned, run.config.provider) == (10, "rules")
    assert no_broker == [run]

    for action, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        client.post(reverse("run-steer", args=[run.public_id]), {"do": action})
        run.refresh_from_db()
        assert run.state == state


def test_a_judge_config_with_a_mistake_names_it(no_broker: list[Any]) -> None:
    version = make_world(1)
    run = make_run(version)
    bad = SimpleUploadedFile("judge.toml", b'name = "x"\nprovider = "rules"\nturnz = 3\n')
    form = {"sample": run.sample.public_id, "judge": "shipped:rules", "replicates": "1", "upload": bad}
    response = member(version, "lead").post(reverse("run-new", args=["release"]), form)
    assert response.status_code == 422
    assert "turnz" in json.dumps(response.context["form"].errors)
    assert JudgeRun.objects.count() == 1


# --- taking labels away


def test_viewers_get_labels_without_evidence(judged: JudgeRun) -> None:
    version = judged.sample.frame.version
    address = reverse("export", args=["release"]) + "?format=jsonl"
    lines = {
        role: [json.loads(line) for line in b"".join(member(version, role).get(address).streaming_content).splitlines()]  # type: ignore[arg-type]
        for role in ("lead", "viewer")
    }
    assert {row["evidence"] for row in lines["viewer"]} == {None}
    assert all(row["evidence"] for row in lines["lead"])
    assert len(lines["viewer"]) == 4


def test_free_text_of_a_judge_is_for_leads(judged: JudgeRun) -> None:
    version = judged.sample.frame.version
    label = Label.objects.first()
    assert label is not None
    address = reverse("label", args=[label.public_id])
    words = ("The file holds the total", "The currency is not named", "It looked at the file.")
    pages = {role: member(version, role).get(address).content.decode() for role in ("lead", "viewer")}
    assert all(word in pages["lead"] for word in words)
    assert not any(word in pages["viewer"] for word in words)
    assert member(version, "lead").get(f"/t/{label.trajectory.public_id}/hidden/nonsense/?path=x").status_code == 404


def test_the_table_leads_to_its_export(judged: JudgeRun) -> None:
    client = member(judged.sample.frame.version, "lead")
    labels, export = reverse("labels", args=["release"]), reverse("export", args=["release"])
    assert f'href="{export}"' in client.get(labels).content.decode()
    assert f'href="{export}?outcome=false_fail"' in client.get(f"{labels}?outcome=false_fail").content.decode()


def test_an_export_of_a_filtered_table_holds_its_rows(judged: JudgeRun) -> None:
    client = member(judged.sample.frame.version, "lead")
    address = reverse("export", args=["release"])
    everything = b"".join(client.get(f"{address}?format=csv").streaming_content)  # type: ignore[arg-type]
    nothing = b"".join(client.get(f"{address}?format=csv&outcome=false_pass").streaming_content)  # type: ignore[arg-type]
    assert everything.count(b"assay.labels/1") == 4
    assert nothing.count(b"\r\n") == 1
    assert client.get(f"{address}?format=exe").status_code == 404
