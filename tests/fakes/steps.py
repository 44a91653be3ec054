"""What the loopback provider is told to do, request by request, in words that all three wire formats share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Json = Any
Stop = Literal["end_turn", "tool_use", "max_tokens", "refusal", "context", "none"]


@dataclass(frozen=True)
class Step:
    """One answer. `calls` hold arguments as an object, or as text that may be no JSON."""

    text: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    stop: Stop = "end_turn"
    refusal: str = ""
    category: str = "cyber"
    status: int = 200
    error_type: str = ""
    error_code: str = ""
    message: str = "error"
    headers: dict[str, str] = field(default_factory=dict)
    body: Json = None
    disconnect: bool = False
    hang_s: float = 0.0
    usage: bool = True
    prompt_tokens: int | None = None
    call_id: str = ""


Answers = Step | Callable[[Json], Step]


def say(text: str, **more: Any) -> Step:
    return Step(text=text, **more)


def call(*calls: tuple[str, Any], **more: Any) -> Step:
    return Step(calls=calls, stop="tool_use", **more)


def refuse(why: str) -> Step:
    return Step(stop="refusal", refusal=why)


def cut_off(*calls: tuple[str, Any], text: str = "") -> Step:
    return Step(text=text, calls=calls, stop="max_tokens")


def error(status: int, message: str = "error", **more: Any) -> Step:
    return Step(status=status, message=message, **more)


def rate_limited(seconds: float | str | None = None) -> Step:
    headers = {} if seconds is None else {"retry-after": str(seconds)}
    return Step(status=429, message="slow down", headers=headers)


def quota() -> Step:
    return Step(
        status=429,
        error_type="insufficient_quota",
        error_code="insufficient_quota",
        message="You exceeded your current quota, please check your plan and billing details.",
    )


def context_too_long(got: int = 212_345, limit: int = 200_000) -> Step:
    return Step(status=400, error_type="context", message=f"{got}:{limit}")


def page(status: int = 502) -> Step:
    return Step(status=status, body="<html><body>Bad Gateway</body></html>")


def disconnect() -> Step:
    return Step(disconnect=True)


def hang(seconds: float) -> Step:
    return Step(text="late", hang_s=seconds)
