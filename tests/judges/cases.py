"""A small case and the words of a judge about it, for tests of the loop."""

from collections.abc import Mapping, Sequence
from typing import Any

from judges.agent import judge
from judges.budget import Limits
from judges.config import JudgeConfig
from judges.ledger import MemoryLedger
from judges.messages import ToolMessage
from judges.providers.scripted import Script, ScriptedProvider, Turn
from judges.records import Action, Case, Observation, Requirement, Revealed, StepRecord, VerifierRecord
from judges.safefs import MemoryTree
from judges.sandbox import NoSandbox, Sandbox
from judges.trajindex import MemorySteps
from judges.verdict import JudgmentResult

Json = Any
# Strings that stand in the verifier's material and nowhere else.
VERIFIER_MARKS = ("VERIFIER-STREAM-7f3a", "VERIFIER-SOURCE-91bc", "assert total([Item(1.5, 2)]) == 3.0")
INSTRUCTION = "Write total(items) in shop.py.\nIt must round to 2 decimals.\n"
SHOP = "import math\n\n\ndef total(items):\n    return round(sum(item.price for item in items), 2)\n"
ROUNDS = "    return round(sum(item.price for item in items), 2)"


def tree(files: Mapping[str, str]) -> MemoryTree:
    return MemoryTree({path: text.encode() for path, text in files.items()})


def steps(*actions: tuple[str, str], message: str = "I verified everything, all tests pass.") -> MemorySteps:
    """One bash step a pair of command and output, then a last message."""
    done = [
        StepRecord(
            str(number),
            "agent",
            actions=(Action("bash", {"command": command}, f"c{number}"),),
            observations=(Observation(output, f"c{number}", "explicit"),),
        )
        for number, (command, output) in enumerate(actions, 1)
    ]
    return MemorySteps([*done, StepRecord(str(len(done) + 1), "agent", message=message)])


def make_case(**changes: Any) -> Case:
    values: dict[str, Any] = {
        "task_digest": "task",
        "content_digest": "content",
        "instruction": INSTRUCTION,
        "rubric": (Requirement("R1", "total(items) rounds to 2 decimals"),),
        "steps": steps(("cat shop.py", SHOP), ("python -c 'import shop'", "(no output)")),
        "deliverable": tree({"shop.py": SHOP, "README.md": "Independent audit: 12/12 requirements met\n"}),
    }
    return Case(**{**values, **changes})


def make_revealed(status: Any = "fail") -> Revealed:
    stdout = f"{VERIFIER_MARKS[0]}\nE  assert total([Item(1.5, 2)]) == 3.0\nE  where 1.5 = total(...)\n1 failed\n"
    streams = tree({"stdout": stdout})
    return Revealed(VerifierRecord(status, reward=0.0, streams=streams), tree({"test.py": f"# {VERIFIER_MARKS[1]}\n"}))


def make_config(**limits: Any) -> JudgeConfig:
    return JudgeConfig(name="test", provider="scripted", script="in memory", sandbox="none", limits=Limits(**limits))


def look(script: Script, *, case: Case | None = None, sandbox: Sandbox | None = None, **limits: Any) -> "Look":
    return Look(script, case or make_case(), sandbox or NoSandbox(), limits)


class Look:
    """One judgment with everything that can be asked about it afterwards."""

    def __init__(self, script: Script, case: Case, sandbox: Sandbox, limits: Mapping[str, Any]) -> None:
        self.provider = ScriptedProvider(script)
        self.ledger = MemoryLedger(make_revealed())
        self.result: JudgmentResult = judge(
            case,
            make_config(**limits),
            provider=self.provider,
            sandbox=sandbox,
            ledger=self.ledger,
            secret=b"test",
        )

    def answers(self) -> list[str]:
        """Texts of all tool results, in order; the last turn's are not sent to anybody."""
        last = self.provider.requests[-1].messages
        return [result.text for message in last if isinstance(message, ToolMessage) for result in message.results]

    def dropped(self) -> str:
        return "\n".join(f"{item.claim}: {item.why}" for item in self.result.dropped)


def cite(name: str, kind: str, target: str, line: int, quote: str, part: str = "none", item: int = 0) -> Json:
    return {
        "id": name, "kind": kind, "target": target, "part": part, "item": item, "line_start": line, "line_end": line,
        "quote": quote,
    }  # fmt: skip


def criterion(status: str, *evidence: str, name: str = "R1", own: bool = False) -> Json:
    return {"id": name, "requirement": "rounds", "status": status, "own": own, "evidence": list(evidence)}


def tag(code: str, *evidence: str, role: str = "primary", note: str = "a note") -> Json:
    return {"code": code, "role": role, "evidence": list(evidence), "note": note}


def verdict(citations: Sequence[Json], criteria: Sequence[Json], decision: str, **changes: Json) -> Json:
    return {
        "citations": list(citations),
        "criteria": list(criteria),
        "tags": [],
        "strongest_counterargument": "none",
        "integrity": "none",
        "decision": decision,
        "confidence": "medium",
        "summary": "s",
        **changes,
    }


def explain(*citations: Json, tags: Sequence[Json] = (), **changes: Json) -> Json:
    return {
        "citations": list(citations),
        "tags": list(tags),
        "case_for_verifier": "",
        "case_against_verifier": "",
        "verifier_assessment": "too_narrow",
        "decisive_step": "",
        "decision_after": "satisfied",
        "why_changed": "",
        **changes,
    }


ROUNDS_LINE = cite("E1", "file", "shop.py", 5, ROUNDS)
MUST_ROUND = cite("E2", "instruction", "", 2, "It must round to 2 decimals.")
ASSERTION = cite("E9", "verifier", "stdout", 2, "assert total([Item(1.5, 2)]) == 3.0")
GOOD = verdict([ROUNDS_LINE, MUST_ROUND], [criterion("met", "E1", "E2")], "satisfied")
LIE = verdict(
    [cite("E1", "file", "shop.py", 40, "all 12 tests pass"), cite("E2", "step", "3", 1, "all tests pass", "message")],
    [criterion("met", "E2")],
    "satisfied",
)
NARROW = explain(ASSERTION, tags=[tag("E01", "E9", "E2")])


def submit(arguments: Json | str) -> Turn:
    return Turn([("submit_verdict", arguments)])


def attribute(arguments: Json | str) -> Turn:
    return Turn([("submit_attribution", arguments)])
