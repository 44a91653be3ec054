"""Each limit of a judgment ends it with its own reason, before the call that would pass it."""

from decimal import Decimal

import pytest

from judges.budget import Budget, Limits, TokenUsage
from judges.errors import JudgmentFailed


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def reason(budget: Budget, worst: Decimal | None = Decimal(0)) -> str:
    """Why the next call may not be made; empty where it may."""
    try:
        budget.check(worst)
    except JudgmentFailed as failure:
        return failure.reason
    return ""


def test_input_tokens_count_whether_cached_or_not() -> None:
    budget = Budget(Limits(input_tokens=1_000))
    budget.charge(TokenUsage(fresh=300, cache_read=400, cache_write=299), Decimal(0), worst=None)
    assert reason(budget) == ""
    budget.charge(TokenUsage(cache_read=1), Decimal(0), worst=None)
    assert reason(budget) == "budget_tokens"


def test_output_tokens_count_with_their_reasoning_once() -> None:
    budget = Budget(Limits(output_tokens=100))
    budget.charge(TokenUsage(output=99, reasoning=90), Decimal(0), worst=None)
    assert reason(budget) == ""
    budget.charge(TokenUsage(output=1), Decimal(0), worst=None)
    assert reason(budget) == "budget_tokens"


def test_dollars_hold_at_the_worst_of_the_next_call() -> None:
    budget = Budget(Limits(usd=Decimal("1.00")))
    budget.charge(TokenUsage(), Decimal("0.90"), worst=Decimal(1))
    assert reason(budget, Decimal("0.10")) == ""
    assert reason(budget, Decimal("0.11")) == "budget_usd"


def test_without_a_limit_in_dollars_none_is_kept() -> None:
    assert reason(Budget(Limits(usd=None)), Decimal(1_000)) == ""


def test_a_call_of_unknown_cost_counts_as_its_worst_and_frees_nothing_spent_before() -> None:
    budget = Budget(Limits(usd=Decimal("1.00")))
    budget.charge(TokenUsage(), Decimal("0.60"), worst=Decimal("0.70"))
    budget.charge(TokenUsage(), None, worst=Decimal("0.30"))
    assert (budget.cost, budget.bound) == (None, Decimal("0.90"))
    assert reason(budget, Decimal("0.10")) == ""
    assert reason(budget, Decimal("0.11")) == "budget_usd"


def test_an_unknown_price_leaves_the_cost_unknown_and_the_token_limits_in_force() -> None:
    budget = Budget(Limits(usd=Decimal("0.01"), input_tokens=1_000))
    budget.charge(TokenUsage(fresh=500), None, worst=None)
    assert budget.cost is None
    assert reason(budget, None) == ""
    budget.charge(TokenUsage(fresh=500), None, worst=None)
    assert reason(budget, None) == "budget_tokens"


def test_wall_time_ends_it_between_calls() -> None:
    clock = Clock()
    budget = Budget(Limits(wall_seconds=60), clock)
    clock.now = 60.0
    assert reason(budget) == ""
    clock.now = 60.1
    assert reason(budget) == "budget_wall"


@pytest.mark.parametrize(("turns", "first"), [(30, 24), (8, 6), (4, 3), (2, 1), (500, 494)])
def test_turns_are_kept_for_explaining_the_verdict(turns: int, first: int) -> None:
    budget = Budget(Limits(turns=turns))
    assert (budget.turn_limit(1), budget.turn_limit(2)) == (first, turns)
