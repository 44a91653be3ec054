"""The one engine for foreign patterns: linear, clear in refusal, character offsets, one way of counting."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.patterns import COUNT_LIMIT, PatternError, compile_pattern, count_matches, search_texts


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("", "empty"),
        ("a" * 201, "201 characters, 200 are allowed"),
        ("(", "refused: missing )"),
        ("(?=a)b", "no look-around"),
        (r"(a)\1", "no back-references"),
        ("a*", "matches the empty text"),
        (r"\C\C", "one byte"),
        ("x{1000}{1000}", "refused"),
        ("\ud800", "lone surrogate"),
    ],
)
def test_a_refused_pattern_says_why(pattern: str, says: str) -> None:
    with pytest.raises(PatternError, match=says.replace("(", r"\(").replace(")", r"\)")):
        compile_pattern(pattern)


def test_catastrophic_patterns_are_linear() -> None:
    started = time.process_time()
    assert count_matches(compile_pattern("(a+)+$"), ["a" * 100_000 + "!"]) == 0
    assert time.process_time() - started < 2


def test_offsets_are_characters_in_any_script() -> None:
    text = "数é git log\nnaïve GIT show"
    spans = list(compile_pattern("git (log|show)").finditer(text))
    assert [text[start:end] for start, end in spans] == ["git log", "GIT show"]


def test_case_is_ignored_unless_asked_for_and_anchors_are_those_of_lines() -> None:
    assert count_matches(compile_pattern("^foo|bar$"), ["FOO x\nfoo BAR\nbar foo"]) == 3
    assert count_matches(compile_pattern("(?-i:foo)"), ["FOO x\nfoo BAR"]) == 1


@given(
    st.lists(st.text("abABé数 \n", max_size=30), max_size=5),
    st.sampled_from(["a+", "é", "a.b", "^b", "(a|b)数", r"\w b", "ab", "aa", r"B\x20a", r"\x0a"]),
)
def test_counting_and_finding_agree(texts: list[str], source: str) -> None:
    pattern = compile_pattern(source)
    assert count_matches(pattern, texts) == sum(len(list(pattern.finditer(text))) for text in texts)


@pytest.mark.parametrize(
    ("pattern", "literal"),
    [("Ab_1", "ab_1"), (r"a\x2Eb", ""), (r"a\x2eb", "a.b"), ("a.b", ""), ("é", ""), (r"\xe9", "")],
)
def test_only_plain_ascii_is_counted_as_a_literal(pattern: str, literal: str) -> None:
    assert compile_pattern(pattern).literal == literal


def test_a_literal_is_counted_up_to_the_limit_and_kelvin_is_a_k() -> None:
    assert count_matches(compile_pattern("ok"), ["ok OK", "o\u212a"]) == 3
    assert count_matches(compile_pattern("ok"), ["ok ok", "ok"], limit=2) == 2


def test_search_shows_line_and_surroundings_and_counts_past_what_it_shows() -> None:
    result = search_texts(compile_pattern("needle"), [("a", "x\ny needle z\nneedle"), ("b", "needle")], max_hits=2)
    assert (result.total, result.complete) == (3, True)
    assert [(hit.where, hit.line) for hit in result.hits] == [("a", 2), ("a", 3)]
    assert result.hits[0].text == "x⏎y needle z⏎needle"


def test_a_search_that_finds_too_much_says_that_its_count_is_a_lower_bound() -> None:
    result = search_texts(compile_pattern("."), [("a", "x" * (COUNT_LIMIT + 5))])
    assert (result.total, result.complete) == (COUNT_LIMIT, False)
    assert "rarer" in result.reason


def test_a_search_out_of_time_says_so() -> None:
    result = search_texts(compile_pattern("x"), [("a", "x"), ("b", "x")], budget_s=-1)
    assert (result.total, result.complete) == (1, False)
    assert "time budget" in result.reason
