"""Word files: paragraphs, tables, headers, footers, notes and comments. Read as if all tracked changes were accepted.

What tracked changes deleted has lines of its own, so that nothing is lost and nothing deleted reads as if it stood.
"""

from collections.abc import Iterator
from typing import Any, Final

from .page import Cell, Page, Unreadable
from .zipped import Package, attribute, local

Element = Any
_TEXT: Final = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_SKIPPED: Final = frozenset({"Fallback", "instrText", "del", "moveFrom", "rPr", "pPr"})
_PARTS: Final = ("header", "footer", "footnotes", "endnotes")


def read(data: bytes, page: Page) -> None:
    """Write the body, then what stands outside of it."""
    package = Package(data)
    root = package.xml("word/document.xml")
    body = next((element for element in root if local(element) == "body"), None) if root is not None else None
    if body is None:
        raise Unreadable("it has no document part")
    package.remark(page, "word")
    _changes(root, page)
    _Story(page).write(body)
    for kind in _PARTS:
        for number, name in enumerate(package.named(f"word/{kind}"), 1):
            prefix = f"{kind} {number} " if kind in ("header", "footer") else f"{kind} "
            _Story(page, prefix).write(package.xml(name))
    _comments(package, page)


def _changes(root: Element, page: Page) -> None:
    kinds = {"ins": 0, "del": 0, "vanish": 0}
    for element in root.iter():
        if (kind := local(element)) in kinds:
            kinds[kind] += 1
    if kinds["ins"] or kinds["del"]:
        page.note(
            f"tracked changes: {kinds['ins']} insertions, {kinds['del']} deletions; shown as if all were accepted, "
            "deleted text on lines of its own"
        )
    if kinds["vanish"]:
        page.note("some text is formatted as hidden; it is shown here")


class _Story:
    """One run of paragraphs and tables with numbers of their own; paragraphs without text are not counted."""

    def __init__(self, page: Page, prefix: str = "") -> None:
        self._page = page
        self._prefix = prefix
        self._paragraphs = self._tables = self._images = 0

    def write(self, parent: Element) -> None:
        for element in parent:
            kind = local(element)
            if kind == "p":
                self._paragraph(element)
            elif kind == "tbl":
                self._table(element)
            elif kind not in _SKIPPED:
                self.write(element)

    def _paragraph(self, element: Element) -> None:
        text, deleted = _joined(element), _deleted(element)
        if text.strip() or deleted.strip():
            self._paragraphs += 1
            address = f"{self._prefix}para {self._paragraphs}"
            if text.strip():
                self._page.line(address, text.strip("\n"))
            if deleted.strip():
                self._page.line(f"{address} deleted", deleted)
        self._pictures(element)

    def _table(self, element: Element) -> None:
        self._tables += 1
        name = f"{self._prefix}table {self._tables}"
        for row, cells in enumerate(_grid(element), 1):
            shown = [Cell(f"{_letter(column)}{row}", text) for column, text in enumerate(cells) if text.strip()]
            if shown:
                self._page.row(name, shown)
        self._pictures(element)

    def _pictures(self, element: Element) -> None:
        for item in element.iter():
            if local(item) == "docPr":
                self._images += 1
                words = attribute(item, "descr") or attribute(item, "title")
                self._page.line(f"{self._prefix}image {self._images}", f"alt text: {words}" if words else "no alt text")


def _joined(element: Element) -> str:
    return "".join(_pieces(element))


def _pieces(element: Element) -> Iterator[str]:
    for child in element:
        kind = local(child)
        if kind == "t":
            yield child.text or ""
        elif kind in _TEXT:
            yield _TEXT[kind]
        elif kind in ("footnoteReference", "endnoteReference"):
            yield f"[note {attribute(child, 'id')}]"
        elif kind not in _SKIPPED:
            yield from _pieces(child)
            if kind == "p":
                yield "\n"


def _deleted(element: Element) -> str:
    return "".join(item.text or "" for item in element.iter() if local(item) == "delText")


def _grid(table: Element) -> Iterator[list[str]]:
    """The cells of each row; a cell that spans columns is followed by empty ones, so that letters are columns."""
    for row in table:
        if local(row) == "tr":
            cells = list[str]()
            for cell in row:
                if local(cell) == "tc":
                    spans = [attribute(item, "val") for item in cell.iter() if local(item) == "gridSpan"]
                    width = int(spans[0]) if spans and spans[0].isdigit() else 1
                    cells += [_joined(cell).strip(), *[""] * (min(width, 64) - 1)]
            yield cells


def _letter(column: int) -> str:
    return chr(65 + column) if column < 26 else _letter(column // 26 - 1) + chr(65 + column % 26)


def _comments(package: Package, page: Page) -> None:
    root = package.xml("word/comments.xml")
    for number, element in enumerate(root if root is not None else (), 1):
        author = attribute(element, "author")
        page.line(f"comment {number}", f"{author}: {_joined(element).strip()}" if author else _joined(element).strip())
