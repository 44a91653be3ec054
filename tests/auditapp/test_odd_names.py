"""Names that turn the text around or speak to a terminal are marked on every page that shows them."""

import re
from typing import Any

import pytest
from django.apps import apps
from django.db import models
from django.db.models import F, Value
from django.db.models.functions import Concat

from auditapp.estimation import renew
from auditapp.models.datasets import DatasetVersion, Role
from tests.auditapp.rounds import make_reviewers
from tests.auditapp.test_tables import version
from tests.auditapp.walk import client_of, paths

__all__ = ["version"]
pytestmark = [pytest.mark.django_db, pytest.mark.slow]
ODD = "\u202egnp\x1b[8m"
VALUE = re.compile(r' value="[^"]*"')
RAW = re.compile("[\u202e\x1b]")
OF_PRODUCERS = {  # what comes with imported data, and who may write it there
    "Environment": ("name",),
    "Task": ("name",),
    "TrajectorySource": ("source_id", "model", "agent", "effort", "verifier_reason"),
    "ImportedLabel": ("labeler", "note"),
    "ImportBatch": ("label", "reason"),
    "Stratum": ("environment", "model", "agent", "effort"),
}


def make_odd() -> None:
    for name, fields in OF_PRODUCERS.items():
        model: type[models.Model] = apps.get_model("auditapp", name)
        for field in fields:
            model._default_manager.exclude(**{field: ""}).update(**{field: Concat(F(field), Value(ODD))})


def shown_raw(text: str) -> list[str]:
    """Where a page shows what it should mark; what a form sends back stays as it is."""
    shown = VALUE.sub("", text)
    return sorted({ascii(shown[max(0, found.start() - 40) : found.start() + 10]) for found in RAW.finditer(shown)})


def test_no_page_shows_a_name_as_it_came(version: DatasetVersion) -> None:
    make_odd()
    renew(version)
    (lead,) = make_reviewers(version, "lead", role=Role.LEAD)
    client, raw, marked = client_of(lead), [], 0
    for name, path in paths(version):
        answer: Any = client.get(path)
        if answer.status_code == 200 and answer["Content-Type"].startswith("text/html") and not answer.streaming:
            text = answer.content.decode()
            raw += [f"{name}: …{found}…" for found in shown_raw(text)]
            marked += "gnp" in text
    assert raw == [], "\n".join(raw)
    assert marked > 10
