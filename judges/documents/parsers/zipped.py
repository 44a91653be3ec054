"""Office files are archives of XML: opened within bounds, without document types, entities or anything outside."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, Final

from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException

from .page import Page, Unreadable

Element = Any
MOST_MEMBERS: Final = 5_000
MOST_UNPACKED: Final = 1 << 30
MOST_PART: Final = 48 << 20
MOST_RATIO: Final = 400
_ENCRYPTED: Final = 1


class Package:
    """The members of one archive. Sizes are those it declares; no more than that is ever unpacked."""

    def __init__(self, data: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except zipfile.BadZipFile as error:
            raise Unreadable("the archive is damaged") from error
        members = self._zip.infolist()
        if len(members) > MOST_MEMBERS:
            raise Unreadable(f"the archive has {len(members)} members; at most {MOST_MEMBERS} are looked at")
        unpacked = sum(member.file_size for member in members)
        if unpacked > MOST_UNPACKED or unpacked > MOST_RATIO * len(data) + MOST_PART:
            raise Unreadable(f"{len(data)} bytes unpack to {unpacked}: that is a decompression bomb, or too large")
        if any(member.flag_bits & _ENCRYPTED for member in members):
            raise Unreadable("members of the archive are encrypted")
        self.sizes = {member.filename: member.file_size for member in members}

    def xml(self, name: str) -> Element | None:
        """The root of one part, None where there is no such part."""
        if name not in self.sizes:
            return None
        if self.sizes[name] > MOST_PART:
            raise Unreadable(f"its part {name} has {self.sizes[name]} bytes; at most {MOST_PART} are read")
        try:
            return ElementTree.fromstring(self._zip.read(name), forbid_dtd=True)
        except DefusedXmlException as error:
            raise Unreadable(f"its part {name} declares a document type or entities") from error
        except (ElementTree.ParseError, zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise Unreadable(f"its part {name} is damaged") from error

    def events(self, name: str) -> Iterator[Element]:
        """The elements of one part as they end, each forgotten afterwards."""
        try:
            with self._zip.open(name) as stream:
                for _, element in ElementTree.iterparse(stream, forbid_dtd=True):
                    yield element
                    element.clear()
        except DefusedXmlException as error:
            raise Unreadable(f"its part {name} declares a document type or entities") from error
        except (ElementTree.ParseError, zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise Unreadable(f"its part {name} is damaged") from error

    def named(self, prefix: str) -> list[str]:
        """Names of the parts that begin with `prefix`, in order of the numbers in them."""
        return sorted((name for name in self.sizes if name.startswith(prefix)), key=lambda name: (len(name), name))

    def remark(self, page: Page, folder: str) -> None:
        """Notes on what is in an office file and neither shown nor run."""
        for part, words in _REMARKS.items():
            if found := self.named(f"{folder}/{part}"):
                page.note(f"{len(found)} {words}")


_REMARKS: Final = {
    "vbaProject": "part with macros: never run, not shown",
    "media/": "embedded pictures: not shown",
    "charts/chart": "charts: not shown",
    "embeddings/": "embedded files: not shown",
    "externalLinks/externalLink": "links to other files: never followed",
}


def local(element: Element) -> str:
    """The name of an element without its namespace; empty for comments and instructions."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def attribute(element: Element, name: str) -> str:
    """An attribute by its name without namespace, empty where there is none."""
    return next((value for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")


def relations(package: Package, part: str) -> dict[str, str]:
    """Targets of the relations of a part by id, as names of parts; links to the outside are left out."""
    folder, _, name = part.rpartition("/")
    root = package.xml(f"{folder}/_rels/{name}.rels")
    found = {}
    for item in root if root is not None else ():
        if attribute(item, "TargetMode") != "External":
            target = attribute(item, "Target")
            found[attribute(item, "Id")] = target[1:] if target.startswith("/") else _joined(folder, target)
    return found


def _joined(folder: str, target: str) -> str:
    parts = folder.split("/")
    for piece in target.split("/"):
        if piece == "..":
            parts = parts[:-1]
        elif piece not in ("", "."):
            parts.append(piece)
    return "/".join(parts)
