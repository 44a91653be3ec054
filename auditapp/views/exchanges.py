"""What was said between a judge and its provider: of a label, and of dry runs, probes and drafts. For leads alone.

An exchange quotes the hidden reference and everything else a judge sees, so it has the reference's access class.
"""

import uuid
from dataclasses import dataclass
from typing import Any

from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.gzip import gzip_page
from django.views.decorators.http import require_safe

from auditapp import blobs
from auditapp.models.exchanges import Exchange, ExchangeCall, ExchangeKind, ExchangeState
from auditapp.models.judgments import Execution, Judgment, ProviderCall
from auditapp.stats.usage import Spent, spent
from auditapp.views.access import LEADS, Access, object_for, record_exposure
from auditapp.views.exchange_reading import Cited, Turn, turns
from auditapp.views.reading import span_of
from auditapp.views.tables import About, Table, csv_asked

_TEMPLATES = {"probe": "exchanges/probe.html", "draft": "exchanges/draft.html", "dry_run": "exchanges/dry_run.html"}


@dataclass(frozen=True, slots=True)
class Held:
    """One execution with its turns; `replayed` is the last turn it took over from earlier ones, 0 where none."""

    execution: Execution
    turns: list[Turn]
    replayed: int


@require_safe
@gzip_page
def label_exchange(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """Every call of a judgment, in all its executions; `?run=R1&lines=3-4` marks the output of a command."""
    objects = Judgment.objects.select_related("trajectory__task", "config")
    access, judgment = object_for(request, objects, public_id, "version__dataset", roles=LEADS)
    record_exposure(request, judgment.trajectory.task_id)
    cited = _cited(request)
    calls = Prefetch("calls", ProviderCall.objects.order_by("pk"))
    executions = list(judgment.executions.order_by("pk").prefetch_related(calls))
    every = turns((call for execution in executions for call in execution.calls.all()), cited=cited)
    context = {
        "access": access,
        "dataset": access.dataset,
        "judgment": judgment,
        "held": _held(executions, every),
        "spent": _spent(every),
        "cited": cited,
        "is_missing": cited is not None and not _shows(every, cited),
    }
    return render(request, "exchanges/label.html", context)


def _cited(request: HttpRequest) -> Cited | None:
    run = request.GET.get("run", "")[:20]
    return Cited(run, span_of(request.GET.get("lines", ""))) if run else None


def _held(executions: list[Execution], every: list[Turn]) -> list[Held]:
    """Turns by execution; an execution that begins later than turn 1 replayed what was stored."""
    found = []
    for execution in executions:
        own = [turn for turn in every if turn.call.execution_id == execution.pk]  # type: ignore[attr-defined]
        first = own[0].call.turn if own else 1
        found.append(Held(execution, own, first - 1))
    return found


def _shows(every: list[Turn], cited: Cited) -> bool:
    """Whether the cited command is there, with the cited line in the part of its output that was shown."""
    answers = [answer for turn in every for answer in turn.answers if answer.anchor == cited.run]
    return any(cited.lines is None or 'id="cite"' in part.html for answer in answers for part in answer.parts)


def _spent(every: list[Turn]) -> Spent:
    return spent(
        [
            (turn.call.input_tokens, turn.call.cached_tokens, turn.call.output_tokens, turn.call.cost_usd)
            for turn in every
        ]
    )


@require_safe
@gzip_page
def exchange(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """A dry run, a probe or a draft: how far it is, what it found, and every call."""
    access, found = _exchange(request, public_id)
    if found.trajectory is not None:
        record_exposure(request, found.trajectory.task_id)
    context = _context(access, found, request)
    tables = [_checks(context["result"])] if found.kind == ExchangeKind.PROBE else []
    about = About(access.dataset.name, judge=found.config.digest, part=("exchange", found.public_id))
    return csv_asked(request, about, tables) or render(request, _TEMPLATES[found.kind], context)


def _checks(result: Any) -> Table:
    found = result["checks"] if result else ()
    return Table("checks", ("what", "state", "found"), [(row["name"], row["state"], row["text"]) for row in found])


@require_safe
def exchange_state(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """The state of a running exchange as a fragment; where it has ended, the page is loaded anew."""
    access, found = _exchange(request, public_id)
    response = render(request, "exchanges/_state.html", _context(access, found, request, brief=True))
    if found.state not in (ExchangeState.QUEUED, ExchangeState.RUNNING):
        response["HX-Refresh"] = "true"
    return response


def _exchange(request: HttpRequest, public_id: uuid.UUID) -> tuple[Access, Exchange]:
    objects = Exchange.objects.select_related("config", "trajectory__task", "task", "rubric", "created_by")
    return object_for(request, objects, public_id, "dataset", roles=LEADS)


def _context(access: Access, found: Exchange, request: HttpRequest, *, brief: bool = False) -> dict[str, Any]:
    shared = {
        "access": access,
        "dataset": access.dataset,
        "exchange": found,
        "live": found.state in (ExchangeState.QUEUED, ExchangeState.RUNNING),
        "version": found.config.versions.filter(dataset=access.dataset).first(),
    }
    if brief:
        return shared | {"n_calls": found.calls.count()}
    calls = ExchangeCall.objects.filter(exchange=found).order_by("pk")
    every = turns(calls, cited=_cited(request)) if found.kind != ExchangeKind.PROBE else []
    result = blobs.get_json(found.result_blob) if found.result_blob else None
    return shared | {"result": result, "turns": every, "spent": _spent(every), "n_calls": len(every)}
