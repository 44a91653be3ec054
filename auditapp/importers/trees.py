"""Recorded folders and files as importers need them: nothing follows a link, blocks on a FIFO or reads past a limit."""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from auditapp.importers.lenient import Repairs, UnreadableError
from auditapp.importers.options import Limits
from judges.records import FileEntry, FileTree
from judges.safefs import FolderTree, NoSuchFileError

_VERIFIER_OUTPUT = re.compile(r"(?:^|/)logs/verifier/")


def folder_tree(path: Path, *, limits: Limits, depth: int = 64) -> FolderTree | None:
    """The folder `path` as a tree; None where it is missing, a link, or no folder."""
    if not is_folder(path):
        return None
    largest = max(limits.file_bytes, limits.json_bytes)
    return FolderTree(path, largest, limits.tree_files, limits.tree_bytes, depth)


def is_folder(path: Path) -> bool:
    """Whether `path` is a real folder and no link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def list_folder(path: Path) -> tuple[list[str], list[str]]:
    """Names of the files and of the folders in `path`, sorted; links count as files, so that nobody enters them."""
    try:
        with os.scandir(path) as entries:
            members = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    except OSError as error:
        raise UnreadableError(f"the folder cannot be read: {error.strerror}") from None
    return [name for name, is_dir in members if not is_dir], [name for name, is_dir in members if is_dir]


def root_name(root: Path) -> str:
    """What to call the imported folder itself, also where it was given as `.`."""
    return root.name or root.resolve().name or "/"


def shown(path: Path, *, root: Path) -> str:
    """`path` below `root` as people see it and as trees name it; bytes that are no UTF-8 become \\xNN."""
    relative = root_name(root) if path == root else str(path.relative_to(root))
    return os.fsencode(relative).decode("utf-8", "backslashreplace")


def why_no_folder(path: Path) -> str:
    """What to do about a path that should be a folder and is none."""
    if path.is_symlink():
        return "a symbolic link, which is not followed: give the folder itself"
    return "a file where a folder is expected" if path.exists() else "no such folder"


def read_file(path: Path, *, limit: int) -> bytes:
    """The bytes of one regular file; KeyError where there is none, UnreadableError with the reason otherwise."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise KeyError(path.name) from None
    except (OSError, ValueError) as error:
        why = "is a symbolic link, not followed" if path.is_symlink() else f"cannot be opened: {error}"
        raise UnreadableError(f"{path.name} {why}") from None
    with os.fdopen(file, "rb") as stream:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise UnreadableError(f"{path.name} is no regular file")
        if status.st_size > limit:
            raise UnreadableError(f"{path.name} has {status.st_size:,} bytes, more than the limit of {limit:,}")
        return stream.read(limit)


def read_member(tree: FileTree, path: str, *, limit: int) -> bytes:
    """As `read_file`, for a member of a tree."""
    try:
        raw = tree.read(path, limit=limit + 1)
    except KeyError as error:
        entry = next((entry for entry in tree.entries() if entry.path == path), None)
        if entry is None:
            raise
        raise UnreadableError(str(error)) from None
    if len(raw) > limit:
        raise UnreadableError(f"{path} has more than the limit of {limit:,} bytes")
    return raw


def paths(tree: FileTree | None) -> list[str]:
    """The paths of all readable files."""
    return [entry.path for entry in tree.entries() if entry.kind == "file"] if tree is not None else []


@dataclass(frozen=True, slots=True)
class PickedTree:
    """Members of other trees under paths of their own: a selection, a union, or both."""

    members: Mapping[str, tuple[FileTree, FileEntry]]

    def entries(self) -> Sequence[FileEntry]:
        """All members, sorted by path."""
        return [replace(self.members[path][1], path=path) for path in sorted(self.members)]

    def read(self, path: str, *, limit: int | None = None) -> bytes:
        """The bytes of one file, at most `limit`; KeyError where there is none."""
        if path not in self.members:
            raise NoSuchFileError(f"{path!r} is not in this tree")
        tree, entry = self.members[path]
        return tree.read(entry.path, limit=limit)


def joined(parts: Mapping[str, FileTree]) -> FileTree:
    """All trees in one, each below the folder that is its key; a lone tree with the key "" is returned as it is."""
    if list(parts) == [""]:
        return parts[""]
    members = {
        f"{prefix}/{entry.path}" if prefix else entry.path: (tree, entry)
        for prefix, tree in parts.items()
        for entry in tree.entries()
    }
    return PickedTree(members)


def without_verifier_output(tree: FileTree | None, *, flags: Repairs) -> FileTree | None:
    """Collected work may hold what the verifier wrote; the blind judge and reviewers must not read it."""
    hidden = [] if tree is None else [entry.path for entry in tree.entries() if _VERIFIER_OUTPUT.search(entry.path)]
    if tree is None or not hidden:
        return tree
    flags.add("verifier_output_in_deliverable", hidden[0], f"{len(hidden)} files left out")
    return without(tree, names=frozenset(hidden))


def picked(tree: FileTree, *, names: frozenset[str]) -> PickedTree:
    """Only the members with these paths, of those that are there."""
    return PickedTree({entry.path: (tree, entry) for entry in tree.entries() if entry.path in names})


def without(tree: FileTree, *, names: frozenset[str]) -> PickedTree:
    """All members but those with these paths."""
    return PickedTree({entry.path: (tree, entry) for entry in tree.entries() if entry.path not in names})
