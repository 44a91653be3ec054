"""What a report says beside its figures: the population, how it was drawn, who looked, and the digests of it all."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet, Sum

from auditapp.estimation import Subject
from auditapp.estimation_inputs import code_sha256
from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import JudgeConfig, JudgeRun
from auditapp.models.reviews import ReviewItem, ReviewRound, RoundKind, RoundState, SlotRole, SlotState
from auditapp.models.rounds import RoundStratum
from auditapp.models.samples import Sample, Stratum
from auditapp.models.sources import TrajectorySource
from judges.results import assay_version


@dataclass(frozen=True, slots=True)
class Outside:
    """Trajectories that no figure is about, and why."""

    status: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class Population:
    """What is inside the frame by verifier status, and what is outside of it.

    `later` came in after the frame was frozen: in no draw from it.
    """

    inside: Mapping[str, int]
    size: int
    outside: tuple[Outside, ...]
    controls: int
    later: int
    tasks: int
    environments: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RoundFacts:
    """A review round in numbers: items drawn, drawn to be graded twice, and finished by at least one person.

    An audit reads whole trajectories for tags: it decides nothing, and only a blind round grades.
    """

    number: int
    title: str
    state: str
    seed: int
    drawn: int
    doubled: int
    graded: int
    reviewers: int
    extensions: int
    is_blind: bool
    is_scripted: bool
    is_released: bool


@dataclass(frozen=True, slots=True)
class Provenance:
    """Everything a reader needs to know how the figures came about."""

    population: Population
    draws: int
    run: JudgeRun | None
    looks: int
    rounds: tuple[RoundFacts, ...]
    digests: tuple[tuple[str, str], ...]

    @property
    def scripted(self) -> bool:
        """Whether grades in the figures were made by a script and not by people."""
        return any(found.is_blind and found.is_scripted and found.is_released for found in self.rounds)

    @property
    def blind(self) -> int:
        """How many of the rounds grade blind."""
        return sum(found.is_blind for found in self.rounds)

    @property
    def audits(self) -> int:
        """How many of the rounds are audits."""
        return len(self.rounds) - self.blind

    @property
    def people(self) -> bool:
        """Whether people graded a released round blind."""
        return any(found.is_blind and found.is_released and not found.is_scripted for found in self.rounds)


def provenance(version: DatasetVersion, chosen: Subject) -> Provenance:
    """How the figures of a version, judge and draw came about, from rows as they stand today."""
    run = _run(chosen)
    return Provenance(
        population=population(version, chosen.sample),
        draws=chosen.sample.frame.draw_count if chosen.sample else 0,
        run=run,
        looks=run.replicates if run else 0,
        rounds=tuple(_round(found) for found in _rounds(version)),
        digests=tuple((name, digest) for name, digest in _digests(chosen) if digest),
    )


def population(version: DatasetVersion, sample: Sample | None) -> Population:
    """Inside and outside of the frame of `sample`; without one, of what would be frozen today."""
    rows = _rows(version)
    counting = ("pass", "fail", "partial") if version.partial_counts_as == "fail" else ("pass", "fail")
    today = Counter[str]()
    outside = []
    for status, reason, n in ((status, reason, n) for is_control, status, reason, n in rows if not is_control):
        if status in counting:
            today[status] += n
        else:
            outside.append(Outside(status, reason, n))
    inside = _frozen(sample) if sample else dict(today)
    places = version.tasks.order_by("environment__name").values_list("environment__name", flat=True)
    return Population(
        inside=inside,
        size=sum(inside.values()),
        outside=tuple(sorted(outside, key=lambda row: -row.count)),
        controls=sum(n for is_control, _, _, n in rows if is_control),
        later=max(0, today.total() - sum(inside.values())),
        tasks=version.tasks.count(),
        environments=tuple(places.distinct()),
    )


def _rows(version: DatasetVersion) -> list[tuple[bool, str, str, int]]:
    """Trajectories by whether they are controls, verifier status and the reason for it."""
    fields = ("is_control", "verifier_status", "verifier_reason")
    found = TrajectorySource.objects.filter(version=version).values_list(*fields)
    return list(found.annotate(n=Count("*")).order_by(*fields))


def _frozen(sample: Sample) -> dict[str, int]:
    strata = Stratum.objects.filter(frame=sample.frame_id).values_list("verifier_status")
    return dict(strata.annotate(n=Sum("size")).order_by("verifier_status"))


def _run(chosen: Subject) -> JudgeRun | None:
    if chosen.config is None or chosen.sample is None:
        return None
    return JudgeRun.objects.filter(config=chosen.config, sample=chosen.sample).order_by("-pk").first()


def _rounds(version: DatasetVersion) -> QuerySet[ReviewRound]:
    graded = (RoundKind.BLIND, RoundKind.AUDIT)
    found = ReviewRound.objects.filter(version=version, kind__in=graded).exclude(state=RoundState.DISCARDED)
    return found.annotate(people=Count("reviewers", distinct=True)).order_by("number")


def _round(found: ReviewRound) -> RoundFacts:
    done = Q(slots__state=SlotState.SUBMITTED, slots__role=SlotRole.GRADE)
    doubled = RoundStratum.objects.filter(draw=found.pk).aggregate(n=Sum("twice"))["n"]
    items = ReviewItem.objects.filter(round=found)
    return RoundFacts(
        number=found.number,
        title=found.title,
        state=found.get_state_display(),
        seed=found.seed,
        drawn=items.count(),
        doubled=doubled or 0,
        graded=items.filter(done).distinct().count(),
        reviewers=found.people,  # type: ignore[attr-defined]  # annotated in `_rounds`
        extensions=found.extensions,
        is_blind=found.kind == RoundKind.BLIND,
        is_scripted=found.is_scripted,
        is_released=found.state == RoundState.RELEASED,
    )


def _digests(chosen: Subject) -> list[tuple[str, str]]:
    sample, config = chosen.sample, chosen.config
    return [
        ("Frame", sample.frame.digest if sample else ""),
        *(_of_judge(config) if config else ()),
        ("Estimators", code_sha256()),
        ("Assay", assay_version()),
    ]


def _of_judge(config: JudgeConfig) -> list[tuple[str, str]]:
    parts: Mapping[str, Any] = config.canonical.get("parts", {})
    taxonomy = parts.get("taxonomy", ())
    return [
        ("Judge config", config.digest),
        ("Prompts", parts.get("prompts", "")),
        ("Tools of the judge", parts.get("tools", "")),
        (f"Taxonomy {taxonomy[0]}" if taxonomy else "Taxonomy", taxonomy[1] if len(taxonomy) > 1 else ""),
    ]
