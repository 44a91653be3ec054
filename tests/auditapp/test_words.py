"""People read words on the pages: no state, decision, outcome or reason is shown as the code that is stored."""

import inspect
import re
from html.parser import HTMLParser

import pytest
from django.contrib.auth.models import User
from django.db.models import TextChoices
from django.test import Client
from django.urls import reverse

from auditapp import review, rounds, taskrounds
from auditapp.models import answers, datasets, exchanges, judgments, labels, reviews
from auditapp.models import rounds as round_models
from auditapp.models.datasets import DatasetVersion, Role, Trajectory
from auditapp.models.events import AuditEvent
from auditapp.models.judgments import JudgeRun, Judgment
from auditapp.models.reviews import ReviewRound
from auditapp.models.rounds import ReviewLabel
from auditapp.round_draws import RoundSettings
from auditapp.templatetags.marks import cited, prose, status, worded
from judges.verdict import Attribution, BlindVerdict
from tests.auditapp.round_world import NOW, make_judged, make_people, make_release, make_round, work_off

pytestmark = pytest.mark.django_db
MODULES = (answers, datasets, exchanges, judgments, labels, reviews, round_models)


class Visible(HTMLParser):
    """The text of a page, without scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.hidden += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.text.append(data)


def codes() -> set[str]:
    """Every value with an underscore that a field of choices or a verdict may hold, and the reasons of this world."""
    found = {"max_turns", "verifier_did_not_run", "judge_failed"}
    for module in MODULES:
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if issubclass(kind, TextChoices):
                found |= set(kind.values)
    schemas = f"{BlindVerdict.model_json_schema()}{Attribution.model_json_schema()}"
    for listed in re.findall(r"'enum': \[([^\]]*)\]", schemas):
        found |= set(re.findall(r"'([^']+)'", listed))
    found |= set(AuditEvent.objects.values_list("action", flat=True))
    return {code for code in found if "_" in code}


def shown(client: Client, address: str) -> str:
    page = client.get(address)
    assert page.status_code == 200, address
    reader = Visible()
    reader.feed(page.content.decode())
    return " ".join(reader.text)


@pytest.fixture
def graded() -> ReviewRound:
    version = make_release()
    make_judged(version)
    people = make_people(version, "ann", "bob", "carl")
    made = make_round(version, people, size=20, plan=rounds.RoundPlan(size=20, overlap=0.5))
    slot = review.claim_next_slot(made, by=people[2], now=NOW)
    assert isinstance(slot, reviews.Slot)
    review.flag_slot(slot, reason="it does not open", by=people[2], now=NOW)
    said = {"ann": "not_satisfied", "bob": "satisfied"}
    work_off(made, people[:2], lambda _, user: said[user.username])
    rounds.create_adjudications(made, by=None)
    rounds.close_round(made, by=None, now=NOW)
    rounds.release_round(made, by=None, now=NOW)
    return made


def addresses(version: DatasetVersion, made: ReviewRound) -> list[str]:
    name = version.dataset.name
    of_dataset = ("dataset", "trajectories", "samples", "runs", "labels", "tasks", "rounds", "held-out", "report")
    pages = [reverse(page, args=[name]) for page in of_dataset]
    tabs = ("", "-agreement", "-consistency", "-signal", "-shapes", "-cost", "-rows")
    pages += [reverse(f"numbers{tab}", args=[name]) for tab in tabs]
    pages += [f"/d/{name}/labels/?reason=max_turns", f"/d/{name}/labels/?state=failed", f"/d/{name}/trajectories/"]
    pages += [reverse("round", args=[found.public_id]) for found in (made, *version.rounds.exclude(pk=made.pk))]
    pages += [reverse("run", args=[run.public_id]) for run in JudgeRun.objects.all()]
    some = {row.state + str(row.decision): row for row in Judgment.objects.all()}
    pages += [reverse("label", args=[row.public_id]) for row in some.values()]
    pages += [reverse("label", args=[row.public_id]) for row in ReviewLabel.objects.all()[:2]]
    trajectory = Trajectory.objects.filter(version=version).order_by("pk").first()
    assert trajectory
    pages += [reverse(page, args=[trajectory.public_id]) for page in ("trajectory", "trajectory-verifier")]
    return [*pages, reverse("task", args=[trajectory.task.public_id])]


def test_no_page_shows_a_code_where_a_person_reads(graded: ReviewRound) -> None:
    version = graded.version
    Judgment.objects.filter(decision="satisfied").update(reason="max_turns")
    unverified = Trajectory.objects.filter(version=version).order_by("pk").first()
    assert unverified
    type(unverified.source).objects.filter(pk=unverified.pk).update(verifier_reason="verifier_did_not_run")
    ann = User.objects.get(username="ann")
    settings = RoundSettings(kind="triage")
    plan: dict[str, object] = {"reviewers": [ann], "title": "Triage", "seed": 1, "by": None, "settings": settings}
    taskrounds.draw_tasks(version, list(version.tasks.all()), size=2, **plan)  # type: ignore[arg-type]
    client = Client()
    client.force_login(make_people(version, "lea", role=Role.LEAD)[0])
    known = codes()
    assert {"not_satisfied", "cannot_tell", "false_pass", "max_turns", "round_released"} <= known
    for address in addresses(version, graded):
        words = shown(client, address)
        assert not {code for code in known if re.search(rf"\b{code}\b", words)}, address


def test_a_reviewer_reads_words_too(graded: ReviewRound) -> None:
    client = Client()
    client.force_login(User.objects.get(username="ann"))
    reviews.Grade.objects.update(evidence=[])
    slots = reviews.Slot.objects.filter(reviewer__username="ann")
    for address in ("/review/", *(reverse("review-slot", args=[slot.public_id]) + "task/" for slot in slots[:2])):
        words = shown(client, address)
        assert not {code for code in codes() if re.search(rf"\b{code}\b", words)}, address
        assert "Rubric" not in words, address  # the list that is answered has one heading: Requirements


def test_codes_of_ours_become_words_and_other_text_stays() -> None:
    assert worded("not_satisfied") == "not satisfied"
    assert worded("read my_file.py") == "read my_file.py"
    assert worded("exact") == "exact"
    assert 'title="verifier did not run"' in status("invalid", "verifier_did_not_run")


def test_a_citation_is_no_tag() -> None:
    assert cited("E1") == '<strong class="mono" title="E1 in the words of the judge">[1]</strong>'
    assert "[12]" in cited("E12")
    assert cited("E01") == '<strong class="mono">E01</strong>'
    assert prose("R1 is not met [E1,E3]. R2 is [E12], E4 is not, nor a[E01].") == (
        "R1 is not met [1, 3]. R2 is [12], E4 is not, nor a[E01]."
    )
    assert cited("<b>") == '<strong class="mono">&lt;b&gt;</strong>'
