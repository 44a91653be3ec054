"""How fast something goes and how long it will take."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median


@dataclass(frozen=True, slots=True)
class Pace:
    """`per_minute` and `seconds_left` are None where too little is done to say."""

    done: int
    planned: int
    per_minute: float | None
    seconds_left: float | None


def pace(*, done: int, planned: int, started: datetime, now: datetime, before: int = 0) -> Pace:
    """The mean speed since the start and the time left at that speed; what was done `before` it is no speed."""
    seconds, since = (now - started).total_seconds(), done - before
    if since <= 0 or seconds <= 0:
        return Pace(done, planned, None, None)
    return Pace(done, planned, 60 * since / seconds, seconds * (planned - done) / since)


def median_seconds(seconds: Sequence[float]) -> float | None:
    """The middle of the times an item took; None where none was taken."""
    return median(seconds) if seconds else None
