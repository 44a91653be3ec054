"""Readers of recorded trajectories, one module a format. They know no Django and never raise for a bad file.

`parse(path, options)` of each module yields one `TrajectoryRecord` or `ParseFailure` at a time. The trees in a record
read from disk on demand: use a record before the folder it came from is removed.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from auditapp.importers import atif, case, harbor, inspect_log, jsonl, swe_agent, tau_bench
from auditapp.importers.options import ImportOptions, Limits, PartialAs
from judges.records import ParseFailure, TrajectoryRecord

Parser = Callable[[Path, ImportOptions], Iterator[TrajectoryRecord | ParseFailure]]

FORMATS: dict[str, Parser] = {
    "harbor": harbor.parse,
    "atif": atif.parse,
    "case": case.parse,
    "inspect": inspect_log.parse,
    "tau_bench": tau_bench.parse,
    "swe_agent": swe_agent.parse,
    "jsonl": jsonl.parse,
}

__all__ = ["FORMATS", "ImportOptions", "Limits", "ParseFailure", "Parser", "PartialAs", "TrajectoryRecord"]
