"""The queue of blind review: who gets which slot, for how long, and what becomes of one that is given back.

Nothing here knows a verdict. A slot is claimed by a conditional update, so that two reviewers never hold the same one;
a lease that has run out counts as free, and no sweeper is needed.
"""

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Literal

from django.contrib.auth.models import User
from django.core import cache as caches
from django.db import IntegrityError, transaction
from django.db.models import Count, Exists, F, Min, OuterRef, Q, QuerySet, Subquery
from django.db.models.sql import Query
from django.utils import timezone

from auditapp.models.datasets import Dataset, DatasetVersion, Membership
from auditapp.models.events import AuditEvent
from auditapp.models.reviews import (
    Draft,
    Exclusion,
    Flag,
    Grade,
    ReviewerField,
    ReviewRound,
    RoundKind,
    RoundReviewer,
    RoundState,
    Skip,
    Slot,
    SlotRole,
    SlotState,
)
from auditapp.prepared import Prepared, PreparedWrite, changing
from auditapp.stats.progress import median_seconds

TRIES = 20
LAST = 10
TOTAL_KEPT_S = 30
TWICE = 2
OPEN_KINDS = (RoundKind.TRIAGE, RoundKind.AUDIT)
"""Rounds that ask nothing which a verdict could bias; who saw one takes part in them."""
GIVING = Q(round__state=RoundState.OPEN) | Q(round__state=RoundState.CLOSED, role=SlotRole.ADJUDICATE)
"""Slots that can be taken: all while the round is open; once it is closed those that settle a difference."""
ITEM = ("item__task__environment", "item__trajectory", "item__rubric")
"""What the page of a slot shows, for `select_related`."""
VISIBLE = (RoundState.OPEN, RoundState.CLOSED, RoundState.RELEASED)
_GRADED = Q(state=SlotState.SUBMITTED) & ~Q(role=SlotRole.ADJUDICATE)


class ReviewError(ValueError):
    """Something a reviewer cannot do now; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class End:
    """Why there is no next slot, with the counts that make it so.

    Others hold `held` slots that could still come, in a closed round adjudications; the first is free at `next_free` if
    it is not submitted. `flagged` ones of theirs wait for the lead.
    """

    kind: Literal["done", "waiting", "closed"]
    done: int
    adjudicated: int
    flagged: int
    held: int
    total: int
    skipped: int
    missing: int
    next_free: datetime | None


@dataclass(frozen=True, slots=True)
class Progress:
    """Slots this reviewer has graded, adjudications apart, and how many the round has."""

    mine: int
    total: int


@dataclass(frozen=True, slots=True)
class MyRound:
    """A round as one of its reviewers sees it; `seconds` is the median they took for an item, None before the first.

    `goes_on` says that they hold a slot or could take one now.
    """

    round: ReviewRound
    mine: int
    adjudicated: int
    done: int
    total: int
    seconds: float | None
    goes_on: bool


# --- claiming


def claim_next_slot(round: ReviewRound, *, by: User, now: datetime) -> Slot | End:
    """The slot that `by` holds already, else the next one of their queue, leased to them; else why there is none."""
    place = _place(round, by)
    round, holds = place.round, place.holds  # type: ignore[attr-defined]
    if round.state not in (RoundState.OPEN, RoundState.CLOSED):
        return end_of(round, by=by, now=now)
    for _ in range(TRIES):
        held = _renew(round, by, now) if holds else None
        if held is not None:
            return held
        try:
            taken = _take(place, by, now)
        except IntegrityError:  # another tab of the same reviewer was first: it holds what both shall show
            holds = True
            continue
        if taken is not None:
            return taken
        if not _open_to(round, by, now).exists():
            break
    return end_of(round, by=by, now=now)


def likely_next(round: ReviewRound, *, by: User, now: datetime) -> Slot | None:
    """What `by` would be given after the item they hold, unless somebody is quicker; nothing is claimed."""
    place = _place(round, by)
    slots = _open_to(place.round, by, now).order_by("position").select_related(*ITEM)
    found = slots.filter(position__gte=place.cursor).first() or slots.first()
    if found is not None:
        found.round = place.round
    return found


def _place(round: ReviewRound, by: User) -> RoundReviewer:
    """The reviewer's place with the round as it is now, and whether they hold a slot of it."""
    place = _PLACES.first(round=round.pk, by=by.pk)
    if place is None:
        raise ReviewError("You are not a reviewer of this round. Ask its lead to assign you.")
    return place


