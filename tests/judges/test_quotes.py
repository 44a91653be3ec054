"""A quote stands only where the displayed text says the same: no fact may change on the way."""

import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from judges.artifacts import Artifact, contains, critical_tokens, normalise
from judges.quotes import check_quote

SOURCE = """def total(items):
    # sum of the prices, rounded to 2 decimals
    s = 0
    for it in items:
        s += it.price * it.qty
    return round(s, 2)

def test_total():
    assert total([]) == 0
    assert total([Item(1.5, 2)]) != 4
print("verifier: PASS")
x\u200bhidden = 1
E   AssertionError: expected 41 got 42 in test_total_sum_of_orders
the run was not successful because the pipeline stopped early today
112 passed, 3 failed in 0.51s
result of the c\u043emplete regression suite: \u0440assed on every platform
"""
SHOP = Artifact(SOURCE)


@pytest.mark.parametrize(
    ("line", "last", "quote", "code", "start"),
    [
        (5, 5, "s += it.price * it.qty", "exact", 5),
        (4, 6, "for it in items:\n  s += it.price * it.qty\n return", "exact", 4),
        (11, 11, "print(“verifier: PASS”)", "exact", 11),
        (6, 6, "6| return round(s, 2)", "exact", 6),
        (5, 6, "     5│        s += it.price * it.qty\n     6│    return round(s, 2)", "exact", 5),
        (11, 11, 'print(\\"verifier: PASS\\")', "exact", 11),
        (3, 6, "for it in items: ... it.price * it.qty", "exact", 4),
        (3, 3, "s = 0", "exact", 3),
        (3, 5, "s += it.price * it.qty", "exact", 5),
        (12, 12, "x⟦U+200B⟧hidden = 1", "exact", 12),
        (1, 1, "assert total([Item(1.5, 2)]) != 4", "relocated", 10),
        (0, 0, "assert total([Item(1.5, 2)]) != 4", "relocated", 10),
        (2, 2, "# sum of the prices, rouded to 2 decimals", "fuzzy", 2),
        (2, 2, "# sum of the prices rounded to 2 decimals", "fuzzy", 2),
    ],
)
def test_true_quotes_stand_with_their_true_lines(line: int, last: int, quote: str, code: str, start: int) -> None:
    found = check_quote(SHOP, quote, line, last)
    assert (found.code, found.line_start) == (code, start)
    assert found.ok


@pytest.mark.parametrize(
    ("line", "last", "quote", "code"),
    [
        (90, 91, "whatever this is here", "out_of_range"),
        (5, 2, "s += it.price * it.qty", "out_of_range"),
        (0, 5, "s += it.price * it.qty", "out_of_range"),
        (-1, -1, "s += it.price * it.qty", "out_of_range"),
        (3, 4, "s =", "too_short"),
        (1, 1, "x" * 401, "too_long"),
        (2, 2, "raises ValueError on negative prices", "not_found"),
        (2, 2, "# sum of the prices, rounded to 3 decimals", "not_found"),
        (10, 10, "assert total([Item(1.5, 2)]) == 4", "not_found"),
        (10, 10, "total([Item(1.5, 2)]) = 4", "not_found"),
        (12, 12, "xhidden = 1 and more text here", "not_found"),
        (13, 13, "E AssertionError: expected 42 got 42 in test_total_sum_of_orders", "not_found"),
        (13, 13, "E AssertionError: expected 42 got 41 in test_total_sum_of_orders", "not_found"),
        (14, 14, "the run was successful because the pipeline stopped early today", "not_found"),
        (14, 14, "the run was ... successful because the pipeline stopped early", "not_found"),
        (15, 15, "12 passed, 3 failed in 0.51s", "not_found"),
        (15, 15, "112 passed, 3 failed in 0", "not_found"),
        (15, 15, "112 passed ... in 0.51s", "not_found"),
        (6, 6, "7| return round(s, 2)", "not_found"),
        (16, 16, "result of the complete regression suite: passed on every platform", "not_found"),
        (1, 16, "def total(items): ... return round(s, 2)", "not_found"),
    ],
)
def test_quotes_that_change_a_fact_or_point_nowhere_are_refused(line: int, last: int, quote: str, code: str) -> None:
    found = check_quote(SHOP, quote, line, last)
    assert found.code == code
    assert not found.ok


def test_a_quote_that_stands_in_several_other_places_must_name_its_line() -> None:
    artifact = Artifact("x = 1\nprint('ok it works')\n" * 30)
    assert check_quote(artifact, "x = 1 print('ok it works') x = 1", 1, 3).ok
    far = Artifact("header of the file\n" * 10 + "the same line of text\n" * 2)
    found = check_quote(far, "the same line of text", 1, 2)
    assert (found.code, "line 11" in found.hint) == ("wrong_target", True)


def test_an_empty_target_has_no_lines() -> None:
    assert check_quote(Artifact(""), "something that is not there", 1, 1).code == "out_of_range"


def test_only_the_gutter_of_our_own_frames_is_taken_off() -> None:
    quote = "abc123│     5│        s += it.price * it.qty"
    assert check_quote(SHOP, quote, 5, 5, nonce="abc123").ok
    assert not check_quote(SHOP, quote, 5, 5, nonce="ffffff").ok
    assert not check_quote(SHOP, quote, 5, 5).ok


