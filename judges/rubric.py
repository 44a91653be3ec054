"""Drafts the requirements of a task from its instruction alone, before any attempt at it is seen.

The model gets the instruction and nothing else; every requirement rests on a quote of it, which is checked against the
very lines that were shown. What is wrong goes back to the model a few times; a list that stays wrong is no draft.
"""

import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Final

from pydantic import Field, ValidationError

from judges import prompts
from judges.artifacts import contains, normalise
from judges.budget import Budget, Limits, TokenUsage
from judges.config import JudgeConfig
from judges.conversation import Conversation
from judges.display import DISPLAY_VERSION, clip, display_lines, frame, nonce, number_lines
from judges.dossier import INSTRUCTION_CHARACTERS
from judges.errors import ConfigError, JudgmentFailed
from judges.ledger import Ledger
from judges.messages import ToolCall, ToolMessage, ToolResult, ToolSchema, TurnReply, UserMessage
from judges.providers import Provider
from judges.records import Requirement, content_digest
from judges.tools import problems
from judges.toolschemas import tools_json
from judges.verdict import Strict

Json = Any
SUBMIT_RUBRIC: Final = "submit_rubric"
LEAST: Final = 3
MOST: Final = 12
REQUIREMENT_CHARACTERS: Final = 300
DRAFT_VERSION: Final = "draft/1"
_QUOTE: Final = (8, 400)
# Two sentences, or two halves of one: each would have to be answered by itself.
_SEVERAL: Final = re.compile(r";|[.?!][)\"']?\s+\S")
_SECRET: Final = secrets.token_bytes(32)


class DraftedRequirement(Strict):
    """One requirement as a model writes it."""

    quote: str = Field(description="the words of the instruction it rests on: 8 to 400 characters, verbatim")
    requirement: str = Field(description="one atomic yes/no requirement, one sentence")
    format_binding: bool = Field(description="true where it binds a format that the instruction does not state")


class DraftedRubric(Strict):
    """The requirements of one task."""

    requirements: list[DraftedRequirement]


@dataclass(frozen=True, slots=True)
class Draft:
    """A list that passed all checks, with what it took; `cost` is in US dollars, None where the price is unknown."""

    requirements: tuple[Requirement, ...]
    turns: int
    usage: TokenUsage
    cost: Decimal | None
    provenance: Mapping[str, Json]


@cache
def _tools() -> tuple[ToolSchema, ...]:
    schema = DraftedRubric.model_json_schema()
    return (ToolSchema(SUBMIT_RUBRIC, "The requirements of the task.", schema, strict=True),)


def can_draft(config: JudgeConfig) -> bool:
    """Whether a config asks a model: rules cannot write requirements."""
    return config.provider != "rules"


def draft_digest(config: JudgeConfig) -> str:
    """Hexadecimal SHA-256 of all that is chosen for a draft: model, prompts, schema, rules, display."""
    chosen = config.model_dump(mode="json", exclude={"name", "limits", "sandbox"})
    parts = [DRAFT_VERSION, prompts.drafting_digest(), tools_json(_tools()), DISPLAY_VERSION]
    return content_digest({"schema": "assay.draft/1", "chosen": chosen, "parts": parts})


def draft(
    instruction: str,
    config: JudgeConfig,
    *,
    provider: Provider,
    ledger: Ledger,
    secret: bytes = _SECRET,
    clock: Callable[[], float] = time.monotonic,
) -> Draft:
    """Ask for the requirements of an instruction until a list passes the checks.

    Raises JudgmentFailed with the reason where none does, HandBack and JudgmentStopped as a judgment would, and
    ConfigError for a config without a model.
    """
    if not can_draft(config):
        raise ConfigError("the rules judge cannot draft requirements: choose a config with a model")
    if not instruction.strip():
        raise JudgmentFailed("input_invalid", "the instruction is empty: there is nothing to draft from")
    budget = Budget(config.limits, clock)
    system = prompts.render("rubric", least=LEAST, most=MOST, submit=SUBMIT_RUBRIC)
    talk = Conversation(provider, ledger, budget, system, config.request_settings(), _tools())
    mark = nonce(secret, content_digest(instruction))
    talk.add(UserMessage((_task_text(instruction, mark),)))
    found = _settled(talk, instruction, config.limits, mark)
    provenance = {**provider.provenance(), "draft": draft_digest(config)}
    return Draft(found, budget.turns, budget.usage, budget.cost, provenance)


