"""Documents made to hurt: each ends within its bounds, in its own process, with words on what was not read."""

import time

import pytest

from judges.documents import Rendered, isolation, render
from judges.documents.rendering import from_output
from tests.judges.documents import makers


def rendered(name: str, data: bytes) -> Rendered:
    found = render(name, data)
    assert found is not None
    return found


@pytest.fixture(params=["sandbox", "limits"])
def _everywhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "limits":
        monkeypatch.setattr(isolation, "_sandbox", lambda: None)
    elif isolation._sandbox() is None:
        pytest.skip("no sandbox here")


@pytest.mark.usefixtures("_everywhere")
@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("bomb.xlsx", makers.bomb_workbook(), "decompression bomb"),
        ("laughs.docx", makers.billion_laughs(), "declares a document type or entities"),
        ("locked.pdf", makers.pdf(["secret"], password="pw"), "encrypted and needs a password"),
        ("cut.xlsx", makers.workbook()[:900], "damaged"),
        ("cut.pdf", makers.pdf(["x"])[:60], "damaged"),
        ("fake.docx", b"PK\x03\x04" + bytes(200), "damaged"),
        ("fake.png", b"\x89PNG\r\n\x1a\n" + bytes(20), "not read"),
        ("fake.ipynb", b'{"cells": 3}', "no list of cells"),
        ("deep.ipynb", b'{"cells":' + b"[" * 100_000, "no JSON"),
        ("old.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "old binary Office file, or an encrypted one"),
    ],
)
def test_what_cannot_be_read_says_why(name: str, data: bytes, words: str) -> None:
    found = rendered(name, data)
    assert words in "\n".join(found.notes)
    assert (found.lines, found.complete) == ((), False)


def test_a_sheet_of_a_million_rows_is_shown_as_far_as_the_bound() -> None:
    started = time.monotonic()
    found = rendered("long.xlsx", _million())
    assert time.monotonic() - started < isolation.WALL_SECONDS
    assert (len(found.lines), found.complete) == (20_000, False)
    assert "longer than what is shown" in found.notes[-1]


def _million() -> bytes:
    """As rows of text, because writing them with a library takes longer than all other tests together."""
    parts = makers.unpacked(makers.long_workbook(1))
    rows = b"".join(b'<row r="%d"><c r="A%d"><v>%d</v></c></row>' % (n, n, n) for n in range(1, 1_000_001))
    head = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    return makers.archive({**parts, "xl/worksheets/sheet1.xml": head + rows + b"</sheetData></worksheet>"})


def test_a_cell_in_the_last_corner_costs_no_more_than_the_bound() -> None:
    parts = makers.unpacked(makers.long_workbook(1))
    head = b'<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'
    rows = b'<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row>'
    found = rendered(
        "far.xlsx", makers.archive({**parts, "xl/worksheets/sheet1.xml": head + rows + b"</sheetData></worksheet>"})
    )
    assert found.shown == ("⟦long!A1⟧ 1", "⟦long!XFD1048576⟧ 2")


def test_names_and_texts_cannot_forge_an_address_or_hide_anything() -> None:
    parts = makers.unpacked(makers.workbook())
    book = parts["xl/workbook.xml"].replace(b"secret", "x⟧ 1 ⟦y\u202e".encode())
    found = rendered("a.xlsx", makers.archive({**parts, "xl/workbook.xml": book}))
    assert found.shown[-1] == "⟦x⟨U+27E7⟩ 1 ⟨U+27E6⟩y⟨⟦U+202E⟧⟧!B7⟧ 42".replace("⟨⟦U+202E⟧⟧", "⟦U+202E⟨U+27E7⟩")


def test_output_cut_by_a_kill_keeps_what_came_and_says_so() -> None:
    found = from_output("pdf", '["line","page 1 line 1","a",[],0]\n["line","page 1 li', why="it takes longer than 30 s")
    assert (found.shown, found.complete) == (("⟦page 1 line 1⟧ a",), False)
    assert found.notes == ("not read to its end: it takes longer than 30 s",)


@pytest.mark.parametrize("row", ['["line",1,2,3,4]', '["line","a","b",[["x"]],0]', "[]", "{}", "null", '["end"]', "x"])
def test_output_of_another_form_is_no_line(row: str) -> None:
    assert from_output("pdf", row, why="").lines == ()
