"""Plumbing against a model that answers badly: what it says becomes a stated reason, and no label by itself."""

import json
import socket
from dataclasses import asdict
from typing import Any

import pytest

from judges.agent import judge
from judges.budget import NO_TOKENS, TokenUsage
from judges.errors import JudgmentFailed
from judges.ledger import MemoryLedger
from judges.messages import TurnReply, TurnRequest, UserMessage
from judges.providers import open_provider
from judges.providers.probe import Report, probe
from judges.sandbox import NoSandbox
from tests.judges.cases import make_case, make_revealed
from tests.llm.conftest import KEY, MODEL, SmallModel

PROVIDERS = ("anthropic", "openai", "openai_chat")
# What a judgment by a model that cannot call tools may end with.
STATED = {"budget_turns", "truncated", "invalid_output", "context_exceeded", "context_truncated_by_server"}

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("provider", PROVIDERS)]


def ask(small_model: SmallModel, provider: str, *texts: str, environ: dict[str, str] | None = None) -> TurnReply:
    model = open_provider(small_model.config(provider), environ=environ or small_model.environ)
    return model.complete(TurnRequest("You answer in one word.", (), (UserMessage(texts),)))


def test_a_turn_comes_back_with_its_text_its_tokens_and_who_answered(small_model: SmallModel, provider: str) -> None:
    reply = ask(small_model, provider, "What is the capital of France?")
    assert "Paris" in reply.text
    assert (reply.stop, reply.model, reply.calls) == ("end_turn", MODEL, ())
    assert 0 < reply.usage.input < 100
    assert 0 < reply.usage.output <= 256
    assert reply.cost is None  # nobody knows its price, which is not 0


def test_the_same_beginning_is_counted_as_read_from_the_cache(small_model: SmallModel, provider: str) -> None:
    beginning = " ".join(f"Line {number} of {provider}." for number in range(60))
    first = ask(small_model, provider, beginning, "Say yes.").usage
    again = ask(small_model, provider, beginning, "Say yes.").usage
    assert again.input == first.input
    assert again.cache_read > first.cache_read
    assert again.fresh < first.fresh


def test_a_judgment_ends_with_a_reason_or_with_a_verdict_that_passed_every_check(
    small_model: SmallModel, provider: str
) -> None:
    ledger, config = MemoryLedger(make_revealed()), small_model.config(provider)
    model = open_provider(config, environ=small_model.environ)
    result = judge(make_case(), config, provider=model, sandbox=NoSandbox(), ledger=ledger, secret=b"test")
    if result.status == "failed":
        assert result.reason in STATED, result.detail
        assert (result.decision, result.integrity, result.acceptable) == (None, None, None)
        assert (result.blind, result.criteria, result.tags) == (None, (), ())
    else:
        assert ledger.locked is not None
        assert all(check.ok for check in result.checks if check.citation.id in _rested_on(result))
    assert result.turns == len(ledger.settled) > 0
    assert result.usage == sum((settled[2] for settled in ledger.settled), NO_TOKENS)
    assert result.usage.input > 3_000 * result.turns  # the rules and the task were in every prompt
    assert result.cost is None
    assert result.provenance["models"] == [MODEL]
    assert result.provenance["usage_guessed"] is False


def _rested_on(result: Any) -> set[str]:
    return {name for item in (*result.criteria, *result.tags) for name in item.evidence}


def test_a_prompt_that_is_too_long_is_named_and_not_asked_again(small_model: SmallModel, provider: str) -> None:
    with pytest.raises(JudgmentFailed) as failure:
        ask(small_model, provider, " ".join(f"{number} lines" for number in range(6_000)))
    assert failure.value.reason == "context_exceeded"
    assert "8192" in failure.value.detail
    assert (failure.value.usage, failure.value.cost) == (TokenUsage(), 0)  # refused before it was read


def words(report: Report) -> str:
    return "\n".join(f"{check.name} {check.state}: {check.text}" for check in report.checks)


def test_the_probe_says_that_this_model_calls_no_tools(small_model: SmallModel, provider: str) -> None:
    report = probe(small_model.config(provider), environ=small_model.environ)
    said = words(report)
    assert not report.ok
    assert "with its key" in said
    assert f"model ok: {MODEL} is among the 1 models listed" in said
    assert "price note" in said
    assert "tools failed: the model did not call the tool" in said or "tools failed: the answer was cut off" in said


def test_the_probe_says_that_the_key_is_wrong_and_repeats_none(small_model: SmallModel, provider: str) -> None:
    report = probe(small_model.config(provider), environ=small_model.environ_with("not-the-key"))
    assert not report.ok
    assert "server failed: the key was refused" in words(report)
    assert "not-the-key" not in json.dumps(asdict(report))
    assert KEY not in json.dumps(asdict(report))


def test_the_probe_says_that_the_key_is_missing(small_model: SmallModel, provider: str) -> None:
    said = words(probe(small_model.config(provider), environ={}))
    assert "without a key" in said
    assert "server failed: the key was refused" in said


def test_the_probe_says_which_models_there_are(small_model: SmallModel, provider: str) -> None:
    said = words(probe(small_model.config(provider, model="smollm2-1700m"), environ=small_model.environ))
    assert f"model note: smollm2-1700m is not among the 1 models listed (near: {MODEL})" in said


def test_the_probe_says_that_nobody_listens(small_model: SmallModel, provider: str) -> None:
    with socket.socket() as taken:  # bound and not listening: a port that nobody else can answer on
        taken.bind(("127.0.0.1", 0))
        config = small_model.config(provider, base_url=f"http://127.0.0.1:{taken.getsockname()[1]}/v1")
        report = probe(config, environ={})
    assert not report.ok
    assert "is the server running and the base_url right?" in words(report)


def test_the_probe_says_that_the_address_is_incomplete(small_model: SmallModel, provider: str) -> None:
    config = small_model.config(provider, base_url=f"{small_model.origin}/nowhere")
    report = probe(config, environ=small_model.environ)
    assert not report.ok
    assert "no such model or address" in words(report)
    assert f"base_url {small_model.origin}/nowhere" in words(report)
