"""Every fault a provider was seen to make, over all three wire formats and through the real libraries."""

import json
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from judges.errors import HandBack, JudgmentFailed
from judges.providers import faults
from judges.providers.retry import JUDGMENT_RETRIES, TURN_ATTEMPTS
from tests.fakes.server import FakeProvider
from tests.fakes.steps import (
    Step,
    call,
    context_too_long,
    cut_off,
    disconnect,
    error,
    hang,
    page,
    quota,
    rate_limited,
    refuse,
    say,
)
from tests.judges.providers.reach import PROVIDERS, Naps, ask, opened, question

pytestmark = pytest.mark.parametrize("provider", PROVIDERS)


@dataclass(frozen=True)
class Row:
    """A fault that stays: the reason a judgment ends with, and how often the request is made."""

    step: Step
    reason: str
    attempts: int
    in_detail: str
    has_id: bool = True


LASTING = {
    "rate limited": Row(rate_limited(3), "provider_rate_limited", TURN_ATTEMPTS, "retry after 3 s"),
    "rate limited without a time": Row(rate_limited(), "provider_rate_limited", TURN_ATTEMPTS, "slow down"),
    "overloaded": Row(error(529), "provider_outage", TURN_ATTEMPTS, "HTTP 529"),
    "broken server": Row(error(500), "provider_outage", TURN_ATTEMPTS, "HTTP 500"),
    "page of a proxy": Row(page(502), "provider_outage", TURN_ATTEMPTS, "Bad Gateway"),
    "request timeout": Row(error(408), "provider_outage", TURN_ATTEMPTS, "HTTP 408"),
    "disconnect": Row(disconnect(), "provider_outage", TURN_ATTEMPTS, "no connection with http://127.0.0.1", False),
    "page that says it is fine": Row(page(200), "invalid_response", TURN_ATTEMPTS, "no JSON object"),
    "JSON of another kind": Row(Step(body=[]), "invalid_response", TURN_ATTEMPTS, "no JSON object"),
    "object of another kind": Row(Step(body={"ok": True}), "invalid_response", TURN_ATTEMPTS, "Field required"),
    "no stop reason": Row(say("half", stop="none"), "invalid_response", TURN_ATTEMPTS, "no"),
    "quota": Row(quota(), "provider_quota", 1, "exceeded your current quota"),
    "payment required": Row(error(402, "pay"), "provider_quota", 1, "HTTP 402"),
    "balance used up": Row(error(400, "Your credit balance is too low"), "provider_quota", 1, "credit balance"),
    "spend limit": Row(
        error(429, "limit", error_code="enforced_spend_limit_reached"), "provider_quota", 1, "enforced_spend_limit"
    ),
    "bad key": Row(error(401, "invalid x-api-key"), "provider_config", 1, "the key was refused"),
    "forbidden": Row(error(403), "provider_config", 1, "the key may not do this"),
    "no such model": Row(error(404, "model: nope"), "provider_config", 1, "no such model or address"),
    "bad request": Row(error(400, "max_tokens: too large"), "provider_config", 1, "max_tokens: too large"),
    "redirect": Row(error(307, headers={"location": "http://192.0.2.1/"}), "provider_config", 1, "HTTP 307"),
    "prompt too long": Row(context_too_long(), "context_exceeded", 1, "212345"),
    "request too large": Row(error(413), "context_exceeded", 1, "HTTP 413"),
    "error in a fine response": Row(
        Step(body={"error": {"code": 400, "type": "exceed_context_size_error", "message": "n_ctx 4096"}}),
        "context_exceeded",
        1,
        "n_ctx 4096",
    ),
    "outage in a fine response": Row(
        Step(body={"error": {"code": 503, "message": "Loading model"}}), "provider_outage", TURN_ATTEMPTS, "Loading"
    ),
}


@pytest.mark.parametrize("name", LASTING)
def test_a_lasting_fault_ends_in_its_own_reason_with_the_request_id(
    server: FakeProvider, provider: str, name: str
) -> None:
    row = LASTING[name]
    session = server.session(row.step, repeat=True)
    with pytest.raises(JudgmentFailed) as failure:
        ask(provider, session)
    assert failure.value.reason == row.reason
    assert row.in_detail in failure.value.detail
    assert len(session.seen) == row.attempts
    assert failure.value.request_id.startswith("req_fake_") == row.has_id
    assert failure.value.request_id in failure.value.detail


