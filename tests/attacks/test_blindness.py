"""No request of the blind phase holds anything of the verifier: not its output, its tests, its verdict or the reward.

The rule for what may not appear: a line that only the harness recorded. It stands in the verifier's streams or source,
or in what the importer keeps as the reason for its status, and in no recorded text of the attempt: instruction, steps,
deliverable, initial files, reference. An agent that itself read the verifier's files has their text in its own steps;
that is evidence of what it did and may be shown. Short lines and round rewards are no proof either way, so only lines
of 16 characters and numbers of four digits count.
"""

import itertools
import os
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from auditapp.demo.archive import ARCHIVE, read_truth
from auditapp.importers import FORMATS, ImportOptions
from auditapp.importers.detect import detect
from judges.agent import judge
from judges.casefolder import load_case
from judges.display import display_text
from judges.records import PARTS, Case, FileTree, Notice, Revealed, TrajectoryRecord
from judges.safefs import texts
from judges.sandbox import NoSandbox
from judges.trajindex import MemorySteps
from tests.attacks.folders import Case as Attack
from tests.attacks.folders import attack_cases
from tests.attacks.test_attacks import WatchedLedger
from tests.attacks.wire import strings
from tests.fakes.server import FakeProvider
from tests.fakes.steps import Step, call
from tests.judges.cases import criterion, explain, verdict
from tests.judges.providers.reach import PROVIDERS, make_config, opened

FULL = bool(os.environ.get("ASSAY_FULL"))
PER_FILE = 8
SHORTEST = 16
FILES = 3
_formats = itertools.cycle(PROVIDERS)


@dataclass(frozen=True)
class Explored:
    """What a judge that looks at everything was sent, before the lock and after it."""

    blind: str
    later: str
    marks: Sequence[str]

    @property
    def leaked(self) -> list[str]:
        return [mark for mark in self.marks if mark in self.blind]

    @property
    def revealed(self) -> bool:
        return any(mark in self.later for mark in self.marks)


def explore(case: Case, revealed: Revealed, server: FakeProvider) -> Explored:
    """A judgment by a judge that reads all it can, through one of the three wire formats in turn."""
    provider = next(_formats)
    session = server.session(*script(case, revealed))
    ledger = WatchedLedger(revealed, session=session)
    limits = {"re_asks": 0, "context_tokens": 1_000_000, "input_tokens": 10_000_000}
    model = opened(provider, session, limits=limits)
    config = make_config(provider, session, limits=limits)
    result = judge(case, config, provider=model, sandbox=NoSandbox(), ledger=ledger, secret=b"blind")
    assert result.status == "completed", (result.reason, result.detail)
    told = ["\n".join(strings(seen.body)) for seen in session.seen]
    blind, later = told[: ledger.blind_requests], told[ledger.blind_requests :]
    return Explored("\n".join(blind), "\n".join(later), list(marks(case, revealed)))


def script(case: Case, revealed: Revealed) -> Iterator[Step]:
    """List, read, search and try the verifier; submit without a decision; then read the verifier."""
    trees = {
        root: tree for root in ("deliverable", "initial", "reference") if (tree := getattr(case, root)) is not None
    }
    yield call(
        *[("list_files", {"root": root, "glob": "", "page": 1}) for root in trees],
        *[("grep", {"root": root, "pattern": "reward|verifier|test_", "glob": "", "max_hits": 50}) for root in trees],
        ("read_verifier_output", {"stream": "stdout", "line_start": 0, "line_end": 0}),
    )
    yield (
        call(
            *[
                ("read_file", {"root": root, "path": entry.path, "line_start": 0, "line_end": 0})
                for root, tree in trees.items()
                for entry in tree.entries()[:FILES]
            ][:8],
        )
        if any(tree.entries() for tree in trees.values())
        else call(("trajectory_overview", {"page": 2}))
    )
    rows = [row.locator for row in case.steps.outline()]
    everywhere = {"part": "all", "start": "", "end": ""}
    yield call(
        ("trajectory_overview", {"page": 1}),
        ("search_trajectory", {"pattern": "reward|verifier|passed|failed", "max_hits": 100, **everywhere}),
        *[("read_steps", {"start": at, "end": at, "part": "all", "offset": 0}) for at in [*rows[:2], *rows[-3:]]],
    )
    rubric = [criterion("unclear", name=item.id) for item in case.rubric] or [criterion("unclear", own=True)]
    yield call(("submit_verdict", verdict([], rubric, "cannot_tell")))
    streams = revealed.verifier.streams
    names = [entry.path for entry in streams.entries()[:6]] if streams else ["stdout"]
    yield call(*[("read_verifier_output", {"stream": name, "line_start": 0, "line_end": 0}) for name in names])
    yield call(("submit_attribution", explain(decision_after="cannot_tell")))


