"""The lead's half of blind review: rounds are opened, extended, closed, settled and released.

Until its release nothing of a round is set against the verifier. `round_draws` draws them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, QuerySet

from auditapp.models.datasets import Dataset
from auditapp.models.reviews import (
    Attribution,
    Flag,
    Grade,
    ReviewerField,
    ReviewItem,
    ReviewRound,
    RoundKind,
    RoundState,
    Slot,
    SlotRole,
    SlotState,
)
from auditapp.models.rounds import ReviewLabel, ReviewLabelKind, RoundDraw
from auditapp.models.sources import TrajectorySource
from auditapp.review import GIVING, log
from auditapp.round_draws import (
    CHUNK,
    Planned,
    RoundError,
    RoundPlan,
    RoundSettings,
    assign,
    check_members,
    draw_round,
    draw_task_round,
    place_of,
    plan_round,
    recorded,
    store,
    unsolved_tasks,
)
from judges.outcome import outcome

__all__ = [
    "Planned",
    "RoundError",
    "RoundPlan",
    "RoundSettings",
    "draw_round",
    "draw_task_round",
    "plan_round",
    "unsolved_tasks",
]


def open_round(round: ReviewRound, *, by: User | None, now: datetime) -> bool:
    """Let its reviewers begin; False where it was open already."""
    return _move(round, RoundState.DRAWN, RoundState.OPEN, by=by, opened_at=now)


def discard_round(round: ReviewRound, *, by: User | None) -> bool:
    """Give up a round that was never opened; it keeps its number, so that the draw stays counted."""
    return _move(round, RoundState.DRAWN, RoundState.DISCARDED, by=by)


def _move(round: ReviewRound, before: str, after: str, *, by: User | None, **fields: Any) -> bool:
    """Change the state once, whoever else tries; RoundError where the round is elsewhere."""
    with transaction.atomic():
        changed = ReviewRound.objects.filter(pk=round.pk, state=before).update(state=after, **fields)
        if changed:
            log(round, f"round_{after}" if after != RoundState.OPEN else "round_opened", by=by)
    round.refresh_from_db()
    if not changed and round.state != after:
        raise RoundError(f"The round is {round.get_state_display()}; only one that is {before} can become {after}.")
    return bool(changed)


def invite(round: ReviewRound, users: Sequence[User], *, by: User | None) -> int:
    """Assign more reviewers to a round that is drawn or open; returns how many are new."""
    check_members(round.version, users)
    with transaction.atomic():
        held = _lock(round, RoundState.DRAWN, RoundState.OPEN)
        added = assign(held, users, _draw_of(held).plan["manifest"])
        if added:
            log(held, "round_reviewers_added", by=by, reviewers=sorted(user.get_username() for user in users))
    return added


def set_fields(dataset: Dataset, user: User, environments: Sequence[str]) -> None:
    """What environments a reviewer knows; none is all."""
    with transaction.atomic():
        known = ReviewerField.objects.filter(dataset=dataset, user=user)
        known.exclude(environment__in=environments).delete()
        rows = [ReviewerField(dataset=dataset, user=user, environment=name) for name in environments]
        ReviewerField.objects.bulk_create(rows, ignore_conflicts=True)


def _lock(round: ReviewRound, *states: str) -> ReviewRound:
    rounds = ReviewRound.objects.select_for_update(of=("self",), no_key=True)  # rows that name it need not wait
    held = rounds.select_related("version__dataset").get(pk=round.pk)
    if held.state not in states:
        allowed = " or ".join(RoundState(state).label for state in states)
        raise RoundError(f"The round is {held.get_state_display()}; this can be done while it is {allowed}.")
    return held


def _draw_of(round: ReviewRound) -> RoundDraw:
    draw = RoundDraw.objects.select_related("sample__frame__version", "config").filter(round=round).first()
    if draw is None:
        raise RoundError("How this round was drawn is not recorded.")
    draw.round = round
    return draw


def extend_round(round: ReviewRound, *, size: int, by: User | None, seen: int | None = None) -> int:
    """Draw more items of the same cells from what is left; the round counts as extended after looking.

    `seen` is how many extensions a page showed: a second press of its button draws nothing.
    """
    with transaction.atomic():
        held = _lock(round, RoundState.OPEN)
        draw = _draw_of(held)
        if seen not in (None, held.extensions):
            raise RoundError(_extended_already(held, draw, seen or 0))
        if draw.sample is None:
            raise RoundError("A round that was not drawn from a sample is not extended: draw another one.")
        plan = replace(plan_of(draw), size=size)
        planned = plan_round(draw.sample, draw.config, plan, within=held)
        held.extensions += 1
        held.save(update_fields=["extensions"])
        store(draw, planned, rubric=plan.rubric, extension=held.extensions)
        draw.plan = {**draw.plan, "extensions": [*draw.plan.get("extensions", []), recorded(planned) | {"size": size}]}
        draw.save(update_fields=["plan"])
        log(held, "round_extended", by=by, extension=held.extensions, items=planned.items, slots=planned.slots)
    round.extensions = held.extensions
    return planned.items


def _extended_already(round: ReviewRound, draw: RoundDraw, seen: int) -> str:
    more = sum(extension["size"] for extension in draw.plan.get("extensions", [])[seen:])
    return (
        f"The round was extended already while you looked: {more} more items, {round.items.count()} in all now. "
        "Nothing was drawn by this press. If that is too few, extend it once more."
    )


def plan_of(draw: RoundDraw) -> RoundPlan:
    """The plan that was asked for; a choice that there was not yet is the one that was made then."""
    asked = draw.plan["asked"]
    return RoundPlan(**{name: asked[name] for name in RoundPlan.__dataclass_fields__ if name in asked})


def close_round(round: ReviewRound, *, by: User | None, now: datetime, seen: int | None = None) -> bool:
    """End grading: what is free, held or flagged is closed, but for adjudications; drafts are kept.

    `seen` is how many extensions a page showed: a close does not end what was drawn after that. False where it was
    closed already.
    """
    with transaction.atomic():
        held = ReviewRound.objects.select_for_update().get(pk=round.pk)
        if held.state == RoundState.OPEN and seen not in (None, held.extensions):
            raise RoundError(
                f"The round was extended while you looked, to {held.items.count()} items. Nothing was closed by this "
                "press: see below what would end now."
            )
        changed = _move(round, RoundState.OPEN, RoundState.CLOSED, by=by, closed_at=now)
        if changed:
            _close(unfinished(round))
    return changed


def unfinished(round: ReviewRound) -> QuerySet[Slot]:
    """What a close would end without a grade: all that is neither submitted nor closed, but for adjudications."""
    return _unfinished(round.slots.exclude(role=SlotRole.ADJUDICATE))


def _unfinished(slots: QuerySet[Slot]) -> QuerySet[Slot]:
    return slots.exclude(state__in=(SlotState.SUBMITTED, SlotState.CLOSED))


def _close(slots: QuerySet[Slot]) -> None:
    _unfinished(slots).update(state=SlotState.CLOSED, reviewer=None, lease_until=None)


def resolve_flag(flag: Flag, *, free: bool, resolution: str, by: User | None, now: datetime) -> bool:
    """Give a flagged slot back to the queue, or close it; a submitted one stays. False where that was done already.

    Where the round takes no more grades it is closed, unless it settles a difference.
    """
    with transaction.atomic():
        waiting = Flag.objects.filter(pk=flag.pk, resolved_at=None)
        if not waiting.update(resolved_at=now, resolved_by=by, resolution=resolution.strip()[:1000]):
            return False
        is_open = free and Slot.objects.filter(GIVING, pk=flag.slot_id).exists()
        after = (
            {"state": SlotState.FREE, "reviewer": None} if is_open else {"state": SlotState.CLOSED, "reviewer": None}
        )
        Slot.objects.filter(pk=flag.slot_id, state=SlotState.FLAGGED).update(**after)
        log(flag.slot.round, "flag_resolved", by=by, slot=str(flag.slot.public_id), freed=is_open)
    return True


# --- settling


@dataclass(frozen=True, slots=True)
class Settling:
    """How many adjudications were made, and for how many items the named person was one of those who differ."""

    made: int
    own: int


def differing(round: ReviewRound) -> list[ReviewItem]:
    """Items of which two reviewers' current grades are not the same `acceptable`, in order."""
    graded = Grade.objects.filter(slot__round=round, slot__role=SlotRole.GRADE, current=True, acceptable__isnull=False)
    found = graded.values("slot__item").annotate(n=Count("acceptable", distinct=True)).filter(n__gt=1)
    return list(round.items.filter(pk__in=[row["slot__item"] for row in found.order_by()]).order_by("number"))


