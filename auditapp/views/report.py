"""The report: one page a buyer can print, from stored figures alone, with where they came from and what is missing."""

import math
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.contrib import messages
from django.http import FileResponse, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from auditapp.bundle import BundleError, Kept, kept_bundle, write_bundle
from auditapp.demo import visit
from auditapp.estimation import Subject, first_rate, subject
from auditapp.estimation_inputs import is_small
from auditapp.models.datasets import DatasetVersion
from auditapp.models.estimates import AcceptanceCriteria
from auditapp.provenance import Provenance, provenance
from auditapp.tasks import enqueue_bundle
from auditapp.templatetags.rates import shared_limit
from auditapp.views.access import LEADS, Access, dataset_for, version_for
from auditapp.views.numbers import chosen_config, chosen_sample, numbers_for, page
from auditapp.views.numbers_rates import criteria_table, judge_bounds
from auditapp.views.runs import user_of
from auditapp.views.tables import RATE_COLUMNS, Table, csv_asked, rate_cells
from judges.taxonomy import taxonomy

Figures = Mapping[str, Any]
DIRECTIONS = (
    ("false_pass", "Passes that are wrong", "false-pass rate among passes", "pass_given_not_acceptable"),
    ("false_fail", "Fails that are right", "false-fail rate among fails", "fail_given_acceptable"),
)
OWN = {
    "pass_given_not_acceptable": "Verifier's own error: passes among all work that is not acceptable",
    "fail_given_acceptable": "Verifier's own error: fails among all work that is acceptable",
}
SHAPES, SIDES = 8, ("capability", "environment", "both")
WHO = ("people", "judge")
FAILURES = ("C", "E", "H")
KS = ("1", "2", "4", "8", "16")


@dataclass(frozen=True, slots=True)
class Line:
    """A rate of the report: what it is about, whose word it is, and where its name is explained."""

    name: str
    means: str
    found: Figures
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class Direction:
    """One way of being wrong, with every reading of it on one axis."""

    kind: str
    title: str
    name: str
    lines: tuple[Line, ...]
    limit: float


@dataclass(frozen=True, slots=True)
class Gap:
    """Figures that could not be had for one reason, and what would make them available."""

    reason: str
    remedy: str
    names: tuple[str, ...]


SCRIPTED = (
    "{} in these figures were made by a script that stands in for people. This report shows what a report looks "
    "like; it is no evidence about any verifier."
)
JUDGE_FIRST = "Draw a sample and run a judge over it, or let people grade a part of it."
PEOPLE_FIRST = "Draw a review round from the judged sample, let people grade it blind, and release it."
AFTER_GRADE = "Ask the reviewers of a round to take the step after a grade, which shows them the verifier."
TWO_PEOPLE = "Let two people grade at least a fifth of every cell of a round."
MEASURES = (
    ("Rate of wrong passes", "false_pass", JUDGE_FIRST),
    ("Rate of right fails", "false_fail", JUDGE_FIRST),
    ("Rate of wrong passes, corrected by people", "corrected.false_pass", PEOPLE_FIRST),
    ("Rate of right fails, corrected by people", "corrected.false_fail", PEOPLE_FIRST),
    ("Effect of people's own errors", "human_error.false_pass", TWO_PEOPLE),
    ("Agreement among people", "agreement.human_human", TWO_PEOPLE),
    ("Agreement of judge and people", "agreement.judge_human", PEOPLE_FIRST),
    ("Bound on hacks", "hack_bound", "Ask people in a review round whether the work was reached by a hack."),
    ("Consistency of the judge", "self_consistency", "Run the judge with two or more looks at some of the sample."),
    ("Pass rates by task", "distribution", "Import trajectories whose verifier said pass or fail."),
    ("Informative fraction, corrected by people", "distribution.signal.all.corrected", PEOPLE_FIRST),
    ("Advantage that goes to false passes, by people", "distribution.false_pass_advantage", PEOPLE_FIRST),
    ("Failure tags by people", "shapes.people", PEOPLE_FIRST),
    ("Defective tasks by people", "shapes.defective.people", AFTER_GRADE),
)


