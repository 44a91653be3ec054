"""Signal, failure shapes and cost: what the pages count, where their figures lead, and that unknown is never zero."""

import csv
import io
import json
import re
from collections import defaultdict
from math import comb
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from scipy.stats import fisher_exact

from auditapp import ingest
from auditapp.estimation import compute
from auditapp.importers.options import ImportOptions
from auditapp.models.datasets import DatasetVersion, Trajectory
from auditapp.models.judgments import CitedEvidence, Judgment, JudgmentTag
from auditapp.models.labels import ImportedLabel
from auditapp.relabel import count_not_run_as
from auditapp.sections.bins import bins
from auditapp.sections.cost import seconds_between
from auditapp.sections.shapes import side_by_side
from auditapp.sections.signal import ROW, unpacked
from judges.taxonomy import taxonomy
from tests.auditapp.looks import make_run
from tests.auditapp.population import add_trajectory, make_task, make_version
from tests.auditapp.test_pages import member

pytestmark = pytest.mark.django_db
PAGES = ("numbers-signal", "numbers-shapes", "numbers-cost")
STRONG, WEAK = "strong · a", "weak · a"
# Passes of four attempts by task: hard for both, reversed for certain, told apart, easy for both.
PASSES = {"hard": (0, 0), "reversed": (0, 4), "apart": (4, 0), "easy": (4, 4)}


def make_release(**sources: Any) -> DatasetVersion:
    """Four tasks in two environments, attempted four times each by two subjects."""
    version = make_version()
    for number, (name, passes) in enumerate(PASSES.items()):
        task = make_task(version, name, environment=f"env-{number % 2}")
        for model, passed in zip(("strong", "weak"), passes, strict=True):
            for attempt in range(4):
                status = "pass" if attempt < passed else "fail"
                add_trajectory(task, f"{name}/{model}/{attempt}", status, model=model, **sources)
    return version


def judge_all(version: DatasetVersion, *, acceptable: str = "yes") -> None:
    make_run(version)
    decision = {"yes": "satisfied", "no": "not_satisfied"}[acceptable]
    Judgment.objects.update(
        state="completed", decision=decision, decision_after=decision, integrity="none", acceptable=acceptable
    )


def tag(source_id: str, code: str, *, kept: bool = True, citations: int = 1) -> None:
    """The judge's tag on one trajectory, with so many checked citations."""
    judgment = Judgment.objects.get(trajectory__source__source_id=source_id)
    evidence = [f"{code}-{number}" for number in range(citations)]
    for name in evidence:
        CitedEvidence.objects.create(
            judgment=judgment, code=name, phase=1, kind="step", target="1", quote="q", ok=kept, result="exact"
        )
    JudgmentTag.objects.create(judgment=judgment, code=code, role="primary", phase=1, kept=kept, evidence=evidence)


def person(source_id: str, acceptable: str, *tags: str, who: str = "ada") -> None:
    trajectory = Trajectory.objects.get(source__source_id=source_id)
    decision = {"yes": "satisfied", "no": "not_satisfied"}[acceptable]
    ImportedLabel.objects.create(
        version=trajectory.version,
        trajectory=trajectory,
        kind="human",
        labeler=who,
        decision=decision,
        acceptable=acceptable,
        tags=list(tags),
    )


def shown(version: DatasetVersion, page: str, **query: object) -> str:
    response = member(version, "lead").get(reverse(page, args=[version.dataset.name], query=query))
    assert response.status_code == 200, response.content[:500]
    return response.content.decode()


def table(version: DatasetVersion, page: str, name: str, **query: object) -> list[dict[str, str]]:
    client = member(version, "lead")
    response = client.get(reverse(page, args=[version.dataset.name], query={"csv": name, **query}))
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(response.content.decode())))


# --- who may see them, and what they cost to make


