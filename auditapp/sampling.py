"""Sampling: a frame is frozen first, then a seed draws from it, so that neither can be chosen to fit the other.

A draw can be recomputed from the frame's manifest and the seed alone: see `draw_keys`.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import TypeVar

import numpy as np
from django.contrib.auth.models import User
from django.db import transaction

from auditapp import blobs
from auditapp.models.datasets import DatasetVersion, PartialAs
from auditapp.models.events import AuditEvent
from auditapp.models.samples import Frame, Sample, SampleUnit, Stratum, StratumDraw
from auditapp.models.sources import TrajectorySource
from auditapp.stats.allocation import Plan, allocate
from judges.records import Json, canonical_json

CHUNK = 500
Item = TypeVar("Item")
LARGEST_SEED = 2**63 - 1
COLUMNS = ("verifier_status", "model", "agent", "effort", "environment")
_FIELDS = (*COLUMNS[:4], "trajectory__task__environment__name", "source_id", "trajectory__content_sha256")


class SamplingError(ValueError):
    """A frame or a sample that cannot be had; the message says why and what to do."""


def default_statuses(version: DatasetVersion) -> tuple[str, ...]:
    """The verifier statuses a frame holds: pass and fail, and partial where the dataset counts it as a fail."""
    return ("pass", "fail", "partial") if version.partial_as == PartialAs.FAIL else ("pass", "fail")


# --- the frame


def freeze_frame(version: DatasetVersion, *, by: User | None, include: Sequence[str] | None = None) -> Frame:
    """Fix the population of a version: all trajectories but controls whose verifier status is in `include`.

    An unchanged population gives the frame that is there already. What stays outside is counted in the manifest.
    """
    statuses = default_statuses(version) if include is None else tuple(include)
    manifest = _manifest(version, statuses)
    if not manifest["units"]:
        raise SamplingError(
            f"{version} has no trajectory whose verifier said {' or '.join(statuses)}: import some first"
        )
    digest = blobs.put(canonical_json(manifest))
    with transaction.atomic():
        values = {"manifest_blob": digest, "size": len(manifest["units"]), "created_by": by}
        frame, created = Frame.objects.get_or_create(version=version, digest=digest, defaults=values)
        if created:
            Stratum.objects.bulk_create(Stratum(frame=frame, **row) for row in manifest["strata"])
            _log(frame, "frame_frozen", by=by, detail={"digest": digest, "size": frame.size})
    return frame


def _manifest(version: DatasetVersion, statuses: Sequence[str]) -> Json:
    sources = TrajectorySource.objects.filter(version=version)
    inside = sources.filter(is_control=False, verifier_status__in=statuses)
    # Sorted here, because the order of text differs between databases.
    rows = sorted(inside.values_list(*_FIELDS).iterator())
    strata, units = [], []
    for number, (cell, members) in enumerate(groupby(rows, key=lambda row: row[: len(COLUMNS)]), 1):
        listed = [[source_id, digest, number] for *_, source_id, digest in members]
        strata.append({"number": number, **dict(zip(COLUMNS, cell, strict=True)), "size": len(listed)})
        units += listed
    outside = sources.filter(is_control=False).exclude(verifier_status__in=statuses)
    return {
        "schema": "assay.frame/1",
        "dataset": version.dataset.name,
        "version": version.name,
        "include": sorted(statuses),
        "outside": Counter(outside.values_list("verifier_status", flat=True)),
        "controls": sources.filter(is_control=True).count(),
        "strata": strata,
        "units": units,
    }


def load_manifest(frame: Frame) -> Json:
    """The manifest of a frame; SamplingError where its bytes are not those the digest was made of."""
    data = blobs.get(frame.manifest_blob)
    if hashlib.sha256(data).hexdigest() != frame.digest:
        raise SamplingError(f"the stored manifest of frame {frame.digest[:12]} was altered; nothing is drawn from it")
    return json.loads(data)


# --- the draw


@dataclass(frozen=True, slots=True)
class _Drawn:
    """One stratum of a draw: the source ids of the units taken, out of `available`."""

    number: int
    available: int
    source_ids: Sequence[str]


def draw_keys(digest: str, seed: int, stratum: int, size: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """One 64-bit key for each unit of a stratum in manifest order; the units with the smallest keys are drawn.

    The keys are the raw output of numpy's PCG64, whose stream does not change between releases, seeded with the integer
    (big-endian) of the SHA-256 of "digest|seed|stratum". Of two equal keys the earlier unit is taken.
    """
    material = hashlib.sha256(f"{digest}|{seed}|{stratum}".encode("ascii")).digest()
    return np.random.PCG64(int.from_bytes(material, "big")).random_raw(size)


def draw_sample(frame: Frame, plan: Plan, *, seed: int, by: User | None) -> Sample:
    """Draw by `plan`; the same plan and seed give the same sample, which is stored once.

    Raises AllocationError for a plan the frame cannot meet.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise SamplingError(f"a seed is a whole number from 0 to {LARGEST_SEED}")
    return _draw_once(frame, plan, seed=seed, by=by)


