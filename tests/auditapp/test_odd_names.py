"""Names that turn the text around or speak to a terminal are marked on every page that shows them."""

import re
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.db import models
from django.db.models import F, Value
from django.db.models.functions import Concat

from auditapp import review, rounds
from auditapp.estimation import renew
from auditapp.models.datasets import DatasetVersion, Role, TaskRubric
from auditapp.models.judgments import CitedEvidence, CriterionAnswer, Judgment, JudgmentTag
from auditapp.models.reviews import Grade, Slot
from tests.auditapp import round_world
from tests.auditapp.round_world import make_people
from tests.auditapp.rounds import make_reviewers
from tests.auditapp.test_tables import version
from tests.auditapp.walk import client_of, paths

__all__ = ["version"]
pytestmark = [pytest.mark.django_db, pytest.mark.slow]
ODD = "\u202egnp\x1b[8m"
SENT_BACK = re.compile(r' value="[^"]*"|(?s:<textarea[^>]*>.*?</textarea>)')
RAW = re.compile("[\u202e\x1b]")
OF_PRODUCERS = {  # what comes with imported data, and who may write it there
    "Environment": ("name",),
    "Task": ("name",),
    "TrajectorySource": ("source_id", "model", "agent", "effort", "verifier_reason"),
    "ImportedLabel": ("labeler", "note"),
    "ImportBatch": ("label", "reason"),
    "Stratum": ("environment", "model", "agent", "effort"),
}
OF_WRITERS = {  # sentences of models and of people
    "Grade": ("note", "text"),
    "Skip": ("reason",),
    "Flag": ("reason",),
    "CriterionAnswer": ("requirement",),
    "CitedEvidence": ("quote", "detail"),
    "JudgmentTag": ("note",),
}


def make_odd() -> None:
    for name, fields in (OF_PRODUCERS | OF_WRITERS).items():
        model: type[models.Model] = apps.get_model("auditapp", name)
        for field in fields:
            model._default_manager.exclude(**{field: ""}).update(**{field: Concat(F(field), Value(ODD))})
    for rubric in TaskRubric.objects.all():
        rubric.requirements = [row | {"text": row["text"] + ODD} for row in rubric.requirements]
        rubric.save()
    for grade in Grade.objects.all():
        lines = {"line_start": 1, "line_end": 1}
        grade.evidence = [row | lines | {"quote": row["quote"] + ODD} for row in grade.evidence]
        grade.save()


def say(judgment: Judgment) -> None:
    """What a judge writes beside its decision."""
    cited = {"phase": 1, "code": "E1", "kind": "step", "target": "1"}
    CitedEvidence.objects.create(judgment=judgment, **cited, quote="42", ok=False, result="absent", detail="not there")
    CriterionAnswer.objects.create(judgment=judgment, code="R1", requirement="It adds.", status="met", evidence=["E1"])
    JudgmentTag.objects.create(judgment=judgment, code="C01", role="primary", phase=1, kept=True, note="see [E1]")


def shown_raw(text: str) -> list[str]:
    """Where a page shows what it should mark; what a form sends back stays as it is."""
    shown = SENT_BACK.sub("", text)
    return sorted({ascii(shown[max(0, found.start() - 40) : found.start() + 10]) for found in RAW.finditer(shown)})


def walked(version: DatasetVersion, user: User, *, begins: str = "") -> tuple[list[str], set[str]]:
    """What the pages of a user show as it came, and which of them show something that was marked."""
    raw: list[str] = []
    marked: set[str] = set()
    client = client_of(user)
    for name, path in paths(version):
        if not name.startswith(begins):
            continue
        answer: Any = client.get(path)
        if answer.status_code == 200 and answer["Content-Type"].startswith("text/html") and not answer.streaming:
            text = answer.content.decode()
            raw += [f"{name}: …{found}…" for found in shown_raw(text)]
            marked |= {name} if "gnp" in text else set()
    return raw, marked


def test_no_page_shows_a_name_as_it_came(version: DatasetVersion) -> None:
    say(Judgment.objects.filter(state="completed").order_by("pk")[0])
    make_odd()
    renew(version)
    (lead,) = make_reviewers(version, "lead", role=Role.LEAD)
    raw, marked = walked(version, lead)
    assert raw == [], "\n".join(raw)
    assert len(marked) > 10


def test_no_page_of_a_reviewer_shows_a_sentence_as_it_came(version: DatasetVersion) -> None:
    dan, eve, fay = people = make_people(version, "dan", "eve", "fay")
    opened = round_world.make_round(version, people, plan=rounds.RoundPlan(size=12, overlap=1, regrade=True))
    for user, decision in ((dan, "satisfied"), (eve, "not_satisfied")):
        slot = review.claim_next_slot(opened, by=user, now=round_world.NOW)
        assert isinstance(slot, Slot)
        Slot.objects.filter(item=slot.item).update(position=0)
        opened.reviewers.update(cursor=0)
        round_world.grade(slot, user, decision)
    Grade.objects.filter(slot__round=opened).update(note="see there")
    assert rounds.create_adjudications(opened, by=None, assigned=fay).made == 1
    Slot.objects.filter(role="adjudicate").update(position=0)
    held = review.claim_next_slot(opened, by=fay, now=round_world.NOW)
    assert isinstance(held, Slot)
    skipped = review.claim_next_slot(opened, by=dan, now=round_world.NOW)
    assert isinstance(skipped, Slot)
    review.skip_slot(skipped, reason="not mine", outside=False, by=dan, now=round_world.NOW)
    make_odd()
    for user, names in ((fay, {"review-slot", "review-task"}), (dan, {"review"})):
        raw, marked = walked(version, user, begins="review")
        assert raw == [], "\n".join(raw)
        assert names <= marked