@pytest.mark.parametrize("page", PAGES)
def test_pages_are_for_readers_and_empty_datasets_say_why(page: str) -> None:
    version = make_version()
    address = reverse(page, args=[version.dataset.name])
    assert Client().get(address).status_code == 302
    assert member(version, "reviewer").get(address).status_code == 403
    body = member(version, "viewer").get(address).content.decode()
    assert 'class="empty"' in body
    assert member(version, "lead").get(address, {"csv": "rates"}).status_code == 404, "a page is no file"
    assert "None" not in body.split("<main")[1].split("</main>")[0]


@pytest.mark.parametrize("page", PAGES)
def test_pages_say_what_they_are_of_and_have_one_heading(page: str) -> None:
    version = make_release()
    judge_all(version)
    body = shown(version, page)
    assert body.count("<h1>") == 1
    assert "draw 1" in body
    assert "style=" not in body.split("<main")[1]


@pytest.mark.parametrize("page", PAGES)
def test_the_name_of_every_number_leads_to_its_meaning(page: str) -> None:
    version = make_release()
    judge_all(version)
    manual = member(version, "lead").get(reverse("methodology")).content.decode()
    anchors = set(re.findall(r'<h[1-6] id="([^"]+)"', manual))
    named = dict(re.findall(r'href="/methodology/#([^"]+)">([^<]+)<', shown(version, page)))
    assert named
    assert named.keys() <= anchors


@pytest.mark.parametrize("page", PAGES)
def test_a_table_that_is_none_is_not_found(page: str) -> None:
    version = make_release()
    judge_all(version)
    client = member(version, "lead")
    assert client.get(reverse(page, args=[version.dataset.name], query={"csv": "nothing"})).status_code == 404


@pytest.mark.parametrize("page", PAGES)
def test_stored_figures_are_shown_without_counting_labels_again(page: str) -> None:
    version = make_release()
    judge_all(version)
    client = member(version, "lead")
    address = reverse(page, args=[version.dataset.name])
    client.get(address)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        client.get(address)
    assert len(queries) < 40
    assert not [query for query in queries if "auditapp_judgmenttag" in query["sql"]]


# --- signal


def test_units_are_task_by_model_by_agent_by_effort() -> None:
    version = make_release()
    found = compute(version)["distribution"]
    assert [one["model"] for one in found["subjects"]] == ["strong", "weak"]
    assert found["row"] == list(ROW)
    rows = {(found["tasks"][row.task]["name"], row.subject): row.tally for row in unpacked(found)}
    assert rows == {(name, at): (4, passed) for name, both in PASSES.items() for at, passed in enumerate(both)}
    assert found["parts"]["discarded"]["units"] == 8
    assert found["parts"]["expansion"]["units"] == found["parts"]["saturated"]["units"] == 4


def test_both_tails_are_lists_that_lead_to_their_trajectories() -> None:
    version = make_release()
    body = shown(version, "numbers-signal", subject=STRONG)
    none, every = body.split('id="tail-none"')[1].split('id="tail-all"')
    assert {name for name in PASSES if f">{name}</a>" in none} == {"hard", "reversed"}
    assert {name for name in PASSES if f">{name}</a>" in every.split("</table>")[0]} == {"apart", "easy"}
    assert "model=strong&amp;agent=a&amp;environment=env-0&amp;task=hard" in none


def test_a_tail_says_who_ended_in_it_and_who_did_not() -> None:
    """One model never passes what another always does: nothing here says that nobody ever passed."""
    version = make_release()
    none, every = shown(version, "numbers-signal", subject=STRONG).split('id="tail-none"')[1].split('id="tail-all"')
    by_name = {name: none.partition(f">{name}</a>")[2].partition("</tr>")[0] for name in ("hard", "reversed")}
    assert "but weak · a: 4 of 4" in by_name["reversed"]
    assert "but " not in by_name["hard"]
    assert "but weak · a: 0 of 4" in every.partition(">apart</a>")[2].partition("</tr>")[0]
    assert "Nobody ever passed" not in none


def test_only_a_lead_is_led_to_a_triage_round() -> None:
    version = make_release()
    body = shown(version, "numbers-signal", subject=WEAK).split('id="tail-none"')[1]
    asked = body.split("kind=triage&amp;tasks=")[1].split('"')[0].split("%2C")
    assert asked == [str(version.tasks.get(name=name).public_id) for name in ("apart", "hard")]
    viewer = member(version, "viewer").get(reverse("numbers-signal", args=[version.dataset.name]))
    assert "kind=triage" not in viewer.content.decode()


