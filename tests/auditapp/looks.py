"""A judged world in miniature: trajectories with one file and two steps, and scripted answers about them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest

from auditapp import blobs, judging
from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import JudgeConfig, JudgeRun
from auditapp.sampling import draw_sample, freeze_frame
from auditapp.stats.allocation import Plan
from judges.budget import TokenUsage
from judges.config import JudgeConfig as Config
from judges.messages import TurnRequest
from judges.providers.scripted import ScriptedProvider, Turn
from judges.records import Action, Observation, StepRecord
from judges.safefs import MemoryTree
from tests.auditapp.population import add_trajectory, make_task, make_version

INSTRUCTION = "Write the total of the invoice to answer.txt."
CONFIG = Config(name="test judge", provider="scripted", script=__file__, sandbox="none")
USAGE = TokenUsage(fresh=100, cache_read=50, output=20)
STEPS = (
    StepRecord("1", "user", message=INSTRUCTION),
    StepRecord(
        "2",
        "agent",
        message="I am done.",
        actions=(Action("bash", {"command": "cat answer.txt"}),),
        observations=(Observation("the total is 42 dollars"),),
    ),
)
LOOK = Turn([("list_files", {"root": "deliverable", "glob": "", "page": 1})], usage=USAGE)


@dataclass
class Paid(ScriptedProvider):
    """Scripted answers that cost something."""

    worst: Decimal | None = Decimal("0.10")

    def worst_cost(self, _request: TurnRequest) -> Decimal | None:
        return self.worst


def make_world(count: int = 1, *, status: str = "pass", tasks: int = 1, **version: Any) -> DatasetVersion:
    """A version with so many trajectories for each task."""
    made = make_version(**version)
    deliverable = blobs.put_tree(MemoryTree({"answer.txt": b"the total is 42 dollars\n"}))
    for number in range(tasks):
        task = make_task(made, f"invoice-{number}", instruction_blob=blobs.put_text(INSTRUCTION))
        for attempt in range(count):
            add_trajectory(task, f"t{number}-{attempt}", status, steps=STEPS, deliverable=deliverable)
    return made


def make_run(version: DatasetVersion, *, config: JudgeConfig | None = None, **options: Any) -> JudgeRun:
    """A run over the whole population."""
    sample = draw_sample(freeze_frame(version, by=None), Plan("census"), seed=0, by=None)
    return judging.create_judge_run(sample, config or judging.ensure_config(CONFIG, by=None), by=None, **options)


def citation(quote: str = "the total is 42 dollars", **fields: Any) -> dict[str, Any]:
    """A citation of the delivered file."""
    place = {"target": "deliverable/answer.txt", "part": "none", "item": 0, "line_start": 1, "line_end": 1}
    return {"id": "E1", "kind": "file", **place, "quote": quote, **fields}


def verdict(decision: str = "satisfied", status: str = "met", **fields: Any) -> Turn:
    """A blind verdict that rests on the delivered file."""
    criterion = {"id": "R1", "requirement": "", "status": status, "own": False, "evidence": ["E1"]}
    arguments = {
        "citations": [citation()],
        "criteria": [criterion],
        "tags": [],
        "strongest_counterargument": "The currency is not named [E1].",
        "integrity": "none",
        "decision": decision,
        "confidence": "high",
        "summary": "The file holds the total [E1].",
        **fields,
    }
    return Turn([("submit_verdict", arguments)], usage=USAGE)


def attribution(decision: str = "satisfied", **fields: Any) -> Turn:
    """What is said after the reveal."""
    arguments = {
        "citations": [],
        "tags": [],
        "case_for_verifier": "It looked at the file.",
        "case_against_verifier": "None.",
        "verifier_assessment": "correct",
        "decisive_step": "2",
        "decision_after": decision,
        "why_changed": "",
        **fields,
    }
    return Turn([("submit_attribution", arguments)], usage=USAGE)


GOOD: tuple[Turn, ...] = (LOOK, verdict(), attribution())


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ScriptedProvider]:
    """Lets a script answer every judgment of the test; returns the provider, which keeps what it was asked."""

    def use(
        script: Sequence[Turn | Callable[[TurnRequest], Turn]] = GOOD, *, worst: Decimal | None = Decimal(0)
    ) -> ScriptedProvider:
        provider = Paid(script, worst=worst)
        monkeypatch.setattr(judging, "open_provider", lambda _config, **_: provider)
        return provider

    return use


@contextmanager
def nothing_written(model: Any) -> Iterator[None]:
    """Fails where the block adds or removes a row."""
    before = model.objects.count()
    yield
    assert model.objects.count() == before
