"""Logs of Inspect: `.eval` (deflate, zstd, chunked samples), `.json`, an unpacked log, or a folder of them.

A sample is a trajectory, its epoch the attempt, its target the hidden reference. The sandbox is not recorded, so there
is no deliverable. One sample is in memory at a time.

The verifier is the scorer that `--verifier` names, else the only one. C is 1, P 0.5, I and N 0, true 1, false 0; NaN is
no score, so the status is none. An invalidated sample is invalid. A sample that broke with an error before it was
scored is invalid, as its verifier did not run; one that was scored all the same, or that ran into a limit, keeps its
score and says so as its exception. A score that people changed counts as it stands; what the scorer had said is kept.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from auditapp.importers.containment import contained
from auditapp.importers.inspect_samples import START, Log, Sample, SampleFiles, load_sample, open_log, originals
from auditapp.importers.inspect_scores import exception, read_verifier, score_edits
from auditapp.importers.inspect_story import sorted_events, tell
from auditapp.importers.lenient import (
    Repairs,
    UnreadableError,
    as_float,
    as_int,
    as_name,
    as_object,
    as_objects,
    dig,
    is_storable,
    json_text,
    storable_text,
    whole_sum,
)
from auditapp.importers.options import ImportOptions
from auditapp.importers.rows import unless_all_bad
from auditapp.importers.trees import shown
from judges.records import Json, ParseFailure, TaskRecord, TrajectoryRecord, Usage
from judges.safefs import FolderTree, MemoryTree

_LOGS = (".eval", ".json")
# Inspect writes these beside its logs.
_LISTINGS = ("logs.json", "listing.json", "eval-set.json")
_EVERY_FILE = 2**60
_LONGEST_ID = 300
_UNSHOWN = ("uuid", "span_id", "working_start", "pending", "input_refs")


def parse(path: Path, options: ImportOptions) -> Iterator[TrajectoryRecord | ParseFailure]:
    """The samples of one log, or of all logs below a folder."""
    logs = _logs(path)
    if not logs:
        yield ParseFailure(storable_text(path.name), "this folder has no .eval or .json log")
    for name, file in logs:
        yield from unless_all_bad(_parse_log(name, file, options), name=name)


def _logs(path: Path) -> list[tuple[str, Path]]:
    """Name and path of each log; the files of an unpacked one are no logs of their own."""
    if not path.is_dir():
        return [(storable_text(path.name), path)]
    entries = FolderTree(path, max_file=_EVERY_FILE, max_total=_EVERY_FILE).entries()
    names = [entry.path for entry in entries if entry.kind == "file"]
    unpacked = sorted({name[: -len(START)].rstrip("/") for name in names if f"/{name}".endswith(f"/{START}")})
    found = [(shown(path / name, root=path), path / name) for name in unpacked]
    inside = tuple(f"{name}/" if name else "" for name in unpacked)
    loose = (name for name in names if not (inside and name.startswith(inside)) and _is_log(name))
    return [*found, *((name, path / name) for name in loose)]


def _is_log(name: str) -> bool:
    return name.lower().endswith(_LOGS) and name.rpartition("/")[2] not in _LISTINGS


def _parse_log(name: str, path: Path, options: ImportOptions) -> Iterator[TrajectoryRecord | ParseFailure]:
    try:
        log = open_log(path, name=name, limits=options.limits)
    except UnreadableError as error:
        yield ParseFailure(name, str(error))
        return
    if not log.samples:
        yield ParseFailure(name, _why_no_samples(log))
    for files in log.samples:
        try:
            log.count(0)
        except UnreadableError as error:
            yield ParseFailure(name, f"{error}; it was not read from sample {storable_text(files.name)[:200]} on")
            return
        yield contained(f"{name}#{storable_text(files.name)[:200]}", partial(_record, log, files, options=options))
    if log.truncated and log.samples:
        yield ParseFailure(name, f"the file ends within its samples: what followed the {len(log.samples)} read is lost")


def _why_no_samples(log: Log) -> str:
    if log.truncated:
        return "the file ends within its first sample: it is truncated"
    ran = dig(log.header, "results", "completed_samples")
    told = f", though it reports {ran} completed ones" if isinstance(ran, int) and ran else ""
    return f"this log holds no samples{told} (its status is {json_text(log.header.get('status'))[:40]})"


def _record(log: Log, files: SampleFiles, *, options: ImportOptions) -> TrajectoryRecord:
    repairs, flags = Repairs(), Repairs()
    sample = load_sample(log, files, limits=options.limits, repairs=repairs)
    data = sample.data
    if "input" not in data and "messages" not in data:
        raise UnreadableError("has neither input nor messages: this is no sample of an Inspect log")
    acts = sorted_events(sample.events)
    steps = tell(sample, acts, repairs=repairs, flags=flags)
    kept = originals(log, files, limits=options.limits, repairs=repairs)
    scored = [_shown_event(sample, event) for event in acts.scorer]
    run = as_object(log.header.get("eval"), at="eval", repairs=repairs)
    return TrajectoryRecord(
        source_id=_source_id(log, files, data),
        task=_task(data, run, files=files, options=options, repairs=repairs),
        verifier=read_verifier(data, scored, options=options, repairs=repairs, flags=flags),
        steps=steps,
        steps_recorded=bool(steps),
        agent=_agent(log.header, repairs=repairs),
        model=as_name(run.get("model"), at="eval.model", repairs=repairs),
        effort=_effort(log.header),
        attempt=as_int(data.get("epoch"), at="epoch", repairs=repairs),
        usage=_usage(data, model=run.get("model"), repairs=repairs),
        started_at=_time(data.get("started_at"), sample.events[:1]),
        finished_at=_time(data.get("completed_at"), sample.events[-1:]),
        exception=exception(data),
        extra=_extra(log, data),
        warnings=(*log.notices, *repairs.notices()),
        flags=flags.notices(),
        originals=kept,
    )


def _shown_event(sample: Sample, event: Mapping[str, Json]) -> Json:
    """An event of a scorer as its output shows it: what a grading model was given stands in place."""
    kept = {key: value for key, value in event.items() if key not in _UNSHOWN}
    return {**kept, "input": sample.inputs(event)} if event.get("event") == "model" else kept


def _source_id(log: Log, files: SampleFiles, data: Mapping[str, Json]) -> str:
    """The sample's own id; logs until early 2025 have none."""
    uuid = data.get("uuid")
    if isinstance(uuid, str) and 0 < len(uuid) <= _LONGEST_ID:
        return uuid
    run = dig(log.header, "eval", "eval_id") or dig(log.header, "eval", "run_id") or log.name
    found = storable_text(f"{run}/{data.get('id', files.name)}/{data.get('epoch', 1)}")
    return found if len(found) <= _LONGEST_ID else "sha256:" + hashlib.sha256(found.encode()).hexdigest()


