"""Judgments are planned once, judged once, and what came of them is stored whole or not at all."""

import errno
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, connections, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from auditapp import blobs, judging, results
from auditapp.cases import build_case, load_revealed, rubric_in_force
from auditapp.ledger import DatabaseLedger, claim, worker_name
from auditapp.models.datasets import RubricOrigin, TaskRubric, Trajectory
from auditapp.models.events import AuditEvent
from auditapp.models.judgments import Execution, JudgeConfig, JudgeRun, Judgment, ProviderCall
from auditapp.models.labels import labels
from auditapp.models.sources import TrajectorySource
from auditapp.relabel import NOT_RUN, count_not_run_as
from auditapp.results import store_result
from auditapp.sampling import draw_sample, freeze_frame
from auditapp.stats.allocation import Plan
from judges.errors import HandBack, JudgmentStopped, LockConflict
from judges.messages import TurnRequest
from judges.outcome import outcome
from judges.providers.scripted import ScriptedProvider, Turn
from judges.records import content_digest
from judges.verdict import JudgmentResult
from tests.auditapp.looks import CONFIG, GOOD, LOOK, answer, attribution, citation, make_run, make_world, verdict
from tests.auditapp.population import add_trajectory, make_task, make_version

__all__ = ["answer"]
pytestmark = pytest.mark.django_db
Answer = Callable[..., ScriptedProvider]
LATER = timedelta(minutes=10)


def only() -> Judgment:
    return Judgment.objects.get()


def judge_all(run: JudgeRun) -> None:
    for judgment_id in judging.queued_ids(run):
        assert judging.execute_judgment(judgment_id) is None


class TestPlanning:
    def test_one_judgment_for_each_unit_and_replicate_labels_first(self) -> None:
        run = make_run(make_world(3), replicates=2)
        rows = list(Judgment.objects.order_by("pk").values_list("state", "replicate"))
        assert rows == [("queued", 0)] * 3 + [("queued", 1)] * 3
        assert (run.planned, run.reused, run.state) == (6, 0, "running")

    def test_asking_again_is_the_same_run(self) -> None:
        version = make_world(3)
        run = make_run(version)
        assert make_run(version) == run
        assert Judgment.objects.count() == 3
        assert AuditEvent.objects.filter(action="run_planned").count() == 1

    def test_another_sample_reuses_what_this_config_has_judged(self, answer: Answer) -> None:
        answer()
        version = make_world(4)
        config = judging.ensure_config(CONFIG, by=None)
        part = draw_sample(freeze_frame(version, by=None), Plan("proportional", 3), seed=1, by=None)
        judge_all(judging.create_judge_run(part, config, by=None))
        whole = make_run(version, config=config)
        assert (whole.planned, whole.reused) == (1, 3)
        assert judging.progress(whole) == {"queued": 1, "running": 0, "completed": 3, "failed": 0, "cancelled": 0}

    def test_a_run_that_finds_everything_judged_is_done_at_once(self, answer: Answer) -> None:
        answer()
        version = make_world(2)
        judge_all(make_run(version))
        part = draw_sample(freeze_frame(version, by=None), Plan("proportional", 1), seed=1, by=None)
        again = judging.create_judge_run(part, JudgeConfig.objects.get(), by=None)
        assert (again.planned, again.reused, again.state) == (0, 1, "done")

    def test_another_config_is_another_judgment(self) -> None:
        version = make_world(2)
        make_run(version)
        other = judging.ensure_config(CONFIG.model_copy(update={"max_output_tokens": 1000}), by=None)
        assert make_run(version, config=other).planned == 2

    def test_what_was_cancelled_is_planned_anew(self) -> None:
        version = make_world(2)
        first = make_run(version)
        judging.cancel_run(first, by=None, now=timezone.now())
        second = make_run(version)
        assert (second.planned, second.reused) == (2, 0)
        assert set(Judgment.objects.values_list("state", "run")) == {("queued", second.pk)}

    def test_units_of_a_task_stand_together_behind_the_first_of_each_task(self) -> None:
        make_run(make_world(3, tasks=2))
        names = Judgment.objects.order_by("pk").values_list("trajectory__source__source_id", flat=True)
        assert list(names) == ["t0-0", "t1-0", "t0-1", "t0-2", "t1-1", "t1-2"]

    @pytest.mark.parametrize("options", [{"replicates": 0}, {"budget_usd": Decimal(0)}])
    def test_a_run_without_a_look_or_money_is_refused(self, options: dict[str, Any]) -> None:
        with pytest.raises(judging.JudgingError, match="at least one replicate"):
            make_run(make_world(1), **options)

    def test_the_name_of_a_config_is_not_part_of_it(self) -> None:
        first = judging.ensure_config(CONFIG, by=None, source='name = "a"')
        assert judging.ensure_config(CONFIG.model_copy(update={"name": "b"}), by=None) == first
        assert judging.stored_config(first) == CONFIG


