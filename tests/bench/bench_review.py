"""The queue with 100,000 slots: claims in an open loop, a burst, and reviewers who grade over HTTP.

`pytest tests/bench/bench_review.py -m bench -s --db postgres`. Latency counts from the moment a claim was due, so that
a slow answer is not hidden by the claims that wait behind it. ASSAY_BENCH_SLOTS sets the size.
"""

import multiprocessing
import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, connections
from django.utils import timezone

from auditapp import blobs
from auditapp.models.datasets import Trajectory
from auditapp.models.reviews import (
    POSITIONS,
    Grade,
    ReviewItem,
    ReviewRound,
    RoundReviewer,
    RoundState,
    Slot,
    SlotState,
)
from auditapp.review import claim_next_slot
from tests.auditapp.looks import STEPS
from tests.auditapp.population import make_task, make_version
from tests.auditapp.rounds import make_reviewers
from tests.bench.bench_judging import cpu_seconds
from tests.faults.reviewer_client import Reviewer, next_address
from tests.faults.test_review_kills import free_port, web

pytestmark = [pytest.mark.django_db(transaction=True)]
SLOTS = int(os.environ.get("ASSAY_BENCH_SLOTS", "100000"))
TASKS, REVIEWERS, CLIENTS, RATE, SECONDS, BURST = 500, 50, 2, 100, 20, 50
HTTP_REVIEWERS, HTTP_S, PACES_S = 8, 15, (0.8, 0.25, 0.125)


