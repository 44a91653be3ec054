"""Where a citation points: the address in the reader that scrolls to the cited lines and marks them."""

import uuid
from typing import Protocol
from urllib.parse import quote, urlencode

from django import template
from django.urls import reverse

register = template.Library()

_TABS = {"verifier": "trajectory-verifier", "reference": "trajectory-reference", "instruction": "trajectory-task"}
_ROOTS = ("deliverable", "initial")


class Cited(Protocol):
    """A citation as it is stored; lines and item are 0 where they do not apply."""

    kind: str
    target: str
    part: str
    item: int
    line_start: int
    line_end: int


@register.simple_tag
def citation_url(trajectory_id: uuid.UUID, citation: Cited, label_id: uuid.UUID | None = None) -> str:
    """The address of the cited place; "" for what no page holds, such as a search.

    A command the judge ran is in the exchange of its label, which only leads may open.
    """
    lines = _lines(citation)
    if citation.kind == "step":
        query = {"step": citation.target}
        if citation.part not in ("", "none"):
            query |= {"part": citation.part, "item": str(max(1, citation.item))} | lines
            return _address("trajectory", trajectory_id, query, "cite")
        return _address("trajectory", trajectory_id, query, f"s{citation.target}")
    if citation.kind == "file":
        root, _, path = citation.target.partition("/")
        if root not in _ROOTS:
            root, path = "deliverable", citation.target
        return _address("trajectory-deliverable", trajectory_id, {"root": root, "path": path} | lines, "cite")
    if citation.kind in _TABS:
        target = {} if citation.kind == "instruction" else {"path": citation.target}
        return _address(_TABS[citation.kind], trajectory_id, target | lines, "cite")
    if citation.kind == "command" and label_id is not None:
        return _address(
            "label-exchange", label_id, {"run": citation.target} | lines, "cite" if lines else citation.target
        )
    return ""


def _lines(citation: Cited) -> dict[str, str]:
    if citation.line_start < 1:
        return {}
    last = max(citation.line_start, citation.line_end)
    return {"lines": f"{citation.line_start}-{last}" if last > citation.line_start else str(last)}


def _address(name: str, public_id: uuid.UUID, query: dict[str, str], fragment: str) -> str:
    return f"{reverse(name, args=[public_id])}?{urlencode(query)}#{quote(fragment, safe=':')}"


@register.simple_tag
def place_words(citation: Cited) -> str:
    """The cited place in words: `step 17 · result 1 · lines 3–5`."""
    parts = [f"step {citation.target}" if citation.kind == "step" else f"{citation.kind} {citation.target}".strip()]
    if citation.part not in ("", "none"):
        word = {"action": "call", "observation": "result"}.get(citation.part, citation.part)
        parts.append(f"{word} {citation.item}" if citation.item > 1 else word)
    if citation.line_start > 0:
        several = citation.line_end > citation.line_start
        parts.append(f"lines {citation.line_start}–{citation.line_end}" if several else f"line {citation.line_start}")
    return " · ".join(parts)