def _task_text(instruction: str, mark: str) -> str:
    lines = number_lines(display_lines(instruction))
    shown = clip(lines, INSTRUCTION_CHARACTERS, "it is not shown to you")
    return prompts.render("rubric_task", instruction=frame("instruction", shown, mark), submit=SUBMIT_RUBRIC)


def _settled(talk: Conversation, instruction: str, limits: Limits, mark: str) -> tuple[Requirement, ...]:
    """Turns until a list passes; its faults go back inside a frame, as they quote the material."""
    faults = ["nothing was submitted"]
    for left in range(limits.re_asks, -1, -1):
        call, faults, drafted = _submission(talk.ask(1, force_tool=SUBMIT_RUBRIC))
        if drafted is not None:
            faults = list(_faults(drafted, instruction))
            if not faults:
                return _numbered(drafted)
        listed = frame("problems", "\n".join(f"- {fault}" for fault in faults[:40]), mark)
        told = prompts.render("rubric_again", left=left, problems=listed)
        talk.add(ToolMessage((ToolResult(call.id, call.name, told, is_error=True),)) if call else UserMessage((told,)))
    raise JudgmentFailed("invalid_output", "; ".join(faults)[:400])


def _submission(reply: TurnReply) -> tuple[ToolCall | None, list[str], DraftedRubric | None]:
    """The submitting call of a turn with what is wrong with its form, or its content."""
    if reply.stop == "refusal":
        raise JudgmentFailed("refused", reply.detail)
    if reply.stop == "context_exceeded":
        raise JudgmentFailed("context_exceeded", reply.detail)
    if reply.stop == "max_tokens":
        raise JudgmentFailed("truncated", "the output limit was reached: raise max_output_tokens")
    call = reply.calls[0] if reply.calls else None
    if len(reply.calls) > 1:
        raise JudgmentFailed("invalid_output", f"{len(reply.calls)} calls in one turn, where one was asked for")
    if call is None or call.name != SUBMIT_RUBRIC:
        return call, [f"call {SUBMIT_RUBRIC} with the list"], None
    if call.arguments is None:
        return call, [call.error], None
    try:
        return call, [], DraftedRubric.model_validate(call.arguments)
    except ValidationError as error:
        return call, [f"invalid: {problems(error)}"], None


def _faults(drafted: DraftedRubric, instruction: str) -> Iterator[str]:
    """What is wrong with a list: its length, each item, items that say the same."""
    rows = drafted.requirements
    if not LEAST <= len(rows) <= MOST:
        yield f"{len(rows)} requirements: write {LEAST} to {MOST}"
    shown = normalise("\n".join(display_lines(instruction)))
    for number, row in enumerate(rows, 1):
        yield from (f"requirement {number}: {fault}" for fault in _item_faults(row, shown))
    yield from repeated([row.requirement for row in rows])


def _item_faults(row: DraftedRequirement, shown: str) -> Iterator[str]:
    yield from text_faults(row.requirement)
    if _SEVERAL.search(row.requirement.strip()):
        yield "it is more than one sentence: split it, each must be true or false by itself"
    quote, (least, most) = normalise(row.quote), _QUOTE
    if not least <= len(row.quote) <= most and quote != shown:
        yield f"the quote must have {least} to {most} characters"
    elif not contains(shown, quote):
        yield "the quote is not in the instruction as displayed: copy it character for character"


def text_faults(text: str, *, most: int = REQUIREMENT_CHARACTERS) -> Iterator[str]:
    """What is wrong with the text of a requirement, whoever wrote it; `most` is its length in characters."""
    if not text.strip():
        yield "it is empty"
    if len(text) > most:
        yield f"it has {len(text)} characters: at most {most}"
    if "\n" in text.strip():
        yield "it must be one line"


def repeated(texts: Sequence[str]) -> Iterator[str]:
    """Texts that occur more than once, as a judge would answer the same thing twice."""
    for text, times in Counter(normalise(text).casefold() for text in texts).items():
        if text and times > 1:
            yield f"{times} requirements say the same: {text[:80]}"


def _numbered(drafted: DraftedRubric) -> tuple[Requirement, ...]:
    rows = [(" ".join(row.requirement.split()), row.format_binding) for row in drafted.requirements]
    return tuple(Requirement(f"R{number}", text, binding) for number, (text, binding) in enumerate(rows, 1))
