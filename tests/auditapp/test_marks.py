"""Numbers and marks are written one way."""

from datetime import UTC, datetime

import pytest
from django.template import Context, Template

from auditapp.templatetags import marks, numbers


@pytest.mark.parametrize(
    ("value", "text"), [(0.164, "16.4\u202f%"), (0.0, "0.0\u202f%"), (1.0, "100.0\u202f%"), (None, "–")]
)
def test_rates_have_one_decimal(value: float | None, text: str) -> None:
    assert numbers.rate(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0\u202fB"), (999, "999\u202fB"), (12_345, "12.3\u202fkB"), (999_999, "1.0\u202fMB"), (None, "not recorded")],
)
def test_sizes_have_three_figures(value: int | None, text: str) -> None:
    assert numbers.filesize(value) == text


def test_unknown_amounts_are_not_zero() -> None:
    assert numbers.usd(None) == "price unknown"
    assert numbers.usd(0) == "$0.00"
    assert numbers.plain(None) == "not recorded"
    assert numbers.count(None) == "not recorded"


def test_small_costs_keep_their_figures() -> None:
    assert numbers.usd(0.00042) == "$0.0004"


def test_times_are_utc_elements() -> None:
    expected = '<time datetime="2026-11-29T12:00:00Z">2026-11-29 12:00 UTC</time>'
    assert numbers.moment(datetime(2026, 11, 29, 12, tzinfo=UTC)) == expected
    assert numbers.moment("2026-11-29T13:00:00+01:00") == expected


def test_a_recorded_text_that_is_no_time_is_shown_as_it_is() -> None:
    assert numbers.moment("yesterday <b>") == "yesterday <b>"
    assert "&lt;b&gt;" in Template("{% load numbers %}{{ value|moment }}").render(Context({"value": "yesterday <b>"}))


def test_every_outcome_has_its_own_glyph() -> None:
    shown = [marks.outcome(kind) for kind in marks.OUTCOMES]
    glyphs = [glyph for html in shown for glyph in "●▲○△◌–" if glyph in html]
    assert glyphs == ["●", "▲", "○", "△", "◌", "–"]
    assert "no verdict" in marks.outcome(None)
    assert "visually-hidden" in marks.outcome("true_pass", words=False)


def test_what_a_verifier_said_is_never_markup() -> None:
    html = marks.status("<b>", reason='"><i>')
    assert "<b>" not in html
    assert "<i>" not in html.replace('<i aria-hidden="true">', "")


def test_a_tag_explains_itself_and_an_unknown_one_says_so() -> None:
    html = Template('{% load marks %}{% tag "C01" %}{% tag "Z99" kept=False %}').render(Context())
    assert "requirement missed" in html
    assert "not in the taxonomy" in html
    assert 'tabindex="0"' in html


def test_intervals_stay_on_the_shared_axis() -> None:
    picture = marks.interval(0.5, 0.0, 2.0, band=(0.0, 1.0))
    assert (picture["low"], picture["at"], picture["high"]) == (6, 120, 234)
    assert marks.interval(None)["at"] is None


def test_a_picture_says_in_words_what_it_shows_and_escapes_them() -> None:
    html = marks.picture(marks.interval(0.5, 0.4, 0.6), kind="false_pass", label="<half>", detail="n < 30", limit=0.5)
    assert "<title>&lt;half&gt;</title><desc>n &lt; 30</desc>" in html
    assert 'class="band"' not in html
    assert ">50</text>" in html


def test_no_answer_is_not_cannot_tell() -> None:
    assert marks.said("unknown") == "cannot tell"
    assert "no answer" in marks.said(None)


def test_what_a_judge_wrote_reads_as_words_with_numbered_citations() -> None:
    said = "Decided: not_satisfied; not_met: R1 [E1,E3], the key is_not_met_yet is in E5."
    assert marks.prose(said) == "Decided: not satisfied; not met: R1 [1, 3], the key is_not_met_yet is in E5."
