"""`manage.py estimate`: every figure as one object, equal to what ten lines compute from the raw files."""

import io
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from auditapp.estimation import compute
from auditapp.importers import ImportOptions
from auditapp.ingest import ingest_path, open_version
from auditapp.ingest_labels import import_labels
from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import Judgment
from auditapp.models.labels import ImportedLabel
from auditapp.relabel import count_not_run_as
from auditapp.sampling import draw_sample, freeze_frame
from auditapp.sections.figures import figure
from auditapp.stats.agreement import within_stratum
from auditapp.stats.allocation import Plan
from auditapp.stats.proportions import InsufficientData
from tests.auditapp.looks import make_run
from tests.auditapp.population import add_trajectory, fill, make_task, make_version

pytestmark = pytest.mark.django_db
KEYS = (
    *("false_pass", "false_fail", "corrected", "hack_bound", "agreement", "verifier_error", "scope"),
    *("self_consistency", "distribution", "items", "tags", "by_stratum"),
)
DECISIONS = {"yes": "satisfied", "no": "not_satisfied", "unknown": "cannot_tell"}


def estimate(dataset: str, *arguments: object) -> dict[str, Any]:
    """What the command prints, which is one JSON object and nothing else."""
    out, err = io.StringIO(), io.StringIO()
    call_command("estimate", "--dataset", dataset, "--json", *map(str, arguments), stdout=out, stderr=err)
    assert err.getvalue() == ""
    found: dict[str, Any] = orjson.loads(out.getvalue())
    return found


def grade(version: DatasetVersion, acceptable: dict[str, str], *, labeler: str = "anna", **fields: Any) -> None:
    """Labels of one person by source id."""
    sources = {row.source.source_id: row for row in version.trajectories.select_related("source")}
    ImportedLabel.objects.bulk_create(
        ImportedLabel(
            version=version,
            trajectory=sources[source_id],
            kind="human",
            labeler=labeler,
            decision=DECISIONS[answer],
            acceptable=answer,
            **fields,
        )
        for source_id, answer in acceptable.items()
    )


def judge(version: DatasetVersion, acceptable: dict[str, str], *, replicate: int = 0) -> None:
    """Completed looks by source id."""
    for source_id, answer in acceptable.items():
        found = Judgment.objects.filter(trajectory__source__source_id=source_id, version=version, replicate=replicate)
        assert found.update(state="completed", decision=DECISIONS[answer], integrity="none", acceptable=answer) == 1


def numbers(found: Any) -> Iterator[float]:
    """Every number in an object."""
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list):
        for value in found:
            yield from numbers(value)
    elif isinstance(found, float):
        yield found


def arm(status: str, count: int) -> list[str]:
    return [f"e/m/{status}/{number:04}" for number in range(count)]


def test_what_cannot_be_estimated_says_why_at_any_depth() -> None:
    assert figure(within_stratum([[3, 0], [1, 0]]))["specificity"] == {"insufficient": "nothing was seen"}
    assert figure([InsufficientData("too few"), math.inf]) == [{"insufficient": "too few"}, None]


def test_nothing_labeled_is_said_and_never_zero() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 4, ("fail", "m", "e"): 4})
    found = estimate("release")
    assert set(KEYS) <= found.keys()
    for rate in (found["false_pass"], found["false_fail"], found["corrected"]["false_pass"], found["hack_bound"]):
        assert rate["insufficient"]
    assert found["agreement"]["human_human"]["insufficient"]
    assert found["self_consistency"]["insufficient"]
    assert found["verifier_error"]["pass_given_not_acceptable"]["insufficient"]


def test_an_empty_version_is_an_object_of_reasons() -> None:
    make_version()
    found = estimate("release")
    assert found["distribution"]["insufficient"]
    assert found["by_stratum"] == []


def test_a_judge_that_decided_nothing_is_corrected_by_nobody() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 10, ("fail", "m", "e"): 4})
    make_run(version)
    judge(version, dict.fromkeys(arm("pass", 10), "unknown") | {"e/m/fail/0000": "yes"})
    grade(version, dict.fromkeys(arm("pass", 4), "no") | {"e/m/pass/0004": "yes", "e/m/fail/0000": "yes"})
    found = estimate("release")
    assert found["corrected"]["false_pass"]["insufficient"] == "no judge has decided any of these trajectories"
    assert found["false_pass"] == found["human_only"]["false_pass"] | {"labels": "people"}
    assert found["false_pass"]["estimate"] == pytest.approx(4 / 5)
    assert found["false_fail"]["labels"] == "judge corrected by people"  # of the fails it decided one


