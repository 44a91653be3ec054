"""Rows of JSON files, wherever the pieces that are read happen to end."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from auditapp.importers import rows
from auditapp.importers.options import Limits
from auditapp.importers.rows import BadRow, Row, rows_of, unless_all_bad
from judges.records import ParseFailure

LEAVES = ['a"b\\', "[{", '}]"', "x" * 50, '\\\\"', "\\", 1, None, "\u00e9\n"]


def value(source: random.Random, depth: int = 0) -> Any:
    kind = source.random()
    if depth > 3 or kind < 0.3:
        return source.choice(LEAVES)
    if kind < 0.6:
        return [value(source, depth + 1) for _ in range(source.randrange(5))]
    return {f'k"{number}': value(source, depth + 1) for number in range(source.randrange(5))}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_rows_are_the_same_wherever_a_piece_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(rows, "_CHUNK", size)
    source = random.Random(size)
    path = tmp_path / "rows.json"
    for _ in range(60):
        wanted = [{"row": value(source)} for _ in range(source.randrange(1, 6))]
        indent = source.choice([None, 2])
        for text in (json.dumps(wanted, indent=indent), "\n".join(json.dumps(row, indent=indent) for row in wanted)):
            path.write_text(text)
            found = list(rows_of(path, Limits()))
            assert [json.loads(row.raw) for row in found if isinstance(row, Row)] == wanted
            assert len(found) == len(wanted)


@pytest.mark.parametrize(
    ("text", "numbers", "words"),
    [
        ("[]", [], ""),
        ("[{}]\n", [1], ""),
        ("[", [], "before its list is closed"),
        ('[{},{"a":', [1], "inside this row"),
        ('[{"a":"b', [], "inside this row"),
        ('{"a":1', [], "inside this row"),
        ("[{}] x", [1], "text after the end"),
        ('{"a":1} x', [1], "text after the end"),
        ("[1,2]", [], "no object but '1,2'"),
        ('[{}, "a", {}]', [1, 2], "no object but '\"a\"'"),
        ("[{}}]", [1], "text after the end"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_once(tmp_path: Path, text: str, numbers: list[int], words: str) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    found = list(rows_of(path, Limits()))
    assert [row.number for row in found if isinstance(row, Row)] == numbers
    reasons = [row.reason for row in found if isinstance(row, BadRow)]
    assert len(reasons) == bool(words)
    assert words in "".join(reasons)


def test_a_row_over_the_limit_costs_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "rows.json"
    path.write_text(json.dumps([{"a": 1}, {"a": "x" * 300_000}, {"a": 2}]))
    first, second, third = rows_of(path, Limits(json_bytes=100_000))
    assert isinstance(first, Row)
    assert second == BadRow(2, "has 300,009 bytes, more than the limit of 100,000")
    assert isinstance(third, Row)


def test_many_bad_rows_and_no_good_one_are_one_failure() -> None:
    bad = [ParseFailure(f"f#{number}", "no row") for number in range(1, 1000)]
    (failure,) = unless_all_bad(iter(bad), name="f")
    assert failure == ParseFailure("f", "none of its first 20 rows can be used; the first one: no row")
    assert list(unless_all_bad(bad[:3], name="f")) == bad[:3]
    assert list(unless_all_bad([*bad[:3], "good", *bad], name="f")) == [*bad[:3], "good", *bad]
