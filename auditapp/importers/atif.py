"""Bare ATIF documents: one file, or a folder of them. They tell an attempt, never what a verifier said of it."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from auditapp.importers.atif_steps import Trajectory, read_trajectory
from auditapp.importers.containment import contained
from auditapp.importers.lenient import Repairs, UnreadableError, load_object
from auditapp.importers.options import ImportOptions
from auditapp.importers.trees import folder_tree, is_folder, list_folder, read_file, read_member, shown
from judges.records import FileTree, Json, Original, ParseFailure, TaskRecord, TrajectoryRecord, VerifierRecord

_REFERENCE = re.compile(rb'"(?:continued_trajectory_ref|trajectory_path)"\s*:\s*"([^"/\\]{1,255})"')
_MAX_DEPTH = 16


def parse(path: Path, options: ImportOptions) -> Iterator[TrajectoryRecord | ParseFailure]:
    """One record per document that no other document continues or refers to."""
    if not is_folder(path):
        yield _parse_file(path, name=shown(path, root=path), options=options)
        return
    found = False
    for item in _documents(path, root=path, depth=0, options=options):
        found = True
        if isinstance(item, ParseFailure):
            yield item
        else:
            yield _parse_file(item, name=shown(item, root=path), options=options)
    if not found:
        yield ParseFailure(shown(path, root=path), "no .json file in this folder")


def _documents(folder: Path, *, root: Path, depth: int, options: ImportOptions) -> Iterator[Path | ParseFailure]:
    try:
        files, folders = list_folder(folder)
    except UnreadableError as error:
        yield ParseFailure(shown(folder, root=root), str(error))
        return
    names = [name for name in files if name.endswith(".json")]
    referenced = _referenced(folder, names, options=options)
    yield from (folder / name for name in names if name not in referenced)
    for name in folders:
        if not name.startswith(".") and depth < _MAX_DEPTH:
            yield from _documents(folder / name, root=root, depth=depth + 1, options=options)


def _referenced(folder: Path, names: list[str], *, options: ImportOptions) -> set[str]:
    """Files that belong to another document of the same folder, also where all were renamed with one prefix."""
    found: set[str] = set()
    for name in names:
        try:
            raw = read_file(folder / name, limit=options.limits.json_bytes)
        except (KeyError, UnreadableError):
            continue
        prefix = name.removesuffix("trajectory.json") if name.endswith("trajectory.json") else ""
        for match in _REFERENCE.findall(raw):
            reference = match.decode("utf-8", "replace")
            found |= {reference, prefix + reference} - {name}
    return found


def _parse_file(path: Path, *, name: str, options: ImportOptions) -> TrajectoryRecord | ParseFailure:
    return contained(name, lambda: _read(path, options=options))


def _read(path: Path, *, options: ImportOptions) -> TrajectoryRecord:
    repairs, limits = Repairs(), options.limits
    try:
        raw = read_file(path, limit=limits.json_bytes)
    except KeyError:
        raise UnreadableError("no such file") from None
    name = shown(path, root=path.parent)
    document = load_object(raw, name=name, repairs=repairs, limits=limits)
    if not isinstance(document.get("steps"), list):
        raise UnreadableError("no list named `steps`: this is no ATIF document")
    tree = folder_tree(path.parent, limits=limits, depth=2)

    def read(sibling: str) -> bytes:
        if tree is None:
            raise KeyError(sibling)
        return read_member(tree, sibling, limit=limits.json_bytes)

    trajectory = read_trajectory(document, name=name, read=read, repairs=repairs, limits=limits)
    source_id = _source_id(document, stem=name.removesuffix(".json"), raw=raw)
    return _record(trajectory, source_id=source_id, tree=tree, repairs=repairs, options=options)


def _source_id(document: dict[str, Json], *, stem: str, raw: bytes) -> str:
    """A session may hold several documents, so its id alone would not tell them apart."""
    trajectory, session = document.get("trajectory_id"), document.get("session_id")
    if isinstance(trajectory, str) and trajectory:
        return trajectory[:200]
    if isinstance(session, str) and session:
        return f"{session[:120]}:{stem[:80]}"
    return "sha256:" + hashlib.sha256(raw).hexdigest()


def _record(
    trajectory: Trajectory, *, source_id: str, tree: FileTree | None, repairs: Repairs, options: ImportOptions
) -> TrajectoryRecord:
    if trajectory.instruction is None:
        repairs.add("instruction_missing", "", "no user step to take it from")
    else:
        repairs.add("instruction_from_trajectory", "", "the first message of a user")
    return TrajectoryRecord(
        source_id=source_id,
        task=_task(trajectory, source_id=source_id, options=options),
        verifier=VerifierRecord(status="none", reason="not_recorded"),
        steps=trajectory.steps,
        agent=trajectory.agent,
        agent_version=trajectory.agent_version,
        model=trajectory.model,
        effort=trajectory.effort,
        usage=trajectory.usage,
        started_at=trajectory.steps[0].timestamp if trajectory.steps else None,
        finished_at=trajectory.steps[-1].timestamp if trajectory.steps else None,
        extra={"format": "atif", "schema_version": trajectory.version},
        warnings=repairs.notices(),
        flags=trajectory.flags,
        originals=originals(trajectory, tree=tree, prefix=""),
    )


def _task(trajectory: Trajectory, *, source_id: str, options: ImportOptions) -> TaskRecord:
    """Documents that begin with the same instruction are attempts at one task."""
    task = TaskRecord(task_id=source_id, environment=options.environment or "adhoc")
    if trajectory.instruction is None:
        return task
    digest = hashlib.sha256(trajectory.instruction.encode()).hexdigest()
    return replace(task, task_id=f"instruction-{digest[:16]}", instruction=trajectory.instruction)


def originals(trajectory: Trajectory, *, tree: FileTree | None, prefix: str) -> tuple[Original, ...]:
    """The documents and attachments of a trajectory as they came."""
    if tree is None:
        return ()
    names = (*trajectory.documents, *trajectory.attached)
    return tuple(Original(f"{prefix}{name}", tree, name) for name in names)