def test_cost_names_whose_labels_it_rests_on_as_the_rates_do() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 6})
    make_run(version)
    judge(version, dict.fromkeys(arm("pass", 6), "unknown"))
    grade(version, dict.fromkeys(arm("pass", 3), "yes") | {"e/m/pass/0003": "no"})
    found = estimate("release")
    assert found["false_pass"]["labels"] == "people"
    assert found["cost"]["by_subject"][0]["rate"]["labels"] == "people"


def test_people_correct_the_judge_in_each_of_its_answers() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 40, ("fail", "m", "e"): 4})
    make_run(version)
    passes = arm("pass", 40)
    judge(version, dict.fromkeys(passes[:10], "no") | dict.fromkeys(passes[10:30], "yes"))
    judge(version, dict.fromkeys(passes[30:], "unknown"))
    grade(version, dict.fromkeys(passes[:3], "no") | {passes[3]: "yes"} | dict.fromkeys(passes[10:20], "yes"))
    grade(version, {passes[30]: "no", passes[31]: "yes"})
    found = estimate("release")
    expected = (10 * 3 / 4 + 20 * 0 + 10 * 1 / 2) / 40
    assert found["corrected"]["false_pass"]["estimate"] == pytest.approx(expected)
    assert found["false_pass"] == found["corrected"]["false_pass"] | {"labels": "judge corrected by people"}
    assert found["human_only"]["false_pass"]["estimate"] == pytest.approx(4 / 16)
    assert found["judge_only"]["false_pass"]["estimate"] == pytest.approx(1 / 3)
    assert found["judge_only"]["false_pass"]["missing"] == 10
    assert found["false_fail"]["insufficient"]
    assert all(math.isfinite(number) for number in numbers(found))


def test_people_who_differ_are_missing_and_widen_the_band() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 20, ("fail", "m", "e"): 20})
    passes = arm("pass", 20)
    grade(version, dict.fromkeys(passes[:8], "yes") | {passes[8]: "no", passes[9]: "no"})
    grade(version, {passes[0]: "yes", passes[8]: "yes"}, labeler="ben")
    found = estimate("release")
    assert found["false_pass"]["labels"] == "people"
    assert (found["false_pass"]["n"], found["false_pass"]["missing"]) == (9, 1)
    assert found["false_pass"]["estimate"] == pytest.approx(1 / 9)
    pairs = found["agreement"]["human_human"]
    assert (pairs["n"], pairs["raw"]["estimate"], pairs["anecdote"]) == (2, 0.5, True)
    assert found["human_error"]["false_pass"]["insufficient"].startswith("graders disagree")


def test_the_second_scope_counts_tasks() -> None:
    version = make_version()
    for number in range(6):
        task = make_task(version, f"t{number}")
        for attempt in range(5):
            add_trajectory(task, f"{number}/{attempt}", "pass")
    grade(version, {f"{n}/{a}": "no" if n == 0 else "yes" for n in range(6) for a in range(5)})
    found = estimate("release")
    batch, environment = found["scope"]["batch"]["false_pass"], found["scope"]["environment"]["false_pass"]
    assert batch["estimate"] == environment["estimate"] == pytest.approx(1 / 6)
    assert (batch["low"], batch["high"]) == pytest.approx((1 / 6, 1 / 6))
    assert "6 tasks" in environment["method"]
    assert environment["high"] > 0.5


def test_hacks_are_bounded_only_where_someone_was_asked() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 30})
    passes = arm("pass", 30)
    grade(version, dict.fromkeys(passes[:20], "yes"))
    assert "nobody was asked" in estimate("release")["hack_bound"]["insufficient"]
    grade(version, dict.fromkeys(passes[:20], "yes"), labeler="ben", integrity="none")
    found = estimate("release")["hack_bound"]
    assert found["batch"]["upper"] == pytest.approx(
        2 / 30
    )  # 20 of 30 were seen: C(28,20)/C(30,20) is 0.10, with 3 0.03
    assert (found["environment"]["n"], found["environment"]["upper"]) == (1, pytest.approx(0.95))
    grade(version, {passes[0]: "no"}, labeler="eve", integrity="hacked")
    assert estimate("release")["hack_bound"]["found"] == 1


def test_a_judge_that_was_never_measured_bounds_no_hacks() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 3})
    make_run(version)
    judge(version, dict.fromkeys(arm("pass", 3), "yes"))
    found = estimate("release")
    assert "there is no bound" in found["hack_bound"]["insufficient"]
    assert found["false_pass"]["labels"] == "judge, uncalibrated"


