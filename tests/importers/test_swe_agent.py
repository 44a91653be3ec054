"""Trajectories of SWE-agent: rows become steps, the patch the deliverable, a report beside them the verdict."""

import json
from pathlib import Path
from typing import Any

import pytest

from auditapp.importers.detect import detect
from auditapp.importers.options import ImportOptions
from auditapp.importers.swe_agent import parse
from judges.records import Json, TrajectoryRecord, canonical_json
from tests.importers.written import codes, failure, noticed, only, records, write

OPTIONS = ImportOptions()
PATCH = "\ndiff --git a/x.py b/x.py\n"


def row(action: Json, observation: Json = "", thought: Json = "", **fields: Json) -> Json:
    response = f"{thought}\n```\n{action}\n```"
    return {"action": action, "observation": observation, "thought": thought, "response": response, **fields}


def trajectory(**changes: Json) -> dict[str, Any]:
    return {
        "environment": "main",
        "trajectory": [row("ls\n", "x.py\n", "Look.", state={"working_dir": "/repo"}), row("submit", PATCH, "Done.")],
        "history": [
            {"role": "system", "content": "You are a programmer."},
            {"role": "user", "content": "A demonstration of ANOTHER issue", "is_demo": True},
            {"role": "user", "content": [{"type": "text", "text": "Fix the bug."}]},
            {"role": "assistant", "content": "Look.", "action": "ls\n"},
            {"role": "user", "content": "x.py\n(Open file: n/a)"},
        ],
        "info": {
            "exit_status": "submitted",
            "submission": PATCH,
            "model_stats": {"instance_cost": 0.5, "tokens_sent": 100, "tokens_received": 7, "api_calls": 2},
        },
        **changes,
    }


def imported(tmp_path: Path, name: str = "lab__x-1.traj", **changes: Json) -> TrajectoryRecord:
    return only(parse(write(tmp_path / name, trajectory(**changes)), OPTIONS))


def test_rows_become_steps_after_what_the_model_was_told(tmp_path: Path) -> None:
    record = imported(tmp_path)
    assert [(step.locator, step.source, step.message) for step in record.steps] == [
        ("1", "system", "You are a programmer."),
        ("2", "user", "Fix the bug."),
        ("3", "agent", "Look."),
        ("4", "agent", "Done."),
    ]
    assert [action.text for action in record.steps[2].actions] == ["bash\ncommand:\nls\n"]
    assert [(seen.text, seen.pairing) for seen in record.steps[2].observations] == [("x.py\n", "single")]
    assert record.task.instruction == "Fix the bug."


def test_demonstrations_of_other_issues_are_left_out_and_said_to_be(tmp_path: Path) -> None:
    record = imported(tmp_path)
    assert b"ANOTHER" not in canonical_json([step.to_json() for step in record.steps])
    assert "demonstration_left_out" in codes(record.warnings)


def test_a_row_without_an_action_or_a_result_has_none(tmp_path: Path) -> None:
    record = imported(
        tmp_path, trajectory=[row("", "exit forfeited", "I give up."), row("make", None), row("true", "")]
    )
    given_up, unseen, silent = record.steps[-3:]
    assert (given_up.actions, [seen.pairing for seen in given_up.observations]) == ((), ["none"])
    assert unseen.observations == ()
    assert [seen.text for seen in silent.observations] == [""]
    assert [flag.locator for flag in noticed(record.flags, "observation_missing")] == [unseen.locator]


def test_what_was_said_without_a_thought_is_the_response(tmp_path: Path) -> None:
    record = imported(tmp_path, trajectory=[{"action": "ls", "observation": "", "response": "ls it is"}])
    assert record.steps[-1].message == "ls it is"


def test_the_submitted_patch_is_the_deliverable(tmp_path: Path) -> None:
    record = imported(tmp_path)
    assert record.deliverable is not None
    assert {entry.path: record.deliverable.read(entry.path) for entry in record.deliverable.entries()} == {
        "model.patch": PATCH.encode()
    }
    empty = imported(tmp_path, info={"exit_status": "submitted", "submission": ""})
    assert empty.deliverable is not None
    assert empty.deliverable.read("model.patch") == b""
    missing = imported(tmp_path, info={"exit_status": "exit_cost", "submission": None})
    assert (missing.deliverable, missing.exception) == (None, "exit_cost")
    assert "submission_missing" in codes(missing.warnings)


def test_names_and_figures(tmp_path: Path) -> None:
    settings = {"agent": {"model": {"name": "gpt-4o"}}, "problem_statement": {"id": "lab__y-2"}}
    for replay in (settings, json.dumps(settings)):
        record = imported(tmp_path, "run.traj", replay_config=replay)
        assert (record.source_id, record.task.task_id, record.model) == ("run", "lab__y-2", "gpt-4o")
    plain = imported(tmp_path)
    assert (plain.task.task_id, plain.model, plain.agent, plain.exception) == ("lab__x-1", "", "SWE-agent", "")
    usage = plain.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (100, 7, 0.5)
    assert "replay_config_unreadable" in codes(imported(tmp_path, replay_config="{").warnings)


