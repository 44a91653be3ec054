"""A rendered document as HTML: tables with the letters and numbers of their cells, pages and cells with their lines.

Each place carries its address, the one that citations use. All text is escaped; nothing here emits a link or a style.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from auditapp.templatetags.textlines import Span
from judges.display import clip_line
from judges.documents import Cell, Line, column_of

MOST_COLUMNS = 80
MOST_PLACES = 20_000
_NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:[eE][-+]?\d+)?%?")


@dataclass(frozen=True, slots=True)
class Marked:
    """What is cited: lines by their numbers, or one cell of one line."""

    lines: Span | None = None
    cell: str = ""

    def line(self, line: Line) -> bool:
        return self.lines is not None and self.lines.first <= line.at <= self.lines.last

    def anchors(self, line: Line) -> bool:
        """Whether the page scrolls to this line: the first of those cited."""
        return not self.cell and self.lines is not None and self.lines.first == line.at


NOTHING = Marked()


def document_html(lines: Sequence[Line], *, marked: Marked = NOTHING) -> SafeString:
    """Lines of a rendering in their parts, which are sheets, tables, pages or cells."""
    parts = groupby(lines, key=lambda line: (line.section, bool(line.cells)))
    html = (_part(section, list(members), marked) for (section, _), members in parts)
    return mark_safe("".join(html))  # noqa: S308  (each piece is escaped)


def _part(section: str, lines: Sequence[Line], marked: Marked) -> str:
    head = f"<h3>{escape(section)}</h3>" if section else ""
    columns = sorted({column_of(cell.address)[0] for line in lines for cell in line.cells})
    if columns and columns[0] and len(columns) <= MOST_COLUMNS and len(columns) * len(lines) <= MOST_PLACES:
        return head + _table(section, lines, columns, marked)
    rows = "".join(_line(section, line, marked) for line in lines)
    return f'{head}<div class="lines {"numbered" if section else "addressed"}">{rows}</div>'


def _line(section: str, line: Line, marked: Marked) -> str:
    cited = marked.line(line)
    label = line.address.rpartition(" ")[2] if section and not line.cells else line.address
    text = escape(clip_line(line.text if line.cells else line.plain))
    classes = "l cited" if cited else "l"
    anchor = ' id="cite"' if cited and (marked.anchors(line) or marked.cell) else ""
    place = f'data-n="{escape(label)}" data-at="{escape(line.address)}" data-line="{line.at}"'
    return f'<div class="{classes}" {place}{anchor}>{text}</div>'


def _table(section: str, lines: Sequence[Line], columns: Sequence[int], marked: Marked) -> str:
    heads = "".join(f'<th scope="col">{_letters(column)}</th>' for column in columns)
    rows = "".join(_row(section, line, columns, marked) for line in lines)
    label = escape(section or "table")
    return (
        f'<div class="grid-scroll" tabindex="0" role="region" aria-label="{label}"><table class="grid">'
        f"<thead><tr><td></td>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(section: str, line: Line, columns: Sequence[int], marked: Marked) -> str:
    cells = {column_of(cell.address)[0]: cell for cell in line.cells}
    number = column_of(line.cells[0].address)[1]
    whole = marked.line(line) and not marked.cell
    anchor = ' id="cite"' if marked.anchors(line) else ""
    shown = "".join(_cell(section, line, cells.get(column), marked) for column in columns)
    classes = ' class="cited"' if whole else ""
    opening = f'<tr data-line="{line.at}"{classes}{anchor}>'
    return f'{opening}<th scope="row">{number}</th>{shown}</tr>'


def _cell(section: str, line: Line, cell: Cell | None, marked: Marked) -> str:
    if cell is None:
        return "<td></td>"
    cited = cell.address == marked.cell and marked.line(line)
    names = [name for name, on in (("num", _NUMBER.fullmatch(cell.value)), ("cited", cited)) if on]
    classes = f' class="{" ".join(names)}"' if names else ""
    anchor = ' id="cite"' if cited else ""
    address = escape(f"{section}!{cell.address}" if section else cell.address)
    return f'<td data-at="{address}"{classes}{anchor}>{"".join(_content(cell))}</td>'


def _content(cell: Cell) -> Iterator[str]:
    yield escape(clip_line(cell.value))
    if cell.formula:
        yield f"<code>{escape(clip_line(cell.formula))}</code>"


def _letters(column: int) -> str:
    letters = ""
    while column:
        column, rest = divmod(column - 1, 26)
        letters = chr(65 + rest) + letters
    return letters
