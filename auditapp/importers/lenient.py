"""Reading JSON and text that nobody vouches for: repairs are counted, what cannot be repaired is one clear reason.

Everything returned can be stored: no NUL, no lone surrogate, no NaN, no number beyond 64 bits.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import orjson

from auditapp.importers.options import Limits
from judges.records import Json, Notice

Number = TypeVar("Number", int, float)
_SHOWN_PER_CODE = 20
# Looking for duplicate keys needs the slow parser, so only documents this small are searched for them.
_DUPLICATES_UP_TO = 64 * 2**10
_STRING_OR_REDACTED = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|\[REDACTED\]', re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_INT64 = range(-(2**63), 2**64)


class UnreadableError(Exception):
    """A document that could not be read; the message says what is wrong with it and names no path."""


class Repairs:
    """Collects the repairs of one record; of each code the first 20 places are kept and the rest counted."""

    def __init__(self) -> None:
        self._notices: dict[str, list[Notice]] = {}
        self._counts: dict[str, int] = {}
        self._left_out: dict[str, int] = {}

    def add(self, code: str, locator: str = "", detail: str = "", *, count: int = 1) -> None:
        """Note `count` repairs of one kind at one place."""
        self._counts[code] = self._counts.get(code, 0) + count
        kept = self._notices.setdefault(code, [])
        if len(kept) < _SHOWN_PER_CODE:
            note = f"{count} times" if count > 1 and not detail else detail
            kept.append(Notice(code, storable_text(locator)[:300], storable_text(note)[:500]))
        else:
            self._left_out[code] = self._left_out.get(code, 0) + 1

    def count(self, code: str) -> int:
        """How often `code` was noted."""
        return self._counts.get(code, 0)

    def counts(self) -> dict[str, int]:
        """How often each code was noted."""
        return dict(self._counts)

    def notices(self) -> tuple[Notice, ...]:
        """All kept places, and per code one more that counts what was left out."""
        out: list[Notice] = []
        for code, kept in self._notices.items():
            out.extend(kept)
            if code in self._left_out:
                out.append(Notice(code, "", f"and {self._left_out[code]} more places"))
        return tuple(out)


def loads(raw: bytes, *, name: str, repairs: Repairs, limits: Limits) -> Json:
    """The JSON value of `raw`, repaired where that is safe; raises UnreadableError with the reason."""
    if len(raw) > limits.json_bytes:
        raise UnreadableError(f"{name} has {len(raw):,} bytes, more than the limit of {limits.json_bytes:,}")
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        if "depth limit" in str(error):
            raise UnreadableError(f"{name} is nested deeper than 1,024 levels") from None
        return _storable(_parse_slowly(raw, name=name, repairs=repairs), name=name, repairs=repairs)
    if len(raw) <= _DUPLICATES_UP_TO:
        _note_duplicates(raw, name=name, repairs=repairs)
    return _storable(value, name=name, repairs=repairs) if b"\\u0000" in raw else value


def load_object(raw: bytes, *, name: str, repairs: Repairs, limits: Limits) -> dict[str, Json]:
    """As `loads`, for documents that must be an object."""
    value = loads(raw, name=name, repairs=repairs, limits=limits)
    if not isinstance(value, dict):
        raise UnreadableError(f"{name} holds {_kind(value)} where an object is expected")
    return value


def _parse_slowly(raw: bytes, *, name: str, repairs: Repairs) -> Json:
    text = _decoded(raw, name=name, repairs=repairs)
    reader = _Reader(name, repairs)
    try:
        return reader.loads(text)
    except ValueError as error:
        if "[REDACTED]" not in text:
            raise UnreadableError(f"{name} is not valid JSON: {error}") from None
        return _parse_redacted(text, name=name, repairs=repairs)
    except RecursionError:
        raise UnreadableError(f"{name} is nested too deeply") from None


def _parse_redacted(text: str, *, name: str, repairs: Repairs) -> Json:
    """Published traces hold bare [REDACTED] where a scrubber replaced a number or an object."""
    raw = text.encode("utf-8", "surrogatepass")
    found = 0

    def replace(match: re.Match[bytes]) -> bytes:
        nonlocal found
        if match.group() != b"[REDACTED]":
            return match.group()
        found += 1
        return b"null"

    fixed = _STRING_OR_REDACTED.sub(replace, raw).decode("utf-8", "surrogatepass")
    try:
        value = _Reader(name, repairs).loads(fixed)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"{name} is not valid JSON: {error}") from None
    repairs.add("redacted_value", name, count=found)
    return value


def _decoded(raw: bytes, *, name: str, repairs: Repairs) -> str:
    if raw.startswith(b"\xef\xbb\xbf"):
        repairs.add("byte_order_mark", name)
        raw = raw[3:]
    try:
        return raw.decode()
    except UnicodeDecodeError:
        repairs.add("invalid_utf8", name)
        return raw.decode("utf-8", "replace")


class _Reader:
    """The standard parser with hooks that turn what JSON or storage cannot hold into null, and note it."""

    def __init__(self, name: str, repairs: Repairs) -> None:
        self._name = name
        self._repairs = repairs

    def loads(self, text: str) -> Json:
        return json.loads(
            text,
            parse_constant=self._constant,
            parse_float=self._float,
            parse_int=self._int,
            object_pairs_hook=self._pairs,
            strict=False,
        )

    def _constant(self, token: str) -> None:
        self._repairs.add("not_a_number", self._name, f"{token} read as null")

    def _float(self, token: str) -> float | None:
        value = float(token)
        if math.isfinite(value):
            return value
        self._constant(token[:40])
        return None

    def _int(self, token: str) -> Json:
        if len(token) < 19 or (len(token) < 25 and int(token) in _INT64):
            return int(token)
        return self._float(token)

    def _pairs(self, pairs: list[tuple[str, Json]]) -> dict[str, Json]:
        value = dict(pairs)
        if len(value) < len(pairs):
            names = [key for key, _ in pairs]
            twice = next(key for key in names if names.count(key) > 1)
            self._repairs.add("duplicate_key", self._name, f"{twice}: the last one counts")
        return value


def _note_duplicates(raw: bytes, *, name: str, repairs: Repairs) -> None:
    found = Repairs()
    try:
        _Reader(name, found).loads(raw.decode())
    except (ValueError, RecursionError):
        return
    for notice in found.notices():
        if notice.code == "duplicate_key":
            repairs.add(notice.code, notice.locator, notice.detail)


def _storable(value: Json, *, name: str, repairs: Repairs) -> Json:
    nuls = surrogates = 0

    def clean(text: str) -> str:
        nonlocal nuls, surrogates
        if text.isascii() and "\0" not in text:
            return text
        nuls += text.count("\0")
        surrogates += len(_SURROGATE.findall(text))
        return storable_text(text)

    out = map_text(value, clean)
    if nuls:
        repairs.add("nul_character", name, count=nuls)
    if surrogates:
        repairs.add("lone_surrogate", name, count=surrogates)
    return out


def map_text(value: Json, clean: Callable[[str], str]) -> Json:
    """Replace each text in `value` itself, without recursion: the parser allows more levels than Python's stack."""
    root: list[Json] = [value]
    todo: list[Any] = [root]
    while todo:
        holder = todo.pop()
        keys = list(holder) if isinstance(holder, dict) else range(len(holder))
        for key in keys:
            item = holder[key]
            if isinstance(item, str):
                holder[key] = clean(item)
            elif isinstance(item, (dict, list)):
                todo.append(item)
        if isinstance(holder, dict):
            _clean_keys(holder, clean)
    return root[0]


