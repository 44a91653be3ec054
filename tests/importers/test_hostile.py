"""Bad input to every format: a clear line for each file, no exception, no hang, no more memory than allowed.

Inputs are read in processes whose address space is limited to 1 GiB (probe.py), one process per kind of trouble.
"""

import gzip
import io
import json
import os
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from auditapp.importers import FORMATS

ROOT = Path(__file__).resolve().parents[2]
PROBE = Path(__file__).with_name("probe.py")
SECONDS = 60
# The interpreter and the libraries need about 60 MB; a document at the limit of 16 MiB costs a multiple of its size.
PEAK_MB = 400

STEP = {"step_id": 1, "source": "agent", "message": "MARK", "tool_calls": [], "observation": {"results": []}}
ATIF = {"schema_version": "ATIF-v1.6", "session_id": "s", "agent": {"name": "a", "version": "1"}, "steps": [STEP]}
ROW = {"action": "ls", "observation": "MARK", "response": "", "thought": "", "execution_time": 1.0}
GOOD: dict[str, Any] = {
    "atif": ATIF,
    "inspect": {
        "eval": {"eval_id": "e", "task": "t"},
        "status": "success",
        "samples": [{"id": 1, "epoch": 1, "input": "MARK", "messages": [], "scores": {"match": {"value": 1.0}}}],
    },
    "swe_agent": {"trajectory": [ROW], "history": [], "info": {"exit_status": "submitted", "submission": "MARK"}},
    "harbor": {
        "task_name": "t",
        "trial_name": "t__1",
        "agent_info": {"name": "MARK", "version": "1"},
        "verifier_result": {"rewards": {"reward": 1.0}},
    },
    "case": {"task_id": "t", "environment": "e", "agent": "MARK", "verifier": {"status": "pass", "reward": 1.0}},
    "tau_bench": {"task_id": 1, "reward": 1.0, "info": {}, "traj": [{"role": "user", "content": "MARK"}], "trial": 0},
    "jsonl": {"id": "1", "env": "e", "score": 1, "steps": [{"text": "MARK"}]},
}
NAMES = {
    "atif": "trajectory.json",
    "inspect": "log.json",
    "swe_agent": "issue-1.traj",
    "harbor": "job/t__1/result.json",
    "case": "one/case.json",
    "tau_bench": "results.json",
    "jsonl": "rows.jsonl",
}
MAPPING = """
[trajectory]
source_id = "id"
environment = "env"
task_id = "id"
verifier = { reward = "score" }
steps = { path = "steps", message = "text" }
"""


Outcome = dict[str, Any]


def probe(*jobs: tuple[str, Path]) -> list[Outcome]:
    """What came of reading each path; fails on an exception, a hang or too much memory."""
    told = [(what, str(path), str(mapping_for(path)) if what == "jsonl" else None) for what, path in jobs]
    done = subprocess.run(
        [sys.executable, str(PROBE)],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr, done.stderr[-2000:]
    outcomes: list[Outcome] = json.loads(done.stdout)
    for job, outcome in zip(jobs, outcomes, strict=True):
        assert "exception" not in outcome, (job, outcome["exception"])
        assert outcome["peak_mb"] < PEAK_MB, (job, outcome)
    return outcomes


def mapping_for(path: Path) -> Path:
    mapping = path.parent / "mapping.toml"
    mapping.write_text(MAPPING)
    return mapping


def placed(folder: Path, format_name: str, body: bytes | Callable[[Path], object]) -> Path:
    """The input to import: the file itself, or for formats of folders the folder that holds it."""
    file = made(folder / NAMES[format_name], body)
    return folder if format_name in ("harbor", "case") else file


def made(file: Path, body: bytes | Callable[[Path], object]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    if callable(body):
        body(file)
    else:
        file.write_bytes(body)
    return file


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**30)


def sparse_after_start(path: Path) -> None:
    with path.open("wb") as file:
        file.write(b'{"agent": {"name": "')
        file.truncate(2**30)


UNUSABLE: dict[str, bytes | Callable[[Path], object]] = {
    "empty": b"",
    "blank": b" \r\n\t\n",
    "truncated": b'{"schema_version": "ATIF-v1.6", "agent": {"name": "a", "version": "1"}, "steps": [{"mess',
    "not JSON": b"PK\x03\x04 is no JSON \xff\xfe\x00",
    "number": b"12",
    "list of numbers": b"[1, 2, 3]",
    "depth 100,000 of lists": b"[" * 100_000 + b"]" * 100_000,
    "depth 100,000 of objects": b'{"steps":' * 100_000 + b"1" + b"}" * 100_000,
    "NUL bytes": b"\0" * 100_000,
    "sparse GB": sparse,
    "sparse GB after a start": sparse_after_start,
    "gigantic line": b'{"agent": "' + b"x" * (64 << 20) + b'"}',
    "gigantic line of escapes": b'{"agent": "' + b"\\n" * (32 << 20) + b'"}',
    "gigantic list": b"[" + b"[]," * (16 << 20) + b"[]]",
    "UTF-16": json.dumps(ATIF).encode("utf-16"),
    "FIFO": os.mkfifo,
    "folder": lambda path: path.mkdir(),
    "dangling link": lambda path: path.symlink_to("/nowhere/at/all"),
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
}


OTHERS = {"detect": "x.json", "labels": "l.jsonl", "labels of a table": "l.csv", "unpack": "a.zip"}


@pytest.fixture(scope="module", params=list(UNUSABLE))
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Outcome]]:
    """The folder of one trouble's files, and what every format and step made of them."""
    folder, body = tmp_path_factory.mktemp("trouble"), UNUSABLE[request.param]
    jobs = {name: (name, placed(folder / name, name, body)) for name in FORMATS}
    jobs |= {what: (what.split()[0], made(folder / what / name, body)) for what, name in OTHERS.items()}
    return folder, dict(zip(jobs, probe(*jobs.values()), strict=True))