class TestSharing:
    """Two runs of one judge over overlapping samples: each judgment is made once, and both answer from it."""

    def both(self, size: int = 3) -> tuple[JudgeRun, JudgeRun]:
        """A census that is queued, and a run over all but one of its units."""
        version = make_world(size)
        config = judging.ensure_config(CONFIG, by=None)
        whole = make_run(version, config=config)
        part = draw_sample(freeze_frame(version, by=None), Plan("proportional", size - 1), seed=1, by=None)
        return whole, judging.create_judge_run(part, config, by=None)

    def state(self, run: JudgeRun) -> str:
        run.refresh_from_db()
        return run.state

    def test_a_run_is_live_while_another_one_judges_for_it(self, answer: Answer) -> None:
        answer()
        whole, part = self.both()
        assert (part.planned, part.reused, part.state) == (0, 2, "running")
        assert set(judging.queued_ids(part)) < set(judging.queued_ids(whole))
        judge_all(part)
        assert (self.state(part), self.state(whole)) == ("done", "running")
        judge_all(whole)
        assert self.state(whole) == "done"

    def test_what_a_paused_run_has_queued_is_judged_for_the_one_that_runs(self, answer: Answer) -> None:
        answer()
        whole, part = self.both()
        judging.pause_run(whole, by=None)
        assert len(judging.queued_ids(part)) == 2
        judge_all(part)
        whole.refresh_from_db()
        assert (self.state(part), whole.state, whole.planned, whole.reused) == ("done", "paused", 1, 2)

    def test_a_run_that_its_budget_paused_holds_up_no_other(self, answer: Answer) -> None:
        answer([replace(turn, cost=Decimal("0.10")) for turn in GOOD], worst=Decimal("0.10"))
        whole, part = self.both()
        judging.set_budget(whole, Decimal("0.05"), by=None)
        judging.execute_judgment(judging.queued_ids(part)[0])
        assert (self.state(whole), whole.reason) == ("paused", "budget_reached")
        judge_all(part)
        assert (self.state(part), part.spent_usd, whole.spent_usd) == ("done", Decimal("0.60"), 0)

    def test_a_run_asked_for_after_a_pause_takes_over_what_waits(self) -> None:
        version = make_world(2)
        config = judging.ensure_config(CONFIG, by=None)
        judging.pause_run(make_run(version, config=config), by=None)
        part = draw_sample(freeze_frame(version, by=None), Plan("proportional", 1), seed=1, by=None)
        run = judging.create_judge_run(part, config, by=None)
        assert (run.state, run.planned, len(judging.queued_ids(run))) == ("running", 1, 1)

    def test_what_was_cancelled_under_a_run_that_had_ended_is_planned_when_it_is_asked_for_again(
        self, answer: Answer
    ) -> None:
        answer([LOOK, Turn(stop="refusal")])
        whole, part = self.both()
        judge_all(whole)
        answer()
        assert len(judging.retry_failed(whole, by=None)) == 3
        judging.cancel_run(whole, by=None, now=timezone.now())
        assert (self.state(part), judging.progress(part)["cancelled"]) == ("done", 2)
        again = judging.create_judge_run(part.sample, part.config, by=None)
        assert (again, again.state, len(judging.queued_ids(again))) == (part, "running", 2)
        judge_all(again)
        assert (self.state(part), judging.progress(part)["completed"]) == ("done", 2)

    def test_a_retry_takes_over_what_failed_in_another_run(self, answer: Answer) -> None:
        answer([LOOK, Turn(stop="refusal")])
        whole, _ = self.both()
        judge_all(whole)
        answer()
        part = draw_sample(whole.sample.frame, Plan("proportional", 1), seed=3, by=None)
        third = judging.create_judge_run(part, whole.config, by=None)
        assert (third.state, judging.progress(third)["failed"]) == ("done", 1)
        assert len(judging.retry_failed(third, by=None)) == 1
        assert self.state(third) == "running"
        judge_all(third)
        assert (self.state(third), judging.progress(third)["completed"]) == ("done", 1)
        assert (third.planned, judging.progress(whole)) == (1, judging.progress(whole) | {"failed": 2, "completed": 1})

    def test_the_page_of_a_run_shows_what_came_of_the_labels_it_reuses(self, answer: Answer) -> None:
        answer()
        whole, part = self.both()
        judge_all(whole)
        part.refresh_from_db()
        lead = User.objects.create_user("lead")
        part.sample.frame.version.dataset.membership_set.create(user=lead, role="lead")
        client = Client()
        client.force_login(lead)
        shown = client.get(reverse("run", args=[part.public_id])).context
        assert (shown["outcomes"], part.planned) == ({"true_pass": 2}, 0)


