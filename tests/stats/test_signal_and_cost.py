"""Pass rates, their correction by people, advantage by clusters, domains by tasks, and what work costs."""

import itertools
import math
import random
import statistics

import pytest

from auditapp.stats.advantages import GroupCount, WrongPush, wrong_push, wrong_push_for_new_tasks
from auditapp.stats.attempts import BetaBinomial, TaskMean, fit_beta_binomial, informative_under, mean_pass_at_k
from auditapp.stats.clusters import ClusterUnit, clustered_proportion
from auditapp.stats.costs import (
    Amount,
    AmountEstimate,
    amount_per_result,
    mean_amount,
    median_amount,
    undominated,
)
from auditapp.stats.domains import clustered_domain_rate
from auditapp.stats.pairs import unpaired_difference
from auditapp.stats.passrates import (
    GradedCount,
    VerdictShares,
    corrected_passes,
    informative_at,
    informative_bounds,
    part_of,
    possible_passes,
    shape_of,
    share_of_units,
    verdict_shares,
)
from auditapp.stats.proportions import InsufficientData, Proportion, proportion


def close(expected: object) -> object:
    return pytest.approx(expected, rel=1e-9, abs=1e-12)


# --- parts and shape


@pytest.mark.parametrize(
    ("n", "c", "part"),
    [
        (16, 0, "expansion"),
        (16, 16, "saturated"),
        (10, 1, "below"),
        (10, 2, "productive"),
        (10, 8, "productive"),
        (10, 9, "above"),
        (1, 1, "saturated"),
    ],
)
def test_parts_of_the_range_exclude_each_other(n: int, c: int, part: str) -> None:
    assert part_of(n, c) == part


def test_a_count_that_is_none_is_refused() -> None:
    for n, c in ((0, 0), (3, 4), (3, -1)):
        with pytest.raises(ValueError):
            part_of(n, c)


@pytest.mark.parametrize(
    ("a", "b", "shape"),
    [(0.5, 0.6, "two heaps"), (2, 3, "one heap"), (3, 0.5, "leaning to pass"), (0.5, 3, "leaning to fail")],
)
def test_two_heaps_are_a_beta_that_rises_at_both_ends(a: float, b: float, shape: str) -> None:
    assert shape_of(BetaBinomial(a, b, 10)) == shape


def test_the_fit_of_the_tau_counts_has_two_heaps_and_its_published_figures() -> None:
    """spec: a = .641808, b = .857521 and I_16 = .811333 from 50 tasks of four attempts."""
    fitted = BetaBinomial(0.641808, 0.857521, 50)
    assert shape_of(fitted) == "two heaps"
    assert [round(informative_under(fitted, group), 5) for group in (4, 8, 16)] == [0.53058, 0.69948, 0.81133]


