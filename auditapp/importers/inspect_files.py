"""Inspect logs as trees of files: ZIP with deflate or zstd, one JSON document, or the unpacked folder.

A member is read when it is asked for, within its own limit; nothing is unpacked to disk.
"""

import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from auditapp.importers.archive_members import CHUNK, ZSTD_WINDOW, ArchiveError, check_directory, damage
from auditapp.importers.lenient import UnreadableError
from auditapp.importers.options import Limits
from auditapp.importers.rows import open_regular
from judges.records import FileEntry
from judges.safefs import NoSuchFileError

MOST_MEMBERS = 100_000
HEADER = "header.json"
_ZSTD = 93
# Possessive, and always from one bracket to the next, so that a chunk is scanned once.
_TO_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+([\[\]{}])', re.DOTALL)
_SAMPLES_KEY = re.compile(rb'(?<!\\)"samples"\s*:\s*\Z')
_KEY_REACH = 100


@dataclass(frozen=True, slots=True)
class ZipLog:
    """The members of a `.eval` file; of two with one name the last counts, as the writer appends rewritten ones."""

    path: Path
    members: Mapping[str, zipfile.ZipInfo]
    repeated: frozenset[str] = frozenset()

    def entries(self) -> Sequence[FileEntry]:
        """All members, sorted by path."""
        return [FileEntry(name, info.file_size) for name, info in sorted(self.members.items())]

    def read(self, path: str, *, limit: int | None = None) -> bytes:
        """At most `limit` bytes of a member; NoSuchFileError for one that is missing, damaged or of another kind."""
        info = self.members.get(path)
        if info is None:
            raise NoSuchFileError(f"{path!r} is not in this log")
        most = info.file_size + 1 if limit is None else min(limit, info.file_size + 1)
        try:
            with open_regular(self.path) as file, damage():
                data = _unpacked(file, info, most)
        except (ArchiveError, UnreadableError, OSError) as error:
            raise NoSuchFileError(f"{path!r} {error}") from None
        if most > info.file_size and (len(data) != info.file_size or zlib.crc32(data) != info.CRC):
            raise NoSuchFileError(f"{path!r} is damaged: its size or checksum is another than the log states")
        return data


def zip_log(path: Path) -> ZipLog:
    """The list of members of a ZIP; raises ArchiveError where it is damaged or has too many."""
    with open_regular(path) as file, damage():
        check_directory(file, MOST_MEMBERS)
        with zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
    counts = Counter(info.filename for info in infos)
    repeated = frozenset(name for name, count in counts.items() if count > 1)
    return ZipLog(path, {info.filename: info for info in infos}, repeated)


def _unpacked(file: BinaryIO, info: zipfile.ZipInfo, most: int) -> bytes:
    if info.flag_bits & 0x1:
        raise ArchiveError("is encrypted")
    packed = _Packed(file, info)
    if info.compress_type == zipfile.ZIP_STORED:
        return packed.read(most)
    if info.compress_type == zipfile.ZIP_DEFLATED:
        return b"".join(_inflated(packed, most))
    if info.compress_type == _ZSTD:
        reader = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
        # A large member is several frames, which the writer makes one after another.
        with reader.stream_reader(cast(BinaryIO, packed), read_across_frames=True) as stream:
            return bytes(stream.read(most))
    raise ArchiveError(f"is packed with method {info.compress_type}; stored, deflated and zstd members are read")


def _inflated(packed: "_Packed", most: int) -> Iterator[bytes]:
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    while most > 0 and not inflate.eof and (chunk := packed.read(CHUNK)):
        data = inflate.decompress(chunk, most)
        most -= len(data)
        yield data


