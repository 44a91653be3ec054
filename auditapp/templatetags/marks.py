"""The house marks: outcomes, verifier status, tags, intervals; each legible without color."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Protocol

from django import template

from judges.taxonomy import taxonomy

register = template.Library()

OUTCOMES = {
    "true_pass": ("●", "true pass"),
    "false_pass": ("▲", "false pass"),
    "true_fail": ("○", "true fail"),
    "false_fail": ("△", "false fail"),
    "undecided": ("◌", "undecided"),
    "no_verdict": ("–", "no verdict"),
}
STATUS_GLYPHS = {"pass": "✓", "fail": "✕", "partial": "◐", "none": "–", "invalid": "!"}
INTERVAL_WIDTH = 240
_INSET = 6  # the dot at 0 or 1 stays inside the picture
_tag_numbers = count(1)


class HasLabel(Protocol):
    """What an outcome is read from: a judgment or a label of any origin."""

    outcome: str | None
    acceptable: str | None


@register.filter
def spaced(name: str) -> str:
    """A name of the taxonomy or of a fixed list as people read it: `grader_too_narrow` is "grader too narrow"."""
    return name.replace("_", " ")


@register.inclusion_tag("_outcome.html")
def outcome(kind: str | None, *, words: bool = True) -> dict[str, object]:
    """Glyph and name of one of the six marks; None is `no verdict`."""
    name = kind or "no_verdict"
    glyph, text = OUTCOMES[name]
    return {"kind": name, "glyph": glyph, "name": text, "words": words}


@register.simple_tag
def outcome_of(label: HasLabel) -> str:
    """The mark of a label: its outcome, else undecided where there is a decision that leaves it open."""
    if label.outcome:
        return label.outcome
    return "undecided" if label.acceptable else "no_verdict"


@register.inclusion_tag("_status.html")
def status(value: str, reason: str = "") -> dict[str, object]:
    """What the verifier said, as a chip."""
    return {"status": value, "glyph": STATUS_GLYPHS.get(value, "?"), "reason": reason}


@register.inclusion_tag("_tag.html")
def tag(code: str, *, kept: bool = True) -> dict[str, object]:
    """A taxonomy code whose definition shows on hover and focus; unknown codes say so."""
    known = taxonomy().codes.get(code)
    name = known.name.replace("_", " ") if known else "unknown code"
    definition = known.definition if known else "not in the taxonomy of this installation"
    side = known.side if known else ""
    note = f"tag-{next(_tag_numbers)}"
    return {"code": code, "name": name, "definition": definition, "side": side, "kept": kept, "id": note}


@register.inclusion_tag("_interval.html")
def interval(
    at: float | None,
    low: float | None = None,
    high: float | None = None,
    *,
    band: Sequence[float] | None = None,
    compare: float | None = None,
    kind: str = "",
    limit: float = 1.0,
    label: str = "",
    detail: str = "",
    numbers: bool = True,
) -> dict[str, Any]:
    """The house picture on a shared axis from 0 to `limit`: a dot, its interval, a faint band for what is missing.

    `numbers` are written under the axis; in a column of a table they stand once, in its head (`interval_axis`).
    """
    x = _place(limit)
    edges = [x(edge) for edge in band] if band else None
    return {
        **interval_axis(limit),
        "height": 32 if numbers else 22,
        "numbers": numbers,
        "at": None if at is None else x(at),
        "low": None if low is None else x(low),
        "high": None if high is None else x(high),
        "band": [edges[0], round(edges[1] - edges[0], 1)] if edges else None,
        "compare": None if compare is None else x(compare),
        "kind": kind,
        "label": label,
        "detail": detail,
    }


@register.inclusion_tag("_interval_axis.html")
def interval_axis(limit: float = 1.0) -> dict[str, Any]:
    """The numbers of a column of intervals, for the head of the table."""
    x = _place(limit)
    shares = [limit * part for part in (0, 0.25, 0.5, 0.75, 1)]
    return {"width": INTERVAL_WIDTH, "ticks": [(x(share), f"{share * 100:g}") for share in shares]}


def _place(limit: float) -> Callable[[float], float]:
    return lambda value: round(_INSET + min(max(value / limit, 0), 1) * (INTERVAL_WIDTH - 2 * _INSET), 1)
