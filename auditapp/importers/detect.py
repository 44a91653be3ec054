"""Which format a file or folder is in, with the reason; where none fits, what was looked for and what was there."""

import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ijson

from auditapp.importers.archive_members import INSPECT_SUFFIX, archive_kind
from auditapp.importers.jsonl import SUFFIXES, first_row
from auditapp.importers.lenient import UnreadableError, storable_text
from auditapp.importers.mapping import fits, may_fit, shipped_label_kind, shipped_mappings
from auditapp.importers.options import ImportOptions
from auditapp.importers.rows import open_regular
from judges.safefs import FolderTree

_LOOKED_FOR = (
    "Looked for: case.json; result.json or config.json of a Harbor trial; ATIF documents (agent and steps); "
    "tau-bench rows (task_id, reward, traj); Inspect logs (.eval, or JSON with eval and samples); SWE-agent "
    "trajectories (trajectory and history); JSON rows that fit a shipped mapping. "
    "Name the format, or give a mapping for rows of another kind."
)
_HEAD = 2**20
# Python refuses to read such numbers; what stood before them would be lost with them. From the start of a run: linear.
_ENDLESS = re.compile(rb"(?<![0-9])[0-9]{4000,}")
_LISTED = 5_000
_DEPTH = 8
_OPENED = 12
_MOST_KEYS = 200
_DEEPEST = 1_000
_CASE = ("case.json",)
_HARBOR = ("result.json", "trial-result.json", "config.json")
_HARBOR_KEYS = ({"trial_name"}, {"n_total_trials", "stats"}, {"task", "agent", "trial_name"}, {"task", "trials_dir"})
_TRAJECTORY_SUFFIXES = (*SUFFIXES, ".traj")

Keys = Mapping[str, str]
"""The keys of the first object of a file, each with the JSON type of its value as ijson names it."""


@dataclass(frozen=True, slots=True)
class Detection:
    """The name of a format, or None; `reason` is for people either way."""

    format: str | None
    reason: str


def detect(path: Path, options: ImportOptions) -> Detection:
    """What `path` is, by content and never by name alone; reads a bounded part and never raises for bad input."""
    if path.is_dir():
        return _detect_folder(path, options)
    name = storable_text(path.name)
    if path.suffix == INSPECT_SUFFIX:
        return Detection("inspect", f"{name} has the ending of an Inspect log")
    if kind := archive_kind(path):
        return Detection(None, f"{name} is a {kind} archive; unpack it first")
    try:
        keys = _keys(path)
        known = _detect_file(path, name, keys, options)
        return known or Detection(None, f"{name}: {_contents(path, keys)}. {_LOOKED_FOR}")
    except UnreadableError as error:
        return Detection(None, f"{name} {error}")


def _detect_file(path: Path, name: str, keys: Keys, options: ImportOptions) -> Detection | None:
    if path.name in _CASE:
        return Detection("case", f"{name} is the file of a case folder")
    if path.name in _HARBOR and any(needed <= keys.keys() for needed in _HARBOR_KEYS):
        return Detection("harbor", f"{name} is a Harbor result with {_some(keys)}")
    return _by_keys(path, name, keys, options)


def _by_keys(path: Path, name: str, keys: Keys, options: ImportOptions) -> Detection | None:
    if options.mapping is not None and keys:
        return Detection("jsonl", f"a mapping file was given for the rows of {name}")
    if {"task_id", "traj"} <= keys.keys() or {"task_id", "reward", "info"} <= keys.keys():
        return Detection("tau_bench", f"{name} holds tau-bench rows: {_some(keys)}")
    if keys.get("agent") == "start_map" and ("steps" in keys or "schema_version" in keys):
        return Detection("atif", f"{name} is an ATIF document: {_some(keys)}")
    if "eval" in keys and {"plan", "samples", "results", "status"} & keys.keys():
        return Detection("inspect", f"{name} is an Inspect log: {_some(keys)}")
    if keys.get("trajectory") == "start_array" and (path.suffix == ".traj" or {"history", "info"} & keys.keys()):
        return Detection("swe_agent", f"{name} is a SWE-agent trajectory: {_some(keys)}")
    shipped = [mapping for _, mapping in shipped_mappings() if may_fit(mapping, keys)]
    return _by_shipped_mapping(path, name, options) if shipped else None


def _by_shipped_mapping(path: Path, name: str, options: ImportOptions) -> Detection | None:
    try:
        row = first_row(path, options)
    except UnreadableError:
        return None
    for title, mapping in shipped_mappings():
        if fits(mapping.trajectory, row):
            return Detection("jsonl", f"{name} holds rows that fit the shipped mapping {title}")
    kind = shipped_label_kind(row)
    return Detection(None, f"{name} holds {kind} labels: import it with import_labels --kind {kind}") if kind else None


def _detect_folder(path: Path, options: ImportOptions) -> Detection:
    try:
        entries = FolderTree(path, max_file=2**60, max_entries=_LISTED, max_total=2**60, max_depth=_DEPTH).entries()
    except OSError as error:
        return Detection(None, f"{storable_text(path.name)} cannot be listed: {error.strerror}")
    names = [entry.path for entry in entries if entry.kind == "file"]
    found = (
        _case_folder(names)
        or _harbor_folder(path, names)
        or _inspect_folder(names)
        or _rows_folder(path, names, options)
    )
    name = storable_text(path.name) or "the folder"
    answer = found or Detection(None, f"{name}: {_census(names)}. {_LOOKED_FOR}")
    if len(entries) < _LISTED:
        return answer
    return Detection(answer.format, f"{answer.reason} (only the first {_LISTED:,} entries were looked at)")


