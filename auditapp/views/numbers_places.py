"""Subjects and other places of a page of numbers: their names, the chips that choose one, the rows behind a figure."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse

from auditapp.views.listing import Choice, Filter
from auditapp.views.numbers import Numbers

PARTS = ("model", "agent", "effort")
FILTERED = (*PARTS, "environment", "task")


def name_of(place: Mapping[str, Any]) -> str:
    """Model, agent and effort as one line, as they are written everywhere; an environment by its name."""
    said = " · ".join(str(place[part]) for part in PARTS if place.get(part))
    return said or str(place.get("environment") or "not recorded")


def chooser(key: str, title: str, places: Sequence[Mapping[str, Any]], chosen: int | None) -> Filter:
    """Chips for the places of a page; the address holds the name of the one chosen."""
    names = [name_of(place) for place in places]
    return Filter(key, title, [Choice(name, name) for name in names], "" if chosen is None else names[chosen])


def chosen_place(request: HttpRequest, key: str, places: Sequence[Mapping[str, Any]]) -> int | None:
    """The number of the place that the address names; None where it names none of these."""
    wanted = request.GET.get(key, "")
    return next((number for number, place in enumerate(places) if name_of(place) == wanted), None)


def unknown_place(request: HttpRequest, key: str, places: Sequence[Mapping[str, Any]]) -> str:
    """The name in the address that is none of these, empty where there is no such mistake."""
    wanted = request.GET.get(key, "")
    return wanted if wanted and chosen_place(request, key, places) is None else ""


def rows_address(numbers: Numbers, view: str, place: Mapping[str, Any], **more: object) -> str:
    """The list of trajectories or labels that a figure counts; what is not recorded cannot be asked for."""
    wanted = {key: place[key] for key in FILTERED if place.get(key)}
    return _address(numbers, view, wanted | {"version": numbers.version.name} | more)


def labels_address(numbers: Numbers, place: Mapping[str, Any], *, by_judge: bool, **more: object) -> str:
    """The labels behind a figure: those of this judge's first looks at this draw, or those of people."""
    if not by_judge:
        return rows_address(numbers, "labels", place, by="people", **_drawn(numbers), **more)
    digest = {"judge": numbers.config.digest} if numbers.config else {}
    return rows_address(numbers, "labels", place, **digest, replicate=0, **_drawn(numbers), **more)


def _drawn(numbers: Numbers) -> dict[str, object]:
    return {"sample": numbers.sample.public_id} if numbers.sample else {}


def triage_address(numbers: Numbers, tasks: Sequence[str]) -> str:
    """Where a lead opens a triage round about these tasks; empty for others, and where there are none."""
    if not tasks or not numbers.access.is_lead:
        return ""
    try:
        return _address(numbers, "round-new", {"kind": "triage", "tasks": ",".join(tasks)})
    except NoReverseMatch:
        return ""


def _address(numbers: Numbers, view: str, query: Mapping[str, object]) -> str:
    return f"{reverse(view, args=[numbers.access.dataset.name])}?{urlencode(query)}"
