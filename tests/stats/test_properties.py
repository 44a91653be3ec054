"""What every estimator must keep whatever the counts are: order, symmetry, bounds, and never a NaN."""

import math
import random
import statistics
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import fisher_exact

from auditapp.stats.advantages import GroupCount, WrongPush, group_advantages, wrong_push
from auditapp.stats.agreement import (
    Kappa,
    ac1,
    accuracy,
    bootstrap_by_task,
    fleiss_kappa,
    kappa,
    kappa_value,
    krippendorff_alpha,
)
from auditapp.stats.attempts import informative, informative_fraction, mean_pass_at_k, pass_at_k, pass_hat_k
from auditapp.stats.bounds import (
    ZeroEventBound,
    clopper_pearson,
    zero_events,
    zero_events_by_task,
    zero_events_finite,
    zero_events_stratified,
)
from auditapp.stats.clusters import ClusterUnit, clustered_proportion
from auditapp.stats.consistency import pairwise_flip, self_consistency
from auditapp.stats.domains import DomainCount, domain_rate
from auditapp.stats.drift import CusumPlan, DriftState, benjamini_hochberg, cusum, drift, plan_cusum
from auditapp.stats.pairs import (
    PairedDifference,
    TwoProportions,
    bin_of,
    mcnemar_mid_p,
    paired_proportions,
    paired_task_means,
    probability_greater,
    two_proportions,
)
from auditapp.stats.planning import (
    items_for_difference,
    reviews_for_half_width,
    reviews_for_upper_limit,
    reviews_for_zero_bound,
)
from auditapp.stats.proportions import (
    InsufficientData,
    Proportion,
    StratumCount,
    korn_graubard,
    stratified_proportion,
    wilson,
)
from auditapp.stats.sensitivity import ErrorBand, error_band, grader_error, true_rate
from auditapp.stats.twophase import JudgedStratum, double_sampling

quick = settings(max_examples=60, deadline=None)


@st.composite
def stratum_counts(draw: st.DrawFn, most: int = 40) -> StratumCount:
    size = draw(st.integers(1, most))
    drawn = draw(st.integers(0, size))
    seen = draw(st.integers(0, drawn))
    return StratumCount(size, drawn, seen, draw(st.integers(0, seen)))


@st.composite
def judged_strata(draw: st.DrawFn) -> JudgedStratum:
    answers = tuple(draw(st.lists(stratum_counts(), min_size=0, max_size=3)))
    return JudgedStratum(sum(answer.size for answer in answers) + draw(st.integers(1, 30)), answers)


@st.composite
def domain_counts(draw: st.DrawFn) -> DomainCount:
    size = draw(st.integers(1, 40))
    n = draw(st.integers(0, size))
    members = draw(st.integers(0, n))
    return DomainCount(size, n, members, draw(st.integers(0, members)), draw(st.integers(0, size - n)))


units = st.builds(ClusterUnit, task=st.integers(0, 6), weight=st.floats(0.5, 20), event=st.booleans())
tables = st.lists(st.lists(st.integers(0, 30), min_size=2, max_size=2), min_size=2, max_size=2)


def holds(found: Proportion | InsufficientData) -> None:
    """An estimate lies in its interval, all within 0 and 1, and no figure is NaN."""
    if isinstance(found, InsufficientData):
        assert found.reason
        return
    figures = (found.estimate, found.low, found.high, *found.bounds)
    assert all(-1e-12 <= figure <= 1 + 1e-12 for figure in figures), found
    assert found.low <= found.estimate + 1e-12
    assert found.estimate <= found.high + 1e-12
    assert found.n_effective > 0


@quick
@given(st.lists(stratum_counts(), max_size=5), st.booleans())
def test_stratified_rates_never_leave_their_interval(strata: list[StratumCount], batch: bool) -> None:
    holds(stratified_proportion(strata, batch=batch))
    holds(korn_graubard(strata, batch=batch))


@quick
@given(st.lists(judged_strata(), max_size=4))
def test_double_sampling_holds_for_any_counts(strata: list[JudgedStratum]) -> None:
    holds(double_sampling(strata))


@quick
@given(st.lists(domain_counts(), max_size=4))
def test_domain_rates_hold_for_any_counts(strata: list[DomainCount]) -> None:
    found = domain_rate(strata)
    holds(found)
    if isinstance(found, Proportion) and not found.missing:
        assert found.bounds == pytest.approx((found.estimate, found.estimate))


