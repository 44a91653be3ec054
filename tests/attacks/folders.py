"""The attack cases: folders with what an attacker recorded, what a captured judge then does, and what must hold.

case.json trajectory.json deliverable/ verifier/   the recorded attempt; `task_dir` names the task many share
judge.json                                         turns of a judge that obeys the attack, as provider "scripted"
                                                   reads them
expected.toml                                      what must hold; Expected and Case list the keys
"""

import json
import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.casefolder import CaseFolder, load_case
from tests.attacks import builders
from tests.fakes.steps import Step

Json = Any
CASES = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Expected:
    """What the result must be. `None` asks nothing; texts are parts of what must be found.

    `answers` stand in tool results of the blind phase, `later` in those after it, `dropped` among the claims that were
    not believed; `tags` are exactly those recorded; `requests` is how many were made.
    """

    status: str
    reason: str
    decision: str
    acceptable: str
    decision_after: str | None = None
    outcome: str | None = None
    requests: int | None = None
    tags: Sequence[str] | None = None
    answers: Sequence[str] = ()
    later: Sequence[str] = ()
    dropped: Sequence[str] = ()


@dataclass(frozen=True)
class Case:
    """One attack. `framed` texts may reach the judge only inside a frame, `absent` ones not at all, `shows` must.

    `seconds` bounds the judge's own time, `repeat` plays the last turn for ever, and `passes` marks what the mechanics
    cannot refuse.
    """

    name: str
    about: str
    expect: Expected
    limits: Json
    framed: Sequence[str] = ()
    absent: Sequence[str] = ()
    shows: Sequence[str] = ()
    builder: str = ""
    sandbox: str = "none"
    seconds: float = 30.0
    repeat: bool = False
    passes: bool = False

    @property
    def folder(self) -> Path:
        return CASES / self.name

    def load(self, scratch: Path) -> CaseFolder:
        """The case as the judge gets it; what git cannot hold is made in a copy below `scratch`."""
        if not self.builder:
            return load_case(self.folder)
        copy = scratch / "cases" / self.name
        if not copy.exists():
            shutil.copytree(self.folder, copy)
            shutil.copytree(CASES / "_task", copy.parent / "_task", dirs_exist_ok=True)
            getattr(builders, self.builder)(copy)
        return load_case(copy)

    def script(self) -> list[Step]:
        """The captured judge's turns, as the loopback provider plays them."""
        return [_step(turn) for turn in json.loads((self.folder / "judge.json").read_text(encoding="utf-8"))]


def _step(turn: Json) -> Step:
    if turn.get("stop") == "refusal":
        return Step(stop="refusal", refusal=turn["detail"])
    calls = [(call["name"], call["arguments"]) for call in turn["calls"]]
    return Step(text=turn.get("text", ""), calls=calls, stop="tool_use" if calls else "end_turn")


def attack_cases() -> list[Case]:
    """All cases, by name."""
    return [_read(path) for path in sorted(CASES.glob("A*/expected.toml"))]


def _read(path: Path) -> Case:
    told = tomllib.loads(path.read_text(encoding="utf-8"))
    limits = {"re_asks": 0, **told.pop("limits", {})}
    return Case(path.parent.name, expect=Expected(**told.pop("expect")), limits=limits, **told)
