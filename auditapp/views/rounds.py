"""Rounds of review as a lead steers them: the list, a new draw, watching one, and what its buttons do.

A lead who is assigned to a round that is not released sees totals and the buttons, nothing of cells or answers.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from auditapp import rounds as steps
from auditapp.estimation import stored, subject
from auditapp.forms.review import text_of
from auditapp.forms.rounds import NO_JUDGE, CloseForm, ExtendForm, PeopleForm, ReleaseForm, RoundForm, SettleForm
from auditapp.heldout import due
from auditapp.models.datasets import Membership
from auditapp.models.events import AuditEvent
from auditapp.models.judgments import JudgeRun, RunState
from auditapp.models.reviews import Flag, ReviewRound, RoundKind, RoundState, SlotRole, SlotState
from auditapp.models.rounds import ReviewLabel, RoundDraw, RoundStratum
from auditapp.models.samples import Sample
from auditapp.round_draws import check_round
from auditapp.rounds import Planned, RoundError
from auditapp.sections.pace import pace_of
from auditapp.sections.rounds import LookingCost, looking_cost
from auditapp.sections.watching import Ending, Part, ending, exposed, totals, watch
from auditapp.stats.allocation import AllocationError
from auditapp.views.access import ANY, LEADS, Access, dataset_for, leads_who_see, object_for
from auditapp.views.listing import page_of
from auditapp.views.runs import user_of
from auditapp.views.tables import About, Table, about_version, csv_asked
from auditapp.views.taskrounds import KINDS, found_in, tables_of, task_round_new, told_again


@require_safe
def rounds(request: HttpRequest, name: str) -> HttpResponse:
    """All rounds of a dataset, newest first."""
    access = dataset_for(request, name, roles=ANY).require_steering()
    grades = Q(slots__role=SlotRole.GRADE)
    drawn = ReviewRound.objects.filter(version__dataset=access.dataset).exclude(kind=RoundKind.PRACTICE)
    found = drawn.annotate(
        planned=Count("slots", filter=grades), done=Count("slots", filter=grades & Q(slots__state=SlotState.SUBMITTED))
    )
    page = page_of(request, found.select_related("version", "created_by"))
    if file := csv_asked(request, About(access.dataset.name), [_round_table(page.rows)]):
        return file
    samples = Sample.objects.filter(frame__version__dataset=access.dataset).exists()
    context = {"page": page, "samples": samples, "due": due(access.dataset, today=timezone.now().date())}
    return render(request, "rounds/rounds.html", _shared(access) | context)


def _round_table(found: Sequence[Any]) -> Table:
    columns = ("round", "title", "scripted", "extended", "kind", "state", "version", "drawn_at", "by", "done", "slots")
    return Table("rounds", columns, [_round_row(row) for row in found])


def _round_row(row: Any) -> tuple[object, ...]:
    marks, drawn = (row.is_scripted, bool(row.extensions)), (row.version.name, row.created_at)
    by = row.created_by.get_username() if row.created_by else None
    return row.number, row.title, *marks, row.kind, row.state, *drawn, by, row.done, row.planned


def _shared(access: Access) -> dict[str, Any]:
    return {"access": access, "dataset": access.dataset}


# --- a new one


def round_new(request: HttpRequest, name: str) -> HttpResponse:
    """Plan a round; asking with `preview` shows cells, slots and hours without drawing. `?kind=` names another kind."""
    if (kind := request.GET.get("kind", "")) in KINDS:
        return task_round_new(request, name, kind)
    access, since = dataset_for(request, name, roles=LEADS), timezone.now()
    form = RoundForm(
        request.POST or None, dataset=access.dataset, exposed=exposed(access.dataset), initial=_newest(access)
    )
    planned: Planned | None = None
    if request.method == "POST" and form.is_valid():
        try:
            if "preview" not in request.POST:
                made = _draw(form, access, request)
                told_again(request, made, since)
                return redirect("round", made.public_id)
            planned = _plan(form)
        except (RoundError, AllocationError) as error:
            form.add_error(None, str(error))
    context = _shared(access) | {"form": form, "planned": planned}
    if planned is not None:
        pace = pace_of(access.dataset)
        context |= {"hours": pace.hours(planned.slots), "pace": pace, "judging": _is_judging(form)}
        context["asked_floor"] = form.plan.floor
    return render(request, "rounds/new.html", context, status=422 if form.errors else 200)


def _newest(access: Access) -> dict[str, Any]:
    """The judge and draw that the numbers are about, or the newest sample."""
    for version in access.dataset.versions.order_by("-id"):
        found = subject(version)
        sample = found.sample or Sample.objects.filter(frame__version=version, part_of=None).order_by("-id").first()
        if sample:
            judge = found.config.digest if found.config else NO_JUDGE
            return {"sample": sample.public_id, "judge": judge, "size": min(50, sample.size)}
    return {}


def _plan(form: RoundForm) -> Planned:
    """What pressing "Draw" would make of the form; RoundError where it would refuse."""
    data, version = form.cleaned_data, form.cleaned_data["sample"].frame.version
    check_round(version, data["reviewers"], form.settings, seed=data["seed"], twice=form.plan.overlap > 0)
    return steps.plan_round(data["sample"], form.config, form.plan)


def _is_judging(form: RoundForm) -> bool:
    """Whether the judge whose answers make the cells has not finished the sample."""
    live = JudgeRun.objects.filter(state__in=(RunState.RUNNING, RunState.PAUSED))
    return live.filter(sample=form.cleaned_data["sample"], config=form.config).exists()


def _draw(form: RoundForm, access: Access, request: HttpRequest) -> ReviewRound:
    data, by = form.cleaned_data, user_of(request)
    for user, environments in data["known"].items():
        steps.set_fields(access.dataset, user, environments)
    return steps.draw_round(
        data["sample"].frame.version,
        sample=data["sample"],
        config=form.config,
        plan=form.plan,
        reviewers=data["reviewers"],
        title=data["title"],
        seed=data["seed"],
        by=by,
        settings=form.settings,
    )


# --- one round


def _round(request: HttpRequest, public_id: uuid.UUID) -> tuple[Access, ReviewRound]:
    objects = ReviewRound.objects.exclude(kind=RoundKind.PRACTICE).select_related("created_by", "fallback")
    access, found = object_for(request, objects, public_id, "version__dataset", roles=ANY)
    return access.require_steering(), found


@require_safe
def round_page(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """How a round stands; cells, people and answers only for who is not blinded by it or by another one."""
    access, found = _round(request, public_id)
    context = _context(access, found)
    return csv_asked(request, about_version(found.version, part=("round", found.number)), _tables(context)) or render(
        request, "rounds/round.html", context
    )


def _page(request: HttpRequest, access: Access, found: ReviewRound, **forms: Any) -> HttpResponse:
    status = 422 if any(form.errors for form in forms.values()) else 200
    return render(request, "rounds/round.html", _context(access, found, **forms), status=status)


def _context(access: Access, found: ReviewRound, **forms: Any) -> dict[str, Any]:
    context = _shared(access) | _progress(access, found) | _forms(found) | _closing(access, found) | forms
    context["fallback_left"] = bool(found.fallback_id) and not _is_member(access, found.fallback_id)
    if access.sees_hidden:
        context["watch"] = watch(found, context["totals"], now=timezone.now())
        context |= {"unsettled": len(steps.unsettled(found))} | _drawn(found)
        about = AuditEvent.objects.filter(dataset=access.dataset, subject=f"round {found.public_id}")
        context["events"] = about.select_related("actor").order_by("-pk")[:20]
        context |= found_in(found)
        context["looking"] = _looking(context["draw"]) if context["extend_form"] else None
    return context


def _tables(shown: Mapping[str, Any]) -> Iterator[Table]:
    """Tables of a round; there are none for who is blinded."""
    if "watch" not in shown:
        return
    watched, counts = shown["watch"], ("items", "graded", "slots", "done")
    yield Table("cells", ("verifier_status", "judge", *counts), [_part_row(part) for part in watched.groups])
    strata = [(part.stratum, *_part_row(part)[1:]) for part in watched.strata]
    yield Table("strata", ("stratum", "judge", *counts), strata)
    people = [
        (place.user.get_username(), place.done, place.held, place.skipped, place.open_to) for place in watched.places
    ]
    yield Table("reviewers", ("reviewer", "done", "holds", "skipped", "may_still_take"), people)
    if draw := shown["draw"]:
        yield _drawn_table(draw)
    yield from tables_of(shown)


def _part_row(part: Part) -> tuple[object, ...]:
    return part.status, part.answer, part.items, part.finished, part.slots, part.done


def _drawn_table(draw: RoundDraw) -> Table:
    """What a round outside any sample was drawn from, as its plan records it."""
    cells = draw.plan.get("cells", ())
    names = tuple(cells[0]["label"]) if cells else ()
    rows = [(*cell["label"].values(), cell["size"], cell["drawn"], cell["inclusion_probability"]) for cell in cells]
    return Table("drawn", (*names, "to_draw_from", "drawn", "probability"), rows)


def _progress(access: Access, found: ReviewRound) -> dict[str, Any]:
    counts = totals(found, now=timezone.now())
    polling = found.state == RoundState.OPEN and not counts.is_finished
    asks = counts.flagged and not access.sees_hidden
    return {
        "round": found,
        "totals": counts,
        "polling": polling,
        "deciding": leads_who_see(access.dataset) if asks else [],
        "rows": _rows(found) if access.sees_hidden else "",
    }


def _rows(found: ReviewRound) -> str:
    """The address of the labels that a round made; "" where it made none."""
    if found.kind != RoundKind.BLIND or found.state != RoundState.RELEASED:
        return ""
    query = {"version": found.version.name, "round": str(found.public_id)}
    return reverse("labels", args=[found.version.dataset.name], query=query)


def _forms(found: ReviewRound) -> dict[str, Any]:
    may_invite = found.state in (RoundState.DRAWN, RoundState.OPEN)
    people = PeopleForm(round=found) if may_invite else None
    is_blind = found.kind == RoundKind.BLIND
    may_extend = is_blind and found.state == RoundState.OPEN and _sampled(found)
    may_settle = is_blind and found.state in (RoundState.OPEN, RoundState.CLOSED)
    return {
        "extend_form": ExtendForm(initial={"seen": found.extensions}) if may_extend else None,
        "unsampled": is_blind and not _sampled(found),
        "people_form": people if people and people.fields["users"].queryset.exists() else None,  # type: ignore[attr-defined]
        "settle_form": SettleForm(round=found) if may_settle else None,
        "release_form": ReleaseForm() if found.state == RoundState.CLOSED else None,
    }


def _closing(access: Access, found: ReviewRound) -> dict[str, Any]:
    """What a close would end, and the form that asks whether one knows, where there is something to ask."""
    if found.state != RoundState.OPEN:
        return {}
    ends = ending(found)
    return {"ending": ends, "close_form": CloseForm() if _must_know(access, found, ends) else None}


def _must_know(access: Access, found: ReviewRound, ends: Ending) -> bool:
    """Whether a close asks; whoever may be handed a hidden repeat is not told by this whether one is left."""
    return ends.is_any if access.sees_hidden else bool(ends.slots or found.repeat_share)


def _looking(draw: RoundDraw) -> LookingCost | None:
    """What extending costs by the figures of the round's judge and draw; None where there are none yet."""
    figures = stored(draw.round.version, config=draw.config, sample=draw.sample)
    return looking_cost(figures.payload) if figures else None


