"""Unpacking a zip or tar archive from a stranger into a fresh folder."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from auditapp.importers.archive_members import (
    ArchiveError,
    ArchiveLimits,
    Member,
    Meter,
    archive_kind,
    members,
)
from auditapp.importers.lenient import UnreadableError, storable_text
from judges.records import ParseFailure

__all__ = ["ArchiveLimits", "UnpackReport", "archive_kind", "unpack"]

_NESTED = (".zip", ".tar", ".tgz", ".tar.gz", ".tar.zst")
_DEFAULT_LIMITS = ArchiveLimits()
_DEEPEST = 64
_LONGEST_PART = 255
_LONGEST_NAME = 1024


@dataclass(frozen=True, slots=True)
class UnpackReport:
    """What became of an archive. With a `failure` nothing is left on disk; `refused` has a line per member left out.

    `nested` are archives inside the archive, kept as plain files.
    """

    folder: Path
    files: int = 0
    size: int = 0
    refused: tuple[ParseFailure, ...] = ()
    nested: tuple[str, ...] = ()
    failure: ParseFailure | None = None


class _RefusedError(Exception):
    """One member is left out; the message says why."""


def unpack(path: Path, folder: Path, limits: ArchiveLimits = _DEFAULT_LIMITS) -> UnpackReport:
    """Unpack into `folder`, which must not exist yet; never raises for what is in the archive."""
    folder.mkdir(parents=True, mode=0o700)
    try:
        target = _Target(folder, Meter(path.stat().st_size, limits))
        target.fill(path)
    except (ArchiveError, UnreadableError) as error:
        return _failed(path, folder, f"the archive {error}")
    except OSError as error:
        return _failed(path, folder, f"the archive cannot be unpacked: {error.strerror}")
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return target.report(path)


def _failed(path: Path, folder: Path, reason: str) -> UnpackReport:
    shutil.rmtree(folder, ignore_errors=True)
    return UnpackReport(folder=folder, failure=ParseFailure(storable_text(path.name), reason))


class _Target:
    """The folder being filled: only files and folders made here, so no name can lead through a link."""

    def __init__(self, folder: Path, meter: Meter) -> None:
        self._folder = folder
        self._meter = meter
        self._folders: set[str] = {""}
        self._files = 0
        self._size = 0
        self._refused: list[ParseFailure] = []
        self._nested: list[str] = []

    def fill(self, path: Path) -> None:
        kind = archive_kind(path)
        if kind is None:
            raise ArchiveError("is neither zip, tar, tar.gz nor tar.zst")
        for member in members(path, kind, self._meter):
            try:
                self._add(member)
            except _RefusedError as refusal:
                self._refused.append(ParseFailure(path=_shown(member.name), reason=f"left out: {refusal}"))

    def report(self, path: Path) -> UnpackReport:
        if not self._files:
            first = self._refused[0] if self._refused else None
            why = f"{first.path}: {first.reason}" if first else "it has no files"
            return _failed(path, self._folder, f"nothing could be unpacked from the archive ({why})")
        return UnpackReport(self._folder, self._files, self._size, tuple(self._refused), tuple(self._nested))

    def _add(self, member: Member) -> None:
        if member.bar:
            raise _RefusedError(member.bar)
        name = _safe_name(member.name)
        limit = self._meter.limits.member_bytes
        if member.size > limit:
            raise _RefusedError(f"{member.size:,} bytes, more than the {limit:,} allowed for one file")
        self._make_folder(name if member.folder else name.rpartition("/")[0])
        if not member.folder:
            self._write(name, member.chunks, member.executable)

    def _make_folder(self, name: str) -> None:
        if name in self._folders:
            return
        self._make_folder(name.rpartition("/")[0])
        try:
            (self._folder / name).mkdir(mode=0o700)
        except FileExistsError:
            raise _RefusedError("a file of that name is already there") from None
        self._meter.add_member()
        self._folders.add(name)

    def _write(self, name: str, chunks: Iterator[bytes], executable: bool) -> None:
        try:
            # Exclusive: of two members with one name the first stays.
            handle = os.open(self._folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700 if executable else 0o600)
        except FileExistsError:
            raise _RefusedError("a member of that name is already there") from None
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                self._size += file.write(chunk)
        self._files += 1
        if name.lower().endswith(_NESTED):
            self._nested.append(name)


def _safe_name(name: str) -> str:
    """The name as a relative path below the target folder, "" for its root; raises _RefusedError for any other."""
    if "\0" in name:
        raise _RefusedError("its name has a NUL")
    if name.startswith("/") or name[1:3] in (":\\", ":/"):
        raise _RefusedError("its path is absolute")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or ".." in name.split("\\"):
        raise _RefusedError("its path leads out of the archive")
    longest = max((len(_encoded(part)) for part in parts), default=0)
    if len(parts) > _DEEPEST or len(name) > _LONGEST_NAME or longest > _LONGEST_PART:
        raise _RefusedError("its path is too long or too deep")
    return "/".join(parts)


def _encoded(part: str) -> bytes:
    try:
        return part.encode()
    except UnicodeEncodeError:
        raise _RefusedError("its name is not UTF-8") from None


def _shown(name: str) -> str:
    """The name for a message: no bytes that are not UTF-8, no control characters, not endless."""
    text = name[:200].encode("utf-8", "backslashreplace").decode()
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
