"""Prepared queries give what their querysets give, for every value, in every thread."""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DataError, NotSupportedError, close_old_connections, connection, connections, transaction
from django.db.models import F, QuerySet
from django.db.models.sql import Query
from django.test.utils import CaptureQueriesContext

from auditapp.models.datasets import Environment, Task
from auditapp.models.reviews import Draft, RoundState, Slot, SlotState
from auditapp.prepared import Prepared, PreparedWrite, changing, deleting
from tests.auditapp.population import add_trajectory, make_task, make_version
from tests.auditapp.rounds import make_reviewers, make_round

pytestmark = pytest.mark.django_db


def _of_round(round: int, now: datetime) -> QuerySet[Slot]:
    free = Slot.objects.filter(round=round, state=SlotState.FREE, round__state__in=[RoundState.OPEN])
    return free.exclude(free_from__gt=now).select_related("item__task__environment", "item__rubric").order_by("pk")


def _by_id(public_id: uuid.UUID) -> QuerySet[Slot]:
    return Slot.objects.filter(public_id=public_id)


def _names(environment: int) -> QuerySet[Task, str]:
    return Task.objects.filter(environment=environment).order_by("name").values_list("name", flat=True)


NOW = datetime(2026, 11, 1, tzinfo=UTC)


def slots(title: str) -> list[Slot]:
    version = make_version(title)
    trajectories = [add_trajectory(make_task(version, f"{title} {n}"), f"t{n}") for n in range(3)]
    return list(make_round(trajectories, make_reviewers(version, f"by-{title}")).slots.order_by("pk"))


def test_each_call_gives_its_own_rows_with_what_belongs_to_them() -> None:
    query, one, other = Prepared(_of_round), slots("one"), slots("other")
    for mine in (one, other, one):
        found = query.rows(round=mine[0].round_id, now=NOW)
        assert found == mine
        with CaptureQueriesContext(connection) as later:
            assert [slot.item.task.environment.name for slot in found]
            assert {slot.item.rubric for slot in found} == {None}
        assert len(later) == 0
    Slot.objects.filter(pk=one[0].pk).update(free_from=datetime(2026, 11, 2, tzinfo=UTC))
    assert query.rows(round=one[0].round_id, now=NOW) == one[1:]
    assert query.rows(round=one[0].round_id, now=datetime(2026, 11, 3, tzinfo=UTC)) == one


def test_ids_and_single_columns() -> None:
    mine = slots("ids")
    query = Prepared(_by_id)
    assert [query.first(public_id=slot.public_id) for slot in mine] == mine
    assert query.first(public_id=uuid.uuid4()) is None
    assert Prepared(_names).rows(environment=Environment.objects.get().pk) == ["ids 0", "ids 1", "ids 2"]


def test_the_log_of_queries_has_their_text() -> None:
    query = Prepared(_names)
    for _ in range(3):
        with CaptureQueriesContext(connection) as queries:
            query.rows(environment=1)
        assert [sql["sql"].startswith("SELECT") for sql in queries] == [True]


def _half(environment: int) -> QuerySet[Task, str]:
    half = Task.objects.filter(environment=environment, name__contains="50%").exclude(name__contains="%%s")
    return half.order_by("name").values_list("name", flat=True)


def test_a_constant_may_hold_the_sign_of_a_placeholder() -> None:
    version = make_version()
    for name in ("50% done", "50 done", "50%%s", "150% of it"):
        make_task(version, name)
    environment = Environment.objects.get().pk
    assert Prepared(_half).rows(environment=environment) == list(_half(environment)) == ["150% of it", "50% done"]


@pytest.fixture
def keeps_plans() -> None:
    """SQLite plans each statement anew: what may happen to a kept plan is asked of PostgreSQL, which CI runs, too."""
    if connection.vendor != "postgresql":
        pytest.skip("only PostgreSQL keeps plans: runs with --db postgres")


@pytest.mark.usefixtures("keeps_plans")
def test_a_rolled_back_transaction_leaves_plans_kept() -> None:
    with suppress(ZeroDivisionError), transaction.atomic():
        Prepared(_names).rows(environment=1)
        raise ZeroDivisionError
    with connection.cursor() as cursor:
        cursor.execute("SHOW plan_cache_mode")
        assert cursor.fetchone() == ("force_generic_plan",)


def _closed(round: int, by: int, now: datetime) -> Query:
    rows = Slot.objects.filter(round=round, state=SlotState.FREE, free_from=None)
    return changing(rows, state=SlotState.SUBMITTED, reviewer=by, lease_until=None, submitted_at=now)


