"""Estimates from stored labels: counts by stratum go in, results of `auditapp.stats` come out."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from time import perf_counter
from typing import Any

import orjson
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone

from auditapp import blobs
from auditapp.consistency import looks_again
from auditapp.counters import Counts, count
from auditapp.estimation_inputs import code_sha256, inputs_sha256, is_small
from auditapp.models.datasets import DatasetVersion
from auditapp.models.estimates import Estimate
from auditapp.models.events import AuditEvent
from auditapp.models.judgments import JudgeConfig, JudgeRun, Judgment, RunState
from auditapp.models.labels import PEOPLE, labels
from auditapp.models.reviews import ReviewRound, RoundKind, RoundState
from auditapp.models.samples import Frame, Sample, SampleUnit, Stratum
from auditapp.observations import Cell, Observations, observe
from auditapp.sections.acceptance import acceptance
from auditapp.sections.agreements import agreement, consistency
from auditapp.sections.bins import widest
from auditapp.sections.breakdown import breakdown
from auditapp.sections.cost import cost
from auditapp.sections.drifts import drifts
from auditapp.sections.figures import by_judge, count_of
from auditapp.sections.frozen import frozen_set
from auditapp.sections.graders import grader_consistency
from auditapp.sections.hacks import hack_bound
from auditapp.sections.judges import judges_paired
from auditapp.sections.narrow import narrow
from auditapp.sections.rates import UNCALIBRATED, by_stratum, rates
from auditapp.sections.rounds import anytime, rounds
from auditapp.sections.separation import separations, splits
from auditapp.sections.shapes import shapes
from auditapp.sections.signal import distribution, items, tags
from auditapp.stats.allocation import smoothed_rate
from auditapp.stats.proportions import InsufficientData, Proportion, as_result

Rate = Proportion | InsufficientData
PENDING = InsufficientData("it is being computed")
KEPT = 3
"""Figures of one version, judge and draw that are kept, the newest first."""
WHILE_JUDGING = timedelta(seconds=30)
"""While a judge is at work, figures are made anew this often at most."""
ENDINGS = ("run_done", "round_released", "labels_imported")
"""Events after which figures are made anew without anyone asking."""
LATELY = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Subject:
    """The judge whose labels an estimate uses, and the draw it is of; without a sample it is of the whole version."""

    config: JudgeConfig | None
    sample: Sample | None


def subject(version: DatasetVersion, *, config: JudgeConfig | None = None, sample: Sample | None = None) -> Subject:
    """The one choice of judge and draw, for pages and commands alike: both are those of one run.

    It is the newest run of this config and this sample, where they are given, that has a decision; else the newest.
    One that only looks again at part of what its judge had judged is not taken, unless its sample is asked for.
    """
    wanted = {"config": config, "sample": sample}
    runs = JudgeRun.objects.filter(sample__frame__version=version, **{key: row for key, row in wanted.items() if row})
    newest = runs.select_related("config", "sample__frame__version").order_by("-id")
    if sample is None:
        newest = newest.exclude(looks_again())
    run = newest.filter(_decided()).first() or newest.first()
    return Subject(run.config, run.sample) if run else Subject(config, sample)


def _decided() -> Q:
    """Whether a run has a label, its own, which an index tells at once, or one that it reuses."""
    own = Judgment.objects.filter(run=OuterRef("pk"), replicate=0, state="completed")
    units = SampleUnit.objects.filter(sample=OuterRef(OuterRef("sample"))).values("trajectory")
    said = Judgment.objects.filter(config=OuterRef("config"), replicate=0, state="completed", trajectory__in=units)
    return Q(Exists(own)) | Q(Exists(said))


@dataclass(frozen=True, slots=True)
class Headline:
    """Both rates of a batch as they are stored, whose labels each rests on, and whether a script made some.

    `computed_at` is None while a worker still makes the first figures.
    """

    subject: Subject
    false_pass: Rate = PENDING
    false_fail: Rate = PENDING
    passes_by: str = ""
    fails_by: str = ""
    scripted: bool = False
    extended: bool = False
    computed_at: datetime | None = None
    is_stale: bool = False
    waits: bool = False

    @property
    def uncalibrated(self) -> bool:
        """Whether a rate is the judge's word alone."""
        return UNCALIBRATED in (self.passes_by, self.fails_by)


def first_rate(figures: Mapping[str, Any], direction: str) -> Mapping[str, Any]:
    """The rate that comes first; after an extended round, with the interval that allows for it and the `rounds`."""
    own: Mapping[str, Any] = figures[direction]
    found = figures.get("anytime", {}).get(direction, {"insufficient": "not computed yet"})
    if "insufficient" in own or "insufficient" in found:
        return own
    return {**own, **{key: found[key] for key in ("low", "high", "method", "rounds")}}


