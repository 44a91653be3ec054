"""The layout of requests lets a provider's prompt cache hold nearly all of them."""

from typing import Any

import pytest

from judges.budget import NO_TOKENS
from judges.messages import AssistantMessage, ToolCall, ToolMessage, ToolResult, UserMessage
from tests.fakes.server import FakeProvider
from tests.fakes.steps import call
from tests.judges.cases import GOOD, NARROW, SHOP, make_case, tree
from tests.judges.providers.reach import PROVIDERS, judged, opened, question

LOOK = ("read_file", {"root": "deliverable", "path": "shop.py", "line_start": 0, "line_end": 0})
# The documented case: 12 turns that add about 1,750 tokens each to a prefix that the attempts at a task share.
TURNS = (*[call(LOOK)] * 9, call(("submit_verdict", GOOD)), call(LOOK), call(("submit_attribution", NARROW)))
LONG = SHOP + "".join(f"# note {number}: nothing that matters to the total\n" for number in range(90))


def attempts(task: int) -> list[Any]:
    instruction = f"Task {task}.\nIt must round to 2 decimals.\n" + "Mind every rule of the shop.\n" * 200
    return [
        make_case(
            instruction=instruction, task_digest=f"task-{task}", deliverable=tree({"shop.py": LONG, f"{n}.txt": "x"})
        )
        for n in range(4)
    ]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_nine_tenths_of_all_input_is_read_from_the_cache(server: FakeProvider, provider: str) -> None:
    cache, used = server.session().cache, NO_TOKENS
    for task in range(2):
        for case in attempts(task):
            seen = judged(provider, server.session(*TURNS, cache=cache), case=case)
            assert seen.result.status == "completed"
            used += seen.result.usage
    share = used.cache_read / used.input
    print(f"{provider}: {share:.1%} of {used.input} input tokens read from the cache")
    assert share >= 0.90


def test_a_second_attempt_reads_system_tools_and_task_at_once(server: FakeProvider) -> None:
    cache = server.session().cache
    first, second = (
        judged("anthropic", server.session(call(("submit_verdict", GOOD)), cache=cache), case=case)
        for case in attempts(0)[:2]
    )
    used = [seen.ledger.settled[0][2] for seen in (first, second)]
    assert used[0].cache_read == 0
    assert used[1].cache_read > 6_000
    assert used[1].cache_read > 0.75 * used[1].input


def test_the_blocks_of_messages_carry_their_breakpoints_in_order(server: FakeProvider) -> None:
    session = server.session(*TURNS)
    judged("anthropic", session)
    body = session.seen[3].body
    assert body["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    task, trial = body["messages"][0]["content"]
    assert task["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
    assert "cache_control" not in trial
    assert body["cache_control"] == {"type": "ephemeral"}
    assert "THE TASK" in task["text"]
    assert "THE ATTEMPT" in trial["text"]


def test_many_calls_in_a_turn_do_not_hide_the_turn_before(server: FakeProvider) -> None:
    wide = call(*[LOOK] * 32)
    session = server.session(wide, wide, call(("submit_verdict", GOOD)))
    seen = judged("anthropic", session, limits={"calls_per_turn": 32})
    third = seen.ledger.settled[2][2]
    assert third.cache_read > 0.4 * third.input
    assert third.cache_read == seen.ledger.settled[1][2].input


def test_openai_gets_one_cache_key_for_all_attempts_at_a_task(server: FakeProvider) -> None:
    keys = []
    for case in (*attempts(0)[:2], attempts(1)[0]):
        session = server.session(call(("submit_verdict", GOOD)))
        judged("openai", session, case=case)
        keys.append(session.seen[0].body["prompt_cache_key"])
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_every_request_begins_with_the_bytes_of_the_one_before(server: FakeProvider, provider: str) -> None:
    session = server.session(*TURNS)
    judged(provider, session)
    name = "input" if provider == "openai" else "messages"
    for earlier, later in zip(session.seen, session.seen[1:], strict=False):
        start = _bare(earlier.body[name])
        assert _bare(later.body[name])[: len(start)] == start
        assert earlier.body["tools"] == later.body["tools"]


def _bare(messages: Any) -> Any:
    """Without breakpoints, which move."""
    if isinstance(messages, dict):
        return {name: _bare(value) for name, value in messages.items() if name != "cache_control"}
    return [_bare(item) for item in messages] if isinstance(messages, list) else messages


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_another_format_stored_is_built_anew(server: FakeProvider, provider: str) -> None:
    said = AssistantMessage(
        "I look.", (ToolCall("c1", "grep", {"root": "initial"}), ToolCall("c2", "grep", None, "bad"))
    )
    answered = ToolMessage((ToolResult("c1", "grep", "none"), ToolResult("c2", "grep", "bad", is_error=True)))
    session = server.session(call(LOOK))
    opened(provider, session).complete(question(UserMessage(("a", "b")), said, answered))
    assert "I look." in session.seen[0].raw.decode()
