"""Recorded file trees that may be hostile: read without following links, without blocking, within fixed bounds."""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from judges.records import FileEntry, FileTree

MAX_FILE: Final = 16 << 20
MAX_ENTRIES: Final = 20_000
MAX_TOTAL: Final = 1 << 30
MAX_DEPTH: Final = 64
NOT_LISTED: Final = "(not listed)"
_SNIFF: Final = 8_192
_TEXT_CONTROLS: Final = bytes({7, 8, 9, 10, 12, 13, 27})
_BINARY: Final = bytes(set(range(32)) - set(_TEXT_CONTROLS)) + b"\x7f"
_BOMS: Final = ((b"\xff\xfe\x00\x00", "utf-32"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))


class NoSuchFileError(KeyError):
    """There is no such file, or it has no bytes to read; the message says which."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class FolderTree:
    """A folder on disk as a recorded tree.

    Only regular files are read; links and devices are entries without bytes, and so are files over `max_file` or past
    `max_total`. A listing that stops at `max_entries` ends with an entry named "(not listed)" that says so.
    """

    root: str | os.PathLike[str]
    max_file: int = MAX_FILE
    max_entries: int = MAX_ENTRIES
    max_total: int = MAX_TOTAL
    max_depth: int = MAX_DEPTH

    def entries(self) -> Sequence[FileEntry]:
        """All members sorted by path, listed once."""
        return self._listing.entries

    def read(self, path: str, *, limit: int | None = None) -> bytes:
        """The bytes of one listed regular file, at most `limit`; NoSuchFileError (a KeyError) for anything else."""
        entry = self._by_path.get(path)
        if entry is None or entry.kind != "file":
            raise NoSuchFileError(f"{path!r} is {_why_not(entry)}")
        parts = self._listing.names[path]
        try:
            return self._read(parts, self.max_file if limit is None else min(limit, self.max_file))
        except OSError as error:
            raise NoSuchFileError(f"{path!r} cannot be read: {error.strerror}") from error

    @cached_property
    def _listing(self) -> "_Listing":
        return _list_folder(self)

    @cached_property
    def _by_path(self) -> Mapping[str, FileEntry]:
        return {entry.path: entry for entry in self._listing.entries}

    def _read(self, parts: tuple[bytes, ...], limit: int) -> bytes:
        with _folder(self.root, parts[:-1]) as folder:
            # O_NONBLOCK: a FIFO put there since the listing must not hang the reader.
            file = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            with os.fdopen(file, "rb") as stream:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise OSError(errno.EINVAL, "not a regular file any more")
                return stream.read(limit)


def _why_not(entry: FileEntry | None) -> str:
    return "not in this tree" if entry is None else f"not readable ({entry.note or entry.kind})"


@dataclass(frozen=True, slots=True)
class _Listing:
    entries: tuple[FileEntry, ...]
    names: Mapping[str, tuple[bytes, ...]]


@contextmanager
def _folder(root: str | os.PathLike[str], parts: Iterable[bytes]) -> Iterator[int]:
    """Descriptor of a folder below `root`, opened component by component so that no link is followed."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    current = os.open(root, flags)
    try:
        for part in parts:
            deeper = os.open(part, flags | os.O_NOFOLLOW, dir_fd=current)
            os.close(current)
            current = deeper
        yield current
    finally:
        os.close(current)


