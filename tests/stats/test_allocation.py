"""Allocation gives whole numbers that add up, never more than a stratum has, and says why it cannot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auditapp.stats.allocation import (
    AllocationError,
    Plan,
    allocate,
    equal,
    fixed,
    neyman,
    proportional,
    smoothed_rate,
)

POPULATION = [400, 250, 100, 50]
RATES = [0.15, 0.05, 0.02, 0.3]
populations = st.lists(st.integers(1, 300), min_size=1, max_size=12)


def test_neyman_equals_the_published_priority_value_method() -> None:
    assert neyman(POPULATION, RATES, 60, floor=2) == (36, 14, 4, 6)


def test_neyman_caps_a_stratum_and_gives_the_rest_to_the_others() -> None:
    assert neyman(POPULATION, RATES, 60, cap=20) == (20, 20, 8, 12)


def test_neyman_never_takes_more_than_a_stratum_has() -> None:
    assert neyman([1, 100], [0.5, 0.5], 3) == (1, 2)
    assert neyman([3, 100], [0.5, 0.001], 50) == (3, 47)


def test_neyman_fills_strata_without_spread_last_and_the_larger_one_first() -> None:
    assert neyman([5, 10, 20], [0.5, 0, 0], 10) == (5, 2, 3)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (Plan("neyman", 7, rates=(0.1, 0.1, 0.1, 0.1)), "fewer than the floors"),
        (Plan("neyman", 60, rates=(0.1,) * 4, cap=10), "more than the caps"),
        (Plan("neyman", 60, rates=(0.1,)), "1 rates were given for 4 strata"),
        (Plan("neyman", 60, rates=(0.1, 0.1, 0.1, 1.5)), "between 0 and 1"),
        (Plan("neyman", 60, rates=(0.1,) * 4, floor=0), "floor must be at least 1"),
        (Plan("proportional", 801), "cannot be drawn from a frame of 800"),
        (Plan("equal", -1), "cannot be drawn"),
        (Plan("proportional"), "needs a size"),
        (Plan("fixed", sizes=(1, 1, 1, 51)), "stratum 4 has 50 units; 51"),
        (Plan("fixed", sizes=(1,)), "1 sizes were given for 4 strata"),
    ],
)
def test_a_plan_that_cannot_be_met_says_why(plan: Plan, message: str) -> None:
    with pytest.raises(AllocationError, match=message):
        allocate(plan, POPULATION)


def test_proportional_rounds_by_largest_remainder() -> None:
    assert proportional([50, 30, 20], 7) == (4, 2, 1)  # quotas 3.5, 2.1, 1.4
    assert proportional([1, 1, 1], 2) == (1, 1, 0)  # equal remainders: the earlier strata


def test_equal_gives_what_small_strata_lack_to_the_others() -> None:
    assert equal([2, 100, 100], 20) == (2, 9, 9)
    assert equal([2, 100, 100], 21) == (2, 10, 9)


def test_one_size_for_every_stratum_takes_all_of_a_smaller_one() -> None:
    assert allocate(Plan("fixed", 60), POPULATION) == (60, 60, 60, 50)
    assert fixed(POPULATION, [0, 250, 1, 2]) == (0, 250, 1, 2)


def test_a_census_takes_everything() -> None:
    assert allocate(Plan("census"), POPULATION) == (400, 250, 100, 50)


@given(populations, st.data())
def test_sizes_add_up_and_fit(population: list[int], data: st.DataObject) -> None:
    n = data.draw(st.integers(0, sum(population)))
    for sizes in (proportional(population, n), equal(population, n)):
        assert sum(sizes) == n
        assert all(0 <= size <= available for size, available in zip(sizes, population, strict=True))


@given(populations, st.data())
def test_proportional_stays_within_one_of_the_quota(population: list[int], data: st.DataObject) -> None:
    n = data.draw(st.integers(0, sum(population)))
    for size, available in zip(proportional(population, n), population, strict=True):
        assert abs(size - n * available / sum(population)) < 1


@given(populations, st.data())
def test_neyman_adds_up_between_floor_and_population(population: list[int], data: st.DataObject) -> None:
    rates = data.draw(st.lists(st.floats(0, 1), min_size=len(population), max_size=len(population)))
    floors = [min(2, size) for size in population]
    n = data.draw(st.integers(sum(floors), sum(population)))
    sizes = neyman(population, rates, n)
    assert sum(sizes) == n
    assert all(low <= size <= high for low, size, high in zip(floors, sizes, population, strict=True))


def test_a_plan_survives_storage() -> None:
    for plan in (Plan("census"), Plan("neyman", 60, rates=(0.1, 0.2), cap=9), Plan("fixed", sizes=(1, 2))):
        assert Plan.from_json(plan.to_json()) == plan


def test_a_planning_rate_is_never_zero_or_one() -> None:
    assert smoothed_rate(0, 18) == 0.05
    assert smoothed_rate(18, 18) == 0.95
    with pytest.raises(AllocationError):
        smoothed_rate(3, 2)
