"""What stored figures rest on, as one digest that is cheap to take, and whether they are quickly made anew.

Labels are only ever added, so the newest id of each origin tells whether any came; judgments change inside a live run
alone, so only those of live runs are counted.
"""

import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from django.db.models import Count, Max, Q, QuerySet, Sum

from auditapp.models.datasets import DatasetVersion
from auditapp.models.estimates import AcceptanceCriteria
from auditapp.models.events import AuditEvent
from auditapp.models.judgments import JudgeConfig, JudgeRun, Judgment, RunState
from auditapp.models.labels import ImportedLabel
from auditapp.models.reviews import HeldOutSet, ReviewRound, RoundKind, RoundState
from auditapp.models.rounds import ReviewLabel
from auditapp.models.samples import Sample
from auditapp.models.sources import ImportBatch
from auditapp.prepared import Prepared
from auditapp.relabel import RULINGS
from judges.records import canonical_json
from judges.taxonomy import taxonomy

SMALL = 20_000
"""With fewer trajectories and labels than this, figures are made while a page waits."""
_HERE = Path(__file__).parent
_ESTIMATORS = ("stats/*.py", "sections/*.py", "observations.py", "counters.py", "estimation.py", "grading.py")


def inputs_sha256(version: DatasetVersion, *, config: JudgeConfig | None, sample: Sample | None) -> str:
    """The digest of labels, rulings, rounds, criteria, held-out tasks, judge, draw and estimators of today."""
    rows = {
        "version": [version.pk, version.dataset.name, version.name, version.partial_as],
        "judge": config.digest if config else None,
        "sample": str(sample.public_id) if sample else None,
        "draws": sample.frame.draw_count if sample else None,
        **{name: _plain(found.rows(version=version.pk)) for name, found in _ROWS.items()},
        "labels": [_LABELS.first(version=version.pk), _GRADES.first(version=version.pk)],
        "criteria": _CRITERIA.first(version=version.pk),
        "ruling": _newest_ruling(version),
        "code": code_sha256(),
        "taxonomy": taxonomy().digest,
    }
    return hashlib.sha256(canonical_json(rows)).hexdigest()


@cache
def code_sha256() -> str:
    """The digest of the estimators' own source."""
    files = sorted(path for pattern in _ESTIMATORS for path in _HERE.glob(pattern))
    return hashlib.sha256(b"\0".join(path.name.encode() + b"\n" + path.read_bytes() for path in files)).hexdigest()


def is_small(version: DatasetVersion) -> bool:
    """Whether figures of this version are made in the time that a page may take."""
    planned = _runs(version).aggregate(n=Sum("planned"))["n"] or 0
    if planned >= SMALL:
        return False
    rows = (version.trajectories.all(), _labels(ImportedLabel, version), _labels(ReviewLabel, version))
    return planned + sum(found[:SMALL].count() for found in rows) < SMALL


def _plain(rows: Iterable[Sequence[Any]]) -> list[list[object]]:
    return [[value if isinstance(value, int) else str(value) for value in row] for row in rows]


def _runs(version: DatasetVersion) -> QuerySet[JudgeRun]:
    return JudgeRun.objects.filter(sample__frame__version=version).order_by("pk")


def _labels(model: Any, version: DatasetVersion) -> QuerySet[Any]:
    return model.objects.filter(version=version)  # type: ignore[no-any-return]


# --- asked by every page that shows a figure


def _imports(version: int) -> QuerySet[Any, Any]:
    imports = ImportBatch.objects.filter(version=version).order_by("pk")
    return imports.values_list("pk", "state", "imported", "finished_at")


def _states(version: int) -> QuerySet[Any, Any]:
    runs = JudgeRun.objects.filter(sample__frame__version=version)
    return runs.order_by("pk").values_list("pk", "state", "finished_at")


def _live(version: int) -> QuerySet[Any, Any]:
    live = JudgeRun.objects.filter(sample__frame__version=version, state__in=(RunState.RUNNING, RunState.PAUSED))
    found = Judgment.objects.filter(run__in=live).values("run", "state").annotate(n=Count("pk"))
    return found.annotate(newest=Max("finished_at")).order_by("run", "state").values_list("run", "state", "n", "newest")


def _rounds(version: int) -> QuerySet[Any, Any]:
    """Practice is in no figure; released rounds of other versions tell how long people take."""
    dataset = DatasetVersion.objects.filter(pk=version).values("dataset")
    timed = Q(version__dataset__in=dataset, kind=RoundKind.BLIND, state=RoundState.RELEASED)
    rounds = ReviewRound.objects.filter(Q(version=version) | timed).exclude(kind=RoundKind.PRACTICE)
    return rounds.order_by("pk").values_list("pk", "state", "extensions")


def _held_out(version: int) -> QuerySet[Any, Any]:
    return HeldOutSet.objects.filter(version=version).order_by("pk").values_list("pk", "digest", "retired_at")


def _newest(model: Any) -> Prepared[int]:
    """The key of the newest row of a version."""

    def newest(version: int) -> QuerySet[Any, int]:
        found: QuerySet[Any, int] = model.objects.filter(version=version).order_by("-pk").values_list("pk", flat=True)
        return found[:1]

    return Prepared(newest)


_ROWS = {
    name: Prepared(make)
    for name, make in (
        *(("imports", _imports), ("runs", _states), ("live", _live)),
        *(("rounds", _rounds), ("held_out", _held_out)),
    )
}
_LABELS, _GRADES, _CRITERIA = map(_newest, (ImportedLabel, ReviewLabel, AcceptanceCriteria))


def _newest_ruling(version: DatasetVersion) -> int | None:
    found = AuditEvent.objects.filter(dataset=version.dataset, subject=f"version {version}", action__in=RULINGS)
    return found.order_by("-pk").values_list("pk", flat=True).first()
