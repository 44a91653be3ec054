"""Labels of every origin: the table, one label with its evidence, the export, the taxonomy."""

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from django.db.models import Count, Exists, Model, OuterRef, Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import render

from auditapp import blobs
from auditapp.counters import Counts
from auditapp.estimation import counts
from auditapp.exports import Row, csv_lines, jsonl_lines, label_rows, parquet_parts
from auditapp.heldout import left_out
from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import (
    CitedEvidence,
    CriterionAnswer,
    JudgeConfig,
    JudgeRun,
    Judgment,
    JudgmentTag,
    Outcome,
    RunState,
)
from auditapp.models.labels import (
    PEOPLE,
    Calibration,
    ImportedLabel,
    Label,
    LabelSource,
    calibrated,
    calibrations,
    labels,
)
from auditapp.models.reviews import Attribution, ReviewRound
from auditapp.models.rounds import ItemDraw, ReviewLabel
from auditapp.models.samples import Sample, SampleUnit
from auditapp.templatetags.marks import worded
from auditapp.views.access import READERS, Access, dataset_for, object_for, record_exposure, version_for
from auditapp.views.datasets import environment_id
from auditapp.views.listing import BODIES, CODED, MOST_CHIPS, Choice, Filter, chips, chosen, most_frequent, page_of
from auditapp.views.tables import About, Table, csv_asked
from judges.taxonomy import Side, taxonomy

_FIELDS = {
    "source": "source",
    "outcome": "outcome",
    "decision": "decision",
    "integrity": "integrity",
    "acceptable": "acceptable",
    "state": "state",
    "reason": "reason",
    "open": "outcome_reason",
    "judge": "config__digest",
    "labeler": "labeler",
    "replicate": "replicate",
    "status": "trajectory__source__verifier_status",
    "task": "trajectory__task__name",
    "model": "trajectory__source__model",
    "agent": "trajectory__source__agent",
    "effort": "trajectory__source__effort",
}
UNFINISHED = ("queued", "running")
_ENDED = "ended"  # no filter of the address: what the page leaves out by itself
_KEYS = (*_FIELDS, "environment", "tag", "by", "sample", "round", "cell")
LISTED = 5_000
ANSWERED = {"yes": "acceptable", "no": "not acceptable", "unknown": "no decision"}
T = TypeVar("T", bound=Model)
_RARER = {"state": "State", "reason": "Reason", "open": "Why no outcome"}


# Kinds of citations that cannot quote the hidden reference.
OPEN_KINDS = ("instruction", "step", "file", "verifier")
_SIDES: dict[Side, str] = {
    "agent": "Capability: what the agent got wrong",
    "environment": "Environment: what the task or its verifier got wrong",
    "process": "Behavior: how the agent worked, neither good nor bad",
    "integrity": "Hacks: success by other means than the work asked for",
}


def label_table(request: HttpRequest, name: str) -> HttpResponse:
    """Every label of a version, newest first; the address holds the filters."""
    access = dataset_for(request, name, roles=READERS)
    version = version_for(request, access)
    wanted = _wanted(request)
    hidden = 0 if "state" in wanted else _unfinished(version)
    parts = [rows.exclude(state__in=UNFINISHED) if hidden else rows for rows in _parts(version, wanted)]
    page = page_of(request, *map(_with_sources, parts), order=("key",))
    _attach_tags(page.rows)
    counted = counts(version)
    context = {
        "access": access,
        "dataset": access.dataset,
        "version": version,
        "page": page,
        "filters": _filters(version, counted, wanted, ended_only=bool(hidden)),
        "counted": counted,
        "wanted": wanted,
        "hidden": hidden,
        "compared": calibrated(version, configs={row.config_id for row in page.rows if row.config_id}),
    }
    return render(request, "labels/labels.html", context)


def _wanted(request: HttpRequest) -> dict[str, str]:
    """The filters of the address; a cell is one of a round, and means nothing once that is taken out."""
    found = chosen(request, _KEYS)
    return found if "round" in found else {key: value for key, value in found.items() if key != "cell"}


