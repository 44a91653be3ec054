"""Reads a case folder, the plain format for attempts that come from no harness, into what a judge may see.

case.json (task_id, verifier, and where the task is shared: task_dir), instruction.md, rubric.json, trajectory.json
(ATIF), and the folders deliverable, initial, reference, verifier, verifier-source. A missing folder was not recorded.
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import orjson

from judges.errors import JudgeError
from judges.records import (
    VERIFIER_STATUSES,
    Action,
    Case,
    FileTree,
    Notice,
    Observation,
    ReferencePolicy,
    Requirement,
    Revealed,
    Source,
    StepRecord,
    VerifierRecord,
)
from judges.safefs import FolderTree, ReducedTree
from judges.trajindex import MemorySteps

Json = Any
MAX_BYTES = 64 << 20
_VERIFIER_OUTPUT = re.compile(r"(?:^|/)logs/verifier/")
_SOURCES: tuple[Source, ...] = get_args(Source)


class CaseFolderError(JudgeError):
    """A folder that is no usable case; the message says what is missing or wrong."""


@dataclass(frozen=True, slots=True)
class CaseFolder:
    """A case and, apart from it, the verifier's side."""

    case: Case
    revealed: Revealed


def load_case(folder: Path) -> CaseFolder:
    """Read a case folder; CaseFolderError where it is unusable."""
    about = _json(folder / "case.json")
    if not isinstance(about, dict):
        raise CaseFolderError(f"{folder.name}: case.json must be an object")
    task = _task_folder(folder, about)
    steps = _steps(folder / "trajectory.json")
    instruction = _text(task / "instruction.md")
    initial, reference = _tree(task / "initial"), _tree(task / "reference")
    digest = hashlib.sha256(f"{about.get('task_id')}\0{instruction}".encode("utf-8", "replace")).hexdigest()
    deliverable, gaps = _without_verifier_output(_tree(folder / "deliverable"))
    case = Case(
        task_digest=digest,
        content_digest=hashlib.sha256(str(folder.resolve()).encode()).hexdigest(),
        instruction=instruction,
        rubric=_rubric(task / "rubric.json"),
        steps=MemorySteps(steps or ()),
        steps_recorded=steps is not None,
        deliverable=deliverable,
        initial=initial,
        reference=reference,
        reference_policy=_policy(about.get("reference_policy", "phase1")),
        gaps=gaps,
    )
    verifier = _verifier(about.get("verifier"), _tree(folder / "verifier"))
    return CaseFolder(case, Revealed(verifier, _tree(task / "verifier-source")))


def _task_folder(folder: Path, about: Mapping[str, Json]) -> Path:
    """The case folder itself, or the folder that several cases of a task share: through no links, and not anywhere.

    It lies in the folder that holds `cases/`, as in a release, else in the one that holds the case.
    """
    given = about.get("task_dir")
    if not given:
        return folder
    if not isinstance(given, str) or given.startswith("/") or "\0" in given:
        raise CaseFolderError(f"{folder.name}: task_dir must be a relative path")
    case = folder.resolve()
    root = next((parent.parent for parent in case.parents if parent.name == "cases"), case.parent)
    shared = Path(os.path.normpath(case / given))
    if not shared.is_relative_to(root):
        raise CaseFolderError(f"{folder.name}: task_dir {given[:200]!r} leads out of {root.name or root}")
    if shared.resolve() != shared or not shared.is_dir():
        raise CaseFolderError(f"{folder.name}: task_dir {given[:200]!r} is no folder")
    return shared


def _policy(value: Json) -> ReferencePolicy:
    for policy in get_args(ReferencePolicy):
        if value == policy:
            return policy  # type: ignore[no-any-return]
    raise CaseFolderError(f"reference_policy {value!r}: choose {', '.join(get_args(ReferencePolicy))}")


def _bytes(path: Path) -> bytes | None:
    tree = FolderTree(path.parent, max_file=MAX_BYTES, max_depth=1)
    try:
        return tree.read(path.name)
    except KeyError:
        return None


def _text(path: Path) -> str | None:
    data = _bytes(path)
    return None if data is None else data.decode("utf-8", "backslashreplace")


