"""Stored figures: made once, made anew when what they rest on changes, and never shown as new when they are not."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from auditapp import blobs, estimation, estimation_inputs, tasks
from auditapp.counters import count
from auditapp.estimation import outdated, renew, stored
from auditapp.estimation_inputs import inputs_sha256
from auditapp.ingest_labels import import_labels
from auditapp.judging import finish_run
from auditapp.models.datasets import DatasetVersion, Membership, Role
from auditapp.models.estimates import Estimate
from auditapp.models.events import AuditEvent
from auditapp.models.reviews import ReviewRound
from auditapp.relabel import count_not_run_as
from tests.auditapp.looks import make_run
from tests.auditapp.population import fill, make_version
from tests.auditapp.test_estimate import arm, grade, judge

pytestmark = pytest.mark.django_db


@pytest.fixture
def version() -> DatasetVersion:
    made = make_version()
    fill(made, {("pass", "m", "e"): 10, ("fail", "m", "e"): 6})
    make_run(made)
    judge(made, dict.fromkeys(arm("pass", 10), "yes") | dict.fromkeys(arm("fail", 6), "no"))
    return made


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures may be made anew although a judge is at work, unless a test says otherwise."""
    monkeypatch.setattr(estimation, "WHILE_JUDGING", timedelta(0))


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever there is counts as too much for a page to wait for."""
    monkeypatch.setattr(estimation_inputs, "SMALL", 1)


@pytest.fixture
def lead(client: Client, version: DatasetVersion) -> Client:
    user = User.objects.create_user("lead")
    Membership.objects.create(dataset=version.dataset, user=user, role=Role.LEAD)
    client.force_login(user)
    return client


@pytest.fixture
def rung(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The messages that would have gone to a worker."""
    sent: list[tuple[Any, ...]] = []
    monkeypatch.setattr(tasks, "_send", lambda message: message())  # no test ends its transaction
    monkeypatch.setattr(tasks.compute_estimate, "delay", lambda *args: sent.append(args))
    return sent