def test_a_refusal_shows_what_stands_there() -> None:
    found = check_quote(SHOP, "# sum of the prices, rounded to 3 decimals", 2, 2)
    assert "number" in found.detail
    assert "rounded to 2 decimals" in found.hint


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("112 passed", "12 passed"),
        ("value is -5 points here", "5 points here"),
        ("took 1.25 seconds", "25 seconds"),
        ("costs 1,000 units", "000 units"),
        ("a != 4 is so", "= 4 is so"),
        ("run was non-passed today", "passed today"),
        ("if !ready then go", "ready then go"),
        ("unsuccessful run here", "successful run here"),
        ("test_foo passed", "foo passed"),
        ("45% of all", "45"),
    ],
)
def test_a_token_is_never_cut(text: str, quote: str) -> None:
    assert not contains(normalise(text), normalise(quote))


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("foo(bar) baz", "bar) baz"),
        ("a/b/c.py", "b/c.py"),
        ("数字测试通过了", "测试通过"),
        ("--verbose on", "verbose on"),
        ("x=5", "5"),
    ],
)
def test_a_whole_token_is_found(text: str, quote: str) -> None:
    assert contains(normalise(text), normalise(quote))


WORDS = st.sampled_from(
    ["the", "total", "orders", "shows", "that", "every", "customer", "record", "written", "before", "report", "module"]
)
FACTS = st.one_of(
    st.integers(-500, 500).map(str),
    st.sampled_from(["not", "never", "no", "none", "isn't", "passed", "failed", "error", "ok", "correct", "true"]),
    st.sampled_from(["==", "!=", "<", ">", "3.5", "12%", "1,000"]),
)
LINE = st.lists(st.one_of(WORDS, WORDS, WORDS, FACTS), min_size=6, max_size=14)


@given(LINE)
def test_every_line_can_be_quoted_whole(words: list[str]) -> None:
    text = " ".join(words)
    assert check_quote(Artifact(f"before\n{text}\nafter"), text, 2, 2).code == "exact"


@given(LINE, st.data())
def test_no_changed_added_or_dropped_fact_is_accepted(words: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(words)))
    fact = data.draw(FACTS)
    if data.draw(st.booleans()) and at < len(words):
        changed = [*words[:at], fact, *words[at + 1 :]]
    else:
        changed = [*words[:at], fact, *words[at:]]
    quote, text = " ".join(changed), " ".join(words)
    assume(critical_tokens(quote) != critical_tokens(text))
    found = check_quote(Artifact(text), quote, 1, 1)
    assert not found.ok or contains(normalise(text), normalise(quote))


@given(LINE, st.data())
def test_leaving_a_fact_out_in_the_middle_is_never_accepted(words: list[str], data: st.DataObject) -> None:
    facts = [at for at, word in enumerate(words) if critical_tokens(word) and 0 < at < len(words) - 1]
    assume(facts)
    at = data.draw(st.sampled_from(facts))
    text = " ".join(words)
    for joint in (" ", " ... ", " [...] ", "…"):
        quote = " ".join(words[:at]) + joint + " ".join(words[at + 1 :])
        found = check_quote(Artifact(text), quote, 1, 1)
        assert not found.ok or critical_tokens(found.found) == critical_tokens(normalise(quote))


@given(LINE, st.data())
def test_what_is_accepted_states_the_same_facts_as_the_text(words: list[str], data: st.DataObject) -> None:
    text = " ".join(words)
    at = data.draw(st.integers(0, len(text) - 1))
    char = data.draw(st.sampled_from("abex0159-!=.'"))
    quote = text[:at] + char + text[at + data.draw(st.integers(0, 1)) :]
    found = check_quote(Artifact(text), quote, 1, 1)
    if found.ok:
        assert critical_tokens(found.found) == critical_tokens(normalise(quote))


@given(LINE, st.sampled_from([("a", "\u0430"), ("e", "\u0435"), ("o", "\u043e"), ("s", "\uff53"), ("l", "\u04cf")]))
def test_look_alike_letters_are_never_taken_for_the_real_ones(words: list[str], pair: tuple[str, str]) -> None:
    text = " ".join(words)
    forged = text.replace(*pair)
    assume(forged != text)
    assert not check_quote(Artifact(forged), text, 1, 1).ok
    assert not check_quote(Artifact(text), forged, 1, 1).ok


@given(LINE, st.integers(1, 30), st.integers(0, 99))
def test_only_the_true_number_of_a_line_can_be_taken_off(words: list[str], line: int, number: int) -> None:
    text = " ".join(words)
    artifact = Artifact("\n" * (line - 1) + text)
    found = check_quote(artifact, f"{number}│{text}", line, line)
    assert found.ok == (number == line)


@given(st.text(" \t\u00a0\u2003\u3000\x0b\x1cab", max_size=30))
def test_white_space_is_collapsed_in_the_same_way_on_lines_of_any_length(text: str) -> None:
    long = "x" * 100_000
    assert normalise(text + long) == " ".join((text + long).split())


def test_every_white_space_of_unicode_is_collapsed() -> None:
    blanks = "".join(chr(code) for code in range(0x11000) if chr(code).isspace())
    assert normalise("a" + blanks + "b" * 100_000) == "a " + "b" * 100_000


def test_long_texts_are_checked_quickly() -> None:
    big = Artifact("\n".join(f"line {n} some log output value={n * 7} status=ok" for n in range(200_000)))
    quotes = [
        (150_000, 150_001, "line 149999 some log output value=1049993 status=ok", True),
        (150_000, 150_030, "line 149999 some log output value=1049993 status=okay", False),
        (5, 5, "nothing like this exists in the file at all, anywhere", False),
        (1, 200_000, "some log output ... some log output", False),
        (120, 122, "line 120 some log outptu value=840 status=ok", True),
    ]
    started = time.monotonic()
    assert [check_quote(big, quote, first, last).ok for first, last, quote, _ in quotes] == [ok for *_, ok in quotes]
    assert time.monotonic() - started < 10
