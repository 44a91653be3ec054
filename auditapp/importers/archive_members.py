"""What is inside a zip or tar archive, one member at a time: metered, forward only, nothing written."""

import gzip
import stat
import struct
import tarfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import zstandard

from auditapp.importers.lenient import UnreadableError
from auditapp.importers.rows import open_regular

Kind = Literal["zip", "tar", "tar.gz", "tar.zst"]
CHUNK = 2**20
INSPECT_SUFFIX = ".eval"  # a zip that is one document
# tarfile reads an extended header of any size in one piece, and its patterns are slow on long ones.
_LONGEST_TAR_HEADER = 2**15
ZSTD_WINDOW = 2**27
# OSError: gzip's for a wrong checksum. RecursionError: tarfile's for chained headers.
_DAMAGE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    zstandard.ZstdError,
    struct.error,
    EOFError,
    OSError,
    NotImplementedError,
    ValueError,
    RecursionError,
)
_END_OF_ZIP = b"PK\x05\x06"


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """What an archive may unpack to; sizes in bytes, `ratio` unpacked to packed once past `free_bytes`."""

    total_bytes: int = 8 * 2**30
    member_bytes: int = 2**30
    members: int = 100_000
    ratio: int = 200
    free_bytes: int = 64 * 2**20
    seconds: float = 900.0


class ArchiveError(Exception):
    """The archive as a whole cannot be used; the message says why."""


@dataclass(frozen=True, slots=True)
class Member:
    """One entry: its bytes come from `chunks`, once, before the next member is asked for; `bar` refuses it."""

    name: str
    size: int = 0
    folder: bool = False
    executable: bool = False
    bar: str = ""
    chunks: Iterator[bytes] = field(default_factory=lambda: iter(()))


class Meter:
    """Counts what has been unpacked and stops at the first limit it passes."""

    def __init__(self, packed: int, limits: ArchiveLimits) -> None:
        self.limits = limits
        self.packed = packed
        self.unpacked = 0
        self.members = 0
        self._deadline = time.monotonic() + limits.seconds

    def add(self, count: int) -> None:
        """Count bytes; raises ArchiveError past a limit."""
        self.unpacked += count
        limits = self.limits
        if self.unpacked > limits.total_bytes:
            raise ArchiveError(f"unpacks to more than the {limits.total_bytes:,} bytes allowed")
        if self.unpacked > max(limits.free_bytes, limits.ratio * self.packed):
            raise ArchiveError(f"unpacks to more than {limits.ratio} times its own size, as a zip bomb does")
        if time.monotonic() > self._deadline:
            raise ArchiveError(f"takes longer than {limits.seconds:g} seconds to unpack")

    def add_member(self) -> None:
        """Count an entry or a folder it implies; raises ArchiveError past the limit."""
        self.members += 1
        if self.members > self.limits.members:
            raise ArchiveError(f"has more than the {self.limits.members:,} members allowed")
        self.add(0)


def archive_kind(path: Path) -> Kind | None:
    """The kind of archive by its first bytes; None for anything else, be it an Inspect log, a folder or a FIFO."""
    if path.suffix == INSPECT_SUFFIX:
        return None
    try:
        with open_regular(path) as file:
            head = file.read(512)
    except (UnreadableError, OSError):
        return None
    if head.startswith((b"PK\x03\x04", _END_OF_ZIP)):
        return "zip"
    if head.startswith(b"\x1f\x8b"):
        return "tar.gz"
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return "tar.zst"
    return "tar" if head[257:262] == b"ustar" else None


def members(path: Path, kind: Kind, meter: Meter) -> Iterator[Member]:
    """All entries in the order they are stored; raises ArchiveError for what is damaged or too large."""
    with open_regular(path) as file:
        if kind == "zip":
            yield from _zip_members(file, meter)
        else:
            yield from _tar_members(_unpacked(file, kind), meter)


@contextmanager
def damage() -> Iterator[None]:
    """Turns what the archive libraries raise on damaged input into ArchiveError."""
    try:
        yield
    except _DAMAGE as error:
        raise ArchiveError(f"is damaged, truncated or of another kind: {error}") from error


def _zip_members(file: BinaryIO, meter: Meter) -> Iterator[Member]:
    check_directory(file, meter.limits.members)
    with damage(), zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            meter.add_member()
            yield _zip_member(archive, info, meter)


def _zip_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, meter: Meter) -> Member:
    # zipfile cuts a name at its first NUL and keeps the whole one here; a name that is not UTF-8 reads as cp437.
    name, mode = info.orig_filename, info.external_attr >> 16
    return Member(
        name=name,
        size=info.file_size,
        folder=name.endswith("/"),
        executable=bool(mode & 0o111),
        bar=_zip_bar(info, stat.S_IFMT(mode)),
        chunks=_zip_chunks(archive, info, meter),
    )


def _zip_bar(info: zipfile.ZipInfo, file_type: int) -> str:
    if file_type not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "a symbolic link" if file_type == stat.S_IFLNK else "a special file"
    if info.flag_bits & 0x1:
        return "encrypted; decrypt the archive first"
    # The other methods of zipfile unpack a whole block at once, however large it becomes.
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return f"packed with method {info.compress_type}; only stored and deflated members are read"
    return ""


