"""Judge configs of a dataset: the list, a new one, one in full, two compared, and what is tried before spending."""

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.contrib import messages
from django.db.models import Count, IntegerField, OuterRef, QuerySet, Subquery, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from auditapp import configs as steps
from auditapp import tasks
from auditapp.exchanges import ask_dry_run, ask_probe
from auditapp.forms.configs import ConfigForm, DryRunForm, example_source
from auditapp.judging import ensure_config, stored_config
from auditapp.models.datasets import Dataset, DatasetVersion
from auditapp.models.exchanges import ConfigVersion, Exchange, ExchangeKind
from auditapp.models.judgments import JudgeConfig, JudgeRun, Judgment, JudgmentState
from auditapp.models.labels import Calibration, calibrations
from auditapp.templatetags.textlines import compare
from auditapp.views.access import LEADS, READERS, Access, dataset_for
from auditapp.views.runs import user_of
from auditapp.views.tables import About, Table, csv_asked
from judges.endpoints import KEYS_VARIABLE, provider_keys
from judges.errors import ConfigError

_LOOKED_AT = 20
_LEARNED = ("provider", "origin", "models", "library", "price", "without", "usage_guessed", "assay")


@require_safe
def configs(request: HttpRequest, name: str) -> HttpResponse:
    """All configs that a dataset knows, by name and version."""
    access = dataset_for(request, name, roles=READERS)
    rows = _counted(access.dataset).order_by("name", "-number")
    if file := csv_asked(request, About(access.dataset.name), [_version_table("configs", rows)]):
        return file
    context = {"access": access, "dataset": access.dataset, "rows": rows, "examples": steps.examples()}
    return render(request, "configs/configs.html", context)


def _version_table(name: str, found: Iterable[Any]) -> Table:
    columns = ("name", "number", "provider", "model", "config_digest", "runs", "judgments_planned", "stored", "by")
    return Table(name, columns, [_version_row(row) for row in found])


def _version_row(row: Any) -> tuple[object, ...]:
    of, by = row.config, row.created_by.get_username() if row.created_by else None
    counts = (row.n_runs or 0, row.n_planned or 0)
    return row.name, row.number, of.provider, of.model, of.digest, *counts, row.created_at, by


def _counted(dataset: Dataset) -> QuerySet[ConfigVersion]:
    """Versions with the number of their runs and of the judgments those planned, from counters of the runs."""
    runs = JudgeRun.objects.filter(config=OuterRef("config"), sample__frame__version__dataset=dataset)
    grouped = runs.order_by().values("config")
    return (
        ConfigVersion.objects.filter(dataset=dataset)
        .select_related("config", "created_by")
        .annotate(
            n_runs=Subquery(grouped.annotate(n=Count("pk")).values("n"), output_field=IntegerField()),
            n_planned=Subquery(grouped.annotate(n=Sum("planned")).values("n"), output_field=IntegerField()),
        )
    )


def config_new(request: HttpRequest, name: str) -> HttpResponse:
    """Paste, upload or edit a config; `?from=` names a shipped one or the digest of a stored one to start from."""
    access = dataset_for(request, name, roles=LEADS)
    start = request.GET.get("from", "")
    form = ConfigForm(request.POST or None, request.FILES or None, initial={"source": _start(access.dataset, start)})
    if request.method == "POST" and form.is_valid():
        data, by = form.cleaned_data, user_of(request)
        row = ensure_config(data["config"], by=by, source=data["source"])
        made = steps.register(access.dataset, row, by=by, name=data["config"].name, source=data["source"])
        same = made.name != data["config"].name or made.source != data["source"]
        told = "This is the judge" if same else "Stored as"
        messages.success(request, f"{told} {made.name}, version {made.number}.")
        return redirect("config", name, row.digest)
    context = {"access": access, "dataset": access.dataset, "form": form, "examples": steps.examples(), "start": start}
    return render(request, "configs/new.html", context | _hosts(), status=422 if form.errors else 200)


def _start(dataset: Dataset, start: str) -> str:
    stored = ConfigVersion.objects.filter(dataset=dataset, config__digest=start).first()
    return stored.source if stored else example_source(start)


def _hosts() -> dict[str, Any]:
    """Which hosts the environment of this process allows; workers may have another one, which the probe tells."""
    try:
        return {"hosts": sorted(provider_keys(os.environ)), "keys_variable": KEYS_VARIABLE}
    except ConfigError as error:
        return {"hosts": [], "hosts_error": str(error), "keys_variable": KEYS_VARIABLE}


def _calibrations(dataset: Dataset, row: JudgeConfig) -> list[tuple[DatasetVersion, Calibration]]:
    """Whether people were held against this judge, for each version that it has looked at."""
    versions = dataset.versions.filter(frames__samples__judge_runs__config=row).distinct().order_by("-id")
    return [(version, calibrations(version).get(row.pk, Calibration())) for version in versions]


