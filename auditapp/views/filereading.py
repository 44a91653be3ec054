"""Recorded folders as a reader shows them: the list of files, one file with line numbers, a comparison of two.

Line numbers are those that citations use. What is no text is described and offered for download, never opened here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from django.http import Http404, HttpResponse
from django.utils.http import content_disposition_header

from auditapp.blobs import BlobTree
from auditapp.templatetags.textlines import Comparison, Span, Text, compare, diff_kinds
from auditapp.views.documentreading import Preview, comparable, picture, preview
from judges.display import safe_name
from judges.records import FileEntry
from judges.safefs import decode, is_text

MAX_ENTRIES = 3_000
PAGE_LINES = 2_000
MAX_TEXT = 16 << 20
NO_LINES = Span(1, 0)


@dataclass(frozen=True, slots=True)
class FileRow:
    """A member of the list; `change` says how it differs from the initial files, "" where that is not known."""

    path: str
    name: str
    folder: str
    size: int
    is_file: bool
    note: str
    current: bool
    change: str = ""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """One file as it is shown: a page of its lines, a document, a comparison, or words on why there is nothing."""

    path: str
    name: str
    size: int
    sha256: str
    total: int = 0
    span: Span = NO_LINES
    html: str = ""
    cited: Span | None = None
    comparison: Comparison | None = None
    preview: Preview | None = None
    why_not: str = ""

    @property
    def previous(self) -> str:
        first = self.span.first - PAGE_LINES
        return f"{max(1, first)}-{self.span.first - 1}" if self.span.first > 1 else ""

    @property
    def following(self) -> str:
        return f"{self.span.last + 1}-{self.span.last + PAGE_LINES}" if self.span.last < self.total else ""


@dataclass(frozen=True, slots=True)
class Folder:
    """A recorded folder with the file that is open in it, if any."""

    rows: Sequence[FileRow]
    total: int
    opened: OpenFile | None
    asked: str

    @property
    def left_out(self) -> int:
        return self.total - len(self.rows)

    @property
    def is_missing(self) -> bool:
        """A file was asked for that is not in the folder."""
        return bool(self.asked) and self.opened is None


def read_folder(
    tree: BlobTree,
    path: str,
    *,
    initial: BlobTree | None = None,
    against: BlobTree | None = None,
    cited: Span | None = None,
    shown: Span | None = None,
    as_text: bool = False,
) -> Folder:
    """List the folder and open `path`, which may end in `#address`, or the first file worth reading where none is."""
    entries = tree.entries()
    before = {entry.path: entry.sha256 for entry in initial.entries()} if initial else None
    entry, address = _named(entries, path or _first(entries, before or {}))
    rows = [_row(item, entry.path if entry else "", before) for item in entries[:MAX_ENTRIES]]
    place = _Place(address, cited, shown, as_text)
    opened = _open(tree, entry, place, against=against) if entry else None
    return Folder(rows, len(entries), opened, path)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where in a file, and whether a document is wanted as the text it is made of."""

    address: str
    cited: Span | None
    shown: Span | None
    as_text: bool


def _named(entries: Sequence[FileEntry], path: str) -> tuple[FileEntry | None, str]:
    """The file of that path, or of the path before a #, and what follows that."""
    by_path = {entry.path: entry for entry in entries}
    named, address = path, ""
    while named not in by_path and "#" in named:
        named, _, end = named.rpartition("#")
        address = f"{end}#{address}" if address else end
    return by_path.get(named), address


def _first(entries: Sequence[FileEntry], before: Mapping[str, str | None]) -> str:
    """A file with content: changed ones before new ones before those left alone, shallow ones first."""
    files = [entry for entry in entries if entry.kind == "file" and entry.size]
    return min(files, key=lambda entry: _rank(entry, before)).path if files else ""


