"""Every estimator against values that R, statsmodels, scipy, scikit-learn or published tables gave, to six digits."""

import math

import pytest

from auditapp.stats.advantages import group_advantages
from auditapp.stats.agreement import Kappa, ac1, accuracy, fleiss_kappa, kappa, krippendorff_alpha, weighted_kappa
from auditapp.stats.allocation import neyman
from auditapp.stats.attempts import fit_beta_binomial, informative, informative_under, pass_at_k, pass_hat_k
from auditapp.stats.bounds import (
    ZeroEventBound,
    clopper_pearson,
    zero_events,
    zero_events_finite,
    zero_events_stratified,
)
from auditapp.stats.consistency import SelfConsistency, judge_noise, paired_models, self_consistency
from auditapp.stats.domains import DomainCount, domain_rate, domain_variance
from auditapp.stats.drift import CusumPlan, cusum, mixture_e_value
from auditapp.stats.pairs import TwoProportions, two_proportions
from auditapp.stats.proportions import (
    Proportion,
    StratumCount,
    korn_graubard,
    proportion,
    stratified_proportion,
    wilson,
)
from auditapp.stats.twophase import JudgedStratum, double_sampling, double_variance

SIZES, DRAWN = (400, 250, 100, 50), (20, 20, 10, 5)
O4_MINI = [[141, 31], [154, 780]]


def close(expected: object) -> object:
    return pytest.approx(expected, rel=1e-6, abs=1e-9)


def strata(*events: int) -> list[StratumCount]:
    return [StratumCount(size, n, n, x) for size, n, x in zip(SIZES, DRAWN, events, strict=True)]


@pytest.mark.parametrize(
    ("n", "one_sided", "exact", "score"),
    [(20, 0.1391083407, 0.168433471, 0.1611251581), (60, 0.04870291331, 0.05962949229, 0.06017185214)],
)
def test_zero_events(n: int, one_sided: float, exact: float, score: float) -> None:
    found = zero_events(n)
    assert isinstance(found, ZeroEventBound)
    assert (found.upper, clopper_pearson(0, n)[1], wilson(0, n)[1]) == close((one_sided, exact, score))


def test_clopper_pearson_and_the_finite_bound() -> None:
    assert clopper_pearson(1, 60) == close((0.0004218744523, 0.08939905006))
    found = zero_events_finite(200, 60)
    assert isinstance(found, ZeroEventBound)
    assert found.upper == 8 / 200


def test_zero_events_in_strata_are_worse_than_three_over_n() -> None:
    found = zero_events_stratified(strata(0, 0, 0, 0))
    assert isinstance(found, ZeroEventBound)
    assert found.upper == close(0.06955417033)


def test_stratified_mean_and_its_intervals() -> None:
    found = stratified_proportion(strata(3, 1, 0, 2), batch=False)
    assert isinstance(found, Proportion)
    assert found.estimate == close(0.115625)
    assert math.sqrt(found.estimate * (1 - found.estimate) / found.n_effective) == close(0.04643433217)
    assert found.n / found.n_effective == close(1.159719325)
    here = stratified_proportion(strata(3, 1, 0, 2), batch=True)
    assert isinstance(here, Proportion)
    assert math.sqrt(here.estimate * (1 - here.estimate) / here.n_effective) == close(0.04504771776)
    careful = korn_graubard(strata(3, 1, 0, 2), batch=False)
    assert isinstance(careful, Proportion)
    assert (careful.n_effective, careful.low, careful.high) == close((47.29757796, 0.04110084752, 0.2420893178))


def test_double_sampling_equals_post_stratification() -> None:
    answers = (StratumCount(420, 40, 40, 30), StratumCount(580, 60, 60, 6))
    endless = JudgedStratum(10**12, answers)
    se = math.sqrt(double_variance([endless]))
    found = double_sampling([endless])
    assert isinstance(found, Proportion)
    assert (found.estimate, se) == close((0.373, 0.03787342076))
    assert (found.estimate - 1.959963985 * se, found.estimate + 1.959963985 * se) == close((0.2987694593, 0.4472305407))
    people_only = proportion(36, 100)
    assert isinstance(people_only, Proportion)
    assert (people_only.low, people_only.high) == close((0.272712204, 0.4576459755))
    assert found.n_effective > 1.5 * people_only.n_effective


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        ([(300, 60, 40, 36), (700, 60, 8, 5)], (0.8125, 0.06709884825)),
        ([(300, 60, 42, 36), (700, 60, 7, 5)], (0.8171428571, 0.06303894315)),
        ([(300, 60, 18, 14), (700, 60, 53, 50)], (0.9223529412, 0.0308631283)),
    ],
)
def test_domains_equal_svyratio(domain: list[tuple[int, int, int, int]], expected: tuple[float, float]) -> None:
    counts = [DomainCount(*row) for row in domain]
    found = domain_rate(counts)
    assert isinstance(found, Proportion)
    assert (found.estimate, math.sqrt(domain_variance(counts))) == close(expected)


