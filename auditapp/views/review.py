"""Blind review as a reviewer sees it: their rounds, the queue, the item with its form, and what comes of an answer.

Only ids of slots are in addresses. A slot that is not the caller's does not exist. Nothing here, nor what it imports,
knows a verifier, a judge, a model or how a round was drawn; what follows the lock is in `aftergrade`.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_GET, require_POST, require_safe
from django.views.decorators.vary import vary_on_headers

from auditapp import grading, review
from auditapp.forms.review import (
    REQUIREMENT,
    UnreadableEvidence,
    content_of,
    from_content,
    from_grade,
    read_answers,
    read_token,
    text_of,
)
from auditapp.grading import Answers, Incomplete, Late
from auditapp.models.datasets import Membership
from auditapp.models.reviews import (
    Attribution,
    ReviewRound,
    RoundKind,
    RoundState,
    Skip,
    Slot,
    SlotState,
    VerifierGuess,
)
from auditapp.review import End, ReviewError
from auditapp.views import reading, readingparts
from auditapp.views.adjudication import versions
from auditapp.views.evidence import checked
from auditapp.views.reading import Reading
from judges.taxonomy import taxonomy

Part = Callable[[HttpRequest, Reading], dict[str, Any]]
PARTS: dict[str, tuple[str, str, Part]] = {
    "steps": ("Steps", "", readingparts.steps_part),
    "deliverable": ("Deliverable", "deliverable/", readingparts.deliverable_part),
    "task": ("Task", "task/", readingparts.task_part),
    "reference": ("Reference", "reference/", readingparts.reference_part),
}
NAMES = {key: (name, path) for key, (name, path, _) in PARTS.items()} | {"trials": ("Verifier and trials", "trials/")}
"""What each part is called and where it is; that of the trials of a triage is served by `triage`."""
FORMS = {
    "blind": "review/_form_blind.html",
    "practice": "review/_form_blind.html",
    "audit": "review/_form_audit.html",
    "triage": "review/_form_triage.html",
    "cold_read": "review/_form_cold_read.html",
}


@dataclass(frozen=True, slots=True)
class Opened:
    """A slot of the caller with what they may read of its item."""

    slot: Slot
    user: User
    reading: Reading
    editable: bool

    @property
    def round(self) -> ReviewRound:
        return self.slot.round

    @property
    def parts(self) -> list[str]:
        """The parts of the item that its round shows."""
        names = ["steps", "deliverable"] if self.slot.item.trajectory_id else []
        more = ["trials"] if self.round.kind == RoundKind.TRIAGE else []
        return [*names, "task", *(["reference"] if self.reading.reference else []), *more]


@dataclass(frozen=True, slots=True)
class Tab:
    """One part of the item."""

    key: str
    name: str
    address: str
    current: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class RequirementRow:
    """A requirement and what was answered; `field` is its name in the form."""

    id: str
    text: str
    field: str
    chosen: str
    number: int


# --- fetching and authorising


def user_of(request: HttpRequest) -> User:
    """The caller; every page here asks for a login."""
    return cast("User", request.user)


def slot_of(request: HttpRequest, public_id: uuid.UUID) -> Slot:
    """The caller's own slot; Http404 for an unknown one and for anyone else's."""
    try:
        return review.slot_for(public_id, by=user_of(request))
    except Slot.DoesNotExist:
        raise Http404 from None


def round_of(request: HttpRequest, public_id: uuid.UUID) -> ReviewRound:
    """A round that the caller is assigned to; Http404 for any other."""
    member = Membership.objects.filter(dataset__versions=OuterRef("version"), user=user_of(request))
    rounds = ReviewRound.objects.filter(Exists(member), reviewers__user=user_of(request), state__in=review.VISIBLE)
    found = rounds.select_related("version__dataset").filter(public_id=public_id).first()
    if found is None:
        raise Http404
    return found


def open_slot(request: HttpRequest, public_id: uuid.UUID) -> Opened:
    """The caller's slot and the reading of its item, with the requirements that were in force at the draw."""
    slot = slot_of(request, public_id)
    return opened(slot, user_of(request))