def _task(
    data: Mapping[str, Json],
    run: Mapping[str, Json],
    *,
    files: SampleFiles,
    options: ImportOptions,
    repairs: Repairs,
) -> TaskRecord:
    name = data.get("id")
    return TaskRecord(
        task_id=storable_text(files.name if name is None else str(name))[:200],
        environment=options.environment or as_name(run.get("task"), at="eval.task", repairs=repairs)[:200] or "inspect",
        instruction=_instruction(data, repairs=repairs),
        reference=_reference(data.get("target")),
    )


def _instruction(data: Mapping[str, Json], *, repairs: Repairs) -> str | None:
    """What the data set asks; of several messages each below its role. Choices are part of the question."""
    asked = data.get("input")
    if asked is None:
        return None
    if isinstance(asked, list):
        messages = as_objects(asked, at="input", repairs=repairs)
        texts = [(str(message.get("role")), _text(message.get("content"))) for message in messages]
        text = texts[0][1] if len(texts) == 1 else "\n\n".join(f"[{role}]\n{text}" for role, text in texts)
    else:
        text = _text(asked)
    choices = data.get("choices")
    if isinstance(choices, list) and choices:
        lines = (f"{chr(65 + number % 26)}) {_text(choice)}" for number, choice in enumerate(choices))
        text = "\n".join([f"{text}\n", *lines])
    return text


