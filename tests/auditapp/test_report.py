"""The report: its figures are the stored ones, what is missing says why, and who may have what."""

import csv
import fcntl
import io
import json
import re
import zipfile
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.test import Client
from django.urls import reverse

from auditapp import estimation, tasks
from auditapp.bundle_check import verify
from auditapp.estimation import stored, subject
from auditapp.models.datasets import DatasetVersion, Membership, Role
from auditapp.models.estimates import AcceptanceCriteria, Estimate
from auditapp.models.judgments import Judgment, JudgmentState, JudgmentTag
from auditapp.models.reviews import ReviewRound, RoundKind, RoundState
from auditapp.models.sources import TrajectorySource
from auditapp.provenance import population, provenance
from auditapp.templatetags.numbers import rate
from auditapp.views.report import MEASURES, why_not
from tests.auditapp.looks import make_run
from tests.auditapp.population import add_trajectory, fill, make_task, make_version
from tests.auditapp.rounds import make_reviewers, make_round
from tests.auditapp.test_estimate import arm, grade, judge

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of these tests stay at work; figures are made anew at every look all the same."""
    monkeypatch.setattr(estimation, "WHILE_JUDGING", timedelta(0))


@pytest.fixture
def version() -> DatasetVersion:
    """Forty passes and twenty fails, all judged: eight passes are wrong, two fails right, two passes undecided."""
    made = make_version()
    fill(made, {("pass", "m", "e"): 40, ("fail", "m", "e"): 20, ("invalid", "m", "e"): 3})
    add_trajectory(make_task(made, "task of e", environment="e"), "oracle", is_control=True)
    make_run(made)
    passes, fails = arm("pass", 40), arm("fail", 20)
    said = dict.fromkeys(passes[:8], "no") | dict.fromkeys(passes[8:38], "yes") | dict.fromkeys(passes[38:], "unknown")
    judge(made, said | dict.fromkeys(fails[:2], "yes") | dict.fromkeys(fails[2:], "no"))
    return made


def member(version: DatasetVersion, role: str) -> Client:
    user, _ = User.objects.get_or_create(username=role)
    Membership.objects.get_or_create(dataset=version.dataset, user=user, role=role)
    client = Client()
    client.force_login(user)
    return client


def text_of(response: Any) -> str:
    """What the page says, without markup and with single blanks."""
    body = re.sub(r"<(style|script|svg).*?</\1>", " ", response.content.decode(), flags=re.DOTALL)
    return (
        re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body)).replace("&#x27;", "'").replace(" .", ".").replace(" ,", ",")
    )


def report(version: DatasetVersion, role: str = "viewer", **query: str) -> Any:
    return member(version, role).get(reverse("report", args=[version.dataset.name]), query)


def test_first_come_both_rates_in_words_with_intervals_and_whose_word_it_is(version: DatasetVersion) -> None:
    found = stored(version)
    assert found is not None
    wrong, right = found.payload["false_pass"], found.payload["false_fail"]
    said = text_of(report(version))
    first = said.index("Of the work that this verifier passes")
    assert first < said.index("How often the verifier is wrong")
    for figure in (wrong, right):
        for key in ("estimate", "low", "high"):
            assert re.sub(r"\s", " ", rate(figure[key])) in said[first : first + 900]
    assert "that no person has checked here" in said
    assert "No person has checked this judge here" in said


def test_the_page_computes_nothing_and_shows_what_is_stored(
    version: DatasetVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(version)
    row = Estimate.objects.latest("pk")
    monkeypatch.setattr("auditapp.estimation.compute", None)
    page = report(version)
    figures = member(version, "viewer").get(reverse("report-figures", args=[version.dataset.name]))
    found = stored(version)
    assert found is not None
    assert json.loads(figures.content) == found.payload
    assert page.context["figures"] == found.payload
    assert Estimate.objects.latest("pk") == row


def test_rates_as_csv_are_those_of_the_page(version: DatasetVersion) -> None:
    found = stored(version)
    assert found is not None
    response = report(version, csv="rates")
    rows = list(csv.DictReader(io.StringIO(response.content.decode())))
    batch = next(row for row in rows if row["direction"] == "false_pass")
    assert float(batch["estimate"]) == found.payload["false_pass"]["estimate"]
    assert int(batch["missing"]) == 2
    new = next(row for row in rows if row["about"] == "New tasks like these")
    assert (new["estimate"], new["high"]) == ("", "")  # of one task nothing follows for others
    assert new["insufficient"] == found.payload["scope"]["environment"]["false_pass"]["insufficient"]
    assert report(version, csv="nothing").status_code == 404


def test_what_is_missing_says_why_and_what_to_do(version: DatasetVersion) -> None:
    found = stored(version)
    assert found is not None
    said = text_of(report(version))
    missing = [(name, why) for name, path, _ in MEASURES if (why := why_not(found.payload, path))]
    assert len(missing) > 5
    for name, why in missing:
        assert name in said
        assert why in said
    assert "Draw a review round from the judged sample" in said


def test_a_version_that_nobody_looked_at_has_a_report_without_a_number() -> None:
    bare = make_version("bare")
    fill(bare, {("pass", "m", "e"): 3})
    said = text_of(report(bare))
    assert "How often this verifier is wrong is not known" in said
    assert "Of the work that this verifier passes" not in said
    assert "0.0" not in said[said.index("is not known") : said.index("Worth as a training signal")]


def test_people_who_graded_correct_the_judge_and_are_named(version: DatasetVersion) -> None:
    passes = arm("pass", 40)
    grade(version, dict.fromkeys(passes[:4], "no") | dict.fromkeys(passes[8:20], "yes") | {passes[38]: "yes"})
    grade(version, dict.fromkeys(arm("fail", 20)[:6], "no"), labeler="ben")
    said = text_of(report(version))
    assert "whose errors those grades correct" in said
    assert "This batch, by the judge alone" in said
    assert "No person has checked this judge" not in said


def test_how_often_two_people_differ_is_not_how_often_each_errs(version: DatasetVersion) -> None:
    both = arm("pass", 40)[8:18]
    grade(version, dict.fromkeys(both, "yes"))
    grade(version, dict.fromkeys(both[:8], "yes") | dict.fromkeys(both[8:], "no"), labeler="ben")
    said = text_of(report(version)).replace("\u202f", " ")
    assert "two of them differ on 20.0 % of what both decided (n 10 pairs, anecdote)" in said
    assert "each of them erring in up to 11.3 % of grades" in said
    assert "the rate of wrong passes lies between" in said


def test_people_who_graded_fails_alone_err_too(version: DatasetVersion) -> None:
    grade(version, dict.fromkeys(arm("fail", 20)[:6], "no"))
    grade(version, dict.fromkeys(arm("fail", 20)[:5], "no") | {arm("fail", 20)[5]: "yes"}, labeler="ben")
    said = text_of(report(version))
    assert "the rate of right fails lies between" in said
    assert "the rate of wrong passes lies between" not in said


def test_how_many_of_the_pairs_both_decided_stands_beside_them(version: DatasetVersion) -> None:
    decided = arm("pass", 40)[8:18]
    judge(version, dict.fromkeys(decided[:3], "unknown"))
    grade(version, dict.fromkeys(decided, "yes"))
    assert "7 decided by both: agreement is of these" in text_of(report(version))


def test_population_inside_and_outside_of_the_frame_is_counted(version: DatasetVersion) -> None:
    run = version.frames.get().samples.get()
    add_trajectory(make_task(version, "task of e", environment="e"), "late", "pass")
    found = population(version, run)
    assert (found.size, dict(found.inside)) == (60, {"fail": 20, "pass": 40})
    assert [(row.status, row.count) for row in found.outside] == [("invalid", 3)]
    assert (found.controls, found.later) == (1, 1)
    said = text_of(report(version))
    assert "3 invalid" in said
    assert "1 came in after the frame was frozen" in said
    assert run.frame.digest in said
    assert f"seed {run.seed}" in said


def test_a_script_in_place_of_people_is_said_before_any_number(version: DatasetVersion) -> None:
    trajectories = list(version.trajectories.order_by("pk")[:4])
    made = make_round(trajectories, make_reviewers(version, "robot"), is_scripted=True)
    assert "script" not in text_of(report(version))[:2500].split("How often the verifier is wrong")[0]
    ReviewRound.objects.filter(pk=made.pk).update(state=RoundState.RELEASED)
    said = text_of(report(version))
    assert "made by a script that stands in for people" in said.split("How often the verifier is wrong")[0]
    assert "graded by a script, not by people" in said
    assert not provenance(version, subject(version)).people
    make_round(trajectories, make_reviewers(version, "ann"), state=RoundState.RELEASED)
    assert provenance(version, subject(version)).people  # then it says that only some grades are a script's


def test_rounds_are_listed_with_what_was_drawn_and_practice_is_not(version: DatasetVersion) -> None:
    trajectories = list(version.trajectories.order_by("pk")[:4])
    users = make_reviewers(version, "anna")
    make_round(trajectories, users, title="First round")
    make_round(trajectories[:2], users, title="Only practice", kind=RoundKind.PRACTICE, number=1)
    found = stored(version)
    assert found is not None
    listed = provenance(version, found.subject).rounds
    assert [(row.title, row.drawn, row.graded, row.is_released) for row in listed] == [("First round", 4, 0, False)]
    said = text_of(report(version))
    assert "not released: in no figure" in said
    assert "Only practice" not in said


def test_an_audit_is_no_round_of_grades(version: DatasetVersion) -> None:
    trajectories = list(version.trajectories.order_by("pk")[:4])
    users = make_reviewers(version, "anna")
    make_round(
        trajectories, users, kind=RoundKind.AUDIT, title="Read whole", state=RoundState.RELEASED, is_scripted=True
    )
    about = provenance(version, subject(version))
    assert (about.blind, about.audits, about.scripted) == (0, 1, False)
    said = text_of(report(version))
    assert "no round of blind review was drawn; 1 audit" in said
    assert "audit: tags, no grades" in said


def test_criteria_and_whether_they_came_before_the_draw(version: DatasetVersion) -> None:
    assert "No acceptance criteria were written down" in text_of(report(version))
    AcceptanceCriteria.objects.create(version=version, false_pass_upper=0.9, false_fail_upper=0.01)
    said = text_of(report(version))
    assert "after the draw" in said
    assert "✓ met" in said or "not enough data" in said
    assert "Right fails, upper end at most" in said


def test_the_grades_needed_say_of_how_many(version: DatasetVersion) -> None:
    """A need that is all of what is left says so; hours that nobody's grade tells of are not known."""
    check = {"name": "false_pass_upper", "limit": 0.2, "value": 0.28, "verdict": "not enough data", "why": "inside"}
    needs = [
        (
            {"grades_more": 348, "left": 348, "undecided": 2},
            "all 348 of them",
            "not graded yet; the 2 undecided have to be settled, too",
        ),
        ({"grades_more": 40, "left": 348, "undecided": 0}, "40 of 348 not graded yet", "not known"),
    ]
    for need, *words in needs:
        criteria = {"stated_at": "2026-11-29T21:46:53+00:00", "checks": [check | need | {"hours": None}]}
        page = render_to_string(
            "report/_criteria.html", {"figures": {"criteria": criteria}, "dataset": version.dataset}
        )
        said = " ".join(re.sub(r"<[^>]+>", " ", page).split())
        assert [word for word in words if word not in said] == []


