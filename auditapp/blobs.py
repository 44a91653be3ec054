"""Content-addressed storage of bodies: texts, recorded trees and trajectories, each under the SHA-256 of its content.

A tree or a trajectory is one container: independent zstd frames, then an index, then a footer that says where the index
lies. So one file, or 25 steps, are read without the rest, from a disk or by range requests from an object store.
"""

import errno
import hashlib
import os
import struct
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import IO, Any, BinaryIO

import orjson
import re2
import zstandard
from django.core.files.base import ContentFile, File
from django.core.files.storage import FileSystemStorage, Storage, storages

from judges.records import FileEntry, FileTree, Json, StepRecord, StepRow, canonical_json, tree_manifest
from judges.trajindex import index_steps, locators_from_json, rows_from_json, rows_to_json

STEPS_PER_FRAME = 25
BYTES_PER_FRAME = 1 << 20
SPOOL_BYTES = 8 << 20
ZSTD_LEVEL = 3
FOOTER = struct.Struct("<QQ8s")
MAGIC = b"assay/1\n"


class MissingBlobError(LookupError):
    """The storage has no body under this digest; it was deleted or never copied with the database."""


def has_no_room(error: BaseException | None) -> bool:
    """Whether an error says that a disk or a quota is full: then nothing else can be stored either."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class AtomicFileStorage(FileSystemStorage):
    """Files appear whole or not at all: a name is content, so a half-written one would be a lie that stays."""

    def get_available_name(self, name: str, max_length: int | None = None) -> str:  # noqa: ARG002 (fixed by the base)
        return name

    def _save(self, name: str, content: "File[Any]") -> str:
        path = self.path(name)
        temporary = f"{path}.{os.getpid()}.{threading.get_ident()}.part"
        try:
            with _create(temporary) as out:
                for chunk in content.chunks():
                    out.write(chunk)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        return name


def _create(path: str) -> BinaryIO:
    """A file to write, and its folder where that is new: looking for the folder first would cost more."""
    try:
        return open(path, "wb")
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return open(path, "wb")


def storage() -> Storage:
    """The storage that the settings name "blobs"."""
    return storages["blobs"]


def _name(digest: str) -> str:
    return f"{digest[:2]}/{digest}"


_local = threading.local()


def _compress(data: bytes) -> bytes:
    """One compressor a thread: making one costs more than most bodies do."""
    if not hasattr(_local, "compressor"):
        _local.compressor = zstandard.ZstdCompressor(ZSTD_LEVEL, write_checksum=True)
    compressed: bytes = _local.compressor.compress(data)
    return compressed


def _store(digest: str, content: bytes | IO[bytes]) -> str:
    name = _name(digest)
    if not storage().exists(name):
        storage().save(name, ContentFile(content) if isinstance(content, bytes) else File(content))
    return digest


def _open(digest: str) -> BinaryIO:
    try:
        return storage().open(_name(digest), "rb")  # type: ignore[return-value]
    except FileNotFoundError:
        raise MissingBlobError(f"body {digest} is not in the blob storage") from None


def put(data: bytes) -> str:
    """Store bytes and return their digest; storing the same again is a no-op."""
    digest = hashlib.sha256(data).hexdigest()
    return _store(digest, _compress(data))


def get(digest: str) -> bytes:
    """The bytes stored under `digest`; raises MissingBlobError."""
    with _open(digest) as stored:
        return zstandard.ZstdDecompressor().decompressobj().decompress(stored.read())


def put_text(text: str) -> str:
    """Store text as UTF-8; lone surrogates survive the way there and back."""
    return put(_encode(text))


def text_digest(text: str) -> str:
    """The digest that `put_text` would return, without storing anything."""
    return hashlib.sha256(_encode(text)).hexdigest()


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def get_text(digest: str) -> str:
    """Inverse of `put_text`."""
    return get(digest).decode("utf-8", "surrogatepass")


def put_json(value: Json) -> str:
    """Store a JSON value in its canonical form."""
    return put(canonical_json(value))


def get_json(digest: str) -> Json:
    """Inverse of `put_json`."""
    return orjson.loads(get(digest))


class Derived:
    """What was made of other bodies, under a key that names all it depends on; made anew where it is gone."""

    def load(self, key: str) -> bytes | None:
        try:
            return get(key)
        except MissingBlobError:
            return None

    def save(self, key: str, data: bytes) -> None:
        _store(key, _compress(data))


class _ContainerWriter:
    """Spools frames to a temporary file, so that memory stays flat however long the trajectory."""

    def __init__(self) -> None:
        self.spool = tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES)  # noqa: SIM115 (closed by __exit__)
        self.frames: list[tuple[int, int]] = []

    def __enter__(self) -> "_ContainerWriter":
        return self

    def __exit__(self, *exc: object) -> None:
        self.spool.close()

    def add(self, data: bytes) -> int:
        offset = self.spool.tell()
        self.frames.append((offset, self.spool.write(_compress(data))))
        return len(self.frames) - 1

    def save(self, digest: str, index: Json) -> str:
        packed = _compress(orjson.dumps({"frames": self.frames, "index": index}))
        offset = self.spool.tell()
        self.spool.write(packed)
        self.spool.write(FOOTER.pack(offset, len(packed), MAGIC))
        self.spool.seek(0)
        return _store(digest, self.spool)


@dataclass(frozen=True)
class _Container:
    digest: str

    @cached_property
    def header(self) -> Json:
        with _open(self.digest) as stored:
            stored.seek(-FOOTER.size, os.SEEK_END)
            offset, length, magic = FOOTER.unpack(stored.read(FOOTER.size))
            if magic != MAGIC:
                raise MissingBlobError(f"body {self.digest} is no container of this format")
            stored.seek(offset)
            return orjson.loads(zstandard.ZstdDecompressor().decompress(stored.read(length)))

    def frames(self, numbers: Iterable[int]) -> Iterator[bytes]:
        with _open(self.digest) as stored:
            for number in numbers:
                offset, length = self.header["frames"][number]
                stored.seek(offset)
                yield zstandard.ZstdDecompressor().decompress(stored.read(length))


@lru_cache(maxsize=64)
def _container(digest: str) -> _Container:
    """Content never changes under a digest, so the parsed index of the last few containers is kept."""
    return _Container(digest)


def put_tree(tree: FileTree) -> str:
    """Store a recorded tree with the bytes of its regular files; returns the digest of its manifest."""
    with _ContainerWriter() as writer:
        rows = [_add_file(writer, tree, entry) for entry in tree.entries()]
        entries = [entry for entry, _ in rows]
        manifest = tree_manifest(entries)
        spans = {entry.path: frames for entry, frames in rows}
        index = {"entries": manifest["files"], "spans": spans}
        return writer.save(hashlib.sha256(canonical_json(manifest)).hexdigest(), index)


def _add_file(writer: _ContainerWriter, tree: FileTree, entry: FileEntry) -> tuple[FileEntry, list[int]]:
    if entry.kind != "file":
        return entry, []
    data = tree.read(entry.path)
    frames = [writer.add(data[at : at + BYTES_PER_FRAME]) for at in range(0, len(data), BYTES_PER_FRAME)]
    return replace(entry, size=len(data), sha256=hashlib.sha256(data).hexdigest()), frames


@dataclass(frozen=True)
class BlobTree:
    """A stored tree, read a file at a time (see `judges.records.FileTree`)."""

    digest: str

    @cached_property
    def _entries(self) -> tuple[FileEntry, ...]:
        rows = _container(self.digest).header["index"]["entries"]
        return tuple(FileEntry(path, size, kind, *rest) for path, kind, size, *rest in rows)

    def entries(self) -> Sequence[FileEntry]:
        return self._entries

    def read(self, path: str, *, limit: int | None = None) -> bytes:
        container = _container(self.digest)
        frames: list[int] = container.header["index"]["spans"][path]
        if limit is not None:
            frames = frames[: -(-limit // BYTES_PER_FRAME)]
        data = b"".join(container.frames(frames))
        return data if limit is None else data[:limit]


def tree(digest: str | None) -> BlobTree | None:
    """The stored tree of a digest column; None means that it was never recorded."""
    return BlobTree(digest) if digest else None


@dataclass(frozen=True, slots=True)
class StoredSteps:
    """What `put_steps` says of a trajectory: its digest, its length in steps and in characters."""

    digest: str
    count: int
    characters: int
    flags: tuple[str, ...]


def put_steps(steps: Iterable[StepRecord]) -> StoredSteps:
    """Store a trajectory in frames of 25 steps with its outline, in one pass over the steps."""
    digest = hashlib.sha256()
    with _ContainerWriter() as writer:
        frame: list[bytes] = []

        def written() -> Iterator[StepRecord]:
            for step in steps:
                frame.append(_dump_step(step))
                digest.update(frame[-1] + b"\n")
                if len(frame) == STEPS_PER_FRAME:
                    writer.add(b"\n".join(frame))
                    frame.clear()
                yield step

        rows = index_steps(written())
        if frame:
            writer.add(b"\n".join(frame))
        name = writer.save(digest.hexdigest(), rows_to_json(rows))
    flags = tuple(sorted({flag for row in rows for flag in row.flags}))
    return StoredSteps(name, len(rows), sum(sum(map(sum, row.sizes.values())) for row in rows), flags)


def _dump_step(step: StepRecord) -> bytes:
    return orjson.dumps(step.to_json())  # arguments keep the order they were recorded in


@dataclass(frozen=True)
class BlobSteps:
    """A stored trajectory, read a frame at a time (see `judges.records.StepReader`)."""

    digest: str

    @cached_property
    def locators(self) -> Sequence[str]:
        """The locator of each step, in order."""
        return locators_from_json(_container(self.digest).header["index"])

    @cached_property
    def _rows(self) -> Sequence[StepRow]:
        return self.rows()

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {locator: position for position, locator in enumerate(self.locators)}

    def __len__(self) -> int:
        return len(self.locators)

    def rows(self, start: int = 0, stop: int | None = None) -> Sequence[StepRow]:
        """Some rows of the outline: unpacking all of a long one takes longer than showing a part of it."""
        return rows_from_json(_container(self.digest).header["index"], start, stop)

    def outline(self) -> Sequence[StepRow]:
        return self._rows

    def position(self, locator: str) -> int | None:
        return self._positions.get(locator)

    def read(self, position: int) -> StepRecord:
        if not 0 <= position < len(self):
            raise IndexError(f"position {position} of {len(self)} steps")
        return next(self.iterate(position, position + 1))

    def iterate(self, start: int = 0, stop: int | None = None) -> Iterator[StepRecord]:
        stop = len(self) if stop is None else min(stop, len(self))
        if start >= stop:
            return
        first, last = start // STEPS_PER_FRAME, (stop - 1) // STEPS_PER_FRAME
        position = first * STEPS_PER_FRAME
        for data in _container(self.digest).frames(range(first, last + 1)):
            for line in data.split(b"\n"):
                if start <= position < stop:
                    yield StepRecord.from_json(orjson.loads(line))
                position += 1

    def holding(self, words: str) -> Iterator[StepRecord]:
        """In order, the steps that may display `words`, in any case; few others are parsed.

        For ASCII letters, digits and _ . / - with spaces between them: JSON stores those as they are, and display adds
        none of them. But it takes away terminal sequences, which are stored as \\u001b, and spells out tag characters,
        F3 A0 in UTF-8: steps with either are always among them.
        """
        options = re2.Options()
        options.case_sensitive = False
        held = re2.compile(re2.escape(words).encode(), options)

        def may_show(stored: bytes) -> bool:
            return held.search(stored) is not None or b"\\u00" in stored or b"\xf3\xa0" in stored

        for data in _container(self.digest).frames(range(len(_container(self.digest).header["frames"]))):
            if may_show(data):
                yield from (StepRecord.from_json(orjson.loads(line)) for line in data.split(b"\n") if may_show(line))
