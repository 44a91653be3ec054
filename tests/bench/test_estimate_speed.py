"""An estimate from 100,000 labels takes seconds. Run with `-m bench -s`; time is CPU seconds of this process."""

import random
import time

import pytest

from auditapp.estimation import compute
from auditapp.models.datasets import DatasetVersion, Trajectory
from auditapp.models.judgments import JudgeRun, Judgment
from auditapp.models.labels import ImportedLabel
from auditapp.models.sources import ImportBatch, TrajectorySource
from tests.auditapp.looks import make_run
from tests.auditapp.population import make_task, make_version

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
TASKS, EACH, LIMIT_S = 500, 100, 15.0
DECISIONS = {"yes": "satisfied", "no": "not_satisfied", "unknown": "cannot_tell"}


def _population(chance: random.Random) -> DatasetVersion:
    """50,000 trajectories of 500 tasks by four models."""
    version = make_version()
    batch = ImportBatch.objects.create(version=version, label="made by a benchmark")
    tasks = [make_task(version, f"t{number}", environment=f"e{number % 5}") for number in range(TASKS)]
    made = Trajectory.objects.bulk_create(
        [Trajectory(version=version, task=task, content_sha256="0" * 64) for task in tasks for _ in range(EACH)], 2000
    )
    sources = [
        TrajectorySource(
            trajectory=trajectory,
            task=trajectory.task,
            version=version,
            batch=batch,
            source_id=str(number),
            model=f"m{number % 4}",
            agent="a",
            verifier_status=(status := chance.choice(("pass", "fail"))),
            recorded_status=status,
        )
        for number, trajectory in enumerate(made)
    ]
    TrajectorySource.objects.bulk_create(sources, 2000)
    return version


def _label(run: JudgeRun, chance: random.Random) -> int:
    """A judgment and a person's label of each trajectory."""
    version = run.sample.frame.version
    for acceptable, decision in DECISIONS.items():
        ids = [
            pk for pk in Judgment.objects.filter(state="queued").values_list("pk", flat=True) if chance.random() < 0.5
        ]
        for start in range(0, len(ids), 2000):
            Judgment.objects.filter(pk__in=ids[start : start + 2000]).update(
                state="completed", decision=decision, integrity="none", acceptable=acceptable
            )
    people = [
        ImportedLabel(
            version=version,
            trajectory_id=pk,
            kind="human",
            labeler="anna",
            decision=DECISIONS[acceptable],
            acceptable=acceptable,
        )
        for pk in version.trajectories.values_list("pk", flat=True)
        for acceptable in (chance.choice(tuple(DECISIONS)),)
    ]
    ImportedLabel.objects.bulk_create(people, 2000)
    return len(people) + Judgment.objects.count()


def test_a_hundred_thousand_labels_are_estimated_in_seconds() -> None:
    chance = random.Random(1)
    version = _population(chance)
    count = _label(make_run(version), chance)
    started = time.process_time()
    found = compute(version)
    spent = time.process_time() - started
    print(f"\n  {count:,} labels: {spent:.1f} s")
    assert count == 2 * TASKS * EACH
    assert found["false_pass"]["labels"] == "judge corrected by people"
    assert spent < LIMIT_S
