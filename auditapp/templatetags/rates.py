"""How a rate is written: number, interval and n together, or the reason why there is none."""

from django import template

from auditapp.stats.proportions import InsufficientData, Proportion
from auditapp.templatetags.marks import interval

register = template.Library()


@register.inclusion_tag("_rate.html")
def rate_of(
    found: Proportion | InsufficientData | None, *, kind: str = "", headline: bool = False
) -> dict[str, object]:
    """A rate with its interval and n. `kind` colors it as an outcome; `headline` sets the number large."""
    known = isinstance(found, Proportion)
    reason = found.reason if isinstance(found, InsufficientData) else "not estimated yet"
    return {"found": found if known else None, "reason": reason, "kind": kind, "headline": headline}


@register.inclusion_tag("_interval.html")
def interval_of(
    found: Proportion | InsufficientData | None, *, kind: str = "", limit: float = 1.0
) -> dict[str, object]:
    """The house picture of a rate, with a faint band for what is undecided."""
    if not isinstance(found, Proportion):
        return interval(None, kind=kind, limit=limit, label="no estimate")
    label = f"{found.estimate:.3f}, 95 % interval {found.low:.3f} to {found.high:.3f}"
    return interval(found.estimate, found.low, found.high, band=found.bounds, kind=kind, limit=limit, label=label)