def draw_part(sample: Sample, plan: Plan, *, by: User | None) -> Sample:
    """Draw part of a sample's frame by its own seed, to be looked at again; the same plan gives the same part.

    No seed is tried by it, so it counts among no draws. Raises AllocationError for a plan the frame cannot meet.
    """
    whole = sample.part_of or sample
    return _draw_once(whole.frame, plan, seed=whole.seed, by=by, part_of=whole)


def _draw_once(frame: Frame, plan: Plan, *, seed: int, by: User | None, part_of: Sample | None = None) -> Sample:
    drawn = _draw(frame, plan, seed)
    with transaction.atomic():
        Frame.objects.select_for_update().get(
            pk=frame.pk
        )  # one draw at a time, so that draws are numbered without gaps
        same = frame.samples.filter(seed=seed, plan=plan.to_json()).order_by("pk")
        earlier = same.first() if part_of else same.filter(part_of=None).first()
        return earlier or _store_sample(frame, plan, drawn, seed=seed, by=by, part_of=part_of)


def _draw(frame: Frame, plan: Plan, seed: int) -> list[_Drawn]:
    manifest = load_manifest(frame)
    sizes = allocate(plan, [stratum["size"] for stratum in manifest["strata"]])
    members = groupby(manifest["units"], key=lambda unit: int(unit[2]))
    drawn = []
    for size, (number, listed) in zip(sizes, members, strict=True):
        units = [source_id for source_id, *_ in listed]
        keys = draw_keys(frame.digest, seed, number, len(units))
        chosen = np.argsort(keys, kind="stable")[:size]
        drawn.append(_Drawn(number, len(units), [units[index] for index in sorted(chosen)]))
    return drawn


def _store_sample(
    frame: Frame, plan: Plan, drawn: Sequence[_Drawn], *, seed: int, by: User | None, part_of: Sample | None
) -> Sample:
    size = sum(len(stratum.source_ids) for stratum in drawn)
    number = part_of.draw_number if part_of else frame.draw_count + 1
    sample = Sample.objects.create(
        frame=frame, plan=plan.to_json(), seed=seed, draw_number=number, part_of=part_of, size=size, created_by=by
    )
    strata = {stratum.number: stratum for stratum in frame.strata.all()}
    StratumDraw.objects.bulk_create(
        StratumDraw(sample=sample, stratum=strata[part.number], size=len(part.source_ids)) for part in drawn
    )
    for part in drawn:
        for chunk in _chunks(_units(sample, strata[part.number], part)):
            SampleUnit.objects.bulk_create(chunk)
    action = "part_drawn" if part_of else "sample_drawn"
    _log(frame, action, by=by, detail={"seed": seed, "draw": number, "size": size, "plan": plan.to_json()})
    return sample


def _units(sample: Sample, stratum: Stratum, part: _Drawn) -> Iterator[SampleUnit]:
    taken = len(part.source_ids)
    for source_ids in _chunks(part.source_ids):
        found = TrajectorySource.objects.filter(version=sample.frame.version_id, source_id__in=source_ids)
        trajectories = dict(found.values_list("source_id", "trajectory_id"))
        for source_id in source_ids:
            yield SampleUnit(
                sample=sample,
                trajectory_id=trajectories[source_id],
                stratum=stratum,
                inclusion_probability=taken / part.available,
                weight=part.available / taken,
            )


def _chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    source = iter(items)
    while chunk := list(islice(source, CHUNK)):
        yield chunk


def _log(frame: Frame, action: str, *, by: User | None, detail: Json) -> None:
    AuditEvent.objects.create(
        dataset=frame.version.dataset, actor=by, action=action, subject=f"frame {frame.public_id}", detail=detail
    )
