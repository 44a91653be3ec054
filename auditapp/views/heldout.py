"""Held-out sets: hold tasks out, see how far their grading is, draw a round of what is new, refresh."""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Count, Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from auditapp import heldout
from auditapp.forms.heldout import (
    MOST_SHOWN,
    SOLVED,
    Choosing,
    HoldOutForm,
    NewTrajectoriesForm,
    PostponeForm,
    ShareForm,
    read_choosing,
    read_drawn,
    unshown,
    written,
)
from auditapp.forms.review import text_of
from auditapp.forms.rounds import INSTRUCTIONS
from auditapp.heldout import HeldOutError
from auditapp.models.datasets import DatasetVersion, Task
from auditapp.models.events import AuditEvent
from auditapp.models.reviews import HeldOutPart, HeldOutSet, ReviewRound
from auditapp.round_draws import RoundError, RoundSettings
from auditapp.sampling import default_statuses
from auditapp.stats.allocation import AllocationError
from auditapp.views.access import LEADS, READERS, Access, dataset_for, object_for, version_for
from auditapp.views.runs import user_of
from auditapp.views.tables import About, Table, about_version, csv_asked
from auditapp.views.taskrounds import told_again

DAYS = 90
USUAL_SIZE = 50


@require_safe
def held_out_sets(request: HttpRequest, name: str) -> HttpResponse:
    """The held-out sets of a dataset, those in force first."""
    access = dataset_for(request, name, roles=READERS)
    today = timezone.now().date()
    found = HeldOutSet.objects.filter(version__dataset=access.dataset).select_related("version", "created_by")
    counted = found.annotate(
        n_dev=Count("tasks", filter=Q(tasks__part=HeldOutPart.DEV)),
        n_test=Count("tasks", filter=Q(tasks__part=HeldOutPart.TEST)),
    )
    rows = [(one, heldout.standing(one)) for one in counted.order_by("-retired_at", "-pk")]
    context: dict[str, Any] = {
        "access": access,
        "dataset": access.dataset,
        "rows": sorted(rows, key=lambda row: row[0].retired_at is not None),
        "due": heldout.due(access.dataset, today=today),
        "today": today,
    }
    return csv_asked(request, About(access.dataset.name), [_set_table(context["rows"])]) or render(
        request, "heldout/sets.html", context
    )


def _set_table(rows: Iterable[tuple[Any, heldout.Standing]]) -> Table:
    columns = ("set", "version", "digest", "dev_tasks", "test_tasks", *_TALLIES, "new", "refresh_on", "retired_at")
    return Table("held_out_sets", columns, [_set_row(one, told) for one, told in rows])


def _set_row(one: Any, told: heldout.Standing) -> tuple[object, ...]:
    is_over = one.retired_at is not None
    counts = (one.n_dev, one.n_test, *_tallied(told.dev), *_tallied(told.test), None if is_over else told.new)
    return one.name, one.version.name, one.digest, *counts, one.refresh_on, one.retired_at


_TALLIES = ("dev_graded", "dev_all", "test_graded", "test_all")


def _tallied(tally: heldout.Tally) -> tuple[int, int]:
    return tally.graded, tally.all


# --- holding out


@require_http_methods(["GET", "HEAD", "POST"])
def held_out_new(request: HttpRequest, name: str) -> HttpResponse:
    """Choose tasks, one by one or a random share, and hold them out."""
    access = dataset_for(request, name, roles=LEADS)
    version = version_for(request, access)
    tasks = _counted_tasks(version)
    sent = request.POST if request.method == "POST" else request.GET
    choosing = read_choosing(sent, tasks)
    do = request.POST.get("do", "")
    share = ShareForm(request.POST) if do == "random" else ShareForm(initial=_initial(request, ShareForm))
    form = HoldOutForm(request.POST) if do == "store" else HoldOutForm(initial=_initial(request, HoldOutForm))
    if do == "store" and form.is_valid():
        try:
            made = _store(version, form, choosing, tasks, request)
        except HeldOutError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, f"{made.tasks.count()} tasks are held out from training and from exports.")
            return redirect("round-held-out", made.public_id)
    choosing = _changed(choosing, do, tasks, share)
    is_new = do == "random" and share.is_valid()
    drawn = written(share.cleaned_data, choosing) if is_new else text_of(request.POST, "drawn")
    context = _choices(access, version, tasks, choosing) | {"form": form, "share": share, "drawn": drawn}
    context["recorded"] = _recorded(choosing, tasks, drawn)
    return render(request, "heldout/new.html", context, status=422 if form.errors or share.errors else 200)


def _initial(request: HttpRequest, form: Any) -> dict[str, Any]:
    """What was typed, where only the list changes; else the usual."""
    typed = {key: request.POST[key] for key in form.base_fields if key in request.POST}
    return {"refresh_on": timezone.now().date() + timedelta(days=DAYS)} | typed


