"""ATIF documents (1.0 to 1.8) as numbered steps. The declared version is a label: fields are read where they are.

Steps are numbered from 1 after joining continuations; those of sub-agent k of step 12 are 12.k:1, 12.k:2 and follow
their parent. Nothing here raises for a wrong field: each repair is noted with the place it was made at.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import re2

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
    is_storable,
    json_text,
    load_object,
    storable_text,
    whole_sum,
)
from auditapp.importers.options import Limits
from judges.records import Action, Attachment, Json, Notice, Observation, Pairing, Source, StepRecord, Usage

ReadSibling = Callable[[str], bytes]
"""The bytes of a file beside the document, by relative path; KeyError where absent, UnreadableError where refused."""

_MAX_NESTING = 8
_EXIT_CODE = re.compile(
    r"\A(?:Error: )?Exit code (-?\d{1,5})\b|\b[Cc]ommand (?:finished|completed) with exit code (-?\d{1,5})\b"
)
_EXIT_KEYS = ("exit_code", "exitCode", "returncode", "return_code")
_HARNESS_PREFIXES = (
    "<environment_context>",
    "<user_instructions>",
    "<system-reminder>",
    "<command-name>",
    "<local-command",
    "# AGENTS.md instructions",
    "Caveat: The messages below were generated",
)
_TERMINUS_PROMPT = "You are an AI assistant tasked with solving command-line tasks"
# On re2, as agents write the text: its time is linear in any input.
_TERMINUS_TASK = re2.compile(r"(?s)Task Description:\n(.*?)(?:\n+Current terminal state:|\z)")
_REWARD_TEXT = re2.compile(
    r"(?i)\b(?:reward|verifier[ _]result|verifier[ _]score)s?\b[\"']?\s*(?:is|was|[:=])?\s*[\"'{\[]*\s*-?\d"
)
_REWARD_KEYS = ("reward", "rewards", "verifier_result", "verifier")


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One attempt as its ATIF documents tell it; `documents` and `attached` are the sibling files that were used."""

    steps: tuple[StepRecord, ...]
    instruction: str | None
    agent: str
    agent_version: str
    model: str
    effort: str
    usage: Usage
    version: str
    documents: tuple[str, ...]
    attached: tuple[str, ...]
    flags: tuple[Notice, ...]


@dataclass(slots=True)
class _Reading:
    """What is carried along while one attempt is read."""

    read: ReadSibling
    repairs: Repairs
    limits: Limits
    flags: Repairs = field(default_factory=Repairs)
    documents: list[str] = field(default_factory=list)
    attached: list[str] = field(default_factory=list)
    seen: dict[int, Mapping[str, Json]] = field(default_factory=dict)  # holds them, so that an id stays taken
    first: int = 1
    embedded: list[dict[str, Json]] = field(default_factory=list)


def read_trajectory(
    document: Mapping[str, Json], *, name: str, read: ReadSibling, repairs: Repairs, limits: Limits, first: int = 1
) -> Trajectory:
    """All steps of the attempt that `document` (file `name`) begins, with its continuations and sub-agents.

    The first step gets the number `first`: attempts told in several documents are numbered through.
    """
    reading = _Reading(read, repairs, limits, documents=[name], first=first)
    segments = [document, *_continuations(document, name=name, reading=reading)]
    reading.embedded = [child for segment in segments for child in _embedded(segment)]
    if not str(document.get("schema_version", "")).startswith("ATIF-v1."):
        repairs.add("unknown_schema_version", name, str(document.get("schema_version"))[:60])
    raw = _joined_steps(segments, reading=reading)
    kept = _without_reward_tail(raw, reading=reading)
    steps = tuple(_numbered(kept, prefix="", reading=reading, depth=0, first=first))
    _flag_contents(kept, steps=steps, reading=reading)
    return _summary(segments, raw=[step for step, _ in kept], steps=steps, reading=reading)


