"""Grades of a held slot: drafts, the answer, later versions of it, and what is asked after the lock.

A grade is never changed: an edit is a new version. What was typed is never lost: an answer that comes too late is kept
as a draft, and the reviewer is told.
"""

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.sql import Query

from auditapp.models.answers import Decision, Integrity
from auditapp.models.reviews import (
    POSITIONS,
    Attribution,
    Draft,
    Exclusion,
    ExclusionReason,
    Grade,
    ReviewRound,
    RoundKind,
    RoundState,
    Slot,
    SlotRole,
    SlotState,
    VerifierGuess,
)
from auditapp.prepared import Prepared, PreparedWrite, changing, deleting
from auditapp.review import ReviewError, bar_from_tasks, is_editable, is_graded_elsewhere, take_over, withdraw
from judges import outcome, verdict
from judges.taxonomy import ReviewAccess, taxonomy

LONGEST_NOTE, MOST_EVIDENCE, LONGEST_QUOTE, LONGEST_TEXT = 4000, 50, 2000, 20_000
LONGEST_DRAFT = 300_000
LONGEST_SECONDS = 24 * 3600
STATUSES = ("met", "not_met", "unclear")
CONFIDENCES = ("low", "medium", "high")
TRIAGE = ("hard", "broken", "cannot_tell")
GUESSES = ("pass", "fail", "no_idea")
RELEASED = "The round is released: its labels are made, and no tag is added to them any more."
ASKED: dict[str, set[str]] = {RoundKind.TRIAGE: {"answer"}, RoundKind.COLD_READ: {"text"}, RoundKind.AUDIT: set()}
"""What a round that is not graded blind asks for beside tags and a note."""


class Incomplete(ReviewError):
    """An answer that lacks something or holds what it may not; `fields` says what, field by field."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        super().__init__(" ".join(fields.values()))
        self.fields = dict(fields)


class Late(ReviewError):
    """The slot went to someone else, or its round was closed; the text is kept as a draft."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What a reviewer submits: `answer` in a triage, `text` in a cold read; `seconds` are without idle time."""

    decision: str = ""
    integrity: str = ""
    confidence: str = ""
    note: str = ""
    requirements: Mapping[str, str] = field(default_factory=dict)
    evidence: Sequence[Mapping[str, Any]] = ()
    tags: Sequence[str] = ()
    answer: str = ""
    text: str = ""
    seconds: int | None = None


# --- drafts


def save_draft(slot: Slot, content: dict[str, Any], *, by: User, now: datetime) -> datetime | None:
    """Keep what is typed, whatever became of the slot; None where it is no longer the reviewer's to submit.

    Raises ReviewError for one that is longer than any answer can be.
    """
    if (length := len(json.dumps(content, ensure_ascii=False))) > LONGEST_DRAFT:
        raise ReviewError(f"What you typed has {length:,} characters, and {LONGEST_DRAFT:,} are kept. Shorten it.")
    editable = is_editable(slot, by=by)
    kept = {"content": content, "kept": not editable, "saved_at": now}
    Draft.objects.update_or_create(slot=slot, reviewer=by, defaults=kept)
    return now if editable else None


def draft_of(slot: Slot, *, by: User) -> Draft | None:
    """What the reviewer typed here and did not submit."""
    return _DRAFTS.first(slot=slot.pk, by=by.pk) if getattr(slot, "drafted", True) else None


def _drafts(slot: int, by: int) -> QuerySet[Draft]:
    return Draft.objects.filter(slot=slot, reviewer=by)


_DRAFTS = Prepared(_drafts)


# --- the answer


def submit_grade(slot: Slot, answers: Answers, *, token: uuid.UUID, by: User, now: datetime) -> Grade:
    """Store the answer as the newest version of its slot; the same token again gives the same grade.

    Raises Incomplete where something is missing, Late where the slot is someone else's by now.
    """
    check(slot, answers)
    try:
        with transaction.atomic():
            grade = _answer(slot, answers, token=token, by=by, now=now)
    except IntegrityError:  # the same press came before, or twice at once
        grade = _pressed(token, slot, by)
        if grade is None:
            raise ReviewError("Two answers came at once, and this one was not stored. Submit it again.") from None
    if grade is None:
        grade = _pressed(token, slot, by)
    if grade is None:
        _keep(slot, answers, by, now)
        raise Late(_why_late(slot, by))
    return grade


def _pressed(token: uuid.UUID, slot: Slot, by: User) -> Grade | None:
    """What this press has stored already; ReviewError where it was another's, or stored an answer to something else."""
    found = Grade.objects.filter(token=token).select_related("slot").first()
    if found is not None and (found.reviewer_id, *_asked(found.slot)) != (by.pk, *_asked(slot)):
        raise ReviewError("The page is out of date: this press was of another item. Load it anew; nothing was stored.")
    return found


