"""Neutral messages between the loop and a provider, from which each wire format can be built."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

import orjson

from judges.budget import NO_TOKENS, TokenUsage
from judges.records import canonical_json

Json = Any
Stop = Literal["tool_use", "end_turn", "max_tokens", "refusal", "context_exceeded", "invalid_response"]


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """One tool as offered: `parameters` is a closed JSON schema with every property required."""

    name: str
    description: str
    parameters: Mapping[str, Json]
    strict: bool = False


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of our tools; `arguments` is None where they were no JSON object, and `error` says why."""

    id: str
    name: str
    arguments: Mapping[str, Json] | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to one call; every call of a turn gets one."""

    call_id: str
    name: str
    text: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class UserMessage:
    """Text blocks from us; a cache breakpoint may follow each block but the last."""

    blocks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What the model said. `native` is the wire form to send back unchanged, None where it can be rebuilt."""

    text: str
    calls: tuple[ToolCall, ...]
    native: Json = None


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The answers to all calls of the assistant message before it, in the same order."""

    results: tuple[ToolResult, ...]


Message = UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """One call. Order for caching: tools, system, messages; `force_tool` names the only tool allowed, or is empty."""

    system: str
    tools: tuple[ToolSchema, ...]
    messages: tuple[Message, ...]
    force_tool: str = ""


@dataclass(frozen=True, slots=True)
class TurnReply:
    """One answer. `cost` is in US dollars, None where the price is unknown; `model` is the one that answered."""

    stop: Stop
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: TokenUsage = NO_TOKENS
    cost: Decimal | None = None
    model: str = ""
    request_id: str = ""
    detail: str = ""
    native: Json = None

    def to_bytes(self) -> bytes:
        """Canonical JSON, the form a ledger stores."""
        usage = self.usage
        return _encoded(
            {
                "schema": "assay.reply/1",
                "stop": self.stop,
                "text": self.text,
                "calls": [[call.id, call.name, call.arguments, call.error] for call in self.calls],
                "usage": [usage.fresh, usage.cache_read, usage.cache_write, usage.output, usage.reasoning],
                "cost": None if self.cost is None else str(self.cost),
                "model": self.model,
                "request_id": self.request_id,
                "detail": self.detail,
                "native": self.native,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> "TurnReply":
        """Inverse of `to_bytes`; raises ValueError, KeyError or TypeError on anything else."""
        raw = orjson.loads(data)
        return cls(
            stop=raw["stop"],
            text=raw["text"],
            calls=tuple(ToolCall(*call) for call in raw["calls"]),
            usage=TokenUsage(*raw["usage"]),
            cost=None if raw["cost"] is None else Decimal(raw["cost"]),
            model=raw["model"],
            request_id=raw["request_id"],
            detail=raw["detail"],
            native=raw["native"],
        )


def _encoded(value: Json) -> bytes:
    try:
        return canonical_json(value)
    except TypeError:  # a lone surrogate: JSON from a model may hold one, UTF-8 cannot
        return canonical_json(_scrubbed(value))


def _scrubbed(value: Json) -> Json:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, Mapping):
        return {_scrubbed(key): _scrubbed(item) for key, item in value.items()}
    return [_scrubbed(item) for item in value] if isinstance(value, list | tuple) else value
