"""A bundle: one zip from which a third party recomputes sample, draws of rounds and estimates, without a database.

    bundle.json      what it is about, and the SHA-256 of every other file
    frame.json       the frame's manifest; its SHA-256 is the frame digest
    units.csv        drawn trajectories, and others with labels: task, cell, probability, weight
    labels.csv       every label in the canonical columns, without evidence
    rounds/N-E.json  the manifest that round N (extension E) was drawn from
    estimates.json   the figures that were reported

`bundle_check` verifies one. It holds labels of held-out tasks: it is for auditors, not for training.
"""

import csv
import fcntl
import hashlib
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from django.conf import settings
from django.db import connection, transaction

from auditapp import blobs
from auditapp.estimation import Stored, Subject, compute, place_among_draws, renew, stored, subject
from auditapp.estimation_inputs import code_sha256, inputs_sha256
from auditapp.exports import csv_lines, label_rows, neutralise
from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import JudgeConfig
from auditapp.models.reviews import RoundKind, RoundState
from auditapp.models.rounds import ItemDraw, RoundDraw, RoundStratum
from auditapp.models.samples import Sample, SampleUnit
from auditapp.models.sources import TrajectorySource
from auditapp.observations import Observations, Unit, observe
from judges.records import Json

SCHEMA = "assay.bundle/1"
UNIT_COLUMNS = (
    *("source_id", "task", "drawn", "verifier_status", "model", "agent", "effort", "environment"),
    *("phase", "steps", "inclusion_probability", "weight"),
)

LATE = "later "
"""Before the cell of a drawn unit that people labeled elsewhere once rounds had drawn: it is listed again undrawn."""


class BundleError(ValueError):
    """A bundle that cannot be made or read; the message says why."""


