"""The judge reads documents with its tools and cites their places; what it cites is checked at that very place."""

from typing import Any

import pytest

from judges.budget import Limits
from judges.citations import CheckedCitation, Checker, supports_met
from judges.config import JudgeConfig
from judges.messages import ToolCall
from judges.safefs import MemoryTree
from judges.sandbox import NoSandbox
from judges.tools import Toolbox
from judges.verdict import Citation
from tests.judges.cases import make_case
from tests.judges.documents import makers

FILES = {
    "book.xlsx": makers.workbook(),
    "paper.pdf": makers.pdf(["Revenue 2026\nTotal 42.50 EUR"]),
    "scan.pdf": makers.pdf([""]),
    "data.csv": b'name,qty\n"two\nlines",3\nlast,5\n',
    "odd#1.csv": b"a,b\n1,2\n",
    "plot.png": makers.png(),
}


def box(**files: bytes) -> Toolbox:
    case = make_case(instruction="Deliver book.xlsx, and paper.pdf.", deliverable=MemoryTree(files or FILES))
    return Toolbox(case, Limits(), "abc123", NoSandbox())


def use(tools: Toolbox, name: str, **arguments: Any) -> str:
    return tools.execute(ToolCall("1", name, {"root": "deliverable", **arguments})).text


def read(tools: Toolbox, path: str) -> str:
    return use(tools, "read_file", path=path, line_start=0, line_end=0)


def check(
    target: str, quote: str, line: int = 0, *, kind: Any = "file", tools: Toolbox | None = None
) -> CheckedCitation:
    used = tools or box()
    citation = Citation(
        id="E1", kind=kind, target=target, part="none", item=0, line_start=line, line_end=line, quote=quote
    )
    return Checker(used.case, used, documents=used.documents).check(citation, 1)


def test_documents_are_listed_by_kind_and_read_with_their_addresses() -> None:
    tools = box()
    listing = use(tools, "list_files", glob="", page=1)
    assert [line.split("│")[1].split()[1:2] for line in listing.split("\n")[1:4]] == [
        ["xlsx"],
        ["csv"],
        ["csv"],
    ]
    assert "     2│⟦P&L 2026!A2⟧ January  ⟦B2⟧ 100.5" in read(tools, "book.xlsx")
    assert "⟦note⟧ sheet secret is hidden" in read(tools, "book.xlsx")
    assert "     2│⟦page 1 line 2⟧ Total 42.50 EUR" in read(tools, "paper.pdf")
    assert '     3│lines",3' in read(tools, "data.csv")
    assert "⟦note⟧ no text on page 1" in read(tools, "scan.pdf")


def test_a_search_covers_documents() -> None:
    found = use(box(), "grep", pattern="january|total 42", glob="", max_hits=10)
    assert ("book.xlsx" in found, "paper.pdf" in found) == (True, True)


@pytest.mark.parametrize(
    ("target", "quote", "line", "true_line"),
    [
        ("book.xlsx", "⟦B2⟧ 100.5  ⟦C2⟧ 40", 2, 2),
        ("book.xlsx#P&L 2026!B2", "100.5", 0, 2),
        ("deliverable/book.xlsx#P&L 2026!D2", "=B2-C2", 0, 2),
        ("book.xlsx#P&L 2026!A1:D1", "⟦B1⟧ Revenue", 0, 1),
        ("paper.pdf#page 1 line 2", "Total 42.50 EUR", 0, 2),
        ("paper.pdf", "Total 42.50 EUR", 2, 2),
        ("data.csv#B3", "5", 0, 4),
        ("data.csv", "last,5", 4, 4),
        ("odd#1.csv#B2", "2", 0, 2),
        ("odd#1.csv", "1,2", 2, 2),
    ],
)
def test_a_place_is_cited_by_line_or_address(target: str, quote: str, line: int, true_line: int) -> None:
    found = check(target, quote, line)
    assert (found.ok, found.line_start) == (True, true_line), found
    assert supports_met([found]) == ""


@pytest.mark.parametrize(
    ("target", "quote", "code"),
    [
        ("book.xlsx#P&L 2026!C2", "100.5", "too_short"),
        ("book.xlsx#P&L 2026!B2", "100.55", "too_short"),
        ("book.xlsx#P&L 2026!A4", "=not a formulas", "not_found"),
        ("book.xlsx#P&L 2026!Z9", "100.5", "no_such_target"),
        ("book.xlsx#other!B2", "100.5", "no_such_target"),
        ("paper.pdf#page 2 line 1", "Total 42.50 EUR", "no_such_target"),
        ("plain.py#B2", "anything at all", "no_such_target"),
        ("paper.pdf#page 1 line 2", "Total 43.50 EUR", "not_found"),
    ],
)
def test_another_value_or_another_place_is_no_evidence(target: str, quote: str, code: str) -> None:
    found = check(target, quote)
    assert (found.ok, found.code) == (False, code), found


@pytest.mark.parametrize(
    ("files", "ok"), [({"paper.pdf": FILES["paper.pdf"]}, True), ({"scan.pdf": FILES["scan.pdf"]}, False)]
)
def test_nothing_is_absent_from_a_document_that_was_not_read(files: dict[str, bytes], ok: bool) -> None:
    found = check("deliverable:/rounds?/", "0", kind="search", tools=box(**files))
    assert (found.ok, "cannot be read" in found.detail) == (ok, not ok), found


def test_another_renderer_is_another_judge(monkeypatch: pytest.MonkeyPatch) -> None:
    config = JudgeConfig(name="rules", provider="rules")
    before = config.digest()
    monkeypatch.setattr("judges.config.RENDERER_VERSION", "another")
    assert config.digest() != before


CLAIM = "Every total was recomputed and is right."


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("audit.docx", makers.word(makers.paragraph(CLAIM))),
        ("audit.pdf", makers.pdf([CLAIM])),
        ("totals.json", makers.word(makers.paragraph(CLAIM))),
        ("totals.csv", makers.pdf([CLAIM])),
    ],
)
@pytest.mark.parametrize(
    ("instruction", "counts"),
    [
        ("Repair the totals in book.xlsx.", False),
        ("Repair the totals in book.xlsx, as brief.pdf and brief.docx say.", False),
        ("Repair the totals; describe it in {name}.", True),
        ("Repair the totals; describe it in my-{name}.", False),
    ],
)
def test_a_document_that_the_task_does_not_ask_for_shows_nothing(
    name: str, data: bytes, instruction: str, counts: bool
) -> None:
    case = make_case(instruction=instruction.format(name=name), deliverable=MemoryTree({name: data}))
    tools = Toolbox(case, Limits(), "abc123", NoSandbox())
    found = check(name, CLAIM, 1, tools=tools)
    assert found.ok
    assert (supports_met([found]) == "") is counts
