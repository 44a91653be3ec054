"""Comma, semicolon and tab separated text: a line for each record, cells addressed as in a spreadsheet.

The first record is row 1, header or not; `at` is the line of the text on which the record begins.
"""

import csv
import io
from typing import Final

from .page import Cell, Page

_DELIMITERS: Final = ",;\t|"
_SAMPLE: Final = 20_000


def read(data: bytes, page: Page) -> None:
    """Write every record; the delimiter is the one of , ; tab | that the first line uses most."""
    text = _decoded(data)
    delimiter = _delimiter(text[:_SAMPLE])
    if delimiter != ",":
        page.note("fields are separated by " + {"\t": "tabs", ";": "semicolons", "|": "bars"}[delimiter])
    csv.field_size_limit(1 << 24)
    records = csv.reader(io.StringIO(text.replace("\r\n", "\n").replace("\r", " "), newline="\n"), delimiter=delimiter)
    row, begins = 0, 1
    for record in records:
        if any(map(str.strip, record)):
            row += 1
            cells = [Cell(f"{_letters(column)}{row}", value) for column, value in enumerate(record, 1) if value]
            page.line(
                f"{cells[0].address}:{cells[-1].address}" if cells[1:] else cells[0].address, "", cells, at=begins
            )
        begins = records.line_num + 1


def _decoded(data: bytes) -> str:
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    return data.decode("utf-8", "backslashreplace")


def _delimiter(sample: str) -> str:
    first = next((line for line in sample.splitlines() if line.strip()), "")
    return max(_DELIMITERS, key=lambda mark: (first.count(mark), sample.count(mark)))


def _letters(column: int) -> str:
    letters = ""
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return letters
