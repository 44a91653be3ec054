"""tau-bench results: what becomes the task, the steps, the verifier and the reference."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from auditapp.importers.options import ImportOptions
from auditapp.importers.tau_bench import parse
from judges.records import Json, ParseFailure, TrajectoryRecord, canonical_json

OPTIONS = ImportOptions()


def call(call_id: str, name: str, **arguments: Json) -> Json:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def result(call_id: str | None, text: str) -> Json:
    return {"role": "tool", "name": "x", "content": text, **({"tool_call_id": call_id} if call_id else {})}


CONVERSATION = [
    {"role": "system", "content": "# Retail agent policy\n\nAsk before you act."},
    {"role": "user", "content": "Cancel my order."},
    {"role": "assistant", "content": None, "tool_calls": [call("c1", "get_order", id="W1"), call("c2", "think")]},
    result("c2", ""),
    result("c1", "pending"),
    {"role": "assistant", "content": "Shall I cancel it?"},
    {"role": "user", "content": "Yes. ###STOP###"},
]


def row(**changes: Json) -> dict[str, Any]:
    reward_info = {"reward": 1.0, "info": {"r_actions": 1.0}, "actions": []}
    task = {
        "user_id": "ann_1",
        "instruction": "You are ann_1.",
        "actions": [{"name": "a"}, {"name": "b"}],
        "outputs": [],
    }
    info = {"task": task, "source": "user", "user_cost": 0.25, "reward_info": reward_info}
    return {"task_id": 7, "reward": 1.0, "info": info, "traj": CONVERSATION, "trial": 3, **changes}


def imported(tmp_path: Path, rows: Json, name: str = "gpt-4o-retail.json") -> list[TrajectoryRecord | ParseFailure]:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows))
    return list(parse(path, OPTIONS))


def one(tmp_path: Path, rows: Json, name: str = "gpt-4o-retail.json") -> TrajectoryRecord:
    (record,) = imported(tmp_path, rows, name)
    assert isinstance(record, TrajectoryRecord), record
    return record


def test_results_join_the_step_of_their_call(tmp_path: Path) -> None:
    steps = one(tmp_path, [row()]).steps
    assert [(step.locator, step.source) for step in steps] == [
        ("1", "system"),
        ("2", "user"),
        ("3", "agent"),
        ("4", "agent"),
        ("5", "user"),
    ]
    assert [action.text for action in steps[2].actions] == ["get_order\nid: W1", "think"]
    assert [(seen.call_id, seen.text, seen.pairing) for seen in steps[2].observations] == [
        ("c2", "", "explicit"),
        ("c1", "pending", "explicit"),
    ]


def test_the_instruction_is_the_policy_and_says_where_the_request_is(tmp_path: Path) -> None:
    task = one(tmp_path, [row()]).task
    assert task.instruction is not None
    assert task.instruction.startswith("# Retail agent policy\n\nAsk before you act.\n\n[The user's request")
    assert "You are ann_1" not in task.instruction


def test_the_users_script_and_the_expected_actions_are_reference_only(tmp_path: Path) -> None:
    record = one(tmp_path, [row()])
    tree = record.task.reference
    assert tree is not None
    assert {entry.path: tree.read(entry.path) for entry in tree.entries()} == {
        "expected_actions.json": b'[\n{"name":"a"},\n{"name":"b"}\n]\n',
        "expected_outputs.json": b"[]",
        "user_id.txt": b"ann_1",
        "user_script.txt": b"You are ann_1.",
    }
    shown = "".join(text for step in record.steps for part in ("message", "reasoning") for text in step.texts(part))
    assert "You are ann_1" not in shown
    assert "reward" not in shown


def test_the_final_database_is_not_recorded_so_there_is_no_deliverable(tmp_path: Path) -> None:
    record = one(tmp_path, [row()])
    assert record.deliverable is None
    assert record.task.initial is None


def test_identity_is_file_task_and_trial(tmp_path: Path) -> None:
    record = one(tmp_path, [row()])
    assert (record.source_id, record.task.task_id, record.attempt) == ("gpt-4o-retail/7/3", "7", 3)
    files = imported(tmp_path, [row()], "deep/er/gpt-4o-retail.json")
    assert len(files) == 1
    assert [item.source_id for item in parse(tmp_path, OPTIONS) if isinstance(item, TrajectoryRecord)] == [
        "deep/er/gpt-4o-retail/7/3",
        "gpt-4o-retail/7/3",
    ]


def test_the_model_is_read_from_the_name_of_the_file_and_said_to_be(tmp_path: Path) -> None:
    record = one(tmp_path, [row()], "tool-calling-gpt-4o-mini-0.0_range_0--1_user-gpt-4o-llm_0513.json")
    assert (record.agent, record.model, record.task.environment) == ("tool-calling", "gpt-4o-mini", "retail")
    assert [notice.code for notice in record.warnings] == ["model_inferred"]
    unnamed = one(tmp_path, [row()], "results.json")
    assert (unnamed.agent, unnamed.model, unnamed.warnings) == ("", "", ())


def test_the_environment_is_the_domain_of_the_policy_unless_the_caller_says_another(tmp_path: Path) -> None:
    path = tmp_path / "gpt-4o-airline.json"
    path.write_text(json.dumps([row(), row(traj=CONVERSATION[1:], trial=4)]))
    assert [item.task.environment for item in parse(path, OPTIONS)] == ["retail", "airline"]  # type: ignore[union-attr]
    options = ImportOptions(environment="mine")
    assert [item.task.environment for item in parse(path, options)] == ["mine", "mine"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("reward", "status"), [(1.0, "pass"), (1, "pass"), (0.0, "fail"), (0.5, "partial"), (None, "none"), ("1", "none")]
)
def test_the_reward_decides_the_status_and_its_absence_is_no_fail(tmp_path: Path, reward: Json, status: str) -> None:
    verifier = one(tmp_path, [row(reward=reward)]).verifier
    assert verifier.status == status
    assert verifier.reward == (reward if isinstance(reward, int | float) else None)


def test_a_run_stopped_before_the_check_is_invalid_and_no_fail(tmp_path: Path) -> None:
    stopped = row(reward=0.0, info={**row()["info"], "reward_info": None})
    verifier = one(tmp_path, [stopped]).verifier
    assert (verifier.status, verifier.reason, verifier.reward) == ("invalid", "verifier_did_not_run", 0.0)
    assert verifier.proof is not None
    assert verifier.proof.locator == "info.reward_info"


def test_a_run_that_crashed_is_invalid_and_its_steps_are_not_recorded(tmp_path: Path) -> None:
    record = one(tmp_path, [row(reward=0.0, traj=[], info={"error": "RateLimitError", "traceback": "..."})])
    assert (record.verifier.status, record.steps_recorded, record.exception) == ("invalid", False, "RateLimitError")
    assert record.task.instruction is None
    assert record.task.reference is None


def test_results_whose_check_was_left_out_of_the_file_are_believed(tmp_path: Path) -> None:
    assert one(tmp_path, [row(reward=0.0, info={})]).verifier.status == "fail"


def test_two_rewards_that_differ_are_flagged(tmp_path: Path) -> None:
    record = one(tmp_path, [row(reward=0.0)])
    assert [flag.code for flag in record.flags] == ["reward_conflict"]
    assert record.verifier.status == "fail"


def test_an_unknown_verifier_is_refused_with_the_one_there_is(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps([row()]))
    (failure,) = parse(path, ImportOptions(verifier="speed"))
    assert isinstance(failure, ParseFailure)
    assert "'reward'" in failure.reason


def test_odd_messages_are_repaired_with_a_warning(tmp_path: Path) -> None:
    messages = [
        result("c0", "before any call"),
        {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]},
        {"role": "assistant", "content": "", "tool_calls": [call("c1", "x"), call("c2", "y"), call("c3", "z")]},
        result(None, "first"),
        result("c9", "nobody's"),
        result("c3", "third"),
        {"role": "assistant", "tool_calls": [{"id": "c4", "function": {"name": "f", "arguments": "{broken"}}]},
        result("", "only one"),
        {"role": "narrator", "content": 5},
        "not a message",
    ]
    record = one(tmp_path, [row(traj=messages)], "r.json")
    steps = record.steps
    assert [step.source for step in steps] == ["unknown", "agent", "agent", "agent", "unknown"]
    assert [(seen.call_id, seen.pairing) for seen in steps[2].observations] == [
        ("c1", "position"),
        ("c9", "none"),
        ("c3", "explicit"),
    ]
    assert (steps[3].actions[0].arguments, steps[3].observations[0].pairing) == ("{broken", "single")
    assert (steps[1].message, len(steps[1].attachments), steps[4].message) == ("a", 1, "5")
    codes = Counter(notice.code for notice in record.warnings)
    assert codes["foreign_call_id"] == 2
    assert {"arguments_text", "attachment_not_recorded", "unknown_source", "text_coerced", "item_dropped"} <= set(codes)
    assert [(flag.code, flag.locator) for flag in record.flags] == [("observation_missing", "3")]


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ('{"a": "\\u0000"}', {"a": "\u2400"}),
        ("[1]", "[1]"),
        ('{"a": ' + "[" * 300 + "]" * 300 + "}", '{"a": ' + "[" * 300 + "]" * 300 + "}"),
    ],
)
def test_arguments_are_an_object_that_can_be_stored_or_text(tmp_path: Path, arguments: str, kept: Json) -> None:
    asked = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": arguments}}]}
    (step,) = one(tmp_path, [row(traj=[asked])]).steps
    assert step.actions[0].arguments == kept
    canonical_json(step.to_json())


def test_one_bad_row_costs_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    good = json.dumps(row())
    path.write_text(f'[{good}, {{"task_id": 1, }}, {{"other": 1}}, {json.dumps(row(trial=4))}, {good[:500]}')
    items = list(parse(path, OPTIONS))
    kinds = [item.source_id if isinstance(item, TrajectoryRecord) else item.path for item in items]
    assert kinds == ["r/7/3", "r.json#2", "r.json#3", "r/7/4", "r.json#5"]
    reasons = [item.reason for item in items if isinstance(item, ParseFailure)]
    assert ["not valid JSON" in reasons[0], "no task_id" in reasons[1], "truncated" in reasons[2]] == [True] * 3


def test_the_row_is_kept_byte_for_byte(tmp_path: Path) -> None:
    text = json.dumps(row(), indent=3)
    path = tmp_path / "r.json"
    path.write_text(f"[\n{text}\n]\n")
    (record,) = parse(path, OPTIONS)
    assert isinstance(record, TrajectoryRecord)
    (original,) = record.originals
    assert original.tree.read(original.path) == text.encode()


def test_all_published_airline_rows_are_read_and_agree_with_the_file(shared_data: Path) -> None:
    folder = shared_data / "tau_bench"
    records = list(parse(folder, OPTIONS))
    raw = [row for path in sorted(folder.glob("*.json")) for row in json.loads(path.read_text())]
    assert len(records) == len(raw) == 100
    assert all(isinstance(record, TrajectoryRecord) for record in records)
    read = [record for record in records if isinstance(record, TrajectoryRecord)]
    assert len({record.source_id for record in read}) == 100
    unchecked = sum(row["info"]["reward_info"] is None for row in raw)
    assert Counter(record.verifier.status for record in read) == {
        "pass": sum(row["reward"] == 1 for row in raw),
        "fail": sum(row["reward"] == 0 for row in raw) - unchecked,
        "invalid": unchecked,
    }
    calls = sum(len(message.get("tool_calls") or []) for row in raw for message in row["traj"])
    seen = [seen for record in read for step in record.steps for seen in step.observations]
    assert sum(len(step.actions) for record in read for step in record.steps) == len(seen) == calls
    assert {observation.pairing for observation in seen} == {"explicit"}
    assert {(record.model, record.task.environment) for record in read} == {("gpt-4o", "airline")}
    assert not [flag for record in read for flag in record.flags]
