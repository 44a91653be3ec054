"""Files of a recorded tree as lines: plain text as it is, documents as they are rendered."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from judges.display import display_lines
from judges.documents import Documents, Rendered, kind_by_name, kind_of
from judges.records import FileEntry, FileTree
from judges.safefs import decode, is_text

MOST_SEARCHED: Final = 60
_NOT_SEARCHED: Final = ("image", "office")


class ShownFile(NamedTuple):
    """The displayed lines of one file, with what is to be said of the document they are from.

    `raw` is the text of a plain file, None for a document, which has none of its own.
    """

    lines: Sequence[str]
    raw: str | None
    notes: tuple[str, ...] = ()
    complete: bool = True


def shown_file(documents: Documents, name: str, data: bytes) -> ShownFile | None:
    """What read_file shows and citations count, None for a binary file that is no document."""
    kind = kind_of(name, data)
    if kind is None or kind in ("csv", "tsv"):  # separators and quotes matter: tables in plain text stay as they are
        return _plain(decode(data)) if is_text(data) else None
    rendered = documents.render(name, data)
    return None if rendered is None else ShownFile(rendered.shown, None, rendered.notes, rendered.complete)


def _plain(text: str) -> ShownFile:
    return ShownFile(display_lines(text), text)


def rendered_file(documents: Documents, tree: FileTree, path: str) -> Rendered | None:
    """The rendering whose addresses a citation may name, None for files that have none."""
    return documents.render(path, tree.read(path))


def shown_texts(
    documents: Documents, tree: FileTree, wanted: Callable[[str], bool] = lambda _: True
) -> Iterator[tuple[str, str]]:
    """Path and displayed text of every file that a search covers: texts and the first documents, pictures aside."""
    left = MOST_SEARCHED
    for entry in tree.entries():
        if entry.kind != "file" or not wanted(entry.path):
            continue
        data = tree.read(entry.path)
        if _is_rendered(entry, data):
            left -= 1
            if left < 0:
                continue
        elif not is_text(data):
            continue
        if (shown := shown_file(documents, entry.path, data)) is not None:
            yield entry.path, "\n".join(shown.lines)


def _is_rendered(entry: FileEntry, data: bytes) -> bool:
    kind = kind_of(entry.path, data)
    return kind is not None and kind not in ("csv", "tsv", *_NOT_SEARCHED)


def all_shown(documents: Documents, tree: FileTree) -> bool:
    """Whether every document of the tree is shown in full: only then can something be absent from it."""
    rendered = 0
    for entry in tree.entries():
        if entry.kind != "file":
            continue
        data = tree.read(entry.path)
        if kind_of(entry.path, data) == "office":
            return False
        if _is_rendered(entry, data):
            rendered += 1
            shown = shown_file(documents, entry.path, data) if rendered <= MOST_SEARCHED else None
            if shown is None or not shown.complete:
                return False
    return True


def listed_kind(entry: FileEntry) -> str:
    """The kind of a file for a listing, by its name alone; "file" for what is no document."""
    return kind_by_name(entry.path) or "file"
