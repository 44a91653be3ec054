"""The Chat Completions format: what vLLM, llama.cpp, Ollama and many others speak, each with its own gaps."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import openai
from pydantic import Field

from judges.budget import TokenUsage
from judges.messages import AssistantMessage, Message, Stop, ToolCall, ToolMessage, ToolSchema, TurnReply, TurnRequest
from judges.providers import wire
from judges.providers.faults import Concession, Fault
from judges.providers.openai_responses import cache_key, openai_client
from judges.providers.wire import Answer, Count, Reading, Shape

Json = Any
# A token holds at most so many characters: of our own English, and of anything after runs are cut short.
_OWN_CHARACTERS: Final = 6
_ANY_CHARACTERS: Final = 20
_RUNS: Final = re.compile(r"(.)\1{3,}", re.S)
_NOTICED: Final = 2_000  # characters that no tokenizer makes nothing of


class _In(Shape):
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None


class _Out(Shape):
    reasoning_tokens: Count | None = None


class _Usage(Shape):
    prompt_tokens: Count
    completion_tokens: Count = 0
    prompt_tokens_details: _In | None = None
    completion_tokens_details: _Out | None = None


class _Function(Shape):
    name: str | None = None
    arguments: Any = None


class _Call(Shape):
    id: str | None = None
    function: _Function = _Function()


class _Message(Shape):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Shape):
    message: _Message
    finish_reason: str | None = None


class _Body(Shape):
    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None
    model: str = Field(default="", max_length=200)


@dataclass(frozen=True, slots=True)
class ChatWire(wire.Settings):
    """Chat Completions of any compatible server, by its base URL."""

    @property
    def name(self) -> str:
        """The format's name."""
        return "openai_chat"

    def body(self, request: TurnRequest, without: frozenset[Concession]) -> dict[str, Json]:
        """Arguments of `chat.completions.create`; the vendor's own service knows other settings than its copies."""
        history = [item for message in request.messages for item in _items(message)]
        body: dict[str, Json] = {
            "model": self.model,
            "messages": [{"role": "system", "content": request.system}, *history],
            "tools": [_tool(tool, strict="strict" not in without) for tool in request.tools],
            "tool_choice": "auto",
        }
        if request.force_tool and "forced_tool" not in without:
            body["tool_choice"] = {"type": "function", "function": {"name": request.force_tool}}
        if self.effort:
            body["reasoning_effort"] = self.effort
        if self.endpoint.is_vendor:
            cached = {"prompt_cache_key": cache_key(request)}
            return {**body, **cached, "max_completion_tokens": self.max_output_tokens, "store": False}
        return {**body, "max_tokens": self.max_output_tokens, "temperature": 0, "seed": 0}

    def send(self, body: Mapping[str, Json], timeout_s: float) -> Answer:
        """One call, not streamed."""
        client = wire.shared_client(openai_client, self.endpoint)
        timeout = wire.timeout(timeout_s)
        create = client.chat.completions.with_raw_response.create
        given: dict[str, Any] = {"model": self.model, "messages": []}
        return wire.send(openai, lambda: create(**given, extra_body=dict(body), timeout=timeout), self.endpoint)

    def models(self, timeout_s: float) -> Answer:
        """The server's own list."""
        listing = wire.shared_client(openai_client, self.endpoint).models.with_raw_response.list
        return wire.send(openai, lambda: listing(timeout=timeout_s), self.endpoint)

    def read(self, answer: Answer, request: TurnRequest) -> Reading:
        """The turn; raises context_truncated_by_server where the server cannot have read all of the request."""
        found = wire.read(_Body, answer)
        choice = found.choices[0]
        said = choice.message
        calls = _calls(said, request)
        usage = _usage(found.usage, request, said)
        stop = _stop(choice, bool(calls))
        if stop is None:
            detail = f"no known finish_reason: {choice.finish_reason!r}"
            raise Fault("invalid_response", detail, request_id=answer.request_id, usage=usage)
        if found.usage is not None:
            _refuse_truncated(request, usage, answer)
        text = (said.content or "").strip()
        tokens = 0 if found.usage is None else usage.input + usage.output
        native = {"wire": "openai_chat", "prompt": 0 if found.usage is None else usage.input, "tokens": tokens}
        detail = said.refusal or (choice.finish_reason if stop == "refusal" else "") or ""
        reply = TurnReply(stop, text, calls, usage, None, found.model, answer.request_id, detail, native)
        return Reading(reply, counted=found.usage is not None)