class _Packed:
    """The packed bytes of one member: no read goes past them, whatever sizes the archive states."""

    def __init__(self, file: BinaryIO, info: zipfile.ZipInfo) -> None:
        file.seek(info.header_offset)
        header = file.read(30)
        if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
            raise ArchiveError("is damaged: it has no header where the log says")
        file.seek(int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little"), 1)
        self._file = file
        self._left = info.compress_size

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, all that are left without one; in steps, as a stated size is no promise."""
        parts = []
        wanted = self._left if size < 0 else min(size, self._left)
        while wanted > 0 and (part := self._file.read(min(wanted, CHUNK))):
            parts.append(part)
            wanted -= len(part)
            self._left -= len(part)
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class JsonLog:
    """One JSON document: `spans` are the pieces of the file that make up each member."""

    path: Path
    spans: Mapping[str, Sequence[tuple[int, int]]]
    tail: bytes = b""
    """What the header lacks where the file ends within its samples."""

    def entries(self) -> Sequence[FileEntry]:
        """All members, sorted by path."""
        return [FileEntry(name, sum(end - start for start, end in self.spans[name])) for name in sorted(self.spans)]

    def read(self, path: str, *, limit: int | None = None) -> bytes:
        """At most `limit` bytes of a member; NoSuchFileError where there is none."""
        if path not in self.spans:
            raise NoSuchFileError(f"{path!r} is not in this log")
        try:
            with open_regular(self.path) as file:
                data = b"".join(_pieces(file, self.spans[path], limit))
        except (UnreadableError, OSError) as error:
            raise NoSuchFileError(f"{path!r} {error}") from None
        return (data + self.tail if path == HEADER else data)[:limit]


def _pieces(file: BinaryIO, spans: Iterable[tuple[int, int]], limit: int | None) -> Iterator[bytes]:
    for start, end in spans:
        file.seek(start)
        size = max(0, end - start)  # less than none where the file grew while it was cut
        yield file.read(size if limit is None else min(size, limit))


def json_log(path: Path, limits: Limits) -> JsonLog:
    """Where the samples of a log stand in its file, found by counting brackets outside of strings."""
    with open_regular(path) as file:
        size = file.seek(0, 2)
        if size > limits.tree_bytes:
            raise UnreadableError(f"has {size:,} bytes, more than the limit of {limits.tree_bytes:,}")
        file.seek(0)
        is_object = file.read(_KEY_REACH).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")
        file.seek(0)
        return _cut(path, file, size, limits) if is_object else JsonLog(path, {HEADER: [(0, size)]})


def _cut(path: Path, file: BinaryIO, size: int, limits: Limits) -> JsonLog:
    spans: dict[str, Sequence[tuple[int, int]]] = {}
    depth, start, first, last = 0, 0, -1, -1
    for at, mark, before in _brackets(file, limits.json_bytes):
        opens = mark in b"[{"
        depth += 1 if opens else -1
        if first < 0:
            first = at + 1 if depth == 2 and _SAMPLES_KEY.search(before) else first
            if at > limits.json_bytes:
                break
        elif depth == 3 and opens:
            start = at
        elif depth == 2 and not opens:
            spans[f"samples/{len(spans) + 1}.json"] = [(start, at + 1)]
        elif depth == 1:
            last = at
            break
        if len(spans) > MOST_MEMBERS:
            raise UnreadableError(f"has more than {MOST_MEMBERS:,} samples")
    if first < 0:
        return JsonLog(path, {HEADER: [(0, size)]})
    spans[HEADER] = [(0, first), (last, size)] if last >= 0 else [(0, first)]
    return JsonLog(path, spans, b"" if last >= 0 else b"]}")


def _brackets(file: BinaryIO, limit: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Place and kind of each bracket that is in no string, with what stands before a `[`."""
    base, rest = 0, b""
    # As much again as could not be used: a long string is scanned a few times, never once a chunk.
    while chunk := file.read(max(CHUNK, len(rest))):
        text, at = rest + chunk, 0
        while match := _TO_BRACKET.match(text, at):
            start, mark = match.start(1), match[1]
            yield base + start, mark, text[max(at, start - _KEY_REACH) : start] if mark == b"[" else b""
            at = match.end()
        base, rest = base + at, text[at:]
        if len(rest) > limit:
            raise UnreadableError(f"has a value of more than the limit of {limit:,} bytes")
