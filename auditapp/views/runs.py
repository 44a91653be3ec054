"""Judge runs: begin one, watch it, pause, resume, cancel, retry."""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.db.models import Count
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST

from auditapp import tasks
from auditapp.configs import register
from auditapp.forms.runs import BudgetForm, RunForm
from auditapp.judging import (
    LASTING,
    JudgingError,
    cancel_run,
    change_budget,
    create_judge_run,
    ensure_config,
    judgments_of,
    pause_run,
    resume_run,
    retry_failed,
    spend_forecast,
)
from auditapp.models.judgments import JudgeRun, JudgmentState, Outcome, RunState
from auditapp.stats.progress import Pace, pace
from auditapp.stats.proportions import InsufficientData
from auditapp.stats.spend import share
from auditapp.views.access import LEADS, READERS, Access, dataset_for, object_for
from auditapp.views.listing import page_of
from auditapp.views.tables import About, Table, about_version, csv_asked


def runs(request: HttpRequest, name: str) -> HttpResponse:
    """All judge runs of a dataset, newest first."""
    access = dataset_for(request, name, roles=READERS)
    found = JudgeRun.objects.filter(sample__frame__version__dataset=access.dataset)
    page = page_of(request, found.select_related("config", "sample__frame__version", "created_by"))
    if file := csv_asked(request, About(access.dataset.name), [runs_table(page.rows)]):
        return file
    context = {"access": access, "dataset": access.dataset, "page": page}
    return render(request, "runs/runs.html", context)


def runs_table(found: Iterable[JudgeRun]) -> Table:
    """A list of runs as a file."""
    columns = (
        "run",
        "judge",
        "config_digest",
        "version",
        "draw",
        "begun",
        "state",
        "planned",
        "reused",
        "replicates",
        "spent_usd",
        "unpriced_calls",
    )
    return Table("runs", columns, [_run_row(run) for run in found])


def _run_row(run: JudgeRun) -> tuple[object, ...]:
    of = (run.sample.frame.version.name, str(run.sample))
    counts = (run.planned, run.reused, run.replicates, run.known_spent_usd, run.unpriced_calls)
    return run.pk, run.config.name, run.config.digest, *of, run.created_at, run.state, *counts


def run_new(request: HttpRequest, name: str) -> HttpResponse:
    """Choose a sample and a judge, and begin."""
    access = dataset_for(request, name, roles=LEADS)
    digest = request.GET.get("judge", "")
    initial = {"sample": request.GET.get("sample")} | ({"judge": f"stored:{digest}"} if digest else {})
    form = RunForm(request.POST or None, request.FILES or None, dataset=access.dataset, initial=initial)
    if request.method == "POST" and form.is_valid():
        data = form.cleaned_data
        config = ensure_config(data["config"], by=user_of(request), source=data["source"])
        register(access.dataset, config, by=user_of(request), name=data["config"].name, source=data["source"])
        try:
            run = create_judge_run(
                data["sample"],
                config,
                by=user_of(request),
                replicates=data["replicates"],
                budget_usd=data["budget_usd"],
            )
        except JudgingError as error:
            form.add_error(None, str(error))
        else:
            tasks.enqueue_run(run)
            return redirect("run", run.public_id)
    context = {"access": access, "dataset": access.dataset, "form": form}
    return render(request, "runs/new.html", context, status=422 if form.errors else 200)


