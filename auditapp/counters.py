"""How many of what a version has: counted by the database where that is quick, else kept with the stored figures.

A page of a large version asks for no count of all its rows; what it shows may be as old as the figures, and it says so.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Q

from auditapp.models.answers import Acceptable
from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import JudgeConfig, JudgmentTag, Outcome
from auditapp.models.labels import LabelSource, labels
from auditapp.models.sources import TrajectorySource, VerifierStatusChoice
from auditapp.stats.proportions import InsufficientData, Proportion, proportion
from auditapp.stats.tables import Row, cross_table
from judges.records import VERIFIER_STATUSES

Json = Any
MOST_REASONS = 200
PLACES = ("environment", "model", "agent", "effort", "status")
TOGETHER: Mapping[str, str] = {
    LabelSource.HUMAN: "Reviewers",
    LabelSource.ADJUDICATED: "Reviewers, adjudicated",
    LabelSource.IMPORTED_HUMAN: "People, imported",
}
"""Origins whose labels are set against the verifier as one, with what each is called."""
OF_LABELS = ("source", "labeler", "outcome", "state", "reason", "open", "replicate")
TOGETHER_IN: Mapping[str, tuple[str, ...]] = {
    "population": PLACES,
    "reasons": ("status", "reason"),
    "labels": OF_LABELS,
    "label_places": ("environment", "model"),
}
"""Counts by several fields at once, with these in the order of their columns."""


@dataclass(frozen=True, slots=True)
class SolveRates:
    """Share of passes among trajectories with a pass, a fail or a folded partial.

    `as_recorded` counts trials whose verifier never ran by the default they left behind; `not_run` is their number.
    """

    counted: Proportion | InsufficientData
    as_recorded: Proportion | InsufficientData
    not_run: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """What one origin of labels says against the verifier: verifier status by acceptable, in labels."""

    source: str
    labeler: str
    rows: tuple[Row, ...]
    labels: int
    trajectories: int

    @property
    def name(self) -> str:
        """Whose labels these are."""
        alone = f"{self.labeler}, imported" if self.source == LabelSource.IMPORTED_JUDGE else self.labeler
        return alone or TOGETHER[self.source]


class Counts:
    """The counts of a version: what is `kept`, made `at` that time, else what the database says when it is asked."""

    def __init__(
        self, version: DatasetVersion, kept: Mapping[str, Json] | None = None, at: datetime | None = None
    ) -> None:
        self._version, self._known, self.at = version, dict(kept or {}), at

    def _get(self, name: str) -> Json:
        if name not in self._known:
            self._known[name] = COUNTERS[name](self._version)
        return self._known[name]

    def statuses(self) -> dict[str, int]:
        """Trajectories by verifier status, controls left out."""
        found = self.population("status")
        return {status: found[status] for status in VerifierStatusChoice.values}

    def population(self, place: str) -> Counter[str]:
        """Trajectories by one of PLACES, controls left out."""
        return _tally(self._get("population"), PLACES.index(place))

    def cells(self) -> dict[tuple[str, str, str, str], Counter[str]]:
        """By environment, model, agent and effort: trajectories by verifier status, controls left out."""
        found: defaultdict[tuple[str, str, str, str], Counter[str]] = defaultdict(Counter)
        for environment, model, agent, effort, status, n in self._get("population"):
            found[environment, model, agent, effort][status] += n
        return dict(sorted(found.items()))

    def reasons(self, *statuses: str) -> Counter[str]:
        """The verifier's reasons, of these statuses or of all; the most frequent ones alone are kept."""
        rows = [row for row in self._get("reasons") if not statuses or row[0] in statuses]
        return _tally(rows, 1)

    @property
    def controls(self) -> int:
        found: int = self._get("controls")
        return found

    @property
    def trajectories(self) -> int:
        """All of them, controls too."""
        return sum(self.statuses().values()) + self.controls

    @property
    def solve(self) -> SolveRates:
        """Solve rate with and without the trials whose verifier never ran; controls are not counted."""
        found = self._get("solve")
        passed, counted = found["passed"], found["passed"] + found["failed"]
        late = found["recorded_passed"], found["recorded_passed"] + found["recorded_failed"]
        as_recorded = proportion(passed + late[0], counted + late[1])
        return SolveRates(proportion(passed, counted), as_recorded, found["not_run"])

    def labels(self, field: str) -> Counter[str]:
        """Labels by one of OF_LABELS; "" stands for none."""
        return _tally(self._get("labels"), OF_LABELS.index(field))

    def among(self, name: str, field: str, given: Mapping[str, str]) -> Counter[str] | None:
        """What is counted as `name`, by a field of it, among the rows that `given` fits.

        None where `given` asks for a field that is not counted together with it. "" stands for no value.
        """
        fields = TOGETHER_IN[name]
        if not given.keys() <= set(fields):
            return None
        asked = [(fields.index(key), value) for key, value in given.items()]
        fit = [row for row in self._get(name) if all(str(row[at]) == value for at, value in asked)]
        return _tally(fit, fields.index(field))

    def tags(self) -> Counter[str]:
        """Judgments by the codes that they kept."""
        return _tally(self._get("tags"), 0)

    @property
    def example(self) -> int | None:
        """The key of the false pass with the most checked evidence."""
        found: int | None = self._get("example")
        return found

    def comparisons(self) -> list[Comparison]:
        """Each origin of labels against the verifier: people together, each judge by itself; first replicates only."""
        counts: defaultdict[tuple[str, str], Counter[tuple[str, str]]] = defaultdict(Counter)
        for source, labeler, status, acceptable, n in self._get("comparisons"):
            counts[source, labeler][status, acceptable] += n
        seen = {(source, labeler): n for source, labeler, n in self._get("compared")}
        return [
            Comparison(source, labeler, cross_table(cells, VERIFIER_STATUSES, Acceptable.values), cells.total(), n)
            for (source, labeler), cells in sorted(counts.items())
            for n in (seen[source, labeler],)
        ]


