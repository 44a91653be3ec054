"""What rounds without a decision came to: tasks called broken, what an audit covered and saw, rulings on cold reads."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from auditapp.models.datasets import Task
from auditapp.models.events import AuditEvent
from auditapp.models.reviews import Grade, ReviewItem, ReviewRound, RoundKind, Slot, SlotState
from auditapp.models.rounds import RoundDraw
from auditapp.models.sources import TrajectorySource
from auditapp.stats.proportions import InsufficientData, Proportion, StratumCount, proportion, stratified_proportion
from auditapp.taskrounds import RULINGS, rulings_of

TRIAGE = {"broken": "broken", "hard": "hard", "cannot_tell": "cannot tell"}
Found = Proportion | InsufficientData


@dataclass(frozen=True, slots=True)
class Triaged:
    """One task of a triage, and the answer where there is one."""

    task: Task
    grade: Grade | None

    @property
    def answer(self) -> str:
        return TRIAGE.get(self.grade.answer, "") if self.grade else ""


@dataclass(frozen=True, slots=True)
class Triage:
    """Answers by task, their counts, and the share of the tasks asked about that are broken.

    The share is over tasks that were called hard or broken; `unsure` ones widen its bounds.
    """

    rows: tuple[Triaged, ...]
    counts: tuple[tuple[str, int], ...]
    broken: Found
    tags: tuple[tuple[str, int], ...]
    of: int


def triage(round: ReviewRound) -> Triage:
    """The answers of a triage so far, those called broken first."""
    grades = {grade.slot.item_id: grade for grade in _grades(round)}
    items = round.items.select_related("task__environment").order_by("number")
    order = list(TRIAGE)
    rows = [Triaged(item.task, grades.get(item.pk)) for item in items]
    rows.sort(key=lambda row: order.index(row.grade.answer) if row.grade else len(order))
    counts = Counter(row.grade.answer for row in rows if row.grade)
    plan = RoundDraw.objects.get(round=round).plan
    of = plan.get("of", {}).get("tasks", len(rows))
    decided = counts["broken"] + counts["hard"]
    stratum = StratumCount(size=of, drawn=len(rows), seen=decided, events=counts["broken"])
    return Triage(
        tuple(rows),
        tuple((words, counts[answer]) for answer, words in TRIAGE.items()),
        stratified_proportion([stratum], batch=False),
        _tags(grades.values()),
        of,
    )


def _grades(round: ReviewRound) -> Sequence[Grade]:
    found = Grade.objects.filter(slot__round=round, current=True).select_related("slot__item", "reviewer")
    return list(found.order_by("pk"))


def _tags(grades: Iterable[Grade]) -> tuple[tuple[str, int], ...]:
    counts = Counter(code for grade in grades for code in grade.tags)
    return tuple(sorted(counts.items(), key=lambda row: (-row[1], row[0])))


# --- audit


@dataclass(frozen=True, slots=True)
class Covered:
    """An environment × model: trajectories of the release, drawn, and read."""

    environment: str
    model: str
    all: int
    drawn: int
    read: int


@dataclass(frozen=True, slots=True)
class Seen:
    """A tag, and the share of the trajectories read that have it."""

    code: str
    share: Found


@dataclass(frozen=True, slots=True)
class Audit:
    """What was read of a release, and what readers saw: tags by share, notes newest first."""

    cells: tuple[Covered, ...]
    read: int
    drawn: int
    tags: tuple[Seen, ...]
    notes: tuple[Grade, ...]


def audit(round: ReviewRound) -> Audit:
    """Coverage by environment and model, tags and notes of an audit so far.

    Shares are over trajectories that were read; the draw is proportional, so that they stand for the release.
    """
    grades = _grades(round)
    items = round.items.select_related("trajectory__source", "task__environment")
    read = {grade.slot.item_id for grade in grades}
    drawn: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for item in items:
        drawn[_cell(item)].update(["drawn", *(["read"] if item.pk in read else [])])
    plan = RoundDraw.objects.get(round=round).plan
    sizes = {(cell["label"]["environment"], cell["label"]["model"]): cell["size"] for cell in plan["cells"]}
    cells = tuple(
        Covered(*key, all=size, drawn=drawn[key]["drawn"], read=drawn[key]["read"]) for key, size in sizes.items()
    )
    tags = tuple(Seen(code, proportion(n, len(grades))) for code, n in _tags(grades))
    notes = tuple(grade for grade in reversed(grades) if grade.note.strip())
    return Audit(cells, len(read), sum(cell.drawn for cell in cells), tags, notes)


def _cell(item: ReviewItem) -> tuple[str, str]:
    model = item.trajectory.source.model if item.trajectory else ""
    return item.task.environment.name, model


# --- cold reads


@dataclass(frozen=True, slots=True)
class ColdRead:
    """One task with what a reader wrote of its instruction, and what the lead made of it; `slot` where it was read."""

    task: Task
    slot: Slot | None
    grade: Grade | None
    event: AuditEvent | None

    @property
    def ruling(self) -> str:
        return RULINGS.get(self.event.detail["ruling"], "") if self.event else ""


@dataclass(frozen=True, slots=True)
class ColdReads:
    """The reads of a round, those that wait for a ruling first, how the rulings fell, and shares of those ruled on."""

    rows: tuple[ColdRead, ...]
    waiting: int
    rulings: tuple[tuple[str, int], ...]
    verifier_misses: Found
    verifier_asks_more: Found


def cold_reads(round: ReviewRound) -> ColdReads:
    """What readers wrote so far, with the rulings."""
    grades = {grade.slot.item_id: grade for grade in _grades(round)}
    slots = {slot.item_id: slot for slot in round.slots.filter(state=SlotState.SUBMITTED).select_related("item__task")}
    events = rulings_of(list(slots.values()))
    rows = []
    for item in round.items.select_related("task__environment").order_by("number"):
        slot = slots.get(item.pk)
        rows.append(ColdRead(item.task, slot, grades.get(item.pk), events.get(slot.pk) if slot else None))
    rows.sort(key=lambda row: 0 if row.slot and not row.event else 1 if row.event else 2)
    counts = Counter(row.event.detail["ruling"] for row in rows if row.event)
    return ColdReads(
        tuple(rows),
        sum(1 for row in rows if row.slot and not row.event),
        tuple((words, counts[ruling]) for ruling, words in RULINGS.items()),
        *(proportion(counts[ruling], sum(counts.values())) for ruling in ("verifier_misses", "verifier_asks_more")),
    )


# --- one task


@dataclass(frozen=True, slots=True)
class Said:
    """What somebody said of a task in a triage or a cold read."""

    grade: Grade
    words: str
    note: str


def said_of(task: Task) -> list[Said]:
    """Answers of triages and ruled cold reads of a task, newest first."""
    kinds = (RoundKind.TRIAGE, RoundKind.COLD_READ)
    found = Grade.objects.filter(slot__item__task=task, slot__round__kind__in=kinds, current=True)
    grades = list(found.select_related("slot__round", "reviewer").order_by("-pk"))
    events = rulings_of([grade.slot for grade in grades])
    rows = []
    for grade in grades:
        if grade.slot.round.kind == RoundKind.TRIAGE:
            rows.append(Said(grade, TRIAGE.get(grade.answer, ""), grade.note))
        elif event := events.get(grade.slot_id):
            rows.append(Said(grade, RULINGS[event.detail["ruling"]], event.detail["note"]))
    return rows


def statuses_of(task: Task) -> list[TrajectorySource]:
    """The trajectories of a task with what the verifier said, in an order that names nobody."""
    found = TrajectorySource.objects.filter(trajectory__task=task, is_control=False).select_related("trajectory")
    return list(found.order_by("verifier_status", "trajectory__public_id"))
