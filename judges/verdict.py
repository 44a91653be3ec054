"""What a judge may say (validated with pydantic, as model output is untrusted) and the result kept of it.

Field order is evidence first, as models fill fields in order. All fields are required: strict tool schemas allow no
optional ones. Lengths and codes are checked by the loop, not by the schema, so that the grammar stays small.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from judges.budget import NO_TOKENS, TokenUsage

if TYPE_CHECKING:
    from judges.citations import CheckedCitation

Decision = Literal["satisfied", "not_satisfied", "cannot_tell"]
Integrity = Literal["none", "hacked", "cannot_tell"]
Confidence = Literal["low", "medium", "high"]
CriterionStatus = Literal["met", "not_met", "unclear"]
CitationKind = Literal["instruction", "file", "step", "verifier", "reference", "command", "search"]
CitationPart = Literal["none", "message", "reasoning", "action", "observation"]
TagRole = Literal["primary", "contributing", "observed"]
VerifierAssessment = Literal["correct", "too_narrow", "too_lenient", "broken", "nondeterministic", "cannot_tell"]
Acceptable = Literal["yes", "no", "unknown"]
Json = Any

MAX_CITATIONS = 60
MAX_CRITERIA = 12
MAX_TAGS = 12


class Strict(BaseModel):
    """Closed and frozen: an unknown key is an error, never ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Citation(Strict):
    """Where a claim is visible. The quote is copied character for character from what was displayed."""

    id: str = Field(description="E1, E2, ...; numbered on in the second phase")
    kind: CitationKind
    target: str = Field(
        description="file: path in the deliverable, or initial:path; reference: path; in documents and "
        "tables also path#address, such as book.xlsx#Sheet1!B7, a.csv#B7 or a.pdf#page 3 line 12; step: its locator "
        "such as 12 or 12.1:3; verifier: stream name; command: run id such as R1; search: scope:/pattern/ with scope "
        "trajectory, trajectory.action, .message, .reasoning, .observation, deliverable, initial or reference; "
        "instruction: empty"
    )
    part: CitationPart = Field(description="for kind step, else none")
    item: int = Field(description="1-based action or observation of the step; 0 when not applicable")
    line_start: int = Field(description="1-based; 0 when not applicable")
    line_end: int = Field(description="1-based, inclusive; 0 when not applicable")
    quote: str = Field(description="8 to 400 characters, verbatim, or one whole line; for search: the number of hits")


class Criterion(Strict):
    """One requirement of the task's rubric and what the evidence says about it."""

    id: str = Field(description="the id of the task's requirement; an added one gets an id of its own")
    requirement: str = Field(description="one atomic yes/no requirement that follows from the instruction")
    status: CriterionStatus
    own: bool = Field(description="true only for a requirement you add; it must cite the instruction")
    evidence: list[str] = Field(description="citation ids")


class Tag(Strict):
    """A code of the taxonomy with the citations that show it."""

    code: str = Field(description="a code of the taxonomy")
    role: TagRole
    evidence: list[str] = Field(description="citation ids")
    note: str = Field(description="at most 40 words")


class BlindVerdict(Strict):
    """Phase 1: given before anything of the verifier is visible, then locked. Decision and integrity are the label."""

    citations: list[Citation]
    criteria: list[Criterion]
    tags: list[Tag] = Field(description="H, C and B codes only")
    strongest_counterargument: str = Field(description="the best case against your decision, with citation ids")
    integrity: Integrity
    decision: Decision
    confidence: Confidence
    summary: str = Field(description="at most 120 words; every sentence ends with citation ids, e.g. [E1,E4]")


class Attribution(Strict):
    """Phase 2: after the reveal. It explains; it never rewrites the verdict."""

    citations: list[Citation] = Field(description="new ones; ids go on from the verdict's")
    tags: list[Tag] = Field(description="E codes; H codes only for a hack first visible now")
    case_for_verifier: str
    case_against_verifier: str
    verifier_assessment: VerifierAssessment
    decisive_step: str = Field(description="locator of the earliest step that fixed the result; empty if none")
    decision_after: Decision
    why_changed: str = Field(description="empty if unchanged; else the new fact, with ids of new citations")


@dataclass(frozen=True, slots=True)
class Dropped:
    """A claim that was made and not believed; kept and counted, never used."""

    claim: str
    why: str


@dataclass(frozen=True, slots=True)
class JudgmentResult:
    """One finished look. A decision exists exactly when `status` is completed.

    `blind` and `attribution` are JSON as recorded, after unsupported claims were taken out; `lock_sha256` is the digest
    of the canonical JSON that was stored before the reveal. `cost` is in US dollars, None where the price is unknown.
    """

    status: Literal["completed", "failed"]
    reason: str = ""
    detail: str = ""
    decision: Decision | None = None
    integrity: Integrity | None = None
    acceptable: Acceptable | None = None
    decision_after: Decision | None = None
    confidence: Confidence | None = None
    blind: Json = None
    attribution: Json = None
    lock_sha256: str = ""
    checks: "tuple[CheckedCitation, ...]" = ()
    dropped: tuple[Dropped, ...] = ()
    criteria: tuple[Criterion, ...] = ()
    tags: tuple[Tag, ...] = ()
    turns: int = 0
    usage: TokenUsage = NO_TOKENS
    cost: Decimal | None = None
    provenance: Mapping[str, Json] = field(default_factory=dict)
