"""Figures that rest on rounds: weights of cells, drift, repeats, hacks by a judge, breakdowns, criteria, held-out."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from auditapp import review, rounds
from auditapp.counted import Of, rows
from auditapp.criteria import CriteriaError, Limits, set_criteria
from auditapp.estimation import compute
from auditapp.models.datasets import DatasetVersion, Membership, Role
from auditapp.models.estimates import AcceptanceCriteria
from auditapp.models.judgments import JudgeRun, Judgment, JudgmentTag
from auditapp.models.labels import ImportedLabel
from auditapp.models.reviews import Attribution, HeldOutSet, HeldOutTask, ReviewRound, Slot
from auditapp.models.rounds import ItemDraw, ReviewLabel, RoundStratum
from auditapp.models.samples import Sample
from auditapp.observations import observe
from auditapp.sampling import draw_sample
from auditapp.sections import agreements, drifts, rates
from auditapp.sections.shapes import side_by_side
from auditapp.stats.allocation import Plan
from auditapp.stats.proportions import InsufficientData
from tests.auditapp.looks import make_run
from tests.auditapp.population import add_trajectory, fill, make_task, make_version
from tests.auditapp.round_world import NOW, grade, make_judged, make_people, make_release, make_round, work_off
from tests.auditapp.rounds import grade as grade_at
from tests.auditapp.test_estimate import arm, judge
from tests.auditapp.test_estimate import grade as label

pytestmark = pytest.mark.django_db


def acceptable(source_id: str) -> bool:
    """What is true: of the passes every fourth is wrong, of the fails every sixth is right."""
    task, place = source_id[1:].split("-")
    number = int(task) * 8 + int(place)
    return number % 4 != 1 if int(place) < 4 else number % 6 == 0


def by_truth(slot: Slot, _user: User) -> str:
    return "satisfied" if acceptable(slot.item.trajectory.source.source_id) else "not_satisfied"


def released(version: DatasetVersion, *, size: int = 24, extend: int = 0, **more: Any) -> ReviewRound:
    """A round of two people who know the truth, released."""
    people = make_people(version, "anna", "bob")
    made = make_round(version, people, size=size, **more)
    if extend:
        rounds.extend_round(made, size=extend, by=None)
    work_off(made, people, by_truth)
    rounds.close_round(made, by=None, now=NOW)
    rounds.release_round(made, by=None, now=NOW)
    return made


@pytest.fixture
def version() -> DatasetVersion:
    return make_release(tasks=6)


def wrong_by_cell(version: DatasetVersion, status: str) -> Iterator[tuple[int, list[bool]]]:
    """Each cell a status was drawn from: how many it holds, and of those drawn which are wrong."""
    found: defaultdict[int, list[bool]] = defaultdict(list)
    sizes: dict[int, int] = {}
    for draw in ItemDraw.objects.filter(stratum__stratum__verifier_status=status).select_related("stratum", "item"):
        good = acceptable(draw.item.trajectory.source.source_id)
        found[draw.stratum_id].append(good != (status == "pass"))
        sizes[draw.stratum_id] = draw.stratum.size
    yield from ((sizes[cell], wrong) for cell, wrong in found.items())


def test_people_weigh_by_the_cell_they_were_drawn_from(version: DatasetVersion) -> None:
    """Cells are drawn at different rates, so a plain share of the graded is another number."""
    released(version, plan=rounds.RoundPlan(size=26, method="neyman", floor=1))
    found = compute(version)
    for direction, status in (("false_pass", "pass"), ("false_fail", "fail")):
        cells = list(wrong_by_cell(version, status))
        assert sum(size for size, _ in cells) == 24  # every cell was drawn from
        expected = sum(size * sum(wrong) / len(wrong) for size, wrong in cells) / 24
        assert found["human_only"][direction]["estimate"] == pytest.approx(expected)
        assert found["corrected"][direction]["estimate"] == pytest.approx(expected)
        assert found["scope"]["environment"][direction]["estimate"] == pytest.approx(expected)
        assert found["human_only"][direction]["n"] == sum(len(wrong) for _, wrong in cells)  # doubled items count once
        plain = sum(sum(wrong) for _, wrong in cells) / sum(len(wrong) for _, wrong in cells)
        assert plain != pytest.approx(expected)
    assert "known cells" in found["note"]


def test_by_stratum_and_verifier_error_weigh_alike(version: DatasetVersion) -> None:
    released(version, plan=rounds.RoundPlan(size=26, method="neyman", floor=1))
    found = compute(version)
    passes = [row for row in found["by_stratum"] if row["verifier_status"] == "pass"]
    whole = sum(row["size"] * row["human"]["rate"]["estimate"] for row in passes) / sum(row["size"] for row in passes)
    assert whole == pytest.approx(found["human_only"]["false_pass"]["estimate"])
    bad_passes = 24 * found["human_only"]["false_pass"]["estimate"]
    bad_fails = 24 * (1 - found["human_only"]["false_fail"]["estimate"])
    error = found["verifier_error"]["pass_given_not_acceptable"]["estimate"]
    assert error == pytest.approx(bad_passes / (bad_passes + bad_fails))


def test_agreement_beyond_chance_weighs_by_the_cell_too(version: DatasetVersion) -> None:
    """Neyman draws most from the cells where judge and verifier differ: a plain share of pairs is of no population."""
    released(version, plan=rounds.RoundPlan(size=26, method="neyman", floor=1))
    sizes: Counter[tuple[str, str]] = Counter()
    for cell in RoundStratum.objects.select_related("stratum"):
        sizes[cell.stratum.verifier_status, cell.answer] += cell.size
    said: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for draw in ItemDraw.objects.select_related("stratum__stratum", "item"):
        truth = "yes" if acceptable(draw.item.trajectory.source.source_id) else "no"
        said[draw.stratum.stratum.verifier_status, draw.stratum.answer].append(truth)
    both = {key: found for key, found in said.items() if key[1] in ("yes", "no")}
    total = sum(sizes[key] for key in both)
    shares: Counter[tuple[str, str]] = Counter()
    for key, found in both.items():
        for truth in found:
            shares[key[1], truth] += sizes[key] / total / len(found)  # type: ignore[assignment]
    raw = shares["yes", "yes"] + shares["no", "no"]
    judge, people = (shares["yes", "yes"] + shares[pair] for pair in (("yes", "no"), ("no", "yes")))
    chance = judge * people + (1 - judge) * (1 - people)
    after = {"yes": "satisfied", "no": "not_satisfied"}
    for answer, decision in after.items():
        Judgment.objects.filter(acceptable=answer).update(decision_after=decision)
    even = list(version.trajectories.order_by("pk").values_list("pk", flat=True))[::2]
    version.trajectories.filter(pk__in=even).update(n_steps=5, steps_blob="0" * 64)
    agreed = compute(version)["agreement"]
    (found,) = agreed["judge_human"]
    assert agreed["judge_after"]["raw"] == found["raw"]  # the same answers: like is set beside like
    assert found["kappa_weighted"]["kappa"] == pytest.approx((raw - chance) / (1 - chance))
    assert found["kappa_weighted"]["kappa"] != pytest.approx(found["kappa"]["kappa"])
    assert found["raw"]["estimate"] == pytest.approx(raw)
    accuracy = found["accuracy"]
    assert accuracy["precision"] == pytest.approx(shares["yes", "yes"] / (shares["yes", "yes"] + shares["yes", "no"]))
    assert accuracy["recall"] == pytest.approx(shares["yes", "yes"] / people)
    plain = sum(found["table"][i][i] for i in (0, 1)) / found["decided"]
    assert found["raw"]["estimate"] != pytest.approx(plain)
    held = dict.fromkeys(("yes", "no"), 0.0)
    for (status, answer), truths in both.items():
        if status == "pass":
            held[answer] += sizes[status, answer] * truths.count("yes") / len(truths)
    assert found["within"]["pass"]["sensitivity"]["estimate"] == pytest.approx(held["yes"] / sum(held.values()))
    assert {found["weighting"][key] for key in ("raw", "ac1", "accuracy", "within")} == {rates.WEIGHTED}
    assert {found["weighting"][key] for key in ("by_stratum", "by_length")} == {rates.WEIGHTED}
    assert {found["weighting"][key] for key in ("kappa", "kappa_by_task")} == {rates.UNWEIGHTED}
    weights = {key: sizes[key] / len(answers) for key, answers in both.items()}
    assert len(found["by_length"]) == 2
    for row in found["by_length"]:
        assert row["raw"]["estimate"] == pytest.approx(agreed_of_length(weights, 5 if row["least"] == 1 else None))


def agreed_of_length(weights: Mapping[tuple[str, str], float], steps: int | None) -> float:
    """Of the population's trajectories of so many steps the share in which judge and people agree, cell by cell."""
    same = total = 0.0
    for draw in ItemDraw.objects.select_related("stratum__stratum", "item__trajectory__source"):
        cell = draw.stratum.stratum.verifier_status, draw.stratum.answer
        if cell in weights and draw.item.trajectory.n_steps == steps:
            truth = "yes" if acceptable(draw.item.trajectory.source.source_id) else "no"
            total += weights[cell]
            same += weights[cell] * (draw.stratum.answer == truth)
    return same / total


