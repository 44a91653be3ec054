"""Plays a fixed list of turns: for tests, and for showing what the loop does with a given answer."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from judges.budget import NO_TOKENS, TokenUsage
from judges.errors import ConfigError
from judges.messages import AssistantMessage, Stop, ToolCall, TurnReply, TurnRequest

Json = Any


@dataclass(frozen=True, slots=True)
class Turn:
    """One scripted answer; a call's arguments given as text are parsed as a wire format would, errors included."""

    calls: Sequence[tuple[str, Mapping[str, Json] | str]] = ()
    text: str = ""
    stop: Stop | None = None
    detail: str = ""
    usage: TokenUsage = NO_TOKENS
    cost: Decimal | None = Decimal(0)


Script = Sequence[Turn | Callable[[TurnRequest], Turn]]


@dataclass(slots=True)
class ScriptedProvider:
    """Answers turn n with entry n, so a resumed judgment goes on where it stopped; `requests` keeps the questions."""

    script: Script
    requests: list[TurnRequest] = field(default_factory=list)

    @classmethod
    def from_file(cls, path: str) -> "ScriptedProvider":
        """Read a JSON list of turns `{"calls": [{"name", "arguments"}], "text", "stop", "detail"}`."""
        try:
            entries = orjson.loads(Path(path).read_bytes())
            return cls([_turn(entry) for entry in entries])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"script {path}: not a list of turns: {error}") from error

    def complete(self, request: TurnRequest) -> TurnReply:
        """The next scripted turn; an empty one after the end of the script."""
        self.requests.append(request)
        index = sum(not isinstance(message, AssistantMessage) for message in request.messages) - 1
        entry = self.script[index] if index < len(self.script) else Turn()
        turn = entry(request) if callable(entry) else entry
        calls = tuple(_call(f"call-{index}-{k}", name, args) for k, (name, args) in enumerate(turn.calls))
        stop = turn.stop or ("tool_use" if calls else "end_turn")
        return TurnReply(stop, turn.text, calls, turn.usage, turn.cost, "scripted", f"scripted-{index}", turn.detail)

    def worst_cost(self, _request: TurnRequest) -> Decimal | None:
        """Nothing is paid."""
        return Decimal(0)

    def provenance(self) -> Mapping[str, Json]:
        """Says that nobody thought about these answers."""
        return {"provider": "scripted"}


def _turn(entry: Json) -> Turn:
    calls = [(call["name"], call["arguments"]) for call in entry.get("calls", [])]
    return Turn(calls, entry.get("text", ""), entry.get("stop"), entry.get("detail", ""))


def _call(call_id: str, name: str, arguments: Mapping[str, Json] | str) -> ToolCall:
    if not isinstance(arguments, str):
        return ToolCall(call_id, name, arguments)
    try:
        parsed = json.loads(arguments)
    except ValueError as error:
        return ToolCall(call_id, name, None, f"arguments are not valid JSON: {error}")
    if not isinstance(parsed, dict):
        return ToolCall(call_id, name, None, "arguments must be a JSON object")
    return ToolCall(call_id, name, parsed)
