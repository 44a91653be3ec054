"""Logs of Inspect: what becomes the steps, the verifier and the reference, in each way a log is written."""

import io
import json
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import zstandard

from auditapp.importers import inspect_samples
from auditapp.importers.detect import detect
from auditapp.importers.inspect_log import parse
from auditapp.importers.options import ImportOptions, Limits
from judges.records import Json, ParseFailure, TrajectoryRecord, canonical_json
from tests.importers.written import codes, failure, noticed, only, records

OPTIONS = ImportOptions()
RUN = {"eval_id": "E1", "task": "sums", "model": "lab/model-1", "packages": {"inspect_ai": "0.3.200"}}
HEADER = {"version": 2, "status": "success", "eval": RUN, "plan": {"steps": [{"solver": "setup"}, {"solver": "react"}]}}


def message(role: str, content: Json, ident: str | None = None, **fields: Json) -> dict[str, Json]:
    return {"role": role, "content": content, **({"id": ident} if ident else {}), **fields}


def call(call_id: str, function: str = "bash", **arguments: Json) -> Json:
    return {"id": call_id, "function": function, "arguments": arguments, "type": "function"}


ASKED = message("user", "Add 2 and 2.", "m1")
ACTED = message("assistant", "I will count.", "m2", tool_calls=[call("c1", cmd="echo $((2+2))")])
SEEN = message("tool", "4", "m3", tool_call_id="c1", function="bash")
DONE = message("assistant", [{"type": "reasoning", "reasoning": "So 4."}, {"type": "text", "text": "4"}], "m4")
TOLD = [ASKED, ACTED, SEEN, DONE]


def sample(**changes: Json) -> dict[str, Any]:
    return {
        "id": 7,
        "epoch": 2,
        "uuid": "U7",
        "input": "Add 2 and 2.",
        "target": "4",
        "messages": TOLD,
        "scores": {"match": {"value": "C", "answer": "4", "explanation": "it says 4"}},
        **changes,
    }


def span(ident: str, kind: str, parent: str | None = None) -> Json:
    return {"event": "span_begin", "id": ident, "type": kind, "parent_id": parent, "span_id": ident}


def asked(inputs: Json, answer: Json, span_id: str = "main", **fields: Json) -> dict[str, Json]:
    choices = [] if answer is None else [{"message": answer}]
    return {"event": "model", "span_id": span_id, "input": inputs, "output": {"choices": choices}, **fields}


def json_log(path: Path, *samples: Json, **header: Json) -> Path:
    path.write_text(json.dumps({**HEADER, **header, "samples": list(samples)}))
    return path