def _summary(
    segments: Sequence[Mapping[str, Json]],
    *,
    raw: Sequence[Mapping[str, Json]],
    steps: tuple[StepRecord, ...],
    reading: _Reading,
) -> Trajectory:
    agent = as_object(segments[0].get("agent"), at="agent", repairs=reading.repairs)
    return Trajectory(
        steps=steps,
        instruction=_instruction(raw),
        agent=as_name(agent.get("name"), at="agent.name", repairs=reading.repairs),
        agent_version=as_name(agent.get("version"), at="agent.version", repairs=reading.repairs),
        model=_model(agent, raw=raw, repairs=reading.repairs),
        effort=_effort(raw),
        usage=_usage(segments, raw=raw, repairs=reading.repairs),
        version=as_name(segments[0].get("schema_version"), at="schema_version", repairs=reading.repairs),
        documents=tuple(reading.documents),
        attached=tuple(dict.fromkeys(reading.attached)),
        flags=reading.flags.notices(),
    )


def _continuations(document: Mapping[str, Json], *, name: str, reading: _Reading) -> Iterator[dict[str, Json]]:
    current: Mapping[str, Json] = document
    for _ in range(reading.limits.segments):
        reference = current.get("continued_trajectory_ref")
        if not isinstance(reference, str) or not reference:
            return
        found = _sibling(reference, beside=name, reading=reading, missing="continuation_missing")
        if found is None:
            return
        reading.flags.add("continuation", reference)
        yield found
        current = found
    reading.repairs.add("continuation_limit", name, f"more than {reading.limits.segments} segments")


def _sibling(reference: str, *, beside: str, reading: _Reading, missing: str) -> dict[str, Json] | None:
    """Another document of this attempt; only plain file names in the same folder are followed."""
    if "/" in reference or "\\" in reference or reference in ("", ".", ".."):
        reading.repairs.add(missing, beside, f"{reference}: not a plain file name, not followed")
        return None
    for candidate in _candidates(reference, beside=beside):
        if candidate in reading.documents:
            reading.repairs.add(missing, beside, f"{reference}: already part of this trajectory")
            return None
        try:
            raw = reading.read(candidate)
            found = load_object(raw, name=candidate, repairs=reading.repairs, limits=reading.limits)
        except KeyError:
            continue
        except UnreadableError as error:
            reading.repairs.add(missing, candidate, str(error))
            return None
        reading.documents.append(candidate)
        return found
    reading.repairs.add(missing, beside, f"{reference}: no such file")
    return None


def _candidates(reference: str, *, beside: str) -> list[str]:
    """Files are often renamed together: `x.trajectory.json` continues in `x.trajectory.cont-1.json`."""
    prefix = beside[: -len("trajectory.json")] if beside.endswith("trajectory.json") else ""
    return [reference, prefix + reference] if prefix else [reference]


_Numbered = tuple[dict[str, Json], Mapping[str, Json]]
"""A raw step and the document it came from, in which its sub-agents are looked up."""


def _joined_steps(segments: Sequence[Mapping[str, Json]], *, reading: _Reading) -> list[_Numbered]:
    joined: list[_Numbered] = []
    for index, segment in enumerate(segments):
        steps = as_objects(segment.get("steps"), at=f"segment {index + 1} steps", repairs=reading.repairs)
        joined += [(step, segment) for step in _own_steps(steps, copied_elsewhere=index > 0, reading=reading)]
    return joined


def _own_steps(steps: list[dict[str, Json]], *, copied_elsewhere: bool, reading: _Reading) -> list[dict[str, Json]]:
    """Steps copied from an earlier segment or a parent are told there; without one they are all there is."""
    copied = sum(step.get("is_copied_context") is True for step in steps)
    if copied and not copied_elsewhere:
        reading.repairs.add("copied_context_kept", "", "no earlier segment holds it", count=copied)
        return steps
    return [step for step in steps if step.get("is_copied_context") is not True]


def _without_reward_tail(steps: list[_Numbered], *, reading: _Reading) -> list[_Numbered]:
    """Some harnesses append what the verifier said; the blind judge and reviewers must not read it."""
    end = len(steps)
    while end > 0 and steps[end - 1][0].get("source") != "agent" and _tells_reward(steps[end - 1][0]):
        end -= 1
        reading.flags.add(
            "harness_reward_removed", str(reading.first + end), "a record after the last step tells the reward"
        )
    return steps[:end]


