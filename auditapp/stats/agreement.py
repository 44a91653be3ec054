"""Agreement of two or more labelers on the same units: raw, beyond chance, within strata, with what is missing.

Tables are square, rows the first labeler (or the judge), columns the second (or the human), in counts.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from auditapp.stats.proportions import Z95, InsufficientData, Proportion, proportion

Table = Sequence[Sequence[float]]
Matrix = NDArray[np.float64]
DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Kappa:
    """Cohen's kappa with its standard error; `low` and `high` are None where a cell is empty: no error holds there."""

    kappa: float
    se: float
    low: float | None
    high: float | None
    raw: float
    n: int
    method: str


@dataclass(frozen=True, slots=True)
class Interval:
    """A bootstrap estimate: percentiles of `draws` resamples of `tasks` tasks."""

    estimate: float
    low: float
    high: float
    tasks: int
    draws: int
    method: str = "bootstrap of tasks, percentiles"


@dataclass(frozen=True, slots=True)
class Accuracy:
    """A judge against people, positive meaning acceptable; a share is None where its denominator is 0."""

    precision: float | None
    recall: float | None
    f1: float | None
    specificity: float | None
    mcc: float | None
    prevalence: float


def _square(table: Table) -> Matrix:
    counts = np.asarray(table, dtype=np.float64)
    if counts.ndim != 2 or counts.shape[0] != counts.shape[1] or counts.shape[0] < 2:
        raise ValueError(f"a table of agreement is square and at least 2 by 2, not {counts.shape}")
    if not np.isfinite(counts).all() or (counts < 0).any():
        raise ValueError("counts are finite and not negative")
    return counts


def raw_agreement(table: Table) -> Proportion | InsufficientData:
    """The share of units on the diagonal, with Wilson's interval."""
    counts = _square(table)
    return proportion(int(np.trace(counts)), int(counts.sum()))


def kappa(table: Table) -> Kappa | InsufficientData:
    """Cohen's kappa (1960) with the standard error of Fleiss, Cohen & Everitt (1969), not that under independence.

    Undefined where both labelers gave one and the same answer to everything.
    """
    counts = _square(table)
    n = counts.sum()
    if n == 0:
        return InsufficientData("no unit has both labels")
    shares = counts / n
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    raw, chance = float(np.trace(shares)), float(rows @ columns)
    if math.isclose(chance, 1):
        return InsufficientData("both labelers gave one answer throughout: agreement beyond chance is undefined")
    value = (raw - chance) / (1 - chance)
    se = math.sqrt(_kappa_variance(shares, value) / n)
    open_cells = bool((counts > 0).all())
    low, high = (max(-1.0, value - Z95 * se), min(1.0, value + Z95 * se)) if open_cells else (None, None)
    return Kappa(value, se, low, high, raw, int(n), "Cohen, Fleiss-Cohen-Everitt error")


def _kappa_variance(shares: Matrix, value: float) -> float:
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    chance = float(rows @ columns)
    diagonal = np.diag(shares)
    first = float((diagonal * (1 - (rows + columns) * (1 - value)) ** 2).sum())
    off = shares * (columns[:, None] + rows[None, :]) ** 2
    second = (1 - value) ** 2 * float(off.sum() - np.trace(off))
    third = (value - chance * (1 - value)) ** 2
    return max(0.0, first + second - third) / (1 - chance) ** 2


def weighted_kappa(sizes: Sequence[float], tables: Sequence[Table]) -> Kappa | InsufficientData:
    """Kappa of the population from stratified tables: cells are sum W_h T_h/n_h, the error is by the delta method.

    d kappa / d p_ij = [d_ij (1-pe) - (1-po)(r_j + c_i)] / (1-pe)², with the variance of a stratified mean. Every
    stratum needs two units; collapse strata before, not after, looking.
    """
    counts = [_square(table) for table in tables]
    if len(counts) != len(sizes) or not counts:
        raise ValueError(f"{len(sizes)} sizes for {len(counts)} tables")
    if min(table.sum() for table in counts) < 2:
        return InsufficientData("a stratum has fewer than two units with both labels")
    weights = np.asarray(sizes, dtype=np.float64) / sum(sizes)
    shares = sum((w * t / t.sum() for w, t in zip(weights, counts, strict=True)), np.zeros_like(counts[0]))
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    raw, chance = float(np.trace(shares)), float(rows @ columns)
    if math.isclose(chance, 1):
        return InsufficientData("both labelers gave one answer throughout: agreement beyond chance is undefined")
    slopes = ((1 - chance) * np.eye(len(shares)) - (1 - raw) * (rows[None, :] + columns[:, None])) / (1 - chance) ** 2
    variance = sum(w**2 * _mean_variance(t, slopes) for w, t in zip(weights, counts, strict=True))
    value, se = (raw - chance) / (1 - chance), math.sqrt(variance)
    n = int(sum(table.sum() for table in counts))
    low, high = (max(-1.0, value - Z95 * se), min(1.0, value + Z95 * se)) if (shares > 0).all() else (None, None)
    return Kappa(value, se, low, high, raw, n, "Cohen, weighted by stratum, delta method")


def _mean_variance(table: Matrix, values: Matrix) -> float:
    """The variance of a mean of `values` over the units of a table."""
    n = table.sum()
    mean = float((table * values).sum() / n)
    return float((table * (values - mean) ** 2).sum() / (n - 1) / n)


