"""What acceptable work costs, by model, agent and effort, and what more effort buys."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse

from auditapp.templatetags.charts import Spot
from auditapp.views.listing import Choice, Filter
from auditapp.views.numbers import numbers_for, page
from auditapp.views.numbers_places import name_of
from auditapp.views.tables import RATE_COLUMNS, Table, csv_asked, rate_cells

MEASURES = {
    "output_tokens": ("output tokens", "scaled"),
    "input_tokens": ("input tokens", "scaled"),
    "cost_usd": ("US dollars", "usd"),
    "steps": ("steps", "decimal"),
    "seconds": ("wall time", "duration"),
}
AMOUNT = ("estimate", "low", "high", "n", "tasks", "method", "insufficient")


def cost(request: HttpRequest, name: str) -> HttpResponse:
    """Cost of one version: `?measure=` chooses what is set against the share of work that is acceptable."""
    numbers = numbers_for(request, name)
    found = numbers.figures["cost"]
    if "insufficient" in found:
        nothing = {"nothing": found["insufficient"]}
        return csv_asked(request, numbers, ()) or page(request, numbers, "numbers/cost.html", nothing)
    context = _context(request, found)
    return csv_asked(request, numbers, _tables(found)) or page(request, numbers, "numbers/cost.html", context)


def _context(request: HttpRequest, found: Mapping[str, Any]) -> dict[str, Any]:
    recorded = [name for name in MEASURES if found["recorded"][name]]
    measure = _measure(request, recorded)
    return {
        "cost": found,
        "missing": [MEASURES[name][0] for name in MEASURES if name not in recorded],
        "measure": measure,
        "title": MEASURES[measure][0] if measure else "",
        "form": MEASURES[measure][1] if measure else "",
        "choosers": [Filter("measure", "Cost in", [Choice(name, MEASURES[name][0]) for name in recorded], measure)],
        "spots": _spots(found, measure) if measure else [],
        "rows": [_row(row, recorded) for row in found["by_subject"]],
    }


def _measure(request: HttpRequest, recorded: list[str]) -> str:
    """What is asked for, if any of it is recorded; else the first that is, "" where nothing is."""
    wanted = request.GET.get("measure", "")
    return wanted if wanted in recorded else next(iter(recorded), "")


def _spots(found: Mapping[str, Any], measure: str) -> list[Spot]:
    """The subjects of which both are known; the others are in the table, with the reason."""
    best = found["front"][measure]
    points = (
        (number, row, row["per_acceptable_work"][measure]["median"]) for number, row in enumerate(found["by_subject"])
    )
    return [
        _spot(row, spent, best=number in best)
        for number, row, spent in points
        if "estimate" in spent and "estimate" in row["rate"]
    ]  # fmt: skip


def _spot(row: Mapping[str, Any], spent: Mapping[str, Any], *, best: bool) -> Spot:
    rate = row["rate"]
    return Spot(
        name_of(row), spent["estimate"], rate["estimate"], spent["low"], spent["high"], rate["low"], rate["high"], best
    )


def _row(row: Mapping[str, Any], recorded: Sequence[str]) -> dict[str, Any]:
    return {
        "name": name_of(row),
        "rate": row["rate"],
        "undecided": row["undecided"],
        "cells": [
            {
                "title": title,
                "form": form,
                "median": row["per_acceptable_work"][key]["median"],
                "mean": row["per_acceptable_work"][key]["mean"],
                "unknown": row["per_acceptable_work"][key]["unknown"],
                "result": row["per_result"][key],
                "of": row["per_attempt"][key],
            }
            for key in recorded
            for title, form in [MEASURES[key]]
        ],
    }


# --- as CSV


def _tables(found: Mapping[str, Any]) -> list[Table]:
    rate = ("subject", "labels", "drawn", "decided", "acceptable", *RATE_COLUMNS)
    amounts = ("subject", "measure", "figure", "known", "unknown", *AMOUNT)
    return [Table("rates", rate, list(_rate_rows(found))), Table("costs", amounts, list(_cost_rows(found)))]


def _rate_rows(found: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for row in found["by_subject"]:
        counts = (row[key] for key in ("drawn", "decided", "acceptable"))
        yield name_of(row), row["rate"]["labels"], *counts, *rate_cells(row["rate"])


def _cost_rows(found: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for row in found["by_subject"]:
        for measure in MEASURES:
            work, attempts = row["per_acceptable_work"][measure], row["per_attempt"][measure]
            figures = (
                ("median of acceptable work", work, work["median"]),
                ("mean of acceptable work", work, work["mean"]),
                ("per acceptable result", attempts, row["per_result"][measure]),
            )
            for title, counts, amount in figures:
                head = name_of(row), measure, title, counts["known"], counts["unknown"]
                yield *head, *(amount.get(column) for column in AMOUNT)
