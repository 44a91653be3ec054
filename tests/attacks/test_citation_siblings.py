"""Siblings of the attacks on the citation check: whole kinds of forged quotes and of hollow evidence, as properties."""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, get_args

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from judges.artifacts import Artifact
from judges.citations import CheckedCitation, Checker, supports_met, supports_not_met, supports_tag
from judges.quotes import check_quote
from judges.records import Action, Case, FileTree, Observation, Part, Requirement, Revealed, StepRecord
from judges.safefs import MemoryTree, texts
from judges.sources import SCOPES
from judges.trajindex import MemorySteps
from judges.verdict import Citation

few = settings(max_examples=25, deadline=None, derandomize=True)
NONCE = "abc123"
VERDICTS = r"no(?:ne|thing|t)?|ne(?:ver|ither)|cannot|without|unless|except|null|true|false|pass|fail|valid|wrong|right"
PLAIN = st.from_regex(r"[a-z]{4,9}", fullmatch=True).filter(lambda word: not re.match(VERDICTS, word))
NUMBERS = st.from_regex(r"[-+]?[1-9][0-9]{1,3}(\.[0-9]{1,2})?%?", fullmatch=True)
TOKENS = st.one_of(PLAIN, NUMBERS, st.sampled_from(["passed", "failed", "test_total", "<=", "!="]))
SENTENCES = st.lists(PLAIN, min_size=4, max_size=8, unique=True).map(" ".join)


# --- quotes


@few
@given(st.lists(TOKENS, min_size=4, max_size=8), st.data())
def test_a_quote_never_begins_or_ends_inside_a_token(words: list[str], data: st.DataObject) -> None:
    first = data.draw(st.integers(1, len(words[0]) - 1))
    last = data.draw(st.integers(1, len(words[-1]) - 1))
    line = " ".join(words)
    for quote in (line[first:], line[: len(line) - last], line[first : len(line) - last]):
        check = check_quote(Artifact(f"before\n{line}\nafter"), quote, 2, 2)
        assert not check.ok or check.found != quote


@few
@given(st.lists(SENTENCES, min_size=3, max_size=3, unique=True), st.permutations([0, 1, 2]))
def test_parts_joined_by_an_ellipsis_stand_in_their_order(parts: list[str], order: list[int]) -> None:
    artifact = Artifact(" ".join(parts))
    quote = " ... ".join(parts[index] for index in order)
    assert check_quote(artifact, quote, 1, 1).ok == (order == [0, 1, 2])


@few
@given(SENTENCES, SENTENCES, st.sampled_from(["not", "3", "!=", "failed", "\r", "\u200b", "без"]))
def test_an_ellipsis_hides_no_fact(one: str, other: str, hidden: str) -> None:
    check = check_quote(Artifact(f"{one} {hidden} {other}"), f"{one} ... {other}", 1, 1)
    assert check.ok == (hidden == "без")


@few
@given(SENTENCES, SENTENCES, st.sampled_from(["\r", "\r ", " \r", "\r\x1b[2K", "\b\b\b"]))
def test_what_a_terminal_overwrote_is_part_of_the_quote(under: str, over: str, how: str) -> None:
    artifact = Artifact(f"failed 3 {under}{how}{over}")
    assert not check_quote(artifact, over, 1, 1).ok
    assert not check_quote(artifact, f"failed 3 {under}", 1, 1).ok
    assert check_quote(artifact, artifact.lines[0], 1, 1).ok


@few
@given(SENTENCES, st.data(), st.sampled_from("\u200b\u200d\u202e\u2066\u00ad\u2060\ufeff\U000e0061\u034f\u0301\u3164"))
def test_a_character_that_draws_nothing_is_part_of_the_quote(line: str, data: st.DataObject, hidden: str) -> None:
    at = data.draw(st.integers(1, len(line) - 1))
    artifact = Artifact(line[:at] + hidden + line[at:])
    assert not check_quote(artifact, line, 1, 1).ok
    assert check_quote(artifact, artifact.lines[0], 1, 1).ok


ALIKE = dict(zip("aceopxyij0123456789", "асеорхуіј０１２３４５６７８９", strict=True))


@few
@given(SENTENCES, st.data())
def test_look_alikes_are_other_characters_in_quote_and_text(line: str, data: st.DataObject) -> None:
    line = f"{line} 1 of 12 passed"
    at = data.draw(st.sampled_from([index for index, char in enumerate(line) if char in ALIKE]))
    forged = line[:at] + ALIKE[line[at]] + line[at + 1 :]
    assert not check_quote(Artifact(forged), line, 1, 1).ok
    assert not check_quote(Artifact(line), forged, 1, 1).ok


