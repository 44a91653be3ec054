"""What was seen of a population, read once and held as plain rows: strata, trajectories, and what each labeler said."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from auditapp.models.datasets import DatasetVersion, Trajectory
from auditapp.models.judgments import JudgeConfig, Judgment
from auditapp.models.labels import PEOPLE, ImportedLabel, Label, LabelKind, LabelSource, labels
from auditapp.models.reviews import RoundKind, RoundState
from auditapp.models.rounds import ItemDraw, ReviewLabel, RoundDraw
from auditapp.models.samples import Sample, SampleUnit, StratumDraw
from auditapp.models.sources import TrajectorySource

Cell = tuple[str, str, str, str, str]
"""Verifier status, model, agent, effort, environment."""


@dataclass(frozen=True, slots=True)
class Said:
    """One label. `acceptable` and the rest are None where there is no decision, `integrity` also where nobody asked."""

    labeler: str
    acceptable: str | None
    decision: str | None
    integrity: str | None
    after: str | None = None


def human_answer(people: Sequence[str | None], settled: Sequence[str | None]) -> str | None:
    """What people said together: the newest adjudicated answer, else what all agree on; "unknown" where they do not or
    any cannot tell, None where none looked. `settled` is in order of age."""
    if settled:
        return settled[-1]
    answers = {said or "unknown" for said in people}
    if not answers:
        return None
    return answers.pop() if len(answers) == 1 else "unknown"


@dataclass(frozen=True, slots=True)
class Unit:
    """A trajectory of the sample, or of the whole population, with everything said of it.

    `looks` are the judge's in order of replicate, the first being its label; `judges` are labels of other judges.
    `people` answered each by themselves, `settled` is what came of an adjudication. `phase` is the cell that people
    were drawn from by a round of this sample, "" where no round was: see `phases`. `steps` is how long it is.
    """

    trajectory: int
    task: int
    cell: Cell
    looks: tuple[Said, ...] = ()
    people: tuple[Said, ...] = ()
    judges: tuple[Said, ...] = ()
    settled: tuple[Said, ...] = ()
    phase: str = ""
    steps: int | None = None

    @property
    def status(self) -> str:
        return self.cell[0]

    @property
    def human(self) -> str | None:
        return human_answer([said.acceptable for said in self.people], [said.acceptable for said in self.settled])

    @property
    def judge(self) -> str:
        """The judge's label: yes, no, or "unknown" for every way of not deciding."""
        return (self.looks[0].acceptable if self.looks else None) or "unknown"

    @property
    def is_judged(self) -> bool:
        return bool(self.looks and self.looks[0].acceptable)


@dataclass(frozen=True, slots=True)
class Cohort:
    """A stratum: how many it holds (N_h) and the units drawn from it."""

    cell: Cell
    size: int
    units: tuple[Unit, ...]

    @property
    def phases(self) -> "tuple[Cohort, ...]":
        """The units cut by the cells that people were drawn from; sizes are those of the sample, not of N_h."""
        found: defaultdict[str, list[Unit]] = defaultdict(list)
        for unit in self.units:
            found[unit.phase].append(unit)
        return tuple(Cohort(self.cell, len(units), tuple(units)) for _, units in sorted(found.items()))


@dataclass(frozen=True, slots=True)
class Observations:
    """A population with what was drawn from it. Without a sample every trajectory with a verdict is drawn.

    `others` were labeled and not drawn, or have no verdict that counts: they tell of labelers, never of the population.
    A unit that people labeled elsewhere after rounds had drawn from around it is both: without people's word where it
    was drawn for the judge, with it here; `late` counts these. `rounds` released ones have drawn people's part of the
    sample.
    """

    version: DatasetVersion
    sample: Sample | None
    config: JudgeConfig | None
    failing: tuple[str, ...]
    cohorts: tuple[Cohort, ...]
    others: tuple[Unit, ...] = ()
    rounds: int = 0
    late: int = 0

    @property
    def units(self) -> list[Unit]:
        return [unit for cohort in self.cohorts for unit in cohort.units]

    def with_status(self, *statuses: str) -> list[Cohort]:
        """The strata whose verifier said one of these."""
        return [cohort for cohort in self.cohorts if cohort.cell[0] in statuses]


