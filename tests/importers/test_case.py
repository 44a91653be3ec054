"""Case folders: what is recorded, what is shared through task_dir, and what is refused."""

import os
from pathlib import Path
from typing import Any

import pytest

from auditapp.importers import case
from auditapp.importers.options import ImportOptions
from judges.records import FileTree, ParseFailure, Requirement, TrajectoryRecord
from tests.importers.written import SHORT, codes, failure, noticed, only, records, write

OPTIONS = ImportOptions()
CASE: dict[str, Any] = {
    "task_id": "sum",
    "environment": "small",
    "agent": "tester",
    "model": "lab/model-1",
    "effort": "low",
    "attempt": 3,
    "verifier": {"status": "fail", "reward": 0.0, "reason": "one test failed"},
}
RUBRIC = [{"id": "R1", "requirement": "Prints 4.", "format_binding": False}, {"requirement": "Ends in a newline."}]


def make(folder: Path, **fields: Any) -> Path:
    write(folder / "case.json", {**CASE, **fields})
    write(folder / "trajectory.json", SHORT)
    return folder


def read(folder: Path, options: ImportOptions = OPTIONS) -> TrajectoryRecord:
    return only(case.parse(folder, options))


def names(tree: FileTree | None) -> list[str] | None:
    return None if tree is None else [entry.path for entry in tree.entries()]


def test_a_case_folder_with_everything_becomes_a_record_with_everything(tmp_path: Path) -> None:
    folder = make(tmp_path / "one")
    write(folder / "instruction.md", "Add 2 and 2.")
    write(folder / "rubric.json", RUBRIC)
    for tree in ("initial", "reference", "deliverable", "verifier", "verifier-source"):
        write(folder / tree / "sub" / f"{tree}.txt", tree)
    record = read(folder)
    assert (record.task.task_id, record.task.environment, record.task.instruction) == ("sum", "small", "Add 2 and 2.")
    assert record.task.rubric == (Requirement("R1", "Prints 4."), Requirement("R2", "Ends in a newline."))
    assert names(record.task.initial) == ["sub/initial.txt"]
    assert names(record.task.reference) == ["sub/reference.txt"]
    assert names(record.task.verifier_source) == ["sub/verifier-source.txt"]
    assert names(record.deliverable) == ["sub/deliverable.txt"]
    assert names(record.verifier.streams) == ["sub/verifier.txt"]
    assert (record.verifier.status, record.verifier.reward, record.verifier.reason) == ("fail", 0.0, "one test failed")
    assert (record.agent, record.model, record.effort, record.attempt) == ("tester", "lab/model-1", "low", 3)
    assert [item.locator for item in record.steps] == ["1", "2", "3"]
    assert record.warnings == record.flags == ()


