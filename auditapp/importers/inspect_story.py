"""The steps of an Inspect sample: from its messages, or from the calls to the model where messages were lost.

`messages` is the conversation as it stood at the end: compaction takes the older part out of it, and sub-agents never
enter it. Events of scorers, also their calls to a grading model, are the verifier's and never become steps.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from auditapp.importers.chat_steps import chat_steps
from auditapp.importers.inspect_samples import Sample
from auditapp.importers.lenient import Repairs, as_objects, json_text
from judges.records import Json, StepRecord

Key = tuple[str, ...]
Message = dict[str, Json]
_FILES = ("image", "audio", "video", "document")
_TOLD_ELSEWHERE = ("reasoning", "tool_use")


@dataclass(frozen=True, slots=True)
class _Span:
    """What it means for an event to be in a span: in a scorer, below an agent or tool, or in which sub-agent."""

    scorer: bool = False
    below: bool = False
    tool: bool = False
    agent: str = ""


@dataclass(slots=True)
class Acts:
    """The events of a sample by whose they are; a sub-agent's come with how many calls the agent had made before."""

    agent: list[Message] = field(default_factory=list)
    subagents: dict[str, tuple[int, list[Message]]] = field(default_factory=dict)
    scorer: list[Message] = field(default_factory=list)
    compactions: list[Message] = field(default_factory=list)


def sorted_events(events: Sequence[Message]) -> Acts:
    """The events of agent, sub-agents and scorers apart."""
    acts, spans, depth = Acts(), dict[str, _Span](), 0
    for event in events:
        kind = event.get("event")
        if kind == "span_begin":
            spans[str(event.get("id"))] = _span(event, spans)
        elif kind == "step" and event.get("type") == "scorer":  # logs of 2024 and early 2025
            depth = depth + 1 if event.get("action") == "begin" else max(0, depth - 1)
        else:
            place = spans.get(str(event.get("span_id")), _Span())
            _place(event, _Span(scorer=True) if depth > 0 else place, acts)
    return acts


def _span(event: Message, spans: Mapping[str, _Span]) -> _Span:
    parent = spans.get(str(event.get("parent_id")), _Span())
    kind = event.get("type")
    is_subagent = kind == "agent" and parent.below
    return _Span(
        scorer=parent.scorer or kind in ("scorers", "scorer"),
        below=parent.below or kind in ("agent", "tool"),
        tool=kind == "tool" or (parent.tool and not is_subagent),
        agent=str(event.get("id")) if is_subagent else parent.agent,
    )


def _place(event: Message, span: _Span, acts: Acts) -> None:
    kind = event.get("event")
    if kind in ("score", "score_edit") or (span.scorer and kind not in ("span_end", "step")):
        acts.scorer.append(event)
    elif kind == "compaction" and not span.agent:
        acts.compactions.append(event)
    # A model with a role of its own is a simulated user or a grader; one called by a tool only shows in its result.
    elif kind == "model" and not event.get("role") and not span.tool:
        if span.agent:
            acts.subagents.setdefault(span.agent, (len(acts.agent), []))[1].append(event)
        else:
            acts.agent.append(event)


def tell(sample: Sample, acts: Acts, *, repairs: Repairs, flags: Repairs) -> list[StepRecord]:
    """All steps; those of sub-agents follow the step that called them."""
    told = as_objects(sample.data.get("messages"), at="messages", repairs=repairs)
    keys = _Keys()
    messages = _whole(sample, acts, told=told, keys=keys, repairs=repairs)
    for event in acts.compactions:
        flags.add("compaction", "", f"{event.get('type')}: from {event.get('tokens_before')} tokens")
    times = _times(acts, keys)
    steps = chat_steps(_chats(messages, times, keys), repairs=repairs, flags=flags)
    locators = _locators(messages, steps, keys)
    children: dict[str, list[StepRecord]] = {}
    counts: Counter[str] = Counter()
    for before, events in acts.subagents.values():
        own = _subagent(sample, events, taken=locators.keys(), keys=keys)
        parent = _parent(acts.agent[:before], locators, keys) or (steps[0].locator if steps else "1")
        counts[parent] += bool(own)
        prefix = f"{parent}.{counts[parent]}:"
        found = chat_steps(_chats(own, times, keys), repairs=repairs, flags=flags, prefix=prefix)
        children.setdefault(parent, []).extend(found)
    if not steps:
        return [item for found in children.values() for item in found]
    return [item for step in steps for item in (step, *children.get(step.locator, ()))]


