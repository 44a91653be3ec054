"""The demo archive: written so that the same input gives the same bytes, and read back as files by path."""

import gzip
import io
import json
import tarfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from auditapp.demo.model import Files

ARCHIVE = Path(__file__).parent / "demo.tar.gz"
TRUTH = Path(__file__).parent / "truth.json"
MTIME = 1_772_442_000  # 2026-03-02 09:00 UTC


@dataclass(frozen=True, slots=True)
class TruthRow:
    """What is known by construction about one trajectory; `case` is its folder in the archive."""

    case: str
    environment: str
    task_id: str
    agent: str
    attempt: int
    behavior: str
    verifier_status: str
    decision: str
    integrity: str
    acceptable: str
    outcome: str
    tags: tuple[str, ...]
    planted: bool
    kind: str
    note: str


def write_archive(path: Path, files: Files) -> None:
    """Gzipped tar of the files in order of path, with fixed owner, mode and date."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            tar.addfile(_member(name, files[name]), io.BytesIO(files[name]))
    path.write_bytes(gzip.compress(raw.getvalue(), compresslevel=9, mtime=0))


def _member(name: str, body: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mtime = len(body), MTIME
    member.mode = 0o755 if body.startswith(b"#!") else 0o644
    return member


def read_archive(path: Path = ARCHIVE) -> dict[str, bytes]:
    """Files of the archive by path."""
    with tarfile.open(path) as tar:
        return {member.name: stream.read() for member in tar if (stream := tar.extractfile(member))}


def write_truth(path: Path, rows: Iterable[TruthRow]) -> None:
    """One row a line, so that a change of the demo can be read as a diff."""
    lines = ",\n".join(json.dumps(asdict(row), ensure_ascii=False) for row in rows)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def read_truth(path: Path = TRUTH) -> list[TruthRow]:
    """The shipped truth table."""
    return [TruthRow(**{**row, "tags": tuple(row["tags"])}) for row in json.loads(path.read_text(encoding="utf-8"))]