def test_how_often_people_differ_weighs_by_the_cell(version: DatasetVersion) -> None:
    """They differ on all that the judge could not decide, which Neyman draws most of, and nowhere else."""
    people = make_people(version, "anna", "bob")
    made = make_round(version, people, plan=rounds.RoundPlan(size=26, method="neyman", floor=1, overlap=1))
    said = dict(ItemDraw.objects.values_list("item", "stratum__answer"))
    work_off(
        made, people, lambda s, u: "not_satisfied" if said[s.item_id] == "unknown" and u == people[0] else "satisfied"
    )
    rounds.close_round(made, by=None, now=NOW)
    rounds.release_round(made, by=None, now=NOW)
    found = compute(version)
    sizes: Counter[str] = Counter()
    for cell in RoundStratum.objects.filter(drawn__gt=0):
        sizes[cell.answer] += cell.size
    assert sizes.total() == 48
    expected = sizes["unknown"] / 48
    band = found["human_error"]["false_pass"]
    assert band["disagreement"] == pytest.approx(expected)
    together = found["agreement"]["human_human"]
    assert together["raw"]["estimate"] == pytest.approx(1 - expected)
    assert together["weighting"]["raw"] == band["weighting"] == rates.WEIGHTED
    differing = together["table"][0][1] + together["table"][1][0]
    assert differing / together["decided"] > expected  # a plain share of the pairs is another number


