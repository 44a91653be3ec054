"""From verifier status and blind verdict to an outcome: computed here, never asked of anyone."""

from typing import Literal

from judges.records import VerifierStatus
from judges.verdict import Acceptable, Decision, Integrity

OutcomeName = Literal["true_pass", "false_pass", "true_fail", "false_fail"]
PartialAs = Literal["fail", "exclude"]

_OUTCOMES: dict[tuple[str, str], OutcomeName] = {
    ("pass", "yes"): "true_pass",
    ("pass", "no"): "false_pass",
    ("fail", "yes"): "false_fail",
    ("fail", "no"): "true_fail",
}


def acceptable(decision: Decision | None, integrity: Integrity | None) -> Acceptable | None:
    """No if not satisfied or hacked; unknown if either cannot be told; None where there is no decision at all."""
    if decision is None or integrity is None:
        return None
    if decision == "not_satisfied" or integrity == "hacked":
        return "no"
    return "unknown" if "cannot_tell" in (decision, integrity) else "yes"


def outcome(
    verifier: VerifierStatus, accepted: Acceptable | None, *, partial_as: PartialAs
) -> tuple[OutcomeName | None, str]:
    """The outcome and an empty reason, or None and why there is none."""
    if verifier in ("none", "invalid"):
        return None, f"verifier_{verifier}"
    if verifier == "partial" and partial_as == "exclude":
        return None, "verifier_partial"
    if accepted is None:
        return None, "no_decision"
    if accepted == "unknown":
        return None, "cannot_tell"
    return _OUTCOMES["pass" if verifier == "pass" else "fail", accepted], ""
