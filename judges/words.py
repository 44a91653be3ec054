"""What in a deliverable is words and not work: documentation, comments, docstrings. Words can claim anything.

Also the deliverable with words taken out: what a command prints from that says where its output really comes from.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from judges.artifacts import Artifact, occurrences
from judges.records import FileTree
from judges.safefs import ReducedTree, decode, is_text, texts

_DOCUMENTATION: Final = (
    *(".md", ".markdown", ".mdx", ".rst", ".txt", ".adoc", ".asciidoc", ".org", ".textile", ".tex", ".pod", ".log"),
    *("/readme", "/license", "/licence", "/copying", "/notice", "/authors", "/contributors", "/changelog", "/changes"),
)
_DOCUMENTS: Final = {
    **dict.fromkeys(("docx", "docm", "dotx", "doc", "odt", "rtf"), "docx"),
    **dict.fromkeys(("pptx", "pptm", "ppsx", "ppt", "odp"), "pptx"),
    "pdf": "pdf",
}
# An ending that belongs to the name of another file ("read brief.pdf") asks for nothing.
_ASKED: Final = {
    "docx": re.compile(
        r"(?:(?<![\w.-])|(?<![\w-])\.)(?:docx?|odt|rtf)\b|\bword (?:document|file)s?\b|\b(?:microsoft|ms) word\b", re.I
    ),
    "pptx": re.compile(
        r"(?:(?<![\w.-])|(?<![\w-])\.)(?:pptx?|odp)\b|\bslides?\b|\bslide ?decks?\b|\bpowerpoint\b|\bpresentation\b",
        re.I,
    ),
    "pdf": re.compile(r"(?:(?<![\w.-])|(?<![\w-])\.)pdfs?\b", re.I),
}
_ASCII_WORD: Final = re.compile(r"[A-Za-z0-9]+")
_MARK: Final = re.compile(r"⟦[^⟧]*⟧")
_OPEN: Final = ("(", "[", "{", ",", "=", "+", "%", "\\", "return", "yield", "in")
_NEAR: Final = 400
_MOST: Final = 1 << 20
# Linear on purpose: a string is at most 300 characters long on its line, what spans lines may lack its end.
_STRING: Final = r"\"(?:\\.|[^\"\\\n]){0,300}+\"|'(?:\\.|[^'\\\n]){0,300}+'"
_PYTHON: Final = re.compile(
    r"\"\"\"(?:\\.|[^\\\"]|\"(?!\"\"))*+(?:\"\"\")?|'''(?:\\.|[^\\']|'(?!''))*+(?:''')?"
    rf"|{_STRING}|(?P<comment>#[^\n]*)",
    re.S,
)
_HASH: Final = re.compile(rf"{_STRING}|(?:(?<=\s)|^)(?P<comment>#(?!!)[^\n]*)", re.M)
_SLASH: Final = re.compile(rf"{_STRING}|`(?:\\.|[^`\\])*+`?|(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))", re.S)
_DASH: Final = re.compile(rf"{_STRING}|(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))", re.S)
_TAG: Final = re.compile(r"(?P<comment><!--.*?(?:-->|\Z))", re.S)
_PERCENT: Final = re.compile(r"(?<!\\)(?P<comment>%[^\n]*)")
_SEMICOLON: Final = re.compile(rf"{_STRING}|(?P<comment>;[^\n]*)")
_FAMILIES: Final = (
    (_PYTHON, "py pyi pyx"),
    (_HASH, "sh bash zsh rb pl pm r yaml yml toml cfg conf ini mk make dockerfile makefile jl tcl awk ps1 nim cmake"),
    (_SLASH, "c h cc cpp cxx hpp cs java js jsx mjs cjs ts tsx go rs swift kt kts scala dart php css scss less proto"),
    (_DASH, "sql lua hs elm ada vhd"),
    (_TAG, "html htm xml svg xhtml vue"),
    (_PERCENT, "m erl pro"),
    (_SEMICOLON, "asm s lisp scm el clj"),
)
_COMMENTS: Final = {ending: pattern for pattern, endings in _FAMILIES for ending in endings.split()}


def is_documentation(path: str, instruction: str | None, *, kind: str | None = None) -> bool:
    """Whether a path is prose beside the work, which can claim anything: by its ending, unless the task names it.

    A text document (Word, PDF, slides) is the work too where the task asks for one of its kind. `kind` is what its
    bytes are, where that is known: a name does not make it anything else.
    """
    name = path.rsplit("/", 1)[-1]
    ending = PurePosixPath(name.lower()).suffix.removeprefix(".")
    asked_by = _ASKED.get(kind or "") or _ASKED.get(_DOCUMENTS.get(ending, ""))
    if asked_by is None and not f"/{name}".lower().endswith(_DOCUMENTATION):
        return False
    text = instruction or ""
    return not (_stands_in(name, text) or (asked_by is not None and asked_by.search(text)))


def _stands_in(name: str, instruction: str) -> bool:
    """Whether a file name stands in a text as a whole: `b.md` is not named where `a-b.md` is."""
    return re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", instruction) is not None


def comments(path: str, text: str) -> list[tuple[int, int]]:
    """Start and end of the comments and docstrings of a file in a language known by its name, in order."""
    pattern = _pattern(path)
    if pattern is None:
        return []
    if len(text) > _MOST:  # too long to tell code from comment: it shows neither
        return [(0, len(text))]
    found = ((match, match.span()) for match in pattern.finditer(text))
    return [span for match, span in found if match["comment"] or (pattern is _PYTHON and _is_statement(text, *span))]


def _pattern(path: str) -> re.Pattern[str] | None:
    name = PurePosixPath(path.lower())
    return _COMMENTS.get(name.suffix.removeprefix(".") or name.name)


def _is_statement(text: str, start: int, end: int) -> bool:
    """Whether a string stands alone on its lines and is no argument: a docstring, or a comment in all but name."""
    before = text[max(0, start - _NEAR) : start]
    line, rest = before.rpartition("\n")[2], text[end : end + _NEAR].partition("\n")[0]
    return (
        not line.strip("rRbBuUfF \t") and not rest.split("#")[0].strip(" \t\r;") and not before.rstrip().endswith(_OPEN)
    )


def words_of(path: str, text: str, instruction: str | None) -> str:
    """The words of one file: all of a document, comments and docstrings of code."""
    if is_documentation(path, instruction):
        return text
    return "\n".join(text[start:end] for start, end in comments(path, text))


def all_words(tree: FileTree, instruction: str | None) -> list[str]:
    """The words of each text file of a tree in normal form."""
    found = (Artifact(words_of(path, text, instruction)).flat.text for path, text in _texts(tree))
    return [words for words in found if words]


def _texts(tree: FileTree) -> Iterator[tuple[str, str]]:
    try:
        yield from texts(tree)
    except KeyError:  # a file that was listed is gone
        return


def wordless(tree: FileTree, instruction: str | None) -> FileTree:
    """The work without documentation, and with blank comments; docstrings stay, as programs may read them."""
    return ReducedTree(tree, lambda path: not is_documentation(path, instruction), _uncommented)


def _uncommented(path: str, data: bytes) -> bytes:
    pattern = _pattern(path)
    if pattern is None or len(data) > _MOST or not is_text(data):
        return data
    return pattern.sub(_blank_comment, data.decode("latin-1")).encode("latin-1")


def _blank_comment(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0]) if found["comment"] else found[0]


def without_text(tree: FileTree, found: str) -> FileTree | None:
    """The work with the lines blurred in which a text in normal form stands, None where it stands nowhere."""
    blurred = {path: lines for path, text in _texts(tree) if (lines := _lines_with(text, found))}
    if not blurred:
        return None

    def change(path: str, data: bytes) -> bytes:
        return _blur(decode(data), blurred[path]).encode() if path in blurred else data

    return ReducedTree(tree, lambda _: True, change)


def _lines_with(text: str, found: str) -> set[int]:
    """Numbers of the lines (1-based) over which the text stands."""
    longest = max(_ASCII_WORD.findall(_MARK.sub(" ", found)), key=len, default="")
    if longest not in text:  # far quicker than the normal form
        return set()
    flat = Artifact(text).flat
    spans = ((flat.line_at(at), flat.line_at(at + len(found) - 1)) for at in occurrences(flat.text, found))
    return {number for first, last in spans for number in range(first, last + 1)}


def _blur(text: str, numbers: set[int]) -> str:
    lines = text.split("\n")
    return "\n".join(re.sub(r"\w", "x", line) if at in numbers else line for at, line in enumerate(lines, 1))