def test_tags_of_reviewers_are_tags_of_people(version: DatasetVersion) -> None:
    released(version)
    trajectory = ReviewLabel.objects.earliest("pk").trajectory
    ReviewLabel.objects.filter(trajectory=trajectory).update(tags=["C01"])
    assert compute(version)["tags"]["human"]["C01"]["n"] == 24
    assert compute(version)["tags"]["human"]["C01"]["estimate"] == pytest.approx(1 / 24)


def test_a_code_that_people_were_not_asked_for_is_unknown_not_absent(version: DatasetVersion) -> None:
    """A blind grade asks for C; for E only the step after it, which few take; for B it does not ask at all."""
    released(version)
    rows = list(ReviewLabel.objects.order_by("trajectory", "pk"))
    decided = set(Judgment.objects.filter(acceptable__in=["yes", "no"]).values_list("trajectory", flat=True))
    trajectories = sorted({row.trajectory_id for row in rows} & decided)
    Judgment.objects.filter(trajectory__in=trajectories).update(decision_after="satisfied")
    for code, at in (("B01", trajectories), ("C02", trajectories[:2]), ("E01", trajectories[:3])):
        for judgment in Judgment.objects.filter(trajectory__in=at):
            JudgmentTag.objects.create(judgment=judgment, code=code, role="primary", phase=1, kept=True, evidence=[])
    found = compute(version)["shapes"]
    by_code = {row["code"]: row for row in found["judge_people"]["codes"]}
    assert (by_code["C02"]["asked"], by_code["C02"]["judge_only"], by_code["C02"]["not_asked"]) == (21, 2, 0)
    for code, n in (("B01", 21), ("E01", 3)):
        assert (by_code[code]["asked"], by_code[code]["neither"], by_code[code]["not_asked"]) == (0, 0, n)
        assert by_code[code]["kappa"] == {"insufficient": "people were not asked for it"}
    assert found["defective"]["people"] == {"insufficient": "nobody was asked for tags of the environment"}

    said = next(row for row in rows if row.trajectory_id == trajectories[0])
    Attribution.objects.create(grade=said.grade, tags=[], opened_at=NOW, submitted_at=NOW)
    ReviewLabel.objects.filter(pk=rows[-1].pk).update(tags=["C02"])
    found = compute(version)["shapes"]
    by_code = {row["code"]: row for row in found["judge_people"]["codes"]}
    assert [by_code["E01"][key] for key in ("asked", "judge_only", "not_asked")] == [1, 1, 2]
    assert found["defective"]["people"]["share"]["n"] == 1
    assert found["people"]["all"]["tags"]["C02"]["n"] == 24
    assert found["people"]["all"]["sided"] == 1
    assert {"C02", "E01"} <= set(found["people"]["asked"])
    assert "B01" not in found["people"]["asked"]


def test_where_people_were_not_asked_for_a_code_it_has_no_rate_of_zero(version: DatasetVersion) -> None:
    """The step after a grade was taken for one trajectory of one model: of the others nothing is known about E."""
    released(version)
    said = ReviewLabel.objects.select_related("trajectory__source").earliest("pk")
    Attribution.objects.create(grade=said.grade, tags=["E01"], opened_at=NOW, submitted_at=NOW)
    ReviewLabel.objects.filter(pk=said.pk).update(tags=["C02", "E01"])
    found = compute(version)
    people = found["shapes"]["people"]
    assert (found["tags"]["human"]["E01"]["n"], found["tags"]["human"]["C02"]["n"]) == (1, 24)
    where, *elsewhere = sorted(people["by_environment"], key=lambda place: "E01" not in place["tags"])
    assert where["asked"] == {"E01": 1}
    assert elsewhere
    for other in elsewhere:
        assert other["asked"] == {"E01": 0}
        rows = {row["code"]: row for row in side_by_side(where, other)}
        assert rows["E01"]["right"] == {"count": 0, "insufficient": "nobody was asked for it"}
        assert rows["C02"]["right"]["estimate"] == 0
        assert rows["C02"]["right"]["n"] == other["looked_at"]
    client = Client()
    client.force_login(make_people(version, "lea", role=Role.LEAD)[0])
    page = client.get(reverse("numbers-shapes", args=[version.dataset.name]) + "?by=people").text
    assert page.count('<span class="unknown">not asked</span>') == len(elsewhere)