PASSING = [name for name, row in LASTING.items() if row.attempts > 1]


@pytest.mark.parametrize("name", PASSING)
def test_a_passing_fault_costs_a_wait_and_no_answer(server: FakeProvider, provider: str, name: str) -> None:
    session, naps = server.session(LASTING[name].step, say("here")), Naps()
    model = opened(provider, session, naps=naps)
    assert model.complete(question()).text == "here"
    assert len(naps.taken) == 1
    assert dict(model.retrier.seen) == {LASTING[name].reason: 1}
    assert model.provenance()["faults"] == {LASTING[name].reason: 1}


def test_a_time_to_wait_is_kept_and_never_shortened(server: FakeProvider, provider: str) -> None:
    session, naps = server.session(rate_limited(7), rate_limited("0.5"), say("here")), Naps()
    opened(provider, session, naps=naps).complete(question())
    assert 7 <= naps.taken[0] < 8
    assert 0.5 <= naps.taken[1] < 1


def test_a_wait_of_more_than_two_minutes_gives_the_judgment_back(server: FakeProvider, provider: str) -> None:
    session, naps = server.session(rate_limited(121), say("never")), Naps()
    with pytest.raises(HandBack) as wait:
        opened(provider, session, naps=naps).complete(question())
    assert (wait.value.seconds, naps.taken, len(session.seen)) == (121, [], 1)
    assert wait.value.request_id.startswith("req_fake_")


def test_no_server_can_put_a_judgment_off_for_years(server: FakeProvider, provider: str) -> None:
    with pytest.raises(HandBack) as wait:
        ask(provider, server.session(rate_limited(4_294_967)))
    assert wait.value.seconds == 3_600


def test_quota_is_told_apart_from_rate_limits_that_name_billing(server: FakeProvider, provider: str) -> None:
    limited = error(429, "Rate limit reached. Add a payment method: /account/billing", headers={"retry-after": "1"})
    assert ask(provider, server.session(limited, say("here"))).text == "here"


def test_waits_without_a_time_grow_and_are_bounded(server: FakeProvider, provider: str) -> None:
    session, naps = server.session(error(529), repeat=True), Naps()
    with pytest.raises(JudgmentFailed):
        opened(provider, session, naps=naps).complete(question())
    assert len(naps.taken) == TURN_ATTEMPTS - 1
    assert all(wait <= 0.5 * 2**number for number, wait in enumerate(naps.taken))


def test_a_judgment_has_a_number_of_retries_over_all_its_turns(server: FakeProvider, provider: str) -> None:
    turns = [step for _ in range(4) for step in (*[error(529)] * 4, say("here"))]
    session = server.session(*turns, repeat=True)
    model = opened(provider, session)
    for _ in range(3):
        model.complete(question())
    with pytest.raises(JudgmentFailed, match="15 retries in this judgment"):
        model.complete(question())
    assert model.retrier.retries == JUDGMENT_RETRIES


def test_retries_end_with_the_time_of_the_judgment(server: FakeProvider, provider: str) -> None:
    session = server.session(rate_limited(60), say("too late"))
    with pytest.raises(JudgmentFailed, match="no time is left"):
        ask(provider, session, limits={"wall_seconds": 30})


def test_no_answer_ends_the_call_after_the_time_of_the_config(server: FakeProvider, provider: str) -> None:
    session = server.session(hang(3), say("here"))
    model = opened(provider, session, timeout_s=1)
    assert model.complete(question()).text == "here"
    assert dict(model.retrier.seen) == {"provider_outage": 1}


