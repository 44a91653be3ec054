"""The trajectories behind a figure: the same answers as in `observations`, asked of the database page by page."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from auditapp.models.datasets import DatasetVersion, Trajectory
from auditapp.models.judgments import JudgeConfig, Judgment
from auditapp.models.labels import ImportedLabel, LabelKind
from auditapp.models.rounds import ReviewLabel, ReviewLabelKind
from auditapp.models.samples import Sample, SampleUnit, Stratum
from auditapp.models.sources import TrajectorySource
from auditapp.observations import late

DECIDED = ("yes", "no")
ANSWERS = (*DECIDED, "unknown")
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
    found = _population(of, {key: value for key, value in wanted.items() if key in _PLACES})
    for key, value in wanted.items():
        if key in _NARROWED:
            found = _NARROWED[key](found, of, value, wanted)
    return found


def _population(of: Of, place: Mapping[str, str]) -> Rows:
    """Drawn with a verdict that counts, as `observe` takes them; or all but controls. `place` is a part of it.

    A draw is cut by what its strata say, so that rulings after it do not move a unit; no control is ever drawn.
    """
    if of.everyone or of.sample is None:
        counting = Q() if of.everyone else Q(source__verifier_status__in=("pass", *of.failing))
        return Trajectory.objects.filter(_no_control(of.version), counting, _matching(of, place, _PLACES))
    units = SampleUnit.objects.filter(sample=of.sample)
    if place:
        strata = Stratum.objects.filter(_matching(of, place, {}), frame=of.sample.frame_id)
        units = units.filter(stratum__in=list(strata.values_list("pk", flat=True)))
    return Trajectory.objects.filter(version=of.version, pk__in=units.values("trajectory"))


def _no_control(version: DatasetVersion) -> Q:
    """All of a version but controls: these are few and have an index, while the rest would be read whole to tell."""
    controls = TrajectorySource.objects.filter(version=version, is_control=True, trajectory=OuterRef("pk"))
    return Q(~Exists(controls), version=version)


_PLACES = {
    "verdict": "source__verifier_status",
    "environment": "task__environment__name",
    "model": "source__model",
    "agent": "source__agent",
    "effort": "source__effort",
}


def _matching(of: Of, place: Mapping[str, str], paths: Mapping[str, str]) -> Q:
    """Verdict and cell by these paths; without one by the columns of a stratum."""
    found = Q(**{paths.get(key, key): value for key, value in place.items() if key != "verdict"})
    if verdict := place.get("verdict"):
        statuses = {"pass": ("pass",), "fail": of.failing}.get(verdict, (verdict,))
        found &= Q(**{f"{paths.get('verdict', 'verifier_status')}__in": statuses})
    return found


# --- people


@dataclass(frozen=True, slots=True)
class _People:
    """What people said in a version, of the origins that there are: a database asks each of every row again.

    `by_hand` are labels of single people, `settled` what came of adjudications, None where there were none.
    """

    by_hand: Sequence[QuerySet[Any, Any]]
    settled: QuerySet[ReviewLabel] | None

    def anyone(self, said: Q) -> Q:
        """Whether a person said this of the trajectory at hand."""
        found = (Q(Exists(labels.filter(said, trajectory=OuterRef("pk")))) for labels in self.by_hand)
        return Q(*found, _connector=Q.OR) if self.by_hand else Q(pk__in=[])

    def with_rulings(self, found: Rows, field: str) -> Rows:
        """The rows, each with the newest adjudicated answer as `ruled`."""
        if self.settled is None:
            return found
        newest = self.settled.filter(trajectory=OuterRef("pk")).order_by("-id").values(field)[:1]
        return found.alias(ruled=Subquery(newest))

    def unless_ruled(self, answers: Sequence[str], otherwise: Q) -> Q:
        """Whether an adjudication gave one of these answers, or there was none and the rest holds."""
        return otherwise if self.settled is None else Q(ruled__in=answers) | Q(otherwise, ruled__isnull=True)

    def together(self, answer: str) -> Q:
        """Whether people said this together, as `human_answer`: by a ruling, else what all agree on.

        Asked of what people labeled alone, so that nobody who said otherwise is everybody who said this.
        """
        agreed = {said: ~self.anyone(~Q(acceptable=said)) for said in DECIDED}
        agreed |= {"unknown": ~agreed["yes"] & ~agreed["no"], "decided": agreed["yes"] | agreed["no"]}
        return self.unless_ruled(_answers(answer), agreed.get(answer, Q(pk__in=[])))


def _people(version: DatasetVersion) -> _People:
    imported = ImportedLabel.objects.filter(version=version, kind=LabelKind.HUMAN)
    released = ReviewLabel.objects.filter(version=version, kind=ReviewLabelKind.HUMAN)
    settled = ReviewLabel.objects.filter(version=version, kind=ReviewLabelKind.ADJUDICATED)
    by_hand = [found for found in (imported, released) if found.exists()]
    return _People(by_hand, settled if settled.exists() else None)


def _labeled(version: DatasetVersion) -> Q:
    """Trajectories that any person has labeled: few, so that the rest is asked of them alone.

    One list of both origins: with two, joined by OR, a database goes through every trajectory.
    """
    imported = ImportedLabel.objects.filter(version=version, kind=LabelKind.HUMAN).order_by().values("trajectory")
    released = ReviewLabel.objects.filter(version=version).order_by().values("trajectory")
    return Q(pk__in=imported.union(released))


def _seen(found: Rows, of: Of) -> Rows:
    """Those that people labeled, without what came too late to be part of a draw."""
    labeled = found.filter(_labeled(of.version))
    return labeled.exclude(pk__in=late(of.sample)) if of.sample and not of.everyone else labeled


def _by_people(found: Rows, of: Of, value: str, _: Mapping[str, str]) -> Rows:
    if value == "any":
        return _seen(found, of)
    people = _people(of.version)
    return people.with_rulings(_seen(found, of), "acceptable").filter(people.together(value))


def _pair(found: Rows, of: Of, value: str, _wanted: Mapping[str, str]) -> Rows:
    """Two people, in order of their names, who said `first-second`."""
    first, _, second = value.partition("-")
    by_hand, both = _people(of.version).by_hand, Q(pk__in=[])
    for one, other in product(by_hand, by_hand):
        later = other.filter(acceptable=second, trajectory=OuterRef("trajectory"), labeler__gt=OuterRef("labeler"))
        both |= Q(Exists(one.filter(Exists(later), acceptable=first, trajectory=OuterRef("pk"))))
    return found.filter(_labeled(of.version)).filter(both)


# --- judges


def _looks(of: Of, *answers: str) -> QuerySet[Judgment, Any]:
    """The trajectories of which the judge gave one of these answers, in the look that is its label."""
    looks = Judgment.objects.filter(config=of.config, replicate=0, acceptable__in=answers)
    return (looks if of.config else looks.none()).values("trajectory")


def _by_judge(found: Rows, of: Of, value: str, _: Mapping[str, str]) -> Rows:
    """`undecided` is every way of not deciding, a failed or missing look among them; `unknown` is the answer."""
    if value == "undecided":
        return found.filter(~Exists(_looks(of, *DECIDED).filter(trajectory=OuterRef("pk"))))
    return found.filter(pk__in=_looks(of, *_answers(value)))


def _answers(value: str) -> tuple[str, ...]:
    return {"any": ANSWERS, "decided": DECIDED}.get(value, (value,))


def _after(found: Rows, of: Of, value: str, _: Mapping[str, str]) -> Rows:
    """What the judge said after it had seen the verdict, which never is its label."""
    looks = Judgment.objects.filter(config=of.config, replicate=0, decision_after=AFTER.get(value, value))
    return found.filter(pk__in=looks.values("trajectory"))


def _by_other(found: Rows, of: Of, value: str, wanted: Mapping[str, str]) -> Rows:
    said = ImportedLabel.objects.filter(version=of.version, kind=LabelKind.JUDGE, labeler=value)
    answer = wanted.get("other_said")
    if answer:
        said = said.filter(acceptable__in=_answers(answer))
    return found.filter(pk__in=said.values("trajectory"))


def _differ(found: Rows, of: Of, value: str, _: Mapping[str, str]) -> Rows:
    """Both decided, and not the same: `judge` against people, or `people` among themselves."""
    people = _people(of.version)
    if value == "people":
        both = (people.anyone(Q(acceptable=said)) for said in DECIDED)
        return found.filter(_labeled(of.version), *both)
    decided = _looks(of, *DECIDED).filter(trajectory=OuterRef("pk")).values("acceptable")[:1]
    compared = people.with_rulings(_seen(found, of).alias(judged=Subquery(decided)), "acceptable")
    against = (Q(people.together(said), judged=other) for said, other in (DECIDED, DECIDED[::-1]))
    return compared.filter(Q(*against, _connector=Q.OR))


def _split(found: Rows, of: Of, _value: str, _: Mapping[str, str]) -> Rows:
    """The judge said yes in one look and no in another."""
    looks = Judgment.objects.filter(trajectory=OuterRef("pk"), config=of.config)
    again = Judgment.objects.filter(config=of.config, replicate__gt=0).values("trajectory")
    both = Q(Exists(looks.filter(acceptable="yes"))) & Q(Exists(looks.filter(acceptable="no")))
    return found.filter(both, pk__in=again)


def _hack(found: Rows, of: Of, value: str, _: Mapping[str, str]) -> Rows:
    """Called a hack by any person, unless an adjudication settled it, or by the judge."""
    if value == "judge":
        looks = Judgment.objects.filter(config=of.config, replicate=0, integrity="hacked")
        return found.filter(pk__in=looks.values("trajectory"))
    people = _people(of.version)
    called = people.unless_ruled(["hacked"], people.anyone(Q(integrity="hacked")))
    return people.with_rulings(_seen(found, of), "integrity").filter(called)


_NARROWED: dict[str, Callable[[Rows, Of, str, Mapping[str, str]], Rows]] = {
    "people_said": _by_people,
    "pair": _pair,
    "judge_said": _by_judge,
    "judge_after": _after,
    "other": _by_other,
    "differ": _differ,
    "split": _split,
    "hack": _hack,
}
"""Filters beside those of _PLACES; `other_said` narrows `other`."""
