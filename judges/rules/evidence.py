"""What the rules judge saw, and the citations it makes of it."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judges.messages import ToolResult
from judges.rules.reading import Frame, Listed, Opening, frames, listing

Json = Any
_QUOTE = 300
_VERDICT_LINE = re.compile(r"(PASS|FAIL|CANNOT CHECK) ([\w.-]+?)(?::|\s|$)")
_COMMAND = re.compile(r"command (R\d+): exit code (-?\d+)")
_LITERAL = re.compile(r"[\"']([^\"'\n]{2,60})[\"']|(?<![\w.])(-?\d[\d.]+)")
_TOTAL = re.compile(r"(\d+) hits")


@dataclass(slots=True)
class Notebook:
    """Citations by id; the same place cited twice is one citation. Ids go on in the second phase."""

    prefix: str = "E"
    cited: dict[tuple[Json, ...], Json] = field(default_factory=dict)
    taken: int = 0

    def cite(self, kind: str, target: str, line: int, text: str, *, part: str = "none", item: int = 0) -> str:
        """The id of a citation of one displayed line."""
        quote = quotable(text)
        key = (kind, target, part, item, line, quote)
        if key not in self.cited:
            self.cited[key] = {
                "id": f"{self.prefix}{self.taken + len(self.cited) + 1}", "kind": kind, "target": target, "part": part,
                "item": item, "line_start": line, "line_end": line, "quote": quote,
            }  # fmt: skip
        return str(self.cited[key]["id"])

    def citations(self) -> list[Json]:
        """All citations in the order they were made."""
        return list(self.cited.values())


def quotable(line: str) -> str:
    """The line, cut at a blank where it is too long to be quoted whole."""
    text = line.strip()
    if len(text) <= _QUOTE:
        return text
    at = text.rfind(" ", 8, _QUOTE)
    return text[:at] if at > 0 else text[:_QUOTE]


@dataclass(frozen=True, slots=True)
class Line:
    """One displayed line of a command, file, diff or step."""

    target: str
    number: int
    text: str


@dataclass(slots=True)
class Findings:
    """Everything seen in the first phase, by the call that showed it."""

    opening: Opening
    checks: list[Line] = field(default_factory=list)
    compared: list[Line] = field(default_factory=list)
    suspicious: list[str] = field(default_factory=list)
    files: dict[str, Mapping[int, str]] = field(default_factory=dict)
    whole_files: set[str] = field(default_factory=set)
    diffs: dict[str, Sequence[str]] = field(default_factory=dict)
    history: dict[str, Mapping[int, str]] = field(default_factory=dict)
    counts: dict[str, str] = field(default_factory=dict)
    special_cases: list[Line] = field(default_factory=list)
    test_lines: list[str] = field(default_factory=list)

    def looks(self) -> list[str]:
        """The steps that looked into history or a solution, each once, as far as signals name them."""
        rows = (row for row in self.opening.signals if row["name"] in ("read_vcs_history", "solution_read"))
        return list(dict.fromkeys(spot[0] for row in rows for spot in row["spots"]))

    def changed(self) -> Iterator[Listed]:
        """Files of the deliverable that are not what they were; all of them where the start is not known."""
        for item in self.opening.deliverable or ():
            if item.change in ("new", "changed") or (item.change == "" and self.opening.initial is None):
                yield item

    def verdicts(self, requirement: str) -> dict[str, Line]:
        """PASS, FAIL and CANNOT CHECK lines of one requirement."""
        found = ((_VERDICT_LINE.match(line.text), line) for line in self.checks)
        return {item[1]: line for item, line in found if item and item[2] == requirement}

    def same_as_reference(self) -> dict[str, Line]:
        """Files that equal the reference after normalising, with the line that says so."""
        parts = ((line.text.split(" ", 3), line) for line in self.compared)
        return {words[3]: line for words, line in parts if words[0] == "SAME" and len(words) == 4}

    def is_reference(self) -> bool:
        """Whether the whole product is the reference's: all its files are equal, and nothing else was changed."""
        equal = self.same_as_reference()
        others = {item.path for item in self.changed()} - equal.keys()
        known = self.opening.complete and self.opening.initial is not None
        return bool(equal) and len(equal) == len(self.compared) and not others and known

    def missing(self) -> dict[str, Line]:
        """Files of the reference that were not delivered, with the line that says so."""
        parts = ((line.text.partition(" "), line) for line in self.compared)
        return {name: line for (word, _, name), line in parts if word == "MISSING"}


def literals(text: str) -> list[str]:
    """Strings and numbers of at least two characters that stand in a line of code."""
    return [one or other for one, other in _LITERAL.findall(text)]


def only_frame(result: ToolResult) -> Frame | None:
    """The frame of a result, None for a refusal."""
    found = [] if result.is_error else frames(result.text)
    return found[0] if found else None


def command_lines(result: ToolResult) -> list[Line]:
    """The output lines of a command, none where it did not end by itself."""
    frame = only_frame(result)
    ran = _COMMAND.match(frame.title) if frame else None
    if frame is None or ran is None:
        return []
    return [Line(ran[1], number, text) for number, text in frame.numbered().items()]


def hit_total(result: ToolResult) -> str:
    """The number of hits of a search, empty where it is not exact."""
    frame = only_frame(result)
    found = _TOTAL.match(frame.lines[0]) if frame and frame.lines else None
    return found[1] if found else ""


def hits(result: ToolResult) -> list[Line]:
    """The hits of a search over files."""
    frame = only_frame(result)
    found = (re.fullmatch(r"(.+?) line (\d+): (.*)", line) for line in (frame.lines[1:] if frame else ()))
    return [Line(item[1], int(item[2]), item[3]) for item in found if item]


def listed(result: ToolResult) -> list[Listed]:
    """The files of a listing."""
    frame = only_frame(result)
    return listing(frame.lines) if frame else []


def telling(lines: Mapping[int, str], words: Iterable[str] = ()) -> tuple[int, str] | None:
    """The line that shares most words with `words`, at least one; without words the first that can be quoted."""
    wanted = {word.lower() for word in words if len(word) > 3}
    quotable_lines = [(number, text) for number, text in lines.items() if len(text.strip()) >= 8]
    if not wanted:
        return quotable_lines[0] if quotable_lines else None
    scored = [(sum(word in text.lower() for word in wanted), -number, text) for number, text in quotable_lines]
    best = max(scored, default=(0, 0, ""))
    return (-best[1], best[2]) if best[0] else telling(lines)