def _places(round: int, by: int) -> QuerySet[RoundReviewer]:
    member = Membership.objects.filter(dataset=OuterRef("round__version__dataset"), user=by)
    held = Slot.objects.filter(round=round, reviewer=by, state=SlotState.LEASED)
    places = RoundReviewer.objects.filter(Exists(member), round=round, user=by).annotate(holds=Exists(held))
    return places.select_related("round__version__dataset")


_PLACES = Prepared(_places)


def _renew(round: ReviewRound, by: User, now: datetime) -> Slot | None:
    mine = Slot.objects.filter(round=round, reviewer=by, state=SlotState.LEASED)
    slot = mine.select_related(*ITEM).first()
    if slot is None:
        return None
    slot.round = round
    return slot if heartbeat(slot, by=by, now=now) else None


def _take(place: RoundReviewer, by: User, now: datetime) -> Slot | None:
    """Lease the first slot from the reviewer's place in the queue on, then from its beginning."""
    with transaction.atomic():
        slot = _first(place, by, now, ahead=True) or _first(place, by, now, ahead=False)
        if slot is None:
            return None
        slot.round = place.round
        if not _lease(slot, by, now):
            return None
        _MOVE(pk=place.pk, position=slot.position)
    return slot


def _move(pk: int, position: int) -> Query:
    return changing(RoundReviewer.objects.filter(pk=pk), cursor=position)


_MOVE = PreparedWrite(_move)


def _first(place: RoundReviewer, by: User, now: datetime, *, ahead: bool) -> Slot | None:
    """The first open slot before or behind the reviewer's place, locked."""
    queue = _queue(RoundKind(place.round.kind), RoundState(place.round.state), ahead)
    dataset = place.round.version.dataset_id
    return queue.first(by=by.pk, round=place.round_id, dataset=dataset, cursor=place.cursor, now=now)


@cache
def _queue(kind: RoundKind, state: RoundState, ahead: bool) -> Prepared[Slot]:
    """What is open to a reviewer on one side of their place, with all that its page shows, for rounds of one kind."""

    def queue(by: int, round: int, dataset: int, cursor: int, now: datetime) -> QuerySet[Slot]:
        like = ReviewRound(pk=round, kind=kind, state=state, version=DatasetVersion(pk=0, dataset_id=dataset))
        side = Q(position__gte=cursor) if ahead else Q(position__lt=cursor)
        slots = _open_to(like, User(pk=by), now).filter(side).order_by("position").select_related(*ITEM)
        typed = Draft.objects.filter(slot=OuterRef("pk"), reviewer=by)
        shown = slots.annotate(drafted=Exists(typed), graded=Subquery(_mine(round, by)))
        return shown.select_for_update(skip_locked=True, of=("self",))[:1]

    return Prepared(queue)


def _open_to(round: ReviewRound, by: User, now: datetime) -> QuerySet[Slot]:
    """Slots that `by` may take: free or run out, for them or for anyone, of their field, and not seen before."""
    slots = may_take(Slot.objects.filter(round=round, state__in=[SlotState.FREE, SlotState.LEASED]), by, round=round)
    if round.state == RoundState.CLOSED:
        slots = slots.filter(role=SlotRole.ADJUDICATE)
    return slots.filter(_is_free(now), Q(free_from=None) | Q(free_from__lte=now))


