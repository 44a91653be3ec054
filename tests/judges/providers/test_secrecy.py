"""A key reaches the host it belongs to and nothing else: no log, no exception, no record, no other host."""

import json
import logging
import traceback

import pytest

from judges.errors import JudgmentFailed
from judges.providers import wire
from tests.fakes.server import FakeProvider
from tests.fakes.steps import Step, call, disconnect, error, say
from tests.judges.cases import GOOD, NARROW
from tests.judges.providers.reach import PROVIDERS, ask, judged, opened, question

pytestmark = pytest.mark.parametrize("provider", PROVIDERS)
KEY = "sk-test-5c1f0e9a77b2"


def keyed(origin: str) -> dict[str, str]:
    return {"ASSAY_PROVIDER_KEYS": json.dumps({origin: KEY})}


def test_the_key_travels_in_one_header_alone(server: FakeProvider, provider: str) -> None:
    session = server.session(say("here"), key=KEY)
    ask(provider, session, environ=keyed(session.origin))
    (seen,) = session.seen
    assert [name for name, value in seen.headers.items() if KEY in value] in (["authorization"], ["x-api-key"])
    assert KEY.encode() not in seen.raw


@pytest.mark.parametrize(
    "step",
    [
        error(401, f"Incorrect API key provided: {KEY}"),
        error(400, f"bad header Authorization: Bearer {KEY}"),
        Step(status=500, body=f"<pre>Authorization: Bearer {KEY}</pre>"),
        Step(body={"error": {"message": KEY, "code": 400}}),
        Step(body=f"not JSON {KEY}"),
        disconnect(),
    ],
    ids=["401", "400", "page", "fine error", "no JSON", "disconnect"],
)
def test_a_server_that_repeats_the_key_gets_it_into_no_error_and_no_log(
    server: FakeProvider, provider: str, step: Step, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    session = server.session(step, repeat=True)
    model = opened(provider, session, environ=keyed(session.origin))
    with pytest.raises(JudgmentFailed) as failure:
        model.complete(question())
    shown = "".join(traceback.format_exception(failure.value))
    assert KEY not in shown
    assert KEY not in caplog.text
    assert KEY not in repr(model)
    assert KEY not in json.dumps(model.provenance())


def test_an_id_of_a_request_that_holds_the_key_is_kept_without_it(server: FakeProvider, provider: str) -> None:
    session = server.session(error(401, headers={"request-id": f"req-{KEY}", "x-request-id": f"req-{KEY}"}))
    with pytest.raises(JudgmentFailed) as failure:
        ask(provider, session, environ=keyed(session.origin))
    assert failure.value.request_id == "req-[key]"
    assert KEY not in failure.value.detail


def test_a_server_that_repeats_the_key_in_its_answer_gets_it_into_no_record(
    server: FakeProvider, provider: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    steps = (say(f"your key is {KEY}"), call(("submit_verdict", GOOD)), call(("submit_attribution", NARROW)))
    session = server.session(*steps)
    seen = judged(provider, session, environ=keyed(session.origin))
    assert seen.result.status == "completed"
    stored = [document for _, _, document, _ in seen.ledger.reserved]
    stored += [response or b"" for _, response, *_ in seen.ledger.settled]
    assert not [document for document in stored if KEY.encode() in document]
    assert b"your key is [key]" in seen.ledger.settled[0][1]  # type: ignore[operator]
    assert KEY not in caplog.text
    assert KEY not in str(seen.result)


def test_keys_and_headers_of_the_environment_reach_no_other_host(
    server: FakeProvider, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", KEY)
    monkeypatch.setenv("OPENAI_ORG_ID", KEY)
    monkeypatch.setenv("OPENAI_PROJECT_ID", KEY)
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", f"Authorization: Bearer {KEY}\nX-Gateway: {KEY}")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"Authorization: Bearer {KEY}\nX-Gateway: {KEY}")
    wire._client.cache_clear()
    session = server.session(say("here"))
    ask(provider, session)
    wire._client.cache_clear()
    assert KEY not in json.dumps(session.seen[0].headers)
    assert "authorization" not in session.seen[0].headers


def test_custom_headers_never_replace_the_key_of_the_host(
    server: FakeProvider, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "Authorization: Bearer other\nX-Api-Key: other")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "Authorization: Bearer other")
    wire._client.cache_clear()
    session = server.session(say("here"), key=KEY)
    assert ask(provider, session, environ=keyed(session.origin)).text == "here"
    wire._client.cache_clear()


def test_proxies_and_addresses_of_the_environment_are_not_used(
    server: FakeProvider, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    wire._client.cache_clear()
    assert ask(provider, server.session(say("here"))).text == "here"
    wire._client.cache_clear()


def test_requests_tell_nothing_of_this_machine(server: FakeProvider, provider: str) -> None:
    session = server.session(say("here"))
    ask(provider, session)
    telemetry = [name for name in session.seen[0].headers if name.startswith("x-stainless")]
    assert telemetry == ["x-stainless-raw-response"]


def test_a_redirect_is_not_followed(server: FakeProvider, provider: str) -> None:
    other = server.session(say("the wrong host"))
    session = server.session(error(307, headers={"location": f"{other.address}/v1/messages"}))
    with pytest.raises(JudgmentFailed, match="HTTP 307"):
        ask(provider, session, environ=keyed(session.origin))
    assert other.seen == []