def _counted_tasks(version: DatasetVersion) -> list[Task]:
    trial = Q(trajectories__source__is_control=False)
    counts = Q(trajectories__source__verifier_status__in=default_statuses(version))
    tasks = heldout.free_tasks(version).annotate(
        n_all=Count("trajectories", filter=trial),
        n_counted=Count("trajectories", filter=trial & counts),
        n_pass=Count("trajectories", filter=trial & Q(trajectories__source__verifier_status="pass")),
    )
    return list(tasks)


def _store(
    version: DatasetVersion, form: HoldOutForm, choosing: Choosing, tasks: list[Task], request: HttpRequest
) -> HeldOutSet:
    data, drawn = form.cleaned_data, _recorded(choosing, tasks, text_of(request.POST, "drawn"))
    every = read_choosing(request.POST, Task.objects.filter(version=version))  # those taken meanwhile, too
    return heldout.hold_out(
        version,
        every.parts,
        name=data["name"],
        refresh_on=data["refresh_on"],
        today=timezone.now().date(),
        by=user_of(request),
        drawn=drawn,
    )


def _recorded(choosing: Choosing, tasks: list[Task], text: str) -> dict[str, Any] | None:
    """The draw that the list still holds, with how many `others` it has; one changed by hand is no random draw.

    What the list is filtered by now does not matter: the draw was among what its own filters let through.
    """
    drawn = read_drawn(text)
    if drawn is None:
        return None
    among = Choosing(drawn["environment"], drawn["q"], drawn["solved"], choosing.parts)
    inside = [task for task in tasks if among.shows(task)]
    chosen = {task.pk: choosing.parts[task.pk] for task in inside if task.pk in choosing.parts}
    try:
        is_same = chosen == _split(inside, drawn)
    except HeldOutError:
        return None
    return {**drawn, "others": len(choosing.parts) - len(chosen)} if is_same else None


def _changed(choosing: Choosing, do: str, tasks: list[Task], share: ShareForm) -> Choosing:
    """What a button that changes the list makes of it; each works on the tasks that the filters let through."""
    inside = [task for task in tasks if choosing.shows(task)]
    kept = {pk: part for pk, part in choosing.parts.items() if pk not in {task.pk for task in inside}}
    if do in HeldOutPart.values:
        parts = kept | dict.fromkeys((task.pk for task in inside), do)
    elif do == "none":
        parts = kept
    elif do == "random" and share.is_valid():
        parts = kept | _random(inside, share)
    else:
        return choosing
    return Choosing(choosing.environment, choosing.text, choosing.solved, parts)


def _random(tasks: list[Task], share: ShareForm) -> dict[int, str]:
    try:
        return _split(tasks, share.cleaned_data)
    except HeldOutError as error:
        share.add_error("share", ValidationError(str(error)))
        return {}


def _split(tasks: list[Task], data: dict[str, Any]) -> dict[int, str]:
    return heldout.split(tasks, share=data["share"] / 100, test_share=data["test_share"] / 100, seed=data["seed"])


def _choices(access: Access, version: DatasetVersion, tasks: list[Task], choosing: Choosing) -> dict[str, Any]:
    inside = [task for task in tasks if choosing.shows(task)]
    shown = inside[:MOST_SHOWN]
    for task in shown:
        task.part = choosing.parts.get(task.pk, "")  # type: ignore[attr-defined]
    environments = Counter(task.environment.name for task in tasks)
    taken = Counter(choosing.parts.values())
    return {
        "access": access,
        "dataset": access.dataset,
        "version": version,
        "tasks": tasks,
        "inside": inside,
        "shown": shown,
        "choosing": choosing,
        "unshown": unshown(choosing, tasks, shown),
        "environments": sorted(environments.items()),
        "solved": SOLVED.items(),
        "parts": HeldOutPart.choices,
        "n_dev": taken[HeldOutPart.DEV],
        "n_test": taken[HeldOutPart.TEST],
        "by_environment": _by_environment(tasks, choosing),
    }


@dataclass(frozen=True, slots=True)
class Share:
    """Tasks of an environment, and how many of them are chosen for each part."""

    environment: str
    tasks: int
    dev: int
    test: int


def _by_environment(tasks: list[Task], choosing: Choosing) -> list[Share]:
    """What is chosen, by environment; only where something is."""
    if not choosing.parts:
        return []
    found: Counter[tuple[str, str]] = Counter()
    for task in tasks:
        found[task.environment.name, choosing.parts.get(task.pk, "")] += 1
    names = sorted({name for name, _ in found})
    return [
        Share(
            name,
            sum(found[name, part] for part in ("", *HeldOutPart.values)),
            found[name, HeldOutPart.DEV],
            found[name, HeldOutPart.TEST],
        )
        for name in names
    ]


# --- one set