def test_reversed_tasks_come_first_and_the_two_can_be_chosen() -> None:
    version = make_release()
    rows = table(version, "numbers-signal", "bins", strong=STRONG, weak=WEAK)
    assert (rows[0]["task"], rows[0]["bin"]) == ("reversed", "weak_only")
    assert {row["task"]: row["bin"] for row in rows} == {
        "reversed": "weak_only",
        "apart": "strong_only",
        "hard": "neither",
        "easy": "both",
    }
    for row in rows:
        sides = [(int(row[f"{side}_attempts"]), int(row[f"{side}_passes"])) for side in ("strong", "weak")]
        expected = fisher_exact([[passes, attempts - passes] for attempts, passes in sides]).pvalue
        assert float(row["fisher_p_value"]) == pytest.approx(expected)
    turned = table(version, "numbers-signal", "bins", strong=WEAK, weak=STRONG)
    assert turned[0]["task"] == "apart"
    assert "Choose two that differ" in shown(version, "numbers-signal", strong=STRONG, weak=STRONG)


def test_paired_figures_are_those_of_the_discordant_pairs() -> None:
    found = compute(make_release())["distribution"]
    paired = bins(found, strong=0, weak=1)["paired"]
    assert paired["cells"] == {"both": 1, "first": 1, "second": 1, "neither": 1}
    assert paired["solved"]["difference"] == 0
    assert paired["solved"]["p_value"] == 1
    assert paired["pass_rate"]["n"] == 4


def test_a_difference_of_chance_is_uncertain_and_no_accusation() -> None:
    version = make_version()
    task = make_task(version, "coin")
    for model, passes in (("strong", 0), ("weak", 1)):
        for attempt in range(2):
            add_trajectory(task, f"{model}/{attempt}", "pass" if attempt < passes else "fail", model=model)
    found = compute(version)["distribution"]
    assert bins(found, strong=0, weak=1)["items"][0]["bin"] == "uncertain"


@pytest.mark.parametrize("wanted", ["1", "0", "-4", "many", "1e3", "99999999999", "000512999999", "٤"])
def test_a_group_that_is_none_is_named_and_the_usual_one_shown(wanted: str) -> None:
    body = shown(make_release(), "numbers-signal", g=wanted)
    assert "A group is a whole number from 2 to 512" in body
    assert "What training in groups of 16 would get" in body


def test_another_group_gives_other_figures() -> None:
    version = make_release()
    assert "What training in groups of 4 would get" in shown(version, "numbers-signal", g=4)
    rows = table(version, "numbers-signal", "advantage", g=4)
    assert {row["group"] for row in rows} == {"4"}
    assert {row["convention"] for row in rows} == {"population", "sample", "none"}


def test_a_subject_that_is_none_is_named() -> None:
    assert "Nobody here is called “gone”" in shown(make_release(), "numbers-signal", subject="gone")


def test_a_hostile_name_stays_text() -> None:
    version = make_version()
    task = make_task(version, "<img src=x>")
    add_trajectory(task, "one", model="<b>m</b>")
    body = shown(version, "numbers-signal")
    assert "<img src=x>" not in body
    assert "&lt;b&gt;m&lt;/b&gt;" in body


def test_people_correct_the_signal_where_they_graded_and_bound_it_elsewhere() -> None:
    version = make_release()
    for model in ("strong", "weak"):
        person(f"hard/{model}/0", "yes")  # of the fails that were graded, all are right work
    person("apart/strong/0", "no")
    person("apart/weak/0", "no")
    found = compute(version)["distribution"]["signal"]["all"]
    assert found["corrected"]["units"] == 4
    assert found["corrected"]["tasks"] == 2
    assert 0 <= found["bounds"][0] < found["bounds"][1] <= 1


