"""The deterministic judge as a provider: no model, the same messages, tools and checks as any other."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from judges.messages import ToolCall, ToolMessage, TurnReply, TurnRequest, UserMessage
from judges.rules.plan import Call, plan
from judges.rules.reading import read_opening

Json = Any


@dataclass(frozen=True, slots=True)
class RulesProvider:
    """Answers from the conversation alone, so the same conversation always gets the same answer."""

    def complete(self, request: TurnRequest) -> TurnReply:
        """The calls that the plan makes after all results so far."""
        first = request.messages[0]
        if not isinstance(first, UserMessage):
            raise TypeError("a conversation begins with the case")
        opening = "\n".join(first.blocks)
        steps = plan(opening)
        calls = next(steps)
        for message in request.messages[1:]:
            if isinstance(message, ToolMessage):
                calls = steps.send(message.results)
        if request.force_tool and request.force_tool not in [name for name, _ in calls]:
            calls = [(request.force_tool, _nothing_found(opening))]
        turn = sum(isinstance(message, ToolMessage) for message in request.messages)
        return TurnReply("tool_use", "", _numbered(calls, turn), cost=Decimal(0), model="rules")

    def worst_cost(self, _request: TurnRequest) -> Decimal | None:
        """Nothing is paid."""
        return Decimal(0)

    def provenance(self) -> Mapping[str, Json]:
        """Says that no model was asked."""
        return {"provider": "rules"}


def _numbered(calls: list[Call], turn: int) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(f"rules-{turn}-{k}", name, arguments) for k, (name, arguments) in enumerate(calls))


def _nothing_found(opening: str) -> Json:
    """The verdict of a judge that had no turn to look at anything."""
    requirements = read_opening(opening).requirements.items()
    return {
        "citations": [],
        "criteria": [
            {"id": name, "requirement": text, "status": "unclear", "own": False, "evidence": []}
            for name, text in requirements
        ],
        "tags": [],
        "strongest_counterargument": "",
        "integrity": "cannot_tell",
        "decision": "cannot_tell",
        "confidence": "low",
        "summary": "No turn was left to look.",
    }
