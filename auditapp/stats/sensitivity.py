"""How far a rate moves if the people who graded were themselves sometimes wrong."""

import math
from dataclasses import dataclass

from auditapp.stats.proportions import InsufficientData, Proportion


@dataclass(frozen=True, slots=True)
class ErrorBand:
    """The span of the interval over grader error between 0 and `error`; `corrected` is the rate at `error`."""

    low: float
    high: float
    corrected: float
    error: float
    disagreement: float


def grader_error(disagreement: float) -> float | InsufficientData:
    """The error e of one grader with d = 2e(1-e): two graders of equal, independent error disagree that often.

    Raises ValueError outside 0 to 1; a disagreement of half or more has no such e.
    """
    if not 0 <= disagreement <= 1:
        raise ValueError(f"{disagreement} is no share")
    if disagreement >= 0.5:
        return InsufficientData("graders disagree as often as coins would: their grades say nothing")
    return (1 - math.sqrt(1 - 2 * disagreement)) / 2


def true_rate(reported: float, error: float) -> float:
    """The rate p behind a reported p(1-e) + (1-p)e, kept between 0 and 1 (Rogan & Gladen 1978); needs e < 1/2."""
    if not 0 <= error < 0.5:
        raise ValueError(f"error must lie in [0, 0.5), not {error}")
    return min(1.0, max(0.0, (reported - error) / (1 - 2 * error)))


def error_band(rate: Proportion, *, disagreement: float) -> ErrorBand | InsufficientData:
    """What the interval of a human rate becomes when graders err alike in both directions, at most as d allows.

    The correction is monotone in e, so both ends of the span are at e = 0 or at the largest e.
    """
    error = grader_error(disagreement)
    if isinstance(error, InsufficientData):
        return error
    return ErrorBand(
        low=min(rate.low, true_rate(rate.low, error)),
        high=max(rate.high, true_rate(rate.high, error)),
        corrected=true_rate(rate.estimate, error),
        error=error,
        disagreement=disagreement,
    )
