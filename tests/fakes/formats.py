"""The three wire formats of the loopback provider: errors and answers in each one's own shape."""

import itertools
import json
import time
from collections.abc import Sequence
from typing import Any

from tests.fakes import rules
from tests.fakes.cache import Counts, PrefixCache, tokens
from tests.fakes.steps import Step

Json = Any
_ids = itertools.count(1)
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}


def error_body(route: str, step: Step) -> Json:
    """An error as each service words it."""
    message, kind, code = step.message, step.error_type, step.error_code
    if kind == "context":
        got, limit = message.split(":")
        if route == "messages":
            kind, message = "invalid_request_error", f"prompt is too long: {got} tokens > {limit} maximum"
        else:
            kind, code = "invalid_request_error", "context_length_exceeded"
            message = f"This model's maximum context length is {limit} tokens, your messages resulted in {got}."
    kind = kind or _TYPES.get(step.status, "api_error")
    if route == "messages":
        details = {"details": {"error_code": code}} if code else {}
        return {"type": "error", "error": {"type": kind, "message": message, **details}}
    return {"error": {"message": message, "type": kind, "param": None, "code": code or None}}


def answer(route: str, step: Step, body: Json, cache: PrefixCache) -> Json:
    """A finished response."""
    make = {"messages": _messages, "chat/completions": _chat, "responses": _responses}[route]
    return make(step, body, cache)


def _messages(step: Step, body: Json, cache: PrefixCache) -> Json:
    counts = cache.explicit(_cache_name(body, "tool_choice"), _cached_blocks(body))
    content: list[Json] = [{"type": "text", "text": step.text}] if step.text else []
    content += [
        {"type": "tool_use", "id": step.call_id or f"toolu_{next(_ids)}", "name": name, "input": given}
        for name, given in step.calls
    ]
    stop = {"context": "model_context_window_exceeded", "none": None}.get(step.stop, step.stop)
    details = {"type": "refusal", "category": step.category, "explanation": step.refusal}
    return {
        "id": f"msg_{next(_ids)}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": content,
        "stop_reason": stop,
        "stop_details": details if stop == "refusal" else None,
        "usage": {
            "input_tokens": counts.fresh,
            "output_tokens": tokens(content),
            "cache_read_input_tokens": counts.read,
            "cache_creation_input_tokens": counts.written,
            "cache_creation": {
                "ephemeral_5m_input_tokens": counts.written - counts.written_long,
                "ephemeral_1h_input_tokens": counts.written_long,
            },
        },
    }


def _cache_name(body: Json, *settings: str) -> str:
    return json.dumps([body["model"], *(body.get(name) for name in settings)])


def _cached_blocks(body: Json) -> list[tuple[Json, str]]:
    found = []
    for block in rules.blocks(body):
        mark = block.get("cache_control")
        plain = {name: value for name, value in block.items() if name != "cache_control"}
        found.append((plain, mark.get("ttl", "5m") if mark else ""))
    if body.get("cache_control"):
        found[-1] = (found[-1][0], found[-1][1] or "5m")
    return found


def _chat(step: Step, body: Json, cache: PrefixCache) -> Json:
    counts = cache.implicit(_cache_name(body, "prompt_cache_key"), [body.get("tools"), *body["messages"]])
    calls = [
        {"id": step.call_id or f"call_{next(_ids)}", "type": "function", "function": {"name": name, "arguments": text}}
        for name, text in _texts(step.calls)
    ]
    finish = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "stop", "none": None}
    message: Json = {"role": "assistant", "content": step.text or None, "refusal": step.refusal or None}
    message |= {"tool_calls": calls} if calls else {}
    total = counts.total if step.prompt_tokens is None else step.prompt_tokens
    usage = {
        "prompt_tokens": total,
        "completion_tokens": tokens(message),
        "prompt_tokens_details": {"cached_tokens": min(counts.read, total), "cache_write_tokens": 0},
    }
    return {
        "id": f"chatcmpl-{next(_ids)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": finish.get(step.stop, "length")}],
        **({"usage": usage} if step.usage else {}),
    }


def _responses(step: Step, body: Json, cache: PrefixCache) -> Json:
    blocks = [body.get("tools"), body.get("instructions"), *_parts(body["input"])]
    counts: Counts = cache.implicit(_cache_name(body, "prompt_cache_key"), blocks)
    opaque = "opaque" if "reasoning.encrypted_content" in body.get("include", ()) else None
    output: list[Json] = [{"type": "reasoning", "id": f"rs_{next(_ids)}", "summary": [], "encrypted_content": opaque}]
    if step.text or step.refusal:
        part = {"type": "refusal", "refusal": step.refusal} if step.refusal else _output_text(step.text)
        message = {"type": "message", "id": f"msg_{next(_ids)}", "role": "assistant", "status": "completed"}
        output.append({**message, "content": [part]})
    output += [
        {"type": "function_call", "id": f"fc_{next(_ids)}", "call_id": step.call_id or f"call_{next(_ids)}",
         "name": name, "arguments": text, "status": "completed"}
        for name, text in _texts(step.calls)
    ]  # fmt: skip
    status = {"max_tokens": "incomplete", "context": "failed", "none": "in_progress"}.get(step.stop, "completed")
    failed = {"code": step.error_code or "context_length_exceeded", "message": step.message}
    return {
        "id": f"resp_{next(_ids)}",
        "object": "response",
        "created_at": time.time(),
        "model": body["model"],
        "status": status,
        "error": failed if status == "failed" else None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": counts.total,
            "input_tokens_details": {"cached_tokens": counts.read, "cache_write_tokens": counts.written},
            "output_tokens": tokens(output),
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": counts.total + tokens(output),
        },
    }


def _output_text(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": []}


def _parts(items: Sequence[Json]) -> list[Json]:
    """Items, those of several parts part by part."""
    parts: list[Json] = []
    for item in items:
        many = isinstance(item.get("content"), list) and item.get("role") == "user"
        parts += [{**item, "content": part} for part in item["content"]] if many else [item]
    return parts


def _texts(calls: Sequence[tuple[str, Any]]) -> list[tuple[str, str]]:
    return [(name, given if isinstance(given, str) else json.dumps(given)) for name, given in calls]