def test_repeated_looks_flip_and_abstentions_flip_too() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 4})
    make_run(version, replicates=2)
    one, two, three, four = arm("pass", 4)
    judge(version, {one: "yes", two: "yes", three: "unknown", four: "no"})
    judge(version, {one: "yes", two: "no", three: "yes", four: "no"}, replicate=1)
    found = estimate("release")["self_consistency"]
    assert (found["pairwise_flip"], found["items"]) == (pytest.approx(1 / 3), 4)
    assert found["flip_with_abstentions"] == 0.5
    assert found["decided_items"] == 3  # of the third one look decided: sigma does not rest on it
    assert found["noise"]["n"] == 4
    needed = 2 * ((1.959963985 + 0.841621234) * found["sigma_within"] / 0.02) ** 2
    assert found["planned"] == {"difference": 0.02, "items": math.ceil(needed)}


def test_the_band_of_new_tasks_weighs_what_is_undecided_as_the_rate_does() -> None:
    """Ten of one stratum are right, five of another wrong and five open: 5 to 10 of 20 are wrong."""
    version = make_version()
    fill(version, {("pass", "m", "e"): 10, ("pass", "n", "f"): 10})
    make_run(version)
    judge(version, dict.fromkeys(arm("pass", 10), "yes"))
    judge(version, {f"f/n/pass/{number:04}": "no" if number < 5 else "unknown" for number in range(10)})
    scope = estimate("release")["scope"]
    assert scope["environment"]["false_pass"]["bounds"] == pytest.approx([0.25, 0.5])
    assert scope["batch"]["false_pass"]["bounds"] == pytest.approx([0.25, 0.5])
    assert scope["environment"]["false_pass"]["missing"] == 5


def test_the_band_of_the_verifiers_own_error_is_what_the_undecided_can_make_of_it() -> None:
    """Of passes two are bad, two right, one open; of fails three bad, one right, two open."""
    version = make_version()
    fill(version, {("pass", "m", "e"): 5, ("fail", "m", "e"): 6})
    make_run(version)
    judge(version, dict(zip(arm("pass", 5), ("no", "no", "yes", "yes", "unknown"), strict=True)))
    judge(version, dict(zip(arm("fail", 6), ("no", "no", "no", "yes", "unknown", "unknown"), strict=True)))
    found = estimate("release")["verifier_error"]
    assert found["pass_given_not_acceptable"]["bounds"] == pytest.approx([2 / (2 + 3 + 2), 3 / (3 + 3)])
    assert found["fail_given_acceptable"]["bounds"] == pytest.approx([1 / (1 + 2 + 1), 3 / (3 + 2)])


def test_why_there_is_no_rate_is_true_of_its_direction() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 4, ("fail", "m", "e"): 4})
    make_run(version)
    judge(version, dict.fromkeys(arm("pass", 4), "yes"))
    grade(version, {arm("pass", 1)[0]: "no"})
    found = estimate("release")
    for reading in ("human_only", "corrected"):
        assert found[reading]["false_fail"]["insufficient"] == "no person has labeled any of these trajectories"
    for reading in ("judge_only", "conservative"):
        assert found[reading]["false_fail"]["insufficient"] == "no judge has decided any of these trajectories"
    fill(make_version("passes"), {("pass", "m", "e"): 4})
    alone = estimate("passes")
    for reading in ("human_only", "corrected", "judge_only", "conservative"):
        assert alone[reading]["false_fail"]["insufficient"] == "nothing with this verdict was drawn"


def test_where_people_decided_none_of_a_verdict_both_scopes_rest_on_the_judge() -> None:
    version = make_version()
    fill(version, {(status, "m", place): 4 for status in ("pass", "fail") for place in "ef"})
    make_run(version)
    judge(version, {f"{place}/m/{status}/0000": "yes" for status in ("pass", "fail") for place in "ef"})
    judge(version, {f"{place}/m/{status}/0001": "no" for status in ("pass", "fail") for place in "ef"})
    grade(version, {"e/m/pass/0000": "yes", "f/m/pass/0000": "no", "e/m/fail/0000": "unknown"})
    found = estimate("release")
    assert [found[name]["labels"] for name in ("false_pass", "false_fail")] == [
        "judge corrected by people",
        "judge, uncalibrated",
    ]
    scopes = [found["false_fail"], found["scope"]["environment"]["false_fail"], found["conservative"]["false_fail"]]
    assert [(one["estimate"], one["n"]) for one in scopes] == [(0.5, 4)] * 3
    assert found["scope"]["environment"]["false_pass"]["n"] == 2
    assert found["human_error"]["false_fail"]["insufficient"].startswith("the rate is the judge's word alone")
    error = "none of the fails was decided: how many of them are such work is not known"
    assert {one["insufficient"] for one in found["verifier_error"].values()} == {error}  # not 1: no bad fail was seen


