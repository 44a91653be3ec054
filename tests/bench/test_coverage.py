"""Do intervals of 95 % hold the truth at least 93 times in a hundred, in populations that are hard for them?

    python -m pytest tests/bench/test_coverage.py -m bench -s

Seeded; each scenario prints its coverage. The floor is .93 less three standard errors of the simulation. Some are
wider than they need be and hold it more than 99 times: a large stratum that shows nothing, a judge nearly always right.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import orjson
import pytest

from auditapp.demo.archive import TRUTH
from auditapp.observations import Cell, Cohort, Observations, Said, Unit
from auditapp.sampling import draw_keys
from auditapp.sections.rates import WRONG, corrected_rate, human_error, human_rate
from auditapp.stats.allocation import Plan, allocate, proportional_with_floor
from auditapp.stats.anytime import AnytimeInterval, anytime_rate
from auditapp.stats.clusters import ClusterUnit, clustered_proportion
from auditapp.stats.drift import DriftState, drift
from auditapp.stats.proportions import (
    InsufficientData,
    Proportion,
    StratumCount,
    korn_graubard,
    stratified_proportion,
)
from auditapp.stats.sensitivity import ErrorBand, error_band
from auditapp.stats.twophase import JudgedStratum, double_sampling

DRAWS, FLOOR = 4000, 0.93
SLACK = 3 * math.sqrt(FLOOR * (1 - FLOOR) / DRAWS)
Generator = np.random.Generator

SCENARIOS: dict[str, tuple[Sequence[int], Sequence[int], Sequence[float]]] = {
    "A mixed rates": ((400, 250, 100, 50), (20, 20, 10, 5), (0.15, 0.05, 0.02, 0.3)),
    "B rare events": ((400, 250, 100, 50), (40, 25, 10, 5), (0.02, 0.02, 0.01, 0.04)),
    "C 12 small strata": ((60,) * 12, (5,) * 12, (0.02, 0.05, 0.1, 0.2) * 3),
    "D disproportionate": ((2000, 200, 50), (30, 30, 30), (0.01, 0.2, 0.4)),
    "E proportional": ((400, 200, 100), (40, 20, 10), (0.1, 0.1, 0.1)),
    "F strata of one or two": ((200, 100, 50, 25), (20, 10, 2, 1), (0.1, 0.1, 0.2, 0.3)),
}


def rng(name: str) -> Generator:
    return np.random.Generator(np.random.PCG64([20260301, *name.encode()]))


def covered(found: Iterator[Proportion | InsufficientData], truth: float, name: str) -> float:
    """The share of intervals that hold the truth; one that could not be made does not."""
    hits = [isinstance(rate, Proportion) and rate.low - 1e-12 <= truth <= rate.high + 1e-12 for rate in found]
    share = sum(hits) / len(hits)
    print(f"  {name}: {share:.3f} of {len(hits)}")
    return share


def draws(name: str, *, batch: bool) -> Iterator[list[StratumCount]]:
    """Samples of a scenario: without replacement from one fixed population, or from an endless one."""
    sizes, ns, rates = SCENARIOS[name]
    random = rng(name)
    bad = [round(size * rate) for size, rate in zip(sizes, rates, strict=True)]
    for _ in range(DRAWS):
        xs = (
            random.hypergeometric(bad, np.array(sizes) - bad, ns)
            if batch
            else random.binomial(ns, np.array(bad) / np.array(sizes))
        )
        yield [StratumCount(size, n, n, int(x)) for size, n, x in zip(sizes, ns, xs, strict=True)]


def truth_of(name: str) -> float:
    sizes, _, rates = SCENARIOS[name]
    return sum(round(size * rate) for size, rate in zip(sizes, rates, strict=True)) / sum(sizes)


@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize("name", list(SCENARIOS))
def test_stratified_intervals_cover(name: str, batch: bool) -> None:
    found = (stratified_proportion(strata, batch=batch) for strata in draws(name, batch=batch))
    assert covered(found, truth_of(name), f"{name}, {'this batch' if batch else 'endless'}") >= FLOOR - SLACK


@pytest.mark.parametrize("name", [name for name in SCENARIOS if not name.startswith("F")])
def test_the_conservative_option_covers(name: str) -> None:
    found = (korn_graubard(strata, batch=False) for strata in draws(name, batch=False))
    assert covered(found, truth_of(name), f"{name}, Korn-Graubard") >= FLOOR - SLACK


def attempts_of(random: Generator, tasks: int, each: int, rate: float, alike: float) -> list[ClusterUnit]:
    """Attempts at new tasks whose own rates are Beta with this mean and intra-task correlation."""
    shape = (1 - alike) / alike
    rates = random.beta(rate * shape, (1 - rate) * shape, tasks)
    return [ClusterUnit(task, 1.0, bool(x)) for task in range(tasks) for x in random.random(each) < rates[task]]


def hackable(random: Generator, tasks: int, each: int, share: float) -> list[ClusterUnit]:
    """A share of tasks in which every attempt counts."""
    hit = random.random(tasks) < share
    return [ClusterUnit(task, 1.0, bool(hit[task])) for task in range(tasks) for _ in range(each)]


CLUSTERED: dict[str, tuple[Callable[[Generator], list[ClusterUnit]], float]] = {
    "H 25 tasks of 8, rate .2, correlation .5": (lambda random: attempts_of(random, 25, 8, 0.2, 0.5), 0.2),
    "H 25 tasks of 8, rate .1, correlation .2": (lambda random: attempts_of(random, 25, 8, 0.1, 0.2), 0.1),
    "H 20 tasks of 3, one in twenty hackable": (lambda random: hackable(random, 20, 3, 0.05), 0.05),
    "H 40 tasks of 1": (lambda random: attempts_of(random, 40, 1, 0.1, 0.3), 0.1),
}


@pytest.mark.parametrize("name", list(CLUSTERED))
def test_clustered_intervals_cover_where_plain_ones_do_not(name: str) -> None:
    make, truth = CLUSTERED[name]
    random = rng(name)
    samples = [make(random) for _ in range(DRAWS)]
    share = covered((clustered_proportion(units) for units in samples), truth, name)
    assert share >= FLOOR - SLACK
    plain = (
        stratified_proportion([StratumCount(10**6, len(u), len(u), sum(x.event for x in u))], batch=False)
        for u in samples
    )
    without = covered(plain, truth, f"{name}, as if independent")
    assert without < share or name.endswith("of 1")


@pytest.mark.parametrize(("sensitivity", "specificity"), [(0.8, 0.9), (0.5, 0.95), (0.97, 0.97), (0.5, 0.5)])
def test_double_sampling_covers_whatever_the_judge_is_worth(sensitivity: float, specificity: float) -> None:
    """1,000 passes, one in ten bad, all judged, ten in a hundred abstained on; 100 graded, most where flagged."""
    name = f"judge {sensitivity}/{specificity}"
    random = rng(name)
    bad = np.arange(1000) < 100

    def sample() -> Proportion | InsufficientData:
        flagged = np.where(bad, random.random(1000) < sensitivity, random.random(1000) > specificity)
        said = np.where(random.random(1000) < 0.1, 2, flagged.astype(int))
        answers = []
        for answer in range(3):
            (members,) = np.nonzero(said == answer)
            graded = random.choice(members, min(len(members), (50, 35, 15)[answer]), replace=False)
            answers.append(StratumCount(len(members), len(graded), len(graded), int(bad[graded].sum())))
        return double_sampling([JudgedStratum(1000, tuple(answers))])

    assert covered((sample() for _ in range(DRAWS)), 0.1, name) >= FLOOR - SLACK


def test_the_band_covers_when_one_grade_in_ten_is_wrong() -> None:
    random = rng("grader error")
    hits = 0
    for _ in range(DRAWS):
        wrong = random.random(200) < 0.05
        graded = wrong ^ (random.random(200) < 0.1)
        again = wrong ^ (random.random(200) < 0.1)
        reported = stratified_proportion([StratumCount(10**6, 200, 200, int(graded.sum()))], batch=False)
        assert isinstance(reported, Proportion)
        band = error_band(reported, disagreement=float((graded != again).mean()))
        hits += isinstance(band, ErrorBand) and band.low <= 0.05 <= band.high
    print(f"  grader error of .1: {hits / DRAWS:.3f}")
    assert hits / DRAWS >= FLOOR


def test_watching_for_drift_rarely_cries_wolf_and_finds_a_doubled_rate() -> None:
    random = rng("drift")
    quiet = [drift(list(random.random(300) < 0.12), expected=0.12) for _ in range(400)]
    loud = [drift(list(random.random(600) < 0.24), expected=0.12) for _ in range(100)]
    false_alarms = sum(isinstance(state, DriftState) and state.alarm_at is not None for state in quiet) / 400
    found = [state.alarm_at for state in loud if isinstance(state, DriftState) and state.alarm_at is not None]
    print(f"  false alarms {false_alarms:.4f}; found {len(found)} of 100, median after {np.median(found):.0f} labels")
    assert false_alarms <= 0.05
    assert len(found) >= 95


def test_rates_of_the_demo_are_covered_over_a_thousand_seeds() -> None:
    """Grades equal to what is known by construction, of 120 passes and 120 fails drawn by stratum."""
    rows = orjson.loads(TRUTH.read_bytes())
    for status, wrong in (("pass", "no"), ("fail", "yes")):
        strata: defaultdict[tuple[str, str], list[bool]] = defaultdict(list)
        for row in rows:
            if row["verifier_status"] == status and row["acceptable"] in ("yes", "no"):
                strata[row["environment"], row["agent"]].append(row["acceptable"] == wrong)
        groups = [np.array(values) for values in strata.values()]
        sizes = allocate(Plan("proportional", 120), [len(group) for group in groups])
        random, truth = rng(status), float(np.concatenate(groups).mean())
        found = (
            stratified_proportion(
                [
                    StratumCount(len(group), n, n, int(random.choice(group, n, replace=False).sum()))
                    for group, n in zip(groups, sizes, strict=True)
                ],
                batch=True,
            )
            for _ in range(1000)
        )
        assert 0.93 <= covered(found, truth, f"demo, wrong among {status}, truth {truth:.3f}") <= 0.995


# --- what is reported, from the draw of a round to the interval on the page

GRADED, OVERLAP, JUDGE_ERRS = 240, 0.2, 0.15
Grades = tuple[Said, ...]


def judged_demo() -> list[tuple[Cell, int, str, str]]:
    """The demo's trajectories: cell, task, truth, and what a judge says that errs and abstains."""
    random = rng("judge of the demo")
    tasks: dict[str, int] = {}
    found = []
    for row in orjson.loads(TRUTH.read_bytes()):
        answer = row["acceptable"] if random.random() > JUDGE_ERRS else {"yes": "no", "no": "yes"}[row["acceptable"]]
        answer = "unknown" if random.random() < 0.1 else answer
        cell = row["verifier_status"], row["agent"], row["agent"], "", row["environment"]
        found.append((cell, tasks.setdefault(row["task_id"], len(tasks)), row["acceptable"], answer))
    return found


