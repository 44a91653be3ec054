"""The one retry layer: the libraries' own are off, as one of them sleeps for whatever a server asks."""

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from judges.errors import HandBack, JudgmentFailed
from judges.providers.faults import Fault

T = TypeVar("T")
TURN_ATTEMPTS: Final = 6
JUDGMENT_RETRIES: Final = 15
BASE_S: Final = 0.5
CAP_S: Final = 30.0
LONGEST_WAIT_S: Final = 120.0
LONGEST_HAND_BACK_S: Final = 3_600.0


@dataclass(slots=True)
class Retrier:
    """Retries of one judgment. `deadline` is on `clock`, in seconds; `seen` counts faults by reason."""

    deadline: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)
    retries: int = 0
    seen: Counter[str] = field(default_factory=Counter)

    def run(self, attempt: Callable[[], T]) -> T:
        """The first answer that is one; JudgmentFailed with the last fault's reason, HandBack for a long wait."""
        for number in range(1, TURN_ATTEMPTS + 1):
            try:
                return attempt()
            except Fault as fault:
                self.seen[fault.reason] += 1
                if not fault.is_retried:
                    raise failed(fault) from None
                self._wait(fault, number)
        raise AssertionError("the last attempt either answers or raises")

    @property
    def left_s(self) -> float:
        """Seconds until the deadline."""
        return self.deadline - self.clock()

    def _wait(self, fault: Fault, number: int) -> None:
        asked = fault.retry_after
        if asked is not None and asked > LONGEST_WAIT_S:
            seconds = min(asked, LONGEST_HAND_BACK_S)
            raise HandBack(seconds, f"({fault.detail})", request_id=fault.request_id) from None
        if number == TURN_ATTEMPTS or self.retries == JUDGMENT_RETRIES:
            raise failed(fault, f"given up after {number} attempts, {self.retries} retries in this judgment") from None
        jitter = self.rng.uniform(0.0, min(CAP_S, BASE_S * 2 ** (number - 1)))
        wait = jitter if asked is None else min(LONGEST_WAIT_S, asked + jitter / 10)
        if wait > self.left_s:
            raise failed(fault, "no time is left to try again") from None
        self.retries += 1
        self.sleep(wait)


def failed(fault: Fault, why: str = "") -> JudgmentFailed:
    """The end of a judgment that a fault means, with the provider's request id for whoever asks the provider."""
    asked = f"request {fault.request_id}" if fault.request_id else ""
    waits = "" if fault.retry_after is None else f"retry after {fault.retry_after:g} s"
    notes = "; ".join(filter(None, (why, waits, asked)))
    return JudgmentFailed(fault.reason, f"{fault.detail} ({notes})" if notes else fault.detail, fault.request_id)