def test_where_people_decided_nothing_the_grades_of_the_judge_are_not_counted_as_theirs() -> None:
    version = make_version()
    fill(version, {(status, "m", place): 40 for status in ("pass", "fail") for place in "ef"})
    make_run(version)
    judge(version, {f"{place}/m/pass/{at:04}": "no" if at < 4 else "yes" for place in "ef" for at in range(30)})
    grade(version, {"e/m/fail/0000": "no", "e/m/pass/0000": "unknown"})
    found = estimate("release")["narrow"]
    assert found["basis"] == "size of the cell, as nobody has decided any"
    assert sum(part["share_of_variance"] for part in found["parts"]) == pytest.approx(1)
    assert {part["graded"] for part in found["parts"]} == {0}
    assert (found["to_halve"]["grades_now"], found["to_halve"]["half_width"]) == (0, None)


def test_without_rounds_kappa_is_weighted_by_verdicts_and_says_so() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 4, ("fail", "m", "e"): 4})
    make_run(version)
    everyone = [*arm("pass", 4), *arm("fail", 4)]
    judge(version, dict.fromkeys(everyone, "yes"))
    grade(version, dict(zip(everyone, ("yes", "no") * 4, strict=True)))
    row = estimate("release")["agreement"]["judge_human"][0]
    assert row["weighting"]["kappa_weighted"] == "weighted by the verdicts of the verifier"


def test_a_sample_can_be_named_and_its_weights_hold() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 60, ("pass", "n", "e"): 20, ("fail", "m", "e"): 5})
    frame = freeze_frame(version, by=None)
    sample = draw_sample(frame, Plan("equal", 30), seed=3, by=None)
    drawn = sample.units.filter(stratum__verifier_status="pass").select_related("trajectory__source")
    wrong = {unit.trajectory.source.source_id: "no" if unit.stratum.model == "n" else "yes" for unit in drawn}
    grade(version, wrong)
    found = estimate("release", "--sample", sample.public_id)
    assert found["sample"]["seed"] == 3
    assert found["false_pass"]["estimate"] == pytest.approx(20 / 80)
    assert found["population"] == 85
    assert sum(row["drawn"] for row in found["by_stratum"]) == found["drawn"] == 30


def test_unusable_input_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    make_version()
    for arguments in (
        ("--dataset", "nothing"),
        ("--dataset", "release", "--sample", "7"),
        ("--dataset", "release", "--config", "ffffffff"),
    ):
        with pytest.raises(SystemExit) as ended:
            call_command("estimate", *arguments)
        assert ended.value.code == 2
    assert "import it first" in capsys.readouterr().err


def test_without_json_both_directions_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 10})
    grade(version, dict.fromkeys(arm("pass", 9), "yes") | {arm("pass", 10)[9]: "no"})
    call_command("estimate", "--dataset", "release")
    out = capsys.readouterr().out
    assert "False passes among passes: 10.0%" in out
    assert "False fails among fails: not estimable" in out


# --- against the raw files


@pytest.fixture
def arb(shared_data: Path) -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """The estimate of AgentRewardBench's development split, its rollouts and its judgments."""
    folder = shared_data / "agentrewardbench_dev"
    mapping = Path("agentrewardbench_dev")
    version = open_version("arb", "1", options=ImportOptions(), by=None)
    ingest_path(version, folder / "rollouts.jsonl", options=ImportOptions(mapping=mapping), format_name="jsonl")
    import_labels(version, folder / "rollouts.jsonl", kind="human", mapping=mapping, by=None)
    import_labels(version, folder / "judgments.jsonl", kind="judge", mapping=mapping, by=None)
    raw = [
        [json.loads(line) for line in (folder / name).read_text(encoding="utf-8").splitlines()]
        for name in ("rollouts.jsonl", "judgments.jsonl")
    ]
    return compute(version), raw[0], raw[1]


def plain_kappa(pairs: list[tuple[bool, bool]]) -> float:
    n = len(pairs)
    raw = sum(a == b for a, b in pairs) / n
    first, second = sum(a for a, _ in pairs) / n, sum(b for _, b in pairs) / n
    chance = first * second + (1 - first) * (1 - second)
    return (raw - chance) / (1 - chance)


