"""Hostile text as numbered lines of HTML. What a line says is what `judges.display.display_lines` says, always.

Terminal colors become classes; where coloring would change a single displayed character, the line stays plain. Progress
that overwrites its line is folded behind what it ended with. Nothing here emits a style or an address.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from rapidfuzz.distance import Indel

from judges.display import clip_line, display_lines, display_text

LineKind = Literal["", "ins", "del", "hunk"]
HEAD_LINES = 30
TAIL_LINES = 10
WHOLE_UP_TO = HEAD_LINES + TAIL_LINES
CONTEXT_LINES = 3
BLOCK_CHARACTERS = 8_000
LINE_CHARACTERS = 2_000
PAINT_CHARACTERS = 20_000  # colors are worked out within so much text, as each change of color is a piece
_SIGNS: Mapping[LineKind, str] = {"ins": "+", "del": "−"}
_ESCAPES = re.compile(r"\x1b(?:\[([0-?]{0,64})[ -/]{0,8}([@-~])|[()*+][0-9A-Za-z])")


class Piece(NamedTuple):
    """Displayed text and the classes of its color."""

    text: str
    classes: str


class Span(NamedTuple):
    """Lines `first` to `last`, 1-based and inclusive."""

    first: int
    last: int


@dataclass(frozen=True)
class Text:
    """One displayed text with what is known of its lines: which are inserted or deleted, which are cited."""

    raw: str
    kinds: Mapping[int, LineKind] = field(default_factory=dict)
    cited: Span | None = None
    signed: bool = False

    @cached_property
    def shown(self) -> Sequence[str]:
        """The displayed lines: the numbering that citations use."""
        return display_lines(self.raw)

    def __len__(self) -> int:
        return len(self.shown)

    def html(self, span: Span) -> SafeString:
        """The lines of `span` as HTML."""
        rows = zip(range(span.first, span.last + 1), self._pieces(span), strict=True)
        return mark_safe("".join(self._line(number, pieces) for number, pieces in rows))  # noqa: S308 (each piece is escaped)

    def _line(self, number: int, pieces: Sequence[Piece]) -> str:
        kind = self.kinds.get(number, "")
        cited = self.cited is not None and self.cited.first <= number <= self.cited.last
        anchor = ' id="cite"' if cited and self.cited is not None and number == self.cited.first else ""
        classes = " ".join(name for name in ("l", kind, "cited" if cited else "") if name)
        sign = f"<b>{_SIGNS[kind]}</b>" if self.signed and kind in _SIGNS else ""
        return f'<div class="{classes}" data-n="{number}"{anchor}>{sign}{_line_html(pieces)}</div>'

    def _pieces(self, span: Span) -> Iterator[Sequence[Piece]]:
        if "\x1b" not in self.raw and "\r" not in self.raw:
            for shown in self.shown[span.first - 1 : span.last]:
                yield (Piece(shown, ""),)
            return
        raw_lines = self.raw.replace("\r\n", "\n").split("\n")
        paint = Paint.after("\n".join(raw_lines[: span.first - 1])[-PAINT_CHARACTERS:])
        for raw, shown in zip(
            raw_lines[span.first - 1 : span.last], self.shown[span.first - 1 : span.last], strict=True
        ):
            if len(raw) > PAINT_CHARACTERS:
                yield (Piece(shown, ""),)
                continue
            pieces, paint = _painted(raw, paint)
            same = "".join(piece.text for piece in pieces) == shown
            yield pieces if same else (Piece(shown, ""),)


def _line_html(pieces: Sequence[Piece]) -> str:
    text = "".join(piece.text for piece in pieces)
    if len(text) > LINE_CHARACTERS:
        return escape(clip_line(text, LINE_CHARACTERS))
    overwritten = text.rstrip("␍").rfind("␍") + 1
    if not overwritten:
        return _spans(pieces) or "<br>"
    before, after = _split(pieces, overwritten)
    count = text[:overwritten].count("␍")
    return f'<details class="cr"><summary>{count} overwritten</summary>{_spans(before)}</details>{_spans(after)}'


def _spans(pieces: Sequence[Piece]) -> str:
    return "".join(f'<span class="{cls}">{escape(text)}</span>' if cls else escape(text) for text, cls in pieces)


def _split(pieces: Sequence[Piece], at: int) -> tuple[list[Piece], list[Piece]]:
    before, after = list[Piece](), list[Piece]()
    for text, classes in pieces:
        cut = min(max(at, 0), len(text))
        before.append(Piece(text[:cut], classes))
        after.append(Piece(text[cut:], classes))
        at -= len(text)
    return [piece for piece in before if piece.text], [piece for piece in after if piece.text]


# --- terminal colors


@dataclass(frozen=True, slots=True)
class Paint:
    """State of a terminal's pen: numbers 0 to 15 of the palette, and attributes."""

    ink: int | None = None
    ground: int | None = None
    bold: bool = False
    faint: bool = False
    underline: bool = False

    @classmethod
    def after(cls, text: str) -> "Paint":
        """The pen after all of `text`."""
        paint = cls()
        for found in _ESCAPES.finditer(text):
            paint = paint.changed(found)
        return paint

    def changed(self, found: re.Match[str]) -> "Paint":
        """The pen after one control sequence; anything but SGR leaves it as it is."""
        if found[2] != "m" or found[1].startswith((">", "<", "?", "=")):
            return self
        codes = [int(code) if code.isdigit() and len(code) < 4 else 0 for code in re.split("[;:]", found[1])]
        paint = self
        while codes:
            paint = paint._take(codes)
        return paint

    def _take(self, codes: list[int]) -> "Paint":
        code = codes.pop(0)
        if code in (38, 48):
            color = _extended(codes)
            return self._with(ink=color) if code == 38 else self._with(ground=color)
        for start, shift in ((30, 0), (90, 8)):
            if start <= code < start + 8:
                return self._with(ink=code - start + shift)
            if start + 10 <= code < start + 18:
                return self._with(ground=code - start - 10 + shift)
        return self._with(**_ATTRIBUTES[code]) if code in _ATTRIBUTES else Paint() if code == 0 else self

    def _with(self, **changes: int | bool | None) -> "Paint":
        values = {name: getattr(self, name) for name in self.__slots__} | changes
        return Paint(**values)

    @property
    def classes(self) -> str:
        names = [
            "" if self.ink is None else f"f{self.ink}",
            "" if self.ground is None else f"g{self.ground}",
            *(name for name in ("bold", "faint", "underline") if getattr(self, name)),
        ]
        return " ".join(name for name in names if name)


