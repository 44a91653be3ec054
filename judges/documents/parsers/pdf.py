"""PDF: the text of each page by its lines, form fields and comments; pages without text are said."""

import io
import logging
from typing import Any, Final

from pypdf import PasswordType, PdfReader
from pypdf.errors import DependencyError, PyPdfError

from .page import Page, Unreadable

MOST_PAGES: Final = 300
_SCRIPTS: Final = (b"/JavaScript", b"/Launch", b"/EmbeddedFile")


def read(data: bytes, page: Page) -> None:
    """Write the pages in order."""
    logging.disable()
    reader = _opened(data, page)
    count = len(reader.pages)
    for found in (name.decode() for name in _SCRIPTS if name in data):
        page.note(f"it holds {found}: never run, not shown")
    without, damaged = list[int](), list[int]()
    for number, leaf in enumerate(reader.pages[:MOST_PAGES], 1):
        text = _text(leaf)
        page.lines(f"page {number} line", text or "")
        _comments(leaf, number, page)
        if not (text or "").strip():
            (damaged if text is None else without).append(number)
    if count > MOST_PAGES:
        page.note(f"it has {count} pages; the first {MOST_PAGES} are shown")
        page.partial()
    _say(page, without, "no text on page", "it is a picture, or drawn: not read")
    _say(page, damaged, "not read: page", "it is damaged")
    _fields(reader, page)


def _opened(data: bytes, page: Page) -> PdfReader:
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted:
            if reader.decrypt("") == PasswordType.NOT_DECRYPTED:
                raise Unreadable("it is encrypted and needs a password")
            page.note("it is encrypted, with an empty password")
    except DependencyError as error:
        raise Unreadable("it is encrypted") from error
    except PyPdfError as error:
        raise Unreadable("the PDF is damaged") from error
    return reader


def _text(leaf: Any) -> str | None:
    """The text of one page, None where it cannot be read; other pages still can."""
    try:
        return str(leaf.extract_text())
    except MemoryError:
        raise
    except Exception:
        return None


def _comments(leaf: Any, number: int, page: Page) -> None:
    try:
        found = [str(item.get_object().get("/Contents", "")) for item in leaf.get("/Annots") or ()]
    except (PyPdfError, AttributeError, TypeError):
        return
    for index, text in enumerate(filter(str.strip, found), 1):
        page.line(f"page {number} comment {index}", " ".join(text.split()))


def _fields(reader: PdfReader, page: Page) -> None:
    try:
        fields = reader.get_form_text_fields() or {}
    except (PyPdfError, AttributeError, TypeError):
        return
    for index, (name, value) in enumerate(fields.items(), 1):
        page.line(f"field {index}", f"{name}: {'' if value is None else value}")


def _say(page: Page, numbers: list[int], what: str, why: str) -> None:
    if numbers:
        shown = ", ".join(map(str, numbers[:20])) + (" and more" if len(numbers) > 20 else "")
        page.note(f"{what}{'s' if len(numbers) > 1 else ''} {shown}: {why}")
        page.partial()