def _clean_keys(holder: dict[str, Json], clean: Callable[[str], str]) -> None:
    for key in [key for key in holder if "\0" in key or _SURROGATE.search(key)]:
        holder[clean(key)] = holder.pop(key)


def storable_text(text: str) -> str:
    """`text` with NUL shown as U+2400 and lone surrogates as U+FFFD, which databases and UTF-8 can hold."""
    return _SURROGATE.sub("\ufffd", text.replace("\0", "\u2400"))


def decode_text(raw: bytes, *, name: str, repairs: Repairs) -> str:
    """The storable text of a file; bytes that are not UTF-8 become U+FFFD with a warning."""
    text = _decoded(raw, name=name, repairs=repairs)
    if "\0" in text:
        repairs.add("nul_character", name, count=text.count("\0"))
    return storable_text(text)


def is_storable(value: Json) -> bool:
    """Whether canonical JSON can hold `value`: at most some 250 levels, 64-bit numbers, no lone surrogate."""
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


def as_text(value: Json, *, at: str, repairs: Repairs) -> str:
    """`value` as text: null is empty, anything but a string becomes JSON with a warning."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    repairs.add("text_coerced", at, f"was {_kind(value)}")
    return json_text(value)


def json_text(value: Json) -> str:
    """JSON text of any parsed value, however deep."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return f"({_kind(value)} nested too deeply to show)"


def as_objects(value: Json, *, at: str, repairs: Repairs) -> list[dict[str, Json]]:
    """The objects of a list; a missing list is empty, a lone object a list of one, other items are dropped."""
    if value is None:
        return []
    items = value if isinstance(value, list) else [value]
    if not isinstance(value, list):
        repairs.add("list_expected", at, f"was {_kind(value)}")
    objects = [item for item in items if isinstance(item, dict)]
    if len(objects) < len(items):
        repairs.add("item_dropped", at, "not an object", count=len(items) - len(objects))
    return objects


def as_object(value: Json, *, at: str, repairs: Repairs) -> dict[str, Json]:
    """`value` if it is an object; null is empty, anything else is empty with a warning."""
    if isinstance(value, dict):
        return value
    if value is not None:
        repairs.add("object_expected", at, f"was {_kind(value)}")
    return {}


def as_int(value: Json, *, at: str, repairs: Repairs) -> int | None:
    """A whole number or None; fractions and other types are refused with a warning, booleans are no numbers."""
    number = as_float(value, at=at, repairs=repairs)
    if number is None:
        return None
    if number != int(number):
        repairs.add("number_expected", at, f"{number} is not whole")
        return None
    return int(number)


def as_float(value: Json, *, at: str, repairs: Repairs) -> float | None:
    """A finite number or None; null is None, which is never zero."""
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return value
    repairs.add("number_expected", at, f"was {_kind(value)}")
    return None


def as_name(value: Json, *, at: str, repairs: Repairs) -> str:
    """A short text field such as a model or an agent; missing is empty."""
    return as_text(value, at=at, repairs=repairs).strip()[:500]


def dig(value: Mapping[str, Json], *keys: str) -> Json:
    """The value at a path of keys, or None where any part is missing or no object."""
    found: Json = value
    for key in keys:
        if not isinstance(found, dict):
            return None
        found = found.get(key)
    return found


def _kind(value: Json) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def whole_sum(parts: Iterable[Number | None]) -> Number | None:
    """The sum of all parts, None where there is none or one is not known: a part of a total is not the total."""
    found = list(parts)
    known = [part for part in found if part is not None]
    return sum(known[1:], known[0]) if known and len(known) == len(found) else None
