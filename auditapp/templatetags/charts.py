"""Charts as inline SVG, drawn from plain points: histogram, lines with bands, scatter with a front.

Each comes with its title, a description in words, and the table of what it shows. Sizes are those of the view box.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django import template

from auditapp.stats.proportions import proportion
from auditapp.stats.tables import cross_table
from auditapp.templatetags.numbers import NBSP_THIN, count, duration, in_percent, plain, rate, scaled, usd

register = template.Library()

WIDTH, HEIGHT = 480, 250
LEFT, RIGHT, TOP, BOTTOM = 52, 468, 16, 204
FEW = 30
"""Below this many units a chart calls itself an anecdote."""


def percent(share: float) -> str:
    """A mark of an axis of shares: as many digits as it needs."""
    return f"{share * 100:g}{NBSP_THIN}%"


FORMS: dict[str, Callable[[float], str]] = {
    "rate": percent,
    "count": count,
    "scaled": scaled,
    "usd": usd,
    "plain": plain,
    "duration": duration,
    "decimal": lambda value: f"{value:,.1f}",
}


@register.simple_tag
def amount(value: float, form: str) -> str:
    """An amount as an axis of this form writes it."""
    return FORMS[form](value)


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a histogram; `address` opens its rows, `kind` colors it as an outcome."""

    label: str
    count: int
    address: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a line; without `y` the line has a gap there, and `why` says the reason."""

    x: float
    y: float | None
    low: float | None = None
    high: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """A line with its band; points in order of x."""

    name: str
    points: Sequence[Point]


@dataclass(frozen=True, slots=True)
class Spot:
    """A point of a scatter with what is uncertain of it; `best` marks the front."""

    name: str
    x: float
    y: float
    x_low: float | None = None
    x_high: float | None = None
    y_low: float | None = None
    y_high: float | None = None
    best: bool = False
    address: str = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of an axis: where it is, and what is written beside it."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values from `low` to `high` onto the picture from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The place of a value; what lies outside sits at the edge."""
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + min(max(share, 0.0), 1.0) * (self.end - self.start), 1)


def steps(low: float, high: float, *, about: int = 5) -> list[float]:
    """Round values (1, 2, 2.5 or 5 times a power of ten) that span low to high; at least two."""
    if not high > low:
        high = low + 1
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= raw * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _axis(values: Sequence[float], *, start: float, end: float, form: str, whole: bool = False) -> Any:
    """A scale over round values, and its ticks; `whole` keeps to whole numbers."""
    marks = steps(min(values), max(values))
    if whole:
        marks = [mark for mark in marks if float(mark).is_integer()] or marks
    scale = Scale(marks[0], marks[-1], start, end)
    return scale, [Tick(scale.at(mark), FORMS[form](mark)) for mark in marks]


