"""Cross tables."""

import pytest

from auditapp.stats.tables import cross_table


def test_counts_shares_and_empty_rows() -> None:
    counts = {("pass", "yes"): 3, ("pass", "no"): 1, ("fail", "no"): 2}
    rows = cross_table(counts, ["pass", "partial", "fail"], ["yes", "no", "unknown"])
    assert [(row.name, row.total) for row in rows] == [("pass", 4), ("fail", 2)]
    assert [(cell.count, cell.share, cell.tint) for cell in rows[0].cells] == [(3, 0.75, 3), (1, 0.25, 1), (0, 0.0, 0)]


def test_what_the_table_has_no_place_for_is_not_dropped() -> None:
    with pytest.raises(ValueError, match="other"):
        cross_table({("other", "yes"): 1}, ["pass"], ["yes"])
