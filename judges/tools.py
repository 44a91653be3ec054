"""Executes a judge's tool calls over one case. Every result is displayed text in a frame, of bounded length.

Arguments come from a model and are validated; a refusal is an error result that says what would work.
"""

import difflib
import fnmatch
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from pydantic import ValidationError

from judges import signals, trajindex
from judges.budget import Limits
from judges.display import clip, display_lines, display_text, frame, number_lines, safe_name
from judges.documents import Documents
from judges.documents.files import listed_kind, shown_file, shown_texts
from judges.errors import JudgmentFailed
from judges.messages import ToolCall, ToolResult
from judges.patterns import PatternError, compile_pattern, search_texts
from judges.records import Case, FileEntry, FileTree, Revealed
from judges.safefs import MemoryTree, text_of
from judges.sandbox import Sandbox, SandboxUnavailableError, Session
from judges.toolschemas import (
    ARGUMENTS,
    DiffWithReference,
    Grep,
    ListFiles,
    ReadFile,
    ReadSteps,
    ReadVerifierOutput,
    Root,
    RunCommand,
    SearchTrajectory,
    TrajectoryOverview,
)

PAGE_FILES: Final = 200
PAGE_LINES: Final = 400
DIFF_LINES: Final = 4_000
_MAX_HITS: Final = 100


class RefusedError(Exception):
    """A call that cannot be answered; the message goes back to the model."""


@dataclass(frozen=True, slots=True)
class CommandRun:
    """One command the judge ran: its id, the line, the exit code and the whole output as displayed lines see it."""

    id: str
    command: str
    seconds: int
    exit_code: int | None
    output: str
    note: str = ""