def _unfinished(version: DatasetVersion) -> int:
    """Judgments that may still come to something: those of runs that have not ended."""
    live = JudgeRun.objects.filter(sample__frame__version=version, state__in=(RunState.RUNNING, RunState.PAUSED))
    return Judgment.objects.filter(run__in=list(live), state__in=UNFINISHED).count()


def _filtered(version: DatasetVersion, wanted: dict[str, str]) -> QuerySet[Label]:
    """All labels that fit, as one query."""
    rows = _untold(version, wanted)
    for key, told in _TOLD.items():
        if key in wanted:
            judge, others = told(version, wanted[key])
            rows = rows.filter(Q(judge, source=LabelSource.JUDGE) | (others & ~Q(source=LabelSource.JUDGE)))
    return rows


def _untold(version: DatasetVersion, wanted: dict[str, str]) -> QuerySet[Label]:
    """Labels that fit but for the filters of `_TOLD`."""
    rows = labels(version)
    for key, field in _FIELDS.items():
        if key not in wanted or key == "labeler":
            continue
        value = wanted[key]
        if key == "replicate" and not value.isdecimal():  # nothing has what is no number
            return rows.none()
        rows = rows.filter(**{f"{field}__isnull": True} if value == "none" and key == "outcome" else {field: value})
    if name := wanted.get("environment"):
        rows = rows.filter(trajectory__task__environment=environment_id(version, name))
    if "by" in wanted:
        rows = rows.filter(source__in=PEOPLE if wanted["by"] == "people" else ())
    if "sample" in wanted:
        units = SampleUnit.objects.filter(sample=_sample(version, wanted["sample"]))
        rows = rows.filter(trajectory__in=units.values("trajectory"))
    if "round" in wanted:  # of reviewers alone, so that nothing looks for them among the judgments
        made = _of_round(_round(version, wanted["round"]), wanted.get("cell", ""))
        rows = rows.filter(source__in=(LabelSource.HUMAN, LabelSource.ADJUDICATED), key__in=made)
    return rows


def _with_sources(rows: QuerySet[Label]) -> QuerySet[Label]:
    found = rows.select_related("trajectory__source", "trajectory__task__environment")
    return found.defer(*(f"trajectory__source__{name}" for name in BODIES))


def _parts(version: DatasetVersion, wanted: dict[str, str]) -> list[QuerySet[Label]]:
    """The same list in parts that no OR joins: a judge's labels are found in other ways than a person's."""
    rows = _untold(version, wanted)
    told = [find(version, wanted[key]) for key, find in _TOLD.items() if key in wanted]
    if not told:
        return [rows]
    judge = Q(*(of_judge for of_judge, _ in told), source=LabelSource.JUDGE)
    others = Q(*(of_others for _, of_others in told))
    return [rows.filter(judge), rows.filter(others).exclude(source=LabelSource.JUDGE)]


def _made_by(_: DatasetVersion, name: str) -> tuple[Q, Q]:
    """A judge's labels are found by its configs, not by the name of each row; others' by the name."""
    configs = list(JudgeConfig.objects.filter(name=name).values_list("pk", flat=True))
    return Q(config=configs[0]) if len(configs) == 1 else Q(config__in=configs), Q(labeler=name)


def _tagged(version: DatasetVersion, code: str) -> tuple[Q, Q]:
    """Judgments that kept a code, and labels of people that came with it or were graded so."""
    kept = JudgmentTag.objects.filter(judgment=OuterRef("judgment"), code=code, kept=True)
    given = Q(key__in=[])
    if code in taxonomy().codes:
        for model in (ImportedLabel, ReviewLabel):
            texts = model.objects.filter(version=version).annotate(text=Cast("tags", TextField()))
            given |= Q(key__in=_few(texts.filter(text__contains=f'"{code}"').values_list(model.label_key, flat=True)))
    return Q(Exists(kept)), given


def _few(found: QuerySet[Any, int]) -> QuerySet[Any, int] | list[int]:
    """What is rare as its keys, by which an index finds it; what is not as it is, since there is no end to it."""
    keys = list(found[: LISTED + 1])
    return keys if len(keys) <= LISTED else found


_TOLD = {"labeler": _made_by, "tag": _tagged}
"""Filters that mean one thing of a judgment and another of a person's label."""