def opened(slot: Slot, user: User) -> Opened:
    """What a page of this slot is made of."""
    base = reverse("review-slot", args=[slot.public_id])
    item = slot.item
    shown = reading.read_task(item.task, base=base, rubric=item.rubric, with_reference=slot.round.shows_reference)
    if item.trajectory:
        shown = reading.with_work(shown, item.trajectory)
    if slot.round.kind == RoundKind.COLD_READ:
        shown = replace(shown, rubric=(), rubric_origin="", initial=None, reference=None)
    return Opened(slot, user, shown, review.is_editable(slot, by=user))


# --- rounds


@require_GET
def rounds(request: HttpRequest) -> HttpResponse:
    """All rounds of the caller: how far they are, their last ten, what they skipped."""
    user = user_of(request)
    mine = review.my_rounds(user, now=timezone.now())
    context = {"rounds": [_round_row(row, user) for row in mine], "primary": review.first_of(mine)}
    return render(request, "review/rounds.html", context)


def _round_row(row: review.MyRound, user: User) -> dict[str, Any]:
    last = review.last_ten(row.round, user)
    editable = {slot.pk for slot in review.still_open(row.round, user)}
    looked = Attribution.objects.filter(grade__slot__item__in=[slot.item_id for slot in last], grade__reviewer=user)
    revealed = set(looked.values_list("grade__slot__item", flat=True))
    return {
        "row": row,
        "last": [
            (slot, slot.pk in editable, slot.item_id in revealed or grading.may_attribute(slot, by=user))
            for slot in last
        ],
        "skipped": review.skipped_by(row.round, user),
    }