def _tells_reward(step: Mapping[str, Json]) -> bool:
    extra = step.get("extra")
    if isinstance(extra, dict) and any(key in extra for key in _REWARD_KEYS):
        return True
    message = step.get("message")
    text = message if isinstance(message, str) else json_text(message)
    return len(text) < 20_000 and _REWARD_TEXT.search(text) is not None


def _numbered(
    steps: Sequence[_Numbered], *, prefix: str, reading: _Reading, depth: int, first: int = 1
) -> Iterator[StepRecord]:
    for number, (step, document) in enumerate(steps, start=first):
        locator = f"{prefix}{number}"
        yield _step(step, locator=locator, reading=reading)
        yield from _subagents(step, document, locator=locator, reading=reading, depth=depth)
    if steps:
        yield from _unplaced(steps, locator=f"{prefix}{first + len(steps) - 1}", reading=reading, depth=depth)


def _subagents(
    step: Mapping[str, Json], document: Mapping[str, Json], *, locator: str, reading: _Reading, depth: int
) -> Iterator[StepRecord]:
    results = dig(step, "observation", "results")
    references = [
        reference
        for result in (results if isinstance(results, list) else [])
        if isinstance(result, dict)
        for reference in as_objects(result.get("subagent_trajectory_ref"), at=locator, repairs=reading.repairs)
    ]
    for number, reference in enumerate(references, start=1):
        child = _referenced(reference, document, locator=locator, reading=reading)
        if child is not None:
            yield from _child_steps(child, prefix=f"{locator}.{number}:", reading=reading, depth=depth + 1)


def _child_steps(child: Mapping[str, Json], *, prefix: str, reading: _Reading, depth: int) -> Iterator[StepRecord]:
    if depth > _MAX_NESTING or id(child) in reading.seen:
        reading.repairs.add("subagent_not_followed", prefix, "nested too deeply or its own parent")
        return
    reading.seen[id(child)] = child
    steps = as_objects(child.get("steps"), at=prefix, repairs=reading.repairs)
    own = _own_steps(steps, copied_elsewhere=True, reading=reading)
    yield from _numbered([(step, child) for step in own], prefix=prefix, reading=reading, depth=depth)


def _referenced(
    reference: Mapping[str, Json], document: Mapping[str, Json], *, locator: str, reading: _Reading
) -> Mapping[str, Json] | None:
    """The sub-agent a step names: by id inside this document, by file beside it, at last by session."""
    embedded = [*_embedded(document), *reading.embedded]
    wanted = reference.get("trajectory_id")
    for child in embedded:
        if wanted and child.get("trajectory_id") == wanted:
            return child
    path = reference.get("trajectory_path")
    if isinstance(path, str) and path:
        return _sibling(path, beside=reading.documents[0], reading=reading, missing="subagent_missing")
    session = reference.get("session_id")
    for child in embedded:
        if session and child.get("session_id") == session:
            return child
    reading.repairs.add("subagent_missing", locator, str(wanted or session)[:200])
    return None


def _embedded(document: Mapping[str, Json]) -> list[dict[str, Json]]:
    children = document.get("subagent_trajectories")
    return [child for child in children if isinstance(child, dict)] if isinstance(children, list) else []


def _unplaced(steps: Sequence[_Numbered], *, locator: str, reading: _Reading, depth: int) -> Iterator[StepRecord]:
    """Embedded sub-agents that no step names are kept after the last step, from number 101 on."""
    documents = {id(document): document for _, document in steps}.values()
    children = [child for document in documents for child in _embedded(document) if id(child) not in reading.seen]
    for number, child in enumerate(children, start=101):
        reading.repairs.add("subagent_unplaced", locator, "no step names it; kept after the last one")
        yield from _child_steps(child, prefix=f"{locator}.{number}:", reading=reading, depth=depth + 1)


def _step(step: Mapping[str, Json], *, locator: str, reading: _Reading) -> StepRecord:
    repairs = reading.repairs
    calls = as_objects(step.get("tool_calls"), at=f"{locator} tool_calls", repairs=repairs)
    message, attachments = _content(step.get("message"), at=f"{locator} message", reading=reading)
    timestamp = step.get("timestamp")
    return StepRecord(
        locator=locator,
        source=_source(step.get("source"), at=locator, repairs=repairs),
        message=message,
        reasoning=as_text(step.get("reasoning_content"), at=f"{locator} reasoning", repairs=repairs),
        actions=tuple(_action(call, at=f"{locator} tool_calls", repairs=repairs) for call in calls),
        observations=_observations(step, calls, locator=locator, reading=reading),
        attachments=attachments,
        timestamp=None if timestamp is None else str(timestamp)[:64],
    )


