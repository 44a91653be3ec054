"""Whether judges begin to differ from people more often than they did: blind grades in the order they were made.

Rounds of another plan mix strata otherwise, which looks like drift: each plan is watched by itself.
"""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace

from auditapp.models.reviews import RoundKind, SlotRole
from auditapp.models.rounds import ReviewLabel, RoundDraw
from auditapp.observations import Observations
from auditapp.sections.figures import YES_NO, Json, figure
from auditapp.sections.judges import said_by_judges
from auditapp.stats.drift import CusumState, cusum, drift, plan_cusum
from auditapp.stats.proportions import InsufficientData, Proportion, proportion

WINDOW = 50
HALF = 0.5
NOT_YET = f"drift needs {WINDOW} blind grades to set what is expected, and some after them"


def drifts(seen: Observations) -> Json:
    """By judge and plan: the evidence that it differs from people more than in its first window, and windows for a
    chart."""
    plans = _plans(seen)
    people = {unit.trajectory: unit.human for unit in seen.units if unit.human in YES_NO}
    found = []
    for (name, digest), said in sorted(said_by_judges(seen).items()):
        for rounds, order in plans:
            graded = [trajectory for trajectory in order if trajectory in people]
            differs = [said[t] != people[t] for t in graded if said.get(t) in YES_NO]
            if differs:
                found.append({"judge": name, "digest": digest, "rounds": rounds} | watched(differs))
    return found or figure(InsufficientData("no trajectory of a released round was decided by a judge and by people"))


def _plans(seen: Observations) -> list[tuple[list[int], list[int]]]:
    """By plan, the first one first: numbers of its rounds, and trajectories by their first blind grade, each once."""
    rows = ReviewLabel.objects.filter(
        version=seen.version, round__kind=RoundKind.BLIND, grade__slot__role=SlotRole.GRADE
    ).order_by("grade__submitted_at", "pk")
    first: dict[int, tuple[int, int]] = {}
    for trajectory, by, number in rows.values_list("trajectory_id", "round_id", "round__number"):
        first.setdefault(trajectory, (by, number))
    draws = RoundDraw.objects.filter(round__in={of for of, _ in first.values()})
    mixes = {draw.round_id: _mix(draw) for draw in draws}
    found: defaultdict[Hashable, tuple[dict[int, None], list[int]]] = defaultdict(lambda: ({}, []))
    for trajectory, (of, number) in first.items():
        numbers, order = found[mixes.get(of, ("round", of))]
        numbers[number] = None
        order.append(trajectory)
    return [(list(numbers), order) for numbers, order in found.values()]


def _mix(draw: RoundDraw) -> Hashable:
    """What two rounds share if they mix strata alike; a draw from elsewhere, and one by expected rates, is its own."""
    asked = draw.plan.get("asked", {})
    if draw.sample_id is None or asked.get("method") != "proportional" or draw.plan.get("shares"):
        return "round", draw.round_id
    return draw.sample_id, draw.config_id, draw.plan.get("floor")


def watched(differs: Sequence[bool]) -> Json:
    """A judge, by whether it differed at each grade.

    What is expected is the upper end of the first window's interval, so that its own error raises no alarm.
    """
    windows = [differs[start : start + WINDOW] for start in range(0, len(differs), WINDOW)]
    shown = [
        {
            "first": number * WINDOW + 1,
            "last": number * WINDOW + len(part),
            "n": len(part),
            "disagree": figure(proportion(sum(part), len(part))),
        }
        for number, part in enumerate(windows)
    ]
    expected = proportion(sum(windows[0]), len(windows[0]))
    later = differs[WINDOW:]
    if not (later and isinstance(expected, Proportion) and 0 < expected.high < 1):
        return figure(InsufficientData(NOT_YET)) | {"n": len(differs), "windows": shown}
    state = drift(later, expected=expected.high)
    if isinstance(state, InsufficientData):
        return figure(state) | {"n": len(differs), "windows": shown}
    soon = _early(later, expected.high)
    if state.alarm_at is not None:
        state = replace(state, alarm_at=state.alarm_at + WINDOW)
    if not isinstance(soon, InsufficientData) and soon.signal_at is not None:
        soon = replace(soon, signal_at=soon.signal_at + WINDOW)
    return {
        "n": len(differs),
        "expected": expected.high,
        "expected_from": f"upper end of the interval of the first {WINDOW} grades",
        "state": figure(state),
        "alarm": state.alarm_at is not None,
        "cusum": figure(soon),
        "windows": shown,
    }


def _early(later: Sequence[bool], expected: float) -> CusumState | InsufficientData:
    """The quicker sign, of twice the rate."""
    if expected >= HALF:
        return InsufficientData("the judge is expected to differ on half of them or more: no rate is much worse")
    return cusum(later, plan_cusum(expected, raised=min(2 * expected, (1 + expected) / 2)))