def test_what_is_missing_was_not_recorded_and_what_is_empty_was(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    write(folder / "case.json", {"task_id": "sum"})
    (folder / "deliverable").mkdir()
    record = read(folder)
    assert names(record.deliverable) == []
    assert (record.task.initial, record.task.reference, record.verifier.streams) == (None, None, None)
    assert not record.steps_recorded
    assert record.task.instruction is None
    assert codes(record.warnings) == {"instruction_missing"}
    assert (record.verifier.status, record.verifier.reason, record.verifier.reward) == ("none", "not_recorded", None)
    assert record.task.environment == "adhoc"


def test_files_of_a_task_are_shared_by_task_dir_and_own_ones_come_first(tmp_path: Path) -> None:
    write(tmp_path / "tasks/sum/instruction.md", "Shared.")
    write(tmp_path / "tasks/sum/rubric.json", RUBRIC)
    write(tmp_path / "tasks/sum/reference/r.txt", "4")
    write(tmp_path / "tasks/sum/initial/case.json", "{}")
    make(tmp_path / "cases/small/sum/a-1", task_dir="../../../../tasks/sum")
    write(make(tmp_path / "cases/small/sum/a-2", task_dir="../../../../tasks/sum") / "instruction.md", "Own.")
    first, second = records(case.parse(tmp_path, OPTIONS))
    assert (first.source_id, second.source_id) == ("cases/small/sum/a-1", "cases/small/sum/a-2")
    assert (first.task.instruction, second.task.instruction) == ("Shared.", "Own.")
    assert names(first.task.reference) == names(second.task.reference) == ["r.txt"]
    assert len(first.task.rubric) == 2


@pytest.mark.parametrize(
    ("task_dir", "reason"),
    [
        ("../../outside", "leads out of the imported folder"),
        ("../x/../../outside", "leads out of the imported folder"),
        ("/etc", "must be a relative path"),
        (7, "must be a relative path"),
        ("../nothing", "names no folder"),
        ("../link", "names no folder"),
    ],
)
def test_a_task_dir_outside_of_the_import_is_refused(tmp_path: Path, task_dir: Any, reason: str) -> None:
    write(tmp_path / "outside/instruction.md", "secret")
    make(tmp_path / "root/one", task_dir=task_dir)
    (tmp_path / "root/link").symlink_to(tmp_path / "outside")
    assert reason in failure(case.parse(tmp_path / "root", OPTIONS)).reason


@pytest.mark.parametrize("status", ["pass", "fail", "partial", "none", "invalid"])
def test_the_five_statuses_are_taken_as_they_are(tmp_path: Path, status: str) -> None:
    assert read(make(tmp_path / "one", verifier={"status": status})).verifier.status == status


@pytest.mark.parametrize("status", ["passed", "PASS", True, ""])
def test_a_status_of_another_name_is_refused_and_the_five_are_listed(tmp_path: Path, status: Any) -> None:
    reason = failure(case.parse(make(tmp_path / "one", verifier={"status": status}), OPTIONS)).reason
    assert "use one of pass, fail, partial, none, invalid" in reason


def test_without_a_status_the_reward_tells_it_and_a_contradiction_is_flagged(tmp_path: Path) -> None:
    assert read(make(tmp_path / "one", verifier={"reward": 1})).verifier.status == "pass"
    record = read(make(tmp_path / "two", verifier={"status": "pass", "reward": 0.0}))
    assert record.verifier.status == "pass"
    assert noticed(record.flags, "reward_conflict")[0].detail == "status pass, but reward 0"


def test_options_override_the_environment_and_case_json_the_source_id(tmp_path: Path) -> None:
    record = read(make(tmp_path / "one", source_id="mine"), ImportOptions(environment="other"))
    assert (record.source_id, record.task.environment) == ("mine", "other")


@pytest.mark.parametrize("second", ["R1", "\u202eR2", "a requirement", "R" * 11, ""])
def test_requirements_that_share_an_id_or_have_an_odd_one_are_numbered_anew(tmp_path: Path, second: str) -> None:
    folder = make(tmp_path / "one")
    first = "R2" if not second else "R1"
    rows = [{"id": first, "requirement": "Prints 4."}, {"id": second, "requirement": "Ends in a newline."}]
    write(folder / "rubric.json", rows)
    record = read(folder)
    assert record.task.rubric == (Requirement("R1", "Prints 4."), Requirement("R2", "Ends in a newline."))
    assert "requirements_renumbered" in [notice.code for notice in record.warnings]


def test_broken_cases_are_one_failure_each_and_do_not_stop_the_others(tmp_path: Path) -> None:
    write(tmp_path / "a/case.json", b"{")
    write(tmp_path / "b/case.json", {"environment": "x"})
    write(make(tmp_path / "c") / "trajectory.json", b"[" * 100_000)
    (make(tmp_path / "d") / "case.json").unlink()
    os.mkfifo(tmp_path / "d/case.json")
    write(make(tmp_path / "e") / "rubric.json", [{"id": "R1"}])
    make(tmp_path / "f")
    found = list(case.parse(tmp_path, OPTIONS))
    failed = {item.path: item.reason for item in found if isinstance(item, ParseFailure)}
    assert list(failed) == ["a", "b", "c", "d", "e"]
    assert "no task_id" in failed["b"]
    assert isinstance(found[-1], TrajectoryRecord)


def test_what_the_verifier_wrote_is_no_part_of_the_deliverable(tmp_path: Path) -> None:
    folder = make(tmp_path / "one")
    write(folder / "deliverable/logs/verifier/reward.txt", "1")
    write(folder / "deliverable/out.txt", "4")
    record = read(folder)
    assert names(record.deliverable) == ["out.txt"]
    assert "verifier_output_in_deliverable" in codes(record.flags)


def test_linked_folders_are_not_recorded(tmp_path: Path) -> None:
    write(tmp_path / "outside/secret.txt", "x")
    folder = make(tmp_path / "root/one")
    (folder / "deliverable").symlink_to(tmp_path / "outside")
    assert read(folder).deliverable is None


def test_a_case_given_as_a_dot_is_called_by_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(make(tmp_path / "one"))
    assert read(Path()).source_id == "one"


def test_a_folder_without_cases_says_so(tmp_path: Path) -> None:
    assert "no case.json" in failure(case.parse(tmp_path, OPTIONS)).reason
    assert "no such folder" in failure(case.parse(tmp_path / "missing", OPTIONS)).reason