def _saw_work(by: Any) -> Q:
    """Whether `by` was given the task of a slot in another round: then no reading of its instruction is a cold one."""
    mine = Slot.objects.filter(item__task=OuterRef("item__task"), reviewer=by, first_viewed_at__isnull=False)
    skipped = Skip.objects.filter(slot__item__task=OuterRef("item__task"), reviewer=by)
    elsewhere = Exists(mine.exclude(round=OuterRef("round"))), Exists(skipped.exclude(slot__round=OuterRef("round")))
    return Q(elsewhere[0]) | Q(elsewhere[1])


def _is_free(now: datetime) -> Q:
    return Q(state=SlotState.FREE) | Q(state=SlotState.LEASED, lease_until__lt=now)


def may_take(slots: QuerySet[Slot], by: User, *, round: ReviewRound) -> QuerySet[Slot]:
    """Those slots of a round that nothing bars `by` from: no earlier grade, hold or skip, no verdict of the task seen.

    A hidden repeat is barred by what was seen of the task alone, and that bars nothing of a round which is not blind.
    A cold read is for those who were given nothing of the task.
    """
    return slots.filter(*_unbarred(by, by, round=round))


def takers(slots: QuerySet[Slot], *, round: ReviewRound) -> QuerySet[Slot]:
    """Those slots once for each of its reviewers who may take them, who is `round__reviewers__user`.

    A reviewer who is no member any more takes nothing.
    """
    each = "round__reviewers__user"
    members = Membership.objects.filter(dataset=round.version.dataset_id).values("user")
    return slots.filter(
        *_unbarred(F(each), OuterRef(each), round=round), round=round, round__reviewers__user__in=members
    )


def _unbarred(by: Any, inside: Any, *, round: ReviewRound) -> list[Q]:
    """The conditions of `may_take`; `inside` is the reviewer as a query within that of the slots names them."""
    mine = Slot.objects.filter(item=OuterRef("item"), reviewer=inside).exclude(pk=OuterRef("pk"))
    skipped = Skip.objects.filter(slot__item=OuterRef("item"), reviewer=inside, undone_at=None)
    barred = Exclusion.objects.filter(user=inside)
    known = Exists(mine) | Exists(barred.filter(trajectory=OuterRef("item__trajectory")))
    fields = ReviewerField.objects.filter(user=inside, dataset=round.version.dataset_id)
    of_field = Q(field="") | Exists(fields.filter(environment=OuterRef("field"))) | ~Exists(fields)  # none named is all
    allowed = [Q(assigned=None) | Q(assigned=by), Q(role=SlotRole.REPEAT) | ~known, Q(~Exists(skipped)), of_field]
    if round.kind not in OPEN_KINDS:
        allowed.append(Q(~Exists(barred.filter(task=OuterRef("item__task")))))
    if round.kind == RoundKind.COLD_READ:
        allowed.append(~_saw_work(inside))
    return allowed


def _lease(slot: Slot, by: User, now: datetime) -> bool:
    until = _lease_end(slot, now)
    if slot.state != SlotState.FREE:
        return _seize(slot, by, state=SlotState.LEASED, lease_until=until, first_viewed_at=now)
    slot.reviewer_id, slot.state, slot.lease_until, slot.first_viewed_at = by.pk, SlotState.LEASED, until, now
    return bool(_LEASE(pk=slot.pk, by=by.pk, until=until, now=now))


def _leased(pk: int, by: int, until: datetime, now: datetime) -> Query:
    held = {"state": SlotState.LEASED, "reviewer": by, "lease_until": until, "first_viewed_at": now}
    return changing(Slot.objects.filter(pk=pk, state=SlotState.FREE), **held)


_LEASE = PreparedWrite(_leased)


def _seize(slot: Slot, by: User, **changes: Any) -> bool:
    """Give the slot to `by`, unless someone was quicker; who held it before can still bring an answer there."""
    before = slot.reviewer_id
    held = Slot.objects.filter(pk=slot.pk, state=slot.state, lease_until=slot.lease_until, reviewer=before)
    slot.reviewer_id = by.pk
    for name, value in changes.items():
        setattr(slot, name, value)
    if not held.update(reviewer=by, **changes):
        return False
    if before not in (None, by.pk):
        found = {"content": {}, "kept": True, "saved_at": timezone.now()}
        Draft.objects.get_or_create(slot=slot, reviewer_id=before, defaults=found)
    return True


