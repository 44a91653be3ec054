"""Folders of Harbor tasks, matched to trials by name or digest: a trial itself holds no task."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import re2

from auditapp.importers.lenient import Repairs, UnreadableError, decode_text
from auditapp.importers.options import ImportOptions, Limits
from auditapp.importers.trees import folder_tree, is_folder, joined, list_folder, read_file
from judges.records import FileTree, TaskRecord

_MAX_DEPTH = 4
_CANARY = re2.compile(r"(?i)\A(?:[ \t]*(?:#|<!--|//)[^\n]*\bcanary\b[^\n]*\n)+\s*")  # linear in any text


@dataclass(slots=True)
class TaskFolders:
    """Finds the folder of a task below `options.tasks`, which is searched once, when first asked."""

    options: ImportOptions
    _index: dict[str, Path] | None = None
    _read: dict[tuple[str, str, str | None], TaskRecord] = field(default_factory=dict)

    def record(self, *, task_id: str, environment: str, digest: str | None, repairs: Repairs) -> TaskRecord:
        """The task with its files where a folder matches, else what the trial alone tells."""
        key = (task_id, environment, digest)
        if key in self._read:
            return self._read[key]
        folder = self._folder(task_id, digest)
        if folder is None:
            if self.options.tasks is not None:
                repairs.add("task_folder_missing", task_id, "no folder of this name or digest in --tasks")
            return TaskRecord(task_id=task_id, environment=environment, digest=digest)
        record = TaskRecord(
            task_id=task_id,
            environment=environment,
            instruction=_instruction(folder, repairs=repairs, limits=self.options.limits),
            digest=digest,
            initial=folder_tree(folder / "environment", limits=self.options.limits),
            reference=_step_tree(folder, "solution", limits=self.options.limits),
            verifier_source=_step_tree(folder, "tests", limits=self.options.limits),
        )
        self._read[key] = record
        return record

    def _folder(self, task_id: str, digest: str | None) -> Path | None:
        if self.options.tasks is None:
            return None
        if self._index is None:
            self._index = dict(_names(self.options.tasks, limits=self.options.limits))
        short = task_id.rstrip("/").rpartition("/")[2]
        wanted = [(digest or "").removeprefix("sha256:"), task_id, short]
        return next((self._index[name] for name in wanted if name and name in self._index), None)


def _names(root: Path, *, limits: Limits) -> Iterator[tuple[str, Path]]:
    """Every name a task folder answers to: its folder, the one above it where that is a digest, its `[task] name`."""
    for folder in _task_folders(root, depth=0):
        yield folder.name, folder
        yield folder.name.removeprefix("sha256-").removeprefix("sha256:"), folder
        if re.fullmatch(r"(?:sha256[:-])?[0-9a-f]{32,64}", folder.parent.name):
            yield folder.parent.name[-64:].removeprefix("sha256-").removeprefix("sha256:"), folder
        name = _declared_name(folder, limits=limits)
        if name:
            yield name, folder


def _task_folders(folder: Path, *, depth: int) -> Iterator[Path]:
    files, folders = list_folder(folder)
    if {"task.toml", "instruction.md"} & set(files):
        yield folder
    elif depth < _MAX_DEPTH:
        for name in folders:
            if not name.startswith("."):
                yield from _task_folders(folder / name, depth=depth + 1)


def _declared_name(folder: Path, *, limits: Limits) -> str:
    try:
        settings = tomllib.loads(read_file(folder / "task.toml", limit=limits.text_bytes).decode())
    except (KeyError, UnreadableError, ValueError, RecursionError):
        return ""
    task = settings.get("task")
    name = task.get("name") if isinstance(task, dict) else None
    return name if isinstance(name, str) else ""


def _step_tree(folder: Path, name: str, *, limits: Limits) -> FileTree | None:
    """A folder of the task, and those of the same name of its steps, each below the step's name."""
    trees: Mapping[str, FileTree | None] = {
        "": folder_tree(folder / name, limits=limits),
        **{step.name: folder_tree(step / name, limits=limits) for step in _steps(folder)},
    }
    found = {key: tree for key, tree in trees.items() if tree is not None}
    return joined(found) if found else None


def _steps(folder: Path) -> list[Path]:
    return [folder / "steps" / name for name in list_folder(folder / "steps")[1]] if is_folder(folder / "steps") else []


def _instruction(folder: Path, *, repairs: Repairs, limits: Limits) -> str | None:
    """What the agent was told, step by step where there are steps."""
    places = (folder, *_steps(folder))
    texts = [text for place in places if (text := read_instruction(place, repairs=repairs, limits=limits))]
    return "\n\n".join(texts) or None


def read_instruction(folder: Path, *, repairs: Repairs, limits: Limits) -> str | None:
    """The `instruction.md` of one folder without the canary lines that no agent sees; None where there is none."""
    try:
        raw = read_file(folder / "instruction.md", limit=limits.text_bytes)
    except KeyError:
        return None
    except UnreadableError as error:
        repairs.add("file_not_read", "instruction.md", str(error))
        return None
    shown: str = _CANARY.sub("", decode_text(raw, name="instruction.md", repairs=repairs))
    return shown
