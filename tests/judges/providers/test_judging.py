"""The two-phase loop through each wire format: honest judges, liars, impatient ones, broken ones and refusals."""

import json
from typing import Any

import pytest

from judges.errors import HandBack
from judges.ledger import MemoryLedger, StoredTurn
from judges.outcome import outcome
from tests.fakes.server import FakeProvider
from tests.fakes.steps import Step, call, cut_off, error, rate_limited, refuse, say
from tests.judges.cases import GOOD, LIE, NARROW, VERIFIER_MARKS, explain, make_revealed
from tests.judges.providers.reach import PROVIDERS, judged

pytestmark = pytest.mark.parametrize("provider", PROVIDERS)

READ_SHOP = ("read_file", {"root": "deliverable", "path": "shop.py", "line_start": 0, "line_end": 0})
READ_VERIFIER = ("read_verifier_output", {"stream": "stdout", "line_start": 0, "line_end": 0})
VERDICT = ("submit_verdict", GOOD)
ATTRIBUTION = ("submit_attribution", NARROW)
HONEST = (call(READ_SHOP, text="Let me look."), call(VERDICT), call(READ_VERIFIER), call(ATTRIBUTION))


def results(body: Any) -> list[str]:
    """Texts of all tool results in a request, in any format."""
    found = []
    for item in body.get("messages") or body.get("input"):
        if item.get("role") == "tool":
            found.append(item["content"])
        elif item.get("type") == "function_call_output":
            found.append(item["output"])
        elif isinstance(item.get("content"), list):
            found += [block["content"] for block in item["content"] if block.get("type") == "tool_result"]
    return found


def test_an_honest_judge_is_recorded(server: FakeProvider, provider: str) -> None:
    seen = judged(provider, server.session(*HONEST))
    result = seen.result
    assert (result.status, result.reason, result.decision, result.turns) == ("completed", "", "satisfied", 4)
    assert outcome("fail", result.acceptable, partial_as="exclude") == ("false_fail", "")
    assert [tag.code for tag in result.tags] == ["E01"]
    assert [bool(request_id) for *_, request_id, _ in seen.ledger.settled] == [True] * 4
    assert result.provenance["models"] == ["fake-judge"]


def test_the_first_phase_sends_nothing_of_the_verifier(server: FakeProvider, provider: str) -> None:
    session = server.session(call(READ_VERIFIER), *HONEST)
    judged(provider, session)
    for request in session.seen[:3]:  # up to the one that the verdict answers
        assert not [mark for mark in VERIFIER_MARKS if mark.encode() in request.raw]
        assert b'"FAIL"' not in request.raw
    assert VERIFIER_MARKS[0].encode() in session.seen[-1].raw
    assert "locked" in results(session.seen[1].body)[0]


def test_a_liar_is_believed_in_nothing(server: FakeProvider, provider: str) -> None:
    after = call(("submit_attribution", explain(decision_after="cannot_tell")))
    seen = judged(provider, server.session(*[call(("submit_verdict", LIE))] * 3, after))
    assert (seen.result.decision, seen.result.acceptable) == ("cannot_tell", "unknown")
    assert sum("submit again" in text for text in results(seen.session.seen[-1].body)) == 2


def test_an_attribution_sent_with_the_verdict_was_written_before_the_reveal(
    server: FakeProvider, provider: str
) -> None:
    seen = judged(provider, server.session(call(VERDICT, ATTRIBUTION), call(ATTRIBUTION)))
    first, second = results(seen.session.seen[1].body)
    assert "Recorded and locked" in first
    assert "not now" in second
    assert seen.result.attribution is not None
    assert seen.result.turns == 2


def test_bad_json_is_asked_again_and_the_conversation_goes_on(server: FakeProvider, provider: str) -> None:
    broken = call(("submit_verdict", '{"citations": [{"id": "E1"'), ("read_file", "[1]"))
    seen = judged(provider, server.session(broken, call(VERDICT), call(ATTRIBUTION)))
    assert (seen.result.status, seen.result.reason) == ("completed", "")
    assert any("arguments" in text for text in results(seen.session.seen[1].body))


@pytest.mark.parametrize("name", ["functions.read_file", "read file", "", "читать", "x" * 300])
def test_a_tool_that_does_not_exist_is_answered_and_its_name_does_not_poison_the_history(
    server: FakeProvider, provider: str, name: str
) -> None:
    seen = judged(provider, server.session(call((name, {}), READ_SHOP), *HONEST[1:]))
    assert (seen.result.status, seen.result.reason) == ("completed", "")
    assert len(results(seen.session.seen[1].body)) == 2


def test_bad_json_for_ever_is_an_invalid_output(server: FakeProvider, provider: str) -> None:
    seen = judged(provider, server.session(call(("submit_verdict", '{"citat')), repeat=True))
    assert (seen.result.status, seen.result.reason, seen.result.decision) == ("failed", "invalid_output", None)


def test_a_refusal_in_the_first_phase_is_no_verdict(server: FakeProvider, provider: str) -> None:
    seen = judged(provider, server.session(call(READ_SHOP), refuse("not this")))
    assert (seen.result.status, seen.result.reason) == ("failed", "refused")
    assert "not this" in seen.result.detail
    assert seen.result.decision is None


def test_a_refusal_in_the_second_phase_leaves_the_locked_verdict(server: FakeProvider, provider: str) -> None:
    seen = judged(provider, server.session(call(VERDICT), refuse("not this")))
    assert (seen.result.status, seen.result.reason) == ("completed", "attribution_missing")
    assert (seen.result.decision, seen.result.attribution) == ("satisfied", None)
    assert "refused" in seen.result.detail