def _is_member(access: Access, user: int | None) -> bool:
    return Membership.objects.filter(dataset=access.dataset, user=user).exists()


def _sampled(found: ReviewRound) -> bool:
    return RoundDraw.objects.filter(round=found, sample__isnull=False).exists()


def _drawn(found: ReviewRound) -> dict[str, Any]:
    draw = RoundDraw.objects.filter(round=found).select_related("sample__frame", "config", "held_out").first()
    sizes = RoundStratum.objects.filter(draw__round=found).select_related("stratum")
    return {
        "draw": draw,
        "items": found.items.count(),
        "draws": sizes.order_by("extension", "stratum__number", "answer"),
        "number_of": ReviewRound.objects.filter(version=found.version_id).exclude(kind=RoundKind.PRACTICE).count(),
        "labels": ReviewLabel.objects.filter(round=found).count(),
        "its_numbers": reverse("numbers", args=[found.version.dataset.name], query=_subject(found, draw)),
    }


def _subject(found: ReviewRound, draw: RoundDraw | None) -> dict[str, str]:
    """What the numbers are about that a round's labels enter: its version, judge and draw."""
    about = {"version": found.version.name}
    if draw and draw.config:
        about["judge"] = draw.config.digest
    if draw and draw.sample:
        about["sample"] = str(draw.sample.public_id)
    return about


