"""The judge configs of a dataset: versions of one name in order, and what differs between two of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max

from auditapp.models.datasets import Dataset
from auditapp.models.events import AuditEvent
from auditapp.models.exchanges import ConfigVersion
from auditapp.models.judgments import JudgeConfig
from judges.records import Json


@dataclass(frozen=True, slots=True)
class Change:
    """One part of a config's identity that differs; empty where a side lacks it."""

    part: str
    before: str
    after: str


def shipped_configs() -> dict[str, Path]:
    """The configs that come with the product and are complete, by name."""
    found = sorted((settings.BASE_DIR / "judges").glob("*.toml"))
    return {path.stem: path for path in found if path.stem != "taxonomy"}


def examples() -> dict[str, Path]:
    """Configs to start from, by name: the complete ones, and those in which the model is to be filled in."""
    return shipped_configs() | {
        path.stem: path for path in sorted((settings.BASE_DIR / "judges/examples").glob("*.toml"))
    }


def register(
    dataset: Dataset, config: JudgeConfig, *, by: User | None, name: str = "", source: str = ""
) -> ConfigVersion:
    """Make a config known to a dataset, as the next version of its name; the same judge again is the one it has."""
    name = name or config.name
    with transaction.atomic():
        Dataset.objects.select_for_update().get(pk=dataset.pk)  # numbers have no gaps and no doubles
        known = ConfigVersion.objects.filter(dataset=dataset, config=config).first()
        if known is not None:
            return known
        newest = ConfigVersion.objects.filter(dataset=dataset, name=name).aggregate(newest=Max("number"))["newest"]
        made = ConfigVersion.objects.create(
            dataset=dataset,
            config=config,
            name=name,
            number=(newest or 0) + 1,
            source=source or config.source,
            created_by=by,
        )
        detail = {"digest": config.digest, "name": name, "number": made.number}
        AuditEvent.objects.create(
            dataset=dataset, actor=by, action="config_registered", subject=f"config {name} {made.number}", detail=detail
        )
    return made


def changes(before: JudgeConfig, after: JudgeConfig) -> list[Change]:
    """The parts of the identity that differ, sorted: what makes the two different judges."""
    old, new = dict(flat(before.canonical)), dict(flat(after.canonical))
    parts = sorted(old.keys() | new.keys())
    return [
        Change(part, old.get(part, ""), new.get(part, "")) for part in parts if old.get(part, "") != new.get(part, "")
    ]


def flat(document: Mapping[str, Json]) -> list[tuple[str, str]]:
    """Every leaf of a JSON document with its path, as in `chosen.limits.turns`, sorted."""
    return sorted(_leaves(document, ""))


def _leaves(value: Json, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        yield path, ", ".join(str(item) for item in value)
    else:
        yield path, "none" if value is None else str(value)
