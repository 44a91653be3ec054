"""Placeholder."""

from collections.abc import Iterator
from pathlib import Path

from auditapp.importers.options import ImportOptions
from judges.records import ParseFailure, TrajectoryRecord


def parse(path: Path, options: ImportOptions) -> Iterator[TrajectoryRecord | ParseFailure]:
    """Not read yet."""
    yield ParseFailure(path=str(path), reason="this format is not read yet")
