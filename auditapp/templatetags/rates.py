"""How a rate is written: number, interval and n together, or the reason why there is none."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import template
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from auditapp.stats.proportions import InsufficientData, Proportion, as_result
from auditapp.templatetags.charts import FEW
from auditapp.templatetags.marks import interval, picture
from auditapp.templatetags.numbers import count, in_percent, rate

register = template.Library()

Found = Proportion | InsufficientData | Mapping[str, Any] | None
"""A result, or the same as it is stored among the figures."""

ROUNDING = 1e-9
_LIMITS = (0.05, 0.1, 0.2, 0.5, 1.0)


def as_rate(found: Found) -> Proportion | InsufficientData:
    """A stored figure as the result it was; none yet is a reason of its own."""
    if isinstance(found, Mapping):
        return as_result(found)
    return found or InsufficientData("not estimated yet")


def shared_limit(rates: Iterable[Found]) -> float:
    """The end of an axis that holds the intervals of a whole column: 5, 10, 20, 50 or 100 %."""
    known = [found for found in map(as_rate, rates) if isinstance(found, Proportion)]
    highest = max((found.high for found in known), default=1.0)
    return next((limit for limit in _LIMITS if highest <= limit), 1.0)


@register.simple_tag
def means(anchor: str, name: str) -> SafeString:
    """A number's name as a link to its section of the methodology."""
    return format_html('<a class="means" href="{}#{}">{}</a>', reverse("methodology"), anchor, name)


@register.simple_tag
def rate_of(
    found: Found, *, kind: str = "", headline: bool = False, address: str = "", decided: str = ""
) -> SafeString:
    """A rate, never without its interval and n. `kind` colors it as an outcome, `headline` sets it large.

    `address` opens the rows that count, `decided` the n rows among which they do.
    """
    read = as_rate(found)
    if isinstance(read, InsufficientData):
        return format_html('<span class="unknown">no estimate: {}</span>', read.reason)
    size, colored = "headline" if headline else "strong", f" {escape(kind)}" if kind else ""
    few = ", anecdote" if read.n < FEW else ""
    return mark_safe(  # noqa: S308  (what is not a number is escaped; hundreds stand on one page)
        f'<span class="rate{colored}"><span class="{size}">{_opens(rate(read.estimate), address)}</span> '
        f'<span class="ci">[{in_percent(read.low)}, {in_percent(read.high)}]</span> '
        f'<span class="n">{_opens(f"n {count(read.n)}", decided)}{few}</span></span>'
    )


def _opens(text: str, address: str) -> str:
    """A figure that opens its rows, where they have an address."""
    return f'<a class="figure" href="{escape(address)}">{text}</a>' if address else text


@register.simple_tag
def interval_of(
    found: Found, *, kind: str = "", limit: float = 1.0, numbers: bool = True, compare: float | None = None
) -> SafeString:
    """The house picture of a rate, with a faint band for what is undecided or was seen by nobody, and a hairline at
    `compare`."""
    read = as_rate(found)
    if isinstance(read, InsufficientData):
        nothing = interval(None, limit=limit)
        return picture(nothing, kind=kind, label="no estimate", detail=read.reason, limit=limit, numbers=numbers)
    band = read.bounds if read.missing or _is_open(read) else None
    return picture(
        interval(read.estimate, read.low, read.high, band=band, compare=compare, limit=limit),
        kind=kind,
        label=f"{rate(read.estimate)}, 95 % interval {rate(read.low)} to {rate(read.high)}",
        detail=_detail(read, compare),
        limit=limit,
        numbers=numbers,
    )


def _is_open(found: Proportion) -> bool:
    """Whether there are parts of the population that nobody looked at, which could make the rate another one."""
    low, high = found.bounds
    return high - low > ROUNDING


def _detail(found: Proportion, compare: float | None) -> str:
    said = [f"n {found.n:,}" + (", fewer than 30 are an anecdote" if found.n < FEW else "")]
    low, high = found.bounds
    if found.missing:
        said.append(f"{found.missing:,} undecided: {rate(low)} to {rate(high)} with all of them right or wrong")
    elif _is_open(found):
        said.append(f"{rate(low)} to {rate(high)} with all that nobody looked at right or wrong")
    if compare is not None:
        said.append(f"hairline at {rate(compare)}")
    return "; ".join(said)