def test_the_second_look_reads_what_the_first_computed(
    version: DatasetVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = stored(version)
    monkeypatch.setattr(estimation, "compute", None)
    second = stored(version)
    assert first == second
    assert first is not None
    assert first.payload["false_pass"]["n"] == 10
    assert list(first.payload)[:2] == ["dataset", "dataset_version"]  # in the order of `compute`
    assert Estimate.objects.count() == 1


def test_a_new_label_makes_figures_anew_at_once_where_they_are_few(version: DatasetVersion) -> None:
    before = stored(version)
    grade(version, {arm("pass", 10)[0]: "no"})
    after = stored(version)
    assert before is not None
    assert after is not None
    assert not after.is_stale
    assert before.inputs_sha256 != after.inputs_sha256
    assert after.payload["human_only"]["false_pass"]["n"] == 1


@pytest.mark.usefixtures("large")
def test_many_labels_are_left_to_a_worker_and_old_figures_say_that_they_are_old(version: DatasetVersion) -> None:
    assert stored(version) is None
    renew(version)
    assert (found := stored(version)) is not None
    assert not found.is_stale
    grade(version, {arm("pass", 10)[0]: "no"})
    assert (found := stored(version)) is not None
    assert found.is_stale
    assert "insufficient" in found.payload["human_only"]["false_pass"]


def test_while_a_judge_is_at_work_figures_are_made_anew_every_half_minute(
    version: DatasetVersion, lead: Client, rung: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimation, "WHILE_JUDGING", timedelta(seconds=30))
    renew(version)
    grade(version, {arm("pass", 10)[0]: "no"})
    for address in (reverse("numbers", args=[version.dataset.name]), reverse("home")):
        assert "made anew every 30 seconds at most" in lead.get(address).content.decode()
    tasks.compute_estimate(version.pk)
    assert Estimate.objects.count() == 1
    assert rung == []
    Estimate.objects.update(computed_at=timezone.now() - timedelta(seconds=31))
    assert (found := stored(version)) is not None
    assert not found.is_stale


def test_of_one_subject_the_newest_figures_alone_are_kept(version: DatasetVersion) -> None:
    for _ in range(estimation.KEPT + 2):
        newest = renew(version)
    assert Estimate.objects.count() == estimation.KEPT
    assert stored(version) == newest


@pytest.mark.usefixtures("large")
def test_pages_of_a_large_version_show_the_counts_that_were_kept(
    version: DatasetVersion, lead: Client, rung: list[tuple[Any, ...]], django_assert_num_queries: Any
) -> None:
    name = version.dataset.name
    assert "a worker counts them" in lead.get(reverse("home")).content.decode()
    assert len(rung) == 1
    renew(version)
    for page in ("dataset", "trajectories", "labels"):
        assert lead.get(reverse(page, args=[name])).status_code == 200
    kept = estimation.counts(version)
    assert kept.at is not None
    with django_assert_num_queries(0):
        assert kept.statuses() == {"pass": 10, "fail": 6, "partial": 0, "none": 0, "invalid": 0}
        assert kept.labels("source") == {"judge": 16}
        assert [row.labels for row in kept.comparisons()] == [16]
    assert "were counted" in lead.get(reverse("labels", args=[name])).content.decode()


def test_counts_that_were_kept_are_those_of_the_database(version: DatasetVersion) -> None:
    kept = renew(version).payload["counts"]
    assert kept == json.loads(json.dumps(count(version)))


def _label(version: DatasetVersion) -> None:
    grade(version, {arm("fail", 6)[0]: "yes"})


def _judgment(version: DatasetVersion) -> None:
    run = version.frames.get().samples.get().judge_runs.get()
    run.judgments.filter(state="completed")[:1].get().delete()


def _end(version: DatasetVersion) -> None:
    run = version.frames.get().samples.get().judge_runs.get()
    assert finish_run(run.pk, now=timezone.now())


def _ruling(version: DatasetVersion) -> None:
    count_not_run_as(version, recorded=True, by=User.objects.create_user("someone"))


def _round(version: DatasetVersion) -> None:
    ReviewRound.objects.create(version=version, number=1, title="first", seed=1)


def _renamed(version: DatasetVersion) -> None:
    version.dataset.name = "another"
    version.dataset.save()


@pytest.mark.parametrize("change", [_label, _judgment, _end, _ruling, _round, _renamed])
def test_whatever_figures_rest_on_changes_their_digest(version: DatasetVersion, change: Any) -> None:
    first = stored(version)
    change(version)
    second = stored(DatasetVersion.objects.get(pk=version.pk))
    assert first is not None
    assert second is not None
    assert first.inputs_sha256 != second.inputs_sha256


def test_a_round_of_another_version_tells_how_long_people_take_once_it_is_released(version: DatasetVersion) -> None:
    other = DatasetVersion.objects.create(dataset=version.dataset, name="2")
    before = inputs_sha256(version, config=None, sample=None)
    made = ReviewRound.objects.create(version=other, number=1, seed=1)
    assert inputs_sha256(version, config=None, sample=None) == before
    ReviewRound.objects.filter(pk=made.pk).update(state="released")
    assert inputs_sha256(version, config=None, sample=None) != before
    ReviewRound.objects.filter(pk=made.pk).update(kind="cold_read")
    assert inputs_sha256(version, config=None, sample=None) == before


def test_another_estimator_makes_figures_stale(version: DatasetVersion, monkeypatch: pytest.MonkeyPatch) -> None:
    first = stored(version)
    monkeypatch.setattr(estimation_inputs, "code_sha256", lambda: "0" * 64)
    second = stored(version)
    assert first is not None
    assert second is not None
    assert first.inputs_sha256 != second.inputs_sha256
    assert first.payload == second.payload


@pytest.mark.usefixtures("large")
def test_figures_of_another_version_of_the_program_are_waited_for_and_not_read(
    version: DatasetVersion, lead: Client, rung: list[tuple[Any, ...]]
) -> None:
    """They may lack what a page shows today, as those of this one did before it asked for it."""
    made = Estimate.objects.get(inputs_sha256=renew(version).inputs_sha256)
    older = blobs.get_json(made.payload_blob) | {"code_sha256": "0" * 64, "shapes": {"people": {}}}
    blob = blobs.put(json.dumps(older).encode())
    Estimate.objects.filter(pk=made.pk).update(inputs_sha256="0" * 64, payload_blob=blob)
    address = reverse("numbers-shapes", args=[version.dataset.name])
    assert lead.get(address).status_code == 202
    assert lead.get(reverse("dataset", args=[version.dataset.name])).status_code == 200
    tasks.compute_estimate(*rung[0])
    assert lead.get(address).status_code == 200


@pytest.mark.usefixtures("large")
def test_a_page_without_figures_waits_for_them_and_then_shows_them(
    version: DatasetVersion, lead: Client, rung: list[tuple[Any, ...]]
) -> None:
    address = reverse("numbers", args=[version.dataset.name])
    waiting = lead.get(address)
    assert waiting.status_code == 202
    assert "being computed" in waiting.content.decode()
    assert lead.get(address, headers={"HX-Request": "true"}).status_code == 202
    assert len(rung) == 1  # the page that waits does not ask again
    tasks.compute_estimate(*rung[0])
    assert lead.get(address).status_code == 200
    assert len(rung) == 1


@pytest.mark.usefixtures("large")
def test_a_page_of_stale_figures_says_so_and_asks_for_new_ones(
    version: DatasetVersion, lead: Client, rung: list[tuple[Any, ...]]
) -> None:
    renew(version)
    grade(version, {arm("pass", 10)[0]: "no"})
    page = lead.get(reverse("numbers", args=[version.dataset.name])).content.decode()
    assert "have changed since" in page
    assert len(rung) == 1
    back = lead.post(reverse("numbers-recompute", args=[version.dataset.name]), {"page": "numbers-agreement"})
    assert back["location"] == reverse("numbers-agreement", args=[version.dataset.name])
    assert len(rung) == 2
    assert lead.get(reverse("numbers-recompute", args=[version.dataset.name])).status_code == 405


def test_a_worker_does_nothing_twice_and_nothing_for_what_is_gone(version: DatasetVersion) -> None:
    tasks.compute_estimate(version.pk)
    tasks.compute_estimate(version.pk)
    tasks.compute_estimate(version.pk, config_id=10**6)
    tasks.compute_estimate(10**6)
    assert Estimate.objects.count() == 1


def test_figures_are_made_when_a_run_or_an_import_of_labels_ended(version: DatasetVersion, tmp_path: Any) -> None:
    renew(version)
    now = timezone.now()
    assert outdated(now=now) == []
    _end(version)
    assert outdated(now=timezone.now()) == [version.pk]
    renew(version)
    assert outdated(now=timezone.now()) == []
    path = tmp_path / "labels.csv"
    path.write_text(f"source_id,labeler,decision\n{arm('pass', 10)[0]},anna,not_satisfied\n")
    import_labels(version, path, kind="human", mapping=None, by=None)
    assert outdated(now=timezone.now()) == [version.pk]
    AuditEvent.objects.update(at=now - estimation.LATELY)
    assert outdated(now=timezone.now()) == []
