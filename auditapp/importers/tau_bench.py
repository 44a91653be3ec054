"""Results of tau-bench: rows {task_id, reward, info, traj, trial}, each a conversation with a simulated user.

The instruction is the policy the agent was given; the request reaches it through the conversation. The script of the
simulated user, the expected actions and outputs are reference material. The final database is not recorded, so there
is no deliverable.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from auditapp.importers.chat_steps import chat_steps
from auditapp.importers.containment import contained
from auditapp.importers.lenient import (
    Repairs,
    UnreadableError,
    as_float,
    as_int,
    as_name,
    as_object,
    as_text,
    dig,
    json_text,
    load_object,
    storable_text,
)
from auditapp.importers.options import ImportOptions
from auditapp.importers.rows import BadRow, Row, files_of, rows_of, unless_all_bad
from judges.records import (
    Json,
    Notice,
    Original,
    ParseFailure,
    TaskRecord,
    TrajectoryRecord,
    VerifierRecord,
)
from judges.safefs import MemoryTree

_REQUEST = "[The user's request is not written down here: the user makes it in the conversation.]"
_POLICY = re.compile(r"\A\s*#\s*(\w+) agent policy\b", re.IGNORECASE)
_DOMAINS = "airline|retail|telecom"
# "gpt-4o-airline.trial0" of the published results, "tool-calling-gpt-4o-0.0_range_0--1_user-..." of its own runner.
_PUBLISHED = re.compile(rf"(?P<model>.+?)-(?P<domain>{_DOMAINS})(?:[._-]trial\d+)?", re.IGNORECASE)
_RUNNER = re.compile(r"(?P<agent>tool-calling|act|react|few-shot)-(?P<model>.+)-\d+(?:\.\d+)?_range_.*")


@dataclass(frozen=True, slots=True)
class _File:
    """What the name of a results file tells: nothing in the rows says which model ran."""

    name: str
    stem: str
    agent: str = ""
    model: str = ""
    domain: str = ""


def parse(path: Path, options: ImportOptions) -> Iterator[TrajectoryRecord | ParseFailure]:
    """The rows of one results file, or of all below a folder."""
    files = files_of(path, (".json", ".jsonl"))
    if not files:
        yield ParseFailure(storable_text(path.name), "this folder has no .json or .jsonl file with tau-bench results")
    for name, file in files:
        shown = storable_text(name)
        yield from unless_all_bad(_parse_file(shown, file, options), name=shown)


def _parse_file(name: str, path: Path, options: ImportOptions) -> Iterator[TrajectoryRecord | ParseFailure]:
    file = _named(name)
    for row in rows_of(path, options.limits):
        locator = f"{name}#{row.number}" if row.number else name
        if isinstance(row, BadRow):
            yield ParseFailure(locator, row.reason)
        else:
            yield contained(locator, partial(_record, row, file=file, options=options))


def _named(name: str) -> _File:
    stem = name.rpartition(".")[0] or name
    base = stem.rpartition("/")[2]
    match = _PUBLISHED.fullmatch(base) or _RUNNER.fullmatch(base)
    return _File(name=name, stem=stem, **(match.groupdict() if match else {}))


def _record(row: Row, *, file: _File, options: ImportOptions) -> TrajectoryRecord:
    repairs, flags = Repairs(), Repairs()
    data = load_object(row.raw, name="row", repairs=repairs, limits=options.limits)
    if data.get("task_id") is None or not ("traj" in data or "reward" in data):
        raise UnreadableError("has no task_id with traj or reward: this is no row of tau-bench results")
    info = as_object(data.get("info"), at="info", repairs=repairs)
    trial = as_int(data.get("trial"), at="trial", repairs=repairs)
    steps = chat_steps(data.get("traj"), repairs=repairs, flags=flags)
    if file.model:
        repairs.add("model_inferred", file.name, f"{file.model}, from the name of the file")
    return TrajectoryRecord(
        source_id=f"{file.stem}/{storable_text(str(data['task_id']))[:200]}/{row.number if trial is None else trial}",
        task=_task(data, info, file=file, options=options, repairs=repairs),
        verifier=_verifier(data, info, options=options, repairs=repairs, flags=flags),
        steps=steps,
        steps_recorded=bool(steps),
        agent=file.agent,
        model=file.model,
        attempt=trial,
        exception=as_text(info.get("error"), at="info.error", repairs=repairs),
        extra={
            "user_cost_usd": as_float(info.get("user_cost"), at="info.user_cost", repairs=repairs),
            "ended_by": as_name(info.get("source"), at="info.source", repairs=repairs),
        },
        warnings=repairs.notices(),
        flags=flags.notices(),
        originals=(Original("row.json", MemoryTree({"row.json": row.raw}), "row.json"),),
    )


def _task(
    data: Mapping[str, Json], info: Mapping[str, Json], *, file: _File, options: ImportOptions, repairs: Repairs
) -> TaskRecord:
    policy = _policy(data.get("traj"))
    heading = _POLICY.match(policy or "")
    domain = heading[1].lower() if heading else file.domain.lower() or "tau_bench"
    task = as_object(info.get("task"), at="info.task", repairs=repairs)
    return TaskRecord(
        task_id=storable_text(str(data["task_id"]))[:200],
        environment=options.environment or domain,
        instruction=None if policy is None else f"{policy}\n\n{_REQUEST}",
        reference=_reference(task),
    )


def _policy(messages: Json) -> str | None:
    """The first message where it is the system's."""
    first = messages[0] if isinstance(messages, list) and messages else None
    if not isinstance(first, dict) or first.get("role") != "system":
        return None
    text = first.get("content")
    return text if isinstance(text, str) else None


