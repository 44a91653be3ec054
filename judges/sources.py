"""What a citation may point at, found and rendered: instruction, files, steps, runs, verifier streams, search scopes.

Only what may be seen in the current phase is there; everything else is no such target, with the reason.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, get_args

from judges.artifacts import Artifact
from judges.display import safe_name
from judges.documents import Cell, Documents, Kind, Line, kind_of
from judges.documents.files import all_shown, rendered_file, shown_file, shown_texts
from judges.records import PARTS, Case, FileEntry, FileTree, Part, Revealed
from judges.safefs import decode, is_complete, is_text
from judges.trajindex import step_texts
from judges.verdict import Citation

Root = Literal["deliverable", "initial", "reference"]
_ROOTS: Final[tuple[Root, ...]] = get_args(Root)
_STEP_SCOPES: Final[Mapping[str, Part | Literal["all"]]] = {
    "trajectory": "all",
    **{f"trajectory.{part}": part for part in PARTS},
}
_MOST_MARKS: Final = 8
SCOPES: Final = (*_STEP_SCOPES, *_ROOTS)


class Run(Protocol):
    """A command the judge ran."""

    @property
    def id(self) -> str: ...
    @property
    def command(self) -> str: ...
    @property
    def output(self) -> str: ...


class Bench(Protocol):
    """What the judge's tools hold: the verifier's side once revealed, the commands run, the mark of the frames."""

    @property
    def nonce(self) -> str: ...
    @property
    def revealed(self) -> Revealed | None: ...
    @property
    def runs(self) -> Sequence[Run]: ...

    def replay(self, run_id: str) -> str | None:
        """Output of the same command on the initial files, or an empty tree; None where it cannot be run again."""
        ...

    def rerun(self, run_id: str, deliverable: FileTree) -> str | None:
        """Output of the same command over another deliverable; None where it cannot be run again."""
        ...


class NoSuchTargetError(LookupError):
    """A citation points at nothing that is there, or at nothing that may be seen in this phase."""

    def __init__(self, detail: str, hint: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint


@dataclass(slots=True)
class Sources:
    """All that may be cited now; asked again for each citation, as commands and the reveal add to it."""

    case: Case
    bench: Bench
    documents: Documents = field(default_factory=Documents)
    _artifacts: dict[tuple[str, ...], Artifact] = field(default_factory=dict)

    def tree(self, root: Root) -> FileTree:
        """A file tree of the case; NoSuchTargetError where it was not recorded or is not to be seen in this phase."""
        policy = self.case.reference_policy
        hidden = policy == "never" or (policy == "phase2" and self.bench.revealed is None)
        if root == "reference" and hidden:
            raise NoSuchTargetError("the reference is not shown in this phase")
        tree: FileTree | None = getattr(self.case, root)
        if tree is None:
            raise NoSuchTargetError(f"the {root} was not recorded: unknown, not empty")
        return tree

    def resolve(self, citation: Citation) -> tuple[str, str, Artifact]:
        """Root, canonical target and text of a citation of any kind but search."""
        root, target = "", citation.target
        if citation.kind == "file":
            root, target = self._file_root(citation.target)
        elif citation.kind == "reference":
            root, target = "reference", self._path("reference", citation.target)
        key = (citation.kind, root, target, citation.part, str(citation.item))
        if key not in self._artifacts:
            self._artifacts[key] = self._artifact(citation, root, target)
        return root, target, self._artifacts[key]

    def place(self, citation: Citation, root: str, path: str) -> tuple[Line, Cell | None] | None:
        """The line, or the cell, of a target that ends in `#address`; None where it ends in the path."""
        address = _address(citation.target, path)
        if citation.kind not in ("file", "reference") or not address:
            return None
        rendered = rendered_file(self.documents, self.tree(_root(root)), path)
        found = rendered.find(address) if rendered else None
        if found is None:
            hint = "write it as read_file shows it in ⟦ ⟧: one cell, row or line"
            raise NoSuchTargetError(f"{safe_name(path)} has no place {safe_name(address, 80)!r}", hint)
        return found

    def kind(self, root: str, path: str) -> Kind | None:
        """What kind of document a file is by its bytes, None for plain text and what is not there."""
        try:
            return kind_of(path, self.tree(_root(root)).read(path))
        except KeyError:
            return None

    def _artifact(self, citation: Citation, root: str, target: str) -> Artifact:
        if root:
            return _file_artifact(self.documents, self.tree(_root(root)), target)
        return Artifact(self._text(citation, target))

    def _text(self, citation: Citation, target: str) -> str:
        if citation.kind == "step":
            return self._step_text(citation)
        if citation.kind == "command":
            return self.run(target).output
        if citation.kind == "verifier":
            return self._stream_text(target)
        if self.case.instruction is None:
            raise NoSuchTargetError("the instruction was not recorded")
        return self.case.instruction

    def _file_root(self, target: str) -> tuple[Root, str]:
        """`root:path`, a bare path of the deliverable, or `root/path` as listings title it; `#address` may follow."""
        for root in _ROOTS[:2]:
            if target.startswith(f"{root}:"):
                return root, self._path(root, target.removeprefix(f"{root}:").lstrip("/"))
        try:
            return "deliverable", self._path("deliverable", target)
        except NoSuchTargetError:
            for root in _ROOTS[:2]:
                if target.startswith(f"{root}/"):
                    return root, self._path(root, target.removeprefix(f"{root}/"))
            raise

    def _path(self, root: Root, name: str) -> str:
        """The path of the readable file called `name`, exactly or as displayed; what follows a # may be an address."""
        entries = self.tree(root).entries()
        ends = [len(name), *(at for at, char in reversed(tuple(enumerate(name))) if char == "#")]
        entry = next(filter(None, (_named(entries, name[:end]) for end in ends[:_MOST_MARKS])), None)
        if entry is None:
            raise NoSuchTargetError(
                f"there is no file {safe_name(name)!r} in the {root}", "list_files shows what there is"
            )
        if entry.kind != "file":
            raise NoSuchTargetError(f"{safe_name(name)} cannot be read: {entry.note or entry.kind}")
        return entry.path

    def _step_text(self, citation: Citation) -> str:
        if not self.case.steps_recorded:
            raise NoSuchTargetError("the steps were not recorded")
        position = self.case.steps.position(citation.target)
        if position is None:
            raise NoSuchTargetError(f"there is no step {safe_name(citation.target, 40)!r}")
        if citation.part == "none":
            raise NoSuchTargetError("a step is cited by part: message, reasoning, action or observation")
        found = self.case.steps.read(position).texts(citation.part)
        if not found:
            raise NoSuchTargetError(f"step {citation.target} has no {citation.part}")
        if citation.item == 0 and len(found) > 1:
            raise NoSuchTargetError(f"step {citation.target} has {len(found)} items there", "give item, from 1")
        if citation.item > len(found) or citation.item < 0:
            raise NoSuchTargetError(f"step {citation.target} has {len(found)} of {citation.part}, not {citation.item}")
        return found[max(citation.item, 1) - 1]

    def run(self, target: str) -> Run:
        """The command run with that id."""
        for run in self.bench.runs:
            if run.id == target:
                return run
        known = ", ".join(run.id for run in self.bench.runs) or "none"
        raise NoSuchTargetError(f"there is no command {safe_name(target, 40)!r}; commands run: {known}")

    def _stream_text(self, target: str) -> str:
        """Only what the harness kept of the verifier counts, and only once it is revealed."""
        if self.bench.revealed is None:
            raise NoSuchTargetError("there is no verifier material in this phase")
        for prefix, tree in (("", self.bench.revealed.verifier.streams), ("source/", self.bench.revealed.source)):
            for entry in tree.entries() if tree else ():
                if tree and _names(prefix, entry, target):
                    return _file_text(tree, entry.path)
        raise NoSuchTargetError(f"the verifier has no stream {safe_name(target, 80)!r}")

    def scope_texts(self, scope: str) -> tuple[Iterator[str], bool]:
        """Displayed texts of a whole search scope, and whether nothing of it is hidden from the search."""
        if part := _STEP_SCOPES.get(scope):
            if not self.case.steps_recorded:
                raise NoSuchTargetError("the steps were not recorded: nothing can be absent from them")
            return (text for _, text in step_texts(self.case.steps.iterate(), part)), True
        if scope not in _ROOTS:
            raise NoSuchTargetError(f"there is no scope {safe_name(scope, 40)!r}", f"scopes: {', '.join(SCOPES)}")
        tree = self.tree(_root(scope))
        with _nothing_gone():
            complete = is_complete(tree) and all_shown(self.documents, tree)
        return _searched(self.documents, tree), complete