def test_a_false_pass_takes_its_share_of_the_advantage() -> None:
    version = make_version()
    for number in range(3):
        task = make_task(version, f"task-{number}")
        for attempt in range(4):
            add_trajectory(task, f"{number}/{attempt}", "pass" if attempt < 2 else "fail")
        person(f"{number}/0", "no")
        person(f"{number}/1", "yes" if number else "no")
    push = compute(version)["distribution"]["signal"]["all"]["push"]["people"]
    assert [one["share"]["share"] for one in push] == pytest.approx([4 / 6] * 3)
    assert push[0]["example"]["passed"] == pytest.approx(3.872983346)
    assert push[0]["new_tasks"]["estimate"] == pytest.approx(4 / 6)


@pytest.mark.parametrize("as_recorded", [False, True])
def test_tau_bench_figures_are_those_of_ten_lines_over_the_raw_files(shared_data: Path, as_recorded: bool) -> None:
    """With the runs that stopped before the reward was computed left out, and counted as the 0 that was recorded."""
    tries: defaultdict[int, list[int]] = defaultdict(list)
    for path in sorted((shared_data / "tau_bench").glob("*.json")):
        for row in json.loads(path.read_bytes()):
            if as_recorded or row["info"].get("reward_info") is not None:
                tries[row["task_id"]].append(row["reward"] >= 1)
    expected: dict[str, float] = {}
    for k in (1, 2):
        counts = [(len(got), sum(got)) for got in tries.values() if len(got) >= k]
        expected[f"at{k}"] = sum(1 - comb(n - c, k) / comb(n, k) for n, c in counts) / len(counts)
        expected[f"hat{k}"] = sum(comb(c, k) / comb(n, k) for n, c in counts) / len(counts)

    version = make_version("tau")
    ingest.ingest_path(version, shared_data / "tau_bench", options=ImportOptions())
    if as_recorded:
        count_not_run_as(version, recorded=True, by=User.objects.create(username="lead"))
    found = compute(version)["distribution"]
    got = {f"at{k}": found["pass_at_k"][str(k)]["estimate"] for k in (1, 2)}
    got |= {f"hat{k}": found["pass_hat_k"][str(k)]["estimate"] for k in (1, 2)}
    assert got == pytest.approx(expected, rel=1e-12)
    assert found["attempts"] == (100 if as_recorded else 98)


# --- shapes


def test_tags_are_counted_by_model_and_environment_and_lead_to_their_labels() -> None:
    version = make_release()
    judge_all(version)
    for source_id in ("hard/weak/0", "hard/weak/1", "apart/weak/0"):
        tag(source_id, "C01")
    tag("easy/weak/0", "C01", kept=False)
    tag("reversed/strong/0", "E02", citations=3)
    found = compute(version)["shapes"]["judge"]
    weak = next(place for place in found["by_subject"] if place["model"] == "weak")
    assert (weak["tags"]["C01"]["count"], weak["tags"]["C01"]["estimate"]) == (3, 3 / 16)
    assert [place["tags"].get("C01", {}).get("count") for place in found["by_environment"]] == [3, None]
    assert found["all"]["sides"]["capability"]["estimate"] == 0.75
    body = shown(version, "numbers-shapes", by="judge", left=STRONG, right=WEAK)
    address = next(part.split('"')[0] for part in body.split('href="') if "tag=C01" in part and "model=weak" in part)
    labels = member(version, "lead").get(address.replace("&amp;", "&")).content.decode()
    assert labels.count("<tr data-href") == 3


def test_a_draw_that_is_no_census_is_weighted() -> None:
    """Of the fails half are judged, of the passes all: a tag on fails alone counts twice."""
    version = make_version()
    for number in range(4):
        task = make_task(version, f"task-{number}")
        for attempt in range(4):
            add_trajectory(task, f"{number}/{attempt}", "pass" if attempt < 2 else "fail")
    judge_all(version)
    Judgment.objects.filter(trajectory__source__source_id__endswith="/3").update(
        state="failed", decision=None, integrity=None, acceptable=None
    )
    for number in range(4):
        tag(f"{number}/2", "C01")
    found = compute(version)["shapes"]["judge"]["all"]
    assert (found["looked_at"], found["tags"]["C01"]["count"]) == (12, 4)
    assert found["tags"]["C01"]["estimate"] == pytest.approx(0.5)


