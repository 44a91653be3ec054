"""The trajectories behind a figure: the same answers as in `observations`, asked of the database page by page."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, CharField, Exists, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce

from auditapp.models.datasets import DatasetVersion, Trajectory
from auditapp.models.judgments import JudgeConfig, Judgment
from auditapp.models.labels import ImportedLabel, LabelKind
from auditapp.models.rounds import ReviewLabel, ReviewLabelKind
from auditapp.models.samples import Sample, SampleUnit
from auditapp.observations import phases

ANSWERS = ("yes", "no", "unknown")
FILTERS = (
    *("verdict", "environment", "model", "agent", "effort"),
    *("people_said", "pair", "judge_said", "judge_after", "other", "other_said", "differ", "split", "hack"),
)
"""What the address of a list of rows may ask for; `other` names a judge whose labels were imported."""
AFTER = {"yes": "satisfied", "no": "not_satisfied", "unknown": "cannot_tell"}

Rows = QuerySet[Trajectory, Trajectory]


@dataclass(frozen=True, slots=True)
class Of:
    """Whose figure it is: version, judge and draw. `everyone` takes in what was labeled and not drawn."""

    version: DatasetVersion
    config: JudgeConfig | None
    sample: Sample | None
    everyone: bool = False

    @property
    def failing(self) -> tuple[str, ...]:
        """Verifier statuses that count as a fail."""
        return ("fail", "partial") if self.version.partial_counts_as == "fail" else ("fail",)


def rows(of: Of, wanted: Mapping[str, str]) -> Rows:
    """The trajectories that `wanted` leaves of the figure's population; what it does not name is left open."""
    found = _population(of)
    for key, value in wanted.items():
        found = _NARROWED[key](found, of, value, wanted)
    return found


def with_answers(found: Rows, of: Of) -> Rows:
    """The same rows, each with what people and the judge said: yes, no, unknown, or None."""
    return found.annotate(people_said=_people(), judge_said=_judge(of))


def _population(of: Of) -> Rows:
    """Drawn with a verdict that counts, as `observe` takes them; or all but controls."""
    found = Trajectory.objects.filter(version=of.version, source__is_control=False)
    if of.everyone:
        return found
    if of.sample is not None:
        return found.filter(pk__in=SampleUnit.objects.filter(sample=of.sample).values("trajectory"))
    return found.filter(source__verifier_status__in=("pass", *of.failing))


def _verdict(found: Rows, of: Of, value: str, _: Mapping[str, str]) -> Rows:
    """By the verdict at the draw, where there is one: rulings after it do not move a unit."""
    statuses = {"pass": ("pass",), "fail": of.failing}.get(value, (value,))
    if of.sample is None or of.everyone:
        return found.filter(source__verifier_status__in=statuses)
    return found.filter(pk__in=_drawn(of, verifier_status__in=statuses))


def _cell(field: str, path: str) -> Callable[[Rows, Of, str, Mapping[str, str]], Rows]:
    def narrowed(found: Rows, of: Of, value: str, _: Mapping[str, str]) -> Rows:
        if of.sample is None or of.everyone:
            return found.filter(**{path: value})
        return found.filter(pk__in=_drawn(of, **{field: value}))

    return narrowed


def _drawn(of: Of, **stratum: object) -> QuerySet[SampleUnit, Any]:
    units = SampleUnit.objects.filter(sample=of.sample, **{f"stratum__{key}": value for key, value in stratum.items()})
    return units.values("trajectory")


# --- people


def _labels(acceptable: str | None = None) -> Q:
    """Whether a person, by themselves, said this of the trajectory at hand."""
    said = {"trajectory": OuterRef("pk")} | ({"acceptable": acceptable} if acceptable else {})
    imported = ImportedLabel.objects.filter(kind=LabelKind.HUMAN, **said)
    released = ReviewLabel.objects.filter(kind=ReviewLabelKind.HUMAN, **said)
    return Q(Exists(imported)) | Q(Exists(released))


def _people() -> Case:
    """What people said together, as `Unit.human`: the newest adjudicated answer, else what all agree on."""
    settled = ReviewLabel.objects.filter(kind=ReviewLabelKind.ADJUDICATED, trajectory=OuterRef("pk"))
    newest = settled.order_by("-id").values("acceptable")[:1]
    alone = {
        answer: _labels(answer) & ~Q(*(_labels(other) for other in ANSWERS if other != answer), _connector=Q.OR)
        for answer in ("yes", "no")
    }
    return Case(
        When(Exists(settled), then=Subquery(newest)),
        When(alone["yes"], then=Value("yes")),
        When(alone["no"], then=Value("no")),
        When(_labels(), then=Value("unknown")),
        default=None,
        output_field=CharField(null=True),
    )


def _labeled(version: DatasetVersion) -> Q:
    """Trajectories that any person has labeled: few, so that the rest is asked of them alone."""
    imported = ImportedLabel.objects.filter(version=version, kind=LabelKind.HUMAN).values("trajectory")
    return Q(pk__in=imported) | Q(pk__in=ReviewLabel.objects.filter(version=version).values("trajectory"))


def _by_people(found: Rows, of: Of, value: str, _: Mapping[str, str]) -> Rows:
    labeled = found.filter(_labeled(of.version)).annotate(people_said=_people())
    if of.sample and not of.everyone:
        labeled = labeled.exclude(pk__in=phases(of.sample).late)
    return _answered(labeled, "people_said", value)