def headline(version: DatasetVersion) -> Headline | None:
    """How often the verifier is wrong, in both directions; None where neither a judge nor a person has decided."""
    chosen = subject(version)
    if chosen.sample is None and not labels(version).filter(source__in=PEOPLE).exists():
        return None
    found = _stored(version, chosen)
    if found is None:
        return Headline(chosen)
    said = found.payload
    if not any(row["judge"]["decided"] or row["human"]["looked_at"] for row in said["by_stratum"]):
        return None
    wrong, right = first_rate(said, "false_pass"), first_rate(said, "false_fail")
    graded = ReviewRound.objects.filter(version=version, kind=RoundKind.BLIND, state=RoundState.RELEASED)
    return Headline(
        chosen,
        false_pass=as_result(wrong),
        false_fail=as_result(right),
        passes_by=said["false_pass"]["labels"],
        fails_by=said["false_fail"]["labels"],
        scripted=graded.filter(is_scripted=True).exists(),
        extended="rounds" in wrong or "rounds" in right,
        computed_at=found.computed_at,
        is_stale=found.is_stale,
        waits=found.waits,
    )


def counts(version: DatasetVersion) -> Counts:
    """How many of what there is: of a large version as it was when figures were made last, else as it is."""
    newest = None if is_small(version) else Estimate.objects.filter(version=version).order_by("-pk").first()
    kept = _payload(newest.payload_blob).get("counts") if newest else None
    return Counts(version, kept, newest.computed_at) if newest and kept else Counts(version)


def _drawn(version: DatasetVersion, chosen: Subject) -> Observations:
    return observe(version, config=chosen.config, sample=chosen.sample, drawn_only=True)


def cell_of(stratum: Stratum) -> Cell:
    """What makes a stratum the same in another frame."""
    return stratum.verifier_status, stratum.model, stratum.agent, stratum.effort, stratum.environment


def doubt_by_stratum(frame: Frame) -> tuple[float, ...]:
    """The expected share of wrong verdicts in each stratum, from the newest run of the same version; even without one.

    Shares are smoothed, so that a stratum in which nothing was found wrong is drawn from all the same.
    """
    found = subject(frame.version)
    shares: dict[Cell, tuple[int, int]] = {}
    for cohort in _drawn(frame.version, found).cohorts if found.sample else ():
        count = count_of(cohort, by_judge, "no" if cohort.cell[0] == "pass" else "yes")
        shares[cohort.cell] = count.events, count.seen
    strata = frame.strata.order_by("number")
    return tuple(smoothed_rate(*shares.get(cell_of(stratum), (0, 0))) for stratum in strata)


# --- everything at once


@dataclass(frozen=True, slots=True)
class Stored:
    """What `compute` found, of whom, when, and whether labels or rulings changed since.

    Where it `waits`, a judge is at work and they are not made anew yet.
    """

    subject: Subject
    payload: dict[str, Any]
    computed_at: datetime
    is_stale: bool
    inputs_sha256: str
    waits: bool = False


def stored(
    version: DatasetVersion, *, config: JudgeConfig | None = None, sample: Sample | None = None
) -> Stored | None:
    """The figures that pages show, of the judge and draw that `subject` chooses where they are not given.

    Where they are missing or no longer hold they are made at once, if that is quick. Else what is there is marked
    stale; None says that a worker has to make the first.
    """
    return _stored(version, subject(version, config=config, sample=sample))


def _stored(version: DatasetVersion, chosen: Subject) -> Stored | None:
    inputs = inputs_sha256(version, config=chosen.config, sample=chosen.sample)
    newest = _newest_estimate(version, chosen)
    if newest and newest.inputs_sha256 == inputs:
        return _read(newest, chosen)
    waits = newest is not None and _waits(newest)
    if newest and (waits or not is_small(version)):
        return _read(newest, chosen, is_stale=True, waits=waits)
    return renew(version, config=chosen.config, sample=chosen.sample) if is_small(version) else None


def _waits(newest: Estimate) -> bool:
    """Whether figures are too new to be made anew while a judge is at work: every label would make them stale."""
    live = JudgeRun.objects.filter(sample__frame__version=newest.version_id, state=RunState.RUNNING)
    return newest.computed_at > timezone.now() - WHILE_JUDGING and live.exists()


def is_current(version: DatasetVersion, *, config: JudgeConfig | None = None, sample: Sample | None = None) -> bool:
    """Whether the stored figures hold today."""
    chosen = subject(version, config=config, sample=sample)
    newest = _newest_estimate(version, chosen)
    inputs = inputs_sha256(version, config=chosen.config, sample=chosen.sample)
    return newest is not None and newest.inputs_sha256 == inputs


def outdated(*, now: datetime) -> list[int]:
    """The newest versions of datasets in which a run, a round or an import of labels ended lately, but not their
    figures."""
    events = AuditEvent.objects.filter(action__in=ENDINGS, at__gt=now - LATELY, dataset__isnull=False)
    datasets = events.order_by("dataset").values_list("dataset", flat=True).distinct()
    newest = [DatasetVersion.objects.filter(dataset=pk).select_related("dataset").latest("pk") for pk in datasets]
    return [version.pk for version in newest if not is_current(version)]


