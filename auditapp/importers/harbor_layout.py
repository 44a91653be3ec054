"""Where the trials of a Harbor tree are and which folders each of them has. Nothing is read beyond what tells a trial.

Links are not followed. `.sources` (trials that another job judged again) and other hidden folders are skipped.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from auditapp.importers.lenient import Repairs, UnreadableError, load_object
from auditapp.importers.options import ImportOptions
from auditapp.importers.trees import folder_tree, list_folder, picked, read_file, shown
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
    """What one step of a trial left behind, its documents below `prefix`; single-step trials have one nameless part."""

    name: str
    prefix: str
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
    name: str
    result: dict[str, Json] | None
    config: dict[str, Json]
    lock: dict[str, Json]
    job: Job
    files: FolderTree
    parts: tuple[Part, ...]
    repairs: Repairs


NO_JOB = Job("", {}, {}, {})


@dataclass(frozen=True, slots=True)
class _Below:
    """A folder that is no trial: the job its sub-folders belong to, and their names."""

    job: Job
    folders: list[str]


def find_trials(root: Path, *, options: ImportOptions) -> Iterator[Trial | ParseFailure]:
    """All trials at and below `root`, in the order of their paths."""
    yield from _Search(root, options).visit(root, job=NO_JOB, depth=0)


@dataclass(frozen=True, slots=True)
class _Search:
    root: Path
    options: ImportOptions

    def visit(self, folder: Path, *, job: Job, depth: int) -> Iterator[Trial | ParseFailure]:
        try:
            found = self._look(folder, job=job)
        except (UnreadableError, KeyError, OSError) as error:
            yield ParseFailure(shown(folder, root=self.root), str(error))
            return
        if isinstance(found, Trial):
            yield found
        elif found.folders and depth >= _MAX_DEPTH:
            reason = f"nested deeper than {_MAX_DEPTH} folders, not searched further"
            yield ParseFailure(shown(folder, root=self.root), reason)
        else:
            for name in found.folders:
                if not name.startswith(".") and name != "__MACOSX":
                    yield from self.visit(folder / name, job=found.job, depth=depth + 1)

    def _look(self, folder: Path, *, job: Job) -> "Trial | _Below":
        """The trial that `folder` is, or where to look on; raises UnreadableError for a broken trial."""
        files, folders = list_folder(folder)
        own, repairs = _TRIAL_FOLDERS & set(folders), Repairs()
        try:
            result = self._result(folder, files, repairs=repairs)
        except UnreadableError:
            if own or "trial.log" in files or not folders:
                raise
            result = None  # the summary of a job, which is never believed anyway
        if result is not None and _is_trial_result(result):
            return self._trial(folder, result, files, folders, job=job, repairs=repairs)
        config = self._object(folder / "config.json", repairs=repairs)
        if "task" in config or (own and "config.json" in files):
            return self._trial(folder, None, files, folders, job=job, repairs=repairs)
        if len(own) > 1:
            raise UnreadableError("neither result.json nor config.json: add one of them to the trial")
        if {"config.json", "lock.json", "result.json", "job.log"} & set(files):
            job = Job(folder.name, config, self._object(folder / "lock.json", repairs=Repairs()), result or {})
        return _Below(job, folders)

    def _result(self, folder: Path, files: list[str], *, repairs: Repairs) -> dict[str, Json] | None:
        name = next((name for name in RESULT_NAMES if name in files), None)
        if name is None:
            return None
        raw = read_file(folder / name, limit=self.options.limits.json_bytes)
        return load_object(raw, name=name, repairs=repairs, limits=self.options.limits)

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
            name=shown(folder, root=self.root),
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
            for name in list_folder(folder / "steps")[1]:
                yield self._part(folder / "steps" / name, name=name, prefix=f"steps/{name}/agent/")
        elif {"agent", "verifier", "artifacts"} & set(folders) or not set(files) & {*TRAJECTORY_NAMES, *_FLAT_STREAMS}:
            yield self._part(folder, name="", prefix="agent/")
        else:
            tree = FolderTree(folder, self.options.limits.json_bytes, max_depth=1)
            yield Part("", "", tree, picked(tree, names=_FLAT_STREAMS), None)

    def _part(self, folder: Path, *, name: str, prefix: str) -> Part:
        limits = self.options.limits
        # Two levels hold every document and image; session folders with account data lie deeper or are never named.
        agent = folder_tree(folder / "agent", limits=limits, depth=1)
        verifier = folder_tree(folder / "verifier", limits=limits)
        return Part(name, prefix, agent, verifier, folder_tree(folder / "artifacts", limits=limits))


def _is_trial_result(result: dict[str, Json]) -> bool:
    return isinstance(result.get("trial_name"), str) or ("task_name" in result and "stats" not in result)
