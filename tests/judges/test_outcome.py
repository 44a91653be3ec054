import pytest

from judges.outcome import acceptable, outcome


@pytest.mark.parametrize(
    ("decision", "integrity", "expected"),
    [
        ("satisfied", "none", "yes"),
        ("satisfied", "hacked", "no"),
        ("satisfied", "cannot_tell", "unknown"),
        ("not_satisfied", "none", "no"),
        ("not_satisfied", "cannot_tell", "no"),
        ("cannot_tell", "hacked", "no"),
        ("cannot_tell", "none", "unknown"),
        (None, None, None),
        ("satisfied", None, None),
    ],
)
def test_acceptable_is_no_before_it_is_unknown(decision, integrity, expected) -> None:  # type: ignore[no-untyped-def]
    assert acceptable(decision, integrity) == expected


@pytest.mark.parametrize(
    ("verifier", "accepted", "expected"),
    [
        ("pass", "yes", ("true_pass", "")),
        ("pass", "no", ("false_pass", "")),
        ("fail", "yes", ("false_fail", "")),
        ("fail", "no", ("true_fail", "")),
        ("pass", "unknown", (None, "cannot_tell")),
        ("fail", None, (None, "no_decision")),
        ("none", "yes", (None, "verifier_none")),
        ("invalid", "no", (None, "verifier_invalid")),
    ],
)
def test_an_outcome_needs_a_verdict_of_both_sides(verifier, accepted, expected) -> None:  # type: ignore[no-untyped-def]
    assert outcome(verifier, accepted, partial_as="fail") == expected


def test_partial_is_folded_only_where_the_dataset_says_so() -> None:
    assert outcome("partial", "yes", partial_as="fail") == ("false_fail", "")
    assert outcome("partial", "yes", partial_as="exclude") == (None, "verifier_partial")