def report(request: HttpRequest, name: str) -> HttpResponse:
    """The report of a dataset version; `?csv=` gives one of its tables."""
    numbers = numbers_for(request, name)
    figures = numbers.figures
    directions = tuple(_direction(figures, *direction) for direction in DIRECTIONS)
    about = provenance(numbers.version, Subject(numbers.config, numbers.sample))
    if file := csv_asked(request, numbers, _tables(figures, directions, about)):
        return file
    visit.note(numbers.version, visit.REPORT, by=user_of(request))
    context = {
        "directions": directions,
        "first": {kind: first_rate(figures, kind) for kind, *_ in DIRECTIONS},
        "about": about,
        "loud": _loud(figures, about),
        "gaps": tuple(_gaps(figures)),
        "hack_bounds": judge_bounds(figures["hack_bound"]),
        "tags": _tags(figures),
        "sides": _sides(figures),
        "curve": _curve(figures),
        "push": _push(figures),
        "judges": _judges(figures),
        "has_criteria": AcceptanceCriteria.objects.filter(version=numbers.version).exists(),
    }
    return page(request, numbers, "report/report.html", context)


def figures_json(request: HttpRequest, name: str) -> JsonResponse:
    """Everything the report is made from, as it is stored: what `manage.py estimate --json` prints."""
    numbers = numbers_for(request, name)
    response = JsonResponse(dict(numbers.figures), json_dumps_params={"indent": 1, "ensure_ascii": False})
    file = f"{numbers.access.dataset.name}-{numbers.version.name}-figures.json"
    response["Content-Disposition"] = f'attachment; filename="{file}"'
    response["X-Assay-Stale"] = "true" if numbers.stored.is_stale else "false"
    return response


@require_safe
def bundle(request: HttpRequest, name: str) -> HttpResponseBase:
    """Everything a third party needs to recompute sample and figures, as one zip. It holds labels: for leads.

    That of a large version is made by a worker: where it does not lie ready, the page that waits for it answers.
    """
    access = dataset_for(request, name, roles=LEADS)
    version = version_for(request, access)
    chosen = subject(version, config=chosen_config(request), sample=chosen_sample(request, version))
    if chosen.sample is None or is_small(version):
        return _made_now(request, access, version, chosen)
    ready = _ready(request, version, chosen)
    if ready is not None:
        with suppress(FileNotFoundError):  # a newer one was made just now
            return _zip(ready.path.open("rb"), version)
    return redirect(reverse("report-bundle-made", args=[name], query=request.GET))


@require_safe
def bundle_made(request: HttpRequest, name: str) -> HttpResponse:
    """Has a worker make the bundle of a large version, waits for it, and says when it lies ready.

    What came while it was made does not keep it from whoever had asked before: `?asked=` says when.
    """
    access = dataset_for(request, name, roles=LEADS)
    version = version_for(request, access)
    chosen = subject(version, config=chosen_config(request), sample=chosen_sample(request, version))
    if chosen.sample is None:
        return redirect("report", name)
    ready = _ready(request, version, chosen)
    query = request.GET.copy()
    if ready is None and not request.headers.get("HX-Request"):
        query["asked"] = str(time.time())
        enqueue_bundle(version, chosen.config, chosen.sample)
    context = {"access": access, "dataset": access.dataset, "version": version, "ready": ready}
    context |= {"config": chosen.config, "sample": chosen.sample, "query": query.urlencode()}
    query.pop("asked", None)
    context["anew"] = query.urlencode()
    return render(request, "report/bundle.html", context, status=200 if ready else 202)


def _ready(request: HttpRequest, version: DatasetVersion, chosen: Subject) -> Kept | None:
    """The bundle that lies ready, of today or made since it was asked for."""
    found = kept_bundle(version, chosen)
    try:
        asked = float(request.GET.get("asked", "inf"))
    except ValueError:
        asked = math.inf
    return found if found and (found.is_current or found.made_at.timestamp() >= asked) else None


def _made_now(request: HttpRequest, access: Access, version: DatasetVersion, chosen: Subject) -> HttpResponseBase:
    with tempfile.TemporaryDirectory(dir=settings.FILE_UPLOAD_TEMP_DIR) as folder:
        path = Path(folder) / "bundle.zip"
        try:
            write_bundle(version, path, config=chosen.config, sample=chosen.sample)
        except BundleError as error:
            messages.error(request, str(error))
            return redirect("report", access.dataset.name)
        file = path.open("rb")  # what is open outlives its name
    return _zip(file, version)


def _zip(file: BinaryIO, version: DatasetVersion) -> FileResponse:
    return FileResponse(file, as_attachment=True, filename=f"{version.dataset.name}-{version.name}-bundle.zip")


# --- parts of the page