class TestCancelledMeanwhile:
    """A cancellation that meets a claim half-way has stopped the judgment and not the lease."""

    def held(self) -> tuple[Execution, Judgment]:
        make_run(make_world(1))
        execution = claim(only().pk, worker=worker_name(), now=timezone.now())
        assert execution is not None
        Judgment.objects.update(state="cancelled")
        return execution, only()

    def test_the_lease_alone_does_not_let_it_call(self) -> None:
        execution, judgment = self.held()
        with pytest.raises(JudgmentStopped):
            DatabaseLedger(execution, judgment).reserve(1, 1, b"{}", Decimal(0))
        assert not ProviderCall.objects.exists()

    def test_nothing_of_the_look_is_stored(self) -> None:
        execution, judgment = self.held()
        failed = JudgmentResult("failed", reason="internal_error", detail="")
        assert not store_result(execution, judgment, failed, now=timezone.now())
        assert (only().state, Execution.objects.get().state) == ("cancelled", "stopped")

    def test_a_judgment_planned_again_waits_until_the_old_worker_has_noticed(self) -> None:
        self.held()
        Judgment.objects.update(state="queued")
        assert claim(only().pk, worker="w", now=timezone.now()) is None
        assert only().state == "queued"


class TestCase:
    def test_what_was_not_recorded_is_none_and_named(self) -> None:
        trajectory = add_trajectory(make_task(make_version()), "bare")
        case = build_case(trajectory, rubric_in_force(trajectory.task))
        assert (case.deliverable, case.initial, case.reference, case.steps_recorded) == (None, None, None, False)
        assert len(case.steps) == 0
        assert {(gap.code, gap.locator) for gap in case.gaps} == {
            ("not_recorded", name) for name in ("steps", "deliverable", "initial")
        }

    def test_bodies_come_from_blobs(self) -> None:
        make_world(1)
        trajectory = Trajectory.objects.get()
        case = build_case(trajectory, rubric_in_force(trajectory.task))
        assert case.instruction == "Write the total of the invoice to answer.txt."
        assert case.steps.read(1).message == "I am done."
        assert case.deliverable is not None
        assert case.deliverable.read("answer.txt") == b"the total is 42 dollars\n"

    def test_a_task_without_a_rubric_gets_one_row_that_says_so(self) -> None:
        task = make_task(make_version())
        assert rubric_in_force(task) == rubric_in_force(task)
        assert TaskRubric.objects.get().origin == RubricOrigin.DEFAULT

    def test_the_rubric_with_the_highest_number_is_in_force(self) -> None:
        task = make_task(make_version())
        rows = [{"id": "R1", "text": "It is short.", "format_binding": True}]
        rubric_in_force(task)
        edited = TaskRubric.objects.create(
            task=task, number=2, requirements=rows, digest=content_digest(rows), origin=RubricOrigin.EDITED
        )
        assert rubric_in_force(task) == edited
        trajectory = add_trajectory(task, "t")
        assert build_case(trajectory, edited).rubric[0].format_binding

    def test_the_reveal_holds_verdict_and_reward(self) -> None:
        trajectory = add_trajectory(make_task(make_version()), "t", "fail", reward=0.0, verifier_reason="tests failed")
        verifier = load_revealed(trajectory).verifier
        assert (verifier.status, verifier.reward, verifier.reason, verifier.streams) == (
            "fail",
            0.0,
            "tests failed",
            None,
        )