def test_tags_of_people_are_found_by_the_filter_of_labels() -> None:
    version = make_release()
    person("hard/weak/0", "no", "C02")
    person("hard/weak/1", "no", "C02", "E01")
    person("hard/weak/2", "no")
    body = shown(version, "labels", tag="C02", by="people")
    assert body.count("<tr data-href") == 2
    assert shown(version, "labels", tag="E01").count("<tr data-href") == 1
    assert "No label fits" in shown(version, "labels", tag='C02"')
    assert "No label fits" in shown(version, "labels", by="somebody")


def test_labels_of_one_draw_are_found_and_a_draw_that_is_none_is_not() -> None:
    version = make_release()
    run = make_run(version)
    judge_all_client = member(version, "lead")
    address = reverse("labels", args=[version.dataset.name])
    assert judge_all_client.get(address, {"sample": run.sample.public_id, "state": "queued"}).status_code == 200
    for wrong in ("nonsense", "00000000-0000-4000-8000-000000000000"):
        assert judge_all_client.get(address, {"sample": wrong}).status_code == 404


def test_defective_tasks_are_listed_with_evidence_against_the_line() -> None:
    version = make_release()
    judge_all(version)
    tag("hard/strong/0", "E02", citations=3)
    tag("hard/weak/0", "E02", citations=2)
    tag("easy/weak/0", "E05", kept=False)
    found = compute(version)["shapes"]["defective"]["judge"]
    assert found["share"]["estimate"] == 0.25
    assert found["against_line"] == "open"
    assert [(task["name"], task["trajectories"], task["looked_at"]) for task in found["tasks"]] == [("hard", 2, 8)]
    assert found["tasks"][0]["codes"] == [{"code": "E02", "trajectories": 2, "citations": 5}]
    rows = table(version, "numbers-shapes", "defective")
    assert [(row["by"], row["task"], row["code"], row["checked_citations"]) for row in rows] == [
        ("judge", "hard", "E02", "5")
    ]


def test_empty_states_say_why() -> None:
    version = make_release()
    assert "no judge has decided any of these trajectories" in shown(version, "numbers-shapes", by="judge").lower()
    person("hard/weak/0", "no")
    body = shown(version, "numbers-shapes", by="people")
    assert "but gave no tag" in body


def cannot_tell(ends: str = "") -> None:
    """Have the judge's looks of these attempts say that they cannot tell."""
    looks = Judgment.objects.filter(trajectory__source__source_id__endswith=ends)
    looks.update(
        decision="cannot_tell",
        decision_after="cannot_tell",
        integrity="cannot_tell",
        acceptable="unknown",
        outcome=None,
    )


def test_a_judge_that_could_not_tell_found_no_defect_and_no_lack_of_one() -> None:
    version = make_release()
    judge_all(version)
    tag("hard/weak/0", "B01")
    cannot_tell()
    found = compute(version)["shapes"]
    assert found["defective"]["judge"]["insufficient"]
    assert found["judge"]["asked"] == sorted(code for code in taxonomy().codes if code[0] == "B")
    assert found["judge"]["all"]["tags"]["B01"]["estimate"] == 1 / found["judge"]["looked_at"]
    assert found["judge"]["all"]["sides"]["environment"]["insufficient"]
    assert "0.0" not in shown(version, "numbers-shapes", by="judge").split("Defective tasks")[1].split("<h2")[0]
    tag("hard/weak/0", "E02")  # counted, such a task would be one of one
    assert compute(version)["shapes"]["defective"]["judge"]["insufficient"]
    assert compute(version)["items"]["insufficient"]