def renew_outdated(version_id: int, config_id: int | None, sample_id: int | None) -> None:
    """Make the figures of these rows anew, unless they hold or a row is gone."""
    version = DatasetVersion.objects.filter(pk=version_id).select_related("dataset").first()
    config = JudgeConfig.objects.filter(pk=config_id or 0).first()
    sample = Sample.objects.filter(pk=sample_id or 0).select_related("frame").first()
    gone = (config_id and not config) or (sample_id and not sample)
    if version and not gone and not is_current(version, config=config, sample=sample):
        newest = _newest_estimate(version, subject(version, config=config, sample=sample))
        if newest is None or not _waits(newest):
            renew(version, config=config, sample=sample)


def renew(version: DatasetVersion, *, config: JudgeConfig | None = None, sample: Sample | None = None) -> Stored:
    """Compute and store, whatever is there. The digest is taken first: what comes meanwhile makes the figures stale."""
    chosen = subject(version, config=config, sample=sample)
    inputs = inputs_sha256(version, config=chosen.config, sample=chosen.sample)
    started = perf_counter()
    payload = compute(version, config=chosen.config, sample=chosen.sample)
    row = Estimate.objects.create(
        version=version,
        sample=chosen.sample,
        config=chosen.config,
        inputs_sha256=inputs,
        payload_blob=blobs.put(orjson.dumps(payload)),  # in its own order: pages go through it as it is
        computed_at=timezone.now(),
        seconds=perf_counter() - started,
    )
    _forget_older(row)
    return _read(row, chosen)


def _forget_older(row: Estimate) -> None:
    same = Estimate.objects.filter(version=row.version_id, sample=row.sample_id, config=row.config_id)
    Estimate.objects.filter(pk__in=list(same.order_by("-pk").values_list("pk", flat=True)[KEPT:])).delete()


def _newest_estimate(version: DatasetVersion, chosen: Subject) -> Estimate | None:
    """The newest figures by the estimators of today: those of others may not be what pages expect."""
    found = Estimate.objects.filter(version=version, sample=chosen.sample, config=chosen.config)
    newest = found.order_by("-pk").first()
    return newest if newest and _payload(newest.payload_blob).get("code_sha256") == code_sha256() else None


def _read(row: Estimate, chosen: Subject, *, is_stale: bool = False, waits: bool = False) -> Stored:
    return Stored(chosen, _payload(row.payload_blob), row.computed_at, is_stale, row.inputs_sha256, waits)


@lru_cache(maxsize=8)
def _payload(digest: str) -> dict[str, Any]:
    """Figures by the digest of what they say, so those kept here are never old; nobody changes what this returns."""
    found: dict[str, Any] = blobs.get_json(digest)
    return found


def compute(
    version: DatasetVersion, *, config: JudgeConfig | None = None, sample: Sample | None = None
) -> dict[str, Any]:
    """Every figure of a version as one plain object; what cannot be estimated is {"insufficient": why}.

    `subject` chooses what is not given; a version no judge has seen is taken whole. People's labels are those imported.
    """
    chosen = subject(version, config=config, sample=sample)
    seen = observe(version, config=chosen.config, sample=chosen.sample)
    spread, made = distribution(seen), recomputable(seen)
    return {
        **_subject(seen),
        **made,
        "anytime": anytime(seen),
        "narrow": narrow(seen),
        "judges_paired": judges_paired(seen),
        "drift": drifts(seen),
        "grader_consistency": grader_consistency(seen),
        "splits": splits(seen),
        "separation": separations(seen),
        "distribution": spread,
        "bins": widest(spread),
        "items": items(seen),
        "tags": tags(seen),
        "shapes": shapes(seen),
        "cost": cost(seen),
        "frozen_set": frozen_set(seen),
        "rounds": rounds(seen),
        "criteria": acceptance(seen, made["agreement"]["judge_human"]),
        "counts": count(version),
        "code_sha256": code_sha256(),
    }


def recomputable(seen: Observations) -> dict[str, Any]:
    """The figures that follow from observations alone: whoever holds those of a bundle gets the same."""
    return {
        **rates(seen),
        "breakdown": breakdown(seen),
        "hack_bound": hack_bound(seen),
        "agreement": agreement(seen),
        "self_consistency": consistency(seen),
        "by_stratum": by_stratum(seen),
    }


def _subject(seen: Observations) -> dict[str, Any]:
    """What the figures are about: population, draw and judge."""
    sample, config = seen.sample, seen.config
    return {
        "dataset": seen.version.dataset.name,
        "dataset_version": seen.version.name,
        "judge": {"name": config.name, "digest": config.digest} if config else None,
        "sample": _sample(sample) if sample else None,
        "population": sum(cohort.size for cohort in seen.cohorts),
        "drawn": len(seen.units),
        "tasks": len({unit.task for unit in seen.units}),
    }


def _sample(sample: Sample) -> dict[str, Any]:
    return {
        "id": str(sample.public_id),
        "frame_digest": sample.frame.digest,
        "seed": sample.seed,
        **place_among_draws(sample),
    }


def place_among_draws(sample: Sample) -> dict[str, Any]:
    """Which draw of how many a sample is; a part of one is no draw, and names the one it is part of."""
    whole = sample.part_of
    return {
        "draw": None if whole else sample.draw_number,
        "draws": sample.frame.draw_count,
        "part_of": {"id": str(whole.public_id), "draw": whole.draw_number} if whole else None,
    }
