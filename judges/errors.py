"""What can go wrong around a judgment. The loop turns the first kind into a failed judgment; the others travel."""

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from judges.budget import TokenUsage

FailureReason = Literal[
    "refused",
    "budget_turns",
    "budget_tokens",
    "budget_usd",
    "budget_wall",
    "truncated",
    "invalid_output",
    "context_exceeded",
    "context_truncated_by_server",
    "provider_outage",
    "provider_quota",
    "provider_config",
    "provider_rate_limited",
    "invalid_response",
    "sandbox",
    "input_invalid",
]


class JudgeError(Exception):
    """Base of all errors of this package; the message says what is wrong and what to do."""


class ConfigError(JudgeError):
    """A judge config that cannot be used; `problems` lists all that is wrong, one by one."""

    def __init__(self, message: str, problems: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems) or (message,)


class CallError(JudgeError):
    """Ends a call without an answer. `cost` is what its attempts were billed in US dollars, None where nobody knows."""

    request_id: str = ""
    usage: "TokenUsage | None" = None
    cost: Decimal | None = None


class JudgmentFailed(CallError):
    """Ends one judgment without a decision; `reason` is stored, `detail` is for people, `request_id` the provider's."""

    def __init__(self, reason: FailureReason, detail: str = "", request_id: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason: FailureReason = reason
        self.detail = detail
        self.request_id = request_id


class JudgmentStopped(JudgeError):
    """Raised by a ledger when the judgment was cancelled or paused, or the lease was lost: write nothing more."""


class HandBack(CallError):
    """The provider asks to wait longer than a worker may sleep: resume by replay after `seconds`."""

    def __init__(self, seconds: float, detail: str = "", *, request_id: str = "") -> None:
        super().__init__(f"resume in {seconds:.0f} s {detail}".strip())
        self.seconds = seconds
        self.request_id = request_id


class LockConflict(JudgeError):
    """A ledger already holds another locked verdict of this judgment; `stored` is it, and it stands."""

    def __init__(self, stored: bytes) -> None:
        super().__init__("a verdict was locked before; the first one stands")
        self.stored = stored
