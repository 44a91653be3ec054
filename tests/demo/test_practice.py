"""Practice and the first visit: blind until shown, never a label, in no figure, ticked by what is real."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from auditapp.demo import practice, visit
from auditapp.demo.archive import read_truth
from auditapp.estimation_inputs import inputs_sha256
from auditapp.judging import create_judge_run, ensure_config
from auditapp.models.datasets import DatasetVersion, Membership, Role
from auditapp.models.events import AuditEvent
from auditapp.models.judgments import JudgeRun, Judgment, JudgmentState
from auditapp.models.labels import Label
from auditapp.models.reviews import Exclusion, ExclusionReason, ReviewRound, RoundKind, RoundState, Slot
from auditapp.models.rounds import ReviewLabel
from auditapp.review import claim_next_slot, skip_slot
from judges.config import JudgeConfig as Config
from judges.records import StepRecord
from tests.auditapp.population import add_trajectory, make_task, make_version
from tests.auditapp.round_world import make_judged
from tests.auditapp.rounds import grade

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)
STEPS = (StepRecord(locator="1", source="agent", message="All is done."),)


@pytest.fixture
def version() -> DatasetVersion:
    """Every tenth row of the truth table, and the last, as the demo."""
    rows = read_truth()
    made = make_version("demo")
    for row in [*rows[:-1:10], rows[-1]]:
        add_trajectory(make_task(made, row.task_id), row.case, row.verifier_status, steps=STEPS)
    return made


@pytest.fixture
def lead(version: DatasetVersion) -> User:
    user = User.objects.create_user("lead")
    Membership.objects.create(dataset=version.dataset, user=user, role=Role.LEAD)
    return user


def graded(round: ReviewRound, by: User) -> Iterator[Slot]:
    """Take and grade every slot that comes."""
    while isinstance(slot := claim_next_slot(round, by=by, now=NOW), Slot):
        grade(slot, by, now=NOW)
        yield slot


def test_three_items_of_tasks_whose_verdicts_were_not_seen(version: DatasetVersion, lead: User) -> None:
    tasks = list(version.tasks.order_by("pk"))
    seen = tasks[:-4]
    Exclusion.objects.bulk_create(Exclusion(user=lead, task=task, reason=ExclusionReason.SAW_VERDICT) for task in seen)
    made = practice.begin(version, by=lead, now=NOW)
    drawn = [item.task for item in made.items.select_related("task")]
    assert len({task.pk for task in drawn}) == practice.ITEMS
    assert not set(drawn) & set(seen)
    assert practice.begin(version, by=lead, now=NOW) == made


def test_with_nothing_left_to_grade_blind_it_says_so(version: DatasetVersion, lead: User) -> None:
    Exclusion.objects.bulk_create(
        Exclusion(user=lead, task=task, reason=ExclusionReason.SAW_VERDICT) for task in version.tasks.all()
    )
    with pytest.raises(practice.PracticeError, match="nothing left to grade blind"):
        practice.begin(version, by=lead, now=NOW)
    assert not ReviewRound.objects.exists()


def test_the_reveal_sets_own_grades_beside_verifier_and_truth(version: DatasetVersion, lead: User) -> None:
    made = practice.begin(version, by=lead, now=NOW)
    slots = list(graded(made, lead))
    assert len(slots) == practice.ITEMS
    found = practice.reveal(made, by=lead, now=NOW)
    truth = {row.case: row for row in read_truth()}
    assert (found.graded, len(found.items)) == (3, 3)
    for item in found.items:
        row = truth[item.trajectory.source.source_id]
        assert item.truth == row
        assert item.verifier_status == row.verifier_status
        assert item.was_right == (row.acceptable == "yes")  # every grade said satisfied
    assert found.right == sum(item.truth.acceptable == "yes" for item in found.items)
    assert found.verifier_wrong == 2  # one false pass and one false fail are among them
    assert made.state == RoundState.RELEASED
    barred = Exclusion.objects.filter(user=lead, reason=ExclusionReason.SAW_VERDICT)
    assert {row.task_id for row in barred} == {slot.item.task_id for slot in slots}
    assert practice.reveal(made, by=lead, now=NOW) == found


@pytest.mark.parametrize("state", [JudgmentState.QUEUED, JudgmentState.RUNNING])
def test_work_the_judge_has_not_reached_is_not_judged_yet(version: DatasetVersion, lead: User, state: str) -> None:
    made = practice.begin(version, by=lead, now=NOW)
    first, second, third = [item.trajectory for item in made.items.order_by("number")]
    make_judged(version)
    failed = {"state": JudgmentState.FAILED, "reason": "max_turns"}
    waits: dict[str, Any] = {"state": state, "reason": ""}
    empty: dict[str, Any] = {"decision": None, "integrity": None, "acceptable": None, "outcome": None}
    Judgment.objects.filter(trajectory=first).update(**empty, **failed)
    Judgment.objects.filter(trajectory=second).update(**empty, **waits)
    Judgment.objects.filter(trajectory=third).delete()
    client = Client()
    client.force_login(lead)
    page = client.post(reverse("practice-reveal", args=["demo", made.public_id]), follow=True).content.decode()
    judges = [row.split("</td>")[0] for row in page.split('data-label="Judge"')[1:]]
    assert "no decision" in judges[0]
    assert "max turns" in judges[0]
    assert all("not judged yet" in said and "no decision" not in said for said in judges[1:])
    assert len(judges) == practice.ITEMS


def test_an_undecided_verdict_says_what_the_judge_could_not_tell(version: DatasetVersion, lead: User) -> None:
    """The decision comes first; the mark below is of the verifier's verdict, and the table says so."""
    made = practice.begin(version, by=lead, now=NOW)
    make_judged(version)
    unclear: dict[str, Any] = {"decision": "satisfied", "integrity": "cannot_tell", "acceptable": "unknown"}
    Judgment.objects.update(**unclear, state=JudgmentState.COMPLETED, outcome=None, outcome_reason="cannot_tell")
    client = Client()
    client.force_login(lead)
    page = client.post(reverse("practice-reveal", args=["demo", made.public_id]), follow=True).content.decode()
    assert "undecided where the judge cannot tell" in page
    for row in page.split('data-label="Judge"')[1:]:
        said = " ".join(re.sub(r"<[^>]+>", " ", row.split("</td>")[0]).split())
        assert said == "> satisfied , integrity: cannot tell verdict: ◌ undecided"