@dataclass(slots=True)
class _Walk:
    """State of one listing: what was found and how much of the bounds is used."""

    tree: FolderTree
    found: list[FileEntry] = field(default_factory=list)
    names: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    total: int = 0
    full: bool = False

    def visit(self, folder: int, parents: tuple[bytes, ...]) -> None:
        """Files before folders, each sorted by bytes: which entries a bound cuts off is the same every time."""
        folders = []
        for name in sorted(os.fsencode(name) for name in os.listdir(folder)):
            if len(self.found) >= self.tree.max_entries:
                self.full = True
                return
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError as error:
                self._note((*parents, name), f"cannot be examined: {error.strerror}")
                continue
            if stat.S_ISDIR(status.st_mode):
                folders.append(name)
            else:
                self._add((*parents, name), status)
        for name in folders:
            if self.full:
                return
            self._descend(folder, (*parents, name))

    def _descend(self, folder: int, parts: tuple[bytes, ...]) -> None:
        if len(parts) > self.tree.max_depth:
            self._note(parts, f"more than {self.tree.max_depth} folders deep: not listed")
            return
        try:
            deeper = os.open(parts[-1], os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except OSError as error:
            self._note(parts, f"folder cannot be read: {error.strerror}")
            return
        try:
            self.visit(deeper, parts)
        finally:
            os.close(deeper)

    def _add(self, parts: tuple[bytes, ...], status: os.stat_result) -> None:
        size = status.st_size
        if stat.S_ISLNK(status.st_mode):
            self._record(FileEntry(self._path(parts), 0, "symlink", note="symbolic link, not followed"), parts)
        elif not stat.S_ISREG(status.st_mode):
            self._note(parts, "no regular file")
        elif size > self.tree.max_file:
            note = f"larger than {self.tree.max_file} bytes"
            self._record(FileEntry(self._path(parts), size, "too_large", note=note), parts)
        elif self.total + size > self.tree.max_total:
            note = f"the files before it fill the limit of {self.tree.max_total} bytes"
            self._record(FileEntry(self._path(parts), size, "too_large", note=note), parts)
        else:
            self.total += size
            executable = bool(status.st_mode & stat.S_IXUSR)
            self._record(FileEntry(self._path(parts), size, executable=executable), parts)

    def _note(self, parts: tuple[bytes, ...], note: str) -> None:
        self._record(FileEntry(self._path(parts), 0, "special", note=note), parts)

    def _record(self, entry: FileEntry, parts: tuple[bytes, ...]) -> None:
        self.found.append(entry)
        self.names[entry.path] = parts

    def _path(self, parts: tuple[bytes, ...]) -> str:
        """Bytes that are no UTF-8 become \\xNN; a clash with a name that really reads so gets a number."""
        path = visible = b"/".join(parts).decode("utf-8", "backslashreplace")
        number = 2
        while path in self.names or path == NOT_LISTED:
            path, number = f"{visible}~{number}", number + 1
        return path


def _list_folder(tree: FolderTree) -> _Listing:
    walk = _Walk(tree)
    with _folder(tree.root, ()) as root:
        walk.visit(root, ())
    found = sorted(walk.found, key=lambda entry: entry.path)
    if walk.full:
        found.append(FileEntry(NOT_LISTED, 0, "special", note=f"more than {tree.max_entries} entries: rest not listed"))
    return _Listing(tuple(found), walk.names)


def is_complete(tree: FileTree) -> bool:
    """Whether every file of the tree was listed and can be read: only then can something be absent from it."""
    return all(entry.kind in ("file", "symlink") for entry in tree.entries())


class MemoryTree:
    """A tree held in memory: path to bytes."""

    def __init__(self, files: Mapping[str, bytes], *, executable: Iterable[str] = ()) -> None:
        self._files = dict(files)
        self._executable = frozenset(executable)

    def entries(self) -> Sequence[FileEntry]:
        """All members, sorted by path."""
        files = sorted(self._files.items())
        return [FileEntry(path, len(data), executable=path in self._executable) for path, data in files]

    def read(self, path: str, *, limit: int | None = None) -> bytes:
        """The bytes of one file, at most `limit`; NoSuchFileError where there is none."""
        if path not in self._files:
            raise NoSuchFileError(f"{path!r} is not in this tree")
        return self._files[path][:limit]


class SubTree:
    """The part of another tree below the folder `prefix`, with paths relative to it."""

    def __init__(self, tree: FileTree, prefix: str) -> None:
        self._tree = tree
        self._prefix = prefix.rstrip("/") + "/"

    def entries(self) -> Sequence[FileEntry]:
        """The members below the prefix, sorted by path."""
        size = len(self._prefix)
        below = (entry for entry in self._tree.entries() if entry.path.startswith(self._prefix))
        return [
            FileEntry(entry.path[size:], entry.size, entry.kind, entry.sha256, entry.executable, entry.note)
            for entry in below
        ]

    def read(self, path: str, *, limit: int | None = None) -> bytes:
        """The bytes of one file, at most `limit`; NoSuchFileError where there is none."""
        return self._tree.read(self._prefix + path, limit=limit)


@dataclass(frozen=True, slots=True)
class ReducedTree:
    """A tree with members left out and the bytes of the others changed; `change` gets a path and its bytes."""

    tree: FileTree
    keep: Callable[[str], bool]
    change: Callable[[str, bytes], bytes] = lambda _, data: data

    def entries(self) -> Sequence[FileEntry]:
        """The members that are kept, with the sizes they had."""
        return [entry for entry in self.tree.entries() if self.keep(entry.path)]

    def read(self, path: str, *, limit: int | None = None) -> bytes:
        """The changed bytes of one file, at most `limit`; KeyError where there is none."""
        if not self.keep(path):
            raise NoSuchFileError(f"{path!r} is left out")
        return self.change(path, self.tree.read(path))[:limit]


@dataclass(frozen=True, slots=True)
class Materialised:
    """What was written to disk, and what was not with the reason."""

    written: int
    bytes: int
    skipped: tuple[tuple[str, str], ...]


def materialise(tree: FileTree, folder: str | os.PathLike[str], *, max_total: int = MAX_TOTAL) -> Materialised:
    """Write the regular files of `tree` below the existing, private `folder`; no path leaves it and no link is made."""
    written = total = 0
    skipped: list[tuple[str, str]] = []
    for entry in tree.entries():
        reason = _why_unsafe(entry) or ("over the size limit" if total + entry.size > max_total else "")
        if not reason:
            try:
                total += _write(folder, entry, tree.read(entry.path, limit=max_total - total + 1))
                written += 1
            except (OSError, KeyError) as error:
                reason = str(error)
        if reason:
            skipped.append((entry.path, reason))
    return Materialised(written, total, tuple(skipped))


def _why_unsafe(entry: FileEntry) -> str:
    if entry.kind != "file":
        return entry.note or entry.kind
    parts = entry.path.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in entry.path:
        return "not a plain relative path"
    if len(parts) > MAX_DEPTH or any(len(part.encode("utf-8", "replace")) > 255 for part in parts):
        return "the name is too long for a file system"
    return ""


def _write(root: str | os.PathLike[str], entry: FileEntry, data: bytes) -> int:
    parts = [os.fsencode(part) for part in entry.path.split("/")]
    for depth in range(1, len(parts)):
        with _folder(root, parts[: depth - 1]) as parent, suppress(FileExistsError):
            os.mkdir(parts[depth - 1], 0o755, dir_fd=parent)
    with _folder(root, parts[:-1]) as parent:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        mode = 0o755 if entry.executable else 0o644
        with os.fdopen(os.open(parts[-1], flags, mode, dir_fd=parent), "wb") as stream:
            stream.write(data)
    return len(data)


def is_text(data: bytes) -> bool:
    """Whether the first 8 kB read as text: UTF-8, marked UTF-16/32, or an old encoding without controls."""
    head = data[:_SNIFF]
    if head.startswith(tuple(mark for mark, _ in _BOMS)):
        return True
    if b"\0" in head:
        return False
    controls = len(head) - len(head.translate(None, _BINARY))
    return controls * 20 <= len(head)


def decode(data: bytes) -> str:
    """UTF-8 (or UTF-16/32 where a mark says so); bytes that do not fit become \\xNN."""
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    return data.decode("utf-8", "backslashreplace")


def text_of(tree: FileTree, path: str) -> str | None:
    """The raw text of one file, None where it is binary; NoSuchFileError where it cannot be read."""
    data = tree.read(path)
    return decode(data) if is_text(data) else None


def texts(tree: FileTree) -> Iterator[tuple[str, str]]:
    """Path and raw text of every text file, sorted by path: what a search over the tree covers."""
    for entry in tree.entries():
        if entry.kind == "file" and (text := text_of(tree, entry.path)) is not None:
            yield entry.path, text