def _at(figures: Figures, path: str) -> Any:
    """What stands at a dotted path; an object that says why it is insufficient stands for all that is below it."""
    found: Any = figures
    for step in path.split("."):
        if not isinstance(found, Mapping) or (step not in found and "insufficient" in found):
            break
        found = found.get(step)
    return found


def why_not(figures: Figures, path: str) -> str | None:
    """Why the figure at a dotted path could not be had, None where it is there."""
    found = _at(figures, path)
    return str(found["insufficient"]) if isinstance(found, Mapping) and "insufficient" in found else None


def _direction(figures: Figures, kind: str, title: str, name: str, own: str) -> Direction:
    lines = tuple(_lines(figures, kind, own))
    return Direction(kind, title, name, lines, shared_limit(line.found for line in lines))


def _lines(figures: Figures, kind: str, own: str) -> Iterator[Line]:
    """The primary figure first; what stands beside it only where it is another one."""
    primary = first_rate(figures, kind)
    labels = primary.get("labels", "")
    by = f"This batch, by {labels or 'nobody'}"
    plain = ", as if no round had been extended" if "rounds" in primary else ""
    if plain:
        yield Line(f"{by}, valid although a round was extended", "looked-at-and-extended", primary)
    yield Line(f"{by}{plain}", "which-rate-comes-first", figures[kind], quiet=bool(plain))
    yield Line(f"New tasks like these{plain}", "two-scopes", figures["scope"]["environment"][kind])
    if labels != "people" and why_not(figures, f"human_only.{kind}") is None:
        yield Line("This batch, by people alone", "which-rate-comes-first", figures["human_only"][kind])
    if "uncalibrated" not in labels and why_not(figures, f"judge_only.{kind}") is None:
        yield Line("This batch, by the judge alone", "which-rate-comes-first", figures["judge_only"][kind], quiet=True)
    yield Line(OWN[own], "the-verifiers-own-error", figures["verifier_error"][own])


def _loud(figures: Figures, about: Provenance) -> tuple[str, ...]:
    """What a reader has to know before any number, in words that cannot be overlooked."""
    found = []
    if about.scripted:
        found.append(SCRIPTED.format("Some grades" if about.people else "Grades"))
    if any("uncalibrated" in figures[kind].get("labels", "") for kind, *_ in DIRECTIONS):
        found.append("No person has checked this judge here. Read the rates as the opinion of one program.")
    if any(row.extensions and row.is_released for row in about.rounds):
        found.append("A review round was extended after it had begun: only the intervals that say so allow for that.")
    return tuple(found)


def _gaps(figures: Figures) -> Iterator[Gap]:
    """What could not be had, together where one reason and one remedy hold for several."""
    together: dict[tuple[str, str], list[str]] = {}
    for name, path, remedy in MEASURES:
        if reason := why_not(figures, path):
            together.setdefault((reason, remedy), []).append(name)
    for (reason, remedy), names in together.items():
        yield Gap(reason, remedy, tuple(names))


def _by(figures: Figures, who: str) -> Figures:
    """The failure shapes by people or by the judge; an object that says why where there are none."""
    found = _at(figures, f"shapes.{who}")
    return found if isinstance(found, Mapping) else {"insufficient": "not computed"}


def _shares(figures: Figures, who: str) -> dict[str, Figures]:
    """Each code of a failure with its share of what was looked at; None of those found 0 times."""
    found = _by(figures, who)
    met = {} if "insufficient" in found else found["all"]["tags"]
    return {code: share for code, share in met.items() if code.startswith(FAILURES) and share.get("count")}


def _tags(figures: Figures) -> dict[str, Any]:
    """The failures met most often, by people and by the judge side by side, as shares of what each looked at."""
    people, judge = _shares(figures, "people"), _shares(figures, "judge")
    most = sorted(people.keys() | judge.keys(), key=lambda code: (-_largest(code, people, judge), code))[:SHAPES]
    asked, told = (_by(figures, who).get("asked") or () for who in WHO)
    rows = [
        {
            "code": code,
            "name": _name(code),
            "people": people.get(code),
            "judge": judge.get(code),
            "asked": code in asked,
            "told": code in told,
        }
        for code in most
    ]
    return {
        "rows": rows,
        "why": "; ".join(f"{who}: {why}" for who in WHO if (why := _by(figures, who).get("insufficient"))),
        "by": "people" if people else "judge",
        "has_both": bool(people and judge),
        "limit": shared_limit(people.get(code) or judge.get(code) for code in most),
    }


