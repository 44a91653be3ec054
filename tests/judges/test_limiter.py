"""Rate limits hold for all who share them, whatever they do and whoever dies; Redis and one process behave the same."""

import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from django.conf import settings
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from judges.budget import TokenUsage
from judges.errors import HandBack
from judges.limiter import Lease, Limiter, LocalLimiter, RateLimits, RedisLimiter, Wait
from judges.providers.faults import Fault
from judges.providers.gate import LONGEST_WAIT_S, Gate

FREE = RateLimits()
EIGHT = RateLimits(in_flight=8)
Open = Callable[[], Limiter]


@pytest.fixture(params=["redis", "local"])
def limiter(request: pytest.FixtureRequest) -> Limiter:
    if request.param == "local":
        return LocalLimiter()
    return RedisLimiter(redis.from_url(settings.REDIS_URL), errors=(redis.RedisError,))


@pytest.fixture
def account() -> str:
    return f"https://host/{uuid.uuid4()} some }} model {{"


def take(limiter: Limiter, account: str, limits: RateLimits = FREE, **more: Any) -> Lease | Wait:
    return limiter.take(account, limits, **{"input_tokens": 100, "output_tokens": 10, "lease_s": 60.0, **more})


def taken(limiter: Limiter, account: str, limits: RateLimits = FREE, **more: Any) -> Lease:
    found = take(limiter, account, limits, **more)
    assert isinstance(found, Lease)
    return found


def refused(limiter: Limiter, account: str, limits: RateLimits = FREE, **more: Any) -> Wait:
    found = take(limiter, account, limits, **more)
    assert isinstance(found, Wait)
    return found


def settle(limiter: Limiter, lease: Lease, *, input_tokens: int = 100, output_tokens: int = 10) -> bool:
    return limiter.settle(lease, input_tokens=input_tokens, output_tokens=output_tokens)


def test_sixty_calls_share_eight_places(limiter: Limiter, account: str) -> None:
    now, most, lock = 0, 0, threading.Lock()

    def call(_: int) -> bool:
        nonlocal now, most
        gate = Gate(limiter, account, EIGHT)
        lease = gate.enter(input_tokens=10, output_tokens=1, lease_s=60, left_s=60)
        with lock:
            now, most = now + 1, max(most, now + 1)
        time.sleep(0.05)
        with lock:
            now -= 1
        gate.leave(lease, TokenUsage(fresh=10, output=1), cached_are_free=True)
        return True

    with ThreadPoolExecutor(60) as pool:
        assert list(pool.map(call, range(60))) == [True] * 60
    assert most == 8


def test_without_limits_everything_may_be_asked(limiter: Limiter, account: str) -> None:
    leases = [taken(limiter, account, input_tokens=10**9, output_tokens=10**9) for _ in range(200)]
    assert all(settle(limiter, lease) for lease in leases)


def test_all_or_nothing(limiter: Limiter, account: str) -> None:
    limits = RateLimits(requests_per_minute=60, output_tokens_per_minute=100)  # bursts of 10 and of 50
    lease = taken(limiter, account, limits, output_tokens=50)
    assert refused(limiter, account, limits, output_tokens=50).why == "output"
    for _ in range(9):  # the refusal took no request
        taken(limiter, account, limits, output_tokens=0)
    assert refused(limiter, account, limits, output_tokens=0).why == "requests"
    assert settle(limiter, lease)


def test_a_refusal_says_how_long_the_bucket_takes(limiter: Limiter, account: str) -> None:
    limits = RateLimits(input_tokens_per_minute=6_000)  # 100 a second, bursts of 3,000
    taken(limiter, account, limits, input_tokens=3_000)
    wait = refused(limiter, account, limits, input_tokens=500)
    assert wait.why == "input"
    assert 4.5 < wait.seconds <= 5.0


def test_more_than_a_whole_bucket_waits_for_a_full_one_and_no_longer(limiter: Limiter, account: str) -> None:
    limits = RateLimits(input_tokens_per_minute=6_000)
    lease = taken(limiter, account, limits, input_tokens=1_000_000)
    assert 29 < refused(limiter, account, limits, input_tokens=1_000_000).seconds <= 30
    settle(limiter, lease, input_tokens=1_000_000)  # what it really used is owed
    assert refused(limiter, account, limits, input_tokens=1).seconds > 1_000


