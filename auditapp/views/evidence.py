"""Checks what a reviewer cites against the very text that the reader shows, as the judge's citations are checked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from auditapp.documents import documents
from auditapp.views.reading import Reading
from judges.citations import Checker
from judges.records import Case, FileTree
from judges.sources import Run
from judges.trajindex import MemorySteps
from judges.verdict import Citation


@dataclass(frozen=True, slots=True)
class _NothingRun:
    """A reviewer runs no commands and sees nothing of the verifier."""

    nonce: str = ""
    revealed: None = None
    runs: Sequence[Run] = ()

    def replay(self, run_id: str) -> str | None:  # noqa: ARG002 (fixed by Bench)
        return None

    def rerun(self, run_id: str, deliverable: FileTree) -> str | None:  # noqa: ARG002 (fixed by Bench)
        return None


def checked(shown: Reading, evidence: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The evidence with the result of each check: `ok`, `result`, `detail`. What fails is kept and says so.

    Where a quote was found on other lines than those it names, these are the true ones afterwards.
    """
    checker = Checker(_case(shown), _NothingRun(), documents=documents())
    return [_row(checker, number, item) for number, item in enumerate(evidence, 1)]


def _row(checker: Checker, number: int, item: Mapping[str, Any]) -> dict[str, Any]:
    check = checker.find(Citation(id=f"E{number}", **item))
    place = check.citation.model_dump()
    return place | {"ok": check.ok, "result": check.code, "detail": check.detail[:300]}


def _case(shown: Reading) -> Case:
    """What the reading shows, as a case: nothing else can be cited."""
    return Case(
        task_digest="",
        content_digest="",
        instruction=shown.instruction,
        rubric=shown.rubric,
        steps=MemorySteps(()) if shown.steps is None else shown.steps,
        steps_recorded=shown.steps is not None,
        deliverable=shown.deliverable,
        initial=shown.initial,
        reference=shown.reference,
    )