def _lease_end(slot: Slot, now: datetime) -> datetime:
    return now + timedelta(minutes=slot.round.lease_minutes)


def heartbeat(slot: Slot, *, by: User, now: datetime) -> datetime | None:
    """Renew the lease; its new end, or None where the slot is no longer held by `by` or its round is not open."""
    until = _lease_end(slot, now)
    held = Slot.objects.filter(pk=slot.pk, reviewer=by, state=SlotState.LEASED).filter(GIVING)
    return until if held.update(lease_until=until) else None


def take_over(slot: Slot, *, by: User, now: datetime, answered: bool = False) -> Slot | None:
    """For one that comes back late: this slot if it is free again, else another free one of the same item.

    With an answer it is not leased but submitted, since `by` may hold another slot of the round by now.
    """
    free = Slot.objects.filter(GIVING, _is_free(now), item=slot.item_id, role=slot.role)
    again = may_take(free, by, round=slot.round).select_for_update(skip_locked=True, of=("self",))
    done = {"state": SlotState.SUBMITTED, "lease_until": None, "first_viewed_at": now}
    for found in again.order_by("copy"):
        if _seize(found, by, **done) if answered else _lease(found, by, now):
            return found
    return None


# --- looking


def slot_for(public_id: uuid.UUID, *, by: User) -> Slot:
    """A slot that `by` holds, has submitted, flagged or lost, or has a text in; else Slot.DoesNotExist."""
    slot = _OWN.first(public_id=public_id, by=by.pk)
    if slot is None:
        raise Slot.DoesNotExist
    return slot


def _own(public_id: uuid.UUID, by: int) -> QuerySet[Slot]:
    slots = Slot.objects.filter(public_id=public_id, round__state__in=VISIBLE)
    member = Membership.objects.filter(dataset=OuterRef("round__version__dataset"), user=by)
    assigned = RoundReviewer.objects.filter(round=OuterRef("round"), user=by)
    text = Q(pk__in=Slot.objects.filter(drafts__reviewer=by).values("pk"))
    mine = slots.filter(Exists(member), Exists(assigned)).filter(Q(reviewer=by) | text)
    return mine.select_related("round__version__dataset", *ITEM)


_OWN = Prepared(_own)


def is_graded_elsewhere(slot: Slot, *, by: User) -> bool:
    """Whether an answer of `by` that came late for this slot has found another one of its item."""
    others = Slot.objects.filter(item=slot.item_id, role=slot.role, reviewer=by, state=SlotState.SUBMITTED)
    return others.exclude(pk=slot.pk).exists()


def is_editable(slot: Slot, *, by: User) -> bool:
    """Whether `by` may submit here: held, or one of their last ten, not yet set against the verifier, round open."""
    if slot.reviewer_id != by.pk or not _is_giving(slot):
        return False
    if slot.state == SlotState.LEASED:
        return True
    if slot.state != SlotState.SUBMITTED:
        return False
    return slot.pk in {earlier.pk for earlier in still_open(slot.round, by)}


def still_open(round: ReviewRound, user: User) -> list[Slot]:
    """Those of the reviewer's last ten that can still be changed, newest first."""
    last = [slot for slot in last_ten(round, user) if _is_giving(slot)]
    if round.kind in OPEN_KINDS:
        return last
    barred = Exclusion.objects.filter(user=user, task__in={slot.item.task_id for slot in last})
    known = set(barred.values_list("task", flat=True))
    return [slot for slot in last if slot.item.task_id not in known]


def _is_giving(slot: Slot) -> bool:
    state = slot.round.state
    return state == RoundState.OPEN or (state == RoundState.CLOSED and slot.role == SlotRole.ADJUDICATE)