def test_a_second_look_that_waits_does_not_hide_the_first(version: DatasetVersion, lead: User) -> None:
    made = practice.begin(version, by=lead, now=NOW)
    make_judged(version, lambda _: "yes")
    run = JudgeRun.objects.get()
    again = ensure_config(Config(name="another", provider="rules", sandbox="none"), by=None)
    create_judge_run(run.sample, again, by=None)
    found = practice.reveal(made, by=lead, now=NOW)
    assert [item.judge and item.judge.acceptable for item in found.items] == ["yes"] * practice.ITEMS


def test_what_was_practiced_is_no_label_and_moves_no_figure(version: DatasetVersion, lead: User) -> None:
    before = inputs_sha256(version, config=None, sample=None)
    made = practice.begin(version, by=lead, now=NOW)
    list(graded(made, lead))
    practice.reveal(made, by=lead, now=NOW)
    assert not ReviewLabel.objects.exists()
    assert not Label.objects.filter(version=version).exists()
    assert inputs_sha256(version, config=None, sample=None) == before


def test_practice_takes_no_number_from_real_rounds(version: DatasetVersion, lead: User) -> None:
    made = practice.begin(version, by=lead, now=NOW)
    real = ReviewRound.objects.create(version=version, number=made.number, title="Round 1", seed=1)
    assert (made.number, real.number) == (1, 1)
    client = Client()
    client.force_login(lead)
    listed = client.get(reverse("rounds", args=["demo"])).content.decode()
    assert "Round 1" in listed
    assert practice.TITLE not in listed.split("<tbody>")[1].split("</tbody>")[0]
    assert client.get(reverse("round", args=[made.public_id])).status_code == 404


def test_one_press_leads_to_the_first_item_and_another_to_the_reveal(version: DatasetVersion, lead: User) -> None:
    client = Client()
    client.force_login(lead)
    begun = client.post(reverse("practice-begin", args=["demo"]))
    made = ReviewRound.objects.get(kind=RoundKind.PRACTICE)
    assert begun.url == reverse("review-next", args=[made.public_id])  # type: ignore[attr-defined]
    shown = reverse("practice-reveal", args=["demo", made.public_id])
    assert client.get(shown).status_code == 302  # an open practice is not ended by a look
    made.refresh_from_db()
    assert made.state == RoundState.OPEN
    page = client.post(shown, follow=True)
    assert page.status_code == 200
    assert page.content.decode().count("not graded") == practice.ITEMS


