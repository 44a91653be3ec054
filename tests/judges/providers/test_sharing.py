"""Judgments of one process share connections and nothing else."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from judges.messages import UserMessage
from judges.providers import wire
from judges.providers.model import open_model
from tests.fakes.server import FakeProvider
from tests.fakes.steps import Step, error, say
from tests.judges.providers.reach import PROVIDERS, make_config, opened, question


@pytest.mark.parametrize("provider", PROVIDERS)
def test_each_of_many_threads_gets_its_own_answer(server: FakeProvider, provider: str) -> None:
    session = server.session(lambda body: say(_last_word(body)), repeat=True)
    words = [f"word-{number}" for number in range(48)]

    def one(word: str) -> str:
        return opened(provider, session).complete(question(UserMessage(("task", word)))).text

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(one, words)) == words


def _last_word(body: Any) -> str:
    content = (body.get("messages") or body["input"])[-1]["content"]
    return content.split()[-1] if isinstance(content, str) else content[-1]["text"]


def test_a_place_and_key_have_one_client_and_another_key_another(server: FakeProvider) -> None:
    session = server.session()
    config = make_config("openai", session)
    places = [open_model(config, environ).wire.endpoint for environ in ({}, {}, _key(session.origin))]  # type: ignore[attr-defined]
    made = [wire.shared_client(new_object, place) for place in places]
    assert made[0] is made[1]
    assert made[0] is not made[2]


def new_object(_place: Any) -> object:
    return object()


def _key(origin: str) -> dict[str, str]:
    return {"ASSAY_PROVIDER_KEYS": f'"{origin}" = "k"'}


def test_what_one_judgment_had_to_do_without_is_not_kept_from_the_next(server: FakeProvider) -> None:
    session = server.session(error(400, "Schema is too complex"), Step(text="a"), Step(text="b"))
    first, second = opened("openai", session), opened("openai", session)
    assert first.complete(question()).text == "a"
    assert second.complete(question()).text == "b"
    assert (first.provenance()["without"], second.provenance()["without"]) == (["strict"], [])