@quick
@given(st.lists(units, max_size=20), st.integers(0, 5))
def test_clustered_rates_hold_for_any_units(found: list[ClusterUnit], missing: int) -> None:
    holds(clustered_proportion(found, missing=missing))


@quick
@given(st.lists(units, min_size=4, max_size=20))
def test_weights_and_names_of_tasks_do_not_matter_to_the_rate(found: list[ClusterUnit]) -> None:
    renamed = [ClusterUnit(f"task {unit.task}", unit.weight * 7, unit.event) for unit in found]
    one, other = clustered_proportion(found), clustered_proportion(renamed)
    if isinstance(one, Proportion) and isinstance(other, Proportion):
        assert (one.estimate, one.low, one.high) == pytest.approx((other.estimate, other.low, other.high), abs=1e-9)


def test_attempts_that_agree_count_as_one_and_those_that_do_not_count_as_many() -> None:
    alike = [ClusterUnit(task, 1, task < 5) for task in range(20) for _ in range(8)]
    mixed = [ClusterUnit(task, 1, attempt < 1 + task % 2 * 2) for task in range(20) for attempt in range(8)]
    one, other = clustered_proportion(alike), clustered_proportion(mixed)
    assert isinstance(one, Proportion)
    assert isinstance(other, Proportion)
    assert one.estimate == other.estimate == 0.25
    assert one.n_effective < 20
    assert one.high - one.low > 1.5 * (other.high - other.low)


def test_no_event_in_few_tasks_is_a_bound_on_tasks_and_not_on_attempts() -> None:
    seen = [task for task in range(20) for _ in range(3)]
    by_task, naive = zero_events_by_task(seen), zero_events(60)
    assert isinstance(by_task, ZeroEventBound)
    assert isinstance(naive, ZeroEventBound)
    assert by_task.n == 20
    assert by_task.upper > 2.5 * naive.upper
    found = clustered_proportion([ClusterUnit(task, 1, False) for task in seen])
    assert isinstance(found, Proportion)
    assert found.high > by_task.upper


@quick
@given(st.integers(1, 200))
def test_more_reviews_without_an_event_lower_the_bound(n: int) -> None:
    fewer, more = zero_events(n), zero_events(n + 1)
    assert isinstance(fewer, ZeroEventBound)
    assert isinstance(more, ZeroEventBound)
    assert more.upper < fewer.upper
    assert fewer.upper <= clopper_pearson(0, n)[1]


@quick
@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 60)), min_size=1, max_size=6))
def test_the_worst_case_over_strata_is_never_better_than_one_sample(pairs: list[tuple[int, int]]) -> None:
    strata = [StratumCount(size, min(n, size), min(n, size), 0) for size, n in pairs]
    found = zero_events_stratified(strata)
    total = sum(stratum.seen for stratum in strata)
    if total == 0:
        assert isinstance(found, InsufficientData)
        return
    single = zero_events(total)
    assert isinstance(found, ZeroEventBound)
    assert isinstance(single, ZeroEventBound)
    assert single.upper - 1e-9 <= found.upper <= 1


def test_proportional_reviews_reach_the_bound_of_one_sample() -> None:
    found = zero_events_stratified([StratumCount(400, 40, 40, 0), StratumCount(100, 10, 10, 0)])
    assert isinstance(found, ZeroEventBound)
    assert found.upper == pytest.approx(1 - 0.05 ** (1 / 50))


def test_bounds_of_nothing_everything_and_impossible_draws() -> None:
    assert isinstance(zero_events(0), InsufficientData)
    assert isinstance(zero_events_finite(9, 0), InsufficientData)
    assert isinstance(zero_events_by_task([]), InsufficientData)
    assert zero_events_finite(9, 9).upper == 0  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="cannot be drawn"):
        zero_events_finite(5, 6)
    with pytest.raises(ValueError, match="an event was seen"):
        zero_events_stratified([StratumCount(9, 3, 3, 1)])
    with pytest.raises(ValueError, match="no interval"):
        clopper_pearson(4, 3)