def test_a_write_changes_its_rows_alone_and_counts_them() -> None:
    write, one, other = PreparedWrite(_closed), slots("one"), slots("other")
    ana, bo = (User.objects.get(username=f"by-{title}") for title in ("one", "other"))
    Slot.objects.filter(pk=one[0].pk).update(free_from=NOW)
    assert write(round=one[0].round_id, by=ana.pk, now=NOW) == 2
    assert write(round=one[0].round_id, by=ana.pk, now=NOW) == 0
    assert write(round=other[0].round_id, by=bo.pk, now=NOW) == 3
    done = Slot.objects.filter(state=SlotState.SUBMITTED, submitted_at=NOW)
    assert set(done.values_list("pk", "reviewer")) == {
        *((slot.pk, ana.pk) for slot in one[1:]),
        *((slot.pk, bo.pk) for slot in other),
    }


def _gone(pk: int) -> Query:
    return deleting(Draft.objects.filter(slot=pk))


def test_a_deletion_takes_its_rows_alone() -> None:
    mine = slots("one")
    user = User.objects.get(username="by-one")
    for slot in mine:
        Draft.objects.create(slot=slot, reviewer=user, saved_at=NOW)
    assert PreparedWrite(_gone)(pk=mine[1].pk) == 1
    assert set(Draft.objects.values_list("slot", flat=True)) == {mine[0].pk, mine[2].pk}


def _shifted(round: int) -> QuerySet[Slot]:
    return Slot.objects.filter(round=round + 1)


def _failing(environment: int) -> QuerySet[Task]:
    return Task.objects.filter(environment=environment).annotate(never=F("pk") / (F("pk") - F("pk")))


def _unused(round: int, by: int) -> QuerySet[Slot]:
    return Slot.objects.filter(round=round)


@pytest.mark.parametrize("make", [_shifted, _unused])
def test_a_value_that_does_not_reach_the_query_is_refused(make: Callable[..., QuerySet[Any]]) -> None:
    with pytest.raises(ValueError, match="did not reach the query unchanged"):
        Prepared(make).rows(round=1, by=1)


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(KeyError):
        Prepared(_of_round).rows(round=1)


@pytest.mark.django_db(transaction=True)
def test_threads_use_connections_of_their_own() -> None:
    query, one, other = Prepared(_of_round), slots("one"), slots("other")

    def ask(number: int) -> bool:
        mine = (one, other)[number % 2]
        try:
            return query.rows(round=mine[0].round_id, now=NOW) == mine
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(20)))


@pytest.mark.usefixtures("keeps_plans")
def test_a_failed_query_leaves_the_connection_as_it_was() -> None:
    environment = slots("one")[0].item.task.environment_id
    before = connection.connection.cursor_factory
    with pytest.raises(DataError, match="zero"), transaction.atomic():
        Prepared(_failing).rows(environment=environment)
    assert connection.connection.cursor_factory is before


@pytest.fixture
def change_state(keeps_plans: None) -> Iterator[Callable[[int], None]]:
    """Give the column of a slot's state another length, as a migration of another process does."""
    other = connections.create_connection("default")

    def change(length: int) -> None:
        with other.cursor() as cursor:
            cursor.execute(f"ALTER TABLE auditapp_slot ALTER COLUMN state TYPE varchar({length})")

    yield change
    connection.close()
    change(Slot._meta.get_field("state").max_length or 0)
    other.close()


@pytest.mark.django_db(transaction=True)
def test_a_migration_under_a_running_process_fails_no_query(change_state: Callable[[int], None]) -> None:
    query, mine = Prepared(_by_id), slots("one")
    for length in (100, 200):
        assert query.rows(public_id=mine[0].public_id) == [mine[0]]
        change_state(length)
    assert query.rows(public_id=mine[0].public_id) == [mine[0]]


@pytest.mark.django_db(transaction=True)
def test_a_migration_during_a_transaction_fails_that_one_alone(change_state: Callable[[int], None]) -> None:
    query, mine = Prepared(_by_id), slots("one")
    assert query.rows(public_id=mine[0].public_id) == [mine[0]]
    change_state(100)
    with pytest.raises(NotSupportedError), transaction.atomic():
        query.rows(public_id=mine[0].public_id)
    close_old_connections()  # as the end of a request does
    with transaction.atomic():
        assert query.rows(public_id=mine[0].public_id) == [mine[0]]
