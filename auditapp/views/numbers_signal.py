"""What attempts at the same task are good for: spread of pass rates, signal of a group, strong against weak."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

from auditapp.sections.bins import bins, ends
from auditapp.sections.signal import GROUP, GROUPS, Attempted, signal_of, unpacked
from auditapp.templatetags.charts import Bar, Point, Series
from auditapp.views.listing import Choice, Filter
from auditapp.views.numbers import Numbers, numbers_for, page
from auditapp.views.numbers_places import (
    chooser,
    chosen_place,
    name_of,
    rows_address,
    triage_address,
    unknown_place,
)
from auditapp.views.tables import RATE_COLUMNS, Table, csv_asked, rate_cells

LEAST, MOST = 2, 512
TAIL_SHOWN = 100
PARTS = (
    (
        "expansion",
        "Nothing passed",
        "pass@k is 0 at the largest k there is: too hard, or the task or verifier is broken",
    ),
    ("below", "Below the band", "passes are rare"),
    ("productive", "Productive band", "a group nearly always holds both a pass and a fail"),
    ("above", "Above the band", "fails are rare"),
    ("saturated", "Everything passed", "nothing left to learn, unless the passes are false"),
    ("discarded", "Discarded by dynamic sampling", "all attempts ended alike: the first and the last row together"),
)
TAILS = (
    (
        "none",
        "0 %: suspect",
        "Units of which no attempt passed: the task is too hard for that model, agent and effort, or it or its verifier"
        " is broken. People have to look. Who else passed it is named.",
    ),
    (
        "all",
        "100 %: useless",
        "Units of which every attempt passed: nothing left to learn for that model, agent and effort, and a verifier"
        " that passes all looks the same. Who else did not always pass it is named.",
    ),
)
BIN_WORDS = {
    "weak_only": ("Reversed", "the weak one solves it and the strong one does not: suspect the task or the verifier"),
    "uncertain": ("Uncertain", "one solves it and the other does not, but so few attempts could do that by chance"),
    "strong_only": ("Strong only", "it tells the two apart"),
    "neither": ("Neither", "too hard, or broken"),
    "both": ("Both", "solved by both"),
}


@dataclass(frozen=True, slots=True)
class Member:
    """A unit of a tail: the task, who attempted it, and where its trajectories and labels are.

    `others` attempted the same task with another end: their names, passes and attempts.
    """

    task: Mapping[str, str]
    subject: str
    attempts: int
    passes: int
    trajectories: str
    labels: str
    others: Sequence[tuple[str, int, int]]


@dataclass(frozen=True, slots=True)
class Tail:
    """One end of the spread, the first of its units, and where a triage round about its tasks is opened."""

    key: str
    title: str
    why: str
    total: int
    members: Sequence[Member]
    triage: str
    tasks: int


def signal(request: HttpRequest, name: str) -> HttpResponse:
    """Signal of one version: `?subject=` and `?g=` choose units and group, `?strong=&weak=` the two compared."""
    numbers = numbers_for(request, name)
    found = numbers.figures["distribution"]
    if "insufficient" in found:
        nothing = {"nothing": found["insufficient"]}
        return csv_asked(request, numbers, ()) or page(request, numbers, "numbers/signal.html", nothing)
    context = _context(request, numbers, found)
    return csv_asked(request, numbers, _tables(found, context)) or page(
        request, numbers, "numbers/signal.html", context
    )


def _context(request: HttpRequest, numbers: Numbers, found: Mapping[str, Any]) -> dict[str, Any]:
    places, subject = found["subjects"], chosen_place(request, "subject", found["subjects"])
    group, group_error = _group(request)
    rows = [row for row in unpacked(found) if subject in (None, row.subject)]
    at_group = _at_group(found, rows, subject, group)
    spread = found if subject is None else found["by_subject"][subject]
    return {
        "whose": "all units" if subject is None else name_of(places[subject]),
        "choosers": [chooser("subject", "Model · agent · effort", places, subject), _groups(group)],
        "errors": [error for error in (group_error, *_unknown(request, places)) if error],
        "group": group,
        "spread": spread,
        "parts": [(title, why, spread["parts"][key]) for key, title, why in PARTS],
        "bars": _bars(spread["histogram"]),
        "tails": _tails(numbers, found, rows),
        "pass_curves": _pass_curves(spread),
        "group_curve": _group_curve(at_group),
        "signal": at_group,
        "pushes": at_group["push"]["judge" if _nobody(at_group) else "people"],
        "push_by_judge": _nobody(at_group),
    } | _versus(request, numbers, found)


def _group(request: HttpRequest) -> tuple[int, str]:
    """The size of a group, and what is wrong with the one in the address."""
    wanted = request.GET.get("g", "").strip()
    if not wanted:
        return GROUP, ""
    if wanted.isascii() and wanted.isdigit() and len(wanted) <= len(str(MOST)) and LEAST <= int(wanted) <= MOST:
        return int(wanted), ""
    return GROUP, f"A group is a whole number from {LEAST} to {MOST}; this page shows groups of {GROUP}."


def _groups(group: int) -> Filter:
    return Filter("g", "Group size", [Choice(str(size), str(size)) for size in sorted({*GROUPS, group})], str(group))


def _unknown(request: HttpRequest, places: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for key in ("subject", "strong", "weak"):
        if name := unknown_place(request, key, places):
            yield f"Nobody here is called “{name}”: choose one of those named below."


def _at_group(found: Mapping[str, Any], rows: Sequence[Attempted], subject: int | None, group: int) -> Any:
    """What is stored for this size of a group; another size is worked out from the stored units."""
    stored = found["signal"]
    if group != stored["group"]:
        return signal_of(rows, group)
    return stored["all"] if subject is None else stored["by_subject"][subject]


def _nobody(at_group: Mapping[str, Any]) -> bool:
    return "insufficient" in at_group["push"]["people"][0]["share"]


def _bars(histogram: Mapping[str, Any]) -> list[Bar]:
    between = [Bar(edge, count) for edge, count in zip(histogram["edges"], histogram["between"], strict=True)]
    none, every = histogram["none"], histogram["all"]
    return [Bar("0", none, "#tail-none", "false_pass"), *between, Bar("100", every, "#tail-all", "true_fail")]


def _tails(numbers: Numbers, found: Mapping[str, Any], rows: Sequence[Attempted]) -> list[Tail]:
    return [_tail(numbers, found, [row for row in rows if _ended(row) == tail[0]], *tail) for tail in TAILS]


def _tail(
    numbers: Numbers, found: Mapping[str, Any], rows: Sequence[Attempted], key: str, title: str, why: str
) -> Tail:
    tasks = list(dict.fromkeys(found["tasks"][row.task]["id"] for row in rows))
    others = _otherwise(found, key)
    members = [_member(numbers, found, row, others.get(row.task, ())) for row in rows[:TAIL_SHOWN]]
    asked = tasks[:TAIL_SHOWN]
    return Tail(key, title, why, len(rows), members, triage_address(numbers, asked), len(asked))


def _member(
    numbers: Numbers, found: Mapping[str, Any], row: Attempted, others: Sequence[tuple[str, int, int]]
) -> Member:
    task, subject = found["tasks"][row.task], found["subjects"][row.subject]
    place = _place(task, subject)
    addresses = rows_address(numbers, "trajectories", place), rows_address(numbers, "labels", place)
    return Member(task, name_of(subject), *row.tally, *addresses, others)


def _ended(row: Attempted) -> str:
    """The tail that a unit is in, "" for neither."""
    attempts, passes = row.tally
    return "none" if passes == 0 else "all" if passes == attempts else ""


def _otherwise(found: Mapping[str, Any], key: str) -> Mapping[int, list[tuple[str, int, int]]]:
    """By task: who ended otherwise than a tail, be they chosen or not, with passes and attempts."""
    others: defaultdict[int, list[tuple[str, int, int]]] = defaultdict(list)
    for row in unpacked(found):
        if _ended(row) != key:
            attempts, passes = row.tally
            others[row.task].append((name_of(found["subjects"][row.subject]), passes, attempts))
    return others


def _place(task: Mapping[str, str], subject: Mapping[str, str]) -> dict[str, str]:
    return {**subject, "task": task["name"], "environment": task["environment"]}


def _pass_curves(spread: Mapping[str, Any]) -> list[Series]:
    named = (("pass@k: one of k passes", "pass_at_k"), ("pass^k: all of k pass", "pass_hat_k"))
    return [Series(title, [_point(k, at) for k, at in spread[key].items()]) for title, key in named]


def _group_curve(at_group: Mapping[str, Any]) -> list[Series]:
    """What is measured and what a fitted model says are two lines."""
    points = at_group["against_group"].items()
    measured = [_point(size, at) for size, at in points if not at.get("model_based")]
    fitted = [_point(size, at) for size, at in points if at.get("model_based")]
    lines = Series("measured, unbiased", measured), Series("model-based", fitted)
    return [line for line in lines if any(point.y is not None for point in line.points)]


def _point(x: str, at: Mapping[str, Any]) -> Point:
    return Point(int(x), at.get("estimate"), at.get("low"), at.get("high"), at.get("insufficient", ""))


# --- strong against weak


def _versus(request: HttpRequest, numbers: Numbers, found: Mapping[str, Any]) -> dict[str, Any]:
    """The four bins of the two subjects in the address, else of those of the highest and the lowest pass rate."""
    places, widest = found["subjects"], ends(found)
    if widest is None:
        return {"versus": None}
    asked = [chosen_place(request, key, places) for key in ("strong", "weak")]
    strong, weak = (number if number is not None else usual for number, usual in zip(asked, widest, strict=True))
    same = strong == weak
    stored = numbers.figures["bins"]
    is_stored = (strong, weak) == (stored.get("strong"), stored.get("weak"))
    versus = stored if is_stored or same else bins(found, strong=strong, weak=weak)
    return {
        "versus": None if same else versus,
        "same": same,
        "pair": [name_of(places[strong]), name_of(places[weak])],
        "pair_choosers": [chooser("strong", "Strong", places, strong), chooser("weak", "Weak", places, weak)],
        "bin_rows": [] if same else [(*BIN_WORDS[key], n) for key, n in versus.get("counts", {}).items()],
        "faced": [] if same else [_faced(numbers, found, item, strong, weak) for item in versus.get("items", ())],
    }


def _faced(numbers: Numbers, found: Mapping[str, Any], item: Mapping[str, Any], strong: int, weak: int) -> Any:
    task = found["tasks"][item["task"]]
    places = [_place(task, found["subjects"][number]) for number in (strong, weak)]
    return {
        "task": task,
        "bin": BIN_WORDS[item["bin"]][0],
        "key": item["bin"],
        "strong": item["strong"],
        "weak": item["weak"],
        "p_reversed": item["p_reversed"],
        "by_chance": item["by_chance"].get("fisher_p_value"),
        "trajectories": [rows_address(numbers, "trajectories", place) for place in places],
        "labels": rows_address(numbers, "labels", {"task": task["name"], "environment": task["environment"]}),
    }


# --- as CSV


MEAN = ("estimate", "se", "low", "high", "tasks", "left_out", "method", "model_based")
SIDES = ("strong", "weak", "strong_attempts", "strong_passes", "weak_attempts", "weak_passes")
TESTS = ("p_reversed", "fisher_p_value")


def _tables(found: Mapping[str, Any], context: Mapping[str, Any]) -> list[Table]:
    """What the page shows, and every unit it counts."""
    units = ("environment", "task", "subject", *found["row"][2:])
    push = ("labels", "group", "convention", "pass", "fail", *RATE_COLUMNS, "lowest", "highest")
    return [
        Table("units", units, list(_unit_rows(found))),
        Table("parts", ("of", "part", "units", "all_units", *RATE_COLUMNS), list(_part_rows(context))),
        Table("curves", ("of", "figure", "k", *MEAN), list(_curve_rows(context))),
        Table("advantage", ("of", *push), list(_push_rows(context))),
        Table("bins", ("environment", "task", "bin", *SIDES, *TESTS), list(_bin_rows(context))),
    ]


def _unit_rows(found: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for row in found["rows"]:
        task = found["tasks"][row[0]]
        yield task["environment"], task["name"], name_of(found["subjects"][row[1]]), *row[2:]


def _part_rows(context: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for title, _, part in context["parts"]:
        yield context["whose"], title, part["units"], part["of"], *rate_cells(part["share"])


def _curve_rows(context: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    curves = {key: context["spread"][key] for key in ("pass_at_k", "pass_hat_k")}
    for key, points in (curves | {"informative": context["signal"]["against_group"]}).items():
        for k, at in points.items():
            yield context["whose"], key, int(k), *(at.get(column) for column in MEAN)


def _push_rows(context: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for labels, pushes in context["signal"]["push"].items():
        for push in pushes:
            example, share = push["example"], push["share"]
            head = context["whose"], labels, context["group"], push["convention"], example["passed"], example["failed"]
            yield *head, *rate_cells(push["new_tasks"]), share.get("low"), share.get("high")


def _bin_rows(context: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for row in context.get("faced", []):
        task = row["task"]
        tallies = *row["strong"], *row["weak"]
        yield (
            task["environment"],
            task["name"],
            row["key"],
            *context["pair"],
            *tallies,
            row["p_reversed"],
            row["by_chance"],
        )