def _rank(entry: FileEntry, before: Mapping[str, str | None]) -> tuple[int, int, str]:
    changed = entry.path in before and before[entry.path] != entry.sha256
    return 0 if changed else 2 if entry.path in before else 1, entry.path.count("/"), entry.path


def _row(entry: FileEntry, chosen: str, before: Mapping[str, str | None] | None) -> FileRow:
    folder, _, name = entry.path.rpartition("/")
    change = ""
    if before is not None and entry.kind == "file":
        change = "new" if entry.path not in before else "changed" if before[entry.path] != entry.sha256 else ""
    note = entry.note or ("" if entry.kind == "file" else entry.kind.replace("_", " "))
    is_file = entry.kind == "file"
    return FileRow(
        entry.path, safe_name(name), safe_name(folder), entry.size, is_file, note, entry.path == chosen, change
    )


def _open(tree: BlobTree, entry: FileEntry, place: _Place, *, against: BlobTree | None) -> OpenFile:
    facts = (entry.path, safe_name(entry.path), entry.size, entry.sha256 or "")
    if entry.kind != "file":
        return OpenFile(*facts, why_not=f"Not recorded: {entry.note or entry.kind.replace('_', ' ')}.")
    if entry.size > MAX_TEXT:
        return OpenFile(*facts, why_not="Too large to be shown here. Download it to look at it.")
    return _shown(OpenFile(*facts), tree.read(entry.path), place, against=against)


def _shown(file: OpenFile, data: bytes, place: _Place, *, against: BlobTree | None) -> OpenFile:
    if not data:
        return replace(file, why_not="Recorded, empty.")
    if against is not None and (text := comparable(file.path, data)) is not None:
        return replace(file, comparison=compare(_text_in(against, file.path), text))
    document = None if place.as_text else preview(file.path, data, place.address, cited=place.cited, shown=place.shown)
    if document is not None:
        return replace(file, preview=document)
    if not is_text(data):
        return replace(file, why_not="Not a text file. Download it to look at it.")
    return _text(file, decode(data), place)


def _text(file: OpenFile, raw: str, place: _Place) -> OpenFile:
    kinds = diff_kinds(raw.split("\n")) if file.path.endswith((".diff", ".patch")) else {}
    text = Text(raw, kinds, place.cited)
    span = _page(len(text), place.shown or _around(place.cited))
    return replace(file, total=len(text), span=span, html=text.html(span), cited=place.cited)


def _around(cited: Span | None) -> Span | None:
    """The page of a long file that shows the cited lines with what stands before them."""
    if cited is None or cited.last <= PAGE_LINES:
        return None
    return Span(max(1, cited.first - 100), cited.first + PAGE_LINES - 101)


def _page(total: int, wanted: Span | None) -> Span:
    first = min(wanted.first, max(1, total)) if wanted else 1
    last = wanted.last if wanted else PAGE_LINES
    return Span(first, min(last, total, first + PAGE_LINES - 1))


def _text_in(tree: BlobTree, path: str) -> str | None:
    """The text of the same path in another folder; None where it is not there or is no text."""
    entry = next((entry for entry in tree.entries() if entry.path == path), None)
    if entry is None or entry.kind != "file" or entry.size > MAX_TEXT:
        return None
    return comparable(path, tree.read(path))


def download(tree: BlobTree | None, path: str, *, as_picture: bool = False) -> HttpResponse:
    """One file as an attachment that no browser opens or sniffs, or as a picture; Http404 where it has no bytes."""
    entry = next((entry for entry in tree.entries() if entry.path == path), None) if tree else None
    if tree is None or entry is None or entry.kind != "file":
        raise Http404
    if as_picture:
        return picture(tree.read(path, limit=MAX_TEXT))
    response = HttpResponse(tree.read(path), content_type="application/octet-stream")
    name = safe_name(path.rpartition("/")[2]) or "file"
    response["Content-Disposition"] = content_disposition_header(as_attachment=True, filename=name) or "attachment"
    response["X-Content-Type-Options"] = "nosniff"
    return response
