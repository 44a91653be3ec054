"""What a reader writes to: bounded lines, each with its address, and notes on what is not among them."""

import json
from collections.abc import Sequence
from typing import IO, Any, Final, NamedTuple

MOST_LINES: Final = 20_000
MOST_CELLS: Final = 40_000
MOST_CHARACTERS: Final = 2_000_000
MOST_IN_ONE: Final = 20_000
MOST_NOTES: Final = 60


class Full(Exception):
    """As much was written as is shown of one document."""


class Unreadable(Exception):
    """The document cannot be read; the message says why."""


class Cell(NamedTuple):
    """One cell of a table by its short address, such as B7; `formula` is empty where it holds none."""

    address: str
    value: str
    formula: str = ""


class Page:
    """Bounded output. Blank lines are left out and, by all readers, not counted."""

    def __init__(self, out: IO[str]) -> None:
        self._out = out
        self._lines = self._cells = self._characters = self._notes = 0

    def line(self, address: str, text: str, cells: Sequence[Cell] = (), *, at: int = 0) -> None:
        """One line; Full once the document is longer than what is shown. `at` is the line of the text it stands in."""
        size = len(text) + sum(len(cell.value) + len(cell.formula) for cell in cells)
        self._lines, self._cells = self._lines + 1, self._cells + len(cells)
        if self._lines > MOST_LINES or self._cells > MOST_CELLS or self._characters > MOST_CHARACTERS:
            self.note(f"it is longer than what is shown: nothing after {address} was read")
            self.partial()
            raise Full
        self._characters += min(size, MOST_IN_ONE)
        rows = [[cell.address, self._cut(cell.value), self._cut(cell.formula)] for cell in cells]
        self._write("line", address, self._cut(text), rows, at)

    def row(self, table: str, cells: Sequence[Cell], *, at: int = 0) -> None:
        """One row of a table by the range of its cells, as Sheet1!A7:C7; `table` is empty in a file of one table."""
        first, last = cells[0].address, cells[-1].address
        name = f"{table}!" if table else ""
        self.line(f"{name}{first}:{last}" if cells[1:] else f"{name}{first}", "", cells, at=at)

    def lines(self, prefix: str, text: str) -> None:
        """The lines of a text that are not blank, as `prefix` 1, `prefix` 2 and so on."""
        for number, line in enumerate(filter(str.strip, text.splitlines()), 1):
            self.line(f"{prefix} {number}", line)

    def note(self, text: str) -> None:
        """Something about the document that is no line of it."""
        self._notes += 1
        if self._notes <= MOST_NOTES:
            self._write("note", text[:600])

    def partial(self) -> None:
        """Something of the document is not shown: nothing can be absent from it."""
        self._write("part")

    def fail(self, reason: str) -> None:
        """The document, or the rest of it, cannot be read."""
        self.note(f"not read: {reason}")
        self.partial()

    def end(self) -> None:
        """Everything that is shown has been written."""
        self._write("end")

    def _cut(self, text: str) -> str:
        if len(text) <= MOST_IN_ONE:
            return text
        self.partial()
        return f"{text[:MOST_IN_ONE]} [{len(text) - MOST_IN_ONE} more characters]"

    def _write(self, *item: Any) -> None:
        self._out.write(json.dumps(item) + "\n")
        self._out.flush()
