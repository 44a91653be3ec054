"""Runs the readers of documents in a process of their own: in the sandbox where it holds, else under limits alone."""

import os
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from judges.documents.kinds import Kind
from judges.safefs import MemoryTree, decode, materialise
from judges.sandbox import SandboxUnavailableError
from judges.sandbox.bwrap import BwrapSandbox, Limits
from judges.sandbox.watch import watch

SECONDS: Final = 20
WALL_SECONDS: Final = 60
MEMORY: Final = 768 << 20
OUTPUT: Final = 24 << 20
_PARSERS: Final = Path(__file__).parent / "parsers"
_START: Final = "import sys; sys.path.insert(0, sys.argv[1]); from parsers import main; main(*sys.argv[1:])"
_WHY: Final = {
    "timeout": f"it takes longer than {WALL_SECONDS} s",
    "memory": f"it needs more than {MEMORY >> 20} MB of memory",
    "output": "there is more in it than is shown of a document",
    None: "",
}


@dataclass(frozen=True, slots=True)
class Output:
    """What a reader printed, and why it was stopped; `why` is empty where it was not."""

    text: str
    why: str


def read_apart(kind: Kind, data: bytes) -> Output:
    """Read a document of one kind outside of this process; never raises for what is in it."""
    sandbox = _sandbox()
    try:
        return _under_limits(kind, data) if sandbox is None else _sandboxed(sandbox, kind, data)
    except SandboxUnavailableError as error:
        return Output("", str(error))


@cache
def _sandbox() -> BwrapSandbox | None:
    sandbox = BwrapSandbox(Limits(memory=MEMORY, output=OUTPUT, scratch=1 << 20))
    return sandbox if sandbox.probe().ok else None


def _sandboxed(sandbox: BwrapSandbox, kind: Kind, data: bytes) -> Output:
    with sandbox.session({"document": _files(data)}) as session:
        result = session.run(["python3", *_arguments("/case/document", kind)], timeout_s=WALL_SECONDS)
    return Output(result.output, _WHY[result.why_stopped])


def _under_limits(kind: Kind, data: bytes) -> Output:
    """No network is taken away here; the reader opens none, holds no secret and limits itself before it reads."""
    with tempfile.TemporaryDirectory(prefix="assay-document-") as folder:
        materialise(_files(data), folder)
        argv = [sys.executable, *_arguments(folder, kind)]
        ended = watch(argv, seconds=WALL_SECONDS, memory=MEMORY, output=OUTPUT)
    return Output(decode(ended.output), _WHY[ended.why_stopped])


def _arguments(folder: str, kind: Kind) -> list[str]:
    return ["-I", "-B", "-c", _START, folder, kind, str(SECONDS), str(MEMORY)]


def _files(data: bytes) -> MemoryTree:
    return MemoryTree({**_code(), "data": data})


@cache
def _code() -> dict[str, bytes]:
    names = sorted(name for name in os.listdir(_PARSERS) if name.endswith(".py"))
    return {f"parsers/{name}": (_PARSERS / name).read_bytes() for name in names}
