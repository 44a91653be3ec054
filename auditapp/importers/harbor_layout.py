"""Where the trials of a Harbor tree are and which folders each of them has. Nothing is read beyond what tells a trial.

Links are not followed. `.sources` (trials that another job judged again) and other hidden folders are skipped.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from auditapp.importers.lenient import Repairs, UnreadableError, load_object
from auditapp.importers.options import ImportOptions
from auditapp.importers.trees import folder_tree, picked, read_file
from judges.records import FileTree, Json, ParseFailure
from judges.safefs import FolderTree

RESULT_NAMES = ("result.json", "trial-result.json")
TRAJECTORY_NAMES = ("trajectory.json", "trajectory.atif.json")
_FLAT_STREAMS = frozenset(
    (
        "reward.txt",
        "reward.json",
        "reward-details.json",
        "grader-results.json",
        "ctrf.json",
        "test-stdout.txt",
        "test-stderr.txt",
    )
)
_TRIAL_FOLDERS = frozenset({"agent", "verifier", "steps"})
_MAX_DEPTH = 24


@dataclass(frozen=True, slots=True)
class Part:
    """What one step of a trial left behind; single-step trials have one part without a name."""

    name: str
    agent: FolderTree | None
    verifier: FileTree | None
    artifacts: FolderTree | None


@dataclass(frozen=True, slots=True)
class Job:
    """The job folder a trial stands in; empty objects where its files are missing."""

    name: str
    config: dict[str, Json]
    lock: dict[str, Json]
    result: dict[str, Json]


@dataclass(frozen=True, slots=True)
class Trial:
    """One trial folder: its parsed `result.json` (None while it was running), and the folders below it."""

    path: Path
    shown: str
    result: dict[str, Json] | None
    config: dict[str, Json]
    lock: dict[str, Json]
    job: Job
    files: FolderTree
    parts: tuple[Part, ...]
    repairs: Repairs


NO_JOB = Job("", {}, {}, {})


def find_trials(root: Path, *, options: ImportOptions) -> Iterator[Trial | ParseFailure]:
    """All trials at and below `root`, in the order of their paths."""
    yield from _Search(root, options).visit(root, job=NO_JOB, depth=0)


@dataclass(frozen=True, slots=True)
class _Search:
    root: Path
    options: ImportOptions

    def visit(self, folder: Path, *, job: Job, depth: int) -> Iterator[Trial | ParseFailure]:
        try:
            files, folders = _members(folder)
        except OSError as error:
            yield ParseFailure(self._shown(folder), f"the folder cannot be read: {error.strerror}")
            return
        repairs = Repairs()
        try:
            result = self._result(folder, files, repairs=repairs)
        except UnreadableError as error:
            result = None
            if _TRIAL_FOLDERS & set(folders) or "trial.log" in files or not folders:
                yield ParseFailure(self._shown(folder), str(error))
                return
        if result is not None and _is_trial_result(result):
            yield self._trial(folder, result, files, folders, job=job, repairs=repairs)
            return
        config = self._object(folder / "config.json", repairs=repairs) if "config.json" in files else {}
        if "config.json" in files and ("task" in config or _TRIAL_FOLDERS & set(folders)):
            yield self._trial(folder, None, files, folders, job=job, repairs=repairs)
            return
        if len(_TRIAL_FOLDERS & set(folders)) > 1:
            yield ParseFailure(self._shown(folder), "neither result.json nor config.json: add one of them to the trial")
            return
        yield from self._below(folder, folders, job=self._job(folder, files, result, config, job), depth=depth)

    def _below(self, folder: Path, folders: list[str], *, job: Job, depth: int) -> Iterator[Trial | ParseFailure]:
        if depth >= _MAX_DEPTH:
            yield ParseFailure(self._shown(folder), f"nested deeper than {_MAX_DEPTH} folders, not searched further")
            return
        for name in folders:
            if not name.startswith(".") and name != "__MACOSX":
                yield from self.visit(folder / name, job=job, depth=depth + 1)

    def _result(self, folder: Path, files: list[str], *, repairs: Repairs) -> dict[str, Json] | None:
        name = next((name for name in RESULT_NAMES if name in files), None)
        if name is None:
            return None
        raw = read_file(folder / name, limit=self.options.limits.json_bytes)
        return load_object(raw, name=name, repairs=repairs, limits=self.options.limits)

    def _job(
        self, folder: Path, files: list[str], result: dict[str, Json] | None, config: dict[str, Json], outer: Job
    ) -> Job:
        if not {"config.json", "lock.json", "result.json", "job.log"} & set(files):
            return outer
        lock = self._object(folder / "lock.json", repairs=Repairs())
        return Job(folder.name, config, lock, result or {})

    def _object(self, path: Path, *, repairs: Repairs) -> dict[str, Json]:
        """A file that helps but is not needed: unreadable is a warning, missing is empty."""
        try:
            raw = read_file(path, limit=self.options.limits.json_bytes)
            return load_object(raw, name=path.name, repairs=repairs, limits=self.options.limits)
        except KeyError:
            return {}
        except UnreadableError as error:
            repairs.add("file_not_read", path.name, str(error))
            return {}

    def _trial(
        self,
        folder: Path,
        result: dict[str, Json] | None,
        files: list[str],
        folders: list[str],
        *,
        job: Job,
        repairs: Repairs,
    ) -> Trial:
        inner = result.get("config") if result is not None else None
        config = inner if isinstance(inner, dict) else self._object(folder / "config.json", repairs=repairs)
        return Trial(
            path=folder,
            shown=self._shown(folder),
            result=result,
            config=config,
            lock=self._object(folder / "lock.json", repairs=repairs),
            job=job,
            files=FolderTree(folder, self.options.limits.json_bytes, max_depth=0),
            parts=tuple(self._parts(folder, files, folders)),
            repairs=repairs,
        )

    def _parts(self, folder: Path, files: list[str], folders: list[str]) -> Iterator[Part]:
        if "steps" in folders and not {"agent", "verifier"} & set(folders):
            for name in _members(folder / "steps")[1]:
                yield self._part(folder / "steps" / name, name=name)
        elif {"agent", "verifier", "artifacts"} & set(folders) or not set(files) & {*TRAJECTORY_NAMES, *_FLAT_STREAMS}:
            yield self._part(folder, name="")
        else:
            tree = FolderTree(folder, self.options.limits.json_bytes, max_depth=1)
            yield Part("", tree, picked(tree, names=_FLAT_STREAMS), None)

    def _part(self, folder: Path, *, name: str) -> Part:
        limits = self.options.limits
        # Two levels hold every document and image; session folders with account data lie deeper or are never named.
        agent = folder_tree(folder / "agent", limits=limits, depth=1)
        verifier = folder_tree(folder / "verifier", limits=limits)
        return Part(name, agent, verifier, folder_tree(folder / "artifacts", limits=limits))

    def _shown(self, folder: Path) -> str:
        shown = os.fsencode(folder.relative_to(self.root)).decode("utf-8", "backslashreplace")
        return self.root.name if shown == "." else shown


def _members(folder: Path) -> tuple[list[str], list[str]]:
    """Names of the files and of the folders, sorted; links to folders count as files, so nobody enters them."""
    with os.scandir(folder) as entries:
        members = sorted(entries, key=lambda entry: entry.name)
    folders = [entry.name for entry in members if entry.is_dir(follow_symlinks=False)]
    return [entry.name for entry in members if not entry.is_dir(follow_symlinks=False)], folders


def _is_trial_result(result: dict[str, Json]) -> bool:
    return isinstance(result.get("trial_name"), str) or ("task_name" in result and "stats" not in result)