def _reference(task: Mapping[str, Json]) -> MemoryTree | None:
    """What the task's author expects, one file a field; an empty list was recorded and stays."""
    names = {"instruction": "user_script.txt", "user_id": "user_id.txt"}
    lists = {"actions": "expected_actions.json", "outputs": "expected_outputs.json"}
    files = {name: str(task[key]).encode() for key, name in names.items() if task.get(key) is not None}
    files |= {name: _pretty(task[key]) for key, name in lists.items() if task.get(key) is not None}
    return MemoryTree(files) if files else None


def _pretty(value: Json) -> bytes:
    """One item of a list a line, so that a citation can name it."""
    if isinstance(value, list) and value:
        return ("[\n" + ",\n".join(json_text(item) for item in value) + "\n]\n").encode()
    return json_text(value).encode()


def _verifier(
    data: Mapping[str, Json], info: Mapping[str, Json], *, options: ImportOptions, repairs: Repairs, flags: Repairs
) -> VerifierRecord:
    if options.verifier not in (None, "reward"):
        raise UnreadableError(f"has no verifier named {options.verifier!r}; tau-bench has one, named 'reward'")
    reward = as_float(data.get("reward"), at="reward", repairs=repairs)
    details = info.get("reward_info")
    inner = as_float(dig(info, "reward_info", "reward"), at="info.reward_info.reward", repairs=repairs)
    if inner is not None and inner != reward:
        flags.add("reward_conflict", "info.reward_info.reward", f"{inner} where the row says {reward}")
    proof = _never_ran(info, reward)
    return VerifierRecord(
        status="invalid" if proof else options.status(reward),
        reason=proof.code if proof else "",
        reward=reward,
        rewards={} if reward is None else {"reward": reward},
        streams=MemoryTree({"reward_info.json": _pretty(details)}) if details is not None else None,
        proof=proof,
    )


def _never_ran(info: Mapping[str, Json], reward: float | None) -> Notice | None:
    """The reward is computed when the user ends the talk; before that, the 0 in the row is only its initial value."""
    if info.get("error"):
        return Notice("verifier_did_not_run", "info.error", str(info["error"])[:500])
    if reward == 0 and "reward_info" in info and info["reward_info"] is None:
        return Notice(
            "verifier_did_not_run", "info.reward_info", "null: the run stopped before the user ended the talk"
        )
    return None
