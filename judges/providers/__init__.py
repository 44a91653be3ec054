"""The seam between the loop and whoever answers.

A provider is stateless: all it may use is in the request, so a judgment resumes by replaying stored replies.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Protocol

from judges.config import JudgeConfig
from judges.errors import ConfigError
from judges.messages import TurnReply, TurnRequest
from judges.providers.rules import RulesProvider
from judges.providers.scripted import ScriptedProvider

Json = Any


class Provider(Protocol):
    """Whoever answers. It raises JudgmentFailed for what ends a judgment and HandBack for a long wait."""

    def complete(self, request: TurnRequest) -> TurnReply:
        """One turn; retries of transport errors happen inside."""
        ...

    def worst_cost(self, request: TurnRequest) -> Decimal | None:
        """The most this call can cost in US dollars; None where the price is unknown."""
        ...

    def provenance(self) -> Mapping[str, Json]:
        """What is learnt rather than chosen: versions of libraries, prices, fallbacks."""
        ...


def open_provider(config: JudgeConfig) -> Provider:
    """The provider a config names; ConfigError where this build has none of that name."""
    if config.provider == "rules":
        return RulesProvider()
    if config.provider == "scripted":
        return ScriptedProvider.from_file(config.script)
    raise ConfigError(f"provider {config.provider!r} is not available here; available: rules, scripted")
