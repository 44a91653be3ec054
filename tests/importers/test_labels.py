"""Labels made elsewhere: CSV and JSON rows, unsure kept as a label of its own, words nobody knows refused."""

import csv
import json
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from auditapp.importers.jsonl import parse
from auditapp.importers.labels import parse_labels
from auditapp.importers.lenient import Repairs
from auditapp.importers.options import ImportOptions
from judges.records import LabelRecord, ParseFailure, TrajectoryRecord


def labels(tmp_path: Path, text: str | bytes, name: str = "labels.csv") -> list[LabelRecord | ParseFailure]:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(parse_labels(path, "human"))


def test_a_csv_with_the_usual_columns_is_read_without_a_mapping(tmp_path: Path) -> None:
    text = (
        "source_id,reviewer,decision,integrity,tags,reason,created_at\r\n"
        'a/1,ann,satisfied,none,"B01, B07",fine,2026-01-02\r\n'
        'a/2,bob,Unsuccessful,hacked,,"two\nlines",\r\n'
        "a/3,bob,not sure,,,,\r\n"
    )
    first, second, third = labels(tmp_path, text)
    assert first == LabelRecord("a/1", "human", "ann", "satisfied", "none", ("B01", "B07"), "fine", "2026-01-02")
    assert second == LabelRecord("a/2", "human", "bob", "not_satisfied", "hacked", (), "two\nlines", None)
    assert third == ParseFailure(
        "labels.csv#5",
        "decision: 'not sure' is none of satisfied, not_satisfied, cannot_tell; a mapping file can say which it is",
    )


@pytest.mark.parametrize(
    ("word", "decision"),
    [
        ("Unsure", "cannot_tell"),
        ("cannot tell", "cannot_tell"),
        ("unknown", "cannot_tell"),
        ("1", "satisfied"),
        ("FALSE", "not_satisfied"),
        ("not-satisfied", "not_satisfied"),
    ],
)
def test_words_have_the_meaning_people_give_them(tmp_path: Path, word: str, decision: str) -> None:
    (label,) = labels(tmp_path, f"source_id,decision\na,{word}\n")
    assert isinstance(label, LabelRecord)
    assert (label.decision, label.labeler, label.integrity) == (decision, "unnamed", None)


def test_a_label_without_a_decision_is_a_failure_and_no_decision(tmp_path: Path) -> None:
    (failure,) = labels(tmp_path, "source_id,decision\na,\n")
    assert failure == ParseFailure("labels.csv#2", "labels.human.decision: nothing is recorded at 'decision'")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("\n\n", "empty"),
        (b"\0" * 100, "no CSV"),
        ("source_id,when\na,1\n", "needs the columns source_id and decision"),
        ("source_id,decision, decision\na,yes,no\n", "names the column 'decision' more than once"),
        ("source_id,decision\na,yes,extra\n", "has 3 cells where the first line names 2"),
        ('source_id,decision\na,"' + "x" * 200_000 + '"\n', "field limit"),
    ],
)
def test_what_is_no_table_of_labels_says_so(
    tmp_path: Path, text: str | bytes, words: str, request: pytest.FixtureRequest
) -> None:
    """Whatever limit of a cell another reader has left in the process."""
    request.addfinalizer(partial(csv.field_size_limit, csv.field_size_limit(10_000_000)))
    (failure,) = labels(tmp_path, text)
    assert isinstance(failure, ParseFailure)
    assert words in failure.reason


def test_columns_without_a_name_may_be_many(tmp_path: Path) -> None:
    (label,) = labels(tmp_path, "source_id,decision,,\na,yes,,\n")
    assert isinstance(label, LabelRecord)


def read(tmp_path: Path, raw: bytes) -> tuple[list[str], dict[str, int]]:
    """Source id, decision and note of each row, or what is wrong with it; and the repairs."""
    path, repairs = tmp_path / "l.csv", Repairs()
    path.write_bytes(b"source_id,note,decision\n" + raw)
    rows = parse_labels(path, "human", None, repairs)
    shown = [
        f"{row.source_id} {row.decision} {row.note}" if isinstance(row, LabelRecord) else row.reason for row in rows
    ]
    return shown, repairs.counts()


@pytest.mark.parametrize(
    ("line", "shown", "code"),
    [
        (b'b,"never closed,no', "b not_satisfied never closed", "stray_quote"),
        (b'b,"closed" too soon,no', "b not_satisfied closed too soon", "stray_quote"),
        (b'b,"one, two" and more,no', "b not_satisfied one, two and more", "stray_quote"),
        (b'"b,x,no', "b not_satisfied x", "stray_quote"),
        ("b,caf\u00e9 \u2026,no".encode("cp1252"), "b not_satisfied caf\u00e9 \u2026", "not_utf8"),
        (b"b,x\0y,no", "b not_satisfied x\u2400y", "nul_character"),
    ],
)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_row_that_is_no_clean_csv_is_read_and_counted_and_spoils_no_other(
    tmp_path: Path, line: bytes, shown: str, code: str, end: bytes
) -> None:
    rows = [b"a,fine,yes", line, b'c,"two\nlines, and ""more""",yes', b"d,fine,yes", line.replace(b"b,", b"e,", 1)]
    found, counts = read(tmp_path, end.join(rows))
    quoted = 'c satisfied two\nlines, and "more"'
    assert found == ["a satisfied fine", shown, quoted, "d satisfied fine", shown.replace("b ", "e ", 1)]
    assert counts == {code: 2}