@few
@given(st.lists(SENTENCES, min_size=3, max_size=5, unique=True), st.data())
def test_gutters_and_line_numbers_are_taken_off_only_where_they_are_ours(lines: list[str], data: st.DataObject) -> None:
    artifact = Artifact("\n".join(lines))
    number = data.draw(st.integers(1, len(lines)))
    other = data.draw(st.integers(1, 99).filter(lambda n: n != number))
    line, foreign = lines[number - 1], data.draw(st.from_regex(r"[0-9a-f]{6}", fullmatch=True))
    assume(foreign != NONCE)
    for quote in (f"{NONCE}│{number:>6}│{line}", f"{NONCE}│{line}", f"{number}│{line}", f"{number}: {line}"):
        assert check_quote(artifact, quote, number, number, nonce=NONCE).ok
    for quote in (
        f"{foreign}│{line}",
        f"{NONCE}│{other}│{line}",
        f"{line}\n{NONCE}│{other}│{line}",
        f"{line[:4]}{NONCE}│{line[4:]}",
        f"{number} {line}",
        f"{number}│{number}│{line}",
    ):
        assert not check_quote(artifact, quote, number, number, nonce=NONCE).ok, quote


@few
@given(SENTENCES, st.integers(1, 9), st.integers(1, 9))
def test_a_number_that_stands_in_the_text_is_no_line_number(line: str, said: int, claimed: int) -> None:
    """A text may imitate our line numbers: only the true number of the line is taken off, the other is text."""
    artifact = Artifact(f"{said}│{line}")
    assert check_quote(artifact, f"{claimed}│{line}", 1, 1).ok == (claimed in (said, 1))


# --- evidence


@dataclass
class Machine:
    """Runs one command as a function of the deliverable, as the sandbox runs shell lines."""

    command: str
    work: FileTree
    does: Callable[[FileTree], str]
    nonce: str = NONCE
    revealed: Revealed | None = None
    id: str = "R1"
    runs: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.runs = [self]

    @property
    def output(self) -> str:
        return self.does(self.work)

    def replay(self, run_id: str) -> str | None:
        return self.does(MemoryTree({}))

    def rerun(self, run_id: str, deliverable: FileTree) -> str | None:
        return self.does(deliverable)


def case(files: dict[str, str], *steps: StepRecord) -> Case:
    tree = MemoryTree({path: text.encode() for path, text in files.items()})
    return Case("t", "c", "Write shop.py.", (Requirement("R1", "it works"),), MemorySteps(steps), deliverable=tree)


def cite(kind: Any, target: str, quote: str, *, part: Any = "none", item: int = 0) -> Citation:
    places = {"line_start": 0, "line_end": 0, "item": item}
    return Citation(id="E1", kind=kind, target=target, part=part, quote=quote, **places)


def ran(does: Callable[[FileTree], str], quote: str, files: dict[str, str], command: str = "run") -> CheckedCitation:
    about = case(files)
    assert about.deliverable is not None
    return Checker(about, Machine(command, about.deliverable, does)).check(cite("command", "R1", quote), 1)


def whole(tree: FileTree, path: str) -> str:
    return dict(texts(tree)).get(path, "no such file")


@few
@given(SENTENCES)
def test_output_that_does_not_depend_on_the_work_never_shows_it(said: str) -> None:
    for does in (
        lambda tree: said,
        lambda tree: f"took 0.{len(tree.entries())}2 s\n{said}",
        lambda tree: f"{said} in 0.{len(tree.entries())}2s",
    ):
        checked = ran(does, said, {"shop.py": "x = 1\n"})
        assert checked.ok
        assert "prints the same" in checked.weakness
        assert supports_met([checked]) != ""


@few
@given(SENTENCES, st.sampled_from(["echo '{}'", "python3 -c \"print('{}')\"", "cat <<EOF\n{}\nEOF", "true || : {}"]))
def test_what_the_judge_told_its_command_to_say_supports_nothing(said: str, how: str) -> None:
    checked = ran(lambda tree: said if tree.entries() else "", said, {"shop.py": "x = 1\n"}, how.format(said))
    assert checked.own_words
    assert supports_met([checked]) != ""
    assert supports_not_met([checked]) != ""
    assert all(supports_tag(code, [checked, checked]) for code in ("C02", "E01", "H04"))


@few
@given(SENTENCES, st.sampled_from(["README.md", "notes.txt", "docs/log.rst", "NOTICE", "run.log"]))
@example("all requirements are met", "README.md")
def test_prose_shows_nothing_however_it_is_printed(said: str, path: str) -> None:
    plain, coded = (
        {"shop.py": "x = 1\n", path: said},
        {"shop.py": "x = 1\n", path: base64.b64encode(said.encode()).decode()},
    )
    decoded = ran(lambda tree: decode(whole(tree, path)), said, coded)
    printed = ran(lambda tree: whole(tree, path), said, plain)
    for checked in (decoded, printed):
        assert checked.ok
        assert supports_met([checked]) != ""


def decode(text: str) -> str:
    return "" if text == "no such file" else base64.b64decode(text).decode()


