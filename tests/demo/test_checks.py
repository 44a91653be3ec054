"""The checks that ship with references: right about every behavior, but for the task whose reference is wrong."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from auditapp.demo.archive import TruthRow
from auditapp.demo.material import under
from auditapp.demo.shell import write_tree
from auditapp.demo.tasks import TASKS
from tests.demo.conftest import Shipped

WITH_CHECKS = sorted(name for name, task in TASKS.items() if "checks/check.py" in task.material.reference)
WRONG_REFERENCE = "emissions-table"


def run_check(shipped: Shipped, row: TruthRow, folder: Path) -> subprocess.CompletedProcess[str]:
    work = shipped.unpack(row, folder / "work")
    write_tree(folder / "reference", under(shipped.files, f"tasks/{row.task_id}/reference"))
    argv = [sys.executable, str(folder / "reference/checks/check.py"), str(work)]
    (aside := folder / "aside").mkdir()  # what checks put aside goes with the rest
    environment = {**os.environ, "TMPDIR": str(aside)}
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=120)


def one_per_behavior(shipped: Shipped, name: str) -> list[TruthRow]:
    return list({row.behavior: row for row in shipped.rows if row.task_id == name}.values())


def test_two_thirds_of_the_tasks_have_checks() -> None:
    assert 0.6 <= len(WITH_CHECKS) / len(TASKS) <= 0.85


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in WITH_CHECKS if name != WRONG_REFERENCE])
def test_checks_agree_with_the_truth_or_say_that_they_cannot(name: str, shipped: Shipped, tmp_path: Path) -> None:
    for row in one_per_behavior(shipped, name):
        done = run_check(shipped, row, tmp_path / row.behavior)
        allowed = (0, 2) if row.decision == "satisfied" else (1, 2)
        assert done.returncode in allowed, (row.case, done.stdout, done.stderr)


def test_checks_speak_once_about_every_requirement(shipped: Shipped, tmp_path: Path) -> None:
    row = next(row for row in shipped.rows if row.task_id == "token-rotation" and row.decision == "satisfied")
    done = run_check(shipped, row, tmp_path)
    rubric = shipped.json("tasks/token-rotation/rubric.json")
    lines = done.stdout.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        ("CANNOT CHECK " if rule["id"] == "R2" else "PASS ") + f"{rule['id']} {rule['requirement']}" for rule in rubric
    ]
    assert done.returncode == 2


def test_checks_leave_the_deliverable_as_it_is(shipped: Shipped, tmp_path: Path) -> None:
    row = next(row for row in shipped.rows if row.task_id == "price-list" and row.decision == "satisfied")
    run_check(shipped, row, tmp_path)
    after = {
        str(p.relative_to(tmp_path / "work")): p.read_bytes() for p in (tmp_path / "work").rglob("*") if p.is_file()
    }
    assert after == shipped.deliverable(row)


def test_the_check_of_the_wrong_reference_is_wrong_with_it(shipped: Shipped, tmp_path: Path) -> None:
    rows = {row.behavior: row for row in one_per_behavior(shipped, WRONG_REFERENCE)}
    assert run_check(shipped, rows["converted"], tmp_path / "right").returncode == 1
    assert run_check(shipped, rows["unconverted"], tmp_path / "wrong").returncode == 0


@pytest.mark.parametrize("name", sorted(TASKS))
def test_the_initial_tree_does_not_satisfy_the_task_and_the_oracle_leaves_nothing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (left := tmp_path / "left").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(left))
    monkeypatch.setenv("TMPDIR", str(left))
    write_tree(tmp_path / "work", TASKS[name].material.initial)
    assert TASKS[name].oracle(tmp_path / "work", []) is False
    assert list(left.iterdir()) == []
