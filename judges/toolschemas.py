"""The tools as offered to a model: one byte-identical list in both phases, so that prompt caches live.

All schemas are closed objects with every property required; an empty text or 0 asks for the default.
"""

from collections.abc import Sequence
from functools import cache
from typing import Final, Literal

from pydantic import BaseModel

from judges.messages import ToolSchema
from judges.records import Json, content_digest
from judges.verdict import Attribution, BlindVerdict, Strict

Root = Literal["deliverable", "initial", "reference"]
StepsPart = Literal["all", "message", "reasoning", "action", "observation"]
SUBMIT_VERDICT: Final = "submit_verdict"
SUBMIT_ATTRIBUTION: Final = "submit_attribution"


class ListFiles(Strict):
    """Files of a recorded folder: size, kind, change against the start, name. 200 a page."""

    root: Root
    glob: str
    page: int


class ReadFile(Strict):
    """Numbered lines of one file, 400 a call. Documents are shown as text, with the address of each place in ⟦ ⟧."""

    root: Root
    path: str
    line_start: int
    line_end: int


class Grep(Strict):
    """Search a folder with an RE2 pattern, case ignored. Shows the total count and the first hits with their lines."""

    root: Root
    pattern: str
    glob: str
    max_hits: int


class TrajectoryOverview(Strict):
    """Totals, timeline and the steps most worth reading (page 1), or the process signals (page 2)."""

    page: int


class ReadSteps(Strict):
    """Steps start to end by locator, at most 20; with one step and one part, an offset pages through a long text."""

    start: str
    end: str
    part: StepsPart
    offset: int


class SearchTrajectory(Strict):
    """Search all steps, or start to end, with an RE2 pattern. Shows the total count and the first hits."""

    pattern: str
    part: StepsPart
    start: str
    end: str
    max_hits: int


class DiffWithReference(Strict):
    """Unified diff of one file of the deliverable against the reference or the initial files."""

    path: str
    against: Literal["reference", "initial"]


class RunCommand(Strict):
    """Run a shell line in a fresh sandbox without network; inputs are read-only. The result gets an id to cite."""

    command: str
    timeout_s: int


class ReadVerifierOutput(Strict):
    """Numbered lines of one stream of the verifier. Locked until your verdict is recorded."""

    stream: str
    line_start: int
    line_end: int


ARGUMENTS: Final[dict[str, type[Strict]]] = {
    "list_files": ListFiles,
    "read_file": ReadFile,
    "grep": Grep,
    "trajectory_overview": TrajectoryOverview,
    "read_steps": ReadSteps,
    "search_trajectory": SearchTrajectory,
    "diff_with_reference": DiffWithReference,
    "run_command": RunCommand,
    "read_verifier_output": ReadVerifierOutput,
}


def _schema(name: str, model: type[BaseModel], description: str, *, strict: bool = False) -> ToolSchema:
    schema = model.model_json_schema()
    schema.pop("description", None)
    return ToolSchema(name, description, schema, strict)


@cache
def tool_schemas() -> tuple[ToolSchema, ...]:
    """All tools in a fixed order; only the two submissions are strict, as every strict schema is compiled."""
    plain = [_schema(name, model, model.__doc__ or "") for name, model in ARGUMENTS.items()]
    verdict = _schema(SUBMIT_VERDICT, BlindVerdict, "Phase 1: your blind verdict. It is locked.", strict=True)
    attribution = _schema(SUBMIT_ATTRIBUTION, Attribution, "Phase 2: explain the verifier.", strict=True)
    return (*plain, verdict, attribution)


def tools_json(tools: Sequence[ToolSchema] | None = None) -> Json:
    """A list of tools as JSON, for requests and for the digest: all of a judge's, where none is given."""
    listed = tool_schemas() if tools is None else tools
    return [[tool.name, tool.description, dict(tool.parameters), tool.strict] for tool in listed]


@cache
def digest() -> str:
    """Hexadecimal SHA-256 of the tool list."""
    return content_digest(tools_json())