def test_an_answer_people_never_saw_leaves_the_claim_and_widens_the_bounds() -> None:
    answers = (StratumCount(60, 20, 20, 2), StratumCount(30, 10, 10, 8), StratumCount(10, 0, 0, 0))
    found = double_sampling([JudgedStratum(100, answers)])
    assert isinstance(found, Proportion)
    assert (found.covered, found.population) == (90, 100)
    assert found.estimate == pytest.approx((60 * 0.1 + 30 * 0.8) / 90)
    assert found.bounds == pytest.approx((0.3, 0.4))


def test_a_judge_that_says_nothing_neither_helps_nor_harms() -> None:
    useless = (StratumCount(500, 50, 50, 10), StratumCount(500, 50, 50, 10))
    useful = (StratumCount(800, 80, 80, 0), StratumCount(200, 20, 20, 20))
    same, better = double_sampling([JudgedStratum(1000, useless)]), double_sampling([JudgedStratum(1000, useful)])
    assert isinstance(same, Proportion)
    assert isinstance(better, Proportion)
    assert same.estimate == better.estimate == pytest.approx(0.2)
    # People saw 100 of this batch of 1,000: what is left to err about is nine tenths of a simple draw's variance.
    assert same.n_effective == pytest.approx(100 / (1 - 100 / 1000))
    assert better.n_effective > 300


@quick
@given(tables)
def test_agreement_is_symmetric_and_bounded(table: list[list[int]]) -> None:
    turned = [list(column) for column in zip(*table, strict=True)]
    one, other = kappa(table), kappa(turned)
    if isinstance(one, Kappa) and isinstance(other, Kappa):
        assert one.kappa == pytest.approx(other.kappa)
        assert -1 <= one.kappa <= 1
        assert math.isfinite(one.se)
    if sum(map(sum, table)):
        value = ac1(table)
        assert isinstance(value, float)
        assert -1 <= value <= 1
        found = accuracy(table)
        assert not isinstance(found, InsufficientData)
        assert all(figure is None or math.isfinite(figure) for figure in (found.precision, found.f1, found.mcc))


def test_kappa_without_spread_is_no_number_and_with_an_empty_cell_has_no_interval() -> None:
    assert isinstance(kappa([[0, 0], [0, 0]]), InsufficientData)
    assert isinstance(kappa([[9, 0], [0, 0]]), InsufficientData)
    found = kappa([[0, 0], [2, 118]])
    assert isinstance(found, Kappa)
    assert (found.low, found.high) == (None, None)
    with pytest.raises(ValueError, match="square"):
        kappa([[1, 2, 3], [4, 5, 6]])


def test_the_bootstrap_repeats_with_its_seed_and_is_wider_where_tasks_move_together() -> None:
    alike = [[[8, 0], [0, 0]]] * 5 + [[[0, 0], [0, 8]]] * 5 + [[[0, 4], [4, 0]]] * 5
    spread = [[[1, 0], [0, 0]]] * 40 + [[[0, 0], [0, 1]]] * 40 + [[[0, 1], [0, 0]]] * 20 + [[[0, 0], [1, 0]]] * 20
    first, again = (bootstrap_by_task(alike, kappa_value, seed=7, draws=300) for _ in range(2))
    other = bootstrap_by_task(spread, kappa_value, seed=7, draws=300)
    assert first == again
    assert not isinstance(first, InsufficientData)
    assert not isinstance(other, InsufficientData)
    assert first.estimate == pytest.approx(other.estimate)
    assert first.high - first.low > 1.5 * (other.high - other.low)
    assert isinstance(bootstrap_by_task([], kappa_value, seed=7), InsufficientData)


def test_alpha_ignores_units_with_one_label_and_needs_two_classes() -> None:
    both = [("a", "a"), ("b", "b"), ("a", "b")]
    assert krippendorff_alpha([*both, ("a", None), ()]) == krippendorff_alpha(both)
    assert isinstance(krippendorff_alpha([("a", None)]), InsufficientData)
    assert isinstance(krippendorff_alpha([("a", "a")]), InsufficientData)


