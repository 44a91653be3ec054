"""Judging through a real worker and a loopback provider: calls/s against the ideal, CPU of a call, memory of a run.

`pytest tests/bench/bench_judging.py -m bench -s --db postgres`. The provider runs in a process of its own, so the CPU
is that of the worker alone: Celery, Django, the database driver, the library of the provider and the judge itself.
ASSAY_BENCH_JUDGMENTS sets the size of the memory run.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.db import connection
from django.db.models import Max, Min

from auditapp import blobs, judging, tasks
from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import JudgeRun, ProviderCall
from judges.config import JudgeConfig
from judges.safefs import MemoryTree
from tests.auditapp.looks import INSTRUCTION, STEPS, make_run
from tests.auditapp.population import add_trajectory, make_task, make_version
from tests.faults.test_kill_worker import broker, database_url
from tests.platform.conftest import ROOT, wait_until

__all__ = ["broker"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("broker")]
IN_FLIGHT = 64
LARGE = int(os.environ.get("ASSAY_BENCH_JUDGMENTS", "3000"))
WORDS = "The quick brown fox jumps over the lazy dog and reads the invoice again.\n"


@contextmanager
def provider(latency_s: float, turns: int) -> Iterator[str]:
    command = [sys.executable, "-m", "tests.bench.slow_provider", str(latency_s), str(turns)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@contextmanager
def worker(folder: Path) -> Iterator[int]:
    options = ["-Q", "judge", "-P", "threads", "-c", str(IN_FLIGHT), "--without-gossip", "--without-mingle"]
    environment = os.environ | {"DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = [*os.environ.get("ASSAY_BENCH_PROFILER", "").split(), sys.executable]
    with (folder / "log").open("ab") as log:
        arguments = [*command, "-m", "celery", "-A", "auditapp", "worker", *options]
        process = subprocess.Popen(arguments, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def make_world(count: int, *, prefix: int, notes: int) -> DatasetVersion:
    """Attempts at four tasks with instructions of so many characters, each with an answer of `notes` more."""
    version = make_version(f"bench-{count}-{time.monotonic_ns()}")
    answer = "the total is 42 dollars\n" + WORDS * (notes // len(WORDS))
    deliverable = blobs.put_tree(MemoryTree({"answer.txt": answer.encode()}))
    text = WORDS * (1 + prefix // len(WORDS))
    for number in range(4):
        task = make_task(version, f"t{number}", instruction_blob=blobs.put_text(f"{number} {INSTRUCTION} {text}"))
        for attempt in range(count // 4):
            add_trajectory(task, f"{number}-{attempt}", steps=STEPS, deliverable=deliverable)
    return version


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_bytes(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Cost:
    calls: int
    seconds: float
    cpu_s: float
    resident: int


def judged(process: int, address: str, count: int, *, prefix: int = 100, notes: int = 100) -> Cost:
    """Judge a world of its own and say what it took, from the first call to the last answer."""
    version = make_world(count, prefix=prefix, notes=notes)
    config = JudgeConfig(name="bench", provider="anthropic", model="fake-judge", base_url=address, sandbox="none")
    run = make_run(version, config=judging.ensure_config(config, by=None))
    before = cpu_seconds(process)
    tasks.ring(judging.queued_ids(run))
    done = JudgeRun.objects.filter(pk=run.pk, state="done")
    wait_until(lambda: done.exists() or time.sleep(0.2), "the end of the run", within_s=1_800)
    spent = cpu_seconds(process) - before
    assert judging.progress(run)["completed"] == count, judging.summary(run)["failed"][:3]
    calls = ProviderCall.objects.filter(execution__judgment__run=run)
    ends = calls.aggregate(first=Min("reserved_at"), last=Max("settled_at"))
    return Cost(calls.count(), (ends["last"] - ends["first"]).total_seconds(), spent, resident_bytes(process))


def test_calls_a_second_at_two_seconds_latency(tmp_path: Path) -> None:
    """Aim: 0.95 of 32 calls/s with 64 in flight."""
    with provider(2.0, 3) as address, worker(tmp_path) as process:
        judged(process, address, 4)
        cost = judged(process, address, 4 * IN_FLIGHT)
    ideal = cost.calls * 2.0 / IN_FLIGHT
    print(f"\n{connection.vendor}: {cost.calls} calls of 2 s, {IN_FLIGHT} in flight: {cost.seconds:.1f} s,")
    print(f"{ideal / cost.seconds:.3f} of the ideal (aim 0.95), {cost.cpu_s / cost.calls * 1e3:.1f} ms CPU a call")
    assert ideal / cost.seconds > 0.5


def test_cpu_of_a_call_with_a_long_prefix(tmp_path: Path) -> None:
    """Aim: 15 ms CPU a call, twelve turns on 18,000 tokens, 1,750 more a turn."""
    with provider(0.2, 12) as address, worker(tmp_path) as process:
        judged(process, address, 4)
        cost = judged(process, address, IN_FLIGHT, prefix=50_000, notes=7_000)
    tokens = ProviderCall.objects.order_by("-pk").filter(turn=2).values_list("input_tokens", flat=True).first()
    each = cost.cpu_s / cost.calls * 1e3
    print(
        f"\n{connection.vendor}: {cost.calls} calls, the second of {tokens} tokens: {each:.1f} ms CPU a call (aim 15),"
    )
    print(f"{cost.calls / cost.seconds:.0f} calls/s; driver {resource.getrusage(resource.RUSAGE_SELF).ru_utime:.0f} s")
    assert each < 100


def test_memory_does_not_grow_with_the_run(tmp_path: Path) -> None:
    """Aim: flat from 300 to 3,000 judgments."""
    with provider(0.0, 3) as address, worker(tmp_path) as process:
        small = judged(process, address, LARGE // 10)
        large = judged(process, address, LARGE - LARGE // 10)
    ratio = large.resident / small.resident
    each = large.cpu_s / large.calls * 1e3
    print(f"\n{connection.vendor}: {small.resident / 1e6:.0f} MB after {LARGE // 10} judgments,")
    print(f"{large.resident / 1e6:.0f} MB after {LARGE}, {ratio:.3f} of it (aim 1); {each:.1f} ms CPU a call")
    assert ratio < 1.25
