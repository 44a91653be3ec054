"""Home, a dataset at a glance, and the list of its trajectories."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from auditapp.counters import Counts
from auditapp.demo.visit import Visit, visit_of
from auditapp.estimation import Headline, counts, headline
from auditapp.heldout import due, parts
from auditapp.models.datasets import DatasetVersion, Environment, Membership, Role, Trajectory
from auditapp.models.judgments import CitedEvidence, CriterionAnswer, JudgeRun
from auditapp.models.labels import Label
from auditapp.models.sources import TrajectorySource, VerifierStatusChoice
from auditapp.relabel import count_not_run_as
from auditapp.review import first_of, my_rounds
from auditapp.tasks import enqueue_estimate
from auditapp.views.access import (
    ANY,
    LEADS,
    READERS,
    Access,
    access_of,
    blinding_rounds,
    dataset_for,
    may_create,
    version_for,
)
from auditapp.views.imports import imports_table
from auditapp.views.listing import BODIES, MOST_CHIPS, Filter, chips, chosen, most_frequent, page_of
from auditapp.views.tables import Table, about_version, csv_asked

STATUSES = tuple(VerifierStatusChoice.values)
"""Fields whose values are codes of ours."""


@dataclass(frozen=True, slots=True)
class Example:
    """A false pass to begin with: the label, a requirement that the work does not meet, and the quote that shows it."""

    label: Label
    requirement: str
    quote: str
    cited: CitedEvidence | None = None


@dataclass(frozen=True, slots=True)
class Glance:
    """What home says of a dataset; the hidden half is empty for reviewers."""

    access: Access
    version: DatasetVersion | None
    counts: dict[str, int]
    rates: Headline | None
    example: Example | None
    run: JudgeRun | None
    labels: int = 0

    @property
    def total(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Cell:
    """A row of the population table: an environment and a subject with counts by verifier status."""

    environment: str
    model: str
    agent: str
    effort: str
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.counts)


def home(request: HttpRequest) -> HttpResponse:
    """How often is the verifier wrong, in which direction, how sure, what next; for each dataset of the caller."""
    memberships = Membership.objects.filter(user__id=request.user.pk or 0).select_related("dataset")
    if memberships and all(row.role == Role.REVIEWER for row in memberships):
        return redirect("review")
    blinding = {round.dataset: round for round in blinding_rounds(request).order_by("pk")}  # type: ignore[attr-defined]
    rows = [
        access_of(row.dataset, Role(row.role), blinding.get(row.dataset_id))
        for row in memberships.order_by("-dataset_id")
    ]
    glances = [_glance(access) for access in rows]
    context = {"glances": glances, "may_create": may_create(request), "visit": _visit(request, glances)}
    return render(request, "datasets/home.html", context)


def _visit(request: HttpRequest, glances: list[Glance]) -> Visit | None:
    """The first steps of a lead in the demo, while it is there."""
    versions = (glance.version for glance in glances if glance.access.is_lead and glance.version)
    found = (visit_of(version, request.user) for version in versions)  # type: ignore[arg-type]
    return next((visit for visit in found if visit), None)


def _glance(access: Access) -> Glance:
    version = access.dataset.versions.order_by("-id").first()
    if version is None or not access.sees_hidden:
        return Glance(access, version, {}, None, None, None)
    newest = JudgeRun.objects.filter(sample__frame__version=version).order_by("-id").first()
    counted = counts(version)
    example = false_pass(counted, with_quote=access.is_lead)
    known = 0 if newest else counted.labels("source").total()
    return Glance(access, version, counted.statuses(), rates_of(version), example, newest, known)


def rates_of(version: DatasetVersion) -> Headline | None:
    """The stored rates; a worker is asked for newer ones where they do not hold."""
    found = headline(version)
    if found and (found.computed_at is None or found.is_stale) and not found.waits:
        enqueue_estimate(version, found.subject.config, found.subject.sample)
    return found


def false_pass(counted: Counts, *, with_quote: bool) -> Example | None:
    """The false pass with the most checked evidence; quotes of it are for leads, as they can show the reference."""
    found = Label.objects.select_related("trajectory__task")
    label = found.filter(key=counted.example).first() if counted.example is not None else None
    if label is None:
        return None
    failed = CriterionAnswer.objects.filter(judgment=label.judgment_id, status="not_met").order_by("id").first()
    shown = CitedEvidence.objects.filter(
        judgment=label.judgment_id, ok=True, code__in=failed.evidence if failed else ()
    )
    cited = shown.order_by("id").first() if with_quote else None
    return Example(label, failed.requirement if failed else "", cited.quote if cited else "", cited)


def dataset(request: HttpRequest, name: str) -> HttpResponse:
    """The population of a dataset, how it came in, and what was found."""
    access = dataset_for(request, name, roles=ANY)
    if not access.sees_hidden:
        mine = my_rounds(request.user, now=timezone.now())  # type: ignore[arg-type]
        rounds = [row for row in mine if row.round.version.dataset_id == access.dataset.pk]
        shown = {"access": access, "dataset": access.dataset, "rounds": rounds, "primary": first_of(rounds)}
        return render(request, "datasets/reviewer.html", shown)
    if not access.dataset.versions.exists():
        return render(request, "datasets/nothing.html", {"access": access, "dataset": access.dataset})
    version = version_for(request, access)
    counted = counts(version)
    context = {
        "access": access,
        "dataset": access.dataset,
        "version": version,
        "versions": access.dataset.versions.order_by("-id"),
        "statuses": STATUSES,
        "counted": counted,
        "counts": counted.statuses(),
        "cells": population(counted),
        "rates": rates_of(version),
        "not_run": not_run(version),
        "invalid": counted.reasons("invalid").most_common(MOST_CHIPS),
        "example": false_pass(counted, with_quote=access.is_lead),
        "imports": version.imports.order_by("-id")[:5],
        "newest_run": JudgeRun.objects.filter(sample__frame__version=version).order_by("-id").first(),
        "held_out": parts(version),
        "due": due(access.dataset, today=timezone.now().date()),
    }
    return csv_asked(request, about_version(version), _tables(context)) or render(
        request, "datasets/dataset.html", context
    )


def _tables(shown: Mapping[str, Any]) -> Iterator[Table]:
    yield Table("invalid", ("reason", "trajectories"), shown["invalid"])
    trials = [_not_run_row(trial) for trial in shown["not_run"]]
    yield Table("not_run", ("trajectory", "task", "where", "line", "counts_as"), trials)
    compared = ("source", "labeler", "verifier", "acceptable", "labels", "share")
    yield Table("against_verifier", compared, list(_comparison_rows(shown["counted"])))
    cells = [(row.environment, row.model, row.agent, row.effort, *row.counts, row.total) for row in shown["cells"]]
    yield Table("population", ("environment", "model", "agent", "effort", *STATUSES, "all"), cells)
    yield imports_table(shown["imports"])


def _not_run_row(trial: TrajectorySource) -> tuple[object, ...]:
    shown = trial.trajectory
    return shown.public_id, shown.task.name, trial.proof_locator, trial.proof, trial.verifier_status


def _comparison_rows(counted: Counts) -> Iterator[tuple[object, ...]]:
    """A row a cell: origin of the labels, what the verifier said, what they say, and the share of that row."""
    for item in counted.comparisons():
        for row in item.rows:
            for cell in row.cells:
                yield item.source, item.labeler, cell.row, cell.column, cell.count, cell.share


def population(counted: Counts) -> list[Cell]:
    """Environment × model, agent and effort × verifier status; controls left out."""
    return [Cell(*place, tuple(found[status] for status in STATUSES)) for place, found in counted.cells().items()]


def not_run(version: DatasetVersion) -> QuerySet[TrajectorySource]:
    """Trials whose verifier never ran, with the line that proves it."""
    trials = TrajectorySource.objects.filter(version=version, verifier_reason="verifier_did_not_run")
    return trials.select_related("trajectory__task").order_by("source_id")[:50]


@require_POST
def rule_not_run(request: HttpRequest, name: str) -> HttpResponse:
    """A lead lets trials whose verifier never ran count as recorded, or as invalid again."""
    access = dataset_for(request, name, roles=LEADS)
    version = version_for(request, access)
    if (ruled := request.POST.get("as")) not in ("recorded", "invalid"):
        raise Http404
    changed = count_not_run_as(version, recorded=ruled == "recorded", by=request.user)  # type: ignore[arg-type]
    said = "what was recorded" if ruled == "recorded" else "invalid"
    trials = f"{changed} trial{' now counts' if changed == 1 else 's now count'}" if changed else "All count already"
    messages.success(request, f"{trials} as {said}.")
    return redirect(reverse("dataset", args=[access.dataset.name], query={"version": version.name}))


# --- the list

_TRAJECTORY_FIELDS = {
    "status": "source__verifier_status",
    "model": "source__model",
    "agent": "source__agent",
    "effort": "source__effort",
    "task": "task__name",
    "reason": "source__verifier_reason",
}


def trajectories(request: HttpRequest, name: str) -> HttpResponse:
    """All trajectories of a version, newest first, filtered by the address."""
    access = dataset_for(request, name, roles=READERS)
    version = version_for(request, access)
    wanted = chosen(request, (*_TRAJECTORY_FIELDS, "environment", "control", "q"))
    query = version.trajectories.select_related("task__environment", "source").defer(
        *(f"source__{name}" for name in BODIES)
    )
    query = query.filter(
        **{_TRAJECTORY_FIELDS[key]: value for key, value in wanted.items() if key in _TRAJECTORY_FIELDS}
    )
    if place := wanted.get("environment"):
        query = query.filter(task__environment=environment_id(version, place))
    query = query.filter(source__is_control=wanted.get("control") == "yes")
    parts = [query]
    if text := wanted.get("q"):
        tasks = list(version.tasks.filter(name__contains=text).values_list("pk", flat=True))
        named = TrajectorySource.objects.filter(version=version, source_id__contains=text).values("trajectory")
        parts = [query.filter(pk__in=named), query.filter(task__in=tasks)]
    page = page_of(request, *parts)
    if file := csv_asked(request, about_version(version), [_trajectory_table(page.rows)]):
        return file
    counted = counts(version)
    context = {
        "access": access,
        "dataset": access.dataset,
        "version": version,
        "page": page,
        "filters": _filters(counted, wanted),
        "counted": counted,
        "wanted": wanted,
    }
    return render(request, "datasets/trajectories.html", context)


def _trajectory_table(found: Iterable[Trajectory]) -> Table:
    columns = (
        "trajectory",
        "task",
        "source_id",
        "environment",
        "model",
        "agent",
        "effort",
        "attempt",
        "verifier_status",
        "verifier_reason",
        "reward",
        "steps",
        "flags",
    )
    return Table("trajectories", columns, [_trajectory_row(row) for row in found])


def _trajectory_row(row: Trajectory) -> tuple[object, ...]:
    source, task = row.source, row.task
    subject = (source.model, source.agent, source.effort, source.attempt)
    said = (source.verifier_status, source.verifier_reason, source.reward)
    flags = " ".join(str(flag) for flag in source.flags)
    return row.public_id, task.name, source.source_id, task.environment.name, *subject, *said, row.n_steps, flags


def environment_id(version: DatasetVersion, name: str) -> int:
    """The key of an environment, 0 where there is none: by it a database can tell a rare one from a frequent one."""
    found = Environment.objects.filter(dataset=version.dataset_id, name=name).values_list("pk", flat=True)
    return found.first() or 0


def _filters(counted: Counts, wanted: dict[str, str]) -> list[Filter]:
    by = partial(counted.among, "population")
    filters = [
        chips("status", "Verifier", [(status, status) for status in STATUSES], partial(by, "status"), wanted),
        most_frequent("environment", "Environment", partial(by, "environment"), wanted),
        most_frequent("model", "Model", partial(by, "model"), wanted),
        most_frequent("effort", "Effort", partial(by, "effort"), wanted),
        most_frequent("reason", "Verifier's reason", partial(counted.among, "reasons", "reason"), wanted),
    ]
    return [item for item in filters if len(item.choices) > 1 or item.chosen]
