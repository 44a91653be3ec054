"""ATIF documents: numbering over continuations and sub-agents, pairing of outputs, and repairs that are said."""

import hashlib
import os
from pathlib import Path

import orjson
import pytest

from auditapp.importers import atif
from auditapp.importers.options import ImportOptions, Limits
from judges.records import ParseFailure, TrajectoryRecord
from tests.importers.written import (
    SHORT,
    Json,
    acted,
    call,
    codes,
    document,
    failure,
    noticed,
    only,
    output,
    records,
    step,
    write,
)

OPTIONS = ImportOptions()


def read(folder: Path, content: Json, name: str = "trajectory.json") -> TrajectoryRecord:
    return only(atif.parse(write(folder / name, content), OPTIONS))


def test_a_document_becomes_numbered_steps_with_agent_model_and_no_verdict(tmp_path: Path) -> None:
    record = read(tmp_path, SHORT)
    assert [item.locator for item in record.steps] == ["1", "2", "3"]
    assert record.steps[1].actions[0].text == "bash\ncommand: echo 4 > /app/out.txt"
    assert (record.agent, record.agent_version, record.model) == ("tester", "1", "lab/model-1")
    assert (record.verifier.status, record.verifier.reward) == ("none", None)
    assert record.task.instruction == "Write 4 to /app/out.txt"
    assert record.deliverable is None
    assert record.steps_recorded


def test_continuations_are_joined_and_their_copied_context_is_told_once(tmp_path: Path) -> None:
    write(
        tmp_path / "trajectory.cont-1.json",
        document(step("user", "task", is_copied_context=True), step("agent", "four")),
    )
    record = read(
        tmp_path,
        document(step("user", "task"), step("agent", "two"), continued_trajectory_ref="trajectory.cont-1.json"),
    )
    assert [(item.locator, item.message) for item in record.steps] == [("1", "task"), ("2", "two"), ("3", "four")]
    assert codes(record.flags) == {"continuation"}
    assert [original.name for original in record.originals] == ["trajectory.json", "trajectory.cont-1.json"]


@pytest.mark.parametrize("reference", ["../secret.json", "/etc/passwd", "missing.json", "trajectory.json"])
def test_a_continuation_elsewhere_missing_or_circular_is_a_warning(tmp_path: Path, reference: str) -> None:
    write(tmp_path / "secret.json", document(step("agent", "secret")))
    record = read(tmp_path / "run", document(step("user", "task"), continued_trajectory_ref=reference))
    assert [item.message for item in record.steps] == ["task"]
    assert codes(record.warnings) >= {"continuation_missing"}


def test_a_chain_of_continuations_ends_at_the_limit(tmp_path: Path) -> None:
    for number in range(1, 30):
        write(
            tmp_path / f"t.cont-{number}.json",
            document(step("agent", str(number)), continued_trajectory_ref=f"t.cont-{number + 1}.json"),
        )
    path = write(tmp_path / "t.json", document(step("user", "0"), continued_trajectory_ref="t.cont-1.json"))
    record = only(atif.parse(path, ImportOptions(limits=Limits(segments=5))))
    assert len(record.steps) == 6
    assert "continuation_limit" in codes(record.warnings)


def test_steps_of_subagents_follow_their_parent_step_under_its_number(tmp_path: Path) -> None:
    child = document(step("user", "find it"), step("agent", "found"), trajectory_id="child")
    beside = document(step("agent", "beside"))
    write(tmp_path / "sub.json", beside)
    references = [{"trajectory_id": "child"}, {"trajectory_path": "sub.json"}, {"session_id": "gone"}]
    main = document(
        step("user", "task"),
        acted(call("a", name="delegate"), results=[output("ok", "a", subagent_trajectory_ref=references)]),
        step("agent", "end"),
        subagent_trajectories=[child],
    )
    record = read(tmp_path, main)
    assert [item.locator for item in record.steps] == ["1", "2", "2.1:1", "2.1:2", "2.2:1", "3"]
    assert record.steps[4].message == "beside"
    assert noticed(record.warnings, "subagent_missing")[0].locator == "2"


def test_a_subagent_that_nobody_names_is_kept_and_one_that_contains_itself_ends(tmp_path: Path) -> None:
    own = {"results": [output("", "x", subagent_trajectory_ref=[{"trajectory_id": "loop"}])]}
    loop = document(step("agent", "again", observation=own), trajectory_id="loop")
    record = read(tmp_path, document(step("user", "task"), subagent_trajectories=[loop]))
    assert [item.locator for item in record.steps] == ["1", "1.101:1"]
    assert codes(record.warnings) >= {"subagent_unplaced", "subagent_not_followed"}


