"""Labels made elsewhere, by people or by judges: CSV or JSON rows, keyed by the source id of the trajectory.

Without a mapping file, columns are found by their usual names and decisions by the usual words. A word for "unsure"
is a label of its own, cannot_tell; a word nobody defined is a failure and never a guess. A row that is no clean CSV is
read all the same where it can be, and counted as a repair: a stray quote must not swallow the rows below it.
"""

import csv
import re
from collections import Counter, deque
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
LARGEST_CELL = 131_072
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


def parse_labels(
    path: Path, kind: LabelKind, mapping: Path | None = None, repairs: Repairs | None = None
) -> Iterator[LabelRecord | ParseFailure]:
    """The labels of one file; never raises for what is in the file or the mapping. `repairs` collects the repairs."""
    return unless_all_bad(_parsed(path, kind, mapping, repairs or Repairs()), name=storable_text(path.name))


def _parsed(
    path: Path, kind: LabelKind, mapping: Path | None, repairs: Repairs
) -> Iterator[LabelRecord | ParseFailure]:
    rules: LabelRules | None = None
    for locator, row in _rows(path, repairs):
        if isinstance(row, str):
            yield ParseFailure(locator, row)
            continue
        try:
            rules = rules or _rules(row, kind, mapping)
            yield from _labels(row, rules, kind=kind, locator=locator, repairs=repairs)
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


def _rows(path: Path, repairs: Repairs) -> Iterator[_Located]:
    name = storable_text(path.name)
    if path.suffix.lower() not in SUFFIXES:
        yield from _csv_rows(path, name, repairs)
        return
    for row in rows_of(path, _LIMITS):
        locator = f"{name}#{row.number}" if row.number else name
        if isinstance(row, BadRow):
            yield locator, row.reason
        else:
            yield locator, _object(row, locator, repairs)


def _object(row: Row, locator: str, repairs: Repairs) -> dict[str, Json] | str:
    try:
        return load_object(row.raw, name=locator, repairs=repairs, limits=_LIMITS)
    except UnreadableError as error:
        return str(error)


def _csv_rows(path: Path, name: str, repairs: Repairs) -> Iterator[_Located]:
    try:
        with open_regular(path) as file:
            head = file.readline(_LIMITS.text_bytes + 1)
            file.seek(0)
            if not head.strip(b"\xef\xbb\xbf \t\r\n") or b"\0" in head:
                yield name, "is empty or no CSV file in UTF-8: its first line should name the columns"
                return
            records = _records(_Lines(file, name, repairs), _delimiter(head), name, repairs)
            named, line = next(records)[1], 0
            if isinstance(named, str):
                yield name, named
                return
            header = [column.strip() for column in named]
            if twice := next((column for column, n in Counter(header).items() if column and n > 1), None):
                yield name, f"names the column {twice[:80]!r} more than once: rename or remove what is not meant"
                return
            for line, cells in records:
                yield f"{name}#{line}", cells if isinstance(cells, str) else _named_cells(header, cells)
            if not line:
                yield name, f"has nothing below its first line, which reads {', '.join(header)[:80]!r}"
    except (UnreadableError, OSError) as error:
        yield name, f"stopped there: {error}"


class _Lines:
    """Lines as text, bounded: `csv` would otherwise hold a file without line breaks in memory.

    What a record has taken is kept until it is whole, so that it can be read again line by line.
    """

    def __init__(self, file: BinaryIO, name: str, repairs: Repairs) -> None:
        self._file, self._name, self._repairs = file, name, repairs
        self._again: deque[str] = deque()
        self._number = 0
        self.taken: list[str] = []

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else self._read()
        self.taken.append(line)
        return line

    def first_alone(self) -> str:
        """The first line of the record that is being read; those after it will be read again."""
        first, *rest = self.taken
        self._again.extendleft(reversed(rest))
        self.taken = []
        return first

    def _read(self) -> str:
        raw = self._file.readline(_LIMITS.text_bytes + 1)
        if not raw:
            raise StopIteration
        if len(raw) > _LIMITS.text_bytes:
            raise UnreadableError(f"a line is longer than {_LIMITS.text_bytes:,} bytes")
        self._number += 1
        return _text(raw, f"{self._name}#{self._number}", self._repairs)


def _text(raw: bytes, locator: str, repairs: Repairs) -> str:
    """A line as text: UTF-8, else the Western European bytes that spreadsheets write; both are said."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        repairs.add("not_utf8", locator, "read as Windows-1252")
        text = raw.decode("cp1252", "replace")
    if "\0" in text:
        repairs.add("nul_character", locator)
    return storable_text(text)


def _records(lines: _Lines, mark: str, name: str, repairs: Repairs) -> Iterator[tuple[int, list[str] | str]]:
    """Cells with the number of their last line, or what is wrong with them; the first record is the header.

    A quote that is no CSV (never closed, or closed in the middle of a cell) spoils its own line alone.
    """
    csv.field_size_limit(LARGEST_CELL)  # the whole process has one, and a bundle that was read leaves a larger one
    number = width = 0
    while True:
        try:
            for cells in csv.reader(lines, delimiter=mark, strict=True):
                number += len(lines.taken)
                lines.taken = []
                width = width or len(cells)
                if cells:
                    yield number, cells
            return
        except csv.Error:
            number += 1
            repaired = _one_line(lines.first_alone(), mark, width)
            if not isinstance(repaired, str):
                repairs.add("stray_quote", f"{name}#{number}")
                width = width or len(repaired)
            yield number, repaired


def _one_line(line: str, mark: str, width: int) -> list[str] | str:
    """The cells of a line with a stray quote: the reading that fits the header, or what is wrong with the line."""
    try:
        lenient = next(csv.reader([line], delimiter=mark))
        if len(lenient) == width:
            return lenient
        return [cell.strip().strip('"') for cell in next(csv.reader([line], delimiter=mark, quoting=csv.QUOTE_NONE))]
    except csv.Error as error:
        return f"is no row of a CSV file: {error}"


def _delimiter(head: bytes) -> str:
    return max(",;\t", key=lambda mark: head.count(mark.encode()))


def _named_cells(header: list[str], cells: list[str]) -> dict[str, Json] | str:
    """The cells by column; an empty cell is not recorded."""
    if len(cells) > len(header):
        return f"has {len(cells)} cells where the first line names {len(header)} columns"
    return {column: cell or None for column, cell in zip(header, cells, strict=False)}


def _labels(
    row: Mapping[str, Json], rules: LabelRules, *, kind: LabelKind, locator: str, repairs: Repairs
) -> Iterator[LabelRecord | ParseFailure]:
    prefix = f"labels.{kind}"
    source_id = Fields(row, prefix=prefix, repairs=repairs).needed(rules.source_id, "source_id")
    items = [row] if rules.each is None else as_objects(value_at(row, rules.each), at=rules.each, repairs=repairs)
    for item in items:
        try:
            yield _label(Fields(item, prefix=prefix, repairs=repairs), rules, kind=kind, source_id=source_id)
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
