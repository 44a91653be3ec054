"""Reads one hostile input in a process of its own with little memory, and says what came of it as JSON.

    python probe.py FORMAT PATH [MAPPING]

FORMAT is a name of FORMATS, or `detect`, `labels`, `unpack`. Records are read to the last step, and all their text
must be storable.
"""

import json
import resource
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from auditapp.importers import FORMATS, ImportOptions, Limits
from auditapp.importers.archives import unpack
from auditapp.importers.detect import detect
from auditapp.importers.labels import parse_labels
from judges.records import LabelRecord, ParseFailure, TrajectoryRecord, canonical_json

MEMORY = 1 << 30
# Half of what the tests feed, so that a reader that ignores its limits is noticed.
LIMITS = Limits(json_bytes=16 << 20, text_bytes=4 << 20, file_bytes=16 << 20, tree_bytes=64 << 20)


def main(what: str, path: Path, mapping: Path | None) -> dict[str, Any]:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    options = ImportOptions(mapping=mapping, limits=LIMITS)
    if what == "detect":
        found = detect(path, options)
        return {"format": found.format, "reason": found.reason}
    if what == "unpack":
        report = unpack(path, path.parent / "unpacked")
        return {"failure": report.failure and report.failure.reason, "refused": len(report.refused)}
    items = parse_labels(path, "human") if what == "labels" else FORMATS[what](path, options)
    return summary(items)


def summary(items: Iterable[TrajectoryRecord | LabelRecord | ParseFailure]) -> dict[str, Any]:
    good, failures, steps, notices = 0, [], 0, []
    for item in items:
        if isinstance(item, ParseFailure):
            failures.append([item.path, item.reason])
            canonical_json([item.path, item.reason])
            continue
        good += 1
        if isinstance(item, TrajectoryRecord):
            steps += check_storable(item)
            notices += [notice.code for notice in item.warnings]
    return {"good": good, "failures": failures, "steps": steps, "warnings": sorted(set(notices))}


def check_storable(record: TrajectoryRecord) -> int:
    """Raises for text that a database cannot hold; gives the number of steps."""
    notices = [[note.code, note.locator, note.detail] for note in (*record.warnings, *record.flags)]
    names = [record.source_id, record.agent, record.model, record.task.task_id, record.task.instruction]
    head = canonical_json([names, notices, dict(record.extra), record.verifier.reason, record.verifier.reward])
    bodies = [canonical_json(step.to_json()) for step in record.steps]
    if any(b"\\u0000" in body for body in (head, *bodies)):
        raise ValueError("a NUL is left in a record")
    return len(bodies)


if __name__ == "__main__":
    outcome = main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]) if len(sys.argv) > 3 else None)
    outcome["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(outcome))
