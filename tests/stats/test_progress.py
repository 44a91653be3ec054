"""The pace of something: how much a minute, and how long it will still take."""

from datetime import UTC, datetime, timedelta

from auditapp.stats.progress import Pace, pace

START = datetime(2026, 1, 1, tzinfo=UTC)


def after(minutes: float, done: int, *, before: int = 0) -> Pace:
    return pace(done=done, planned=60, started=START, now=START + timedelta(minutes=minutes), before=before)


def test_the_speed_is_the_mean_since_the_start() -> None:
    assert after(2, 20) == Pace(20, 60, 10.0, 240.0)


def test_what_was_done_before_the_start_is_no_speed() -> None:
    assert after(1, 12, before=12) == Pace(12, 60, None, None)
    assert after(2, 36, before=12) == Pace(36, 60, 12.0, 120.0)


def test_before_anything_is_done_nothing_is_said() -> None:
    assert after(2, 0) == Pace(0, 60, None, None)
    assert after(0, 5) == Pace(5, 60, None, None)