def write_bundle(
    version: DatasetVersion, path: Path, *, config: JudgeConfig | None = None, sample: Sample | None = None
) -> Json:
    """Write the bundle of a version, judge and draw, as `subject` chooses; it appears whole or not at all.

    Returns what `bundle.json` says. Raises BundleError where nothing was drawn, and OSError.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            about = _write(archive, version, config, sample)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return about


def _write(
    archive: zipfile.ZipFile, version: DatasetVersion, config: JudgeConfig | None, sample: Sample | None
) -> Json:
    chosen = subject(version, config=config, sample=sample)
    if chosen.sample is None:
        raise BundleError(f"{version} has no sample that a judge has looked at: there is nothing to recompute.")
    found = _current(version, chosen.config, chosen.sample)
    with _one_moment():
        return _fill(archive, version, chosen.config, chosen.sample, found)


def _fill(
    archive: zipfile.ZipFile, version: DatasetVersion, config: JudgeConfig | None, sample: Sample, found: Stored
) -> Json:
    figures = _figures(version, config, sample, found)
    seen = observe(version, config=config, sample=sample)
    rounds = list(_rounds(sample))
    parts: dict[str, Iterator[bytes]] = {
        "frame.json": iter([blobs.get(sample.frame.manifest_blob)]),
        "units.csv": _units(seen, sample),
        "labels.csv": (line.encode() for line in csv_lines(_labels(version))),
        "estimates.json": iter([orjson.dumps(figures)]),
    }
    for about in rounds:
        for draw in about["draws"]:
            parts[f"rounds/{draw['manifest']}.json"] = iter([blobs.get(draw["manifest"])])
    files = {name: _add(archive, name, content) for name, content in parts.items()}
    about = _about(version, config, sample, seen) | {"rounds": rounds, "files": files}
    archive.writestr("bundle.json", orjson.dumps(about, option=orjson.OPT_INDENT_2))
    return about


def _current(version: DatasetVersion, config: JudgeConfig | None, sample: Sample) -> Stored:
    found = stored(version, config=config, sample=sample)
    return renew(version, config=config, sample=sample) if found is None or found.is_stale else found


def _figures(version: DatasetVersion, config: JudgeConfig | None, sample: Sample, found: Stored) -> Json:
    """Those that were stored, or what they would be by now where something came since."""
    holds = inputs_sha256(version, config=config, sample=sample) == found.inputs_sha256
    return found.payload if holds else compute(version, config=config, sample=sample)


@contextmanager
def _one_moment() -> Iterator[None]:
    """All that is read inside is as it was at one moment, so that figures follow from labels; nothing may be written.

    Inside a transaction of the caller's, it is that one.
    """
    if connection.in_atomic_block:
        yield
    elif connection.vendor == "postgresql":
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            yield
    else:
        with _deferred(), transaction.atomic():
            yield


@contextmanager
def _deferred() -> Iterator[None]:
    """Have SQLite begin transactions as readers, who keep nobody from writing."""
    sqlite: Any = connection
    sqlite.ensure_connection()  # which sets the mode
    usual, sqlite.transaction_mode = sqlite.transaction_mode, "DEFERRED"
    try:
        yield
    finally:
        sqlite.transaction_mode = usual


def _labels(version: DatasetVersion) -> Iterator[dict[str, Any]]:
    return label_rows(version, with_evidence=False, with_held_out=True)


def _add(archive: zipfile.ZipFile, name: str, content: Iterator[bytes]) -> str:
    digest = hashlib.sha256()
    with archive.open(name, "w", force_zip64=True) as file:
        for part in content:
            digest.update(part)
            file.write(part)
    return digest.hexdigest()


def _about(version: DatasetVersion, config: JudgeConfig | None, sample: Sample, seen: Observations) -> Json:
    return {
        "schema": SCHEMA,
        "dataset": version.dataset.name,
        "version": version.name,
        "failing": list(seen.failing),
        "judge": {"name": config.name, "digest": config.digest} if config else None,
        "frame_digest": sample.frame.digest,
        "sample": {
            "plan": sample.plan,
            "seed": str(sample.seed),  # larger than what other readers of JSON keep exact
            **place_among_draws(sample),
            "size": sample.size,
        },
        "code_sha256": code_sha256(),
    }


def _units(seen: Observations, sample: Sample) -> Iterator[bytes]:
    """Drawn ones in the order of the estimates, then the others."""
    ids = dict(TrajectorySource.objects.filter(version=seen.version).values_list("trajectory_id", "source_id"))
    tasks = {pk: str(public_id) for pk, public_id in seen.version.tasks.values_list("pk", "public_id")}
    fields = ("trajectory_id", "stratum__number", "inclusion_probability", "weight")
    drawn = {row[0]: row[1:] for row in SampleUnit.objects.filter(sample=sample).values_list(*fields)}
    late = {unit.trajectory for unit in seen.others} & drawn.keys()
    yield _line(UNIT_COLUMNS)
    for unit in seen.units:
        marked = replace(unit, phase=f"{LATE}{unit.phase}") if unit.trajectory in late else unit
        yield _unit(marked, ids[unit.trajectory], tasks[unit.task], drawn[unit.trajectory])
    for unit in seen.others:
        yield _unit(unit, ids[unit.trajectory], tasks[unit.task], ("", "", ""))


def _unit(unit: Unit, source_id: str, task: str, drawn: tuple[Any, ...]) -> bytes:
    number, probability, weight = drawn
    return _line((source_id, task, number, *unit.cell, unit.phase, unit.steps, probability, weight))


def _line(values: tuple[Any, ...]) -> bytes:
    buffer = io.StringIO(newline="")
    csv.writer(buffer).writerow([neutralise(value) if isinstance(value, str) else value for value in values])
    return buffer.getvalue().encode()


def _rounds(sample: Sample) -> Iterator[Json]:
    """Released rounds of a sample: their seeds, cells, and which units each draw took."""
    released = RoundDraw.objects.filter(
        sample=sample, round__state=RoundState.RELEASED, round__kind=RoundKind.BLIND
    ).select_related("round", "config")
    for draw in released.order_by("round__number"):
        manifests = [draw.plan["manifest"], *(part["manifest"] for part in draw.plan.get("extensions", []))]
        yield {
            "number": draw.round.number,
            "title": draw.round.title,
            "seed": str(draw.round.seed),
            "drawn_at": draw.round.created_at.isoformat(),
            "judge": draw.config.digest if draw.config else None,
            "draws": [
                {"manifest": manifest, "cells": list(_cells(draw, extension))}
                for extension, manifest in enumerate(manifests)
            ],
        }


def _cells(draw: RoundDraw, extension: int) -> Iterator[Json]:
    rows = RoundStratum.objects.filter(draw=draw, extension=extension).select_related("stratum").order_by("pk")
    for row in rows:
        items = ItemDraw.objects.filter(stratum=row).order_by("item__number")
        yield {
            "stratum": row.stratum.number,
            "answer": row.answer,
            "size": row.size,
            "drawn": row.drawn,
            "units": sorted(items.values_list("item__trajectory__source__source_id", flat=True)),
        }


# --- made by a worker, kept for download


@dataclass(frozen=True, slots=True)
class Kept:
    """A bundle that lies ready, and whether nothing it was made from has changed since."""

    path: Path
    size: int
    made_at: datetime
    is_current: bool


def kept_bundle(version: DatasetVersion, chosen: Subject) -> Kept | None:
    """The bundle that lies ready for this judge and draw; None where there is none."""
    current = _place(version, chosen)
    for path in sorted(current.parent.glob("[!.]*.zip"), key=lambda found: found != current):
        try:
            about = path.stat()
        except FileNotFoundError:  # a newer one was made just now
            continue
        return Kept(path, about.st_size, datetime.fromtimestamp(about.st_mtime, UTC), path == current)
    return None


def keep_bundle(version: DatasetVersion, chosen: Subject) -> None:
    """Make the bundle for download, unless it lies ready or is being made; an older one goes, and half ones too."""
    path = _place(version, chosen)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (path.parent / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if not path.exists():
            write_bundle(version, path, config=chosen.config, sample=chosen.sample)
        for other in set(path.parent.iterdir()) - {path, path.parent / "lock"}:
            other.unlink()


def _place(version: DatasetVersion, chosen: Subject) -> Path:
    """Where a bundle of what there is now lies: labels, rulings or another way to write it give it another name."""
    rows = (version, chosen.config, chosen.sample)
    folder = "-".join(str(row.pk if row else 0) for row in rows)
    inputs = inputs_sha256(version, config=chosen.config, sample=chosen.sample)
    return Path(settings.ASSAY_HOME, "bundles", folder, f"{inputs}-{_writer_sha256()[:16]}.zip")


@cache
def _writer_sha256() -> str:
    """The digest of what writes a bundle, beside the estimators: an upgrade must not serve one of before as today's."""
    here = Path(__file__)
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in (here, here.with_name("exports.py")))).hexdigest()
