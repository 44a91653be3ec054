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
from judges.errors import CallError, JudgmentFailed
from judges.limiter import Lease, Limiter, LocalLimiter
from judges.messages import AssistantMessage, TurnReply, TurnRequest
from judges.pricing import Price, find_price
from judges.providers.faults import Concession, Fault
from judges.providers.gate import Gate
from judges.providers.retry import Retrier
from judges.providers.wire import Reading, Wire, counted_tokens, input_bound

Json = Any
# What a call is taken to write before its length is known; what it wrote more is owed by the calls after it.
LEAST_OUTPUT: Final = 1_000
_this_process: Final = LocalLimiter()
_LIBRARY: Final = {"anthropic": "anthropic", "openai": "openai", "openai_chat": "openai"}


def open_model(config: JudgeConfig, environ: Mapping[str, str], *, limiter: Limiter | None = None) -> "ModelProvider":
    """The model that a config names, reached as the environment allows; ConfigError where it does not.

    Without a `limiter` that other processes share, the rate limits hold for this process.
    """
    place = endpoint(config.url, environ)
    retrier = Retrier(time.monotonic() + config.limits.wall_seconds)
    price = find_price(url=place.url, host=place.host, model=config.model, environ=environ)
    wire = open_wire(config, place)
    account = f"{place.url} {config.model}"
    gate = Gate(limiter or _this_process, account, config.rate)
    return ModelProvider(wire, price, retrier, gate, config.max_output_tokens, config.timeout_s, place.origin)


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
    gate: Gate
    max_output_tokens: int
    timeout_s: float
    origin: str
    without: frozenset[Concession] = frozenset()
    models: set[str] = field(default_factory=set)
    guessed_usage: bool = False
    longest_output: int = 0
    maybe_billed: int = 0
    _wasted: TokenUsage = NO_TOKENS
    _certain: bool = True

    def complete(self, request: TurnRequest) -> TurnReply:
        """One turn. Its cost holds what failed attempts are known to have used; its usage is its own."""
        self._wasted, self._certain = NO_TOKENS, True
        try:
            reading = self.retrier.run(lambda: self._attempt(request))
        except CallError as error:
            error.usage, error.cost = self._wasted, self._bill()
            raise
        if reading.reply.model:
            self.models.add(reading.reply.model)
        self.guessed_usage |= not reading.counted
        return replace(reading.reply, cost=self._cost(reading))

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
            "attempts_maybe_billed": self.maybe_billed,
            "usage_guessed": self.guessed_usage,
        }

    def _attempt(self, request: TurnRequest) -> Reading:
        """Ask; where the server cannot do a thing that a judge can do without, ask again at once without it."""
        while True:
            try:
                return self._exchange(request)
            except Fault as fault:
                given_up = fault.concession
                pointless = given_up in self.without or (given_up == "forced_tool" and not request.force_tool)
                if given_up is None or pointless:
                    raise
                self.without |= {given_up}

    def _exchange(self, request: TurnRequest) -> Reading:
        """One request and its answer, when its turn has come."""
        if self.retrier.left_s <= 0:
            raise JudgmentFailed("budget_wall", "no time is left for another call")
        lease, counted = self._enter(request), NO_TOKENS
        try:
            answer = self.wire.send(self.wire.body(request, self.without), min(self.timeout_s, self.retrier.left_s))
            reading = self.wire.read(answer, request)
            counted = reading.reply.usage
        except Fault as fault:
            counted = fault.usage
            self._count(fault)
            raise
        finally:
            self.longest_output = max(self.longest_output, counted.output)
            self.gate.leave(lease, counted, cached_are_free=self._cached_are_free)
        return reading

    def _enter(self, request: TurnRequest) -> Lease:
        read = [counted_tokens(item) for item in request.messages if isinstance(item, AssistantMessage)]
        return self.gate.enter(
            input_tokens=input_bound(request) - (max(read, default=0) if self._cached_are_free else 0),
            output_tokens=min(self.max_output_tokens, max(LEAST_OUTPUT, 2 * self.longest_output)),
            lease_s=self.timeout_s,
            left_s=self.retrier.left_s,
        )

    @property
    def _cached_are_free(self) -> bool:
        """Whether input read from the cache counts towards the rate limit of input tokens."""
        return self.wire.name == "anthropic"

    def _count(self, fault: Fault) -> None:
        self.gate.hear(fault)
        self._wasted += fault.usage
        if not fault.is_free and fault.usage == NO_TOKENS:
            self._certain = False
            self.maybe_billed += 1

    def _bill(self) -> Decimal | None:
        """What the attempts of a call without an answer cost: nothing, their tokens, or nobody knows."""
        if not self._certain:
            return None
        if self._wasted == NO_TOKENS:
            return Decimal(0)
        return None if self.price is None else self.price.cost(self._wasted)

    def _cost(self, reading: Reading) -> Decimal | None:
        """Unknown where the price is, and where nobody counted tokens that cost something."""
        if self.price is None:
            return None
        cost = self.price.cost(reading.reply.usage, long_writes=reading.long_writes) + self.price.cost(self._wasted)
        return cost if reading.counted or not cost else None