def zstd_member(name: str, data: bytes, frames: int) -> tuple[bytes, bytes]:
    """The member as the writer of Inspect makes it, and its entry in the list of members, without its place."""
    size = -(-len(data) // frames) or 1
    packed = b"".join(zstandard.compress(data[at : at + size]) for at in range(0, len(data), size))
    encoded = name.encode()
    fields = struct.pack("<HHHHHLLLHH", 45, 0, 93, 0, 33, zlib.crc32(data), len(packed), len(data), len(encoded), 0)
    return b"PK\x03\x04" + fields + encoded + packed, fields


def zstd_log(members: Mapping[str, Json], frames: int = 3) -> bytes:
    body, listed = b"", b""
    for name, value in members.items():
        member, fields = zstd_member(name, json.dumps(value).encode(), frames)
        listed += b"PK\x01\x02" + struct.pack("<H", 45) + fields + struct.pack("<HHHLL", 0, 0, 0, 0, len(body))
        listed += name.encode()
        body += member
    end = struct.pack("<HHHHLLH", 0, 0, len(members), len(members), len(listed), len(body), 0)
    return body + listed + b"PK\x05\x06" + end


def deflated_log(members: Mapping[str, Json]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in members.items():
            archive.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return buffer.getvalue()


def members(*samples: dict[str, Any]) -> dict[str, Json]:
    return {
        "_journal/start.json": {"version": 2, "eval": RUN, "plan": HEADER["plan"]},
        **{f"samples/{item['id']}_epoch_{item['epoch']}.json": item for item in samples},
        "header.json": HEADER,
    }


def from_json(tmp_path: Path, **changes: Json) -> TrajectoryRecord:
    return only(parse(json_log(tmp_path / "log.json", sample(**changes)), OPTIONS))


def texts(record: TrajectoryRecord) -> list[tuple[str, str, str]]:
    return [(step.locator, step.source, step.message) for step in record.steps]


# --- what becomes of a sample


def test_messages_become_steps_and_results_join_the_step_of_their_call(tmp_path: Path) -> None:
    record = from_json(tmp_path)
    assert texts(record) == [("1", "user", "Add 2 and 2."), ("2", "agent", "I will count."), ("3", "agent", "4")]
    assert [action.text for action in record.steps[1].actions] == ["bash\ncmd: echo $((2+2))"]
    assert [(seen.text, seen.pairing) for seen in record.steps[1].observations] == [("4", "explicit")]
    assert record.steps[2].reasoning == "So 4."
    assert record.deliverable is None


def test_names_come_from_the_log_and_identity_from_the_sample(tmp_path: Path) -> None:
    record = from_json(tmp_path)
    assert (record.source_id, record.task.task_id, record.task.environment) == ("U7", "7", "sums")
    assert (record.agent, record.model, record.attempt) == ("react", "lab/model-1", 2)
    assert from_json(tmp_path, uuid=None).source_id == "E1/7/2"
    assert from_json(tmp_path, uuid=None, id="x" * 400).source_id.startswith("sha256:")


def test_the_target_is_reference_only(tmp_path: Path) -> None:
    record = from_json(tmp_path, target=["FLAG{1}", "FLAG{2}"])
    tree = record.task.reference
    assert tree is not None
    assert {entry.path: tree.read(entry.path) for entry in tree.entries()} == {
        "target_1.txt": b"FLAG{1}",
        "target_2.txt": b"FLAG{2}",
    }
    blind = canonical_json([record.task.instruction, [step.to_json() for step in record.steps]])
    assert b"FLAG" not in blind
    assert from_json(tmp_path, target="").task.reference is None


def test_the_instruction_is_the_input_with_its_choices(tmp_path: Path) -> None:
    several = [message("system", "Be short."), message("user", [{"type": "text", "text": "Which?"}])]
    assert from_json(tmp_path, input=several).task.instruction == "[system]\nBe short.\n\n[user]\nWhich?"
    assert from_json(tmp_path, choices=["one", "two"]).task.instruction == "Add 2 and 2.\n\nA) one\nB) two"
    assert from_json(tmp_path, input=None).task.instruction is None


def test_input_tokens_include_cached_ones_whatever_the_provider_counts(tmp_path: Path) -> None:
    apart = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 115, "input_tokens_cache_read": 100}
    within = {"input_tokens": 110, "output_tokens": 5, "total_tokens": 115, "input_tokens_cache_read": 100}
    for row in (apart, within):
        usage = from_json(tmp_path, model_usage={"lab/model-1": row, "lab/grader": {"total_tokens": 9}}).usage
        assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.cost_usd) == (110, 100, 5, None)
    assert from_json(tmp_path).usage.input_tokens is None


def test_redacted_reasoning_is_left_out_and_attachments_of_text_are_put_in_place(tmp_path: Path) -> None:
    parts = [{"type": "reasoning", "reasoning": "Q2lwaGVy", "redacted": True, "summary": "thought"}]
    answer = message("assistant", parts, "m2", tool_calls=[call("c1", cmd="attachment://long")])
    seen = message("tool", "attachment://out", "m3", tool_call_id="c1")
    record = from_json(
        tmp_path, messages=[ASKED, answer, seen], attachments={"long": "make all", "out": "built", "img": "data:x"}
    )
    assert record.steps[1].reasoning == "thought"
    assert record.steps[1].actions[0].arguments == {"cmd": "make all"}
    assert record.steps[1].observations[0].text == "built"
    lost = from_json(tmp_path, messages=[ASKED, seen], attachments={"long": "make all"})
    assert "attachment_missing" in codes(lost.warnings)


def test_tools_that_the_provider_ran_are_actions_with_results(tmp_path: Path) -> None:
    served = {"type": "tool_use", "id": "s1", "name": "search", "arguments": '{"q": "2+2"}', "result": "four"}
    record = from_json(tmp_path, messages=[ASKED, message("assistant", [served, {"type": "text", "text": "4"}], "m2")])
    step = record.steps[1]
    assert (step.message, step.actions[0].text) == ("4", "search\nq: 2+2")
    assert [(seen.text, seen.pairing) for seen in step.observations] == [("four", "explicit")]


