"""Storage: fields, constraints, tiny properties. Code names the module it needs, never this package as a whole."""

from auditapp.models import datasets, events, exchanges, judgments, labels, samples, sources

__all__ = ["datasets", "events", "exchanges", "judgments", "labels", "samples", "sources"]