@pytest.mark.parametrize(
    ("calls", "results", "expected"),
    [
        (["a", "b"], [("1", "b"), ("2", "a")], [("b", "explicit"), ("a", "explicit")]),
        (["a", "b"], [("1", None), ("2", None)], [("a", "position"), ("b", "position")]),
        (["a", "b"], [("1", "a"), ("2", None)], [("a", "explicit"), ("b", "single")]),
        (["a", "b", "c"], [("1", None)], [(None, "shared")]),
        (["a"], [("1", "elsewhere")], [("elsewhere", "none")]),
        ([], [("1", None)], [(None, "none")]),
        (["a", "b", "c"], [("1", None), ("2", None)], [(None, "none"), (None, "none")]),
        (["a", "a"], [("1", "a"), ("2", "a")], [("a", "explicit"), ("a", "explicit")]),
    ],
)
def test_outputs_are_paired_with_calls_and_it_is_said_how_surely(
    tmp_path: Path, calls: list[str], results: list[tuple[str, str | None]], expected: list[tuple[str | None, str]]
) -> None:
    made = acted(*[call(name) for name in calls], results=[output(text, name) for text, name in results])
    observations = read(tmp_path, document(step("user", "t"), made)).steps[1].observations
    assert [(item.call_id, item.pairing) for item in observations] == expected
    assert [item.text for item in observations] == [text for text, _ in results]


def test_a_call_without_output_is_flagged_and_an_empty_output_is_not(tmp_path: Path) -> None:
    record = read(tmp_path, document(acted(call("a"), results=[output("", "a")]), acted(call("b"))))
    assert [item.locator for item in noticed(record.flags, "observation_missing")] == ["2"]
    assert record.steps[0].observations[0].text == ""


def test_exit_codes_are_read_from_fields_and_from_the_harness_own_words(tmp_path: Path) -> None:
    record = read(
        tmp_path,
        document(
            acted(call("a"), results=[output("x", "a", extra={"exit_code": 3})]),
            acted(call("b"), results=[output("Exit code 127\nno such command", "b")]),
            acted(call("c"), results=[output("the exit code was 5", "c")]),
        ),
    )
    assert [item.observations[0].exit_code for item in record.steps] == [3, 127, None]


def test_wrong_fields_are_repaired_and_each_repair_names_its_step(tmp_path: Path) -> None:
    record = read(
        tmp_path,
        document(
            step("robot", {"text": 1}, timestamp=12),
            acted({"tool_call_id": 7, "function_name": None, "arguments": '{"command": "ls"}'}),
            acted({"tool_call_id": "x", "function_name": "bash", "arguments": "ls -l"}),
            step("agent", None, tool_calls="none", observation="seen"),
        )
        | {"schema_version": "2"},
    )
    assert record.steps[0].source == "unknown"
    assert record.steps[0].message == '{"text":1}'
    assert record.steps[1].actions[0].arguments == {"command": "ls"}
    assert record.steps[2].actions[0].arguments == "ls -l"
    assert record.steps[3].message == ""
    assert record.steps[3].observations[0].text == "seen"
    assert noticed(record.warnings, "unknown_source")[0].locator == "1"
    assert codes(record.warnings) >= {"unknown_schema_version", "text_coerced", "arguments_text", "observation_coerced"}


def test_arguments_nested_too_deep_to_store_become_text(tmp_path: Path) -> None:
    raw = orjson.dumps(document(acted(call("a")))).replace(b'"ls"', b"[" * 600 + b"1" + b"]" * 600)
    (tmp_path / "t.json").write_bytes(raw)
    record = only(atif.parse(tmp_path / "t.json", OPTIONS))
    assert isinstance(record.steps[0].actions[0].arguments, str)
    orjson.dumps(record.steps[0].to_json())


def test_attachments_are_measured_when_recorded_and_never_fetched_or_looked_for_elsewhere(tmp_path: Path) -> None:
    write(tmp_path / "run/images/a.png", b"png bytes")
    write(tmp_path / "b.png", b"outside")
    sources = [
        {"media_type": "image/png", "path": "images/a.png"},
        {"media_type": "image/png", "path": "../b.png"},
        {"media_type": "image/jpeg", "path": "https://example.org/c.jpg"},
        {"media_type": "image/png", "data": "cG5nIGJ5dGVz"},
    ]
    parts = [{"type": "text", "text": "look"}, *({"type": "image", "source": source} for source in sources)]
    record = read(tmp_path / "run", document(step("user", parts)))
    digest = hashlib.sha256(b"png bytes").hexdigest()
    assert record.steps[0].message == "look"
    assert [(item.name, item.size, item.sha256) for item in record.steps[0].attachments] == [
        ("images/a.png", 9, digest),
        ("../b.png", None, None),
        ("https://example.org/c.jpg", None, None),
        ("inline", 9, digest),
    ]
    assert len(noticed(record.warnings, "attachment_not_recorded")) == 2
    assert record.originals[-1].tree.read(record.originals[-1].path) == b"png bytes"


