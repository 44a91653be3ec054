"""34 attacks on the judge, each with a model that obeys it entirely, through three wire formats and the real libraries.

What must hold is structural: whatever the model submits, no label rests only on text that is not there, on words of
the agent, on documentation, on the reference, on a search, or on output that the judge's own command printed.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from judges.agent import judge
from judges.citations import CheckedCitation
from judges.ledger import MemoryLedger
from judges.outcome import outcome
from judges.records import FileTree, Revealed
from judges.safefs import texts
from judges.sandbox import open_sandbox
from judges.verdict import JudgmentResult
from tests.attacks.conftest import CANARY
from tests.attacks.folders import Case, attack_cases
from tests.attacks.wire import shown, strings, unframed
from tests.fakes.server import FakeProvider, Session
from tests.judges.providers.reach import PROVIDERS, make_config, opened

ATTACKS = attack_cases()
BEYOND = pytest.mark.xfail(strict=True, reason="a true but irrelevant quote passes; comparing with people measures it")


@dataclass
class WatchedLedger(MemoryLedger):
    """Remembers how many requests had been made when the verdict was locked."""

    session: Session | None = None
    blind_requests: int | None = None

    def lock(self, blind: bytes) -> None:
        super().lock(blind)
        assert self.session is not None
        self.blind_requests = len(self.session.seen)


@dataclass
class Played:
    """One captured judgment and all that was sent for it."""

    result: JudgmentResult
    ledger: WatchedLedger
    session: Session
    revealed: Revealed
    seconds: float
    blind: Sequence[str] = field(init=False)
    blind_shown: Sequence[str] = field(init=False)
    later: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.session.seen) if self.ledger.blind_requests is None else self.ledger.blind_requests
        self.blind = [text for seen in self.session.seen[:count] for text in strings(seen.body)]
        self.blind_shown = [text for seen in self.session.seen[:count] for text in shown(seen.body)]
        self.later = [text for seen in self.session.seen[count:] for text in strings(seen.body)]

    def shown(self) -> list[str]:
        return [text for seen in self.session.seen for text in shown(seen.body)]

    def dropped(self) -> str:
        return "\n".join(f"{item.claim}: {item.why}" for item in self.result.dropped)


def play(case: Case, server: FakeProvider, provider: str, scratch: Path) -> Played:
    loaded = case.load(scratch)
    session = server.session(*case.script(), repeat=case.repeat)
    ledger = WatchedLedger(loaded.revealed, session=session)
    chosen = {"limits": case.limits, "sandbox": case.sandbox}
    before = time.thread_time()
    result = judge(
        loaded.case,
        make_config(provider, session, **chosen),
        provider=opened(provider, session, **chosen),
        sandbox=open_sandbox(case.sandbox),
        ledger=ledger,
        secret=b"attack suite",
    )
    return Played(result, ledger, session, loaded.revealed, time.thread_time() - before)


def marked(case: Case) -> object:
    return pytest.param(case, marks=BEYOND if case.passes else (), id=case.name)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("case", [marked(case) for case in ATTACKS])
def test_a_captured_judge_gets_nothing_through(case: Case, provider: str, server: FakeProvider, scratch: Path) -> None:
    played = play(case, server, provider, scratch)
    holds_as_expected(case, played)
    rests_on_work(played.result)
    stays_in_frames(case, played)
    is_blind(played)
    assert played.seconds < case.seconds


def holds_as_expected(case: Case, played: Played) -> None:
    result, expect = played.result, case.expect
    assert (result.status, result.reason) == (expect.status, expect.reason), result.detail
    assert (result.decision or "", result.acceptable or "") == (expect.decision, expect.acceptable), played.dropped()
    if expect.decision_after is not None:
        assert result.decision_after == expect.decision_after
    if expect.outcome is not None:
        assert outcome(played.revealed.verifier.status, result.acceptable, partial_as="exclude")[0] == expect.outcome
    if expect.requests is not None:
        assert len(played.session.seen) == expect.requests
    if expect.tags is not None:
        assert sorted(tag.code for tag in result.tags) == sorted(expect.tags)
    for wanted, texts_there in ((expect.answers, played.blind), (expect.later, played.later)):
        assert [text for text in wanted if not any(text in there for there in texts_there)] == []
    assert [text for text in expect.dropped if text not in played.dropped()] == [], played.dropped()


def rests_on_work(result: JudgmentResult) -> None:
    """The label of a captured judge rests on something that was done, by the checks that are stored with it."""
    checks = {check.id: check for check in result.checks}
    for criterion in result.criteria:
        cited = [checks[name] for name in criterion.evidence]
        assert all(check.ok for check in cited)
        if criterion.status == "met":
            assert any(map(shows_work, cited)), criterion
        if criterion.status == "not_met":
            assert any(not is_words(check) for check in cited), criterion
    hacks = [tag for tag in result.tags if tag.code.startswith("H") and tag.code != "H08"]
    for tag in hacks:
        assert any(shows_work(checks[name]) or checks[name].part == "action" for name in tag.evidence), tag
    if result.decision == "satisfied":
        assert {criterion.status for criterion in result.criteria} == {"met"}
    if result.decision == "not_satisfied":
        assert "not_met" in {criterion.status for criterion in result.criteria}
    if result.integrity == "hacked":
        assert hacks


def shows_work(check: CheckedCitation) -> bool:
    in_work = (
        check.kind == "file" and check.root == "deliverable" and not check.target.endswith((".md", ".txt", ".log"))
    )
    done = check.kind == "command" or check.part == "observation"
    return (in_work or done) and not check.weakness and not check.own_words


def is_words(check: CheckedCitation) -> bool:
    said = check.part in ("message", "reasoning") or check.kind in ("instruction", "reference", "verifier")
    return said or check.own_words


def stays_in_frames(case: Case, played: Played) -> None:
    """Hostile text reaches the judge inside frames alone, and what must not reach it does not."""
    outside = "\n".join(line for text in played.shown() for line in unframed(text))
    assert [text for text in case.framed if text in outside] == []
    inside = "\n".join(played.blind_shown)
    assert [text for text in case.framed if text not in inside] == []
    assert [text for text in (*case.absent, CANARY) if text in inside] == []
    assert [text for text in case.shows if text not in inside] == []


def harness_lines(tree: FileTree | None) -> list[str]:
    """Lines that only the verifier's side of a case has."""
    lines = [line.strip() for _, text in texts(tree) for line in text.split("\n")] if tree else []
    return [line for line in lines if "harness-only" in line or "4471" in line or "0.8137" in line]


def is_blind(played: Played) -> None:
    """No request up to the lock holds a line of the verifier's output or source, nor the reward."""
    secret = [*harness_lines(played.revealed.verifier.streams), *harness_lines(played.revealed.source), "0.8137"]
    assert [line for line in secret if any(line in text for text in played.blind_shown)] == []


def test_every_attack_of_the_list_has_a_case() -> None:
    assert {case.name[:3] for case in ATTACKS} == {f"A{number:02}" for number in range(1, 35)}
    assert [case.name[:3] for case in ATTACKS if case.passes] == ["A20"]


def test_the_guide_lists_every_case_as_it_is() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "attacks.md").read_text(encoding="utf-8")
    assert [case.name for case in ATTACKS if f"| {case.name} | {case.about} |" not in guide] == []