def unsettled(round: ReviewRound) -> list[ReviewItem]:
    """Items that reviewers differ on and that nobody has adjudicated."""
    ruled = Grade.objects.filter(slot__round=round, slot__role=SlotRole.ADJUDICATE, current=True)
    settled = set(ruled.values_list("slot__item", flat=True))
    return [item for item in differing(round) if item.pk not in settled]


def create_adjudications(round: ReviewRound, *, by: User | None, assigned: User | None = None) -> Settling:
    """Ask a third reviewer about every item that two differ on, blind to judge and verifier; once for each item.

    Whoever graded an item never adjudicates it: the queue keeps it from them, and an `assigned` one is passed over.
    """
    with transaction.atomic():
        held = _lock(round, RoundState.OPEN, RoundState.CLOSED)
        if held.kind != RoundKind.BLIND:
            raise RoundError("Only blind grades are adjudicated.")
        if assigned:
            check_members(held.version, [assigned])
            if not held.reviewers.filter(user=assigned).exists():
                raise RoundError(f"{assigned} is not a reviewer of this round: invite them first.")
        asked = Slot.objects.filter(round=held, role=SlotRole.ADJUDICATE).exclude(state=SlotState.CLOSED)
        open_items = [item for item in unsettled(held) if item.pk not in set(asked.values_list("item", flat=True))]
        own = _handled_by(assigned, open_items)
        made = [_adjudication(held, item, assigned) for item in open_items if item.pk not in own]
        Slot.objects.bulk_create(made)
        if made:
            log(held, "adjudications_created", by=by, items=len(made))
    return Settling(len(made), len(own))