@pytest.mark.parametrize(("role", "page", "bundle"), [("lead", 200, 200), ("viewer", 200, 403), ("reviewer", 403, 403)])
def test_who_may_read_and_who_may_have_the_bundle(version: DatasetVersion, role: str, page: int, bundle: int) -> None:
    client = member(version, role)
    name = version.dataset.name
    assert client.get(reverse("report", args=[name])).status_code == page
    assert client.get(reverse("report-figures", args=[name])).status_code == page
    assert client.get(reverse("report-bundle", args=[name])).status_code == bundle
    if page == 200:
        assert ("report/bundle.zip" in client.get(reverse("report", args=[name])).content.decode()) == (role == "lead")


def test_a_stranger_finds_no_report(version: DatasetVersion) -> None:
    client = Client()
    client.force_login(User.objects.create_user("stranger"))
    assert client.get(reverse("report", args=[version.dataset.name])).status_code == 404
    assert client.get(reverse("report-bundle", args=[version.dataset.name])).status_code == 404


def test_the_bundle_of_the_report_verifies(version: DatasetVersion, tmp_path: Any) -> None:
    response = member(version, "lead").get(reverse("report-bundle", args=[version.dataset.name]))
    path = tmp_path / "bundle.zip"
    path.write_bytes(b"".join(response.streaming_content))  # type: ignore[attr-defined]
    found = stored(version)
    assert found is not None
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("estimates.json")) == found.payload
    checks = verify(path)
    assert checks
    assert all(check.ok for check in checks), [check for check in checks if not check.ok]