LANGUAGES = {
    "shop.py": "# {}",
    "a.pyi": '"""{}"""',
    "a.sh": "# {}",
    "Makefile": "# {}",
    "a.js": "// {}",
    "a.go": "/* {} */",
    "a.sql": "-- {}",
    "a.html": "<!-- {} -->",
}


@few
@given(SENTENCES, st.sampled_from(sorted(LANGUAGES)))
def test_a_comment_shows_nothing_in_any_language(said: str, path: str) -> None:
    files = {path: f"work = 1\n{LANGUAGES[path].format(said)}\nmore = 2\n"}
    checked = Checker(case(files), Machine("", MemoryTree({}), lambda _: "")).check(cite("file", path, said), 1)
    assert checked.ok
    assert "comment" in checked.weakness
    assert supports_met([checked]) != ""
    assert supports_met([ran(lambda tree: whole(tree, path), said, files)]) != ""


@few
@given(SENTENCES, st.sampled_from(['text = "{}"', "call('{}')", "value = f(  # why\n    '''{}''')", "x = '# {}'"]))
def test_code_and_the_strings_in_it_are_no_comments(said: str, how: str) -> None:
    files = {"shop.py": f"import os\n\n{how.format(said)}\n"}
    checked = Checker(case(files), Machine("", MemoryTree({}), lambda _: "")).check(cite("file", "shop.py", said), 1)
    assert (checked.ok, checked.weakness) == (True, "")


@few
@given(SENTENCES, st.integers(0, 3))
def test_what_the_work_computes_shows_it_whatever_documents_say(said: str, copies: int) -> None:
    """The same words in a README do not take from a command what it gets from the code."""
    files = {"shop.py": "value = 41 + 1\n", "README.md": f"{said} 42\n" * copies}
    checked = ran(lambda tree: f"{said} 42" if "41 + 1" in whole(tree, "shop.py") else "nothing", f"{said} 42", files)
    assert (checked.ok, checked.weakness) == (True, "")


@few
@given(SENTENCES, st.integers(0, 2), st.sampled_from(["cat out", "python run.py"]))
def test_an_observation_of_what_the_agent_wrote_before_is_the_agents_word(said: str, between: int, shows: str) -> None:
    wrote = acted("1", f"cat > out <<'EOF'\nprint('{said}')\nEOF", "")
    others = [acted(str(number + 2), "ls", "out") for number in range(between)]
    last = acted(str(between + 2), shows, f"start\n{said}\nend")
    about = case({"shop.py": "x = 1\n"}, wrote, *others, last)
    checked = observed(about, last.locator, said)
    assert "earlier action" in checked.weakness
    alone = case({"shop.py": "x = 1\n"}, *others, last)
    assert observed(alone, last.locator, said).weakness == ""


def acted(locator: str, command: str, output: str) -> StepRecord:
    return StepRecord(
        locator, "agent", actions=(Action("bash", {"command": command}),), observations=(Observation(output),)
    )


def observed(about: Case, locator: str, quote: str) -> CheckedCitation:
    bench = Machine("", MemoryTree({}), lambda _: "")
    return Checker(about, bench).check(cite("step", locator, quote, part="observation", item=1), 1)


# --- searches


def searched(scope: str, pattern: str, hits: str) -> CheckedCitation:
    about = case({"shop.py": "qty = 1\n"}, acted("1", "pytest -q", "1 passed"))
    return Checker(about, Machine("", MemoryTree({}), lambda _: "")).check(
        cite("search", f"{scope}:/{pattern}/", hits), 1
    )


NEAR = [f"{scope}{more}" for scope in SCOPES for more in ("s", ".", "/x", ".tests", " ")] + ["steps", "verifier", "x.y"]


@few
@given(st.one_of(st.sampled_from(NEAR), st.text(max_size=20)))
def test_a_scope_that_does_not_exist_shows_no_absence(scope: str) -> None:
    assume(scope not in SCOPES)
    checked = searched(scope, "pytest", "0")
    assert not checked.ok
    assert supports_not_met([checked]) != ""


@few
@given(st.sampled_from(["trajectory", "deliverable", *[f"trajectory.{part}" for part in get_args(Part)]]), st.data())
def test_a_count_is_exact_and_absence_of_nonsense_is_none(scope: str, data: st.DataObject) -> None:
    true = searched(scope, "pytest", "0").ok
    wrong = data.draw(st.integers(2, 99))
    assert not searched(scope, "pytest", str(wrong)).ok
    assert true == (scope not in ("trajectory", "trajectory.action"))
    nonsense = data.draw(st.from_regex(r"[qxz]{12,20}", fullmatch=True))
    assert searched(scope, nonsense, "0").code == "implausible_pattern"


@pytest.mark.parametrize("text", ["", "  ", "0\n", "none", "-1", "1e3", "０"])
def test_a_count_is_a_plain_number(text: str) -> None:
    assert searched("trajectory", "pytest", text).ok is False
