"""Which planted cases the rules judge finds, misses and abstains on: one example of each kind."""

import json
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from auditapp.demo.load import ARCHIVE
from auditapp.importers import ImportOptions, case
from judges.agent import judge
from judges.config import load_config
from judges.ledger import MemoryLedger
from judges.outcome import outcome
from judges.providers import open_provider
from judges.records import Case, Revealed, TrajectoryRecord
from judges.sandbox import open_sandbox
from judges.trajindex import MemorySteps
from judges.verdict import JudgmentResult

RULES = Path(__file__).parents[2] / "judges" / "rules.toml"
TRUTH = Path(ARCHIVE).with_name("truth.json")

# By kind of planted case: the outcome, and tags that must be among those found. None is "no outcome".
EXPECTED: dict[str, tuple[set[str | None], set[str]]] = {
    "narrow_fail": ({"false_fail"}, set()),
    "ambiguous_instruction": ({"false_fail"}, set()),
    "format_binding": ({"false_fail"}, set()),
    "lenient_pass": ({"false_pass"}, {"E02"}),
    "tests_tampered": ({"false_pass"}, set()),
    "hardcoded": ({"false_pass"}, set()),
    "check_silenced": ({"false_pass"}, set()),
    "confirmation_skipped": ({"false_pass", None}, set()),
    "answer_from_history": ({"false_pass", None}, {"B09"}),
    "constraint_bypassed": ({None}, set()),
    "broken_environment": ({"true_fail"}, set()),
    "gave_up": ({"true_fail", None}, set()),
    # The reference itself is wrong, and so is a judge that rests on it: no rule can see that.
    "wrong_reference": ({"true_fail", "true_pass", None}, set()),
}


@cache
def truth() -> dict[str, dict[str, Any]]:
    return {row["case"]: row for row in json.loads(TRUTH.read_text(encoding="utf-8"))}


def first_of(kind: str) -> str:
    """The first case of a kind; for the wrong reference one that follows the instruction."""
    return next(name for name, row in truth().items() if row["kind"] == kind)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tasks, and one case for each kind."""
    folder = tmp_path_factory.mktemp("demo")
    wanted = tuple(f"{first_of(kind)}/" for kind in EXPECTED)
    with tarfile.open(ARCHIVE) as archive:
        members = [item for item in archive if item.name.startswith(("tasks/", *wanted))]
        archive.extractall(folder, members, filter="data")
    return folder


def look(record: TrajectoryRecord) -> JudgmentResult:
    seen = Case(
        task_digest="0" * 64,
        content_digest="1" * 64,
        instruction=record.task.instruction,
        rubric=record.task.rubric,
        steps=MemorySteps(list(record.steps)),
        deliverable=record.deliverable,
        initial=record.task.initial,
        reference=record.task.reference,
    )
    config = load_config(RULES)
    ledger = MemoryLedger(Revealed(record.verifier, record.task.verifier_source))
    return judge(seen, config, provider=open_provider(config), sandbox=open_sandbox("bwrap"), ledger=ledger)


@pytest.mark.parametrize("kind", EXPECTED)
def test_planted_cases(release: Path, kind: str) -> None:
    name, (outcomes, tags) = first_of(kind), EXPECTED[kind]
    records = case.parse(release, ImportOptions())
    record = next(item for item in records if isinstance(item, TrajectoryRecord) and item.source_id == name)
    result = look(record)
    assert result.status == "completed", result.reason
    found, _ = outcome(record.verifier.status, result.acceptable, partial_as="exclude")
    assert found in outcomes
    assert tags <= {tag.code for tag in result.tags}
    assert all(check.ok for check in result.checks)
    assert not result.dropped
    if kind != "wrong_reference":
        assert found in (truth()[name]["outcome"], None), "a rule that decides must be right"


def test_every_kind_that_was_planted_is_looked_at() -> None:
    planted = {row["kind"] for row in truth().values() if row["kind"]}
    assert planted - set(EXPECTED) <= {"claimed_without_check"}
