"""The records that importers write and the judge reads: a trajectory, its task, its verifier, its files.

Text is kept exactly as it was recorded; `None` means "not recorded", which is never the same as "recorded empty".
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args

import orjson

Source = Literal["system", "user", "agent", "unknown"]
Part = Literal["message", "reasoning", "action", "observation"]
PARTS: tuple[Part, ...] = get_args(Part)
Pairing = Literal["explicit", "position", "single", "shared", "none"]
VerifierStatus = Literal["pass", "fail", "partial", "none", "invalid"]
VERIFIER_STATUSES: tuple[VerifierStatus, ...] = get_args(VerifierStatus)
ReferencePolicy = Literal["phase1", "phase2", "never"]
EntryKind = Literal["file", "symlink", "special", "too_large"]
Json = Any


def canonical_json(value: Json) -> bytes:
    """One byte string per JSON value: keys sorted, no blanks, UTF-8, NaN refused as null is another value.

    Raises TypeError for what JSON cannot hold, among it lone surrogates.
    """
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def content_digest(value: Json) -> str:
    """Hexadecimal SHA-256 of the canonical JSON of `value`."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


@dataclass(frozen=True, slots=True)
class Attachment:
    """An image, sound or document a step refers to; its bytes are stored only when they were recorded."""

    media_type: str
    name: str
    size: int | None = None
    sha256: str | None = None

    def to_json(self) -> Json:
        return [self.media_type, self.name, self.size, self.sha256]


@dataclass(frozen=True, slots=True)
class Action:
    """One tool call; `arguments` is an object as recorded, or raw text where it was no object."""

    name: str
    arguments: Mapping[str, Json] | str
    call_id: str | None = None

    @property
    def text(self) -> str:
        """The one rendering that reader, search and citations share: the tool, then an argument a line."""
        if isinstance(self.arguments, str):
            return f"{self.name}\n{self.arguments}" if self.arguments else self.name
        return "\n".join([self.name, *(_argument_line(key, value) for key, value in self.arguments.items())])

    def to_json(self) -> Json:
        arguments = self.arguments if isinstance(self.arguments, str) else dict(self.arguments)
        return [self.name, arguments, self.call_id]


def _argument_line(key: str, value: Json) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return f"{key}:\n{text}" if "\n" in text else f"{key}: {text}"


@dataclass(frozen=True, slots=True)
class Observation:
    """What came back; `pairing` says how sure it is that it answers the call `call_id`."""

    text: str
    call_id: str | None = None
    pairing: Pairing = "none"
    exit_code: int | None = None
    attachments: tuple[Attachment, ...] = ()

    def to_json(self) -> Json:
        attachments = [item.to_json() for item in self.attachments]
        return [self.text, self.call_id, self.pairing, self.exit_code, attachments]


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One numbered step. `locator` is what citations name: "12", or "12.1:3" for step 3 of sub-agent 1 of step 12."""

    locator: str
    source: Source
    message: str = ""
    reasoning: str = ""
    actions: tuple[Action, ...] = ()
    observations: tuple[Observation, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    timestamp: str | None = None

    def texts(self, part: Part) -> tuple[str, ...]:
        """The full renderings of one part, item k at index k - 1; empty where the step has none."""
        if part == "action":
            return tuple(action.text for action in self.actions)
        if part == "observation":
            return tuple(observation.text for observation in self.observations)
        text = self.message if part == "message" else self.reasoning
        return (text,) if text else ()

    def to_json(self) -> Json:
        return {
            "at": self.locator,
            "source": self.source,
            "message": self.message,
            "reasoning": self.reasoning,
            "actions": [item.to_json() for item in self.actions],
            "observations": [item.to_json() for item in self.observations],
            "attachments": [item.to_json() for item in self.attachments],
            "time": self.timestamp,
        }

    @classmethod
    def from_json(cls, data: Json) -> "StepRecord":
        """Inverse of `to_json`; raises KeyError or TypeError on anything else."""
        return cls(
            locator=data["at"],
            source=data["source"],
            message=data["message"],
            reasoning=data["reasoning"],
            actions=tuple(Action(*item) for item in data["actions"]),
            observations=tuple(_observation(item) for item in data["observations"]),
            attachments=tuple(Attachment(*item) for item in data["attachments"]),
            timestamp=data["time"],
        )


def _observation(item: Json) -> Observation:
    text, call_id, pairing, exit_code, attachments = item
    return Observation(text, call_id, pairing, exit_code, tuple(Attachment(*part) for part in attachments))


@dataclass(frozen=True, slots=True)
class StepRow:
    """What the outline shows of a step without its body; sizes are characters of each item of each part.

    `flags` are hints found by pattern, never findings; `action_digest` is equal for equal actions.
    """

    locator: str
    source: Source
    tool: str
    head: str
    exit_code: int | None
    sizes: Mapping[Part, tuple[int, ...]]
    timestamp: str | None
    flags: tuple[str, ...]
    action_digest: str


class StepReader(Protocol):
    """A trajectory of any length, read a part at a time. Positions are 0-based, locators are what people see."""

    def __len__(self) -> int: ...
    def outline(self) -> Sequence[StepRow]: ...
    def position(self, locator: str) -> int | None: ...
    def read(self, position: int) -> StepRecord: ...
    def iterate(self, start: int = 0, stop: int | None = None) -> Iterator[StepRecord]: ...


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One member of a recorded tree; only kind "file" has bytes to read."""

    path: str
    size: int
    kind: EntryKind = "file"
    sha256: str | None = None
    executable: bool = False
    note: str = ""


