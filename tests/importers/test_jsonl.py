"""JSON rows by a mapping file: what each rule means, what a wrong mapping says, and the one that ships."""

import json
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from auditapp.importers.jsonl import parse
from auditapp.importers.mapping import SHIPPED, MappingError, load_mapping, shipped_names
from auditapp.importers.options import ImportOptions, Limits
from judges.records import Json, ParseFailure, TrajectoryRecord

MAPPING = """
[trajectory]
source_id = { template = "{env}/{task.id}/{try}" }
environment = "env"
task_id = "task.id"
instruction = "task.text"
agent = { value = "scripted" }
model = { path = "model", map = { big = "model-large", small = "model-small" } }
attempt = "try"
cost_usd = { path = "cost", nulls = ["0.0", "-1"] }
input_tokens = "usage.0.tokens"
finished_at = "when"
deliverable = { "answer.txt" = "answer", "plan.txt" = "plan" }
reference = { "solution.json" = "gold" }
extra = { split = { path = "split", default = "none stated" } }

[trajectory.verifier]
reward = "score"
status = { path = "outcome", map = { ok = "pass", bad = "fail", broken = "invalid" } }
invalid = "verifier_error"
output = { "log.txt" = "log" }

[trajectory.steps]
path = "steps"
source = { path = "who", default = "agent" }
message = "say"
reasoning = "think"
observation = "see"
timestamp = "at"
action = { name = "tool.name", arguments = "tool.args" }
"""
ROW = {
    "env": "shop",
    "task": {"id": 12, "text": "Sell it."},
    "model": "big",
    "try": 2,
    "cost": 0.0,
    "usage": [{"tokens": 10}],
    "answer": "sold",
    "gold": {"sold": True},
    "score": 0.25,
    "log": "1 of 4",
    "steps": [
        {"who": "user", "say": "Hello"},
        {"think": "hm", "tool": {"name": "sell", "args": {"n": 1}}, "see": "done", "at": "2026-01-01"},
        {"see": ""},
    ],
}


def imported(tmp_path: Path, *rows: Json, mapping: str = MAPPING, name: str = "rows.jsonl") -> list[Json]:
    (tmp_path / "map.toml").write_text(mapping)
    (tmp_path / name).write_text("\n".join(json.dumps(row) for row in rows))
    return list(parse(tmp_path / name, ImportOptions(mapping=tmp_path / "map.toml")))


def one(tmp_path: Path, row: Json, mapping: str = MAPPING) -> TrajectoryRecord:
    (record,) = imported(tmp_path, row, mapping=mapping)
    assert isinstance(record, TrajectoryRecord), record
    return record


def refused(tmp_path: Path, row: Json, mapping: str = MAPPING) -> str:
    (failure,) = imported(tmp_path, row, mapping=mapping)
    assert isinstance(failure, ParseFailure), failure
    return failure.reason


def test_fields_are_found_by_path_constant_template_and_map(tmp_path: Path) -> None:
    record = one(tmp_path, ROW)
    assert (record.source_id, record.task.environment, record.task.task_id) == ("shop/12/2", "shop", "12")
    assert (record.agent, record.model, record.attempt) == ("scripted", "model-large", 2)
    assert (record.task.instruction, record.extra) == ("Sell it.", {"split": "none stated"})


def test_what_is_not_recorded_stays_unknown(tmp_path: Path) -> None:
    record = one(tmp_path, ROW)
    assert record.usage.cost_usd is None
    assert record.usage.output_tokens is None
    assert record.usage.input_tokens == 10
    assert record.finished_at is None
    bare = one(tmp_path, {**ROW, "answer": None, "gold": None, "log": None, "steps": None})
    assert (bare.deliverable, bare.task.reference, bare.verifier.streams) == (None, None, None)
    assert (bare.steps_recorded, len(bare.steps)) == (False, 0)


def test_an_empty_list_of_steps_is_recorded_unless_the_mapping_says_otherwise(tmp_path: Path) -> None:
    row = {**ROW, "steps": []}
    assert one(tmp_path, row).steps_recorded is True
    mapping = MAPPING.replace('path = "steps"', 'path = "steps"\nempty = "not_recorded"')
    assert one(tmp_path, row, mapping).steps_recorded is False


def test_named_texts_become_files(tmp_path: Path) -> None:
    record = one(tmp_path, ROW)
    trees = (record.deliverable, record.task.reference, record.verifier.streams)
    files = [{entry.path: tree.read(entry.path) for entry in tree.entries()} for tree in trees if tree]
    assert files == [{"answer.txt": b"sold"}, {"solution.json": b'{"sold":true}'}, {"log.txt": b"1 of 4"}]