def last_ten(round: ReviewRound, user: User) -> list[Slot]:
    """The slots that the reviewer submitted last, newest first."""
    mine = Slot.objects.filter(round=round, reviewer=user, state=SlotState.SUBMITTED)
    return list(mine.select_related("item__task__environment", "round").order_by("-submitted_at", "-pk")[:LAST])


def progress_of(slot: Slot, user: User) -> Progress:
    """Mine of all in its round; its size is kept for half a minute, since a page must not count 100,000 rows.

    What came back unannounced counts like any other, so that the number tells of none; it ends at that size.
    """
    round = slot.round
    mine = slot.graded if hasattr(slot, "graded") else _MINE.first(round=round.pk, by=user.pk)
    key = f"slots-of-round-{round.public_id}-{round.extensions}"
    total = caches.caches["process"].get_or_set(key, lambda: _size(round), TOTAL_KEPT_S) or 0
    return Progress(min(mine or 0, total), total)


def _size(round: ReviewRound) -> int:
    return Slot.objects.filter(round=round, role=SlotRole.GRADE).count()


def _mine(round: int, by: int) -> QuerySet[Slot, int]:
    mine = Slot.objects.filter(_GRADED, round=round, reviewer=by).order_by().values("round")
    return mine.annotate(n=Count("pk")).values_list("n", flat=True)


_MINE = Prepared(_mine)


def my_rounds(user: User, *, now: datetime) -> list[MyRound]:
    """Rounds that the user is assigned to, newest first, each with how far it is."""
    member = Membership.objects.filter(dataset__versions=OuterRef("version"), user=user)
    rounds = ReviewRound.objects.filter(Exists(member), reviewers__user=user, state__in=VISIBLE)
    mine = Q(slots__reviewer=user, slots__state=SlotState.SUBMITTED)
    counted = rounds.select_related("version__dataset").annotate(
        total=Count("slots", filter=Q(slots__role=SlotRole.GRADE)),
        done=Count("slots", filter=Q(slots__role=SlotRole.GRADE, slots__state=SlotState.SUBMITTED)),
        mine=Count("slots", filter=mine & ~Q(slots__role=SlotRole.ADJUDICATE)),
        adjudicated=Count("slots", filter=mine & Q(slots__role=SlotRole.ADJUDICATE)),
    )
    held, seconds = _held_in(user), _seconds_in(user)
    return [
        _my_round(found, seconds.get(found.pk, []), goes_on=found.pk in held or _is_open_to(found, user, now))
        for found in counted.order_by("-pk")
    ]


def _my_round(found: Any, seconds: list[float], *, goes_on: bool) -> MyRound:
    mine = min(found.mine, found.total)
    return MyRound(found, mine, found.adjudicated, found.done, found.total, median_seconds(seconds), goes_on)


def first_of(mine: Iterable[MyRound]) -> int | None:
    """The id of the first round that goes on: where a page leads."""
    return next((row.round.pk for row in mine if row.goes_on), None)


def _held_in(user: User) -> set[int]:
    """The rounds in which the user holds a slot that can still be submitted."""
    held = Slot.objects.filter(GIVING, reviewer=user, state=SlotState.LEASED)
    return set(held.values_list("round", flat=True))


def _is_open_to(round: ReviewRound, user: User, now: datetime) -> bool:
    """Asked of each live round by itself: it ends at the first slot, where one question for all reads every slot."""
    return round.state in (RoundState.OPEN, RoundState.CLOSED) and _open_to(round, user, now).exists()


def _seconds_in(user: User) -> Mapping[int, list[float]]:
    """The times that the user's grades took, by round."""
    found: defaultdict[int, list[float]] = defaultdict(list)
    timed = Grade.objects.filter(reviewer=user, current=True, seconds__isnull=False)
    for round, seconds in timed.values_list("slot__round", "seconds"):
        found[round].append(seconds or 0)
    return found


