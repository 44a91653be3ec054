"""Reading JSON from strangers: what is repaired, what is refused, and that both are said."""

from typing import Any

import orjson
import pytest

from auditapp.importers.lenient import (
    Repairs,
    UnreadableError,
    as_float,
    as_int,
    as_objects,
    as_text,
    decode_text,
    is_storable,
    load_object,
    loads,
    whole_sum,
)
from auditapp.importers.options import Limits


def read(raw: bytes, **limits: int) -> tuple[Any, Repairs]:
    repairs = Repairs()
    return loads(raw, name="x.json", repairs=repairs, limits=Limits(**limits)), repairs


def codes(repairs: Repairs) -> list[str]:
    return [notice.code for notice in repairs.notices()]


def test_sound_json_is_read_without_any_repair() -> None:
    value, repairs = read(b'{"a": [1, 2.5, null, true, "\\ud83d\\ude00"]}')
    assert value == {"a": [1, 2.5, None, True, "😀"]}
    assert repairs.notices() == ()


@pytest.mark.parametrize("token", [b"NaN", b"Infinity", b"-Infinity", b"1e999"])
def test_what_is_no_number_becomes_null_with_a_warning(token: bytes) -> None:
    value, repairs = read(b'{"reward": ' + token + b', "n": 1}')
    assert value == {"reward": None, "n": 1}
    assert codes(repairs) == ["not_a_number"]


def test_of_a_duplicate_key_the_last_one_counts_and_the_warning_names_it() -> None:
    value, repairs = read(b'{"reward": 0, "reward": 1}')
    assert value == {"reward": 1}
    assert repairs.notices()[0].detail.startswith("reward")


def test_bare_redactions_become_null_but_text_that_mentions_them_stays() -> None:
    value, repairs = read(b'{"key": [REDACTED], "text": "a [REDACTED] \\" [REDACTED]", "list": [1, [REDACTED]]}')
    assert value == {"key": None, "text": 'a [REDACTED] " [REDACTED]', "list": [1, None]}
    assert repairs.count("redacted_value") == 2


@pytest.mark.parametrize("bomb", [b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000])
def test_a_document_nested_100_000_deep_is_refused_with_the_reason(bomb: bytes) -> None:
    with pytest.raises(UnreadableError, match="nested"):
        read(bomb)


@pytest.mark.parametrize("bomb", [b"[NaN," * 100_000, b'{"a":NaN,"b":' * 100_000])
def test_depth_is_also_refused_where_the_document_needs_repairs_first(bomb: bytes) -> None:
    with pytest.raises(UnreadableError):
        read(bomb)


def test_nul_and_lone_surrogates_become_characters_that_databases_hold() -> None:
    value, repairs = read(b'{"nul \\u0000": "a\\u0000b", "lone": ["\\ud800x", "\\ud83d\\ude00"]}')
    assert value == {"nul ␀": "a␀b", "lone": ["\ufffdx", "😀"]}
    assert repairs.count("nul_character") == 2
    assert repairs.count("lone_surrogate") == 1
    orjson.dumps(value)


def test_raw_control_characters_in_strings_are_kept_and_a_raw_nul_is_replaced() -> None:
    value, repairs = read(b'{"log": "a\x1b[31m\tb\x00"}')
    assert value == {"log": "a\x1b[31m\tb␀"}
    assert codes(repairs) == ["nul_character"]


def test_a_byte_order_mark_and_broken_utf8_are_repaired() -> None:
    value, repairs = read(b'\xef\xbb\xbf{"a": "caf\xe9"}')
    assert value == {"a": "caf\ufffd"}
    assert codes(repairs) == ["byte_order_mark", "invalid_utf8"]


def test_whole_numbers_beyond_64_bits_can_be_stored_afterwards() -> None:
    value, _ = read(b'{"a": 123456789012345678901234567890, "b": NaN, "c": -9223372036854775808}')
    assert value["c"] == -9223372036854775808
    assert value["a"] == pytest.approx(1.2345678901234568e29)
    assert is_storable(value)


def test_a_truncated_document_and_one_over_the_limit_are_refused_with_reasons() -> None:
    with pytest.raises(UnreadableError, match="not valid JSON"):
        read(b'{"steps": [{"a": 1}, {"b"')
    with pytest.raises(UnreadableError, match="more than the limit"):
        read(b"[" + b"1," * 100 + b"1]", json_bytes=50)


def test_an_object_is_asked_for_and_something_else_is_named() -> None:
    with pytest.raises(UnreadableError, match="holds a list where an object"):
        load_object(b"[]", name="case.json", repairs=Repairs(), limits=Limits())


def test_many_repairs_of_one_kind_are_counted_but_not_all_kept() -> None:
    repairs = Repairs()
    for number in range(1000):
        repairs.add("unknown_source", str(number))
    notices = repairs.notices()
    assert len(notices) == 21
    assert notices[-1].detail == "and 980 more places"
    assert repairs.count("unknown_source") == 1000


def test_coercions_say_what_they_found_and_null_is_never_zero() -> None:
    repairs = Repairs()
    assert as_text({"b": 1}, at="3 message", repairs=repairs) == '{"b":1}'
    assert as_objects("x", at="3 steps", repairs=repairs) == []
    assert as_int(None, at="n", repairs=repairs) is None
    assert as_int(2.5, at="n", repairs=repairs) is None
    assert as_float(True, at="n", repairs=repairs) is None
    assert as_int(3.0, at="n", repairs=repairs) == 3
    assert [(notice.code, notice.locator) for notice in repairs.notices()] == [
        ("text_coerced", "3 message"),
        ("list_expected", "3 steps"),
        ("item_dropped", "3 steps"),
        ("number_expected", "n"),
        ("number_expected", "n"),
    ]


def test_text_files_of_any_encoding_become_storable_text() -> None:
    repairs = Repairs()
    assert decode_text(b"a\0b\xff", name="stdout.txt", repairs=repairs) == "a␀b\ufffd"
    assert {notice.code for notice in repairs.notices()} == {"invalid_utf8", "nul_character"}


@pytest.mark.parametrize(
    ("parts", "total"), [([], None), ([None], None), ([1, None, 2], None), ([1, 2], 3), ([0.0], 0.0), ([0], 0)]
)
def test_a_part_of_a_total_is_not_the_total(parts: list[float | None], total: float | None) -> None:
    assert whole_sum(parts) == total
