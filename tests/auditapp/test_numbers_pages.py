"""Error rates, agreement and consistency: pages say what is stored, and a figure opens as many rows as it counted."""

import csv
import html
import io
import json
import re
import uuid
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client, RequestFactory
from django.urls import reverse

from auditapp import estimation, rounds
from auditapp.bundle import write_bundle
from auditapp.bundle_check import verify
from auditapp.consistency import repeat_judge
from auditapp.estimation import compute, first_rate, headline, stored, subject
from auditapp.models.datasets import DatasetVersion, Task
from auditapp.models.estimates import Estimate
from auditapp.models.judgments import JudgeRun, Judgment
from auditapp.models.labels import ImportedLabel
from auditapp.models.reviews import Exclusion, HeldOutSet, HeldOutTask, ReviewRound, Slot
from auditapp.provenance import provenance
from auditapp.sampling import draw_sample
from auditapp.sections import drifts
from auditapp.stats.allocation import Plan
from auditapp.stats.consistency import Separation, separation
from auditapp.stats.proportions import InsufficientData, Proportion
from auditapp.views.methodology import SOURCE, methodology
from auditapp.views.tables import About, Table, csv_asked
from tests.auditapp import round_world
from tests.auditapp.looks import make_run
from tests.auditapp.population import add_trajectory, make_task, make_version
from tests.auditapp.test_estimate import grade, judge
from tests.auditapp.test_pages import member

