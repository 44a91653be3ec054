"""The house marks: outcomes, verifier status, tags, intervals; each legible without color."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Protocol

from django import template
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from judges.display import display_text
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
ANSWERS: dict[str | None, str] = {"yes": "acceptable", "no": "not acceptable", "unknown": "cannot tell"}
INTERVAL_WIDTH = 240
_INSET = 6  # the dot at 0 or 1 stays inside the picture
_tag_numbers = count(1)
_CODE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)+")
_CITATION = re.compile(r"E([1-9][0-9]*)")
_CITATIONS = re.compile(r"\[E[1-9][0-9]*(?:, ?E[1-9][0-9]*)*\]")
_NUMBER = re.compile(r"[0-9]+")
_ANSWER = re.compile(
    r"\b(?:not_satisfied|not_met|cannot_tell|true_pass|false_pass|true_fail|false_fail|too_narrow|too_lenient)\b"
)


class HasLabel(Protocol):
    """What an outcome is read from: a judgment or a label of any origin."""

    outcome: str | None
    acceptable: str | None


@register.filter
def spaced(name: str) -> str:
    """A name of the taxonomy or of a fixed list as people read it: `grader_too_narrow` is "grader too narrow"."""
    return name.replace("_", " ")


@register.filter
def worded(said: str) -> str:
    """A state, decision or reason as people read it: `not_satisfied` is "not satisfied"; other text is displayed."""
    return spaced(said) if _CODE.fullmatch(said) else display_text(said)


@register.simple_tag
def cited(code: str) -> SafeString:
    """The number of a citation, `[1]` for E1: an E with a number is a tag elsewhere. Other ids stay as they are."""
    number = _CITATION.fullmatch(code)
    if number is None:
        return format_html('<strong class="mono">{}</strong>', code)
    return format_html('<strong class="mono" title="{} in the words of the judge">[{}]</strong>', code, number[1])


@register.filter
def prose(said: str) -> str:
    """A judge's sentences with their citations numbered as `cited` does and the names of fixed answers in words:
    "not_met [E1,E3]" is "not met [1, 3]"."""
    numbered = _CITATIONS.sub(lambda found: f"[{', '.join(_NUMBER.findall(found[0]))}]", display_text(said))
    return _ANSWER.sub(lambda found: spaced(found[0]), numbered)


@register.filter
def said(answer: str | None) -> SafeString | str:
    """What somebody answered, in words; None is no answer, which is not "cannot tell"."""
    return ANSWERS[answer] if answer in ANSWERS else format_html('<span class="muted">{}</span>', "no answer")


@register.simple_tag
def outcome(kind: str | None, *, words: bool = True) -> SafeString:
    """Glyph and name of one of the six marks; None is `no verdict`."""
    name = kind or "no_verdict"
    glyph, text = OUTCOMES[name]
    said = format_html(" {}" if words else '<span class="visually-hidden">{}</span>', text)
    return format_html('<span class="outcome {}"><i aria-hidden="true">{}</i>{}</span>', name, glyph, said)


@register.simple_tag
def outcome_of(label: HasLabel) -> str:
    """The mark of a label: its outcome, else undecided where there is a decision that leaves it open."""
    if label.outcome:
        return label.outcome
    return "undecided" if label.acceptable else "no_verdict"


@register.simple_tag
def status(value: str, reason: str = "") -> SafeString:
    """What the verifier said, as a chip."""
    why = format_html(' title="{}"', worded(reason)) if reason else ""
    chip = '<span class="chip status-{}"{}><i aria-hidden="true">{}</i>{}</span>'
    return format_html(chip, value, why, STATUS_GLYPHS.get(value, "?"), value)


@register.inclusion_tag("_tag.html")
def tag(code: str, *, kept: bool = True) -> dict[str, object]:
    """A taxonomy code whose definition shows on hover and focus; unknown codes say so."""
    known = taxonomy().codes.get(code)
    name = known.name.replace("_", " ") if known else "unknown code"
    definition = known.definition if known else "not in the taxonomy of this installation"
    side = known.side if known else ""
    note = f"tag-{next(_tag_numbers)}"
    return {"code": code, "name": name, "definition": definition, "side": side, "kept": kept, "id": note}


def interval(
    at: float | None,
    low: float | None = None,
    high: float | None = None,
    *,
    band: Sequence[float] | None = None,
    compare: float | None = None,
    limit: float = 1.0,
) -> dict[str, Any]:
    """Where the parts of the house picture lie on an axis from 0 to `limit`; None is a part that is not there."""
    x = _place(limit)
    edges = [x(edge) for edge in band] if band else None
    return {
        "at": None if at is None else x(at),
        "low": None if low is None else x(low),
        "high": None if high is None else x(high),
        "band": [edges[0], round(edges[1] - edges[0], 1)] if edges else None,
        "compare": None if compare is None else x(compare),
    }


def picture(
    places: Mapping[str, Any], *, kind: str, label: str, detail: str = "", limit: float = 1.0, numbers: bool = True
) -> SafeString:
    """The house picture: a dot, its interval, a faint band for what is missing. Hundreds stand on one page.

    `numbers` are written under the axis; in a column of a table they stand once, in its head (`interval_axis`).
    """
    axis = interval_axis(limit)["ticks"]
    parts = [
        f'<svg class="interval {escape(kind)}" viewBox="0 0 {INTERVAL_WIDTH} {32 if numbers else 22}" role="img">',
        f"<title>{escape(label)}</title>",
        f"<desc>{escape(detail)}</desc>" if detail else "",
        _AXIS,
        *(f'<text x="{x}" y="30" text-anchor="middle">{text}</text>' for x, text in (axis if numbers else ())),
        *(_PARTS[name](place) for name in _PARTS if (place := places[name]) is not None),
        _between(places["low"], places["high"]),
        "" if places["at"] is None else f'<circle class="dot" cx="{places["at"]}" cy="8.5" r="4.5"/>',
        "</svg>",
    ]
    return mark_safe("".join(parts))  # noqa: S308  (what is not a number is escaped)


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None else f'<line class="bar-ci" x1="{low}" x2="{high}" y1="8.5" y2="8.5"/>'


@register.inclusion_tag("_interval_axis.html")
def interval_axis(limit: float = 1.0) -> dict[str, Any]:
    """The numbers of a column of intervals, for the head of the table."""
    x = _place(limit)
    shares = [limit * part for part in (0, 0.25, 0.5, 0.75, 1)]
    return {"width": INTERVAL_WIDTH, "ticks": [(x(share), f"{share * 100:g}") for share in shares]}


def _place(limit: float) -> Callable[[float], float]:
    return lambda value: round(_INSET + min(max(value / limit, 0), 1) * (INTERVAL_WIDTH - 2 * _INSET), 1)


_PARTS: dict[str, Callable[[Any], str]] = {
    "band": lambda at: f'<rect class="band" x="{at[0]}" y="3" width="{at[1]}" height="11" rx="1"/>',
    "compare": lambda at: f'<line class="compare" x1="{at}" x2="{at}" y1="0" y2="18"/>',
}
# Ticks stand at quarters, wherever the axis ends.
_TICKS = "".join(f"M{x},16V20" for x, _ in interval_axis()["ticks"])
_AXIS = f'<line class="axis" x1="0" x2="{INTERVAL_WIDTH}" y1="18" y2="18"/><path class="tick" d="{_TICKS}"/>'