@require_safe
def round_progress(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """The totals as a fragment that asks for itself again while the round is open and unfinished."""
    access, found = _round(request, public_id)
    return render(request, "rounds/_progress.html", _shared(access) | _progress(access, found))


# --- its buttons


@require_POST
def round_steer(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Open, discard, close, release, extend, invite or adjudicate, as the button says."""
    access, found = _round(request, public_id)
    action = _ACTIONS.get(request.POST.get("do", ""))
    if action is None:
        raise Http404
    try:
        answer = action(request, access, found)
    except (RoundError, AllocationError) as error:
        messages.error(request, str(error))
    else:
        if not isinstance(answer, str):
            return answer
        messages.success(request, answer)
    return redirect("round", public_id)


Answer = str | HttpResponse


def _open(request: HttpRequest, _access: Access, found: ReviewRound) -> Answer:
    steps.open_round(found, by=user_of(request), now=timezone.now())
    return "The round is open: its reviewers find it on their page."


def _discard(request: HttpRequest, _access: Access, found: ReviewRound) -> Answer:
    steps.discard_round(found, by=user_of(request))
    return "Discarded. The draw stays counted."


def _close(request: HttpRequest, access: Access, found: ReviewRound) -> Answer:
    if found.state == RoundState.OPEN and _must_know(access, found, ending(found)):
        form = CloseForm(request.POST)
        if not form.is_valid():
            return _page(request, access, found, close_form=form)
    seen = request.POST.get("seen", "")
    extensions = int(seen) if seen.isdecimal() and len(seen) < 10 else None
    steps.close_round(found, by=user_of(request), now=timezone.now(), seen=extensions)
    if found.kind != RoundKind.BLIND:
        return "Closed. Release it to lock its answers for good."
    return "Closed. Release it to set its grades against the verifier."


def _release(request: HttpRequest, access: Access, found: ReviewRound) -> Answer:
    form = ReleaseForm(request.POST)
    if not form.is_valid():
        if found.state != RoundState.CLOSED:
            raise RoundError(f"The round is {found.get_state_display()}; only a closed one is released.")
        return _page(request, access, found, release_form=form)
    made = steps.release_round(found, by=user_of(request), now=timezone.now())
    if found.kind != RoundKind.BLIND:
        return "Released. Its answers are locked for good; none of them is a label."
    told = f"Released: {made.grades} labels by reviewers, {made.adjudicated} adjudicated"
    return f"{told}, {made.unsettled} items on which reviewers differ stay undecided."


def _extend(request: HttpRequest, access: Access, found: ReviewRound) -> Answer:
    form = ExtendForm(request.POST)
    if not form.is_valid():
        return _page(request, access, found, extend_form=form)
    items = steps.extend_round(found, **form.cleaned_data, by=user_of(request))
    more = f"{items} more item{'' if items == 1 else 's'}, drawn from what was left."
    return f"{more} The round is marked as extended after looking."


def _invite(request: HttpRequest, access: Access, found: ReviewRound) -> Answer:
    form = PeopleForm(request.POST, round=found)
    if not form.is_valid():
        return _page(request, access, found, people_form=form)
    added = steps.invite(found, list(form.cleaned_data["users"]), by=user_of(request))
    return f"{added} more reviewer{'' if added == 1 else 's'}."


def _adjudicate(request: HttpRequest, access: Access, found: ReviewRound) -> Answer:
    form = SettleForm(request.POST, round=found)
    if not form.is_valid():
        return _page(request, access, found, settle_form=form)
    made = steps.create_adjudications(found, by=user_of(request), assigned=form.cleaned_data["assigned"])
    if not access.sees_hidden:  # how often reviewers differ is not for one of them
        return "Wherever two reviewers differ so far, a third is asked."
    if not made.made and not made.own:
        return "Nothing new to adjudicate: wherever two reviewers differ, a third is asked already."
    own = f" {made.own} are left: they are among the two who differ." if made.own else ""
    return f"{made.made} new adjudication{' is' if made.made == 1 else 's are'} in the queue.{own}"


_ACTIONS: dict[str, Callable[[HttpRequest, Access, ReviewRound], Answer]] = {
    "open": _open,
    "discard": _discard,
    "close": _close,
    "release": _release,
    "extend": _extend,
    "invite": _invite,
    "adjudicate": _adjudicate,
}


def _who_decides(leads: list[str]) -> str:
    why = "What was written at a flag may tell of the work, so a lead who is assigned to a round does not decide on it."
    if leads:
        return f"{why} {' or '.join(leads)} can."
    return (
        f"{why} All leads of this dataset are: whoever runs this server can make somebody else one (manage.py grant), "
        "or close the round, which ends flagged slots without a grade."
    )


@require_POST
def round_flag(request: HttpRequest, public_id: uuid.UUID, number: int) -> HttpResponse:
    """Free or close a flagged slot; whoever is blinded does not read what was written there."""
    access, found = _round(request, public_id)
    if not access.sees_hidden:
        raise PermissionDenied(_who_decides(leads_who_see(access.dataset)))
    flag = Flag.objects.filter(slot__round=found, pk=number).select_related("slot__round__version__dataset").first()
    if flag is None or request.POST.get("do") not in ("free", "close"):
        raise Http404
    done = steps.resolve_flag(
        flag,
        free=request.POST["do"] == "free",
        resolution=text_of(request.POST, "resolution"),
        by=user_of(request),
        now=timezone.now(),
    )
    messages.success(request, "Resolved." if done else "Somebody has resolved it already.")
    return redirect("round", public_id)
