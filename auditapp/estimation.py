"""Estimates from stored labels: counts by stratum go in, results of `auditapp.stats` come out."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery

from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import Acceptable, JudgeConfig, JudgeRun, Judgment
from auditapp.models.labels import Label, LabelSource, labels
from auditapp.models.samples import Frame, Sample, Stratum, StratumDraw
from auditapp.models.sources import TrajectorySource
from auditapp.observations import Observations, newest_sample, observe
from auditapp.sections.agreements import agreement, consistency
from auditapp.sections.rates import by_stratum, hack_bound, rates
from auditapp.sections.signal import distribution, items, tags
from auditapp.stats.allocation import smoothed_rate
from auditapp.stats.proportions import InsufficientData, Proportion, StratumCount, proportion, stratified_proportion
from auditapp.stats.tables import Row, cross_table
from judges.records import VERIFIER_STATUSES

Rate = Proportion | InsufficientData


@dataclass(frozen=True, slots=True)
class JudgeRates:
    """What one judge run says of the verifier: both rates, not corrected by people."""

    run: JudgeRun
    false_pass: Rate
    false_fail: Rate


@dataclass(frozen=True, slots=True)
class SolveRates:
    """Share of passes among trajectories with a pass, a fail or a folded partial.

    `as_recorded` counts trials whose verifier never ran by the default they left behind; `not_run` is their number.
    """

    counted: Rate
    as_recorded: Rate
    not_run: int


def judge_rates(run: JudgeRun) -> JudgeRates:
    """False-pass rate among passes and false-fail rate among fails of this batch, by the run's first replicates."""
    counts = _counts(run)
    statuses = ["fail", "partial"] if run.sample.frame.version.partial_counts_as == "fail" else ["fail"]
    passes = [count.stratum(count.not_acceptable) for count in counts if count.status == "pass"]
    fails = [count.stratum(count.acceptable) for count in counts if count.status in statuses]
    return JudgeRates(run, stratified_proportion(passes, batch=True), stratified_proportion(fails, batch=True))


@dataclass(frozen=True, slots=True)
class Comparison:
    """What one origin of labels says against the verifier: verifier status by acceptable, in labels."""

    source: str
    labeler: str
    rows: tuple[Row, ...]
    labels: int
    trajectories: int


def comparisons(version: DatasetVersion) -> list[Comparison]:
    """Each origin of labels against the verifier: people together, each judge by itself; first replicates only."""
    fields = ("source", "labeler", "trajectory__source__verifier_status", "acceptable")
    decided = labels(version).filter(acceptable__isnull=False).exclude(replicate__gt=0)
    people = {LabelSource.IMPORTED_HUMAN}
    counts: defaultdict[tuple[str, str], Counter[tuple[str, str]]] = defaultdict(Counter)
    for source, labeler, status, acceptable, n in decided.values_list(*fields).annotate(n=Count("key")).order_by():
        counts[source, "" if source in people else labeler][status, acceptable] += n
    return [
        Comparison(
            source=source,
            labeler=labeler,
            rows=cross_table(cells, VERIFIER_STATUSES, Acceptable.values),
            labels=cells.total(),
            trajectories=_seen(decided, source, labeler),
        )
        for (source, labeler), cells in sorted(counts.items())
    ]


def _seen(decided: QuerySet[Label], source: str, labeler: str) -> int:
    rows = decided.filter(source=source, **({"labeler": labeler} if labeler else {}))
    return rows.values("trajectory").distinct().count()


@dataclass(frozen=True, slots=True)
class _Count:
    cell: tuple[str, ...]
    status: str
    size: int
    drawn: int
    acceptable: int
    not_acceptable: int

    def stratum(self, events: int) -> StratumCount:
        return StratumCount(self.size, self.drawn, self.acceptable + self.not_acceptable, events)


def _counts(run: JudgeRun) -> list[_Count]:
    """Per stratum of the run's sample: its size, what was drawn and what the judge decided."""
    said = Judgment.objects.filter(trajectory=OuterRef("trajectory"), config=run.config, replicate=0)
    rows = run.sample.units.annotate(answer=Subquery(said.values("acceptable")[:1])).values_list("stratum", "answer")
    tally = {(stratum, answer): n for stratum, answer, n in rows.annotate(n=Count("id")).order_by()}
    return [
        _Count(
            cell=cell_of(draw.stratum),
            status=draw.stratum.verifier_status,
            size=draw.stratum.size,
            drawn=draw.size,
            acceptable=tally.get((draw.stratum_id, "yes"), 0),
            not_acceptable=tally.get((draw.stratum_id, "no"), 0),
        )
        for draw in StratumDraw.objects.filter(sample=run.sample).select_related("stratum")
    ]