# --- the verifier


@pytest.mark.parametrize(
    ("value", "reward", "status"),
    [
        ("C", 1.0, "pass"),
        ("I", 0.0, "fail"),
        ("P", 0.5, "partial"),
        ("N", 0.0, "fail"),
        (1, 1.0, "pass"),
        (True, 1.0, "pass"),
        (False, 0.0, "fail"),
        (0.25, 0.25, "partial"),
        ("0.25", 0.25, "partial"),
        ("yes", 1.0, "pass"),
        (float("nan"), None, "none"),
        ("good", None, "none"),
        ([1, 0], None, "none"),
        (None, None, "none"),
    ],
)
def test_a_score_is_a_reward_where_it_stands_for_one(
    tmp_path: Path, value: Json, reward: float | None, status: str
) -> None:
    verifier = from_json(tmp_path, scores={"match": {"value": value}}).verifier
    assert (verifier.reward, verifier.status) == (reward, status)
    assert verifier.reason == ("" if reward is not None else "unscored")


def test_of_several_scorers_one_must_be_named(tmp_path: Path) -> None:
    scores = {"match": {"value": "C"}, "style": {"value": {"tone": 0.5, "length": 0}}}
    path = json_log(tmp_path / "log.json", sample(scores=scores))
    assert failure(parse(path, OPTIONS)).reason.endswith("one of: match, style/length, style/tone")
    assert only(parse(path, ImportOptions(verifier="match"))).verifier.status == "pass"
    tone = only(parse(path, ImportOptions(verifier="style/tone"))).verifier
    assert (tone.reward, tone.rewards) == (0.5, {"match": 1.0, "style/tone": 0.5, "style/length": 0.0})
    assert "several" in failure(parse(path, ImportOptions(verifier="style"))).reason
    assert "no scorer named 'tests'" in failure(parse(path, ImportOptions(verifier="tests"))).reason


def test_the_only_value_of_a_scorer_is_its_reward(tmp_path: Path) -> None:
    assert from_json(tmp_path, scores={"match": {"value": {"all": 1}}}).verifier.rewards == {"match/all": 1.0}


def test_a_sample_that_was_never_scored_is_none_and_no_fail(tmp_path: Path) -> None:
    nothing: list[Json] = [None, {}]
    for scores in nothing:
        verifier = from_json(tmp_path, scores=scores).verifier
        assert (verifier.status, verifier.reason, verifier.reward) == ("none", "no_score", None)


def test_an_error_before_scoring_means_that_the_verifier_did_not_run(tmp_path: Path) -> None:
    broken = from_json(tmp_path, scores=None, error={"message": "sandbox died", "traceback": "..."})
    assert (broken.verifier.status, broken.verifier.reason) == ("invalid", "verifier_did_not_run")
    assert broken.verifier.proof is not None
    assert (broken.verifier.proof.locator, broken.exception) == ("error", "sandbox died")
    scored = from_json(tmp_path, error={"message": "sandbox died"})
    assert (scored.verifier.status, scored.exception) == ("pass", "sandbox died")


def test_a_limit_keeps_the_score_and_an_invalidation_takes_it(tmp_path: Path) -> None:
    limited = from_json(tmp_path, limit={"type": "token", "limit": 1000})
    assert (limited.verifier.status, limited.exception) == ("pass", "limit reached: token 1000")
    refused = from_json(tmp_path, invalidation={"author": "ann", "reason": "leaked key"}).verifier
    assert (refused.status, refused.reason, refused.reward) == ("invalid", "invalidated", 1.0)


def test_a_score_that_people_changed_keeps_what_the_scorer_had_said(tmp_path: Path) -> None:
    history = [{"value": "I", "answer": "4"}, {"value": "C", "provenance": {"author": "ann"}}]
    record = from_json(tmp_path, scores={"match": {"value": "C", "history": history}})
    assert record.verifier.status == "pass"
    assert record.extra["score_edits"] == {"match": history}
    assert [(flag.locator, '"I"' in flag.detail) for flag in noticed(record.flags, "score_edited")] == [
        ("scores.match", True)
    ]


