"""Several attempts at one task: pass@k, pass^k, and how much a training group would learn from it.

An attempt count is (n, c): n attempts with a verdict, c of them passed.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import betaln

from auditapp.stats.proportions import Z95, InsufficientData

Count = tuple[int, int]
Tasks = Sequence[Hashable] | None
LARGEST_SHAPE = 1e6


@dataclass(frozen=True, slots=True)
class TaskMean:
    """A mean over tasks; its error is the spread of tasks over sqrt(T), and holds the noise of attempts as well.

    Where several counts are of one task they move together: the error is then linearised on tasks. `se`, `low` and
    `high` are None with a single task. `left_out` counts had too few attempts. `model_based` says that a distribution
    was fitted: the figure is then an extrapolation.
    """

    estimate: float
    se: float | None
    low: float | None
    high: float | None
    tasks: int
    left_out: int
    method: str
    model_based: bool = False


@dataclass(frozen=True, slots=True)
class BetaBinomial:
    """Pass rates of tasks as a Beta(a, b) distribution, fitted by maximum likelihood."""

    a: float
    b: float
    tasks: int


def _check(n: int, c: float, k: int) -> None:
    if not (0 <= c <= n and k >= 1):
        raise ValueError(f"{c} passes of {n} attempts at k = {k} is no count")


def pass_at_k(n: int, c: int, k: int) -> float | InsufficientData:
    """The chance that k attempts hold a pass, 1 - C(n-c,k)/C(n,k) (Chen et al. 2021); unbiased, needs k <= n."""
    _check(n, c, k)
    if k > n:
        return InsufficientData(f"{n} attempts cannot say what {k} would do")
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float | InsufficientData:
    """The chance that k attempts all pass, C(c,k)/C(n,k) (Yao et al. 2024); unbiased, needs k <= n."""
    _check(n, c, k)
    if k > n:
        return InsufficientData(f"{n} attempts cannot say what {k} would do")
    return math.comb(c, k) / math.comb(n, k)


def informative(n: int, c: int, group: int) -> float | InsufficientData:
    """The chance that a group of attempts neither all pass nor all fail: pass@G - pass^G, unbiased, needs G <= n."""
    found = pass_at_k(n, c, group), pass_hat_k(n, c, group)
    if isinstance(found[0], InsufficientData) or isinstance(found[1], InsufficientData):
        return InsufficientData(f"{n} attempts say nothing without a model about groups of {group}")
    return found[0] - found[1]


def mean_pass_at_k(counts: Sequence[Count], k: int, *, tasks: Tasks = None) -> TaskMean | InsufficientData:
    """pass@k averaged over the counts with at least k attempts; without `tasks` each count is a task of its own."""
    return _mean([pass_at_k(n, c, k) for n, c in counts], "mean over tasks of 1 - C(n-c,k)/C(n,k)", k, tasks)


def mean_pass_hat_k(counts: Sequence[Count], k: int, *, tasks: Tasks = None) -> TaskMean | InsufficientData:
    """pass^k averaged over the counts with at least k attempts; without `tasks` each count is a task of its own."""
    return _mean([pass_hat_k(n, c, k) for n, c in counts], "mean over tasks of C(c,k)/C(n,k)", k, tasks)


def informative_fraction(
    counts: Sequence[Count], group: int = 16, *, tasks: Tasks = None
) -> TaskMean | InsufficientData:
    """The expected share of groups with unequal rewards: unbiased from tasks with n >= G where all have that many.

    Otherwise no unbiased estimator exists, and a Beta distribution of pass rates over tasks is fitted.
    """
    if counts and all(n >= group for n, _ in counts):
        return _mean([informative(n, c, group) for n, c in counts], "mean over tasks of pass@G - pass^G", group, tasks)
    fitted = fit_beta_binomial(counts)
    if isinstance(fitted, InsufficientData):
        return fitted
    value = informative_under(fitted, group)
    return TaskMean(value, None, None, None, fitted.tasks, len(counts) - fitted.tasks, "beta-binomial", True)


def _mean(values: Sequence[float | InsufficientData], method: str, k: int, tasks: Tasks) -> TaskMean | InsufficientData:
    of = range(len(values)) if tasks is None else tasks
    known = [(task, x) for task, x in zip(of, values, strict=True) if not isinstance(x, InsufficientData)]
    if not known:
        return InsufficientData(f"no task has {k} attempts")
    mean, left_out = math.fsum(x for _, x in known) / len(known), len(values) - len(known)
    gaps: defaultdict[Hashable, float] = defaultdict(float)
    for task, x in known:
        gaps[task] += (x - mean) / len(known)
    if len(gaps) == 1:
        return TaskMean(mean, None, None, None, 1, left_out, method)
    se = math.sqrt(len(gaps) / (len(gaps) - 1) * math.fsum(gap * gap for gap in gaps.values()))
    low, high = max(0.0, mean - Z95 * se), min(1.0, mean + Z95 * se)
    return TaskMean(mean, se, low, high, len(gaps), left_out, method)


def fit_beta_binomial(counts: Sequence[tuple[int, float]]) -> BetaBinomial | InsufficientData:
    """Maximum likelihood of a and b from tasks with at least one attempt; needs two tasks and one with two attempts.

    Where the likelihood runs to an edge (all pass, all fail, every task the same) there is no fit. Passes may be
    fractions, as expected counts are.
    """
    for attempts, passes in counts:
        _check(attempts, passes, 1)
    used = [(attempts, passes) for attempts, passes in counts if attempts]
    if len(used) < 2 or max(attempts for attempts, _ in used) < 2:
        return InsufficientData("a distribution of pass rates needs two tasks, one of them with two attempts")
    if sum(passes for _, passes in used) in (0, sum(attempts for attempts, _ in used)):
        return InsufficientData("every attempt ended alike: no distribution of pass rates can be fitted")

    tally = Counter(used)
    times = np.array(list(tally.values()), dtype=np.float64)
    n, c = (np.array(column, dtype=np.float64) for column in zip(*tally, strict=True))

    def loss(shape: Sequence[float]) -> float:
        """The mean over tasks, so that what counts as equal does not grow with their number."""
        a, b = (math.exp(max(-30.0, min(value, 30.0))) for value in shape)
        return -float(times @ (betaln(a + c, b + n - c) - betaln(a, b))) / len(used)

    found = minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 2000})
    a, b = (math.exp(max(-30.0, min(value, 30.0))) for value in found.x)
    if not (1 / LARGEST_SHAPE < a < LARGEST_SHAPE and 1 / LARGEST_SHAPE < b < LARGEST_SHAPE):
        return InsufficientData("the attempts fit no distribution of pass rates: tasks are all alike or all extreme")
    return BetaBinomial(a, b, len(used))


def informative_under(fitted: BetaBinomial, group: int) -> float:
    """1 - B(a+G,b)/B(a,b) - B(a,b+G)/B(a,b)."""
    base = float(betaln(fitted.a, fitted.b))
    passed = math.exp(float(betaln(fitted.a + group, fitted.b)) - base)
    failed = math.exp(float(betaln(fitted.a, fitted.b + group)) - base)
    return max(0.0, 1 - passed - failed)