@dataclass(slots=True)
class Toolbox:
    """The tools over one case. The verifier is readable once `revealed` is set, after the lock."""

    case: Case
    limits: Limits
    nonce: str
    sandbox: Sandbox
    revealed: Revealed | None = None
    runs: list[CommandRun] = field(default_factory=list)
    documents: Documents = field(default_factory=Documents)
    _session: Session | None = None
    _replays: dict[str, str | None] = field(default_factory=dict)

    def execute(self, call: ToolCall) -> ToolResult:
        """Answer one call of a tool that submits nothing."""
        try:
            return ToolResult(call.id, call.name, self._run(call))
        except (RefusedError, PatternError, trajindex.LocatorError) as refusal:
            return ToolResult(call.id, call.name, str(refusal), is_error=True)

    def _run(self, call: ToolCall) -> str:
        if call.arguments is None:
            raise RefusedError(call.error)
        model = ARGUMENTS.get(call.name)
        if model is None:
            raise RefusedError(f"there is no tool {safe_name(call.name, 60)!r}; tools: {', '.join(ARGUMENTS)}")
        try:
            arguments = model.model_validate(call.arguments)
        except ValidationError as error:
            raise RefusedError(f"invalid arguments: {problems(error)}") from error
        answer: Callable[[Any], str] = _TOOLS[call.name].__get__(self)
        return answer(arguments)

    def close(self) -> None:
        """End the sandbox session, if one was opened."""
        if self._session is not None:
            self._session.close()

    def tree(self, root: Root) -> FileTree:
        """A folder of the case; RefusedError where it was not recorded or is not to be seen in this phase."""
        if root == "reference" and not self.reference_visible:
            raise RefusedError("the reference is not shown in this phase")
        found: FileTree | None = getattr(self.case, root)
        if found is None:
            raise RefusedError(f"the {root} was not recorded: unknown, not empty")
        return found

    @property
    def reference_visible(self) -> bool:
        """Whether the reference may be seen now."""
        policy = self.case.reference_policy
        return policy == "phase1" or (policy == "phase2" and self.revealed is not None)

    def list_files(self, arguments: ListFiles) -> str:
        """Answer of the tool of this name."""
        return self.framed(*self.listing(arguments.root, arguments.glob, max(1, arguments.page)))

    def listing(self, root: Root, glob: str = "", page: int = 1) -> tuple[str, str]:
        """Title and body of one page of a folder's files."""
        found = _matching(self.tree(root), glob)
        start = (page - 1) * PAGE_FILES
        shown = found[start : start + PAGE_FILES]
        if found and not shown:
            raise RefusedError(f"there is no page {page}: {len(found)} files, {PAGE_FILES} a page")
        rows = [_file_line(entry, self._change(root, entry)) for entry in shown]
        more = f", page {page} of {-(-len(found) // PAGE_FILES)}" if len(found) > PAGE_FILES else ""
        return f"{root}: {len(found)} files{more}", "\n".join(rows) or "no files"

    def _change(self, root: Root, entry: FileEntry) -> str:
        """How a deliverable file differs from the start: new, changed, same; empty where the start is unknown."""
        initial, tree = self.case.initial, self.case.deliverable
        if root != "deliverable" or initial is None or tree is None or entry.kind != "file":
            return ""
        before = next((item for item in initial.entries() if item.path == entry.path), None)
        if before is None:
            return "new"
        same = before.size == entry.size and tree.read(entry.path) == initial.read(entry.path)
        return "same" if same else "changed"

    def read_file(self, arguments: ReadFile) -> str:
        """Answer of the tool of this name."""
        tree = self.tree(arguments.root)
        entry = _entry(tree, arguments.path)
        data = tree.read(entry.path)
        title = f"{arguments.root}/{entry.path}"
        shown = shown_file(self.documents, entry.path, data)
        if shown is None:
            return self.framed(title, f"binary, {len(data)} bytes; first 64 bytes: {data[:64].hex(' ')}")
        return self._lines(title, shown.lines, arguments.line_start, arguments.line_end, notes=shown.notes)

    def _lines(self, title: str, lines: Sequence[str], first: int, last: int, *, notes: Sequence[str] = ()) -> str:
        """A page of displayed lines; the first page begins with what is to be said of the document."""
        start = max(1, first)
        stop = min(last or start + PAGE_LINES - 1, start + PAGE_LINES - 1, len(lines))
        if start > max(1, len(lines)):
            raise RefusedError(f"{safe_name(title)} has {len(lines)} lines")
        body = number_lines(lines[start - 1 : stop], start=start) if lines else "" if notes else "(empty file)"
        if notes and start == 1:
            body = "\n".join([*(f"⟦note⟧ {note}" for note in notes), *filter(None, [body])])
        return self.framed(f"{title} lines {min(start, stop)}-{stop} of {len(lines)}", body)

    def grep(self, arguments: Grep) -> str:
        """Answer of the tool of this name."""
        tree = self.tree(arguments.root)
        pattern = compile_pattern(arguments.pattern)
        chosen = shown_texts(self.documents, tree, lambda path: _fits(path, arguments.glob))
        found = search_texts(pattern, chosen, max_hits=min(arguments.max_hits or 30, _MAX_HITS))
        return self.framed(f"search in {arguments.root}", trajindex.render_search(found))

    def trajectory_overview(self, arguments: TrajectoryOverview) -> str:
        """Answer of the tool of this name."""
        return self.signals_text() if arguments.page > 1 else self.overview_text(self.limits.result_characters)

    def overview_text(self, characters: int) -> str:
        """The framed overview of the trajectory."""
        if not self.case.steps_recorded:
            raise RefusedError("the steps were not recorded: unknown, not none")
        rows = self.case.steps.outline()
        return self.framed("overview", trajindex.overview(rows, max_chars=characters * 9 // 10 - 200))

    def signals_text(self) -> str:
        """The framed process signals, a JSON object a line: hints with the places that show them."""
        case = self.case
        found = signals.find_signals(case.steps, instruction=case.instruction, initial=case.initial)
        return self.framed("signals", "\n".join(_signal_line(item) for item in found) or "none")

    def read_steps(self, arguments: ReadSteps) -> str:
        """Answer of the tool of this name."""
        body = trajindex.read_steps(
            self.case.steps,
            arguments.start,
            arguments.end or arguments.start,
            part=arguments.part,
            offset=max(0, arguments.offset),
            max_chars=self.limits.result_characters * 3 // 4,
        )
        return self.framed(f"steps {arguments.start} to {arguments.end or arguments.start}", body)

    def search_trajectory(self, arguments: SearchTrajectory) -> str:
        """Answer of the tool of this name."""
        found = trajindex.search(
            self.case.steps,
            arguments.pattern,
            part=arguments.part,
            start=arguments.start,
            end=arguments.end,
            max_hits=min(arguments.max_hits or 30, _MAX_HITS),
        )
        return self.framed("search in the trajectory", trajindex.render_search(found))

    def diff_with_reference(self, arguments: DiffWithReference) -> str:
        """Answer of the tool of this name."""
        before = self._file_lines(arguments.against, arguments.path)
        after = self._file_lines("deliverable", arguments.path)
        if max(len(before), len(after)) > DIFF_LINES:
            raise RefusedError(f"more than {DIFF_LINES} lines: read parts of both files instead")
        lines = difflib.unified_diff(before, after, arguments.against, "deliverable", lineterm="")
        return self.framed(f"diff of {arguments.path}", "\n".join(lines) or "no difference")

    def _file_lines(self, root: Root, path: str) -> list[str]:
        tree = self.tree(root)
        entry = _entry(tree, path)
        shown = shown_file(self.documents, entry.path, tree.read(entry.path))
        if shown is None:
            raise RefusedError(f"{safe_name(path)} in {root} is binary")
        return list(shown.lines)

    def run_command(self, arguments: RunCommand) -> str:
        """Answer of the tool of this name."""
        if len(self.runs) >= self.limits.commands:
            raise RefusedError(f"all {self.limits.commands} commands are used")
        run = self._run_command(arguments.command, min(arguments.timeout_s or 60, self.limits.command_seconds))
        self.runs.append(run)
        lines = display_lines(run.output)
        code = "no exit code" if run.exit_code is None else f"exit code {run.exit_code}"
        note = f", {run.note}" if run.note else ""
        return self.framed(f"command {run.id}: {code}{note}, {len(lines)} lines", number_lines(lines) or "(no output)")

    def _run_command(self, command: str, seconds: int) -> CommandRun:
        if self.sandbox.kind == "none":
            raise RefusedError("commands cannot be run in this configuration: judge by what is recorded")
        try:
            if self._session is None:
                self._session = self.sandbox.session(self._trees(self.case.deliverable))
            result = self._session.run(command, timeout_s=seconds)
        except SandboxUnavailableError as error:
            raise JudgmentFailed("sandbox", str(error)) from error
        note = f"stopped: {result.why_stopped}" if result.why_stopped else ""
        name = f"R{len(self.runs) + 1}"
        return CommandRun(name, command, seconds, result.exit_code, result.output, note)

    def _trees(self, deliverable: FileTree | None) -> Mapping[str, FileTree]:
        reference = self.case.reference if self.reference_visible else None
        trees = {"deliverable": deliverable, "initial": self.case.initial, "reference": reference}
        return {name: tree for name, tree in trees.items() if tree is not None}

    def replay(self, run_id: str) -> str | None:
        """What the same command prints without the work: the lines common to a run on the initial files and on none.

        A line that is missing from one of them depends on the deliverable. None where it could not be run again.
        """
        if run_id not in self._replays:
            self._replays[run_id] = self._replay(next(run for run in self.runs if run.id == run_id))
        return self._replays[run_id]

    def rerun(self, run_id: str, deliverable: FileTree) -> str | None:
        """What the same command prints over another deliverable; None where it could not be run again."""
        return self._output_on(next(run for run in self.runs if run.id == run_id), deliverable)

    def _replay(self, run: CommandRun) -> str | None:
        nothing = self._output_on(run, MemoryTree({}))
        if nothing is None or self.case.initial is None or not _common(nothing, run.output):
            return nothing
        before = self._output_on(run, self.case.initial)
        return None if before is None else "\n".join(_common(before, nothing))

    def _output_on(self, run: CommandRun, deliverable: FileTree) -> str | None:
        try:
            with self.sandbox.session(self._trees(deliverable)) as session:
                return session.run(run.command, timeout_s=run.seconds).output
        except SandboxUnavailableError:
            return None

    def read_verifier_output(self, arguments: ReadVerifierOutput) -> str:
        """Answer of the tool of this name."""
        if self.revealed is None:
            raise RefusedError("locked until your verdict is recorded: call submit_verdict first")
        for name, tree, path in self.verifier_files():
            if arguments.stream in (name, safe_name(name)):
                text = text_of(tree, path)
                if text is None:
                    raise RefusedError(f"{safe_name(name)} is binary")
                return self._lines(f"verifier {name}", display_lines(text), arguments.line_start, arguments.line_end)
        known = ", ".join(safe_name(name) for name, _, _ in self.verifier_files()) or "none was recorded"
        raise RefusedError(f"there is no stream {safe_name(arguments.stream, 80)!r}; streams: {known}")

    def verifier_files(self) -> Iterator[tuple[str, FileTree, str]]:
        """Name, tree and path of every verifier stream, then of its source under source/; nothing before the reveal."""
        if self.revealed is None:
            return
        for prefix, tree in (("", self.revealed.verifier.streams), ("source/", self.revealed.source)):
            for entry in tree.entries() if tree else ():
                if tree and entry.kind == "file":
                    yield prefix + entry.path, tree, entry.path

    def framed(self, title: str, body: str, *, limit: int = 0) -> str:
        """A frame of at most `limit` characters (the result limit); a longer body loses its middle and says so."""
        room = (limit or self.limits.result_characters) - 60 - len(safe_name(title))
        text, target = body, room
        while (excess := len(text) + 7 * (text.count("\n") + 1) - room) > 0 and target > 400:
            target = max(400, min(target, len(text)) - excess - 120)
            text = clip(body, target, "ask for a smaller range")
        return frame(title, text, self.nonce)


def _common(one: str, other: str) -> list[str]:
    """The lines of `one` that `other` has, too, blank ones aside."""
    kept = set(other.split("\n"))
    return [line for line in one.split("\n") if line.strip() and line in kept]


def problems(error: ValidationError, limit: int = 8) -> str:
    """The first problems of a validation in one line."""
    found = error.errors()[:limit]
    return "; ".join(f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}" for item in found)


def _matching(tree: FileTree, glob: str) -> Sequence[FileEntry]:
    return [entry for entry in tree.entries() if _fits(entry.path, glob)]


def _fits(path: str, glob: str) -> bool:
    return not glob or fnmatch.fnmatchcase(path, glob) or fnmatch.fnmatchcase(path.rsplit("/", 1)[-1], glob)


def _file_line(entry: FileEntry, change: str) -> str:
    kind = entry.kind if entry.kind != "file" else "file+x" if entry.executable else listed_kind(entry)
    note = f"  ({entry.note})" if entry.note else ""
    return f"{entry.size:>10} {kind:9} {change:8} {safe_name(entry.path)}{note}"


def _entry(tree: FileTree, path: str) -> FileEntry:
    """The readable file of that name, exact or as displayed."""
    for entry in tree.entries():
        if path in (entry.path, safe_name(entry.path)):
            if entry.kind != "file":
                raise RefusedError(f"{safe_name(path)} cannot be read: {entry.note or entry.kind}")
            return entry
    raise RefusedError(f"there is no file {safe_name(path)!r}: list_files shows what there is")


def _signal_line(item: signals.Signal) -> str:
    spots = [[spot.at, spot.part, spot.item, spot.line, spot.quote] for spot in item.spots]
    row = {"name": item.name, "code": item.code, "note": display_text(item.note), "search": item.search, "spots": spots}
    return orjson.dumps(row).decode()


_TOOLS: Mapping[str, Callable[..., str]] = {name: getattr(Toolbox, name) for name in ARGUMENTS}