def test_an_unusable_file_is_one_clear_failure_in_every_format(told: tuple[Path, dict[str, Outcome]]) -> None:
    folder, outcomes = told
    for name in (*FORMATS, "labels", "labels of a table"):
        outcome = outcomes[name]
        assert (outcome["good"], len(outcome["failures"])) == (0, 1), (name, outcome)
        ((path, reason),) = outcome["failures"]
        assert len(reason) > 10, (name, reason)
        assert path, name
        assert str(folder) not in path, "a failure names the file as the importer knows it"


def test_detection_and_unpacking_say_so_too(told: tuple[Path, dict[str, Outcome]]) -> None:
    folder, outcomes = told
    assert len(outcomes["detect"]["reason"]) > 10
    assert outcomes["unpack"]["failure"]
    assert [path.name for path in (folder / "unpack").iterdir()] == ["a.zip"]


def good(format_name: str, mark: str = "MARK") -> str:
    return json.dumps(GOOD[format_name]).replace("MARK", mark)


ODD: dict[str, Callable[[str], bytes]] = {
    "byte order mark": lambda name: b"\xef\xbb\xbf" + good(name).encode(),
    "CRLF": lambda name: good(name).encode() + b"\r\n\r\n",
    "latin-1": lambda name: good(name, "caf\xe9").encode("latin-1"),
    "NUL in text": lambda name: good(name, "a\\u0000b").encode(),
    "raw NUL in text": lambda name: good(name, "a\0b").encode(),
    "lone surrogates": lambda name: good(name, "\\ud800 \\udfff").encode(),
    "NaN": lambda name: good(name).replace("1.0", "NaN").replace('"score": 1', '"score": Infinity').encode(),
    "number of 400 digits": lambda name: good(name).replace("1.0", "9" * 400).encode(),
    "nested 500 deep in a field": lambda name: good(name).replace('"MARK"', "[" * 500 + "]" * 500).encode(),
    "duplicate keys": lambda name: ('{"agent": 1, "steps": 2, ' + good(name)[1:]).encode(),
    "wrong type in a field": lambda name: good(name).replace('"MARK"', "{}").encode(),
}


NEEDED_REPAIR = {
    "byte order mark": None,
    "CRLF": None,
    "latin-1": "invalid_utf8",
    "NUL in text": "nul_character",
    "lone surrogates": "lone_surrogate",
}


@pytest.mark.parametrize("format_name", FORMATS)
def test_odd_files_are_read_with_repairs_or_refused_in_one_line(tmp_path: Path, format_name: str) -> None:
    bodies = {trouble: build(format_name) for trouble, build in ODD.items()}
    jobs = [(format_name, placed(tmp_path / trouble, format_name, body)) for trouble, body in bodies.items()]
    for trouble, outcome in zip(bodies, probe(*jobs), strict=True):
        assert outcome["good"] + len(outcome["failures"]) == 1, (trouble, outcome)
        if trouble in NEEDED_REPAIR:
            assert outcome["good"] == 1, (trouble, outcome)
            assert NEEDED_REPAIR[trouble] in [None, *outcome["warnings"]], (trouble, outcome)


