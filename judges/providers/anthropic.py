"""The Messages format. Order for its cache: tools, system, task, attempt, then a breakpoint that moves along."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import anthropic
from pydantic import Field

from judges.budget import TokenUsage
from judges.endpoints import Endpoint
from judges.messages import AssistantMessage, Message, Stop, ToolCall, ToolMessage, ToolSchema, TurnReply, TurnRequest
from judges.providers import wire
from judges.providers.faults import Concession, Fault
from judges.providers.wire import Answer, Count, Reading, Shape

Json = Any
# A longer time to live must come before a shorter one. Four breakpoints are allowed.
_HOUR: Final = {"type": "ephemeral", "ttl": "1h"}
_MINUTES: Final = {"type": "ephemeral"}
_STOPS: Final[dict[str, Stop]] = {
    "tool_use": "tool_use",
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "max_tokens": "max_tokens",
    "refusal": "refusal",
    "model_context_window_exceeded": "context_exceeded",
}


class _Writes(Shape):
    ephemeral_1h_input_tokens: Count | None = None


class _Thinking(Shape):
    thinking_tokens: Count | None = None


class _Usage(Shape):
    input_tokens: Count
    output_tokens: Count
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_creation: _Writes | None = None
    output_tokens_details: _Thinking | None = None


class _Details(Shape):
    category: str | None = None
    explanation: str | None = None


class _Body(Shape):
    content: list[dict[str, Any]]
    usage: _Usage
    stop_reason: str | None = None
    stop_details: _Details | None = None
    model: str = Field(default="", max_length=200)


@dataclass(frozen=True, slots=True)
class AnthropicWire(wire.Settings):
    """Messages of Anthropic, or of a server that speaks its format."""

    @property
    def name(self) -> str:
        """The format's name."""
        return "anthropic"

    def body(self, request: TurnRequest, without: frozenset[Concession]) -> dict[str, Json]:
        """Arguments of `messages.create`; the same bytes for the same beginning of a conversation."""
        body: dict[str, Json] = {
            "model": self.model,
            "max_tokens": self.max_output_tokens,
            "system": [{"type": "text", "text": request.system, "cache_control": _HOUR}],
            "tools": [_tool(tool, strict="strict" not in without) for tool in request.tools],
            "messages": _messages(request.messages),
            "cache_control": _MINUTES,
            "tool_choice": {"type": "auto"},
        }
        if request.force_tool and "forced_tool" not in without:
            body["tool_choice"] = {"type": "tool", "name": request.force_tool}
        if self.effort:
            body["output_config"] = {"effort": self.effort}
        return body

    def send(self, body: Mapping[str, Json], timeout_s: float) -> Answer:
        """One call, not streamed: a stream of this library can lose errors and repair tool JSON in silence."""
        client = wire.shared_client(_client, self.endpoint)
        timeout = wire.timeout(timeout_s)
        create = client.messages.with_raw_response.create
        given: dict[str, Any] = {"model": self.model, "max_tokens": self.max_output_tokens, "messages": []}
        return wire.send(anthropic, lambda: create(**given, extra_body=dict(body), timeout=timeout), self.endpoint)

    def models(self, timeout_s: float) -> Answer:
        """The server's own list."""
        listing = wire.shared_client(_client, self.endpoint).models.with_raw_response.list
        return wire.send(anthropic, lambda: listing(timeout=timeout_s), self.endpoint)

    def read(self, answer: Answer, _request: TurnRequest) -> Reading:
        """The turn; it counts only with a stop reason that is known."""
        found = wire.read(_Body, answer)
        usage = _usage(found.usage)
        stop = _STOPS.get(found.stop_reason or "")
        if stop is None:
            detail = f"no known stop reason: {found.stop_reason!r}"
            raise Fault("invalid_response", detail, request_id=answer.request_id, usage=usage)
        calls = tuple(_call(block, k) for k, block in enumerate(found.content) if block.get("type") == "tool_use")
        text = "".join(str(block.get("text", "")) for block in found.content if block.get("type") == "text").strip()
        details = found.stop_details
        reply = TurnReply(
            stop="tool_use" if stop == "end_turn" and calls else stop,
            text=text,
            calls=calls,
            usage=usage,
            model=found.model,
            request_id=answer.request_id,
            detail=f"{details.category or ''}: {details.explanation or ''}" if details else "",
            native={"wire": "anthropic", "content": _kept(found.content), "tokens": usage.input + usage.output},
        )
        writes = found.usage.cache_creation
        return Reading(reply, long_writes=(writes and writes.ephemeral_1h_input_tokens) or 0)


