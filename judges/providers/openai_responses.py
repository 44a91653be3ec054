"""The Responses format of OpenAI. Nothing is stored there: reasoning travels encrypted with the conversation."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import openai
from pydantic import Field

from judges.budget import TokenUsage
from judges.endpoints import Endpoint
from judges.messages import AssistantMessage, Message, Stop, ToolCall, ToolMessage, ToolSchema, TurnReply, TurnRequest
from judges.providers import faults, wire
from judges.providers.faults import Concession, Fault
from judges.providers.wire import Answer, Count, Reading, Shape

Json = Any
_SENT_BACK: Final = ("message", "function_call", "reasoning")
_STATUS: Final = {"rate_limit_exceeded": 429, "server_error": 500, "vector_store_timeout": 500}


class _In(Shape):
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None


class _Out(Shape):
    reasoning_tokens: Count | None = None


class _Usage(Shape):
    input_tokens: Count
    output_tokens: Count
    input_tokens_details: _In = _In()
    output_tokens_details: _Out = _Out()


class _Why(Shape):
    reason: str | None = None


class _Body(Shape):
    status: str
    output: list[dict[str, Any]]
    usage: _Usage | None = None
    error: dict[str, Any] | None = None
    incomplete_details: _Why | None = None
    model: str = Field(default="", max_length=200)


@dataclass(frozen=True, slots=True)
class ResponsesWire(wire.Settings):
    """Responses of OpenAI, or of a server that speaks its format."""

    @property
    def name(self) -> str:
        """The format's name."""
        return "openai"

    def body(self, request: TurnRequest, without: frozenset[Concession]) -> dict[str, Json]:
        """Arguments of `responses.create`; the same beginning for the same beginning of a conversation."""
        body: dict[str, Json] = {
            "model": self.model,
            "instructions": request.system,
            "input": [item for message in request.messages for item in _items(message)],
            "tools": [_tool(tool, strict="strict" not in without) for tool in request.tools],
            "tool_choice": "auto",
            "max_output_tokens": self.max_output_tokens,
            "store": False,
            "truncation": "disabled",
            "prompt_cache_key": cache_key(request),
        }
        if request.force_tool and "forced_tool" not in without:
            body["tool_choice"] = {"type": "function", "name": request.force_tool}
        if "encrypted_reasoning" not in without:
            body["include"] = ["reasoning.encrypted_content"]
        if self.effort:
            body["reasoning"] = {"effort": self.effort}
        return body

    def send(self, body: Mapping[str, Json], timeout_s: float) -> Answer:
        """One call, not streamed."""
        client = wire.shared_client(openai_client, self.endpoint)
        timeout = wire.timeout(timeout_s)
        create = client.responses.with_raw_response.create
        return wire.send(openai, lambda: create(extra_body=dict(body), timeout=timeout), self.endpoint)

    def models(self, timeout_s: float) -> Answer:
        """The server's own list."""
        listing = wire.shared_client(openai_client, self.endpoint).models.with_raw_response.list
        return wire.send(openai, lambda: listing(timeout=timeout_s), self.endpoint)

    def read(self, answer: Answer, _request: TurnRequest) -> Reading:
        """The turn; a refusal is part of a response that calls itself completed."""
        found = wire.read(_Body, answer)
        usage = _usage(found.usage)
        if found.status == "failed":
            raise _failure(found.error or {}, answer)
        text, refusal = _said(found.output)
        calls = tuple(_call(item, k) for k, item in enumerate(found.output) if item.get("type") == "function_call")
        why = found.incomplete_details.reason if found.incomplete_details else None
        stop = _stop(found.status, why, refusal, bool(calls))
        if stop is None or found.usage is None:
            detail = f"status {found.status!r}, usage {'none' if found.usage is None else 'given'}: no finished turn"
            raise Fault("invalid_response", detail, request_id=answer.request_id, usage=usage)
        native = {"wire": "openai", "output": _kept(found.output), "tokens": usage.input + usage.output}
        detail = refusal or why or ""
        return Reading(TurnReply(stop, text, calls, usage, None, found.model, answer.request_id, detail, native))


