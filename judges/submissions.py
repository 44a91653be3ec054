"""Receives the two submissions of a judgment: checks, asks again, records, locks and reveals."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from judges import prompts
from judges.citations import CheckedCitation, Checker
from judges.claims import Recorded, settle_attribution, settle_verdict, unique_citations
from judges.display import safe_name
from judges.errors import JudgmentFailed
from judges.ledger import Ledger, Phase
from judges.messages import ToolCall, ToolResult
from judges.records import Revealed, canonical_json
from judges.tools import Toolbox, problems
from judges.toolschemas import SUBMIT_ATTRIBUTION, SUBMIT_VERDICT
from judges.verdict import Attribution, BlindVerdict, Citation, Dropped

SUBMIT: dict[Phase, str] = {1: SUBMIT_VERDICT, 2: SUBMIT_ATTRIBUTION}


@dataclass(slots=True)
class Desk:
    """What was submitted so far. `left` is how often the current phase may still be asked again."""

    tools: Toolbox
    checker: Checker
    ledger: Ledger
    left: int = 0
    blind: Recorded[BlindVerdict] | None = None
    attribution: Recorded[Attribution] | None = None
    lock_sha256: str = ""

    def done(self, phase: Phase) -> bool:
        """Whether the phase's submission is recorded."""
        return (self.blind if phase == 1 else self.attribution) is not None

    def receive(self, call: ToolCall, phase: Phase) -> ToolResult:
        """Record a submission or send its problems back; JudgmentFailed where it cannot be read after all re-asks."""
        try:
            if call.arguments is None:
                return self._again(call, [call.error])
            text, asked = self._verdict(call) if phase == 1 else self._attribution(call)
        except ValidationError as error:
            return self._again(call, [f"invalid: {problems(error)}"])
        return ToolResult(call.id, call.name, text, is_error=asked)

    def _again(self, call: ToolCall, found: Sequence[str]) -> ToolResult:
        if self.left <= 0:
            raise JudgmentFailed("invalid_output", "; ".join(found))
        return ToolResult(call.id, call.name, self._problems(found), is_error=True)

    def _problems(self, found: Sequence[str]) -> str:
        # Hints quote the material, so they stay inside a frame.
        self.left -= 1
        lines = "\n".join(f"- {line}" for line in found[:40])
        return prompts.render("reask", left=self.left, problems=self.tools.framed("problems", lines))

    def _verdict(self, call: ToolCall) -> tuple[str, bool]:
        verdict = BlindVerdict.model_validate(call.arguments)
        unique, drops = unique_citations(verdict.citations, ())
        found = self._settled(verdict.model_copy(update={"citations": unique}), drops)
        if found.dropped and self.left > 0:
            return self._problems(_lines(found.dropped)), True
        return self._reveal(self.record(found)), False

    def _settled(self, verdict: BlindVerdict, drops: Sequence[Dropped] = ()) -> Recorded[BlindVerdict]:
        return settle_verdict(verdict, self._checked(verdict.citations, 1), self.tools.case.rubric, drops)

    def settle(self, verdict: BlindVerdict) -> None:
        """Record a verdict that no model gave; nobody can be asked again."""
        self.record(self._settled(verdict))

    def adopt(self, stored: bytes) -> None:
        """Take over the verdict that an earlier execution locked: it was as blind as this one, and it came first."""
        verdict = BlindVerdict.model_validate_json(stored)
        self.blind = Recorded(verdict, tuple(self._checked(verdict.citations, 1)), ())
        self.lock_sha256 = hashlib.sha256(stored).hexdigest()

    def record(self, found: Recorded[BlindVerdict]) -> Revealed:
        """Lock the verdict durably, then reveal the verifier to the tools; LockConflict where another one is locked."""
        document = canonical_json(found.content.model_dump(mode="json"))
        self.ledger.lock(document)
        self.lock_sha256 = hashlib.sha256(document).hexdigest()
        self.blind = found
        self.tools.revealed = self.ledger.reveal()
        return self.tools.revealed

    def _reveal(self, revealed: Revealed) -> str:
        verifier = revealed.verifier
        names = ", ".join(safe_name(name) for name, _, _ in self.tools.verifier_files())
        return prompts.render(
            "reveal",
            lock=self.lock_sha256[:12],
            status=verifier.status.upper(),
            reward="" if verifier.reward is None else f", reward {verifier.reward:g}",
            streams=names or "no output was recorded",
        )

    def _attribution(self, call: ToolCall) -> tuple[str, bool]:
        if self.blind is None:
            raise RuntimeError("the second phase begins after the lock")
        attribution = Attribution.model_validate(call.arguments)
        unique, drops = unique_citations(attribution.citations, [item.id for item in self.blind.content.citations])
        steps = self.tools.case.steps
        found = settle_attribution(
            attribution.model_copy(update={"citations": unique}),
            self._checked(unique, 2),
            self.blind,
            drops,
            is_step=not attribution.decisive_step or steps.position(attribution.decisive_step) is not None,
        )
        if found.dropped and self.left > 0:
            return self._problems(_lines(found.dropped)), True
        self.attribution = found
        return "Recorded.", False

    def _checked(self, citations: Sequence[Citation], phase: Phase) -> list[CheckedCitation]:
        return [self.checker.check(citation, phase) for citation in citations]


def _lines(dropped: Sequence[Dropped]) -> list[str]:
    return [f"{item.claim}: {item.why}" for item in dropped]
