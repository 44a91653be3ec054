"""Harbor job and trial folders, versions 0.1 to 0.26, as one record per trial."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from auditapp.importers.atif import originals
from auditapp.importers.atif_steps import Trajectory, read_trajectory
from auditapp.importers.containment import contained
from auditapp.importers.harbor_flags import flag_actions, flag_settings
from auditapp.importers.harbor_layout import RESULT_NAMES, TRAJECTORY_NAMES, Part, Trial, find_trials
from auditapp.importers.harbor_policy import error_class, leaves_reward_valid
from auditapp.importers.harbor_verifier import (
    flag_conflicts,
    producer_version,
    read_first,
    read_verifier,
    recorded_exceptions,
    reward_sources,
    step_results,
    verifier_mode,
)
from auditapp.importers.lenient import (
    Repairs,
    as_float,
    as_int,
    as_object,
    dig,
    load_object,
    loads,
    storable_text,
    whole_sum,
)
from auditapp.importers.options import ImportOptions
from auditapp.importers.task_folders import TaskFolders
from auditapp.importers.trees import (
    folder_tree,
    is_folder,
    joined,
    paths,
    read_member,
    shown,
    why_no_folder,
    without,
    without_verifier_output,
)
from judges.records import FileTree, Json, Original, ParseFailure, TaskRecord, TrajectoryRecord, Usage

# Controls prove a verifier: untouched work must get 0, the reference 1. They stay outside of every sample.
_EXPECTED_REWARD = {"nop": 0.0, "oracle": 1.0}
# stream.json (access to a live sandbox) and session folders (account data) are never kept.
_KEPT = (
    "result.json",
    "trial-result.json",
    "config.json",
    "lock.json",
    "exception.txt",
    "analysis.json",
    "analysis.md",
)
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
_PHASES = ("environment_setup", "agent_setup", "agent_execution", "verifier")
_AWARE = re.compile(r"(?:Z|[+-]\d{2}:?\d{2})$")


def parse(path: Path, options: ImportOptions) -> Iterator[TrajectoryRecord | ParseFailure]:
    """One record or failure per trial below `path`, which may be a trial, a job, or a tree of jobs."""
    root = path.parent if path.name in RESULT_NAMES else path
    if not is_folder(root):
        yield ParseFailure(shown(path, root=path), why_no_folder(root))
        return
    tasks = TaskFolders(options)
    found = False
    for trial in find_trials(root, options=options):
        found = True
        if isinstance(trial, ParseFailure):
            yield trial
        else:
            yield _contained(trial, tasks=tasks, options=options)
    if not found:
        yield ParseFailure(
            shown(path, root=path), "no Harbor trial in it: a trial is a folder with result.json or config.json"
        )


def _contained(trial: Trial, *, tasks: TaskFolders, options: ImportOptions) -> TrajectoryRecord | ParseFailure:
    return contained(trial.name, lambda: _record(trial, tasks=tasks, options=options))


def _record(trial: Trial, *, tasks: TaskFolders, options: ImportOptions) -> TrajectoryRecord:
    flags = Repairs()
    told = list(_trajectories(trial, options=options, flags=flags))
    steps = tuple(step for trajectory, _ in told for step in trajectory.steps)
    sources = reward_sources(trial, options=options)
    verifier = read_verifier(trial, sources, options=options, flags=flags)
    flag_conflicts(trial, sources, flags=flags)
    flag_settings(trial, flags=flags)
    flag_actions(steps, flags=flags)
    record = TrajectoryRecord(
        source_id=_source_id(trial),
        task=_task(trial, told=told, tasks=tasks, options=options),
        verifier=verifier,
        steps=steps,
        steps_recorded=bool(told),
        deliverable=without_verifier_output(_deliverable(trial, options=options), flags=flags),
        exception=next((str(info.get("exception_type"))[:200] for _, info in recorded_exceptions(trial)), ""),
        usage=_usage(trial, told=told),
        originals=_originals(trial, told=told, options=options),
    )
    record = _with_agent(record, trial=trial, told=told)
    record = replace(record, **_times(trial), extra=_extra(trial, record=record, rewards=_rewards_json(sources)))
    found = flags.notices() + tuple(flag for trajectory, _ in told for flag in trajectory.flags)
    return replace(record, warnings=trial.repairs.notices(), flags=found)


def _trajectories(trial: Trial, *, options: ImportOptions, flags: Repairs) -> Iterator[tuple[Trajectory, Part]]:
    """The ATIF trajectory of each step of the trial, numbered through; raises UnreadableError for a broken one."""
    first = 1
    for part in _in_order(trial):
        name = next((name for name in TRAJECTORY_NAMES if name in _listed(part)), None)
        if name is None or part.agent is None:
            kept = ", ".join(paths(part.agent)[:5]) or "nothing"
            flags.add("trajectory_missing", part.name, f"no ATIF document; recorded: {kept}")
            continue
        trajectory = _trajectory(part.agent, name=name, first=first, trial=trial, options=options)
        first += sum(":" not in step.locator for step in trajectory.steps)
        yield trajectory, part


def _listed(part: Part) -> set[str]:
    """All names of the agent folder, also of what cannot be read: that is a failure, not a missing file."""
    return {entry.path for entry in part.agent.entries()} if part.agent is not None else set()


def _trajectory(agent: FileTree, *, name: str, first: int, trial: Trial, options: ImportOptions) -> Trajectory:
    limits = options.limits

    def read(sibling: str) -> bytes:
        return read_member(agent, sibling, limit=limits.json_bytes)

    document = load_object(read(name), name=name, repairs=trial.repairs, limits=limits)
    return read_trajectory(document, name=name, read=read, repairs=trial.repairs, limits=limits, first=first)


def _in_order(trial: Trial) -> Sequence[Part]:
    """Parts in the order the steps ran, which their names need not follow."""
    order = {str(step.get("step_name")): number for number, step in enumerate(step_results(trial))}
    return sorted(trial.parts, key=lambda part: (order.get(part.name, len(order)), part.name))


def _source_id(trial: Trial) -> str:
    recorded = dig(trial.result or {}, "id")
    if isinstance(recorded, str) and recorded:
        return recorded[:200]
    digest = hashlib.sha256()
    job = dig(trial.config, "job_id") or trial.job.result.get("id") or trial.job.name
    for text in (str(job), str(_trial_name(trial))):
        digest.update(text.encode("utf-8", "surrogateescape") + b"\0")
    for name in _KEPT:
        if name in paths(trial.files):
            digest.update(hashlib.sha256(trial.files.read(name)).digest())
    return f"trial:{digest.hexdigest()}"


def _trial_name(trial: Trial) -> str:
    name = dig(trial.result or {}, "trial_name") or trial.config.get("trial_name") or trial.path.name
    return storable_text(str(name))[:200]


def _task(
    trial: Trial, *, told: Sequence[tuple[Trajectory, Part]], tasks: TaskFolders, options: ImportOptions
) -> TaskRecord:
    source = _first(dig(trial.result or {}, "source"), dig(trial.config, "task", "source"), _lock(trial, "source"))
    task = tasks.record(
        task_id=_task_id(trial),
        environment=options.environment or source or "adhoc",
        digest=_task_digest(trial),
        repairs=trial.repairs,
    )
    if task.instruction is not None:
        return task
    instruction = next((trajectory.instruction for trajectory, _ in told if trajectory.instruction), None)
    code = "instruction_missing" if instruction is None else "instruction_from_trajectory"
    trial.repairs.add(code, "", "give the task folder with --tasks")
    return replace(task, instruction=instruction)


def _task_id(trial: Trial) -> str:
    path = _first(dig(trial.config, "task", "path")).rstrip("/").rpartition("/")[2]
    recorded = _first(dig(trial.result or {}, "task_name"), dig(trial.config, "task", "name"), _lock(trial, "name"))
    return recorded or path or _trial_name(trial).partition("__")[0]


def _task_digest(trial: Trial) -> str | None:
    result = trial.result or {}
    return _first(_lock(trial, "digest"), dig(result, "task_id", "ref"), result.get("task_checksum")) or None


def _lock(trial: Trial, name: str) -> Json:
    return dig(trial.lock, "task", name)


def _first(*values: Json) -> str:
    """The first that is text and not empty; else empty."""
    return next(
        (storable_text(value.strip())[:500] for value in values if isinstance(value, str) and value.strip()), ""
    )


def _with_agent(record: TrajectoryRecord, *, trial: Trial, told: Sequence[tuple[Trajectory, Part]]) -> TrajectoryRecord:
    info = as_object(dig(trial.result or {}, "agent_info"), at="result.json agent_info", repairs=trial.repairs)
    settings = as_object(trial.config.get("agent"), at="config.json agent", repairs=trial.repairs)
    told_by = told[0][0] if told else None
    agent = _first(info.get("name"), settings.get("name"), settings.get("import_path"), told_by and told_by.agent)
    return replace(
        record,
        agent=agent,
        agent_version=_first(info.get("version"), told_by and told_by.agent_version),
        model=_model(info.get("model_info"), settings.get("model_name")) or (told_by.model if told_by else ""),
        effort=_effort(dig(settings, "kwargs", "reasoning_effort")) or (told_by.effort if told_by else ""),
        is_control=agent in _EXPECTED_REWARD,
    )


def _model(info: Json, configured: Json) -> str:
    """`provider/name` as far as recorded; the configured name carries its provider already."""
    name, provider = _first(dig({"info": info}, "info", "name")), _first(dig({"info": info}, "info", "provider"))
    if name and provider and not name.startswith(f"{provider}/"):
        return f"{provider}/{name}"
    return name or _first(configured)


def _effort(value: Json) -> str:
    return "" if value is None else storable_text(str(value))[:40]


def _times(trial: Trial) -> dict[str, Json]:
    result = trial.result or {}
    times = {name: _first(result.get(name)) or None for name in ("started_at", "finished_at")}
    for name, value in times.items():
        if value is not None and not _AWARE.search(value):
            trial.repairs.add("naive_time", name, f"{value}: local time of an unknown place")
    return times


def _usage(trial: Trial, *, told: Sequence[tuple[Trajectory, Part]]) -> Usage:
    """What Harbor counted, summed over steps; what the documents tell where Harbor counted nothing."""
    result = trial.result or {}
    counted = [dig(result, "agent_result"), *(step.get("agent_result") for step in step_results(trial))]
    contexts = [context for context in counted if isinstance(context, dict)]
    documents = [trajectory.usage for trajectory, _ in told]
    if not contexts:
        return documents[0] if len(documents) == 1 else Usage()
    tokens = _sum(contexts, "n_input_tokens", repairs=trial.repairs)
    cost = _sum(contexts, "cost_usd", repairs=trial.repairs)
    if cost == 0 and tokens:
        trial.repairs.add("cost_zero", "result.json agent_result", "read as not recorded: no price was known")
        cost = None
    return Usage(
        _whole(tokens, "n_input_tokens", repairs=trial.repairs),
        _whole(_sum(contexts, "n_cache_tokens", repairs=trial.repairs), "n_cache_tokens", repairs=trial.repairs),
        _whole(_sum(contexts, "n_output_tokens", repairs=trial.repairs), "n_output_tokens", repairs=trial.repairs),
        cost,
    )


def _sum(contexts: Sequence[Mapping[str, Json]], name: str, *, repairs: Repairs) -> float | None:
    return whole_sum(as_float(context.get(name), at=f"agent_result.{name}", repairs=repairs) for context in contexts)


def _whole(value: float | None, name: str, *, repairs: Repairs) -> int | None:
    return as_int(value, at=f"agent_result.{name}", repairs=repairs)


def _deliverable(trial: Trial, *, options: ImportOptions) -> FileTree | None:
    """The collected artifacts; a manifest that collected nothing is an empty tree, no manifest is no record."""
    trees: dict[str, FileTree] = {}
    for part in trial.parts:
        if part.artifacts is not None:
            tree = without(part.artifacts, names=frozenset({"manifest.json"}))
            if tree.entries() or _collected(part.artifacts, trial=trial, options=options):
                trees[part.name] = tree
    return joined(trees) if trees else None


def _collected(artifacts: FileTree, *, trial: Trial, options: ImportOptions) -> bool:
    """Whether the manifest says that something was looked for and found to be empty, rather than that it failed."""
    if "manifest.json" not in paths(artifacts):
        return False
    raw = read_member(artifacts, "manifest.json", limit=options.limits.json_bytes)
    manifest = loads(raw, name="artifacts/manifest.json", repairs=trial.repairs, limits=options.limits)
    rows = [row for row in manifest if isinstance(row, dict)] if isinstance(manifest, list) else []
    return any(row.get("status") in ("ok", "success", "empty", "collected") for row in rows)


def _originals(
    trial: Trial, *, told: Sequence[tuple[Trajectory, Part]], options: ImportOptions
) -> tuple[Original, ...]:
    withheld = _names_with_secrets(trial)
    kept = [Original(name, trial.files, name) for name in _KEPT if name in paths(trial.files) and name not in withheld]
    for trajectory, part in told:
        kept += originals(trajectory, tree=part.agent, prefix=part.prefix)
    user = folder_tree(trial.path / "user-agent", limits=options.limits, depth=0)
    if user is not None and "trajectory.json" in paths(user):
        kept.append(Original("user-agent/trajectory.json", user, "trajectory.json"))
    return tuple(kept)


def _names_with_secrets(trial: Trial) -> set[str]:
    """Files with a literal secret among their environment settings, which old versions did not mask."""
    if not any(_has_secret(settings) for settings in (trial.config, dig(trial.config, "agent"))):
        return set()
    trial.repairs.add("secret_withheld", "config.json", "an environment setting holds a literal secret; file not kept")
    return {"config.json", "lock.json", *RESULT_NAMES}


def _has_secret(settings: Json) -> bool:
    sections = [settings, *(settings.values() if isinstance(settings, dict) else ())]
    for section in sections:
        env = section.get("env") if isinstance(section, dict) else None
        for name, value in env.items() if isinstance(env, dict) else ():
            masked = not isinstance(value, str) or not value or value.startswith("${") or "[REDACTED]" in value
            if not masked and _SECRET_NAME.search(name):
                return True
    return False


def _rewards_json(sources: Mapping[str, Json]) -> Json:
    return {name: source.to_json() for name, source in sources.items()}


def _extra(trial: Trial, *, record: TrajectoryRecord, rewards: Json) -> dict[str, Json]:
    version, result = producer_version(trial), trial.result or {}
    extra = {
        "format": "harbor",
        "trial": _trial_name(trial),
        "job": storable_text(trial.job.name),
        "job_id": _first(dig(trial.config, "job_id"), trial.job.result.get("id")),
        "harbor_version": version,
        "verifier_mode": verifier_mode(trial),
        "reward_sources": rewards,
        "reward_read_first": read_first(version),
        "expected_reward": _EXPECTED_REWARD.get(record.agent),
        "exceptions": [_exception(where, info) for where, info in recorded_exceptions(trial)],
        "phases": {name: result[name] for name in _PHASES if isinstance(result.get(name), dict)},
        "task_checksum": _first(result.get("task_checksum")),
    }
    return {key: value for key, value in extra.items() if value not in (None, "", [], {})}


def _exception(where: str, info: Mapping[str, Json]) -> Json:
    kind = str(info.get("exception_type"))[:200]
    return {
        "at": where,
        "type": kind,
        "class": error_class(kind),
        "leaves_reward_valid": leaves_reward_valid(info),
        "message": storable_text(str(info.get("exception_message") or ""))[:500],
        "occurred_at": _first(info.get("occurred_at")),
    }