def test_of_two_adjudications_the_newer_one_counts(version: DatasetVersion) -> None:
    """Not that of whoever comes last in order of names."""
    released(version)
    older, newer = ReviewLabel.objects.order_by("pk")[:2]
    for row, name, said in ((older, "zoe", "yes"), (newer, "amy", "no")):
        ReviewLabel.objects.filter(pk=row.pk).update(
            kind="adjudicated", labeler=name, acceptable=said, trajectory=older.trajectory
        )
    run = JudgeRun.objects.get()
    (unit,) = (
        unit
        for unit in observe(version, config=run.config, sample=run.sample).units
        if unit.trajectory == older.trajectory_id
    )
    assert unit.human == "no"
    counted = rows(Of(version, run.config, run.sample), {"people_said": "no"})
    assert counted.filter(pk=older.trajectory_id).exists()


def test_what_was_settled_of_a_hack_rules(version: DatasetVersion) -> None:
    """One reviewer's "hacked" does not outlive the ruling that it was none, nor a ruling the "none" before it."""
    released(version, size=40)
    run = JudgeRun.objects.get()
    passes = ReviewLabel.objects.filter(trajectory__source__verifier_status="pass").order_by("pk")
    called, cleared, ruling, *_ = passes.distinct()
    ReviewLabel.objects.filter(pk=called.pk).update(integrity="hacked")
    ReviewLabel.objects.filter(pk=ruling.pk).update(
        kind="adjudicated", labeler="zoe", integrity="none", trajectory=called.trajectory
    )
    of = Of(version, run.config, run.sample)
    assert compute(version)["hack_bound"]["found"] == 0
    assert not rows(of, {"verdict": "pass", "hack": "people"}).exists()
    ReviewLabel.objects.filter(pk=ruling.pk).update(integrity="hacked", trajectory=cleared.trajectory)
    ReviewLabel.objects.filter(pk=called.pk).update(integrity="none")
    assert compute(version)["hack_bound"]["found"] == 1
    assert [row.pk for row in rows(of, {"verdict": "pass", "hack": "people"})] == [cleared.trajectory_id]


def test_labels_from_before_are_no_part_of_a_draw(version: DatasetVersion) -> None:
    """Somebody had graded three wrong passes already; they stand for themselves, not for their stratum."""
    make_judged(version)
    earlier = ["t0-1", "t1-1", "t2-1"]
    assert not any(acceptable(unit) for unit in earlier)
    label(version, dict.fromkeys(earlier, "no"))
    released(version, size=30)
    found = compute(version)["human_only"]["false_pass"]
    cells = list(wrong_by_cell(version, "pass"))
    assert sum(size for size, _ in cells) == 21
    expected = (3 + sum(size * sum(wrong) / len(wrong) for size, wrong in cells)) / 24
    assert found["estimate"] == pytest.approx(expected)


def test_labels_made_elsewhere_after_the_draw_do_not_bias_the_rest(version: DatasetVersion) -> None:
    """Whoever labels wrong passes that the round left undrawn says nothing of those it drew."""
    made = released(version, size=24)
    before = compute(version)
    undrawn = version.trajectories.exclude(pk__in=made.items.values("trajectory")).filter(
        source__verifier_status="pass"
    )
    late = [row.source.source_id for row in undrawn if not acceptable(row.source.source_id)][:3]
    assert late
    label(version, dict.fromkeys(late, "no"))
    found = compute(version)
    assert found["human_only"] == before["human_only"]
    assert f"{len(late)} that were labeled elsewhere" in found["note"]
    was, now = (of["agreement"]["judge_human"][0]["n"] for of in (before, found))
    assert now == was + len(late)  # they tell of the judge all the same
    run = JudgeRun.objects.get()
    ids = {row.pk for row in rows(Of(version, run.config, run.sample), {"people_said": "no", "verdict": "pass"})}
    assert not ids & set(undrawn.values_list("pk", flat=True))


def test_a_small_round_says_what_it_took_from_neighbors(version: DatasetVersion) -> None:
    released(version, size=8)
    found = compute(version)["corrected"]["false_pass"]
    assert found["covered"] == found["population"] == 24
    assert "taken to be like their neighbors" in found["method"]


def test_an_extended_round_has_an_interval_that_looking_does_not_spoil(version: DatasetVersion) -> None:
    released(version, size=12, extend=12)
    found = compute(version)
    sure, plain = found["anytime"]["false_pass"], found["corrected"]["false_pass"]
    assert (sure["estimate"], sure["rounds"]) == (plain["estimate"], ["Round"])
    assert sure["low"] < plain["low"]
    assert sure["high"] > plain["high"]
    (about,) = found["rounds"]
    assert (about["items"], about["graded"], about["finished"], about["extensions"]) == (24, 24, True, 1)


