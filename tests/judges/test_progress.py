"""What a terminal shows of a judgment, and that nothing else gets it."""

import io
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from judges import __main__ as command
from judges.budget import TokenUsage
from judges.errors import HandBack, JudgmentFailed
from judges.messages import ToolCall, TurnReply
from judges.progress import SpokenLedger
from judges.records import Revealed, VerifierRecord
from tests.judges.test_command import folder

__all__ = ["folder"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_each_turn_says_phase_tools_tokens_and_what_was_spent() -> None:
    said: list[str] = []
    ledger = SpokenLedger(Revealed(VerifierRecord("none"), None), say=said.append)
    usage = TokenUsage(fresh=1_000, cache_read=11_000, output=350)
    for turn, calls in ((1, ("read_file", "read_file", "gr\x1b[2Jep")), (2, ())):
        call_id = ledger.reserve(turn, 1, b"", Decimal("0.02"))
        reply = TurnReply("tool_use", calls=tuple(ToolCall("c", name, {}) for name in calls))
        ledger.settle(call_id, reply.to_bytes(), usage=usage, cost=Decimal("0.01"), request_id="", error="")
    ledger.lock(b"{}")
    text = "".join(said)
    assert "turn 1, blind: waiting for the answer (at most $0.0200)" in text
    assert "turn 1, blind: read_file ×2, grep · 12,000 in, 11,000 cached, 350 out · $0.0100 so far" in text
    assert "turn 2, blind: no tool called (tool_use)" in text
    assert "$0.0200 so far" in text
    assert text.endswith("the blind verdict is locked; the verifier is revealed\n")


def test_an_unknown_price_stays_unknown_and_an_error_is_shown_without_its_control_codes() -> None:
    said: list[str] = []
    ledger = SpokenLedger(Revealed(VerifierRecord("none"), None), say=said.append)
    usage = TokenUsage()
    ledger.settle(
        ledger.reserve(1, 1, b"", None), None, usage=usage, cost=None, request_id="", error="503\nbusy\x1b[31m"
    )
    ledger.settle(ledger.reserve(2, 1, b"", None), None, usage=usage, cost=Decimal(1), request_id="", error="again")
    assert "no answer: 503⏎busy ·" in said[1]
    assert "price unknown so far" in said[3]


def test_progress_goes_to_a_terminal_on_standard_error_and_nowhere_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(folder), "--config", str(folder / "judge.toml"), "--json"]
    assert command.main(arguments) == 0
    assert capsys.readouterr().err == ""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert command.main(arguments) == 0
    assert "submit_verdict" in terminal.getvalue()
    assert capsys.readouterr().out.startswith("{")


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (JudgmentFailed("provider_quota", "no money left"), 1, "failed provider_quota: no decision"),
        (HandBack(300, "(429)"), 1, "resume in 300 s (429). Run the command again"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_what_a_provider_lacks_is_said_with_its_own_exit_code(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    words: str,
) -> None:
    def refuse(_config: object) -> None:
        raise error

    monkeypatch.setattr(command, "open_provider", refuse)
    assert command.main([str(folder), "--config", str(folder / "judge.toml")]) == code
    printed = capsys.readouterr()
    assert words in printed.out + printed.err