def test_calls_of_a_turn_that_was_cut_off_are_answered_and_not_made(server: FakeProvider, provider: str) -> None:
    seen = judged(provider, server.session(cut_off(VERDICT, READ_SHOP), call(VERDICT), call(ATTRIBUTION)))
    answers = results(seen.session.seen[1].body)
    assert len(answers) == 2
    assert all("not executed" in text for text in answers)
    assert seen.result.status == "completed"


def test_output_that_is_cut_off_again_and_again_ends_as_truncated(server: FakeProvider, provider: str) -> None:
    seen = judged(provider, server.session(cut_off(text="thinking"), repeat=True))
    assert (seen.result.status, seen.result.reason, len(seen.session.seen)) == ("failed", "truncated", 3)


def test_empty_and_blank_turns_never_become_messages(server: FakeProvider, provider: str) -> None:
    seen = judged(provider, server.session(say(""), say(" \n"), say("Hm."), *HONEST))
    assert (seen.result.status, seen.result.turns) == ("completed", 7)


def test_only_the_submissions_are_strict_and_both_phases_offer_the_same_tools(
    server: FakeProvider, provider: str
) -> None:
    session = server.session(*HONEST)
    judged(provider, session)
    tools = [json.dumps(request.body["tools"]) for request in session.seen]
    assert len(set(tools)) == 1
    flat = [tool.get("function", tool) for tool in json.loads(tools[0])]
    assert [tool["name"] for tool in flat if tool.get("strict")] == ["submit_verdict", "submit_attribution"]


@pytest.mark.parametrize("message", ["The compiled grammar is too large", "Schema is too complex for strict mode"])
def test_a_schema_that_a_server_cannot_compile_is_offered_without_strict_once_and_it_is_recorded(
    server: FakeProvider, provider: str, message: str
) -> None:
    seen = judged(provider, server.session(error(400, message), *HONEST))
    assert seen.result.status == "completed"
    flat = [tool.get("function", tool) for tool in seen.session.seen[1].body["tools"]]
    assert not [tool for tool in flat if tool.get("strict")]
    assert seen.result.provenance["without"] == ["strict"]
    assert len(seen.session.seen) == 5


def test_a_schema_that_fails_without_strict_too_is_a_matter_of_configuration(
    server: FakeProvider, provider: str
) -> None:
    seen = judged(provider, server.session(error(400, "Schema is too complex"), repeat=True))
    assert (seen.result.reason, len(seen.session.seen)) == ("provider_config", 2)


def test_the_last_turn_forces_the_submission_where_the_server_can(server: FakeProvider, provider: str) -> None:
    session = server.session(call(READ_SHOP), call(VERDICT), call(READ_VERIFIER), call(ATTRIBUTION))
    seen = judged(provider, session, limits={"turns": 4})
    assert seen.result.status == "completed"
    assert "submit_attribution" in json.dumps(session.seen[-1].body["tool_choice"])
    assert "auto" in json.dumps(session.seen[0].body["tool_choice"])


def test_a_server_that_forces_no_tool_is_asked_without(server: FakeProvider, provider: str) -> None:
    def picky(body: Any) -> Step:
        forced = "submit" in json.dumps(body["tool_choice"])
        return error(400, "tool_choice: not supported with thinking") if forced else call(VERDICT)

    session = server.session(call(READ_SHOP), picky, picky, call(ATTRIBUTION))
    seen = judged(provider, session, limits={"turns": 3})
    assert seen.result.status == "completed"


def test_a_model_that_does_not_encrypt_its_reasoning_is_asked_without(server: FakeProvider, provider: str) -> None:
    fault = error(400, "Encrypted content is not supported with this model.")
    seen = judged(provider, server.session(fault, *HONEST))
    assert seen.result.status == "completed"
    assert seen.result.provenance["without"] == ["encrypted_reasoning"]
    assert "include" not in seen.session.seen[1].body


def test_a_judgment_goes_on_after_a_hand_back_without_paying_twice(server: FakeProvider, provider: str) -> None:
    first = server.session(call(READ_SHOP), rate_limited(600))
    ledger = MemoryLedger(make_revealed())
    with pytest.raises(HandBack):
        judged(provider, first, ledger=ledger)
    stored = _stored(ledger)
    assert len(stored) == 1
    again = server.session(*HONEST[1:])
    seen = judged(provider, again, ledger=MemoryLedger(make_revealed(), stored))
    assert (seen.result.status, len(again.seen), seen.result.turns) == ("completed", 3, 4)


def _stored(ledger: MemoryLedger) -> list[StoredTurn]:
    from hashlib import sha256

    pairs = zip(ledger.reserved, ledger.settled, strict=True)
    return [
        StoredTurn(turn, phase, sha256(document).hexdigest(), response)
        for (turn, phase, document, _), (_, response, *_) in pairs
        if response is not None
    ]


def test_faults_on_the_way_change_nothing_of_the_verdict(server: FakeProvider, provider: str) -> None:
    noisy = [step for turn in HONEST for step in (error(529), rate_limited(1), turn)]
    calm, seen = judged(provider, server.session(*HONEST)), judged(provider, server.session(*noisy))
    assert seen.result.blind == calm.result.blind
    assert seen.result.provenance["faults"] == {"provider_outage": 4, "provider_rate_limited": 4}


def test_outage_config_and_context_end_a_judgment_with_their_reason(server: FakeProvider, provider: str) -> None:
    for step, reason in (
        (error(500), "provider_outage"),
        (error(401), "provider_config"),
        (error(413), "context_exceeded"),
    ):
        seen = judged(provider, server.session(call(READ_SHOP), step, repeat=True))
        assert (seen.result.status, seen.result.reason, seen.result.decision) == ("failed", reason, None)
        assert seen.ledger.settled[-1][4].startswith("req_fake_")  # the provider's id of the call that failed
