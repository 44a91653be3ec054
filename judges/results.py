"""Puts together what is kept of a judgment."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from judges.budget import Budget
from judges.outcome import acceptable
from judges.submissions import Desk
from judges.verdict import JudgmentResult

Json = Any
Status = Literal["completed", "failed"]


def build(
    desk: Desk, budget: Budget, status: Status, reason: str, detail: str, provenance: Mapping[str, Json]
) -> JudgmentResult:
    """The result of a look that ended. A failed one has no decision, whatever was submitted before."""
    known = {"assay": assay_version(), **provenance}
    spent = JudgmentResult(
        "failed", reason, detail, turns=budget.turns, usage=budget.usage, cost=budget.cost, provenance=known
    )
    if status == "failed" or desk.blind is None:
        return spent
    blind, attribution = desk.blind, desk.attribution
    verdict = blind.content
    return replace(
        spent,
        status="completed",
        decision=verdict.decision,
        integrity=verdict.integrity,
        acceptable=acceptable(verdict.decision, verdict.integrity),
        decision_after=attribution.content.decision_after if attribution else None,
        confidence=verdict.confidence,
        blind=verdict.model_dump(mode="json"),
        attribution=attribution.content.model_dump(mode="json") if attribution else None,
        lock_sha256=desk.lock_sha256,
        checks=(*blind.checks, *(attribution.checks if attribution else ())),
        dropped=(*blind.dropped, *(attribution.dropped if attribution else ())),
        criteria=tuple(verdict.criteria),
        tags=(*verdict.tags, *(attribution.content.tags if attribution else ())),
    )


def result_json(result: JudgmentResult) -> Json:
    """A result as JSON: what pages and exports show of it."""
    plain = asdict(result)
    plain["checks"] = [
        {**check.citation.model_dump(), "ok": check.ok, "code": check.code, "detail": check.detail, "hint": check.hint}
        for check in result.checks
    ]
    plain["criteria"] = [item.model_dump() for item in result.criteria]
    plain["tags"] = [item.model_dump() for item in result.tags]
    plain["cost"] = None if result.cost is None else str(result.cost)
    return plain


def assay_version() -> str:
    """The installed version of Assay, or that it runs from a source tree."""
    try:
        return version("assay")
    except PackageNotFoundError:
        return "unreleased"