def reviewed(rows: list[tuple[Cell, int, str, str]], seed: int, *, error: float) -> Observations:
    """A released round drawn by stratum × judge's answer, a fifth of it graded twice and settled where two differ."""
    random = np.random.Generator(np.random.PCG64([seed, round(error * 100)]))
    cells: defaultdict[tuple[Cell, str], list[int]] = defaultdict(list)
    for number, (cell, _, _, answer) in enumerate(rows):
        cells[cell, answer].append(number)
    sizes = [len(members) for members in cells.values()]
    drawn: set[int] = set()
    for number, (size, members) in enumerate(
        zip(proportional_with_floor(sizes, GRADED, floor=2), cells.values(), strict=True), 1
    ):
        keys = draw_keys("demo", seed, number, len(members))
        drawn |= {members[place] for place in np.argsort(keys, kind="stable")[:size]}
    twice = {number for number in drawn if random.random() < OVERLAP}

    def grade(truth: str, who: str) -> Said:
        said = truth if random.random() >= error else {"yes": "no", "no": "yes"}[truth]
        return Said(who, said, None, None)

    units: defaultdict[Cell, list[Unit]] = defaultdict(list)
    for number, (cell, task, truth, answer) in enumerate(rows):
        people: Grades = (grade(truth, "anna"),) if number in drawn else ()
        people += (grade(truth, "bob"),) if number in twice else ()
        differ = len({said.acceptable for said in people}) > 1
        look = Said("", None if answer == "unknown" else answer, None, None)
        settled: Grades = (grade(truth, "carl"),) if differ else ()
        units[cell].append(Unit(number, task, cell, (look,), people, (), settled, phase=answer))
    cohorts = tuple(Cohort(cell, len(members), tuple(members)) for cell, members in units.items())
    nothing: Any = None
    return Observations(nothing, nothing, nothing, ("fail",), cohorts, (), 1)