def run(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """One run: progress while it lasts, then what came of it."""
    access, found = _run(request, public_id)
    state = _state(found)
    about = about_version(found.sample.frame.version, part=("run", found.pk))
    return csv_asked(request, about, [_reasons_table(state)]) or render(
        request, "runs/run.html", {"access": access, "dataset": access.dataset, **state}
    )


def _reasons_table(state: dict[str, Any]) -> Table:
    failed = [(reason, "failed", n) for reason, n in state["reasons"].items()]
    undecided = [(reason, "completed, undecided", n) for reason, n in state["open_reasons"].items()]
    return Table("reasons", ("reason", "state", "judgments"), failed + undecided)


def run_progress(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """The progress of a run as a fragment that asks for itself again until the run has ended."""
    access, found = _run(request, public_id)
    return render(request, "runs/_progress.html", {"access": access, **_state(found)})


def _run(request: HttpRequest, public_id: uuid.UUID, *, lead: bool = False) -> tuple[Access, JudgeRun]:
    objects = JudgeRun.objects.select_related("config", "created_by")
    return object_for(request, objects, public_id, "sample__frame__version__dataset", roles=LEADS if lead else READERS)


def _state(found: JudgeRun) -> dict[str, Any]:
    tallies = _tallies(found)
    counts = tallies["counts"]
    lasting = sum(tallies["reasons"].get(reason, 0) for reason in LASTING)
    done = counts["completed"] + counts["failed"] + counts["cancelled"]
    began, now = found.created_at, timezone.now()
    speed: Pace = pace(done=done, planned=sum(counts.values()), started=began, now=now, before=found.reused)
    live = found.state in (RunState.RUNNING, RunState.PAUSED)
    forecast = spend_forecast(found)
    return {
        "forecast": None if isinstance(forecast, InsufficientData) else forecast,
        "no_forecast": forecast.reason if isinstance(forecast, InsufficientData) else "",
        "cached_share": share(found.cached_tokens, found.input_tokens),
        "budget_form": BudgetForm(initial={"budget_usd": found.budget_usd}),
        "run": found,
        "retryable": counts["failed"] - lasting,
        "lasting": lasting,
        **tallies,
        "pace": speed,
        "live": live,
        "polling": found.state == RunState.RUNNING,
    }


def _tallies(found: JudgeRun) -> dict[str, dict[str, int]]:
    """Judgments by state, labels by outcome, and why the others have none: one query, as a page asks every 2 s."""
    fields = ("state", "replicate", "outcome", "outcome_reason", "reason")
    names = ("counts", "outcomes", "reasons", "open_reasons")
    tallies: dict[str, Counter[str]] = {name: Counter() for name in names}
    tallies["counts"].update(dict.fromkeys(JudgmentState.values, 0))
    # A run that reuses none has them all to itself, in an index.
    judgments = found.judgments.all() if found.planned and not found.reused else judgments_of(found)
    rows = judgments.values_list(*fields).annotate(n=Count("*")).order_by()
    for state, replicate, outcome, open_reason, reason, n in rows:
        tallies["counts"][state] += n
        if state == JudgmentState.FAILED:
            tallies["reasons"][reason] += n
        elif state == JudgmentState.COMPLETED and replicate == 0:
            tallies["outcomes"][outcome or ""] += n
            tallies["open_reasons"].update({} if outcome else {open_reason: n})
    outcomes = tallies.pop("outcomes")
    in_order = {str(kind): outcomes[kind] for kind in (*Outcome, "") if outcomes[kind]}  # as everywhere, not by number
    return {name: dict(tally.most_common()) for name, tally in tallies.items()} | {"outcomes": in_order}


@require_POST
def steer(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Pause, resume, cancel, retry or change the budget, as the button says."""
    access, found = _run(request, public_id, lead=True)
    if request.POST.get("do") == "budget":
        return _budget(request, access, found)
    action = _ACTIONS.get(request.POST.get("do", ""))
    if action is None:
        raise Http404
    messages.success(request, action(found, user_of(request)))
    return redirect("run", found.public_id)


def _budget(request: HttpRequest, access: Access, found: JudgeRun) -> HttpResponse:
    form = BudgetForm(request.POST)
    if not form.is_valid():
        context = {"access": access, "dataset": access.dataset, **_state(found), "budget_form": form}
        return render(request, "runs/run.html", context, status=422)
    goes_on = change_budget(found, form.cleaned_data["budget_usd"], by=user_of(request))
    tasks.enqueue_judgments(goes_on)
    messages.success(request, "The budget is set, and the run goes on." if goes_on else "The budget is set.")
    return redirect("run", found.public_id)


def _pause(found: JudgeRun, by: User) -> str:
    return "Paused: what is being judged now is finished." if pause_run(found, by=by) else "It was not running."


def _resume(found: JudgeRun, by: User) -> str:
    tasks.enqueue_judgments(resume_run(found, by=by))
    return "Resumed."


def _cancel(found: JudgeRun, by: User) -> str:
    return "Cancelled." if cancel_run(found, by=by, now=timezone.now()) else "It had ended already."


def _retry(found: JudgeRun, by: User) -> str:
    ids = retry_failed(found, by=by)
    tasks.enqueue_judgments(ids)
    return f"{len(ids)} failed judgments are queued again." if ids else "No failed judgment would end otherwise now."


_ACTIONS: dict[str, Callable[[JudgeRun, User], str]] = {
    "pause": _pause,
    "resume": _resume,
    "cancel": _cancel,
    "retry": _retry,
}


def user_of(request: HttpRequest) -> User:
    """Whoever asks."""
    assert isinstance(request.user, User)  # noqa: S101  (every page asks for a login)
    return request.user
