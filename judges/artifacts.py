"""Texts that citations point into: displayed lines, a normal form with a way back to line numbers, and exact matching.

Matching is at token boundaries: "12 passed" does not occur in "112 passed", nor "= 4" in "!= 4", nor "5" in "-5".
"""

import bisect
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from judges.display import CONTROL_MARK, display_lines

_PUNCTUATION: Final = (
    *(("“", '"'), ("”", '"'), ("„", '"'), ("‟", '"'), ("‘", "'"), ("’", "'"), ("‚", "'"), ("‛", "'")),
    *((dash, "-") for dash in "‐‑‒–—―−"),
    *(("…", "..."), ("\ufe0f", ""), (CONTROL_MARK, "")),
)
_OPERATORS: Final = frozenset("=!<>~+*&|^%")
_VERDICT_WORDS: Final = (
    r"not|no|non|never|none|nor|neither|nothing|cannot|without|unless|except|null|nil|nan|true|false|yes"
    r"|pass(?:es|ed|ing)?|fail(?:s|ed|ing|ures?)?|ok|okay|errors?|correct(?:ly)?|incorrect(?:ly)?|valid|invalid"
    r"|success|successful(?:ly)?|succeed(?:s|ed)?|unsuccessful(?:ly)?|wrong|right|skipped|missing|all|any|some"
)
_CRITICAL: Final = re.compile(
    rf"⟦[^⟧]*⟧|[-+]?\d+(?:[.,:]\d+)*%?|[=!<>]=+|[<>]|\b(?:{_VERDICT_WORDS})\b|\b\w+n't\b", re.I
)
_NEGATING_PREFIX: Final = re.compile(r"\b(?:non|not|no|un|in|dis|anti)-\Z", re.I)
_OVERWRITES_BEFORE: Final = re.compile(r"(?:␍|⟦U\+0008(?: ×\d+)?⟧) ?\Z")
_OVERWRITES_AFTER: Final = re.compile(r" ?(?:␍|⟦U\+0008)")
# Scripts written without blanks between words: any place is a token boundary there.
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_MOST_PLACES: Final = 10_000
_LONG_LINE: Final = 100_000
_BLANKS: Final = "\t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


def normalise(text: str) -> str:
    """NFC (never NFKC, which equates look-alikes), plain quotes and dashes, white space collapsed."""
    return _collapse(_plain(text))


def _collapse(line: str) -> str:
    if len(line) < _LONG_LINE:
        return " ".join(line.split())
    for blank in _BLANKS:  # a list of millions of words would be slow and large
        line = line.replace(blank, " ")
    while "  " in line:
        line = line.replace("  ", " ")
    return line.strip()


def _plain(text: str) -> str:
    if text.isascii():
        return text
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    for mark, plain in _PUNCTUATION:  # quicker than translate, as hardly any of them occurs
        text = text.replace(mark, plain)
    return text


def critical_tokens(text: str) -> list[str]:
    """Numbers, comparison operators, negations, verdict words and our marks, in order: what a quote may not alter."""
    return [found[0].lower() for found in _CRITICAL.finditer(text)]


def occurrences(text: str, wanted: str) -> Iterator[int]:
    """Offsets in `text` where `wanted` occurs at token boundaries; gives up after 10,000 places that are none."""
    at = text.find(wanted)
    for _ in range(_MOST_PLACES):
        if at < 0:
            return
        if is_boundary(text, at) and is_boundary(text, at + len(wanted)):
            yield at
        at = text.find(wanted, at + 1)


def contains(text: str, wanted: str) -> bool:
    """Whether normalised `wanted` occurs in normalised `text` at token boundaries."""
    return next(occurrences(text, wanted), None) is not None


def is_boundary(text: str, at: int) -> bool:
    """Whether cutting `text` at `at` leaves every token of both sides as it was."""
    if at in (0, len(text)):
        return True
    if _is_overwritten(text, at):
        return False
    before, after = text[at - 1], text[at]
    if " " in (before, after):
        return True
    glued = before == "!" or _inside_word(text, at) or (before in _OPERATORS and after in _OPERATORS)
    negated = before == "-" and _NEGATING_PREFIX.search(text[max(0, at - 6) : at])
    return not (glued or negated or _splits_number(text, at))


def _inside_word(text: str, at: int) -> bool:
    """Whether letters stand on both sides, marks of hidden characters between them left aside."""
    low, high = at, at
    while text[low - 1 : low] == "⟧" and (start := text.rfind("⟦", 0, low)) >= 0:
        low = start
    while text[high : high + 1] == "⟦" and (end := text.find("⟧", high)) >= 0:
        high = end + 1
    return low > 0 and high < len(text) and _is_word(text[low - 1]) and _is_word(text[high])


def _is_overwritten(text: str, at: int) -> bool:
    """Whether a terminal would show one side of `at` over the other: what was there belongs to what is left."""
    near = text[max(0, at - 20) : at + 10]
    if "␍" not in near and "U+0008" not in near:
        return False
    return bool(_OVERWRITES_BEFORE.search(text[max(0, at - 20) : at]) or _OVERWRITES_AFTER.match(text[at : at + 10]))


def _is_word(char: str) -> bool:
    return (char.isalnum() or char == "_") and not _UNSPACED.match(char)


def _splits_number(text: str, at: int) -> bool:
    """Inside 1.5 or 1,000 or 12:30, between a sign and its number, or between a number and its percent sign."""
    before, after = text[at - 1], text[at]
    if after.isdigit() and before in ".,:":
        return at >= 2 and text[at - 2].isdigit()
    if before.isdigit() and after in ".,:":
        return at + 1 < len(text) and text[at + 1].isdigit()
    if after.isdigit() and before in "-+":
        return at < 2 or not _is_word(text[at - 2]) or text[at - 2].isdigit()
    return (before.isdigit() and after == "%") or (before == "." and after.isdigit())


@dataclass(frozen=True, slots=True)
class Flat:
    """Lines in normal form, joined; `starts` and `numbers` lead from an offset back to a line number."""

    text: str
    starts: Sequence[int]
    numbers: Sequence[int]

    def line_at(self, offset: int) -> int:
        """The 1-based line that holds the character at `offset`."""
        return self.numbers[bisect.bisect_right(self.starts, offset) - 1]


def flatten(lines: Sequence[str], *, first: int = 1) -> Flat:
    """Normal form of displayed lines, the first of which has number `first`; lines of white space leave no trace."""
    normal = [_collapse(line) for line in _plain("\n".join(lines)).split("\n")]
    starts, numbers, position = [], [], 0
    for number, line in enumerate(normal, first):
        if line:
            starts.append(position)
            numbers.append(number)
            position += len(line) + 1
    return Flat(" ".join(filter(None, normal)), starts, numbers)


class Artifact:
    """One citable text. Built from raw text; lines are those of `display_lines`, all else is made when first needed."""

    def __init__(self, text: str, *, label: str = "") -> None:
        self.raw = text
        self.label = label

    @classmethod
    def of_lines(cls, lines: Sequence[str]) -> "Artifact":
        """A text whose lines are displayed lines already, as those of a rendered document."""
        made = cls("\n".join(lines))
        made.lines = list(lines)
        return made

    @cached_property
    def lines(self) -> list[str]:
        """The displayed lines; line n is at index n - 1."""
        return display_lines(self.raw)

    @cached_property
    def flat(self) -> Flat:
        """The whole text in normal form."""
        return flatten(self.lines)

    def span(self, first: int, last: int) -> Flat:
        """Lines `first` to `last` (1-based, inclusive) in normal form."""
        return flatten(self.lines[first - 1 : last], first=first)