def _source(value: Json, *, at: str, repairs: Repairs) -> Source:
    if value == "agent":
        return "agent"
    if value == "user":
        return "user"
    if value == "system":
        return "system"
    repairs.add("unknown_source", at, str(value)[:60])
    return "unknown"


def _action(call: Mapping[str, Json], *, at: str, repairs: Repairs) -> Action:
    name = as_text(call.get("function_name", call.get("name")), at=f"{at} function_name", repairs=repairs)
    call_id = call.get("tool_call_id")
    arguments = call.get("arguments")
    if isinstance(arguments, str):
        arguments = _parsed_arguments(arguments, at=at, repairs=repairs)
    elif arguments is None:
        arguments = {}
    if not isinstance(arguments, (dict, str)):
        repairs.add("arguments_coerced", at, "not an object")
        arguments = json_text(arguments)
    if isinstance(arguments, dict) and not is_storable(arguments):
        repairs.add("arguments_coerced", at, "nested too deeply or beyond 64 bits")
        arguments = storable_text(json_text(arguments))
    return Action(name, arguments, str(call_id) if call_id else None)


def _parsed_arguments(text: str, *, at: str, repairs: Repairs) -> dict[str, Json] | str:
    if not text.lstrip().startswith("{"):
        repairs.add("arguments_text", at, "kept as text")
        return text
    try:
        value = load_object(text.encode(), name="arguments", repairs=Repairs(), limits=Limits())
    except (UnreadableError, UnicodeEncodeError):
        repairs.add("arguments_text", at, "kept as text")
        return text
    repairs.add("arguments_text", at, "read as an object")
    return value


def _observations(
    step: Mapping[str, Json], calls: Sequence[Mapping[str, Json]], *, locator: str, reading: _Reading
) -> tuple[Observation, ...]:
    raw = step.get("observation")
    if raw is None:
        return ()
    if isinstance(raw, str):
        reading.repairs.add("observation_coerced", locator, "was text")
        raw = {"results": [{"content": raw}]}
    observation = as_object(raw, at=f"{locator} observation", repairs=reading.repairs)
    results = as_objects(observation.get("results"), at=f"{locator} observation", repairs=reading.repairs)
    results = [result for result in results if _says_something(result)]
    ids = [str(call.get("tool_call_id") or "") for call in calls]
    pairs = _paired(ids, results, locator=locator, repairs=reading.repairs)
    return tuple(
        _observation(result, call_id=call_id, pairing=pairing, locator=locator, reading=reading)
        for result, (call_id, pairing) in zip(results, pairs, strict=True)
    )


def _says_something(result: Mapping[str, Json]) -> bool:
    """A result that only refers to a sub-agent is no output; an empty output of a named call is one."""
    return result.get("content") is not None or bool(result.get("source_call_id"))


def _paired(
    ids: list[str], results: Sequence[Mapping[str, Json]], *, locator: str, repairs: Repairs
) -> list[tuple[str | None, Pairing]]:
    """For each result the call it answers and how sure that is."""
    open_calls = list(range(len(ids)))
    pairs: dict[int, tuple[str | None, Pairing]] = {}
    for index, result in enumerate(results):
        wanted = str(result.get("source_call_id") or "")
        match = next((call for call in open_calls if wanted and ids[call] == wanted), None)
        if match is not None:
            open_calls.remove(match)
            pairs[index] = (wanted, "explicit")
        elif wanted:
            repairs.add("foreign_call_id", locator, wanted[:100])
            pairs[index] = (wanted, "none")
    left = [index for index in range(len(results)) if index not in pairs]
    pairs.update(_inferred(left, [ids[call] for call in open_calls], exclusive=not pairs))
    return [pairs[index] for index in range(len(results))]