def _of_round(found: ReviewRound, cell: str) -> QuerySet[Any, int] | list[int]:
    """The labels that a round made, by key; with `cell`, of what the judge had said that when the round was drawn."""
    made = ReviewLabel.objects.filter(round=found)
    if cell:
        items = ItemDraw.objects.filter(item__round=found, stratum__answer=cell).values("item")
        made = made.filter(grade__slot__item__in=items)
    return _few(made.values_list(ReviewLabel.label_key, flat=True))


def _round(version: DatasetVersion, public_id: str) -> ReviewRound:
    return _of_version(ReviewRound.objects.filter(version=version), public_id)


def _sample(version: DatasetVersion, public_id: str) -> Sample:
    return _of_version(Sample.objects.filter(frame__version=version), public_id)


def _of_version(rows: QuerySet[T], public_id: str) -> T:
    """The one of this id; 404 where there is none of this version."""
    try:
        found = rows.filter(public_id=uuid.UUID(public_id)).first()
    except ValueError:
        found = None
    if found is None:
        raise Http404
    return found


def _attach_tags(rows: Any) -> None:
    """Give each row its codes: kept tags of judgments, the tags that an imported or a reviewer's label has."""
    judgments = [row.judgment_id for row in rows if row.judgment_id]
    codes: dict[int, list[str]] = {}
    kept = JudgmentTag.objects.filter(judgment__in=judgments, kept=True).order_by("code")
    for judgment, code in kept.values_list("judgment_id", "code"):
        codes.setdefault(judgment, []).append(code)
    others = [row.public_id for row in rows if not row.judgment_id]
    given: dict[uuid.UUID, list[str]] = {}
    for model in (ImportedLabel, ReviewLabel):
        given |= dict(model.objects.filter(public_id__in=others).values_list("public_id", "tags"))
    for row in rows:
        row.codes = codes.get(row.judgment_id, []) if row.judgment_id else given.get(row.public_id, [])


def _filters(version: DatasetVersion, counted: Counts, asked: dict[str, str], *, ended_only: bool) -> list[Filter]:
    """Chips with counts for what is asked first; the rest appears only where the address asks for it."""
    by, place = partial(_labels_among, counted), partial(counted.among, "label_places")
    wanted = asked | {_ENDED: "yes"} if ended_only else asked
    outcomes = [(value, str(name)) for value, name in [*Outcome.choices, ("none", "no outcome")]]
    filters = [
        chips("outcome", "Outcome", outcomes, partial(by, "outcome"), wanted, every=True),
        chips(
            "source", "Made by", [(key, str(name)) for key, name in LabelSource.choices], partial(by, "source"), wanted
        ),
        most_frequent("labeler", "Judge or person", partial(by, "labeler"), wanted),
        most_frequent("environment", "Environment", partial(place, "environment"), wanted),
        *(most_frequent(key, title, partial(by, key), wanted) for key, title in _RARER.items() if key in wanted),
        *([most_frequent("model", "Model", partial(place, "model"), wanted)] if "model" in wanted else []),
        *([_tag_filter(counted, asked)] if "tag" in asked else []),
    ]
    shown = [item for item in filters if len(item.choices) > 1 or item.chosen]
    others = [key for key in asked if key not in {item.key for item in shown}]
    return shown + [_asked(key, asked[key], version) for key in others]


def _asked(key: str, value: str, version: DatasetVersion) -> Filter:
    """A chip for what only the address asks for."""
    if key in _NAMED:
        title, name = _NAMED[key]
        return Filter(key, title, [Choice(value, name(version, value))], value)
    return Filter(key, key.capitalize(), [Choice(value, worded(value) if key in CODED else value)], value)


_NAMED: dict[str, tuple[str, Callable[[DatasetVersion, str], str]]] = {
    "sample": ("Draw", lambda version, value: str(_sample(version, value))),
    "round": ("Round", lambda version, value: str(_round(version, value))),
    "cell": ("Judge, when the round was drawn", lambda _, value: ANSWERED.get(value, value)),
}
"""Filters whose value is no name: what they are called, and how a value is."""