def _text(value: Json) -> str:
    if not isinstance(value, list):
        return value if isinstance(value, str) else json_text(value)
    texts = (part.get("text") if isinstance(part, dict) else part for part in value)
    return "\n".join(text if isinstance(text, str) else "[not text]" for text in texts)


def _reference(target: Json) -> MemoryTree | None:
    """The target, one a file; Inspect writes an empty text where the data set has none."""
    targets = target if isinstance(target, list) else [target]
    texts = [item if isinstance(item, str) else json_text(item) for item in targets if item not in (None, "")]
    names = ["target.txt"] if len(texts) == 1 else [f"target_{number}.txt" for number in range(1, len(texts) + 1)]
    files = {name: text.encode() for name, text in zip(names, texts, strict=True)}
    return MemoryTree(files) if files else None


def _agent(header: Mapping[str, Json], *, repairs: Repairs) -> str:
    """The solver that was asked for, else the last one of the plan: those before it only prepare."""
    solver = dig(header, "eval", "solver")
    steps = dig(header, "plan", "steps")
    names = [step.get("solver") for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    return as_name(solver or (names[-1] if names else None), at="plan.steps", repairs=repairs)


def _effort(header: Mapping[str, Json]) -> str:
    for config in (dig(header, "eval", "model_generate_config"), dig(header, "plan", "config")):
        if isinstance(config, dict) and config.get("reasoning_effort") is not None:
            return storable_text(str(config["reasoning_effort"]))[:40]
        if isinstance(config, dict) and config.get("reasoning_tokens") is not None:
            return f"{storable_text(str(config['reasoning_tokens']))[:20]} reasoning tokens"
    return ""


def _usage(data: Mapping[str, Json], *, model: Json, repairs: Repairs) -> Usage:
    """That of the model under test; of all models where it is not told apart."""
    recorded = as_object(data.get("model_usage"), at="model_usage", repairs=repairs)
    used = [recorded[model]] if isinstance(model, str) and model in recorded else list(recorded.values())
    rows = as_objects(used, at="model_usage", repairs=repairs)
    return Usage(
        input_tokens=whole_sum(_input_tokens(row, repairs=repairs) for row in rows),
        cached_tokens=whole_sum(_tokens(row, "input_tokens_cache_read", repairs=repairs) for row in rows),
        output_tokens=whole_sum(_tokens(row, "output_tokens", repairs=repairs) for row in rows),
        cost_usd=whole_sum(as_float(row.get("total_cost"), at="model_usage", repairs=repairs) for row in rows),
    )


def _input_tokens(row: Mapping[str, Json], *, repairs: Repairs) -> int | None:
    """With cached ones: providers differ on whether `input_tokens` counts them, but the total always does."""
    total, output = (_tokens(row, key, repairs=repairs) for key in ("total_tokens", "output_tokens"))
    if total is not None and output is not None and total >= output:
        return total - output
    return _tokens(row, "input_tokens", repairs=repairs)


def _tokens(row: Mapping[str, Json], key: str, *, repairs: Repairs) -> int | None:
    return as_int(row.get(key), at=f"model_usage.{key}", repairs=repairs)


def _time(recorded: Json, events: Sequence[Mapping[str, Json]]) -> str | None:
    time = recorded or next((event.get("timestamp") for event in events), None)
    return time[:40] if isinstance(time, str) else None


def _extra(log: Log, data: Mapping[str, Json]) -> dict[str, Json]:
    """What helps to find and to understand the sample; nothing that a later step computes with."""
    retries = data.get("error_retries")
    told = {
        "format": "inspect",
        "log": log.name,
        "log_status": log.header.get("status"),
        "eval_id": dig(log.header, "eval", "eval_id"),
        "inspect_version": dig(log.header, "eval", "packages", "inspect_ai"),
        "limit": data.get("limit"),
        "error_retries": len(retries) if isinstance(retries, list) else None,
        "files": data.get("files"),
        "score_edits": score_edits(data) or None,
    }
    return {key: value for key, value in told.items() if value is not None and is_storable(value)}
