"""What all pages of numbers share: the version, judge and draw they are about, and the tabs between them."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from auditapp.estimation import Stored, stored, subject
from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import JudgeConfig, JudgeRun
from auditapp.models.samples import Sample
from auditapp.tasks import enqueue_estimate
from auditapp.views.access import READERS, Access, dataset_for, version_for
from auditapp.views.listing import Choice, Filter

TABS = (
    ("numbers", "Error rates"),
    ("numbers-agreement", "Agreement"),
    ("numbers-consistency", "Consistency"),
    ("numbers-signal", "Signal"),
    ("numbers-shapes", "Failure shapes"),
    ("numbers-cost", "Cost"),
)


@dataclass(frozen=True, slots=True)
class Tab:
    """One page of numbers; its address keeps version, judge and draw."""

    name: str
    address: str
    current: bool


@dataclass(frozen=True, slots=True)
class Numbers:
    """A page's subject, and the stored figures about it."""

    access: Access
    version: DatasetVersion
    config: JudgeConfig | None
    sample: Sample | None
    found: Stored | None

    @property
    def stored(self) -> Stored:
        """What is stored; FiguresPending, which shows the page that waits, where a worker is still making the first."""
        if self.found is None:
            raise FiguresPending(self)
        return self.found

    @property
    def figures(self) -> dict[str, Any]:
        return self.stored.payload


class FiguresPending(Exception):
    """There are no figures yet; `ShowPending` answers with a page that waits for them."""

    def __init__(self, numbers: Numbers) -> None:
        super().__init__(f"the figures of {numbers.version} are being computed")
        self.numbers = numbers


class ShowPending:
    """Middleware: a page whose figures are being computed says so and asks again until they are there."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """The waiting page for FiguresPending; any other exception goes on."""
        if not isinstance(error, FiguresPending):
            return None
        return render(request, "numbers/pending.html", _head(request, error.numbers), status=202)


def numbers_for(request: HttpRequest, name: str) -> Numbers:
    """Fetch and authorise: `?version=`, `?judge=` (a digest) and `?sample=` choose; else the newest run's.

    Figures that are missing or stale are asked for from a worker, but not again by the page that waits for them.
    """
    access = dataset_for(request, name, roles=READERS)
    version = version_for(request, access)
    chosen = subject(version, config=chosen_config(request), sample=chosen_sample(request, version))
    found = stored(version, config=chosen.config, sample=chosen.sample)
    asks = found is None or (found.is_stale and not found.waits)
    if asks and not request.headers.get("HX-Request"):
        enqueue_estimate(version, chosen.config, chosen.sample)
    return Numbers(access, version, chosen.config, chosen.sample, found)


@require_POST
def recompute(request: HttpRequest, name: str) -> HttpResponse:
    """Make stale figures anew, at once or by a worker, and go back to the page that showed them."""
    numbers_for(request, name)
    return redirect(_address(request, request.POST.get("page", ""), name))


def _address(request: HttpRequest, page: str, name: str) -> str:
    """A page of numbers about the same version, judge and draw."""
    kept = {key: request.GET[key] for key in ("version", "judge", "sample") if request.GET.get(key)}
    known = {view for view, _ in TABS} | {"report"}
    return reverse(page if page in known else "numbers", args=[name], query=kept or None)


def chosen_config(request: HttpRequest) -> JudgeConfig | None:
    """The judge that `?judge=` names; 404 where there is none of that digest."""
    digest = request.GET.get("judge")
    if not digest:
        return None
    config = JudgeConfig.objects.filter(digest=digest).first()
    if config is None:
        raise Http404
    return config


def chosen_sample(request: HttpRequest, version: DatasetVersion) -> Sample | None:
    """The draw of this version that `?sample=` names; 404 where there is none."""
    wanted = request.GET.get("sample")
    if not wanted:
        return None
    try:
        public_id = uuid.UUID(wanted)
    except ValueError:
        raise Http404 from None
    sample = Sample.objects.filter(frame__version=version, public_id=public_id).first()
    if sample is None:
        raise Http404
    return sample


def page(request: HttpRequest, numbers: Numbers, template: str, context: dict[str, Any]) -> HttpResponse:
    """Render one page of numbers with the head that all of them share."""
    graded = [row for row in numbers.figures.get("rounds", ()) if (row["kind"], row["state"]) == ("blind", "released")]
    scripts = [row for row in graded if row["is_scripted"]]
    shared = {
        "stored": numbers.stored,
        "figures": numbers.figures,
        "scripted": bool(scripts),
        "people_too": len(graded) > len(scripts),
    }
    return render(request, template, _head(request, numbers) | shared | context)


def _head(request: HttpRequest, numbers: Numbers) -> dict[str, Any]:
    match = request.resolver_match
    current = (match and match.url_name) or ""
    name = numbers.access.dataset.name
    return {
        "access": numbers.access,
        "dataset": numbers.access.dataset,
        "version": numbers.version,
        "config": numbers.config,
        "sample": numbers.sample,
        "page_name": current,
        "tab": dict(TABS).get(current, "Numbers"),
        "tabs": [Tab(title, _address(request, view, name), view == current) for view, title in TABS],
        "subjects": _subjects(numbers),
    }


def _subjects(numbers: Numbers) -> list[Filter]:
    """Judges and draws to choose among, where there is more than one."""
    runs = JudgeRun.objects.filter(sample__frame__version=numbers.version)
    judges = runs.order_by("config__name", "config__digest").values_list("config__digest", "config__name").distinct()
    whole = Q(part_of=None) | Q(pk=numbers.sample.pk if numbers.sample else 0)  # and the part that is looked at
    drawn = Sample.objects.filter(whole, frame__version=numbers.version, judge_runs__isnull=False)
    draws = drawn.select_related("frame").order_by("pk").distinct()
    found = [
        Filter("judge", "Judge", [Choice(digest, f"{name} {digest[:6]}") for digest, name in judges], _digest(numbers)),
        Filter("sample", "Draw", [_draw(draw) for draw in draws], _public_id(numbers)),
    ]
    return [row for row in found if len(row.choices) > 1]


def _draw(sample: Sample) -> Choice:
    return Choice(str(sample.public_id), f"{sample} of frame {sample.frame.digest[:6]}", sample.size)


def _digest(numbers: Numbers) -> str:
    return numbers.config.digest if numbers.config else ""


def _public_id(numbers: Numbers) -> str:
    return str(numbers.sample.public_id) if numbers.sample else ""
