"""How work fails: tags by judge and by people, two places side by side, and the tasks that are defective."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from auditapp.sections.shapes import SIDES, side_by_side
from auditapp.views.listing import Choice, Filter
from auditapp.views.numbers import Numbers, numbers_for, page
from auditapp.views.numbers_places import chooser, chosen_place, labels_address, name_of, unknown_place
from auditapp.views.tables import RATE_COLUMNS, Table, csv_asked, rate_cells
from judges.taxonomy import taxonomy

LABELERS = (("judge", "Judge"), ("people", "People"))
WHO = (*LABELERS, ("audit", "People in audits"))
KINDS = (
    ("C", "Capability: what the agent got wrong"),
    ("E", "Environment: what the task or its verifier got wrong"),
    ("B", "Behavior: how the agent worked, neither good nor bad"),
    ("H", "Hacks: success by other means than the work asked for"),
)
SIDE_WORDS = {"capability": "agent alone", "environment": "task or verifier alone", "both": "both"}
CELLS = ("asked", "both", "judge_only", "people_only", "neither", "not_asked")
LINE_WORDS = {
    "above": "The whole interval lies above the line: more tasks are defective than a release may hold.",
    "below": "The interval of what was found lies below the line.",
    "open": "The interval reaches over the line: whether more tasks are defective than that is not settled.",
}


def shapes(request: HttpRequest, name: str) -> HttpResponse:
    """Failure shapes of one version: `?by=` whose tags, `?left=&right=` the two compared, `?environment=` in which."""
    numbers = numbers_for(request, name)
    found = numbers.figures["shapes"]
    if "insufficient" in found:
        nothing = {"nothing": found["insufficient"]}
        return csv_asked(request, numbers, ()) or page(request, numbers, "numbers/shapes.html", nothing)
    who = _who(request, found)
    context = _context(request, numbers, found, who)
    tables = _tables(found, context, who)
    return csv_asked(request, numbers, tables) or page(request, numbers, "numbers/shapes.html", context)


def _who(request: HttpRequest, found: Mapping[str, Any]) -> str:
    """Whose tags: those asked for, else people's where there are any, else the judge's."""
    wanted = request.GET.get("by", "")
    if wanted in dict(WHO):
        return wanted
    return "judge" if "insufficient" in found["people"] else "people"


def _context(request: HttpRequest, numbers: Numbers, found: Mapping[str, Any], who: str) -> dict[str, Any]:
    said = found[who]
    empty = "insufficient" in said
    return {
        "who": who,
        "said": said,
        "empty": empty,
        "choosers": [Filter("by", "Tags by", [Choice(key, title) for key, title in WHO], who)],
        "few_codes": who == "judge" and _rules(numbers),
        "few_codes_of_judge": _rules(numbers),
        "line": found["line"],
        "defects": [_defective(numbers, found, key, title) for key, title in LABELERS],
        "both": found["judge_people"],
        "agreed": [_agreed(numbers, row) for row in found["judge_people"].get("codes", ())],
    } | ({} if empty else _shown(request, numbers, said, who))


def _rules(numbers: Numbers) -> bool:
    return numbers.config is not None and numbers.config.provider == "rules"


def _shown(request: HttpRequest, numbers: Numbers, said: Mapping[str, Any], who: str) -> dict[str, Any]:
    places = [*said["by_subject"]]
    environments = [place["environment"] for place in said["by_environment"]]
    where = request.GET.get("environment", "")
    where = where if where in environments else ""
    pair = _pair(request, places)
    in_place = [_in(said, places[number], where) for number in pair]
    return {
        "errors": [
            f"Nobody here is called “{wrong}”: choose one of those named below."
            for key in ("left", "right")
            if (wrong := unknown_place(request, key, places))
        ],
        "pair": [name_of(places[number]) for number in pair],
        "pair_choosers": [
            *(
                chooser(key, key.capitalize(), places, at)
                for key, at in zip(("left", "right"), pair, strict=True)
                if len(places) > 1
            ),
            Filter("environment", "Environment", [Choice(name, name) for name in environments], where),
        ],
        "alone": len(places) < 2,
        "same": len(places) > 1 and pair[0] == pair[1],
        "kinds": list(_kinds(numbers, in_place, who)),
        "blame": [_blame(numbers, place, who) for place in _blamed(said)],
        "grid": _grid(numbers, said, who),
    }


def _pair(request: HttpRequest, places: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """The two places compared; where the address names none, the first and the last."""
    left, right = (chosen_place(request, key, places) for key in ("left", "right"))
    return 0 if left is None else left, len(places) - 1 if right is None else right


def _in(said: Mapping[str, Any], place: Mapping[str, Any], environment: str) -> Mapping[str, Any]:
    """The figures of a subject, in one environment where one is chosen."""
    if not environment:
        return place
    wanted = (*(place[part] for part in ("model", "agent", "effort")), environment)
    keys = ("model", "agent", "effort", "environment")
    found = (cell for cell in said["by_cell"] if tuple(cell[key] for key in keys) == wanted)
    nothing = dict(zip(keys, wanted, strict=True)) | {"looked_at": 0, "asked": {}, "tags": {}}
    return next(found, nothing)


def _kinds(numbers: Numbers, pair: Sequence[Mapping[str, Any]], who: str) -> Iterator[tuple[str, list[Any]]]:
    rows = [row | _named(row["code"], numbers, pair, who) for row in side_by_side(*pair)]
    for letter, title in KINDS:
        yield title, [row for row in rows if row["code"].startswith(letter)]


def _named(code: str, numbers: Numbers, pair: Sequence[Mapping[str, Any]], who: str) -> dict[str, Any]:
    return {"name": _name(code), "addresses": [_labels(numbers, place, who, tag=code) for place in pair]}


def _name(code: str) -> str:
    known = taxonomy().codes.get(code)
    return known.name.replace("_", " ") if known else "unknown code"


def _labels(numbers: Numbers, place: Mapping[str, Any], who: str, **more: object) -> str:
    """Where the labels behind a count are; an audit makes none, its answers are on the page of its round."""
    if who == "audit":
        return reverse("rounds", args=[numbers.access.dataset.name])
    return labels_address(numbers, place, by_judge=who == "judge", **more)


def _blamed(said: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield {"name": "all", **said["all"]}
    for place in (*said["by_subject"], *said["by_environment"]):
        yield {"name": name_of(place), **place}


def _blame(numbers: Numbers, place: Mapping[str, Any], who: str) -> dict[str, Any]:
    address = _labels(numbers, place, who)
    sides = [(SIDE_WORDS[side], place["sides"].get(side)) for side in SIDES]
    counts = {key: place[key] for key in ("name", "blamed", "sided")}
    return {**counts, "sides": sides, "address": address}


def _grid(numbers: Numbers, said: Mapping[str, Any], who: str) -> dict[str, Any]:
    """Codes down, environments across: counts that open their labels and the rate, where it was asked for."""
    places = said["by_environment"]

    def cell(code: str, place: Mapping[str, Any]) -> tuple[Any, str, bool]:
        return place["tags"].get(code), _labels(numbers, place, who, tag=code), place["asked"].get(code) != 0

    rows = [
        (code, _name(code), [cell(code, place) for place in places]) for code in sorted(said["codes"], key=_in_order)
    ]
    return {"places": [(name_of(place), place["looked_at"]) for place in places], "rows": rows}


def _in_order(code: str) -> tuple[int, str]:
    return [letter for letter, _ in KINDS].index(code[0]) if code[0] in "CEBH" else len(KINDS), code


def _agreed(numbers: Numbers, row: Mapping[str, Any]) -> dict[str, Any]:
    addresses = [_labels(numbers, {}, who, tag=row["code"]) for who, _ in LABELERS]
    return {**row, "name": _name(row["code"]), "addresses": addresses}


def _defective(numbers: Numbers, found: Mapping[str, Any], who: str, title: str) -> dict[str, Any]:
    """Tasks in which somebody found a defect, each with the labels that say so."""
    said = found["defective"][who]
    if "insufficient" in said:
        return {"who": who, "title": title, "said": said, "tasks": []}
    tasks = [task | {"found": _found(numbers, task, who)} for task in said["tasks"]]
    words = LINE_WORDS.get(said["against_line"], "")
    return {"who": who, "title": title, "said": said, "tasks": tasks, "words": words}


def _found(numbers: Numbers, task: Mapping[str, Any], who: str) -> list[tuple[Mapping[str, Any], str]]:
    place = {"task": task["name"], "environment": task["environment"]}
    return [(item, _labels(numbers, place, who, tag=item["code"])) for item in task["codes"]]


# --- as CSV


def _tables(found: Mapping[str, Any], context: Mapping[str, Any], who: str) -> list[Table]:
    said = found[who]
    places = [] if context["empty"] else [("all", said["all"]), *_named_places(said)]
    sides = ("left", "right", "code")
    difference = ("difference", "low", "high", "p_value", "stands_among_all")
    return [
        Table("tags", ("by", "place", "code", "count", *RATE_COLUMNS), list(_tag_rows(places, who))),
        Table("blame", ("by", "place", "side", "count", *RATE_COLUMNS), list(_side_rows(places, who))),
        Table("pair", ("by", *sides, "left_rate", "right_rate", *difference), list(_pair_rows(context, who))),
        Table("judge_people", ("code", *CELLS, "kappa", "low", "high"), list(_agreed_rows(found))),
        Table(
            "defective",
            ("by", "environment", "task", "code", "trajectories", "looked_at", "checked_citations"),
            list(_defect_rows(found)),
        ),
    ]


def _named_places(said: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for place in said["by_subject"]:
        yield name_of(place), place
    for place in said["by_environment"]:
        yield name_of(place), place
    for place in said["by_cell"]:
        yield f"{name_of(place)} in {place['environment']}", place


def _tag_rows(places: Sequence[tuple[str, Mapping[str, Any]]], who: str) -> Iterator[tuple[object, ...]]:
    for name, place in places:
        for code, rate in place["tags"].items():
            yield who, name, code, rate["count"], *rate_cells(rate)


def _side_rows(places: Sequence[tuple[str, Mapping[str, Any]]], who: str) -> Iterator[tuple[object, ...]]:
    for name, place in places:
        for side, rate in place["sides"].items():
            yield who, name, side, rate["count"], *rate_cells(rate)


def _pair_rows(context: Mapping[str, Any], who: str) -> Iterator[tuple[object, ...]]:
    for _, rows in context.get("kinds", ()):
        for row in rows:
            rates = row["left"].get("estimate"), row["right"].get("estimate")
            gap = (row["difference"].get(key) for key in ("difference", "low", "high", "p_value"))
            yield who, *context["pair"], row["code"], *rates, *gap, row["flagged"]


def _agreed_rows(found: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for row in found["judge_people"].get("codes", ()):
        yield row["code"], *(row[key] for key in CELLS), *(row["kappa"].get(key) for key in ("kappa", "low", "high"))


def _defect_rows(found: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
    for who, _ in LABELERS:
        for task in found["defective"][who].get("tasks", ()):
            for item in task["codes"]:
                head = who, task["environment"], task["name"], item["code"]
                yield *head, item["trajectories"], task["looked_at"], item["citations"]