@quick
@given(st.integers(1, 20), st.data())
def test_pass_curves_are_monotone_and_meet_at_one(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    at, hat = pass_at_k(n, c, k), pass_hat_k(n, c, k)
    assert isinstance(at, float)
    assert isinstance(hat, float)
    assert 0 <= hat <= c / n <= at <= 1 or math.isclose(at, c / n) or math.isclose(hat, c / n)
    assert informative(n, c, k) == pytest.approx(at - hat)
    if k < n:
        assert pass_at_k(n, c, k + 1) >= at  # type: ignore[operator]
        assert pass_hat_k(n, c, k + 1) <= hat  # type: ignore[operator]


def test_more_than_was_tried_cannot_be_said() -> None:
    assert isinstance(pass_at_k(4, 1, 5), InsufficientData)
    assert isinstance(informative(4, 1, 5), InsufficientData)
    with pytest.raises(ValueError):
        pass_at_k(4, 5, 1)
    found = mean_pass_at_k([(4, 1), (2, 1), (0, 0)], 3)
    assert (found.estimate, found.tasks, found.left_out, found.se) == (0.75, 1, 2, None)  # type: ignore[union-attr]
    assert isinstance(mean_pass_at_k([], 1), InsufficientData)


def test_informative_beyond_what_was_tried_is_labelled_as_a_model() -> None:
    counts = [(4, 0)] * 10 + [(4, 2)] * 10 + [(4, 4)] * 10
    within, beyond = informative_fraction(counts, 4), informative_fraction(counts, 16)
    assert (within.model_based, beyond.model_based) == (False, True)  # type: ignore[union-attr]
    assert isinstance(informative_fraction([(4, 0)] * 9, 16), InsufficientData)
    assert isinstance(informative_fraction([(1, 0), (1, 1)], 16), InsufficientData)
    assert isinstance(informative_fraction([], 16), InsufficientData)


@quick
@given(st.integers(1, 32), st.data())
def test_advantages_of_a_group_sum_to_nothing(group: int, data: st.DataObject) -> None:
    passes = data.draw(st.integers(0, group))
    for convention in ("population", "sample", "none"):
        found = group_advantages(group, passes, convention=convention)  # type: ignore[arg-type]
        assert passes * found.passed + (group - passes) * found.failed == pytest.approx(0, abs=1e-9)


def test_a_rare_false_pass_gets_more_than_its_share_of_the_push() -> None:
    counts = [GroupCount(16, 8, 0), GroupCount(16, 1, 1)]
    found = wrong_push(counts, group=16)
    assert isinstance(found, WrongPush)
    assert found.share > 1 / 9
    assert (found.low, found.high) == pytest.approx((found.share, found.share))
    open_ones = wrong_push([GroupCount(16, 8, 0, 4), GroupCount(16, 1, 0, 1)], group=16)
    assert isinstance(open_ones, WrongPush)
    assert (open_ones.share, open_ones.low) == (0, 0)
    assert open_ones.high > 0.5
    assert isinstance(wrong_push([GroupCount(4, 4, 1), GroupCount(4, 0, 0)]), InsufficientData)
    assert isinstance(wrong_push([GroupCount(4, 2, 0, 2)]), InsufficientData)


counts4 = st.tuples(*[st.integers(0, 40)] * 4)


@quick
@given(counts4)
def test_paired_differences_turn_with_the_pair(cells: tuple[int, int, int, int]) -> None:
    both, first, second, neither = cells
    one = paired_proportions(both=both, first=first, second=second, neither=neither)
    other = paired_proportions(both=both, first=second, second=first, neither=neither)
    if isinstance(one, PairedDifference) and isinstance(other, PairedDifference):
        assert one.low <= one.difference <= one.high
        assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
        assert 0 <= one.p_value <= 1


def test_newcombe_and_mid_p_of_known_tables() -> None:
    assert mcnemar_mid_p(0, 5) == pytest.approx(0.03125)
    assert mcnemar_mid_p(0, 0) == mcnemar_mid_p(4, 4) == 1
    found = paired_proportions(both=36, first=12, second=2, neither=0)
    assert isinstance(found, PairedDifference)
    assert found.difference == pytest.approx(0.2)
    assert (found.low, found.high) == pytest.approx((0.0569, 0.3404), abs=5e-4)


def test_task_means_need_spread() -> None:
    found = paired_task_means([1, 0.5, 0.5, 0], [0.5, 0.5, 0.25, 0])
    assert isinstance(found, PairedDifference)
    assert found.difference == pytest.approx(0.1875)
    assert found.low < 0.1875 < found.high
    assert isinstance(paired_task_means([1, 1], [0, 0]), InsufficientData)
    assert isinstance(paired_task_means([1], [0]), InsufficientData)


@quick
@given(*[st.integers(0, 12)] * 2, st.data())
def test_one_of_two_is_the_greater(n1: int, n2: int, data: st.DataObject) -> None:
    first = (n1, data.draw(st.integers(0, n1)))
    second = (n2, data.draw(st.integers(0, n2)))
    assert probability_greater(first, second) + probability_greater(second, first) == pytest.approx(1)


def test_three_attempts_rarely_prove_a_reversal() -> None:
    assert bin_of((3, 1), (3, 2)) == "uncertain"
    assert bin_of((16, 2), (16, 13)) == "weak_only"
    assert bin_of((16, 13), (16, 2)) == "strong_only"
    assert bin_of((3, 3), (3, 2)) == "both"
    assert bin_of((3, 0), (3, 1)) == "neither"
    assert isinstance(bin_of((0, 0), (3, 1)), InsufficientData)


def test_abstentions_are_answers_that_can_flip() -> None:
    assert pairwise_flip([("yes", "unknown"), ("no", "no")]) == 0.5
    assert isinstance(pairwise_flip([("yes",)]), InsufficientData)
    assert isinstance(self_consistency([[1], [0]]), InsufficientData)
    found = self_consistency([[1, 1], [1, 0, 0], [1]])
    assert (found.icc, found.items, found.single) == (None, 2, 1)  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="0 or 1"):
        self_consistency([[2, 1]])