def cell_of(stratum: Stratum) -> tuple[str, ...]:
    """What makes a stratum the same in another frame."""
    return stratum.verifier_status, stratum.model, stratum.agent, stratum.effort, stratum.environment


def latest_run(version: DatasetVersion) -> JudgeRun | None:
    """The newest judge run of a version that has at least one completed judgment."""
    runs = JudgeRun.objects.filter(sample__frame__version=version).select_related("config", "sample__frame__version")
    return runs.filter(judgments__state="completed").order_by("-id").first()


def solve_rates(version: DatasetVersion) -> SolveRates:
    """Solve rate with and without the trials whose verifier never ran; controls are not counted."""
    failing = ["fail", "partial"] if version.partial_counts_as == "fail" else ["fail"]
    ran = ~Q(verifier_reason="verifier_did_not_run")
    counts = TrajectorySource.objects.filter(version=version, is_control=False).aggregate(
        passed=Count("pk", filter=Q(verifier_status="pass") & ran),
        failed=Count("pk", filter=Q(verifier_status__in=failing) & ran),
        recorded_passed=Count("pk", filter=Q(recorded_status="pass") & ~ran),
        recorded_failed=Count("pk", filter=Q(recorded_status__in=failing) & ~ran),
        not_run=Count("pk", filter=~ran),
    )
    passed, counted = counts["passed"], counts["passed"] + counts["failed"]
    late = counts["recorded_passed"], counts["recorded_passed"] + counts["recorded_failed"]
    return SolveRates(proportion(passed, counted), proportion(passed + late[0], counted + late[1]), counts["not_run"])


def doubt_by_stratum(frame: Frame) -> tuple[float, ...]:
    """The expected share of wrong verdicts in each stratum, from the newest run of the same version; even without one.

    Shares are smoothed, so that a stratum in which nothing was found wrong is drawn from all the same.
    """
    strata = frame.strata.order_by("number")
    run = latest_run(frame.version)
    found: dict[tuple[str, ...], tuple[int, int]] = {}
    for count in _counts(run) if run else ():
        wrong = count.not_acceptable if count.status == "pass" else count.acceptable
        found[count.cell] = (wrong, count.acceptable + count.not_acceptable)
    return tuple(smoothed_rate(*found.get(cell_of(stratum), (0, 0))) for stratum in strata)


# --- everything at once


def compute(
    version: DatasetVersion, *, config: JudgeConfig | None = None, sample: Sample | None = None
) -> dict[str, Any]:
    """Every figure of a version as one plain object; what cannot be estimated is {"insufficient": why}.

    Without a config it is that of the newest run with a completed judgment, without a sample that of the config's
    newest run; a version no judge has seen is taken whole. Labels of people are those imported.
    """
    if config is None and (run := latest_run(version)) is not None:
        config = run.config
    sample = sample or newest_sample(version, config)
    seen = observe(version, config=config, sample=sample)
    return {
        **_subject(seen),
        **rates(seen),
        "hack_bound": hack_bound(seen),
        "agreement": agreement(seen),
        "self_consistency": consistency(seen),
        "distribution": distribution(seen),
        "items": items(seen),
        "tags": tags(seen),
        "by_stratum": by_stratum(seen),
    }


def _subject(seen: Observations) -> dict[str, Any]:
    """What the figures are about: population, draw and judge."""
    sample, config = seen.sample, seen.config
    return {
        "dataset": seen.version.dataset.name,
        "dataset_version": seen.version.name,
        "judge": {"name": config.name, "digest": config.digest} if config else None,
        "sample": _draw(sample) if sample else None,
        "population": sum(cohort.size for cohort in seen.cohorts),
        "drawn": len(seen.units),
        "tasks": len({unit.task for unit in seen.units}),
    }


def _draw(sample: Sample) -> dict[str, Any]:
    return {
        "id": str(sample.public_id),
        "frame_digest": sample.frame.digest,
        "seed": sample.seed,
        "draw": sample.draw_number,
        "draws": sample.frame.samples.count(),
    }