def test_a_look_that_tells_of_the_environment_only_where_it_finds_something_is_in_no_rate() -> None:
    """Two tasks of four are told of; the one defect found there is by a look that could not decide itself."""
    version = make_release()
    judge_all(version)
    for name in ("hard", "reversed"):
        cannot_tell(f"{name}/weak/0")
    for name in ("apart", "easy"):
        for attempt in range(4):
            cannot_tell(f"{name}/weak/{attempt}")
            cannot_tell(f"{name}/strong/{attempt}")
    tag("hard/weak/0", "E02")
    tag("easy/weak/0", "E02")
    figures = compute(version)
    found = figures["shapes"]
    share = found["defective"]["judge"]["share"]
    assert (share["n"], share["estimate"]) == (2, 0.5)
    assert figures["items"]["defective"] == share
    listed = {task["name"]: (task["trajectories"], task["looked_at"], task["counted"]) for task in share_rows(found)}
    assert listed == {"hard": (1, 8, True), "easy": (1, 1, False)}
    assert "no other tells of this task" in shown(version, "numbers-shapes", by="judge")
    rate = found["judge"]["all"]["tags"]["E02"]
    assert (rate["count"], rate["n"], rate["estimate"]) == (2, 14, 0.0)
    assert "E02" not in figures["tags"]["judge"]