def test_zeros_beside_calls_to_the_model_are_not_recorded(tmp_path: Path) -> None:
    stats = {"instance_cost": 0, "tokens_sent": 0, "tokens_received": 0}
    info = {"exit_status": "submitted", "submission": PATCH}
    usage = imported(tmp_path, info={**info, "model_stats": {**stats, "api_calls": 11}}).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (None, None, None)
    usage = imported(tmp_path, info={**info, "model_stats": {**stats, "api_calls": 0}}).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (0, 0, 0)


# --- the verdict


def test_without_a_report_there_is_no_verdict(tmp_path: Path) -> None:
    write(tmp_path / "report.json", {"lab__other-9": {"resolved": True}})
    write(tmp_path / "preds.json", {"lab__x-1": {"model_patch": PATCH}})
    verifier = imported(tmp_path).verifier
    assert (verifier.status, verifier.reason, verifier.reward) == ("none", "not_recorded", None)


@pytest.mark.parametrize(
    ("name", "report", "status", "reward"),
    [
        ("report.json", {"lab__x-1": {"resolved": True, "tests_status": {}}}, "pass", 1.0),
        ("report.json", {"lab__x-1": {"resolved": False}}, "fail", 0.0),
        ("gpt4.run1.json", {"resolved_ids": ["lab__x-1"], "error_ids": []}, "pass", 1.0),
        ("gpt4.run1.json", {"unresolved_ids": ["lab__x-1"]}, "fail", 0.0),
        ("gpt4.run1.json", {"empty_patch_ids": ["lab__x-1"]}, "fail", 0.0),
        ("gpt4.run1.json", {"error_ids": ["lab__x-1"]}, "invalid", None),
        ("results.json", {"resolved": ["lab__x-1"]}, "pass", 1.0),
        ("results.json", {"resolved": 12}, "none", None),
    ],
)
def test_a_report_that_names_the_issue_is_the_verdict(
    tmp_path: Path, name: str, report: Json, status: str, reward: float | None
) -> None:
    write(tmp_path / name, report)
    write(tmp_path / "lab__x-1" / "lab__x-1.traj", trajectory())
    verifier = only(parse(tmp_path, OPTIONS)).verifier
    assert (verifier.status, verifier.reward) == (status, reward)
    assert (verifier.streams is None) == (status == "none")


def test_reports_above_what_is_imported_are_not_looked_at(tmp_path: Path) -> None:
    write(tmp_path / "report.json", {"lab__x-1": {"resolved": True}})
    path = write(tmp_path / "run" / "lab__x-1.traj", trajectory())
    assert only(parse(path, OPTIONS)).verifier.status == "none"
    assert only(parse(path.parent, OPTIONS)).verifier.status == "none"


def test_the_nearest_report_counts_and_another_that_differs_is_flagged(tmp_path: Path) -> None:
    write(tmp_path / "results.json", {"resolved": ["lab__x-1", "lab__x-2"]})
    for name in ("lab__x-1", "lab__x-2"):
        write(tmp_path / name / f"{name}.traj", trajectory())
    write(tmp_path / "lab__x-1" / "report.json", {"lab__x-1": {"resolved": False}})
    first, second = records(parse(tmp_path, OPTIONS))
    assert (first.verifier.status, codes(first.flags)) == ("fail", {"reward_conflict"})
    assert (second.verifier.status, codes(second.flags)) == ("pass", set())


def test_another_verifier_than_the_report_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.traj", trajectory())
    assert "named 'resolved'" in failure(parse(path, ImportOptions(verifier="tests"))).reason


# --- files


def test_a_folder_gives_one_trajectory_a_file(tmp_path: Path) -> None:
    write(tmp_path / "a" / "one.traj", trajectory())
    write(tmp_path / "two.traj", trajectory())
    write(tmp_path / "args.yaml", "x: 1")
    assert [record.source_id for record in records(parse(tmp_path, OPTIONS))] == ["a/one", "two"]
    assert detect(tmp_path, OPTIONS).format == "swe_agent"


def test_what_is_no_trajectory_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "a.traj", {"messages": []})
    assert "no trajectory of SWE-agent" in failure(parse(path, OPTIONS)).reason


def test_a_long_trajectory_is_known_by_its_first_megabyte(tmp_path: Path) -> None:
    path = write(tmp_path / "a.traj", {"trajectory": [row("ls", "x" * 2**21)], "history": [], "info": {}})
    assert detect(path, OPTIONS).format == "swe_agent"


@pytest.mark.parametrize("name", ["pydicom-1458", "marshmallow-1867_function_calling"])
def test_real_trajectories_are_read_whole(shared_data: Path, name: str) -> None:
    path = shared_data / "other" / "swe_agent" / f"{name}.traj"
    raw = json.loads(path.read_bytes())
    record = only(parse(path, OPTIONS))
    agent = [step for step in record.steps if step.source == "agent"]
    assert [step.actions[0].arguments for step in agent] == [{"command": item["action"]} for item in raw["trajectory"]]
    assert [step.observations[0].text for step in agent] == [item["observation"] for item in raw["trajectory"]]
    assert record.deliverable is not None
    assert record.deliverable.read("model.patch").decode() == raw["info"]["submission"]
    assert record.verifier.status == "none"
