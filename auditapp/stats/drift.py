"""Has a rate moved? Tests that may be looked at after every label without raising false alarms.

Feed them blind labels drawn at random within one mix of strata, and begin anew when judge or prompt change: a change
of mix is no drift.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import betaln

from auditapp.stats.proportions import InsufficientData

ALARM = 20.0
"""An e-value this large comes up with probability at most 1/20 under the null, however often one looks (Ville 1939)."""


@dataclass(frozen=True, slots=True)
class DriftState:
    """The evidence after `n` labels; `alarm_at` is the label (from 1) at which it first passed the threshold upward."""

    e_value: float
    largest: float
    rate: float
    n: int
    alarm_at: int | None


def mixture_e_value(events: int, others: int, *, expected: float, a: float = 0.5, b: float = 0.5) -> float:
    """B(a+s, b+f) / (B(a,b) p0^s (1-p0)^f): the evidence against a rate of `expected`, in either direction.

    Raises ValueError unless counts are not negative and 0 < expected < 1. Infinite only beyond floating point.
    """
    if not (0 < expected < 1 and events >= 0 and others >= 0):
        raise ValueError(f"no e-value for {events} and {others} against {expected}")
    log = float(betaln(a + events, b + others) - betaln(a, b))
    log -= events * math.log(expected) + others * math.log1p(-expected)
    return math.exp(min(log, 700.0))


def drift(labels: Sequence[bool], *, expected: float, alarm: float = ALARM) -> DriftState | InsufficientData:
    """Follow labels in the order made; alarms when the e-value reaches `alarm` with the rate above expected."""
    if not labels:
        return InsufficientData("no label yet")
    events, largest, alarm_at, value = 0, 0.0, None, 1.0
    for n, label in enumerate(labels, 1):
        events += label
        value = mixture_e_value(events, n - events, expected=expected)
        largest = max(largest, value)
        if alarm_at is None and value >= alarm and events / n > expected:
            alarm_at = n
    return DriftState(value, largest, events / len(labels), len(labels), alarm_at)


def benjamini_hochberg(p_values: Sequence[float], *, rate: float = 0.05) -> tuple[bool, ...]:
    """Which of many tests to flag, at most `rate` of the flags being false on average (Benjamini & Hochberg 1995)."""
    if any(not 0 <= p <= 1 for p in p_values):
        raise ValueError("a p-value lies between 0 and 1")
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    passed = [k for k, i in enumerate(order, 1) if p_values[i] <= rate * k / len(p_values)]
    flagged = set(order[: max(passed, default=0)])
    return tuple(i in flagged for i in range(len(p_values)))