def test_a_round_as_planned_needs_no_such_interval(version: DatasetVersion) -> None:
    released(version, size=12)
    found = compute(version)
    assert found["anytime"]["false_pass"]["insufficient"]
    assert sum(row["done"] for row in found["rounds"][0]["by_stratum"]) == 12


def test_a_round_closed_early_shows_what_was_left_undone(version: DatasetVersion) -> None:
    people = make_people(version, "anna")
    made = make_round(version, people, plan=rounds.RoundPlan(size=12, overlap=0))
    assert work_off(made, people, by_truth, most=5) == 5
    assert compute(version)["rounds"] == []  # nothing of a round that is open
    rounds.close_round(made, by=None, now=NOW)
    (about,) = compute(version)["rounds"]
    assert (about["graded"], about["finished"]) == (5, False)
    assert sum(row["undone"] for row in about["by_stratum"]) == 7


def test_what_would_narrow_names_the_cells_and_the_work(version: DatasetVersion) -> None:
    released(version, size=24)
    found = compute(version)["narrow"]
    assert found["basis"] == "variance"
    assert found["parts"][0]["share_of_variance"] >= found["parts"][-1]["share_of_variance"] > 0
    assert {part["stratum"]["verifier_status"] for part in found["parts"]} == {"pass"}
    work = found["to_halve"]
    assert work["wanted_half_width"] == pytest.approx(work["half_width"] / 2)
    assert 0 < work["grades_more"] <= work["left"] < 24  # passes there are
    assert work["hours"] == pytest.approx(work["grades_more"] / 60)  # every grade took a minute
    assert [tuple(plan.values()) for plan in found["none_found"]] == [(0.05, 19, 24), (0.01, 23, 24)]


def test_before_anybody_graded_the_largest_cells_come_first(version: DatasetVersion) -> None:
    make_judged(version)
    found = compute(version)["narrow"]
    assert "nobody" in found["basis"]
    assert [part["graded"] for part in found["parts"]] == [0] * len(found["parts"])
    assert found["parts"][0]["size"] == max(part["size"] for part in found["parts"])
    assert (found["to_halve"]["grades_now"], found["to_halve"]["hours"]) == (0, None)


# --- judges and graders


def test_drift_is_watched_in_the_order_of_grades(version: DatasetVersion, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drifts, "WINDOW", 8)
    released(version, size=30)
    (found,) = compute(version)["drift"]
    assert sum(window["n"] for window in found["windows"]) == found["n"]
    assert [window["first"] for window in found["windows"]] == list(range(1, found["n"] + 1, 8))
    first = found["windows"][0]["disagree"]
    assert found["expected"] == pytest.approx(first["high"])
    assert found["state"]["n"] == found["n"] - 8
    assert found["alarm"] is False


def test_a_round_of_another_plan_is_watched_by_itself(version: DatasetVersion) -> None:
    """It mixes strata otherwise: its grades after those of the first would look like drift."""
    first = released(version, size=12)
    people = list(User.objects.order_by("pk"))
    for plan in (rounds.RoundPlan(size=10, method="neyman", floor=1), rounds.RoundPlan(size=12)):
        made = make_round(version, people, plan=plan, seed=8)
        work_off(made, people, by_truth)
        rounds.close_round(made, by=None, now=NOW)
        rounds.release_round(made, by=None, now=NOW)
    same, other = compute(version)["drift"]
    assert (same["rounds"], other["rounds"]) == ([first.number, first.number + 2], [first.number + 1])
    assert same["n"] > other["n"] > 0


def test_a_judge_that_gets_worse_raises_the_alarm_and_says_at_which_grade() -> None:
    steady = [number % 10 == 0 for number in range(200)]
    assert drifts.watched(steady)["alarm"] is False
    worse = drifts.watched(steady[:100] + [number % 2 == 0 for number in range(100)])
    assert worse["alarm"] is True
    assert 100 < worse["state"]["alarm_at"] <= 200
    assert "blind grades" in drifts.watched(steady[:50])["insufficient"]


def test_a_change_after_a_long_good_past_gives_an_early_sign_before_the_alarm() -> None:
    found = drifts.watched([number % 10 == 0 for number in range(500)] + [True] * 14)
    assert found["alarm"] is False
    assert 500 < found["cusum"]["signal_at"] <= 514
    assert drifts.watched([number % 10 == 0 for number in range(500)])["cusum"]["signal_at"] is None
    assert "half of them" in drifts.watched([number % 2 == 0 for number in range(100)])["cusum"]["insufficient"]


