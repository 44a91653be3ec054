"""The one regular-expression engine for patterns that a model, a reviewer or a file supplies: linear in the text (RE2).

Letter case is ignored (`(?-i:...)` restores it) and ^ $ match at lines. Matches of the empty text never count.
"""

import itertools
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import re2

MAX_PATTERN: Final = 200
COUNT_LIMIT: Final = 100_000
_MEMORY: Final = 8 << 20
_LITERAL: Final = re.compile(r"(?:[A-Za-z0-9 _]|\\x[0-7][0-9a-f])+")

Where = TypeVar("Where")


class PatternError(ValueError):
    """A pattern was refused; the message says why and what to write instead."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern; texts are displayed text, offsets are characters.

    `literal` is the text in lower case where the pattern is nothing but a text of ASCII characters, else "".
    """

    source: str
    _text: "re2._Regexp[str]"
    _bytes: "re2._Regexp[bytes]"
    literal: str = ""

    def finditer(self, text: str) -> Iterator[tuple[int, int]]:
        """Start and end of each match that is not empty."""
        if text.isascii():
            spans = (found.span() for found in self._bytes.finditer(text.encode()))
        else:
            spans = (found.span() for found in self._text.finditer(_encodable(text)))
        return (span for span in spans if span[0] < span[1])

    def search(self, text: str) -> tuple[int, int] | None:
        """The first match that is not empty."""
        return next(self.finditer(text), None)


def compile_pattern(pattern: str) -> Pattern:
    """Compile, or raise PatternError for what is too long, malformed, not linear, or matches the empty text."""
    if not pattern:
        raise PatternError("the pattern is empty: write what to look for")
    if len(pattern) > MAX_PATTERN:
        raise PatternError(f"the pattern has {len(pattern)} characters, {MAX_PATTERN} are allowed: search for less")
    if re.search(r"(?<!\\)(?:\\\\)*\\C", pattern):
        raise PatternError("\\C (one byte) is not supported: use . for one character")
    try:
        source = "(?im)" + pattern
        engines = re2.compile(source, _options()), re2.compile(source.encode(), _options())
        compiled = Pattern(pattern, *engines, literal_of(pattern))
    except (re2.error, UnicodeEncodeError) as error:
        raise PatternError(_explain(error)) from error
    if compiled._bytes.fullmatch(b""):
        raise PatternError("the pattern matches the empty text, so it would be found everywhere: require a character")
    return compiled


def literal_of(pattern: str) -> str:
    """The one text that the pattern matches, in lower case; "" where it matches more, or is not all ASCII."""
    if not _LITERAL.fullmatch(pattern):
        return ""
    return re.sub(r"\\x(..)", lambda found: chr(int(found[1], 16)), pattern).lower()


def _options() -> re2.Options:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    options.never_capture = True
    return options


def _explain(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "the pattern holds a lone surrogate: search for the mark that is displayed, such as U\\+D800"
    detail = error.args[0] if error.args else error
    reason = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
    return f"the pattern was refused: {reason} (no look-around, no back-references; a literal ( [ {{ + * ? needs a \\)"


def _encodable(text: str) -> str:
    """Displayed text has no lone surrogates; raw text may, and each stays one character."""
    return text.encode("utf-8", "replace").decode("utf-8")


def count_matches(pattern: Pattern, texts: Iterable[str], *, limit: int = COUNT_LIMIT) -> int:
    """How often the pattern occurs in all texts together, at most `limit`: the one count of search and check."""
    total = 0
    for text in texts:
        if pattern.literal and text.isascii():
            total += text.lower().count(pattern.literal)
        else:
            total += sum(itertools.islice((1 for _ in _spans(pattern, text)), max(0, limit - total)))
        if total >= limit:
            return limit
    return total


def _spans(pattern: Pattern, text: str) -> Iterator[tuple[int, int]]:
    """Non-empty matches by byte offsets: same matches as `finditer`, without converting offsets."""
    spans = (found.span() for found in pattern._bytes.finditer(text.encode("utf-8", "replace")))
    return (span for span in spans if span[0] < span[1])


@dataclass(frozen=True, slots=True)
class Hit(Generic[Where]):
    """One match: where, its 1-based displayed line, and the text around it on one line."""

    where: Where
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class SearchResult(Generic[Where]):
    """`total` counts all matches when `complete`; otherwise it is a lower bound and `reason` says what stopped it."""

    total: int
    hits: tuple[Hit[Where], ...]
    complete: bool = True
    reason: str = ""


def search_texts(
    pattern: Pattern, texts: Iterable[tuple[Where, str]], *, max_hits: int = 30, budget_s: float = 5.0
) -> SearchResult[Where]:
    """Count in all displayed `texts`, show the first `max_hits`; stops at COUNT_LIMIT matches or after `budget_s`."""
    deadline = time.monotonic() + budget_s
    total, hits = 0, list[Hit[Where]]()
    for where, text in texts:
        count = count_matches(pattern, [text], limit=COUNT_LIMIT - total)
        if count and len(hits) < max_hits:
            hits.extend(itertools.islice(_hits(pattern, where, text), max_hits - len(hits)))
        total += count
        if total >= COUNT_LIMIT:
            return SearchResult(total, tuple(hits), False, f"{COUNT_LIMIT} matches or more: search for something rarer")
        if time.monotonic() > deadline:
            return SearchResult(total, tuple(hits), False, f"time budget of {budget_s:g} s used up: narrow the range")
    return SearchResult(total, tuple(hits))


def _hits(pattern: Pattern, where: Where, text: str) -> Iterator[Hit[Where]]:
    line, seen = 1, 0
    for start, end in pattern.finditer(text):
        line, seen = line + text.count("\n", seen, start), start
        shown_end = min(end, start + 200) + 80
        yield Hit(where, line, text[max(0, start - 60) : shown_end].replace("\n", "⏎"))
