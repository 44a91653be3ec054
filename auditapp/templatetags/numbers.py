"""How numbers and times are written: one form each, everywhere. None is "not recorded", never 0."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import orjson
from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

NBSP_THIN = "\u202f"
UNKNOWN = "not recorded"
_BYTE_UNITS = ("B", "kB", "MB", "GB", "TB")
Number = int | float | Decimal


@register.filter
def rate(value: float | None, digits: int = 1) -> str:
    """A share between 0 and 1 as `16.4 %`."""
    return "–" if value is None else f"{value * 100:.{digits}f}{NBSP_THIN}%"


@register.filter
def in_percent(value: float | None) -> str:
    """The number of a share without its %, for an interval beside the share: `[11.5, 22.8]`."""
    return "–" if value is None else f"{value * 100:.1f}"


@register.filter
def points(value: float | None) -> str:
    """A difference of two shares in percentage points, with its sign: `+3.5`."""
    return "–" if value is None else f"{value * 100:+.1f}".replace("-", "−")


@register.filter
def signed(value: float | None) -> str:
    """A number with two decimals and its sign."""
    return "–" if value is None else f"{value:+.2f}".replace("-", "−")


@register.filter
def pvalue(value: float | None) -> str:
    """A p-value with three decimals; smaller ones are below a thousandth."""
    return "–" if value is None else "< 0.001" if value < 0.001 else f"{value:.3f}"


@register.filter
def hundred(share: float) -> str:
    """A share as so many of 100, for a sentence; the exact figure stands beside it."""
    return "fewer than 1" if 0 < share < 0.005 else f"{share * 100:.0f}"


@register.filter
def count(value: Number | None) -> str:
    """A whole number with thousands set apart by commas."""
    return UNKNOWN if value is None else f"{value:,.0f}"


@register.filter
def scaled(value: Number | None) -> str:
    """A number of characters or tokens with three figures: `12.3 k`."""
    if value is None:
        return UNKNOWN
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{_three_figures(float(value) / factor)}{NBSP_THIN}{unit}"
    return f"{value:.0f}"


@register.filter
def filesize(value: int | None) -> str:
    """A number of bytes in decimal units: `12.3 kB`."""
    if value is None:
        return UNKNOWN
    size, power = float(value), 0
    while size >= 999.5 and power < len(_BYTE_UNITS) - 1:
        size, power = size / 1000, power + 1
    return f"{size:.0f}{NBSP_THIN}B" if power == 0 else f"{_three_figures(size)}{NBSP_THIN}{_BYTE_UNITS[power]}"


def _three_figures(value: float) -> str:
    return f"{value:.0f}" if value >= 99.95 else f"{value:.1f}"


@register.filter
def usd(value: Number | None) -> str:
    """An amount of US dollars; below a cent with the digits that still say something."""
    if value is None:
        return "price unknown"
    amount = float(value)
    return f"${amount:.4f}" if 0 < amount < 0.01 else f"${amount:,.2f}"


@register.filter
def plain(value: float | None) -> str:
    """A reward or another recorded number without trailing zeros."""
    return UNKNOWN if value is None else f"{value:.6g}"


@register.filter
def recorded(value: Any) -> str:
    """A recorded value of any JSON type: text as it is, everything else as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


@register.filter
def duration(seconds: float | None) -> str:
    """A span of time in its two largest units."""
    if seconds is None:
        return UNKNOWN
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}{NBSP_THIN}s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes}{NBSP_THIN}min {rest:02}{NBSP_THIN}s"
    return f"{minutes // 60:,}{NBSP_THIN}h {minutes % 60:02}{NBSP_THIN}min"


@register.filter
def hours(value: float | None) -> str:
    """Hours of work to a tenth; a little is not written as none."""
    if value is None:
        return "–"
    return "under 0.1" if 0 < value < 0.05 else f"{value:,.1f}"


@register.filter
def moment(value: datetime | str | None, precision: str = "") -> SafeString | str:
    """A time in UTC as a `time` element, to the minute or to `seconds`; a text that is no time is shown as it is."""
    if not value:
        return UNKNOWN
    parsed = value if isinstance(value, datetime) else parse_time(value)
    if parsed is None:
        return str(value)
    form = "%Y-%m-%d %H:%M:%S" if precision == "seconds" else "%Y-%m-%d %H:%M"
    return format_html(
        '<time datetime="{}">{} UTC</time>', parsed.strftime("%Y-%m-%dT%H:%M:%SZ"), parsed.strftime(form)
    )


def parse_time(value: str) -> datetime | None:
    """A recorded ISO time in UTC, or None where it is none; a time without a zone is taken as UTC."""
    try:
        parsed = datetime.fromisoformat(value)
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
