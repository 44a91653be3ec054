"""What a caller may say about an import, and the bounds that hold for every format."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from judges.records import VerifierStatus

PartialAs = Literal["fail", "exclude"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what one file or folder may cost; sizes in bytes. What is larger is refused, with its size."""

    json_bytes: int = 64 * 2**20
    text_bytes: int = 16 * 2**20
    file_bytes: int = 64 * 2**20
    tree_bytes: int = 512 * 2**20
    tree_files: int = 20_000
    segments: int = 100


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Choices of the person who imports; the defaults are those of the command line.

    `verifier` names the reward or scorer to use, `environment` overrides what the format says,
    `tasks` is a folder of task folders, `mapping` a TOML file that says which field is what.
    """

    tasks: Path | None = None
    pass_threshold: float = 1.0
    partial_as: PartialAs = "exclude"
    verifier: str | None = None
    environment: str | None = None
    mapping: Path | None = None
    limits: Limits = Limits()

    def status(self, reward: float | None) -> VerifierStatus:
        """The verifier status of a valid reward: no reward is none, never fail; what partial counts as comes later."""
        if reward is None:
            return "none"
        if reward >= self.pass_threshold:
            return "pass"
        return "partial" if reward > 0 else "fail"
