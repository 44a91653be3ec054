"""The gate before a provider: each call waits here for its turn, and tells the others when the provider says stop."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from judges.budget import TokenUsage
from judges.errors import HandBack
from judges.limiter import Lease, Limiter, RateLimits, Wait
from judges.providers.faults import Fault

LONGEST_WAIT_S: Final = 120.0
LONGEST_NAP_S: Final = 5.0
LEASE_MARGIN_S: Final = 30.0


@dataclass(slots=True)
class Gate:
    """The calls of one judgment. It waits `LONGEST_WAIT_S` seconds in all, then the judgment is handed back.

    So waiting never eats the time that a judgment has to think: it resumes by replay with a fresh clock.
    """

    limiter: Limiter
    account: str
    limits: RateLimits
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)
    waited: float = 0.0

    def enter(self, *, input_tokens: int, output_tokens: int, lease_s: float, left_s: float) -> Lease:
        """A place for one call; HandBack where it would be had too late. `left_s` is the time the judgment has."""
        end = min(self.waited + left_s, LONGEST_WAIT_S)
        for naps in count(1):
            found = self.limiter.take(
                self.account,
                self.limits,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                lease_s=lease_s + LEASE_MARGIN_S,
            )
            if isinstance(found, Lease):
                return found
            if self.waited + found.seconds > end:
                seconds = max(1.0, found.seconds) * self.rng.uniform(1.0, 1.25)
                raise HandBack(seconds, f"(rate limit: {found.why})")
            self._nap(found, naps)
        raise AssertionError("counting never ends")

    def _nap(self, wait: Wait, naps: int) -> None:
        """A place in flight is freed by others at any moment: it is asked for often at first, then less so."""
        seconds = wait.seconds * min(8, naps) if wait.why == "in_flight" else wait.seconds
        nap = min(seconds, LONGEST_NAP_S) + self.rng.uniform(0.0, min(0.25, seconds))
        self.sleep(nap)
        self.waited += nap

    def leave(self, lease: Lease, usage: TokenUsage, *, cached_are_free: bool) -> None:
        """Give the place back with what the provider counted."""
        counted = usage.fresh + usage.cache_write if cached_are_free else usage.input
        self.limiter.settle(lease, input_tokens=counted, output_tokens=usage.output)

    def hear(self, fault: Fault) -> None:
        """Stop the whole fleet for as long as a provider that is asked too much wants."""
        if fault.reason == "provider_rate_limited" and fault.retry_after:
            self.limiter.pause(self.account, fault.retry_after)
