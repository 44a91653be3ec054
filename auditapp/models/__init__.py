"""Storage: fields, constraints, tiny properties. Code names the module it needs, never this package as a whole."""

from auditapp.models import (
    answers,
    datasets,
    estimates,
    events,
    exchanges,
    judgments,
    labels,
    reviews,
    rounds,
    samples,
    sources,
)

__all__ = [
    "answers",
    "datasets",
    "estimates",
    "events",
    "exchanges",
    "judgments",
    "labels",
    "reviews",
    "rounds",
    "samples",
    "sources",
]