def _tool(tool: ToolSchema, *, strict: bool) -> Json:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": {**function, "strict": True} if tool.strict and strict else function}


def _items(message: Message) -> list[Json]:
    """What the model said is always built anew: ids of its calls may repeat, and arguments may be no JSON."""
    if isinstance(message, ToolMessage):
        return [
            {"role": "tool", "tool_call_id": r.call_id, "content": ("ERROR: " if r.is_error else "") + r.text}
            for r in message.results
        ]
    if isinstance(message, AssistantMessage):
        calls = [_sent(call) for call in message.calls]
        return [{"role": "assistant", "content": message.text, **({"tool_calls": calls} if calls else {})}]
    return [{"role": "user", "content": "\n\n".join(message.blocks)}]


def _sent(call: ToolCall) -> Json:
    function = {"name": wire.sent_name(call.name), "arguments": wire.encoded(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def _calls(said: _Message, request: TurnRequest) -> tuple[ToolCall, ...]:
    used = {call.id for message in request.messages if isinstance(message, AssistantMessage) for call in message.calls}
    turn = sum(isinstance(message, AssistantMessage) for message in request.messages)
    calls = []
    for index, call in enumerate(said.tool_calls or ()):
        name = call.id if call.id and call.id not in used else f"call_{turn}_{index}"
        used.add(name)
        given, error = wire.arguments(call.function.arguments or "{}")
        calls.append(ToolCall(name, call.function.name or "unnamed", given, error))
    return tuple(calls)


def _stop(choice: _Choice, calls: bool) -> Stop | None:
    """Some servers say "stop" together with calls."""
    if choice.message.refusal or choice.finish_reason == "content_filter":
        return "refusal"
    if choice.finish_reason == "length":
        return "max_tokens"
    if choice.finish_reason not in ("stop", "tool_calls", "function_call"):
        return None
    return "tool_use" if calls else "end_turn"


def _usage(usage: _Usage | None, request: TurnRequest, said: _Message) -> TokenUsage:
    """As the server counted, else the most it can have been: budgets hold where nobody counts."""
    if usage is None:
        return TokenUsage(fresh=wire.input_bound(request), output=len(said.model_dump_json()) // 2)
    details, out = usage.prompt_tokens_details or _In(), usage.completion_tokens_details or _Out()
    read, written = details.cached_tokens or 0, details.cache_write_tokens or 0
    fresh = max(0, usage.prompt_tokens - read - written)
    return TokenUsage(fresh, read, written, usage.completion_tokens, out.reasoning_tokens or 0)


def _refuse_truncated(request: TurnRequest, usage: TokenUsage, answer: Answer) -> None:
    """Some servers drop the front of a prompt that is too long and say that all is well."""
    characters = sum(map(wire.size, request.messages)) + len(request.system)
    before = _counted_before(request)
    if usage.input * _OWN_CHARACTERS >= characters and (before is None or usage.input > before[0]):
        return  # plainly enough: no need to look closer
    least = _least(request)
    grown = before is None or usage.input > before[0] or _without_runs(request.messages[before[1] :]) < _NOTICED
    if usage.input >= least and grown:
        return
    was = "" if before is None else f", {before[0]} the turn before"
    raise Fault(
        "context_truncated_by_server",
        f"the server counted {usage.input} tokens of a prompt that has at least {least}{was}: it drops what it has no "
        "room for. Raise its context length (Ollama: num_ctx or OLLAMA_CONTEXT_LENGTH; llama.cpp: --ctx-size)",
        request_id=answer.request_id,
    )


def _least(request: TurnRequest) -> int:
    """Tokens that a prompt has at least, whatever the tokenizer."""
    return len(request.system) // _OWN_CHARACTERS + _without_runs(request.messages) // _ANY_CHARACTERS


def _without_runs(messages: Sequence[Message]) -> int:
    """Characters of texts in which runs of one character, that a token may hold whole, count as one."""
    return sum(len(_RUNS.sub(r"\1", text)) for message in messages for text in wire.texts(message))


def _counted_before(request: TurnRequest) -> tuple[int, int] | None:
    """Prompt tokens of the last turn that was counted, and the place of the messages added since."""
    for index in range(len(request.messages) - 1, -1, -1):
        message = request.messages[index]
        prompt = wire.native_of(message, "openai_chat", "prompt") if isinstance(message, AssistantMessage) else None
        if prompt:
            return prompt, index + 1
    return None