@pytest.fixture
def asked_for(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Any) -> list[tuple[int, ...]]:
    """The bundles that a worker would have been asked for; whatever there is counts as much."""
    settings.ASSAY_HOME = tmp_path
    sent: list[tuple[int, ...]] = []
    monkeypatch.setattr("auditapp.estimation_inputs.SMALL", 1)
    monkeypatch.setattr(tasks, "_send", lambda message: message())  # no test ends its transaction
    monkeypatch.setattr(tasks.make_bundle, "delay", lambda *args: sent.append(args))
    return sent


def made_page(client: Client, query: str = "", **headers: str) -> tuple[int, str, str]:
    """Status, text, and the query that the page goes on with."""
    response = client.get(f"{reverse('report-bundle-made', args=['release'])}{query}", headers=headers)
    return response.status_code, text_of(response), f"?{response.context['query']}"


def linked(client: Client, query: str, words: str) -> str:
    """Where a link of the page that waits leads."""
    body = client.get(f"{reverse('report-bundle-made', args=['release'])}{query}", headers={"hx-request": "true"})
    found = re.search(rf'href="([^"]*)">{words}<', body.content.decode())
    assert found, words
    return found[1].replace("&amp;", "&")


def test_a_worker_makes_the_bundle_of_a_large_version_and_the_page_waits(
    version: DatasetVersion, asked_for: list[tuple[int, ...]], tmp_path: Any
) -> None:
    client, address = member(version, "lead"), reverse("report-bundle", args=["release"])
    assert client.get(address).headers["Location"] == reverse("report-bundle-made", args=["release"])
    status, said, query = made_page(client)
    assert (status, "The bundle is being made" in said, len(asked_for)) == (202, True, 1)
    assert made_page(client, query, hx_request="true")[0] == 202
    assert len(asked_for) == 1, "the page that waits asks no worker again"
    tasks.make_bundle(*asked_for[0])
    status, said, query = made_page(client, query, hx_request="true")
    assert (status, "The bundle lies ready" in said, "have come since" in said) == (200, True, False)
    path = tmp_path / "bundle.zip"
    path.write_bytes(b"".join(client.get(f"{address}{query}").streaming_content))  # type: ignore[attr-defined]
    assert all(check.ok for check in verify(path))
    assert member(version, "viewer").get(reverse("report-bundle-made", args=["release"])).status_code == 403