def _labels_among(counted: Counts, field: str, given: Mapping[str, str]) -> Counter[str] | None:
    """Labels by a field, those of no state of `UNFINISHED` where `_ENDED` is given.

    The address calls the outcome of those without one "none".
    """
    asked = {key: value for key, value in given.items() if key != _ENDED}
    if asked.get("outcome") == "none":
        asked["outcome"] = ""
    found = counted.among("labels", field, asked)
    if found is not None and _ENDED in given:
        for state in UNFINISHED:
            found -= counted.among("labels", field, {**asked, "state": state}) or Counter()
    if found is None or field != "outcome":
        return found
    return Counter({value or "none": n for value, n in found.items()})


def _tag_filter(counted: Counts, wanted: dict[str, str]) -> Filter:
    """Codes that judgments kept, counted where these are all labels there are and nothing else is asked for."""
    is_alone, code = len(wanted) == 1 and set(counted.labels("source")) <= {LabelSource.JUDGE}, wanted["tag"]
    rows = sorted(counted.tags().items())[:MOST_CHIPS]
    names = {each: f"{each} {taxonomy().codes[each].name.replace('_', ' ')}" for each, _ in rows}
    choices = [Choice(each, names[each], n if is_alone else None) for each, n in rows]
    return Filter("tag", "Tag", choices if code in names else [*choices, Choice(code, code)], code)


# --- one label


@dataclass(frozen=True, slots=True)
class Claim:
    """A criterion or tag of a judgment with the citations it rests on."""

    what: CriterionAnswer | JudgmentTag
    citations: list[CitedEvidence]


def label(request: HttpRequest, public_id: uuid.UUID) -> HttpResponse:
    """One label: what was decided, on what evidence, against which verdict."""
    objects = Label.objects.select_related("trajectory__source", "trajectory__task__environment", "config")
    access, found = object_for(request, objects, public_id, "version__dataset", roles=READERS)
    record_exposure(request, found.trajectory.task_id)
    context = {"access": access, "dataset": access.dataset, "label": found, "trajectory": found.trajectory}
    if found.judgment_id is None:
        return _of_a_person(request, public_id, context)
    judgment = Judgment.objects.select_related("run__sample", "config").get(pk=found.judgment_id)
    others = labels(found.version).filter(trajectory=found.trajectory).exclude(key=found.key).order_by("source", "key")
    context |= _verdict(judgment, access) | {"judgment": judgment, "others": others[:20]}
    config = judgment.config_id
    context["calibration"] = calibrations(found.version, configs=[config]).get(config, Calibration())
    return render(request, "labels/label.html", context)


def _of_a_person(request: HttpRequest, public_id: uuid.UUID, context: dict[str, Any]) -> HttpResponse:
    """A label made elsewhere, or a grade of a released round with its requirements and quotes."""
    graded = (
        ReviewLabel.objects.filter(public_id=public_id)
        .select_related("grade__slot__item__rubric", "round", "version")
        .first()
    )
    if graded is None:
        imported = ImportedLabel.objects.get(public_id=public_id)
        return render(request, "labels/imported.html", context | {"imported": imported})
    return render(request, "labels/graded.html", context | _graded(graded, context["access"]))


@dataclass(frozen=True, slots=True)
class Quote:
    """A reviewer's citation as the house marks of citations want it."""

    kind: str
    target: str
    part: str
    item: int
    line_start: int
    line_end: int
    quote: str
    ok: bool
    result: str
    detail: str


def _graded(graded: ReviewLabel, access: Access) -> dict[str, Any]:
    """A released grade in full. Where reviewers saw the reference, what can quote it is for leads."""
    grade, round_ = graded.grade, graded.round
    is_open = access.is_lead or not round_.shows_reference
    rubric = grade.slot.item.rubric
    texts = {row["id"]: row["text"] for row in rubric.requirements} if rubric else {}
    others = labels(graded.version).filter(trajectory=graded.trajectory_id).exclude(public_id=graded.public_id)
    quotes = [_quote(row) for row in grade.evidence if isinstance(row, dict)]
    return {
        "graded": graded,
        "grade": grade,
        "round": round_,
        "note": grade.note if is_open else None,
        "requirements": [(code, texts.get(code, ""), status) for code, status in grade.requirements.items()],
        "quotes": [row for row in quotes if access.is_lead or row.kind in OPEN_KINDS],
        "after": Attribution.objects.filter(grade=grade, submitted_at__isnull=False).first(),
        "others": others.order_by("source", "key")[:20],
    }


