"""Lists: filters whose state is the address, and pages by key instead of by number."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from django.core.exceptions import ValidationError
from django.db.models import Field, Model, Q, QuerySet
from django.http import HttpRequest

from auditapp.templatetags.marks import worded

M = TypeVar("M", bound=Model)
PAGE_SIZE = 50
MOST_CHIPS = 24
CODED = ("reason", "open", "state")
SEPARATOR = "~"

BODIES = ("extra", "rewards", "proof")
"""Columns of a trajectory's source that no list shows and that can be long."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One chip: `value` goes into the address, `count` says how many rows it leaves, None where that is not counted."""

    value: str
    label: str
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """A row of chips for one key of the address."""

    key: str
    title: str
    choices: Sequence[Choice]
    chosen: str = ""


Counted = Callable[[Mapping[str, str]], Counter[str] | None]
"""Rows by value, among those that other filters leave; None where these are not counted together."""


def most_frequent(key: str, title: str, counted: Counted, wanted: Mapping[str, str]) -> Filter:
    """Chips for the most frequent values of a field; a code of ours is shown in words, a name as it is."""
    found, _ = _among(key, counted, wanted)
    rows = sorted(found.items(), key=lambda row: (-row[1], row[0]))[:MOST_CHIPS]
    in_words = worded if key in CODED else str
    values = [value for value, _ in rows if value]
    if (asked := wanted.get(key)) and asked not in values:
        values.append(asked)
    return chips(key, title, [(value, in_words(value)) for value in values], counted, wanted)


def chips(
    key: str,
    title: str,
    named: Sequence[tuple[str, str]],
    counted: Counted,
    wanted: Mapping[str, str],
    *,
    every: bool = False,
) -> Filter:
    """Chips for those of these values that there are, and for the one that is chosen in any case.

    With `every` for all of them: that there is none of one is news, too. Without, of a value that was not found it is
    not said that it leaves none: the rarest are not kept.
    """
    found, is_known = _among(key, counted, wanted)
    value = wanted.get(key, "")
    names = dict(named) if value in dict(named) or not value else {**dict(named), value: value}
    choices = [
        Choice(each, name, found[each] if is_known and (every or found[each]) else None)
        for each, name in names.items()
        if found[each] or each == value or every
    ]
    return Filter(key, title, choices, value)


def _among(key: str, counted: Counted, wanted: Mapping[str, str]) -> tuple[Counter[str], bool]:
    """Rows by value among those that the other filters leave, else among all; and which of the two it is."""
    among = counted({other: value for other, value in wanted.items() if other != key})
    if among is not None:
        return among, True
    return counted({}) or Counter(), False


@dataclass(frozen=True, slots=True)
class Page(Generic[M]):
    """The rows to show and the addresses of the pages beside them; empty where there is none."""

    rows: Sequence[M]
    newer: str = ""
    older: str = ""

    @property
    def shown(self) -> str:
        counted = "1 row" if len(self.rows) == 1 else f"{len(self.rows)} rows"
        return f"{counted} on this page" if self.newer or self.older else counted


def chosen(request: HttpRequest, keys: Iterable[str]) -> dict[str, str]:
    """The filters the address sets, among those known."""
    return {key: value for key in keys if (value := request.GET.get(key, "").strip())}


def page_of(
    request: HttpRequest, *parts: QuerySet[M, M], order: Sequence[str] = ("id",), size: int = PAGE_SIZE
) -> Page[M]:
    """One page, newest first by `order`, whose last field is unique. A cursor that cannot be read starts at the top.

    The list is all `parts` together: each is walked along an index of its own, which a database cannot do with an OR.
    """
    older_than = _cursor(request.GET.get("before", ""), parts[0].model, order)
    newer_than = _cursor(request.GET.get("after", ""), parts[0].model, order)
    if newer_than:
        rows = _first([part.filter(_beyond(order, newer_than, "gt")) for part in parts], order, size + 1)
        more_newer, more_older = len(rows) > size, True
        rows = rows[:size][::-1]
    else:
        found = [part.filter(_beyond(order, older_than, "lt")) for part in parts] if older_than else parts
        rows = _first(found, order, size + 1, newest=True)
        more_newer, more_older = older_than is not None, len(rows) > size
        rows = rows[:size]
    return Page(
        rows,
        _address(request, "after", rows[0], order) if rows and more_newer else "",
        _address(request, "before", rows[-1], order) if rows and more_older else "",
    )


def near(request: HttpRequest, keys: Iterable[int], model: type[Model]) -> list[int]:
    """Those of a list's keys that `page_of` shows when it goes by them, and the one that tells of a next page."""
    ordered = sorted(keys)
    if newer_than := _cursor(request.GET.get("after", ""), model, ["id"]):
        return ordered[bisect_right(ordered, newer_than[0]) :][: PAGE_SIZE + 1]
    older_than = _cursor(request.GET.get("before", ""), model, ["id"])
    return ordered[: bisect_left(ordered, older_than[0]) if older_than else None][-PAGE_SIZE - 1 :]


def _first(parts: Sequence[QuerySet[M, M]], order: Sequence[str], n: int, *, newest: bool = False) -> list[M]:
    """The first rows of all parts in one order; what is in two of them comes once."""
    ordered = [part.order_by(*(f"-{name}" if newest else name for name in order))[:n] for part in parts]
    if len(ordered) == 1:
        return list(ordered[0])
    rows = {row.pk: row for part in ordered for row in part}.values()
    return sorted(rows, key=lambda row: tuple(getattr(row, name) for name in order), reverse=newest)[:n]


def _beyond(order: Sequence[str], values: Sequence[Any], sign: str) -> Q:
    """Rows past a key of one or two fields: the first beyond, or equal with the second beyond."""
    first = Q(**{f"{order[0]}__{sign}": values[0]})
    if len(order) == 1:
        return first
    # The bound on the first field lets the database walk its index.
    near = Q(**{f"{order[0]}__{sign}e": values[0]})
    return near & (first | Q(**{f"{order[1]}__{sign}": values[1]}))


def _cursor(text: str, model: type[Model], order: Sequence[str]) -> list[Any] | None:
    parts = text.split(SEPARATOR)
    if len(parts) != len(order):
        return None
    try:
        fields = [cast("Field[Any, Any]", model._meta.get_field(name)) for name in order]
        return [field.to_python(part) for field, part in zip(fields, parts, strict=True)]
    except ValidationError:
        return None


def _address(request: HttpRequest, key: str, row: Model, order: Sequence[str]) -> str:
    params = request.GET.copy()
    for name in ("before", "after"):
        params.pop(name, None)
    values = (getattr(row, name) for name in order)
    params[key] = SEPARATOR.join(value.isoformat() if hasattr(value, "isoformat") else str(value) for value in values)
    return f"?{params.urlencode()}"