def test_what_scorers_did_is_verifier_output_and_no_step(tmp_path: Path) -> None:
    events = [
        span("main", "agent"),
        asked([ASKED], ACTED),
        {"event": "score", "span_id": "main", "score": {"value": "I"}, "intermediate": True},
        asked([ASKED, ACTED, SEEN], DONE),
        span("all", "scorers"),
        span("one", "scorer", "all"),
        span("grading", "agent", "one"),
        asked([message("user", "GRADE IT", "g1")], message("assistant", "GRADE: C", "g2"), "grading"),
        {"event": "sandbox", "span_id": "one", "cmd": "pytest", "output": "1 passed"},
        {"event": "score", "span_id": "one", "score": {"value": "C"}},
    ]
    record = from_json(tmp_path, events=events)
    assert len(record.steps) == 3
    assert b"GRADE" not in canonical_json([step.to_json() for step in record.steps])
    assert record.verifier.streams is not None
    output = record.verifier.streams.read("scorer_events.jsonl").decode()
    assert all(text in output for text in ("GRADE IT", "GRADE: C", "1 passed"))
    assert b"match.value: C" in record.verifier.streams.read("scores.txt")
    assert "verifier_asked_during_run" in codes(record.flags)


def test_scorers_of_old_logs_are_told_apart_by_their_steps(tmp_path: Path) -> None:
    events = [
        asked([ASKED], ACTED),
        {"event": "step", "action": "end", "type": "scorer", "name": "never begun"},
        {"event": "step", "action": "begin", "type": "scorer", "name": "graded"},
        asked([message("user", "GRADE IT")], message("assistant", "GRADE: C")),
        {"event": "step", "action": "end", "type": "scorer", "name": "graded"},
    ]
    record = from_json(tmp_path, events=events, messages=[])
    assert texts(record) == [("1", "user", "Add 2 and 2."), ("2", "agent", "I will count.")]


# --- what messages do not tell


SUMMARY = message("user", "So far: you counted.", "m5")


def test_what_compaction_took_away_is_joined_from_the_calls(tmp_path: Path) -> None:
    end = message("assistant", "4", "m6")
    events = [
        span("main", "agent"),
        asked([ASKED], ACTED),
        {"event": "compaction", "span_id": "main", "type": "summary", "tokens_before": 900},
        asked([ASKED, SUMMARY], end),
    ]
    record = from_json(tmp_path, messages=[ASKED, SUMMARY, end], events=events)
    assert [text for _, _, text in texts(record)] == ["Add 2 and 2.", "I will count.", "So far: you counted.", "4"]
    assert "steps_from_events" in codes(record.warnings)
    assert "compaction" in codes(record.flags)


def test_calls_may_refer_to_their_messages_by_number(tmp_path: Path) -> None:
    pool = [ASKED, ACTED, SEEN, SUMMARY]
    end = message("assistant", "4", "m6")
    events = [
        asked(None, ACTED, input_refs=[[0, 1]]),
        asked(None, end, input_refs=[[0, 3], [3, 99]]),
    ]
    record = from_json(tmp_path, messages=[], events=events, events_data={"messages": pool})
    assert [text for _, _, text in texts(record)] == ["Add 2 and 2.", "I will count.", "So far: you counted.", "4"]
    numbered = [asked(None, ACTED, input_refs=[0]), asked(None, end, input_refs=[0, 1, 2, 3, -1, 99, "x"])]
    again = from_json(tmp_path, messages=[], events=numbered, message_pool=pool)
    assert again.steps == record.steps


def test_endless_references_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_samples, "_MOST_REFERENCES", 100_000)
    pool = [message("user", str(number), str(number)) for number in range(1000)]
    events = [asked(None, DONE, input_refs=[[0, 1000]] * 200)]
    path = json_log(tmp_path / "log.json", sample(messages=[], events=events, events_data={"messages": pool}))
    assert "too often" in failure(parse(path, OPTIONS)).reason


def test_attachments_that_would_fill_memory_stay_references(tmp_path: Path) -> None:
    many = [message("user", "attachment://a", str(number)) for number in range(200)]
    path = json_log(tmp_path / "log.json", sample(messages=many, attachments={"a": "x" * 10_000}))
    record = only(parse(path, ImportOptions(limits=Limits(json_bytes=100_000))))
    assert sum(len(step.message) for step in record.steps) <= 110_000
    assert "attachment_limit" in codes(record.warnings)


