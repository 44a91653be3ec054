"""The rows behind a figure: every number of these pages opens here, and as many rows stand here as it counted."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote_plus, urlencode

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from auditapp.counted import FILTERS, Of, Rows, rows
from auditapp.models.datasets import Trajectory
from auditapp.models.judgments import CitedEvidence, CriterionAnswer
from auditapp.models.labels import PEOPLE, ImportedLabel, Label, LabelSource, labels
from auditapp.models.rounds import ReviewLabel
from auditapp.observations import human_answer
from auditapp.sections.counted import rows_counted
from auditapp.views.access import record_exposure
from auditapp.views.listing import BODIES, Choice, Filter, chosen, near, page_of
from auditapp.views.numbers import Numbers, numbers_for, page
from auditapp.views.tables import Table, csv_asked

COUNTED = 10_000
"""Rows that no figure counted are counted up to this many; beyond, the page says that there are more."""
FEW = 1_000
QUOTES = 2
_TITLES = {
    "verdict": "Verifier",
    "environment": "Environment",
    "model": "Model",
    "agent": "Agent",
    "effort": "Effort",
    "people_said": "People said",
    "pair": "Two people said",
    "judge_said": "Judge said",
    "judge_after": "Judge said, having seen the verdict",
    "other": "Other judge",
    "other_said": "Other judge said",
    "differ": "Differing",
    "split": "Looks of the judge differ",
    "hack": "Called a hack by",
}
_SAID = {
    "yes": "acceptable",
    "no": "not acceptable",
    "unknown": "cannot tell",
    "any": "anything",
    "decided": "yes or no",
}


@dataclass(frozen=True, slots=True)
class Voice:
    """One label of a row, with what it rests on: the first requirements not met, checked quotes, a note."""

    label: Label
    requirements: Sequence[str]
    quotes: Sequence[str]
    note: str


@dataclass(frozen=True, slots=True)
class Case:
    """A trajectory with what people and the judge said of it."""

    trajectory: Trajectory
    people_said: str | None
    judge_said: str | None
    voices: Sequence[Voice]


class Addresses:
    """Addresses of lists of rows about the same version, judge and draw."""

    def __init__(self, numbers: Numbers) -> None:
        subject = {
            "version": numbers.version.name,
            "judge": numbers.config.digest if numbers.config else "",
            "sample": str(numbers.sample.public_id) if numbers.sample else "",
        }
        path = reverse("numbers-rows", args=[numbers.access.dataset.name])
        self._start = f"{path}?{urlencode({key: value for key, value in subject.items() if value})}"

    def __call__(self, **wanted: str) -> str:
        """The rows of the population that `wanted` leaves; empty filters are left out."""
        return self._start + "".join(f"&{key}={_quoted(value)}" for key, value in wanted.items() if value)

    def labeled(self, **wanted: str) -> str:
        """The same among everything that was labeled, drawn or not."""
        return self(**wanted, among="labeled")


_quoted = lru_cache(maxsize=1024)(quote_plus)
"""A page writes the same few values into a thousand addresses."""


def behind(request: HttpRequest, name: str) -> HttpResponse:
    """The trajectories that a figure counted, each with what people and the judge said of it and why."""
    numbers = numbers_for(request, name)
    wanted = chosen(request, FILTERS)
    of = Of(numbers.version, numbers.config, numbers.sample, everyone=request.GET.get("among") == "labeled")
    found, counted, more = _counted(request, rows(of, wanted), _known(numbers, of, wanted))
    shown = page_of(request, found.only("pk"))
    cases = _cases(numbers, _loaded(shown.rows))
    record_exposure(request, *(case.trajectory.task_id for case in cases))
    if file := csv_asked(request, numbers, [case_table(cases)]):
        return file
    context = {
        "page": shown,
        "cases": cases,
        "counted": counted,
        "more": more,
        "everyone": of.everyone,
        "chips": _chips(wanted),
        "back": reverse("numbers", args=[numbers.access.dataset.name]),
    }
    return page(request, numbers, "numbers/rows.html", context)


def case_table(cases: Iterable[Case]) -> Table:
    """A list of cases as a file: a row a trajectory, as on the page; nothing is cut short."""
    columns = ("trajectory", "task", "environment", "model", "agent", "effort", "verifier_status")
    return Table("cases", (*columns, "people_said", "judge_said", "rests_on"), [_case_row(case) for case in cases])


def _case_row(case: Case) -> tuple[object, ...]:
    row, source, task = case.trajectory, case.trajectory.source, case.trajectory.task
    of = (task.name, task.environment.name, source.model, source.agent, source.effort, source.verifier_status)
    return row.public_id, *of, case.people_said, case.judge_said, "\n".join(map(_voice, case.voices))


def _voice(voice: Voice) -> str:
    """Whose label it is and what it says, with all that it rests on."""
    said = _SAID.get(voice.label.acceptable or "", "no answer")
    parts = [*(f"not met: {text}" for text in voice.requirements), *(f"quote: {text}" for text in voice.quotes)]
    note = [f"note: {voice.note}"] if voice.note else []
    return "; ".join([f"{voice.label.labeler} ({voice.label.get_source_display()}): {said}", *parts, *note])


def _known(numbers: Numbers, of: Of, wanted: Mapping[str, str]) -> int | None:
    """How many rows there are by figures that hold today; None where they do not tell."""
    if of.everyone or numbers.stored.is_stale:
        return None
    return rows_counted(numbers.figures["by_stratum"], wanted, failing=of.failing)


def _counted(request: HttpRequest, found: Rows, known: int | None) -> tuple[Rows, int, bool]:
    """The rows with their number, and whether there are more than that.

    What was looked up whole is not asked for again: a walk through all others in order of age could be long before it
    has met a page of these.
    """
    if known is not None and known > FEW:
        return found, known, False
    keys = list(found.order_by().values_list("pk", flat=True)[: COUNTED + 1])
    if len(keys) <= COUNTED:
        return Trajectory.objects.filter(pk__in=near(request, keys, Trajectory)), len(keys), False
    return found, COUNTED, True


def _loaded(found: Iterable[Trajectory]) -> list[Trajectory]:
    """What is shown of these rows, in the same order: joined to them alone, not to all that were looked through."""
    keys = [row.pk for row in found]
    rows = Trajectory.objects.select_related("source", "task__environment")
    loaded = rows.defer(*(f"source__{name}" for name in BODIES)).in_bulk(keys)
    return [loaded[key] for key in keys]


def cases_of(numbers: Numbers, found: Rows, *, most: int) -> list[Case]:
    """The newest of some rows, as another page shows them in short."""
    return _cases(numbers, _loaded(found.only("pk").order_by("-id")[:most]))


def _chips(wanted: Mapping[str, str]) -> list[Filter]:
    return [Filter(key, _TITLES[key], [Choice(value, _word(value))], value) for key, value in wanted.items()]


def _word(value: str) -> str:
    return " and ".join(_SAID[part] for part in value.split("-")) if set(value.split("-")) <= _SAID.keys() else value


def _cases(numbers: Numbers, found: Sequence[Trajectory]) -> list[Case]:
    """Each row's labels by people and by this judge, with what they rest on: quotes and free text are for leads."""
    own = Q(config=numbers.config, replicate=0) if numbers.config else Q()
    said = labels(numbers.version).filter(Q(config=None) | own, trajectory__in=[row.pk for row in found])
    mine = list(said.order_by("source", "key"))
    reasons = _reasons(mine) if numbers.access.is_lead else {}
    voices: defaultdict[int, list[Voice]] = defaultdict(list)
    for label in mine:
        voices[label.trajectory_id].append(Voice(label, *reasons.get(label.key, ((), (), ""))))
    return [_case(row, voices[row.pk]) for row in found]