def share_rows(shapes: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = shapes["defective"]["judge"]["tasks"]
    return rows


def test_a_look_that_could_decide_once_it_saw_the_verifier_tells_of_the_environment() -> None:
    version = make_release()
    judge_all(version)
    cannot_tell()
    Judgment.objects.update(decision_after="satisfied")
    found = compute(version)["shapes"]
    assert {code[0] for code in found["judge"]["asked"]} == {"B", "E"}
    share = found["defective"]["judge"]["share"]
    assert (share["n"], share["estimate"]) == (4, 0.0)


def test_a_judge_that_never_saw_the_verifier_says_nothing_of_the_environment() -> None:
    version = make_release()
    judge_all(version)
    tag("hard/weak/0", "C01")
    Judgment.objects.update(decision_after=None)  # it decided, and the step that asks for E never came
    found = compute(version)["shapes"]
    assert {code[0] for code in found["judge"]["asked"]} == {"B", "C", "H"}
    assert found["judge"]["all"]["tags"]["C01"]["estimate"] == 1 / found["judge"]["looked_at"]
    assert found["judge"]["all"]["sides"]["environment"]["insufficient"]
    assert found["defective"]["judge"]["insufficient"]


def test_what_the_judge_could_not_tell_is_no_answer_against_people() -> None:
    version = make_release()
    judge_all(version)
    person("hard/weak/0", "no", "C01")
    person("hard/weak/1", "no", "C02")
    cannot_tell("weak/0")
    found = {row["code"]: row for row in compute(version)["shapes"]["judge_people"]["codes"]}
    assert (found["C01"]["asked"], found["C01"]["people_only"], found["C01"]["neither"]) == (1, 0, 1)
    cannot_tell()
    row = compute(version)["shapes"]["judge_people"]["codes"][0]
    assert (row["asked"], row["not_asked"]) == (0, 0)
    assert row["kappa"]["insufficient"] == "the judge could not tell where people were asked for it"
    assert "the judge could not tell where people were asked" in shown(version, "numbers-shapes", by="judge")


def test_judge_and_people_are_set_against_each_other_code_by_code() -> None:
    version = make_release()
    judge_all(version)
    tag("hard/weak/0", "C01")
    tag("hard/weak/1", "C01")
    person("hard/weak/0", "no", "C01")
    person("hard/weak/1", "no", "C02")
    person("hard/weak/2", "no")
    found = compute(version)["shapes"]["judge_people"]
    assert found["looked_at"] == 3
    cells = {
        row["code"]: (row["both"], row["judge_only"], row["people_only"], row["neither"]) for row in found["codes"]
    }
    assert cells == {"C01": (1, 1, 0, 1), "C02": (0, 0, 1, 2)}


def test_what_stands_among_many_codes_is_fewer_than_what_differs() -> None:
    def place(counts: dict[str, int]) -> Any:
        rate = {"n_effective": 100.0, "method": "", "missing": 0, "bounds": [0, 1], "covered": 1, "population": 1}
        tags = {
            code: {"count": n, "estimate": n / 100, "low": n / 100 - 0.05, "high": n / 100 + 0.05, "n": 100, **rate}
            for code, n in counts.items()
        }
        return {"looked_at": 100, "asked": {}, "tags": tags}

    many = {f"B{number:02}": 10 for number in range(1, 15)}
    rows = side_by_side(place({"C01": 50, "C02": 20, **many}), place({"C01": 10, "C02": 12, **many}))
    assert {row["code"] for row in rows if row["flagged"]} == {"C01"}


# --- cost


def test_only_acceptable_work_is_counted_and_unknown_is_no_zero() -> None:
    version = make_version()
    for number in range(3):
        task = make_task(version, f"task-{number}")
        add_trajectory(task, f"{number}/right", "pass", output_tokens=100 + number, cost_usd="0.5")
        add_trajectory(task, f"{number}/wrong", "pass", output_tokens=9000)
        add_trajectory(task, f"{number}/silent", "pass")
        for kind, acceptable in (("right", "yes"), ("wrong", "no"), ("silent", "yes")):
            person(f"{number}/{kind}", acceptable)
    found = compute(version)["cost"]
    row = found["by_subject"][0]
    tokens = row["per_acceptable_work"]["output_tokens"]
    assert (tokens["known"], tokens["unknown"]) == (3, 3)
    assert (tokens["median"]["estimate"], tokens["mean"]["estimate"]) == (101, 101)
    assert row["per_result"]["output_tokens"]["estimate"] == pytest.approx((303 + 27000) / 3)
    assert row["per_acceptable_work"]["seconds"]["mean"] == {"insufficient": "no amount is known"}
    assert row["rate"]["estimate"] == pytest.approx(2 / 3)
    assert found["recorded"]["seconds"] == 0
    body = shown(version, "numbers-cost")
    assert "say nothing of input tokens, steps, wall time" in body


def test_recordings_without_any_cost_say_so() -> None:
    version = make_release()
    judge_all(version)
    body = shown(version, "numbers-cost")
    assert "No cost is recorded" in body
    assert "0.0" not in body.split('id="table"')[1].split("Per acceptable result is")[0]


def test_the_front_holds_who_is_beaten_by_nobody() -> None:
    version = make_version()
    for number in range(4):
        task = make_task(version, f"task-{number}")
        for model, tokens, right in (("cheap", 10, number < 2), ("dear", 100, True), ("waste", 200, number < 2)):
            add_trajectory(task, f"{number}/{model}", "pass", model=model, output_tokens=tokens)
            person(f"{number}/{model}", "yes" if right else "no")
    found = compute(version)["cost"]
    names = [row["model"] for row in found["by_subject"]]
    assert [names[number] for number in found["front"]["output_tokens"]] == ["cheap", "dear"]
    assert shown(version, "numbers-cost", measure="output_tokens").count(">on the front<") == 2
    assert "Cost against outcome" in shown(version, "numbers-cost", measure="nonsense")


@pytest.mark.parametrize(
    ("started", "finished", "seconds"),
    [
        ("2026-01-01T10:00:00Z", "2026-01-01T10:01:30Z", 90.0),
        ("2026-01-01T10:00:00", "2026-01-01T12:00:00+01:00", 3600.0),
        ("2026-01-01T10:00:00Z", "2026-01-01T09:00:00Z", None),
        ("", "2026-01-01T09:00:00Z", None),
        ("yesterday", "today", None),
    ],
)
def test_wall_time_is_known_only_between_two_moments_in_order(
    started: str, finished: str, seconds: float | None
) -> None:
    assert seconds_between(started, finished) == seconds


def test_every_table_says_what_it_is_of_and_takes_no_formula() -> None:
    version = make_version()
    add_trajectory(make_task(version, "=1+1"), "one", "fail")
    row = table(version, "numbers-signal", "units")[0]
    assert (row["schema"], row["dataset"], row["dataset_version"]) == ("assay.table/1", "release", "1")
    assert row["task"] == "'=1+1"