def _base(name: str) -> str:
    return name.rpartition("/")[2]


def _case_folder(names: Sequence[str]) -> Detection | None:
    cases = [name for name in names if _base(name) in _CASE]
    return Detection("case", f"{cases[0]} and {len(cases) - 1} more case.json files are there") if cases else None


def _harbor_folder(path: Path, names: Sequence[str]) -> Detection | None:
    """A trial or job by its own file, or by the folders beside a config.json while it was running."""
    found = [name for name in names if _base(name) in _HARBOR and not _hidden(name)]
    for name in sorted(found, key=_depth_first)[:_OPENED]:
        keys = _keys_or_none(path / name)
        if any(needed <= keys.keys() for needed in _HARBOR_KEYS):
            return Detection("harbor", f"{name} is a Harbor result or config with {_some(keys)}")
    trials = {name.rpartition("/")[0] for name in found} & _parents_of(names, ("agent", "verifier"))
    if trials:
        where = min(trials) or "the folder itself"
        return Detection("harbor", f"{where} has the files of a Harbor trial: a result or config, agent or verifier")
    return None


def _hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _parents_of(names: Sequence[str], folders: Sequence[str]) -> set[str]:
    """The folders that have one of these folders in them."""
    paths = [f"/{name}" for name in names]
    return {path.partition(f"/{folder}/")[0][1:] for path in paths for folder in folders if f"/{folder}/" in path}


def _inspect_folder(names: Sequence[str]) -> Detection | None:
    if log := next((name for name in sorted(names, key=_depth_first) if name.endswith(INSPECT_SUFFIX)), None):
        return Detection("inspect", f"{log} has the ending of an Inspect log")
    if any(name.endswith("_journal/start.json") for name in names):
        return Detection("inspect", "this is an unpacked Inspect log (_journal/start.json)")
    return None


def _rows_folder(path: Path, names: Sequence[str], options: ImportOptions) -> Detection | None:
    """The format of most of the first files, the shallowest first; one that can be read beats one that cannot."""
    files = sorted((name for name in names if name.lower().endswith(_TRAJECTORY_SUFFIXES)), key=_depth_first)
    votes = [vote for name in files[:_OPENED] if (vote := _vote(path, name, options))]
    if not votes:
        return None
    counts = Counter(vote.format for vote in votes if vote.format)
    winner = counts.most_common(1)[0][0] if counts else None
    first = next(vote for vote in votes if vote.format == winner)
    others = ", ".join(sorted(name for name in counts if name != winner))
    return Detection(winner, first.reason + (f"; other files look like {others}" if others else ""))


def _depth_first(name: str) -> tuple[int, str]:
    return name.count("/"), name


def _vote(path: Path, name: str, options: ImportOptions) -> Detection | None:
    try:
        return _by_keys(path / name, name, _keys(path / name), options)
    except UnreadableError:
        return None


def _keys_or_none(path: Path) -> Keys:
    try:
        return _keys(path)
    except UnreadableError:
        return {}


def _keys(path: Path) -> Keys:
    """The keys of the first object within the first megabytes, as far as they can be read."""
    with open_regular(path) as file:
        head = file.read(_HEAD)
    found: dict[str, str] = {}
    head = _ENDLESS.sub(b"0", head.removeprefix(b"\xef\xbb\xbf"))
    # Not ijson.parse: it joins the keys of all levels for each event, which is quadratic in the depth.
    events = ijson.basic_parse(io.BytesIO(head), multiple_values=True)
    with suppress(ijson.JSONError, UnicodeDecodeError):
        _collect(events, found)
    return found


def _collect(events: Iterable[tuple[str, Any]], found: dict[str, str]) -> None:
    """Take keys until the first object at the top, or in a list at the top, ends."""
    level, depth, key = 1, 0, None
    for event, value in events:
        if event == "start_array" and depth == 0:
            level = 2
        if event == "map_key" and depth == level:
            key = storable_text(value)
        elif key is not None:
            found.setdefault(key, event)
            key = None
        depth += event.startswith("start_") - event.startswith("end_")
        if (event == "end_map" and depth < level) or depth > _DEEPEST or len(found) >= _MOST_KEYS:
            return


def _some(keys: Keys) -> str:
    return ", ".join(list(keys)[:8])


def _contents(path: Path, keys: Keys) -> str:
    """What a file that fits nothing holds, in a few words."""
    size = os.stat(path).st_size
    if not size:
        return "the file is empty"
    with open_regular(path) as file:
        head = file.read(512)
    if head.startswith(b"\0"):
        return "the file starts with NUL bytes"
    if keys:
        return f"JSON with the keys {', '.join(list(keys)[:15])}"
    return f"{size:,} bytes that start with {head[:30].decode('utf-8', 'backslashreplace')!a}"


def _census(names: Sequence[str]) -> str:
    if not names:
        return "the folder has no files"
    endings = Counter(os.path.splitext(_base(name))[1].lower() or "no ending" for name in names)
    kinds = ", ".join(f"{count} {ending}" for ending, count in endings.most_common(6))
    return f"{len(names)} files ({storable_text(kinds)})"
