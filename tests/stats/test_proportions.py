"""Intervals against closed forms that R and statsmodels confirm."""

import math

import pytest

from auditapp.stats.proportions import (
    InsufficientData,
    Proportion,
    StratumCount,
    korn_graubard,
    proportion,
    stratified_proportion,
    wilson,
)


@pytest.mark.parametrize(
    ("x", "n", "low", "high"),
    [
        (0, 20, 0.0, 0.1611251581),
        (1, 20, 0.008881448801, 0.2361311934),
        (27, 165, 0.1149654117, 0.2276131186),
        (3, 3, 0.4385029682, 1.0),
    ],
)
def test_wilson_equals_r_prop_test(x: int, n: int, low: float, high: float) -> None:
    assert wilson(x / n, n) == pytest.approx((low, high), abs=1e-9)


SIZES, DRAWN = (400, 250, 100, 50), (20, 20, 10, 5)


def strata(events: tuple[int, ...], drawn: tuple[int, ...] = DRAWN) -> list[StratumCount]:
    return [StratumCount(size, n, n, x) for size, n, x in zip(SIZES, drawn, events, strict=True)]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ((3, 1, 0, 2), (0.115625, 47.42526818, 0.05227641338, 0.2365766684)),
        ((0, 0, 0, 0), (0.0, 50.69306931, 0.0, 0.07044085559)),
        ((1, 0, 0, 0), (0.025, 39.0, 0.004348675284, 0.1308348357)),
    ],
)
def test_stratified_interval_uses_the_smaller_effective_size(
    events: tuple[int, ...], expected: tuple[float, ...]
) -> None:
    found = stratified_proportion(strata(events), batch=False)
    assert isinstance(found, Proportion)
    assert (found.estimate, found.n_effective, found.low, found.high) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("sizes", [(21, 26, 5, 5), (24, 58, 55, 32, 46, 52), (52, 53, 19, 59, 10, 10), (3,)])
@pytest.mark.parametrize("batch", [True, False])
def test_weights_that_add_up_to_a_little_more_than_one_keep_a_rate_of_one(sizes: tuple[int, ...], batch: bool) -> None:
    for undecided in (0, 1):
        counted = [StratumCount(size + 2, 1 + undecided, 1, 1) for size in sizes]
        found = stratified_proportion(counted, batch=batch)
        assert isinstance(found, Proportion)
        assert (found.estimate, found.high, found.bounds[1]) == (1.0, 1.0, 1.0)
        assert found.low < 1
        assert found.bounds[0] == pytest.approx(1 / (1 + undecided))


@pytest.mark.parametrize("batch", [True, False])
def test_the_conservative_interval_is_not_the_narrower_one(batch: bool) -> None:
    """Where a large stratum without an event has few decided, p(1-p)/V alone is several times Kish's size."""
    strange = [StratumCount(138, 14, 14, 1), StratumCount(296, 4, 4, 0)]
    for counted in (strange, strata((3, 1, 0, 2)), strata((1, 0, 0, 0)), strata((1, 1, 9, 5))):
        found, careful = stratified_proportion(counted, batch=batch), korn_graubard(counted, batch=batch)
        assert isinstance(found, Proportion)
        assert isinstance(careful, Proportion)
        assert careful.estimate == found.estimate
        assert careful.low <= found.low
        assert careful.high >= found.high
        assert careful.n_effective <= found.n_effective


def test_a_whole_population_has_no_sampling_error() -> None:
    found = stratified_proportion([StratumCount(30, 30, 30, 3), StratumCount(10, 10, 10, 0)], batch=True)
    assert isinstance(found, Proportion)
    assert (found.estimate, found.low, found.high) == (0.075, 0.075, 0.075)
    assert math.isinf(found.n_effective)


def test_undecided_units_are_missing_and_bound_the_rate() -> None:
    found = stratified_proportion([StratumCount(100, 10, 8, 2), StratumCount(100, 10, 10, 0)], batch=False)
    assert isinstance(found, Proportion)
    assert found.missing == 2
    assert found.estimate == pytest.approx(0.125)
    assert found.bounds == pytest.approx((0.1, 0.2))


def test_a_stratum_never_seen_leaves_the_claim_and_is_counted() -> None:
    found = stratified_proportion([StratumCount(100, 10, 10, 1), StratumCount(300, 0, 0, 0)], batch=False)
    assert isinstance(found, Proportion)
    assert (found.estimate, found.covered, found.population) == (0.1, 100, 400)
    assert found.bounds == pytest.approx((0.025, 0.775))


def test_nothing_seen_is_no_number() -> None:
    assert isinstance(proportion(0, 0), InsufficientData)
    assert stratified_proportion([StratumCount(9, 3, 0, 0)], batch=True) == InsufficientData("no unit was decided")
    assert stratified_proportion([], batch=True) == InsufficientData("nothing was drawn")


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="events <= seen"):
        StratumCount(10, 5, 6, 1)
    with pytest.raises(ValueError, match="no interval"):
        wilson(0.5, 0)


def test_undecided_units_forbid_the_finite_population_correction() -> None:
    found = stratified_proportion([StratumCount(7, 7, 7, 0), StratumCount(39, 39, 0, 0)], batch=True)
    assert isinstance(found, Proportion)
    assert (found.estimate, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(wilson(0, 7)[1])