def test_drift_alarms_on_a_rise_only_and_keeps_the_alarm() -> None:
    rise = drift([False] * 20 + [True] * 40, expected=0.1)
    fall = drift([False] * 400, expected=0.3)
    assert isinstance(rise, DriftState)
    assert isinstance(fall, DriftState)
    assert rise.alarm_at is not None
    assert (fall.alarm_at, fall.e_value > 20) == (None, True)
    assert isinstance(drift([], expected=0.1), InsufficientData)
    assert math.isfinite(drift([True] * 5000, expected=1e-6).e_value)  # type: ignore[union-attr]


def test_many_cells_are_flagged_together() -> None:
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.5]) == (True, False, False, False)
    assert benjamini_hochberg([0.01, 0.02, 0.03, 0.5]) == (True, True, True, False)
    assert benjamini_hochberg([]) == ()


def test_grader_error_from_disagreement_and_back() -> None:
    assert grader_error(0.18) == pytest.approx(0.1)
    assert grader_error(0) == 0
    assert isinstance(grader_error(0.5), InsufficientData)
    assert true_rate(0.14, 0.1) == pytest.approx(0.05)
    reported = stratified_proportion([StratumCount(1000, 100, 100, 14)], batch=False)
    assert isinstance(reported, Proportion)
    band = error_band(reported, disagreement=0.18)
    assert isinstance(band, ErrorBand)
    assert band.low <= 0.05 <= band.high
    assert band.corrected == pytest.approx(0.05)


def test_sizes_needed() -> None:
    assert reviews_for_zero_bound(0.05) == 59
    assert reviews_for_zero_bound(0.05, population=1_000_000) == 59
    assert reviews_for_zero_bound(0.01, population=24) == 23  # one is missed once in 24 times
    assert reviews_for_zero_bound(0.01, population=10) == 10
    for size, limit in ((200, 0.045), (450, 0.05), (450, 0.01)):  # no more than D events: C(N-D, n) / C(N, n) < 0.05
        n, least = reviews_for_zero_bound(limit, population=size), math.ceil(limit * size)
        chance = [math.comb(size - least, k) / math.comb(size, k) for k in (n - 1, n)]
        assert chance[0] >= 0.05 > chance[1]
    n = reviews_for_half_width(0.1, 0.05)
    assert reviews_for_half_width(0.1, 0.05, population=100) < n
    for rate, half, size in product((0.0, 0.01, 0.1, 0.5, 1.0), (0.01, 0.05, 0.2, 0.45), (1, 2, 10, 100, 1000)):
        widths = [wilson(rate, k / (1 - k / size) if k < size else math.inf) for k in range(1, size + 1)]
        least = next(k for k, (low, high) in enumerate(widths, 1) if high - low <= 2 * half + 1e-12)
        assert reviews_for_half_width(rate, half, population=size) == least
    assert 130 < n < 150
    assert reviews_for_upper_limit(0.02, 0.05) > reviews_for_upper_limit(0.0, 0.05)
    assert items_for_difference(0.1, 0.022874847520) == 300
    with pytest.raises(ValueError, match="cannot be met"):
        reviews_for_upper_limit(0.05, 0.05)


