"""Who may see what: foreign objects do not exist, and a missing role is named."""

import uuid

import pytest
from django.test import Client

from auditapp.models.datasets import Dataset, Role, Trajectory
from tests.auditapp.reader_world import HIDDEN_MARKS, make_member, make_world

pytestmark = pytest.mark.django_db

TABS = ["", "chunk/0/", "lines/?step=4&part=observation&item=1", "search/?q=page", "deliverable/", "task/"]
TABS += ["verifier/", "recording/", "file/deliverable/?path=README.md", "hidden/streams/?path=out.txt"]
LEAD_TABS = ["reference/", "hidden/reference/?path=notes.md", "hidden/original/?path=result.json"]
LEAD_TABS += ["hidden/verifier-code/?path=verify.py"]


@pytest.fixture
def trajectory() -> Trajectory:
    return make_world()


def client_of(trajectory: Trajectory, role: Role) -> Client:
    client = Client()
    client.force_login(make_member(trajectory.version.dataset, role))
    return client


@pytest.mark.parametrize("tab", TABS + LEAD_TABS)
def test_a_lead_reads_every_part(trajectory: Trajectory, tab: str) -> None:
    assert client_of(trajectory, Role.LEAD).get(f"/t/{trajectory.public_id}/{tab}").status_code == 200


@pytest.mark.parametrize("tab", TABS)
def test_a_viewer_reads_what_cannot_quote_the_reference(trajectory: Trajectory, tab: str) -> None:
    response = client_of(trajectory, Role.VIEWER).get(f"/t/{trajectory.public_id}/{tab}")
    assert response.status_code == 200
    assert b"the-reference-mark" not in response.content
    assert b"the-original-mark" not in response.content
    assert b"the-verifier-source" not in response.content


@pytest.mark.parametrize("tab", LEAD_TABS)
def test_what_quotes_the_reference_is_for_leads(trajectory: Trajectory, tab: str) -> None:
    response = client_of(trajectory, Role.VIEWER).get(f"/t/{trajectory.public_id}/{tab}")
    assert response.status_code == 403
    assert b"for a lead of the dataset release" in response.content


def test_a_viewer_cannot_compare_with_the_reference(trajectory: Trajectory) -> None:
    address = f"/t/{trajectory.public_id}/deliverable/?path=app/paging.py&against=reference"
    assert b"against reference" not in client_of(trajectory, Role.VIEWER).get(address).content
    assert b"same on both sides" in client_of(trajectory, Role.LEAD).get(address).content


@pytest.mark.parametrize("tab", TABS + LEAD_TABS)
def test_a_reviewer_gets_nothing_of_a_trajectory_by_its_id(trajectory: Trajectory, tab: str) -> None:
    response = client_of(trajectory, Role.REVIEWER).get(f"/t/{trajectory.public_id}/{tab}")
    assert response.status_code == 403
    assert not [mark for mark in HIDDEN_MARKS if mark in response.content.decode()]


@pytest.mark.parametrize("tab", TABS + LEAD_TABS)
def test_foreign_and_unknown_trajectories_look_the_same(trajectory: Trajectory, tab: str) -> None:
    stranger = Client()
    stranger.force_login(make_member(Dataset.objects.create(name="other"), Role.LEAD))
    foreign = stranger.get(f"/t/{trajectory.public_id}/{tab}")
    unknown = stranger.get(f"/t/{uuid.uuid4()}/{tab}")
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert len(foreign.content) == len(unknown.content)


def test_without_a_login_every_part_asks_for_one(trajectory: Trajectory) -> None:
    for tab in TABS + LEAD_TABS:
        response = Client().get(f"/t/{trajectory.public_id}/{tab}")
        assert response.status_code == 302
        assert response["Location"].startswith("/login")


def test_health_needs_no_login() -> None:
    assert Client().get("/healthz").content == b"ok"
    assert Client().get("/readyz").json() == {"database": "ok", "storage": "ok"}


def test_the_reader_only_reads(trajectory: Trajectory) -> None:
    assert client_of(trajectory, Role.LEAD).post(f"/t/{trajectory.public_id}/").status_code == 405
