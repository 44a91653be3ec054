"""Trajectories of SWE-agent: `.traj` files, each one attempt at one issue.

The rows of `trajectory` are the steps. `history` tells the same once more for the model, so only what comes before the
first row is taken from it: the system prompt and the issue, which is the instruction; demonstrations are left out. The
submitted patch is the deliverable. SWE-agent checks nothing itself: the verifier is the report of an evaluation that
lies beside the file or in a folder above it within what is imported (`report.json`, `results.json`, or one that ends
with a run's name), and without one that names the issue the status is none.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from auditapp.importers.containment import contained
from auditapp.importers.lenient import (
    Repairs,
    UnreadableError,
    as_float,
    as_int,
    as_name,
    as_object,
    as_objects,
    as_text,
    dig,
    json_text,
    load_object,
    storable_text,
)
from auditapp.importers.options import ImportOptions
from auditapp.importers.rows import files_of
from auditapp.importers.trees import list_folder, read_file
from judges.records import (
    Action,
    Json,
    Notice,
    Observation,
    Original,
    ParseFailure,
    Source,
    StepRecord,
    TaskRecord,
    TrajectoryRecord,
    Usage,
    VerifierRecord,
)
from judges.safefs import MemoryTree

_REWARD = "resolved"
_PATCH = "model.patch"
_REPORTS = ("report.json", "results.json")
_REPORT_BYTES = 4 * 2**20
_MOST_REPORTS = 20
_LEVELS = 4
# What the harness of SWE-bench calls the lists of its summary, with the verdict that each stands for.
_LISTS: dict[str, float | None] = {
    "resolved": 1.0,
    "resolved_ids": 1.0,
    "unresolved": 0.0,
    "unresolved_ids": 0.0,
    "empty_patch_ids": 0.0,
    "no_generation": 0.0,
    "error_ids": None,
}


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What one report says of one issue; no reward where its evaluation broke."""

    reward: float | None
    report: str
    raw: bytes


@dataclass(slots=True)
class _Reports:
    """The reports in a folder and those above it, up to `root`; a folder is read once while its files are imported."""

    root: Path
    read: dict[Path, list[tuple[str, bytes, dict[str, Json]]]] = field(default_factory=dict)

    def verdicts(self, folder: Path, issue: str) -> list[_Verdict]:
        """What is said of an issue, the nearest report first."""
        folders = [folder, *folder.parents]
        inside = folders[: folders.index(self.root) + 1] if self.root in folders else []
        self.read = {where: reports for where, reports in self.read.items() if where in inside}
        found = (_verdict(report, issue) for where in inside[:_LEVELS] for report in self._of(where))
        return [verdict for verdict in found if verdict is not None]

    def _of(self, folder: Path) -> list[tuple[str, bytes, dict[str, Json]]]:
        if folder not in self.read:
            self.read[folder] = list(_reports(folder))
        return self.read[folder]


def parse(path: Path, options: ImportOptions) -> Iterator[TrajectoryRecord | ParseFailure]:
    """The trajectory of one file, or of each `.traj` file below a folder."""
    files = files_of(path, (".traj",))
    if not files:
        yield ParseFailure(storable_text(path.name), "this folder has no .traj file")
    reports = _Reports(path if path.is_dir() else path.parent)
    for name, file in files:
        shown = storable_text(name)
        yield contained(shown, partial(_record, file, name=shown, reports=reports, options=options))


