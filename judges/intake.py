"""What can be said before anybody is asked: missing inputs, nothing recorded, an empty or trivial deliverable.

Not recorded is not empty: only a recorded folder can be proven empty, and only where the task demands files is that
a failure of the work.
"""

import re
from dataclasses import dataclass
from typing import Final

from judges.display import display_lines
from judges.errors import JudgmentFailed
from judges.records import Case, FileEntry, FileTree
from judges.safefs import decode, is_complete, is_text
from judges.verdict import BlindVerdict, Citation, Criterion

# Openings that one-token attacks leave as a whole answer.
_OPENING: Final = re.compile(
    r"(?:thought process|solution|answer|final answer|let'?s (?:solve|think)[^\n]{0,60}|sure|okay|ok|done)\s*[:.!]?",
    re.I,
)
_NAMES_FILE: Final = re.compile(r"(?<![\w./-])(?:/?[\w.-]+/)*[\w-]+\.[A-Za-z]\w{0,5}(?![\w/])")
_READ: Final = 64_000


@dataclass(frozen=True, slots=True)
class Settled:
    """A blind verdict that needs no model, and why it was reached."""

    verdict: BlindVerdict
    reason: str


def examine(case: Case) -> Settled | None:
    """None where a judge has to look; JudgmentFailed (input_invalid) where there is nothing to judge by."""
    if case.instruction is None or not case.instruction.strip():
        raise JudgmentFailed("input_invalid", "the instruction was not recorded: without it nothing can be judged")
    if case.deliverable is None and not (case.steps_recorded and len(case.steps)):
        return Settled(_cannot_tell(case), "not_recorded")
    if case.deliverable is None or not _is_trivial(case.deliverable, case.instruction):
        return None
    if not _demands_files(case):
        raise JudgmentFailed("input_invalid", "the deliverable is empty, and nothing shows that the task demands files")
    return Settled(_nothing_delivered(case), "deliverable_empty")


def _is_trivial(tree: FileTree, instruction: str) -> bool:
    """No file, or files that hold no word but an opening that was not asked for; the unreadable is not called empty."""
    if not is_complete(tree):
        return False
    texts = [_text(tree, entry) for entry in tree.entries()]
    if any(text is None for text in texts):
        return False
    whole = " ".join(text for text in texts if text)
    if not re.search(r"\w", whole):
        return True
    said = whole.strip(" \n:.!").lower()
    return _OPENING.fullmatch(whole) is not None and said not in instruction.lower()


def _text(tree: FileTree, entry: FileEntry) -> str | None:
    """The words of a file, its first bytes where it has any, all of them otherwise; None where it holds no text."""
    if entry.kind != "file":
        return None
    data = tree.read(entry.path, limit=_READ)
    if entry.size > _READ and not data.strip():
        data = tree.read(entry.path)
    return decode(data).strip() if is_text(data) else None


def _demands_files(case: Case) -> bool:
    solution = [entry for entry in case.reference.entries() if _is_solution(entry.path)] if case.reference else []
    return bool(solution) or _NAMES_FILE.search(case.instruction or "") is not None


def _is_solution(path: str) -> bool:
    return not path.startswith("checks/")


def _cannot_tell(case: Case) -> BlindVerdict:
    return _verdict(case, [], [], "cannot_tell", "Neither steps nor a deliverable were recorded.")


def _nothing_delivered(case: Case) -> BlindVerdict:
    line, quote = _first_line(case.instruction or "")
    cited = [
        _citation("E1", "instruction", "", line, quote),
        _citation("E2", "search", r"deliverable:/[A-Za-z0-9]{9}/", 0, "0"),
    ]
    criterion = Criterion(
        id="X1",
        requirement="The files that the instruction asks for were delivered",
        status="not_met",
        own=True,
        evidence=["E1", "E2"],
    )
    summary = "The recorded deliverable holds nothing but blanks, marks or an opening [E1,E2]."
    return _verdict(case, cited, [criterion], "not_satisfied", summary)


def _citation(name: str, kind: str, target: str, line: int, quote: str) -> Citation:
    return Citation.model_validate(
        {"id": name, "kind": kind, "target": target, "part": "none", "item": 0, "line_start": line, "line_end": line,
         "quote": quote}
    )  # fmt: skip


def _first_line(text: str) -> tuple[int, str]:
    lines = display_lines(text)
    number = next((n for n, line in enumerate(lines, 1) if len(line.strip()) >= 8), 1)
    return number, lines[number - 1].strip()[:300]


def _verdict(case: Case, citations: list[Citation], own: list[Criterion], decision: str, summary: str) -> BlindVerdict:
    given = [
        Criterion(id=item.id, requirement=item.text, status="unclear", own=False, evidence=[]) for item in case.rubric
    ]
    return BlindVerdict.model_validate(
        {
            "citations": citations,
            "criteria": given[:11] + own,
            "tags": [],
            "strongest_counterargument": "",
            "integrity": "cannot_tell" if decision == "cannot_tell" else "none",
            "decision": decision,
            "confidence": "high" if own else "low",
            "summary": summary,
        }
    )