def test_a_history_sent_again_with_other_ids_adds_nothing(tmp_path: Path) -> None:
    events = [asked([ASKED], {**ACTED, "id": "other"}), asked([ASKED, ACTED, SEEN], DONE)]
    record = from_json(tmp_path, events=events)
    assert len(record.steps) == 3
    assert "steps_from_events" not in codes(record.warnings)


def test_calls_beside_the_conversation_are_no_steps(tmp_path: Path) -> None:
    simulated = asked([message("system", "Play the customer.", "u1")], message("assistant", "Hello", "u2"))
    checked = asked([message("user", "Is this rude?", "k1")], message("assistant", "no", "k2"), role="checker")
    record = from_json(tmp_path, events=[asked([ASKED], ACTED), simulated, checked])
    assert len(record.steps) == 3


def test_equal_words_without_ids_are_said_twice(tmp_path: Path) -> None:
    on = message("user", "Go on.")
    first, second, third = (message("assistant", f"part {number}") for number in (1, 2, 3))
    events = [asked([on], first), asked([on, first, on], second), asked([on, first, on, second, on], third)]
    record = from_json(tmp_path, messages=[], events=events)
    assert [text for _, _, text in texts(record)] == ["Go on.", "part 1", "Go on.", "part 2", "Go on.", "part 3"]


def test_steps_of_subagents_follow_the_step_that_called_them(tmp_path: Path) -> None:
    inner = message("assistant", "counted", "s2", tool_calls=[call("c9")])
    events = [
        span("main", "agent"),
        asked([ASKED], ACTED, completed="2026-01-02T03:04:05Z"),
        span("tool", "tool", "main"),
        span("sub", "agent", "tool"),
        asked([message("system", "You count.", "s1")], inner, "sub"),
        span("sub2", "agent", "tool"),
        asked([message("system", "You check.", "t1")], message("assistant", "right", "t2"), "sub2"),
        asked([ASKED, ACTED, SEEN], DONE),
    ]
    record = from_json(tmp_path, events=events)
    assert [step.locator for step in record.steps] == ["1", "2", "2.1:1", "2.1:2", "2.2:1", "2.2:2", "3"]
    assert record.steps[1].timestamp == "2026-01-02T03:04:05Z"
    assert [flag.locator for flag in noticed(record.flags, "observation_missing")] == ["2.1:2"]


# --- the ways a log is written


def test_all_ways_of_writing_a_log_tell_the_same(tmp_path: Path) -> None:
    chunks: dict[str, Json] = {
        "header.json": HEADER,
        "samples/7_epoch_2/sample.json": {**sample(), "messages": None, "message_refs": [[0, 4]]},
        "samples/7_epoch_2/messages/0.json": TOLD[:2],
        "samples/7_epoch_2/messages/2.json": [message("tool", "attachment://0", "m3", tool_call_id="c1"), DONE],
        "samples/7_epoch_2/attachments/0.json": ["4"],
        "samples/7_epoch_2/events/0.json": [asked(None, ACTED, input_refs=[[0, 1]])],
        "samples/7_epoch_2/events/10.json": [asked(None, DONE, input_refs=[[0, 3]])],
        "samples/7_epoch_2/events/stats.json": {"not": "events"},
        "samples/7_epoch_2/calls/0.json": [{"request": "raw"}],
    }
    events = [asked(TOLD[:1], ACTED), asked(TOLD[:3], DONE)]
    whole = members(sample(events=events))
    (tmp_path / "deflate.eval").write_bytes(deflated_log(whole))
    (tmp_path / "zstd.eval").write_bytes(zstd_log(whole))
    (tmp_path / "chunked.eval").write_bytes(zstd_log(chunks))
    json_log(tmp_path / "log.json", sample(events=events))
    for name, value in whole.items():
        file = tmp_path / "unpacked" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value))
    found = records(parse(tmp_path, OPTIONS))
    assert len(found) == 5
    first, *others = [(record.source_id, record.steps, record.verifier.reward, record.usage) for record in found]
    assert all(other == first for other in others)
    assert all(detect(tmp_path / name, OPTIONS).format == "inspect" for name in ("zstd.eval", "log.json", "unpacked"))
    assert detect(tmp_path, OPTIONS).format == "inspect"