def _inferred(results: list[int], call_ids: list[str], *, exclusive: bool) -> dict[int, tuple[str | None, Pairing]]:
    if results and len(results) == len(call_ids):
        how: Pairing = "position" if exclusive else "single" if len(results) == 1 else "position"
        return {index: (call_id or None, how) for index, call_id in zip(results, call_ids, strict=True)}
    if len(results) == 1 and len(call_ids) > 1:
        return {results[0]: (None, "shared")}
    return dict.fromkeys(results, (None, "none"))


def _observation(
    result: Mapping[str, Json], *, call_id: str | None, pairing: Pairing, locator: str, reading: _Reading
) -> Observation:
    text, attachments = _content(result.get("content"), at=f"{locator} observation", reading=reading)
    return Observation(text, call_id, pairing, _exit_code(result, text), attachments)


def _exit_code(result: Mapping[str, Json], text: str) -> int | None:
    extra = result.get("extra")
    for key in _EXIT_KEYS:
        code = extra.get(key) if isinstance(extra, dict) else None
        if isinstance(code, int) and not isinstance(code, bool) and abs(code) < 2**31:
            return code
    edges = text if len(text) <= 500 else f"{text[:200]}\n{text[-300:]}"
    match = _EXIT_CODE.search(edges) if "xit code" in edges else None
    return int(match[1] or match[2]) if match else None


def _content(value: Json, *, at: str, reading: _Reading) -> tuple[str, tuple[Attachment, ...]]:
    """Text and attachments of a message or an output: text as it is, parts joined by line breaks."""
    if isinstance(value, str):
        return value, ()
    if value is None:
        return "", ()
    if not isinstance(value, list):
        return as_text(value, at=at, repairs=reading.repairs), ()
    texts: list[str] = []
    attachments: list[Attachment] = []
    for part in value:
        if isinstance(part, dict) and isinstance(part.get("source"), dict):
            attachments.append(_attachment(part, part["source"], at=at, reading=reading))
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            texts.append(as_text(part, at=at, repairs=reading.repairs))
    return "\n".join(texts), tuple(attachments)


def _attachment(part: Mapping[str, Json], source: Mapping[str, Json], *, at: str, reading: _Reading) -> Attachment:
    kind = as_name(part.get("type"), at=at, repairs=reading.repairs)
    media_type = as_name(source.get("media_type"), at=at, repairs=reading.repairs) or kind
    data = source.get("data")
    if isinstance(data, str):
        return _inline(data, media_type=media_type, at=at, repairs=reading.repairs)
    path = as_text(source.get("path", source.get("url")), at=at, repairs=reading.repairs)[:1000]
    if path.startswith("data:"):
        return _inline(path.partition(",")[2], media_type=media_type, at=at, repairs=reading.repairs)
    return _attached_file(path, media_type=media_type, at=at, reading=reading)


def _attached_file(path: str, *, media_type: str, at: str, reading: _Reading) -> Attachment:
    """Addresses are never fetched; a file is looked for beside the trajectory only."""
    if "://" in path or path.startswith("/") or ".." in path.split("/"):
        reading.repairs.add("attachment_not_recorded", at, path[:200])
        return Attachment(media_type, path)
    try:
        raw = reading.read(path)
    except (KeyError, UnreadableError):
        reading.repairs.add("attachment_not_recorded", at, path[:200])
        return Attachment(media_type, path)
    reading.attached.append(path)
    return Attachment(media_type, path, len(raw), hashlib.sha256(raw).hexdigest())


def _inline(data: str, *, media_type: str, at: str, repairs: Repairs) -> Attachment:
    repairs.add("attachment_inline", at, media_type)
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return Attachment(media_type, "inline")
    return Attachment(media_type, "inline", len(raw), hashlib.sha256(raw).hexdigest())


def _flag_contents(kept: Sequence[_Numbered], *, steps: Sequence[StepRecord], reading: _Reading) -> None:
    for step in steps:
        if len(step.actions) > len(step.observations) and not _shared(step):
            missing = len(step.actions) - len(step.observations)
            reading.flags.add("observation_missing", step.locator, f"{missing} of {len(step.actions)} calls")
    for number, (raw, _) in enumerate(kept, start=reading.first):
        if _is_compaction(raw):
            reading.flags.add("compaction", str(number))
    if kept and dig(kept[0][0], "extra", "is_sidechain") is True:
        reading.repairs.add("sidechain_first", "1", "steps of a sub-agent stand before the instruction")