def marks(case: Case, revealed: Revealed) -> Iterator[str]:
    """Lines and numbers that only the harness recorded."""
    recorded = "\n".join(attempt(case))
    verifier = revealed.verifier
    told = [verifier.reason, verifier.proof.detail if verifier.proof else "", *contents(verifier.streams)]
    for text in (*told, *contents(revealed.source)):
        for line in map(str.strip, display_text(text).split("\n")):
            if len(line) >= SHORTEST and line[:2_000] not in recorded:
                yield line[:2_000]
    for number in (verifier.reward, *verifier.rewards.values()):
        if number is not None and len(repr(number).replace(".", "")) > 4 and repr(number) not in recorded:
            yield repr(number)


def attempt(case: Case) -> Iterator[str]:
    yield display_text(case.instruction or "")
    yield from (display_text(item.text) for item in case.rubric)
    for step in case.steps.iterate():
        yield from (display_text(text) for part in PARTS for text in step.texts(part))
    for tree in (case.deliverable, case.initial, case.reference):
        yield from map(display_text, contents(tree))


def contents(tree: FileTree | None) -> Iterator[str]:
    return (text for _, text in texts(tree)) if tree else iter(())


def test_a_leak_would_be_noticed(server: FakeProvider, scratch: Path) -> None:
    loaded = next(iter(attack_cases())).load(scratch)
    told = next(marks(loaded.case, loaded.revealed))
    leaky = replace(loaded.case, gaps=(Notice("verifier", detail=told),))
    assert explore(leaky, loaded.revealed, server).leaked == [told]


@pytest.mark.parametrize("attack", [pytest.param(item, id=item.name) for item in attack_cases()])
def test_every_attack_is_judged_blind(attack: Attack, server: FakeProvider, scratch: Path) -> None:
    loaded = attack.load(scratch)
    if attack.expect.requests == 0:
        pytest.skip("settled without a request")
    seen = explore(loaded.case, loaded.revealed, server)
    assert seen.leaked == []
    assert seen.marks
    assert seen.revealed


def test_the_demo_is_judged_blind(server: FakeProvider, tmp_path: Path) -> None:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    rows = read_truth()
    tasks = {row.task_id: row for row in rows}
    shown = 0
    for row in rows if FULL else tasks.values():
        loaded = load_case(tmp_path / row.case)
        seen = explore(loaded.case, loaded.revealed, server)
        assert seen.leaked == [], row.case
        shown += seen.revealed
    assert shown > len(tasks) // 2


REAL = ("agentrewardbench_dev", "atif", "harbor_tb2", "inspect", "other", "tau_bench")


@pytest.mark.parametrize("folder", REAL)
def test_real_files_are_judged_blind(folder: str, server: FakeProvider, shared_data: Path) -> None:
    judged = shown = 0
    for path in places(shared_data / folder):
        for record in some(records(path)):
            seen = explore(case_of(record), Revealed(record.verifier, record.task.verifier_source), server)
            assert seen.leaked == [], (path, record.source_id)
            judged, shown = judged + 1, shown + seen.revealed
    assert judged
    assert shown or folder not in ("harbor_tb2", "tau_bench")


def places(folder: Path) -> list[Path]:
    """Trials are folders; everything else is read file by file."""
    if folder.name == "harbor_tb2":
        return sorted(path for path in folder.iterdir() if path.is_dir())
    return sorted(path for path in folder.rglob("*") if path.is_file())


def records(path: Path) -> Iterator[TrajectoryRecord]:
    found = detect(path, ImportOptions())
    items = FORMATS[found.format](path, ImportOptions()) if found.format else iter(())
    return (item for item in items if isinstance(item, TrajectoryRecord))


def some(found: Iterator[TrajectoryRecord]) -> list[TrajectoryRecord]:
    """All records of a file, or some from its whole length."""
    every = list(found)
    return every if FULL else every[:: max(1, -(-len(every) // PER_FILE))]


def case_of(record: TrajectoryRecord) -> Case:
    """What the blind phase gets of a record; one whose instruction was not recorded is given a stand-in."""
    task = record.task
    return Case(
        task_digest=task.task_id,
        content_digest=record.source_id,
        instruction=task.instruction or "Do what the task asks for; it was not recorded.",
        rubric=task.rubric,
        steps=MemorySteps(record.steps),
        steps_recorded=record.steps_recorded,
        deliverable=record.deliverable,
        initial=task.initial,
        reference=task.reference,
        gaps=record.warnings,
    )
