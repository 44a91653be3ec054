"""Error rates: the primary rate first, both directions in every reading, and where the verifier is wrong."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

from auditapp.demo import visit
from auditapp.estimation import first_rate
from auditapp.sections.rates import UNCALIBRATED
from auditapp.templatetags.rates import shared_limit
from auditapp.views.numbers import Numbers, numbers_for, page
from auditapp.views.numbers_rows import Addresses
from auditapp.views.runs import user_of
from auditapp.views.tables import RATE_COLUMNS, Table, csv_asked, rate_cells

Figures = Mapping[str, Any]
DIRECTIONS = ("false_pass", "false_fail")
VERDICT = {"false_pass": "pass", "false_fail": "fail"}
WRONG = {"false_pass": "no", "false_fail": "yes"}
TITLES = {"false_pass": "False-pass rate among passes", "false_fail": "False-fail rate among fails"}
ASKS = {"false_pass": "Passes that are wrong", "false_fail": "Fails that are right"}
NOTHING: Figures = {"insufficient": "not computed yet"}
CELL = ("environment", "model", "agent", "effort")
STRATUM = ("verifier_status", "environment", "answer", "done", "undone")
BOUNDS_SOMETHING = 0.5
"""A judge's bound on hacks above this says that the judge misses them, not that they may be there."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A rate with the addresses of the rows that are wrong, of those decided, and of those not."""

    direction: str
    rate: Figures
    wrong: str = ""
    decided: str = ""
    undecided: str = ""

    @property
    def title(self) -> str:
        return TITLES[self.direction]

    @property
    def asks(self) -> str:
        return ASKS[self.direction]


@dataclass(frozen=True, slots=True)
class Reading:
    """Both directions read one way; `grey` marks the judge's word alone, `used` the one that comes first."""

    key: str
    name: str
    anchor: str
    both: tuple[Shown, Shown]
    note: str = ""
    grey: bool = False
    used: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """A row of a breakdown: what it is of, its size, both rates, and which of them stand out from the rest."""

    name: str
    sub: str
    size: int
    tasks: int
    both: tuple[Shown, Shown]
    labels: Figures
    flagged: tuple[bool, bool]
    environment: tuple[Figures, Figures]
    address: str


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Groups of one kind with the axis that their intervals share."""

    key: str
    title: str
    groups: Sequence[Group]
    limit: float


def error_rates(request: HttpRequest, name: str) -> HttpResponse:
    """How often the verifier is wrong, in which direction, how sure that is, and what would narrow it."""
    numbers = numbers_for(request, name)
    figures, rows = numbers.figures, Addresses(numbers)
    readings, scopes = _readings(figures, rows), _scopes(figures, rows)
    own, breakdowns = _own_error(figures, rows), _breakdowns(numbers, rows)
    strata, held_out, rounds = _strata(figures, rows), _held_out(figures), _rounds(figures)
    parts: dict[str, Any] = {
        "readings": readings,
        "scopes": scopes,
        "own": own,
        "breakdowns": breakdowns,
        "strata": strata,
        "held_out": held_out,
        "rounds": rounds,
    }
    if file := csv_asked(request, numbers, _tables(figures, **parts)):
        return file
    visit.note(numbers.version, visit.RATES, by=user_of(request))
    limits = {
        "readings_limit": _limit(readings),
        "scopes_limit": _limit(scopes),
        "held_out_limit": _limit(held_out),
        "strata_limit": shared_limit(row["rate"] for row in strata),
    }
    context = parts | limits | _headline(figures, readings) | {"hack": _hack(numbers, rows)}
    return page(request, numbers, "numbers/rates.html", context)


def _limit(readings: Sequence[Reading]) -> float:
    return shared_limit(side.rate for reading in readings for side in reading.both)


def _headline(figures: Figures, readings: Sequence[Reading]) -> dict[str, Any]:
    """The two rates with the limit that was stated, and what bears on both."""
    first, other = _primary(figures, readings)
    criterion = _criterion(figures, first.direction)
    return {
        "first": first,
        "other": other,
        "criterion": criterion,
        "limit_stated": criterion["limit"] if criterion else None,
        "breakdown_missing": _missing(figures, "breakdown"),
        "narrow": figures.get("narrow", NOTHING),
        "human_error": [(TITLES[name], figures["human_error"][name]) for name in DIRECTIONS],
        "by_people": _has_people(figures),
    }


def _missing(figures: Figures, key: str) -> str:
    """Why a part cannot be shown; empty where it can."""
    found = figures.get(key, NOTHING)
    return str(found["insufficient"]) if isinstance(found, Mapping) and "insufficient" in found else ""


def _has_people(figures: Figures) -> bool:
    """Whether any drawn trajectory was looked at by a person: then rates by people stand before the judge's."""
    return any(row["human"]["looked_at"] for row in figures["by_stratum"])