def _record(path: Path, *, name: str, reports: _Reports, options: ImportOptions) -> TrajectoryRecord:
    repairs, flags = Repairs(), Repairs()
    raw = _raw(path, options)
    data = load_object(raw, name=name, repairs=repairs, limits=options.limits)
    if not isinstance(data.get("trajectory"), list):
        raise UnreadableError("has no list named `trajectory`: this is no trajectory of SWE-agent")
    info = as_object(data.get("info"), at="info", repairs=repairs)
    replay = _replay(data.get("replay_config"), repairs=repairs)
    opening = _opening(data.get("history"), repairs=repairs)
    stem = name.removesuffix(".traj")
    issue = _issue(replay) or stem.rpartition("/")[2]
    steps = _steps(opening, data["trajectory"], repairs=repairs, flags=flags)
    exit_status = as_name(info.get("exit_status"), at="info.exit_status", repairs=repairs)
    return TrajectoryRecord(
        source_id=stem,
        task=TaskRecord(issue, options.environment or "swe_agent", instruction=_instruction(opening, repairs=repairs)),
        verifier=_verifier(reports.verdicts(path.parent, issue), options=options, flags=flags),
        steps=steps,
        steps_recorded=bool(data["trajectory"]),
        deliverable=_deliverable(info, repairs=repairs),
        agent="SWE-agent",
        agent_version=as_name(info.get("swe_agent_version"), at="info.swe_agent_version", repairs=repairs),
        model=as_name(dig(replay, "agent", "model", "name"), at="replay_config.agent.model", repairs=repairs),
        usage=_usage(info, repairs=repairs),
        exception="" if exit_status == "submitted" else exit_status,
        extra={"format": "swe_agent", "exit_status": exit_status, "environment": _label(data.get("environment"))},
        warnings=repairs.notices(),
        flags=flags.notices(),
        originals=(Original("trajectory.traj", MemoryTree({"trajectory.traj": raw}), "trajectory.traj"),),
    )


def _raw(path: Path, options: ImportOptions) -> bytes:
    try:
        return read_file(path, limit=options.limits.json_bytes)
    except KeyError:
        raise UnreadableError("no such file") from None


def _label(value: Json) -> str:
    return storable_text(value)[:100] if isinstance(value, str) else ""


def _replay(value: Json, *, repairs: Repairs) -> dict[str, Json]:
    """The settings of the run: an object, or since version 1.0 the text of one."""
    if isinstance(value, str):
        try:
            return load_object(value.encode(), name="replay_config", repairs=Repairs(), limits=ImportOptions().limits)
        except UnreadableError as error:
            repairs.add("replay_config_unreadable", "replay_config", str(error))
            return {}
    return as_object(value, at="replay_config", repairs=repairs)


def _issue(replay: Mapping[str, Json]) -> str:
    found = dig(replay, "problem_statement", "id")
    return storable_text(found)[:200] if isinstance(found, str) else ""


# --- steps


def _opening(history: Json, *, repairs: Repairs) -> list[dict[str, Json]]:
    """What the model was told before it acted, without the demonstrations of other issues."""
    told: list[dict[str, Json]] = []
    for message in as_objects(history, at="history", repairs=repairs):
        is_demo = message.get("is_demo") is True
        if message.get("role") == "assistant" and not is_demo:
            break
        if is_demo:
            repairs.add("demonstration_left_out", "history", "an attempt at another issue that the agent was shown")
        else:
            told.append(message)
    return told


def _instruction(opening: list[dict[str, Json]], *, repairs: Repairs) -> str | None:
    users = [message for message in opening if message.get("role") == "user"]
    if not users:
        repairs.add("instruction_missing", "history", "no message of a user before the first step")
        return None
    return _content(users[0], at="history", repairs=repairs)


def _content(message: Mapping[str, Json], *, at: str, repairs: Repairs) -> str:
    """Text as it is, or the texts of its parts: for caching, the last messages are lists."""
    content = message.get("content")
    if not isinstance(content, list):
        return as_text(content, at=at, repairs=repairs)
    texts = (part.get("text") if isinstance(part, dict) else part for part in content)
    return "\n".join(text if isinstance(text, str) else json_text(text) for text in texts)


def _steps(opening: list[dict[str, Json]], rows: list[Json], *, repairs: Repairs, flags: Repairs) -> list[StepRecord]:
    steps = []
    for number, message in enumerate(opening, start=1):
        source: Source = "system" if message.get("role") == "system" else "user"
        steps.append(StepRecord(str(number), source, _content(message, at=f"{number} message", repairs=repairs)))
    for number, row in enumerate(as_objects(rows, at="trajectory", repairs=repairs), start=len(steps) + 1):
        steps.append(_step(row, locator=str(number), repairs=repairs))
        if steps[-1].actions and not steps[-1].observations:
            flags.add("observation_missing", str(number), "1 of 1 calls")
    return steps


