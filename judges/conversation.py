"""The conversation with a provider: what was said so far, each call reserved and settled, stored replies replayed."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Literal

from judges.budget import NO_TOKENS, Budget
from judges.errors import CallError
from judges.ledger import Ledger, Phase
from judges.messages import (
    AssistantMessage,
    Message,
    ToolMessage,
    ToolSchema,
    TurnReply,
    TurnRequest,
    UserMessage,
)
from judges.providers import Provider
from judges.records import canonical_json
from judges.toolschemas import tool_schemas, tools_json

Json = Any
_CHARACTERS_PER_TOKEN: Final = 4
Role = Literal["user", "assistant", "tool"]


@dataclass(slots=True)
class Conversation:
    """Messages only ever get added. `chosen` are the request settings of the config, part of the first document.

    A stored reply is used where the digest of its request, chained over all before it, is the one made now: a resumed
    judgment then goes on as if it had never stopped, and one that differs asks again.
    """

    provider: Provider
    ledger: Ledger
    budget: Budget
    system: str
    chosen: Mapping[str, Json]
    tools: tuple[ToolSchema, ...] = field(default_factory=tool_schemas)
    messages: list[Message] = field(default_factory=list)
    previous: str = ""
    sent: int = 0
    context: int = 0
    _stored: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.context = (len(self.system) + len(canonical_json(tools_json(self.tools)))) // _CHARACTERS_PER_TOKEN
        for turn in self.ledger.stored_turns():
            if turn.response is not None:
                self._stored[turn.request_sha256] = turn.response
                spent = TurnReply.from_bytes(turn.response)
                self.budget.charge(spent.usage, spent.cost, worst=turn.worst)

    def ask(self, phase: Phase, *, force_tool: str = "") -> TurnReply:
        """One turn; the reply is appended unless it is empty. Raises what ends a judgment."""
        self.ledger.heartbeat()
        request = TurnRequest(self.system, self.tools, tuple(self.messages), force_tool)
        document = self._document(force_tool)
        digest = hashlib.sha256(document).hexdigest()
        stored = self._stored.get(digest)
        reply = self._call(phase, request, document) if stored is None else TurnReply.from_bytes(stored)
        self.previous, self.sent = digest, len(self.messages)
        self.budget.turns += 1
        if reply.text or reply.calls:
            self.add(AssistantMessage(reply.text, reply.calls, reply.native))
        self.context = max(self.context, reply.usage.input + reply.usage.output)
        return reply

    def add(self, message: Message) -> None:
        """Append a message and count it towards the context."""
        self.messages.append(message)
        self.context += _characters(message) // _CHARACTERS_PER_TOKEN

    def _call(self, phase: Phase, request: TurnRequest, document: bytes) -> TurnReply:
        worst = self.provider.worst_cost(request)
        self.budget.check(worst)
        call_id = self.ledger.reserve(self.budget.turns + 1, phase, document, worst)
        try:
            reply = TurnReply.from_bytes(self.provider.complete(request).to_bytes())
        except Exception as error:
            self._unanswered(call_id, error, worst)
            raise
        self.budget.charge(reply.usage, reply.cost, worst=worst)
        self.ledger.settle(
            call_id, reply.to_bytes(), usage=reply.usage, cost=reply.cost, request_id=reply.request_id, error=""
        )
        return reply

    def _unanswered(self, call_id: str, error: Exception, worst: Decimal | None) -> None:
        """Settle a call that gave nothing: at what it cost, nothing included, or as unknown where it may be billed."""
        told = error if isinstance(error, CallError) else CallError()
        usage = told.usage or NO_TOKENS
        self.budget.charge(usage, told.cost, worst=worst)
        self.ledger.settle(
            call_id, None, usage=usage, cost=told.cost, request_id=told.request_id, error=str(error)[:500]
        )

    def _document(self, force_tool: str) -> bytes:
        """What is new in this request; the chain of documents is the whole exchange, each byte stored once."""
        first = (
            {}
            if self.previous
            else {"system": self.system, "tools": tools_json(self.tools), "chosen": dict(self.chosen)}
        )
        new = [message_json(message) for message in self.messages[self.sent :]]
        body = {"schema": "assay.request/1", "previous": self.previous, "messages": new, "force_tool": force_tool}
        return canonical_json({**body, **first})


def message_json(message: Message) -> Json:
    """The stored form of a message."""
    if isinstance(message, UserMessage):
        return {"role": "user", "blocks": list(message.blocks)}
    if isinstance(message, AssistantMessage):
        calls = [[call.id, call.name, call.arguments, call.error] for call in message.calls]
        return {"role": "assistant", "text": message.text, "calls": calls, "native": message.native}
    return {"role": "tool", "results": [[r.call_id, r.name, r.text, r.is_error] for r in message.results]}


def _characters(message: Message) -> int:
    if isinstance(message, UserMessage):
        return sum(map(len, message.blocks))
    if isinstance(message, ToolMessage):
        return sum(len(result.text) for result in message.results)
    return len(message.text) + sum(len(str(call.arguments)) for call in message.calls)
