"""Rate limits of a provider account, kept by all workers together, and a pause that stops them all.

An account is a host and a model. A call takes a request, its input and its output tokens and a place in flight, all or
nothing; buckets fill at the rate per minute. What a call did not use is given back when it is settled. A place is a
lease: that of a killed worker ends by itself, with nothing given back, as the provider may have counted it.
"""

import hashlib
import heapq
import math
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pydantic import BaseModel, ConfigDict, Field

LONGEST_PAUSE_S: Final = 3_600.0
# A burst may take so many seconds' worth at once: vendors refill continuously, and requests in short windows.
BURST_S: Final = {"requests": 10.0, "input": 30.0, "output": 30.0}
IN_FLIGHT_WAIT_S: Final = 0.05
Amounts = tuple[int, int, int]


class RateLimits(BaseModel):
    """What one account may ask for; None is no limit of ours. No label depends on it, so it is in no digest."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests_per_minute: int | None = Field(default=None, ge=1, le=10_000_000_000)
    input_tokens_per_minute: int | None = Field(default=None, ge=1, le=10_000_000_000)
    output_tokens_per_minute: int | None = Field(default=None, ge=1, le=10_000_000_000)
    in_flight: int | None = Field(default=None, ge=1, le=10_000_000_000)

    def buckets(self) -> tuple[tuple[float, float], ...]:
        """Capacity and refill a second of requests, input and output; 0 and 0 where there is no limit."""
        per_minute = (self.requests_per_minute, self.input_tokens_per_minute, self.output_tokens_per_minute)
        return tuple(_bucket(rate, burst) for rate, burst in zip(per_minute, BURST_S.values(), strict=True))


def _bucket(per_minute: int | None, burst_s: float) -> tuple[float, float]:
    return (0.0, 0.0) if per_minute is None else (max(1.0, per_minute * burst_s / 60), per_minute / 60)


@dataclass(frozen=True, slots=True)
class Lease:
    """A call that may be made now. `asked` are the requests, input tokens and output tokens taken for it."""

    account: str
    limits: RateLimits
    token: str
    asked: Amounts


@dataclass(frozen=True, slots=True)
class Wait:
    """A call that may not be made yet: try again after so many seconds; `why` names what there is too little of."""

    seconds: float
    why: str


class Limiter(Protocol):
    """The shared state of all accounts. Every method is one step that no other worker can come between."""

    def take(
        self, account: str, limits: RateLimits, *, input_tokens: int, output_tokens: int, lease_s: float
    ) -> Lease | Wait:
        """All that a call needs, for `lease_s` seconds, or how long to wait with nothing taken."""
        ...

    def settle(self, lease: Lease, *, input_tokens: int, output_tokens: int) -> bool:
        """Give back what was not used; False, with nothing changed, where the lease ended or was settled before."""
        ...

    def pause(self, account: str, seconds: float) -> None:
        """Let nobody take anything for so long; a pause is never made shorter."""
        ...


# --- in one process


@dataclass(slots=True)
class _Account:
    """Levels of the three buckets at a time, the ends of all leases, and until when all of it is paused."""

    levels: list[float | None] = field(default_factory=lambda: [None, None, None])
    at: float = -math.inf
    leases: dict[str, float] = field(default_factory=dict)
    ends: list[tuple[float, str]] = field(default_factory=list)
    paused_until: float = -math.inf

    def refill(self, buckets: Sequence[tuple[float, float]], now: float) -> list[float]:
        """The levels at `now`, as the limits named last would have them; leases that ended are forgotten."""
        passed, self.at = max(0.0, now - self.at), max(self.at, now)
        while self.ends and self.ends[0][0] <= now:
            self.leases.pop(heapq.heappop(self.ends)[1], None)
        known = zip(self.levels, buckets, strict=True)
        return [cap if level is None else min(cap, level + passed * rate) for level, (cap, rate) in known]


class LocalLimiter:
    """Implements Limiter for the threads of one process. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._mutex = threading.Lock()
        self._accounts: dict[str, _Account] = {}

    def take(
        self, account: str, limits: RateLimits, *, input_tokens: int, output_tokens: int, lease_s: float
    ) -> Lease | Wait:
        """See Limiter."""
        asked, buckets = (1, input_tokens, output_tokens), limits.buckets()
        with self._mutex:
            now, state = self._clock(), self._accounts.setdefault(account, _Account())
            levels = state.refill(buckets, now)
            wait = _refusal(state, limits, levels, asked, now)
            state.levels = [*levels]
            if wait is not None:
                return wait
            lease = Lease(account, limits, uuid.uuid4().hex, asked)
            state.levels = [
                level - min(want, cap) for level, want, (cap, _) in zip(levels, asked, buckets, strict=True)
            ]
            state.leases[lease.token] = now + lease_s
            heapq.heappush(state.ends, (now + lease_s, lease.token))
        return lease

    def settle(self, lease: Lease, *, input_tokens: int, output_tokens: int) -> bool:
        """See Limiter."""
        buckets = lease.limits.buckets()
        with self._mutex:
            state = self._accounts.setdefault(lease.account, _Account())
            levels = state.refill(buckets, self._clock())
            if state.leases.pop(lease.token, None) is None:
                return False
            used = (1, input_tokens, output_tokens)
            rows = zip(levels, lease.asked, used, buckets, strict=True)
            state.levels = [
                min(cap, level + min(asked, cap) - spent) if cap else 0.0 for level, asked, spent, (cap, _) in rows
            ]
        return True

    def pause(self, account: str, seconds: float) -> None:
        """See Limiter."""
        with self._mutex:
            state = self._accounts.setdefault(account, _Account())
            state.paused_until = max(state.paused_until, self._clock() + min(seconds, LONGEST_PAUSE_S))