def _zip_chunks(archive: zipfile.ZipFile, info: zipfile.ZipInfo, meter: Meter) -> Iterator[bytes]:
    with damage(), archive.open(info) as member:
        while chunk := member.read(CHUNK):
            meter.add(len(chunk))
            yield chunk


def check_directory(file: BinaryIO, most: int) -> None:
    """Count the entries before zipfile holds them all in memory, since the number a zip states may be a lie."""
    start, size = _directory(file)
    file.seek(start)
    count = 0
    while size > 0:
        header = file.read(46)
        if len(header) < 46 or not header.startswith(b"PK\x01\x02"):
            raise ArchiveError("is a damaged zip: its list of members is broken")
        extra = sum(struct.unpack("<3H", header[28:34]))
        size -= 46 + extra
        file.seek(extra, 1)
        count += 1
        if count > most:
            raise ArchiveError(f"has more than the {most:,} members allowed")
    file.seek(0)


def _directory(file: BinaryIO) -> tuple[int, int]:
    """Where the list of members starts and its size, found as zipfile finds it."""
    end = file.seek(0, 2)
    file.seek(max(0, end - 22 - 2**16))
    base, tail = file.tell(), file.read()
    at = len(tail) - 22 if tail[-22:].startswith(_END_OF_ZIP) else tail.rfind(_END_OF_ZIP)
    if at < 0 or len(tail) - at < 22:
        raise ArchiveError("is truncated or no zip: the list of members at its end is missing")
    size = int(struct.unpack("<L", tail[at + 12 : at + 16])[0])
    stop = base + at
    if at >= 76 and tail[at - 20 : at].startswith(b"PK\x06\x07") and tail[at - 76 : at].startswith(b"PK\x06\x06"):
        size, stop = int(struct.unpack("<Q", tail[at - 36 : at - 28])[0]), stop - 76
    if size > stop:
        raise ArchiveError("is a damaged zip: its list of members is larger than the file")
    return stop - size, size


def _unpacked(file: BinaryIO, kind: Kind) -> BinaryIO:
    if kind == "tar.gz":
        return cast(BinaryIO, gzip.GzipFile(fileobj=file))
    if kind == "tar.zst":
        reader = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
        return cast(BinaryIO, reader.stream_reader(file, read_across_frames=True))
    return file


class _Forward:
    """The little of a file that tarfile uses, over a stream that only goes forward and is metered."""

    def __init__(self, stream: BinaryIO, meter: Meter) -> None:
        self._stream = stream
        self._meter = meter
        self._at = 0
        self.last = b""

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int) -> None:
        if offset < self._at:
            raise ArchiveError("is a damaged tar: a member has an impossible size")
        for _ in self.chunks(offset - self._at):
            pass

    def read(self, count: int) -> bytes:
        if count > _LONGEST_TAR_HEADER:
            raise ArchiveError(f"is a damaged tar: a header of {count:,} bytes")
        self.last = self._take(count)
        return self.last

    def chunks(self, count: int) -> Iterator[bytes]:
        """The next `count` bytes; raises ArchiveError where the stream ends before."""
        while count > 0:
            chunk = self._take(min(count, CHUNK))
            if not chunk:
                raise ArchiveError("is truncated: it ends inside a member")
            count -= len(chunk)
            yield chunk

    def drain(self) -> None:
        """Read to the end, which checks the checksum of a packed stream."""
        while self._take(CHUNK):
            pass

    def _take(self, count: int) -> bytes:
        parts: list[bytes] = []
        while count > 0 and (part := self._read(count)):
            parts.append(part)
            count -= len(part)
            self._at += len(part)
            self._meter.add(len(part))
        return b"".join(parts)

    def _read(self, count: int) -> bytes:
        with damage():
            return self._stream.read(count)


def _tar_members(stream: BinaryIO, meter: Meter) -> Iterator[Member]:
    forward = _Forward(stream, meter)
    with damage():
        archive = tarfile.TarFile(fileobj=cast(BinaryIO, forward), encoding="utf-8", errors="surrogateescape")
        while info := archive.next():
            cast(Any, archive).members.clear()  # tarfile would keep every header
            meter.add_member()
            yield _tar_member(info, forward)
        # A broken header ends the loop as the zero blocks at the end do.
        if forward.last.strip(b"\0") or not forward.last:
            raise ArchiveError("is truncated or damaged: the end-of-archive mark is missing")
        forward.drain()


def _tar_member(info: tarfile.TarInfo, forward: _Forward) -> Member:
    return Member(
        name=info.name,
        size=info.size,
        folder=info.isdir(),
        executable=bool(info.mode & 0o111),
        bar=_tar_bar(info),
        chunks=forward.chunks(info.size),
    )


def _tar_bar(info: tarfile.TarInfo) -> str:
    if info.issym():
        return "a symbolic link"
    if info.islnk():
        return "a hard link"
    if info.issparse():
        return "a sparse file"
    if info.isdir() or info.type in (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE):
        return ""
    return "a FIFO" if info.isfifo() else "a device or other special file"
