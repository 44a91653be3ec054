"""What can go wrong at a provider, as our own reasons. Every answer that is no usable turn becomes one Fault."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Literal

from judges.budget import NO_TOKENS, TokenUsage

Json = Any
Headers = Mapping[str, str]
FaultReason = Literal[
    "refused",
    "context_exceeded",
    "context_truncated_by_server",
    "provider_quota",
    "provider_config",
    "provider_outage",
    "provider_rate_limited",
    "invalid_response",
]
# Something of the request that a server cannot do and a judge can do without; asked again at once, and recorded.
Concession = Literal["strict", "forced_tool", "encrypted_reasoning"]
RETRIED: Final = frozenset({"provider_outage", "provider_rate_limited", "invalid_response"})
DETAIL_CHARACTERS: Final = 600

_CONTEXT: Final = re.compile(
    r"prompt is too long|context[_ ]length|maximum context|context window|exceed_context_size"
    r"|exceeds the available context|input is too long|too many (?:input )?tokens|request_too_large",
    re.I,
)
_QUOTA: Final = re.compile(
    r"insufficient_quota|billing_(?:error|hard_limit|not_active)|spend_limit|credit balance"
    r"|exceeded your current quota|payment_required",
    re.I,
)
_REFUSED: Final = re.compile(r"content_filter|content_policy|misalignment_policy|bio_policy|cyber_policy", re.I)
_STRICT: Final = re.compile(
    r"compiled grammar is too large|schema is too complex|too many strict tools|too many optional"
    r"|\bstrict\b|invalid schema for function|response_format|structured outputs?",
    re.I,
)
_MEANING: Final = {
    401: "the key was refused: ",
    403: "the key may not do this: ",
    404: "no such model or address: ",
    529: "the provider is overloaded: ",
}
_ENCRYPTED: Final = re.compile(r"encrypted[ _]content", re.I)
_SERVER: Final = ("overloaded_error", "api_error", "timeout_error", "server_error")
_FORCED: Final = re.compile(r"tool_choice", re.I)


class Fault(Exception):
    """One attempt that gave no usable turn. `retry_after` is in seconds; `usage` is what the server says it counted.

    `is_free` where it certainly costs nothing: an error status, or nothing was sent.
    """

    def __init__(
        self,
        reason: FaultReason,
        detail: str,
        *,
        request_id: str = "",
        retry_after: float | None = None,
        concession: Concession | None = None,
        usage: TokenUsage = NO_TOKENS,
        is_free: bool = False,
    ) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason: FaultReason = reason
        self.detail = detail[:DETAIL_CHARACTERS]
        self.request_id = request_id
        self.retry_after = retry_after
        self.concession: Concession | None = concession
        self.usage = usage
        self.is_free = is_free

    @property
    def is_retried(self) -> bool:
        """Whether the same request may fare better later."""
        return self.reason in RETRIED


def from_response(status: int, body: Json, headers: Headers) -> Fault:
    """The fault that an HTTP status and an error body stand for; `body` is parsed JSON or text."""
    message, kind, code = _fields(body)
    named = " ".join(dict.fromkeys(filter(None, (kind, code))))
    detail = f"{_MEANING.get(status, '')}HTTP {status} {named}: {message}"
    reason = _reason(status, f"{message} {kind} {code}", kind, code)
    return Fault(
        reason,
        detail,
        request_id=request_id(headers),
        retry_after=retry_after(headers) if reason in RETRIED else None,
        concession=_concession(status, message) if reason == "provider_config" else None,
        is_free=status >= 300,
    )


def _reason(status: int, text: str, kind: str, code: str) -> FaultReason:
    """Order matters: quota arrives as 429, an exhausted balance and a too long prompt both as 400."""
    if status == 402 or (status in (400, 403, 429) and _QUOTA.search(f"{text}")):
        return "provider_quota"
    if status == 413 or (status in (400, 422, 500) and _CONTEXT.search(text)):
        return "context_exceeded"
    if status == 429 or "rate_limit" in f"{kind} {code}":
        return "provider_rate_limited"
    if status in (400, 403) and _REFUSED.search(f"{kind} {code}"):
        return "refused"
    if status >= 500 or status in (408, 409, 425) or (status == 200 and kind in _SERVER):
        return "provider_outage"
    return "provider_config" if 300 <= status < 500 else "invalid_response"


def _concession(status: int, message: str) -> Concession | None:
    if status not in (400, 422):
        return None
    if _FORCED.search(message):
        return "forced_tool"
    if _ENCRYPTED.search(message):
        return "encrypted_reasoning"
    return "strict" if _STRICT.search(message) else None


def _fields(body: Json) -> tuple[str, str, str]:
    """Message, type and code of an error body in any of the three shapes; what is no JSON is its own message."""
    if not isinstance(body, Mapping):
        return _plain(body), "", ""
    error = body.get("error", body)
    if not isinstance(error, Mapping):
        return _plain(error), "", ""
    details = error.get("details")
    code = error.get("code") or (details.get("error_code") if isinstance(details, Mapping) else None)
    return _plain(error.get("message")), _plain(error.get("type")), _plain(code)


def _plain(value: Json) -> str:
    """Hostile text on one line, without what steers a terminal."""
    text = "" if value is None else str(value)[: DETAIL_CHARACTERS * 2]
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:DETAIL_CHARACTERS]


def request_id(headers: Headers) -> str:
    """The provider's own id of a request, under either vendor's name for it."""
    return _plain(headers.get("request-id") or headers.get("x-request-id"))[:200]


def retry_after(headers: Headers, *, now: datetime | None = None) -> float | None:
    """Seconds that a server asks to wait, given as milliseconds, seconds or a date; None where it does not say."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        given = headers.get(name, "")
        try:
            seconds = float(given) / unit
        except ValueError:
            continue
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, (date - (now or datetime.now(UTC))).total_seconds())
    except (ValueError, TypeError):
        return None
