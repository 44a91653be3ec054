"""What ships: size, names, what a reader of a case may rely on, and what must not be in it."""

import json
import sys
from pathlib import PurePosixPath

from auditapp.demo.archive import ARCHIVE, write_archive
from auditapp.demo.build import differences
from auditapp.demo.tasks import TASKS
from tests.demo.conftest import Shipped


def test_the_archive_is_small_and_its_gzip_header_has_no_date() -> None:
    assert ARCHIVE.stat().st_size < 8_000_000
    assert ARCHIVE.read_bytes()[4:8] == b"\0\0\0\0"


def test_the_same_files_give_the_same_bytes_in_any_order(tmp_path) -> None:
    files = {"b/x.txt": b"two", "a.sh": b"#!/bin/sh\n"}
    write_archive(tmp_path / "one.tar.gz", files)
    write_archive(tmp_path / "two.tar.gz", dict(reversed(files.items())))
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()


def test_a_changed_or_missing_file_is_a_difference() -> None:
    assert differences({"a": b"1", "b": b"2", "c": b"3"}, {"a": b"1", "b": b"other"}) == ["b", "c"]


def test_member_names_stay_inside_and_hold_no_repository_or_cache(shipped: Shipped) -> None:
    for name in shipped.files:
        parts = PurePosixPath(name).parts
        assert parts[0] in ("tasks", "cases"), name
        assert not {"..", ".git", "__pycache__"} & set(parts), name


def test_every_case_has_what_an_importer_needs(shipped: Shipped) -> None:
    for row in shipped.rows:
        case = shipped.json(f"{row.case}/case.json")
        assert set(case) >= {"task_id", "task_dir", "environment", "agent", "model", "effort", "attempt", "verifier"}
        task = PurePosixPath(row.case).joinpath(case["task_dir"])
        assert (task.parts[-2:], len([part for part in task.parts if part == ".."])) == (("tasks", row.task_id), 4)
        assert f"tasks/{row.task_id}/instruction.md" in shipped.files
        assert any(name.startswith(f"tasks/{row.task_id}/initial/") for name in shipped.files)
        assert any(name.startswith(f"tasks/{row.task_id}/reference/") for name in shipped.files)


def test_rewards_stand_alike_in_all_three_places(shipped: Shipped) -> None:
    for row in shipped.rows:
        verifier = shipped.json(f"{row.case}/case.json")["verifier"]
        assert verifier["status"] == row.verifier_status
        assert verifier["reward"] == float(shipped.files[f"{row.case}/verifier/reward.txt"])
        assert f"{row.case}/verifier/stdout.txt" in shipped.files


def test_agents_are_said_to_be_scripted(shipped: Shipped) -> None:
    for row in shipped.rows:
        document = shipped.json(f"{row.case}/trajectory.json")
        assert document["agent"]["name"] == row.agent
        assert document["agent"]["name"].startswith("scripted-")
        assert document["agent"]["model_name"].startswith("scripted/")
        assert "scripted agent" in document["notes"]


def test_trajectories_are_whole_sessions_in_atif(shipped: Shipped) -> None:
    lengths = []
    for row in shipped.rows:
        document = shipped.json(f"{row.case}/trajectory.json")
        steps = document["steps"]
        assert document["schema_version"] == "ATIF-v1.7"
        assert [step["step_id"] for step in steps] == list(range(1, len(steps) + 1))
        assert [step["source"] for step in steps[:3]] == ["system", "user", "agent"]
        assert steps[1]["message"] == shipped.files[f"tasks/{row.task_id}/instruction.md"].decode()
        assert steps[-1]["message"]
        for step in steps:
            calls = [call["tool_call_id"] for call in step.get("tool_calls", ())]
            results = [result["source_call_id"] for result in step.get("observation", {}).get("results", ())]
            assert calls == results
        lengths.append(len(steps))
    assert min(lengths) >= 6
    assert max(lengths) <= 25


def test_nothing_of_the_building_machine_is_in_it(shipped: Shipped) -> None:
    for name, body in shipped.files.items():
        for mark in (b"/tmp/", b"demo-", sys.base_prefix.encode(), b"/root/", b"/home/runner"):
            assert mark not in body, (name, mark)


def test_truth_and_scripts_do_not_ship_in_the_archive(shipped: Shipped) -> None:
    assert not [name for name in shipped.files if "truth" in name or name.split("/")[2:3] == ["play"]]
    for row in shipped.rows:
        assert not {"behavior", "planted", "truth"} & set(shipped.json(f"{row.case}/case.json"))


def test_every_task_ships_a_rubric_of_three_to_six_requirements(shipped: Shipped) -> None:
    for name in TASKS:
        rubric = shipped.json(f"tasks/{name}/rubric.json")
        assert 3 <= len(rubric) <= 6
        assert [rule["id"] for rule in rubric] == [f"R{number}" for number in range(1, len(rubric) + 1)]
        assert all(set(rule) == {"id", "requirement", "format_binding"} for rule in rubric)


def test_history_ships_as_a_log_where_the_task_has_a_repository(shipped: Shipped) -> None:
    for name, task in TASKS.items():
        log = shipped.files.get(f"tasks/{name}/history/log.txt", b"").decode()
        assert bool(log) == bool(task.material.history)
        assert log.count("commit ") >= (2 if task.material.history else 0)


def test_outputs_end_with_the_exit_code_that_is_recorded(shipped: Shipped) -> None:
    row = shipped.rows[0]
    steps = json.loads(shipped.files[f"{row.case}/trajectory.json"])["steps"]
    results = [result for step in steps for result in step.get("observation", {}).get("results", ())]
    assert results
    assert all(result["content"].endswith(f"[exit code {result['extra']['exit_code']}]") for result in results)
