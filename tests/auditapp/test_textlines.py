"""Hostile text as numbered lines: what is shown is exactly what citations count."""

import re
import time
from html import unescape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditapp.templatetags.textlines import (
    BLOCK_CHARACTERS,
    Span,
    Text,
    compare,
    diff_kinds,
    visible,
)
from judges.display import display_lines

PIECES = [
    "a",
    "<b>",
    "\n",
    "\r",
    "\r\n",
    "\x1b[31m",
    "\x1b[0m",
    "\x1b[38;5;200m",
    "\x1b[2K",
    "\x00",
    "\u202e",
    "⟦",
    "␍",
]
PIECES += ["<|", "im_start|>", "Human:", "é", "\ufe0f", "⚠", "&amp;", '"', "\ud800", " "]


def shown_lines(html: str) -> list[str]:
    """The text of each line, as a browser has it, without signs and without our own words."""
    lines = re.findall(r'<div class="[^"]*" data-n="\d+"(?: id="cite")?>(.*?)</div>', html, re.S)
    return [unescape(re.sub(r"<summary>.*?</summary>|<b>.</b>|<[^>]*>", "", line)) for line in lines]


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_each_line_says_what_display_lines_says(raw: str) -> None:
    text = Text(raw)
    html = text.html(Span(1, len(text)))
    assert shown_lines(html) == display_lines(raw)


@settings(deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_no_element_comes_from_the_text(raw: str) -> None:
    html = Text(raw).html(Span(1, len(Text(raw))))
    assert set(re.findall(r"<([a-z]+)", html)) <= {"div", "span", "details", "summary", "br"}
    assert "style=" not in html


def test_terminal_colors_become_classes_and_carry_over_lines() -> None:
    html = Text("\x1b[1;31mred\nstill\x1b[0m plain").html(Span(1, 2))
    assert '<span class="f1 bold">red</span>' in html
    assert '<span class="f1 bold">still</span> plain' in html


def test_color_set_before_the_shown_lines_is_known() -> None:
    assert '<span class="f2">third</span>' in Text("\x1b[32mfirst\nsecond\nthird").html(Span(3, 3))


@pytest.mark.parametrize(("code", "name"), [("38;5;9", "f9"), ("38;2;255;0;0", "f9"), ("48;5;4", "g4"), ("97", "f15")])
def test_extended_colors_map_to_the_palette(code: str, name: str) -> None:
    assert f'<span class="{name}">x</span>' in Text(f"\x1b[{code}mx").html(Span(1, 1))


def test_overwritten_progress_is_folded_but_there() -> None:
    html = Text("10%\r50%\r100% done\n").html(Span(1, 1))
    assert "<summary>2 overwritten</summary>10%␍50%␍</details>100% done" in html


def test_a_long_text_shows_head_and_tail() -> None:
    assert visible(Text("x\n" * 452)) == [Span(1, 30), Span(443, 452)]


def test_a_text_of_forty_lines_is_whole() -> None:
    assert visible(Text("x\n" * 40)) == [Span(1, 40)]


def test_cited_lines_are_never_folded() -> None:
    spans = visible(Text("x\n" * 1_000, cited=Span(500, 501)))
    assert spans == [Span(1, 30), Span(497, 504), Span(991, 1_000)]


def test_a_citation_past_the_end_changes_nothing() -> None:
    assert visible(Text("x\n" * 100, cited=Span(5_000, 5_001))) == [Span(1, 30), Span(91, 100)]


def test_wide_lines_are_bounded() -> None:
    text = Text("\n".join(["w" * 5_000] * 50))
    html = "".join(text.html(span) for span in visible(text))
    assert len(html) < 3 * BLOCK_CHARACTERS
    assert "more characters in this line" in html


def test_unified_diff_lines_are_told_apart() -> None:
    lines = [
        "diff --git a/x b/x",
        "--- a/x",
        "+++ b/x",
        "@@ -1 +1 @@",
        "-old",
        "+new",
        " same",
        "after it",
        "+not a diff",
    ]
    kinds = diff_kinds(lines)
    assert (kinds[5], kinds[6], kinds.get(7), kinds.get(9)) == ("del", "ins", None, None)


def test_a_list_with_plus_signs_is_no_diff() -> None:
    assert diff_kinds(["+ one", "- two", "@@ nothing"]) == {}


def test_comparison_numbers_both_sides() -> None:
    change = compare("a\nb\nc\n", "a\nB\nc\nd\n")
    assert (change.inserted, change.deleted) == (2, 1)
    assert 'class="l del" data-n="2"><b>−</b>b' in change.html
    assert 'class="l ins" data-n="4"><b>+</b>d' in change.html


def test_comparison_with_nothing_says_so() -> None:
    assert compare(None, "x").why_not
    assert compare("x\n", "x\n").is_same


def test_comparison_of_long_texts_with_a_late_change_is_quick_and_right() -> None:
    old = "".join(f"{number}\n" for number in range(20_000))
    change = compare(old, old.replace("19990\n", "changed\n"))
    assert (change.inserted, change.deleted) == (1, 1)
    assert 'data-n="19991"' in change.html


def test_texts_that_differ_everywhere_are_refused() -> None:
    old = "".join(f"a{number}\n" for number in range(12_000))
    assert "too many lines" in compare(old, old.replace("a", "b")).why_not


def test_a_comparison_made_to_be_slow_is_not() -> None:
    old = "".join(f"{number % 100}\n" for number in range(5_000))
    new = "".join(f"{number * 7 % 100}\n" for number in range(5_000))
    started = time.process_time()
    assert compare(old, new).inserted
    assert time.process_time() - started < 3


def test_a_line_that_is_all_color_changes_is_shown_plain() -> None:
    raw = "\x1b[31mx\x1b[0my" * 50_000
    started = time.process_time()
    html = Text(raw).html(Span(1, 1))
    assert time.process_time() - started < 3
    assert "<span" not in html
    assert html.count("xy") == 1_000


def test_unchanged_lines_between_changes_are_counted() -> None:
    old = "".join(f"{number}\n" for number in range(100))
    change = compare(old, old.replace("10\n", "ten\n", 1).replace("\n90\n", "\nninety\n"))
    assert "73 lines are the same" in change.html
