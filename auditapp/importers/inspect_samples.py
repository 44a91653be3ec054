"""From the files of an Inspect log to its header and its samples, one of them in memory at a time."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from auditapp.importers.archive_members import ArchiveError, ArchiveLimits, Meter
from auditapp.importers.inspect_files import HEADER, JsonLog, ZipLog, json_log, zip_log
from auditapp.importers.lenient import Repairs, UnreadableError, as_object, as_objects, load_object, loads, map_text
from auditapp.importers.options import Limits
from auditapp.importers.rows import open_regular
from auditapp.importers.trees import folder_tree, is_folder, read_member
from judges.records import FileEntry, FileTree, Json, Notice, Original

START = "_journal/start.json"
_SAMPLE = re.compile(r"samples/(?P<name>.+_epoch_\d+)(?P<chunked>/sample)?\.json")
_JSON_SAMPLE = re.compile(r"samples/(?P<name>\d+)\.json")
_CHUNK_START = re.compile(r"(\d{1,18})\.json")
_ATTACHMENT = "attachment://"
# Agent logs repeat their prefix in each call to the model, so they shrink far more than other archives. No limit of
# time: between two samples others work on the first.
_ARCHIVE_LIMITS = ArchiveLimits(total_bytes=2**38, ratio=2_000, seconds=math.inf)
_MOST_REFERENCES = 40_000_000
# What tells the story of a sample; requests, tool schemas and the store only cost memory.
_EVENTS = ("model", "span_begin", "span_end", "step", "compaction", "score", "score_edit", "sandbox", "info", "error")
_NOT_KEPT = ("call", "tools", "tool_choice", "config", "store")


@dataclass(frozen=True, slots=True)
class SampleFiles:
    """Where one sample stands: a document, or with `folder` the parts of a chunked one."""

    name: str
    document: str
    folder: str = ""
    parts: tuple[FileEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Log:
    """A log without its samples; `truncated` says that more may have been lost."""

    name: str
    tree: FileTree
    header: Mapping[str, Json]
    samples: Sequence[SampleFiles]
    meter: Meter
    notices: tuple[Notice, ...]
    truncated: bool = False

    def count(self, size: int) -> None:
        """Count what was unpacked; raises UnreadableError, now and from then on, past what the log may unpack to."""
        try:
            self.meter.add(size)
        except ArchiveError as error:
            raise UnreadableError(f"the log {error}") from None


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample with its attachments in place; `pool` are the messages that its events refer to by number."""

    data: Mapping[str, Json]
    events: Sequence[dict[str, Json]]
    pool: Sequence[Json] = ()
    budget: list[int] = field(default_factory=lambda: [_MOST_REFERENCES])
    """How many more references may be followed: the one thing here that changes."""

    def inputs(self, event: Mapping[str, Json]) -> list[dict[str, Json]]:
        """The messages a call to the model was given."""
        references = event.get("input_refs")
        found = event.get("input") if references is None else referred(references, self.pool, budget=self.budget)
        return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def open_log(path: Path, *, name: str, limits: Limits) -> Log:
    """Header and list of samples; raises UnreadableError where this is no Inspect log."""
    try:
        tree = _tree(path, limits)
    except ArchiveError as error:
        raise UnreadableError(f"the log {error}") from None
    repairs = Repairs()
    header = _header(tree, repairs=repairs, limits=limits)
    repeated = sorted(tree.repeated) if isinstance(tree, ZipLog) else []
    if repeated:
        repairs.add("duplicate_member", repeated[0], "the last one counts", count=len(repeated))
    truncated = isinstance(tree, JsonLog) and bool(tree.tail)
    packed = path.stat().st_size if isinstance(tree, ZipLog) else limits.tree_bytes
    samples = _samples(tree)
    return Log(name, tree, header, samples, Meter(packed, _ARCHIVE_LIMITS), repairs.notices(), truncated)


def _tree(path: Path, limits: Limits) -> FileTree:
    if is_folder(path):
        tree = folder_tree(path, limits=limits)
        if tree is None:
            raise UnreadableError("no such folder")
        return tree
    with open_regular(path) as file:
        magic = file.read(4)
    return zip_log(path) if magic in (b"PK\x03\x04", b"PK\x05\x06") else json_log(path, limits)


def _header(tree: FileTree, *, repairs: Repairs, limits: Limits) -> dict[str, Json]:
    """The log without its samples; that of a run that never ended is what was written when it began."""
    for name in (HEADER, START):
        try:
            raw = read_member(tree, name, limit=limits.json_bytes)
        except KeyError:
            continue
        header = load_object(raw, name=name, repairs=repairs, limits=limits)
        if not isinstance(header.get("eval"), dict):
            raise UnreadableError(f"its {name} has no object named `eval`: this is no Inspect log")
        if name == START:
            repairs.add("log_unfinished", START, "there is no header.json: the run did not end")
            header.setdefault("status", "started")
        return header
    raise UnreadableError("has neither header.json nor _journal/start.json: this is no Inspect log")


