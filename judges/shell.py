"""Reads shell scripts as far as evidence needs it: which simple commands stand in them, and on which line.

Nothing is expanded or run. `: pytest` is a no-op and `> pytest` a redirection: words are taken as a shell takes them.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_SCRIPT = 60_000
_OPERATORS = re.compile(r"&&|\|\||\|&|;;|[;&|()\n]")
_REDIRECT = re.compile(r"(?:\d*|&)(?:<<<|<<-|<<|>>|>\||>&|<&|<>|>|<)|&>>?")
_KEYWORDS = frozenset(
    ("if", "then", "elif", "else", "fi", "while", "until", "do", "done", "for", "case", "esac", "in", "{", "}", "!")
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
# Commands that run another one, and how many plain arguments stand before it.
_WRAPPERS = {"sudo": 0, "time": 0, "nohup": 0, "env": 0, "command": 0, "exec": 0, "timeout": 1, "nice": 0, "stdbuf": 0}
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command: words without wrappers and assignments, redirections, its 0-based line, its here-document."""

    words: tuple[str, ...]
    redirects: tuple[tuple[str, str], ...]
    line: int
    body: str = ""

    @property
    def name(self) -> str:
        """The program without its folder; empty for a bare redirection."""
        return self.words[0].rsplit("/", 1)[-1] if self.words else ""

    @property
    def arguments(self) -> tuple[str, ...]:
        """All words after the program."""
        return self.words[1:]

    @property
    def operands(self) -> tuple[str, ...]:
        """Arguments that are no options."""
        return tuple(word for word in self.words[1:] if not word.startswith("-"))

    @property
    def text(self) -> str:
        """The words joined by blanks."""
        return " ".join(self.words)


def commands(script: str) -> list[Command]:
    """All simple commands of a script in order, those of `bash -c` too; what follows an open quote is left out."""
    found: list[Command] = []
    for raw in _Parser(script[:MAX_SCRIPT]).parse():
        command = _unwrapped(raw)
        inner = _inner_script(command)
        if inner is None:
            found.append(command)
        else:
            found += [Command(c.words, c.redirects, command.line, c.body) for c in commands(inner)]
    return found


def _unwrapped(command: Command) -> Command:
    words = list(command.words)
    while words:
        if words[0] in _KEYWORDS or _ASSIGNMENT.match(words[0]):
            words.pop(0)
        elif words[0] in _WRAPPERS:
            words = _after_wrapper(words)
        else:
            break
    return Command(tuple(words), command.redirects, command.line, command.body)


def _after_wrapper(words: Sequence[str]) -> list[str]:
    skip, rest = _WRAPPERS[words[0]], list(words[1:])
    while rest and (rest[0].startswith("-") or _ASSIGNMENT.match(rest[0]) or skip):
        if not rest[0].startswith("-") and not _ASSIGNMENT.match(rest[0]):
            skip -= 1
        rest.pop(0)
    return rest


def _inner_script(command: Command) -> str | None:
    """The script of `bash -c '…'` or of a shell fed by a here-document."""
    if command.name not in _SHELLS:
        return None
    for option, script in zip(command.arguments, command.arguments[1:], strict=False):
        if re.fullmatch(r"-[a-z]*c", option):
            return script
    return command.body or None


class _Parser:
    """One pass over the characters; it stops without complaint where a quote is never closed."""

    def __init__(self, script: str) -> None:
        self.script = script
        self.at = 0
        self.line = 0

    def parse(self) -> Iterator[Command]:
        words: list[str] = []
        redirects: list[tuple[str, str]] = []
        here: list[str] = []
        start = 0
        while self.at < len(self.script):
            operator = _OPERATORS.match(self.script, self.at)
            redirect = _REDIRECT.match(self.script, self.at)
            if redirect and not (operator and operator[0] in ("&&",)):
                self._redirection(redirect[0], redirects, here)
            elif operator:
                self.at = operator.end()
                body = self._end_of_line(here) if operator[0] == "\n" else ""
                if words or redirects:
                    yield Command(tuple(words), tuple(redirects), start, body)
                    words, redirects = [], []
                start = self.line
            elif not self._skip_blank():
                start = start if words or redirects else self.line
                word = self._word()
                if word is None:
                    return
                words.append(word)
        if words or redirects:
            yield Command(tuple(words), tuple(redirects), start)

    def _redirection(self, operator: str, redirects: list[tuple[str, str]], here: list[str]) -> None:
        self.at += len(operator)
        while self._skip_blank():
            pass
        target = self._word() or ""
        kind = operator.lstrip("0123456789&")
        if kind in ("<<", "<<-"):
            here.append(target)
        redirects.append((kind, target))

    def _end_of_line(self, here: list[str]) -> str:
        self.line += 1
        return "\n".join(self._here_document(here.pop(0)) for _ in range(len(here)))

    def _here_document(self, delimiter: str) -> str:
        lines: list[str] = []
        while self.at < len(self.script):
            end = self.script.find("\n", self.at)
            end = len(self.script) if end < 0 else end
            line = self.script[self.at : end]
            self.at, self.line = end + 1, self.line + 1
            if line.strip() == delimiter:
                break
            lines.append(line)
        return "\n".join(lines)

    def _skip_blank(self) -> bool:
        rest = self.script[self.at : self.at + 2]
        if rest[:1] in (" ", "\t", "\r"):
            self.at += 1
        elif rest == "\\\n":
            self.at, self.line = self.at + 2, self.line + 1
        elif rest[:1] == "#":  # only reached at the start of a word
            end = self.script.find("\n", self.at)
            self.at = len(self.script) if end < 0 else end
        else:
            return False
        return True

    def _word(self) -> str | None:
        """The next word without its quotes; None where a quote is never closed."""
        pieces: list[str] = []
        begin = self.at
        while self.at < len(self.script):
            char = self.script[self.at]
            if char in " \t\r\n;|<>()" or (char == "&" and self.at > begin):
                break
            piece = self._piece(char)
            if piece is None:
                return None
            pieces.append(piece)
        return "".join(pieces)

    def _piece(self, char: str) -> str | None:
        if char == "'":
            return self._until("'")
        if char == '"':
            return self._double_quoted()
        if self.script.startswith("$(", self.at):
            return self._substitution()
        if char == "\\":
            escaped = self.script[self.at + 1 : self.at + 2]
            self.at, self.line = self.at + 2, self.line + (escaped == "\n")
            return "" if escaped == "\n" else escaped
        self.at += 1
        return char

    def _until(self, quote: str) -> str | None:
        end = self.script.find(quote, self.at + 1)
        if end < 0:
            return None
        text = self.script[self.at + 1 : end]
        self.at, self.line = end + 1, self.line + text.count("\n")
        return text

    def _double_quoted(self) -> str | None:
        found = re.compile(r'"((?:[^"\\]|\\.)*)"', re.S).match(self.script, self.at)
        if not found:
            return None
        self.at, self.line = found.end(), self.line + found[1].count("\n")
        return re.sub(r'\\([\\"$`])', r"\1", found[1])

    def _substitution(self) -> str | None:
        depth, begin = 0, self.at
        for position in range(self.at + 1, len(self.script)):
            depth += {"(": 1, ")": -1}.get(self.script[position], 0)
            if depth == 0:
                self.at = position + 1
                text = self.script[begin : self.at]
                self.line += text.count("\n")
                return text
        return None
