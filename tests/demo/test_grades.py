"""Scripted grades: through the queue, released, said to be scripted, wrong in a known share."""

import pytest
from django.contrib.auth.models import User

from auditapp.demo import grades
from auditapp.demo.archive import read_truth
from auditapp.models.judgments import JudgeRun
from auditapp.models.labels import PEOPLE, labels
from auditapp.models.reviews import Grade, RoundState
from auditapp.models.rounds import ReviewLabel
from judges.records import StepRecord
from tests.auditapp.looks import make_run
from tests.auditapp.population import add_trajectory, make_task, make_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> JudgeRun:
    """Sixty rows of the truth table as trajectories, and a run over them that has not decided anything."""
    version = make_version("demo")
    steps = [StepRecord(locator="1", source="agent", message="\nAll is done.\n")]
    for row in read_truth()[:60]:
        add_trajectory(make_task(version, row.task_id), row.case, row.verifier_status, steps=steps)
    monkeypatch.setattr(grades, "SIZE", 40)
    return make_run(version)


def test_they_are_released_labels_whose_round_and_reviewers_say_so(run: JudgeRun) -> None:
    released = grades.grade_demo(run)
    assert (released.state, released.is_scripted, released.title) == (RoundState.RELEASED, True, grades.TITLE)
    found = labels(run.sample.frame.version).filter(source__in=PEOPLE)
    assert found.values("trajectory").distinct().count() == 40
    assert set(found.values_list("labeler", flat=True)) <= set(grades.REVIEWERS)
    assert not any(user.has_usable_password() for user in User.objects.filter(username__in=grades.REVIEWERS))
    assert all("script" in note for note in Grade.objects.values_list("note", flat=True))


@pytest.mark.parametrize("share", [0, 1])
def test_they_err_as_often_as_they_say(share: int, run: JudgeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grades, "ERROR", share)
    grades.grade_demo(run)
    truth = {row.case: row.acceptable for row in read_truth()}
    said = ReviewLabel.objects.values_list("trajectory__source__source_id", "acceptable")
    assert {truth[source_id] != answer for source_id, answer in said} == {bool(share)}


def test_again_changes_nothing(run: JudgeRun) -> None:
    first = grades.grade_demo(run)
    before = ReviewLabel.objects.count(), Grade.objects.count()
    assert grades.grade_demo(run) == first
    assert (ReviewLabel.objects.count(), Grade.objects.count()) == before