def count(version: DatasetVersion) -> dict[str, Json]:
    """Everything that `Counts` tells, as plain objects."""
    return {name: counter(version) for name, counter in COUNTERS.items()}


def _tally(rows: list[list[Any]], column: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        found[row[column]] += row[-1]
    return found


# --- what is asked of the database


def _sources(version: DatasetVersion) -> Any:
    return TrajectorySource.objects.filter(version=version, is_control=False)


def _population(version: DatasetVersion) -> Json:
    fields = ("trajectory__task__environment__name", "model", "agent", "effort", "verifier_status")
    return _grouped(_sources(version), *fields)


def _reasons(version: DatasetVersion) -> Json:
    fields = ("verifier_status", "verifier_reason")
    rows = _sources(version).values_list(*fields).annotate(n=Count("pk")).order_by("-n", *fields)
    return [list(row) for row in rows[:MOST_REASONS]]


def _controls(version: DatasetVersion) -> Json:
    return TrajectorySource.objects.filter(version=version, is_control=True).count()


def _solve(version: DatasetVersion) -> Json:
    failing = ["fail", "partial"] if version.partial_counts_as == "fail" else ["fail"]
    ran = ~Q(verifier_reason="verifier_did_not_run")
    return _sources(version).aggregate(
        passed=Count("pk", filter=Q(verifier_status="pass") & ran),
        failed=Count("pk", filter=Q(verifier_status__in=failing) & ran),
        recorded_passed=Count("pk", filter=Q(recorded_status="pass") & ~ran),
        recorded_failed=Count("pk", filter=Q(recorded_status__in=failing) & ~ran),
        not_run=Count("pk", filter=~ran),
    )


def _labels(version: DatasetVersion) -> Json:
    """By whom and with what; judges are counted by their config, whose name is looked up once."""
    fields = ("outcome", "state", "reason", "outcome_reason", "replicate")
    by_judges = _grouped(labels(version).filter(source=LabelSource.JUDGE), "source", "config_id", *fields)
    names = dict(JudgeConfig.objects.values_list("pk", "name"))  # after the rows: configs are made, never deleted
    others = _grouped(labels(version).exclude(source=LabelSource.JUDGE), "source", "labeler", *fields)
    rows = [[source, names[config], *rest] for source, config, *rest in by_judges] + others
    return [["" if value is None else value for value in row] for row in rows]


def _label_places(version: DatasetVersion) -> Json:
    return _grouped(labels(version), "trajectory__task__environment__name", "trajectory__source__model")


def _tags(version: DatasetVersion) -> Json:
    kept = JudgmentTag.objects.filter(judgment__version=version, kept=True)
    return [list(row) for row in kept.values_list("code").annotate(n=Count("judgment", distinct=True)).order_by("code")]


def _example(version: DatasetVersion) -> Json:
    found = labels(version).filter(outcome=Outcome.FALSE_PASS, n_citations_verified__gt=0)
    return found.order_by("-n_citations_verified", "key").values_list("key", flat=True).first()


def _decided(version: DatasetVersion) -> Any:
    return labels(version).filter(acceptable__isnull=False).exclude(replicate__gt=0)


def _comparisons(version: DatasetVersion) -> Json:
    rows = _grouped(_decided(version), "source", "labeler", "trajectory__source__verifier_status", "acceptable")
    return [[source, _by(source, labeler), *rest] for source, labeler, *rest in rows]


def _compared(version: DatasetVersion) -> Json:
    """The trajectories that each origin labeled."""
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    distinct = Count("trajectory", distinct=True)
    people = _decided(version).filter(source__in=TOGETHER).values_list("source").annotate(n=distinct).order_by()
    for source, n in people:
        found[source, ""] = n
    others = _decided(version).exclude(source__in=TOGETHER).values_list("source", "labeler").annotate(n=distinct)
    for source, labeler, n in others.order_by():
        found[source, labeler] = n
    return [[*key, n] for key, n in found.items()]


def _by(source: str, labeler: str) -> str:
    return "" if source in TOGETHER else labeler


def _grouped(rows: Any, *fields: str) -> list[list[Any]]:
    return [list(row) for row in rows.values_list(*fields).annotate(n=Count("pk")).order_by()]


COUNTERS: dict[str, Callable[[DatasetVersion], Json]] = {
    "population": _population,
    "reasons": _reasons,
    "controls": _controls,
    "solve": _solve,
    "labels": _labels,
    "label_places": _label_places,
    "tags": _tags,
    "example": _example,
    "comparisons": _comparisons,
    "compared": _compared,
}