def test_repeats_measure_one_person_against_themselves(version: DatasetVersion) -> None:
    (anna,) = people = make_people(version, "anna")
    settings = rounds.RoundSettings(repeat_share=1.0, repeat_days=7)
    made = make_round(version, people, plan=rounds.RoundPlan(size=6, overlap=0), settings=settings)
    work_off(made, people, lambda *_: "satisfied")
    later = NOW + timedelta(days=8)
    for decision in ("satisfied", "satisfied", "satisfied", "not_satisfied"):
        slot = review.claim_next_slot(made, by=anna, now=later)
        assert isinstance(slot, Slot)
        grade(slot, anna, decision)
    first = Slot.objects.get(item=slot.item, role="grade")
    grade_at(first, anna, now=later, decision="not_satisfied")  # having seen it again, to say the same
    rounds.close_round(made, by=None, now=later)
    assert compute(version)["grader_consistency"]["insufficient"]  # not before release
    rounds.release_round(made, by=None, now=later)
    found = compute(version)["grader_consistency"]
    assert found["items"] == 4
    assert found["table"] == [[3, 1, 0], [0, 0, 0], [0, 0, 0]]
    assert found["raw"]["estimate"] == 0.75
    assert 2 * found["error"] * (1 - found["error"]) == pytest.approx(0.25)
    assert found["by_reviewer"] == [{"reviewer": "anna", "n": 4, "same": 3}]


def test_hacks_by_the_judge_are_bounded_by_what_it_is_known_to_find() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 40, ("fail", "m", "e"): 2})
    make_run(version)
    passes = arm("pass", 40)
    judge(version, dict.fromkeys(passes, "yes"))
    before = compute(version)["hack_bound"]["by_judge"]
    assert (before["found"], "not known" in before["insufficient"]) == (0, True)
    label(version, dict.fromkeys(passes[:10], "no"), integrity="hacked")
    Judgment.objects.filter(trajectory__source__source_id__in=passes[:8]).update(integrity="hacked", acceptable="no")
    found = compute(version)["hack_bound"]["by_judge"]
    assert (found["found"], found["sensitivity"]["estimate"]) == (8, 0.8)
    assert found["upper"] == pytest.approx(min(1.0, found["flagged"]["high"] / found["sensitivity"]["low"]))


def test_a_simple_draw_bounds_the_batch_exactly() -> None:
    """20 of 40 passes without a hack: the hypergeometric bound, which knows that half of them were seen."""
    version = make_version()
    fill(version, {("pass", "m", "e"): 40, ("fail", "m", "e"): 2})
    label(version, dict.fromkeys(arm("pass", 20), "yes"), integrity="none")
    found = compute(version)["hack_bound"]["batch"]
    assert found["method"] == "this batch, hypergeometric"
    assert found["upper"] == pytest.approx(4 / 40)  # C(36,20)/C(40,20) is 0.053, C(35,20)/C(40,20) 0.024
    fill(version, {("pass", "other", "e"): 40})
    label(version, dict.fromkeys([f"e/other/pass/{number:04}" for number in range(20)], "yes"), integrity="none")
    assert "Buehler" in compute(version)["hack_bound"]["batch"]["method"]


def test_what_a_judge_finds_is_weighted_by_how_people_were_drawn(version: DatasetVersion) -> None:
    """All that the judge calls no good was graded, and a part of what it calls good: hacks it missed count for more."""
    released(version, plan=rounds.RoundPlan(size=26, method="neyman", floor=1))
    ReviewLabel.objects.filter(trajectory__source__verifier_status="pass").update(integrity="hacked")
    Judgment.objects.filter(acceptable="no").update(integrity="hacked")
    found = 0.0
    held = 0
    for cell in RoundStratum.objects.filter(stratum__verifier_status="pass").exclude(size=0):
        held += cell.size
        found += cell.size * (cell.answer == "no")
    shown = compute(version)["hack_bound"]["by_judge"]["sensitivity"]
    assert shown["estimate"] == pytest.approx(found / held)
    graded = Counter(ItemDraw.objects.filter(stratum__stratum__verifier_status="pass").values_list("stratum__answer"))
    assert shown["estimate"] != pytest.approx(graded["no",] / graded.total())


def test_two_judges_are_compared_on_what_both_looked_at() -> None:
    version = make_version()
    fill(version, {("pass", "m", "e"): 10, ("fail", "m", "e"): 2})
    make_run(version)
    passes = arm("pass", 10)
    judge(version, dict.fromkeys(passes[:6], "yes") | dict.fromkeys(passes[6:], "no"))
    label(version, dict.fromkeys(passes, "yes"))
    for source_id in passes[:8]:
        trajectory = version.trajectories.get(source__source_id=source_id)
        fields = {"decision": "satisfied", "acceptable": "yes", "kind": "judge", "labeler": "another"}
        ImportedLabel.objects.create(version=version, trajectory=trajectory, **fields)
    (found,) = compute(version)["judges_paired"]
    assert [found["first"]["name"], found["second"]["name"]] == ["another", "test judge"]
    assert (found["n"], found["table"][0]) == (8, [6, 2, 0])
    assert found["said_acceptable"]["difference"] == pytest.approx(0.25)
    assert found["agree_with_people"]["difference"] == pytest.approx(0.25)


