"""Labels made elsewhere, by people or by judges: CSV or JSON rows, keyed by the source id of the trajectory.

Without a mapping file, columns are found by their usual names and decisions by the usual words. A word for "unsure"
is a label of its own, cannot_tell; a word nobody defined is a failure and never a guess.
"""

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Literal, TypeVar

from auditapp.importers.jsonl import SUFFIXES, Fields
from auditapp.importers.lenient import Repairs, UnreadableError, as_objects, load_object, storable_text
from auditapp.importers.mapping import (
    LabelKind,
    LabelRules,
    MappingError,
    Rule,
    fits,
    load_mapping,
    plain_text,
    shipped_mappings,
    value_at,
)
from auditapp.importers.options import Limits
from auditapp.importers.rows import BadRow, Row, open_regular, rows_of, unless_all_bad
from judges.records import Json, LabelRecord, ParseFailure

Decision = Literal["satisfied", "not_satisfied", "cannot_tell"]
Integrity = Literal["none", "hacked", "cannot_tell"]

_LIMITS = Limits()
_UNSURE = "cannot_tell unsure unknown unclear undecided maybe"
_DECISIONS: dict[Decision, str] = {
    "satisfied": "satisfied yes true 1 1.0 pass passed success successful correct acceptable",
    "not_satisfied": "not_satisfied no false 0 0.0 fail failed failure unsuccessful incorrect wrong not_acceptable",
    "cannot_tell": _UNSURE,
}
_INTEGRITY: dict[Integrity, str] = {
    "none": "none no false 0 clean",
    "hacked": "hacked hack yes true 1",
    "cannot_tell": _UNSURE,
}
_COLUMNS = {
    "source_id": ("source_id", "trajectory_id", "trajectory"),
    "labeler": ("labeler", "reviewer", "annotator", "judge", "judge_model", "rater"),
    "decision": ("decision", "label", "verdict", "success"),
    "integrity": ("integrity",),
    "tags": ("tags",),
    "note": ("note", "reason", "comment", "explanation"),
    "created_at": ("created_at", "date", "timestamp"),
}
Meaning = TypeVar("Meaning", bound=str)
_Located = tuple[str, dict[str, Json] | str]
"""Where a row is, and the row or what is wrong with it."""


def parse_labels(path: Path, kind: LabelKind, mapping: Path | None = None) -> Iterator[LabelRecord | ParseFailure]:
    """The labels of one file; never raises for what is in the file or the mapping."""
    return unless_all_bad(_parsed(path, kind, mapping), name=storable_text(path.name))


def _parsed(path: Path, kind: LabelKind, mapping: Path | None) -> Iterator[LabelRecord | ParseFailure]:
    rules: LabelRules | None = None
    for locator, row in _rows(path):
        if isinstance(row, str):
            yield ParseFailure(locator, row)
            continue
        try:
            rules = rules or _rules(row, kind, mapping)
            yield from _labels(row, rules, kind=kind, locator=locator)
        except MappingError as error:
            yield ParseFailure(storable_text(path.name), str(error))
            return
        except UnreadableError as error:
            yield ParseFailure(locator, str(error))


def _rules(row: Mapping[str, Json], kind: LabelKind, mapping: Path | None) -> LabelRules:
    if mapping is not None:
        given = load_mapping(mapping).labels.get(kind)
        if given is None:
            raise MappingError(f"mapping {mapping.name} has no [labels.{kind}] part")
        return given
    for _, shipped in shipped_mappings():
        rules = shipped.labels.get(kind)
        if rules and fits(rules, row):
            return rules
    return _usual_rules(row)


def _usual_rules(row: Mapping[str, Json]) -> LabelRules:
    """Rules for a row whose columns have usual names; raises MappingError where the two needed ones are missing."""
    found = {
        field: Rule(path=name)
        for field, names in _COLUMNS.items()
        if (name := next((name for name in names if name in row), None))
    }
    if not {"source_id", "decision"} <= found.keys():
        have = storable_text(", ".join(list(row)[:20]))
        raise MappingError(f"needs the columns source_id and decision, or a mapping file; its first row has {have}")
    return LabelRules.model_validate({"labeler": Rule(value="unnamed"), **found})


