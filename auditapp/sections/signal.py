"""What attempts at the same task say: pass curves, informative groups, tasks at both tails, and tags."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from auditapp.models.judgments import JudgmentTag
from auditapp.models.labels import ImportedLabel, LabelKind
from auditapp.observations import Arm, Observations, attempts
from auditapp.sections.figures import Json, figure
from auditapp.stats.advantages import GroupCount, wrong_push
from auditapp.stats.attempts import Count, informative_fraction, mean_pass_at_k, mean_pass_hat_k
from auditapp.stats.proportions import InsufficientData, proportion

GROUP, LARGEST_K, BINS = 16, 32, 10
DEFECTIVE_LINE = 0.2


def distribution(seen: Observations) -> Json:
    """Attempts per task, model, agent and effort of the whole version: curves over all, and for each model."""
    found = attempts(seen.version, seen.failing)
    if not found:
        return figure(InsufficientData("no trajectory has a verdict that counts"))
    tallies = {key: (len(tries), sum(passed for _, passed in tries)) for key, tries in found.items()}
    subjects: defaultdict[tuple[str, str, str], list[Count]] = defaultdict(list)
    for (_, *subject), tally in tallies.items():
        subjects[subject[0], subject[1], subject[2]].append(tally)
    return {
        "unit": "task × model × agent × effort",
        **curves(list(tallies.values())),
        "by_subject": [
            {"model": model, "agent": agent, "effort": effort} | curves(counts)
            for (model, agent, effort), counts in sorted(subjects.items())
        ],
        "false_pass_advantage": figure(_wrong_push(seen, found)),
    }


def curves(counts: Sequence[Count]) -> Json:
    """pass@k and pass^k as far as the attempts reach, the informative fraction, and the histogram of pass rates."""
    ks = range(1, min(LARGEST_K, max(n for n, _ in counts)) + 1)
    return {
        "units": len(counts),
        "attempts": sum(n for n, _ in counts),
        "pass_at_k": {str(k): figure(mean_pass_at_k(counts, k)) for k in ks},
        "pass_hat_k": {str(k): figure(mean_pass_hat_k(counts, k)) for k in ks},
        "informative": {"group": GROUP, **figure(informative_fraction(counts, GROUP))},
        "histogram": histogram(counts),
    }


def histogram(counts: Sequence[Count]) -> Json:
    """Units by pass rate: none passed and all passed apart, ten bins between."""
    between = Counter(min(BINS - 1, c * BINS // n) for n, c in counts if 0 < c < n)
    return {
        "none": sum(c == 0 for _, c in counts),
        "all": sum(c == n for n, c in counts),
        "between": [between[number] for number in range(BINS)],
    }


def _wrong_push(seen: Observations, found: dict[Arm, list[tuple[int, bool]]]) -> object:
    """The share of positive advantage that goes to passes which people call wrong."""
    said = {unit.trajectory: unit.human for unit in seen.units}
    if not any(said.values()):
        return InsufficientData("no person has labeled any pass")
    groups = []
    for tries in found.values():
        answers = Counter(said.get(trajectory) for trajectory, passed in tries if passed)
        undecided = answers.total() - answers["yes"] - answers["no"]
        groups.append(GroupCount(len(tries), answers.total(), answers["no"], undecided))
    return wrong_push(groups, group=GROUP)


def tags(seen: Observations) -> Json:
    """Trajectories by tag: by the judge where evidence was checked, and by people."""
    if not seen.units:
        return figure(InsufficientData("no trajectory has a verdict that counts"))
    return {"judge": _judge_tags(seen), "human": _human_tags(seen)}


def _judge_tags(seen: Observations) -> Json:
    judged = {unit.trajectory for unit in seen.units if unit.is_judged}
    if not judged or seen.config is None:
        return figure(InsufficientData("no judge has decided any of these trajectories"))
    return _counted(_kept_tags(seen), judged)


def _kept_tags(seen: Observations) -> list[tuple[str, int]]:
    rows = JudgmentTag.objects.filter(judgment__version=seen.version, judgment__config=seen.config, kept=True)
    return list(rows.filter(judgment__replicate=0).values_list("code", "judgment__trajectory_id").distinct())


def _human_tags(seen: Observations) -> Json:
    labeled = {unit.trajectory for unit in seen.units if unit.people}
    if not labeled:
        return figure(InsufficientData("no person has labeled any of these trajectories"))
    rows = ImportedLabel.objects.filter(version=seen.version, kind=LabelKind.HUMAN).exclude(tags=[])
    found = {(code, trajectory) for trajectory, codes in rows.values_list("trajectory_id", "tags") for code in codes}
    return _counted(sorted(found), labeled)


def _counted(rows: Sequence[tuple[str, int]], among: set[int]) -> Json:
    found = Counter(code for code, trajectory in rows if trajectory in among)
    return {code: figure(proportion(count, len(among))) for code, count in sorted(found.items())}


def items(seen: Observations) -> Json:
    """The share of tasks in which the judge found a defect of the environment, by evidence that was checked."""
    task_of = {unit.trajectory: unit.task for unit in seen.units if unit.is_judged}
    if not task_of or seen.config is None:
        return figure(InsufficientData("no judge has decided any of these trajectories"))
    defective = {task_of[at] for code, at in _kept_tags(seen) if code.startswith("E") and at in task_of}
    found = proportion(len(defective), len(set(task_of.values())))
    return {"defective": figure(found), "line": DEFECTIVE_LINE, "labels": "judge, uncalibrated"}