def openai_client(endpoint: Endpoint) -> openai.OpenAI:
    """A client of OpenAI's library for one place, shared by both of its formats."""
    return openai.OpenAI(
        api_key=endpoint.key.get_secret_value() or "none",
        base_url=endpoint.url,
        max_retries=0,
        http_client=wire.http_client(openai, endpoint),
    )


def cache_key(request: TurnRequest) -> str:
    """One key for all attempts at a task, so that they meet in the same cache: system text and task block."""
    first = request.messages[0]
    task = "" if isinstance(first, AssistantMessage | ToolMessage) else first.blocks[0]
    return hashlib.sha256(f"{request.system}\0{task}".encode("utf-8", "replace")).hexdigest()[:32]


def _tool(tool: ToolSchema, *, strict: bool) -> Json:
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
        "strict": tool.strict and strict,  # the format wants it said either way
    }


def _items(message: Message) -> list[Json]:
    if isinstance(message, ToolMessage):
        return [
            {"type": "function_call_output", "call_id": r.call_id, "output": ("ERROR: " if r.is_error else "") + r.text}
            for r in message.results
        ]
    if isinstance(message, AssistantMessage):
        return wire.native_of(message, "openai", "output") or _rebuilt(message)
    return [{"role": "user", "content": [{"type": "input_text", "text": block} for block in message.blocks]}]


def _rebuilt(message: AssistantMessage) -> list[Json]:
    text = [{"role": "assistant", "content": message.text}] if message.text else []
    calls = [
        {
            "type": "function_call",
            "call_id": call.id,
            "name": wire.sent_name(call.name),
            "arguments": wire.encoded(call.arguments),
        }
        for call in message.calls
    ]
    return [*text, *calls]


def _said(output: list[dict[str, Any]]) -> tuple[str, str]:
    """Text and refusal."""
    parts = [part for item in output if item.get("type") == "message" for part in item.get("content") or ()]
    text = "".join(str(part.get("text", "")) for part in parts if part.get("type") == "output_text")
    refusal = "".join(str(part.get("refusal", "")) for part in parts if part.get("type") == "refusal")
    return text.strip(), refusal


def _stop(status: str, why: str | None, refusal: str, calls: bool) -> Stop | None:
    if refusal or why == "content_filter":
        return "refusal"
    if status == "incomplete":
        return "max_tokens" if why == "max_output_tokens" else None
    if status != "completed":
        return None
    return "tool_use" if calls else "end_turn"


def _failure(error: Mapping[str, Json], answer: Answer) -> Fault:
    """A response with status failed: its code says what an HTTP status would have said."""
    code = str(error.get("code", ""))
    status = _STATUS.get(code, 400)
    fault = faults.from_response(status, {"error": dict(error)}, {"x-request-id": answer.request_id})
    if code == "invalid_prompt":
        return Fault("refused", fault.detail, request_id=answer.request_id)
    return fault


def _call(item: Mapping[str, Json], index: int) -> ToolCall:
    given, error = wire.arguments(item.get("arguments"))
    return ToolCall(str(item.get("call_id") or f"call-{index}"), str(item.get("name") or "unnamed"), given, error)


def _kept(output: list[dict[str, Any]]) -> list[Json]:
    """Items as they may be sent back: malformed arguments in a history are refused for ever after."""
    kept = []
    for index, item in enumerate(output):
        if item.get("type") == "function_call":
            call = _call(item, index)
            whole = {"call_id": call.id, "name": wire.sent_name(call.name), "arguments": wire.encoded(call.arguments)}
            kept.append({**item, **whole, "status": "completed"})
        elif item.get("type") in _SENT_BACK and (item["type"] != "reasoning" or item.get("encrypted_content")):
            kept.append(item)
    return kept


def _usage(usage: _Usage | None) -> TokenUsage:
    """Their input is the total; ours is what was neither read from a cache nor written to it."""
    if usage is None:
        return TokenUsage()
    read, written = usage.input_tokens_details.cached_tokens or 0, usage.input_tokens_details.cache_write_tokens or 0
    fresh = max(0, usage.input_tokens - read - written)
    return TokenUsage(fresh, read, written, usage.output_tokens, usage.output_tokens_details.reasoning_tokens or 0)