def ac1(table: Table) -> float | InsufficientData:
    """Gwet's AC1 (2008), which a rare class does not pull to 0."""
    counts = _square(table)
    if counts.sum() == 0:
        return InsufficientData("no unit has both labels")
    shares = counts / counts.sum()
    means = (shares.sum(axis=0) + shares.sum(axis=1)) / 2
    chance = float((means * (1 - means)).sum() / (len(shares) - 1))
    return (float(np.trace(shares)) - chance) / (1 - chance)


def fleiss_kappa(counts: Sequence[Sequence[int]]) -> float | InsufficientData:
    """Fleiss' kappa (1971): a row a unit, a column an answer, in it how many labelers gave it; as many in each row.

    Labelers may be others for each unit. Raises ValueError unless all rows hold as many labels, two at least.
    """
    if not counts:
        return InsufficientData("no unit has two labels")
    table = np.asarray(counts, dtype=np.float64)
    each = float(table[0].sum())
    if each < 2 or (table.sum(axis=1) != each).any():
        raise ValueError("each unit has the same number of labels, two at least")
    chance = float(((table.sum(axis=0) / table.sum()) ** 2).sum())
    if math.isclose(chance, 1):
        return InsufficientData("every label is the same: agreement beyond chance is undefined")
    observed = float((((table**2).sum(axis=1) - each) / (each * (each - 1))).mean())
    return (observed - chance) / (1 - chance)


def krippendorff_alpha(units: Sequence[Sequence[Hashable | None]]) -> float | InsufficientData:
    """Krippendorff's alpha (2011) for nominal labels; each unit lists its labels, None being a missing one.

    A unit with fewer than two labels says nothing of agreement and is left out.
    """
    pairable = [present for unit in units if len(present := [label for label in unit if label is not None]) >= 2]
    if not pairable:
        return InsufficientData("no unit has two labels")
    totals: defaultdict[Hashable, int] = defaultdict(int)
    observed = 0.0
    for labels in pairable:
        counts: defaultdict[Hashable, int] = defaultdict(int)
        for label in labels:
            counts[label] += 1
            totals[label] += 1
        m = len(labels)
        observed += (m * m - sum(count * count for count in counts.values())) / (m - 1)
    n = sum(totals.values())
    expected = n * n - sum(count * count for count in totals.values())
    if not expected:
        return InsufficientData("every label is the same: agreement beyond chance is undefined")
    return 1 - (n - 1) * observed / expected


def accuracy(table: Table) -> Accuracy | InsufficientData:
    """Precision, recall, F1, specificity and MCC of a 2 × 2 table: rows judge, columns human, acceptable first."""
    counts = _square(table)
    if len(counts) != 2:
        raise ValueError("accuracy is of two classes; leave abstentions out and count them beside it")
    if counts.sum() == 0:
        return InsufficientData("no unit has both labels")
    (tp, fp), (fn, tn) = ((float(value) for value in row) for row in counts)
    spread = math.sqrt((tp + fp) * (fn + tn) * (tp + fn) * (fp + tn))
    return Accuracy(
        precision=_share(tp, tp + fp),
        recall=_share(tp, tp + fn),
        f1=_share(2 * tp, 2 * tp + fp + fn),
        specificity=_share(tn, tn + fp),
        mcc=_share(tp * tn - fp * fn, spread),
        prevalence=(tp + fn) / float(counts.sum()),
    )


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


@dataclass(frozen=True, slots=True)
class WithinStratum:
    """How a judge does where the verifier said one thing: both rates with Wilson's interval."""

    sensitivity: Proportion | InsufficientData
    specificity: Proportion | InsufficientData


def within_stratum(table: Table) -> WithinStratum:
    """Sensitivity and specificity of a 2 × 2 table of one stratum: rows judge, columns human, acceptable first."""
    (tp, fp), (fn, tn) = ((int(value) for value in row) for row in _square(table))
    return WithinStratum(proportion(tp, tp + fn), proportion(tn, tn + fp))


def bootstrap_by_task(
    tables: Sequence[Table], statistic: Callable[[Matrix], float | None], *, seed: int, draws: int = DRAWS
) -> Interval | InsufficientData:
    """Percentiles of a statistic of the summed table when tasks are drawn anew; one table a task.

    `statistic` gives None where it is undefined; if more than a tenth of the draws are, there is no interval.
    """
    stack = np.stack([_square(table) for table in tables]) if tables else np.zeros((0, 2, 2))
    whole = statistic(stack.sum(axis=0)) if len(stack) else None
    if len(stack) < 2:
        return InsufficientData(f"{len(stack)} task{'s' if not len(stack) else ''}: tasks drawn anew need at least 2")
    if whole is None:
        return InsufficientData("it is undefined for these tasks as they are")
    picks = np.random.Generator(np.random.PCG64(seed)).multinomial(len(stack), [1 / len(stack)] * len(stack), draws)
    drawn = (statistic(table) for table in np.tensordot(picks, stack, axes=1))
    values = [value for value in drawn if value is not None]
    if len(values) < 0.9 * draws:
        return InsufficientData(f"undefined in {draws - len(values)} of {draws} resamples")
    low, high = np.quantile(values, [0.025, 0.975])
    return Interval(whole, float(low), float(high), len(stack), draws)


def kappa_value(table: Matrix) -> float | None:
    """Kappa alone, None where it is undefined: a statistic for `bootstrap_by_task`."""
    found = kappa(table.tolist())
    return None if isinstance(found, InsufficientData) else found.kappa