def test_originals_are_kept_byte_for_byte_and_read_when_asked_for(tmp_path: Path) -> None:
    one, two = sample(), sample(id=8, uuid="U8")
    (tmp_path / "a.eval").write_bytes(zstd_log(members(one, two)))
    json_log(tmp_path / "b.json", one, two)
    for name in ("a.eval", "b.json"):
        kept = [record.originals[0] for record in records(parse(tmp_path / name, OPTIONS))]
        assert [json.loads(item.tree.read(item.path)) for item in kept] == [one, two]
        assert kept[0].tree.read(kept[0].path, limit=5) == json.dumps(one).encode()[:5]


def test_a_run_that_died_is_read_from_what_it_wrote(tmp_path: Path) -> None:
    written = members(sample())
    del written["header.json"]
    (tmp_path / "a.eval").write_bytes(deflated_log(written))
    record = only(parse(tmp_path / "a.eval", OPTIONS))
    assert (record.model, record.extra["log_status"]) == ("lab/model-1", "started")
    assert "log_unfinished" in codes(record.warnings)


def test_a_log_without_samples_is_one_clear_failure(tmp_path: Path) -> None:
    path = json_log(tmp_path / "log.json", status="cancelled", results={"completed_samples": 3})
    assert failure(parse(path, OPTIONS)).reason == (
        'this log holds no samples, though it reports 3 completed ones (its status is "cancelled")'
    )
    (tmp_path / "a.eval").write_bytes(deflated_log(members()))
    assert "no samples" in failure(parse(tmp_path / "a.eval", OPTIONS)).reason


def test_ids_may_hold_slashes_and_spaces(tmp_path: Path) -> None:
    odd = [sample(id="a/b c", uuid=None), sample(id="a", uuid=None), sample(id="../up", uuid=None)]
    chunk = {
        "samples/x/y_epoch_1/sample.json": sample(id="x/y", uuid=None, epoch=1, messages=None, message_refs=[[0, 2]])
    }
    parts = {"samples/x/y_epoch_1/messages/0.json": TOLD}
    (tmp_path / "a.eval").write_bytes(deflated_log({**members(*odd), **chunk, **parts}))
    found = {record.source_id: len(record.steps) for record in records(parse(tmp_path / "a.eval", OPTIONS))}
    assert found == {"E1/a/b c/2": 3, "E1/a/2": 3, "E1/../up/2": 3, "E1/x/y/1": 2}


