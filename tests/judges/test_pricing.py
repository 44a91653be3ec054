"""Prices: from the package where the vendor is asked, from a local table first, and otherwise unknown."""

from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import pytest

from judges.budget import TokenUsage
from judges.errors import ConfigError
from judges.pricing import Price, find_price

ANTHROPIC = {"url": "https://api.anthropic.com", "host": "api.anthropic.com"}
OPENAI = {"url": "https://api.openai.com/v1", "host": "api.openai.com"}
LOCAL = {"url": "http://127.0.0.1:8000/v1", "host": "127.0.0.1"}


def price(model: str, place: dict[str, str], **environ: str) -> Price:
    found = find_price(model=model, environ=environ, **place)
    assert found is not None
    return found


def table(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_a_call_costs_what_the_package_says() -> None:
    used = TokenUsage(fresh=0, cache_read=312_862, cache_write=24_638, output=6_000)
    assert price("claude-sonnet-5-5", ANTHROPIC).cost(used) == Decimal("0.1528812")


def test_cache_writes_for_an_hour_cost_more() -> None:
    sonnet = price("claude-opus-5-5", ANTHROPIC)
    used = TokenUsage(cache_write=1_000_000)
    assert (sonnet.cost(used), sonnet.cost(used, long_writes=1_000_000)) == (Decimal(5), Decimal(8))
    assert sonnet.cost(used, long_writes=9_000_000) == Decimal(8)


def test_a_long_context_costs_more_where_the_vendor_says_so() -> None:
    haiku = price("claude-haiku-5-5", ANTHROPIC)
    assert haiku.cost(TokenUsage(fresh=100_000)) == Decimal("0.01")
    assert haiku.cost(TokenUsage(fresh=200_000)) == Decimal("0.10")


def test_reasoning_is_part_of_output_and_not_paid_twice() -> None:
    model = price("gpt-6-sol", OPENAI)
    assert (
        model.cost(TokenUsage(output=1_000, reasoning=900)) == model.cost(TokenUsage(output=1_000)) == Decimal("0.01")
    )


def test_the_worst_case_is_never_less_than_what_a_call_can_cost() -> None:
    for model, place in (("claude-opus-5-5", ANTHROPIC), ("gpt-6-sol", OPENAI)):
        found = price(model, place)
        worst = found.worst(50_000, 16_000, long_writes=True)
        for used in (TokenUsage(50_000, 0, 0, 16_000), TokenUsage(0, 50_000, 0, 9), TokenUsage(0, 0, 50_000, 16_000)):
            assert worst >= found.cost(used, long_writes=50_000)


def test_what_nobody_priced_is_unknown_and_not_free() -> None:
    assert find_price(model="qwen3-32b", environ={}, **LOCAL) is None
    assert find_price(model="claude-nobody-knows", environ={}, **ANTHROPIC) is None
    # The name of a vendor's model at another host says nothing of that host's price.
    assert find_price(model="claude-opus-5-5", environ={}, **LOCAL) is None


def test_the_local_table_comes_first(tmp_path: Path) -> None:
    own = table(
        tmp_path / "prices.toml",
        '[[price]]\nmodel = "qwen3-32b"\nhost = "127.0.0.1"\ninput = 0.5\noutput = 1.25\ncache_read = 0.1\n'
        '[[price]]\nmodel = "claude-opus-5-5"\ninput = 3\noutput = 15\n'
        '[[price]]\nmodel = "*"\nhost = "127.0.0.1"\ninput = 0\noutput = 0\n',
    )
    used = TokenUsage(fresh=1_000_000, cache_read=1_000_000, cache_write=1_000_000, output=1_000_000)
    assert price("qwen3-32b", LOCAL, ASSAY_PRICES=own).cost(used) == Decimal("2.35")
    assert price("claude-opus-5-5", ANTHROPIC, ASSAY_PRICES=own).cost(TokenUsage(output=1_000_000)) == 15
    assert price("other", LOCAL, ASSAY_PRICES=own).cost(used) == 0
    assert price("gpt-6-sol", OPENAI, ASSAY_PRICES=own).source.startswith("genai-prices")


def test_a_cost_can_be_computed_again_from_what_is_kept(tmp_path: Path) -> None:
    listed = price("claude-haiku-5-5", ANTHROPIC).provenance()
    assert listed["source"] == f"genai-prices {version('genai-prices')}"
    assert listed["rates"]["input"] == {"base": "0.1", "from": {"100000": "0.5"}}
    assert set(listed["rates"]) == {"input", "cache_read", "cache_write", "cache_write_1h", "output"}
    own = table(tmp_path / "p.toml", '[[price]]\nmodel = "m"\ninput = 1\noutput = 2\n')
    kept = price("m", LOCAL, ASSAY_PRICES=own).provenance()
    assert kept["rates"] == {"input": "1", "cache_read": "1", "cache_write": "1", "output": "2"}
    assert kept["source"].startswith("override ")
    table(tmp_path / "p.toml", '[[price]]\nmodel = "m"\ninput = 1\noutput = 2\n# later\n')
    assert price("m", LOCAL, ASSAY_PRICES=own).provenance()["source"] != kept["source"]


@pytest.mark.parametrize(
    "text",
    [
        "price = 3",
        '[[price]]\nmodel = "m"\ninput = 1\n',
        '[[price]]\nmodel = "m"\ninput = -1\noutput = 1\n',
        '[[price]]\nmodel = "m"\ninput = nan\noutput = 1\n',
        '[[price]]\nmodel = "m"\ninput = 1\noutput = 1\nper = "call"\n',
        "\x00",
    ],
)
def test_a_table_that_cannot_be_used_is_an_error_and_not_a_price(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="ASSAY_PRICES"):
        find_price(model="m", environ={"ASSAY_PRICES": table(tmp_path / "p.toml", text)}, **LOCAL)
    with pytest.raises(ConfigError, match="ASSAY_PRICES"):
        find_price(model="m", environ={"ASSAY_PRICES": str(tmp_path / "none.toml")}, **LOCAL)