def test_the_end_of_practice_speaks_of_practice_and_leads_to_the_reveal(version: DatasetVersion, lead: User) -> None:
    made = practice.begin(version, by=lead, now=NOW)
    client = Client()
    client.force_login(lead)
    client.post(reverse("review-instructions", args=[made.public_id]))
    slots = graded(made, lead)
    next(slots)
    skipped = claim_next_slot(made, by=lead, now=NOW)
    assert isinstance(skipped, Slot)
    skip_slot(skipped, reason="", outside=False, by=lead, now=NOW)
    list(slots)
    page = client.get(reverse("review-next", args=[made.public_id])).content.decode()
    assert "You graded 2 of 3" in page
    assert "what you skipped or flagged is shown as not graded" in page
    assert page.count('class="primary"') == 1
    assert reverse("practice-reveal", args=["demo", made.public_id]) in page
    assert [words for words in ("by others", "the lead", "in the round", "so missing") if words in page] == []


@pytest.mark.parametrize(("role", "code"), [(Role.REVIEWER, 403), (Role.VIEWER, 403)])
def test_only_leads_practice(version: DatasetVersion, role: str, code: int) -> None:
    user = User.objects.create_user("other")
    Membership.objects.create(dataset=version.dataset, user=user, role=role)
    client = Client()
    client.force_login(user)
    assert client.post(reverse("practice-begin", args=["demo"])).status_code == code
    assert not ReviewRound.objects.exists()


def test_nobody_sees_the_practice_of_another(version: DatasetVersion, lead: User) -> None:
    made = practice.begin(version, by=lead, now=NOW)
    other = User.objects.create_user("other")
    Membership.objects.create(dataset=version.dataset, user=other, role=Role.LEAD)
    client = Client()
    client.force_login(other)
    assert client.post(reverse("practice-reveal", args=["demo", made.public_id])).status_code == 404
    made.refresh_from_db()
    assert made.state == RoundState.OPEN


def test_a_dataset_that_is_not_the_demo_offers_none(lead: User) -> None:
    mine = make_version("mine")
    Membership.objects.create(dataset=mine.dataset, user=lead, role=Role.LEAD)
    assert visit.visit_of(mine, lead) is None
    client = Client()
    client.force_login(lead)
    assert client.post(reverse("practice-begin", args=["mine"])).status_code == 404


def test_the_step_about_people_says_that_their_grades_are_still_to_come(version: DatasetVersion, lead: User) -> None:
    client = Client()
    client.force_login(lead)
    assert "for whom a script’s grades stand in once the judge is done" in client.get("/").content.decode()
    assert visit.visit_of(version, lead)
    other = make_version("mine")
    visit.note(other, visit.RATES, by=lead)
    assert not AuditEvent.objects.filter(actor=lead).exists()


def test_steps_are_ticked_by_what_is_real_and_put_away_for_good(version: DatasetVersion, lead: User) -> None:
    def steps() -> tuple[bool, ...]:
        found = visit.visit_of(version, lead)
        assert found is not None
        return found.has_read, found.has_graded, found.is_revealed, found.has_compared, found.has_report

    assert steps() == (False, False, False, False, False)
    made = practice.begin(version, by=lead, now=NOW)
    list(graded(made, lead))
    assert steps() == (False, True, False, False, False)
    practice.reveal(made, by=lead, now=NOW)
    assert steps() == (True, True, True, False, False)
    client = Client()
    client.force_login(lead)
    client.get(reverse("numbers-agreement", args=["demo"]))
    assert steps() == (True, True, True, False, False)
    client.get(reverse("numbers", args=["demo"]))
    assert steps() == (True, True, True, True, False)
    client.get(reverse("report", args=["demo"]))
    client.get(reverse("report", args=["demo"]))
    assert steps() == (True, True, True, True, True)
    assert AuditEvent.objects.filter(actor=lead, action=visit.REPORT).count() == 1
    assert client.get("/").content.decode().count('<li class="done">') == 5
    assert "Five minutes with the demo" in client.get("/").content.decode()
    guide = (settings.BASE_DIR / "docs/guide/first-visit.md").read_text()
    home = client.get("/").content.decode()
    named = re.findall(r"^\d\. \*\*(.+?)\.\*\*", guide, re.M)
    assert len(named) == 5
    assert [step for step in named if step.replace("'", "’") not in home] == []  # the guide names them as the page does
    client.post(reverse("visit-dismiss", args=["demo"]))
    assert visit.visit_of(version, lead) is None
    assert "Five minutes with the demo" not in client.get("/").content.decode()