# --- readings


def _shown(direction: str, rate: Figures, rows: Addresses, by: str, **cell: str) -> Shown:
    """A rate by `people_said` or `judge_said` with the addresses of its rows."""
    if "insufficient" in rate:
        return Shown(direction, rate)
    among = {"verdict": VERDICT[direction]} | cell
    open_answer = "undecided" if by == "judge_said" else "unknown"
    return Shown(
        direction,
        rate,
        rows(**among, **{by: WRONG[direction]}),
        rows(**among, **{by: "decided"}),
        rows(**among, **{by: open_answer}),
    )


def _both_as_first(figures: Figures, found: Figures, rows: Addresses) -> tuple[Shown, Shown]:
    """Both directions by whoever the rate that comes first rests on, people or the judge."""
    alone = {name: figures[name].get("labels") == UNCALIBRATED for name in DIRECTIONS}
    first, second = (
        _shown(name, found[name], rows, "judge_said" if alone[name] else "people_said") for name in DIRECTIONS
    )
    return first, second


def _both(found: Figures, rows: Addresses, by: str, **cell: str) -> tuple[Shown, Shown]:
    first, second = (_shown(name, found[name], rows, by, **cell) for name in DIRECTIONS)
    return first, second


def _readings(figures: Figures, rows: Addresses) -> list[Reading]:
    first = _anytime(figures, rows)
    used = set() if first else {figures[name].get("labels") for name in DIRECTIONS}
    return [
        *first,
        _corrected(figures, rows, used="judge corrected by people" in used),
        _human_only(figures, rows, used="people" in used),
        _judge_only(figures, rows, used=UNCALIBRATED in used),
        _conservative(figures, rows),
    ]


def _corrected(figures: Figures, rows: Addresses, *, used: bool) -> Reading:
    both = _both(figures["corrected"], rows, "people_said")
    note = "the judge on every unit drawn, people on some of each of its answers"
    return Reading("corrected", "Judge corrected by people", "the-judge-corrected-by-people", both, note, used=used)


def _human_only(figures: Figures, rows: Addresses, *, used: bool) -> Reading:
    both = _both(figures["human_only"], rows, "people_said")
    note = "what people decided, weighted as they were drawn: drawn by what the judge said, both readings agree"
    return Reading("human_only", "People only", "rates", both, note, used=used)


def _judge_only(figures: Figures, rows: Addresses, *, used: bool) -> Reading:
    both = _both(figures["judge_only"], rows, "judge_said")
    note = f"the judge's word alone, {'uncorrected' if _has_people(figures) else 'not yet held against people'}"
    return Reading("judge_only", "Judge only", "rates", both, note, grey=True, used=used)


def _conservative(figures: Figures, rows: Addresses) -> Reading:
    who = "people where they decided any, else the judge" if _has_people(figures) else "the judge"
    both = _both_as_first(figures, figures["conservative"], rows)
    return Reading(
        "conservative",
        "Conservative",
        "rates",
        both,
        f"Korn–Graubard's exact interval on the effective size, by {who}",
    )


def _anytime(figures: Figures, rows: Addresses) -> list[Reading]:
    """The rates with intervals that hold whenever one stopped, where a round was extended after somebody looked."""
    found = figures.get("anytime", {})
    names = next((found[name]["rounds"] for name in DIRECTIONS if found.get(name, {}).get("rounds")), ())
    if not names:
        return []
    both = {name: first_rate(figures, name) for name in DIRECTIONS}
    note = f"holds although people looked and went on: {', '.join(names)}"
    shown = _both_as_first(figures, both, rows)
    return [Reading("anytime", "Valid whenever one stopped", "looked-at-and-extended", shown, note, used=True)]


def _held_out(figures: Figures) -> list[Reading]:
    """Each part of each held-out set, with both rates over its tasks."""
    return [
        Reading(
            f"{held['name']} {held['part']}",
            f"{held['name']}, {held['part']}",
            "held-out-sets",
            (Shown("false_pass", held["false_pass"]), Shown("false_fail", held["false_fail"])),
            f"{held['tasks']} tasks, {held['trajectories']} trajectories; by {held['labels']['false_pass']}; "
            f"to be renewed by {held['refresh_on']}",
        )
        for held in figures.get("frozen_set", ())
    ]


def _rounds(figures: Figures) -> list[Figures]:
    """Rounds of blind review that have ended, those of which something was left undone with the strata it is in."""
    return [
        {**row, "left": [part for part in row["by_stratum"] if part["undone"]]}
        for row in figures.get("rounds", ())
        if row["kind"] == "blind"
    ]