def observe(
    version: DatasetVersion, *, config: JudgeConfig | None, sample: Sample | None, drawn_only: bool = False
) -> Observations:
    """Read strata, units and labels; the judge's looks are those of `config`. `drawn_only` leaves `others` unread."""
    failing = ("fail", "partial") if version.partial_counts_as == "fail" else ("fail",)
    drawn_only = drawn_only and sample is not None
    said = _said(version, config, sample if drawn_only else None)
    everything = {} if drawn_only else _everything(version)
    counted = {key: cell for key, cell in everything.items() if cell[0] in ("pass", *failing)}
    drawn = _drawn(sample) if sample else counted
    sizes = _sizes(sample) if sample else dict(Counter(drawn.values()))
    members: defaultdict[Cell, list[Unit]] = defaultdict(list)
    people = phases(sample) if sample else Phases()
    steps = {} if drawn_only else dict(Trajectory.objects.filter(version=version).values_list("pk", "n_steps"))
    for (trajectory, task), cell in drawn.items():
        looks, by_people, judges, settled = said.get(trajectory, ((), (), (), ()))
        if trajectory in people.late:
            by_people = settled = ()
        spoken = looks, by_people, judges, settled
        phase = people.cells.get(trajectory, "")
        members[cell].append(Unit(trajectory, task, cell, *spoken, phase, steps.get(trajectory)))
    cohorts = tuple(Cohort(cell, size, tuple(members[cell])) for cell, size in sizes.items())
    apart = {key: cell for key, cell in everything.items() if key not in drawn}
    apart |= {} if drawn_only else {key: cell for key, cell in drawn.items() if key[0] in people.late}
    rest = [(key, cell) for key, cell in apart.items() if key[0] in said]
    others = tuple(Unit(*key, cell, *said[key[0]], steps=steps.get(key[0])) for key, cell in rest)
    return Observations(version, sample, config, failing, cohorts, others, people.rounds, len(people.late))


def _sizes(sample: Sample) -> dict[Cell, int]:
    draws = StratumDraw.objects.filter(sample=sample).select_related("stratum").order_by("stratum__number")
    strata = [draw.stratum for draw in draws]
    return {(s.verifier_status, s.model, s.agent, s.effort, s.environment): s.size for s in strata}


def _drawn(sample: Sample) -> dict[tuple[int, int], Cell]:
    """Trajectory and task of each unit, with the stratum it was drawn from, whatever came later."""
    fields = ("verifier_status", "model", "agent", "effort", "environment")
    rows = SampleUnit.objects.filter(sample=sample).order_by("trajectory_id")
    found = rows.values_list("trajectory_id", "trajectory__task_id", *(f"stratum__{field}" for field in fields))
    return {(row[0], row[1]): row[2:] for row in found}


def _everything(version: DatasetVersion) -> dict[tuple[int, int], Cell]:
    """Every trajectory, controls left out."""
    fields = ("verifier_status", "model", "agent", "effort", "trajectory__task__environment__name")
    rows = TrajectorySource.objects.filter(version=version, is_control=False)
    found = rows.order_by(*fields, "trajectory_id").values_list("trajectory_id", "trajectory__task_id", *fields)
    return {(row[0], row[1]): row[2:] for row in found}


@dataclass(frozen=True, slots=True)
class Phases:
    """How many released rounds drew from a sample, the cell each unit was drawn from, and whose labels came too late.

    `late` were labeled elsewhere after the first draw, and no round drew them: they stay undrawn parts of their cells.
    """

    rounds: int = 0
    cells: dict[int, str] = field(default_factory=dict)
    late: frozenset[int] = frozenset()
    drawn: frozenset[int] = frozenset()


def phases(sample: Sample) -> Phases:
    """How the released rounds of blind review drew people's part of this sample.

    A cell is what the rounds' judges had said, each in turn. Inside it those whom a round drew are a random part. Units
    that people had labeled before the first draw are no part of it: they are cells of their own, seen as a whole.
    """
    draws = _released(sample)
    if not draws:
        return Phases()
    units = list(SampleUnit.objects.filter(sample=sample).values_list("trajectory_id", flat=True))
    drawn = _answers_at_draw(draws)
    configs = list(dict.fromkeys(draw.config for draw in draws if draw.config))
    answers = [_first_answers(sample, config) for config in configs]
    before, late = _elsewhere(sample, draws, drawn)
    found = {unit: " ".join(said.get(unit, "unknown") for said in answers) for unit in units}
    if len(configs) == 1:  # as it was when they were drawn
        found |= {unit: answer for unit, answer in drawn.items() if unit in found and answer}
    cells = {unit: f"before {cell}" if unit in before else cell for unit, cell in found.items()}
    return Phases(len(draws), cells, late, frozenset(drawn))


def late(sample: Sample) -> frozenset[int]:
    """The `late` ones of `phases`, without the cells of all units."""
    draws = _released(sample)
    return _elsewhere(sample, draws, _answers_at_draw(draws))[1] if draws else frozenset()


def _released(sample: Sample) -> list[RoundDraw]:
    released = {"round__state": RoundState.RELEASED, "round__kind": RoundKind.BLIND}
    draws = RoundDraw.objects.filter(sample=sample, **released)
    return list(draws.order_by("pk").select_related("config", "round"))


def _answers_at_draw(draws: Sequence[RoundDraw]) -> dict[int, str]:
    """By trajectory that these rounds drew: what the judge had said."""
    items = ItemDraw.objects.filter(stratum__draw__in=draws)
    return dict(items.values_list("item__trajectory_id", "stratum__answer"))