@never_cache
def next_slot(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """The next item of the queue, or why there is none; the instructions first where they are new."""
    round_ = round_of(request, public_id)
    if review.needs_instructions(round_, user_of(request)):
        return redirect("review-instructions", public_id)
    found = review.claim_next_slot(round_, by=user_of(request), now=timezone.now())
    if isinstance(found, Slot):
        return redirect("review-slot", found.public_id)
    return render(request, "review/end.html", _end(round_, found))


@require_safe
@never_cache
def ahead(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Read what the next item will probably open with, so that it is at hand; it is neither claimed nor shown."""
    user = user_of(request)
    found = review.likely_next(round_of(request, public_id), by=user, now=timezone.now())
    if found is not None:
        shown = opened(found, user)
        PARTS[shown.parts[0]][2](request, shown.reading)
    return HttpResponse(status=204)


def _end(round_: ReviewRound, end: End) -> dict[str, Any]:
    return {"round": round_, "dataset": round_.version.dataset, "end": end}


def instructions(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """What the lead asks reviewers of this round to keep in mind; a press of the button says it was read."""
    round_ = round_of(request, public_id)
    if request.method == "POST":
        review.read_instructions(round_, by=user_of(request), now=timezone.now())
        return redirect("review-next", public_id)
    unread = review.needs_instructions(round_, user_of(request))
    context = {"round": round_, "dataset": round_.version.dataset, "unread": unread}
    return render(request, "review/instructions.html", context)


# --- the item


def _part_page(request: HttpRequest, public_id: uuid.UUID, key: str) -> HttpResponse:
    """One part of the item: alone where the page asks for it, else with all that is around it."""
    found = open_slot(request, public_id)
    if key not in found.parts or key not in PARTS:
        raise Http404
    context = PARTS[key][2](request, found.reading)
    if request.headers.get("HX-Request"):
        return render(request, f"trajectories/_{key}.html", context | {"round": found.round})
    return render(request, "review/slot.html", slot_context(found, key) | context)


def _steps_or_task(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    key = "steps" if slot_of(request, public_id).item.trajectory_id else "task"
    return _part_page(request, public_id, key)


def _page(key: str) -> Callable[..., HttpResponse]:
    def view(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
        return _part_page(request, public_id, key)

    return _as_page(view)


def _as_page(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    return require_safe(never_cache(vary_on_headers("HX-Request")(gzip_page(view))))


slot = _as_page(_steps_or_task)
deliverable = _page("deliverable")
task = _page("task")
reference = _page("reference")


def slot_context(found: Opened, key: str, answers: Answers | None = None) -> dict[str, Any]:
    """What the page of an item needs beside the part that is open; the answers are those kept unless some are given."""
    round_ = found.round
    draft = grading.draft_of(found.slot, by=found.user)
    shown = answers or _answers(found.slot, draft, found.user)
    requirements = _requirements(found.reading, shown)
    is_blank = answers is None and shown == Answers() and round_.kind != RoundKind.TRIAGE  # that form names the item
    return {
        "round": round_,
        "dataset": round_.version.dataset,
        "slot": found.slot,
        "reading": found.reading,
        "editable": found.editable,
        "held": found.slot.state == SlotState.LEASED and found.editable,
        "can_submit": found.editable or _is_late(found),
        "why_not": "" if found.editable else _why_not(found),
        "draft": draft,
        "answers": shown,
        "evidence": [dict(item) for item in shown.evidence],
        "requirements": requirements,
        "tags": tag_rows(tuple(grading.codes_for(round_.kind)), frozenset(shown.tags)),
        "tabs": _tabs(found, key),
        "tab": key,
        "form": FORMS[round_.kind],
        "blank": _blank(round_.kind, tuple(requirements)) if is_blank else "",
        "versions": versions(found.slot, base=found.reading.base),
        "progress": review.progress_of(found.slot, found.user),
        "token": uuid.uuid4(),
        "may_attribute": grading.may_attribute(found.slot, by=found.user),
    }


@lru_cache(maxsize=256)
def _blank(kind: str, requirements: tuple[RequirementRow, ...]) -> SafeString:
    """The form with no answer in it: kept, since it is that of every item with these requirements."""
    tags = tag_rows(tuple(grading.codes_for(kind)), frozenset())
    context = {"requirements": requirements, "answers": Answers(), "evidence": [], "tags": tags}
    return render_to_string(FORMS[kind], context)


def tag_rows(codes: tuple[str, ...], given: frozenset[str]) -> SafeString:
    """Tags to choose from, those given chosen."""
    return _tag_rows(codes, given.intersection(codes))


@lru_cache(maxsize=256)
def _tag_rows(codes: tuple[str, ...], chosen: frozenset[str]) -> SafeString:
    """Kept, since nearly every item has the same long list with nothing chosen."""
    rows = [(taxonomy().codes[code], code in chosen) for code in codes]
    return render_to_string("review/_tag_rows.html", {"rows": rows})


def _answers(slot: Slot, draft: Any, user: User) -> Answers:
    """What was typed last, else what was submitted; nothing is suggested."""
    if draft is not None:
        return from_content(draft.content)
    grade = slot.grades.filter(current=True, reviewer=user).first() if slot.state == SlotState.SUBMITTED else None
    return from_grade(grade) if grade else Answers()


def _why_not(found: Opened) -> str:
    """Why nothing can be submitted here any more."""
    slot, round_ = found.slot, found.round
    if round_.state != RoundState.OPEN:
        return "The round is closed. What you see here stays as it is."
    if slot.reviewer_id != found.user.pk:
        if Skip.objects.filter(slot=slot, reviewer=found.user, undone_at=None).exists():
            return "You skipped this item. Take the skip back under My reviews if you want to grade it after all."
        if review.is_graded_elsewhere(slot, by=found.user):
            return "Your answer came late and counts all the same. Change it under My reviews, among your last ten."
        return (
            "Your lease had run out and this item went to someone else. Your text is kept; it counts only if the item "
            "becomes free again before you submit it."
        )
    if slot.state == SlotState.FLAGGED:
        return "You flagged this item. The lead decides what becomes of it."
    return "This grade is locked: it is not among your last ten, or you have seen the verifier of its task."


def _is_late(found: Opened) -> bool:
    """Someone else has the slot now; the answer may still find another place, unless it has found one."""
    late = found.round.state == RoundState.OPEN and found.slot.reviewer_id != found.user.pk
    return late and not review.is_graded_elsewhere(found.slot, by=found.user)


def _requirements(shown: Reading, answers: Answers) -> list[RequirementRow]:
    return [
        RequirementRow(item.id, item.text, REQUIREMENT + item.id, answers.requirements.get(item.id, ""), number)
        for number, item in enumerate(shown.rubric, 1)
    ]


def _tabs(found: Opened, current: str) -> list[Tab]:
    shown = found.reading
    missing = {"steps": shown.steps is None, "deliverable": shown.deliverable is None}
    return [
        Tab(
            key,
            NAMES[key][0],
            shown.base + NAMES[key][1],
            key == current,
            "not recorded" if missing.get(key) else f"{shown.total:,}" if key == "steps" else "",
        )
        for key in found.parts
    ]


@require_safe
@gzip_page
def chunk(request: HttpRequest, public_id: uuid.UUID, number: int) -> HttpResponse:
    """Twenty-five steps."""
    shown = open_slot(request, public_id).reading
    return render(request, "trajectories/_chunk.html", readingparts.chunk_part(request, shown, number))


@require_safe
@vary_on_headers("HX-Request")
@gzip_page
def lines(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Lines of one item that the steps had folded."""
    found = open_slot(request, public_id)
    context = readingparts.lines_part(request, found.reading)
    if request.headers.get("HX-Request"):
        return render(request, "trajectories/_excerpt.html", context)
    return render(request, "review/lines.html", slot_context(found, "steps") | context)


@require_safe
@vary_on_headers("HX-Request")
@gzip_page
def search(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Where a text occurs in the steps."""
    found = open_slot(request, public_id)
    context = readingparts.search_part(request, found.reading)
    if request.headers.get("HX-Request"):
        return render(request, "trajectories/_found.html", context)
    return render(request, "review/found.html", slot_context(found, "steps") | context)


@require_safe
def file(request: HttpRequest, public_id: uuid.UUID, root: str) -> HttpResponse:
    """Download one file of a folder that the round shows; `picture` shows one instead."""
    shown = open_slot(request, public_id).reading
    trees = {"deliverable": shown.deliverable, "initial": shown.initial, "reference": shown.reference}
    return readingparts.file_of(request, trees.get(root))


# --- what is typed


@require_POST
def draft(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Keep what is typed; says when, or that the item is no longer the caller's."""
    slot, now = slot_of(request, public_id), timezone.now()
    try:
        answers = read_answers(request.POST)
        saved = grading.save_draft(slot, content_of(answers), by=user_of(request), now=now)
    except (UnreadableEvidence, ReviewError) as error:
        return JsonResponse({"problem": str(error)}, status=422)
    if saved is None:
        return _no_longer(slot, user_of(request))
    return JsonResponse({"saved": _stamp(now)})


@require_POST
def heartbeat(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Hold the item for longer; says until when, or that it is no longer the caller's."""
    slot = slot_of(request, public_id)
    until = review.heartbeat(slot, by=user_of(request), now=timezone.now())
    return _no_longer(slot, user_of(request)) if until is None else JsonResponse({"until": _stamp(until)})


def _no_longer(slot: Slot, user: User) -> JsonResponse:
    if slot.state == SlotState.SUBMITTED and slot.reviewer_id == user.pk and slot.round.state == RoundState.OPEN:
        why = "You have submitted this item, perhaps in another window. Load the page anew to change your grade."
    else:
        why = _why_not(Opened(slot, user, cast("Reading", None), editable=False))
    return JsonResponse({"problem": why}, status=409)


def _stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


# --- the answer


@require_POST
@gzip_page
def submit(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Store the answer and give the next item in the same response; a refused one says what is missing."""
    found = open_slot(request, public_id)
    answers = Answers()
    try:
        answers = read_answers(request.POST)
        sent = Answers(**{**content_of(answers), "evidence": checked(found.reading, answers.evidence)})
        token = read_token(request.POST)
        if token is None:
            raise ReviewError("The page is out of date. Load it anew; what you typed is kept.")
        grade = grading.submit_grade(found.slot, sent, token=token, by=found.user, now=timezone.now())
    except UnreadableEvidence as error:
        return _refused(request, found, answers, {"evidence": str(error)})
    except Incomplete as error:
        return _refused(request, found, answers, error.fields)
    except Late as error:
        return _refused(request, found, answers, {}, problem=str(error), status=409)
    except ReviewError as error:
        return _refused(request, found, answers, {}, problem=str(error))
    return _onward(request, grade.slot, found.round, asks=_asks_guess(grade.slot, grade.number))


def _refused(
    request: HttpRequest,
    found: Opened,
    answers: Answers,
    fields: dict[str, str],
    *,
    problem: str = "",
    status: int = 422,
) -> HttpResponse:
    """Say what is missing, where it is missing; nothing typed is lost."""
    if request.headers.get("HX-Request"):
        return JsonResponse({"fields": fields, "problem": problem}, status=status)
    key = found.parts[0]
    context = slot_context(found, key, answers) | PARTS[key][2](request, found.reading)
    return render(request, "review/slot.html", context | {"wrong": fields, "problem": problem}, status=status)


def _asks_guess(slot: Slot, number: int) -> bool:
    return slot.asks_guess and number == 1 and not VerifierGuess.objects.filter(slot=slot).exists()


def _onward(request: HttpRequest, done: Slot, round_: ReviewRound, *, asks: bool) -> HttpResponse:
    """The next item, or why there is none, in one response; without JavaScript by way of its address."""
    if not request.headers.get("HX-Request"):
        return redirect("review-guess", done.public_id) if asks else redirect("review-next", round_.public_id)
    user = user_of(request)
    found = review.claim_next_slot(round_, by=user, now=timezone.now())
    context: dict[str, Any] = {"guess": done if asks else None}
    if isinstance(found, End):
        return render(request, "review/_end.html", context | _end(round_, found))
    shown = opened(found, user)
    key = shown.parts[0]
    return render(
        request, "review/_slot.html", context | slot_context(shown, key) | PARTS[key][2](request, shown.reading)
    )


def guess(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Ask what the verifier said, or note the answer; skipping it is one press, too."""
    slot = slot_of(request, public_id)
    if request.method != "POST":
        return render(request, "review/guess.html", {"slot": slot, "round": slot.round, "dataset": _dataset(slot)})
    if request.POST.get("guess"):
        try:
            grading.guess_verifier(slot, request.POST["guess"], by=user_of(request), now=timezone.now())
        except ReviewError as error:
            if request.headers.get("HX-Request"):
                return JsonResponse({"problem": str(error)}, status=422)
            messages.error(request, str(error))
    return HttpResponse(status=204) if request.headers.get("HX-Request") else _to_next(slot)


def _dataset(slot: Slot) -> Any:
    return slot.round.version.dataset


def _to_next(slot: Slot) -> HttpResponse:
    return redirect("review-next", slot.round.public_id)


# --- giving back


def skip(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Give the item back, with a reason or as outside of one's field; pressed twice, it goes on like once."""
    given = Skip.objects.filter(slot__public_id=public_id, reviewer=user_of(request), undone_at=None)
    if request.method == "POST" and (skipped := given.select_related("slot__round").first()):
        return _to_next(skipped.slot)
    slot = slot_of(request, public_id)
    reason, outside = text_of(request.POST, "reason"), bool(request.POST.get("outside"))

    def give_back() -> None:
        review.skip_slot(slot, reason=reason, outside=outside, by=user_of(request), now=timezone.now())

    return _give_back(request, slot, "skip", give_back)


def flag(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Show the item to the lead."""
    slot = slot_of(request, public_id)

    def show() -> None:
        review.flag_slot(slot, reason=text_of(request.POST, "reason"), by=user_of(request), now=timezone.now())

    return _give_back(request, slot, "flag", show)


def _give_back(request: HttpRequest, slot: Slot, what: str, act: Callable[[], None]) -> HttpResponse:
    context: dict[str, Any] = {"slot": slot, "round": slot.round, "dataset": _dataset(slot)}
    if request.method != "POST":
        return render(request, f"review/{what}.html", context)
    try:
        act()
    except ReviewError as error:
        context |= {"problem": str(error), "reason": request.POST.get("reason", "")}
        return render(request, f"review/{what}.html", context, status=422)
    return _to_next(slot)


@require_POST
def unskip(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Take a skip back and open the item again, where it is still free."""
    mine = Skip.objects.filter(slot__public_id=public_id, reviewer=user_of(request))
    skipped = mine.select_related("slot__round").order_by("-pk").first()
    if skipped is None:
        raise Http404
    try:
        found = review.undo_skip(skipped, by=user_of(request), now=timezone.now())
    except ReviewError as error:
        messages.error(request, str(error))
        return redirect("review")
    if found is not None:
        return redirect("review-slot", found.public_id)
    messages.success(request, "Taken back. You hold another item now; this one comes up again if it is still free.")
    return redirect("review")


@require_POST
def undo(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Open the grade submitted before this one, to be changed."""
    slot, user = slot_of(request, public_id), user_of(request)
    earlier = review.still_open(slot.round, user)
    here = next((index for index, found in enumerate(earlier) if found.pk == slot.pk), -1)
    if here + 1 < len(earlier):
        return redirect("review-slot", earlier[here + 1].public_id)
    messages.info(request, "There is nothing before this that you could still change.")
    return redirect("review-slot", public_id)