@quick
@given(st.integers(1, 20), st.integers(0, 20), st.integers(1, 20), st.integers(0, 20))
def test_two_proportions_are_fishers_exact_test_whichever_comes_first(n1: int, x1: int, n2: int, x2: int) -> None:
    one, other = (n1, min(x1, n1)), (n2, min(x2, n2))
    found, turned = two_proportions(one, other), two_proportions(other, one)
    assert isinstance(found, TwoProportions)
    assert isinstance(turned, TwoProportions)
    assert found.z == pytest.approx(-turned.z)
    expected = fisher_exact([[one[1], one[0] - one[1]], [other[1], other[0] - other[1]]]).pvalue
    assert (found.fisher_p_value, turned.fisher_p_value) == pytest.approx((expected, expected), rel=1e-6)
    assert 0 < found.p_value <= 1


def test_two_proportions_of_nothing_are_unknown() -> None:
    assert isinstance(two_proportions((0, 0), (5, 1)), InsufficientData)
    for wrong in ((5, 6), (5, -1)):
        with pytest.raises(ValueError, match="no rates"):
            two_proportions(wrong, (5, 1))


@quick
@given(st.lists(st.sampled_from([[2, 0, 0], [1, 1, 0], [0, 2, 0], [0, 1, 1]]), min_size=1))
def test_fleiss_kappa_of_two_labels_each_is_close_to_alpha(rows: list[list[int]]) -> None:
    """With two labels each, alpha is kappa with a correction for few units: 1 - (1 - kappa)(2u - 1)/2u."""
    found = fleiss_kappa(rows)
    alpha = krippendorff_alpha([[answer for answer, n in enumerate(row) for _ in range(n)] for row in rows])
    if isinstance(found, InsufficientData):
        assert isinstance(alpha, InsufficientData)
        return
    labels = 2 * len(rows)
    assert alpha == pytest.approx(1 - (1 - found) * (labels - 1) / labels)


def test_fleiss_kappa_refuses_units_with_other_numbers_of_labels() -> None:
    assert isinstance(fleiss_kappa([]), InsufficientData)
    for wrong in ([[1, 0]], [[2, 0], [2, 1]]):
        with pytest.raises(ValueError, match="same number of labels"):
            fleiss_kappa(wrong)


@quick
@given(st.lists(st.booleans(), max_size=200), st.floats(0.02, 0.4))
def test_a_cusum_is_never_below_nothing_and_signals_where_it_first_passes(labels: list[bool], expected: float) -> None:
    plan = CusumPlan(expected, 2 * expected, threshold=3.0, between=1)
    found = cusum(labels, plan)
    assert 0 <= found.value <= found.largest
    assert (found.signal_at is not None) == (found.largest >= plan.threshold)
    if found.signal_at:
        assert labels[found.signal_at - 1]
        assert cusum(labels[: found.signal_at - 1], plan).signal_at is None


@pytest.mark.parametrize("expected", [0.01, 0.07, 0.1, 0.25, 0.49, 0.8])
def test_the_threshold_of_a_cusum_is_the_lowest_that_keeps_its_word(expected: float) -> None:
    raised = min(2 * expected, (1 + expected) / 2)
    plan = plan_cusum(expected, raised=raised, between=500)
    assert expected < plan.raised == pytest.approx(raised, rel=0.06)
    assert 500 <= plan.between < 1000


def test_run_lengths_of_a_cusum_are_those_of_a_simulation() -> None:
    chance, plan = random.Random(7), plan_cusum(0.2, raised=0.4, between=100)

    def run() -> int:
        labels: list[bool] = []
        while True:
            labels += [chance.random() < 0.2 for _ in range(100)]
            if found := cusum(labels, plan).signal_at:
                return found

    runs = [run() for _ in range(1500)]
    mean, error = statistics.mean(runs), statistics.stdev(runs) / math.sqrt(len(runs))
    assert abs(mean - plan.between) < 3 * error


@pytest.mark.parametrize(("expected", "raised"), [(0.2, 0.2), (0.0, 0.1), (0.2, 1.0), (0.3, 0.2)])
def test_a_cusum_of_no_rise_is_refused(expected: float, raised: float) -> None:
    with pytest.raises(ValueError, match="no CUSUM"):
        plan_cusum(expected, raised=raised)
