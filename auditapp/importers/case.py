"""Case folders: the plain format for attempts that come from no harness.

    case.json          task_id, environment, agent, model, effort, attempt, verifier {status, reward, reason}
    trajectory.json    an ATIF document
    instruction.md     rubric.json     initial/     reference/     verifier-source/
    deliverable/       verifier/ (what the verifier printed and wrote)

The files of the task may also stand once in a folder that `task_dir` names, relative to the case folder and inside
the imported one. A folder that is missing was not recorded; an empty one was recorded and is empty.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from auditapp.importers.atif import originals
from auditapp.importers.atif_steps import Trajectory, read_trajectory
from auditapp.importers.containment import contained
from auditapp.importers.lenient import (
    Repairs,
    UnreadableError,
    as_float,
    as_int,
    as_name,
    as_object,
    as_objects,
    as_text,
    load_object,
    loads,
)
from auditapp.importers.options import ImportOptions
from auditapp.importers.task_folders import read_instruction
from auditapp.importers.trees import (
    folder_tree,
    is_folder,
    list_folder,
    read_file,
    read_member,
    shown,
    why_no_folder,
    without_verifier_output,
)
from judges.records import (
    VERIFIER_STATUSES,
    FileTree,
    Json,
    Original,
    ParseFailure,
    Requirement,
    TaskRecord,
    TrajectoryRecord,
    Usage,
    VerifierRecord,
    VerifierStatus,
)
from judges.safefs import FolderTree

_MAX_DEPTH = 24
_CONTROLS = ("oracle", "nop")
_REQUIREMENT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}")
"""What an answer keeps of an id, a form can be keyed by and a page can show."""


def parse(path: Path, options: ImportOptions) -> Iterator[TrajectoryRecord | ParseFailure]:
    """One record or failure per folder with a `case.json`, `path` itself among them."""
    root = path.parent if path.name == "case.json" else path
    if not is_folder(root):
        yield ParseFailure(shown(path, root=path), why_no_folder(root))
        return
    reader = _Cases(root, options)
    found = False
    for folder in _case_folders(root, root=root, depth=0):
        found = True
        yield folder if isinstance(folder, ParseFailure) else reader.read(folder)
    if not found:
        yield ParseFailure(shown(path, root=path), "no case.json in this folder or below it")


def _case_folders(folder: Path, *, root: Path, depth: int) -> Iterator[Path | ParseFailure]:
    """Folders with a case.json, in order; neither cases nor task folders are searched for further ones."""
    try:
        files, folders = list_folder(folder)
    except UnreadableError as error:
        yield ParseFailure(shown(folder, root=root), str(error))
        return
    if "case.json" in files:
        yield folder
    elif "instruction.md" not in files and depth < _MAX_DEPTH:
        for name in folders:
            if not name.startswith("."):
                yield from _case_folders(folder / name, root=root, depth=depth + 1)


@dataclass(frozen=True, slots=True)
class _Cases:
    """Reads the cases below one root; tasks that several cases share are read once."""

    root: Path
    options: ImportOptions
    tasks: dict[tuple[Path, str, str], TaskRecord] = field(default_factory=dict)

    def read(self, folder: Path) -> TrajectoryRecord | ParseFailure:
        name = shown(folder, root=self.root)
        return contained(name, lambda: self._record(folder, name=name))

    def _record(self, folder: Path, *, name: str) -> TrajectoryRecord:
        repairs, limits = Repairs(), self.options.limits
        case = self._object(folder, "case.json", repairs=repairs)
        files = FolderTree(folder, limits.json_bytes, max_depth=1)
        told = self._trajectory(files, repairs=repairs)
        flags = Repairs()
        record = TrajectoryRecord(
            source_id=as_name(case.get("source_id"), at="source_id", repairs=repairs) or name[-200:],
            task=self._task(folder, case, told=told, repairs=repairs),
            verifier=self._verifier(folder, case, repairs=repairs, flags=flags),
            steps=told.steps if told else (),
            steps_recorded=told is not None,
            deliverable=without_verifier_output(folder_tree(folder / "deliverable", limits=limits), flags=flags),
            extra={"format": "case"},
            originals=(
                Original("case.json", files, "case.json"),
                *(originals(told, tree=files, prefix="") if told else ()),
            ),
        )
        record = _with_agent(record, case=case, told=told, repairs=repairs)
        found = flags.notices() + (told.flags if told else ())
        return replace(record, warnings=repairs.notices(), flags=found)

    def _object(self, folder: Path, name: str, *, repairs: Repairs) -> dict[str, Json]:
        raw = read_file(folder / name, limit=self.options.limits.json_bytes)
        return load_object(raw, name=name, repairs=repairs, limits=self.options.limits)

    def _trajectory(self, files: FolderTree, *, repairs: Repairs) -> Trajectory | None:
        """The attempt as told by trajectory.json; None where there is no such file."""
        limits = self.options.limits

        def read(name: str) -> bytes:
            return read_member(files, name, limit=limits.json_bytes)

        try:
            raw = read("trajectory.json")
        except KeyError:
            return None
        document = load_object(raw, name="trajectory.json", repairs=repairs, limits=limits)
        return read_trajectory(document, name="trajectory.json", read=read, repairs=repairs, limits=limits)

    def _task(self, folder: Path, case: Mapping[str, Json], *, told: Trajectory | None, repairs: Repairs) -> TaskRecord:
        task_id = as_name(case.get("task_id"), at="task_id", repairs=repairs)
        if not task_id:
            raise UnreadableError("case.json has no task_id: name the task this is an attempt at")
        environment = as_name(case.get("environment"), at="environment", repairs=repairs)
        environment = self.options.environment or environment or "adhoc"
        task = self._files(folder, task_id=task_id, environment=environment, repairs=repairs)
        if case.get("task_dir") is not None:
            shared = self._task_dir(folder, case["task_dir"])
            task = _merged(task, self._shared(shared, task_id=task_id, environment=environment, repairs=repairs))
        if task.instruction is None:
            told_instruction = told.instruction if told else None
            repairs.add("instruction_from_trajectory" if told_instruction else "instruction_missing", "instruction.md")
            task = replace(task, instruction=told_instruction)
        digest = as_name(case.get("task_digest"), at="task_digest", repairs=repairs)
        return replace(task, digest=digest or None)

    def _task_dir(self, folder: Path, recorded: Json) -> Path:
        """The folder `task_dir` names, reached through real folders below the root only."""
        if not isinstance(recorded, str) or not recorded or recorded.startswith("/") or "\0" in recorded:
            raise UnreadableError("task_dir in case.json must be a relative path")
        parts = Path(os.path.normpath(folder.relative_to(self.root) / recorded)).parts
        if parts and parts[0] == "..":
            raise UnreadableError(
                f"task_dir {recorded[:200]!r} leads out of the imported folder: import the folder that holds both"
            )
        place = self.root
        for part in parts:
            place = place / part
            if not is_folder(place):
                raise UnreadableError(f"task_dir {recorded[:200]!r} names no folder")
        return place

    def _shared(self, folder: Path, *, task_id: str, environment: str, repairs: Repairs) -> TaskRecord:
        key = (folder, task_id, environment)
        if key not in self.tasks:
            self.tasks[key] = self._files(folder, task_id=task_id, environment=environment, repairs=repairs)
        return self.tasks[key]

    def _files(self, folder: Path, *, task_id: str, environment: str, repairs: Repairs) -> TaskRecord:
        limits = self.options.limits
        return TaskRecord(
            task_id=task_id,
            environment=environment,
            instruction=read_instruction(folder, repairs=repairs, limits=limits),
            initial=folder_tree(folder / "initial", limits=limits),
            reference=folder_tree(folder / "reference", limits=limits),
            verifier_source=folder_tree(folder / "verifier-source", limits=limits),
            rubric=self._rubric(folder, repairs=repairs),
        )

    def _rubric(self, folder: Path, *, repairs: Repairs) -> tuple[Requirement, ...]:
        try:
            raw = read_file(folder / "rubric.json", limit=self.options.limits.json_bytes)
        except KeyError:
            return ()
        value = loads(raw, name="rubric.json", repairs=repairs, limits=self.options.limits)
        rows = as_objects(value, at="rubric.json", repairs=repairs)
        found = tuple(_requirement(row, number=number, repairs=repairs) for number, row in enumerate(rows, start=1))
        return _numbered(found, repairs=repairs)

    def _verifier(self, folder: Path, case: Mapping[str, Json], *, repairs: Repairs, flags: Repairs) -> VerifierRecord:
        told = as_object(case.get("verifier"), at="verifier", repairs=repairs)
        reward = as_float(told.get("reward"), at="verifier.reward", repairs=repairs)
        status = _status(told.get("status"), reward=reward, options=self.options)
        by_reward = self.options.status(reward)
        if status in ("pass", "fail") and by_reward in ("pass", "fail") and status != by_reward:
            flags.add("reward_conflict", "case.json", f"status {status}, but reward {reward:g}")
        reason = as_name(told.get("reason"), at="verifier.reason", repairs=repairs)
        rewards = {"reward": reward} if reward is not None else {}
        streams: FileTree | None = folder_tree(folder / "verifier", limits=self.options.limits)
        return VerifierRecord(status, reason or ("not_recorded" if not told else ""), reward, rewards, streams)


def _originals(files: FileTree, *, told: Trajectory | None) -> tuple[Original, ...]:
    case = Original("case.json", files, "case.json")
    return (case, *originals(told, tree=files, prefix="")) if told is not None else (case,)


def _status(recorded: Json, *, reward: float | None, options: ImportOptions) -> VerifierStatus:
    """The recorded status, else what the reward means; a status of another name is refused, never guessed."""
    if recorded is None:
        return options.status(reward)
    for status in VERIFIER_STATUSES:
        if recorded == status:
            return status
    known = ", ".join(VERIFIER_STATUSES)
    raise UnreadableError(f"verifier.status in case.json is {str(recorded)[:60]!r}: use one of {known}")


def _numbered(found: tuple[Requirement, ...], *, repairs: Repairs) -> tuple[Requirement, ...]:
    """Requirements that can be answered one by one: ids that repeat, or are no short code, are numbered anew."""
    names = [item.id for item in found]
    if len(set(names)) == len(names) and all(map(_REQUIREMENT_ID.fullmatch, names)):
        return found
    repairs.add("requirements_renumbered", "rubric.json", f"ids were {', '.join(names)}")
    return tuple(replace(item, id=f"R{number}") for number, item in enumerate(found, start=1))


def _requirement(row: Mapping[str, Json], *, number: int, repairs: Repairs) -> Requirement:
    at = f"rubric.json {number}"
    text = as_text(row.get("requirement", row.get("text")), at=at, repairs=repairs)
    if not text.strip():
        raise UnreadableError(f"{at} has no requirement")
    name = as_name(row.get("id"), at=at, repairs=repairs) or f"R{number}"
    return Requirement(name, text, row.get("format_binding") is True)


def _merged(own: TaskRecord, shared: TaskRecord) -> TaskRecord:
    """The task's own files where the case has them, the shared ones elsewhere."""
    return replace(
        own,
        instruction=shared.instruction if own.instruction is None else own.instruction,
        initial=shared.initial if own.initial is None else own.initial,
        reference=shared.reference if own.reference is None else own.reference,
        verifier_source=shared.verifier_source if own.verifier_source is None else own.verifier_source,
        rubric=own.rubric or shared.rubric,
    )


def _with_agent(
    record: TrajectoryRecord, *, case: Mapping[str, Json], told: Trajectory | None, repairs: Repairs
) -> TrajectoryRecord:
    def name(key: str, fallback: str) -> str:
        return as_name(case.get(key), at=key, repairs=repairs) or fallback

    agent = name("agent", told.agent if told else "")
    return replace(
        record,
        agent=agent,
        agent_version=name("agent_version", told.agent_version if told else ""),
        model=name("model", told.model if told else ""),
        effort=name("effort", told.effort if told else ""),
        attempt=as_int(case.get("attempt"), at="attempt", repairs=repairs),
        training_step=as_int(case.get("training_step"), at="training_step", repairs=repairs),
        usage=told.usage if told else Usage(),
        is_control=agent in _CONTROLS or case.get("is_control") is True,
    )