class FileTree(Protocol):
    """A recorded folder. An empty tree was recorded and is empty; a missing tree is `None`."""

    def entries(self) -> Sequence[FileEntry]:
        """All members, sorted by path."""
        ...

    def read(self, path: str, *, limit: int | None = None) -> bytes:
        """The bytes of one file, at most `limit`; KeyError where there is no such file."""
        ...


@dataclass(frozen=True, slots=True)
class Requirement:
    """One yes/no requirement that follows from the instruction alone."""

    id: str
    text: str
    format_binding: bool = False


@dataclass(frozen=True, slots=True)
class Notice:
    """A repair (warning) or a deterministic finding (flag) of an import, with the place it was seen."""

    code: str
    locator: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class VerifierRecord:
    """What the task's own check said. `reward` is None where none was recorded; `streams` are its output files."""

    status: VerifierStatus
    reason: str = ""
    reward: float | None = None
    rewards: Mapping[str, float] = field(default_factory=dict)
    streams: FileTree | None = None
    proof: Notice | None = None


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One problem as far as it was recorded; `digest` is the producer's own, where it gave one."""

    task_id: str
    environment: str
    instruction: str | None = None
    digest: str | None = None
    initial: FileTree | None = None
    reference: FileTree | None = None
    verifier_source: FileTree | None = None
    rubric: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """What the attempt cost; None where it was not recorded. Input tokens include cached ones; cost in US dollars."""

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Original:
    """A file as it came, kept byte for byte beside the normalised record."""

    name: str
    tree: FileTree
    path: str


@dataclass(frozen=True, slots=True)
class TrajectoryRecord:
    """One attempt of one agent and model at one task, as an importer read it."""

    source_id: str
    task: TaskRecord
    verifier: VerifierRecord
    steps: Sequence[StepRecord] = ()
    steps_recorded: bool = True
    deliverable: FileTree | None = None
    agent: str = ""
    agent_version: str = ""
    model: str = ""
    effort: str = ""
    attempt: int | None = None
    training_step: int | None = None
    usage: Usage = Usage()
    started_at: str | None = None
    finished_at: str | None = None
    is_control: bool = False
    exception: str = ""
    extra: Mapping[str, Json] = field(default_factory=dict)
    warnings: tuple[Notice, ...] = ()
    flags: tuple[Notice, ...] = ()
    originals: tuple[Original, ...] = ()


@dataclass(frozen=True, slots=True)
class ParseFailure:
    """One file or folder that could not become a trajectory, and what to do about it."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class LabelRecord:
    """A label made elsewhere, keyed by the trajectory's source_id. `labeler` is a person or a judge's name."""

    source_id: str
    kind: Literal["human", "judge"]
    labeler: str
    decision: Literal["satisfied", "not_satisfied", "cannot_tell"]
    integrity: Literal["none", "hacked", "cannot_tell"] | None = None
    tags: tuple[str, ...] = ()
    note: str = ""
    created_at: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """Everything the blind phase may see of one trajectory, and nothing of its verifier, model or agent."""

    task_digest: str
    content_digest: str
    instruction: str | None
    rubric: tuple[Requirement, ...]
    steps: StepReader
    steps_recorded: bool = True
    deliverable: FileTree | None = None
    initial: FileTree | None = None
    reference: FileTree | None = None
    reference_policy: ReferencePolicy = "phase1"
    gaps: tuple[Notice, ...] = ()


@dataclass(frozen=True, slots=True)
class Revealed:
    """What the second phase may see in addition: the verifier's verdict, output and source."""

    verifier: VerifierRecord
    source: FileTree | None = None


def tree_manifest(entries: Iterable[FileEntry]) -> Json:
    """The JSON that identifies a tree: path, kind, size, digest and mode of each member, sorted by path."""
    rows = [[entry.path, entry.kind, entry.size, entry.sha256, entry.executable, entry.note] for entry in entries]
    return {"schema": "assay.tree/1", "files": sorted(rows)}
