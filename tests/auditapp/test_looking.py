"""Looking changes nothing: a GET writes no row, but for who has seen a verdict and figures that are kept."""

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from auditapp import review, rounds, taskrounds
from auditapp.models.datasets import Role
from auditapp.models.reviews import ReviewRound, Slot
from auditapp.round_draws import RoundSettings
from tests.auditapp.round_world import NOW, make_people, make_round
from tests.auditapp.test_words import addresses, graded

__all__ = ["graded"]
pytestmark = pytest.mark.django_db
WRITES = re.compile(r'^\s*(?:INSERT(?: OR \w+)? INTO|UPDATE|DELETE FROM) "([a-z_]+)"')
UNAVOIDABLE = {"auditapp_exclusion", "auditapp_estimate"}
"""Who has seen a verdict, which the page has shown by then; and figures that a page keeps for the next."""


def written_by(client: Client, address: str) -> set[str]:
    """The tables that a GET writes to."""
    with CaptureQueriesContext(connection) as asked:
        page = client.get(address)
    assert page.status_code == 200, address
    found = (WRITES.match(query["sql"]) for query in asked.captured_queries)
    return {match[1] for match in found if match}


def client_of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_a_lead_who_looks_writes_nothing(graded: ReviewRound) -> None:
    client = client_of(make_people(graded.version, "lea", role=Role.LEAD)[0])
    name = graded.version.dataset.name
    forms = [
        reverse(page, args=[name]) for page in ("round-new", "round-held-out-new", "sample-new", "run-new", "export")
    ]
    forms += [f"{forms[0]}?kind={kind}" for kind in ("triage", "audit", "cold_read")]
    seen: set[str] = set()
    for address in [*addresses(graded.version, graded), *forms, "/"]:
        seen |= (wrote := written_by(client, address))
        assert wrote <= UNAVOIDABLE, address
    assert "auditapp_exclusion" in seen  # so that writes are met at all


def test_a_reviewer_who_looks_writes_nothing(graded: ReviewRound) -> None:
    version = graded.version
    carl = User.objects.get(username="carl")
    settings = RoundSettings(kind="triage", shows_reference=True)
    tasks = list(version.tasks.all())
    triage = taskrounds.draw_tasks(
        version, tasks, size=3, reviewers=[carl], title="T", seed=1, by=None, settings=settings
    )
    blind = make_round(version, [carl, User.objects.get(username="ann")], plan=rounds.RoundPlan(size=8, regrade=True))
    rounds.open_round(triage, by=None, now=NOW)
    client = client_of(carl)
    held = [review.claim_next_slot(found, by=carl, now=NOW) for found in (triage, blind)]
    paths = ["/review/", *(reverse("review-instructions", args=[found.public_id]) for found in (triage, blind))]
    for slot in held:
        assert isinstance(slot, Slot)
        base = reverse("review-slot", args=[slot.public_id])
        paths += [base, f"{base}task/", f"{base}skip/", f"{base}flag/", f"{base}guess/"]
    paths.append(reverse("review-trials", args=[held[0].public_id]))  # type: ignore[union-attr]
    for address in paths:
        assert not written_by(client, address), address
