"""A document of a recorded folder as a reader shows it: what is in it by its addresses, and pictures on demand."""

import re
from dataclasses import dataclass

from django.http import Http404, HttpResponse
from django.utils.safestring import SafeString

from auditapp.documents import documents
from auditapp.templatetags.documents import Marked, document_html
from auditapp.templatetags.textlines import Span
from judges.documents import Kind, Line, Rendered, kind_of, picture_type
from judges.safefs import decode, is_text

TEXTS: tuple[Kind, ...] = ("csv", "tsv", "notebook")
PAGE_ROWS = 400
MOST_PIXELS = 60_000_000
_SIZE = re.compile(r"(\d+) × (\d+)")
_WORDS: dict[Kind, str] = {
    "xlsx": "spreadsheet",
    "csv": "table",
    "tsv": "table",
    "pdf": "PDF",
    "docx": "Word document",
    "pptx": "slides",
    "notebook": "notebook",
    "image": "picture",
    "office": "Office document",
}


@dataclass(frozen=True, slots=True)
class Preview:
    """A page of a rendering. `picture` is its width and height where the browser may be asked to show it."""

    kind: str
    notes: tuple[str, ...]
    complete: bool
    total: int
    html: SafeString
    has_text: bool
    previous: str = ""
    following: str = ""
    missing: str = ""
    picture: tuple[int, int] | None = None


def preview(
    name: str, data: bytes, address: str = "", *, cited: Span | None = None, shown: Span | None = None
) -> Preview | None:
    """The document in `data`, at the cited place or the wanted rows; None for what is no document."""
    rendered = documents().render(name, data)
    if rendered is None or _is_beyond(rendered, cited):
        return None
    found = rendered.find(address) if address else None
    if found:
        cited = Span(found[0].at, found[0].at)
    lines = rendered.lines
    first = _first(lines, shown.first if shown else cited.first if cited else 1, near=shown is None)
    return Preview(
        _WORDS[rendered.kind],
        rendered.notes,
        rendered.complete or rendered.kind == "image",
        len(lines),
        document_html(
            lines[first : first + PAGE_ROWS], marked=Marked(cited, found[1].address if found and found[1] else "")
        ),
        rendered.kind in TEXTS,
        previous=_range(lines, max(0, first - PAGE_ROWS), first),
        following=_range(lines, first + PAGE_ROWS, first + 2 * PAGE_ROWS),
        missing=_missing(rendered, address if not found else "", cited),
        picture=_picture(rendered, data),
    )


def comparable(name: str, data: bytes) -> str | None:
    """What is compared line by line: the text of a file, or the rendering of a document; None without both."""
    if kind_of(name, data) in (None, *TEXTS):
        return decode(data) if is_text(data) else None
    rendered = documents().render(name, data)
    if rendered is None or not rendered.lines:
        return None
    return "\n".join(rendered.shown).replace("⟦", "[").replace("⟧", "]")  # marks of ours would be shown as forged


def _is_beyond(rendered: Rendered, cited: Span | None) -> bool:
    """Whether a table in plain text is better shown as text: it could not be read, or a line after it is cited."""
    if not rendered.is_text or rendered.complete:
        return False
    return not rendered.lines or (cited is not None and cited.first > rendered.lines[-1].at)


def _missing(rendered: Rendered, address: str, cited: Span | None) -> str:
    """The cited place, where it is not in the document."""
    if cited and not any(line.at >= cited.first for line in rendered.lines):
        return f"line {cited.first}"
    return address


def _first(lines: tuple[Line, ...], wanted: int, *, near: bool) -> int:
    """The index a page begins with; one that only has to show a line begins on a whole page."""
    index = next((index for index, line in enumerate(lines) if line.at >= wanted), 0)
    return index // PAGE_ROWS * PAGE_ROWS if near else index


def _range(lines: tuple[Line, ...], first: int, stop: int) -> str:
    """Numbers of the first and last line of a page, empty where there is none."""
    page = lines[first:stop]
    return f"{page[0].at}-{page[-1].at}" if page else ""


def _picture(rendered: Rendered, data: bytes) -> tuple[int, int] | None:
    size = next((_SIZE.match(line.plain) for line in rendered.lines if line.address == "size"), None)
    if size is None or not picture_type(data):
        return None
    width, height = int(size[1]), int(size[2])
    return (width, height) if 0 < width * height <= MOST_PIXELS else None


def picture(data: bytes) -> HttpResponse:
    """A PNG, JPEG, GIF or WebP by its own first bytes, for an img of ours alone; Http404 for anything else."""
    media = picture_type(data)
    if not media:
        raise Http404
    response = HttpResponse(data, content_type=media)
    response["X-Content-Type-Options"] = "nosniff"
    response["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response["Cross-Origin-Resource-Policy"] = "same-origin"
    response["Content-Disposition"] = "inline"
    response["Cache-Control"] = "private, max-age=3600"
    return response