def test_units_of_one_task_count_together() -> None:
    alone = share_of_units(range(20), [True] * 5 + [False] * 15)
    shared = share_of_units([number // 4 for number in range(20)], [True] * 5 + [False] * 15)
    assert isinstance(alone, Proportion)
    assert isinstance(shared, Proportion)
    assert alone.estimate == shared.estimate == 0.25
    assert shared.n_effective < alone.n_effective


def test_means_of_one_task_by_two_subjects_move_together() -> None:
    counts = [(4, 0), (4, 1), (4, 3), (4, 4), (4, 2), (4, 2)]
    apart, together = mean_pass_at_k(counts, 2), mean_pass_at_k(counts, 2, tasks=[0, 0, 1, 1, 2, 2])
    assert isinstance(apart, TaskMean)
    assert isinstance(together, TaskMean)
    assert apart.estimate == close(together.estimate)
    assert (apart.tasks, together.tasks) == (6, 3)
    assert apart.se is not None
    assert together.se is not None
    assert together.se > apart.se
    values = [0, 0.5, 1, 1, 1 - 1 / 6, 1 - 1 / 6]
    assert apart.se == close(statistics.stdev(values) / math.sqrt(6))


# --- corrected by people


def test_the_expected_passes_are_those_that_people_would_give() -> None:
    count = GradedCount(16, 8, right_passes=3, wrong_passes=1, right_fails=1, wrong_fails=1)
    shares = verdict_shares([count])
    assert shares == VerdictShares(0.75, 0.5)
    assert corrected_passes(count, shares) == 8 * 0.75 + 8 * 0.5


def test_a_verdict_that_nobody_graded_leaves_no_correction() -> None:
    half = GradedCount(16, 8, right_passes=2)
    assert corrected_passes(half, verdict_shares([half])) is None
    whole = GradedCount(16, 16, right_passes=2)
    assert corrected_passes(whole, verdict_shares([whole])) == 16


def test_grades_of_one_subject_speak_of_the_verifier_of_the_task() -> None:
    graded, other = GradedCount(4, 4, 1, 1), GradedCount(4, 4)
    assert corrected_passes(other, verdict_shares([graded, other])) == 2


def test_bounds_hold_the_truth_whatever_the_ungraded_attempts_are() -> None:
    count = GradedCount(6, 3, right_passes=1, wrong_passes=1, right_fails=1, wrong_fails=0)
    least, most = possible_passes(count)
    assert (least, most) == (1, 4)
    bounds = informative_bounds([count], 8)
    assert not isinstance(bounds, InsufficientData)
    for passes in range(least, most + 1):
        assert bounds[0] <= informative_at(passes / 6, 8) <= bounds[1]
    assert bounds[0] == informative_at(1 / 6, 8)
    assert bounds[1] == informative_at(0.5, 8)


def test_without_a_grade_nearly_everything_is_possible() -> None:
    assert informative_bounds([GradedCount(4, 2)], 2) == (0.0, 0.5)
    assert isinstance(informative_bounds([], 2), InsufficientData)


def test_more_decided_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError):
        GradedCount(4, 1, right_passes=1, wrong_passes=1)
    with pytest.raises(ValueError):
        GradedCount(4, 4, wrong_fails=1)


def test_a_fit_takes_expected_counts() -> None:
    whole = fit_beta_binomial([(4, 0), (4, 2), (4, 4), (4, 1)])
    near = fit_beta_binomial([(4, 0.0), (4, 2.001), (4, 4.0), (4, 1.0)])
    assert isinstance(whole, BetaBinomial)
    assert isinstance(near, BetaBinomial)
    assert (near.a, near.b) == pytest.approx((whole.a, whole.b), rel=1e-2)


# --- advantage


def test_the_share_with_an_interval_is_the_share_of_the_plain_estimator() -> None:
    counts = [GroupCount(16, 4, 2, 1), GroupCount(16, 10, 1, 0), GroupCount(16, 16, 3, 0), GroupCount(16, 0, 0)]
    for convention in ("population", "sample", "none"):
        plain = wrong_push(counts, convention=convention)
        found = wrong_push_for_new_tasks("abcd", counts, convention=convention)
        assert isinstance(plain, WrongPush)
        assert isinstance(found, Proportion)
        assert found.estimate == close(plain.share)
        assert found.bounds == (plain.low, plain.high)
        assert found.missing == 1
        assert found.low < found.estimate < found.high


def test_a_saturated_task_pushes_nothing_whatever_its_passes_are() -> None:
    counts = [GroupCount(16, 8, 0), GroupCount(16, 8, 0), GroupCount(16, 16, 16)]
    found = wrong_push_for_new_tasks("abc", counts)
    assert isinstance(found, Proportion)
    assert found.estimate == 0


# --- domains by tasks


def test_a_domain_from_counts_is_the_clustered_rate_of_its_units() -> None:
    rows = [(0, 2.0, 3, 1), (0, 1.0, 2, 2), (1, 2.0, 4, 0), (2, 1.0, 1, 1), (3, 5.0, 0, 0)]
    units = [
        ClusterUnit(task, weight, number < events)
        for task, weight, members, events in rows
        for number in range(members)
    ]
    expected = clustered_proportion(units)
    found = clustered_domain_rate(*zip(*rows, strict=True))
    assert isinstance(expected, Proportion)
    assert isinstance(found, Proportion)
    for name in ("estimate", "low", "high", "n", "n_effective"):
        assert getattr(found, name) == close(getattr(expected, name))


def test_a_domain_without_an_event_has_an_upper_end_by_tasks() -> None:
    found = clustered_domain_rate([0, 1, 2], [1, 1, 1], [10, 10, 10], [0, 0, 0])
    plain = proportion(0, 30)
    assert isinstance(found, Proportion)
    assert isinstance(plain, Proportion)
    assert (found.estimate, found.low) == (0, 0)
    assert found.high > plain.high


def test_one_task_or_none_gives_no_rate_for_new_tasks() -> None:
    assert isinstance(clustered_domain_rate([0, 1], [1, 1], [3, 0], [1, 0]), InsufficientData)
    assert isinstance(clustered_domain_rate([0], [1], [0], [0]), InsufficientData)
    with pytest.raises(ValueError):
        clustered_domain_rate([0], [1], [1], [2])


def test_square_and_add_gives_the_interval_of_newcombe() -> None:
    """Newcombe 1998, Statistics in Medicine 17:873, example (a): 56/70 against 48/80 gives .0524 to .3339."""
    first, second = proportion(56, 70), proportion(48, 80)
    assert isinstance(first, Proportion)
    assert isinstance(second, Proportion)
    found = unpaired_difference(first, second)
    assert (round(found.low, 4), round(found.high, 4)) == (0.0524, 0.3339)
    assert found.difference == close(0.2)
    back = unpaired_difference(second, first)
    assert (back.low, back.high, back.p_value) == close((-found.high, -found.low, found.p_value))


# --- what work costs


def amounts(values: list[float], *, weight: float = 1.0, per_task: int = 1) -> list[Amount]:
    return [Amount(number // per_task, weight, value) for number, value in enumerate(values)]


def known(found: object) -> AmountEstimate:
    assert isinstance(found, AmountEstimate)
    return found


def test_the_mean_of_separate_tasks_is_that_of_a_t_interval() -> None:
    values = [3.0, 5.0, 8.0, 13.0, 21.0]
    found = known(mean_amount(amounts(values)))
    half = 2.7764451051977987 * statistics.stdev(values) / math.sqrt(5)
    assert (found.estimate, found.low, found.high) == close((10.0, max(0.0, 10 - half), 10 + half))


def test_attempts_at_one_task_count_together() -> None:
    values = [1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 2.0, 2.0, 2.0]
    alone, shared = known(mean_amount(amounts(values))), known(mean_amount(amounts(values, per_task=3)))
    assert alone.estimate == shared.estimate
    assert shared.high is not None
    assert alone.high is not None
    assert shared.high > alone.high


def test_a_weight_stands_for_so_many_trajectories() -> None:
    light = [Amount(0, 1, 10.0), Amount(1, 3, 20.0)]
    assert known(mean_amount(light)).estimate == 17.5
    assert known(median_amount(light)).estimate == 20
    assert known(median_amount([Amount(0, 1, 10.0), Amount(1, 1, 20.0)])).estimate == 15


def test_the_total_of_failed_attempts_is_paid_for_by_results() -> None:
    found = known(amount_per_result([Amount(0, 1, 100.0, 1), Amount(0, 1, 300.0, 0), Amount(1, 1, 200.0, 1)]))
    assert found.estimate == 300
    assert isinstance(amount_per_result([Amount(0, 1, 5.0, 0)]), InsufficientData)


def test_nothing_known_is_no_zero_and_one_task_has_no_interval() -> None:
    assert isinstance(mean_amount([]), InsufficientData)
    assert isinstance(median_amount([]), InsufficientData)
    assert amount_per_result([]) == InsufficientData("no amount is known")
    one = known(median_amount([Amount(0, 1, 5.0), Amount(0, 1, 7.0)]))
    assert (one.estimate, one.low, one.high) == (6, None, None)


def test_intervals_of_median_and_mean_hold_the_truth() -> None:
    """30 tasks of 4 attempts, log-normal by task and attempt: 95 % intervals cover in 91.5 to 98.5 % of 400 draws."""
    draws, hits = 400, [0, 0]
    truth = math.exp(1.0), math.exp(1.0 + (0.6**2 + 0.5**2) / 2)
    rng = random.Random(7)
    for _ in range(draws):
        made = [
            Amount(task, 1.0, math.exp(center + rng.gauss(0, 0.5)))
            for task in range(30)
            for center in [1.0 + rng.gauss(0, 0.6)]
            for _ in range(4)
        ]
        for place, found in enumerate((known(median_amount(made)), known(mean_amount(made)))):
            assert found.low is not None
            assert found.high is not None
            hits[place] += found.low <= truth[place] <= found.high
    assert 0.93 <= hits[0] / draws <= 0.985
    assert 0.915 <= hits[1] / draws <= 0.985


def test_the_front_is_who_is_beaten_by_nobody() -> None:
    points = [(1.0, 0.5), (2.0, 0.5), (2.0, 0.9), (3.0, 0.8), (1.0, 0.5)]
    assert undominated(points) == (True, False, True, False, True)
    for order in itertools.permutations(points[:4]):
        assert sum(undominated(order)) == 2
