"""Rows behind a figure: found by the database as `observations` sees them, and counted by figures of each stratum."""

from itertools import product

import pytest
from django.urls import reverse

from auditapp import blobs
from auditapp.counted import Of, rows
from auditapp.estimation import stored
from auditapp.models.datasets import DatasetVersion
from auditapp.models.estimates import Estimate
from auditapp.models.judgments import JudgeRun, Judgment
from auditapp.models.rounds import ReviewLabel
from auditapp.models.sources import TrajectorySource
from auditapp.observations import Unit, observe
from auditapp.sections.counted import rows_counted
from auditapp.sections.rates import by_stratum
from tests.auditapp.looks import make_run
from tests.auditapp.population import add_trajectory, make_task, make_version
from tests.auditapp.test_estimate import grade, judge
from tests.auditapp.test_numbers_pages import counted, drawn_by_people, ids, page
from tests.auditapp.test_pages import member

pytestmark = pytest.mark.django_db
PLACES: tuple[dict[str, str], ...] = ({}, {"verdict": "pass"}, {"verdict": "fail", "environment": "shop", "model": "m"})
SAID = tuple(product(("people_said", "judge_said"), ("yes", "no", "unknown", "any", "decided", "undecided")))


@pytest.fixture
def version() -> DatasetVersion:
    """Three verdicts in two environments; every answer, none, two people who differ, a look that failed."""
    made = make_version(partial_as="fail")
    for environment in ("shop", "travel"):
        task = make_task(made, f"{environment} task", environment=environment)
        for number in range(18):
            status = ("pass", "pass", "fail", "partial")[number % 4]
            add_trajectory(task, f"{environment}/{number:02}", status, model="mn"[number % 2])
    add_trajectory(task, "a control", is_control=True)
    make_run(made)
    names = [name for name in ids(made) if name != "a control"]
    answers = ("yes", "no", "yes", "unknown", "no")
    judge(made, {name: answers[number % 5] for number, name in enumerate(names) if number % 7})
    failed = Judgment.objects.filter(trajectory__source__source_id=names[0])
    assert failed.update(state="failed", reason="timeout") == 1
    grade(made, {name: answers[number % 4] for number, name in enumerate(names) if number % 3})
    grade(made, {name: answers[number % 3] for number, name in enumerate(names) if number % 3 == 1}, labeler="bert")
    return made


def of_run(version: DatasetVersion) -> Of:
    run = JudgeRun.objects.get()
    return Of(version, run.config, run.sample)


def fits(unit: Unit, key: str, answer: str) -> bool:
    """What an address asks for, said in terms of `observations`."""
    given = unit.human if key == "people_said" else (unit.looks[0].acceptable if unit.looks else None)
    kinds = {"any": ("yes", "no", "unknown"), "decided": ("yes", "no"), "undecided": (None, "unknown")}
    return given in kinds.get(answer, (answer,)) and (key, answer) != ("people_said", "undecided")


def check(of: Of) -> None:
    """The database finds the units that `observe` sees, and figures that tell their number tell the right one."""
    seen = observe(of.version, config=of.config, sample=of.sample)
    strata, told = by_stratum(seen), 0
    for place, (key, answer) in product(PLACES, (*SAID, ("", ""))):
        wanted = place | ({key: answer} if key else {})
        units = [
            unit
            for unit in seen.units
            for status, model, _, _, environment in (unit.cell,)
            if place.get("verdict", "") in ("", status, "fail" if status in of.failing else status)
            and place.get("environment", environment) == environment
            and place.get("model", model) == model
            and (not key or fits(unit, key, answer))
        ]
        assert {row.pk for row in rows(of, wanted)} == {unit.trajectory for unit in units}, wanted
        number = rows_counted(strata, wanted, failing=of.failing)
        assert number in (None, len(units)), wanted
        told += number is not None
    assert told >= len(PLACES) * 11


def test_rows_are_those_that_were_observed_and_as_many_as_were_counted(version: DatasetVersion) -> None:
    check(of_run(version))


def test_without_a_draw_rows_are_those_of_the_whole_version(version: DatasetVersion) -> None:
    check(Of(version, None, None))


def test_a_ruling_after_the_draw_moves_no_row(version: DatasetVersion) -> None:
    assert TrajectorySource.objects.filter(source_id="shop/00").update(verifier_status="invalid") == 1
    check(of_run(version))


def test_adjudicated_answers_and_late_labels_count_as_they_are_observed() -> None:
    version = drawn_by_people()
    ruling, *_, undrawn = ReviewLabel.objects.order_by("pk")
    ReviewLabel.objects.filter(pk=ruling.pk).update(kind="adjudicated", labeler="zoe", trajectory=undrawn.trajectory)
    late = version.trajectories.exclude(pk__in=ReviewLabel.objects.values("trajectory"))[:2]
    grade(version, {row.source.source_id: "no" for row in late.select_related("source")})
    check(of_run(version))


def test_figures_that_do_not_tell_leave_the_count_to_the_database(version: DatasetVersion) -> None:
    strata = by_stratum(observe(version, config=None, sample=None))
    for wanted in ({"hack": "people"}, {"people_said": "yes", "judge_said": "no"}, {"judge_said": "?"}):
        assert rows_counted(strata, wanted, failing=("fail",)) is None


def test_a_stale_figure_counts_no_rows(version: DatasetVersion, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels came after the figures, which a worker has still to make anew: the list counts what it lists."""
    client, address = member(version, "lead"), reverse("numbers-rows", args=[version.dataset.name])
    before = counted(client, f"{address}?people_said=decided")
    monkeypatch.setattr("auditapp.estimation_inputs.SMALL", 0)
    monkeypatch.setattr("auditapp.views.numbers.enqueue_estimate", lambda *_: None)
    unseen = [name for name in ids(version) if name.endswith(("00", "03"))]
    grade(version, dict.fromkeys(unseen, "yes"), labeler="cleo")
    text = page(version, "numbers-rows", people_said="decided")
    assert "older than the labels" in text
    assert counted(client, f"{address}?people_said=decided") > before


def test_pages_leave_the_figures_that_a_process_keeps_as_they_are_stored(version: DatasetVersion) -> None:
    for name in (
        "numbers",
        "numbers-agreement",
        "numbers-signal",
        "numbers-shapes",
        "numbers-cost",
        "report",
        "dataset",
    ):
        page(version, name)
    run = JudgeRun.objects.get()
    found = stored(version, config=run.config, sample=run.sample)
    assert found is not None
    assert found.payload == blobs.get_json(Estimate.objects.latest("pk").payload_blob)