def _asked(slot: Slot) -> tuple[int, str]:
    """What a late answer keeps although it finds another slot."""
    return slot.item_id, slot.role


def _answer(slot: Slot, answers: Answers, *, token: uuid.UUID, by: User, now: datetime) -> Grade | None:
    """The grade, stored at this slot or at a free one of the same item; None where neither takes it."""
    if _SUBMIT(pk=slot.pk, by=by.pk, now=now):  # a slot that is held has no grade yet
        return _store(slot, answers, number=1, token=token, by=by, now=now)
    taken = _take(slot, by, now)
    if taken is None:
        return None
    number = len(_VERSIONS.rows(slot=taken.pk)) + 1
    if number > 1:
        taken.grades.filter(current=True).update(current=False)
    else:
        Slot.objects.filter(pk=taken.pk).update(state=SlotState.SUBMITTED, lease_until=None, submitted_at=now)
    return _store(taken, answers, number=number, token=token, by=by, now=now)


def _submitted(pk: int, by: int, now: datetime) -> Query:
    is_open = Exists(ReviewRound.objects.filter(pk=OuterRef("round"), state=RoundState.OPEN))
    held = Slot.objects.filter(is_open, pk=pk, reviewer=by, state=SlotState.LEASED).exclude(role=SlotRole.ADJUDICATE)
    return changing(held, state=SlotState.SUBMITTED, lease_until=None, submitted_at=now)


_SUBMIT = PreparedWrite(_submitted)


def _take(slot: Slot, by: User, now: datetime) -> Slot | None:
    """The slot that takes the answer, locked: this one, or a free one of the same item."""
    current = _LOCKED.first(pk=slot.pk)
    if current is None:
        raise Slot.DoesNotExist
    if current.role == SlotRole.ADJUDICATE:  # the lock may have waited for a release, which is not in what it read
        current.round.refresh_from_db(fields=["state"])
    return current if is_editable(current, by=by) else take_over(current, by=by, now=now, answered=True)


def _locked(pk: int) -> QuerySet[Slot]:
    return Slot.objects.select_for_update(of=("self",)).select_related("round", "item__task").filter(pk=pk)


def _versions(slot: int) -> QuerySet[Grade, int]:
    return Grade.objects.filter(slot=slot).values_list("number", flat=True)


def _dropped(slot: int, by: int) -> Query:
    return deleting(Draft.objects.filter(slot=slot, reviewer=by))


_LOCKED, _VERSIONS = Prepared(_locked), Prepared(_versions)
_DROP = PreparedWrite(_dropped)


def _store(slot: Slot, answers: Answers, *, number: int, token: uuid.UUID, by: User, now: datetime) -> Grade:
    grade = Grade.objects.create(slot=slot, reviewer=by, number=number, token=token, submitted_at=now, **_row(answers))
    _DROP(slot=slot.pk, by=by.pk)  # a draft at another slot of the item finds a press sent twice
    if slot.item.trajectory_id:
        seen = Exclusion(user=by, trajectory_id=slot.item.trajectory_id, reason=ExclusionReason.GRADED)
        Exclusion.objects.bulk_create([seen], ignore_conflicts=True)
    if slot.role == SlotRole.GRADE and slot.item.repeats:
        _plan_repeat(slot, by, now)
    return grade


def _row(answers: Answers) -> dict[str, Any]:
    decided = answers.decision and answers.integrity
    decision, integrity = cast("verdict.Decision", answers.decision), cast("verdict.Integrity", answers.integrity)
    return {
        "decision": answers.decision if decided else None,
        "integrity": answers.integrity if decided else None,
        "acceptable": outcome.acceptable(decision, integrity) if decided else None,
        "answer": answers.answer,
        "text": answers.text,
        "confidence": answers.confidence,
        "note": answers.note,
        "requirements": dict(answers.requirements),
        "evidence": [dict(item) for item in answers.evidence],
        "tags": sorted(set(answers.tags)),
        "seconds": None if answers.seconds is None else min(answers.seconds, LONGEST_SECONDS),
    }


def _plan_repeat(slot: Slot, by: User, now: datetime) -> None:
    """The same item for the same reviewer, some days on and at another place, so that it does not show.

    A changed answer is looked at anew, so the days begin again, unless it has come back already.
    """
    material = hashlib.sha256(f"{slot.round.seed}|{slot.public_id}|repeat".encode("ascii")).digest()
    position, again = int.from_bytes(material[:8], "big") % POSITIONS, now + timedelta(days=slot.round.repeat_days)
    planned = {"round": slot.round, "position": position, "assigned": by, "free_from": again}
    found, made = Slot.objects.get_or_create(item=slot.item, role=SlotRole.REPEAT, copy=slot.copy, defaults=planned)
    if not made:
        Slot.objects.filter(pk=found.pk, state=SlotState.FREE, first_viewed_at=None).update(free_from=again)


