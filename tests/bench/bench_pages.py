"""Pages of a version with a million judgments: `pytest tests/bench/bench_pages.py -m bench -s --db postgres`.

One build serves all. Figures are stored as a worker would have left them: those of a small version, with strata and
counts of the large one's size, since making them is measured by test_estimate_speed.
ASSAY_BENCH_JUDGMENTS sets the size.
"""

import gc
import os
import re
import time
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from auditapp import blobs
from auditapp.counters import count
from auditapp.estimation import compute, subject
from auditapp.estimation_inputs import inputs_sha256
from auditapp.models.datasets import DatasetVersion, Membership, Role
from auditapp.models.estimates import Estimate
from auditapp.models.judgments import JudgeRun
from auditapp.models.labels import labels
from auditapp.models.reviews import ReviewRound
from tests.bench.bench_review import percentile
from tests.bench.million import HACK, build

pytestmark = [pytest.mark.django_db]
JUDGMENTS, SMALL = int(os.environ.get("ASSAY_BENCH_JUDGMENTS", "1000000")), 8_000
LOOKS, AIM_MS = 15, 200
PAYLOAD = re.compile(r'"(provenance|extra|rewards|proof|quote)"')
NUMBERS = ("numbers", "agreement", "consistency", "signal", "shapes", "cost")
QUERIES = {
    "trajectories": (
        *("", "?status=fail&model=model-3", "?environment=env-4", "?environment=env-rare", "?model=model-rare"),
        *("?task=task-77", "?reason=verifier_crashed", "?control=yes", "?before=5000", "?q=task-77", "?q=nothing"),
    ),
    "labels": (
        *("", "?outcome=false_pass", "?outcome=none", "?environment=env-3", "?environment=env-rare"),
        *("?labeler=judge%202", "?labeler=judge%200&outcome=false_fail", "?labeler=anna", "?labeler=nobody"),
        *("?tag=C02", f"?tag={HACK}", "?source=judge&state=completed", "?source=imported_human", "?state=failed"),
        *("?reason=timeout", "?open=verifier_partial", "?decision=cannot_tell&environment=env-3"),
        *("?integrity=hacked", "?status=invalid", "?task=task-77", "?model=model-rare", "?replicate=1", "?by=people"),
    ),
    "numbers-rows": (
        *("", "?verdict=pass&judge_said=no", "?verdict=fail&judge_said=yes&model=model-rare"),
        *("?environment=env-rare&judge_said=undecided", "?judge_said=unknown", "?verdict=pass&people_said=no"),
        *("?people_said=decided", "?judge_said=yes&people_said=no&among=labeled", "?differ=judge&among=labeled"),
        *("?differ=people", "?pair=yes-no&among=labeled", "?split=yes", "?hack=judge", "?hack=people"),
        "?judge_after=yes&people_said=no&among=labeled",
    ),
}


@pytest.fixture(scope="module")
def version(django_db_setup: None, django_db_blocker: Any) -> Iterator[DatasetVersion]:
    if connection.vendor != "postgresql":
        pytest.skip("a million rows are written by PostgreSQL: --db postgres")
    with django_db_blocker.unblock():
        start = time.monotonic()
        figures = compute(build("small", SMALL))
        version = build("million", JUDGMENTS)
        built = time.monotonic()
        strata = [grown(row, JUDGMENTS // SMALL) for row in figures["by_stratum"]]
        store(version, figures | {"by_stratum": strata, "counts": count(version)})
        gc.collect()
        gc.freeze()  # a web server has not made the data: its collector need not walk what that left here
        print(f"\nbuilt in {built - start:.0f} s, counted in {time.monotonic() - built:.0f} s")
        yield version


def grown(row: Any, times: int) -> Any:
    """The same stratum with so many times the trajectories."""
    if isinstance(row, dict):
        return {key: grown(value, times) for key, value in row.items()}
    return row * times if isinstance(row, int) else row


def store(version: DatasetVersion, payload: dict[str, object]) -> None:
    chosen = subject(version)
    Estimate.objects.create(
        version=version,
        sample=chosen.sample,
        config=chosen.config,
        inputs_sha256=inputs_sha256(version, config=chosen.config, sample=chosen.sample),
        payload_blob=blobs.put(orjson.dumps(payload)),
        computed_at=timezone.now(),
        seconds=0,
    )


def addresses(version: DatasetVersion) -> Iterator[str]:
    name = version.dataset.name
    yield reverse("home")
    yield reverse("dataset", args=[name])
    for page, queries in QUERIES.items():
        yield from (reverse(page, args=[name]) + query for query in queries)
    for page in NUMBERS:
        yield reverse(page if page == "numbers" else f"numbers-{page}", args=[name])
    made = ReviewRound.objects.get(version=version).public_id
    yield reverse("round", args=[made])
    for cell in ("", "&cell=yes", "&cell=unknown", "&outcome=false_pass", "&labeler=nobody"):
        yield reverse("labels", args=[name]) + f"?round={made}{cell}"
    for page in ("numbers-criteria", "report", "rounds", "runs", "samples", "tasks", "export"):
        yield reverse(page, args=[name])
    yield reverse("task", args=[version.tasks.latest("pk").public_id])
    yield reverse("label", args=[labels(version).latest("key").public_id])
    run = JudgeRun.objects.filter(sample__frame__version=version).select_related("sample").latest("pk")
    yield reverse("run", args=[run.public_id])
    yield reverse("sample", args=[run.sample.public_id])


def test_any_page_of_a_million_judgments(version: DatasetVersion) -> None:
    """Aim: p95 under 200 ms; prints a table. No list reads the columns that hold bodies."""
    lead = User.objects.create_user("lead of a million")
    Membership.objects.create(dataset=version.dataset, user=lead, role=Role.LEAD)
    client = Client()
    client.force_login(lead)
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"\n{JUDGMENTS:,} judgments, {load}: ms p50, p95, CPU of Django")
    for address in addresses(version):
        (first, _), *looks = [look(client, address) for _ in range(LOOKS + 1)]
        waits, busy = ([seconds[kind] for seconds in looks] for kind in (0, 1))
        with CaptureQueriesContext(connection) as queries:
            client.get(address)
        slowest = max(float(query["time"]) for query in queries)
        late = " OVER" if percentile(waits, 0.95) > AIM_MS else ""
        print(
            f"{percentile(waits, 0.5):7.0f} {percentile(waits, 0.95):7.0f} {percentile(busy, 0.5):7.0f}  "
            f"first {1000 * first:6.0f}, "
            f"{len(queries):3} queries, slowest {1000 * slowest:4.0f}  {address}{late}"
        )


def look(client: Client, address: str) -> tuple[float, float]:
    """Seconds to a page that is there, and those of them that this process was at work."""
    start, worked = time.perf_counter(), time.process_time()
    assert client.get(address).status_code == 200, address
    return time.perf_counter() - start, time.process_time() - worked


@pytest.mark.parametrize("page", ["trajectories", "labels"])
def test_a_list_reads_no_bodies(version: DatasetVersion, page: str) -> None:
    lead = User.objects.create_user(f"lead of {page}")
    Membership.objects.create(dataset=version.dataset, user=lead, role=Role.LEAD)
    client = Client()
    client.force_login(lead)
    with CaptureQueriesContext(connection) as queries:
        client.get(reverse(page, args=[version.dataset.name]))
    assert [found[0] for query in queries if (found := PAYLOAD.search(query["sql"]))] == []
