"""Intervals that hold however often one looked, and whenever one stopped."""

import math
from dataclasses import dataclass

from scipy.optimize import brentq
from scipy.special import betaln

from auditapp.stats.drift import ALARM
from auditapp.stats.proportions import InsufficientData, Proportion

EDGE = 1e-12


@dataclass(frozen=True, slots=True)
class AnytimeInterval:
    """A rate with the rates that the e-value does not rule out; `n` is the size it was computed on."""

    estimate: float
    low: float
    high: float
    n: float
    method: str
    confidence: float = 0.95


def anytime_interval(rate: float, n: float, *, alarm: float = ALARM) -> tuple[float, float]:
    """All p0 whose mixture e-value B(a+s,b+f)/(B(a,b) p0^s (1-p0)^f), a = b = 1/2, is below `alarm`; s = n x rate.

    Under the true rate the e-value passes 1/alpha with chance at most alpha at any time (Ville 1939), so the set holds
    it at all times at once (Robbins 1970; Howard et al. 2021). Exact for one sequence of independent units; n and s may
    be fractions, as effective sizes are. Raises ValueError unless n > 0 and 0 <= rate <= 1.
    """
    if not (n > 0 and 0 <= rate <= 1):
        raise ValueError(f"no interval for a rate of {rate} among {n}")
    events, others = n * rate, n * (1 - rate)
    mixture = float(betaln(0.5 + events, 0.5 + others) - betaln(0.5, 0.5)) - math.log(alarm)

    def excess(p0: float) -> float:
        return mixture - events * math.log(p0) - others * math.log1p(-p0)

    middle = min(1 - EDGE, max(EDGE, rate))
    low = 0.0 if excess(EDGE) < 0 else brentq(excess, EDGE, middle, xtol=1e-13)
    high = 1.0 if excess(1 - EDGE) < 0 else brentq(excess, middle, 1 - EDGE, xtol=1e-13)
    return float(low), float(high)


def anytime_rate(found: Proportion) -> AnytimeInterval | InsufficientData:
    """The anytime-valid interval of an estimate, on its effective size: exact where one stratum was drawn from."""
    if math.isinf(found.n_effective):
        return InsufficientData("the whole population was decided: there is nothing to stop early")
    low, high = anytime_interval(found.estimate, found.n_effective)
    method = "mixture e-value inverted, on the effective size; valid whenever one stopped"
    return AnytimeInterval(found.estimate, low, high, found.n_effective, method)