def _json(path: Path) -> Json:
    data = _bytes(path)
    if data is None:
        raise CaseFolderError(f"{path.name} is missing in {path.parent.name}")
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise CaseFolderError(f"{path.name} in {path.parent.name} is no JSON: {error}") from error


def _tree(path: Path) -> FileTree | None:
    return FolderTree(path) if path.is_dir() and not path.is_symlink() else None


def _without_verifier_output(tree: FileTree | None) -> tuple[FileTree | None, tuple[Notice, ...]]:
    """Collected work may hold what the verifier wrote there: the blind phase must not read it."""
    hidden = [] if tree is None else [entry.path for entry in tree.entries() if _VERIFIER_OUTPUT.search(entry.path)]
    if tree is None or not hidden:
        return tree, ()
    notice = Notice("verifier_output_in_deliverable", "deliverable", f"{len(hidden)} files left out")
    return ReducedTree(tree, lambda path: _VERIFIER_OUTPUT.search(path) is None), (notice,)


def _rubric(path: Path) -> tuple[Requirement, ...]:
    if _bytes(path) is None:
        return ()
    rows = _json(path)
    try:
        return tuple(Requirement(row["id"], _requirement(row), bool(row.get("format_binding"))) for row in rows)
    except (TypeError, KeyError, AttributeError) as error:
        raise CaseFolderError("rubric.json must be a list of {id, requirement, format_binding}") from error


def _requirement(row: Mapping[str, Json]) -> str:
    text = row.get("requirement", row.get("text"))
    if not isinstance(text, str):
        raise TypeError("a requirement is a text")
    return text


def _verifier(about: Json, streams: FileTree | None) -> VerifierRecord:
    told = about if isinstance(about, dict) else {}
    status, reward = told.get("status", "none"), told.get("reward")
    if status not in VERIFIER_STATUSES:
        raise CaseFolderError(f"verifier status {status!r}: choose {', '.join(VERIFIER_STATUSES)}")
    number = float(reward) if isinstance(reward, int | float) and not isinstance(reward, bool) else None
    return VerifierRecord(status, str(told.get("reason", "")), number, streams=streams)


def _steps(path: Path) -> list[StepRecord] | None:
    """Steps of an ATIF document by their position; None where there is no such file."""
    if _bytes(path) is None:
        return None
    document = _json(path)
    steps = document.get("steps") if isinstance(document, dict) else None
    if not isinstance(steps, list):
        raise CaseFolderError("trajectory.json has no list of steps")
    return [_step(step, str(number)) for number, step in enumerate(steps, 1) if isinstance(step, dict)]


def _step(step: Mapping[str, Json], locator: str) -> StepRecord:
    source = step.get("source")
    calls = [call for call in _list(step.get("tool_calls")) if isinstance(call, dict)]
    results = [row for row in _list(_object(step.get("observation")).get("results")) if isinstance(row, dict)]
    return StepRecord(
        locator=locator,
        source=next((name for name in _SOURCES if name == source), "unknown"),
        message=_content(step.get("message")),
        reasoning=_content(step.get("reasoning_content")),
        actions=tuple(_action(call) for call in calls),
        observations=tuple(_observation(row) for row in results),
        timestamp=step.get("timestamp") if isinstance(step.get("timestamp"), str) else None,
    )


def _action(call: Mapping[str, Json]) -> Action:
    arguments = call.get("arguments")
    given = arguments if isinstance(arguments, dict) else _content(arguments)
    return Action(str(call.get("function_name", "")), given, _id(call.get("tool_call_id")))


def _observation(row: Mapping[str, Json]) -> Observation:
    call_id = _id(row.get("source_call_id"))
    return Observation(_content(row.get("content")), call_id, "explicit" if call_id else "none")


def _id(value: Json) -> str | None:
    return None if value is None else str(value)


def _list(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list) else ()


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _content(value: Json) -> str:
    """Text of a content field: a string, or the text parts of a list."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(str(part["text"]) for part in value if isinstance(part, dict) and "text" in part)
    return "" if value is None else orjson.dumps(value).decode()
