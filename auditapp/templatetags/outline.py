"""The outline of a trajectory: one row of four elements a step, and what keys need to know of steps without a row."""

from collections.abc import Iterable

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from auditapp.templatetags.numbers import parse_time, scaled
from judges.records import StepRow

register = template.Library()

HEAD_CHARACTERS = 80
STEPS_PER_CHUNK = 25
WHOLE_UP_TO = 1_000
ROWS_PER_PART = 10 * STEPS_PER_CHUNK


def depth(locator: str) -> int:
    """How many sub-agents deep a step lies: 0 for "12", 1 for "12.1:3"; deeper than 4 looks like 4."""
    return min(locator.count(":"), 4)


def failed(row: StepRow) -> bool:
    """Whether an exit code other than 0, or the pattern hint for an error, was seen in the step."""
    return bool(row.exit_code) or "error" in row.flags


def step_codes(rows: Iterable[StepRow]) -> str:
    """A word a step: 1 for a tool call plus 2 for a failure, then the locator unless it is the number that follows."""
    words, following = list[str](), "1"
    for row in rows:
        code = str(bool(row.tool) + 2 * failed(row))
        words.append(code if row.locator == following else code + row.locator)
        following = str(int(row.locator) + 1) if row.locator.isdecimal() else ""
    return " ".join(words)


def outline_html(rows: Iterable[StepRow], *, start: int = 0) -> SafeString:
    """The rows as links to their steps; `start` is the position of the first."""
    chunks: list[str] = []
    for position, row in enumerate(rows, start):
        if position % STEPS_PER_CHUNK == 0:
            chunks.append("</div><div>" if chunks else "<div>")
        chunks.append(_row(row))
    return mark_safe("".join([*chunks, "</div>"]) if chunks else "")  # noqa: S308 (each value is escaped)


def _row(row: StepRow) -> str:
    at = escape(row.locator)
    classes = " ".join(_classes(row))
    exit_code = f"<u>{row.exit_code}</u> " if row.exit_code else ""
    size = sum(map(sum, row.sizes.values()))
    return (
        f'<a class="{classes}" href="?step={at}#s{at}"><b>{at}</b> <i>{escape(row.tool or row.source)}</i> '
        f"{escape(row.head[:HEAD_CHARACTERS])} <s>{exit_code}{scaled(size)} {_clock(row)}</s></a>"
    )


def _classes(row: StepRow) -> list[str]:
    names = [row.source[0]]
    if row.tool:
        names.append("t")
    if failed(row):
        names.append("e")
    if level := depth(row.locator):
        names.append(f"d{level}")
    return names


def _clock(row: StepRow) -> str:
    parsed = parse_time(row.timestamp) if row.timestamp else None
    return parsed.strftime("%H:%M:%S") if parsed else ""
