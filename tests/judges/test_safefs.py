"""Hostile folders: no link is followed, nothing blocks, everything is bounded, nothing escapes."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from judges.records import FileTree
from judges.safefs import (
    NOT_LISTED,
    FolderTree,
    MemoryTree,
    NoSuchFileError,
    SubTree,
    decode,
    is_complete,
    is_text,
    materialise,
    text_of,
    texts,
)


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    root = tmp_path / "deliverable"
    (root / "deep" / "er").mkdir(parents=True)
    (root / "deep" / "er" / "x.txt").write_text("hello")
    (root / "run.sh").write_text("#!/bin/sh\n")
    (root / "run.sh").chmod(0o755)
    (root / "link").symlink_to("/etc/passwd")
    (root / "deep" / "loop").symlink_to(root)
    os.mkfifo(root / "pipe")
    with (root / "sparse").open("wb") as stream:
        stream.truncate(1 << 30)
    return root


def kinds(tree: FileTree) -> dict[str, str]:
    return {entry.path: entry.kind for entry in tree.entries()}


def test_members_are_listed_by_what_they_are(hostile: Path) -> None:
    tree = FolderTree(hostile)
    assert kinds(tree) == {
        "deep/er/x.txt": "file",
        "deep/loop": "symlink",
        "link": "symlink",
        "pipe": "special",
        "run.sh": "file",
        "sparse": "too_large",
    }
    assert [entry.path for entry in tree.entries() if entry.executable] == ["run.sh"]
    assert not is_complete(tree)


@pytest.mark.parametrize(
    "path",
    ["link", "pipe", "sparse", "deep", "deep/loop/run.sh", "../deliverable/run.sh", "/etc/passwd", "deep//er/x.txt"],
)
def test_only_listed_regular_files_are_read_and_nothing_blocks(hostile: Path, path: str) -> None:
    started = time.monotonic()
    with pytest.raises(KeyError):
        FolderTree(hostile).read(path)
    assert time.monotonic() - started < 10


def test_a_file_is_read_up_to_the_limit(hostile: Path) -> None:
    tree = FolderTree(hostile)
    assert tree.read("deep/er/x.txt") == b"hello"
    assert tree.read("deep/er/x.txt", limit=2) == b"he"


@pytest.mark.parametrize("replace", [lambda p: p.symlink_to("/etc/passwd"), os.mkfifo, Path.mkdir])
def test_a_file_replaced_after_the_listing_is_not_followed(hostile: Path, replace: Callable[[Path], None]) -> None:
    tree = FolderTree(hostile)
    tree.entries()
    (hostile / "run.sh").unlink()
    replace(hostile / "run.sh")
    with pytest.raises(NoSuchFileError):
        tree.read("run.sh")


def test_a_folder_replaced_by_a_link_after_the_listing_is_not_followed(hostile: Path, tmp_path: Path) -> None:
    tree = FolderTree(hostile)
    tree.entries()
    (hostile / "deep").rename(tmp_path / "elsewhere")
    (hostile / "deep").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NoSuchFileError):
        tree.read("deep/er/x.txt")


def test_names_that_are_no_text_become_visible_and_stay_unique(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    for name, body in [(b"caf\xe9.txt", b"bytes"), (b"caf\\xe9.txt", b"letters"), (b"a\nb", b"line")]:
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(body)
    tree = FolderTree(tmp_path)
    bodies = {entry.path: tree.read(entry.path) for entry in tree.entries()}
    assert bodies == {"a\nb": b"line", "caf\\xe9.txt": b"letters", "caf\\xe9.txt~2": b"bytes"}


def test_a_listing_that_stops_says_so_and_stops_at_the_same_place_every_time(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"f{number:02}").write_text("x")
    tree = FolderTree(tmp_path, max_entries=10)
    assert [entry.path for entry in tree.entries()] == [f"f{number:02}" for number in range(10)] + [NOT_LISTED]
    assert not is_complete(tree)


def test_depth_and_total_size_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c" / "x").write_text("x")
    (tmp_path / "y1").write_text("y" * 60)
    (tmp_path / "y2").write_text("y" * 60)
    assert kinds(FolderTree(tmp_path, max_depth=2, max_total=100)) == {
        "a/b/c": "special",
        "y1": "file",
        "y2": "too_large",
    }


def test_very_deep_folders_are_listed_as_too_deep(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(200):
        deep = deep / "d"
        deep.mkdir()
    (entry,) = FolderTree(tmp_path).entries()
    assert (entry.kind, "deep" in entry.note) == ("special", True)


def test_an_empty_folder_is_recorded_and_empty(tmp_path: Path) -> None:
    assert list(FolderTree(tmp_path).entries()) == []
    assert is_complete(FolderTree(tmp_path))


def test_a_subtree_shows_what_is_below_its_prefix(hostile: Path) -> None:
    tree = SubTree(FolderTree(hostile), "deep")
    assert kinds(tree) == {"er/x.txt": "file", "loop": "symlink"}
    assert tree.read("er/x.txt") == b"hello"
    with pytest.raises(KeyError):
        tree.read("run.sh")


def test_writing_a_tree_never_leaves_the_folder_and_makes_no_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    files = {"../evil": b"1", "/abs": b"2", "a": b"3", "a/b": b"4", "x/../../evil": b"5", "ok/run": b"6", "n\0": b"7"}
    done = materialise(MemoryTree(files, executable=["ok/run"]), target)
    assert sorted(path for path, _ in done.skipped) == ["../evil", "/abs", "a/b", "n\0", "x/../../evil"]
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        "target/a",
        "target/ok/run",
    ]
    assert (target / "ok" / "run").stat().st_mode & 0o777 == 0o755


def test_writing_through_a_link_in_the_target_is_refused(tmp_path: Path) -> None:
    target, outside = tmp_path / "target", tmp_path / "outside"
    target.mkdir()
    outside.mkdir()
    (target / "sub").symlink_to(outside)
    done = materialise(MemoryTree({"sub/x": b"1"}), target)
    assert (done.written, len(done.skipped)) == (0, 1)
    assert list(outside.iterdir()) == []


def test_links_and_large_files_are_not_written_and_are_named(hostile: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    done = materialise(FolderTree(hostile), target)
    assert done.written == 2
    assert {path for path, _ in done.skipped} == {"deep/loop", "link", "pipe", "sparse"}


@pytest.mark.parametrize("data", [b"plain\n", b"", "数é".encode(), "hi".encode("utf-16"), b"caf\xe9 latin\n"])
def test_text_is_text_in_any_encoding(data: bytes) -> None:
    assert is_text(data)


@pytest.mark.parametrize("data", [b"a\0b", b"\x89PNG\r\n\x1a\n\0\0", bytes(range(1, 32)) * 9])
def test_binary_is_not_text(data: bytes) -> None:
    assert not is_text(data)


def test_decoding_never_fails_and_never_loses_a_byte() -> None:
    assert decode(b"caf\xe9 \xff") == "caf\\xe9 \\xff"
    assert decode("hé".encode("utf-16")) == "hé"


def test_texts_of_a_tree_leave_out_binaries() -> None:
    tree = MemoryTree({"b.py": b"print(1)", "a.bin": b"\0\1", "c.md": b"# c"})
    assert list(texts(tree)) == [("b.py", "print(1)"), ("c.md", "# c")]
    assert text_of(tree, "a.bin") is None