def _client(endpoint: Endpoint) -> anthropic.Anthropic:
    return anthropic.Anthropic(
        api_key=endpoint.key.get_secret_value() or "none",
        base_url=endpoint.url,
        max_retries=0,
        open_telemetry=False,
        http_client=wire.http_client(anthropic, endpoint),
    )


def _tool(tool: ToolSchema, *, strict: bool) -> Json:
    plain = {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
    return {**plain, "strict": True} if tool.strict and strict else plain


def _messages(messages: tuple[Message, ...]) -> list[Json]:
    """Neutral messages as turns of user and assistant; what we say twice in a row is one turn."""
    turns: list[Json] = []
    for message in messages:
        role = "assistant" if isinstance(message, AssistantMessage) else "user"
        if turns and turns[-1]["role"] == role == "user":
            turns[-1]["content"] += _content(message)
        else:
            turns.append({"role": role, "content": _content(message)})
    first = turns[0]["content"]
    if len(first) > 1:  # the task, shared by all attempts at it
        first[0] = {**first[0], "cache_control": _HOUR}
    # The end of the request before this one: a turn of many blocks would hide it from the look-back of 20.
    earlier = [turn["content"] for turn in turns[:-1] if turn["role"] == "user"]
    if earlier:
        earlier[-1][-1] = {**earlier[-1][-1], "cache_control": _MINUTES}
    return turns


def _content(message: Message) -> list[Json]:
    if isinstance(message, ToolMessage):
        return [
            {"type": "tool_result", "tool_use_id": r.call_id, "content": r.text, "is_error": r.is_error}
            for r in message.results
        ]
    if isinstance(message, AssistantMessage):
        return wire.native_of(message, "anthropic", "content") or _rebuilt(message)
    return [{"type": "text", "text": block} for block in message.blocks]


def _rebuilt(message: AssistantMessage) -> list[Json]:
    text = [{"type": "text", "text": message.text}] if message.text.strip() else []
    calls = [
        {"type": "tool_use", "id": call.id, "name": wire.sent_name(call.name), "input": dict(call.arguments or {})}
        for call in message.calls
    ]
    return [*text, *calls]


def _kept(content: list[dict[str, Any]]) -> list[Json]:
    """Blocks as they may be sent back: empty text and malformed input are refused by the service."""
    kept = []
    for index, block in enumerate(content):
        if block.get("type") == "tool_use":
            call = _call(block, index)
            kept.append(
                {**block, "id": call.id, "name": wire.sent_name(call.name), "input": dict(call.arguments or {})}
            )
        elif block.get("type") != "text" or str(block.get("text", "")).strip():
            kept.append(block)
    return kept


def _call(block: Mapping[str, Json], index: int) -> ToolCall:
    given, error = wire.arguments(block.get("input"))
    return ToolCall(str(block.get("id") or f"call-{index}"), str(block.get("name") or "unnamed"), given, error)


def _usage(usage: _Usage) -> TokenUsage:
    thinking = usage.output_tokens_details
    return TokenUsage(
        fresh=usage.input_tokens,
        cache_read=usage.cache_read_input_tokens or 0,
        cache_write=usage.cache_creation_input_tokens or 0,
        output=usage.output_tokens,
        reasoning=(thinking and thinking.thinking_tokens) or 0,
    )
