"""The probe says in words what is wrong with a provider, for each way it can go wrong."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from judges.limiter import LocalLimiter
from judges.providers import model
from judges.providers import probe as module
from judges.providers.probe import probe
from judges.providers.retry import Retrier
from tests.fakes.server import FakeProvider, Session
from tests.fakes.steps import Step, call, context_too_long, cut_off, error, page, quota, rate_limited, refuse, say
from tests.judges.providers.reach import PROVIDERS, make_config


@pytest.fixture(autouse=True)
def _no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retrier, "_wait", _counted)
    hurried = LocalLimiter(clock=itertools.count(step=10_000).__next__)
    monkeypatch.setattr(model, "_this_process", hurried)


def _counted(self: Retrier, fault: Any, number: int) -> None:
    """The rules of waiting without the wait."""
    self.sleep = lambda _: None
    _WAIT(self, fault, number)


_WAIT = Retrier._wait


def echo(body: Any) -> Step:
    """A model that reads the word where it stands."""
    text = json.dumps(body)
    start = text.index("check word is ") + len("check word is ")
    return call(("echo", {"word": text[start:].split(".")[0]}))


def looked(provider: str, session: Session, environ: dict[str, str] | None = None, **changes: Any) -> tuple[bool, str]:
    report = probe(make_config(provider, session, **changes), environ=environ or {})
    return report.ok, "\n".join(f"{check.name} {check.state}: {check.text}" for check in report.checks)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_provider_that_works_is_fine(server: FakeProvider, provider: str) -> None:
    ok, text = looked(provider, server.session(echo, repeat=True))
    assert ok
    assert "model ok: fake-judge is among" in text
    assert "tools ok: the tool was called" in text
    assert "price note: the price of fake-judge at 127.0.0.1 is unknown" in text
    assert ("context ok" in text) == (provider == "openai_chat")


WRONG = {
    "bad key": (error(401), "the key was refused"),
    "no money": (quota(), "no money or quota left"),
    "no such model": (error(404, "model not found"), "no such model or address"),
    "rate limited": (rate_limited(1), "rate limited now"),
    "far too busy": (rate_limited(1_000), "try again in 1000 s"),
    "overloaded": (error(529), "overloaded"),
    "another server": (page(200), "not in the format of this provider"),
    "small context": (context_too_long(9_000, 4_096), "context is too small"),
    "refusal": (refuse("no words"), "refuses a harmless request"),
    "cut off": (cut_off(text="well"), "raise max_output_tokens"),
    "no tool calls": (say('{"name": "echo"}'), "did not call the tool"),
    "another tool": (call(("grep", {})), "it called 'grep'"),
    "no tool parser": (
        error(400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        "--enable-auto-tool-choice",
    ),
    "broken calls": (call(("echo", '{"word": ')), "cannot be read"),
    "truncated prompt": (call(("echo", {"word": "what word?"})), "did not know a word from the front"),
}


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("name", WRONG)
def test_each_way_to_go_wrong_has_words(server: FakeProvider, provider: str, name: str) -> None:
    step, words = WRONG[name]
    ok, text = looked(provider, server.session(step, repeat=True))
    assert not ok
    assert words in text


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_key_that_the_list_of_models_refuses_is_named_before_a_model_is_paid(
    server: FakeProvider, provider: str
) -> None:
    session = server.session(echo, repeat=True, key="right")
    keys = json.dumps({session.origin: "wrong"})
    ok, text = looked(provider, session, {"ASSAY_PROVIDER_KEYS": keys})
    assert not ok
    assert "the key was refused" in text
    assert session.seen == []


def test_a_key_that_is_right_is_said_to_be_used(server: FakeProvider) -> None:
    session = server.session(echo, repeat=True, key="right")
    ok, text = looked("openai", session, {"ASSAY_PROVIDER_KEYS": json.dumps({session.origin: "right"})})
    assert ok
    assert "with its key" in text


def test_an_unlisted_model_is_a_note_with_near_names(server: FakeProvider) -> None:
    session = server.session(echo, repeat=True, models=("fake-judge-2", "other"))
    ok, text = looked("openai", session)
    assert ok
    assert "model note: fake-judge is not among the 2 models listed (near: fake-judge-2)" in text


def test_a_server_without_a_list_of_models_is_asked_all_the_same(server: FakeProvider) -> None:
    ok, text = looked("openai_chat", server.session(echo, repeat=True, models=None))
    assert ok
    assert "no list of models" in text


def test_a_prompt_that_loses_its_front_is_found_by_the_long_request(server: FakeProvider) -> None:
    def small(body: Any) -> Step:
        if len(json.dumps(body)) < 30_000:
            return echo(body)
        return call(("echo", {"word": "line 4499"}), prompt_tokens=4_096)

    ok, text = looked("openai_chat", server.session(small, repeat=True))
    assert not ok
    assert "tools ok" in text
    assert "context failed" in text
    assert "OLLAMA_CONTEXT_LENGTH" in text


def test_nobody_listening(server: FakeProvider) -> None:
    ok, text = looked("openai_chat", server.session(), base_url="http://127.0.0.1:9/v1")
    assert not ok
    assert "is the server running" in text


def test_missing_keys_and_unknown_hosts_are_told_apart(server: FakeProvider) -> None:
    _, vendor = looked("anthropic", server.session(), base_url="")
    _, other = looked("openai_chat", server.session(), base_url="https://models.example.org/v1")
    assert "set ANTHROPIC_API_KEY in the environment" in vendor
    assert "https://models.example.org is not among the hosts" in other
    assert "ASSAY_PROVIDER_KEYS" in other


def test_the_command_reports_in_words_and_as_json(
    server: FakeProvider, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ASSAY_PROVIDER_KEYS", raising=False)
    session = server.session(echo, repeat=True)
    path = tmp_path / "judge.toml"
    path.write_text(f'name = "t"\nprovider = "openai"\nmodel = "fake-judge"\nbase_url = "{session.url("openai")}"\n')
    assert module.main([str(path)]) == 0
    assert "the tool was called" in capsys.readouterr().out
    assert module.main([str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    path.write_text('provider = "openai"\n')
    assert module.main([str(path)]) == 2
    assert "name is missing" in capsys.readouterr().err


def test_a_judge_without_a_model_needs_no_probe() -> None:
    from judges.config import JudgeConfig

    assert probe(JudgeConfig(name="r", provider="rules"), environ={}).ok
