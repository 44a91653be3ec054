"""From the result of a look to rows: verdict, criteria, citations with their checks, tags kept and dropped, spend."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, cast

from django.db import transaction
from django.db.models import Count, Q, Sum

from auditapp import blobs
from auditapp.importers.lenient import storable_text
from auditapp.ledger import end_execution
from auditapp.models.judgments import (
    CitedEvidence,
    CriterionAnswer,
    Execution,
    ExecutionState,
    Judgment,
    JudgmentState,
    JudgmentTag,
    ProviderCall,
)
from auditapp.models.sources import TrajectorySource
from judges.outcome import outcome
from judges.records import VerifierStatus
from judges.verdict import JudgmentResult

_SHORT = re.compile(r"[\w.-]{1,10}")
_DROPPED_TAG = re.compile(r"tag ([A-Z]\d\d)")


def store_result(execution: Execution, judgment: Judgment, result: JudgmentResult, *, now: datetime) -> bool:
    """Write what a look found, all or nothing, if lease and judgment are still held; False where they are not."""
    attribution = None if result.attribution is None else blobs.put_json(result.attribution)
    with transaction.atomic():
        if not end_execution(execution, ExecutionState.FINISHED, reason=result.reason, now=now):
            return False
        columns = _columns(judgment, result) | _spent(judgment)
        held = Judgment.objects.filter(pk=judgment.pk, state=JudgmentState.RUNNING)
        if not held.update(attribution_blob=attribution, finished_at=now, **columns):
            # Cancelled while the last call was made: what it cost is in its row.
            Execution.objects.filter(pk=execution.pk).update(state=ExecutionState.STOPPED, reason="cancelled")
            return False
        if Execution.objects.filter(judgment=judgment, pk__lt=execution.pk).exists():
            for earlier in (judgment.criteria, judgment.citations, judgment.tags):
                earlier.all().delete()  # what a failed attempt had left
        CriterionAnswer.objects.bulk_create(_criteria(judgment, result))
        CitedEvidence.objects.bulk_create(_citations(judgment, result))
        JudgmentTag.objects.bulk_create(_tags(judgment, result))
    return True


def _columns(judgment: Judgment, result: JudgmentResult) -> dict[str, Any]:
    named, reason = _outcome(judgment, result)
    dropped = [[_text(item.claim, 200), _text(item.why, 500)] for item in result.dropped]
    return {
        "state": result.status,
        "reason": result.reason[:60],
        "detail": _text(result.detail, 500),
        "decision": result.decision,
        "integrity": result.integrity,
        "acceptable": result.acceptable,
        "outcome": named,
        "outcome_reason": reason,
        "decision_after": result.decision_after,
        "confidence": result.confidence or "",
        "provenance": {**result.provenance, "turns": result.turns, "dropped": dropped},
        "n_citations": len(result.checks),
        "n_citations_verified": sum(check.ok for check in result.checks),
    }


def _outcome(judgment: Judgment, result: JudgmentResult) -> tuple[str | None, str]:
    # Locked, so that a ruling on the status now either waits for this outcome or is seen by it.
    source = TrajectorySource.objects.select_for_update().get(trajectory=judgment.trajectory_id)
    status = cast("VerifierStatus", source.verifier_status)
    return outcome(status, result.acceptable, partial_as=judgment.version.partial_counts_as)


def _spent(judgment: Judgment) -> dict[str, Any]:
    """What all calls of all executions cost; unknown as a whole where one of them is unknown."""
    may_cost = Q(reserved_usd__isnull=True) | ~Q(reserved_usd=0)
    totals = ProviderCall.objects.filter(execution__judgment=judgment).aggregate(
        cost=Sum("cost_usd"),
        input=Sum("input_tokens"),
        output=Sum("output_tokens"),
        of_unknown_cost=Count("pk", filter=Q(cost_usd__isnull=True) & may_cost),
        uncounted=Count("pk", filter=Q(input_tokens__isnull=True)),
    )
    return {
        "cost_usd": None if totals["of_unknown_cost"] else totals["cost"] or 0,
        "input_tokens": None if totals["uncounted"] else totals["input"] or 0,
        "output_tokens": None if totals["uncounted"] else totals["output"] or 0,
    }


def _codes(result: JudgmentResult) -> dict[str, str]:
    """The short name of each citation; an id that is none is replaced by its position."""
    return {
        check.id: check.id if _SHORT.fullmatch(check.id) else f"#{number}"
        for number, check in enumerate(result.checks, 1)
    }


def _criteria(judgment: Judgment, result: JudgmentResult) -> Iterator[CriterionAnswer]:
    codes = _codes(result)
    for criterion in result.criteria:
        yield CriterionAnswer(
            judgment=judgment,
            code=_text(criterion.id, 10),
            requirement=_text(criterion.requirement, 1000),
            status=criterion.status,
            own=criterion.own,
            evidence=[codes[name] for name in criterion.evidence if name in codes],
        )


def _citations(judgment: Judgment, result: JudgmentResult) -> Iterator[CitedEvidence]:
    codes, blind = _codes(result), _blind_count(result, "citations")
    for index, check in enumerate(result.checks):
        citation = check.citation
        yield CitedEvidence(
            judgment=judgment,
            code=codes[check.id],
            phase=1 if index < blind else 2,
            kind=citation.kind,
            target=_text(citation.target, 1200),
            part=citation.part,
            item=_position(citation.item),
            line_start=_position(citation.line_start),
            line_end=_position(citation.line_end),
            quote=_text(citation.quote, 2000),
            ok=check.ok,
            result=check.code[:20],
            detail=_text(check.detail, 300),
        )


def _tags(judgment: Judgment, result: JudgmentResult) -> Iterator[JudgmentTag]:
    codes, blind = _codes(result), _blind_count(result, "tags")
    for index, tag in enumerate(result.tags):
        yield JudgmentTag(
            judgment=judgment,
            code=_text(tag.code, 5),
            role=tag.role,
            phase=1 if index < blind else 2,
            kept=True,
            evidence=[codes[name] for name in tag.evidence if name in codes],
            note=_text(tag.note, 500),
        )
    for item in result.dropped:
        if named := _DROPPED_TAG.fullmatch(item.claim):
            code = named[1]
            phase = 2 if code.startswith("E") else 1
            yield JudgmentTag(judgment=judgment, code=code, role="", phase=phase, kept=False, note=_text(item.why, 500))


def _blind_count(result: JudgmentResult, key: str) -> int:
    """How many of the blind verdict's items lead the list of both phases."""
    return len((result.blind or {}).get(key, ()))


def _text(value: str, limit: int) -> str:
    return storable_text(value)[:limit]


def _position(value: int) -> int:
    """A line or item as a model gave it, within what every database holds."""
    return max(0, min(value, 2**31 - 1))
