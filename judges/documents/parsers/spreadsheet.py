"""Workbooks: a line for each row, with values, and formulas where they differ; what is hidden or merged is said."""

import datetime
import io
from collections.abc import Iterable, Iterator
from typing import Any, Final

import openpyxl
from openpyxl.utils import get_column_letter
from openpyxl.worksheet._read_only import ReadOnlyWorksheet

from .page import Cell, Full, Page
from .zipped import Package, attribute, local, relations

Workbook = Any
MOST_PLACES: Final = 3_000_000
MOST_LAYOUT: Final = 12 << 20
_SHOWN_PLACES: Final = 20


def read(data: bytes, page: Page) -> None:
    """Write all sheets in order."""
    # What a sheet says of its size is not believed, and looking for it would read a sheet that says nothing to its end.
    ReadOnlyWorksheet._get_size = lambda _: None
    package = Package(data)
    package.remark(page, "xl")
    parts = _sheet_parts(package)
    values, formulas = _open(data, values=True), _open(data, values=False)
    scanned = [MOST_PLACES]
    for name in values.sheetnames:
        sheet = values[name]
        if not isinstance(sheet, ReadOnlyWorksheet):
            page.note(f"sheet {name} is a chart: not shown")
            continue
        if sheet.sheet_state != "visible":
            page.note(f"sheet {name} is hidden in the workbook; its cells are shown here")
        _layout(package, parts.get(name, ""), name, page)
        if not _rows(name, sheet, formulas[name], page, scanned):
            page.note(f"sheet {name} is empty")


def _open(data: bytes, *, values: bool) -> Workbook:
    return openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=values, keep_links=False)


def _rows(name: str, values: Any, formulas: Any, page: Page, left: list[int]) -> int:
    """Write the rows of one sheet; how many have cells. `left` is how many places may still be looked at."""
    written = 0
    for number, (shown, stored) in enumerate(zip(values.iter_rows(), formulas.iter_rows(), strict=False), 1):
        left[0] -= len(shown) + 1
        if left[0] < 0:
            page.note(f"sheet {name} is wider or longer than what is looked at: nothing from row {number} on was read")
            page.partial()
            raise Full
        if cells := list(_cells(number, shown, stored)):
            written += 1
            page.row(name, cells)
    return written


def _cells(row: int, shown: Iterable[Any], stored: Iterable[Any]) -> Iterator[Cell]:
    for column, (value, source) in enumerate(zip(shown, stored, strict=False), 1):
        formula = _formula(source)
        text = _text(value.value)
        if formula and not text:
            text = "(no value stored)"
        if text or formula:
            yield Cell(f"{get_column_letter(column)}{row}", text, formula)


def _formula(cell: Any) -> str:
    """The formula of a cell; a text that only begins with "=" is none."""
    if cell.value is None or cell.data_type != "f":
        return ""
    return str(getattr(cell.value, "text", cell.value) or "=…")


def _text(value: Any) -> str:
    """The stored value: numbers without a format, dates as in ISO 8601."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime.datetime):
        midnight = value.time() == datetime.time()
        return value.date().isoformat() if midnight else value.isoformat(" ")
    return str(value)


def _sheet_parts(package: Package) -> dict[str, str]:
    """The part of each sheet by the sheet's name."""
    book = package.xml("xl/workbook.xml")
    targets = relations(package, "xl/workbook.xml")
    found = {}
    for element in book.iter() if book is not None else ():
        if local(element) == "sheet":
            found[attribute(element, "name")] = targets.get(attribute(element, "id"), "")
    return found


def _layout(package: Package, part: str, name: str, page: Page) -> None:
    """Notes on merged cells and on rows and columns that are hidden."""
    size = package.sizes.get(part)
    if size is None or size > MOST_LAYOUT:
        page.note(f"sheet {name}: merged and hidden cells were not looked for")
        return
    merged, rows, columns = list[str](), list[str](), list[str]()
    for element in package.events(part):
        kind = local(element)
        if kind == "mergeCell":
            merged.append(attribute(element, "ref"))
        elif kind in ("row", "col") and attribute(element, "hidden") in ("1", "true"):
            rows.append(attribute(element, "r")) if kind == "row" else columns.append(_columns(element))
    for words, found in (("merged cells", merged), ("hidden rows", rows), ("hidden columns", columns)):
        if found:
            more = f" and {len(found) - _SHOWN_PLACES} more" if len(found) > _SHOWN_PLACES else ""
            page.note(f"sheet {name}: {words} {', '.join(found[:_SHOWN_PLACES])}{more}")


def _columns(element: Any) -> str:
    first, last = (int(attribute(element, name) or 1) for name in ("min", "max"))
    letters = [get_column_letter(min(max(number, 1), 16_384)) for number in (first, last)]
    return letters[0] if first == last else ":".join(letters)
