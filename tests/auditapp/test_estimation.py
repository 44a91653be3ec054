"""Rates from stored labels, against counts made by hand."""

import pytest

from auditapp.estimation import comparisons, doubt_by_stratum, judge_rates, latest_run, solve_rates
from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import Judgment
from auditapp.models.labels import ImportedLabel
from auditapp.sampling import draw_sample, freeze_frame
from auditapp.stats.allocation import Plan
from auditapp.stats.proportions import InsufficientData, Proportion
from tests.auditapp.looks import make_run
from tests.auditapp.population import add_trajectory, fill, make_task, make_version

pytestmark = pytest.mark.django_db


def decide(version: DatasetVersion, status: str, acceptable: str, number: int) -> None:
    """Settle so many open judgments of trajectories with this verifier status."""
    open_ones = Judgment.objects.filter(version=version, state="queued", trajectory__source__verifier_status=status)
    decision = {"yes": "satisfied", "no": "not_satisfied", "unknown": "cannot_tell"}[acceptable]
    ids = list(open_ones.order_by("id").values_list("id", flat=True)[:number])
    assert len(ids) == number
    Judgment.objects.filter(id__in=ids).update(
        state="completed", decision=decision, integrity="none", acceptable=acceptable
    )


def test_rates_of_a_census_are_the_counts() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 20, ("fail", "m", "e"): 10})
    run = make_run(version)
    decide(version, "pass", "no", 3)
    decide(version, "pass", "yes", 17)
    decide(version, "fail", "yes", 1)
    decide(version, "fail", "no", 9)
    rates = judge_rates(run)
    assert isinstance(rates.false_pass, Proportion)
    assert isinstance(rates.false_fail, Proportion)
    assert (rates.false_pass.estimate, rates.false_pass.n) == (0.15, 20)
    assert (rates.false_fail.estimate, rates.false_fail.n) == (0.1, 10)
    assert (rates.false_pass.low, rates.false_pass.high) == (0.15, 0.15)
    assert latest_run(version) == run


def test_abstentions_are_missing_and_never_fails() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 10})
    run = make_run(version)
    decide(version, "pass", "no", 1)
    decide(version, "pass", "yes", 4)
    decide(version, "pass", "unknown", 5)
    found = judge_rates(run).false_pass
    assert isinstance(found, Proportion)
    assert (found.estimate, found.n, found.missing) == (0.2, 5, 5)
    assert found.bounds == pytest.approx((0.1, 0.6))
    assert isinstance(judge_rates(run).false_fail, InsufficientData)


def test_other_samples_and_other_replicates_do_not_count() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 10})
    run = make_run(version, replicates=2)
    Judgment.objects.filter(replicate=1).update(
        state="completed", decision="not_satisfied", integrity="none", acceptable="no"
    )
    assert judge_rates(run).false_pass == InsufficientData("no unit was decided")


def test_solve_rate_with_and_without_verifiers_that_never_ran() -> None:
    version = make_version()
    task = make_task(version)
    for number in range(4):
        add_trajectory(task, f"p{number}", "pass")
    add_trajectory(task, "f", "fail")
    add_trajectory(task, "none", "none")
    add_trajectory(task, "control", "fail", is_control=True)
    hidden = {"verifier_reason": "verifier_did_not_run", "recorded_status": "fail"}
    for number in range(3):
        add_trajectory(task, f"late{number}", "invalid", **hidden)
    solved = solve_rates(version)
    assert isinstance(solved.counted, Proportion)
    assert isinstance(solved.as_recorded, Proportion)
    assert (solved.counted.estimate, solved.counted.n) == (0.8, 5)
    assert (solved.as_recorded.estimate, solved.as_recorded.n) == (0.5, 8)
    assert solved.not_run == 3


def test_each_judge_and_all_people_are_set_against_the_verifier() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 3, ("fail", "m", "e"): 2})
    make_run(version, replicates=2)
    decide(version, "pass", "no", 1)
    decide(version, "pass", "yes", 2)
    decide(version, "fail", "unknown", 1)
    trajectory = version.trajectories.filter(source__verifier_status="fail").first()
    for labeler, acceptable in (("anna", "yes"), ("ben", "no")):
        ImportedLabel.objects.create(
            version=version,
            trajectory=trajectory,
            kind="human",
            labeler=labeler,
            decision="satisfied" if acceptable == "yes" else "not_satisfied",
            acceptable=acceptable,
        )
    people, judge = comparisons(version)
    assert (people.source, people.labels, people.trajectories) == ("imported_human", 2, 1)
    assert [(row.name, [cell.count for cell in row.cells]) for row in people.rows] == [("fail", [1, 1, 0])]
    found = {row.name: [cell.count for cell in row.cells] for row in judge.rows}
    assert sum(map(sum, found.values())) == judge.labels
    assert set(found) == {"pass", "fail"}


def test_doubt_is_smoothed_and_never_zero() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 8, ("fail", "m", "e"): 8})
    frame = freeze_frame(version, by=None)
    assert doubt_by_stratum(frame) == (0.5, 0.5)
    make_run(version)
    decide(version, "pass", "yes", 8)
    strata = frame.strata.order_by("number").values_list("verifier_status", flat=True)
    rates = dict(zip(strata, doubt_by_stratum(frame), strict=True))
    assert rates == pytest.approx({"pass": 0.1, "fail": 0.5})
    sample = draw_sample(frame, Plan("neyman", 6, rates=tuple(doubt_by_stratum(frame))), seed=1, by=None)
    assert sample.size == 6