def test_what_was_not_used_is_given_back_once(limiter: Limiter, account: str) -> None:
    limits = RateLimits(input_tokens_per_minute=6_000, in_flight=5)
    lease = taken(limiter, account, limits, input_tokens=3_000)
    assert settle(limiter, lease, input_tokens=1_000)
    second = taken(limiter, account, limits, input_tokens=1_950)
    assert not settle(limiter, lease, input_tokens=0)
    assert refused(limiter, account, limits, input_tokens=1_000).why == "input"
    assert settle(limiter, second)


def test_the_place_of_a_killed_worker_is_free_again_and_nothing_is_refunded(limiter: Limiter, account: str) -> None:
    limits = RateLimits(in_flight=1, input_tokens_per_minute=6_000)
    lost = taken(limiter, account, limits, input_tokens=2_000, lease_s=1)
    assert refused(limiter, account, limits).why == "in_flight"
    time.sleep(1.05)
    assert not settle(limiter, lost, input_tokens=0)
    assert refused(limiter, account, limits, input_tokens=2_000).why == "input"
    taken(limiter, account, limits, input_tokens=500)


def test_a_pause_holds_everybody_and_is_never_made_shorter(limiter: Limiter, account: str) -> None:
    begun = time.monotonic()
    limiter.pause(account, 1)
    limiter.pause(account, 0.1)
    wait = refused(limiter, account)
    assert wait.why == "paused"
    assert 0.99 - (time.monotonic() - begun) < wait.seconds <= 1
    Gate(limiter, account, FREE).enter(input_tokens=1, output_tokens=1, lease_s=5, left_s=60)
    assert time.monotonic() - begun > 0.99
    taken(limiter, f"{account} another")


def test_no_provider_can_pause_an_account_for_years(limiter: Limiter, account: str) -> None:
    limiter.pause(account, 4_294_967.0)
    assert refused(limiter, account).seconds <= 3_600


def test_a_long_pause_hands_the_judgment_back(limiter: Limiter, account: str) -> None:
    limiter.pause(account, 300)
    naps: list[float] = []
    with pytest.raises(HandBack) as caught:
        Gate(limiter, account, FREE, naps.append).enter(input_tokens=1, output_tokens=1, lease_s=5, left_s=900)
    assert naps == []
    assert 295 < caught.value.seconds < 376


def test_waits_add_up_over_the_calls_of_a_judgment(limiter: Limiter, account: str) -> None:
    taken(limiter, account, RateLimits(in_flight=1))
    naps: list[float] = []
    gate = Gate(limiter, account, RateLimits(in_flight=1), naps.append)
    with pytest.raises(HandBack):
        gate.enter(input_tokens=1, output_tokens=1, lease_s=5, left_s=900)
    assert LONGEST_WAIT_S - 1 < sum(naps) <= LONGEST_WAIT_S + 1
    with pytest.raises(HandBack):
        gate.enter(input_tokens=1, output_tokens=1, lease_s=5, left_s=900)
    assert sum(naps) <= LONGEST_WAIT_S + 1


def test_a_judgment_without_time_to_wait_is_handed_back_not_failed(limiter: Limiter, account: str) -> None:
    limiter.pause(account, 30)
    with pytest.raises(HandBack):
        Gate(limiter, account, FREE).enter(input_tokens=1, output_tokens=1, lease_s=5, left_s=10)


def test_only_a_rate_limit_with_a_time_stops_the_fleet(limiter: Limiter, account: str) -> None:
    gate = Gate(limiter, account, FREE)
    gate.hear(Fault("provider_rate_limited", "slow down"))
    gate.hear(Fault("provider_outage", "overloaded", retry_after=30))
    taken(limiter, account)
    gate.hear(Fault("provider_rate_limited", "slow down", retry_after=30))
    assert refused(limiter, account).why == "paused"