def _rounds_table(found: Sequence[Figures]) -> Table:
    columns = ("round", "title", "state", "seed", "extensions", "scripted", *STRATUM)
    return Table(
        "rounds",
        columns,
        [
            (
                *(row[key] for key in ("number", "title", "state", "seed", "extensions", "is_scripted")),
                *(part[key] for key in STRATUM),
            )
            for row in found
            for part in row["by_stratum"]
        ],
    )


def _scopes(figures: Figures, rows: Addresses) -> list[Reading]:
    batch, environment = figures["scope"]["batch"], figures["scope"]["environment"]
    return [
        Reading(
            "batch",
            "This batch",
            "two-scopes",
            _both_as_first(figures, batch, rows),
            "the frozen frame and nothing else",
        ),
        Reading(
            "environment",
            "This environment and model",
            "two-scopes",
            _both_as_first(figures, environment, rows),
            "new tasks like these: attempts at one task count together",
        ),
    ]


def _primary(figures: Figures, readings: Sequence[Reading]) -> tuple[Shown, Shown]:
    """The rate declared before the draw, with its rows, and the other one."""
    by_name = {name: _primary_of(figures, readings, name) for name in DIRECTIONS}
    declared = (figures.get("criteria") or {}).get("primary", "false_pass")
    other = next(name for name in DIRECTIONS if name != declared)
    return by_name[declared], by_name[other]


def _primary_of(figures: Figures, readings: Sequence[Reading], direction: str) -> Shown:
    labels = figures[direction].get("labels")
    key = {"people": "human_only", "judge corrected by people": "corrected"}.get(labels, "judge_only")
    same = next(reading.both[DIRECTIONS.index(direction)] for reading in readings if reading.key == key)
    return Shown(direction, first_rate(figures, direction), same.wrong, same.decided, same.undecided)


def _criterion(figures: Figures, direction: str) -> Figures | None:
    """The upper limit that was stated for a direction, with what came of it."""
    checks = (figures.get("criteria") or {}).get("checks", ())
    return next((check for check in checks if check["name"] == f"{direction}_upper"), None)


# --- the verifier's own error, hacks


@dataclass(frozen=True, slots=True)
class Own:
    """The verifier's own error, which the share of good work does not move."""

    key: str
    name: str
    rate: Figures
    wrong: str
    members: str


def _own_error(figures: Figures, rows: Addresses) -> list[Own]:
    by = "people_said" if _has_people(figures) else "judge_said"
    found = figures["verifier_error"]
    return [
        Own(key, name, found[key], rows(verdict=verdict, **{by: given}), rows(**{by: given}))
        for key, name, verdict, given in (
            ("pass_given_not_acceptable", "It passes work that is not acceptable", "pass", "no"),
            ("fail_given_acceptable", "It fails work that is acceptable", "fail", "yes"),
        )
    ]


def _hack(numbers: Numbers, rows: Addresses) -> dict[str, Any]:
    """The rate of hacks, or how high it can still be, as one sentence needs it."""
    found = numbers.figures["hack_bound"]
    by = "people" if found.get("labels") == "people" else "judge"
    address = rows(verdict="pass", hack=by) if found.get("found") else ""
    return {"found": found, "by": by, "address": address, "bounds": judge_bounds(found)}


def judge_bounds(found: Figures) -> bool:
    """Whether the judge finds enough of the hacks people find for its bound to say something."""
    upper = found.get("by_judge", {}).get("upper")
    return upper is not None and upper < BOUNDS_SOMETHING


# --- where


def _breakdowns(numbers: Numbers, rows: Addresses) -> list[Breakdown]:
    figures, sample = numbers.figures, numbers.sample
    if _missing(figures, "breakdown"):
        return []
    whole = sample is None or sample.size == sample.frame.size
    titles = {"environment": "By environment", "model": "By model", "cell": "By environment and model"}
    found = figures["breakdown"]
    return [_breakdown(found[key], rows, key, title, whole=whole) for key, title in titles.items() if found.get(key)]


def _breakdown(found: Sequence[Figures], rows: Addresses, key: str, title: str, *, whole: bool) -> Breakdown:
    groups = [_group(row, rows, whole=whole) for row in found]
    return Breakdown(key, title, groups, shared_limit(shown.rate for group in groups for shown in group.both))


def _group(row: Figures, rows: Addresses, *, whole: bool) -> Group:
    """`whole`: all of the population was drawn, so that its size is a count of rows that can be opened."""
    cell = {field: row[field] for field in CELL if row.get(field)}
    subject = [row[field] for field in CELL[1:] if row.get(field)]
    named = [row["environment"], *subject[:1]] if row.get("environment") else subject[:1]
    both = [_shown(name, row[name], rows, _by(row["labels"].get(name)), **cell) for name in DIRECTIONS]
    scope = row.get("scope_environment", {})
    return Group(
        " · ".join(named) or "not recorded",
        " · ".join(subject[1:]),
        row["size"],
        row["tasks"],
        (both[0], both[1]),
        row["labels"],
        (bool(row["flagged"].get("false_pass")), bool(row["flagged"].get("false_fail"))),
        (scope.get("false_pass", NOTHING), scope.get("false_fail", NOTHING)),
        rows(**cell) if whole else "",
    )