def truths(rows: list[tuple[Cell, int, str, str]]) -> dict[str, float]:
    """The rates by construction."""
    found = {}
    for direction, status in (("false_pass", "pass"), ("false_fail", "fail")):
        said = [truth for cell, _, truth, _ in rows if cell[0] == status]
        found[direction] = sum(truth == WRONG[direction] for truth in said) / len(said)
    return found


def test_reported_intervals_of_the_demo_hold_the_planted_truth() -> None:
    """Grades equal to the truth, a thousand seeds: between 93.6 and 99 in a hundred."""
    rows = judged_demo()
    samples = [reviewed(rows, seed, error=0.0) for seed in range(1000)]
    for direction, truth in truths(rows).items():
        for name, rate in (("corrected", corrected_rate), ("people alone", human_rate)):
            share = covered((rate(seen, direction) for seen in samples), truth, f"{direction} {truth:.3f}, {name}")
            assert 0.936 <= share <= 0.99


def test_the_band_of_the_demo_holds_the_truth_when_one_grade_in_ten_is_wrong() -> None:
    rows = judged_demo()
    samples = [reviewed(rows, seed, error=0.1) for seed in range(1000)]
    for direction, truth in truths(rows).items():
        rates = [corrected_rate(seen, direction) for seen in samples]
        bands = [human_error(seen, rate) for seen, rate in zip(samples, rates, strict=True)]
        plain = covered(iter(rates), truth, f"{direction}, as if nobody erred")
        share = sum(band.get("low", 1) <= truth <= band.get("high", 0) for band in bands) / len(bands)
        print(f"  {direction}, band: {share:.3f}")
        assert share >= 0.936
        assert share > plain