def _pair(found: Rows, of: Of, value: str, _wanted: Mapping[str, str]) -> Rows:
    """Two people, in order of their names, who said `first-second`."""
    first, _, second = value.partition("-")
    kinds = ((ImportedLabel, LabelKind.HUMAN), (ReviewLabel, ReviewLabelKind.HUMAN))
    both = Q()
    for model, kind in kinds:
        for other, other_kind in kinds:
            later = other._default_manager.filter(
                kind=other_kind,
                acceptable=second,
                trajectory=OuterRef("trajectory"),
                labeler__gt=OuterRef("labeler"),
            )
            said = model._default_manager.filter(kind=kind, acceptable=first, trajectory=OuterRef("pk"))
            both |= Q(Exists(said.filter(Exists(later))))
    return found.filter(_labeled(of.version)).filter(both)


# --- judges


def _judge(of: Of) -> Coalesce | Value:
    if of.config is None:
        return Value(None, output_field=CharField(null=True))
    looks = Judgment.objects.filter(trajectory=OuterRef("pk"), config=of.config, replicate=0)
    return Coalesce(Subquery(looks.values("acceptable")[:1]), Value(None), output_field=CharField(null=True))


def _by_judge(found: Rows, of: Of, value: str, _: Mapping[str, str]) -> Rows:
    """`undecided` is every way of not deciding, a failed or missing look among them; `unknown` is the answer."""
    said = found.annotate(judge_said=_judge(of))
    if value == "undecided":
        return said.filter(Q(judge_said__isnull=True) | Q(judge_said="unknown"))
    return _answered(said, "judge_said", value)


def _after(found: Rows, of: Of, value: str, _: Mapping[str, str]) -> Rows:
    """What the judge said after it had seen the verdict, which never is its label."""
    looks = Judgment.objects.filter(config=of.config, replicate=0, decision_after=AFTER.get(value, value))
    return found.filter(pk__in=looks.values("trajectory"))


def _by_other(found: Rows, of: Of, value: str, wanted: Mapping[str, str]) -> Rows:
    said = ImportedLabel.objects.filter(version=of.version, kind=LabelKind.JUDGE, labeler=value)
    answer = wanted.get("other_said")
    if answer:
        said = said.filter(acceptable__in=("yes", "no") if answer == "decided" else (answer,))
    return found.filter(pk__in=said.values("trajectory"))


def _answered(found: Rows, field: str, value: str) -> Rows:
    if value == "any":
        return found.filter(**{f"{field}__isnull": False})
    return found.filter(**{f"{field}__in": ("yes", "no") if value == "decided" else (value,)})


def _differ(found: Rows, of: Of, value: str, wanted: Mapping[str, str]) -> Rows:
    """Both decided, and not the same: `judge` against people, or `people` among themselves."""
    if value == "people":
        return found.filter(_labeled(of.version)).filter(_labels("yes"), _labels("no"))
    both = _by_judge(_by_people(found, of, "decided", wanted), of, "decided", wanted)
    return both.filter(Q(people_said="yes", judge_said="no") | Q(people_said="no", judge_said="yes"))


def _split(found: Rows, of: Of, _value: str, _: Mapping[str, str]) -> Rows:
    """The judge said yes in one look and no in another."""
    looks = Judgment.objects.filter(trajectory=OuterRef("pk"), config=of.config)
    return found.filter(Exists(looks.filter(acceptable="yes")), Exists(looks.filter(acceptable="no")))


def _hack(found: Rows, of: Of, value: str, _: Mapping[str, str]) -> Rows:
    """Called a hack by any person, unless an adjudication settled it, or by the judge."""
    hacked = {"trajectory": OuterRef("pk"), "integrity": "hacked"}
    if value == "judge":
        return found.filter(Exists(Judgment.objects.filter(config=of.config, replicate=0, **hacked)))
    imported = ImportedLabel.objects.filter(kind=LabelKind.HUMAN, **hacked)
    anyone = Exists(imported) | Exists(ReviewLabel.objects.filter(kind=ReviewLabelKind.HUMAN, **hacked))
    ruled = ReviewLabel.objects.filter(kind=ReviewLabelKind.ADJUDICATED, trajectory=OuterRef("pk"))
    settled = found.annotate(ruled=Subquery(ruled.order_by("-id").values("integrity")[:1]))
    called = settled.filter(Q(ruled="hacked") | Q(ruled__isnull=True) & anyone)
    return called.exclude(pk__in=phases(of.sample).late) if of.sample and not of.everyone else called


def _as_it_is(found: Rows, _of: Of, _value: str, _wanted: Mapping[str, str]) -> Rows:
    return found


_NARROWED: dict[str, Callable[[Rows, Of, str, Mapping[str, str]], Rows]] = {
    "verdict": _verdict,
    "environment": _cell("environment", "task__environment__name"),
    "model": _cell("model", "source__model"),
    "agent": _cell("agent", "source__agent"),
    "effort": _cell("effort", "source__effort"),
    "people_said": _by_people,
    "pair": _pair,
    "judge_said": _by_judge,
    "judge_after": _after,
    "other": _by_other,
    "other_said": _as_it_is,  # narrows `other`
    "differ": _differ,
    "split": _split,
    "hack": _hack,
}
