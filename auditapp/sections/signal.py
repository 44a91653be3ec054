"""What attempts at the same task say: pass curves, informative groups, tasks at both tails, and tags."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from auditapp.models.datasets import Task
from auditapp.observations import Arm, Observations, attempts
from auditapp.sections.figures import Answer, Json, by_judge, by_people, figure
from auditapp.sections.rates import UNCALIBRATED
from auditapp.sections.shapes import (
    LINE,
    NONE,
    NONE_JUDGED,
    NONE_TOLD,
    Tags,
    asked_of_people,
    judge_tags,
    people_tags,
    told_by_judge,
    told_of_environment,
)
from auditapp.stats.advantages import (
    Convention,
    GroupCount,
    group_advantages,
    wrong_push,
    wrong_push_for_new_tasks,
)
from auditapp.stats.attempts import (
    BetaBinomial,
    Count,
    TaskMean,
    fit_beta_binomial,
    informative_fraction,
    informative_under,
    mean_pass_at_k,
    mean_pass_hat_k,
)
from auditapp.stats.passrates import (
    BAND,
    PARTS,
    GradedCount,
    corrected_passes,
    informative_bounds,
    part_of,
    shape_of,
    share_of_units,
    verdict_shares,
)
from auditapp.stats.proportions import InsufficientData, proportion

GROUP, LARGEST_K, BINS = 16, 32, 10
GROUPS = (4, 8, 16, 32, 64)
CONVENTIONS: tuple[tuple[Convention, str], ...] = (
    ("population", "GRPO, population deviation"),
    ("sample", "GRPO as in TRL, sample deviation"),
    ("none", "Dr. GRPO, no division"),
)
ROW = (
    *("task", "subject", "attempts", "passes"),
    *("people_right_passes", "people_wrong_passes", "people_right_fails", "people_wrong_fails"),
    *("judge_right_passes", "judge_wrong_passes", "judge_right_fails", "judge_wrong_fails"),
)


@dataclass(frozen=True, slots=True)
class Attempted:
    """One unit: a task and a subject (their numbers in the tables beside it), its attempts, and who decided what."""

    task: int
    subject: int
    people: GradedCount
    judge: GradedCount

    @property
    def tally(self) -> Count:
        return self.people.attempts, self.people.passes


def distribution(seen: Observations) -> Json:
    """Attempts per task, model, agent and effort of the whole version: curves over all, and for each model."""
    found = attempts(seen.version, seen.failing)
    if not found:
        return figure(InsufficientData("no trajectory has a verdict that counts"))
    subjects = sorted({arm[1:] for arm in found})
    tasks = _tasks({arm[0] for arm in found})
    rows = _rows(seen, found, {pk: at for at, (pk, *_) in enumerate(tasks)}, {s: at for at, s in enumerate(subjects)})
    named = [{"model": model, "agent": agent, "effort": effort} for model, agent, effort in subjects]
    by_subject = [[row for row in rows if row.subject == number] for number in range(len(subjects))]
    return {
        "unit": "task × model × agent × effort",
        **curves(rows),
        "by_subject": [name | curves(some) for name, some in zip(named, by_subject, strict=True)],
        "false_pass_advantage": figure(_push([_group_count(row.people) for row in rows], GROUP, "population")),
        "signal": signal(rows, len(subjects), group=GROUP),
        "tasks": [{"id": str(public_id), "name": name, "environment": where} for _, public_id, name, where in tasks],
        "subjects": named,
        "row": list(ROW),
        "rows": [_packed(row) for row in rows],
    }


def _tasks(wanted: set[int]) -> list[tuple[object, ...]]:
    fields = ("pk", "public_id", "name", "environment__name")
    ordered = Task.objects.order_by("environment__name", "name", "pk").values_list(*fields)
    return [row for row in ordered.filter(trajectories__source__isnull=False).distinct() if row[0] in wanted]


def _rows(
    seen: Observations,
    found: Mapping[Arm, Sequence[tuple[int, bool]]],
    tasks: Mapping[object, int],
    subjects: Mapping[tuple[str, ...], int],
) -> list[Attempted]:
    people, judge = _answers(seen, by_people), _answers(seen, by_judge)
    return sorted(
        (
            Attempted(tasks[task], subjects[tuple(subject)], _graded(tries, people), _graded(tries, judge))
            for (task, *subject), tries in found.items()
        ),
        key=lambda row: (row.task, row.subject),
    )


def _answers(seen: Observations, answer: Answer) -> dict[int, str | None]:
    return {unit.trajectory: answer(unit) for unit in seen.units}


def _graded(tries: Sequence[tuple[int, bool]], said: Mapping[int, str | None]) -> GradedCount:
    """A fail is right where the work is not acceptable."""
    found = Counter((passed, said.get(trajectory)) for trajectory, passed in tries)
    passes = sum(passed for _, passed in tries)
    decided = found[True, "yes"], found[True, "no"], found[False, "no"], found[False, "yes"]
    return GradedCount(len(tries), passes, *decided)


def _packed(row: Attempted) -> list[int]:
    """The unit under the names of `ROW`."""
    said = ((c.right_passes, c.wrong_passes, c.right_fails, c.wrong_fails) for c in (row.people, row.judge))
    return [row.task, row.subject, *row.tally, *chain.from_iterable(said)]


def unpacked(found: Json) -> list[Attempted]:
    """The units of a stored `distribution`."""
    rows = found.get("rows", [])
    return [Attempted(r[0], r[1], GradedCount(*r[2:8]), GradedCount(r[2], r[3], *r[8:12])) for r in rows]


def curves(rows: Sequence[Attempted]) -> Json:
    """pass@k and pass^k as far as the attempts reach, the informative fraction, and the histogram of pass rates."""
    counts, tasks = [row.tally for row in rows], [row.task for row in rows]
    ks = range(1, min(LARGEST_K, max(n for n, _ in counts)) + 1)
    return {
        "units": len(counts),
        "attempts": sum(n for n, _ in counts),
        "fewest_attempts": min(n for n, _ in counts),
        "pass_at_k": {str(k): figure(mean_pass_at_k(counts, k, tasks=tasks)) for k in ks},
        "pass_hat_k": {str(k): figure(mean_pass_hat_k(counts, k, tasks=tasks)) for k in ks},
        "informative": {"group": GROUP, **figure(informative_fraction(counts, GROUP, tasks=tasks))},
        "histogram": histogram(counts),
        "parts": _parts(rows),
        "modality": _modality(counts),
    }


def histogram(counts: Sequence[Count]) -> Json:
    """Units by pass rate: none passed and all passed apart, ten bins between."""
    between = Counter(min(BINS - 1, c * BINS // n) for n, c in counts if 0 < c < n)
    return {
        "none": sum(c == 0 for _, c in counts),
        "all": sum(c == n for n, c in counts),
        "between": [between[number] for number in range(BINS)],
        "edges": [f"{number * 100 // BINS}–" if number else ">0" for number in range(BINS)],
    }


def _parts(rows: Sequence[Attempted]) -> Json:
    """How many units, and which share of them, lie in each part of the range of pass rates; parts exclude each other.

    Discarded are those whose attempts all ended alike: dynamic sampling draws them and learns nothing.
    """
    tasks, parts = [row.task for row in rows], [part_of(*row.tally) for row in rows]
    members: dict[str, list[bool]] = {part: [found == part for found in parts] for part in PARTS}
    members["discarded"] = [found in ("expansion", "saturated") for found in parts]
    shares = {part: _share(tasks, inside) for part, inside in members.items()}
    return {"band": list(BAND), **shares}


def _share(tasks: Sequence[int], inside: Sequence[bool]) -> Json:
    return {"units": sum(inside), "of": len(inside), "share": figure(share_of_units(tasks, inside))}


def _modality(counts: Sequence[tuple[int, float]]) -> Json:
    """The form of the distribution of pass rates that fits best: two heaps are tasks of all or nothing."""
    fitted = fit_beta_binomial(counts)
    if isinstance(fitted, InsufficientData):
        return figure(fitted)
    return {"a": fitted.a, "b": fitted.b, "shape": shape_of(fitted), "units": fitted.tasks}


# --- against the size of a group


def signal(rows: Sequence[Attempted], subjects: int, *, group: int) -> Json:
    """What training in groups of this size would get: over all units, and for each subject."""
    some = ([row for row in rows if row.subject == number] for number in range(subjects))
    return {"group": group, "all": signal_of(rows, group), "by_subject": [signal_of(found, group) for found in some]}


def signal_of(rows: Sequence[Attempted], group: int) -> Json:
    """Of some units: informative groups, measured and corrected by people, and the advantage that false passes get."""
    counts, tasks = [row.tally for row in rows], [row.task for row in rows]
    fitted = fit_beta_binomial(counts)
    sizes = sorted({*GROUPS, group})
    return {
        "informative": figure(_informative(counts, tasks, fitted, group)),
        "against_group": {str(size): figure(_informative(counts, tasks, fitted, size)) for size in sizes},
        "corrected": _corrected(rows, group),
        "bounds": figure(informative_bounds([row.people for row in rows], group)),
        "push": {
            "people": _pushes(rows, [row.people for row in rows], group),
            "judge": _pushes(rows, [row.judge for row in rows], group),
        },
    }


def _informative(
    counts: Sequence[Count], tasks: Sequence[int], fitted: BetaBinomial | InsufficientData, group: int
) -> TaskMean | InsufficientData:
    """As `informative_fraction`, with a fit that is made once for all sizes."""
    if all(n >= group for n, _ in counts):
        return informative_fraction(counts, group, tasks=tasks)
    if isinstance(fitted, InsufficientData):
        return fitted
    left_out = len(counts) - fitted.tasks
    return TaskMean(informative_under(fitted, group), None, None, None, fitted.tasks, left_out, "beta-binomial", True)


def _corrected(rows: Sequence[Attempted], group: int) -> Json:
    """The informative fraction of acceptable work, on units of tasks where people decided of each verdict there is.

    `as_verified` is the same model on the same units with the verifier's own passes, so that the two compare.
    """
    by_task: defaultdict[int, list[GradedCount]] = defaultdict(list)
    for row in rows:
        by_task[row.task].append(row.people)
    shares = {task: verdict_shares(counts) for task, counts in by_task.items()}
    expected = [(row, corrected_passes(row.people, shares[row.task])) for row in rows]
    known = [(row, passes) for row, passes in expected if passes is not None]
    if not known:
        reason = "of no task have people decided some of each verdict: without grades there are bounds alone"
        return figure(InsufficientData(reason)) | {"units": 0, "of": len(rows)}
    found = fit_beta_binomial([(row.tally[0], passes) for row, passes in known])
    plain = fit_beta_binomial([row.tally for row, _ in known])
    value = figure(found) if isinstance(found, InsufficientData) else {"estimate": informative_under(found, group)}
    before = figure(plain) if isinstance(plain, InsufficientData) else {"estimate": informative_under(plain, group)}
    where = {"units": len(known), "of": len(rows), "tasks": len({row.task for row, _ in known})}
    return {**value, "as_verified": before, "model_based": True, **where}


def _pushes(rows: Sequence[Attempted], counts: Sequence[GradedCount], group: int) -> Json:
    """The share of positive advantage that goes to false passes, by how advantages are scaled."""
    tasks, groups = [row.task for row in rows], [_group_count(count) for count in counts]
    return [
        {
            "convention": convention,
            "name": name,
            "example": figure(group_advantages(group, 1, convention=convention)),
            "share": figure(_push(groups, group, convention)),
            "new_tasks": figure(wrong_push_for_new_tasks(tasks, groups, group=group, convention=convention)),
        }
        for convention, name in CONVENTIONS
    ]


def _push(groups: Sequence[GroupCount], group: int, convention: Convention) -> object:
    if not any(count.passes > count.undecided for count in groups):
        return InsufficientData("no pass has been decided")
    return wrong_push(groups, group=group, convention=convention)


def _group_count(count: GradedCount) -> GroupCount:
    undecided = count.passes - count.right_passes - count.wrong_passes
    return GroupCount(count.attempts, count.passes, count.wrong_passes, undecided)


# --- tags


def tags(seen: Observations) -> Json:
    """Trajectories by tag: by the judge where evidence was checked, and by people."""
    if not seen.units:
        return figure(InsufficientData("no trajectory has a verdict that counts"))
    return {"judge": _judge_tags(seen), "human": _human_tags(seen)}


def _judge_tags(seen: Observations) -> Json:
    judged = {unit.trajectory for unit in seen.units if unit.is_judged}
    if not judged:
        return figure(InsufficientData(NONE_JUDGED))
    told = told_by_judge(seen)
    given = {at: codes & told.get(at, NONE) for at, codes in judge_tags(seen).items()}
    return _counted(given, judged, Counter(code for at in judged for code in told[at]))


def _human_tags(seen: Observations) -> Json:
    labeled = {unit.trajectory for unit in seen.units if unit.people}
    if not labeled:
        return figure(InsufficientData("no person has labeled any of these trajectories"))
    asked = asked_of_people(seen)
    wanted = Counter(code for trajectory in labeled for code in asked.get(trajectory, ()))
    return _counted(people_tags(seen), labeled, wanted)


def _counted(given: Tags, among: set[int], asked: Mapping[str, int]) -> Json:
    """Each code of those trajectories `among` which it was `asked` for."""
    found = Counter(code for trajectory in among for code in given.get(trajectory, ()))
    return {code: figure(proportion(count, asked[code])) for code, count in sorted(found.items())}


def items(seen: Observations) -> Json:
    """The share of tasks in which the judge found a defect of the environment, by evidence that was checked."""
    told = told_by_judge(seen)
    tasks = {unit.task for unit in told_of_environment(seen.units, told)}
    if not tasks:
        return figure(InsufficientData(NONE_TOLD if told else NONE_JUDGED))
    given = judge_tags(seen)
    defective = {unit.task for unit in seen.units if any(code[0] == "E" for code in given.get(unit.trajectory, NONE))}
    found = proportion(len(defective & tasks), len(tasks))
    return {"defective": figure(found), "line": LINE, "labels": UNCALIBRATED}