def test_labels_that_come_while_a_bundle_is_made_do_not_keep_it_from_whoever_asked(
    version: DatasetVersion, asked_for: list[tuple[int, ...]], tmp_path: Any
) -> None:
    client = member(version, "lead")
    query = made_page(client)[2]
    tasks.make_bundle(*asked_for[0])
    (first,) = tmp_path.glob("bundles/*/*.zip")
    (first.parent / ".killed.zip.part").touch()
    grade(version, dict.fromkeys(arm("pass", 3), "no"))
    status, said, query = made_page(client, query, hx_request="true")
    assert (status, "have come since" in said) == (200, True)
    assert linked(client, query, "Make it anew") == f"{reverse('report-bundle-made', args=['release'])}?"
    assert client.get(f"{reverse('report-bundle', args=['release'])}{query}").status_code == 200
    assert made_page(client)[0] == 202, "whoever asks now gets one with all there is"
    tasks.make_bundle(*asked_for[1])
    (second,) = set(first.parent.iterdir()) - {first.parent / "lock"}
    assert second != first
    assert client.get(reverse("report-bundle", args=["release"])).status_code == 200


def test_a_bundle_that_another_version_of_the_program_wrote_is_made_anew(
    version: DatasetVersion, asked_for: list[tuple[int, ...]], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = member(version, "lead")
    made_page(client)
    tasks.make_bundle(*asked_for[0])
    (first,) = tmp_path.glob("bundles/*/*.zip")
    assert made_page(client)[0] == 200
    monkeypatch.setattr("auditapp.bundle._writer_sha256", lambda: "f" * 64)
    assert made_page(client)[0] == 202
    tasks.make_bundle(*asked_for[1])
    (second,) = tmp_path.glob("bundles/*/*.zip")
    assert (second != first, made_page(client)[0]) == (True, 200)


def test_a_bundle_that_is_being_made_is_not_begun_twice(
    version: DatasetVersion, asked_for: list[tuple[int, ...]], tmp_path: Any
) -> None:
    made_page(member(version, "lead"))
    tasks.make_bundle(*asked_for[0])
    (made,) = tmp_path.glob("bundles/*/*.zip")
    made.unlink()
    with (made.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        tasks.make_bundle(*asked_for[0])
        assert not made.exists()
    tasks.make_bundle(*asked_for[0])
    assert made.exists()


def test_without_a_sample_the_bundle_says_what_is_missing() -> None:
    bare = make_version("bare")
    fill(bare, {("pass", "m", "e"): 3})
    client = member(bare, "lead")
    response = client.get(reverse("report-bundle", args=["bare"]), follow=True)
    assert response.redirect_chain[0][0] == reverse("report", args=["bare"])
    assert "nothing to recompute" in text_of(response)


def test_an_unfinished_judge_run_is_said_to_move_the_figures(version: DatasetVersion) -> None:
    said = text_of(report(version))
    running = version.frames.get().samples.get().judge_runs.get()
    assert (running.state == "running") == ("not finished, figures will move" in said)
    assert running.judgments.filter(state=JudgmentState.COMPLETED).exists()


def test_leads_and_viewers_get_the_same_figures(version: DatasetVersion) -> None:
    lead, viewer = (report(version, role).context["figures"] for role in (Role.LEAD, Role.VIEWER))
    assert lead == viewer


def test_the_name_of_every_number_leads_to_a_section_that_exists(version: DatasetVersion) -> None:
    AcceptanceCriteria.objects.create(version=version, false_pass_upper=0.9)
    asked = set(re.findall(r'href="/methodology/#([^"]+)"', report(version).content.decode()))
    manual = member(version, "viewer").get(reverse("methodology")).content.decode()
    assert len(asked) > 8
    assert not asked - set(re.findall(r'id="([^"]+)"', manual))


def test_a_tag_seen_in_one_task_alone_has_no_share_and_the_report_says_so() -> None:
    version = make_version("one task")
    fill(version, {("pass", "m", "e"): 6, ("fail", "m", "e"): 4})
    make_run(version)
    judge(version, dict.fromkeys(arm("pass", 6), "yes") | dict.fromkeys(arm("fail", 4), "no"))
    one = version.tasks.earliest("pk")
    version.trajectories.update(task=one)
    TrajectorySource.objects.filter(version=version).update(task=one)
    JudgmentTag.objects.create(
        judgment=Judgment.objects.earliest("pk"), code="C01", role="primary", phase=1, kept=True, evidence=[]
    )
    page = text_of(report(version))
    assert "no estimate: 1 task" in page
    for name in ("numbers", *(f"numbers-{of}" for of in ("agreement", "consistency", "signal", "shapes", "cost"))):
        assert member(version, "lead").get(reverse(name, args=[version.dataset.name])).status_code == 200
