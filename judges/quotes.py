"""Whether a quote is in a text where it says it is: exact, relocated or with typing slips, never with a changed fact.

Pure functions over an Artifact. What counts as the same text is deliberately narrow: a refusal costs a second try, a
false acceptance costs the label.
"""

import bisect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from rapidfuzz import fuzz
from rapidfuzz.distance import OSA

from judges.artifacts import Artifact, Flat, contains, critical_tokens, is_boundary, normalise, occurrences

MIN_CHARACTERS: Final = 8
MAX_CHARACTERS: Final = 400
SLACK: Final = 2
_RELOCATE_MIN: Final = 16
_FUZZY_MIN: Final = 24
_FUZZY_RATIO: Final = 93.0
_FUZZY_WINDOW: Final = 20_000
_MOST_SLIPS: Final = 3
_MOST_SEGMENTS: Final = 3
_MOST_PLACES: Final = 200
_MOST_GAP: Final = 2_000
_ELLIPSIS: Final = re.compile(r"\s*(?:\[\.\.\.\]|\.\.\.)\s*")
_NUMBERED: Final = re.compile(r"\s*(\d{1,9})\s*[│|:\t]\s?(.*)", re.S)
_TOKEN: Final = re.compile(r"⟦[^⟧]*⟧|\d+(?:[.,:]\d+)+|\w+(?:'\w+)*|[^\w\s]")
_DROPPABLE: Final = frozenset("\"'`,;:.")
_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", '\\"': '"', "\\'": "'", "\\\\": "\\"}

QuoteCode = Literal["exact", "relocated", "fuzzy", "not_found", "wrong_target", "out_of_range", "too_short", "too_long"]


@dataclass(frozen=True, slots=True)
class QuoteCheck:
    """The result of looking for one quote; lines are the true ones where it was found, `found` is the text there."""

    code: QuoteCode
    line_start: int = 0
    line_end: int = 0
    found: str = ""
    detail: str = ""
    hint: str = ""

    @property
    def ok(self) -> bool:
        """Whether the quote stands."""
        return self.code in ("exact", "relocated", "fuzzy")


def check_quote(artifact: Artifact, quote: str, line_start: int, line_end: int, *, nonce: str = "") -> QuoteCheck:
    """Look for `quote` in lines `line_start` to `line_end` (1-based, inclusive; both 0: anywhere) give or take two.

    `nonce` is that of the frames shown, so that a copied gutter is recognised; any other prefix counts as text.
    """
    count = len(artifact.lines)
    anywhere = line_start == 0 and line_end == 0
    if not count:
        return QuoteCheck("out_of_range", detail="the target is empty: it has no lines")
    if not anywhere and not 1 <= line_start <= line_end <= count:
        return QuoteCheck("out_of_range", detail=f"the target has lines 1 to {count}")
    first, last = (1, count) if anywhere else (line_start, line_end)
    variants = list(_variants(artifact, quote, nonce))
    if min(map(len, variants)) > MAX_CHARACTERS:
        return QuoteCheck("too_long", detail=f"quote at most {MAX_CHARACTERS} characters")
    whole_line = None if anywhere else _whole_line(artifact, variants, first, last)
    return whole_line or _find(artifact, variants, first, last, anywhere=anywhere)


def _find(artifact: Artifact, variants: Sequence[str], first: int, last: int, *, anywhere: bool) -> QuoteCheck:
    long_enough = [variant for variant in variants if len(variant.replace(" ", "")) >= MIN_CHARACTERS]
    if not long_enough:
        return QuoteCheck("too_short", detail=f"quote at least {MIN_CHARACTERS} characters, or one entire line")
    if anywhere:
        return _elsewhere(artifact, long_enough)
    window = artifact.span(max(1, first - SLACK), min(len(artifact.lines), last + SLACK))
    return _in_window(window, long_enough) or _beyond(artifact, window, long_enough, first, last)


def _variants(artifact: Artifact, quote: str, nonce: str) -> Iterator[str]:
    """The quote in normal form: as it is, without our gutter and true line numbers, with JSON escapes undone."""
    yield normalise(quote)
    without_gutter = "\n".join(line.strip().removeprefix(f"{nonce}│") for line in quote.split("\n")) if nonce else quote
    bare = _without_numbers(artifact, without_gutter)
    if bare is not None or without_gutter != quote:
        yield normalise(without_gutter if bare is None else bare)
    if "\\" in quote:
        yield normalise(re.sub(r"\\[nt\"'\\]", lambda found: _ESCAPES[found[0]], quote))


def _without_numbers(artifact: Artifact, quote: str) -> str | None:
    """The quote without a number before each line, only if each is the number of the line that reads so."""
    bare = []
    for line in filter(str.strip, quote.split("\n")):
        found = _NUMBERED.fullmatch(line)
        if found is None or not 1 <= int(found[1]) <= len(artifact.lines):
            return None
        text = normalise(found[2])
        if not contains(normalise(artifact.lines[int(found[1]) - 1]), text):
            return None
        bare.append(text)
    return "\n".join(bare) or None


def _whole_line(artifact: Artifact, variants: Sequence[str], first: int, last: int) -> QuoteCheck | None:
    """An entire line of the cited range, however short."""
    longest = max(map(len, variants))
    for number, line in enumerate(artifact.lines[first - 1 : last], first):
        if len(line) <= 4 * longest + 80 and (text := normalise(line)) and text in variants:
            return QuoteCheck("exact", number, number, text)
    return None


