"""How a round of review stands: totals for everyone who steers it, and the figures for those who are not in it."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.contrib.auth.models import User
from django.db.models import Count, Q, QuerySet

from auditapp.models.datasets import Dataset
from auditapp.models.reviews import (
    Exclusion,
    Flag,
    Grade,
    ReviewRound,
    Skip,
    Slot,
    SlotRole,
    SlotState,
    VerifierGuess,
)
from auditapp.models.rounds import ItemDraw
from auditapp.models.samples import Stratum
from auditapp.models.sources import TrajectorySource
from auditapp.review import GIVING, TWICE, takers
from auditapp.rounds import unfinished
from auditapp.sections.figures import ANSWERS, YES_NO
from auditapp.sections.pace import Pace, pace_of, seconds_of
from auditapp.stats.agreement import Kappa, ac1, kappa, raw_agreement
from auditapp.stats.proportions import InsufficientData, Proportion, proportion

FEW = 30


@dataclass(frozen=True, slots=True)
class Totals:
    """Slots of a round without any sight of what is in them; `closed` ones were ended without a grade.

    `held`, `free` and `flagged` are slots to grade, which are nobody's secret; those `_to_adjudicate` tell of how often
    reviewers differ.
    """

    planned: int
    done: int
    held: int
    free: int
    flagged: int
    closed: int
    repeats: int
    repeats_done: int
    adjudications: int
    adjudicated: int
    held_to_adjudicate: int
    free_to_adjudicate: int
    flagged_to_adjudicate: int

    @property
    def is_finished(self) -> bool:
        return self.done + self.closed >= self.planned

    @property
    def held_in_all(self) -> int:
        return self.held + self.held_to_adjudicate

    @property
    def free_in_all(self) -> int:
        return self.free + self.free_to_adjudicate

    @property
    def flagged_in_all(self) -> int:
        return self.flagged + self.flagged_to_adjudicate


def totals(round: ReviewRound, *, now: datetime) -> Totals:
    """Counts by role and state, in one query; a lease that has run out is free."""
    held = Q(state=SlotState.LEASED, lease_until__gte=now)
    rows = Slot.objects.filter(round=round).values_list("role", "state")
    found: Counter[tuple[str, str]] = Counter()
    for role, state, n, still_held in rows.annotate(n=Count("pk"), m=Count("pk", filter=held)).order_by():
        ended = state == SlotState.LEASED
        found[role, state] += still_held if ended else n
        found[role, SlotState.FREE] += n - still_held if ended else 0
    grades = {state: found[SlotRole.GRADE, state] for state in SlotState.values}
    return Totals(
        planned=sum(grades.values()),
        done=grades[SlotState.SUBMITTED],
        held=grades[SlotState.LEASED],
        free=grades[SlotState.FREE],
        flagged=grades[SlotState.FLAGGED],
        closed=grades[SlotState.CLOSED],
        repeats=sum(found[SlotRole.REPEAT, state] for state in SlotState.values),
        repeats_done=found[SlotRole.REPEAT, SlotState.SUBMITTED],
        adjudications=sum(found[SlotRole.ADJUDICATE, state] for state in SlotState.values),
        adjudicated=found[SlotRole.ADJUDICATE, SlotState.SUBMITTED],
        held_to_adjudicate=found[SlotRole.ADJUDICATE, SlotState.LEASED],
        free_to_adjudicate=found[SlotRole.ADJUDICATE, SlotState.FREE],
        flagged_to_adjudicate=found[SlotRole.ADJUDICATE, SlotState.FLAGGED],
    )


@dataclass(frozen=True, slots=True)
class EndingCell:
    """Slots of a verifier × judge cell that a close would end without a grade, of all its slots to grade."""

    status: str
    answer: str
    ending: int
    slots: int


@dataclass(frozen=True, slots=True)
class Ending:
    """What a close would end without a grade, for good: slots to grade, and repeats that have not come back.

    `bare` items would have no grade at all. `cells` are of rounds that were drawn from a sample.
    """

    slots: int
    bare: int
    repeats: int
    cells: list[EndingCell]

    @property
    def is_any(self) -> bool:
        return bool(self.slots or self.repeats)


def ending(round: ReviewRound) -> Ending:
    """What closing a round now would end."""
    left, grades = unfinished(round), Q(role=SlotRole.GRADE)
    counted = left.aggregate(slots=Count("pk", filter=grades), repeats=Count("pk", filter=~grades))
    graded = Slot.objects.filter(grades, round=round, state=SlotState.SUBMITTED).values("item")
    bare = left.filter(grades).exclude(item__in=graded).aggregate(n=Count("item", distinct=True))["n"]
    return Ending(counted["slots"], bare, counted["repeats"], _ending_cells(round))


def _ending_cells(round: ReviewRound) -> list[EndingCell]:
    of_all = _by_cell(Slot.objects.filter(round=round, role=SlotRole.GRADE))
    left = _by_cell(unfinished(round).filter(role=SlotRole.GRADE))
    return [EndingCell(*cell, ending=n, slots=of_all[cell]) for cell, n in sorted(left.items())]


def _by_cell(slots: QuerySet[Slot]) -> Counter[tuple[str, str]]:
    cells = ItemDraw.objects.filter(item__slots__in=slots)
    rows = cells.values_list("stratum__stratum__verifier_status", "stratum__answer").annotate(n=Count("item__slots"))
    return Counter({(status, answer): n for status, answer, n in rows.order_by()})


# --- for those who are not in the round


@dataclass(frozen=True, slots=True)
class Part:
    """A cell or a stratum: items with at least one grade, and slots done."""

    status: str
    answer: str
    stratum: str
    items: int
    finished: int
    slots: int
    done: int


@dataclass(frozen=True, slots=True)
class Place:
    """One reviewer: what they have done, hold and skipped, and how many of the free slots they may take."""

    user: User
    done: int
    held: int
    skipped: int
    open_to: int


@dataclass(frozen=True, slots=True)
class Repeats:
    """Hidden repeats: done, due now, and still to come back."""

    done: int
    due: int
    later: int


@dataclass(frozen=True, slots=True)
class Blinding:
    """Guesses of the verifier's verdict: how many were right, and how many would be by the guesser's own grade."""

    right: Proportion | InsufficientData
    by_grade: Proportion | InsufficientData
    no_idea: int


@dataclass(frozen=True, slots=True)
class Agreeing:
    """Two people on one item, in order of slots; `decided` pairs are those that both decided."""

    pairs: int
    decided: int
    raw: Proportion | InsufficientData
    kappa: Kappa | InsufficientData
    ac1: float | InsufficientData

    @property
    def is_anecdote(self) -> bool:
        return self.pairs < FEW

    @property
    def chance_reason(self) -> str:
        """Why there is no kappa; "" where there is one."""
        return self.kappa.reason if isinstance(self.kappa, InsufficientData) else ""

    @property
    def ac1_value(self) -> float | None:
        return None if isinstance(self.ac1, InsufficientData) else self.ac1


@dataclass(frozen=True, slots=True)
class Watch:
    """All that a lead outside the round sees while it goes on."""

    groups: list[Part]
    strata: list[Part]
    seconds: float | None
    pace: Pace
    hours_left: float
    places: list[Place]
    flags: list[Flag]
    resolved: int
    skips: list[Skip]
    missing: int
    repeats: Repeats
    blinding: Blinding
    agreement: Agreeing
    answers: dict[str, int]


class Given(NamedTuple):
    """A grade of record: neither of a repeat nor of an adjudication."""

    slot: int
    item: int
    acceptable: str | None


def watch(round: ReviewRound, counts: Totals, *, now: datetime) -> Watch:
    """All of a round, of which these are the totals, that tells of its cells, its people and their answers."""
    strata, seconds, given = _strata(round), seconds_of(_grades(round)), _given(round)
    left = Slot.objects.filter(_free(now), round=round)
    takeable = takers(left, round=round) if left.exists() else Slot.objects.none()
    pace = pace_of(round.version.dataset, round.kind, own=seconds)
    flags = Flag.objects.filter(slot__round=round)
    shown = flags.filter(resolved_at=None).select_related("reviewer", "slot__item__task", "slot__item__trajectory")
    return Watch(
        groups=_groups(strata),
        strata=strata,
        seconds=seconds,
        pace=pace,
        hours_left=pace.hours(counts.free_in_all + counts.held_in_all),
        places=_places(round, takeable, now),
        flags=list(shown.order_by("pk")),
        resolved=flags.filter(resolved_at__isnull=False).count(),
        skips=_skips(round),
        missing=_missing(round, left, takeable),
        repeats=_repeats(round, now) if counts.repeats else Repeats(0, 0, 0),
        blinding=blinding(round, given),
        agreement=agreeing(given),
        answers=_answers(given),
    )


def _strata(round: ReviewRound) -> list[Part]:
    grades = Q(item__slots__role=SlotRole.GRADE)
    done = grades & Q(item__slots__state=SlotState.SUBMITTED)
    cells = ItemDraw.objects.filter(item__round=round).values("stratum__stratum", "stratum__answer")
    counted = cells.annotate(
        items=Count("item", distinct=True),
        finished=Count("item", distinct=True, filter=done),
        slots=Count("item__slots", filter=grades),
        done=Count("item__slots", filter=done),
    )
    rows = list(counted.order_by("stratum__stratum__number", "stratum__answer"))
    strata = Stratum.objects.in_bulk({row["stratum__stratum"] for row in rows})
    parts = []
    for row in rows:
        found = strata[row["stratum__stratum"]]
        counts = (row[name] for name in ("items", "finished", "slots", "done"))
        parts.append(Part(found.verifier_status, row["stratum__answer"], str(found), *counts))
    return parts


def _groups(strata: list[Part]) -> list[Part]:
    members: defaultdict[tuple[str, str], list[Part]] = defaultdict(list)
    for part in strata:
        members[part.status, part.answer].append(part)
    names = ("items", "finished", "slots", "done")
    return [
        Part(status, answer, "", *(sum(getattr(part, name) for part in found) for name in names))
        for (status, answer), found in members.items()
    ]


def _grades(round: ReviewRound) -> QuerySet[Grade]:
    """The current grades, without repeats and adjudications."""
    return Grade.objects.filter(slot__round=round, slot__role=SlotRole.GRADE, current=True)


def _given(round: ReviewRound) -> list[Given]:
    """The grades of record, those of an item together in order of its copies."""
    rows = _grades(round).order_by("slot__item", "slot__copy").values_list("slot", "slot__item", "acceptable")
    return [Given(*row) for row in rows]


def _places(round: ReviewRound, takeable: QuerySet[Slot], now: datetime) -> list[Place]:
    """By name: nothing here ranks anyone. Who held a slot whose lease has run out holds it no longer."""
    slots = Slot.objects.filter(round=round)
    mine = (
        slots.filter(reviewer__isnull=False)
        .exclude(_free(now))
        .values_list("reviewer", "state")
        .annotate(n=Count("pk"))
        .order_by()
    )
    counts = Counter({(reviewer, state): n for reviewer, state, n in mine})
    skipped = Counter(Skip.objects.filter(slot__round=round, undone_at=None).values_list("reviewer", flat=True))
    open_to = takeable.values_list("round__reviewers__user").annotate(n=Count("pk"))
    may_take = dict(open_to.order_by())
    return [
        Place(
            place.user,
            done=counts[place.user_id, SlotState.SUBMITTED],
            held=counts[place.user_id, SlotState.LEASED],
            skipped=skipped[place.user_id],
            open_to=may_take.get(place.user_id, 0),
        )
        for place in round.reviewers.select_related("user").order_by("user__username")
    ]


def _free(now: datetime) -> Q:
    return Q(state=SlotState.FREE) | Q(state=SlotState.LEASED, lease_until__lt=now)


def _skips(round: ReviewRound) -> list[Skip]:
    skips = Skip.objects.filter(slot__round=round, undone_at=None).select_related("reviewer", "slot__item__task")
    return list(skips.order_by("-pk")[:50])


def _missing(round: ReviewRound, left: QuerySet[Slot], takeable: QuerySet[Slot]) -> int:
    """Slots of a live round that nobody may take any more: all have seen the task, or it was skipped twice.

    Once it is closed these are adjudications.
    """
    taken: int = takeable.filter(GIVING).aggregate(n=Count("pk", distinct=True))["n"] or 0
    skipped = Slot.objects.filter(GIVING, round=round, state=SlotState.CLOSED, skips__gte=TWICE)
    return left.filter(GIVING).count() - taken + skipped.count()


def _repeats(round: ReviewRound, now: datetime) -> Repeats:
    waiting = Q(state__in=(SlotState.FREE, SlotState.LEASED))
    found = Slot.objects.filter(round=round, role=SlotRole.REPEAT).aggregate(
        done=Count("pk", filter=Q(state=SlotState.SUBMITTED)),
        due=Count("pk", filter=waiting & (Q(free_from=None) | Q(free_from__lte=now))),
        later=Count("pk", filter=waiting & Q(free_from__gt=now)),
    )
    return Repeats(**found)


def blinding(round: ReviewRound, given: Iterable[Given]) -> Blinding:
    """How often the verdict was guessed.

    Whoever grades well guesses a good verifier from the work alone, so the share that their own grades would have had
    right stands beside it.
    """
    guesses = VerifierGuess.objects.filter(slot__round=round)
    rows = guesses.filter(guess__in=("pass", "fail")).values_list("slot", "slot__item__trajectory", "guess")
    said = _verdicts(round)
    own = {slot: "pass" if answer == "yes" else "fail" for slot, _, answer in given if answer in YES_NO}
    counted = [(slot, said[pk], guess) for slot, pk, guess in rows if pk in said]
    compared = [own[slot] == verdict for slot, verdict, _ in counted if slot in own]
    return Blinding(
        right=proportion(sum(verdict == guess for _, verdict, guess in counted), len(counted)),
        by_grade=proportion(sum(compared), len(compared)),
        no_idea=guesses.filter(guess="no_idea").count(),
    )


def _verdicts(round: ReviewRound) -> dict[int | None, str]:
    """Pass or fail by trajectory, where the verifier said something that counts."""
    counts_as = {"pass": "pass", "fail": "fail"}
    if round.version.partial_counts_as == "fail":
        counts_as["partial"] = "fail"
    guessed = VerifierGuess.objects.filter(slot__round=round).values("slot__item__trajectory")
    sources = TrajectorySource.objects.filter(trajectory__in=guessed, verifier_status__in=counts_as)
    return {pk: counts_as[status] for pk, status in sources.values_list("pk", "verifier_status")}


def agreeing(given: Iterable[Given]) -> Agreeing:
    """The grades of record of every item that two people have graded, before any adjudication."""
    by_item: defaultdict[int, list[str]] = defaultdict(list)
    for _, item, answer in given:
        if answer is not None:
            by_item[item].append(answer)
    found = Counter((said[0], said[1]) for said in by_item.values() if len(said) > 1)
    table = [[found[row, column] for column in YES_NO] for row in YES_NO]
    return Agreeing(found.total(), sum(map(sum, table)), raw_agreement(table), kappa(table), ac1(table))


def _answers(given: Iterable[Given]) -> dict[str, int]:
    found = Counter(answer for _, _, answer in given)
    return {answer: found[answer] for answer in ANSWERS}


# --- before a round is drawn


def exposed(dataset: Dataset) -> dict[int, int]:
    """By person: of how many tasks of the dataset they have seen a verdict, which keeps them from grading these.

    A task of two versions is one.
    """
    rows = Exclusion.objects.filter(task__version__dataset=dataset).values_list("user")
    return dict(rows.annotate(n=Count("task__content_sha256", distinct=True)).order_by())
