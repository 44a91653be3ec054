"""The seam between the loop and whoever answers.

A provider is stateless: all it may use is in the request, so a judgment resumes by replaying stored replies.
"""

import os
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Protocol

from judges.config import JudgeConfig
from judges.limiter import Limiter
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


def open_provider(
    config: JudgeConfig, *, environ: Mapping[str, str] | None = None, limiter: Limiter | None = None
) -> Provider:
    """The provider a config names, for one judgment; ConfigError where the environment lacks its key or its host.

    `limiter` keeps the rate limits of the config among all who share it; without one, this process keeps them alone.
    """
    if config.provider == "rules":
        return RulesProvider()
    if config.provider == "scripted":
        return ScriptedProvider.from_file(config.script)
    from judges.providers.model import open_model  # noqa: PLC0415  its libraries take a second to import

    return open_model(config, os.environ if environ is None else environ, limiter=limiter)
