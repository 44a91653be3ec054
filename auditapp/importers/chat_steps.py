"""Chat messages (roles system, user, assistant, tool) as numbered steps; each result joins the step of its call."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import orjson

from auditapp.importers.lenient import (
    Repairs,
    UnreadableError,
    as_objects,
    as_text,
    is_storable,
    json_text,
    load_object,
    storable_text,
)
from auditapp.importers.options import Limits
from judges.records import Action, Attachment, Json, Observation, Pairing, Source, StepRecord

_SOURCES: dict[str, Source] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "agent",
    "agent": "agent",
    "model": "agent",
}
_RESULTS = ("tool", "function")


@dataclass(slots=True)
class _Draft:
    """A step that may still get results; `open` are the positions of calls without one."""

    step: StepRecord
    open: list[int]
    observations: list[Observation] = field(default_factory=list)


def chat_steps(messages: Json, *, repairs: Repairs, flags: Repairs, prefix: str = "") -> list[StepRecord]:
    """The steps of a conversation; repairs and calls without a result are noted with the step's locator.

    Locators begin with `prefix`: "12.1:" for the first sub-agent of step 12.
    """
    drafts: list[_Draft] = []
    for message in as_objects(messages, at="messages", repairs=repairs):
        if message.get("role") in _RESULTS:
            _add_result(message, drafts=drafts, prefix=prefix, repairs=repairs)
        else:
            drafts.append(_draft(message, locator=f"{prefix}{len(drafts) + 1}", repairs=repairs))
    for draft in drafts:
        if draft.open:
            flags.add(
                "observation_missing", draft.step.locator, f"{len(draft.open)} of {len(draft.step.actions)} calls"
            )
    return [_finished(draft) for draft in drafts]


def _finished(draft: _Draft) -> StepRecord:
    step = draft.step
    return StepRecord(
        locator=step.locator,
        source=step.source,
        message=step.message,
        reasoning=step.reasoning,
        actions=step.actions,
        observations=tuple(draft.observations),
        attachments=step.attachments,
        timestamp=step.timestamp,
    )


def _draft(message: Mapping[str, Json], *, locator: str, repairs: Repairs) -> _Draft:
    text, attachments = _content(message.get("content"), at=f"{locator} message", repairs=repairs)
    reasoning = message.get("reasoning_content", message.get("reasoning"))
    calls = as_objects(message.get("tool_calls"), at=f"{locator} tool_calls", repairs=repairs)
    timestamp = message.get("timestamp")
    step = StepRecord(
        locator=locator,
        source=_source(message.get("role"), at=locator, repairs=repairs),
        message=text,
        reasoning=as_text(reasoning, at=f"{locator} reasoning", repairs=repairs),
        actions=tuple(_action(call, at=f"{locator} tool_calls", repairs=repairs) for call in calls),
        attachments=attachments,
        timestamp=None if timestamp is None else str(timestamp)[:64],
    )
    return _Draft(step, list(range(len(calls))))


def _source(role: Json, *, at: str, repairs: Repairs) -> Source:
    source = _SOURCES.get(role) if isinstance(role, str) else None
    if source is None:
        repairs.add("unknown_source", at, str(role)[:60])
    return source or "unknown"


def _action(call: Mapping[str, Json], *, at: str, repairs: Repairs) -> Action:
    """A call as OpenAI writes it (`function` an object) or with name and arguments of its own."""
    function = call.get("function")
    inner = function if isinstance(function, dict) else call
    name = function if isinstance(function, str) else inner.get("name")
    arguments = call_arguments(inner.get("arguments", inner.get("input")), at=at, repairs=repairs)
    call_id = call.get("id", call.get("tool_call_id"))
    return Action(as_text(name, at=f"{at} name", repairs=repairs), arguments, str(call_id) if call_id else None)


def call_arguments(value: Json, *, at: str, repairs: Repairs) -> dict[str, Json] | str:
    """Arguments as the object they are or hold as text; as text, noted, where there is none."""
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        try:
            return _object(value, at)
        except UnreadableError:
            repairs.add("arguments_text", at, "kept as text")
            return value
    if isinstance(value, dict) and is_storable(value):
        return value
    repairs.add("arguments_coerced", at, "no object, or nested too deeply")
    return storable_text(json_text(value))


def _object(text: str, at: str) -> dict[str, Json]:
    """The object in a text; the reader that repairs is asked only where there may be something to repair."""
    try:
        found = None if "\\u" in text else orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    if isinstance(found, dict) and is_storable(found):
        return found
    found = load_object(text.encode(), name=at, repairs=Repairs(), limits=Limits())
    if not is_storable(found):
        raise UnreadableError(f"{at} is nested too deeply")
    return found


def _add_result(message: Mapping[str, Json], *, drafts: list[_Draft], prefix: str, repairs: Repairs) -> None:
    wanted = message.get("tool_call_id")
    draft, call_id, pairing = _place(str(wanted) if wanted else "", drafts)
    if draft is None:
        draft = _Draft(StepRecord(f"{prefix}{len(drafts) + 1}", "unknown"), [])
        drafts.append(draft)
    locator = draft.step.locator
    if wanted and pairing == "none":
        repairs.add("foreign_call_id", locator, str(wanted)[:100])
    text, attachments = _content(message.get("content"), at=f"{locator} observation", repairs=repairs)
    draft.observations.append(Observation(text, call_id, pairing, None, attachments))


def _place(wanted: str, drafts: list[_Draft]) -> tuple[_Draft | None, str | None, Pairing]:
    """The step a result belongs to: by the id of the nearest open call, else by the order of the last step's calls."""
    for draft in reversed(drafts) if wanted else ():
        for index in draft.open:
            if draft.step.actions[index].call_id == wanted:
                draft.open.remove(index)
                return draft, wanted, "explicit"
    last = next((draft for draft in reversed(drafts) if draft.step.source == "agent"), None)
    if last is None or wanted or not last.open:
        return last, wanted or None, "none"
    pairing: Pairing = "single" if len(last.step.actions) == 1 else "position"
    return last, last.step.actions[last.open.pop(0)].call_id, pairing


def _content(value: Json, *, at: str, repairs: Repairs) -> tuple[str, tuple[Attachment, ...]]:
    if not isinstance(value, list):
        return as_text(value, at=at, repairs=repairs), ()
    parts = list(_parts(value, at=at, repairs=repairs))
    texts = [part for part in parts if isinstance(part, str)]
    return "\n".join(texts), tuple(part for part in parts if isinstance(part, Attachment))


def _parts(value: list[Json], *, at: str, repairs: Repairs) -> Iterator[str | Attachment]:
    for part in value:
        kind = part.get("type") if isinstance(part, dict) else None
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]
        elif isinstance(kind, str) and kind.startswith(("image", "input_image", "audio", "input_audio", "file")):
            repairs.add("attachment_not_recorded", at, kind[:60])
            yield Attachment(kind[:60], "inline or elsewhere")
        else:
            yield as_text(part, at=at, repairs=repairs)