def _handled_by(user: User | None, items: Sequence[ReviewItem]) -> set[int]:
    if user is None:
        return set()
    mine = Slot.objects.filter(item__in=items, reviewer=user)
    return set(mine.values_list("item", flat=True))


def _adjudication(round: ReviewRound, item: ReviewItem, assigned: User | None) -> Slot:
    earlier = item.slots.filter(role=SlotRole.ADJUDICATE).count()
    place = place_of(_draw_of(round).plan["manifest"], round.seed, f"adjudication {item.number}.{earlier}")
    return Slot(round=round, item=item, role=SlotRole.ADJUDICATE, copy=earlier, position=place, assigned=assigned)


# --- release


@dataclass(frozen=True, slots=True)
class Released:
    """What a release made: labels by single reviewers, adjudicated ones, and items that stay unsettled."""

    grades: int
    adjudicated: int
    unsettled: int


def release_round(round: ReviewRound, *, by: User | None, now: datetime) -> Released:
    """End the blindness of a closed round: its grades are set against the verifier and become labels, for good.

    The grade of record is the current one at the close; a hidden repeat never becomes a label. Again is a no-op.
    """
    with transaction.atomic():
        held = _lock(round, RoundState.CLOSED, RoundState.RELEASED)
        if held.state == RoundState.CLOSED:
            _close(held.slots.all())
            list(held.slots.select_for_update().values_list("pk"))  # an answer on its way is in, or will see the end
            made = _labels_of(held, now)
            ReviewLabel.objects.bulk_create(made, CHUNK)
            held.state, held.released_at = RoundState.RELEASED, now
            held.save(update_fields=["state", "released_at"])
            log(held, "round_released", by=by, labels=len(made), unsettled=len(unsettled(held)))
    round.refresh_from_db()
    found = Counter(ReviewLabel.objects.filter(round=held).values_list("kind", flat=True))
    return Released(found[ReviewLabelKind.HUMAN], found[ReviewLabelKind.ADJUDICATED], len(unsettled(held)))


def _labels_of(round: ReviewRound, now: datetime) -> list[ReviewLabel]:
    if round.kind != RoundKind.BLIND:  # the others ask for no decision
        return []
    roles = (SlotRole.GRADE, SlotRole.ADJUDICATE)
    grades = Grade.objects.filter(slot__round=round, slot__role__in=roles, current=True, acceptable__isnull=False)
    rows = grades.select_related("slot__item", "reviewer").order_by("pk")
    items = round.items.filter(trajectory__isnull=False)
    # Locked, in one order, so that a ruling on the status now either waits for these outcomes or is seen by them.
    sources = TrajectorySource.objects.filter(trajectory__in=items.values("trajectory"))
    statuses = dict(sources.select_for_update().order_by("pk").values_list("trajectory", "verifier_status"))
    after = {found.grade_id: found for found in Attribution.objects.filter(grade__slot__round=round)}
    return [_label(round, grade, statuses, after.get(grade.pk), now) for grade in rows if grade.slot.item.trajectory_id]


def _label(
    round: ReviewRound, grade: Grade, statuses: Mapping[int, Any], after: Attribution | None, now: datetime
) -> ReviewLabel:
    trajectory: Any = grade.slot.item.trajectory_id
    answers: dict[str, Any] = {name: getattr(grade, name) for name in ("decision", "integrity", "acceptable")}
    result, why = outcome(statuses[trajectory], answers["acceptable"], partial_as=round.version.partial_counts_as)
    late = after.tags if after and after.submitted_at else []
    is_ruling = grade.slot.role == SlotRole.ADJUDICATE
    return ReviewLabel(
        version=round.version,
        trajectory_id=trajectory,
        round=round,
        grade=grade,
        kind=ReviewLabelKind.ADJUDICATED if is_ruling else ReviewLabelKind.HUMAN,
        reviewer=grade.reviewer,
        labeler=grade.reviewer.get_username(),
        **answers,
        outcome=result,
        outcome_reason=why,
        confidence=grade.confidence,
        n_citations=len(grade.evidence),
        n_citations_verified=sum(1 for cited in grade.evidence if cited.get("ok")),
        tags=sorted({*grade.tags, *late}),
        created_at=now,
    )
