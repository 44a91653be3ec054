"""Cross tables: counts first, shares of the row second."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cell:
    """A count, its share of the row (None in an empty row), and how strongly to tint it, 0 to 4."""

    row: str
    column: str
    count: int
    share: float | None
    tint: int


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a cross table with its total."""

    name: str
    cells: tuple[Cell, ...]
    total: int


def cross_table(counts: Mapping[tuple[str, str], int], rows: Sequence[str], columns: Sequence[str]) -> tuple[Row, ...]:
    """The rows that hold anything, in the order given; keys outside `rows` and `columns` raise ValueError."""
    strange = {key for key in counts if key[0] not in rows or key[1] not in columns}
    if strange:
        raise ValueError(f"not in the table: {sorted(strange)}")
    return tuple(row for name in rows if (row := _row(name, columns, counts)).total)


def _row(name: str, columns: Sequence[str], counts: Mapping[tuple[str, str], int]) -> Row:
    found = [counts.get((name, column), 0) for column in columns]
    total = sum(found)
    shares = [count / total if total else None for count in found]
    cells = zip(columns, found, shares, strict=True)
    return Row(name, tuple(Cell(name, column, n, share, _tint(share)) for column, n, share in cells), total)


def _tint(share: float | None) -> int:
    return 0 if share is None else min(4, round(share * 4))