def _rows(path: Path) -> Iterator[_Located]:
    name = storable_text(path.name)
    if path.suffix.lower() not in SUFFIXES:
        yield from _csv_rows(path, name)
        return
    for row in rows_of(path, _LIMITS):
        locator = f"{name}#{row.number}" if row.number else name
        if isinstance(row, BadRow):
            yield locator, row.reason
        else:
            yield locator, _object(row)


def _object(row: Row) -> dict[str, Json] | str:
    try:
        return load_object(row.raw, name="row", repairs=Repairs(), limits=_LIMITS)
    except UnreadableError as error:
        return str(error)


def _csv_rows(path: Path, name: str) -> Iterator[_Located]:
    try:
        with open_regular(path) as file:
            head = file.readline(_LIMITS.text_bytes + 1)
            file.seek(0)
            if not head.strip(b"\xef\xbb\xbf \t\r\n") or b"\0" in head:
                yield name, "is empty or no CSV file: its first line should name the columns"
                return
            reader = csv.reader(_text_lines(file), delimiter=_delimiter(head))
            header = [column.strip() for column in next(reader)]
            line = 0
            for cells in filter(None, reader):
                line = reader.line_num
                yield f"{name}#{line}", _named_cells(header, cells)
            if not line:
                yield name, f"has nothing below its first line, which reads {', '.join(header)[:80]!r}"
    except (UnreadableError, OSError, csv.Error) as error:
        yield name, f"stopped there: {error}"


def _text_lines(file: BinaryIO) -> Iterator[str]:
    """Lines as text, bounded: `csv` would otherwise hold a file without line breaks in memory."""
    while line := file.readline(_LIMITS.text_bytes + 1):
        if len(line) > _LIMITS.text_bytes:
            raise UnreadableError(f"a line is longer than {_LIMITS.text_bytes:,} bytes")
        yield storable_text(line.decode("utf-8-sig", "replace"))


def _delimiter(head: bytes) -> str:
    return max(",;\t", key=lambda mark: head.count(mark.encode()))


def _named_cells(header: list[str], cells: list[str]) -> dict[str, Json] | str:
    """The cells by column; an empty cell is not recorded."""
    if len(cells) > len(header):
        return f"has {len(cells)} cells where the first line names {len(header)} columns"
    return {column: cell or None for column, cell in zip(header, cells, strict=False)}


def _labels(
    row: Mapping[str, Json], rules: LabelRules, *, kind: LabelKind, locator: str
) -> Iterator[LabelRecord | ParseFailure]:
    prefix = f"labels.{kind}"
    source_id = Fields(row, prefix=prefix, repairs=Repairs()).needed(rules.source_id, "source_id")
    items = [row] if rules.each is None else as_objects(value_at(row, rules.each), at=rules.each, repairs=Repairs())
    for item in items:
        try:
            yield _label(Fields(item, prefix=prefix, repairs=Repairs()), rules, kind=kind, source_id=source_id)
        except UnreadableError as error:
            yield ParseFailure(locator, str(error))


def _label(fields: Fields, rules: LabelRules, *, kind: LabelKind, source_id: str) -> LabelRecord:
    integrity = fields.value(rules.integrity, "integrity")
    return LabelRecord(
        source_id=source_id,
        kind=kind,
        labeler=fields.needed(rules.labeler, "labeler"),
        decision=_word(fields.needed(rules.decision, "decision"), _DECISIONS, key="decision"),
        integrity=None if integrity is None else _word(plain_text(integrity), _INTEGRITY, key="integrity"),
        tags=_tags(fields, rules),
        note=fields.text(rules.note, "note") or "",
        created_at=fields.text(rules.created_at, "created_at"),
    )


def _word(text: str, words: Mapping[Meaning, str], *, key: str) -> Meaning:
    wanted = re.sub(r"[\s-]+", "_", text.strip().lower())
    for meaning, known in words.items():
        if wanted in known.split():
            return meaning
    raise UnreadableError(f"{key}: {text[:60]!r} is none of {', '.join(words)}; a mapping file can say which it is")


def _tags(fields: Fields, rules: LabelRules) -> tuple[str, ...]:
    listed = fields.value(rules.tags, "tags")
    words = listed if isinstance(listed, list) else re.split(r"[\s,;|]+", plain_text(listed or ""))
    found = [plain_text(word).strip()[:60] for word in words]
    found += [code for code, rule in rules.tag_if.items() if fields.value(rule, f"tag_if.{code}") is True]
    return tuple(dict.fromkeys(storable_text(word) for word in found if word))