@pytest.mark.parametrize("format_name", FORMATS)
def test_paths_with_nothing_to_read_say_so(tmp_path: Path, format_name: str) -> None:
    (tmp_path / "in" / "readme").mkdir(parents=True)
    (tmp_path / "in" / "readme" / "notes.txt").write_text("nothing here")
    os.mkfifo(tmp_path / "fifo.json")
    paths = (tmp_path / "in", tmp_path / "missing.json", tmp_path / "fifo.json")
    for path, outcome in zip(paths, probe(*((format_name, path) for path in paths)), strict=True):
        assert (outcome["good"], len(outcome["failures"])) == (0, 1), (path, outcome)


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    jobs = []
    for name in FORMATS:
        file = made(tmp_path / "outside" / NAMES[name], good(name).encode())
        inside = tmp_path / "in" / name
        inside.mkdir(parents=True)
        (inside / "link").symlink_to(file.parent)
        (inside / file.name).symlink_to(file)
        (inside / "loop").symlink_to(inside)
        jobs.append((name, inside))
    for name, outcome in zip(FORMATS, probe(*jobs), strict=True):
        assert outcome["good"] == 0, (name, outcome)
        assert outcome["failures"], name


def bomb_zip() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("zeros.json", "w") as member:
        for _ in range(100):
            member.write(bytes(2**20))
    return buffer.getvalue()


def bomb_tar() -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb") as packed:
        info = tarfile.TarInfo("zeros.json")
        info.size = 100 * 2**20
        packed.write(info.tobuf())
        for _ in range(100):
            packed.write(bytes(2**20))
        packed.write(bytes(1024))
    return buffer.getvalue()


def huge_directory() -> bytes:
    """A zip whose list of members would need a gigabyte in memory."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", b"")
    raw = buffer.getvalue()
    start, end = raw.index(b"PK\x01\x02"), raw.index(b"PK\x05\x06")
    entries = raw[start:end] * 1_000_000
    tail = raw[end : end + 12] + len(entries).to_bytes(4, "little") + start.to_bytes(4, "little") + b"\0\0"
    return raw[:start] + entries + tail


@pytest.mark.parametrize("build", [bomb_zip, bomb_tar, huge_directory])
def test_bombs_leave_nothing_and_cost_no_memory(tmp_path: Path, build: Callable[[], bytes]) -> None:
    (tmp_path / "bomb").write_bytes(build())
    (outcome,) = probe(("unpack", tmp_path / "bomb"))
    assert outcome["failure"], outcome
    assert [path.name for path in tmp_path.iterdir()] == ["bomb"]


def bomb_log() -> bytes:
    """A log of a good sample and 2,000 that are all one member of 15 MB of blanks, a little less than the limit."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(GOOD["inspect"]))
        archive.writestr("samples/0_epoch_1.json", json.dumps(GOOD["inspect"]["samples"][0]))
        archive.writestr("samples/10000_epoch_1.json", b" " * (15 << 20))
    raw = buffer.getvalue()
    start, end = raw.index(b"PK\x01\x02"), raw.index(b"PK\x05\x06")
    entry = raw[raw.rindex(b"PK\x01\x02") : end]
    more = b"".join(entry.replace(b"10000", str(number).encode()) for number in range(10_001, 12_000))
    listed = struct.pack("<HHLL", 2_002, 2_002, end - start + len(more), start)
    return raw[:end] + more + raw[end : end + 8] + listed + b"\0\0"


@pytest.mark.parametrize("build", [bomb_zip, huge_directory])
def test_logs_that_are_bombs_are_one_failure(tmp_path: Path, build: Callable[[], bytes]) -> None:
    (tmp_path / "bomb.eval").write_bytes(build())
    (outcome,) = probe(("inspect", tmp_path / "bomb.eval"))
    assert (outcome["good"], len(outcome["failures"])) == (0, 1), outcome


def test_a_log_that_unpacks_without_end_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "bomb.eval").write_bytes(bomb_log())
    (outcome,) = probe(("inspect", tmp_path / "bomb.eval"))
    assert outcome["good"] == 1
    assert len(outcome["failures"]) < 50, outcome
    assert "as a zip bomb does; it was not read from sample" in outcome["failures"][-1][1]