class TestJudging:
    def test_a_look_becomes_a_label_with_its_evidence(self, answer: Answer) -> None:
        answer()
        version = make_world(1)
        run = make_run(version)
        judge_all(run)
        judgment = only()
        assert (judgment.state, judgment.decision, judgment.integrity) == ("completed", "satisfied", "none")
        assert (judgment.acceptable, judgment.outcome, judgment.decision_after) == ("yes", "true_pass", "satisfied")
        assert (judgment.n_citations, judgment.n_citations_verified, judgment.confidence) == (1, 1, "high")
        assert list(judgment.criteria.values_list("code", "status", "evidence")) == [("R1", "met", ["E1"])]
        assert list(judgment.citations.values_list("code", "phase", "kind", "ok")) == [("E1", 1, "file", True)]
        assert labels(version).get().outcome == "true_pass"
        run.refresh_from_db()
        assert run.state == "done"

    def test_the_locked_verdict_is_stored_under_its_digest(self, answer: Answer) -> None:
        answer()
        judge_all(make_run(make_world(1)))
        judgment = only()
        assert judgment.lock_sha256 == judgment.blind_blob
        assert blobs.get_json(str(judgment.blind_blob))["decision"] == "satisfied"
        assert blobs.get_json(str(judgment.attribution_blob))["verifier_assessment"] == "correct"

    def test_every_call_is_kept_with_its_tokens(self, answer: Answer) -> None:
        answer()
        run = make_run(make_world(1))
        judge_all(run)
        calls = ProviderCall.objects.order_by("turn").values_list("turn", "phase", "state", "input_tokens")
        assert list(calls) == [(1, 1, "settled", 150), (2, 1, "settled", 150), (3, 2, "settled", 150)]
        judgment = only()
        assert (judgment.input_tokens, judgment.output_tokens, judgment.cost_usd) == (450, 60, 0)

    def test_a_judgment_that_is_done_is_not_judged_again(self, answer: Answer) -> None:
        provider = answer()
        judge_all(make_run(make_world(1)))
        assert judging.execute_judgment(only().pk) is None
        assert len(provider.requests) == 3
        assert Execution.objects.count() == 1

    def test_no_decision_where_the_judge_did_not_answer(self, answer: Answer) -> None:
        answer([Turn(stop="refusal", detail="cyber")])
        run = make_run(make_world(1))
        judge_all(run)
        judgment = only()
        assert (judgment.state, judgment.reason, judgment.detail) == ("failed", "refused", "cyber")
        assert (judgment.decision, judgment.acceptable, judgment.outcome) == (None, None, None)
        assert judgment.outcome_reason == "no_decision"
        run.refresh_from_db()
        assert run.state == "done"

    def test_a_locked_verdict_stays_when_the_second_phase_fails(self, answer: Answer) -> None:
        answer([LOOK, verdict(), Turn(stop="refusal", detail="cyber")])
        judge_all(make_run(make_world(1)))
        judgment = only()
        assert (judgment.state, judgment.reason) == ("completed", "attribution_missing")
        assert (judgment.decision, judgment.decision_after, judgment.attribution_blob) == ("satisfied", None, None)

    def test_a_claim_without_evidence_is_kept_as_dropped(self, answer: Answer) -> None:
        tag = {"code": "H01", "role": "primary", "evidence": ["E1"], "note": "planted"}
        bad = verdict(citations=[citation("the total is 43 dollars")], tags=[tag])
        answer([bad, bad, bad, attribution("cannot_tell")])
        judge_all(make_run(make_world(1)))
        judgment = only()
        assert judgment.decision == "cannot_tell"
        assert (judgment.n_citations, judgment.n_citations_verified) == (1, 0)
        assert list(judgment.citations.values_list("ok", flat=True)) == [False]
        assert list(judgment.tags.values_list("code", "kept")) == [("H01", False)]
        assert (judgment.outcome, judgment.outcome_reason) == (None, "cannot_tell")

    def test_a_failed_verifier_and_acceptable_work_is_a_false_fail(self, answer: Answer) -> None:
        answer()
        judge_all(make_run(make_world(1, status="fail")))
        assert only().outcome == "false_fail"

    def test_partial_counts_as_the_dataset_says(self, answer: Answer) -> None:
        answer()
        judge_all(make_run(make_world(1, status="partial", partial_as="fail")))
        assert only().outcome == "false_fail"

    def test_text_that_a_database_refuses_is_made_storable(self, answer: Answer) -> None:
        answer([verdict(citations=[citation("nul \0 and \ud800 here")]), *[verdict()] * 2, attribution()])
        judge_all(make_run(make_world(1)))
        assert only().state == "completed"
        answer([verdict(citations=[citation("nul \0 and more")])] * 3 + [attribution("cannot_tell")])
        judge_all(make_run(make_world(1, name="second")))
        assert "\u2400" in Judgment.objects.latest("pk").citations.get().quote

    def test_a_judgment_of_three_calls_asks_the_database_34_times(self, answer: Answer) -> None:
        answer()
        ids = judging.queued_ids(make_run(make_world(3)))
        judging.execute_judgment(ids[0])  # the first of a task also stores its requirements
        with CaptureQueriesContext(connection) as asked:
            judging.execute_judgment(ids[1])
        assert sum(not row["sql"].startswith(("SAVEPOINT", "RELEASE")) for row in asked) <= 34

    def test_a_budget_that_changes_during_a_judgment_counts_from_its_next_call(self, answer: Answer) -> None:
        run = make_run(make_world(1), budget_usd=Decimal("0.15"))

        def paid(_request: TurnRequest) -> Turn:
            judging.set_budget(JudgeRun.objects.get(pk=run.pk), Decimal("0.05"), by=None)
            return LOOK

        answer([paid, verdict(), attribution()], worst=Decimal("0.10"))
        judging.execute_judgment(only().pk)
        run.refresh_from_db()
        assert (run.state, run.reason, ProviderCall.objects.count()) == ("paused", "budget_reached", 1)

    def test_a_full_disk_pauses_the_run_and_nothing_is_asked_or_failed(
        self, answer: Answer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer()
        run = make_run(make_world(2))

        def full(_digest: str, _content: Any) -> str:  # an earlier test may have stored the same
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(blobs, "_store", full)
            judge_all(run)
        run.refresh_from_db()
        assert (run.state, run.reason) == ("paused", "disk_full")
        assert set(Judgment.objects.values_list("state", flat=True)) == {"queued"}
        assert ProviderCall.objects.count() == 0
        assert Execution.objects.get().reason == "disk_full"
        for judgment_id in judging.resume_run(run, by=None):
            judging.execute_judgment(judgment_id)
        run.refresh_from_db()
        assert (run.state, judging.progress(run)["completed"]) == ("done", 2)

    def test_a_missing_body_fails_that_judgment_alone(self, answer: Answer) -> None:
        answer()
        run = make_run(make_world(2))
        broken = Judgment.objects.earliest("pk")
        Trajectory.objects.filter(pk=broken.trajectory_id).update(deliverable_tree="0" * 64)
        judge_all(run)
        states = Judgment.objects.order_by("pk").values_list("state", "reason")
        assert list(states) == [("failed", "body_missing"), ("completed", "")]

    def test_an_error_of_ours_fails_that_judgment_alone(self, answer: Answer) -> None:
        def broken(_request: TurnRequest) -> Turn:
            raise ZeroDivisionError("a bug")

        answer([broken])
        judge_all(make_run(make_world(1)))
        assert (only().state, only().reason, only().detail) == (
            "failed",
            "internal_error",
            "ZeroDivisionError: a bug",
        )

    def test_a_result_that_the_database_refuses_is_a_failure(self, answer: Answer, monkeypatch: Any) -> None:
        answer()
        run = make_run(make_world(1))
        real = judging.judge

        def doubled(*args: Any, **options: Any) -> JudgmentResult:
            result = real(*args, **options)
            return replace(result, acceptable=None)

        monkeypatch.setattr(judging, "judge", doubled)
        judge_all(run)
        run.refresh_from_db()
        assert (only().state, only().reason, run.state) == ("failed", "internal_error", "done")
        assert only().detail.startswith("IntegrityError")
        assert only().criteria.count() == 0

    def test_a_config_of_another_version_of_the_judge_gives_no_label(self, answer: Answer) -> None:
        answer()
        config = judging.ensure_config(CONFIG.model_copy(update={"max_output_tokens": 2000}), by=None)
        JudgeConfig.objects.filter(pk=config.pk).update(digest="f" * 64)
        config.refresh_from_db()
        judge_all(make_run(make_world(1), config=config))
        assert (only().state, only().reason) == ("failed", "provider_config")
        assert "another version" in only().detail

    def test_the_database_refuses_a_decision_without_completion(self) -> None:
        make_run(make_world(1))
        for change in ({"decision": "satisfied"}, {"state": "completed"}):
            with pytest.raises(IntegrityError), transaction.atomic():
                Judgment.objects.update(**change)


class TestResuming:
    def test_a_hand_back_goes_on_where_it_stopped(self, answer: Answer) -> None:
        def wait(_request: TurnRequest) -> Turn:
            raise HandBack(200)

        run = make_run(make_world(1))
        first = answer([LOOK, wait])
        assert judging.execute_judgment(only().pk) == 200
        assert only().state == "queued"
        second = answer()
        assert judging.queued_ids(run) == []
        judging.execute_judgment(only().pk)
        assert second.requests == []  # rung for too early
        judging.execute_judgment(only().pk, clock=lambda: timezone.now() + timedelta(seconds=201))
        assert (only().state, only().decision) == ("completed", "satisfied")
        assert (len(first.requests), len(second.requests)) == (2, 2)
        assert Execution.objects.count() == 2

    def test_a_lost_worker_neither_loses_nor_doubles(self, answer: Answer) -> None:
        run = make_run(make_world(1))
        taken: list[int] = []

        def lose(_request: TurnRequest) -> Turn:
            taken.extend(judging.reconcile(now=timezone.now() + LATER))
            return verdict()

        answer([LOOK, lose, attribution()])
        assert judging.execute_judgment(only().pk) is None
        assert taken == [only().pk]
        assert (only().state, only().lock_sha256) == ("queued", None)
        second = answer()
        judge_all(run)
        assert (only().state, only().criteria.count(), only().citations.count()) == ("completed", 1, 1)
        assert len(second.requests) == 1  # both settled turns of the lost worker were replayed
        states = Execution.objects.order_by("pk").values_list("state", flat=True)
        assert list(states) == ["lost", "finished"]
        assert ProviderCall.objects.filter(state="settled").count() == 3

    def test_the_same_verdict_locked_twice_is_one_and_another_is_refused(self) -> None:
        make_run(make_world(1))
        execution = claim(only().pk, worker="w", now=timezone.now())
        assert execution is not None
        ledger = DatabaseLedger(execution, only())
        with pytest.raises(RuntimeError, match="before the blind verdict is locked"):
            ledger.reveal()
        ledger.lock(b'{"a":1}')
        ledger.lock(b'{"a":1}')
        with pytest.raises(LockConflict) as conflict:
            ledger.lock(b'{"a":2}')
        assert conflict.value.stored == b'{"a":1}'
        assert ledger.reveal().verifier.status == "pass"

    def test_after_a_lasting_failure_the_judge_is_asked_anew(self, answer: Answer) -> None:
        run = make_run(make_world(1))
        answer([LOOK, Turn(stop="refusal")])
        judge_all(run)
        assert judging.retry_failed(run, by=None) == [only().pk]
        assert (only().state, only().reason) == ("queued", "")
        second = answer()
        judge_all(run)
        assert (only().state, len(second.requests)) == ("completed", 3)
        run.refresh_from_db()
        assert run.state == "done"


class TestSteering:
    def test_a_paused_run_is_not_claimed_and_goes_on_when_resumed(self, answer: Answer) -> None:
        answer()
        lead = User.objects.create_user("lead")
        run = make_run(make_world(2))
        ids = judging.queued_ids(run)
        assert judging.pause_run(run, by=lead)
        assert judging.queued_ids(run) == []
        judging.execute_judgment(ids[0])
        assert judging.progress(run)["queued"] == 2
        assert judging.resume_run(run, by=lead) == ids
        judge_all(run)
        assert judging.progress(run)["completed"] == 2
        events = AuditEvent.objects.filter(actor=lead).order_by("pk").values_list("action", flat=True)
        assert list(events) == ["run_paused", "run_resumed"]

    def test_pausing_lets_running_judgments_end(self, answer: Answer) -> None:
        run = make_run(make_world(1))

        def pause(_request: TurnRequest) -> Turn:
            judging.pause_run(run, by=None)
            return LOOK

        answer([pause, *GOOD[1:]])
        judge_all(run)
        run.refresh_from_db()
        assert (only().state, run.state) == ("completed", "done")

    def test_cancelling_stops_between_turns_and_still_counts_the_call(self, answer: Answer) -> None:
        run = make_run(make_world(2))

        def cancel(_request: TurnRequest) -> Turn:
            judging.cancel_run(run, by=None, now=timezone.now())
            return replace(LOOK, cost=Decimal("0.03"))

        provider = answer([cancel, *GOOD[1:]], worst=Decimal("0.10"))
        judge_all(run)
        run.refresh_from_db()
        assert judging.progress(run)["cancelled"] == 2
        assert (len(provider.requests), run.state, run.spent_usd) == (1, "cancelled", Decimal("0.03"))
        assert ProviderCall.objects.get().state == "settled"
        assert judging.retry_failed(run, by=None) == []
        assert not judging.cancel_run(run, by=None, now=timezone.now())


class TestBudget:
    def cost(self, amount: str, script: tuple[Turn, ...] = GOOD) -> list[Turn]:
        return [replace(turn, cost=Decimal(amount)) for turn in script]

    def test_spend_is_what_calls_cost_and_nothing_stays_reserved(self, answer: Answer) -> None:
        answer(self.cost("0.0123456"), worst=Decimal("0.10"))
        run = make_run(make_world(1), budget_usd=Decimal(1))
        judge_all(run)
        run.refresh_from_db()
        assert (run.spent_micros, run.reserved_micros) == (3 * 12346, 0)
        assert only().cost_usd == Decimal("0.037038")

    def test_a_run_stops_before_the_call_that_could_pass_its_budget(self, answer: Answer) -> None:
        provider = answer(self.cost("0.10"), worst=Decimal("0.10"))
        run = make_run(make_world(1), budget_usd=Decimal("0.25"))
        judge_all(run)
        run.refresh_from_db()
        assert (run.state, run.reason, run.spent_usd) == ("paused", "budget_reached", Decimal("0.20"))
        assert (only().state, len(provider.requests)) == ("queued", 2)
        assert make_run(run.sample.frame.version, budget_usd=Decimal("0.30")) == run
        assert judging.resume_run(run, by=None) == [only().pk]
        judge_all(run)
        run.refresh_from_db()
        assert (only().state, run.state, run.spent_usd) == ("completed", "done", Decimal("0.30"))
        assert len(provider.requests) == 3

    def test_a_judgment_waits_while_calls_in_flight_hold_the_money(self, answer: Answer) -> None:
        answer(self.cost("0.05"), worst=Decimal("0.10"))
        run = make_run(make_world(2), budget_usd=Decimal("0.15"))
        first, second = Judgment.objects.order_by("pk")
        execution = claim(first.pk, worker="w", now=timezone.now())
        assert execution is not None
        call = DatabaseLedger(execution, first).reserve(1, 1, b"{}", Decimal("0.10"))
        assert judging.execute_judgment(second.pk) == 20
        run.refresh_from_db()
        second.refresh_from_db()
        assert (run.state, second.state) == ("running", "queued")
        assert ProviderCall.objects.get().pk == int(call)

    def test_a_call_that_was_lost_counts_at_its_worst(self, answer: Answer) -> None:
        run = make_run(make_world(1), budget_usd=Decimal("0.25"))
        execution = claim(only().pk, worker="w", now=timezone.now())
        assert execution is not None
        DatabaseLedger(execution, only()).reserve(1, 1, b"{}", Decimal("0.20"))
        judging.reconcile(now=timezone.now() + LATER)
        answer(self.cost("0.10"), worst=Decimal("0.10"))
        judge_all(run)
        run.refresh_from_db()
        assert (run.state, run.reason, run.spent_micros) == ("paused", "budget_reached", 0)

    def test_a_cost_that_is_not_known_stays_unknown(self, answer: Answer) -> None:
        answer([replace(turn, cost=None) for turn in GOOD], worst=None)
        run = make_run(make_world(1))
        judge_all(run)
        run.refresh_from_db()
        assert (only().state, only().cost_usd, run.unpriced_calls) == ("completed", None, 3)

    def test_without_a_price_no_budget_can_be_kept(self, answer: Answer) -> None:
        provider = answer(GOOD, worst=None)
        judge_all(make_run(make_world(1), budget_usd=Decimal(1)))
        assert (only().state, only().reason, provider.requests) == ("failed", "budget_usd", [])


class TestReconciling:
    def test_a_lease_that_beats_is_left_alone(self) -> None:
        make_run(make_world(1))
        claim(only().pk, worker="w", now=timezone.now())
        assert judging.reconcile(now=timezone.now()) == []
        assert only().state == "running"

    def test_a_stale_lease_is_taken_back_once(self) -> None:
        make_run(make_world(1))
        claim(only().pk, worker="w", now=timezone.now() - LATER)
        assert judging.reconcile(now=timezone.now()) == [only().pk]
        assert judging.reconcile(now=timezone.now()) == []
        assert Execution.objects.get().state == "lost"

    def test_what_a_dead_process_of_this_machine_held_is_taken_back_at_once(self, answer: Answer) -> None:
        answer()
        run = make_run(make_world(2))
        gone = subprocess.Popen(["true"])
        gone.wait()
        worker = f"{worker_name().rpartition(':')[0]}:{gone.pid}"
        for judgment_id in (ids := judging.queued_ids(run)):
            assert claim(judgment_id, worker=worker, now=timezone.now())
        judging.execute_judgment(ids[0])
        assert judging.progress(run)["completed"] == 1
        assert judging.reconcile(now=timezone.now()) == ids[1:]

    def test_a_live_process_keeps_its_lease(self) -> None:
        make_run(make_world(1))
        assert claim(only().pk, worker=worker_name(), now=timezone.now())
        assert judging.execute_judgment(only().pk) is None
        assert (only().state, Execution.objects.count()) == ("running", 1)

    def test_a_judgment_that_loses_worker_after_worker_fails(self) -> None:
        run = make_run(make_world(1))
        for _ in range(judging.LOST_EXECUTIONS):
            assert claim(only().pk, worker="w", now=timezone.now() - LATER)
            judging.reconcile(now=timezone.now())
        run.refresh_from_db()
        assert (only().state, only().reason, run.state) == ("failed", "worker_lost", "done")

    def test_what_a_paused_run_lost_waits_for_its_resumption(self) -> None:
        run = make_run(make_world(1))
        claim(only().pk, worker="w", now=timezone.now() - LATER)
        judging.pause_run(run, by=None)
        assert judging.reconcile(now=timezone.now()) == []
        assert only().state == "queued"

    def test_a_lease_taken_back_cannot_write_any_more(self) -> None:
        make_run(make_world(1))
        execution = claim(only().pk, worker="w", now=timezone.now() - LATER)
        assert execution is not None
        judging.reconcile(now=timezone.now())
        ledger = DatabaseLedger(execution, only())
        for write in (lambda: ledger.lock(b"{}"), ledger.heartbeat, lambda: ledger.reserve(1, 1, b"{}", Decimal(0))):
            with pytest.raises(JudgmentStopped):
                write()
        assert (only().lock_sha256, ProviderCall.objects.count()) == (None, 0)


@pytest.mark.django_db(transaction=True)
class TestTogether:
    def in_threads(self, work: Callable[[int], Any], count: int) -> list[Any]:
        gate = threading.Barrier(count)

        def one(number: int) -> Any:
            gate.wait()
            try:
                return work(number)
            finally:
                connections.close_all()

        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(one, range(count)))

    def test_one_of_many_workers_gets_a_judgment(self) -> None:
        make_run(make_world(1))
        judgment = only().pk
        claims = self.in_threads(lambda number: claim(judgment, worker=str(number), now=timezone.now()), 8)
        assert sum(execution is not None for execution in claims) == 1
        assert Execution.objects.count() == 1

    def test_two_who_plan_the_same_get_one_run(self) -> None:
        version = make_world(3)
        sample = draw_sample(freeze_frame(version, by=None), Plan("census"), seed=0, by=None)
        config = judging.ensure_config(CONFIG, by=None)
        runs = self.in_threads(lambda _number: judging.create_judge_run(sample, config, by=None).pk, 4)
        assert len(set(runs)) == 1
        assert Judgment.objects.count() == 3

    def test_whoever_claims_while_the_run_is_cancelled_makes_no_call(self) -> None:
        run = make_run(make_world(7))
        ids = judging.queued_ids(run)

        def work(number: int) -> Execution | None:
            if number == 7:
                judging.cancel_run(run, by=None, now=timezone.now())
                return None
            return claim(ids[number], worker=worker_name(), now=timezone.now())

        for execution in filter(None, self.in_threads(work, 8)):
            with pytest.raises(JudgmentStopped):
                DatabaseLedger(execution, execution.judgment).reserve(1, 1, b"{}", Decimal(0))
        assert judging.progress(run)["cancelled"] == 7

    def test_cancelling_among_working_threads_leaves_nothing_open(self, answer: Answer) -> None:
        answer([replace(turn, cost=Decimal("0.10")) for turn in GOOD], worst=Decimal("0.10"))
        version = make_world(8)  # the eighth is nobody's: however late the cancellation, it finds one open
        config = judging.ensure_config(CONFIG, by=None)
        run = make_run(version, config=config)
        part = draw_sample(run.sample.frame, Plan("proportional", 3), seed=1, by=None)
        other = judging.create_judge_run(part, config, by=None)
        ids = judging.queued_ids(run)

        def work(number: int) -> None:
            if number == 7:
                judging.cancel_run(run, by=None, now=timezone.now())
            else:
                judging.execute_judgment(ids[number])

        self.in_threads(work, 8)
        judge_all(other)
        run.refresh_from_db()
        other.refresh_from_db()
        assert (run.state, other.state, judging.progress(other)["completed"]) == ("cancelled", "done", 3)
        assert not Judgment.objects.filter(state__in=judging.OPEN).exists()
        assert not Execution.objects.filter(state="running").exists()

    def test_a_ruling_on_the_verifier_while_a_result_is_stored_decides_its_outcome(
        self, answer: Answer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        answer()
        version, lead = make_world(1), User.objects.create_user("lead")
        run = make_run(version)
        not_run = {"verifier_status": "invalid", "verifier_reason": NOT_RUN, "recorded_status": "fail"}
        TrajectorySource.objects.update(**not_run)
        ruling = threading.Thread(target=self.in_threads, args=(lambda _: count_not_run_as(version, **ruled), 1))
        ruled: dict[str, Any] = {"recorded": True, "by": lead}

        def rules_meanwhile(*given: Any, **options: Any) -> Any:
            ruling.start()
            ruling.join(0.7)
            return outcome(*given, **options)

        monkeypatch.setattr(results, "outcome", rules_meanwhile)
        judge_all(run)
        ruling.join()
        assert TrajectorySource.objects.get().verifier_status == "fail"
        assert (only().acceptable, only().outcome) == ("yes", "false_fail")

    def test_parallel_judgments_never_pass_the_budget(self, answer: Answer) -> None:
        answer([replace(turn, cost=Decimal("0.10")) for turn in GOOD], worst=Decimal("0.10"))
        run = make_run(make_world(6), budget_usd=Decimal("1.00"))
        ids = judging.queued_ids(run)
        self.in_threads(lambda number: judging.execute_judgment(ids[number]), 6)
        run.refresh_from_db()
        assert run.spent_usd <= Decimal("1.00")
        assert ProviderCall.objects.filter(state="settled").count() * 100_000 == run.spent_micros
        assert run.reserved_micros == 0


def test_the_source_row_decides_the_outcome_not_the_judge(answer: Answer) -> None:
    answer()
    version = make_world(1)
    run = make_run(version)
    TrajectorySource.objects.update(verifier_status="invalid", verifier_reason="verifier_did_not_run")
    judge_all(run)
    assert (only().acceptable, only().outcome, only().outcome_reason) == ("yes", None, "verifier_invalid")