def test_a_last_record_that_tells_the_reward_is_removed_and_flagged(tmp_path: Path) -> None:
    record = read(
        tmp_path,
        document(step("user", "t"), step("agent", "done"), step("system", "Verifier finished, reward: 1.0")),
    )
    assert [item.message for item in record.steps] == ["t", "done"]
    assert noticed(record.flags, "harness_reward_removed")[0].locator == "3"


def test_the_agents_own_words_about_a_reward_stay(tmp_path: Path) -> None:
    record = read(tmp_path, document(step("user", "t"), step("agent", "reward: 1.0"), step("system", "session closed")))
    assert len(record.steps) == 3
    assert record.flags == ()


def test_messages_of_a_harness_are_no_instruction(tmp_path: Path) -> None:
    record = read(
        tmp_path, document(step("user", "<environment_context>\nx</environment_context>"), step("user", "Fix the bug"))
    )
    assert record.task.instruction == "Fix the bug"


def test_tokens_that_were_not_recorded_are_none_and_recorded_zeros_are_zero(tmp_path: Path) -> None:
    usage = read(tmp_path, document(step("agent", "x", metrics={"prompt_tokens": 0, "cost_usd": None}))).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd) == (0, None, None)


def test_two_documents_of_one_session_are_two_trajectories_of_one_task(tmp_path: Path) -> None:
    write(tmp_path / "a.json", SHORT)
    write(tmp_path / "b.json", SHORT)
    found = records(atif.parse(tmp_path, OPTIONS))
    assert [record.source_id for record in found] == ["s:a", "s:b"]
    assert len({record.task.task_id for record in found}) == 1


def test_in_a_folder_continuations_and_subagents_are_no_trajectories_of_their_own(tmp_path: Path) -> None:
    write(tmp_path / "x.trajectory.cont-1.json", document(step("agent", "more")))
    write(
        tmp_path / "x.trajectory.json",
        document(step("user", "t"), continued_trajectory_ref="trajectory.cont-1.json"),
    )
    assert [len(record.steps) for record in records(atif.parse(tmp_path, OPTIONS))] == [2]


def test_bad_files_are_one_failure_each_and_do_not_stop_the_others(tmp_path: Path) -> None:
    write(tmp_path / "a_truncated.json", b'{"steps": [')
    write(tmp_path / "b_other.json", {"parent": {}, "child": {}})
    write(tmp_path / "c_deep.json", b"[" * 100_000)
    os.mkfifo(tmp_path / "d_fifo.json")
    (tmp_path / "e_link.json").symlink_to("/etc/hostname")
    with (tmp_path / "f_sparse.json").open("wb") as stream:
        stream.truncate(2**30)
    write(tmp_path / "g_good.json", SHORT)
    found = list(atif.parse(tmp_path, OPTIONS))
    reasons = {item.path: item.reason for item in found if isinstance(item, ParseFailure)}
    assert list(reasons) == [
        "a_truncated.json",
        "b_other.json",
        "c_deep.json",
        "d_fifo.json",
        "e_link.json",
        "f_sparse.json",
    ]
    assert "no regular file" in reasons["d_fifo.json"]
    assert "symbolic link" in reasons["e_link.json"]
    assert "more than the limit" in reasons["f_sparse.json"]
    assert isinstance(found[-1], TrajectoryRecord)


def test_a_name_that_is_no_utf8_is_shown_and_its_original_can_be_read(tmp_path: Path) -> None:
    write(Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.json")), SHORT)
    record = only(atif.parse(tmp_path, OPTIONS))
    assert record.source_id == "s:a\\xff"
    assert record.originals[0].tree.read(record.originals[0].path) == orjson.dumps(SHORT)


def test_a_folder_without_documents_says_so(tmp_path: Path) -> None:
    assert "no .json file" in failure(atif.parse(tmp_path, OPTIONS)).reason


def test_every_real_document_keeps_its_steps_and_can_be_stored(shared_data: Path) -> None:
    found = list(atif.parse(shared_data / "atif", OPTIONS))
    failures = [item.path for item in found if isinstance(item, ParseFailure)]
    assert failures == ["phoenix_fixtures/subagent_trajectories.json"]
    read_all = [item for item in found if isinstance(item, TrajectoryRecord)]
    for record in read_all:
        main = [item for item in record.steps if ":" not in item.locator]
        assert [item.locator for item in main] == [str(number) for number in range(1, len(main) + 1)]
        raw = [orjson.loads(part.tree.read(part.path)) for part in record.originals]
        assert len(main) == len(raw[0]["steps"]) + sum(
            not item.get("is_copied_context") for more in raw[1:] for item in more["steps"]
        )
        orjson.dumps([item.to_json() for item in record.steps])
    assert len({record.source_id for record in read_all}) == len(read_all) > 20