@pytest.fixture
def queue() -> ReviewRound:
    """A round of so many slots, two an item; a third of them graded by others long ago."""
    chance = random.Random(1)
    version = make_version()
    tasks = [make_task(version, f"t{number}", environment=f"e{number % 5}") for number in range(TASKS)]
    made = Trajectory.objects.bulk_create(
        [Trajectory(version=version, task=tasks[k % TASKS], content_sha256="0" * 64) for k in range(SLOTS // 2)], 5000
    )
    opened = ReviewRound.objects.create(version=version, number=1, title="Load", seed=1, state=RoundState.OPEN)
    items = [ReviewItem(round=opened, number=k, task_id=t.task_id, trajectory=t) for k, t in enumerate(made, 1)]
    ReviewItem.objects.bulk_create(items, 5000)
    earlier = make_reviewers(version, "earlier")[0]
    slots = [_slot(opened, item, copy, chance, earlier) for item in items for copy in range(2)]
    Slot.objects.bulk_create(slots, 5000)
    for user in make_reviewers(version, *(f"r{k}" for k in range(REVIEWERS))):
        RoundReviewer.objects.create(round=opened, user=user, cursor=chance.randrange(POSITIONS))
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
    return opened


def _slot(opened: ReviewRound, item: ReviewItem, copy: int, chance: random.Random, earlier: User) -> Slot:
    slot = Slot(round=opened, item=item, copy=copy, position=chance.randrange(POSITIONS))
    if copy == 0 and chance.random() < 2 / 3:
        slot.state, slot.reviewer, slot.submitted_at = SlotState.SUBMITTED, earlier, timezone.now()
    return slot


def percentile(seconds: list[float], share: float) -> float:
    """In milliseconds."""
    return 1000 * sorted(seconds)[min(len(seconds) - 1, int(share * len(seconds)))]


def in_threads(work: Callable[[int], None], count: int) -> None:
    def closing(number: int) -> None:
        try:
            work(number)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(closing, range(count)))


def users_of(opened: ReviewRound) -> Iterator[User]:
    yield from User.objects.filter(round_places__round=opened).order_by("pk")


def test_claims_in_an_open_loop_and_in_a_burst(queue: ReviewRound) -> None:
    """From two processes, as two web workers are; the time of the client itself is part of a claim."""
    users = list(users_of(queue))
    connections.close_all()
    fork, begin = multiprocessing.get_context("fork"), time.perf_counter() + 2
    answers = [fork.SimpleQueue() for _ in range(CLIENTS)]
    for number, answer in enumerate(answers):
        fork.Process(target=client, args=(number, queue.pk, users, begin, answer), daemon=True).start()
    found = [answer.get() for answer in answers]
    late, claimed = [x for each in found for x in each[0]], [x for each in found for x in each[1]]
    cpu = sum(each[2] for each in found) / len(late)
    print(
        f"\n{SLOTS:,} slots, {RATE} claims/s for {SECONDS} s: claim p50 {percentile(late, 0.5):.1f} ms, "
        f"p95 {percentile(late, 0.95):.1f} ms, p99 {percentile(late, 0.99):.1f} ms; {1000 * cpu:.1f} ms CPU a claim"
    )
    assert len(set(claimed)) == len(claimed) == RATE * SECONDS
    burst(queue, users)


def client(number: int, round_id: int, users: list[User], begin: float, answer: Any) -> None:
    """One of the processes: its share of the reviewers, a thread each, one claim due every half a second."""
    late: list[float] = []
    claimed: list[int] = []

    def reviewer(place: int) -> None:
        mine = place * CLIENTS + number
        opened, by = ReviewRound.objects.get(pk=round_id), users[mine]
        for turn in range(SECONDS * RATE // REVIEWERS):
            due = begin + (turn * REVIEWERS + mine) / RATE
            time.sleep(max(0.0, due - time.perf_counter()))
            slot = claim_next_slot(opened, by=by, now=timezone.now())
            late.append(time.perf_counter() - due)
            claimed.append(slot.pk)
            Slot.objects.filter(pk=slot.pk).update(state=SlotState.SUBMITTED, lease_until=None)

    cpu = time.process_time()
    in_threads(reviewer, REVIEWERS // CLIENTS)
    answer.put((late, claimed, time.process_time() - cpu))


def burst(queue: ReviewRound, users: list[User]) -> None:
    barrier, taken, lock = threading.Barrier(BURST), [], threading.Lock()

    def claim(number: int) -> None:
        opened = ReviewRound.objects.get(pk=queue.pk)
        barrier.wait()
        start = time.perf_counter()
        slot = claim_next_slot(opened, by=users[number], now=timezone.now() + timedelta(seconds=1))
        with lock:
            taken.append((slot.pk, time.perf_counter() - start))

    in_threads(claim, BURST)
    doubled = len(taken) - len({pk for pk, _ in taken})
    worst = 1000 * max(seconds for _, seconds in taken)
    print(f"{BURST} claims at once: {doubled} doubled, slowest {worst:.0f} ms")
    assert doubled == 0


def test_reviewers_over_http(queue: ReviewRound, tmp_path: Path) -> None:
    """Aim: next item p95 under 60 ms and 100 cycles/s by eight reviewers; a cycle is an answer with the next item.

    First as fast as eight can, which fills the machine, and eight at 100 a second wait 80 ms each on average; then at a
    pace of 10, 32 and 64 items a second: people who read what they grade take some ten seconds each.
    """
    steps = blobs.put_steps(STEPS)
    queue.version.trajectories.update(steps_blob=steps.digest, n_steps=steps.count)
    port = free_port()
    with web(port, tmp_path) as server:
        reviewers = [Reviewer(user, port) for user in list(users_of(queue))[:HTTP_REVIEWERS]]
        cycles(reviewers, queue, 3)  # loads the application
        print(f"\n{SLOTS:,} slots, {HTTP_REVIEWERS} reviewers over HTTP, {os.cpu_count()} cores")
        for pace in (0.0, *PACES_S):
            before, start = cpu_by_part(server.pid), time.perf_counter()
            latencies = cycles(reviewers, queue, HTTP_S, pace)
            seconds, after = time.perf_counter() - start, cpu_by_part(server.pid)
            spent = ", ".join(f"{part} {1000 * (after[part] - before[part]) / len(latencies):.1f}" for part in after)
            print(
                f"{len(latencies) / seconds:.1f} cycles/s, next item p50 {percentile(latencies, 0.5):.0f} ms, "
                f"p95 {percentile(latencies, 0.95):.0f} ms; ms CPU a cycle: {spent}; load {os.getloadavg()[0]:.1f}"
            )
    assert Grade.objects.filter(slot__round=queue).values("slot").distinct().count() == Grade.objects.count()


def cycles(reviewers: list[Reviewer], opened: ReviewRound, seconds: float, pace: float = 0.0) -> list[float]:
    """Have all of them grade for so long, each an item every `pace` seconds; what each item took with the next one."""
    taken: list[float] = []

    def grade(number: int) -> None:
        reviewer, begin = reviewers[number], time.perf_counter() + pace * number / len(reviewers)
        address, due = reviewer.claim(opened.public_id), begin
        while address is not None and due < begin + seconds:
            time.sleep(max(0.0, due - time.perf_counter()))
            start = due if pace else time.perf_counter()
            address = next_address(reviewer.submit(address, str(uuid.uuid4())))
            taken.append(time.perf_counter() - start)
            due = due + pace if pace else time.perf_counter()

    in_threads(grade, len(reviewers))
    return taken


def cpu_by_part(server: int) -> dict[str, float]:
    """CPU seconds so far of the web server with its workers, of the database, and of the reviewers, who are here."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        postmaster = Path(f"/proc/{cursor.fetchone()[0]}/stat").read_text().rpartition(")")[2].split()[1]
    return {
        "server": family_cpu(server),
        "database": family_cpu(int(postmaster)),
        "reviewers": time.process_time(),
    }


def family_cpu(parent: int) -> float:
    """CPU seconds of a process with its children, those that ended included: connections are closed after a minute."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    ended = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[13:15]
    running = sum(cpu_seconds(int(process)) for process in (str(parent), *children))
    return running + sum(map(int, ended)) / os.sysconf("SC_CLK_TCK")