@require_safe
def held_out_set(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """One set: its tasks, how far the grading of what was done on them is, and its rounds."""
    access, found = _set(request, public_id)
    context = _of_set(access, found) | {"postpone": PostponeForm()}
    return csv_asked(request, about_version(found.version, part=("set", found.name)), _tables(context)) or render(
        request, "heldout/set.html", context
    )


def _tables(shown: Mapping[str, Any]) -> Iterator[Table]:
    standing = [
        (row.model, row.training_step, *_tallied(row.dev), *_tallied(row.test), row.dev.open, row.test.open, row.new)
        for row in shown["told"].rows
    ]
    yield Table("standing", ("model", "training_step", *_TALLIES, "dev_to_draw", "test_to_draw", "new"), standing)
    tasks = [(row.part, row.task.name, row.task.environment.name, row.n_all) for row in shown["tasks"]]
    yield Table("tasks", ("part", "task", "environment", "trajectories"), tasks)


def _set(request: HttpRequest, public_id: uuid.UUID, *, roles: Any = READERS) -> tuple[Access, HeldOutSet]:
    objects = HeldOutSet.objects.select_related("created_by")
    return object_for(request, objects, public_id, "version__dataset", roles=roles)


def _of_set(access: Access, found: HeldOutSet) -> dict[str, Any]:
    about = AuditEvent.objects.filter(dataset=access.dataset, subject=f"held-out {found.public_id}")
    tasks = found.tasks.select_related("task__environment").order_by("part", "task__environment__name", "task__name")
    counted = tasks.annotate(n_all=Count("task__trajectories", filter=Q(task__trajectories__source__is_control=False)))
    return {
        "access": access,
        "dataset": access.dataset,
        "held_out": found,
        "tasks": counted,
        "told": heldout.standing(found),
        "rounds": heldout.rounds_of(found),
        "is_due": found.retired_at is None and found.refresh_on <= timezone.now().date(),
        "is_intact": heldout.digest_of(found) == found.digest,
        "drawn": about.filter(action="held_out").values_list("detail", flat=True).first(),
        "events": about.select_related("actor").order_by("-pk")[:10],
    }


@require_POST
def held_out_steer(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Move the refresh date, retire the set, or take it back, as the button says."""
    access, found = _set(request, public_id, roles=LEADS)
    by, do = user_of(request), request.POST.get("do", "")
    try:
        if do == "postpone":
            return _postpone(request, access, found)
        if do == "retire":
            heldout.retire(found, by=by, now=timezone.now())
            messages.success(request, f"{found.name} is retired: exports hold its labels again.")
        elif do == "discard":
            heldout.discard(found, by=by)
            messages.success(request, f"{found.name} was taken back; its tasks are free.")
            return redirect("held-out", access.dataset.name)
        else:
            raise Http404
    except HeldOutError as error:
        messages.error(request, str(error))
    return redirect("round-held-out", public_id)


def _postpone(request: HttpRequest, access: Access, found: HeldOutSet) -> HttpResponse:
    form = PostponeForm(request.POST)
    if form.is_valid():
        try:
            day = form.cleaned_data["refresh_on"]
            heldout.postpone(found, refresh_on=day, today=timezone.now().date(), by=user_of(request))
        except HeldOutError as error:
            form.add_error("refresh_on", str(error))
        else:
            messages.success(request, "The refresh date was moved; the change is logged.")
            return redirect("round-held-out", found.public_id)
    return render(request, "heldout/set.html", _of_set(access, found) | {"postpone": form}, status=422)


# --- a round of what is new


@require_http_methods(["GET", "HEAD", "POST"])
def held_out_draw(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Plan and draw a round over trajectories on the set's tasks that nobody has graded."""
    access, found = _set(request, public_id, roles=LEADS)
    since, told = timezone.now(), heldout.standing(found)
    usual = {"size": min(USUAL_SIZE, told.open), "instructions": INSTRUCTIONS}
    initial = {"title": f"{found.name}: new trajectories", **usual}
    form = NewTrajectoriesForm(request.POST or None, dataset=access.dataset, initial=initial)
    plan = None
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        try:
            if "preview" not in request.POST:
                return _drawn(request, _draw(found, data, request), since)
            plan = heldout.plan_round(found, size=data["size"], overlap=data["overlap"] / 100)
        except (RoundError, AllocationError, HeldOutError) as error:
            form.add_error(None, str(error))
    context = {"access": access, "dataset": access.dataset, "held_out": found, "told": told, "form": form, "plan": plan}
    return render(request, "heldout/draw.html", context, status=422 if form.errors else 200)


def _draw(found: HeldOutSet, data: dict[str, Any], request: HttpRequest) -> ReviewRound:
    settings = RoundSettings(instructions=data["instructions"], shows_reference=data["shows_reference"])
    return heldout.draw_round(
        found,
        size=data["size"],
        overlap=data["overlap"] / 100,
        reviewers=list(data["reviewers"]),
        title=data["title"],
        seed=data["seed"],
        by=user_of(request),
        settings=settings,
    )


def _drawn(request: HttpRequest, made: ReviewRound, since: datetime) -> HttpResponse:
    if not told_again(request, made, since):
        messages.success(request, f"Round {made.number} is drawn. Open it when its reviewers shall begin.")
    return redirect("round", made.public_id)