def test_judge_against_people_is_split_by_stratum_and_length(version: DatasetVersion) -> None:
    version.trajectories.filter(source__source_id__startswith="t0").update(n_steps=5, steps_blob="0" * 64)
    version.trajectories.filter(source__source_id__startswith="t1").update(n_steps=250, steps_blob="0" * 64)
    released(version, size=40)
    (found,) = compute(version)["agreement"]["judge_human"]
    for part in ("by_stratum", "by_length"):
        assert sum(row["n"] for row in found[part]) == found["n"]
        summed = [[sum(row["counts"][i][j] for row in found[part]) for j in range(3)] for i in range(3)]
        assert summed == found["counts"]
    assert [(row["least"], row["most"]) for row in found["by_length"]] == [(1, 10), (101, None), (None, None)]


# --- breakdown


def test_a_row_unlike_the_rest_is_flagged() -> None:
    """Ten tasks of four attempts in each environment; in one of them most passes are wrong."""
    version = make_version()
    wrong = {}
    for env, task in product("abcd", range(10)):
        owner = make_task(version, f"{env}{task}", environment=env)
        for place in range(4):
            add_trajectory(owner, f"{env}{task}-{place}", "pass", model="m")
            wrong[f"{env}{task}-{place}"] = "no" if place < (3 if env == "a" else task % 2) else "yes"
    add_trajectory(owner, "fail", "fail", model="m")
    make_run(version)
    judge(version, wrong)
    found = compute(version)["breakdown"]
    rows = {row["environment"]: row for row in found["environment"]}
    assert rows["a"]["false_pass"]["estimate"] == pytest.approx(0.75)
    assert rows["a"]["flagged"]["false_pass"] is True
    assert rows["a"]["p_value"]["false_pass"] == min(row["p_value"]["false_pass"] for row in rows.values())
    assert rows["d"]["p_value"]["false_fail"] is None  # one task
    assert rows["a"]["labels"]["false_pass"] == "judge, uncalibrated"
    assert rows["d"]["scope_environment"]["false_fail"]["insufficient"]
    (alone,) = found["model"]
    assert alone["p_value"] == {"false_pass": None, "false_fail": None}
    assert sum(row["size"] for row in found["cell"]) == 161


def test_a_batch_that_was_decided_whole_flags_no_chance_difference() -> None:
    """Two environments of five tasks that differ a little: certain in this batch, and nothing for new tasks."""
    version = make_version()
    said = {}
    for env, task in product("ab", range(5)):
        owner = make_task(version, f"{env}{task}", environment=env)
        for place in range(4):
            add_trajectory(owner, f"{env}{task}-{place}", "pass", model="m")
            said[f"{env}{task}-{place}"] = "no" if place < (task + (env == "a")) % 3 else "yes"
    make_run(version)
    judge(version, said)
    rows = compute(version)["breakdown"]["environment"]
    assert rows[0]["false_pass"]["estimate"] != rows[1]["false_pass"]["estimate"]
    assert rows[0]["false_pass"]["low"] == rows[0]["false_pass"]["high"]
    assert [row["flagged"]["false_pass"] for row in rows] == [False, False]


# --- criteria


def test_criteria_are_met_not_met_or_not_known(version: DatasetVersion) -> None:
    set_criteria(version, Limits(false_pass_upper=0.9, false_fail_upper=0.001, kappa_lower=0.5, coverage=0.9), by=None)
    released(version, size=40)
    found = compute(version)["criteria"]
    checks = {check["name"]: check for check in found["checks"]}
    assert found["before_draw"] is True
    assert checks["false_pass_upper"]["verdict"] == "met"
    assert checks["false_fail_upper"]["verdict"] == "not met"
    assert checks["coverage"]["verdict"] == "met"
    assert checks["coverage"]["value"] == 1.0
    set_criteria(version, Limits(false_pass_upper=0.3), by=None)
    found = compute(version)["criteria"]
    (check,) = found["checks"]
    assert (found["before_draw"], check["verdict"]) == (False, "not enough data")
    assert 0 < check["grades_more"] <= check["left"]
    assert check["hours"] == pytest.approx(check["grades_more"] / 60)


def test_hours_are_those_of_people_in_rounds_and_of_nothing_else(version: DatasetVersion) -> None:
    """Practice is on short items and a script takes no time; a round that is open is in no figure."""
    made = released(version, size=24)
    assert compute(version)["narrow"]["to_halve"]["minutes_per_grade"] == 1
    cora, dan = make_people(version, "cora", "dan")
    other = make_round(version, [cora, dan], size=10)
    slot = review.claim_next_slot(other, by=cora, now=NOW)
    assert isinstance(slot, Slot)
    grade(slot, cora, seconds=3000)
    assert compute(version)["narrow"]["to_halve"]["minutes_per_grade"] == 1
    ReviewRound.objects.filter(pk=other.pk).update(kind="practice", state="released")
    assert compute(version)["narrow"]["to_halve"]["minutes_per_grade"] == 1
    ReviewRound.objects.filter(pk=made.pk).update(is_scripted=True)
    assert compute(version)["narrow"]["to_halve"]["minutes_per_grade"] is None


