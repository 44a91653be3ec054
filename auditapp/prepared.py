"""Queries that many people ask every second: their text is made once, since making it takes longer than running it."""

import copy
import inspect
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar, cast

import psycopg
from django.db import DEFAULT_DB_ALIAS, NotSupportedError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.db.models import QuerySet
from django.db.models.sql import DeleteQuery, Query, UpdateQuery
from django.db.models.sql.compiler import SQLCompiler
from django.dispatch import receiver
from psycopg.types.numeric import Int8

Row = TypeVar("Row")
_STAND_INS: dict[type, Callable[[int], Any]] = {
    int: lambda number: -1_000_000_007 - number,
    datetime: lambda number: datetime(1, 1, 2, tzinfo=UTC) + timedelta(days=number),
    uuid.UUID: lambda number: uuid.UUID(int=1_000_000_007 + number),
    str: lambda number: f"stand-in {1_000_000_007 + number}",
}
"""Values that no row has, by type: they mark in the finished text where those of a call belong."""


@dataclass(frozen=True, slots=True)
class _Made(Generic[Row]):
    """A finished text, and the names of the values that come with a call, in the order of their places."""

    queryset: QuerySet[Any, Row]
    compiler: SQLCompiler
    sql: str
    names: Sequence[str]


class Prepared(Generic[Row]):
    """A query of which only the values differ from call to call.

    `make` returns the queryset; each of its parameters is annotated as an int, a str, a datetime or a UUID and must
    reach the query unchanged, else ValueError. A lock of rows is part of the text; the caller opens the transaction.
    """

    def __init__(self, make: Callable[..., QuerySet[Any, Row]]) -> None:
        self._make = make

    def first(self, **values: Any) -> Row | None:
        """The first row, or None."""
        return next(iter(self.rows(**values)), None)

    def rows(self, **values: Any) -> list[Row]:
        """All rows, as the queryset gives them."""
        made, connection = self._made, connections[DEFAULT_DB_ALIAS]
        params = _bound(made.names, values, connection)
        compiler, found = copy.copy(made.compiler), made.queryset.all()
        compiler.connection = connection  # the one of this thread
        compiler.as_sql = lambda *_, **__: (made.sql, params)  # type: ignore[method-assign]
        found.query.get_compiler = lambda *_, **__: compiler  # type: ignore[method-assign]
        try:
            with _preparing(connection):
                return list(found)
        except NotSupportedError:  # a migration changed a column, and this connection keeps the plan of before
            if connection.in_atomic_block:
                connection.close_at = 0  # with the request
                raise
            connection.close()
            with _preparing(connection):
                return list(found)

    @cached_property
    def _made(self) -> _Made[Row]:
        connection, marks = connections[DEFAULT_DB_ALIAS], _marks(self._make)
        queryset = self._make(**marks)
        compiler = queryset.query.get_compiler(DEFAULT_DB_ALIAS)
        text = _text(compiler, marks, connection)
        converters = compiler.get_converters([column[0] for column in compiler.select[: compiler.col_count]])
        compiler.get_converters = lambda _: converters
        return _Made(queryset, compiler, *text)


class PreparedWrite:
    """An update or a deletion of which only the values differ: `make` returns what `changing` or `deleting` gives."""

    def __init__(self, make: Callable[..., Query]) -> None:
        self._make = make

    def __call__(self, **values: Any) -> int:
        """How many rows it met."""
        (sql, names), connection = self._made, connections[DEFAULT_DB_ALIAS]
        with _preparing(connection), connection.cursor() as cursor:
            cursor.execute(sql, _bound(names, values, connection))
            met: int = cursor.rowcount
        return met

    @cached_property
    def _made(self) -> tuple[str, Sequence[str]]:
        marks = _marks(self._make)
        compiler = self._make(**marks).get_compiler(DEFAULT_DB_ALIAS)
        return _text(compiler, marks, connections[DEFAULT_DB_ALIAS])


def changing(rows: QuerySet[Any], **values: Any) -> Query:
    """The update of these rows; nothing is told to models or signals."""
    query = cast("UpdateQuery", rows.query.chain(UpdateQuery))
    query.add_update_values(values)
    return query


def deleting(rows: QuerySet[Any]) -> Query:
    """The deletion of these rows alone: nothing may depend on them."""
    return rows.query.chain(DeleteQuery)


def _marks(make: Callable[..., Any]) -> dict[str, Any]:
    kinds = inspect.signature(make).parameters.items()
    return {name: _STAND_INS[kind.annotation](number) for number, (name, kind) in enumerate(kinds)}


def _text(compiler: SQLCompiler, marks: dict[str, Any], connection: BaseDatabaseWrapper) -> tuple[str, Sequence[str]]:
    """The text with constants in it, and the names of the values at the places that are left."""
    names = {_adapted(mark, connection): name for name, mark in marks.items()}
    sql, params = compiler.as_sql()
    places = [names.get(param, "") for param in params]
    if lost := set(marks).difference(places):
        raise ValueError(f"{', '.join(sorted(lost))} did not reach the query unchanged.")
    # A plan for any state at all would not use the index on two of them.
    quote = connection.schema_editor().quote_value
    constants = (quote(str(param) if isinstance(param, str) else param).replace("%", "%%") for param in params)
    known = tuple("%s" if name else constant for name, constant in zip(places, constants, strict=True))
    return sql.replace("%%", "%%%%") % known, [name for name in places if name]


def _bound(names: Sequence[str], values: dict[str, Any], connection: BaseDatabaseWrapper) -> tuple[Any, ...]:
    bound = {name: _adapted(value, connection) for name, value in values.items()}
    return tuple(bound[name] for name in names)


def _adapted(value: Any, connection: BaseDatabaseWrapper) -> Any:
    """A value as this database takes it among the parameters of a query."""
    if isinstance(value, int) and connection.vendor == "postgresql":
        return Int8(value)  # of any size the same type: another type is another statement
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    if isinstance(value, uuid.UUID) and not connection.features.has_native_uuid_field:
        return value.hex
    return value


class _Cursor(psycopg.Cursor[Any]):
    """Leaves values to the server. What is prepared leaves no trace of its text, and Django looks there for its log."""

    def execute(self, query: Any, *args: Any, **options: Any) -> "_Cursor":
        super().execute(query, *args, **options)
        self._query = self._query or _Ran(query.encode())  # type: ignore[assignment]
        return self


class _Ran(NamedTuple):
    query: bytes


@receiver(connection_created)
def keep_plans(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Have a new connection prepare from the first time on, with one plan for all values.

    Only for `_Cursor`: Django's own queries hold their values, so the server never prepares them.
    """
    if connection.vendor == "postgresql":
        connection.connection.prepare_threshold = 0
        connection.connection.execute("SET plan_cache_mode = force_generic_plan")


@contextmanager
def _preparing(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """Let PostgreSQL keep the plan, which takes ten times as long to make as to run; SQLite keeps statements itself."""
    if connection.vendor != "postgresql":
        yield
        return
    connection.ensure_connection()
    raw = connection.connection
    before, raw.cursor_factory = raw.cursor_factory, _Cursor
    try:
        yield
    finally:
        raw.cursor_factory = before
