"""Agreement: people with people, each judge with people, over time, and the cases on which they differ."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

from auditapp.counted import Of, rows
from auditapp.models.labels import Calibration, calibrations
from auditapp.sections.figures import ANSWERS
from auditapp.templatetags.charts import Point, Series
from auditapp.views.access import record_exposure
from auditapp.views.numbers import Numbers, numbers_for, page
from auditapp.views.numbers_rows import Addresses, Case, case_table, cases_of
from auditapp.views.tables import RATE_COLUMNS, Table, csv_asked, rate_cells

Figures = Mapping[str, Any]
Held = Mapping[int | str, Calibration]
FIRST_CASES = 5
HIGH, LOW = 0.8, 0.6
"""Raw agreement from HIGH on beside a kappa below LOW is where the paradox bites."""
NOTHING: Figures = {"insufficient": "not computed yet"}


@dataclass(frozen=True, slots=True)
class Compared:
    """One comparison of two labelers: its figures, the addresses of its cells, and whether kappa misleads."""

    name: str
    source: str
    found: Figures
    addresses: Sequence[Sequence[str]]
    calibration: Calibration | None
    paradox: bool


@dataclass(frozen=True, slots=True)
class Watched:
    """A judge over time: its windows as a line, the rate it is held to, and whether the alarm went off."""

    found: Figures
    line: Sequence[Series]

    @property
    def expected(self) -> float | None:
        value: float | None = self.found.get("expected")
        return value

    @property
    def name(self) -> str:
        """The judge, and the rounds whose plan it is watched on."""
        numbers = self.found.get("rounds", ())
        of = f", round{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}" if numbers else ""
        return f"{self.found['judge']}{of}"


def agreement(request: HttpRequest, name: str) -> HttpResponse:
    """Who agrees with whom, and on what not."""
    numbers = numbers_for(request, name)
    figures, addresses = numbers.figures, Addresses(numbers)
    found = figures["agreement"]
    people = _people(found["human_human"], addresses)
    own = numbers.config.pk if numbers.config else None
    held = calibrations(numbers.version, configs=[own] if own else [])
    judges = [_judge(entry, addresses, held, own) for entry in sorted(_listed(found["judge_human"]), key=_own_first)]
    after = _after(found["judge_after"], addresses)
    if file := csv_asked(request, numbers, _files(request, numbers, people, judges, after)):
        return file
    context = {
        "people": people,
        "people_missing": _why(found["human_human"]),
        "judges": judges,
        "judges_missing": _why(found["judge_human"]),
        "own": next((item for item in judges if item.source == "judge"), None),
        "after": after,
        "after_missing": _why(found["judge_after"]),
        "human_raw": people.found["raw"].get("estimate") if people else None,
        "repeats": figures.get("grader_consistency", NOTHING),
        "watched": [_watched(entry) for entry in _listed(figures.get("drift", ()))],
        "drift_missing": _why(figures.get("drift", NOTHING)),
        "paired": _listed(figures.get("judges_paired", ())),
        "answers": ANSWERS,
        "paired_missing": _why(figures.get("judges_paired", NOTHING)),
        "cases": _cases_shown(request, numbers),
        "all_cases": addresses.labeled(differ="judge"),
        "people_differ": addresses.labeled(differ="people"),
    }
    return page(request, numbers, "numbers/agreement.html", context)


def _cases_shown(request: HttpRequest, numbers: Numbers) -> list[Case]:
    """The newest cases on which judge and people differ; whoever is shown them has seen their verdicts."""
    if numbers.config is None:
        return []
    of = Of(numbers.version, numbers.config, numbers.sample, everyone=True)
    cases = cases_of(numbers, rows(of, {"differ": "judge"}), most=FIRST_CASES)
    record_exposure(request, *(case.trajectory.task_id for case in cases))
    return cases


def _why(found: Any) -> str:
    """Why there is nothing to show; empty where there is something."""
    if isinstance(found, Mapping) and "insufficient" in found:
        return str(found["insufficient"])
    return "" if found else "there is nothing of this kind"


def _listed(found: Any) -> list[Figures]:
    return list(found) if isinstance(found, (list, tuple)) else []


def _paradox(found: Figures) -> bool:
    """High raw agreement beside a low kappa: one answer is so rare that chance alone would agree."""
    raw, kappa = found["raw"].get("estimate"), found["kappa"].get("kappa")
    return raw is not None and kappa is not None and raw >= HIGH and kappa < LOW


def _own_first(found: Figures) -> tuple[bool, str]:
    return found["source"] != "judge", found["judge"]


def _people(found: Figures, addresses: Addresses) -> Compared | None:
    if "insufficient" in found:
        return None
    cells = [[addresses.labeled(pair=f"{one}-{other}") for other in found["answers"]] for one in found["answers"]]
    return Compared("People", "people", found, cells, None, paradox=_paradox(found))


def _judge(found: Figures, addresses: Addresses, held: Held, config: int | None) -> Compared:
    """A judge against people; the cells open the cases of this judge, or of the imported one of that name."""
    own = found["source"] == "judge"
    cells = [
        [_cell(found, judge, people, own=own, addresses=addresses) for people in found["answers"]]
        for judge in found["answers"]
    ]
    calibration = held.get((own and config) or found["judge"], Calibration())
    return Compared(found["judge"], found["source"], found, cells, calibration, paradox=_paradox(found))


def _cell(found: Figures, judge: str, people: str, *, own: bool, addresses: Addresses) -> str:
    if own:
        return addresses.labeled(judge_said=judge, people_said=people)
    return addresses.labeled(other=found["judge"], other_said=judge, people_said=people)


def _after(found: Figures, addresses: Addresses) -> Compared | None:
    if "insufficient" in found:
        return None
    cells = [
        [addresses.labeled(judge_after=judge, people_said=people) for people in found["answers"]]
        for judge in found["answers"]
    ]
    return Compared(found["judge"], "judge", found, cells, None, paradox=_paradox(found))


def _watched(entry: Figures) -> Watched:
    points = [_window(window) for window in entry.get("windows", ())]
    return Watched(entry, [Series("differing from people", points)])


def _window(window: Figures) -> Point:
    rate = window["disagree"]
    if "insufficient" in rate:
        return Point(window["last"], None, why=rate["insufficient"])
    return Point(window["last"], rate["estimate"], rate["low"], rate["high"])


# --- tables as files


def _files(
    request: HttpRequest, numbers: Numbers, people: Compared | None, judges: Sequence[Compared], after: Compared | None
) -> Iterator[Table]:
    """Every table; the cases are made for who asks for them alone, since whoever does is taken to have seen them."""
    yield from _tables(numbers.figures, people, judges, after)
    if request.GET.get("csv") == "cases":
        yield case_table(_cases_shown(request, numbers))


def _tables(
    figures: Figures, people: Compared | None, judges: Sequence[Compared], after: Compared | None
) -> Iterable[Table]:
    compared = [item for item in (people, *judges) if item]
    yield Table(
        "agreement",
        (
            "labeler",
            "source",
            "n",
            "decided",
            "kappa",
            "kappa_se",
            "ac1",
            *RATE_COLUMNS,
            "rate_weighting",
            "kappa_weighting",
        ),
        [_summary(item) for item in compared],
    )
    columns = ("labeler", "second_decision", "first_said", "second_said", "count")
    cells = [row for item in compared for row in _cells(item, second=False)]
    yield Table("cells", columns, cells + (_cells(after, second=True) if after else []))
    yield Table(
        "by_part", ("judge", "part", "n", *RATE_COLUMNS), [row for item in judges for row in _parts(item.found)]
    )
    within = [row for item in judges for row in _within(item.found)]
    yield Table("within", ("judge", "verifier_status", "figure", *RATE_COLUMNS), within)
    columns = ("first", "second", "first_said", "second_said", "count")
    yield Table("paired_cells", columns, _pair_cells(figures))
    yield Table("paired", ("first", "second", "n", "figure", "difference", "low", "high", "p_value"), _pairs(figures))
    yield Table("drift", ("judge", "rounds", "first", "last", *RATE_COLUMNS), _windows(figures))


def _summary(item: Compared) -> tuple[object, ...]:
    found = item.found
    kappa = found["kappa"]
    head = (item.name, item.source, found["n"], found["decided"], kappa.get("kappa"), kappa.get("se"))
    ac1 = found["ac1"] if isinstance(found["ac1"], float) else None
    weighting = found.get("weighting", {})
    return (*head, ac1, *rate_cells(found["raw"]), weighting.get("raw"), weighting.get("kappa"))


def _cells(item: Compared, *, second: bool) -> list[tuple[object, ...]]:
    answers = item.found["answers"]
    return [
        (item.name, second, one, other, item.found["counts"][i][j])
        for i, one in enumerate(answers)
        for j, other in enumerate(answers)
    ]


def _parts(found: Figures) -> list[tuple[object, ...]]:
    strata = [
        (" · ".join(str(part[key]) for key in ("verifier_status", "environment", "model") if part.get(key)), part)
        for part in _listed(found.get("by_stratum"))
    ]
    lengths = [(f"{part['least']} to {part['most'] or '…'} steps", part) for part in _listed(found.get("by_length"))]
    return [(found["judge"], name, part["n"], *rate_cells(part["raw"])) for name, part in (*strata, *lengths)]


def _within(found: Figures) -> list[tuple[object, ...]]:
    """Sensitivity and specificity of a judge within each verdict of the verifier."""
    return [
        (found["judge"], verdict, key, *rate_cells(within if "insufficient" in within else within[key]))
        for verdict, within in found["within"].items()
        for key in ("sensitivity", "specificity")
    ]


def _pairs(figures: Figures) -> list[tuple[object, ...]]:
    return [
        (pair["first"]["name"], pair["second"]["name"], pair["n"], key, *(found.get(c) for c in _DIFFERENCE))
        for pair in _listed(figures.get("judges_paired"))
        for key in ("said_acceptable", "agree_with_people")
        if isinstance(found := pair.get(key), Mapping)
    ]


def _pair_cells(figures: Figures) -> list[tuple[object, ...]]:
    return [
        (pair["first"]["name"], pair["second"]["name"], one, other, pair["table"][i][j])
        for pair in _listed(figures.get("judges_paired"))
        for i, one in enumerate(ANSWERS)
        for j, other in enumerate(ANSWERS)
    ]


_DIFFERENCE = ("difference", "low", "high", "p_value")


def _windows(figures: Figures) -> list[tuple[object, ...]]:
    return [
        (entry["judge"], rounds, window["first"], window["last"], *rate_cells(window["disagree"]))
        for entry in _listed(figures.get("drift"))
        for rounds in [" ".join(str(number) for number in entry.get("rounds", ()))]
        for window in entry.get("windows", ())
    ]