def _case(row: Trajectory, voices: Sequence[Voice]) -> Case:
    """A trajectory with what people said together, which is `Unit.human`, and the judge's label."""
    found = {source: [voice.label for voice in voices if voice.label.source == source] for source in LabelSource}
    people = [label.acceptable for source in PEOPLE for label in found[source]]
    settled = [label.acceptable for label in found[LabelSource.ADJUDICATED]]
    judge = next((label.acceptable for label in found[LabelSource.JUDGE]), None)
    return Case(row, human_answer(people, settled), judge, voices)


Reason = tuple[Sequence[str], Sequence[str], str]


def _reasons(found: Sequence[Label]) -> dict[int, Reason]:
    """By label: requirements not met, quotes of checked citations, a note."""
    judged = {row.judgment_id: row.key for row in found if row.judgment_id}
    failed: dict[int, list[str]] = {key: [] for key in judged.values()}
    cited: set[tuple[int, str]] = set()
    answers = CriterionAnswer.objects.filter(judgment__in=judged, status="not_met").order_by("id")
    for judgment, text, codes in answers.values_list("judgment_id", "requirement", "evidence"):
        failed[judged[judgment]].append(text)
        cited |= {(judgment, code) for code in codes}
    quotes = _quotes(judged, cited)
    reasons: dict[int, Reason] = {key: (failed[key][:QUOTES], quotes[key][:QUOTES], "") for key in judged.values()}
    return reasons | _peoples_reasons(found)


def _quotes(judged: Mapping[int, int], first: set[tuple[int, str]]) -> dict[int, list[str]]:
    """Checked quotes by label; `first` come those that show a requirement not met."""
    rows = list(
        CitedEvidence.objects.filter(judgment__in=judged, ok=True)
        .order_by("id")
        .values_list("judgment_id", "code", "quote")
    )
    found: dict[int, list[str]] = {key: [] for key in judged.values()}
    for judgment, _, text in sorted(rows, key=lambda row: (row[0], row[1]) not in first):
        found[judged[judgment]].append(text)
    return found


def _peoples_reasons(found: Sequence[Label]) -> dict[int, Reason]:
    """What people wrote: the note of an imported label; note and quotes of a grade, which is released if it is here."""
    by_id = {row.public_id: row.key for row in found if row.judgment_id is None}
    notes = ImportedLabel.objects.filter(public_id__in=by_id).values_list("public_id", "note")
    reasons: dict[int, Reason] = {by_id[public_id]: ((), (), note) for public_id, note in notes}
    grades = ReviewLabel.objects.filter(public_id__in=by_id).values_list("public_id", "grade__note", "grade__evidence")
    for public_id, note, evidence in grades:
        quoted = [str(item.get("quote", "")) for item in evidence if isinstance(item, dict) and item.get("quote")]
        reasons[by_id[public_id]] = ((), quoted[:QUOTES], note)
    return reasons
