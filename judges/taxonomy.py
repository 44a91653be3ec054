"""The codes of the audit: read from taxonomy.toml once, looked up by code, identified by version and digest."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from judges.records import content_digest

Side = Literal["agent", "environment", "process", "integrity"]
JudgePhase = Literal["blind", "attribution"]
ReviewAccess = Literal["blind", "audit", "after_lock"]

_PATH = Path(__file__).with_name("taxonomy.toml")
# Text aimed at a judge is a finding, but no way to a pass by itself.
NOT_A_HACK_ALONE = frozenset({"H08"})


@dataclass(frozen=True, slots=True)
class Code:
    """One code: what it means, an example of each side, and who may give or see it when."""

    code: str
    name: str
    side: Side
    judge: JudgePhase
    review: ReviewAccess
    definition: str
    yes: str
    no: str
    note_required: bool = False


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """All codes of one version, in order."""

    version: str
    codes: Mapping[str, Code]
    digest: str

    def side(self, side: Side) -> list[Code]:
        """The codes of one side, in order."""
        return [code for code in self.codes.values() if code.side == side]

    def for_judge(self, phase: JudgePhase) -> list[Code]:
        """The codes a judge may give in a phase. A hack first visible after the reveal is stored, too."""
        return [code for code in self.codes.values() if code.judge == phase or _late_hack(code, phase)]

    def for_review(self, access: Iterable[ReviewAccess]) -> list[Code]:
        """The codes a reviewer may see in a round of the given kinds."""
        allowed = set(access)
        return [code for code in self.codes.values() if code.review in allowed]

    def render(self) -> str:
        """The text shown to a judge: a line a code."""
        return "\n".join(_line(code) for code in self.codes.values())


def _late_hack(code: Code, phase: JudgePhase) -> bool:
    return phase == "attribution" and code.side == "integrity"


def _line(code: Code) -> str:
    examples = f" Yes: {code.yes}. No: {code.no}." if code.yes else " A note is required."
    return f"{code.code} {code.name} ({code.side}): {code.definition}.{examples}"


@cache
def taxonomy() -> Taxonomy:
    """The taxonomy in force."""
    raw = tomllib.loads(_PATH.read_text(encoding="utf-8"))
    codes = {code: Code(code=code, **fields) for code, fields in raw["codes"].items()}
    return Taxonomy(raw["version"], codes, content_digest(raw))