def test_clean_rows_count_no_repair(tmp_path: Path) -> None:
    found, counts = read(tmp_path, 'a,5" disk,yes\nb,"caf\u00e9",no\n'.encode())
    assert (found, counts) == (['a satisfied 5" disk', "b not_satisfied caf\u00e9"], {})


def test_a_quote_in_every_line_costs_time_in_proportion(tmp_path: Path) -> None:
    def seconds(count: int) -> float:
        began = time.process_time()
        rows, counts = read(tmp_path, b"".join(b'%d,"never closed,yes\n' % number for number in range(count)))
        assert (len(rows), counts) == (count, {"stray_quote": count})
        return time.process_time() - began

    assert seconds(20_000) < 40 * max(seconds(2_000), 0.005)


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_the_delimiter_and_the_byte_order_mark_do_not_matter(tmp_path: Path, mark: str) -> None:
    text = f"\ufeffsource_id{mark}decision{mark}note\na{mark}yes{mark}caf\u00e9\n"
    (label,) = labels(tmp_path, text)
    assert isinstance(label, LabelRecord)
    assert (label.source_id, label.note) == ("a", "caf\u00e9")


def test_json_rows_need_no_mapping_where_their_names_are_usual(tmp_path: Path) -> None:
    rows = '{"source_id": "a", "decision": true, "tags": ["B01"]}\n{broken\n{"source_id": "b", "decision": "no"}\n'
    first, failure, second = labels(tmp_path, rows, "l.jsonl")
    assert isinstance(first, LabelRecord)
    assert (first.decision, first.tags) == ("satisfied", ("B01",))
    assert isinstance(failure, ParseFailure)
    assert failure.path == "l.jsonl#2"
    assert isinstance(second, LabelRecord)


def test_a_mapping_says_where_labels_are_and_what_their_words_mean(tmp_path: Path) -> None:
    mapping = tmp_path / "map.toml"
    mapping.write_text(
        "[labels.judge]\n"
        'each = "votes"\n'
        'source_id = "id"\n'
        'labeler = { template = "{who} {version}" }\n'
        'decision = { path = "vote", map = { up = "satisfied", down = "not_satisfied", "-" = "cannot_tell" } }\n'
        'tag_if = { B07 = "loops" }\n'
    )
    path = tmp_path / "votes.jsonl"
    votes = [{"who": "j", "version": 2, "vote": "up", "loops": True}, {"who": "k", "version": 1, "vote": "sideways"}]
    path.write_text(json.dumps({"id": "a", "votes": votes}) + '\n{"id": "b", "votes": []}\n')
    label, failure = parse_labels(path, "judge", mapping)
    assert label == LabelRecord("a", "judge", "j 2", "satisfied", None, ("B07",))
    assert failure == ParseFailure(
        "votes.jsonl#1", "labels.judge.decision: the value 'sideways' is not in its map (which has -, down, up)"
    )
    (wrong,) = parse_labels(path, "human", mapping)
    assert isinstance(wrong, ParseFailure)
    assert "no [labels.human] part" in wrong.reason


def test_a_missing_file_or_mapping_is_one_failure(tmp_path: Path) -> None:
    (failure,) = parse_labels(tmp_path / "nowhere.csv", "human")
    assert isinstance(failure, ParseFailure)
    assert "No such file" in failure.reason
    (tmp_path / "l.csv").write_text("source_id,decision\na,yes\nb,yes\n")
    (failure,) = parse_labels(tmp_path / "l.csv", "human", tmp_path / "nowhere.toml")
    assert isinstance(failure, ParseFailure)
    assert "nowhere.toml" in failure.reason


def test_human_against_verifier_equals_the_table_computed_from_the_raw_file(shared_data: Path) -> None:
    path = shared_data / "agentrewardbench_dev" / "rollouts.jsonl"
    status = {
        record.source_id: record.verifier.status
        for record in parse(path, ImportOptions())
        if isinstance(record, TrajectoryRecord)
    }
    human = list(parse_labels(path, "human"))
    table = Counter((label.decision, status[label.source_id]) for label in human if isinstance(label, LabelRecord))

    raw: Counter[tuple[str, str]] = Counter()
    word = {"Successful": "satisfied", "Unsuccessful": "not_satisfied", "Unsure": "cannot_tell"}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        reward = row["verifier"]["cum_reward"]
        verdict = "pass" if reward == 1 else "fail" if reward == 0 else "partial"
        for label in row["human"]:
            raw[word[label["success"]], verdict] += 1

    assert len(human) == 162
    assert table == raw
    assert table["satisfied", "fail"] == 20  # right work that the benchmark failed
    assert table["not_satisfied", "pass"] == 4


def test_all_judge_labels_of_agentrewardbench_match_a_trajectory(shared_data: Path) -> None:
    folder = shared_data / "agentrewardbench_dev"
    known = {record.source_id for record in parse(folder / "rollouts.jsonl", ImportOptions())}  # type: ignore[union-attr]
    judged = list(parse_labels(folder / "judgments.jsonl", "judge"))
    assert len(judged) == 236
    assert all(isinstance(label, LabelRecord) and label.source_id in known for label in judged)
    raw = Counter(json.loads(line)["status"] for line in (folder / "judgments.jsonl").read_text().splitlines())
    read = Counter(label.decision for label in judged if isinstance(label, LabelRecord))
    assert read == {"satisfied": raw["success"], "not_satisfied": raw["failure"]}