def _elsewhere(
    sample: Sample, draws: Sequence[RoundDraw], drawn: Mapping[int, str]
) -> tuple[frozenset[int], frozenset[int]]:
    """Whom people had labeled before the first draw, and whom after it although no round drew them."""
    first = min(draw.round.created_at for draw in draws)
    found = _labeled_otherwise(sample, draws)
    before = frozenset(unit for unit, since in found.items() if since < first)
    return before, frozenset(found.keys() - before - drawn.keys())


def _first_answers(sample: Sample, config: JudgeConfig) -> dict[int, str]:
    units = SampleUnit.objects.filter(sample=sample).values("trajectory")
    looks = Judgment.objects.filter(config=config, replicate=0, trajectory__in=units, acceptable__isnull=False)
    return {trajectory: str(said) for trajectory, said in looks.values_list("trajectory_id", "acceptable")}


def _labeled_otherwise(sample: Sample, draws: Sequence[RoundDraw]) -> dict[int, datetime]:
    """By trajectory with a person's label that none of these rounds made: since when a draw would have left it out.

    That is when the label came in; for another round of blind review, when it was drawn.
    """
    units = SampleUnit.objects.filter(sample=sample).values("trajectory")
    imported = ImportedLabel.objects.filter(kind=LabelKind.HUMAN, trajectory__in=units)
    elsewhere = ReviewLabel.objects.filter(trajectory__in=units).exclude(round__in=[draw.round_id for draw in draws])
    found: dict[int, datetime] = {}
    fields = ("trajectory_id", "round__kind", "round__created_at", "created_at")
    by_rounds = [
        (at, drawn if kind == RoundKind.BLIND else made) for at, kind, drawn, made in elsewhere.values_list(*fields)
    ]
    for trajectory, since in (*imported.values_list("trajectory_id", "created_at"), *by_rounds):
        found[trajectory] = min(since, found.get(trajectory, since))
    return found


Spoken = tuple[tuple[Said, ...], tuple[Said, ...], tuple[Said, ...], tuple[Said, ...]]


def _said(version: DatasetVersion, config: JudgeConfig | None, sample: Sample | None) -> dict[int, Spoken]:
    """By trajectory, of a sample or of all: looks of the config, people, other judges, each in order; then what was
    adjudicated, by age."""
    found = labels(version)
    if sample is not None:
        found = found.filter(trajectory__in=SampleUnit.objects.filter(sample=sample).values("trajectory"))
    looks: defaultdict[int, list[Said]] = defaultdict(list)
    people: defaultdict[int, list[Said]] = defaultdict(list)
    judges: defaultdict[int, list[Said]] = defaultdict(list)
    settled: defaultdict[int, dict[int, Said]] = defaultdict(dict)
    for trajectory, source, config_id, key, *label in _rows(found):
        said = Said(*label)
        if source in PEOPLE:
            people[trajectory].append(said)
        elif source == LabelSource.ADJUDICATED:
            settled[trajectory][key] = said
        elif source == LabelSource.IMPORTED_JUDGE:
            judges[trajectory].append(said)
        elif config is not None and config_id == config.pk:
            looks[trajectory].append(said)
    return {
        trajectory: (tuple(looks[trajectory]), tuple(people[trajectory]), tuple(judges[trajectory]), _by_age(found))
        for trajectory in looks.keys() | people.keys() | judges.keys() | settled.keys()
        for found in [settled[trajectory]]
    }


def _by_age(found: dict[int, Said]) -> tuple[Said, ...]:
    return tuple(said for _, said in sorted(found.items(), key=lambda row: row[0]))


def _rows(found: QuerySet[Label]) -> QuerySet[Label, tuple[Any, ...]]:
    fields = ("key", "labeler", "acceptable", "decision", "integrity", "decision_after")
    ordered = found.order_by("trajectory_id", "replicate", "labeler", "key")
    return ordered.values_list("trajectory_id", "source", "config_id", *fields)


Arm = tuple[int, str, str, str]
"""Task, model, agent and effort."""


def attempts(version: DatasetVersion, failing: tuple[str, ...]) -> dict[Arm, list[tuple[int, bool]]]:
    """By arm: the trajectories with a verdict that counts, and whether it was a pass; controls left out."""
    rows = TrajectorySource.objects.filter(version=version, is_control=False, verifier_status__in=("pass", *failing))
    found: defaultdict[Arm, list[tuple[int, bool]]] = defaultdict(list)
    fields = ("trajectory__task_id", "model", "agent", "effort", "trajectory_id", "verifier_status")
    for task, model, agent, effort, trajectory, status in rows.order_by(*fields[:5]).values_list(*fields):
        found[task, model, agent, effort].append((trajectory, status == "pass"))
    return dict(found)
