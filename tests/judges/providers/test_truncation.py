"""A compatible server that drops the front of a prompt and says that all is well is found out by its own counts."""

from typing import Any

import pytest

from judges.errors import JudgmentFailed
from judges.messages import UserMessage
from tests.fakes.server import FakeProvider
from tests.fakes.steps import Step, call, say
from tests.judges.cases import GOOD, NARROW, SHOP, make_case, tree
from tests.judges.providers.reach import judged, opened, question

LOOK = ("read_file", {"root": "deliverable", "path": "shop.py", "line_start": 0, "line_end": 0})
LONG = SHOP + "".join(f"# note {number}: nothing that matters to the total\n" for number in range(90))
CASE = make_case(deliverable=tree({"shop.py": LONG}))


def test_a_prompt_that_does_not_grow_with_what_was_added_is_truncated(server: FakeProvider) -> None:
    session = server.session(call(LOOK, prompt_tokens=4_096), call(LOOK, prompt_tokens=4_096), repeat=True)
    seen = judged("openai_chat", session, case=CASE)
    assert (seen.result.status, seen.result.reason) == ("failed", "context_truncated_by_server")
    assert "Raise its context length" in seen.result.detail
    assert seen.result.decision is None
    assert len(session.seen) == 2


def test_a_count_that_cannot_hold_the_prompt_is_truncated_at_once(server: FakeProvider) -> None:
    session = server.session(say("Fine.", prompt_tokens=2_048))
    with pytest.raises(JudgmentFailed) as failure:
        opened("openai_chat", session).complete(question(system="Read all of these words. " * 1_000))
    assert failure.value.reason == "context_truncated_by_server"
    assert failure.value.request_id


def test_a_shrinking_count_in_the_second_phase_loses_the_attribution_alone(server: FakeProvider) -> None:
    session = server.session(call(LOOK), call(("submit_verdict", GOOD)), call(LOOK), call(LOOK, prompt_tokens=4_000))
    seen = judged("openai_chat", session, case=CASE)
    assert (seen.result.status, seen.result.reason) == ("completed", "attribution_missing")
    assert "context_truncated_by_server" in seen.result.detail


def test_honest_counts_of_any_tokenizer_pass(server: FakeProvider) -> None:
    def dense(body: Any) -> Step:
        size = sum(len(str(message.get("content") or "")) for message in body["messages"])
        step = STEPS[sum(message["role"] == "assistant" for message in body["messages"])]
        return Step(calls=step.calls, stop="tool_use", prompt_tokens=size // 6)

    steps = [call(LOOK), call(LOOK), call(("submit_verdict", GOOD)), call(("submit_attribution", NARROW))]
    STEPS[:] = steps
    seen = judged("openai_chat", server.session(*[dense] * 4), case=CASE)
    assert (seen.result.status, seen.result.reason) == ("completed", "")


STEPS: list[Step] = []


def test_runs_of_blanks_that_one_token_holds_are_no_sign_of_truncation(server: FakeProvider) -> None:
    session = server.session(say("Fine.", prompt_tokens=40))
    reply = opened("openai_chat", session).complete(question(UserMessage((" " * 100_000, "\n" * 100_000))))
    assert reply.text == "Fine."


def test_a_server_that_counts_nothing_is_charged_the_most_it_can_have_read(server: FakeProvider) -> None:
    session = server.session(say("Fine.", usage=False))
    model = opened("openai_chat", session)
    reply = model.complete(question())
    assert reply.usage.input > 5_000  # the tools alone
    assert reply.usage.output > 0
    assert reply.cost is None
    assert model.provenance()["usage_guessed"] is True


def test_repeated_and_missing_ids_of_calls_are_made_unique(server: FakeProvider) -> None:
    same = call(LOOK, LOOK, call_id="call_0")
    session = server.session(same, same, call(("submit_verdict", GOOD)), call(("submit_attribution", NARROW)))
    assert judged("openai_chat", session).result.status == "completed"
    sent = [each["id"] for m in session.seen[-1].body["messages"] for each in m.get("tool_calls", ())]
    assert len(sent) == len(set(sent)) == 5


def test_a_stop_that_comes_with_calls_is_a_turn_of_calls(server: FakeProvider) -> None:
    session = server.session(Step(calls=[LOOK], stop="end_turn"))
    assert opened("openai_chat", session).complete(question()).stop == "tool_use"