def _quote(row: dict[str, Any]) -> Quote:
    texts: dict[str, Any] = {name: str(row.get(name) or "") for name in ("kind", "target", "part", "quote", "detail")}
    places: dict[str, Any] = {name: int(row.get(name) or 0) for name in ("item", "line_start", "line_end")}
    return Quote(**texts, **places, ok=bool(row.get("ok")), result=str(row.get("result") or "not checked"))


def _verdict(judgment: Judgment, access: Access) -> dict[str, Any]:
    """Claims with their citations. What can tell of the hidden reference, free text among it, is for leads."""
    citations = judgment.citations.order_by("id")
    cited = {row.code: row for row in (citations if access.is_lead else citations.filter(kind__in=OPEN_KINDS))}
    criteria = [_claim(row, cited) for row in judgment.criteria.order_by("id")]
    tags = [_claim(row, cited) for row in judgment.tags.order_by("id")]
    used = {row.code for claim in (*criteria, *tags) for row in claim.citations}
    return {
        "criteria": criteria,
        "tags": tags,
        "other_citations": [row for code, row in cited.items() if code not in used],
        "blind": blobs.get_json(judgment.blind_blob) if judgment.blind_blob and access.is_lead else None,
        "attribution": blobs.get_json(judgment.attribution_blob)
        if judgment.attribution_blob and access.is_lead
        else None,
        "executions": judgment.executions.order_by("id").annotate(n_calls=Count("calls")),
    }


def _claim(row: CriterionAnswer | JudgmentTag, cited: dict[str, CitedEvidence]) -> Claim:
    return Claim(row, [cited[code] for code in row.evidence if code in cited])


# --- taking them away


def export(request: HttpRequest, name: str) -> HttpResponse | StreamingHttpResponse:
    """The page of the export, and with `format` the file itself, streamed; evidence is for leads alone."""
    access = dataset_for(request, name, roles=READERS)
    version = version_for(request, access)
    kind = request.GET.get("format", "")
    wanted = _wanted(request)
    with_held_out = request.GET.get("held_out") == "yes"
    missing = left_out(version, _filtered(version, wanted))
    if not kind:
        n = _filtered(version, wanted).count()
        context = {"access": access, "dataset": access.dataset, "version": version, "wanted": wanted}
        context |= {"missing": missing, "with_held_out": with_held_out, "n": n if with_held_out else n - missing.labels}
        return render(request, "labels/export.html", context)
    only = _filtered(version, wanted) if wanted else None
    rows = label_rows(version, with_evidence=access.is_lead, with_held_out=with_held_out, only=only)
    suffix = "-without-held-out" if missing.labels and not with_held_out else ""
    return _file(rows, kind, f"{access.dataset.name}-{version.name}-labels{suffix}")


_KINDS: dict[str, tuple[Callable[[Iterator[Row]], Iterator[str] | Iterator[bytes]], str]] = {
    "csv": (csv_lines, "text/csv; charset=utf-8"),
    "jsonl": (jsonl_lines, "application/jsonl; charset=utf-8"),
    "parquet": (parquet_parts, "application/vnd.apache.parquet"),
}


def _file(rows: Iterator[Row], kind: str, name: str) -> StreamingHttpResponse:
    if kind not in _KINDS:
        raise Http404
    written, content_type = _KINDS[kind]
    response = StreamingHttpResponse(written(rows), content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}.{kind}"'
    return response


def taxonomy_page(request: HttpRequest) -> HttpResponse:
    """Every code with its definition and examples."""
    sides = [(title, taxonomy().side(side)) for side, title in _SIDES.items()]
    return csv_asked(request, About(None), [_code_table()]) or render(
        request, "labels/taxonomy.html", {"taxonomy": taxonomy(), "sides": sides}
    )


def _code_table() -> Table:
    fields = ("code", "side", "name", "definition", "note_required", "yes", "no", "judge", "review")
    version, sides = taxonomy().version, _SIDES
    rows = [(version, *(getattr(code, field) for field in fields)) for side in sides for code in taxonomy().side(side)]
    return Table("taxonomy", ("taxonomy_version", *fields), rows)
