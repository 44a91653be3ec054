"""Every table of figures as CSV: `?csv=<name>` on the page that shows it."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse

from auditapp.exports import neutralise
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


def rate_cells(figure: Mapping[str, Any] | None) -> tuple[object, ...]:
    """A rate as cells under `RATE_COLUMNS`; what could not be estimated leaves all but its reason empty."""
    found = figure or {"insufficient": "not estimated"}
    return tuple(found.get(column) for column in RATE_COLUMNS)


def csv_asked(request: HttpRequest, numbers: Numbers, tables: Iterable[Table]) -> HttpResponse | None:
    """The table that `?csv=` names as a file, None where the address asks for none, 404 where there is no such table.

    Each row says what it is about: dataset, version, judge, draw.
    """
    wanted = request.GET.get("csv")
    if wanted is None:
        return None
    found = next((table for table in tables if table.name == wanted), None)
    if found is None:
        raise Http404
    response = HttpResponse(_text(numbers, found), content_type="text/csv; charset=utf-8")
    name = f"{numbers.access.dataset.name}-{numbers.version.name}-{found.name}.csv"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _text(numbers: Numbers, table: Table) -> str:
    about = (
        SCHEMA,
        numbers.access.dataset.name,
        numbers.version.name,
        numbers.config.digest if numbers.config else None,
        numbers.sample.public_id if numbers.sample else None,
        numbers.stored.is_stale,
    )
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow((*HEAD, *table.columns))
    writer.writerows([_cell(value) for value in (*about, *row)] for row in table.rows)
    return buffer.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return neutralise(value) if isinstance(value, str) else value