def _frame(title: str, x_title: str, y_title: str, n: int | None, unit: str) -> dict[str, Any]:
    box = {"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM}
    middle = {"middle": (LEFT + RIGHT) / 2, "under": BOTTOM + 38, "labels": BOTTOM + 16, "beside": LEFT - 7}
    words = {"title": title, "x_title": x_title, "y_title": y_title, "n": n, "unit": unit}
    return {**box, **middle, **words, "few": n is not None and n < FEW}


# --- histogram


@register.inclusion_tag("charts/histogram.html")
def histogram(
    bars: Sequence[Bar],
    *,
    title: str,
    x_title: str,
    y_title: str,
    n: int | None = None,
    unit: str = "",
) -> dict[str, Any]:
    """Counts side by side, each written over its bar; the table links to the rows of each."""
    scale, ticks = _axis([0, max((bar.count for bar in bars), default=1) or 1], start=BOTTOM, end=TOP, form="count")
    slot = (RIGHT - LEFT) / max(len(bars), 1)
    drawn = [
        {
            "bar": bar,
            "x": round(LEFT + slot * number + slot * 0.08, 1),
            "width": round(slot * 0.84, 1),
            "y": scale.at(bar.count),
            "height": round(BOTTOM - scale.at(bar.count), 1),
            "middle": round(LEFT + slot * (number + 0.5), 1),
            "over": round(scale.at(bar.count) - 4, 1),
        }
        for number, bar in enumerate(bars)
    ]
    highest = max(bars, key=lambda bar: bar.count, default=None)
    says = f"{len(bars)} bars; the highest is {highest.label} with {highest.count}." if highest else "No bars."
    return _frame(title, x_title, y_title, n, unit) | {"drawn": drawn, "ticks": ticks, "says": says}


# --- lines


@register.inclusion_tag("charts/curves.html")
def curves(
    series: Sequence[Series],
    *,
    title: str,
    x_title: str,
    y_title: str,
    x_form: str = "count",
    y_form: str = "rate",
    limit: float | None = None,
    compare: float | None = None,
    compare_name: str = "",
    n: int | None = None,
    unit: str = "",
) -> dict[str, Any]:
    """Lines with bands over a shared axis; `limit` fixes its upper end, `compare` draws a hairline across."""
    points = [point for line in series for point in line.points]
    heights = [v for p in points for v in (p.y, p.low, p.high) if v is not None]
    heights += [0.0, *([limit] if limit is not None else []), *([compare] if compare is not None else [])]
    x, x_ticks = _axis([p.x for p in points] or [0, 1], start=LEFT, end=RIGHT, form=x_form, whole=x_form == "count")
    y, y_ticks = _axis(heights if len(heights) > 1 else [0, 1], start=BOTTOM, end=TOP, form=y_form)
    return _frame(title, x_title, y_title, n, unit) | {
        "lines": [_line(line, x, y, f"s{number % 6}", x_form, y_form) for number, line in enumerate(series)],
        "x_ticks": x_ticks,
        "y_ticks": y_ticks,
        "compare": None if compare is None else y.at(compare),
        "compare_name": compare_name,
        "says": "; ".join(_said(line, x_form, y_form) for line in series) or "No line.",
    }


def _line(line: Series, x: Scale, y: Scale, mark: str, x_form: str, y_form: str) -> dict[str, Any]:
    pieces = _pieces(line.points)
    banded = [[p for p in piece if p.low is not None and p.high is not None] for piece in pieces]
    return {
        "name": line.name,
        "mark": mark,
        "paths": [" ".join(f"{x.at(p.x)},{y.at(p.y or 0)}" for p in piece) for piece in pieces],
        "dots": [(x.at(p.x), y.at(p.y or 0)) for piece in pieces for p in piece],
        "bands": [_band(piece, x, y) for piece in banded if piece],
        "rows": [(FORMS[x_form](p.x), p, _written(p, y_form)) for p in line.points],
    }


def _pieces(points: Sequence[Point]) -> list[list[Point]]:
    """The line, cut where a point has no value."""
    found: list[list[Point]] = [[]]
    for point in points:
        if point.y is None:
            found.append([])
        else:
            found[-1].append(point)
    return [piece for piece in found if piece]


def _band(piece: Sequence[Point], x: Scale, y: Scale) -> str:
    over = [f"{x.at(p.x)},{y.at(p.high or 0)}" for p in piece]
    under = [f"{x.at(p.x)},{y.at(p.low or 0)}" for p in reversed(piece)]
    return " ".join(over + under)


def _written(point: Point, form: str) -> str:
    if point.y is None:
        return f"no estimate: {point.why}" if point.why else "no estimate"
    say, bound = (rate, in_percent) if form == "rate" else (FORMS[form], FORMS[form])
    if point.low is None or point.high is None:
        return say(point.y)
    return f"{say(point.y)} [{bound(point.low)}, {bound(point.high)}]"


def _said(line: Series, x_form: str, y_form: str) -> str:
    known = [point for point in line.points if point.y is not None]
    if not known:
        return f"{line.name}: no estimate"
    first, last = known[0], known[-1]
    return (
        f"{line.name}: {_written(first, y_form)} at {FORMS[x_form](first.x)}, "
        f"{_written(last, y_form)} at {FORMS[x_form](last.x)}"
    )


# --- scatter


@register.inclusion_tag("charts/scatter.html")
def scatter(
    spots: Sequence[Spot],
    *,
    title: str,
    x_title: str,
    y_title: str,
    x_form: str = "plain",
    y_form: str = "rate",
    n: int | None = None,
    unit: str = "",
) -> dict[str, Any]:
    """Numbered points with their intervals as crosses, a step line through the best; the table names them."""
    across = [v for s in spots for v in (s.x, s.x_low, s.x_high) if v is not None]
    up = [v for s in spots for v in (s.y, s.y_low, s.y_high) if v is not None]
    x, x_ticks = _axis([0.0, *across] if across else [0, 1], start=LEFT, end=RIGHT, form=x_form)
    y, y_ticks = _axis([0.0, *up] if up else [0, 1], start=BOTTOM, end=TOP, form=y_form)
    best = sorted((spot for spot in spots if spot.best), key=lambda spot: (spot.x, spot.y))
    says = f"{len(spots)} points" + (f"; on the front: {', '.join(spot.name for spot in best)}" if best else "")
    return _frame(title, x_title, y_title, n, unit) | {
        "spots": [_spot(number, spot, x, y, x_form, y_form) for number, spot in enumerate(spots, 1)],
        "front": _front(best, x, y) if len(best) > 1 else "",
        "x_ticks": x_ticks,
        "y_ticks": y_ticks,
        "says": f"{says}.",
    }


def _spot(number: int, spot: Spot, x: Scale, y: Scale, x_form: str, y_form: str) -> dict[str, Any]:
    at, high = x.at(spot.x), y.at(spot.y)
    return {
        "number": number,
        "spot": spot,
        "x": at,
        "y": high,
        "across": _ends(spot.x_low, spot.x_high, x),
        "up": _ends(spot.y_low, spot.y_high, y),
        "text_x": round(at + 7, 1) if at < RIGHT - 16 else round(at - 15, 1),
        "text_y": round(high - 6, 1),
        "x_said": _written(Point(0, spot.x, spot.x_low, spot.x_high), x_form),
        "y_said": _written(Point(0, spot.y, spot.y_low, spot.y_high), y_form),
    }


def _ends(low: float | None, high: float | None, scale: Scale) -> tuple[float, float] | None:
    return None if low is None or high is None else (scale.at(low), scale.at(high))


def _front(best: Sequence[Spot], x: Scale, y: Scale) -> str:
    """Steps: nothing better is known between two points than the first of them."""
    corners = [f"{x.at(best[0].x)},{y.at(best[0].y)}"]
    for before, spot in pairwise(best):
        corners += [f"{x.at(spot.x)},{y.at(before.y)}", f"{x.at(spot.x)},{y.at(spot.y)}"]
    return " ".join(corners)


# --- confusion matrix

ANSWER_NAMES = {"yes": "acceptable", "no": "not acceptable", "unknown": "cannot tell"}


@register.inclusion_tag("charts/confusion.html")
def confusion(
    counts: Sequence[Sequence[int]],
    *,
    answers: Sequence[str],
    caption: str,
    down: str,
    across: str,
    addresses: Sequence[Sequence[str]] = (),
) -> dict[str, Any]:
    """Counts first, shares of the row with their intervals second, tinted by row; a count opens its cases."""
    cells = {(row, column): counts[i][j] for i, row in enumerate(answers) for j, column in enumerate(answers)}
    opens = {
        (row, column): addresses[i][j]
        for i, row in enumerate(answers if addresses else ())
        for j, column in enumerate(answers)
    }
    rows = [
        {
            "name": ANSWER_NAMES.get(row.name, row.name),
            "total": row.total,
            "cells": [
                (cell, opens.get((row.name, cell.column), ""), proportion(cell.count, row.total)) for cell in row.cells
            ],
        }
        for row in cross_table(cells, answers, answers)
    ]
    names = [ANSWER_NAMES.get(answer, answer) for answer in answers]
    return {"rows": rows, "columns": names, "caption": caption, "down": down, "across": across}
