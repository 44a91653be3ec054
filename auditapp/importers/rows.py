"""Files of many rows, JSON Lines or one long JSON list, read a row at a time: a bad row costs itself only."""

import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

from auditapp.importers.lenient import UnreadableError
from auditapp.importers.options import Limits
from judges.records import ParseFailure
from judges.safefs import FolderTree

Item = TypeVar("Item")
_CHUNK = 2**18
_BUFFER = 2**18
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"
_LINES = (".jsonl", ".ndjson")
# Possessive: a string of a million escapes must not cost a million places to come back to.
_UP_TO_BRACKET = re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"\[\]{}]*+)*+', re.DOTALL)
_REST_OF_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_EVERY_FILE = 2**60
# A file whose first rows are all bad is of another kind: one reason is clearer than a million.
_BAD_AT_START = 20


@dataclass(frozen=True, slots=True)
class Row:
    """One row as it stands in the file; `number` counts rows, or lines of JSON Lines, from 1."""

    number: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row, or with number 0 a whole file, that cannot be used."""

    number: int
    reason: str


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file without ever blocking on a FIFO or device; raises UnreadableError with the reason."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        raise UnreadableError(f"cannot be opened: {getattr(error, 'strerror', None) or error}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UnreadableError("is not a regular file")
    return os.fdopen(handle, "rb", buffering=_BUFFER)


def files_of(path: Path, suffixes: tuple[str, ...]) -> list[tuple[str, Path]]:
    """Name and path of the files to read: `path` itself, or those below a folder that end so; links are left out."""
    if not path.is_dir():
        return [(path.name, path)]
    entries = FolderTree(path, max_file=_EVERY_FILE, max_total=_EVERY_FILE).entries()
    names = [entry.path for entry in entries if entry.kind == "file" and entry.path.lower().endswith(suffixes)]
    return [(name, path / name) for name in names]


def rows_of(path: Path, limits: Limits) -> Iterator[Row | BadRow]:
    """All rows of a file; one BadRow and no more where the file as a whole is not of this kind."""
    try:
        with open_regular(path) as file:
            first = _first_byte(file)
            lines = path.suffix.lower() in _LINES
            if first not in ((b"{",) if lines else (b"{", b"[")):
                yield BadRow(0, _not_rows(first))
            elif lines:
                yield from _lines(file, limits.json_bytes)
            else:
                yield from _values(file, limits.json_bytes)
    except (UnreadableError, OSError) as error:
        yield BadRow(0, str(error))


def unless_all_bad(items: Iterable[Item | ParseFailure], *, name: str) -> Iterator[Item | ParseFailure]:
    """The same items, but one failure in place of many where none of the first rows can be used."""
    held: list[ParseFailure] = []
    source = iter(items)
    for item in source:
        if not isinstance(item, ParseFailure):
            yield from held
            yield item
            yield from source
            return
        held.append(item)
        if len(held) == _BAD_AT_START:
            yield ParseFailure(name, f"none of its first {len(held)} rows can be used; the first one: {held[0].reason}")
            return
    yield from held


def _first_byte(file: BinaryIO) -> bytes:
    """The first byte that is no blank; the file stands at it."""
    start = len(_BYTE_ORDER_MARK) if file.read(3) == _BYTE_ORDER_MARK else 0
    file.seek(start)
    head = file.read(_CHUNK)
    blanks = len(head) - len(head.lstrip(_BLANKS))
    file.seek(start + blanks)
    return head[blanks : blanks + 1]


def _not_rows(first: bytes) -> str:
    if not first:
        return "is empty or starts with nothing but blanks"
    if first == b"\0":
        return "is no JSON: it starts with NUL bytes"
    return f"is no file of JSON rows: it starts with {_shown(first)} where a row should"


def _shown(text: bytes) -> str:
    return ascii(text.decode("utf-8", "backslashreplace"))


def _lines(file: BinaryIO, limit: int) -> Iterator[Row | BadRow]:
    number = 0
    while line := file.readline(limit + 1):
        number += 1
        if len(line) > limit:
            _skip_line(file, line)
            yield BadRow(number, f"is longer than the limit of {limit:,} bytes")
        elif stripped := line.strip(_BLANKS):
            yield Row(number, stripped)


def _skip_line(file: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = file.readline(_CHUNK)


def _values(file: BinaryIO, limit: int) -> Iterator[Row | BadRow]:
    in_list = file.read(1) == b"["
    if not in_list:
        file.seek(-1, 1)
    splitter = _Splitter(limit, in_list=in_list)
    while not splitter.closed and (chunk := file.read(_CHUNK)):
        yield from splitter.feed(chunk)
    yield from splitter.finish(file.read(_CHUNK))


class _Splitter:
    """Cuts a list of objects, or objects one after another, into rows by counting brackets outside of strings."""

    def __init__(self, limit: int, *, in_list: bool) -> None:
        self._limit = limit
        self._in_list = in_list
        self._number = 0
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self._parts: list[bytes] = []
        self._size = 0
        self.closed = False

    def feed(self, chunk: bytes) -> Iterator[Row | BadRow]:
        """The rows that end in this chunk."""
        start = 0
        at = self._string(chunk, int(self._escaped)) if self._in_string else 0
        while (skipped := _UP_TO_BRACKET.match(chunk, at)) and (at := skipped.end() + 1) <= len(chunk):
            mark = chunk[at - 1 : at]
            if mark == b'"':  # a string that goes on in the next chunk
                at = self._string(chunk, at)
                continue
            opens = mark in b"[{"
            if self._depth == 0:
                yield from self._between(chunk[start : at - 1])
                start = at - 1 if opens else at
                self.closed = not opens
            self._depth += 1 if opens else -1
            if self.closed:
                break
            if self._depth == 0:
                yield self._end_of_row(chunk[start:at])
                start = at
        self._keep(chunk[start:])

    def finish(self, rest: bytes) -> Iterator[BadRow]:
        """What is wrong with the end of the file, if anything."""
        if self._in_list and not self.closed:
            where = "inside this row" if self._depth else "before its list is closed"
            yield BadRow(self._number + 1, f"the file ends {where}: it is truncated")
        elif self._depth > 0:
            yield BadRow(self._number + 1, "the file ends inside this row: it is truncated")
        elif self._size > self._limit or b"".join([*self._parts, rest]).strip(_BLANKS):
            yield BadRow(self._number + 1, "there is text after the end of the rows")

    def _string(self, chunk: bytes, at: int) -> int:
        """Where the string that `at` is in ends, just after its closing quote or at the end of the chunk."""
        end = chunk.find(b'"', at)
        end = end if end >= 0 else len(chunk)
        if chunk.find(b"\\", at, end) >= 0 and (match := _REST_OF_STRING.match(chunk, at)):
            end = match.end()
        last = chunk[end : end + 1]
        self._in_string, self._escaped = last != b'"', last == b"\\"
        return len(chunk) if self._in_string else end + 1

    def _between(self, text: bytes) -> Iterator[BadRow]:
        text = b"".join([*self._parts, text]).strip(_BLANKS + b",")
        self._parts, self._size = [], 0
        if text:
            yield BadRow(self._number + 1, f"no object but {_shown(text[:40])} where this row should start")

    def _end_of_row(self, text: bytes) -> Row | BadRow:
        self._keep(text)
        raw, size = b"".join(self._parts), self._size
        self._parts, self._size = [], 0
        self._number += 1
        if size > self._limit:
            return BadRow(self._number, f"has {size:,} bytes, more than the limit of {self._limit:,}")
        return Row(self._number, raw)

    def _keep(self, text: bytes) -> None:
        self._size += len(text)
        if self._size <= self._limit:
            self._parts.append(text)
        else:
            self._parts.clear()
