"""What the real services refuse: histories that do not pair up, schemas they cannot compile, too many breakpoints."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

Json = Any
UNSUPPORTED = {"minLength", "maxLength", "pattern", "minimum", "maximum", "maxItems", "default", "format", "oneOf"}


def problem(route: str, body: Json) -> str:
    """Why a request is refused, empty where it is not."""
    if route == "messages":
        found = [*_messages(body), *_breakpoints(body)]
        strict = [tool["input_schema"] for tool in body.get("tools", ()) if tool.get("strict")]
    elif route == "chat/completions":
        found = list(_chat(body["messages"]))
        strict = [t["function"]["parameters"] for t in body.get("tools", ()) if t["function"].get("strict")]
    else:
        found = list(_responses(body))
        strict = [tool["parameters"] for tool in body.get("tools", ()) if tool["strict"]]
    found += [f"tool name {name!r} does not match '^[a-zA-Z0-9_-]{{1,64}}$'" for name in _bad_names(body)]
    return next(iter([*found, *(why for schema in strict for why in _schema(schema))]), "")


def _bad_names(body: Json) -> list[str]:
    """Names of calls in a history that no tool can have."""
    items = [*body.get("messages", ()), *body.get("input", ())]
    blocks = [block for item in items if isinstance(item.get("content"), list) for block in item["content"]]
    calls = [each["function"] for item in items for each in item.get("tool_calls") or ()]
    calls += [each for each in (*blocks, *items) if each.get("type") in ("tool_use", "function_call")]
    return [each["name"] for each in calls if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", each["name"])]


def _messages(body: Json) -> Iterator[str]:
    messages = body["messages"]
    for index, message in enumerate(messages):
        blocks = message["content"]
        if not blocks or any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            yield f"messages.{index}: text content blocks must be non-empty"
        if index and messages[index - 1]["role"] == message["role"]:
            yield f"messages.{index}: roles must alternate"
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if any(not isinstance(block["input"], dict) for block in blocks if block["type"] == "tool_use"):
            yield f"messages.{index}: tool_use.input: Input should be a valid dictionary"
        later = messages[index + 1]["content"] if index + 1 < len(messages) else []
        answered = [block["tool_use_id"] for block in later if block["type"] == "tool_result"]
        if sorted(asked) != sorted(answered):
            yield f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after"


def _breakpoints(body: Json) -> Iterator[str]:
    lives = [mark.get("ttl", "5m") for mark in (block.get("cache_control") for block in blocks(body)) if mark]
    lives += [body["cache_control"].get("ttl", "5m")] if body.get("cache_control") else []
    if len(lives) > 4:
        yield "A maximum of 4 blocks with cache_control may be provided"
    if lives != sorted(lives):  # "1h" sorts before "5m"
        yield "cache_control: a ttl='1h' block must not come after a ttl='5m' block"


def blocks(body: Json) -> Iterator[Json]:
    """All blocks of a Messages request in the order of its cache."""
    yield from body.get("tools", ())
    yield from body.get("system", ())
    for message in body["messages"]:
        yield from ({**block, "role": message["role"]} for block in message["content"])


def _chat(messages: list[Json]) -> Iterator[str]:
    for index, message in enumerate(messages):
        calls = message.get("tool_calls") or []
        if message["role"] == "assistant" and not calls and not message.get("content"):
            yield "an assistant message needs content or tool_calls"
        answered = []
        for later in messages[index + 1 :]:
            if later["role"] != "tool":
                break
            answered.append(later["tool_call_id"])
        if calls and sorted(each["id"] for each in calls) != sorted(answered):
            yield "An assistant message with 'tool_calls' must be followed by tool messages for each 'tool_call_id'."
        if any(not _is_object(each["function"]["arguments"]) for each in calls):
            yield "tool call arguments in history are not valid JSON"


def _responses(body: Json) -> Iterator[str]:
    items = body["input"]
    answered = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    asked = [item["call_id"] for item in items if item.get("type") == "function_call"]
    if sorted(asked) != sorted(answered):
        yield f"No tool output found for function call {sorted(set(asked) ^ set(answered))}."
    if any(not _is_object(item["arguments"]) for item in items if item.get("type") == "function_call"):
        yield "Invalid function_call arguments"
    if body.get("store") is not False:
        yield "this judge must not have its conversations stored"
    if any(item.get("type") == "reasoning" and not item.get("encrypted_content") for item in items):
        yield "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false."
    if any("strict" not in tool for tool in body.get("tools", ())):
        yield "Missing required parameter: 'tools[0].strict'."


def _schema(schema: Json) -> Iterator[str]:
    """Strict schemas are closed, require all they have, and use no keyword that is not compiled."""
    if isinstance(schema, Mapping):
        if schema.get("type") == "object":
            if schema.get("additionalProperties") is not False:
                yield "Invalid schema for function: 'additionalProperties' is required to be false"
            if sorted(schema.get("required", ())) != sorted(schema.get("properties", ())):
                yield "Invalid schema for function: 'required' must include every key in properties"
        if "$ref" in schema and len(schema) > 1:
            yield "Invalid schema for function: $ref cannot have keywords beside it"
        if bad := UNSUPPORTED & schema.keys():
            yield f"Invalid schema for function: {sorted(bad)} not permitted"
        for name, part in schema.items():
            yield from _properties(part) if name in ("properties", "$defs") else _schema(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _schema(part)


def _properties(parts: Mapping[str, Json]) -> Iterator[str]:
    for part in parts.values():
        yield from _schema(part)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
