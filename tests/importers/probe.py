"""Reads hostile inputs in a process of its own with little memory, and says what came of each as JSON.

Jobs come on stdin as a list of [what, path, mapping]: a name of FORMATS, or `detect`, `labels`, `unpack`. Records are
read to the last step, and all their text must be storable.
"""

import json
import resource
import sys
import time
import traceback
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


def outcome(what: str, path: Path, mapping: Path | None) -> dict[str, Any]:
    options = ImportOptions(mapping=mapping, limits=LIMITS)
    if what == "detect":
        found = detect(path, options)
        return {"format": found.format, "reason": found.reason}
    if what == "unpack":
        report = unpack(path, path.parent / "unpacked")
        return {"failure": report.failure and report.failure.reason, "refused": len(report.refused)}
    items = parse_labels(path, "human") if what == "labels" else FORMATS[what](path, options)
    return summary(items)


def told(what: str, path: str, mapping: str | None) -> dict[str, Any]:
    """The outcome, or the exception that should not have been, with what it cost so far."""
    before = time.monotonic()
    try:
        found = outcome(what, Path(path), Path(mapping) if mapping else None)
    except BaseException:
        found = {"exception": traceback.format_exc()}
    found["seconds"] = round(time.monotonic() - before, 1)
    found["peak_mb"] = peak_mb()
    return found


def peak_mb() -> int:
    """The most memory since the last call; ru_maxrss would count the process that started this one too."""
    status = Path("/proc/self/status").read_text()
    Path("/proc/self/clear_refs").write_text("5")
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


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
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    print(json.dumps([told(*job) for job in json.load(sys.stdin)]))
