"""Importing: speed against a bare pass over the same bytes, and memory from 1,000 to 20,000 trajectories.

The bare pass reads each file, hashes it, parses it as JSON and compresses it. Figures are ratios within one run; each
import runs in a process of its own, so that its peak memory is its own.
"""

import hashlib
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import zstandard

MAPPING = """
[trajectory]
requires = ["id"]
source_id = "id"
environment = { value = "bench" }
task_id = "task"
instruction = "instruction"
agent = { value = "a" }
model = { value = "m" }
[trajectory.verifier]
reward = "reward"
[trajectory.steps]
path = "steps"
empty = "not_recorded"
message = "message"
observation = "output"
action.call = "call"
[labels.human]
requires = ["id"]
source_id = "id"
labeler = { value = "anna" }
[labels.human.decision]
path = "reward"
map = { "1" = "satisfied", "0" = "not_satisfied" }
"""


def rows(count: int, *, size: int = 20_000, seed: int = 1) -> Iterator[bytes]:
    """JSON lines of about `size` bytes: ten steps of words that compress as text does."""
    chance = random.Random(seed)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(4000)]
    for number in range(count):
        steps = [
            {"message": "look", "call": f"cat f{step}", "output": " ".join(chance.choices(words, k=size // 65))}
            for step in range(10)
        ]
        task = f"task-{number % 500}"
        row = {"id": f"t{number}", "task": task, "instruction": f"Do {task}.", "reward": number % 2, "steps": steps}
        yield orjson.dumps(row) + b"\n"


def write(folder: Path, count: int) -> tuple[Path, Path]:
    """The data and its mapping."""
    data, mapping = folder / f"rows-{count}.jsonl", folder / "mapping.toml"
    with data.open("wb") as file:
        file.writelines(rows(count))
    mapping.write_text(MAPPING, encoding="utf-8")
    return data, mapping


def bare(data: Path) -> float:
    """Seconds of CPU for reading, hashing, parsing and compressing."""
    start, compressor = time.process_time(), zstandard.ZstdCompressor(3)
    with data.open("rb") as file:
        for line in file:
            hashlib.sha256(line).hexdigest()
            orjson.loads(line)
            compressor.compress(line)
    return time.process_time() - start


def manage(home: Path, *arguments: str) -> tuple[float, float, int]:
    """Seconds of CPU, seconds by the clock and peak bytes of one command in an empty data folder."""
    environment = {
        **os.environ,
        "ASSAY_HOME": str(home),
        "LOG_LEVEL": "ERROR",
        "DJANGO_SETTINGS_MODULE": "auditapp.settings",
    }
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    report = home / "usage.json"
    script = (
        "import json, resource, sys\nfrom django.core.management import execute_from_command_line as run\n"
        "try:\n run(['manage.py', *sys.argv[2:]])\nexcept SystemExit: pass\n"
        "json.dump(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, open(sys.argv[1], 'w'))\n"
    )
    subprocess.run(
        [sys.executable, "-c", script, report, *arguments], env=environment, check=True, stdout=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.monotonic() - start, json.loads(report.read_text())


def imported(data: Path, mapping: Path) -> tuple[float, float, int]:
    """The cost of importing, without that of starting: an empty database and Django's own imports are taken off."""
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        manage(home, "migrate", "-v0")
        idle = manage(home, "check")
        options = ("--dataset", "bench", "--format", "jsonl", "--mapping", str(mapping), "--json")
        cpu, clock, peak = manage(home, "import_trajectories", str(data), *options)
        labels = ("--dataset", "bench", "--kind", "human", "--mapping", str(mapping), "--json")
        label_clock = manage(home, "import_labels", str(data), *labels)[1]
        print(f"  peak {peak / 1e6:.0f} MB, labels {label_clock - idle[1]:.1f} s")
        return cpu - idle[0], clock - idle[1] + label_clock - idle[1], peak


def test_speed_against_a_bare_pass_and_flat_memory(tmp_path: Path) -> None:
    """Aim: 0.2 of the bare pass. Memory may grow by less than 0.15 from 1,000 to 20,000 trajectories (seen: 0.11)."""
    found = {}
    for count in (1_000, 10_000, 20_000):
        data, mapping = write(tmp_path, count)
        base = bare(data)
        cpu, clock, peak = imported(data, mapping)
        found[count] = (base / cpu, peak)
        print(
            f"{count:6} trajectories of 20 kB with labels: {clock:5.1f} s, {cpu / count * 1e3:.2f} ms CPU each, "
            f"{base / cpu:.2f} of a bare pass"
        )
    growth = found[20_000][1] / found[1_000][1]
    print(f"speed at 20,000: {found[20_000][0]:.2f} of a bare pass (aim 0.2); peak memory against 1,000: {growth:.2f}")
    assert growth < 1.15
