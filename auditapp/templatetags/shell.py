"""The frame of every page: which areas there are, which is current, and filter links that keep the rest."""

from dataclasses import dataclass
from typing import Protocol

from django import template
from django.http import HttpRequest
from django.template.context import RequestContext
from django.urls import NoReverseMatch, reverse

register = template.Library()

_CONFIGS = ("configs", "config", "config-new", "config-diff", "exchange")
# Area: its first page, and the names of all pages that belong to it.
AREAS = {
    "Overview": ("dataset", {"dataset", "imports", "import", "import-new", "taxonomy"}),
    "Trajectories": ("trajectories", {"trajectories", "tasks", "task"}),
    "Judge": ("runs", {"runs", "run", "run-new", "samples", "sample", "sample-new", *_CONFIGS}),
    "Labels": ("labels", {"labels", "label", "label-exchange", "export"}),
    "Review": ("rounds", {"rounds", "round", "held-out"}),
    "Numbers": ("numbers", {"numbers"}),
    "Report": ("report", {"report"}),
}
FOR_LEADS = {"Review"}
# Areas whose other pages are named after one word, as in "trajectory-file".
PREFIXES = {"Trajectories": "trajectory", "Review": "round-", "Numbers": "numbers-", "Report": "report-"}


class Named(Protocol):
    """A dataset, as far as addresses need it."""

    name: str


@dataclass(frozen=True, slots=True)
class Area:
    """An item of the top bar."""

    name: str
    address: str
    current: bool


@register.simple_tag(takes_context=True)
def areas(context: RequestContext, dataset: Named) -> list[Area]:
    """The areas that exist and open to the member; one whose first page has no address yet is left out."""
    match = getattr(context.get("request"), "resolver_match", None)
    page = match.url_name if match else ""
    found = []
    access = context.get("access")
    for name, (first, pages) in AREAS.items():
        if name in FOR_LEADS and not (access and access.is_lead):
            continue
        try:
            address = reverse(first, args=[dataset.name])
        except NoReverseMatch:
            continue
        current = page in pages or (name in PREFIXES and page.startswith(PREFIXES[name]))
        found.append(Area(name, address, current))
    return found


@register.simple_tag(takes_context=True)
def query(context: RequestContext, **changes: object) -> str:
    """The current address's query with changes: None or "" takes a key out; paging starts anew unless it is given."""
    request: HttpRequest = context["request"]
    params = request.GET.copy()
    for key in ("before", "after"):
        params.pop(key, None)
    for key, value in changes.items():
        params.pop(key, None)
        if value not in (None, ""):
            params[key] = str(value)
    encoded = params.urlencode()
    return f"?{encoded}" if encoded else request.path