def _refusal(state: _Account, limits: RateLimits, levels: Sequence[float], asked: Amounts, now: float) -> Wait | None:
    if state.paused_until > now:
        return Wait(state.paused_until - now, "paused")
    if limits.in_flight is not None and len(state.leases) >= limits.in_flight:
        return Wait(IN_FLIGHT_WAIT_S, "in_flight")
    for name, level, want, (cap, rate) in zip(BURST_S, levels, asked, limits.buckets(), strict=True):
        missing = min(want, cap) - level
        if rate and missing > 1e-6:
            return Wait(missing / rate, name)
    return None


# --- in Redis, for all workers


_LEVELS: Final = """
local t = redis.call('TIME')
local now = t[1] + t[2] / 1e6
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
local stored = redis.call('HMGET', KEYS[3], 'at', '1', '2', '3')
local levels, passed = {}, math.max(0, now - tonumber(stored[1] or now))
for i = 1, 3 do
  local cap, rate = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  levels[i] = math.min(cap, tonumber(stored[i + 1] or cap) + passed * rate)
end
local function store()
  redis.call('HSET', KEYS[3], 'at', string.format('%.6f', now),
    '1', tostring(levels[1]), '2', tostring(levels[2]), '3', tostring(levels[3]))
  redis.call('EXPIRE', KEYS[3], 3600)
end
"""
_TAKE: Final = (
    _LEVELS
    + """
local paused = tonumber(redis.call('GET', KEYS[1]) or '0')
if paused > now then return {'paused', tostring(paused - now)} end
local most = tonumber(ARGV[12])
if most > 0 and redis.call('ZCARD', KEYS[2]) >= most then return {'in_flight', ARGV[13]} end
for i = 1, 3 do
  local cap, rate = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
  local missing = math.min(cap, tonumber(ARGV[6 + i])) - levels[i]
  if rate > 0 and missing > 1e-6 then return {tostring(i), tostring(missing / rate)} end
end
for i = 1, 3 do levels[i] = levels[i] - math.min(tonumber(ARGV[2 * i - 1]), tonumber(ARGV[6 + i])) end
store()
redis.call('ZADD', KEYS[2], string.format('%.6f', now + tonumber(ARGV[11])), ARGV[10])
redis.call('PEXPIRE', KEYS[2], 86400000)
return {'', '0'}
"""
)
_SETTLE: Final = (
    _LEVELS
    + """
if redis.call('ZREM', KEYS[2], ARGV[10]) == 0 then return 0 end
for i = 1, 3 do
  local cap = tonumber(ARGV[2 * i - 1])
  local back = math.min(cap, tonumber(ARGV[6 + i])) - tonumber(ARGV[10 + i])
  if cap > 0 then levels[i] = math.min(cap, levels[i] + back) end
end
store()
return 1
"""
)
_PAUSE: Final = """
local t = redis.call('TIME')
local till = t[1] + t[2] / 1e6 + tonumber(ARGV[1])
if till > tonumber(redis.call('GET', KEYS[1]) or '0') then
  redis.call('SET', KEYS[1], string.format('%.6f', till), 'PX', math.ceil(tonumber(ARGV[1]) * 1000) + 1000)
end
"""


class RedisLimiter:
    """Implements Limiter for all processes that share a Redis or Valkey, by its clock.

    `client` is one of redis-py; while the server fails with one of `errors`, each process keeps the limits alone.
    """

    def __init__(self, client: Any, *, errors: tuple[type[Exception], ...] = (), prefix: str = "assay") -> None:
        self._take, self._settle, self._pause = map(client.register_script, (_TAKE, _SETTLE, _PAUSE))
        self._errors = errors
        self._prefix = prefix
        self._alone = LocalLimiter()

    def take(
        self, account: str, limits: RateLimits, *, input_tokens: int, output_tokens: int, lease_s: float
    ) -> Lease | Wait:
        """See Limiter."""
        lease = Lease(account, limits, uuid.uuid4().hex, (1, input_tokens, output_tokens))
        most = (limits.in_flight or 0, IN_FLIGHT_WAIT_S)
        try:
            why, seconds = self._take(keys=self._keys(account), args=[*_arguments(lease), lease_s, *most])
        except self._errors:
            return self._alone.take(
                account, limits, input_tokens=input_tokens, output_tokens=output_tokens, lease_s=lease_s
            )
        reason = _text(why)
        names = dict(zip(("1", "2", "3"), BURST_S, strict=True))
        return Wait(float(seconds), names.get(reason, reason)) if reason else lease

    def settle(self, lease: Lease, *, input_tokens: int, output_tokens: int) -> bool:
        """See Limiter."""
        used = (1, input_tokens, output_tokens)
        if self._alone.settle(lease, input_tokens=input_tokens, output_tokens=output_tokens):
            return True
        try:
            return bool(self._settle(keys=self._keys(lease.account), args=[*_arguments(lease), *used]))
        except self._errors:
            return False  # the lease ends by itself

    def pause(self, account: str, seconds: float) -> None:
        """See Limiter."""
        self._alone.pause(account, seconds)
        try:
            self._pause(keys=self._keys(account), args=[min(seconds, LONGEST_PAUSE_S)])
        except self._errors:
            return

    def _keys(self, account: str) -> list[str]:
        """All keys of an account in one hash slot; names of models are anybody's text, so they are hashed."""
        tag = f"{{{self._prefix}:{hashlib.sha256(account.encode()).hexdigest()[:24]}}}"
        return [f"{tag}:pause", f"{tag}:leases", f"{tag}:levels"]


def _arguments(lease: Lease) -> list[float | str]:
    flat = [value for bucket in lease.limits.buckets() for value in bucket]
    return [*flat, *lease.asked, lease.token]


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
