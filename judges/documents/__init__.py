"""One rendering of spreadsheets, documents, PDFs, slides, notebooks and pictures for judge and reviewer alike.

Addresses: `Sheet1!B7`, `page 3 line 12`, `para 12`, `table 2!B3`, `slide 4 line 2`, `cell 3 line 4`, `cell 3 output 1
line 2`; in csv and tsv `B7`, where row 1 is the first record. Blank lines and empty rows of csv are not counted.
Documents are read in a confined process, within bounds; nothing in them is run, followed or fetched.
"""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Final, Protocol

from judges.documents.isolation import read_apart
from judges.documents.kinds import MAX_DOCUMENT, Kind, kind_by_name, kind_of, picture_type
from judges.documents.rendering import Cell, Line, Rendered, column_of, from_json, from_output, to_json

__all__ = [
    "MAX_DOCUMENT",
    "RENDERER_VERSION",
    "Cell",
    "Documents",
    "Kind",
    "Line",
    "Rendered",
    "Store",
    "column_of",
    "kind_by_name",
    "kind_of",
    "picture_type",
    "render",
]
RENDERER_VERSION: Final = "1"
_LIBRARIES: Final = ("openpyxl", "pypdf", "pillow")
_KEPT: Final = 64
_OLD: Final = "not read: an old binary Office file, or an encrypted one"


class Store(Protocol):
    """Where renderings are kept between processes; a key names content, so nothing under it ever changes."""

    def load(self, key: str) -> bytes | None: ...
    def save(self, key: str, data: bytes) -> None: ...


def render(name: str, data: bytes) -> Rendered | None:
    """The rendering of a file, None where it is plain text or nothing that is rendered; says what it could not read."""
    kind = kind_of(name, data)
    return None if kind is None else _render(kind, data)


def _render(kind: Kind, data: bytes) -> Rendered:
    if len(data) > MAX_DOCUMENT:
        return Rendered(kind, (), (f"not read: larger than {MAX_DOCUMENT} bytes",), complete=False)
    if kind == "office":
        return Rendered(kind, (), (_OLD,), complete=False)
    output = read_apart(kind, data)
    return from_output(kind, output.text, why=output.why)


@dataclass(slots=True)
class Documents:
    """Renders, and keeps what was rendered: the last few here, all of them in `store` where there is one."""

    store: Store | None = None
    _recent: OrderedDict[str, Rendered] = field(default_factory=OrderedDict)

    def render(self, name: str, data: bytes) -> Rendered | None:
        """As `render`, each content once."""
        kind = kind_of(name, data)
        if kind is None:
            return None
        key = storage_key(kind, data)
        rendered = self._recent.pop(key, None) or self._stored(key) or self._made(key, kind, data)
        self._recent[key] = rendered
        if len(self._recent) > _KEPT:
            self._recent.popitem(last=False)
        return rendered

    def _stored(self, key: str) -> Rendered | None:
        data = None if self.store is None else self.store.load(key)
        return from_json(data) if data else None

    def _made(self, key: str, kind: Kind, data: bytes) -> Rendered:
        rendered = _render(kind, data)
        if self.store is not None and rendered.ended:  # what a busy machine cut short may be read later
            self.store.save(key, to_json(rendered))
        return rendered


def storage_key(kind: Kind, data: bytes) -> str:
    """What a rendering depends on: the content, its kind, this code and the libraries that read."""
    made_by = [RENDERER_VERSION, *(f"{name} {version(name)}" for name in _LIBRARIES)]
    head = "\n".join(["document", kind, *made_by, hashlib.sha256(data).hexdigest()])
    return hashlib.sha256(head.encode()).hexdigest()
