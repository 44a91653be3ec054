"""What all pages of numbers share: the version, judge and draw they are about, and the tabs between them."""

import uuid
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from auditapp.estimation import Stored, stored, subject
from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import JudgeConfig
from auditapp.models.samples import Sample
from auditapp.views.access import READERS, Access, dataset_for, version_for

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
    stored: Stored

    @property
    def figures(self) -> dict[str, Any]:
        return self.stored.payload


def numbers_for(request: HttpRequest, name: str) -> Numbers:
    """Fetch and authorise: `?version=`, `?judge=` (a digest) and `?sample=` choose; else the newest run's."""
    access = dataset_for(request, name, roles=READERS)
    version = version_for(request, access)
    config, sample = _judge(request), _sample(request, version)
    found = stored(version, config=config, sample=sample)
    chosen = subject(version, config=config, sample=sample)
    return Numbers(access, version, chosen.config, chosen.sample, found)


def _judge(request: HttpRequest) -> JudgeConfig | None:
    digest = request.GET.get("judge")
    if not digest:
        return None
    config = JudgeConfig.objects.filter(digest=digest).first()
    if config is None:
        raise Http404
    return config


def _sample(request: HttpRequest, version: DatasetVersion) -> Sample | None:
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
    match = request.resolver_match
    current = match.url_name if match else ""
    kept = {key: request.GET[key] for key in ("version", "judge", "sample") if request.GET.get(key)}
    shared = {
        "access": numbers.access,
        "dataset": numbers.access.dataset,
        "version": numbers.version,
        "config": numbers.config,
        "sample": numbers.sample,
        "stored": numbers.stored,
        "figures": numbers.figures,
        "tabs": [
            Tab(title, reverse(view, args=[numbers.access.dataset.name], query=kept or None), view == current)
            for view, title in TABS
        ],
    }
    return render(request, template, shared | context)