def test_steps_are_read_field_by_field(tmp_path: Path) -> None:
    first, second, third = one(tmp_path, ROW).steps
    assert (first.locator, first.source, first.message, first.observations) == ("1", "user", "Hello", ())
    assert (second.source, second.reasoning, second.timestamp) == ("agent", "hm", "2026-01-01")
    assert (second.actions[0].text, second.observations[0].text) == ("sell\nn: 1", "done")
    assert second.observations[0].pairing == "single"
    assert (third.actions, third.observations[0].text, third.observations[0].pairing) == ((), "", "none")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("click('12')", "click\n'12'"),
        ("noop()", "noop"),
        ('send("a\n(b)")', 'send\n"a\n(b)"'),
        ("click('1')\nclick('2')", "action\nclick('1')\nclick('2')"),
        ("I give up", "action\nI give up"),
    ],
)
def test_a_call_in_one_text_is_taken_apart(tmp_path: Path, call: str, text: str) -> None:
    mapping = MAPPING.replace('{ name = "tool.name", arguments = "tool.args" }', '{ call = "do" }')
    (step,) = one(tmp_path, {**ROW, "steps": [{"do": call}]}, mapping).steps
    assert step.actions[0].text == text


def test_steps_may_be_chat_messages(tmp_path: Path) -> None:
    mapping = MAPPING.partition("[trajectory.steps]")[0] + '[trajectory.steps]\npath = "chat"\nstyle = "messages"\n'
    chat = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "name": "f", "input": {}}]},
        {"role": "tool", "tool_call_id": "1", "content": "out"},
    ]
    steps = one(tmp_path, {**ROW, "chat": chat}, mapping).steps
    assert [step.source for step in steps] == ["user", "agent"]
    assert steps[1].observations[0].pairing == "explicit"


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "partial"),
        ({"score": 1}, "pass"),
        ({"score": 0}, "fail"),
        ({"score": None}, "none"),
        ({"score": 0, "outcome": "ok"}, "pass"),
        ({"score": 1, "outcome": "broken"}, "invalid"),
        ({"score": 1, "verifier_error": "timeout"}, "invalid"),
    ],
)
def test_the_status_is_the_recorded_one_else_that_of_the_reward(tmp_path: Path, changes: Json, status: str) -> None:
    assert one(tmp_path, {**ROW, **changes}).verifier.status == status


def test_a_value_the_map_does_not_know_is_refused_by_key_and_value(tmp_path: Path) -> None:
    reason = refused(tmp_path, {**ROW, "outcome": "meh"})
    assert reason == "trajectory.verifier.status: the value 'meh' is not in its map (which has bad, broken, ok)"


def test_a_row_without_identity_is_refused_by_key(tmp_path: Path) -> None:
    assert refused(tmp_path, {**ROW, "try": None}) == (
        "trajectory.source_id: nothing is recorded at '{env}/{task.id}/{try}'"
    )