def end_of(round: ReviewRound, *, by: User, now: datetime) -> End:
    """Why there is nothing (more) to take, with the counts that make it so."""
    slots = Slot.objects.filter(round=round)
    others_hold = slots.filter(state=SlotState.LEASED, lease_until__gte=now).exclude(reviewer=by)
    held = may_take(others_hold, by, round=round)
    others = held.aggregate(n=Count("pk"), next_free=Min("lease_until"))
    mine, total = slots.filter(reviewer=by), slots.filter(role=SlotRole.GRADE).count()
    kind: Literal["done", "waiting", "closed"] = "waiting" if others["n"] else "done"
    return End(
        kind=kind if round.state == RoundState.OPEN else "closed",
        done=min(mine.filter(_GRADED).count(), total),
        adjudicated=mine.filter(role=SlotRole.ADJUDICATE, state=SlotState.SUBMITTED).count(),
        flagged=mine.filter(state=SlotState.FLAGGED).count(),
        held=others["n"],
        total=total,
        skipped=len(skipped_by(round, by)),
        missing=slots.filter(state=SlotState.CLOSED, skips__gte=TWICE).count(),
        next_free=others["next_free"],
    )


# --- instructions


def needs_instructions(round: ReviewRound, user: User) -> bool:
    """Whether the reviewer has still to see the round's instructions."""
    unread = RoundReviewer.objects.filter(round=round, user=user, read_instructions_at=None)
    return round.shows_instructions and bool(round.instructions) and unread.exists()


def read_instructions(round: ReviewRound, *, by: User, now: datetime) -> None:
    """Note that the reviewer has seen the instructions."""
    RoundReviewer.objects.filter(round=round, user=by, read_instructions_at=None).update(read_instructions_at=now)


# --- giving back


def skip_slot(slot: Slot, *, reason: str, outside: bool, by: User, now: datetime) -> Skip:
    """Give a held slot back; `by` will not see its item again unless they undo it.

    Outside their field, it waits for someone who knows its environment. Skipped twice, it goes to the round's fallback
    reviewer, or is closed and reported as missing.
    """
    with transaction.atomic():
        changes = _after_skip(slot, by, outside=outside)
        if not _held(slot, by).update(lease_until=None, reviewer=None, skips=F("skips") + 1, **changes):
            raise ReviewError("This item is no longer yours, so there is nothing to skip.")
        return Skip.objects.create(slot=slot, reviewer=by, outside=outside, reason=reason.strip()[:1000], at=now)


def _held(slot: Slot, by: User) -> QuerySet[Slot]:
    return Slot.objects.filter(pk=slot.pk, reviewer=by, state=SlotState.LEASED)


def _after_skip(slot: Slot, by: User, *, outside: bool) -> dict[str, object]:
    changes: dict[str, object] = {"state": SlotState.FREE}
    if outside:
        changes["field"] = slot.item.task.environment.name
    if slot.skips + 1 < TWICE:
        return changes
    fallback = slot.round.fallback_id
    if slot.role == SlotRole.REPEAT or fallback in (None, by.pk, slot.assigned_id):
        return changes | {"state": SlotState.CLOSED}
    if not _reviewers(slot.round).filter(user=fallback).exists():  # they have left since the draw
        return changes | {"state": SlotState.CLOSED}
    return changes | {"assigned": fallback, "field": ""}


def _reviewers(round: ReviewRound) -> QuerySet[RoundReviewer]:
    """Those of the round who are members of its dataset still."""
    member = Membership.objects.filter(dataset=OuterRef("round__version__dataset"), user=OuterRef("user"))
    return RoundReviewer.objects.filter(Exists(member), round=round)


def skipped_by(round: ReviewRound, user: User) -> list[Skip]:
    """What the reviewer skipped and did not take back, newest first."""
    mine = Skip.objects.filter(slot__round=round, reviewer=user, undone_at=None)
    return list(mine.select_related("slot__item__task__environment").order_by("-pk"))


