"""What a run will cost is said once there is something to say it from."""

from decimal import Decimal

import pytest

from auditapp.stats.proportions import InsufficientData
from auditapp.stats.spend import Projection, projected_spend, share


def test_the_mean_times_the_plan() -> None:
    found = projected_spend(cost=Decimal("1.50"), finished=10, planned=300)
    assert found == Projection(Decimal("0.15"), Decimal("45.00"), 10)


def test_a_finished_run_costs_what_it_cost() -> None:
    found = projected_spend(cost=Decimal("0.30"), finished=2, planned=2)
    assert isinstance(found, Projection)
    assert found.total == Decimal("0.30")


def test_free_judgments_are_projected_as_free() -> None:
    found = projected_spend(cost=Decimal(0), finished=8, planned=80)
    assert isinstance(found, Projection)
    assert found.total == 0


@pytest.mark.parametrize(("finished", "planned", "unknown"), [(0, 300, 0), (4, 300, 0), (0, 0, 0), (9, 300, 2)])
def test_too_little_is_no_number(finished: int, planned: int, unknown: int) -> None:
    found = projected_spend(cost=Decimal(1), finished=finished, planned=planned, of_unknown_cost=unknown)
    assert isinstance(found, InsufficientData)
    assert found.reason


def test_a_few_unknown_costs_do_not_hide_the_rest() -> None:
    assert isinstance(projected_spend(cost=Decimal(1), finished=90, planned=300, of_unknown_cost=9), Projection)


def test_a_share_of_nothing_is_not_zero() -> None:
    assert share(0, 0) is None
    assert share(0, 5) == 0
    assert share(4, 5) == 0.8