def test_other_limits_for_the_same_account_are_in_force_at_once(limiter: Limiter, account: str) -> None:
    taken(limiter, account, RateLimits(in_flight=1))
    assert refused(limiter, account, RateLimits(in_flight=1)).why == "in_flight"
    taken(limiter, account, RateLimits(in_flight=2))


def test_processes_share_one_account_in_redis(account: str) -> None:
    first, second = (RedisLimiter(redis.from_url(settings.REDIS_URL)) for _ in range(2))
    limits = RateLimits(in_flight=1)
    lease = taken(first, account, limits)
    assert refused(second, account, limits).why == "in_flight"
    assert settle(second, lease)
    taken(second, account, limits)


def test_all_keys_of_an_account_lie_in_one_slot(account: str) -> None:
    client = redis.from_url(settings.REDIS_URL, decode_responses=True)
    limiter = RedisLimiter(client, prefix=f"test-{uuid.uuid4()}")
    taken(limiter, account, RateLimits(requests_per_minute=60))
    limiter.pause(account, 1)
    keys = client.keys(f"{{{limiter._prefix}*")
    assert len(keys) == 3
    assert len({key[key.index("{") : key.index("}") + 1] for key in keys}) == 1
    assert all(client.ttl(key) > 0 for key in keys)


def test_without_the_server_each_process_keeps_the_limits_alone(account: str) -> None:
    limiter = RedisLimiter(redis.from_url("unix:///nowhere/socket"), errors=(redis.RedisError,))
    lease = taken(limiter, account, RateLimits(in_flight=1))
    assert refused(limiter, account, RateLimits(in_flight=1)).why == "in_flight"
    assert settle(limiter, lease)
    limiter.pause(account, 5)
    assert refused(limiter, account).why == "paused"


# --- any sequence of events


class Sky:
    """Time that only passes when told to."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(0, 400), st.integers(0, 60)),
        st.tuples(st.just("settle"), st.integers(0, 400), st.integers(0, 60)),
        st.tuples(st.just("pass"), st.floats(0.01, 20), st.just(0)),
        st.tuples(st.just("pause"), st.floats(0.01, 10), st.just(0)),
    ),
    max_size=60,
)


@given(steps=STEPS, places=st.integers(1, 4), rpm=st.integers(1, 120), itpm=st.integers(1, 1_200))
@hypothesis_settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_never_more_than_the_limits(steps: list[Any], places: int, rpm: int, itpm: int) -> None:
    """Over any window: requests and tokens used within one burst and the refill, and never too many in flight."""
    sky = Sky()
    limiter = LocalLimiter(clock=sky)
    limits = RateLimits(in_flight=places, requests_per_minute=rpm, input_tokens_per_minute=itpm)
    (burst, rate), (tokens, token_rate), _ = limits.buckets()
    held: list[tuple[Lease, float]] = []
    begun, requests, granted, paused = sky.now, 0, 0.0, 0.0
    for what, amount, output in steps:
        if what == "pass":
            sky.now += amount
        elif what == "pause":
            limiter.pause("a", amount)
            paused = max(paused, sky.now + amount)
        elif what == "settle" and held:
            lease, end = held.pop(0)
            used = min(amount, lease.asked[1])
            if limiter.settle(lease, input_tokens=used, output_tokens=output):
                assert end > sky.now
                granted -= min(lease.asked[1], tokens) - min(used, tokens)
            assert not limiter.settle(lease, input_tokens=0, output_tokens=0)
        elif what == "take":
            found = limiter.take("a", limits, input_tokens=amount, output_tokens=output, lease_s=15)
            held = [(lease, end) for lease, end in held if end > sky.now]
            if isinstance(found, Wait):
                assert found.seconds > 0
                continue
            assert sky.now >= paused
            held.append((found, sky.now + 15))
            requests, granted = requests + 1, granted + min(amount, tokens)
        assert len([end for _, end in held if end > sky.now]) <= places
        passed = sky.now - begun
        assert requests <= burst + rate * passed + 1e-6
        assert granted <= tokens + token_rate * passed + 1e-3