def test_each_judge_against_people_equals_the_raw_files(arb: tuple[Any, Any, Any]) -> None:
    found, rollouts, judgments = arb
    key = ("benchmark", "agent", "task_id")
    truth = {}
    for row in rollouts:
        said = {human["success"] for human in row["human"]}
        if len(said) == 1 and said != {"Unsure"}:
            truth[tuple(row[name] for name in key)] = said == {"Successful"}
    pairs: defaultdict[str, list[tuple[bool, bool]]] = defaultdict(list)
    for row in judgments:
        if (at := tuple(row[name] for name in key)) in truth:
            pairs[f"{row['judge_run']} ({row['judge_model']})"].append((row["status"] == "success", truth[at]))
    assert {entry["judge"] for entry in found["agreement"]["judge_human"]} == pairs.keys()
    for entry in found["agreement"]["judge_human"]:
        mine = pairs[entry["judge"]]
        tp = sum(a and b for a, b in mine)
        precision, recall = tp / sum(a for a, _ in mine), tp / sum(b for _, b in mine)
        expected = {"precision": precision, "recall": recall, "f1": 2 * precision * recall / (precision + recall)}
        assert {name: entry["accuracy"][name] for name in expected} == pytest.approx(expected)
        assert (entry["decided"], entry["kappa"]["kappa"]) == (len(mine), pytest.approx(plain_kappa(mine)))


def test_people_among_themselves_equal_the_raw_file(arb: tuple[Any, Any, Any]) -> None:
    found, rollouts, _ = arb
    twice = [sorted(row["human"], key=lambda human: human["annotator"]) for row in rollouts if len(row["human"]) == 2]
    words = [[human["success"] for human in both] for both in twice]
    pairs = [(one == "Successful", other == "Successful") for one, other in words if "Unsure" not in (one, other)]
    compared = found["agreement"]["human_human"]
    assert (compared["n"], compared["decided"], compared["anecdote"]) == (len(twice), len(pairs), True)
    assert len(twice) == 16
    assert compared["raw_with_abstentions"]["estimate"] == sum(one == other for one, other in words) / 16
    assert compared["raw"]["estimate"] == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))
    assert compared["kappa"]["kappa"] == pytest.approx(plain_kappa(pairs))


def test_people_against_the_verifier_equal_the_raw_file(arb: tuple[Any, Any, Any]) -> None:
    found, rollouts, _ = arb
    cells: Counter[tuple[float, bool]] = Counter()
    for row in rollouts:
        said = {human["success"] for human in row["human"]}
        if len(said) == 1 and said != {"Unsure"}:
            cells[row["verifier"]["cum_reward"], said == {"Successful"}] += 1
    strata = found["by_stratum"]
    passes, fails = ([s["human"] for s in strata if s["verifier_status"] == status] for status in ("pass", "fail"))
    assert sum(share["decided"] for share in passes) == cells[1, True] + cells[1, False]
    assert sum(share["wrong"] for share in passes) == cells[1, False]
    assert sum(share["wrong"] for share in fails) == cells[0, True]
    assert found["false_pass"]["labels"] == "people"


@pytest.mark.parametrize("recorded", [False, True])
def test_pass_curves_of_tau_bench_equal_the_raw_files(shared_data: Path, recorded: bool) -> None:
    """Two of the trials stopped before their verifier ran: left out, or, by ruling, counted as the 0 left behind."""
    folder = shared_data / "tau_bench"
    version = open_version("tau", "1", options=ImportOptions(), by=None)
    ingest_path(version, folder, options=ImportOptions())
    count_not_run_as(version, recorded=recorded, by=User.objects.create(username="lead"))
    found = compute(version)["distribution"]
    passed: defaultdict[int, list[bool]] = defaultdict(list)
    for path in sorted(folder.glob("*.json")):
        for row in json.loads(path.read_text(encoding="utf-8")):
            if recorded or row["info"].get("reward_info") is not None:
                passed[row["task_id"]].append(row["reward"] == 1)
    twice = [tries for tries in passed.values() if len(tries) == 2]
    one = sum(sum(tries) / len(tries) for tries in passed.values()) / len(passed)
    assert found["attempts"] == sum(map(len, passed.values())) == (100 if recorded else 98)
    assert found["pass_hat_k"]["1"]["estimate"] == found["pass_at_k"]["1"]["estimate"] == pytest.approx(one)
    assert found["pass_hat_k"]["2"]["estimate"] == pytest.approx(sum(map(all, twice)) / len(twice))
    assert found["pass_at_k"]["2"]["estimate"] == pytest.approx(sum(map(any, twice)) / len(twice))
    assert found["pass_at_k"]["2"]["left_out"] == len(passed) - len(twice)
    assert set(found["pass_at_k"]) == {"1", "2"}
    assert found["informative"]["model_based"] is True
    assert found["histogram"]["all"] == sum(map(all, passed.values()))
