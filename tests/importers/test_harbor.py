"""Harbor trees: which folders are trials, what their verifiers really said, and what must not be believed or kept."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from auditapp.importers import harbor
from auditapp.importers.harbor_policy import error_class, leaves_reward_valid
from auditapp.importers.harbor_verifier import keeps_stale_rewards, read_first
from auditapp.importers.options import ImportOptions
from judges.records import ParseFailure, TrajectoryRecord
from tests.importers.written import (
    PYTEST_FAILED,
    SHORT,
    acted,
    call,
    codes,
    document,
    failure,
    noticed,
    only,
    output,
    records,
    result,
    step,
    trial,
    write,
)

OPTIONS = ImportOptions()
SETUP_FAILED = (
    "curl is already the newest version\n"
    "curl: (7) Failed to connect to github.com port 443 after 21 ms: Couldn't connect to server\n"
    "/tests/test.sh: line 10: /root/.local/bin/env: No such file or directory\n"
    "/tests/test.sh: line 19: uvx: command not found\n"
)


def read(folder: Path, options: ImportOptions = OPTIONS) -> TrajectoryRecord:
    return only(harbor.parse(folder, options))


def test_a_trial_becomes_a_record_with_all_that_identifies_it(tmp_path: Path) -> None:
    record = read(trial(tmp_path / "sum__a1"))
    assert record.source_id == "id-of-sum__a1"
    assert (record.task.task_id, record.task.environment, record.task.digest) == ("sum", "small-set", "abc123")
    assert (record.agent, record.agent_version, record.model, record.effort) == ("tester", "2", "lab/model-1", "high")
    assert (record.verifier.status, record.verifier.reward) == ("pass", 1.0)
    assert len(record.steps) == 3
    assert (record.usage.input_tokens, record.usage.cached_tokens, record.usage.output_tokens) == (10, None, 0)
    assert record.deliverable is None
    assert not record.is_control


def test_several_jobs_and_bare_trials_are_found_and_copies_for_regrading_are_not(tmp_path: Path) -> None:
    for number, job in enumerate(["job-a", "job-b/nested"]):
        write(tmp_path / job / "config.json", {"job_name": job, "agents": []})
        write(tmp_path / job / "result.json", {"stats": {}, "n_total_trials": 1, "id": job})
        trial(tmp_path / job / f"sum__{number}")
    trial(tmp_path / "bare__1")
    trial(tmp_path / "job-a/.sources/uuid/sum__copy")
    (tmp_path / "latest").symlink_to(tmp_path / "job-a")
    found = records(harbor.parse(tmp_path, OPTIONS))
    assert [record.extra["trial"] for record in found] == ["bare__1", "sum__0", "sum__1"]
    assert [record.extra.get("job") for record in found] == [None, "job-a", "nested"]


def test_a_flat_folder_with_renamed_files_is_a_trial(tmp_path: Path) -> None:
    write(tmp_path / "trial-result.json", result("sum__flat", 0.0))
    write(tmp_path / "trajectory.atif.json", SHORT)
    write(tmp_path / "reward.txt", "0")
    write(tmp_path / "grader-results.json", {"score": 0})
    record = read(tmp_path)
    assert (record.verifier.status, len(record.steps)) == ("fail", 3)
    assert record.verifier.streams is not None
    assert [entry.path for entry in record.verifier.streams.entries()] == ["grader-results.json", "reward.txt"]
    assert [original.name for original in record.originals] == ["trial-result.json", "trajectory.atif.json"]


def test_steps_of_a_multi_step_trial_are_joined_in_the_order_they_ran(tmp_path: Path) -> None:
    steps = [{"step_name": name, "verifier_result": {"rewards": {"reward": 1}}} for name in ("write", "check")]
    fields: dict[str, Any] = {"agent_result": None, "step_results": steps}
    write(tmp_path / "sum__m/result.json", result("sum__m", 1.0, **fields))
    for name in ("check", "write"):
        write(
            tmp_path / f"sum__m/steps/{name}/agent/trajectory.json", document(step("user", name), step("agent", "ok"))
        )
        write(tmp_path / f"sum__m/steps/{name}/verifier/reward.txt", "1")
        write(tmp_path / f"sum__m/steps/{name}/artifacts/app/{name}.txt", name)
    record = read(tmp_path)
    assert [(item.locator, item.message) for item in record.steps] == [
        ("1", "write"),
        ("2", "ok"),
        ("3", "check"),
        ("4", "ok"),
    ]
    assert record.deliverable is not None
    assert [entry.path for entry in record.deliverable.entries()] == ["check/app/check.txt", "write/app/write.txt"]
    assert record.deliverable.read("check/app/check.txt") == b"check"
    assert record.flags == ()


# What the verifier said


@pytest.mark.parametrize(
    ("reward", "options", "status"),
    [
        (1.0, OPTIONS, "pass"),
        (0.0, OPTIONS, "fail"),
        (0.5, OPTIONS, "partial"),
        (0.5, ImportOptions(partial_as="fail"), "partial"),
        (0.5, ImportOptions(pass_threshold=0.5), "pass"),
        (None, OPTIONS, "none"),
    ],
)
def test_a_reward_becomes_a_status_and_no_reward_is_no_zero(
    tmp_path: Path, reward: float | None, options: ImportOptions, status: str
) -> None:
    record = read(trial(tmp_path / "sum__a", reward), options)
    assert (record.verifier.status, record.verifier.reward) == (status, reward)


def test_of_several_rewards_the_one_called_reward_counts_else_the_named_one_else_none(tmp_path: Path) -> None:
    many = {"rewards": {"style": 0.2, "tests": 1.0}}
    folder = trial(tmp_path / "sum__a", None, verifier_result=many)
    undecided = read(folder)
    assert (undecided.verifier.status, undecided.verifier.reason) == ("none", "reward_not_chosen")
    assert noticed(undecided.warnings, "reward_ambiguous")[0].detail.endswith("style, tests")
    assert read(folder, ImportOptions(verifier="tests")).verifier.status == "pass"
    write(folder / "result.json", result("sum__a", verifier_result={"rewards": {"reward": 0.0, "tests": 1.0}}))
    assert read(folder).verifier.status == "fail"


@pytest.mark.parametrize(
    ("files", "conflict"),
    [
        ({"reward.txt": "1\n"}, False),
        ({"reward.txt": "0.5"}, True),
        ({"reward.json": '{"reward": 1}'}, False),
        ({"reward.json": "1"}, False),
        ({"reward.txt": "0", "reward.json": '{"reward": 1.0}'}, True),
        ({}, False),
    ],
)
def test_reward_files_are_kept_apart_and_disagreement_is_flagged(
    tmp_path: Path, files: dict[str, str], conflict: bool
) -> None:
    folder = trial(tmp_path / "sum__a", 1.0)
    (folder / "verifier/reward.txt").unlink()
    for name, text in files.items():
        write(folder / "verifier" / name, text)
    record = read(folder)
    assert ("reward_conflict" in codes(record.flags)) is conflict
    assert record.verifier.reward == 1.0
    assert set(record.extra["reward_sources"][""]) == {"result.json", *files}


def test_a_reward_file_does_not_stand_in_for_a_verdict_harbor_did_not_give(tmp_path: Path) -> None:
    folder = trial(tmp_path / "sum__a", None, exception_info={"exception_type": "CancelledError"})
    write(folder / "verifier/reward.txt", "0.7333")
    record = read(folder)
    assert (record.verifier.status, record.verifier.reason, record.verifier.reward) == (
        "invalid",
        "CancelledError",
        None,
    )
    assert noticed(record.flags, "reward_conflict")[0].detail == "result.json: none; reward.txt: reward 0.7333"


def test_a_reward_that_is_no_number_is_invalid_and_not_zero(tmp_path: Path) -> None:
    folder = trial(tmp_path / "sum__a", 1.0)
    raw = orjson.dumps(result("sum__a", 1.0)).replace(b'"reward":1.0', b'"reward":NaN')
    write(folder / "result.json", raw)
    write(folder / "verifier/reward.txt", "nan")
    record = read(folder)
    assert (record.verifier.status, record.verifier.reason) == ("invalid", "reward_not_a_number")
    assert record.verifier.reward is None


@pytest.mark.parametrize(
    ("info", "status"),
    [
        ({"exception_type": "VerifierTimeoutError", "exception_message": "after 900 s"}, "invalid"),
        ({"exception_type": "ApiRateLimitError"}, "invalid"),
        ({"exception_type": "AgentTimeoutError"}, "pass"),
        ({"exception_type": "NonZeroAgentExitCodeError"}, "pass"),
        ({"exception_type": "SomethingNew"}, "pass"),
        ({"exception_type": "AgentTimeoutError", "policy": {"has_valid_reward": False}}, "invalid"),
        ({"exception_type": "ApiError", "policy_override": {"has_valid_reward": True}}, "pass"),
    ],
)
def test_exceptions_leave_a_reward_valid_or_not_as_harbor_decides(
    tmp_path: Path, info: dict[str, Any], status: str
) -> None:
    record = read(trial(tmp_path / "sum__a", 1.0, exception_info=info))
    assert record.verifier.status == status
    assert record.exception == info["exception_type"]
    if status == "invalid":
        assert record.verifier.reason == info["exception_type"]
        assert record.verifier.proof is not None


def test_an_exception_of_one_step_makes_the_reward_of_all_invalid(tmp_path: Path) -> None:
    broken = [{"step_name": "one", "exception_info": {"exception_type": "VerifierOutputParseError"}}]
    assert read(trial(tmp_path / "sum__a", 1.0, step_results=broken)).verifier.status == "invalid"


def test_every_class_of_the_error_policy_is_known() -> None:
    assert error_class("harbor.trial.trial.VerifierTimeoutError") == "verifier"
    assert error_class("HealthcheckError") == "infrastructure"
    assert error_class("CancelledError") == "authentication"
    assert error_class("Unheard") == "unknown"
    assert leaves_reward_valid({"exception_type": "Unheard"})
    assert not leaves_reward_valid({"exception_type": "SandboxBuildFailedError"})


def test_switched_off_verifiers_and_trials_still_running_have_no_verdict(tmp_path: Path) -> None:
    off = result("sum__off", None)
    off["config"]["verifier"] = {"disable": True}
    write(tmp_path / "sum__off/result.json", off)
    write(tmp_path / "sum__running/config.json", {"task": {"path": "tasks/sum"}, "trial_name": "sum__running"})
    write(tmp_path / "sum__running/verifier/reward.txt", "1")
    off_record, running = records(harbor.parse(tmp_path, OPTIONS))
    assert (off_record.verifier.status, off_record.verifier.reason) == ("none", "verifier_disabled")
    assert (running.verifier.status, running.verifier.reason) == ("none", "incomplete")
    assert running.task.task_id == "sum"
    assert running.source_id.startswith("trial:")


# Verifiers that never ran


def test_a_verifier_whose_set_up_failed_is_invalid_with_the_line_that_proves_it(tmp_path: Path) -> None:
    verifier = read(trial(tmp_path / "sum__a", 0.0, stdout=SETUP_FAILED)).verifier
    assert (verifier.status, verifier.reason, verifier.reward) == ("invalid", "verifier_did_not_run", 0.0)
    assert verifier.proof is not None
    assert verifier.proof.locator == "test-stdout.txt:4"
    assert verifier.proof.detail == "/tests/test.sh: line 19: uvx: command not found"
    assert verifier.streams is not None
    line = verifier.streams.read("test-stdout.txt").decode().split("\n")[3]
    assert line == verifier.proof.detail


@pytest.mark.parametrize(
    "stdout",
    [
        "/usr/bin/python3: No module named pytest\n",
        "bash: /tests/test.sh: No such file or directory\n",
        "==== no tests ran in 0.01s ====\n",
        "E: Unable to locate package python3-pytest\n",
        "ERROR: No matching distribution found for pytest==8.4\n",
        "installing\ncurl: (6) Could not resolve host: astral.sh\n",
        "sh: 1: pytest: not found\n",
    ],
)
def test_other_ways_not_to_start(tmp_path: Path, stdout: str) -> None:
    assert read(trial(tmp_path / "sum__a", 0.0, stdout=stdout)).verifier.reason == "verifier_did_not_run"


@pytest.mark.parametrize(
    "stdout",
    [
        PYTEST_FAILED,
        SETUP_FAILED + PYTEST_FAILED,
        "Ran 3 tests in 0.1s\n\nFAILED (failures=1)\nuvx: command not found\n",
        "checking the answer ... wrong\n",
        "curl: (7) Failed to connect to localhost port 8080 after 0 ms: Couldn't connect to server\n",
        "curl: (7) Failed to connect to api port 80 after 0 ms\n",
        "/tests/test.sh: line 3: /app/my_tool: No such file or directory\n",
        "/tests/test.sh: line 3: my_tool: command not found\n",
        "/tests/test.sh: line 3: cargo: command not found\n",
        "error: Failed to download x\nthe answer is wrong\n",
        "/tests/test.sh: line 3: uvx: command not found\nchecked without it: the answer is wrong\n",
        "",
    ],
)
def test_a_fail_without_proof_that_nothing_ran_stays_a_fail(tmp_path: Path, stdout: str) -> None:
    assert read(trial(tmp_path / "sum__a", 0.0, stdout=stdout)).verifier.status == "fail"


def test_a_test_report_shows_that_tests_ran_whatever_the_log_says(tmp_path: Path) -> None:
    folder = trial(tmp_path / "sum__a", 0.0, stdout=SETUP_FAILED)
    write(folder / "verifier/ctrf.json", {"results": {"summary": {"tests": 0}, "tests": []}})
    assert read(folder).verifier.status == "invalid"
    write(folder / "verifier/ctrf.json", {"results": {"summary": {"tests": 1}, "tests": [{"name": "t"}]}})
    assert read(folder).verifier.status == "fail"


def test_a_failed_set_up_that_the_script_survived_is_flagged(tmp_path: Path) -> None:
    record = read(trial(tmp_path / "sum__a", 0.0, stdout=SETUP_FAILED + "checked without it: wrong\n"))
    assert record.verifier.status == "fail"
    assert noticed(record.flags, "verifier_bootstrap_failure")[0].locator == "test-stdout.txt:4"


def test_a_pass_beside_a_failed_set_up_stays_a_pass_and_is_flagged(tmp_path: Path) -> None:
    record = read(trial(tmp_path / "sum__a", 1.0, stdout=SETUP_FAILED))
    assert record.verifier.status == "pass"
    assert noticed(record.flags, "verifier_bootstrap_failure")[0].locator == "test-stdout.txt:4"


# Flags, controls, times


def test_versions_decide_which_reward_file_is_read_and_whether_a_planted_one_survives() -> None:
    assert [read_first(version) for version in ("0.6.0", "0.6.5", "0.7.1", "0.26.0", "", "main")] == [
        "reward.txt",
        "",
        "reward.json",
        "reward.json",
        "",
        "",
    ]
    assert keeps_stale_rewards("0.24.0", "shared")
    assert keeps_stale_rewards("0.7.1", "")
    assert not keeps_stale_rewards("0.24.0", "separate")
    assert not keeps_stale_rewards("0.25.0", "shared")
    assert not keeps_stale_rewards("", "shared")


def test_the_lock_files_tell_version_and_task_digest(tmp_path: Path) -> None:
    write(tmp_path / "job/lock.json", {"harbor": {"version": "0.14.2"}, "trials": []})
    write(tmp_path / "job/result.json", {"stats": {}, "n_total_trials": 1})
    folder = trial(tmp_path / "job/sum__a")
    write(folder / "lock.json", {"task": {"name": "org/sum", "digest": "sha256:77", "source": "set"}})
    record = read(tmp_path)
    assert record.extra["harbor_version"] == "0.14.2"
    assert record.extra["reward_read_first"] == "reward.json"
    assert record.task.digest == "sha256:77"
    assert noticed(record.flags, "stale_reward_possible")[0].detail == "Harbor 0.14.2, shared by default"


@pytest.mark.parametrize(
    ("made", "code"),
    [
        (call("c", "echo 1 > /logs/verifier/reward.txt"), "agent_wrote_verifier_files"),
        (call("c", "echo '{}' | tee /logs/verifier/reward.json"), "agent_wrote_reward"),
        (call("c", "sed -i s/1/2/ /tests/test_outputs.py"), "agent_wrote_tests"),
        (
            {"tool_call_id": "c", "function_name": "Write", "arguments": {"file_path": "/tests/t.py"}},
            "agent_wrote_tests",
        ),
        (call("c", "cat /tests/test_outputs.py"), "agent_read_tests"),
        (call("c", "ls /solution && cat /solution/solve.sh"), "agent_read_solution"),
    ],
)
def test_touching_what_belongs_to_the_verifier_is_flagged_with_the_step(
    tmp_path: Path, made: dict[str, Any], code: str
) -> None:
    folder = trial(tmp_path / "sum__a")
    write(folder / "agent/trajectory.json", document(step("user", "t"), acted(made, results=[output("", "c")])))
    assert [notice.locator for notice in noticed(read(folder).flags, code)] == ["2"]


def test_the_agents_own_tests_and_words_are_not_flagged(tmp_path: Path) -> None:
    folder = trial(tmp_path / "sum__a")
    harmless = ["pytest tests/", "cat /app/tests/test_x.py", "cp a.py src/tests/b.py", "ls ./solution"]
    steps = [acted(call("c", command), results=[output("/tests", "c")]) for command in harmless]
    write(folder / "agent/trajectory.json", document(step("user", "read /tests/x"), *steps))
    assert read(folder).flags == ()


def test_changed_settings_and_extra_instructions_are_flagged(tmp_path: Path) -> None:
    changed = result("sum__a")
    changed["config"] |= {
        "timeout_multiplier": 2.0,
        "agent_timeout_multiplier": 1.0,
        "environment": {"override_cpus": 8, "override_gpus": None},
        "extra_instructions": ["be quick"],
    }
    folder = trial(tmp_path / "sum__a")
    write(folder / "result.json", changed)
    flags = read(folder).flags
    assert [notice.detail for notice in noticed(flags, "setting_override")] == [
        "timeout_multiplier = 2.0",
        "environment.override_cpus = 8",
    ]
    assert "extra_instructions" in codes(flags)


@pytest.mark.parametrize(("agent", "expected"), [("oracle", 1.0), ("nop", 0.0)])
def test_oracle_and_nop_trials_are_controls_with_their_expected_reward(
    tmp_path: Path, agent: str, expected: float
) -> None:
    record = read(trial(tmp_path / "sum__a", agent_info={"name": agent, "version": "1", "model_info": None}))
    assert record.is_control
    assert record.extra["expected_reward"] == expected


def test_times_without_a_zone_are_kept_as_they_are_with_a_warning(tmp_path: Path) -> None:
    record = read(trial(tmp_path / "sum__a", started_at="2025-11-02T10:00:00.1", finished_at="2025-11-02T10:01:00Z"))
    assert record.started_at == "2025-11-02T10:00:00.1"
    assert [notice.locator for notice in noticed(record.warnings, "naive_time")] == ["started_at"]


def test_a_cost_of_zero_beside_tokens_is_not_recorded_as_free(tmp_path: Path) -> None:
    record = read(trial(tmp_path / "sum__a", agent_result={"n_input_tokens": 5, "cost_usd": 0.0}))
    assert record.usage.cost_usd is None
    assert "cost_zero" in codes(record.warnings)


# Task, deliverable, originals


def test_a_task_folder_is_found_by_name_or_digest_and_gives_what_the_trial_lacks(tmp_path: Path) -> None:
    trial(tmp_path / "runs/sum__a")
    trial(tmp_path / "runs/other__a", task_name="org/renamed", task_checksum="d" * 64)
    for place in ("sum", f"cache/{'d' * 64}/whatever"):
        write(tmp_path / "tasks" / place / "instruction.md", "# canary GUID 1\nAdd 2 and 2.\n")
        write(tmp_path / "tasks" / place / "tests/test_outputs.py", "assert 4")
        write(tmp_path / "tasks" / place / "solution/solve.sh", "echo 4")
        write(tmp_path / "tasks" / place / "environment/Dockerfile", "FROM scratch")
    for record in records(harbor.parse(tmp_path / "runs", replace(OPTIONS, tasks=tmp_path / "tasks"))):
        assert record.task.instruction == "Add 2 and 2.\n"
        assert record.task.verifier_source is not None
        assert record.task.verifier_source.read("test_outputs.py") == b"assert 4"
        assert record.task.reference is not None
        assert record.task.reference.read("solve.sh") == b"echo 4"
        assert record.task.initial is not None
        assert record.warnings == ()


def test_without_a_task_folder_the_instruction_comes_from_the_trajectory_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "tasks").mkdir()
    record = read(trial(tmp_path / "runs/sum__a"), replace(OPTIONS, tasks=tmp_path / "tasks"))
    assert record.task.instruction == "Write 4 to /app/out.txt"
    assert record.task.reference is None
    assert codes(record.warnings) == {"task_folder_missing", "instruction_from_trajectory"}


def test_artifacts_are_the_deliverable_without_their_manifest(tmp_path: Path) -> None:
    folder = trial(tmp_path / "sum__a")
    write(folder / "artifacts/manifest.json", [{"source": "/app/out.txt", "status": "ok"}])
    write(folder / "artifacts/app/out.txt", "4")
    deliverable = read(folder).deliverable
    assert deliverable is not None
    assert [entry.path for entry in deliverable.entries()] == ["app/out.txt"]


def test_what_the_verifier_wrote_is_no_part_of_the_deliverable(tmp_path: Path) -> None:
    folder = trial(tmp_path / "sum__a")
    write(folder / "artifacts/logs/verifier/reward.txt", "1")
    write(folder / "artifacts/app/out.txt", "4")
    record = read(folder)
    assert record.deliverable is not None
    assert [entry.path for entry in record.deliverable.entries()] == ["app/out.txt"]
    assert "verifier_output_in_deliverable" in codes(record.flags)


@pytest.mark.parametrize(("status", "recorded"), [("empty", True), ("failed", False)])
def test_an_empty_deliverable_differs_from_none(tmp_path: Path, status: str, recorded: bool) -> None:
    folder = trial(tmp_path / "sum__a")
    write(folder / "artifacts/manifest.json", [{"source": "/app/out", "status": status}])
    deliverable = read(folder).deliverable
    assert (deliverable is not None) is recorded
    assert deliverable is None or list(deliverable.entries()) == []


def test_originals_are_kept_but_nothing_that_gives_access_or_names_an_account(tmp_path: Path) -> None:
    folder = trial(tmp_path / "sum__a")
    write(folder / "stream.json", {"token": "live-access"})
    write(folder / "agent/sessions/.claude.json", {"account": "me"})
    write(folder / "analysis.json", {"verdict": "reward hack"})
    write(folder / "exception.txt", "Traceback")
    record = read(folder)
    assert [original.name for original in record.originals] == [
        "result.json",
        "exception.txt",
        "analysis.json",
        "agent/trajectory.json",
    ]
    for original in record.originals:
        assert original.tree.read(original.path) == (folder / original.name).read_bytes()
    assert "reward hack" not in repr([item.to_json() for item in record.steps])


def test_files_with_literal_secrets_are_not_kept(tmp_path: Path) -> None:
    secret = result("sum__a")
    secret["config"]["agent"]["env"] = {"LAB_API_KEY": "sk-live-123", "DEBUG": "1"}
    masked = result("sum__b")
    masked["config"]["agent"]["env"] = {"LAB_API_KEY": "${LAB_API_KEY}"}
    for name, content in (("sum__a", secret), ("sum__b", masked)):
        write(trial(tmp_path / name) / "result.json", content)
    withheld, kept = records(harbor.parse(tmp_path, OPTIONS))
    assert [original.name for original in withheld.originals] == ["agent/trajectory.json"]
    assert "secret_withheld" in codes(withheld.warnings)
    assert "sk-live-123" not in repr(withheld)
    assert kept.originals[0].name == "result.json"


# Bad input


def test_a_missing_trajectory_is_not_recorded_rather_than_empty(tmp_path: Path) -> None:
    folder = trial(tmp_path / "sum__a")
    (folder / "agent/trajectory.json").rename(folder / "agent/claude-code.txt")
    record = read(folder)
    assert not record.steps_recorded
    assert "claude-code.txt" in noticed(record.flags, "trajectory_missing")[0].detail
    assert record.verifier.status == "pass"


def test_broken_trials_are_one_failure_each_and_do_not_stop_the_others(tmp_path: Path) -> None:
    write(trial(tmp_path / "a__truncated") / "result.json", b'{"trial_name": "a__tr')
    write(trial(tmp_path / "b__deep") / "agent/trajectory.json", b'{"steps":' + b"[" * 100_000)
    fifo = trial(tmp_path / "c__fifo") / "agent/trajectory.json"
    fifo.unlink()
    os.mkfifo(fifo)
    link = trial(tmp_path / "d__link") / "result.json"
    link.unlink()
    link.symlink_to(tmp_path / "z__good/result.json")
    with (trial(tmp_path / "e__sparse") / "agent/trajectory.json").open("wb") as stream:
        stream.truncate(2**30)
    write(tmp_path / "f__bare/agent/trajectory.json", SHORT)
    write(tmp_path / "f__bare/verifier/reward.txt", "1")
    trial(tmp_path / "z__good")
    found = list(harbor.parse(tmp_path, OPTIONS))
    failed = {item.path: item.reason for item in found if isinstance(item, ParseFailure)}
    assert list(failed) == ["a__truncated", "b__deep", "c__fifo", "d__link", "e__sparse", "f__bare"]
    assert "nested" in failed["b__deep"]
    assert "no regular file" in failed["c__fifo"]
    assert "symbolic link" in failed["d__link"]
    assert "larger than" in failed["e__sparse"]
    assert "neither result.json nor config.json" in failed["f__bare"]
    assert isinstance(found[-1], TrajectoryRecord)


def test_a_linked_folder_is_not_entered(tmp_path: Path) -> None:
    write(tmp_path / "outside/test-stdout.txt", "secret")
    folder = trial(tmp_path / "runs/sum__a")
    (folder / "artifacts").symlink_to(tmp_path / "outside")
    assert read(folder).deliverable is None


def test_names_that_are_no_utf8_and_fields_of_wrong_types_are_survived(tmp_path: Path) -> None:
    odd = {"id": 5, "agent_info": "x", "agent_result": [], "started_at": 3, "step_results": "none", "task_name": None}
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/sum__\xff"))
    write(folder / "result.json", result("sum__a", **odd))
    write(folder / "agent/trajectory.json", SHORT)
    record = read(tmp_path)
    assert record.source_id.startswith("trial:")
    assert record.usage.input_tokens is None
    orjson.dumps(dict(record.extra))


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), lambda path: path.write_text("x"), lambda path: None])
def test_what_holds_no_trial_says_so(tmp_path: Path, make: Any) -> None:
    make(tmp_path / "x")
    assert failure(harbor.parse(tmp_path / "x", OPTIONS)).reason


# Real trials


def test_all_real_trials_are_read_and_agree_with_their_files(shared_data: Path) -> None:
    root = shared_data / "harbor_tb2"
    found = {record.extra["trial"]: record for record in records(harbor.parse(root, OPTIONS))}
    assert set(found) == {folder.name for folder in root.iterdir()}
    for name, record in found.items():
        raw = orjson.loads((root / name / "result.json").read_bytes())
        recorded = (raw["verifier_result"] or {"rewards": {}})["rewards"].get("reward")
        told = float((root / name / "verifier/reward.txt").read_text())
        assert record.source_id == raw["id"]
        assert record.verifier.reward == recorded
        assert ("reward_conflict" in codes(record.flags)) is (recorded != told)
        trajectory = root / name / "agent/trajectory.json"
        assert record.steps_recorded is trajectory.exists()
        if trajectory.exists():
            assert len(record.steps) == len(orjson.loads(trajectory.read_bytes())["steps"])


def test_real_verifiers_that_left_no_test_report_are_those_that_never_ran(shared_data: Path) -> None:
    root = shared_data / "harbor_tb2"
    found = records(harbor.parse(root, OPTIONS))
    never = {record.extra["trial"] for record in found if record.verifier.reason == "verifier_did_not_run"}
    assert never == {folder.name for folder in root.iterdir() if not (folder / "verifier/ctrf.json").exists()}
    for record in found:
        if record.extra["trial"] in never:
            assert record.verifier.proof is not None
            assert record.verifier.proof.detail.endswith("uvx: command not found")
    others = {record.verifier.reason for record in found if record.verifier.status == "invalid"}
    assert others == {"verifier_did_not_run", "VerifierTimeoutError"}