def test_nobody_listening_is_an_outage_that_names_the_address(server: FakeProvider, provider: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    with pytest.raises(JudgmentFailed) as failure:
        ask(provider, server.session(), base_url=f"http://127.0.0.1:{port}/v1")
    assert failure.value.reason == "provider_outage"
    assert f"http://127.0.0.1:{port}" in failure.value.detail
    assert "refused" in failure.value.detail


# --- what is no fault of transport


def test_a_refusal_is_a_turn_with_its_words(server: FakeProvider, provider: str) -> None:
    reply = ask(provider, server.session(refuse("I would rather not")))
    assert reply.stop == "refusal"
    assert "I would rather not" in reply.detail
    assert reply.request_id.startswith("req_fake_")


def test_output_that_was_cut_off_is_a_turn_that_says_so(server: FakeProvider, provider: str) -> None:
    reply = ask(provider, server.session(cut_off(("grep", {"root": "deliverable"}), text="I will")))
    assert (reply.stop, reply.text, len(reply.calls)) == ("max_tokens", "I will", 1)


def test_a_context_that_ran_full_while_answering_is_no_answer(server: FakeProvider, provider: str) -> None:
    session = server.session(say("half a", stop="context"))
    if provider == "openai":
        with pytest.raises(JudgmentFailed) as failure:
            ask(provider, session)
        assert failure.value.reason == "context_exceeded"
    else:
        stop = {"anthropic": "context_exceeded", "openai_chat": "max_tokens"}[provider]
        assert ask(provider, session).stop == stop


MALFORMED: dict[str, object] = {
    "no JSON": '{"root": "deliverable", "pa',
    "no object": '["root"]',
    "not a number": '{"n": NaN}',
    "half a character": '{"n": "\\ud800"}',
    "too deep": "[" * 5_000,
    "deeper than can be stored": '{"n":' + "[" * 400 + "]" * 400 + "}",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_arguments_come_back_as_an_error_and_never_enter_the_history(
    server: FakeProvider, provider: str, name: str
) -> None:
    session = server.session(call(("grep", MALFORMED[name])))
    (made,) = ask(provider, session).calls
    assert made.arguments is None
    assert "arguments" in made.error


def test_an_answer_nested_deeper_than_can_be_stored_is_invalid(server: FakeProvider, provider: str) -> None:
    deep: list = []
    for _ in range(400):
        deep = [deep]
    session = server.session(Step(body={"content": deep, "choices": deep, "output": deep}), repeat=True)
    with pytest.raises(JudgmentFailed, match="nested too deeply"):
        ask(provider, session)


def test_a_number_beyond_64_bits_can_be_stored(server: FakeProvider, provider: str) -> None:
    reply = ask(provider, server.session(call(("grep", {"page": 10**30}))))
    assert type(reply).from_bytes(reply.to_bytes()).calls[0].name == "grep"


COUNTS = ("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens")


@pytest.mark.parametrize(
    "edit",
    [
        lambda body: {**body, "usage": {}},
        lambda body: {**body, "usage": "free"},
        lambda body: {**body, "usage": dict.fromkeys(COUNTS, -5)},
        lambda body: {**body, "usage": dict.fromkeys(COUNTS, 10**12)},
        lambda body: {**body, "content": None, "choices": None, "output": None},
        lambda body: {**body, "content": ["x"], "choices": ["x"], "output": ["x"]},
    ],
    ids=["usage empty", "usage a text", "usage negative", "usage absurd", "nothing in it", "texts in it"],
)
def test_a_response_in_an_unknown_shape_is_invalid_and_no_crash(
    server: FakeProvider, provider: str, edit: Callable[[dict], dict]
) -> None:
    from tests.fakes import formats

    def odd(body: dict) -> Step:
        route = {"anthropic": "messages", "openai": "responses", "openai_chat": "chat/completions"}[provider]
        return Step(body=edit(formats.answer(route, say("x"), body, session.cache)))

    session = server.session(odd, repeat=True)
    with pytest.raises(JudgmentFailed) as failure:
        ask(provider, session)
    assert failure.value.reason == "invalid_response"


def test_a_lone_surrogate_in_a_reply_is_replaced(server: FakeProvider, provider: str) -> None:
    reply = ask(provider, server.session(say("half \ud83d a face")))
    assert json.loads(reply.to_bytes())["text"] == "half ? a face"


def test_times_to_wait_are_read_in_every_form_and_nonsense_is_none(provider: str) -> None:
    now = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)
    read = [
        faults.retry_after({"retry-after": given}, now=now)
        for given in ("2.5", "Sun, 29 Nov 2026 12:01:00 GMT", "-1", "nan", "inf", "soon", "")
    ]
    assert read == [2.5, 60.0, None, None, None, None, None]
    assert faults.retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