@require_safe
def config(request: HttpRequest, name: str, digest: str) -> HttpResponse:
    """One config: what was chosen, what was learnt, its versions, and what was tried with it."""
    access, version = _version(request, name, digest)
    row = version.config
    tried = Exchange.objects.filter(config=row, dataset=access.dataset).exclude(kind=ExchangeKind.DRAFT)
    context = {
        "access": access,
        "dataset": access.dataset,
        "version": version,
        "outdated": _outdated(row),
        "calibrations": _calibrations(access.dataset, row),
        "chosen": steps.flat(row.canonical),
        "learned": _learned(access.dataset, row),
        "versions": _counted(access.dataset).filter(name=version.name).order_by("-number"),
        "tried": tried.select_related("created_by", "trajectory__task").order_by("-pk")[:10] if access.is_lead else (),
        "runs": JudgeRun.objects.filter(config=row, sample__frame__version__dataset=access.dataset).order_by("-pk")[
            :10
        ],
        "form": DryRunForm(dataset=access.dataset, wanted=request.GET.get("trajectory", ""))
        if access.is_lead
        else None,
    }
    about = About(access.dataset.name, judge=row.digest)
    return csv_asked(request, about, _tables(context)) or render(
        request, "configs/config.html", context | (_hosts() if access.is_lead else {})
    )


def _tables(shown: Mapping[str, Any]) -> Iterator[Table]:
    tried = [
        (row.kind, row.trajectory.task.name if row.trajectory else None, row.state, row.reason, row.created_at)
        for row in shown["tried"]
    ]
    yield Table("tried", ("what", "of", "state", "reason", "asked"), tried)
    yield _version_table("versions", shown["versions"])


def _version(request: HttpRequest, name: str, digest: str, *, lead: bool = False) -> tuple[Access, ConfigVersion]:
    access = dataset_for(request, name, roles=LEADS if lead else READERS)
    objects = ConfigVersion.objects.select_related("config", "created_by")
    return access, get_object_or_404(objects, dataset=access.dataset, config__digest=digest)


def _outdated(row: JudgeConfig) -> str:
    """Why this build cannot judge with a config; empty where it can."""
    try:
        stored_config(row)
    except ConfigError as error:
        return str(error)
    return ""


def _learned(dataset: Dataset, row: JudgeConfig) -> dict[str, list[str]]:
    """What the newest judgments learnt beside their digest: each distinct value, newest first."""
    done = Judgment.objects.filter(config=row, version__dataset=dataset, state=JudgmentState.COMPLETED)
    found: dict[str, list[str]] = {}
    for provenance in done.order_by("-pk").values_list("provenance", flat=True)[:_LOOKED_AT]:
        for part, value in steps.flat({key: provenance[key] for key in _LEARNED if key in provenance}):
            if value not in found.setdefault(part, []):
                found[part].append(value)
    return found


@require_safe
def config_diff(request: HttpRequest, name: str, before: str, after: str) -> HttpResponse:
    """Two configs compared: the text line by line, and the parts of the identity that differ."""
    access, old = _version(request, name, before)
    _, new = _version(request, name, after)
    context: dict[str, Any] = {
        "access": access,
        "dataset": access.dataset,
        "old": old,
        "new": new,
        "comparison": compare(old.source, new.source),
        "changes": steps.changes(old.config, new.config),
    }
    changes = [(change.part, change.before, change.after) for change in context["changes"]]
    about = About(access.dataset.name, judge=new.config.digest, part=("before", old.config.digest))
    return csv_asked(request, about, [Table("changes", ("part", "before", "after"), changes)]) or render(
        request, "configs/diff.html", context
    )


@require_POST
def config_ask(request: HttpRequest, name: str, digest: str) -> HttpResponse:
    """Begin a dry run on one trajectory, or a probe of the provider, as the button says."""
    access, version = _version(request, name, digest, lead=True)
    by = user_of(request)
    if request.POST.get("do") == "probe":
        made = ask_probe(access.dataset, version.config, by=by)
    elif request.POST.get("do") == "dry_run":
        form = DryRunForm(request.POST, dataset=access.dataset)
        if not form.is_valid():
            problems = "; ".join(str(error) for errors in form.errors.values() for error in errors)
            messages.error(request, f"No dry run: {problems}")
            return redirect("config", name, digest)
        made = ask_dry_run(access.dataset, version.config, form.cleaned_data["trajectory"], by=by)
    else:
        raise Http404
    tasks.enqueue_exchange(made)
    return redirect("exchange", made.public_id)
