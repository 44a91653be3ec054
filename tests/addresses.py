"""Every address that the product answers, for tests that walk them all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver


@dataclass(frozen=True, slots=True)
class Address:
    """A pattern with all that stands before it; `converters` by the name of their value."""

    route: str
    name: str | None
    converters: Mapping[str, Any]
    view: Callable[..., Any]


def addresses() -> list[Address]:
    """All of them, in the order in which they are tried."""
    return list(_below(get_resolver().url_patterns, "", {}))


def _below(patterns: Sequence[URLPattern | URLResolver], before: str, values: Mapping[str, Any]) -> Iterator[Address]:
    for each in patterns:
        route, converters = before + str(each.pattern), {**values, **each.pattern.converters}
        if isinstance(each, URLResolver):
            yield from _below(each.url_patterns, route, converters)
        else:
            yield Address(route, each.name, converters, each.callback)