def _by(labels: str | None) -> str:
    return "judge_said" if labels is None or labels.startswith("judge, ") else "people_said"


def _strata(figures: Figures, rows: Addresses) -> list[dict[str, Any]]:
    """Each stratum with who decided how much of it; its rate is people's where they decided any, else the judge's."""
    return [_stratum(row, rows) for row in figures["by_stratum"]]


def _stratum(row: Figures, rows: Addresses) -> dict[str, Any]:
    by = "people_said" if row["human"]["decided"] else "judge_said"
    said = row["human"] if row["human"]["decided"] else row["judge"]
    cell = {"verdict": row["verifier_status"]} | {field: row[field] for field in CELL if row[field]}
    wrong = "no" if row["verifier_status"] == "pass" else "yes"
    return {
        "row": row,
        "rate": said["rate"],
        "said": said,
        "by": "people" if by == "people_said" else "judge",
        "all": rows(**cell),
        "decided": rows(**cell, **{by: "decided"}),
        "wrong": rows(**cell, **{by: wrong}),
    }


# --- tables as files


def _tables(
    figures: Figures,
    *,
    readings: Sequence[Reading],
    scopes: Sequence[Reading],
    own: Sequence[Own],
    breakdowns: Sequence[Breakdown],
    strata: Sequence[Mapping[str, Any]],
    held_out: Sequence[Reading],
    rounds: Sequence[Figures],
) -> Iterator[Table]:
    """Each table when its turn comes: a page that is not asked for a file makes none."""
    yield _reading_table("readings", readings)
    yield _reading_table("scopes", scopes)
    yield _own_table(own)
    yield from map(_breakdown_table, breakdowns)
    yield _strata_table(strata)
    yield _reading_table("held_out", held_out)
    yield _rounds_table(rounds)
    yield _narrow_table(figures)
    yield criteria_table(figures)


def criteria_table(figures: Figures) -> Table:
    """The criteria in force with their verdicts; no row where none were stated."""
    columns = ("name", "limit", "value", "verdict", "why", "grades_more", "left", "undecided", "hours")
    checks = (figures.get("criteria") or {}).get("checks", ())
    return Table("criteria", columns, [tuple(check.get(column) for column in columns) for check in checks])


def _reading_table(name: str, readings: Sequence[Reading]) -> Table:
    columns = ("reading", "direction", "used_first", *RATE_COLUMNS)
    found = [
        (reading.name, shown.direction, reading.used, *rate_cells(shown.rate))
        for reading in readings
        for shown in reading.both
    ]
    return Table(name, columns, found)


def _own_table(own: Sequence[Own]) -> Table:
    return Table("verifier_error", ("figure", *RATE_COLUMNS), [(item.key, *rate_cells(item.rate)) for item in own])


def _breakdown_table(item: Breakdown) -> Table:
    columns = ("group", "subject", "size", "tasks", "direction", "labels", "flagged", *RATE_COLUMNS)
    found = [
        (g.name, g.sub, g.size, g.tasks, s.direction, g.labels.get(s.direction), flag, *rate_cells(s.rate))
        for g in item.groups
        for s, flag in zip(g.both, g.flagged, strict=True)
    ]
    return Table(item.key, columns, found)


def _strata_table(strata: Sequence[Mapping[str, Any]]) -> Table:
    columns = ("verifier_status", *CELL, "size", "drawn", "tasks", "labels", "looked_at", "decided", "wrong")
    found = [
        (
            *(item["row"][field] for field in ("verifier_status", *CELL, "size", "drawn", "tasks")),
            item["by"],
            *(item["said"][field] for field in ("looked_at", "decided", "wrong")),
            *rate_cells(item["rate"]),
        )
        for item in strata
    ]
    return Table("strata", (*columns, *RATE_COLUMNS), found)


def _narrow_table(figures: Figures) -> Table:
    columns = ("verifier_status", *CELL, "judge_said", "size", "graded", "share_of_variance")
    parts = () if _missing(figures, "narrow") else figures["narrow"].get("parts", ())
    return Table(
        "narrow",
        columns,
        [
            (
                *(part["stratum"].get(field) for field in ("verifier_status", *CELL)),
                *(part[field] for field in ("answer", "size", "graded", "share_of_variance")),
            )
            for part in parts
        ],
    )
