"""A stored exchange as pages show it, turn by turn: what was new in each request, what came back, what it took.

What we sent was displayed before and is shown as it was; what a model said is hostile and goes through the reader's
rendering. Nothing here is marked safe that was not escaped.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol

import orjson
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from auditapp import blobs
from auditapp.templatetags.textlines import Span, Text
from judges.display import display_text, split_lines
from judges.messages import ToolCall, TurnReply

Json = Any
_MARK = re.compile(r"(⟦[^⟦⟧]*⟧)")
_FRAME = re.compile(r"┌([0-9a-f]{6}) UNTRUSTED (.*)")
_NUMBERED = re.compile(r" *(\d+)│(.*)", re.DOTALL)
_RUN = re.compile(r"command (R\d+): (.*)")
OPEN_LINES = 14


class Call(Protocol):
    """A stored call, of a judgment or of an exchange outside a run."""

    turn: int
    phase: int
    state: str
    request_blob: str | None
    response_blob: str | None
    cost_usd: Decimal | None
    input_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    request_id: str
    error: str
    reserved_at: datetime
    settled_at: datetime | None


@dataclass(frozen=True, slots=True)
class Cited:
    """A command the judge ran, and the lines of its output that a citation names."""

    run: str
    lines: Span | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of text: inside a frame, with the title of its source, or our own words."""

    html: SafeString
    n_lines: int
    title: str = ""
    is_cited: bool = False

    @property
    def is_long(self) -> bool:
        """Whether it is folded at first."""
        return self.n_lines > OPEN_LINES and not self.is_cited


@dataclass(frozen=True, slots=True)
class Asked:
    """One tool call of a reply."""

    name: str
    arguments: SafeString
    n_lines: int
    error: str = ""

    @property
    def is_long(self) -> bool:
        """Whether it is folded at first."""
        return self.n_lines > OPEN_LINES


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one tool call, and what was asked; `run` is the id of a command, `anchor` the place to link to."""

    name: str
    asked: Asked | None
    parts: Sequence[Part]
    is_error: bool = False
    run: str = ""
    ended: str = ""
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One call: the request's new parts, and the reply, None where none came."""

    call: Call
    system: Sequence[Part] = ()
    tools: Sequence[str] = ()
    chosen: Mapping[str, Json] = field(default_factory=dict)
    told: Sequence[Part] = ()
    answers: Sequence[Answer] = ()
    forced: str = ""
    reply: TurnReply | None = None
    said: SafeString | None = None
    asked: Sequence[Asked] = ()
    unreadable: str = ""

    @property
    def took(self) -> float | None:
        """Seconds from asking to the answer."""
        settled = self.call.settled_at
        return None if settled is None else max(timedelta(0), settled - self.call.reserved_at).total_seconds()


def turns(calls: Iterable[Call], *, cited: Cited | None = None) -> list[Turn]:
    """All turns in order; of a command that ran twice, the later one is the one that citations lead to."""
    found, asked = list[Turn](), dict[str, ToolCall]()
    for call in calls:
        turn = _turn(call, asked, cited)
        asked |= {item.id: item for item in turn.reply.calls} if turn.reply else {}
        found.append(turn)
    return _anchored(found)


def _turn(call: Call, asked: Mapping[str, ToolCall], cited: Cited | None) -> Turn:
    try:
        request = orjson.loads(blobs.get(call.request_blob)) if call.request_blob else {}
        reply = TurnReply.from_bytes(blobs.get(call.response_blob)) if call.response_blob else None
    except blobs.MissingBlobError:
        return Turn(call, unreadable="The body of this call is missing from the store.")
    messages = request.get("messages", [])
    return Turn(
        call,
        system=_parts(request.get("system", "")),
        tools=[tool[0] for tool in request.get("tools", [])],
        chosen=request.get("chosen", {}),
        told=[part for one in messages if one["role"] == "user" for text in one["blocks"] for part in _parts(text)],
        answers=[_answer(row, asked, cited) for one in messages if one["role"] == "tool" for row in one["results"]],
        forced=request.get("force_tool", ""),
        reply=reply,
        said=_hostile(reply.text)[0] if reply and reply.text else None,
        asked=[_asked(item) for item in reply.calls] if reply else (),
    )


def _asked(call: ToolCall) -> Asked:
    html, n_lines = _hostile(_arguments(call))
    return Asked(display_text(call.name)[:80], html, n_lines, display_text(call.error))


