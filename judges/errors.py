"""What can go wrong around a judgment. The loop turns the first kind into a failed judgment; the others travel."""

from typing import Literal

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
    """A judge config that cannot be used."""


class JudgmentFailed(JudgeError):
    """Ends one judgment without a decision; `reason` is stored, `detail` is for people, `request_id` the provider's."""

    def __init__(self, reason: FailureReason, detail: str = "", request_id: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason: FailureReason = reason
        self.detail = detail
        self.request_id = request_id


class JudgmentStopped(JudgeError):
    """Raised by a ledger when the judgment was cancelled or paused, or the lease was lost: write nothing more."""


class HandBack(JudgeError):
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