_ATTRIBUTES: Mapping[int, Mapping[str, int | bool | None]] = {
    1: {"bold": True},
    2: {"faint": True},
    4: {"underline": True},
    22: {"bold": False, "faint": False},
    24: {"underline": False},
    39: {"ink": None},
    49: {"ground": None},
}


def _extended(codes: list[int]) -> int | None:
    """The nearest of the sixteen for `38;5;n` and `38;2;r;g;b`, taking what belongs to it off `codes`."""
    form = codes.pop(0) if codes else 0
    if form == 5 and codes:
        number = codes.pop(0)
        if number < 16:
            return number
        if number >= 232:
            return 8 if number < 248 else 7
        red, green, blue = ((number - 16) // 36 * 51, (number - 16) // 6 % 6 * 51, (number - 16) % 6 * 51)
        return _nearest(red, green, blue)
    if form == 2 and len(codes) >= 3:
        return _nearest(codes.pop(0), codes.pop(0), codes.pop(0))
    return None


def _nearest(red: int, green: int, blue: int) -> int:
    bits = (red > 110) + 2 * (green > 110) + 4 * (blue > 110)
    return bits + 8 if max(red, green, blue) > 200 and bits else bits


def _painted(raw: str, paint: Paint) -> tuple[list[Piece], Paint]:
    """One raw line in pieces, each displayed by itself, and the pen at its end."""
    pieces, at = list[Piece](), 0
    for found in _ESCAPES.finditer(raw):
        if found.start() > at:
            pieces.append(Piece(display_text(raw[at : found.start()]), paint.classes))
        paint, at = paint.changed(found), found.end()
    if at < len(raw):
        pieces.append(Piece(display_text(raw[at:]), paint.classes))
    return pieces, paint


# --- folding


def visible(text: Text) -> list[Span]:
    """What is shown of a text at first: head, tail, and the cited lines with their neighbours, in order."""
    total = len(text)
    if not total:
        return []
    if total <= WHOLE_UP_TO and sum(map(len, text.shown)) <= BLOCK_CHARACTERS:
        return [Span(1, total)]
    head = _fitting(text.shown[:HEAD_LINES], BLOCK_CHARACTERS * 2 // 3)
    tail = _fitting(text.shown[: -TAIL_LINES - 1 : -1], BLOCK_CHARACTERS // 3)
    spans = [Span(1, head), Span(total - tail + 1, total)]
    if text.cited and text.cited.first <= total:
        last = min(text.cited.last, text.cited.first + 200)
        spans.append(Span(max(1, text.cited.first - CONTEXT_LINES), min(total, last + CONTEXT_LINES)))
    return _merged(spans)


def _fitting(lines: Sequence[str], budget: int) -> int:
    count = 0
    for line in lines:
        budget -= min(len(line), LINE_CHARACTERS)
        if budget < 0 and count:
            break
        count += 1
    return count


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Sorted, joined where they touch or leave out no more than two lines."""
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.first <= merged[-1].last + 3:
            merged[-1] = Span(merged[-1].first, max(merged[-1].last, span.last))
        else:
            merged.append(span)
    return merged


# --- diffs


def diff_kinds(lines: Sequence[str]) -> dict[int, LineKind]:
    """Which lines of a unified diff or an `apply_patch` text are inserted, deleted or headings; else nothing."""
    kinds: dict[int, LineKind] = {}
    inside = False
    for number, line in enumerate(lines, 1):
        if line.startswith(("@@", "*** Update File", "*** Add File", "*** Delete File")):
            inside, kinds[number] = True, "hunk"
        elif line.startswith(("diff --git ", "*** Begin Patch", "*** End Patch")):
            inside, kinds[number] = False, "hunk"
        elif line.startswith("--- ") and number < len(lines) and lines[number].startswith("+++ "):
            inside = False
            kinds[number] = kinds[number + 1] = "hunk"
        elif inside and line.startswith("+"):
            kinds[number] = "ins"
        elif inside and line.startswith("-"):
            kinds[number] = "del"
        elif inside and line and not line.startswith((" ", "\\")):
            inside = False
    return kinds if any(kind in ("ins", "del") for kind in kinds.values()) else {}


def gap_words(span: Span) -> str:
    """What the fold says."""
    count = span.last - span.first + 1
    return f"show {count:,} more line{'' if count == 1 else 's'}"


# --- comparing two texts

COMPARE_CELLS = 100_000_000  # changed lines of one side times those of the other; an eighth of a byte each


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two texts line against line; `why_not` where there is nothing to compare with, or too much."""

    html: str = ""
    inserted: int = 0
    deleted: int = 0
    why_not: str = ""

    @property
    def is_same(self) -> bool:
        return not (self.why_not or self.inserted or self.deleted)


def compare(old: str | None, new: str) -> Comparison:
    """The changes from `old` to `new` with three lines around each; numbers are those of each side."""
    if old is None:
        return Comparison(why_not="The other side has no text file of this name.")
    before, after = display_lines(old), display_lines(new)
    if _cells(before, after) > COMPARE_CELLS:
        return Comparison(why_not="The two differ over too many lines to be compared here.")
    rows, changes = list[str](), _Changes()
    for step in Indel.opcodes(before, after):
        if step.tag == "equal":
            rows += [*changes.taken(), *_unchanged(after, step.dest_start, step.dest_end)]
        elif step.tag == "delete":
            changes.deleted += _compared(before, step.src_start, step.src_end, "del")
        else:
            changes.inserted += _compared(after, step.dest_start, step.dest_end, "ins")
    html = mark_safe("".join([*rows, *changes.taken()]))  # noqa: S308 (each line is escaped)
    return Comparison(html, changes.n_inserted, changes.n_deleted)


@dataclass(slots=True)
class _Changes:
    """Rows of one place that changed, gathered so that what was deleted stands before what was inserted."""

    deleted: list[str] = field(default_factory=list)
    inserted: list[str] = field(default_factory=list)
    n_deleted: int = 0
    n_inserted: int = 0

    def taken(self) -> list[str]:
        rows = [*self.deleted, *self.inserted]
        self.n_deleted += len(self.deleted)
        self.n_inserted += len(self.inserted)
        self.deleted, self.inserted = [], []
        return rows


def _cells(before: Sequence[str], after: Sequence[str]) -> int:
    """The size of the comparison after what is equal at both ends is taken off."""
    start = _same(before, after)
    end = min(_same(before[::-1], after[::-1]), min(len(before), len(after)) - start)
    return (len(before) - start - end) * (len(after) - start - end)


def _same(before: Sequence[str], after: Sequence[str]) -> int:
    pairs = zip(before, after, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(before), len(after)))


def _unchanged(lines: Sequence[str], first: int, last: int) -> list[str]:
    """Context of the changes before and after; what lies between is one row that says so."""
    head = first if first == 0 else min(first + CONTEXT_LINES, last)
    tail = last if last == len(lines) else max(last - CONTEXT_LINES, head)
    if tail - head <= 1:
        return _compared(lines, first, last, "")
    gap = f'<div class="l hunk"><b> </b>{tail - head:,} lines are the same</div>'
    return [*_compared(lines, first, head, ""), gap, *_compared(lines, tail, last, "")]


def _compared(lines: Sequence[str], first: int, last: int, kind: LineKind) -> list[str]:
    sign = f"<b>{_SIGNS[kind]}</b>" if kind else "<b> </b>"
    numbered = enumerate(lines[first:last], first + 1)
    return [
        f'<div class="l {kind}" data-n="{number}">{sign}{escape(clip_line(line)) or "<br>"}</div>'
        for number, line in numbered
    ]
