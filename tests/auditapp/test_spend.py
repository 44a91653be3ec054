"""Spend, replicates, rate limits and shared judgments of a run, on rows."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from auditapp import judging
from auditapp.estimation import headline
from auditapp.ledger import DatabaseLedger, claim
from auditapp.models.judgments import JudgeConfig, JudgeRun, Judgment, ProviderCall
from auditapp.models.labels import labels
from auditapp.sampling import draw_sample, freeze_frame
from auditapp.stats.allocation import Plan
from auditapp.stats.proportions import InsufficientData, Proportion
from auditapp.stats.spend import Projection
from judges.errors import HandBack, JudgmentFailed
from judges.limiter import RateLimits
from judges.messages import TurnRequest
from judges.providers.scripted import ScriptedProvider, Turn
from tests.auditapp.looks import CONFIG, GOOD, LOOK, answer, attribution, make_run, make_world, verdict

__all__ = ["answer"]
pytestmark = pytest.mark.django_db
Answer = Callable[..., ScriptedProvider]
CENT = Decimal("0.01")


def judge_all(run: JudgeRun) -> None:
    for judgment_id in judging.queued_ids(run):
        judging.execute_judgment(judgment_id)
    run.refresh_from_db()


def paid(script: tuple[Turn, ...] = GOOD, cost: Decimal | None = CENT) -> list[Turn]:
    return [replace(turn, cost=cost) for turn in script]


class TestCounters:
    def test_tokens_of_all_calls_are_counted_on_the_run(self, answer: Answer) -> None:
        answer(paid(), worst=CENT)
        run = make_run(make_world(2))
        judge_all(run)
        assert (run.input_tokens, run.cached_tokens, run.output_tokens) == (900, 300, 120)
        assert run.uncounted_calls == 0

    def test_a_call_that_certainly_cost_nothing_holds_no_money(self, answer: Answer) -> None:
        def refused(_request: TurnRequest) -> Turn:
            error = JudgmentFailed("provider_config", "no such model")
            error.cost = Decimal(0)
            raise error

        answer([refused], worst=CENT)
        run = make_run(make_world(1), budget_usd=Decimal(1))
        judge_all(run)
        assert (run.spent_micros, run.reserved_micros) == (0, 0)
        assert Judgment.objects.get().cost_usd == 0

    def test_a_call_that_may_have_been_billed_stays_reserved(self, answer: Answer) -> None:
        def cut(_request: TurnRequest) -> Turn:
            raise JudgmentFailed("provider_outage", "no answer in time")

        answer([cut], worst=CENT)
        run = make_run(make_world(1), budget_usd=Decimal(1))
        judge_all(run)
        assert (run.spent_micros, run.reserved_micros, run.uncounted_calls) == (0, 10_000, 1)
        assert Judgment.objects.get().cost_usd is None

    def test_a_hand_back_without_a_bill_leaves_the_cost_known(self, answer: Answer) -> None:
        waits = iter([True])

        def busy(_request: TurnRequest) -> Turn:
            if next(waits, False):
                wait = HandBack(0)
                wait.cost = Decimal(0)
                raise wait
            return paid()[0]

        answer([busy, *paid()[1:]], worst=CENT)
        run = make_run(make_world(1))
        judge_all(run)
        judge_all(run)
        assert run.state == "done"
        assert Judgment.objects.get().cost_usd == 3 * CENT
        assert run.reserved_micros == 0


class TestForecast:
    def test_the_end_is_told_from_what_is_finished(self, answer: Answer) -> None:
        answer(paid(), worst=CENT)
        run = make_run(make_world(10))
        for judgment_id in judging.queued_ids(run)[:5]:
            judging.execute_judgment(judgment_id)
        found = judging.spend_forecast(run)
        assert found == Projection(3 * CENT, 30 * CENT, 5)

    def test_before_that_nothing_is_said(self) -> None:
        assert isinstance(judging.spend_forecast(make_run(make_world(10))), InsufficientData)

    def test_an_unknown_price_is_no_forecast(self, answer: Answer) -> None:
        answer(paid(cost=None), worst=None)
        run = make_run(make_world(6))
        judge_all(run)
        assert isinstance(judging.spend_forecast(run), InsufficientData)


class TestReplicates:
    def test_every_replicate_asks_anew(self, answer: Answer) -> None:
        provider = answer()
        judge_all(make_run(make_world(1), replicates=3))
        assert Judgment.objects.filter(state="completed").count() == 3
        assert len(provider.requests) == 3 * 3
        assert ProviderCall.objects.count() == 3 * 3

    def test_a_replicate_replays_nothing_of_another(self, answer: Answer) -> None:
        answer()
        run = make_run(make_world(1), replicates=2)
        first, second = judging.queued_ids(run)
        judging.execute_judgment(first)
        execution = claim(second, worker="w", now=timezone.now())
        assert execution is not None
        assert DatabaseLedger(execution, Judgment.objects.get(pk=second)).stored_turns() == []

    def test_only_replicate_0_is_the_label(self, answer: Answer) -> None:
        run = make_run(make_world(4, status="pass"), replicates=3)
        answer()
        for judgment in Judgment.objects.filter(replicate=0):
            judging.execute_judgment(judgment.pk)
        answer([LOOK, verdict("not_satisfied", "not_met"), attribution("not_satisfied")])
        judge_all(run)
        assert set(Judgment.objects.values_list("replicate", "decision")) == {
            (0, "satisfied"),
            (1, "not_satisfied"),
            (2, "not_satisfied"),
        }
        found = headline(run.sample.frame.version)
        rate = found and found.false_pass
        assert isinstance(rate, Proportion)
        assert (rate.estimate, rate.n) == (0.0, 4)
        assert judging.summary(run)["outcomes"] == {"true_pass": 4}
        assert set(labels(run.sample.frame.version).values_list("replicate", flat=True)) == {0, 1, 2}

    def test_more_replicates_later_keep_the_label(self, answer: Answer) -> None:
        provider = answer()
        version = make_world(2)
        judge_all(make_run(version))
        before = Judgment.objects.get(trajectory__source__source_id="t0-0").finished_at
        more = make_run(version, config=JudgeConfig.objects.get(), replicates=2)
        assert (more.planned, more.reused) == (2, 2)
        judge_all(more)
        assert len(provider.requests) == 4 * 3
        label = Judgment.objects.get(trajectory__source__source_id="t0-0", replicate=0)
        assert label.finished_at == before


class TestSharedJudgments:
    def both(self, *, size: int = 4) -> tuple[JudgeRun, JudgeRun]:
        """A run, and a live one over a part of its sample that counts on its judgments."""
        version = make_world(size)
        config = judging.ensure_config(CONFIG, by=None)
        first = make_run(version, config=config)
        part = draw_sample(freeze_frame(version, by=None), Plan("proportional", size - 1), seed=1, by=None)
        second = judging.create_judge_run(part, config, by=None)
        return first, second

    def test_cancelling_gives_them_to_the_run_that_needs_them(self, answer: Answer) -> None:
        answer()
        first, second = self.both()
        assert (second.planned, second.reused) == (0, 3)
        assert judging.cancel_run(first, by=None, now=timezone.now())
        assert sorted(Judgment.objects.values_list("state", "run")) == sorted(
            [("cancelled", first.pk), *[("queued", second.pk)] * 3]
        )
        first.refresh_from_db()
        second.refresh_from_db()
        assert (first.planned, first.reused, second.planned, second.reused) == (1, 3, 3, 0)
        judge_all(second)
        assert (second.state, judging.progress(second)["completed"]) == ("done", 3)

    def test_one_that_is_being_judged_goes_on_and_pays_from_the_first(self, answer: Answer) -> None:
        first, second = self.both()
        wanted = second.sample.units.values_list("trajectory", flat=True)

        def cancel_now(_request: TurnRequest) -> Turn:
            judging.cancel_run(first, by=None, now=timezone.now())
            return paid()[0]

        answer([cancel_now, *paid()[1:]], worst=CENT)
        judging.execute_judgment(Judgment.objects.filter(trajectory__in=wanted).order_by("pk")[0].pk)
        first.refresh_from_db()
        assert Judgment.objects.filter(state="completed").values_list("run", flat=True).get() == second.pk
        assert (first.spent_usd, first.reserved_micros) == (3 * CENT, 0)

    def test_without_another_run_all_is_cancelled(self) -> None:
        run = make_run(make_world(3))
        judging.cancel_run(run, by=None, now=timezone.now())
        assert set(Judgment.objects.values_list("state", flat=True)) == {"cancelled"}


class TestRates:
    def test_a_rate_is_no_part_of_the_judge_and_the_last_one_is_in_force(self) -> None:
        plain = judging.ensure_config(CONFIG, by=None)
        limited = CONFIG.model_copy(update={"rate": RateLimits(in_flight=3)})
        assert judging.ensure_config(limited, by=None) == plain
        plain.refresh_from_db()
        assert judging.stored_config(plain).rate == RateLimits(in_flight=3)
        assert judging.stored_config(plain).digest() == plain.digest
        judging.ensure_config(CONFIG, by=None)
        plain.refresh_from_db()
        assert judging.stored_config(plain).rate == RateLimits()


class TestPage:
    def lead(self, run: JudgeRun) -> Client:
        client, lead = Client(), User.objects.create_user("lead")
        run.sample.frame.version.dataset.membership_set.create(user=lead, role="lead")
        client.force_login(lead)
        return client

    def page(self, client: Client, run: JudgeRun) -> str:
        return client.get(reverse("run", args=[run.public_id])).content.decode()

    def test_it_says_what_is_spent_reserved_projected_and_counted(self, answer: Answer) -> None:
        answer(paid(), worst=CENT)
        run = make_run(make_world(10), budget_usd=Decimal(5))
        lead = self.lead(run)
        assert "too little data" in self.page(lead, run)
        for judgment_id in judging.queued_ids(run)[:6]:
            judging.execute_judgment(judgment_id)
        text = self.page(lead, run)
        for part in ("Spent", "Reserved", "Projected", "Tokens in", "from cache", "Tokens out", "Set the budget"):
            assert part in text
        assert "Calls without a price" not in text

    def test_a_run_of_fixed_rules_asks_for_no_budget(self) -> None:
        run = make_run(make_world(2))
        lead = self.lead(run)
        assert "Set the budget" in self.page(lead, run)
        JudgeConfig.objects.filter(pk=run.config_id).update(provider="rules")
        assert "Set the budget" not in self.page(lead, run)

    def test_calls_without_a_price_are_counted_and_not_zero(self, answer: Answer) -> None:
        answer(paid(cost=None), worst=None)
        run = make_run(make_world(6))
        judge_all(run)
        assert "Calls without a price</dt><dd>18" in self.page(self.lead(run), run)

    def test_a_budget_that_is_raised_lets_a_paused_run_go_on(
        self, answer: Answer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rung: list[Any] = []
        monkeypatch.setattr("auditapp.tasks.enqueue_judgments", rung.extend)
        answer(paid(), worst=CENT)
        run = make_run(make_world(1), budget_usd=CENT)
        judge_all(run)
        assert (run.state, run.reason) == ("paused", "budget_reached")
        lead, address = self.lead(run), reverse("run-steer", args=[run.public_id])
        assert lead.post(address, {"do": "budget", "budget_usd": "0.01"}).status_code == 302
        run.refresh_from_db()
        assert (run.state, rung) == ("paused", [])
        assert lead.post(address, {"do": "budget", "budget_usd": "1"}).status_code == 302
        run.refresh_from_db()
        assert (run.state, run.budget_usd, len(rung)) == ("running", Decimal(1), 1)

    @pytest.mark.parametrize("given", ["-1", "0", "much", "1e99"])
    def test_what_is_no_budget_changes_nothing(self, given: str) -> None:
        run = make_run(make_world(1), budget_usd=Decimal(1))
        response = self.lead(run).post(
            reverse("run-steer", args=[run.public_id]), {"do": "budget", "budget_usd": given}
        )
        assert response.status_code == 422
        run.refresh_from_db()
        assert run.budget_usd == Decimal(1)
