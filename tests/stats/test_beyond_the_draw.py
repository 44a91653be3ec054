"""Intervals after looking, cells lent to their kin, where variance comes from, limits and the work they take."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from auditapp.stats.acceptance import covers, held_above, held_below
from auditapp.stats.anytime import AnytimeInterval, anytime_interval, anytime_rate
from auditapp.stats.bounds import DetectedBound, detected_bound
from auditapp.stats.drift import mixture_e_value
from auditapp.stats.planning import Further, effort, more_for_half_width, more_for_upper_limit
from auditapp.stats.proportions import (
    InsufficientData,
    Proportion,
    StratumCount,
    proportion,
    stratified_proportion,
    wilson,
)
from auditapp.stats.twophase import JudgedStratum, double_sampling, lent_sizes, planned_parts, variance_parts


def rate(events: int, n: int) -> Proportion:
    found = proportion(events, n)
    assert isinstance(found, Proportion)
    return found


@pytest.mark.parametrize(("events", "n"), [(0, 30), (3, 40), (20, 40), (40, 40), (1, 2)])
def test_the_ends_are_where_the_e_value_reaches_twenty(events: int, n: int) -> None:
    low, high = anytime_interval(events / n, n)
    for end in (low, high):
        if 0 < end < 1:
            assert mixture_e_value(events, n - events, expected=end) == pytest.approx(20, rel=1e-6)
    assert low <= events / n <= high
    plain = wilson(events / n, n)
    assert low <= plain[0] + 1e-12
    assert high >= plain[1] - 1e-12  # looking has its price


def test_an_anytime_interval_by_another_route() -> None:
    """12 of 60, against the beta-binomial mixture written out with gamma functions."""

    def excess(p: float) -> float:
        log = sum(math.lgamma(x) for x in (12.5, 48.5)) - math.lgamma(61) - math.log(math.pi)
        return log - 12 * math.log(p) - 48 * math.log(1 - p) - math.log(20)

    expected = brentq(excess, 1e-6, 0.2), brentq(excess, 0.2, 1 - 1e-6)
    assert anytime_interval(0.2, 60) == pytest.approx(expected, abs=1e-9)


def test_stopping_whenever_it_looks_good_still_covers() -> None:
    """Units one by one, stopped at the first look at which a plain interval would exclude the truth."""
    random = np.random.Generator(np.random.PCG64(7))
    plain = sure = 0
    for _ in range(400):
        events = np.cumsum(random.random(300) < 0.1)
        stop = next((n for n in range(10, 301) if not _holds(wilson(events[n - 1] / n, n), 0.1)), 300)
        share = float(events[stop - 1]) / stop
        plain += _holds(wilson(share, stop), 0.1)
        sure += _holds(anytime_interval(share, stop), 0.1)
    assert plain / 400 < 0.85
    assert sure / 400 >= 0.95


def _holds(ends: tuple[float, float], truth: float) -> bool:
    return ends[0] <= truth <= ends[1]


def test_an_anytime_rate_rests_on_the_effective_size() -> None:
    strata = [StratumCount(1000, 30, 30, 3), StratumCount(100, 30, 30, 12)]
    found = stratified_proportion(strata, batch=False)
    assert isinstance(found, Proportion)
    sure = anytime_rate(found)
    assert isinstance(sure, AnytimeInterval)
    assert (sure.low, sure.high) == anytime_interval(found.estimate, found.n_effective)
    whole = stratified_proportion([StratumCount(10, 10, 10, 1)], batch=True)
    assert isinstance(whole, Proportion)
    assert isinstance(anytime_rate(whole), InsufficientData)
    with pytest.raises(ValueError, match="no interval"):
        anytime_interval(0.5, 0)


# --- cells that nobody looked at


def stratum(*answers: StratumCount, kin: tuple[object, ...] = ()) -> JudgedStratum:
    return JudgedStratum(sum(answer.size for answer in answers), answers, (), kin)  # type: ignore[arg-type]


FULL = stratum(StratumCount(80, 10, 10, 1), StratumCount(20, 10, 10, 8), kin=("here", "pass"))
HALF = stratum(StratumCount(60, 12, 12, 3), StratumCount(40, 0, 0, 0), kin=("here", "pass"))
FAR = stratum(StratumCount(50, 0, 0, 0), StratumCount(50, 5, 5, 0), kin=("there", "pass"))


def test_an_answer_nobody_saw_is_taken_to_be_like_that_of_its_nearest_kin() -> None:
    found = double_sampling([FULL, HALF])
    assert isinstance(found, Proportion)
    assert found.estimate == pytest.approx((80 * 0.1 + 20 * 0.8 + 60 * 0.25 + 40 * 0.8) / 200)
    assert found.covered == found.population == 200
    assert "40 units that people saw none of" in found.method
    assert found.bounds[1] == pytest.approx((80 * 0.1 + 20 * 0.8 + 60 * 0.25 + 40) / 200)


def test_kin_further_away_lend_only_where_none_is_near() -> None:
    found = double_sampling([FULL, HALF, FAR])
    assert isinstance(found, Proportion)
    near = 80 * 0.1 + 20 * 0.8 + 60 * 0.25 + 40 * 0.8
    far = 50 * (80 * 0.1 + 60 * 0.25) / 140
    assert found.estimate == pytest.approx((near + far) / 300)


def test_without_kin_an_answer_nobody_saw_leaves_the_claim() -> None:
    alone = double_sampling([stratum(*FULL.answers), stratum(*HALF.answers)])
    assert isinstance(alone, Proportion)
    assert (alone.covered, alone.population) == (160, 200)
    assert "saw none of" not in alone.method


def test_lent_sizes_are_whole_and_sum_to_the_population() -> None:
    assert lent_sizes([FULL, HALF]) == [[80, 60], [60, 0]]
    assert lent_sizes([FULL, stratum(*HALF.answers)]) == [[80, 20], [60, 40]]
    part = JudgedStratum(100, (StratumCount(1, 1, 1, 0), StratumCount(2, 2, 2, 1)))
    assert lent_sizes([part]) == [[33, 67]]


def test_variance_is_split_over_its_sources() -> None:
    rows = variance_parts([FULL, HALF])
    assert math.fsum(row.share for row in rows) == pytest.approx(1)
    assert [row.share for row in rows] == sorted((row.share for row in rows), reverse=True)
    assert (rows[0].stratum, rows[0].answer, rows[0].n) in [(1, 0, 12), (0, 1, 10), (0, 0, 10)]
    certain = variance_parts([stratum(StratumCount(100, 1, 1, 0))])
    assert certain[0].share == 1  # one grade without an event is not certainty
    planned = planned_parts([FULL, HALF])
    assert [(row.stratum, row.answer) for row in planned][:2] == [(0, 0), (1, 0)]
    assert variance_parts([stratum(StratumCount(10, 0, 0, 0))]) == ()


def test_names_are_one_for_each_answer() -> None:
    with pytest.raises(ValueError, match="names"):
        JudgedStratum(10, (StratumCount(10, 0, 0, 0),), ("a", "b"))


# --- limits


def test_a_limit_is_met_only_by_the_whole_interval() -> None:
    assert [held_below(*ends, 0.1).verdict for ends in ((0.01, 0.1), (0.05, 0.2), (0.1, 0.2), (0.11, 0.2))] == [
        *("met", "not enough data", "not enough data", "not met")
    ]
    assert [held_above(*ends, 0.6).verdict for ends in ((0.6, 0.9), (0.5, 0.9), (0.5, 0.6), (0.1, 0.59))] == [
        *("met", "not enough data", "not enough data", "not met")
    ]
    assert [covers(share, 0.9).verdict for share in (None, 0.9, 0.89)] == ["not enough data", "met", "not enough data"]


def test_further_grades_make_the_interval_as_narrow_as_was_asked() -> None:
    found = rate(12, 100)
    more = more_for_half_width(found, (found.high - found.low) / 4, graded=100)
    assert isinstance(more, Further)
    low, high = wilson(0.12, 100 + more.grades)
    fewer = wilson(0.12, 99 + more.grades)
    assert high - low <= (found.high - found.low) / 2 < fewer[1] - fewer[0]
    assert isinstance(more_for_half_width(found, 0.0, graded=100), InsufficientData)


def test_further_grades_bring_the_upper_end_below_a_limit_or_never_will() -> None:
    found = rate(4, 100)
    more = more_for_upper_limit(found, 0.07)
    assert isinstance(more, Further)
    assert wilson(0.04, 100 + more.grades)[1] <= 0.07 < wilson(0.04, 99 + more.grades)[1]
    assert more_for_upper_limit(found, 0.5) == Further(0)
    assert isinstance(more_for_upper_limit(found, 0.04), InsufficientData)
    assert isinstance(more_for_upper_limit(found, math.nextafter(0.04, 1)), Further | InsufficientData)


def of_batch(events: int, n: int, size: int, *, undecided: int = 0) -> Proportion:
    found = stratified_proportion([StratumCount(size, n + undecided, n, events)], batch=True)
    assert isinstance(found, Proportion)
    return found


def test_of_a_finite_batch_no_more_are_needed_than_are_left() -> None:
    """A rate just below its limit asks for tens of thousands of an endless population; 450 passes have 350 left."""
    found = of_batch(19, 100, 450)
    endless = more_for_upper_limit(found, 0.191)
    assert isinstance(endless, Further)
    assert endless.grades > 90_000
    assert more_for_upper_limit(found, 0.191, batch=True) == Further(350, 350)
    halved = more_for_half_width(found, (found.high - found.low) / 4, graded=100, batch=True)
    assert isinstance(halved, Further)
    assert halved.left == 350
    assert 0 < halved.grades < 350


@pytest.mark.parametrize("limit", [0.2, 0.22, 0.25, 0.26])
def test_what_a_batch_needs_is_what_its_interval_then_says(limit: float) -> None:
    more = more_for_upper_limit(of_batch(95, 500, 2000), limit, batch=True)
    assert isinstance(more, Further)

    def high(n: int) -> float:
        return wilson(0.19, n / (1 - n / 2000) * 499 / 500)[1]  # V has n - 1 where the size has n

    assert high(500 + more.grades) <= limit
    assert more.grades == 0 or high(500 + more.grades - 2) > limit


@pytest.mark.parametrize("events", [0, 1, 19, 50, 95, 100])
@pytest.mark.parametrize("size", [101, 150, 450, 5000])
def test_a_batch_is_asked_for_the_fewest_that_make_its_interval_as_narrow(events: int, size: int) -> None:
    found = of_batch(events, 100, size)
    worth = 100 / found.n_effective / (1 - 100 / size)  # grades for one of the effective size

    def width(n: int) -> float:
        low, high = wilson(found.estimate, n / worth / (1 - n / size)) if n < size else (0.0, 0.0)
        return high - low

    for share in (0.9, 0.5, 0.1):
        wanted = share * (found.high - found.low)
        more = more_for_half_width(found, wanted / 2, graded=100, batch=True)
        least = next(n for n in range(100, size + 1) if width(n) <= wanted * (1 + 1e-12))
        assert more == Further(least - 100, size - 100)


def test_undecided_units_are_to_be_settled_where_only_the_whole_batch_is_enough() -> None:
    found = of_batch(19, 100, 450, undecided=2)
    assert more_for_upper_limit(found, 0.191, batch=True) == Further(348, 348, 2)
    few = more_for_upper_limit(found, 0.26, batch=True)
    assert isinstance(few, Further)
    assert (few.left, few.undecided) == (348, 0)
    assert few.grades < 348


def test_of_an_extended_round_the_need_is_that_of_the_interval_it_is_held_to() -> None:
    """Wilson's lies below the limit already; the one that holds whenever one stopped does not."""
    found = rate(4, 100)
    limit = (found.high + anytime_interval(0.04, 100)[1]) / 2
    assert more_for_upper_limit(found, limit) == Further(0)
    more = more_for_upper_limit(found, limit, anytime=True)
    assert isinstance(more, Further)
    assert anytime_interval(0.04, 100 + more.grades)[1] <= limit < anytime_interval(0.04, 99 + more.grades)[1]


def test_hours_are_unknown_where_no_grade_was_timed() -> None:
    assert effort(10, None).hours is None
    assert effort(10, 120).hours == pytest.approx(20 / 60)


def test_a_detector_that_misses_makes_the_bound_higher() -> None:
    """4.9 % at a sensitivity that is at least .6 is 8.1 %."""
    found = detected_bound(0.0487, Proportion(0.8, 0.6, 0.9, 20, 20.0, "Wilson"))
    assert isinstance(found, DetectedBound)
    assert found.upper == pytest.approx(0.0812, abs=1e-4)
    assert detected_bound(0.5, Proportion(0.5, 0.2, 0.8, 4, 4.0, "Wilson")).upper == 1.0  # type: ignore[union-attr]
    assert isinstance(detected_bound(0.05, rate(0, 5)), InsufficientData)
    with pytest.raises(ValueError, match="no share"):
        detected_bound(1.5, rate(3, 5))