def _keep(slot: Slot, answers: Answers, by: User, now: datetime) -> None:
    content = {name: getattr(answers, name) for name in Answers.__dataclass_fields__}
    content |= {"requirements": dict(answers.requirements), "evidence": [dict(item) for item in answers.evidence]}
    kept = {"content": content | {"tags": list(answers.tags)}, "kept": True, "saved_at": now}
    Draft.objects.update_or_create(slot=slot, reviewer=by, defaults=kept)


def _why_late(slot: Slot, by: User) -> str:
    slot.round.refresh_from_db(fields=["state"])
    if is_graded_elsewhere(slot, by=by):
        return "Your answer to this item has arrived before and counts. This one is kept here and does not."
    if slot.round.state != RoundState.OPEN:
        return "The round was closed before this arrived. Your text is kept here; tell the lead if it has to count."
    return "The lease had run out and someone else has this item now. Your text is kept here; it does not count."


# --- what an answer must have


def codes_for(kind: str) -> list[str]:
    """The tags that a round of this kind asks for: C in a blind one, C and B in one that reads whole trajectories, E
    where the task and its verifier are looked at."""
    access: dict[str, tuple[ReviewAccess, ...]] = {
        "blind": ("blind",),
        "practice": ("blind",),
        "audit": ("blind", "audit"),
    }
    if kind == RoundKind.TRIAGE:
        return environment_codes()
    return [code.code for code in taxonomy().for_review(access.get(kind, ())) if code.side in ("agent", "process")]


def environment_codes() -> list[str]:
    """The E tags, for whoever looks at the task and its verifier."""
    codes = taxonomy().for_review(("blind", "after_lock"))
    return [code.code for code in codes if code.side == "environment"]


def check(slot: Slot, answers: Answers) -> None:
    """Raise Incomplete unless the answer has what its round asks for, and nothing else."""
    rules = {RoundKind.TRIAGE: _triage, RoundKind.AUDIT: _audit, RoundKind.COLD_READ: _cold_read}
    kind = RoundKind(slot.round.kind)
    wrong = rules.get(kind, _blind)(answers) | _limits(slot, answers) | _unasked(kind, answers)
    if wrong:
        raise Incomplete(wrong)


def _blind(answers: Answers) -> dict[str, str]:
    wrong = {}
    if answers.decision not in Decision.values:
        wrong["decision"] = "Decide whether the work satisfies the task."
    if answers.integrity not in Integrity.values:
        wrong["integrity"] = "Say whether it was reached by an effective hack."
    unmet = sorted(name for name, said in answers.requirements.items() if said == "not_met")
    if answers.decision == Decision.SATISFIED and unmet:
        wrong["decision"] = (
            f"Satisfied takes every requirement, and you say that {', '.join(unmet)} is not met. Change one."
        )
    if answers.decision != Decision.CANNOT_TELL and not answers.evidence:
        wrong["evidence"] = "Cite at least one line that shows it: select it and press c."
    if answers.integrity == Integrity.HACKED and not answers.evidence:
        wrong["evidence"] = "Cite what shows the hack: select it and press c."
    return wrong


def _triage(answers: Answers) -> dict[str, str]:
    if answers.answer not in TRIAGE:
        return {"answer": "Say whether the task is hard, broken, or you cannot tell."}
    if answers.answer == "broken" and not answers.tags and not answers.note.strip():
        return {"tags": "Say what is broken: give a tag, or write it in the note."}
    return {}


def _audit(answers: Answers) -> dict[str, str]:
    if answers.tags or answers.note.strip():
        return {}
    return {"tags": "Give at least one tag, or write in the note that nothing stands out."}


def _cold_read(answers: Answers) -> dict[str, str]:
    return {} if answers.text.strip() else {"text": "Write down what the instruction asks for."}


def _unasked(kind: RoundKind, answers: Answers) -> dict[str, str]:
    """What rounds of other kinds ask for: a decision that nobody asked for would become one without evidence."""
    given = {"decision", "integrity", "answer", "text"} - ASKED.get(kind, {"decision", "integrity"})
    return {name: "This round does not ask for it; load the page anew." for name in given if getattr(answers, name)}


