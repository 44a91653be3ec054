"""Recorded attempts as harnesses write them, made by code: the smallest folders and documents that show a behaviour."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from judges.records import Notice, ParseFailure, TrajectoryRecord

Json = dict[str, Any]


def write(path: Path, content: Any) -> Path:
    """A file with its folders; anything but text and bytes becomes JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        content = content.encode()
    path.write_bytes(content if isinstance(content, bytes) else orjson.dumps(content))
    return path


def step(source: str, message: Any = "", **fields: Any) -> Json:
    return {"source": source, "message": message, **fields}


def call(call_id: str | None, command: str = "ls", name: str = "bash") -> Json:
    return {"tool_call_id": call_id, "function_name": name, "arguments": {"command": command}}


def output(content: Any, call_id: str | None = None, **fields: Any) -> Json:
    return {"content": content, **({"source_call_id": call_id} if call_id else {}), **fields}


def acted(*calls: Json, results: Iterable[Json] = (), **fields: Any) -> Json:
    return step("agent", "", tool_calls=list(calls), observation={"results": list(results)}, **fields)


def document(*steps: Json, **fields: Any) -> Json:
    numbered = [{"step_id": number, **item} for number, item in enumerate(steps, start=1)]
    agent = {"name": "tester", "version": "1", "model_name": "lab/model-1"}
    return {"schema_version": "ATIF-v1.6", "session_id": "s", "agent": agent, "steps": numbered, **fields}


SHORT = document(
    step("user", "Write 4 to /app/out.txt"),
    acted(call("c1", "echo 4 > /app/out.txt"), results=[output("", "c1")]),
    step("agent", "Done."),
)

PYTEST_FAILED = "collected 1 item\nFAILED test_outputs.py::test_out\n===== 1 failed in 0.05s =====\n"


def result(trial: str, reward: float | None = 1.0, **fields: Any) -> Json:
    """A result.json of Harbor; `reward` None leaves it without a verdict."""
    verdict = None if reward is None else {"rewards": {"reward": reward}}
    return {
        "id": f"id-of-{trial}",
        "task_name": trial.partition("__")[0],
        "trial_name": trial,
        "source": "small-set",
        "task_checksum": "abc123",
        "config": {"agent": {"name": "tester", "model_name": "lab/model-1", "kwargs": {"reasoning_effort": "high"}}},
        "agent_info": {"name": "tester", "version": "2", "model_info": {"name": "model-1", "provider": "lab"}},
        "agent_result": {"n_input_tokens": 10, "n_cache_tokens": None, "n_output_tokens": 0, "cost_usd": None},
        "verifier_result": verdict,
        "exception_info": None,
        "started_at": "2026-01-02T03:04:05Z",
        "finished_at": "2026-01-02T03:05:05Z",
        **fields,
    }


def trial(folder: Path, reward: float | None = 1.0, *, stdout: str = PYTEST_FAILED, **fields: Any) -> Path:
    """A single-step trial folder with a short trajectory and a reward.txt that agrees."""
    write(folder / "result.json", result(folder.name, reward, **fields))
    write(folder / "agent/trajectory.json", SHORT)
    write(folder / "verifier/test-stdout.txt", stdout)
    if reward is not None:
        write(folder / "verifier/reward.txt", f"{reward:g}\n")
    return folder


def records(items: Iterable[TrajectoryRecord | ParseFailure]) -> list[TrajectoryRecord]:
    """The records, after making sure that nothing failed."""
    found = list(items)
    assert [item for item in found if isinstance(item, ParseFailure)] == []
    return [item for item in found if isinstance(item, TrajectoryRecord)]


def only(items: Iterable[TrajectoryRecord | ParseFailure]) -> TrajectoryRecord:
    (record,) = records(items)
    return record


def failure(items: Iterable[TrajectoryRecord | ParseFailure]) -> ParseFailure:
    (item,) = items
    assert isinstance(item, ParseFailure)
    return item


def codes(notices: Iterable[Notice]) -> set[str]:
    return {notice.code for notice in notices}


def noticed(notices: Iterable[Notice], code: str) -> list[Notice]:
    return [notice for notice in notices if notice.code == code]
