"""Every table as CSV: `?csv=<name>` on the page that shows it, with the rows of that page and for nobody else."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.utils.text import slugify

from auditapp.exports import neutralise
from auditapp.models.datasets import DatasetVersion
from auditapp.views.numbers import Numbers

SCHEMA = "assay.table/1"
HEAD = ("schema", "dataset", "dataset_version", "judge_digest", "sample", "stale")
RATE_COLUMNS = ("estimate", "low", "high", "n", "n_effective", "missing", "method", "insufficient")


@dataclass(frozen=True, slots=True)
class Table:
    """A table of a page: its name in the address, its columns and its cells. None is an empty cell, never 0."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True, slots=True)
class About:
    """What every row of a file says it is about; None where the page is about no one of them.

    `part` is what a page of one thing adds, as in `("round", 3)`: a column of its own, and a part of the file's name.
    """

    dataset: str | None
    version: str | None = None
    judge: str | None = None
    sample: str | None = None
    is_stale: bool | None = None
    part: tuple[str, object] | None = None


def about_version(version: DatasetVersion, *, part: tuple[str, object] | None = None) -> About:
    """A dataset version, or one thing in it."""
    return About(version.dataset.name, version.name, part=part)


def rate_cells(figure: Mapping[str, Any] | None) -> tuple[object, ...]:
    """A rate as cells under `RATE_COLUMNS`; what could not be estimated leaves all but its reason empty."""
    found = figure or {"insufficient": "not estimated"}
    return tuple(found.get(column) for column in RATE_COLUMNS)


def csv_asked(request: HttpRequest, about: Numbers | About, tables: Iterable[Table]) -> HttpResponse | None:
    """The table that `?csv=` names as a file, None where the address asks for none, 404 where there is no such table.

    Each row says what it is about: dataset, version, judge, draw.
    """
    wanted = request.GET.get("csv")
    if wanted is None:
        return None
    found = next((table for table in tables if table.name == wanted), None)
    if found is None:
        raise Http404
    said = _about(about) if isinstance(about, Numbers) else about
    response = HttpResponse(_text(said, found), content_type="text/csv; charset=utf-8")
    name = "-".join(part for part in (said.dataset, said.version, *_named(said), found.name) if part)
    response["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return response


def _about(numbers: Numbers) -> About:
    return About(
        numbers.access.dataset.name,
        numbers.version.name,
        numbers.config.digest if numbers.config else None,
        str(numbers.sample.public_id) if numbers.sample else None,
        numbers.stored.is_stale,
    )


def _named(about: About) -> tuple[str, ...]:
    return (slugify(f"{about.part[0]}-{about.part[1]}")[:60],) if about.part else ()


def _text(about: About, table: Table) -> str:
    named, value = ([item] for item in about.part) if about.part else ([], [])
    said = (SCHEMA, about.dataset, about.version, about.judge, about.sample, about.is_stale, *value)
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow([_cell(name) for name in (*HEAD, *named, *table.columns)])
    writer.writerows([_cell(value) for value in (*said, *row)] for row in table.rows)
    return buffer.getvalue()


def _cell(value: object) -> object:
    """Numbers as they are, anything else as text that no spreadsheet takes for a formula."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, (int, float, Decimal)):
        return value
    return neutralise(value.isoformat() if isinstance(value, date) else str(value))
