"""A frame is frozen once per population; a draw follows from frame and seed alone and keeps its probabilities."""

import hashlib
import json
import random

import numpy as np
import pytest
from django.contrib.auth.models import User

from auditapp import blobs
from auditapp.models.events import AuditEvent
from auditapp.models.samples import Frame, Sample, SampleUnit
from auditapp.models.sources import TrajectorySource
from auditapp.sampling import SamplingError, draw_keys, draw_part, draw_sample, freeze_frame, load_manifest
from auditapp.stats.allocation import AllocationError, Plan
from tests.auditapp.population import add_trajectory, fill, make_task, make_version

pytestmark = pytest.mark.django_db
CELLS = {("pass", "m1", "shop"): 12, ("fail", "m1", "shop"): 6, ("pass", "m2", "bank"): 3, ("fail", "m2", "bank"): 1}


@pytest.fixture
def lead() -> User:
    return User.objects.create_user("lead")


@pytest.fixture
def frame(lead: User) -> Frame:
    version = make_version()
    fill(version, CELLS)
    return freeze_frame(version, by=lead)


def drawn(sample: Sample) -> list[str]:
    ids = sample.units.values_list("trajectory_id", flat=True)
    return sorted(TrajectorySource.objects.filter(trajectory__in=ids).values_list("source_id", flat=True))


def test_strata_are_the_cells_with_their_sizes_in_a_fixed_order(frame: Frame) -> None:
    strata = frame.strata.order_by("number").values_list("number", "verifier_status", "model", "environment", "size")
    assert list(strata) == [
        (1, "fail", "m1", "shop", 6),
        (2, "fail", "m2", "bank", 1),
        (3, "pass", "m1", "shop", 12),
        (4, "pass", "m2", "bank", 3),
    ]
    assert frame.size == 22


def test_the_digest_is_that_of_the_stored_manifest(frame: Frame) -> None:
    data = blobs.get(frame.manifest_blob)
    assert hashlib.sha256(data).hexdigest() == frame.digest
    assert json.loads(data)["strata"][1] == {
        **{"number": 2, "verifier_status": "fail", "model": "m2", "agent": "a", "effort": ""},
        **{"environment": "bank", "size": 1},
    }


def test_freezing_an_unchanged_population_gives_the_same_frame(frame: Frame, lead: User) -> None:
    assert freeze_frame(frame.version, by=lead) == frame
    assert AuditEvent.objects.filter(action="frame_frozen").count() == 1


def test_a_new_trajectory_makes_a_new_frame_and_leaves_the_old_one(frame: Frame, lead: User) -> None:
    add_trajectory(make_task(frame.version, "late"), "late", "pass")
    later = freeze_frame(frame.version, by=lead)
    assert (later.digest, later.size) != (frame.digest, frame.size)
    assert len(load_manifest(frame)["units"]) == 22


def test_what_no_verdict_covers_stays_outside_and_is_counted() -> None:
    version = make_version()
    task = make_task(version)
    for number, status in enumerate(["pass", "fail", "none", "invalid", "invalid", "partial"]):
        add_trajectory(task, f"t{number}", status)
    add_trajectory(task, "oracle", "pass", is_control=True)
    manifest = load_manifest(freeze_frame(version, by=None))
    assert [unit[0] for unit in manifest["units"]] == ["t1", "t0"]
    assert manifest["outside"] == {"none": 1, "invalid": 2, "partial": 1}
    assert manifest["controls"] == 1


def test_partial_is_inside_where_the_dataset_counts_it_as_a_fail() -> None:
    version = make_version(partial_as="fail")
    for number, status in enumerate(["pass", "partial", "none"]):
        add_trajectory(make_task(version), f"t{number}", status)
    assert [row["verifier_status"] for row in load_manifest(freeze_frame(version, by=None))["strata"]] == [
        "partial",
        "pass",
    ]


def test_an_empty_population_is_refused_with_advice() -> None:
    with pytest.raises(SamplingError, match="no trajectory whose verifier said pass or fail: import"):
        freeze_frame(make_version(), by=None)


def test_the_same_seed_draws_the_same_units_whatever_order_rows_were_made_in(frame: Frame) -> None:
    sample = draw_sample(frame, Plan("proportional", 8), seed=7, by=None)
    twin = make_version("twin")
    sources = list(
        TrajectorySource.objects.filter(version=frame.version).select_related("trajectory__task__environment")
    )
    random.Random(1).shuffle(sources)
    for key in sources:
        source = TrajectorySource.objects.get(pk=key)
        task = source.trajectory.task
        copy = make_task(twin, task.name, environment=task.environment.name)
        add_trajectory(copy, source.source_id, source.verifier_status, model=source.model)
    twin.dataset.name, frame.version.dataset.name = "release", "moved"
    frame.version.dataset.save()
    twin.dataset.save()
    again = freeze_frame(twin, by=None)
    assert again.digest == frame.digest
    assert drawn(draw_sample(again, Plan("proportional", 8), seed=7, by=None)) == drawn(sample)


