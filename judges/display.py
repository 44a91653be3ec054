"""The one rendering of hostile text: what judge, reviewer and citation check see, character for character.

Nothing is silently dropped except terminal control sequences, which are counted: what would be invisible becomes a
mark in ⟦ ⟧, and a ⟦ in the data is escaped, so that no text can imitate our own marks.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Final

import re2

DISPLAY_VERSION: Final = "1"
CONTROL_MARK: Final = "⟦ctl⟧"
LINE_LIMIT: Final = 2_000
_MANY: Final = 200

# Controls, surrogates, format characters, fillers, variation selectors and tags: all that draws nothing of its own.
_HIDDEN_RANGES: Final = (
    r"\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    r"\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb"
    r"\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SURROGATES: Final = r"\ud800-\udfff"
# "⚠" and U+FE0F draw one emoji: one selector after a symbol hides nothing, and models write it all the time.
_STRAY_SELECTOR: Final = re.compile(r"(?<![\xa9\xae\u203c\u2049\u2100-\u2bff\u3030\u303d\U0001f000-\U0001faff])\ufe0f")
_CLASS: Final = f"[{_HIDDEN_RANGES}{_SURROGATES}]"
_HIDDEN: Final = re.compile(_CLASS)
_HIDDEN_RUN: Final = re.compile(f"[\U000e0020-\U000e007e]+|({_CLASS})\\1+")
_ANSI: Final = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|[()*+][0-9A-Za-z])")
_NAMES: Final = (
    r"function_results|function_calls|tool_results?|tool_use|tool_calls?|system"
    r"|[a-z]{2,12}:(?:invoke|parameter|function_calls|function_results|thinking)"
)
_TOKEN: Final = re.compile(
    rf"[<\[](?:(?<=<)(?:\|[^|>\n]{{1,40}}\|>|</?SYS>>|/?(?:{_NAMES})\b[^>\n]{{0,80}}>)|(?<=\[)/?INST\])", re.I
)
_SPEAKER: Final = re.compile(r"^(?:Human|Assistant|System|Developer)[ \t]*:", re.I | re.M)


def _gate(pattern: str) -> "re2._Regexp[bytes]":
    """A linear pass over UTF-8 that tells whether a text needs work at all; nearly none does."""
    options = re2.Options()
    options.case_sensitive = False
    return re2.compile(pattern.encode(), options)


_MARKED: Final = "[\r⟦" + re.sub(r"\\[uU]([0-9a-f]+)", r"\\x{\1}", _HIDDEN_RANGES) + "\ufe0f]"
_TOKENS: Final = rf"<\||\[/?INST\]|<</?SYS|</?(?:{_NAMES})\b|(?m:^(?:Human|Assistant|System|Developer)[ \t]*:)"
_MAY_HIDE: Final = _gate(_MARKED)
_NEEDS_WORK: Final = _gate(f"{_MARKED}|{_TOKENS}")


@dataclass(frozen=True, slots=True)
class Hidden:
    """How many characters or marks of each kind a text held that a reader would not see, or would misread."""

    invisible: int = 0
    bidi: int = 0
    tags: int = 0
    lookalikes: int = 0
    ansi: int = 0
    returns: int = 0
    forged: int = 0

    def __add__(self, other: "Hidden") -> "Hidden":
        return Hidden(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))

    @property
    def suspicious(self) -> int:
        """Those that normal tools do not print: tags, direction marks and imitations of our marks."""
        return self.bidi + self.tags + self.forged


@dataclass(frozen=True, slots=True)
class Shown:
    """A text as it is displayed, and what had to be made visible in it."""

    text: str
    hidden: Hidden


_NOTHING: Final = Hidden()


def reveal(text: str) -> Shown:
    """The display form of `text`; its lines, split at newlines only, are numbered like those of the original."""
    if not _found(_NEEDS_WORK, text):
        return Shown(text, _NOTHING)
    text = text.replace("\r\n", "\n")
    forged = text.count("⟦")
    text, ansi = _ANSI.subn("", text.replace("⟦", "⟨U+27E6⟩"))
    returns = text.count("\r")
    text = text.replace("\r", "␍")
    invisible = bidi = tags = lookalikes = 0
    if _found(_MAY_HIDE, text):
        text, invisible, bidi, tags = _mark_hidden(text)
    if _found(_NEEDS_WORK, text):  # last: what came out of the steps before may form a control token
        text, lookalikes = _break_lookalikes(text)
    return Shown(text, Hidden(invisible, bidi, tags, lookalikes, ansi, returns, forged))


def _found(gate: "re2._Regexp[bytes]", text: str) -> bool:
    try:
        return gate.search(text.encode()) is not None
    except UnicodeEncodeError:  # a lone surrogate
        return True


def _break_lookalikes(text: str) -> tuple[str, int]:
    text, tokens = _TOKEN.subn(_broken, text)
    text, speakers = _SPEAKER.subn(_broken, text)
    return text, tokens + speakers


def _broken(found: re.Match[str]) -> str:
    return found[0][0] + CONTROL_MARK + found[0][1:]


def _mark_hidden(text: str) -> tuple[str, int, int, int]:
    """The text with marks, and how many invisible, bidi and tag characters they stand for."""
    text, invisible = _STRAY_SELECTOR.subn(_mark("\ufe0f"), text)
    bidi = tags = 0
    present = sorted(filter(_HIDDEN.match, set(text)))
    for char in present:
        count, code = text.count(char), ord(char)
        is_tag = 0xE0020 <= code <= 0xE007E
        tags += count * is_tag
        invisible += count * (not is_tag)
        bidi += count * (0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069)
    text = _HIDDEN_RUN.sub(lambda found: _mark(found[0]), text)
    if len(present) > _MANY:
        return _HIDDEN.sub(lambda found: _mark(found[0]), text), invisible, bidi, tags
    for char in present:  # a pass for each is far quicker than a call for each place
        text = text.replace(char, _mark(char))
    return text, invisible, bidi, tags


def _mark(run: str) -> str:
    """What stands for a run of one hidden character, or of tag characters, which spell a text of their own."""
    code = ord(run[0])
    if 0xE0020 <= code <= 0xE007E:
        return f"⟦hidden-tag-text: {''.join(chr(ord(char) - 0xE0000) for char in run)}⟧"
    return f"⟦U+{code:04X}⟧" if len(run) == 1 else f"⟦U+{code:04X} ×{len(run)}⟧"


def display_text(text: str) -> str:
    """The displayed form alone."""
    return reveal(text).text


def display_lines(text: str) -> list[str]:
    """The lines every citation refers to; a newline at the end opens no further line, an empty text has none."""
    return split_lines(reveal(text).text)


def split_lines(shown: str) -> list[str]:
    """Lines of an already displayed text, numbered as `sed -n` numbers them."""
    lines = shown.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def number_lines(lines: Iterable[str], *, start: int = 1, width: int = LINE_LIMIT) -> str:
    """Displayed lines with their own numbers; lines over `width` characters are cut and say so."""
    return "\n".join(f"{number:>6}│{clip_line(line, width)}" for number, line in enumerate(lines, start))


def clip_line(line: str, limit: int = LINE_LIMIT) -> str:
    """One line of at most `limit` characters and a mark that counts the rest."""
    return line if len(line) <= limit else f"{line[:limit]}⟦{len(line) - limit} more characters in this line⟧"


def clip(text: str, limit: int, hint: str) -> str:
    """Head and tail of a numbered text, whole lines where it can; `hint` tells how to read what is left out."""
    if len(text) <= limit:
        return text
    head = text[: limit * 2 // 3]
    tail = text[-(limit - len(head)) :]
    if "\n" in head[len(head) // 2 :]:
        head = head[: head.rindex("\n")]
    if "\n" in tail[: len(tail) // 2]:
        tail = tail[tail.index("\n") + 1 :]
    return f"{head}\n⟦omitted {len(text) - len(head) - len(tail)} characters; {hint}⟧\n{tail}"


def nonce(secret: bytes, scope: str) -> str:
    """Six hexadecimal digits: the same for every trajectory of a scope (prompt caches live), unknown to the agent."""
    return hmac.new(secret, scope.encode(), hashlib.sha256).hexdigest()[:6]


def frame(source: str, body: str, nonce: str) -> str:
    """A displayed text between two lines with the nonce; each line has a gutter, so none can pose as the frame's end.

    `source` is raw (a path can be hostile), `body` has been displayed already.
    """
    gutter = "\n".join(f"{nonce}│{line}" for line in body.split("\n"))
    return f"┌{nonce} UNTRUSTED {safe_name(source)}\n{gutter}\n└{nonce} END"


def safe_name(name: str, limit: int = 200) -> str:
    """A file name or label on one line: newlines and tabs visible, middle left out where it is longer than `limit`."""
    shown = reveal(_escaped_bytes(name).replace("\r\n", "\r⏎")).text.replace("\n", "⏎").replace("\t", "⇥")
    if len(shown) <= limit:
        return shown
    half = limit // 2
    return f"{shown[:half]}⟦…{len(shown) - 2 * half}…⟧{shown[-half:]}"


def _escaped_bytes(name: str) -> str:
    """Bytes that are no UTF-8 (as the file system hands them out) in the form \\xNN."""
    return re.sub("[\udc80-\udcff]", lambda found: f"\\x{ord(found[0]) - 0xDC00:02x}", name)


def hidden_in(texts: Sequence[str]) -> Hidden:
    """The sum of what the texts hide."""
    total = _NOTHING
    for text in texts:
        hidden = reveal(text).hidden
        total = total if hidden is _NOTHING else total + hidden
    return total