def _whole(sample: Sample, acts: Acts, *, told: list[Message], keys: "_Keys", repairs: Repairs) -> list[Message]:
    """The messages as they stand, or joined from the calls where answers of the model are missing in them."""
    present = {keys.of(message) for message in told}
    # A call that shares nothing with the conversation was made beside it: by a simulated user, to check an answer.
    own = [event for event in acts.agent if not present or _shares(sample.inputs(event), present, keys)]
    answers = (answer for event in own if (answer := _answer(event)) is not None and not _is_empty(answer))
    lost = sum(keys.of(answer) not in present for answer in answers)
    if not lost:
        return told
    repairs.add("steps_from_events", "messages", f"{lost} answers of the model are missing in it")
    # Asked for anew, one at a time: the inputs of all calls together grow with the square of their number.
    calls = ((sample.inputs(event), _answer(event)) for event in own)
    return _joined(chain(calls, [(told, None)]), keys)


def _shares(messages: Iterable[Message], present: Collection["Key"], keys: "_Keys") -> bool:
    return any(keys.of(message) in present for message in messages)


def _subagent(sample: Sample, events: Iterable[Message], *, taken: Collection["Key"], keys: "_Keys") -> list[Message]:
    """What a sub-agent was told and did, without what its caller handed on and the conversation already has."""
    messages = _joined(((sample.inputs(event), _answer(event)) for event in events), keys)
    return [message for message in messages if keys.of(message) not in taken]


def _joined(calls: Iterable[tuple[list[Message], Message | None]], keys: "_Keys") -> list[Message]:
    """Each message once, in the order in which calls first show it."""
    joined: list[Message] = []
    seen: set[Key] = set()
    line: list[Key] = []
    for inputs, answer in calls:
        now = [keys.of(message) for message in inputs]
        goes_on = now[: len(line)] == line
        start = len(line) if goes_on else 0
        for message, key in zip(inputs[start:], now[start:], strict=True):
            # Only a message with an id is known to be the same; equal words may be said twice.
            if key not in seen or (goes_on and key[0] == "words"):
                joined.append(message)
                seen.add(key)
        line = now
        if answer is not None and not _is_empty(answer):
            key = keys.of(answer)
            if key not in seen or key[0] == "words":
                joined.append(answer)
                seen.add(key)
            line = [*now, key]
    return joined