def _in_window(window: Flat, variants: Sequence[str]) -> QuoteCheck | None:
    for variant in variants:
        if (at := next(occurrences(window.text, variant), None)) is not None:
            return _at("exact", window, at, at + len(variant))
    for variant in variants:
        if (span := _elided(window.text, variant)) is not None:
            return _at("exact", window, *span, detail="elided")
    return None


def _at(code: QuoteCode, text: Flat, start: int, end: int, detail: str = "") -> QuoteCheck:
    found = text.text[start:end]
    return QuoteCheck(code, text.line_at(start), text.line_at(max(start, end - 1)), found, detail)


def _elided(text: str, quote: str) -> tuple[int, int] | None:
    """Start and end of two or three segments in order, with nothing critical in the gaps that "..." stands for."""
    segments = [segment for segment in _ELLIPSIS.split(quote) if segment]
    if not 2 <= len(segments) <= _MOST_SEGMENTS:
        return None
    if any(len(segment.replace(" ", "")) < MIN_CHARACTERS for segment in segments):
        return None
    starts = {at + len(segments[0]): at for at in _some(text, segments[0])}
    for segment in segments[1:]:
        ends = sorted(starts)
        places = (
            (at, ends[bisect.bisect_right(ends, at) - 1]) for at in _some(text, segment) if ends and ends[0] <= at
        )
        # A wider gap holds all of the narrowest one, so only that one needs a look.
        clean = [(at, end) for at, end in places if at - end <= _MOST_GAP and not critical_tokens(text[end:at])]
        starts = {at + len(segment): starts[end] for at, end in clean}
    return next(((start, end) for end, start in starts.items()), None)


def _some(text: str, segment: str) -> list[int]:
    return [at for at, _ in zip(occurrences(text, segment), range(_MOST_PLACES), strict=False)]


def _beyond(artifact: Artifact, window: Flat, variants: Sequence[str], first: int, last: int) -> QuoteCheck:
    """Not in the window: elsewhere in the target, or there with typing slips, or not at all."""
    elsewhere = _elsewhere(artifact, variants)
    if elsewhere.code != "not_found":
        return elsewhere
    if last - first > 60 or len(window.text) > _FUZZY_WINDOW:
        return QuoteCheck("not_found", hint="cite a smaller range: near-copies are looked for in at most 60 lines")
    for variant in variants:
        if (span := _with_slips(window.text, variant)) is not None:
            return _at("fuzzy", window, *span)
    return _nearest(window.text, variants[0])


def _elsewhere(artifact: Artifact, variants: Sequence[str]) -> QuoteCheck:
    """Found once in the whole target and long enough to be unmistakable: accepted, with the true lines."""
    flat = artifact.flat
    for variant in variants:
        places = _some(flat.text, variant)
        if not places:
            continue
        result = _at("relocated", flat, places[0], places[0] + len(variant))
        if len(places) == 1 and len(variant) >= _RELOCATE_MIN:
            return QuoteCheck("relocated", result.line_start, result.line_end, result.found, "found at these lines")
        several = f" and {len(places) - 1} more places" if len(places) > 1 else ""
        return QuoteCheck("wrong_target", hint=f"that text is at line {result.line_start}{several}: cite the line")
    return QuoteCheck("not_found")


def _with_slips(text: str, quote: str) -> tuple[int, int] | None:
    """Where `text` equals the quote but for up to three slips of one letter in long plain words, and light marks."""
    wanted = [found[0] for found in _TOKEN.finditer(quote) if found[0] not in _DROPPABLE]
    if len(quote) < _FUZZY_MIN or not wanted or _ELLIPSIS.search(quote):  # what is left out is no slip
        return None
    tokens = [found for found in _TOKEN.finditer(text) if found[0] not in _DROPPABLE]
    for at in range(len(tokens) - len(wanted) + 1):
        part = tokens[at : at + len(wanted)]
        if _slips(wanted, [token[0] for token in part]) is None:
            continue
        start, end = part[0].start(), part[-1].end()
        if is_boundary(text, start) and is_boundary(text, end) and _same_facts(quote, text[start:end]):
            return start, end
    return None


def _slips(wanted: Sequence[str], found: Sequence[str]) -> int | None:
    """The number of slips between two token lists of one length, None where they differ in more than slips."""
    slips = 0
    for one, other in zip(wanted, found, strict=True):
        if one != other:
            slips += 1
            if slips > _MOST_SLIPS or not _is_slip(one, other):
                return None
    return slips


def _is_slip(one: str, other: str) -> bool:
    """One letter typed, left out or swapped in a plain ASCII word of five letters or more."""
    plain = one.isascii() and other.isascii() and one.isalpha() and other.isalpha()
    return plain and min(len(one), len(other)) >= 5 and OSA.distance(one, other) == 1


def _same_facts(quote: str, found: str) -> bool:
    return critical_tokens(quote) == critical_tokens(found) and fuzz.ratio(quote, found) >= _FUZZY_RATIO


def _nearest(text: str, quote: str) -> QuoteCheck:
    """What to tell the author of a quote that is nowhere."""
    alignment = fuzz.partial_ratio_alignment(quote, text, score_cutoff=60.0) if quote and text else None
    if alignment is None:
        return QuoteCheck("not_found", hint="copy the text exactly as displayed")
    near = text[alignment.dest_start : alignment.dest_end]
    if alignment.score >= _FUZZY_RATIO:
        detail = "differs from the text there in a number, operator, negation, verdict word or name"
        return QuoteCheck("not_found", detail=detail, hint=f"the text there: {near[:200]}")
    return QuoteCheck("not_found", hint=f"closest text in that range: {near[:200]}")
