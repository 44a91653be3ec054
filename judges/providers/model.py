"""A model behind a wire format as a provider: retries, concessions to a server, cost, and what was learnt."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from importlib.metadata import version
from typing import Any, Final

from judges.budget import NO_TOKENS, TokenUsage
from judges.config import JudgeConfig
from judges.endpoints import Endpoint, endpoint
from judges.errors import JudgmentFailed
from judges.messages import AssistantMessage, TurnReply, TurnRequest
from judges.pricing import Price, find_price
from judges.providers.faults import Concession, Fault
from judges.providers.retry import Retrier
from judges.providers.wire import Answer, Reading, Wire, input_bound

Json = Any
_LIBRARY: Final = {"anthropic": "anthropic", "openai": "openai", "openai_chat": "openai"}


def open_model(config: JudgeConfig, environ: Mapping[str, str]) -> "ModelProvider":
    """The model that a config names, reached as the environment allows; ConfigError where it does not."""
    place = endpoint(config.url, environ)
    retrier = Retrier(time.monotonic() + config.limits.wall_seconds)
    price = find_price(url=place.url, host=place.host, model=config.model, environ=environ)
    wire = open_wire(config, place)
    return ModelProvider(wire, price, retrier, config.max_output_tokens, config.timeout_s, place.origin)


def open_wire(config: JudgeConfig, place: Endpoint) -> Wire:
    """The wire format of a config; each library is imported only where it is used."""
    settings = (place, config.model, config.effort, config.max_output_tokens)
    if config.provider == "anthropic":
        from judges.providers.anthropic import AnthropicWire  # noqa: PLC0415

        return AnthropicWire(*settings)
    if config.provider == "openai":
        from judges.providers.openai_responses import ResponsesWire  # noqa: PLC0415

        return ResponsesWire(*settings)
    from judges.providers.openai_chat import ChatWire  # noqa: PLC0415

    return ChatWire(*settings)


@dataclass(slots=True)
class ModelProvider:
    """Implements `judges.providers.Provider`. One object a judgment: it counts retries and remembers concessions."""

    wire: Wire
    price: Price | None
    retrier: Retrier
    max_output_tokens: int
    timeout_s: float
    origin: str
    without: frozenset[Concession] = frozenset()
    models: set[str] = field(default_factory=set)
    guessed_usage: bool = False
    _wasted: TokenUsage = NO_TOKENS

    def complete(self, request: TurnRequest) -> TurnReply:
        """One turn. What failed attempts are known to have used is part of its usage and cost."""
        self._wasted = NO_TOKENS
        reading = self.retrier.run(lambda: self._attempt(request))
        reply, usage = reading.reply, reading.reply.usage + self._wasted
        if reply.model:
            self.models.add(reply.model)
        self.guessed_usage |= not reading.counted
        return replace(reply, usage=usage, cost=self._cost(usage, reading))

    def worst_cost(self, request: TurnRequest) -> Decimal | None:
        """All input fresh or written to the cache, and all the output there may be."""
        if self.price is None:
            return None
        first = not any(isinstance(message, AssistantMessage) for message in request.messages)
        long_writes = first and self.wire.name == "anthropic"
        return self.price.worst(input_bound(request), self.max_output_tokens, long_writes=long_writes)

    def provenance(self) -> Mapping[str, Json]:
        """What was learnt: who answered, with which library, at which price, and what had to be done without."""
        library = _LIBRARY[self.wire.name]
        return {
            "provider": self.wire.name,
            "origin": self.origin,
            "models": sorted(self.models),
            "library": f"{library} {version(library)}",
            "price": None if self.price is None else self.price.provenance(),
            "without": sorted(self.without),
            "faults": dict(self.retrier.seen),
            "usage_guessed": self.guessed_usage,
        }

    def _attempt(self, request: TurnRequest) -> Reading:
        try:
            return self.wire.read(self._answer(request), request)
        except Fault as fault:
            self._wasted += fault.usage
            raise

    def _answer(self, request: TurnRequest) -> Answer:
        """Ask; where the server cannot do a thing that a judge can do without, ask again at once without it."""
        while True:
            left = self.retrier.left_s
            if left <= 0:
                raise JudgmentFailed("budget_wall", "no time is left for another call")
            try:
                return self.wire.send(self.wire.body(request, self.without), min(self.timeout_s, left))
            except Fault as fault:
                given_up = fault.concession
                pointless = given_up in self.without or (given_up == "forced_tool" and not request.force_tool)
                if given_up is None or pointless:
                    raise
                self.without |= {given_up}

    def _cost(self, usage: TokenUsage, reading: Reading) -> Decimal | None:
        """Unknown where the price is, and where nobody counted tokens that cost something."""
        if self.price is None:
            return None
        cost = self.price.cost(usage, long_writes=reading.long_writes)
        return cost if reading.counted or not cost else None
