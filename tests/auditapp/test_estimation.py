"""Rates from stored labels, against counts made by hand."""

from datetime import timedelta

import pytest

from auditapp import estimation, judging
from auditapp.counters import Counts
from auditapp.estimation import Headline, compute, doubt_by_stratum, headline, subject
from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import JudgeConfig, JudgeRun, Judgment
from auditapp.models.labels import ImportedLabel
from auditapp.observations import Said, Unit
from auditapp.sampling import draw_sample, freeze_frame
from auditapp.sections.figures import figure
from auditapp.stats.allocation import Plan
from auditapp.stats.proportions import InsufficientData, Proportion
from tests.auditapp import looks
from tests.auditapp.looks import CONFIG, make_run
from tests.auditapp.population import add_trajectory, fill, make_task, make_version

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made anew at each look, although a judge is at work."""
    monkeypatch.setattr(estimation, "WHILE_JUDGING", timedelta(0))


def decide(version: DatasetVersion, status: str, acceptable: str, number: int) -> None:
    """Settle so many open judgments of trajectories with this verifier status."""
    open_ones = Judgment.objects.filter(version=version, state="queued", trajectory__source__verifier_status=status)
    decision = {"yes": "satisfied", "no": "not_satisfied", "unknown": "cannot_tell"}[acceptable]
    ids = list(open_ones.order_by("id").values_list("id", flat=True)[:number])
    assert len(ids) == number
    Judgment.objects.filter(id__in=ids).update(
        state="completed", decision=decision, integrity="none", acceptable=acceptable
    )


def told(version: DatasetVersion) -> Headline:
    """What the pages say, of a version of which something is known."""
    found = headline(version)
    assert found is not None
    return found


def test_rates_of_a_census_are_the_counts() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 20, ("fail", "m", "e"): 10})
    run = make_run(version)
    decide(version, "pass", "no", 3)
    decide(version, "pass", "yes", 17)
    decide(version, "fail", "yes", 1)
    decide(version, "fail", "no", 9)
    rates = told(version)
    assert isinstance(rates.false_pass, Proportion)
    assert isinstance(rates.false_fail, Proportion)
    assert (rates.false_pass.estimate, rates.false_pass.n) == (0.15, 20)
    assert (rates.false_fail.estimate, rates.false_fail.n) == (0.1, 10)
    assert (rates.false_pass.low, rates.false_pass.high) == (0.15, 0.15)
    assert (rates.subject.config, rates.subject.sample) == (run.config, run.sample)


def test_abstentions_are_missing_and_never_fails() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 10})
    make_run(version)
    decide(version, "pass", "no", 1)
    decide(version, "pass", "yes", 4)
    decide(version, "pass", "unknown", 5)
    found = told(version).false_pass
    assert isinstance(found, Proportion)
    assert (found.estimate, found.n, found.missing) == (0.2, 5, 5)
    assert found.bounds == pytest.approx((0.1, 0.6))
    assert isinstance(told(version).false_fail, InsufficientData)


def test_other_samples_and_other_replicates_do_not_count() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 10})
    make_run(version, replicates=2)
    Judgment.objects.filter(replicate=1).update(
        state="completed", decision="not_satisfied", integrity="none", acceptable="no"
    )
    assert headline(version) is None


def config_of(script: str = __file__) -> JudgeConfig:
    return judging.ensure_config(CONFIG.model_copy(update={"script": script}), by=None)


def part(version: DatasetVersion, size: int, *, config: JudgeConfig) -> JudgeRun:
    """A run over a part of a version, drawn from its one frame."""
    sample = draw_sample(freeze_frame(version, by=None), Plan("equal", size), seed=size, by=None)
    return judging.create_judge_run(sample, config, by=None)


def test_pages_and_estimate_have_one_judge_and_one_sample() -> None:
    """The newest run has decided nothing: both turn to the one before, for judge and draw."""
    version = make_version()
    fill(version, {("pass", "m", "e"): 20, ("fail", "m", "e"): 20})
    first = part(version, 10, config=config_of())
    decide(version, "pass", "no", 2)
    decide(version, "pass", "yes", 3)
    decide(version, "fail", "no", 5)
    part(version, 30, config=config_of(looks.__file__))
    page, estimate = told(version), compute(version)
    assert (page.subject.config, page.subject.sample) == (first.config, first.sample)
    assert (estimate["judge"]["digest"], estimate["sample"]["id"]) == (first.config.digest, str(first.sample.public_id))
    for direction, labels, rate in (
        ("false_pass", page.passes_by, page.false_pass),
        ("false_fail", page.fails_by, page.false_fail),
    ):
        assert estimate[direction] == figure(rate) | {"labels": labels}
    assert isinstance(page.false_pass, Proportion)
    assert page.false_pass.estimate == 0.4


def test_pages_let_people_correct_the_judge_as_estimate_does() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 20})
    make_run(version)
    decide(version, "pass", "yes", 20)
    for trajectory in version.trajectories.order_by("id")[:10]:
        ImportedLabel.objects.create(
            version=version,
            trajectory=trajectory,
            kind="human",
            labeler="anna",
            decision="not_satisfied",
            acceptable="no",
        )
    page = told(version)
    assert (page.passes_by, page.uncalibrated) == ("judge corrected by people", True)
    assert figure(page.false_pass) | {"labels": page.passes_by} == compute(version)["false_pass"]


def test_a_run_whose_labels_are_all_reused_is_the_newest_subject() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 20})
    config = config_of()
    part(version, 20, config=config)
    decide(version, "pass", "yes", 20)
    later = part(version, 5, config=config)
    assert later.planned == 0
    assert subject(version).sample == later.sample


def test_a_named_sample_brings_the_judge_that_looked_at_it() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 20})
    first = part(version, 5, config=config_of())
    decide(version, "pass", "yes", 5)
    second = part(version, 15, config=config_of(looks.__file__))
    decide(version, "pass", "no", 15)
    assert subject(version, sample=first.sample).config == first.config
    assert subject(version, config=first.config).sample == first.sample
    assert subject(version).config == second.config


def person(labeler: str, acceptable: str) -> Said:
    return Said(labeler, acceptable, None, None)


@pytest.mark.parametrize(
    ("answers", "together"),
    [
        ((), None),
        (("yes", "yes"), "yes"),
        (("no",), "no"),
        (("yes", "no"), "unknown"),
        (("unknown", "unknown", "unknown", "yes"), "unknown"),
    ],
)
def test_people_agree_only_when_all_say_the_same(answers: tuple[str, ...], together: str | None) -> None:
    people = tuple(person(str(number), answer) for number, answer in enumerate(answers))
    assert Unit(1, 1, ("pass", "m", "a", "", "e"), people=people).human == together


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
    solved = Counts(version).solve
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
    people, judge = Counts(version).comparisons()
    assert (people.name, people.labels, people.trajectories) == ("People, imported", 2, 1)
    assert judge.name
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