def test_a_bad_line_costs_itself_only(tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(MAPPING)
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(ROW)}\n\n{{broken\n[1]\n{json.dumps({**ROW, 'try': 3})}\n")
    items = list(parse(tmp_path / "rows.jsonl", ImportOptions(mapping=tmp_path / "map.toml")))
    shown = [item.source_id if isinstance(item, TrajectoryRecord) else item.path for item in items]
    assert shown == ["shop/12/2", "rows.jsonl#3", "rows.jsonl#4", "shop/12/3"]


def test_a_line_over_the_limit_costs_itself_only(tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(MAPPING)
    long = json.dumps({**ROW, "answer": "x" * 5000})
    (tmp_path / "rows.jsonl").write_text(f"{long}\n{json.dumps(ROW)}\n")
    options = ImportOptions(mapping=tmp_path / "map.toml", limits=Limits(json_bytes=3000))
    failure, record = parse(tmp_path / "rows.jsonl", options)
    assert isinstance(failure, ParseFailure)
    assert "longer than the limit of 3,000 bytes" in failure.reason
    assert isinstance(record, TrajectoryRecord)


def test_a_list_of_rows_in_one_json_file_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(MAPPING)
    (tmp_path / "rows.json").write_text(json.dumps([ROW, {**ROW, "try": 3}], indent=1))
    items = list(parse(tmp_path / "rows.json", ImportOptions(mapping=tmp_path / "map.toml")))
    assert [item.source_id for item in items if isinstance(item, TrajectoryRecord)] == ["shop/12/2", "shop/12/3"]


def test_rows_that_fit_no_shipped_mapping_ask_for_one(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"question": 1, "answer": 2}\n')
    (failure,) = parse(tmp_path / "rows.jsonl", ImportOptions())
    assert isinstance(failure, ParseFailure)
    assert "needs a mapping file: its first row has answer, question" in failure.reason


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[trajectory]\nsource_id = 'a'\ntask_id = 'b'\n", "trajectory.environment: Field required"),
        (MAPPING.replace('agent = { value = "scripted" }', 'agent = { valeu = "x" }'), "trajectory.agent"),
        (MAPPING.replace('agent = { value = "scripted" }', 'agent = { path = "a", value = 1 }'), "exactly one of"),
        (MAPPING.replace("reasoning =", "thinking ="), "trajectory.steps.thinking"),
        (MAPPING.replace('path = "steps"', 'path = "steps"\nempty = "maybe"'), "trajectory.steps.empty"),
        ("[trajectory\n", "not valid TOML"),
        ("\xff", "not valid TOML"),
        ("x = " + "[" * 5000, "not valid TOML"),
        *(
            (MAPPING.replace('agent = { value = "scripted" }', f"agent = {{ {rule} }}"), "quote it")
            for rule in (
                "value = nan",
                "value = 2026-01-01",
                "value = [[inf]]",
                "path = 'a', default = 2026-01-01T00:00:00Z",
            )
        ),
        (MAPPING.replace('big = "model-large"', f"big = {2**64}"), "trajectory.model.map"),
        (MAPPING.replace('big = "model-large"', f"big = {'9' * 5000}"), "not valid TOML"),
        ("[labels.robot]\nsource_id = 'a'\nlabeler = 'b'\ndecision = 'c'\n", "labels.robot"),
    ],
)
def test_a_wrong_mapping_names_the_key(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "map.toml"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(MappingError) as caught:
        load_mapping(path)
    assert words in str(caught.value)
    assert "map.toml" in str(caught.value)


def test_a_missing_mapping_names_those_that_ship(tmp_path: Path) -> None:
    with pytest.raises(MappingError, match="agentrewardbench_dev"):
        load_mapping(tmp_path / "nowhere.toml")


def test_a_wrong_mapping_is_one_failure_per_file_and_no_exception(tmp_path: Path) -> None:
    assert "trajectory.agent" in refused(tmp_path, ROW, MAPPING.replace("{ value =", "{ valeu ="))


def test_a_mapping_for_labels_only_cannot_import_trajectories(tmp_path: Path) -> None:
    mapping = "[labels.human]\nsource_id = 'a'\nlabeler = 'b'\ndecision = 'c'\n"
    assert "no [trajectory] part" in refused(tmp_path, ROW, mapping)


def test_every_shipped_mapping_is_valid_and_can_be_named() -> None:
    assert "agentrewardbench_dev" in shipped_names()
    for name in shipped_names():
        mapping = load_mapping(Path(name))
        assert mapping.title, name
    assert len(list(SHIPPED.iterdir())) == len(shipped_names())


def test_all_rows_of_agentrewardbench_become_trajectories(shared_data: Path) -> None:
    path = shared_data / "agentrewardbench_dev" / "rollouts.jsonl"
    raw = [json.loads(line) for line in path.read_text().splitlines()]
    records = [item for item in parse(path, ImportOptions()) if isinstance(item, TrajectoryRecord)]
    assert len(records) == len(raw) == len({record.source_id for record in records}) == 146
    assert sum(not record.steps_recorded for record in records) == sum(not row["steps"] for row in raw) == 74
    assert Counter(record.verifier.status for record in records) == {
        "pass": sum(row["verifier"]["cum_reward"] == 1 for row in raw),
        "fail": sum(row["verifier"]["cum_reward"] == 0 for row in raw),
        "partial": sum(0 < row["verifier"]["cum_reward"] < 1 for row in raw),
    }
    steps = [(row["steps"], record.steps) for row, record in zip(raw, records, strict=True)]
    assert all(len(mine) == len(theirs) for theirs, mine in steps)
    acted = sum(step["action"] != "None" for row in raw for step in row["steps"])
    assert sum(len(step.actions) for record in records for step in record.steps) == acted
    priced = sum(row["cost_usd"] > 0 for row in raw)
    assert sum(record.usage.cost_usd is not None for record in records) == priced
    assert not [notice for record in records for notice in record.warnings]


SMALL = '[trajectory]\nsource_id = "id"\ntask_id = "id"\nenvironment = { value = "e" }\n'


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ('instruction = { template = "' + "{big}" * 15 + '" }', "the template makes a text of more than 1,048,576"),
        ("[trajectory.steps]\npath = 'steps'\nmessage = { template = '" + "{big}" * 15 + "' }", "more than 1,048,576"),
        ("[trajectory.deliverable]\n" + "".join(f"f{n} = 'big'\n" for n in range(900)), "the files are larger than"),
        (
            "[trajectory.verifier.output]\n" + "".join(f"f{n} = 'big'\n" for n in range(900)),
            "the files are larger than",
        ),
    ],
)
def test_a_mapping_cannot_turn_one_large_field_into_all_the_memory(tmp_path: Path, rules: str, words: str) -> None:
    (tmp_path / "m.toml").write_text(SMALL + rules)
    row = {"id": "a", "big": "x" * 100_000, "steps": [{"big": "x" * 100_000}]}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row))
    tracemalloc.start()
    (failure,) = parse(tmp_path / "rows.jsonl", ImportOptions(mapping=tmp_path / "m.toml"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(failure, ParseFailure)
    assert words in failure.reason
    assert peak < 100 * 2**20


def test_a_template_has_few_places(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(SMALL + 'instruction = { template = "' + "{id}" * 21 + '" }\n')
    with pytest.raises(MappingError, match="at most 20 places"):
        load_mapping(tmp_path / "m.toml")