def _largest(code: str, *shares: Mapping[str, Figures]) -> float:
    """For the order alone: a tag whose share is not known comes last."""
    return max(float(found[code].get("estimate", 0)) for found in shares if code in found)


def _name(code: str) -> str:
    known = taxonomy().codes.get(code)
    return known.name.replace("_", " ") if known else "unknown code"


def _sides(figures: Figures) -> dict[str, Any] | None:
    """Of failed work that was tagged: whose fault it was; by people where they were asked about the environment."""
    asked = any(code.startswith("E") for code in _by(figures, "people").get("asked") or ())
    for who in WHO if asked else WHO[1:]:
        found = _by(figures, who)
        if "insufficient" not in found:
            sides = found["all"].get("sides", {})
            known = [(side, sides[side]) for side in SIDES if side in sides and "insufficient" not in sides[side]]
            return {"by": who, "rows": known} if known else None
    return None


def _curve(figures: Figures) -> tuple[tuple[str, Figures, Figures], ...]:
    """pass@k and pass^k at a few k."""
    at, hat = _at(figures, "distribution.pass_at_k"), _at(figures, "distribution.pass_hat_k")
    if not isinstance(at, Mapping) or "insufficient" in at:
        return ()
    return tuple((k, at[k], hat[k]) for k in KS if k in at)


def _push(figures: Figures) -> dict[str, Any] | None:
    """The share of positive advantage that goes to false passes by the first convention: by people, else the judge."""
    for by in ("people", "judge"):
        found = _at(figures, f"distribution.signal.all.push.{by}")
        if isinstance(found, list) and found and "insufficient" not in found[0]["share"]:
            return {"by": by, **found[0]}
    return None


def _judges(figures: Figures) -> list[Figures]:
    found = _at(figures, "agreement.judge_human")
    return found if isinstance(found, list) else []


# --- tables


def _tables(figures: Figures, directions: tuple[Direction, ...], about: Provenance) -> list[Table]:
    rates = [(each.kind, line.name, *rate_cells(line.found)) for each in directions for line in each.lines]
    tags = [
        (row["code"], row["name"], who, *rate_cells(row[who]))
        for row in _tags(figures)["rows"]
        for who in WHO
        if row[who]
    ]
    curve = [
        (name, k, *(found.get(column) for column in ("estimate", "low", "high", "tasks", "insufficient")))
        for k, at, hat in _curve(figures)
        for name, found in (("pass@k", at), ("pass^k", hat))
    ]
    return [
        Table("rates", ("direction", "about", *RATE_COLUMNS), rates),
        Table("tags", ("code", "name", "by", *RATE_COLUMNS), tags),
        Table("curves", ("figure", "k", "estimate", "low", "high", "tasks", "insufficient"), curve),
        criteria_table(figures),
        _agreement_table(figures),
        _round_table(about),
        Table("missing", ("figure", "reason", "remedy"), list(_gap_rows(figures))),
    ]


def _agreement_table(figures: Figures) -> Table:
    """People among themselves, then each judge with them; what could not be compared says why."""
    human, judged = figures["agreement"]["human_human"], figures["agreement"]["judge_human"]
    judges = [("judge", judged)] if isinstance(judged, Mapping) else [(found["judge"], found) for found in judged]
    pairs = [("people", human), *judges]
    columns = ("between_people_and", "pairs", *RATE_COLUMNS, "kappa", "kappa_low", "kappa_high", "ac1")
    return Table("agreement", columns, [_agreement_row(name, found) for name, found in pairs])


def _agreement_row(name: str, found: Figures) -> tuple[object, ...]:
    if "insufficient" in found:
        return name, None, *rate_cells(found), None, None, None, None
    kappa, ac1 = found["kappa"], found["ac1"]
    chance = (*(kappa.get(key) for key in ("kappa", "low", "high")), None if isinstance(ac1, Mapping) else ac1)
    return name, found["n"], *rate_cells(found["raw"]), *chance


def _round_table(about: Provenance) -> Table:
    columns = (
        "number",
        "title",
        "state",
        "seed",
        "drawn",
        "doubled",
        "graded",
        "reviewers",
        "extensions",
        "is_blind",
        "is_scripted",
        "is_released",
    )
    return Table("rounds", columns, [tuple(getattr(row, column) for column in columns) for row in about.rounds])


def _gap_rows(figures: Figures) -> Iterator[tuple[str, str, str]]:
    """A row a figure: on the page those that lack for one reason stand together."""
    for gap in _gaps(figures):
        for name in gap.names:
            yield name, gap.reason, gap.remedy