def test_the_bounds_of_a_domain_are_weighted_as_its_rate_is() -> None:
    """Of 100 all 10 seen are members and half count; of 900 one of 90 is: and one more is undecided."""
    found = domain_rate([DomainCount(100, 10, 10, 5), DomainCount(900, 89, 1, 1, undecided=1)])
    assert isinstance(found, Proportion)
    assert found.missing == 1
    assert found.bounds == pytest.approx(((50 + 10) / (100 + 20), (50 + 20) / (100 + 20)))
    alone = [domain_rate([DomainCount(9, 8, 4, 2, 1, what)]) for what in ("event", "other", "either")]
    bounds = [one.bounds for one in alone if isinstance(one, Proportion)]
    assert bounds == [pytest.approx(found) for found in ((2 / 4, 3 / 5), (2 / 5, 2 / 4), (2 / 5, 3 / 5))]
    assert found.bounds[0] <= found.estimate <= found.bounds[1]


@pytest.mark.parametrize(
    ("table", "po", "value", "se"),
    [
        (O4_MINI, 0.8327305606, 0.5069899909, 0.03031906287),
        ([[1, 5], [4, 190]], 0.955, 0.1588785047, 0.1592646844),
        ([[95, 5], [4, 96]], 0.955, 0.91, 0.02931576453),
        ([[40, 9], [6, 45]], 0.85, 0.6995192308, 0.0713936027),
    ],
)
def test_kappa_equals_r_psych(table: list[list[int]], po: float, value: float, se: float) -> None:
    found = kappa(table)
    assert isinstance(found, Kappa)
    assert (found.raw, found.kappa, found.se) == close((po, value, se))


@pytest.mark.parametrize(
    ("table", "gwet", "mcc"),
    [
        (O4_MINI, 0.7491843681, 0.5366379873),
        ([[1, 5], [4, 190]], 0.9524570463, 0.1595769365),
        ([[95, 5], [4, 96]], 0.9100022499, 0.9100455034),
        ([[40, 9], [6, 45]], 0.7007481297, 0.7007858361),
    ],
)
def test_ac1_and_mcc(table: list[list[int]], gwet: float, mcc: float) -> None:
    assert ac1(table) == close(gwet)
    assert accuracy(table).mcc == close(mcc)  # type: ignore[union-attr]


def test_interval_of_kappa() -> None:
    found = kappa(O4_MINI)
    assert isinstance(found, Kappa)
    assert (found.low, found.high) == close((0.4475657196, 0.5664142622))


def test_weighted_kappa_equals_its_bootstrap_and_scikit_learn() -> None:
    found = weighted_kappa([300, 700], [[[36, 4], [6, 14]], [[5, 3], [2, 50]]])
    assert isinstance(found, Kappa)
    assert (found.raw, found.kappa, found.se) == close((0.8916666667, 0.7382550336, 0.06838007206))
    pooled = kappa([[41, 7], [8, 64]])
    assert isinstance(pooled, Kappa)
    assert (pooled.raw, pooled.kappa) == close((0.875, 0.7404844291))


def test_alpha_with_missing_labels_equals_krippendorff_2011() -> None:
    observers = [
        *([1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None], [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3]),
        *([None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None], [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None]),
    ]
    assert krippendorff_alpha(list(zip(*observers, strict=True))) == close(0.7434210526)
    pairs = [pair for pair, n in (((0, 0), 141), ((0, 1), 31), ((1, 0), 154), ((1, 1), 780)) for _ in range(n)]
    assert krippendorff_alpha(pairs) == close(0.4980642153)


def test_fleiss_kappa_of_fourteen_labelers() -> None:
    """The worked example of Wikipedia, equal to statsmodels."""
    table = """0 0 0 0 14
        0 2 6 4 2
        0 0 3 5 6
        0 3 9 2 0
        2 2 8 1 1
        7 7 0 0 0
        3 2 6 3 0
        2 5 3 2 2
        6 5 2 1 0
        0 2 2 3 7"""
    assert fleiss_kappa([[int(n) for n in row.split()] for row in table.splitlines()]) == close(0.2099307044)


def test_self_consistency() -> None:
    found = self_consistency([[1] * c + [0] * (5 - c) for c in (5, 5, 0, 0, 3, 1, 0, 4)])
    assert isinstance(found, SelfConsistency)
    assert (found.sigma_within, found.pairwise_flip, found.icc) == close((0.2958039892, 0.175, 0.6793193717))


