"""A judge against itself: its spread, and what difference between two models it can show."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from auditapp import tasks
from auditapp.consistency import repeat_judge
from auditapp.forms.consistency import RepeatForm
from auditapp.judging import JudgingError
from auditapp.models.judgments import JudgeRun
from auditapp.sampling import SamplingError
from auditapp.stats.allocation import AllocationError
from auditapp.templatetags.charts import Bar
from auditapp.views.access import LEADS
from auditapp.views.numbers import Numbers, numbers_for, page
from auditapp.views.numbers_rows import Addresses
from auditapp.views.runs import user_of
from auditapp.views.tables import Table, csv_asked

Figures = Mapping[str, Any]
NOTHING: Figures = {"insufficient": "not computed yet"}
_NOISE = ("sigma_within", "pairwise_flip", "flip_with_abstentions", "icc", "items", "decided_items", "looks", "single")
_GAP = ("gap", "in_sigmas", "separated", "items", "items_needed", "looks", "insufficient")


def consistency(request: HttpRequest, name: str) -> HttpResponse:
    """How much of a judge's answer is noise; a lead lets it look again."""
    numbers = numbers_for(request, name)
    form = _form(request, numbers)
    if request.method == "POST":
        numbers.access.require(LEADS)
        if form is not None and form.is_valid() and (run := _begin(request, form)):
            return redirect("run", run.public_id)
    figures = numbers.figures
    if file := csv_asked(request, numbers, _tables(figures)):
        return file
    found = figures["self_consistency"]
    splits = figures.get("splits", NOTHING)
    rows = Addresses(numbers)
    context = {
        "found": found,
        "never_twice": "items" not in found,  # which `found.items` cannot tell in a template
        "splits": splits,
        "bars": _bars(splits),
        "split_rows": rows(split="yes"),
        "separations": separations if isinstance(separations := figures.get("separation", NOTHING), list) else [],
        "separation_missing": "" if isinstance(separations, list) else separations["insufficient"],
        "form": form,
    }
    response = page(request, numbers, "numbers/consistency.html", context)
    response.status_code = 422 if form and form.errors else 200
    return response


def _form(request: HttpRequest, numbers: Numbers) -> RepeatForm | None:
    """Nothing can look again where nothing has looked."""
    if not JudgeRun.objects.filter(sample__frame__version=numbers.version).exists():
        return None
    initial = {
        "judge": numbers.config.digest if numbers.config else None,
        "sample": numbers.sample.public_id if numbers.sample else None,
    }
    return RepeatForm(request.POST or None, version=numbers.version, initial=initial)


def _begin(request: HttpRequest, form: RepeatForm) -> JudgeRun | None:
    data = form.cleaned_data
    try:
        run = repeat_judge(
            data["sample"],
            data["judge"],
            looks=data["looks"],
            size=data["size"],
            by=user_of(request),
            budget_usd=data["budget_usd"],
        )
    except (AllocationError, SamplingError) as error:
        form.add_error("size", str(error))
        return None
    except JudgingError as error:
        form.add_error(None, str(error))
        return None
    tasks.enqueue_run(run)
    return run


def _bars(splits: Figures) -> list[Bar]:
    """How many looks said acceptable, from none to all."""
    return [Bar(str(said), items) for said, items in enumerate(splits.get("by_yes", ()))]


def _tables(figures: Figures) -> list[Table]:
    found, separations = figures["self_consistency"], figures.get("separation", NOTHING)
    noise = found.get("noise") or {}
    row = (*(found.get(key) for key in _NOISE), noise.get("least_significant"), noise.get("detectable"))
    columns = (*_NOISE, "least_significant", "detectable", "insufficient")
    splits = figures.get("splits", NOTHING)
    return [
        Table("splits", ("said_acceptable", "trajectories"), list(enumerate(splits.get("by_yes", ())))),
        Table("noise", columns, [(*row, found.get("insufficient"))]),
        Table(
            "separation",
            ("first", "second", *_GAP, "least_significant", "detectable"),
            [_separation(pair) for pair in separations] if isinstance(separations, Sequence) else [],
        ),
    ]


def _separation(pair: Figures) -> tuple[object, ...]:
    names = (" · ".join(part for part in pair[side].values() if part) for side in ("first", "second"))
    noise = pair.get("difference") or {}
    return (*names, *(pair.get(key) for key in _GAP), noise.get("least_significant"), noise.get("detectable"))
