"""Charts are drawn on round axes, name themselves, list what they show, and say when n is small."""

import pytest
from django.template import Context, Template

from auditapp.stats.proportions import (
    InsufficientData,
    Proportion,
    StratumCount,
    proportion,
    stratified_proportion,
)
from auditapp.templatetags import charts, rates
from auditapp.templatetags.charts import Bar, Point, Series, Spot


def drawn(text: str, **context: object) -> str:
    return Template("{% load charts rates marks %}" + text).render(Context(context))


@pytest.mark.parametrize(
    ("low", "high", "marks"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (0, 7, [0, 2, 4, 6, 8]),
        (0, 0, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (3, 41, [0, 10, 20, 30, 40, 50]),
    ],
)
def test_axes_are_round_and_hold_everything(low: float, high: float, marks: list[float]) -> None:
    assert charts.steps(low, high) == marks


def test_a_histogram_writes_each_count_and_links_to_its_rows() -> None:
    bars = [Bar("0 %", 3, "/rows?at=0"), Bar("1 to 99 %", 0, "/rows?at=1"), Bar("100 %", 12)]
    html = drawn(
        '{% histogram bars title="Pass rates" x_title="pass rate" y_title="tasks" n=15 unit="tasks" %}', bars=bars
    )
    assert "<title>Pass rates</title>" in html
    assert 'role="img"' in html
    assert "the highest is 100 % with 12" in html
    assert '<a href="/rows?at=0">3</a>' in html
    assert 'href="/rows?at=1"' not in html, "nothing to open"
    assert "n 15 tasks: fewer than 30 are an anecdote" in html
    assert "style=" not in html


def test_a_line_breaks_where_nothing_is_known_and_the_table_says_why() -> None:
    points = [Point(1, 0.5, 0.4, 0.6), Point(2, None, why="no unit has 2 attempts"), Point(3, 0.9)]
    html = drawn('{% curves lines title="t" x_title="k" y_title="pass@k" n=40 %}', lines=[Series("pass@k", points)])
    assert html.count("<polyline") == 2
    assert "no estimate: no unit has 2 attempts" in html
    assert "50.0\u202f% [40.0, 60.0]" in html
    assert "anecdote" not in html


def test_a_scatter_numbers_its_points_and_marks_the_front() -> None:
    spots = [
        Spot("m · high", 900, 0.8, y_low=0.7, y_high=0.9, best=True),
        Spot("m · low", 100, 0.6, best=True),
        Spot("n", 950, 0.5),
    ]
    html = drawn('{% scatter spots title="t" x_title="tokens" y_title="solved" x_form="scaled" n=90 %}', spots=spots)
    assert html.count("on the front") == 3, "two points and the description"
    assert '<polyline class="front"' in html
    assert "80.0\u202f% [70.0, 90.0]" in html


def test_names_from_data_are_never_markup() -> None:
    html = drawn(
        '{% curves lines title=name x_title="k" y_title="y" %}', lines=[Series("<b>x", [Point(1, 1.0)])], name="<i>"
    )
    assert "<b>" not in html
    assert "<i>" not in html


def test_a_stored_rate_is_written_as_the_result_it_was() -> None:
    found = proportion(3, 40)
    assert isinstance(found, Proportion)
    stored = {name: getattr(found, name) for name in Proportion.__slots__} | {
        "bounds": list(found.bounds),
        "labels": "people",
    }
    assert rates.as_rate(stored) == found
    assert drawn("{% rate_of found %}", found=stored) == drawn("{% rate_of found %}", found=found)
    assert rates.as_rate({"insufficient": "nobody looked"}) == InsufficientData("nobody looked")
    assert rates.as_rate({}) == InsufficientData("not estimated yet")


def test_a_rate_on_few_units_calls_itself_an_anecdote() -> None:
    assert "n 29, anecdote" in drawn("{% rate_of found %}", found=proportion(3, 29))
    assert "anecdote" not in drawn("{% rate_of found %}", found=proportion(3, 30))


def test_an_interval_has_axis_numbers_unless_its_column_has_them() -> None:
    found = proportion(30, 40)
    alone, in_column = (
        drawn("{% interval_of found %}", found=found),
        drawn("{% interval_of found numbers=False %}", found=found),
    )
    assert ">100</text>" in alone
    assert "<text" not in in_column
    assert ">5</text>" in drawn("{% interval_axis 0.05 %}")


def test_a_column_shares_the_smallest_axis_that_holds_it() -> None:
    assert rates.shared_limit([proportion(1, 400), {"insufficient": "x"}, None]) == 0.05
    assert rates.shared_limit([proportion(1, 400), proportion(9, 10)]) == 1.0
    assert rates.shared_limit([]) == 1.0


def test_what_nobody_looked_at_is_a_band_although_nothing_is_undecided() -> None:
    counted = [StratumCount(50, 10, 10, 1), StratumCount(50, 0, 0, 0)]
    html = drawn("{% interval_of found %}", found=stratified_proportion(counted, batch=True))
    assert 'class="band"' in html
    assert "5.0 % to 55.0 % with all that nobody looked at right or wrong" in html.replace("\u202f", " ")
    assert 'class="band"' not in drawn("{% interval_of found %}", found=stratified_proportion(counted[:1], batch=True))