def test_a_third_party_can_recompute_the_draw(frame: Frame) -> None:
    sample = draw_sample(frame, Plan("fixed", sizes=(2, 0, 5, 3)), seed=2026, by=None)
    expected = []
    for number, size in enumerate((2, 0, 5, 3), 1):
        units = [unit[0] for unit in load_manifest(frame)["units"] if unit[2] == number]
        seed = int(hashlib.sha256(f"{frame.digest}|2026|{number}".encode()).hexdigest(), 16)
        keys = np.random.PCG64(seed).random_raw(len(units)).tolist()
        expected += [unit for _, unit in sorted(zip(keys, units, strict=True))[:size]]
    assert drawn(sample) == sorted(expected)


def test_the_generator_is_the_documented_one() -> None:
    assert draw_keys("ab" * 32, 1, 1, 3).tolist() == [
        14644143648975075091,
        11272010254019739884,
        12474702874295206763,
    ]


def test_another_seed_draws_other_units(frame: Frame) -> None:
    first, second = (draw_sample(frame, Plan("proportional", 8), seed=seed, by=None) for seed in (1, 2))
    assert drawn(first) != drawn(second)


def test_a_larger_draw_with_the_same_seed_holds_the_smaller_one(frame: Frame) -> None:
    small, large = (draw_sample(frame, Plan("fixed", size), seed=3, by=None) for size in (2, 4))
    assert set(drawn(small)) < set(drawn(large))


def test_every_unit_is_equally_likely(frame: Frame) -> None:
    counts = np.zeros(6)
    for seed in range(2000):
        counts[np.argsort(draw_keys(frame.digest, seed, 1, 6))[:2]] += 1
    # Binomial(2000, 1/3): standard deviation 21; four of them.
    assert np.abs(counts - 2000 / 3).max() < 84


def test_probabilities_and_weights_are_stored_and_weights_add_up_to_the_frame(frame: Frame) -> None:
    sample = draw_sample(frame, Plan("fixed", 3), seed=0, by=None)
    unit = SampleUnit.objects.get(sample=sample, stratum__number=2)
    assert (unit.inclusion_probability, unit.weight) == (1, 1)  # all of a stratum of one
    for unit in sample.units.filter(stratum__number=3):
        assert (unit.inclusion_probability, unit.weight) == (0.25, 4)
    assert sum(sample.units.values_list("weight", flat=True)) == pytest.approx(frame.size)
    assert sample.size == sample.units.count() == 10


def test_a_stratum_that_gets_nothing_is_recorded_as_zero(frame: Frame) -> None:
    sample = draw_sample(frame, Plan("proportional", 4), seed=0, by=None)
    draws = dict(sample.draws.values_list("stratum__number", "size"))
    assert draws == {1: 1, 2: 0, 3: 2, 4: 1}


def test_draws_are_numbered_and_a_repeated_one_is_the_same_sample(frame: Frame, lead: User) -> None:
    first = draw_sample(frame, Plan("proportional", 4), seed=0, by=lead)
    second = draw_sample(frame, Plan("proportional", 4), seed=1, by=lead)
    assert (first.draw_number, second.draw_number) == (1, 2)
    assert draw_sample(frame, Plan("proportional", 4), seed=0, by=lead) == first
    assert frame.samples.count() == 2
    events = AuditEvent.objects.filter(action="sample_drawn").order_by("id")
    assert [(event.actor, event.detail["seed"], event.detail["draw"]) for event in events] == [
        (lead, 0, 1),
        (lead, 1, 2),
    ]


def test_a_part_is_by_the_seed_of_its_draw_and_counts_among_no_draws(frame: Frame, lead: User) -> None:
    whole = draw_sample(frame, Plan("proportional", 6), seed=0, by=lead)
    plan = Plan("proportional", 4)
    part = draw_part(whole, plan, by=lead)
    assert (part.part_of, part.seed, part.draw_number, str(part)) == (whole, 0, 1, "part of draw 1")
    assert draw_part(whole, plan, by=lead) == draw_part(part, plan, by=lead) == part
    assert frame.draw_count == 1
    asked_for = draw_sample(frame, plan, seed=0, by=lead)
    assert (asked_for.part_of, str(asked_for), frame.draw_count) == (None, "draw 2", 2)
    assert str(draw_sample(frame, plan, seed=1, by=lead)) == "draw 3"
    assert AuditEvent.objects.filter(action="sample_drawn").count() == 3


def test_a_census_weighs_every_unit_one(frame: Frame) -> None:
    sample = draw_sample(frame, Plan("census"), seed=0, by=None)
    assert sample.size == 22
    assert set(sample.units.values_list("weight", flat=True)) == {1.0}


def test_a_plan_that_asks_too_much_leaves_nothing_behind(frame: Frame) -> None:
    with pytest.raises(AllocationError, match="frame of 22"):
        draw_sample(frame, Plan("proportional", 23), seed=0, by=None)
    assert not Sample.objects.exists()


def test_nothing_is_drawn_from_an_altered_manifest(frame: Frame) -> None:
    frame.manifest_blob = blobs.put(b'{"units": []}')
    with pytest.raises(SamplingError, match="was altered"):
        draw_sample(frame, Plan("census"), seed=0, by=None)


def test_a_seed_that_no_database_holds_is_refused(frame: Frame) -> None:
    with pytest.raises(SamplingError, match="whole number from 0"):
        draw_sample(frame, Plan("census"), seed=-1, by=None)
