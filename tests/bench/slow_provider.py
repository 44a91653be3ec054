"""A loopback provider in its own process: `python -m tests.bench.slow_provider LATENCY_S TURNS` prints its address.

Every judgment takes so many turns: files are read, then come the verdict and the attribution.
"""

import sys
import threading
from collections.abc import Callable
from typing import Any

import django

django.setup()

from tests.auditapp.looks import GOOD  # noqa: E402
from tests.fakes.server import FakeProvider  # noqa: E402
from tests.fakes.steps import Step, call  # noqa: E402

READ = ("read_file", {"root": "deliverable", "path": "answer.txt", "line_start": 0, "line_end": 0})

# Together with tools, prompt and task they make the long prefix that every later turn carries along.
FIRST_READS = 7


def judge_of(turns: int, latency_s: float) -> Callable[[Any], Step]:
    def answer(body: Any) -> Step:
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        reads = [READ] * (FIRST_READS if turn == 0 else 1)
        calls = reads if turn < turns - 2 else GOOD[turn - turns + 3].calls
        return call(*calls, hang_s=latency_s)

    return answer


if __name__ == "__main__":
    latency_s, turns = float(sys.argv[1]), int(sys.argv[2])
    with FakeProvider() as server:
        print(server.session(judge_of(turns, latency_s), repeat=True).url("anthropic"), flush=True)
        threading.Event().wait()