pytestmark = pytest.mark.django_db
PAGES = ("numbers", "numbers-agreement", "numbers-consistency", "numbers-rows")
TABLES = {
    "numbers": ("readings", "scopes", "verifier_error", "environment", "model", "cell", "strata", "narrow"),
    "numbers-agreement": ("agreement", "cells", "by_part", "paired", "drift"),
    "numbers-consistency": ("noise", "separation"),
}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of these tests stay at work; figures are made anew at every look all the same."""
    monkeypatch.setattr(estimation, "WHILE_JUDGING", timedelta(0))


def make_release() -> DatasetVersion:
    """48 trajectories: two tasks in each of two environments, two models, four passes and two fails of each."""
    version = make_version()
    for environment in ("shop", "travel"):
        for name in ("one", "two"):
            task = make_task(version, f"{environment}-{name}", environment=environment)
            for model in ("large", "small"):
                for attempt in range(6):
                    status = "pass" if attempt < 4 else "fail"
                    add_trajectory(task, f"{environment}/{name}/{model}/{attempt}", status, model=model)
    return version


def ids(version: DatasetVersion) -> list[str]:
    rows = version.trajectories.order_by("source__source_id")
    return list(rows.values_list("source__source_id", flat=True))


@pytest.fixture
def release() -> DatasetVersion:
    """Judged and graded: every kind of answer, two people on a third, one adjudication short of agreement."""
    version = make_release()
    make_run(version)
    names = ids(version)
    said = ("yes", "yes", "no", "yes", "no", "yes", "unknown")
    judge(version, {name: said[number % 7] for number, name in enumerate(names)})
    grade(version, {name: said[number % 5] for number, name in enumerate(names) if number % 2}, labeler="anna")
    grade(version, {name: said[number % 6] for number, name in enumerate(names) if number % 3 == 1}, labeler="bert")
    return version


def page(version: DatasetVersion, name: str = "numbers", role: str = "lead", **query: str) -> str:
    client = member(version, role)
    response = client.get(reverse(name, args=[version.dataset.name]), query)
    assert response.status_code == 200, response.content[-800:]
    return str(response.content.decode())


def counted(client: Client, address: str) -> int:
    """How many rows a page of rows says it has; they are the rows that it lists."""
    text = client.get(html.unescape(address)).content.decode()
    found = re.search(r'class="counted"><strong>([\d,]+)</strong>', text)
    assert found, text[-500:]
    total = int(found[1].replace(",", ""))
    assert text.count('data-label="Verifier"') == min(total, 50)
    return total


def linked(text: str) -> Iterator[tuple[str, int]]:
    """Every link of a page whose words are a count of rows: `n 12`, `12` or `12 undecided`."""
    for address, words in re.findall(r'<a[^>]* href="([^"]*/numbers/rows/[^"]*)"[^>]*>([^<]*)</a>', text):
        if count := re.fullmatch(r"(?:n )?([\d,]+)(?: undecided)?", words.strip()):
            yield address, int(count[1].replace(",", ""))


# --- who


@pytest.mark.parametrize("name", PAGES)
def test_numbers_are_for_leads_and_viewers_of_the_dataset(release: DatasetVersion, name: str) -> None:
    address = reverse(name, args=["release"])
    assert Client().get(address).status_code == 302
    assert member(None, "stranger").get(address).status_code == 404
    assert member(release, "reviewer").get(address).status_code == 403
    assert member(release, "viewer").get(address).status_code == 200
    assert member(release, "lead").get(address).status_code == 200


def test_only_a_lead_lets_a_judge_look_again(release: DatasetVersion, monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[Any] = []
    monkeypatch.setattr("auditapp.tasks.enqueue_run", rung.append)
    run = JudgeRun.objects.get()
    asked = {"judge": run.config.digest, "sample": str(run.sample.public_id), "size": "10", "looks": "3"}
    address = reverse("numbers-consistency", args=["release"])
    assert member(release, "viewer").post(address, asked).status_code == 403
    assert "Let the judge look again" not in page(release, "numbers-consistency", "viewer")
    assert member(release, "lead").post(address, asked).status_code == 302
    newest = JudgeRun.objects.latest("pk")
    assert (rung, newest.replicates, newest.sample.size) == ([newest], 3, 10)


def test_quotes_and_notes_are_for_leads(release: DatasetVersion) -> None:
    ImportedLabel.objects.update(note="the reference says 42")
    assert "the reference says 42" in page(release, "numbers-rows", people_said="any")
    assert "the reference says 42" not in page(release, "numbers-rows", "viewer", people_said="any")


# --- what


def test_the_page_shows_what_is_stored_and_says_whose_labels_it_rests_on(release: DatasetVersion) -> None:
    found, text = compute(release), page(release)
    for direction in ("false_pass", "false_fail"):
        for rate in (found[direction], found["judge_only"][direction], found["scope"]["environment"][direction]):
            written = f"[{rate['low'] * 100:.1f}, {rate['high'] * 100:.1f}]"
            assert f"{rate['estimate'] * 100:.1f}\u202f%" in text
            assert written in text
        assert found[direction]["labels"] in text
    assert "the judge&#x27;s word alone" in text
    assert "the primary rate" in text


def test_the_primary_rate_is_the_one_declared(release: DatasetVersion) -> None:
    release.criteria.create(primary="false_fail", false_fail_upper=0.5)
    text = page(release)
    assert text.index("Fails that are right") < text.index("Passes that are wrong")
    assert "hairline at 50.0" in text


@pytest.mark.parametrize("name", ["numbers", "numbers-agreement"])
def test_every_count_opens_as_many_rows(release: DatasetVersion, name: str) -> None:
    client, links = member(release, "lead"), list(linked(page(release, name)))
    assert len(links) >= 10
    for address, count in links:
        assert counted(client, address) == count, html.unescape(address)


def test_every_count_opens_as_many_rows_in_a_part_of_the_population(release: DatasetVersion) -> None:
    run = JudgeRun.objects.get()
    small = repeat_judge(run.sample, run.config, looks=1, size=20, by=None).sample
    client = member(release, "lead")
    links = list(linked(page(release, sample=str(small.public_id))))
    assert len(links) > 10
    for address, count in links:
        assert counted(client, address) == count, html.unescape(address)


def table(version: DatasetVersion, key: str) -> list[dict[str, str]]:
    """A table of the page of error rates as its file holds it."""
    response = member(version, "lead").get(reverse("numbers", args=[version.dataset.name]), {"csv": key})
    return list(csv.DictReader(io.StringIO(response.content.decode())))


def drawn_by_people(*, extend: int = 0) -> DatasetVersion:
    """A judged release with a released round, extended after it began if asked for."""
    version = round_world.make_release(tasks=6)
    round_world.make_judged(version)
    people = round_world.make_people(version, "ann", "bob")
    made = round_world.make_round(version, people, size=24)
    if extend:
        rounds.extend_round(made, size=extend, by=None)
    round_world.work_off(made, people, lambda slot, _: "satisfied" if slot.item.number % 3 else "not_satisfied")
    rounds.close_round(made, by=None, now=round_world.NOW)
    rounds.release_round(made, by=None, now=round_world.NOW)
    return version


def test_an_extended_round_gets_the_interval_that_holds_whenever_one_stopped_first() -> None:
    version = drawn_by_people(extend=6)
    figures = compute(version)
    found = figures["anytime"]["false_pass"]
    assert figures["false_pass"]["low"] > found["low"]
    rows = table(version, "readings")
    first = rows[0]
    assert (first["reading"], first["used_first"]) == ("Valid whenever one stopped", "true")
    assert float(first["low"]) == pytest.approx(found["low"])
    assert {row["used_first"] for row in rows[2:]} == {"false"}
    assert "Round was extended after it had been looked at" in page(version)


def test_without_an_extended_round_no_such_interval_is_shown(release: DatasetVersion) -> None:
    assert "Valid whenever one stopped" not in page(release)


def test_rounds_that_grades_come_from_are_listed_with_what_was_left_undone() -> None:
    version = drawn_by_people()
    ReviewRound.objects.update(is_scripted=True)
    slot = Slot.objects.filter(state="submitted", role="grade").order_by("-item__number").first()
    assert slot is not None
    Slot.objects.filter(item=slot.item).update(state="closed", reviewer=None)
    text = page(version)
    assert "1 Round" in text
    assert "by a script, not by people" in text
    assert "1 undone" in text
    rows = table(version, "rounds")
    assert sum(int(row["undone"]) for row in rows) == 1
    assert {row["scripted"] for row in rows} == {"true"}


def test_a_judge_that_got_worse_is_drawn_over_time_under_an_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    version = drawn_by_people()
    steady = [number % 10 == 0 for number in range(100)]
    worse = drifts.watched(steady + [number % 2 == 0 for number in range(100)])
    monkeypatch.setattr(estimation, "drifts", lambda _: [{"judge": "test judge", "digest": "d", **worse}])
    text = page(version, "numbers-agreement")
    assert f"The alarm went off at label {worse['state']['alarm_at']}" in text
    assert "test judge differs from people more often than it did" in text
    assert "n 200 labels" in " ".join(re.sub("<[^>]+>", "", text).split())
    assert "An early sign" not in text
    late = drifts.watched([number % 10 == 0 for number in range(500)] + [True] * 14)
    monkeypatch.setattr(estimation, "drifts", lambda _: [{"judge": "test judge", "digest": "d", **late}])
    Estimate.objects.all().delete()
    text = page(version, "numbers-agreement")
    assert "The alarm went off" not in text
    assert f"The CUSUM signaled at label {late['cusum']['signal_at']}" in text


def test_people_are_set_beside_each_other_whoever_they_are() -> None:
    version = drawn_by_people()
    found = compute(version)["agreement"]["human_human"]["fleiss"]
    assert found["labels_each"] == 2
    assert found["units"] > 0
    text = " ".join(html.unescape(re.sub("<[^>]+>", "", page(version, "numbers-agreement"))).split())
    said = f"{found['kappa']:.3f}" if isinstance(found["kappa"], float) else found["kappa"]["insufficient"]
    assert f"Fleiss' κ{said}, of {found['units']} with 2 labels each" in text.replace("Fleiss' κ ", "Fleiss' κ")


def test_both_parts_of_a_held_out_set_are_shown(release: DatasetVersion) -> None:
    held = HeldOutSet.objects.create(version=release, name="frozen", digest="d" * 64, refresh_on=date(2027, 1, 1))
    tasks = Task.objects.filter(version=release).order_by("pk")
    HeldOutTask.objects.bulk_create(
        HeldOutTask(held_out=held, task=task, part=part)
        for task, part in zip(tasks, ("dev", "dev", "test"), strict=False)
    )
    text = page(release)
    assert "frozen, dev" in text
    assert "2 tasks, 24 trajectories" in text
    assert "1 tasks, 12 trajectories" in text
    stated = {(row["reading"], row["direction"]): row for row in table(release, "held_out")}
    test = next(row for row in compute(release)["frozen_set"] if row["part"] == "test")
    assert float(stated["frozen, test", "false_pass"]["estimate"]) == pytest.approx(test["false_pass"]["estimate"])


def test_a_judge_that_finds_few_hacks_bounds_nothing_and_people_come_first(release: DatasetVersion) -> None:
    passes = ImportedLabel.objects.filter(kind="human", trajectory__source__verifier_status="pass")
    passes.update(integrity="hacked", acceptable="no")
    first = passes.order_by("trajectory").values_list("trajectory", flat=True)[0]
    Judgment.objects.filter(trajectory=first).update(integrity="hacked", decision="satisfied", acceptable="no")
    judge_found = compute(release)["hack_bound"]["by_judge"]
    assert judge_found["of_people"]["found"] == 1
    assert judge_found["upper"] > 0.5
    for name in ("numbers", "report"):
        text = page(release, name)
        assert f"The judge found 1 of the {judge_found['of_people']['hacks']} hacks that people found" in text
        assert "what it flags bounds nothing" in text
    assert text.index("by people") < text.index("bounds nothing")


def test_what_is_not_known_says_why_and_shows_no_number() -> None:
    version = make_release()
    text = page(version)
    assert "no person has labeled any of these trajectories" in text
    assert "no judge has decided any of these trajectories" in text
    assert 'class="rate' not in text
    assert "no trajectory has labels of two people" in page(version, "numbers-agreement")
    text = page(version, "numbers-consistency")
    assert "no trajectory has two completed looks of this judge" in text
    assert "No judge has looked yet" in text


def test_a_stale_page_says_so(release: DatasetVersion, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stored(release) is not None
    monkeypatch.setattr("auditapp.estimation.is_small", lambda version: False)
    monkeypatch.setattr("auditapp.views.numbers.enqueue_estimate", lambda *about: None)
    grade(release, {ids(release)[0]: "no"}, labeler="carl")
    assert "older than the labels" in page(release)


def test_kappa_is_explained_where_it_misleads() -> None:
    version = make_version()
    task = make_task(version)
    names = [f"t{number}" for number in range(60)]
    for name in names:
        add_trajectory(task, name)
    make_run(version)
    judge(version, {name: "no" if number == 0 else "yes" for number, name in enumerate(names)})
    assert "κ misleads here" not in page(version, "numbers-agreement")
    grade(version, {name: "no" if number in (0, 1, 2, 3) else "yes" for number, name in enumerate(names)})
    assert "κ misleads here" in page(version, "numbers-agreement")


def test_the_newest_cases_of_disagreement_are_listed(release: DatasetVersion) -> None:
    text = page(release, "numbers-agreement")
    differing = counted(member(release, "lead"), "/d/release/numbers/rows/?differ=judge&among=labeled")
    assert differing > 0
    assert text.count('data-label="Verifier"') == min(differing, 5)


# --- the sigma lab


def test_a_part_of_a_draw_lies_in_it_and_leaves_the_figures_of_the_whole_alone(release: DatasetVersion) -> None:
    run = JudgeRun.objects.get()
    before = compute(release)["false_pass"]
    again = repeat_judge(run.sample, run.config, looks=3, size=12, by=None)
    assert again.sample.size == 12
    units = set(run.sample.units.values_list("trajectory", flat=True))
    assert set(again.sample.units.values_list("trajectory", flat=True)) <= units
    assert subject(release).sample == run.sample
    assert subject(release, sample=again.sample).sample == again.sample
    Judgment.objects.filter(run=again).update(
        state="completed", decision="satisfied", integrity="none", acceptable="yes"
    )
    found = compute(release)
    assert found["false_pass"] == before
    assert found["self_consistency"]["items"] == found["splits"]["items"] + found["splits"]["others"]


def test_looking_again_at_a_part_is_no_draw_anywhere(release: DatasetVersion) -> None:
    run = JudgeRun.objects.get()
    found, client = compute(release)["sample"], member(release, "lead")
    part = repeat_judge(run.sample, run.config, looks=3, size=12, by=None).sample
    assert compute(release)["sample"] == found
    assert provenance(release, subject(release)).draws == 1
    assert f"Draw {run.sample.draw_number} of 1" in client.get(f"/samples/{run.sample.public_id}/").text
    shown = client.get(f"/samples/{part.public_id}/").text
    assert "<h1>Part of draw 1 of 1</h1>" in shown
    assert "counts among no draws" in shown
    assert "Judge this sample" not in shown
    for address in ("runs/new/", "review/new/"):
        asked = client.get(f"/d/release/{address}").text
        assert str(run.sample.public_id) in asked
        assert str(part.public_id) not in asked
    assert str(part.public_id) not in page(release)
    report = client.get(reverse("report", args=[release.dataset.name]), {"sample": str(part.public_id)}).text
    assert "part of draw 1 of 1</a>" in report
    assert report.count("draw 1 of 1") == report.count("part of draw 1 of 1")


def test_a_part_of_a_draw_says_of_which_draw_of_how_many(release: DatasetVersion, tmp_path: Path) -> None:
    run = JudgeRun.objects.get()
    draw_sample(run.sample.frame, Plan("equal", 4), seed=9, by=None)
    part = repeat_judge(run.sample, run.config, looks=3, size=12, by=None).sample
    whole = compute(release)["sample"]
    assert (whole["draw"], whole["draws"], whole["part_of"]) == (1, 2, None)
    said = compute(release, sample=part)["sample"]
    assert (said["id"], said["draw"], said["draws"]) == (str(part.public_id), None, 2)
    assert said["part_of"] == {"id": whole["id"], "draw": 1}
    shown = member(release, "lead").get("/d/release/report/", {"sample": str(part.public_id)}).text
    assert shown.count("part of draw 1 of 2") == 2
    write_bundle(release, tmp_path / "part.zip", sample=part)
    checks = {check.name: check for check in verify(tmp_path / "part.zip")}
    assert checks["sample"].ok
    assert checks["sample"].detail == f"12 trajectories from seed {part.seed}, part of draw 1 of 2"


def test_looks_that_differ_are_counted_and_open(release: DatasetVersion) -> None:
    run = JudgeRun.objects.get()
    repeat_judge(run.sample, run.config, looks=3, size=None, by=None)
    names = [name for number, name in enumerate(ids(release)) if number % 7 in (0, 1)]
    judge(release, dict.fromkeys(names, "yes"), replicate=1)
    judge(release, dict.fromkeys(names[:3], "no"), replicate=2)
    found, text = compute(release), page(release, "numbers-consistency")
    assert found["splits"] == {"looks": 2, "items": len(names) - 3, "by_yes": [0, 0, len(names) - 3], "others": 3}
    assert counted(member(release, "lead"), "/d/release/numbers/rows/?split=yes") == 3
    assert f"{found['self_consistency']['sigma_within']:.3f}" in text
    assert "How the looks split" in text


def test_two_models_are_separated_when_the_gap_is_beyond_the_noise() -> None:
    wide = separation([0.5, 0.4, 0.6, 0.5], sigma_within=0.1, looks=4)
    assert isinstance(wide, Separation)
    # Scatter of 1/150 beyond 2 * 0.01 / 4 = 1/200 is 1/600; the two add up to the scatter that was seen.
    assert wide.difference.se == pytest.approx((1 / 150 / 4) ** 0.5)
    assert (wide.gap, wide.in_sigmas, wide.separated) == (pytest.approx(0.5), pytest.approx(5.0), True)
    close = separation([0.1, -0.1, 0.05, -0.04], sigma_within=0.3)
    assert isinstance(close, Separation)
    assert close.difference.se == pytest.approx((2 * 0.09 / 4) ** 0.5), "no less than the judge's own noise"
    assert not close.separated
    assert close.items_needed is not None
    assert close.items_needed > 1000
    assert isinstance(separation([0.5], sigma_within=0.1), InsufficientData)
    same = separation([0.0, 0.0], sigma_within=0.0)
    assert isinstance(same, Separation)
    assert (same.separated, same.in_sigmas, same.items_needed) == (False, None, None)


def test_a_form_that_asks_for_too_much_keeps_what_was_written(release: DatasetVersion) -> None:
    address = reverse("numbers-consistency", args=["release"])
    response = member(release, "lead").post(address, {"size": "1", "looks": "999"})
    assert response.status_code == 422
    assert 'value="999"' in response.content.decode()
    assert JudgeRun.objects.count() == 1


# --- files and words


@pytest.mark.parametrize(("name", "table"), [(name, table) for name, found in TABLES.items() for table in found])
def test_every_table_is_a_file(release: DatasetVersion, name: str, table: str) -> None:
    response = member(release, "lead").get(reverse(name, args=["release"]), {"csv": table})
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    head, *rows = csv.reader(io.StringIO(response.content.decode()))
    assert head[:3] == ["schema", "dataset", "dataset_version"]
    assert all(len(row) == len(head) for row in rows)
    if table not in ("paired", "drift", "separation"):
        assert rows
    assert f"csv={table}" in page(release, name) or not rows


def test_figures_of_a_file_are_those_of_the_page(release: DatasetVersion) -> None:
    response = member(release, "lead").get("/d/release/numbers/", {"csv": "readings"})
    rows = list(csv.DictReader(io.StringIO(response.content.decode())))
    found = compute(release)
    corrected = next(row for row in rows if (row["used_first"], row["direction"]) == ("true", "false_pass"))
    assert float(corrected["estimate"]) == found["false_pass"]["estimate"]
    assert float(corrected["high"]) == found["false_pass"]["high"]


def test_nothing_in_a_file_is_taken_for_a_formula_whatever_it_is_made_of(release: DatasetVersion) -> None:
    task = Task(name="=1+1")
    table = Table("mixed", ("-column", "b"), [(task, None), (-1.5, Decimal("-2")), (date(2026, 1, 2), True)])
    request = RequestFactory().get("/", {"csv": "mixed"})
    response = csv_asked(request, About("release", part=("task", '=x"\r\n; y')), [table])
    assert response is not None
    head, *rows = csv.reader(io.StringIO(response.content.decode()))
    assert head[-2:] == ["'-column", "b"]
    assert [row[-3:] for row in rows] == [
        ["'=x\"\r\n; y", "'=1+1", ""],
        ["'=x\"\r\n; y", "-1.5", "-2"],
        ["'=x\"\r\n; y", "2026-01-02", "true"],
    ]
    assert response["Content-Disposition"] == 'attachment; filename="release-task-x-y-mixed.csv"'


def test_a_file_of_no_table_is_not_found_and_shows_nobody_a_case(release: DatasetVersion) -> None:
    client = member(release, "lead")
    for page in ("numbers", "numbers/agreement"):
        assert client.get(f"/d/release/{page}/?csv=nonsense").status_code == 404
    assert not Exclusion.objects.exists()
    assert client.get("/d/release/numbers/agreement/?csv=cases").status_code == 200


@pytest.mark.parametrize("name", PAGES)
def test_the_name_of_every_number_leads_to_its_meaning(release: DatasetVersion, name: str) -> None:
    manual = member(release, "lead").get(reverse("methodology")).content.decode()
    anchors = set(re.findall(r'<h[1-6] id="([^"]+)"', manual))
    used = set(re.findall(r'href="/methodology/#([^"]+)"', page(release, name)))
    assert used <= anchors
    assert used or name == "numbers-rows"
    assert SOURCE.exists()
    assert methodology


def test_home_says_how_often_in_which_direction_and_what_next(release: DatasetVersion) -> None:
    client = member(release, "lead")
    assert "Next:" not in client.get("/").content.decode()  # the judge is still at work
    JudgeRun.objects.update(state="done")
    text = client.get("/").content.decode()
    found = compute(release)
    assert f'<strong class="false_pass">{found["false_pass"]["estimate"] * 100:.0f}</strong> are wrong' in text
    assert "Next:" in text
    assert reverse("numbers", args=["release"]) in text


@pytest.mark.parametrize("extend", [6, 0])
def test_the_command_tells_where_the_interval_of_an_extended_round_is(
    extend: int, capsys: pytest.CaptureFixture[str]
) -> None:
    version = drawn_by_people(extend=extend)
    call_command("estimate", "--dataset", version.dataset.name, "--json")
    said = capsys.readouterr()
    assert ("under anytime" in said.err) == bool(extend)
    assert ("low" in json.loads(said.out)["anytime"]["false_pass"]) == bool(extend)


def test_every_page_leads_with_the_interval_that_an_extended_round_leaves_valid() -> None:
    version = drawn_by_people(extend=6)
    figures = compute(version)
    valid = first_rate(figures, "false_pass")
    assert valid["n"] == figures["false_pass"]["n"]
    assert (valid["low"], valid["high"]) == tuple(figures["anytime"]["false_pass"][key] for key in ("low", "high"))
    told = headline(version)
    assert told is not None
    assert told.extended
    assert isinstance(told.false_pass, Proportion)
    assert (told.false_pass.low, told.false_pass.high) == (valid["low"], valid["high"])
    report = member(version, "lead").get(reverse("report", args=[version.dataset.name]))
    assert report.context["first"]["false_pass"] == valid
    assert report.context["directions"][0].lines[0].found == valid
    assert "no interval that allows for the extended round" in report.content.decode()


def test_without_an_extended_round_the_rate_of_the_best_labels_comes_first() -> None:
    version = drawn_by_people()
    figures = compute(version)
    assert first_rate(figures, "false_pass") == figures["false_pass"]
    told = headline(version)
    assert told is not None
    assert not told.extended


def test_where_people_graded_too_only_some_grades_are_said_to_be_a_scripts() -> None:
    version = drawn_by_people()
    made = ReviewRound.objects.get()
    ReviewRound.objects.update(is_scripted=True)

    def texts() -> list[str]:
        report = member(version, "lead").get(reverse("report", args=[version.dataset.name]))
        return [page(version), page(version, "numbers-agreement"), report.content.decode()]

    assert all("Grades in these figures were made by a script" in text for text in texts())
    made.pk, made.number, made.public_id, made.is_scripted = None, made.number + 1, uuid.uuid4(), False
    made.save()
    assert all("Some grades in these figures were made by a script" in text for text in texts())