def _searched(documents: Documents, tree: FileTree) -> Iterator[str]:
    with _nothing_gone():
        for _, text in shown_texts(documents, tree):
            yield text


@contextmanager
def _nothing_gone() -> Iterator[None]:
    """A file that was listed and is gone: nothing can be said about the whole."""
    try:
        yield
    except KeyError as error:
        raise NoSuchTargetError(f"a file of the scope cannot be read: {error}") from error


def _root(name: str) -> Root:
    return next(root for root in _ROOTS if root == name)


def _named(entries: Sequence[FileEntry], name: str) -> FileEntry | None:
    """The entry of that path, else the one that is displayed so."""
    exact = (entry for entry in entries if entry.path == name)
    return next(exact, None) or next((entry for entry in entries if safe_name(entry.path) == name), None)


def _names(prefix: str, entry: FileEntry, target: str) -> bool:
    name = prefix + entry.path
    return entry.kind == "file" and target in (name, safe_name(name))


def _file_text(tree: FileTree, path: str) -> str:
    try:
        data = tree.read(path)
    except KeyError as error:
        raise NoSuchTargetError(f"{safe_name(path)} cannot be read") from error
    if not is_text(data):
        raise NoSuchTargetError(f"{safe_name(path)} is binary: it has no lines", "cite a command that reads it")
    return decode(data)


def _file_artifact(documents: Documents, tree: FileTree, path: str) -> Artifact:
    try:
        data = tree.read(path)
    except KeyError as error:
        raise NoSuchTargetError(f"{safe_name(path)} cannot be read") from error
    shown = shown_file(documents, path, data)
    if shown is None:
        raise NoSuchTargetError(f"{safe_name(path)} is binary: it has no lines", "cite a command that reads it")
    return Artifact.of_lines(shown.lines) if shown.raw is None else Artifact(shown.raw)


def _address(target: str, path: str) -> str:
    """What follows the path and a # in a target."""
    for name in (path, safe_name(path)):
        if f"{name}#" in target:
            return target.rpartition(f"{name}#")[2]
    return ""