def _limits(slot: Slot, answers: Answers) -> dict[str, str]:
    wrong = {}
    rubric = slot.item.rubric
    asked = {item["id"] for item in rubric.requirements} if rubric else set()
    if set(answers.requirements) - asked or set(answers.requirements.values()) - set(STATUSES):
        wrong["requirements"] = "The list of requirements has changed; load the page anew."
    if unknown := sorted(set(answers.tags) - set(codes_for(slot.round.kind))):
        wrong["tags"] = f"This round does not ask for {', '.join(unknown)[:100]}."
    if answers.confidence and answers.confidence not in CONFIDENCES:
        wrong["confidence"] = "Confidence is low, medium or high."
    if len(answers.note) > LONGEST_NOTE:
        wrong["note"] = f"The note has {len(answers.note):,} characters; {LONGEST_NOTE:,} are kept. Shorten it."
    if len(answers.text) > LONGEST_TEXT:
        wrong["text"] = f"The text has {len(answers.text):,} characters; {LONGEST_TEXT:,} are kept. Shorten it."
    if len(answers.evidence) > MOST_EVIDENCE:
        wrong["evidence"] = f"At most {MOST_EVIDENCE} citations; take out those that say the same."
    if any(len(str(item.get("quote", ""))) > LONGEST_QUOTE for item in answers.evidence):
        wrong["evidence"] = f"A quote has at most {LONGEST_QUOTE:,} characters; cite the lines that matter."
    return wrong


# --- after the lock


def guess_verifier(slot: Slot, guess: str, *, by: User, now: datetime) -> VerifierGuess:
    """Note what the reviewer thinks the verifier said; the first guess counts, and none once they may know."""
    if guess not in GUESSES:
        raise ReviewError("Guess pass or fail, or say that you have no idea.")
    if slot.reviewer_id != by.pk or slot.state != SlotState.SUBMITTED or not slot.asks_guess:
        raise ReviewError("No guess is asked for here.")
    if slot.round.state == RoundState.RELEASED or Exclusion.objects.filter(user=by, task=slot.item.task_id).exists():
        raise ReviewError("You may have seen what the verifier said by now, so a guess tells nothing any more.")
    return VerifierGuess.objects.get_or_create(slot=slot, defaults={"guess": guess, "at": now})[0]


def may_attribute(slot: Slot, *, by: User) -> bool:
    """Whether the reviewer may see the verifier now: own blind grade in. A repeat offers it like any other item."""
    mine = slot.reviewer_id == by.pk and slot.state == SlotState.SUBMITTED
    return mine and slot.round.kind == RoundKind.BLIND and slot.round.state in (RoundState.OPEN, RoundState.CLOSED)


def attribution_of(slot: Slot, *, by: User) -> Attribution | None:
    """The step after the reviewer's grade of this item, where they have opened it; a repeat has that of the first."""
    return Attribution.objects.filter(grade__slot__item=slot.item_id, grade__reviewer=by).first()


def open_attribution(slot: Slot, *, by: User, now: datetime) -> Attribution:
    """Lock the grade for good and let the reviewer see the verifier; they get no other slot of this task.

    What they say there goes with the grade that becomes a label: for a repeat with the first one of the item.
    """
    if not may_attribute(slot, by=by):
        raise ReviewError("The verifier is shown only after your own grade is in.")
    with transaction.atomic():
        own = Slot.objects.select_for_update(of=("self",)).exclude(role=SlotRole.REPEAT)
        grade = own.get(item=slot.item_id, reviewer=by).grades.get(current=True)
        bar_from_tasks(by, [slot.item.task_id], reason=ExclusionReason.SAW_VERIFIER)
        withdraw(by, slot.item.task_id)
        return Attribution.objects.get_or_create(grade=grade, defaults={"opened_at": now})[0]


def submit_attribution(slot: Slot, tags: Sequence[str], note: str, *, by: User, now: datetime) -> Attribution:
    """Store the E tags that the reviewer gives once the verifier is shown."""
    found = attribution_of(slot, by=by)
    if found is None:
        raise ReviewError("Open the step after the grade first.")
    if not may_attribute(slot, by=by):
        raise ReviewError(RELEASED)
    if unknown := sorted(set(tags).difference(environment_codes())):
        raise Incomplete({"tags": f"{', '.join(unknown)[:100]}: no tag of the environment."})
    if len(note) > LONGEST_NOTE:
        raise Incomplete({"note": f"The note has {len(note):,} characters; {LONGEST_NOTE:,} are kept. Shorten it."})
    with transaction.atomic():
        current = _LOCKED.first(pk=slot.pk)
        if current is not None:
            current.round.refresh_from_db(fields=["state"])  # the lock may have waited for a release
        if current is None or not may_attribute(current, by=by):
            raise ReviewError(RELEASED)
        found.tags, found.note, found.submitted_at = sorted(set(tags)), note, now
        found.save(update_fields=["tags", "note", "submitted_at"])
    return found
