"""Opens providers of each wire format on the loopback server, with time that does not pass and chance that is fixed."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from judges.agent import judge
from judges.budget import Limits
from judges.config import JudgeConfig
from judges.ledger import MemoryLedger
from judges.limiter import LocalLimiter
from judges.messages import TurnReply, TurnRequest, UserMessage
from judges.providers.model import ModelProvider, open_model
from judges.records import Case
from judges.sandbox import NoSandbox
from judges.toolschemas import tool_schemas
from judges.verdict import JudgmentResult
from tests.fakes.server import Session
from tests.judges.cases import make_case, make_revealed

PROVIDERS = ("anthropic", "openai", "openai_chat")


@dataclass
class Naps:
    """Sleeping that is only written down."""

    taken: list[float] = field(default_factory=list)

    def __call__(self, seconds: float) -> None:
        self.taken.append(seconds)


def make_config(provider: str, session: Session, **changes: Any) -> JudgeConfig:
    limits = Limits(**changes.pop("limits", {}))
    values = {"name": "t", "model": "fake-judge", "sandbox": "none", "base_url": session.url(provider), **changes}
    return JudgeConfig(provider=provider, limits=limits, **values)  # type: ignore[arg-type]


def opened(
    provider: str, session: Session, *, naps: Naps | None = None, environ: dict[str, str] | None = None, **changes: Any
) -> ModelProvider:
    """A provider that talks to a session; it sleeps for nothing."""
    model = open_model(make_config(provider, session, **changes), environ or {})
    slept = naps or Naps()
    model.retrier.sleep = slept
    model.gate.sleep = slept
    model.gate.limiter = LocalLimiter(clock=lambda: sum(slept.taken))
    model.retrier.rng = random.Random(1)
    return model


def question(*messages: Any, force_tool: str = "", system: str = "You are an auditor.") -> TurnRequest:
    return TurnRequest(system, tool_schemas(), messages or (UserMessage(("the task", "the attempt")),), force_tool)


def ask(provider: str, session: Session, **changes: Any) -> TurnReply:
    return opened(provider, session, **changes).complete(question())


@dataclass
class Judged:
    """A judgment through a wire, with all that was sent and stored."""

    result: JudgmentResult
    ledger: MemoryLedger
    session: Session
    model: ModelProvider


def judged(
    provider: str, session: Session, *, case: Case | None = None, ledger: MemoryLedger | None = None, **changes: Any
) -> Judged:
    environ = changes.pop("environ", None)
    model = opened(provider, session, environ=environ, **changes)
    memory = ledger or MemoryLedger(make_revealed())
    config = make_config(provider, session, **changes)
    result = judge(case or make_case(), config, provider=model, sandbox=NoSandbox(), ledger=memory, secret=b"test")
    return Judged(result, memory, session, model)


def routes(session: Session) -> Sequence[str]:
    return [seen.route for seen in session.seen]
