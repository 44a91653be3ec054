"""Every page of the product with the ids of rows that are there, for tests that walk them all."""

import itertools
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import JudgeConfig
from auditapp.models.reviews import Slot
from auditapp.views.tables import Table
from tests.addresses import addresses

ROOTS = ("deliverable", "initial", "reference", "verifier-code", "original", "streams")
Ids = dict[str, list[uuid.UUID]]
KINDS = {  # where an address begins, and the rows it is of
    "imports/": ("ImportBatch",),
    "samples/": ("Sample",),
    "runs/": ("JudgeRun",),
    "labels/": ("Judgment", "ImportedLabel", "ReviewLabel"),
    "exchanges/": ("Exchange",),
    "tasks/": ("Task",),
    "held-out/": ("HeldOutSet",),
    "review/slots/": ("Slot",),
    "review/reads/": ("Slot",),
    "review/": ("ReviewRound",),
    "t/": ("Trajectory",),
}
NOT_WALKED = ("login", "logout", "healthz", "readyz")


def _ids() -> Ids:
    """By kind: the random id of a row, and of slots that of a held one, of another's and of a free one."""
    found: Ids = {}
    for model in apps.get_app_config("auditapp").get_models():
        if any(field.name == "public_id" for field in model._meta.fields):
            found[model.__name__] = list(model._default_manager.order_by("pk").values_list("public_id", flat=True)[:1])
    found["Slot"] = [
        slot.public_id
        for state in ("leased", "submitted", "free")
        for slot in Slot.objects.filter(state=state).order_by("-pk")[:1]
    ]
    return found


def _of(route: str, name: str, ids: Ids) -> list[uuid.UUID]:
    if name == "trial":
        return ids["Trajectory"]
    kinds = next((kinds for start, kinds in KINDS.items() if route.startswith(start)), tuple(ids))
    return [id for kind in kinds for id in ids[kind]] or [uuid.uuid4()]


def paths(version: DatasetVersion) -> Iterator[tuple[str, str]]:
    """Name and path of every page of the product."""
    digests = list(JudgeConfig.objects.values_list("digest", flat=True))
    values: dict[str, list[Any]] = {"int": [0, 1], "string": [version.dataset.name], "root": list(ROOTS)}
    values |= {"digest": digests, "before": digests, "after": digests}
    ids = _ids()
    for address in addresses():
        assert address.name, f"{address.route} has no name, so nothing walks it"
        if address.name in NOT_WALKED:
            continue
        route, converters = address.route, address.converters
        kinds = {name: type(found).__name__.removesuffix("Converter").lower() for name, found in converters.items()}
        choices = [
            _of(route, name, ids) if kind == "uuid" else values.get(name) or values.get(kind) or ["reference", "task"]
            for name, kind in kinds.items()
        ]
        for chosen in itertools.product(*choices):
            yield address.name, reverse(address.name, kwargs=dict(zip(kinds, chosen, strict=True)))


def client_of(user: User) -> Client:
    """A browser of a user; what a page raises, the test raises."""
    client = Client(raise_request_exception=True)
    client.force_login(user)
    return client


def files_of(client: Client, path: str) -> list[Table]:
    """Every table that a page would give as a file, shown on it or not."""
    made: list[Table] = []
    with pytest.MonkeyPatch.context() as patch:
        ordinary = Table.__init__
        patch.setattr(Table, "__init__", lambda self, *values: [ordinary(self, *values), made.append(self), None][-1])
        client.get(path, {"csv": "no table has this name"})
    return made