def looked_at_until_it_pleases(random: Generator, strata: Sequence[tuple[int, float]]) -> tuple[Proportion, bool]:
    """Batches of stratified units until a plain interval excludes the truth, or thirty batches are through."""
    truth = sum(size * rate for size, rate in strata) / sum(size for size, _ in strata)
    seen = [[0, 0] for _ in strata]
    for _ in range(30):
        for row, (_, rate) in zip(seen, strata, strict=True):
            row[0] += 8
            row[1] += int(random.binomial(8, rate))
        counts = [StratumCount(size, n, n, x) for (size, _), (n, x) in zip(strata, seen, strict=True)]
        found = stratified_proportion(counts, batch=False)
        assert isinstance(found, Proportion)
        if not found.low <= truth <= found.high:
            break
    return found, found.low <= truth <= found.high


def test_an_extended_round_is_covered_by_the_interval_for_it_and_not_by_the_plain_one() -> None:
    strata = ((4000, 0.08), (2000, 0.2), (1000, 0.35))
    truth = sum(size * rate for size, rate in strata) / 7000
    random = rng("extended")
    stopped = [looked_at_until_it_pleases(random, strata) for _ in range(1000)]
    plain = sum(held for _, held in stopped) / len(stopped)
    sure = [anytime_rate(found) for found, _ in stopped]
    share = sum(isinstance(rate, AnytimeInterval) and rate.low <= truth <= rate.high for rate in sure) / len(sure)
    print(f"  extended after looking: plain {plain:.3f}, anytime {share:.3f}")
    assert plain < 0.9
    assert share >= 0.95