def _arguments(call: ToolCall) -> str:
    """What a call asks for, readable: a command as its line, plain values a line each, everything else as JSON."""
    given = call.arguments
    if given is None:
        return ""
    if call.name == "run_command" and isinstance(given.get("command"), str):
        return str(given["command"])
    if given and all(_is_plain(value) for value in given.values()):
        return "\n".join(f"{name}: {_worded(value)}" for name, value in given.items())
    return orjson.dumps(given, option=orjson.OPT_INDENT_2).decode()


def _is_plain(value: Json) -> bool:
    """Whether a value is one line as it stands: a pattern is read without the backslashes that JSON adds to its own."""
    return not isinstance(value, (dict, list)) and not (isinstance(value, str) and len(value.splitlines()) > 1)


def _worded(value: Json) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _answer(row: Sequence[Json], asked: Mapping[str, ToolCall], cited: Cited | None) -> Answer:
    call_id, name, text, is_error = row
    call = asked.get(call_id)
    run, ended = _run_of(name, text, is_error=is_error)
    lines = cited.lines if cited and run and run == cited.run else None
    question = _asked(call) if call and name == "run_command" else None
    parts = _parts(text, cited=lines, whole=bool(cited and run and run == cited.run))
    return Answer(display_text(name)[:80], question, parts, is_error, run, ended)


def _run_of(name: str, text: str, *, is_error: bool) -> tuple[str, str]:
    """Id of a command and how it ended, from the head of the frame that we put around its output."""
    head = _FRAME.match(text) if name == "run_command" and not is_error else None
    found = _RUN.match(head[2]) if head else None
    return (found[1], found[2].split("\n")[0]) if found else ("", "")


def _anchored(found: Sequence[Turn]) -> list[Turn]:
    """Each command's last answer gets the id that links lead to."""
    seen, anchored = set[str](), list[Turn]()
    for turn in reversed(found):
        answers = list[Answer]()
        for answer in reversed(turn.answers):
            is_last = bool(answer.run) and answer.run not in seen
            seen.add(answer.run)
            answers.append(replace(answer, anchor=answer.run if is_last else ""))
        anchored.append(replace(turn, answers=answers[::-1]))
    return anchored[::-1]


# --- text


def _hostile(text: str) -> tuple[SafeString, int]:
    """What a model said, as lines of the reader."""
    shown = Text(text)
    return shown.html(Span(1, len(shown))), len(shown)


def _parts(text: str, *, cited: Span | None = None, whole: bool = False) -> list[Part]:
    """Displayed text as our own words and framed material in turn; only a frame can hold what is cited."""
    return [_part(lines, title, cited, whole=whole) for title, lines in _stretches(split_lines(text)) if lines]


def _stretches(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Title and lines of each stretch; a frame ends where its gutter does, whatever its lines say."""
    title, gutter, held = "", "", list[str]()
    for line in lines:
        opened = _FRAME.fullmatch(line) if not gutter else None
        closed = gutter and not line.startswith(gutter)
        if opened or closed:
            yield title, held
            title, gutter, held = (opened[2], f"{opened[1]}│", []) if opened else ("", "", [])
        if not opened and not (closed and line.startswith("└")):
            held.append(line.removeprefix(gutter))
    yield title, held


def _part(lines: Sequence[str], title: str, cited: Span | None, *, whole: bool) -> Part:
    rows, first = list[tuple[str, str, SafeString, str]](), True
    for line in lines:
        found = _NUMBERED.fullmatch(line) if title else None
        number, body = (found[1], found[2]) if found else ("", line)
        is_cited = bool(title and number and cited and cited.first <= int(number) <= cited.last)
        anchor = SafeString(' id="cite"') if is_cited and first else SafeString("")
        first = first and not is_cited
        rows.append(("l cited" if is_cited else "l", number, anchor, _plain(body)))
    html = format_html_join("", '<div class="{}" data-n="{}"{}>{}</div>', rows)
    return Part(html, len(rows), title, whole or not first)


def _plain(line: str) -> str | SafeString:
    """A line that was displayed before: its marks stay, and what could still hide in it is shown."""
    pieces = _MARK.split(line)
    shown = "".join(piece if at % 2 else display_text(piece) for at, piece in enumerate(pieces))
    return shown.replace("\n", "⏎") or SafeString("<br>")
