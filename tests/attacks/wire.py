"""What a judge was shown, read back from recorded requests of any wire format."""

import re
from collections.abc import Iterator
from typing import Any

Json = Any
_OPENS = re.compile(r"┌([0-9a-f]{6}) UNTRUSTED (.*)")
OURS = {"assistant", "function_call", "reasoning"}


def strings(value: Json) -> Iterator[str]:
    """Every text of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def shown(body: Json) -> list[str]:
    """Texts that reach the judge: messages and tool results, not what it said itself, nor tools or system text."""
    items = body.get("messages") or body.get("input")
    told = [item for item in items if not OURS & {item.get("role"), item.get("type")} and item.get("role") != "system"]
    return [text for item in told for text in strings(item.get("content", item.get("output")))]


def unframed(text: str) -> Iterator[str]:
    """The lines of a text outside of frames; AssertionError where a frame is broken."""
    lines = iter(text.split("\n"))
    for line in lines:
        opened = _OPENS.fullmatch(line)
        if opened is None:
            yield line
            continue
        for inside in lines:
            if inside == f"└{opened[1]} END":
                break
            assert inside.startswith(f"{opened[1]}│"), inside[:200]
        else:
            raise AssertionError(f"a frame without an end: {line[:200]}")