def _samples(tree: FileTree) -> list[SampleFiles]:
    entries = [entry for entry in tree.entries() if entry.path.startswith("samples/")]
    if isinstance(tree, JsonLog):
        found = [match for entry in entries if (match := _JSON_SAMPLE.fullmatch(entry.path))]
        ordered = sorted(found, key=lambda match: int(match["name"]))
        return [SampleFiles(f"sample {match['name']}", match.string) for match in ordered]
    documents = [match for entry in entries if (match := _SAMPLE.fullmatch(entry.path))]
    folders: dict[str, list[FileEntry]] = {f"samples/{match['name']}/": [] for match in documents if match["chunked"]}
    for entry in entries if folders else ():
        # Ids may hold slashes, so a part is known by the folder it is in: that of the sample, or one below.
        head = entry.path.rpartition("/")[0]
        folder = next((name for name in (f"{head}/", f"{head.rpartition('/')[0]}/") if name in folders), None)
        if folder is not None:
            folders[folder].append(entry)
    return [_files(match, folders) for match in documents]


def _files(match: re.Match[str], folders: Mapping[str, Sequence[FileEntry]]) -> SampleFiles:
    folder = f"samples/{match['name']}/" if match["chunked"] else ""
    return SampleFiles(match["name"], match.string, folder, tuple(folders.get(folder, ())))


def originals(log: Log, files: SampleFiles, *, limits: Limits, repairs: Repairs) -> tuple[Original, ...]:
    """The files of one sample, byte for byte; parts over the limit are left out with a warning."""
    if not files.folder:
        return (Original("sample.json", log.tree, files.document),)
    for part in files.parts:
        if part.size > limits.file_bytes:
            repairs.add("original_too_large", part.path, f"{part.size:,} bytes")
    kept = (part.path for part in files.parts if part.size <= limits.file_bytes)
    return tuple(Original(path.removeprefix(files.folder), log.tree, path) for path in kept)


def load_sample(log: Log, files: SampleFiles, *, limits: Limits, repairs: Repairs) -> Sample:
    """One sample, whole: its parts joined, its attachments in place."""
    reader = _Reader(log, repairs, limits, limits.json_bytes)
    data = load_object(reader.read(files.document), name=files.name, repairs=repairs, limits=limits)
    pooled = as_object(data.pop("events_data", None), at="events_data", repairs=repairs)
    pool = pooled.get("messages") or data.pop("message_pool", None) or []
    attachments: Json = data.pop("attachments", None) or {}
    events = data.pop("events", None)
    if files.folder:
        pool = reader.joined(files, "messages")
        events = reader.joined(files, "events")
        attachments = {str(at): text for at, text in enumerate(reader.joined(files, "attachments"))}
        data["messages"] = referred(data.pop("message_refs", None), pool, budget=[_MOST_REFERENCES])
    kept = _kept(as_objects(events, at="events", repairs=repairs))
    pool = pool if isinstance(pool, list) else []
    if isinstance(attachments, dict) and attachments:
        map_text([data, kept, pool], _Attachments(attachments, limits.json_bytes, repairs).resolve)
    return Sample(data, kept, pool)


@dataclass(slots=True)
class _Reader:
    """Reads the parts of one sample, which together may have no more bytes than one document."""

    log: Log
    repairs: Repairs
    limits: Limits
    left: int

    def read(self, name: str) -> bytes:
        raw = read_member(self.log.tree, name, limit=max(self.left, 0))
        self.left -= len(raw)
        self.log.count(len(raw))
        return raw

    def joined(self, files: SampleFiles, kind: str) -> list[Json]:
        """The lists of all parts of one kind, in the order of their numbers."""
        prefix = f"{files.folder}{kind}/"
        named = (part.path.removeprefix(prefix) for part in files.parts if part.path.startswith(prefix))
        starts = sorted(int(match[1]) for name in named if (match := _CHUNK_START.fullmatch(name)))
        return [item for start in starts for item in self._list(f"{prefix}{start}.json")]

    def _list(self, name: str) -> list[Json]:
        found = loads(self.read(name), name=name, repairs=self.repairs, limits=self.limits)
        if isinstance(found, list):
            return found
        self.repairs.add("list_expected", name)
        return []


def _kept(events: Sequence[dict[str, Json]]) -> list[dict[str, Json]]:
    kept = [event for event in events if event.get("event") in _EVENTS]
    for event in kept:
        for key in _NOT_KEPT:
            event.pop(key, None)
    return kept


def referred(references: Json, pool: Sequence[Json], *, budget: list[int]) -> list[Json]:
    """What ranges [start, end) or plain numbers refer to; `budget` bounds how much may be referred to in all."""
    return [pool[index] for index in _indexes(references, len(pool), budget)]


def _indexes(references: Json, size: int, budget: list[int]) -> Iterator[int]:
    for item in references if isinstance(references, list) else ():
        pair = item if isinstance(item, list) and len(item) == 2 else [item, None]
        start, end = pair[0], pair[1] if pair[1] is not None else pair[0]
        if not isinstance(start, int) or not isinstance(end, int):
            continue
        found = range(max(start, 0), min(end if pair[1] is not None else end + 1, size))
        budget[0] -= len(found) + 1
        if budget[0] < 0:
            raise UnreadableError("its events refer to their messages too often to be read")
        yield from found


@dataclass(slots=True)
class _Attachments:
    """Texts kept once and referred to; together they may put in no more than `left` characters."""

    texts: Mapping[str, Json]
    left: int
    repairs: Repairs

    def resolve(self, text: str) -> str:
        if not text.startswith(_ATTACHMENT):
            return text
        found = self.texts.get(text[len(_ATTACHMENT) :])
        if not isinstance(found, str):
            self.repairs.add("attachment_missing", "attachments", text[:100])
            return text
        self.left -= len(found)
        if self.left < 0:
            self.repairs.add("attachment_limit", "attachments", "left as a reference")
            return text
        return found