def undo_skip(skip: Skip, *, by: User, now: datetime) -> Slot | None:
    """Take a skip back; the slot, leased to `by` where it is still free and they hold no other, else None."""
    if not _reviewers(skip.slot.round).filter(user=by).exists():
        raise ReviewError("You are no longer a reviewer of this round. Ask its lead to assign you.")
    with transaction.atomic():
        if not Skip.objects.filter(pk=skip.pk, reviewer=by, undone_at=None).update(undone_at=now):
            raise ReviewError("This was taken back already.")
        missing = Slot.objects.filter(pk=skip.slot_id, state=SlotState.CLOSED, skips__gte=TWICE)
        missing.filter(round__state=RoundState.OPEN).update(state=SlotState.FREE)
        Slot.objects.filter(pk=skip.slot_id, skips__gt=0).update(skips=F("skips") - 1)
        if fallback := skip.slot.round.fallback_id:  # skipped only once now, it is anybody's again
            kept = Slot.objects.filter(pk=skip.slot_id, state=SlotState.FREE, assigned=fallback, skips__lt=TWICE)
            kept.filter(role=SlotRole.GRADE).update(assigned=None)
        if Slot.objects.filter(round=skip.slot.round_id, reviewer=by, state=SlotState.LEASED).exists():
            return None
        try:
            with transaction.atomic():
                return take_over(skip.slot, by=by, now=now)
        except IntegrityError:  # another tab has taken the next item meanwhile
            return None


def flag_slot(slot: Slot, *, reason: str, by: User, now: datetime) -> Flag:
    """Show a slot to the lead, who frees or closes it; a held one leaves the queue, a submitted one stays as it is.

    One flag of theirs waits at a time; the same one pressed again is the one that is there.
    """
    if not (told := reason.strip()[:1000]):
        raise ReviewError("Say what is wrong, so that the lead can mend it.")
    with transaction.atomic():
        Slot.objects.select_for_update(of=("self",)).get(pk=slot.pk)
        if waits := Flag.objects.filter(slot=slot, reviewer=by, resolved_at=None).first():
            if waits.reason == told:
                return waits
            raise ReviewError("You have flagged this item already, and the lead has not answered yet.")
        mine = Slot.objects.filter(pk=slot.pk, reviewer=by)
        if not mine.filter(state__in=[SlotState.LEASED, SlotState.SUBMITTED]).exists():
            raise ReviewError("This item is no longer yours, so it cannot be flagged.")
        mine.filter(state=SlotState.LEASED).update(state=SlotState.FLAGGED, lease_until=None)
        return Flag.objects.create(slot=slot, reviewer=by, reason=told, at=now)


# --- who may not grade what


def bar_from_tasks(user: User, tasks: Iterable[int], *, reason: str) -> None:
    """Keep `user` from every slot of these tasks from now on; a second time changes nothing."""
    rows = [Exclusion(user=user, task_id=task, reason=reason) for task in tasks]
    Exclusion.objects.bulk_create(rows, ignore_conflicts=True)


def withdraw(user: User, task: int) -> None:
    """Give back what the user holds of a task in rounds that are blind, and close the repeats meant for them."""
    slots = Slot.objects.filter(item__task=task).exclude(round__kind__in=OPEN_KINDS)
    held = slots.filter(reviewer=user, state=SlotState.LEASED)
    held.exclude(role=SlotRole.REPEAT).update(state=SlotState.FREE, reviewer=None, lease_until=None)
    repeats = slots.filter(assigned=user, role=SlotRole.REPEAT, state__in=[SlotState.FREE, SlotState.LEASED])
    repeats.update(state=SlotState.CLOSED, lease_until=None)


def leave(user: User, dataset: Dataset) -> None:
    """Let anyone take what waited for a member who is one no longer; repeats stay theirs, in case they come back."""
    waiting = Slot.objects.filter(assigned=user, state__in=(SlotState.FREE, SlotState.LEASED))
    waiting.filter(round__version__dataset=dataset).exclude(role=SlotRole.REPEAT).update(assigned=None)


def log(round: ReviewRound, action: str, *, by: User | None, **detail: object) -> None:
    """Note a change of state in the log of the dataset."""
    AuditEvent.objects.create(
        dataset=round.version.dataset, actor=by, action=action, subject=f"round {round.public_id}", detail=detail
    )