def _answer(event: Message) -> Message | None:
    output = event.get("output")
    choices = output.get("choices") if isinstance(output, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    return message if isinstance(message, dict) else None


def _is_empty(message: Message) -> bool:
    return not message.get("content") and not message.get("tool_calls")


class _Keys:
    """What tells messages apart. An agent behind a bridge sends its history again with new ids, so calls go first."""

    def __init__(self) -> None:
        self._known: dict[int, Key] = {}
        self._answers: dict[str, Key] = {}

    def of(self, message: Message) -> Key:
        """The key of a message, which must live as long as this object."""
        found = self._known.get(id(message))
        if found is None:
            found = _key(message)
            if message.get("role") == "assistant" and message.get("id"):
                # A solver may clean up the words of an answer; it keeps the id.
                found = self._answers.setdefault(str(message["id"]), found)
            self._known[id(message)] = found
        return found


def _key(message: Message) -> Key:
    role = str(message.get("role"))
    calls = message.get("tool_calls")
    ids = [str(call.get("id") or "") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    if any(ids):
        return ("calls", *ids)
    if role == "tool" and message.get("tool_call_id"):
        return ("result", str(message["tool_call_id"]))
    if role != "assistant" and message.get("id"):
        return ("id", str(message["id"]))
    return ("words", role, hashlib.sha256(_words(message.get("content")).encode()).hexdigest())


def _words(content: Json) -> str:
    """The text of a message, equal whether it was kept as text or as a list of parts."""
    parts = content if isinstance(content, list) else [content]
    texts = (part.get("text", part.get("reasoning")) if isinstance(part, dict) else part for part in parts)
    return "\n".join(text if isinstance(text, str) else json_text(text) for text in texts if text is not None)


def _times(acts: Acts, keys: _Keys) -> dict[Key, str]:
    """When each answer of a model was complete."""
    events = [*acts.agent, *(event for _, found in acts.subagents.values() for event in found)]
    answers = ((_answer(event), event.get("completed") or event.get("timestamp")) for event in events)
    return {keys.of(answer): time for answer, time in answers if answer is not None and isinstance(time, str)}


def _locators(messages: Sequence[Message], steps: Sequence[StepRecord], keys: _Keys) -> dict[Key, str]:
    """The step of each message; a result belongs to the step before it."""
    found: dict[Key, str] = {}
    at = 0
    for message in messages:
        at += message.get("role") != "tool"
        found[keys.of(message)] = str(min(max(at, 1), len(steps)))
    return found


def _parent(calls: Sequence[Message], locators: Mapping[Key, str], keys: _Keys) -> str | None:
    """The step of the last answer before a sub-agent began, which is the one that called it."""
    for event in reversed(calls):
        answer = _answer(event)
        if answer is not None and (found := locators.get(keys.of(answer))):
            return found
    return None


# --- messages of Inspect as messages of a chat


def _chats(messages: Iterable[Message], times: Mapping[Key, str], keys: _Keys) -> list[Message]:
    return [chat for message in messages for chat in _chat(message, times.get(keys.of(message)))]


def _chat(message: Message, time: str | None) -> Iterator[Message]:
    """One message, and the results of tools that the provider ran while it was written."""
    content = message.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    served = [part for part in parts if part.get("type") == "tool_use"]
    calls = message.get("tool_calls")
    yield {
        "role": message.get("role"),
        "content": _content(message),
        "reasoning": _reasoning(message, parts),
        "tool_calls": [*(calls if isinstance(calls, list) else []), *map(_served_call, served)],
        "tool_call_id": message.get("tool_call_id"),
        "timestamp": time,
    }
    for part in served:
        result = part.get("result") or part.get("error")
        if result is not None:
            yield {"role": "tool", "tool_call_id": part.get("id"), "content": result}


def _served_call(part: Message) -> Message:
    return {"id": part.get("id"), "function": part.get("name"), "arguments": part.get("arguments")}


def _content(message: Message) -> Json:
    content, error = message.get("content"), message.get("error")
    if message.get("role") == "tool" and not content and isinstance(error, dict):
        return error.get("message")
    if not isinstance(content, list):
        return content
    return [_part(part) for part in content if not (isinstance(part, dict) and part.get("type") in _TOLD_ELSEWHERE)]


def _part(part: Json) -> Json:
    """Attachments by their kind only: their bytes stay in the original."""
    kind = part.get("type") if isinstance(part, dict) else None
    return {"type": f"file ({kind})"} if kind in _FILES else part


def _reasoning(message: Message, parts: Iterable[Message]) -> str:
    texts = [_thought(part) for part in parts if part.get("type") == "reasoning"]
    if not parts and isinstance(message.get("reasoning"), str):
        texts = [message["reasoning"]]
    return "\n".join(text for text in texts if text)


def _thought(part: Message) -> str:
    """Redacted reasoning is a cipher; only its summary can be read."""
    text = part.get("summary") if part.get("redacted") else part.get("reasoning") or part.get("summary")
    return text if isinstance(text, str) else ""
