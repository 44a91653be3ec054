import tomllib
from pathlib import Path

import pytest

from judges.config import JudgeConfig, load_config, parse_config
from judges.errors import ConfigError

RULES = {"name": "rules", "provider": "rules"}


def test_the_rules_config_of_the_package_loads() -> None:
    config = load_config(Path(__file__).parents[2] / "judges" / "rules.toml")
    assert (config.provider, config.sandbox) == ("rules", "bwrap")


def test_there_is_no_default_provider_and_no_default_model() -> None:
    with pytest.raises(ConfigError, match="provider is missing"):
        parse_config({"name": "x"})
    with pytest.raises(ConfigError, match="there is no default model"):
        parse_config({"name": "x", "provider": "anthropic"})


def test_an_unknown_key_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'modle'; known: .*model.*provider"):
        parse_config({**RULES, "modle": "x"})
    with pytest.raises(ConfigError, match=r"unknown key 'limits\.turn'; known: .*turns"):
        parse_config({**RULES, "limits": {"turn": 3}})


def test_rules_cannot_name_a_model() -> None:
    with pytest.raises(ConfigError, match="asks no model"):
        parse_config({**RULES, "model": "something"})


def test_a_file_that_is_no_toml_says_so(tmp_path: Path) -> None:
    (tmp_path / "judge.toml").write_text("name = ")
    with pytest.raises(ConfigError, match=r"judge\.toml: cannot be read as TOML"):
        load_config(tmp_path / "judge.toml")


def test_the_digest_follows_every_choice_but_the_name() -> None:
    base = parse_config(RULES).digest()
    assert parse_config({**RULES, "name": "other"}).digest() == base
    changed = [{"sandbox": "none"}, {"max_output_tokens": 512}, {"limits": {"turns": 12}}, {"limits": {"usd": "2"}}]
    assert base not in {parse_config({**RULES, **change}).digest() for change in changed}


def test_the_digest_follows_prompts_tools_and_taxonomy(monkeypatch: pytest.MonkeyPatch) -> None:
    config = parse_config(RULES)
    before = config.digest()
    for module in ("prompts", "toolschemas"):
        with monkeypatch.context() as patch:
            patch.setattr(f"judges.{module}.digest", lambda: "another")
            assert config.digest() != before


def test_the_digest_of_a_script_is_that_of_its_content(tmp_path: Path) -> None:
    script = tmp_path / "turns.json"
    script.write_text("[]")
    config = JudgeConfig(name="s", provider="scripted", script=str(script))
    before = config.digest()
    script.write_text('[{"text": "hello"}]')
    assert config.digest() != before


def test_the_host_is_what_a_key_belongs_to() -> None:
    config = parse_config(
        {"name": "x", "provider": "openai_chat", "model": "m", "base_url": "http://127.0.0.1:8080/v1"}
    )
    assert (config.host, parse_config(RULES).host) == ("127.0.0.1", "")


def test_every_problem_is_named_one_by_one() -> None:
    with pytest.raises(ConfigError) as failed:
        parse_config({"provider": "openai_chat", "turnz": 3, "limits": {"turns": 1}, "base_url": 5})
    problems = failed.value.problems
    assert len(problems) == 6
    for words in ("name is missing", "'turnz'", "limits.turns:", "base_url:", "no default model", "needs base_url"):
        assert sum(words in problem for problem in problems) == 1, words
    with pytest.raises(ConfigError) as failed:
        parse_config({"name": "x", "provider": "anthropic", "effort": "huge"})
    assert [problem.split()[0] for problem in failed.value.problems] == ["provider", "effort"]


@pytest.mark.parametrize("name", ["claude", "gpt", "local"])
def test_an_example_lacks_the_model_and_nothing_else(name: str) -> None:
    path = Path(__file__).parents[2] / "judges" / "examples" / f"{name}.toml"
    with pytest.raises(ConfigError) as failed:
        load_config(path)
    assert len(failed.value.problems) == 1
    assert "there is no default model" in failed.value.problems[0]
    raw = tomllib.loads(path.read_text())
    config = parse_config({**raw, "model": "some-model"})
    assert config.url.startswith("http")