@pytest.mark.parametrize(
    ("sigma", "expected"),
    [
        (0.1, (0.008164965809, 0.01600303892, 0.02287484752)),
        (0.2, (0.01632993162, 0.03200607784, 0.04574969504)),
    ],
)
def test_noise_of_a_judge(sigma: float, expected: tuple[float, ...]) -> None:
    found = judge_noise(sigma, items=300)
    assert (found.se, found.least_significant, found.detectable) == close(expected)


def test_noise_between_two_models_on_the_same_tasks() -> None:
    found = paired_models(0.2, sd_difference=0.3, items=300)
    expected = (0.02380476143, 0.04665647506, 0.06669106774)
    assert (found.se, found.least_significant, found.detectable) == close(expected)


@pytest.mark.parametrize(
    ("n", "c", "k", "at", "hat", "unequal"),
    [(4, 1, 2, 0.5, 0.0, 0.5), (10, 3, 5, 0.9166666667, 0.0, 0.9166666667)],
)
def test_attempts(n: int, c: int, k: int, at: float, hat: float, unequal: float) -> None:
    assert (pass_at_k(n, c, k), pass_hat_k(n, c, k), informative(n, c, k)) == close((at, hat, unequal))


@pytest.mark.parametrize(("p", "true"), [(0.05, 0.3365795687), (0.5, 0.9921875)])
def test_the_informative_fraction_is_unbiased(p: float, true: float) -> None:
    chances = [math.comb(8, c) * p**c * (1 - p) ** (8 - c) for c in range(9)]
    expected = sum(chance * informative(8, c, 8) for c, chance in enumerate(chances))  # type: ignore[operator]
    assert expected == close(true)


def test_beta_binomial_of_tau_bench(tau_counts: list[tuple[int, int]]) -> None:
    fitted = fit_beta_binomial(tau_counts)
    mean = sum(c / n for n, c in tau_counts) / len(tau_counts)
    assert fitted.a / (fitted.a + fitted.b) == pytest.approx(mean, abs=0.02)  # type: ignore[union-attr]
    assert informative_under(fitted, 4) < informative_under(fitted, 16) < 1  # type: ignore[arg-type]


@pytest.fixture
def tau_counts() -> list[tuple[int, int]]:
    return [(4, 0)] * 17 + [(4, 1)] * 8 + [(4, 2)] * 8 + [(4, 3)] * 7 + [(4, 4)] * 10


def test_advantages_of_one_pass_in_sixteen() -> None:
    found = group_advantages(16, 1)
    assert (found.passed, found.failed) == close((3.872983346, -0.2581988897))
    small = group_advantages(16, 1, epsilon=1e-4)
    assert (small.passed, small.failed) == close((3.871384007, -0.2580922671))
    sample = group_advantages(16, 1, convention="sample")
    assert (sample.passed, sample.failed) == close((3.75, -0.25))
    plain = group_advantages(16, 1, convention="none")
    assert (plain.passed, plain.failed) == close((0.9375, -0.0625))


@pytest.mark.parametrize(("group", "passes"), [(8, 3), (16, 5), (5, 4)])
def test_advantages_follow_the_closed_form(group: int, passes: int) -> None:
    found = group_advantages(group, passes)
    expected = math.sqrt((group - passes) / passes), -math.sqrt(passes / (group - passes))
    assert (found.passed, found.failed) == close(expected)
    sample = group_advantages(group, passes, convention="sample")
    assert sample.passed / found.passed == close(math.sqrt((group - 1) / group))


def test_the_mixture_e_value() -> None:
    assert mixture_e_value(20, 80, expected=0.1) == close(6.742879938)


def test_the_cusum_of_reynolds_and_stoumbos() -> None:
    labels = [n in (9, 15, 16, 18, 19) for n in range(1, 20)]
    plan = CusumPlan(expected=0.1, raised=0.25, threshold=3.4, between=1)
    found = cusum(labels, plan)
    assert (found.value, found.largest) == close((3.487524319, 3.487524319))
    assert found.signal_at == 19
    trace = [cusum(labels[:n], plan).value for n in (9, 10, 14, 15, 17)]
    assert trace == pytest.approx([0.916291, 0.733969, 0.004683, 0.920974, 1.654943], abs=1e-6)


def test_two_proportions_equal_statsmodels_and_fisher() -> None:
    found = two_proportions((100, 9), (100, 20))
    assert isinstance(found, TwoProportions)
    assert (found.z, found.p_value, found.fisher_p_value) == close((-2.209075855, 0.02716936524, 0.04323166643))


def test_neyman_in_whole_numbers() -> None:
    assert neyman(SIZES, (0.15, 0.05, 0.02, 0.3), 60) == (36, 14, 4, 6)
