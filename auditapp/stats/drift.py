"""Has a rate moved? Tests that may be looked at after every label without raising false alarms.

Feed them blind labels drawn at random within one mix of strata, and begin anew when judge or prompt change: a change
of mix is no drift.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaln

from auditapp.stats.proportions import InsufficientData

ALARM = 20.0
"""An e-value this large comes up with probability at most 1/20 under the null, however often one looks (Ville 1939)."""
BETWEEN = 2000
"""Labels to a false signal of a CUSUM, on average at least."""


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


@dataclass(frozen=True, slots=True)
class CusumPlan:
    """Against which rate to watch, from which sum to signal, and labels between two false signals, on average."""

    expected: float
    raised: float
    threshold: float
    between: float


@dataclass(frozen=True, slots=True)
class CusumState:
    """A sum that forgets what was good: `value` after all labels, its `largest`, and the label at which it signaled."""

    value: float
    largest: float
    plan: CusumPlan
    signal_at: int | None


def cusum(labels: Sequence[bool], plan: CusumPlan) -> CusumState:
    """Bernoulli CUSUM (Reynolds & Stoumbos 1999): S = max(0, S + log likelihood ratio of the raised rate)."""
    event, other = _weights(plan.expected, plan.raised)
    value, largest, signal_at = 0.0, 0.0, None
    for n, label in enumerate(labels, 1):
        value = max(0.0, value + (event if label else other))
        largest = max(largest, value)
        if signal_at is None and value >= plan.threshold:
            signal_at = n
    return CusumState(value, largest, plan, signal_at)


@lru_cache(maxsize=256)
def plan_cusum(expected: float, *, raised: float, between: int = BETWEEN) -> CusumPlan:
    """The lowest threshold with `between` labels or more to a signal at the expected rate, and what it is exactly.

    `raised` is moved a little, so that the two weights are whole numbers of one step: then the sum is a Markov chain of
    few states, whose mean run is solved (Reynolds & Stoumbos 1999). Raises ValueError unless 0 < expected < raised < 1.
    """
    if not (0 < expected < raised < 1):
        raise ValueError(f"no CUSUM of a rate {raised} against {expected}")
    event, other = _weights(expected, raised)
    steps = math.ceil(10 / (event / -other))
    up = round(steps * event / -other)
    raised = float(brentq(lambda rate: _ratio(expected, rate) - up / steps, expected + 1e-9, 1 - 1e-12))
    limit = 1
    while _mean_run(2 * limit, up, steps, expected) < between:
        limit *= 2
    limit += bisect_left(range(limit, 2 * limit), True, key=lambda n: _mean_run(n, up, steps, expected) >= between)
    step = -_weights(expected, raised)[1] / steps
    return CusumPlan(expected, raised, (limit - 0.5) * step, _mean_run(limit, up, steps, expected))


def _weights(expected: float, raised: float) -> tuple[float, float]:
    return math.log(raised / expected), math.log1p(-raised) - math.log1p(-expected)


def _ratio(expected: float, raised: float) -> float:
    event, other = _weights(expected, raised)
    return event / -other


def _mean_run(limit: int, up: int, down: int, rate: float) -> float:
    """Labels until a sum of whole steps that begins at 0, and never falls below it, reaches the limit, on average."""
    moves, at = np.eye(limit), np.arange(limit)
    np.subtract.at(moves, (at, np.maximum(0, at - down)), 1 - rate)
    within = at[at + up < limit]
    moves[within, within + up] -= rate
    return float(np.linalg.solve(moves, np.ones(limit))[0])


def benjamini_hochberg(p_values: Sequence[float], *, rate: float = 0.05) -> tuple[bool, ...]:
    """Which of many tests to flag, at most `rate` of the flags being false on average (Benjamini & Hochberg 1995)."""
    if any(not 0 <= p <= 1 for p in p_values):
        raise ValueError("a p-value lies between 0 and 1")
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    passed = [k for k, i in enumerate(order, 1) if p_values[i] <= rate * k / len(p_values)]
    flagged = set(order[: max(passed, default=0)])
    return tuple(i in flagged for i in range(len(p_values)))