def _shared(step: StepRecord) -> bool:
    return any(observation.pairing == "shared" for observation in step.observations)


def _is_compaction(step: Mapping[str, Json]) -> bool:
    if dig(step, "extra", "context_management") or dig(step, "extra", "is_compact_summary"):
        return True
    message = step.get("message")
    return (
        step.get("source") == "system" and isinstance(message, str) and message.startswith("Performed context summar")
    )


def _instruction(steps: Sequence[Mapping[str, Json]]) -> str | None:
    """The first message of the main chain that a harness did not write."""
    for step in steps:
        message = step.get("message")
        if step.get("source") != "user" or dig(step, "extra", "is_sidechain") is True:
            continue
        text = message if isinstance(message, str) else _part_text(message)
        if text.strip() and not text.lstrip().startswith(_HARNESS_PREFIXES):
            return _bare_instruction(text)
    return None


def _part_text(message: Json) -> str:
    parts = message if isinstance(message, list) else []
    return "\n".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _bare_instruction(text: str) -> str:
    match = _TERMINUS_TASK.search(text) if text.startswith(_TERMINUS_PROMPT) else None
    return match[1].strip() if match else text


def _model(agent: Mapping[str, Json], *, raw: Sequence[Mapping[str, Json]], repairs: Repairs) -> str:
    recorded = as_name(agent.get("model_name"), at="agent.model_name", repairs=repairs)
    used: dict[str, int] = {}
    for step in raw:
        name = step.get("model_name")
        if isinstance(name, str) and name and dig(step, "extra", "is_sidechain") is not True:
            used[name] = used.get(name, 0) + 1
    if recorded and (not used or recorded in used or any(recorded.endswith("/" + name) for name in used)):
        return recorded
    most = max(used, key=lambda name: used[name], default="")
    if recorded:
        repairs.add("model_from_steps", "agent.model_name", f"{recorded} is in no step; {most} is")
    return most


def _effort(raw: Sequence[Mapping[str, Json]]) -> str:
    efforts = (step.get("reasoning_effort") for step in raw)
    return next((str(effort)[:40] for effort in efforts if effort is not None), "")


def _usage(segments: Sequence[Mapping[str, Json]], *, raw: Sequence[Mapping[str, Json]], repairs: Repairs) -> Usage:
    """What was recorded as total; summed over the steps where segments were joined, as totals then disagree."""
    final = dig(segments[-1], "final_metrics")
    total = final if isinstance(final, dict) and len(segments) == 1 else {}
    return Usage(
        _total(total, raw, "total_prompt_tokens", "prompt_tokens", repairs=repairs),
        _total(total, raw, "total_cached_tokens", "cached_tokens", repairs=repairs),
        _total(total, raw, "total_completion_tokens", "completion_tokens", repairs=repairs),
        _cost(total, raw, repairs=repairs),
    )


def _total(
    final: Mapping[str, Json], raw: Sequence[Mapping[str, Json]], name: str, per_step: str, *, repairs: Repairs
) -> int | None:
    recorded = as_int(final.get(name), at=f"final_metrics.{name}", repairs=repairs)
    if recorded is not None:
        return recorded
    parts = (as_int(item.get(per_step), at=f"metrics.{per_step}", repairs=repairs) for item in _measured(raw))
    return whole_sum(parts)


def _cost(final: Mapping[str, Json], raw: Sequence[Mapping[str, Json]], *, repairs: Repairs) -> float | None:
    recorded = as_float(final.get("total_cost_usd"), at="final_metrics.total_cost_usd", repairs=repairs)
    if recorded is not None:
        return recorded
    return whole_sum(as_float(item.get("cost_usd"), at="metrics.cost_usd", repairs=repairs) for item in _measured(raw))


def _measured(raw: Sequence[Mapping[str, Json]]) -> Iterator[Mapping[str, Json]]:
    """The metrics of the steps that have any; a step without called no model, or nothing is known of it."""
    return (metrics for step in raw if isinstance(metrics := step.get("metrics"), dict))
