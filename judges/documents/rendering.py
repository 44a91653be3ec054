"""A document as lines with addresses: what judge and reviewer see of it, and what citations point into.

Texts are displayed texts (see `judges.display`). Marks in ⟦ ⟧ are ours and cannot be written by a document.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import orjson

from judges.artifacts import Artifact
from judges.display import display_text
from judges.documents.kinds import KINDS, Kind

Json = Any
_CELL: Final = re.compile(r"([A-Z]{1,3})([1-9][0-9]{0,6})")
_MOST_ITEMS: Final = 30_000


class Cell(NamedTuple):
    """A cell by its short address, B7, with its displayed value; `formula` is empty where it has none."""

    address: str
    value: str
    formula: str = ""

    @property
    def text(self) -> str:
        """Value and formula on one line."""
        return f"{self.value} ⟦formula⟧ {self.formula}" if self.formula else self.value


class Line(NamedTuple):
    """One line; `at` is its 1-based number in what citations count, `address` the place in the document's own terms.

    A row of a table has cells instead of a text of its own, and the range from its first to its last cell as address.
    """

    address: str
    plain: str
    cells: tuple[Cell, ...]
    at: int

    @property
    def text(self) -> str:
        """What is displayed and can be quoted."""
        if not self.cells:
            return f"⟦{self.address}⟧ {self.plain}"
        marks = [self.address.rpartition(":")[0] or self.address, *(cell.address for cell in self.cells[1:])]
        return "  ".join(f"⟦{mark}⟧ {cell.text}" for mark, cell in zip(marks, self.cells, strict=True))

    @property
    def section(self) -> str:
        """What the line is part of: a sheet, a table, a page, a notebook's cell; empty where there is none."""
        if self.cells:
            return self.address.rpartition("!")[0]
        words = self.address.split(" ")
        return " ".join(words[:-2]) if words[-2:-1] == ["line"] else ""


@dataclass(frozen=True)
class Rendered:
    """A document in full, or as much as is shown of it: `complete` is false where something in it was not read.

    `ended` is false where its reader was stopped or broke off, and might come further another time.
    """

    kind: Kind
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    complete: bool = True
    ended: bool = True
    _places: dict[str, tuple[Line, Cell | None]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_text(self) -> bool:
        """Tables in plain text are read and cited line by line as they are; their cells have addresses beside that."""
        return self.kind in ("csv", "tsv")

    @cached_property
    def shown(self) -> tuple[str, ...]:
        """The displayed lines that citations count."""
        return tuple(line.text for line in self.lines)

    def artifact(self) -> Artifact:
        """The rendering as a text to be quoted."""
        return Artifact.of_lines(self.shown)

    def find(self, address: str) -> tuple[Line, Cell | None] | None:
        """The line of an address, and the cell where it names one; None where there is no such place, or several."""
        if not self._places:
            self._places.update(self._all_places())
        return self._places.get(_key(address))

    def _all_places(self) -> Iterator[tuple[str, tuple[Line, Cell | None]]]:
        several = len({line.section for line in self.lines if line.cells}) > 1
        for line in self.lines:
            yield _key(line.address), (line, None)
            for cell in line.cells:
                if line.section:
                    yield _key(f"{line.section}!{cell.address}"), (line, cell)
                if not several:
                    yield _key(cell.address), (line, cell)


def _key(address: str) -> str:
    """Addresses as people write them: 'My Sheet'!$B$7, Page 3, Line 12."""
    sheet, mark, cell = address.rpartition("!")
    plain = cell.replace("$", "")
    if sheet.startswith("'") and sheet.endswith("'") and len(sheet) > 2:
        sheet = sheet[1:-1].replace("''", "'")
    return " ".join(f"{sheet}{mark}{plain}".replace(",", " ").lower().split())


def column_of(address: str) -> tuple[int, int]:
    """Column and row of a cell's short address, 1-based; (0, 0) where it is none."""
    found = _CELL.fullmatch(address)
    if found is None:
        return 0, 0
    column = 0
    for letter in found[1]:
        column = column * 26 + ord(letter) - 64
    return column, int(found[2])


# --- from the untrusted output of the confined reader, and to storage


def from_output(kind: Kind, output: str, *, why: str) -> Rendered:
    """The rendering of what a reader printed; `why` says what ended it where it did not end by itself."""
    rows = [row for line in output.split("\n")[:_MOST_ITEMS] if (row := _row(line)) is not None]
    lines = [_line(*row[1:]) for row in rows if row[0] == "line" and _is_line(row)]
    notes = [_one_line(row[1]) for row in rows if row[0] == "note" and len(row) == 2 and isinstance(row[1], str)]
    ended = rows[-1:] == [["end"]]
    if not ended:
        notes.append(f"not read to its end: {why or 'it takes too much time, or its reader broke off'}")
    numbered = [line if line.at else line._replace(at=number) for number, line in enumerate(lines, 1)]
    complete = ended and not any(row == ["part"] for row in rows)
    return Rendered(kind, tuple(numbered), tuple(notes), complete, ended)


def _row(line: str) -> list[Json] | None:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None  # a kill cut it
    return row if isinstance(row, list) and row and isinstance(row[0], str) else None


def _is_line(row: list[Json]) -> bool:
    if len(row) != 5 or not isinstance(row[1], str) or not isinstance(row[2], str) or not isinstance(row[4], int):
        return False
    cells = row[3]
    return isinstance(cells, list) and all(
        isinstance(cell, list) and len(cell) == 3 and all(isinstance(part, str) for part in cell) for cell in cells
    )


def _line(address: str, text: str, cells: Sequence[Sequence[str]], at: int) -> Line:
    shown = tuple(Cell(_address(name), _one_line(value), _one_line(formula)) for name, value, formula in cells)
    return Line(_address(address), _one_line(text), shown, at)


def _one_line(text: str) -> str:
    """Displayed on one line: a line break within a cell or a paragraph is a visible mark."""
    return display_text(text.replace("\r\n", "\n")).replace("\n", "⏎").replace("\t", " ⇥ ").strip()


def _address(name: str) -> str:
    return _one_line(name).replace("⟧", "⟨U+27E7⟩")


def to_json(rendered: Rendered) -> bytes:
    """For storage."""
    lines = [[line.address, line.plain, [list(cell) for cell in line.cells], line.at] for line in rendered.lines]
    return orjson.dumps([rendered.kind, lines, list(rendered.notes), rendered.complete])


def from_json(data: bytes) -> Rendered:
    """Inverse of `to_json`."""
    kind, lines, notes, complete = orjson.loads(data)
    if kind not in KINDS:
        raise ValueError(f"{kind!r} is no kind of document")
    read = (Line(address, text, tuple(Cell(*cell) for cell in cells), at) for address, text, cells, at in lines)
    return Rendered(kind, tuple(read), tuple(notes), complete)