def test_without_a_weighted_kappa_a_round_meets_no_limit_of_it(
    version: DatasetVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The unweighted kappa of a disproportionate round is of no population: it decides nothing."""
    set_criteria(version, Limits(kappa_lower=0.01), by=None)
    released(version, size=40)
    (check,) = compute(version)["criteria"]["checks"]
    assert check["verdict"] != "not enough data"
    monkeypatch.setattr(agreements, "weighted_kappa", lambda *_: InsufficientData("a cell is too small"))
    found = compute(version)
    assert found["agreement"]["judge_human"][0]["kappa_by_task"]["low"] is not None
    (check,) = found["criteria"]["checks"]
    assert (check["verdict"], check["value"]) == ("not enough data", None)
    assert "a cell is too small" in check["why"]


def test_a_judge_alone_meets_no_criterion(version: DatasetVersion) -> None:
    set_criteria(version, Limits(false_pass_upper=1.0), by=None)
    make_judged(version)
    (check,) = compute(version)["criteria"]["checks"]
    assert check["verdict"] == "not enough data"
    assert "alone" in check["why"]


def test_criteria_after_the_first_draw_are_late_for_every_draw(version: DatasetVersion) -> None:
    released(version)
    set_criteria(version, Limits(false_pass_upper=0.5), by=None)
    Sample.objects.update(created_at=timezone.now() + timedelta(days=1))
    assert compute(version)["criteria"]["before_draw"] is True
    frame = Sample.objects.get().frame
    Sample.objects.filter(pk=draw_sample(frame, Plan("proportional", 10), seed=5, by=None).pk).update(
        created_at=timezone.now() - timedelta(days=1)
    )
    assert compute(version)["criteria"]["before_draw"] is False


def test_criteria_decide_which_rate_is_primary(version: DatasetVersion) -> None:
    make_judged(version)
    set_criteria(version, Limits(primary="false_fail", coverage=0.5), by=None)
    assert compute(version)["narrow"]["primary"] == "false_fail"


@pytest.mark.parametrize(
    "limits",
    [
        Limits(),
        Limits(primary="both", coverage=1),
        Limits(false_pass_upper=0),
        Limits(coverage=1.5),
        Limits(kappa_lower=1),
    ],
)
def test_criteria_that_cannot_be_are_refused(version: DatasetVersion, limits: Limits) -> None:
    with pytest.raises(CriteriaError):
        set_criteria(version, limits, by=None)


def test_the_page_of_criteria_keeps_what_was_stated(version: DatasetVersion, client: Client) -> None:
    lead, viewer = User.objects.create_user("lead"), User.objects.create_user("viewer")
    Membership.objects.create(dataset=version.dataset, user=lead, role=Role.LEAD)
    Membership.objects.create(dataset=version.dataset, user=viewer, role=Role.VIEWER)
    address = reverse("numbers-criteria", args=[version.dataset.name])
    client.force_login(lead)
    assert "Nothing is drawn yet" in client.get(address).content.decode()
    answer = client.post(address, {"primary": "false_pass", "false_pass_upper": "5", "kappa_lower": "0.6"})
    assert answer.status_code == 302
    client.post(address, {"primary": "false_pass", "false_pass_upper": "5", "kappa_lower": "0.6"})
    row = AcceptanceCriteria.objects.get()  # the same again is no other
    assert (row.false_pass_upper, row.false_fail_upper, row.kappa_lower) == (0.05, None, 0.6)
    empty = client.post(address, {"primary": "false_pass"})
    assert empty.status_code == 422
    assert "at least one limit" in empty.content.decode()
    wrong = client.post(address, {"primary": "false_pass", "false_pass_upper": "250"})
    assert wrong.status_code == 422
    assert "250" in wrong.content.decode()  # nothing typed is lost
    make_judged(version)
    page = client.get(address).content.decode()
    assert "before the first draw" in page
    client.force_login(viewer)
    assert "Put in force" not in client.get(address).content.decode()
    assert client.post(address, {"primary": "false_pass", "false_pass_upper": "5"}).status_code == 403


# --- held-out sets


def test_held_out_tasks_have_rates_of_their_own(version: DatasetVersion) -> None:
    make_judged(version)
    held = HeldOutSet.objects.create(version=version, name="frozen", digest="d" * 64, refresh_on=date(2027, 1, 1))
    tasks = list(version.tasks.order_by("name"))
    HeldOutTask.objects.bulk_create(
        HeldOutTask(held_out=held, task=task, part=part)
        for task, part in zip(tasks, ("dev", "test", "test"), strict=False)
    )
    label(version, {f"t1-{place}": "no" if place == 0 else "yes" for place in range(4)})
    dev, test = compute(version)["frozen_set"]
    assert (dev["part"], dev["tasks"], test["part"], test["tasks"]) == ("dev", 1, "test", 2)
    assert (dev["trajectories"], test["trajectories"]) == (8, 16)
    assert test["false_pass"]["n"] == 4
    assert dev["labels"]["false_pass"] == "judge, uncalibrated"
    held.retired_at = timezone.now()
    held.save()
    assert compute(version)["frozen_set"] == []
    assert Sample.objects.count() == 1