def _step(row: Mapping[str, Json], *, locator: str, repairs: Repairs) -> StepRecord:
    """`thought` is what was said beside the command; `response` repeats both."""
    command = as_text(row.get("action"), at=f"{locator} action", repairs=repairs)
    thought = as_text(row.get("thought"), at=f"{locator} thought", repairs=repairs)
    response = as_text(row.get("response"), at=f"{locator} response", repairs=repairs)
    seen = row.get("observation")
    observed = None if seen is None else as_text(seen, at=f"{locator} observation", repairs=repairs)
    acted = bool(command.strip())
    return StepRecord(
        locator=locator,
        source="agent",
        message=thought or response,
        actions=(Action("bash", {"command": command}),) if acted else (),
        observations=() if observed is None else (Observation(observed, None, "single" if acted else "none"),),
    )


# --- what came of it


def _deliverable(info: Mapping[str, Json], *, repairs: Repairs) -> MemoryTree | None:
    """The patch; an empty one was recorded, none at all was not."""
    patch = info.get("submission")
    if patch is None:
        repairs.add("submission_missing", "info.submission", "nothing was submitted, or it was not recorded")
        return None
    return MemoryTree({_PATCH: as_text(patch, at="info.submission", repairs=repairs).encode()})


def _usage(info: Mapping[str, Json], *, repairs: Repairs) -> Usage:
    """Zeros beside calls that were made are those of a replay or of a model without a known price."""
    stats = as_object(info.get("model_stats"), at="info.model_stats", repairs=repairs)
    sent = as_int(stats.get("tokens_sent"), at="tokens_sent", repairs=repairs)
    received = as_int(stats.get("tokens_received"), at="tokens_received", repairs=repairs)
    cost = as_float(stats.get("instance_cost"), at="instance_cost", repairs=repairs)
    called = bool(stats.get("api_calls"))
    if called and 0 in (sent, received, cost):
        repairs.add("usage_zero", "info.model_stats", "0 beside calls to the model: read as not recorded")
    return Usage(
        input_tokens=sent or (None if called else sent),
        output_tokens=received or (None if called else received),
        cost_usd=cost or (None if called else cost),
    )


def _verifier(verdicts: list[_Verdict], *, options: ImportOptions, flags: Repairs) -> VerifierRecord:
    if options.verifier not in (None, _REWARD):
        raise UnreadableError(f"has no verifier named {options.verifier!r}; a report tells one, named {_REWARD!r}")
    if not verdicts:
        return VerifierRecord("none", "not_recorded")
    first = verdicts[0]
    for other in verdicts[1:]:
        if other.reward != first.reward:
            flags.add("reward_conflict", other.report, f"{other.reward} where {first.report} says {first.reward}")
    streams = MemoryTree({"report.json": first.raw})
    if first.reward is None:
        proof = Notice("evaluation_error", first.report, "the report lists this issue among its errors")
        return VerifierRecord("invalid", proof.code, streams=streams, proof=proof)
    return VerifierRecord(options.status(first.reward), "", first.reward, {_REWARD: first.reward}, streams)


def _reports(folder: Path) -> Iterator[tuple[str, bytes, dict[str, Json]]]:
    """The reports in a folder; what cannot be read as one is passed over, as any JSON may lie there."""
    try:
        names = [name for name in list_folder(folder)[0] if name.endswith(".json")]
    except UnreadableError:
        return
    named = [name for name in names if name in _REPORTS]
    for name in [*named, *(name for name in names if name not in _REPORTS)][:_MOST_REPORTS]:
        try:
            raw = read_file(folder / name, limit=_REPORT_BYTES)
            data = load_object(raw, name=name, repairs=Repairs(), limits=ImportOptions().limits)
        except (KeyError, UnreadableError):
            continue
        yield storable_text(name), raw, data


def _verdict(report: tuple[str, bytes, dict[str, Json]], issue: str) -> _Verdict | None:
    """What a report of one instance or a summary says of an issue; None where it does not name it."""
    name, raw, data = report
    resolved = dig(data, issue, _REWARD)
    if isinstance(resolved, bool):
        return _Verdict(float(resolved), name, raw)
    for key, reward in _LISTS.items():
        listed = data.get(key)
        if isinstance(listed, list) and issue in listed:
            return _Verdict(reward, name, json_text({key: [issue]}).encode())
    return None