def test_of_two_members_with_one_name_the_last_counts(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("header.json", json.dumps(HEADER))
        archive.writestr("samples/7_epoch_2.json", json.dumps(sample(scores=None)))
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("samples/7_epoch_2.json", json.dumps(sample()))
    (tmp_path / "a.eval").write_bytes(buffer.getvalue())
    record = only(parse(tmp_path / "a.eval", OPTIONS))
    assert record.verifier.status == "pass"
    assert "duplicate_member" in codes(record.warnings)


@pytest.mark.parametrize("packed", [zstd_log, deflated_log])
def test_a_damaged_sample_costs_itself_only(tmp_path: Path, packed: Callable[[dict[str, Json]], bytes]) -> None:
    raw = packed(members(sample(), sample(id=8)))
    at = raw.index(b"samples/8_epoch_2.json") + 60
    (tmp_path / "a.eval").write_bytes(raw[:at] + b"\0\xff\0" + raw[at + 3 :])
    first, second = parse(tmp_path / "a.eval", OPTIONS)
    assert isinstance(first, TrajectoryRecord)
    assert isinstance(second, ParseFailure)
    assert second.path == "a.eval#8_epoch_2"


def test_invalid_utf8_is_repaired_and_a_sample_of_another_kind_refused(tmp_path: Path) -> None:
    raw = json.dumps(sample()).replace("Add 2", "caf\\u00e9").encode().replace(b"\\u00e9", b"\xe9")
    written = {**members(), "samples/7_epoch_2.json": raw, "samples/8_epoch_1.json": [1, 2]}
    (tmp_path / "a.eval").write_bytes(deflated_log(written))
    first, second = parse(tmp_path / "a.eval", OPTIONS)
    assert isinstance(first, TrajectoryRecord)
    assert "invalid_utf8" in codes(first.warnings)
    assert isinstance(second, ParseFailure)
    assert "a list where an object is expected" in second.reason


def test_members_larger_than_the_limit_are_refused_with_their_size(tmp_path: Path) -> None:
    large = sample(id=9, input="x" * 200_000)
    options = ImportOptions(limits=Limits(json_bytes=100_000))
    (tmp_path / "a.eval").write_bytes(zstd_log(members(sample(), large)))
    json_log(tmp_path / "b.json", sample(), large)
    for name in ("a.eval", "b.json"):
        first, second = parse(tmp_path / name, options)
        assert isinstance(first, TrajectoryRecord)
        assert isinstance(second, ParseFailure)
        assert "limit of 100,000 bytes" in second.reason


def test_a_stated_size_is_no_promise(tmp_path: Path) -> None:
    raw = zstd_log(members(sample()))
    size = struct.pack("<L", len(json.dumps(sample())))
    (tmp_path / "a.eval").write_bytes(raw.replace(size, struct.pack("<L", 50)))
    assert "damaged" in failure(parse(tmp_path / "a.eval", OPTIONS)).reason


def test_a_truncated_json_log_gives_the_samples_before_the_cut(tmp_path: Path) -> None:
    path = json_log(tmp_path / "log.json", sample(), sample(id=8, uuid="U8"))
    path.write_bytes(path.read_bytes()[:-200])
    first, second = parse(path, OPTIONS)
    assert isinstance(first, TrajectoryRecord)
    assert isinstance(second, ParseFailure)
    assert "ends within its samples" in second.reason


def test_samples_are_found_whatever_their_texts_look_like(tmp_path: Path) -> None:
    odd = sample(input='"samples": [ {"\\" ] } \\', metadata={"samples": [1, [2]], "a": [[], {}]})
    path = json_log(tmp_path / "log.json", odd, odd | {"uuid": "U8"}, tags=["x"], metadata={"samples": [0]})
    assert [record.task.instruction for record in records(parse(path, OPTIONS))] == [odd["input"]] * 2
    path.write_text(json.dumps({**HEADER, "samples": [odd], "reductions": [{"value": 1}]}, indent=2))
    assert only(parse(path, OPTIONS)).task.instruction == odd["input"]


def test_the_samples_of_a_long_log_are_never_in_memory_together(tmp_path: Path) -> None:
    big = "x" * 2**20
    json_log(tmp_path / "log.json", *(sample(uuid=f"U{number}", store={"big": big}) for number in range(40)))
    tracemalloc.start()
    count = sum(1 for _ in parse(tmp_path / "log.json", OPTIONS))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 40
    assert peak < 20 * 2**20, peak


# --- real logs


@pytest.mark.parametrize(
    ("name", "statuses"),
    [
        ("docent_intercode_ctf.eval", {"pass": 9, "fail": 6}),
        ("metr_oxdna_simple_small.eval", {"pass": 6}),
        ("browser.json", {"pass": 1}),
        ("scout_websearch.eval", {"pass": 1}),
    ],
)
def test_real_logs_are_read_without_repairs_of_their_structure(
    shared_data: Path, name: str, statuses: dict[str, int]
) -> None:
    found = records(parse(shared_data / "inspect" / name, OPTIONS))
    told = [record.verifier.status for record in found]
    assert {status: told.count(status) for status in set(told)} == statuses
    assert {code for record in found for code in codes(record.warnings)} <= {"nul_character"}


def test_a_real_log_tells_the_same_chunked_and_whole(shared_data: Path) -> None:
    chunked, whole = (
        only(parse(shared_data / "inspect" / f"ais_decoder_{name}.eval", OPTIONS))
        for name in ("chunked", "monolith_zstd")
    )
    assert chunked.steps == whole.steps
    assert (chunked.source_id, chunked.verifier.rewards, chunked.usage) == (
        whole.source_id,
        whole.verifier.rewards,
        whole.usage,
    )
    assert chunked.verifier.streams is not None
    assert whole.verifier.streams is not None
    output = chunked.verifier.streams.read("scorer_events.jsonl")
    assert output == whole.verifier.streams.read("scorer_events.jsonl")
    assert b"You are assessing a submitted answer" in output
    assert b"You are assessing" not in canonical_json([step.to_json() for step in chunked.steps])
