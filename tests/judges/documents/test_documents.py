"""Documents are shown with addresses that can be cited, the same to everyone, and what is not shown is said."""

import pytest

from judges.documents import Documents, Rendered, kind_of, render
from judges.documents.rendering import from_json, to_json
from tests.judges.documents import makers


def rendered(name: str, data: bytes) -> Rendered:
    found = render(name, data)
    assert found is not None
    return found


def test_a_workbook_is_shown_row_by_row_with_the_address_of_each_cell() -> None:
    book = rendered("a.xlsx", makers.workbook())
    assert book.shown == (
        "⟦P&L 2026!A1⟧ Month  ⟦B1⟧ Revenue  ⟦C1⟧ Cost  ⟦D1⟧ Profit",
        "⟦P&L 2026!A2⟧ January  ⟦B2⟧ 100.5  ⟦C2⟧ 40  ⟦D2⟧ (no value stored) ⟦formula⟧ =B2-C2",
        "⟦P&L 2026!A3⟧ two⏎lines ⟨U+27E6⟩B9⟧ 3  ⟦B3⟧ 200  ⟦C3⟧ TRUE",
        "⟦P&L 2026!A4⟧ =not a formula",
        "⟦P&L 2026!A6⟧ Total",
        "⟦secret!B7⟧ 42",
    )
    assert book.complete


def test_what_a_workbook_hides_is_said() -> None:
    notes = "\n".join(rendered("a.xlsx", makers.workbook()).notes)
    for words in ("merged cells A6:B6", "hidden rows 3", "hidden columns C", "sheet secret is hidden"):
        assert words in notes


def test_a_stored_value_stands_beside_its_formula() -> None:
    assert rendered("a.xlsx", makers.computed("42")).shown == ("⟦Sheet!A1⟧ 41  ⟦B1⟧ 42 ⟦formula⟧ =A1+1",)


@pytest.mark.parametrize(
    ("address", "value"),
    [
        ("P&L 2026!B2", "100.5"),
        ("'P&L 2026'!$B$2", "100.5"),
        ("p&l 2026!b2", "100.5"),
        ("secret!B7", "42"),
        ("B7", None),
    ],
)
def test_cells_are_found_as_people_write_them(address: str, value: str | None) -> None:
    place = rendered("a.xlsx", makers.workbook()).find(address)
    assert (place and place[1] and place[1].value) == value


def test_a_pdf_is_shown_by_page_and_line() -> None:
    paper = rendered("a.pdf", makers.pdf(["Revenue 2026\nTotal 42.50", "", "Signed"]))
    assert paper.shown == ("⟦page 1 line 1⟧ Revenue 2026", "⟦page 1 line 2⟧ Total 42.50", "⟦page 3 line 1⟧ Signed")
    assert "no text on page 2" in paper.notes[0]
    assert not paper.complete
    place = paper.find("Page 1, line 2")
    assert place is not None
    assert (place[0].at, place[0].section) == (2, "page 1")


def test_a_word_file_is_shown_with_tables_and_what_tracked_changes_removed() -> None:
    letter = rendered("a.docx", makers.letter())
    assert letter.shown == (
        "⟦para 1⟧ Dear Ms Ito",
        "⟦para 2⟧ We agree not",
        "⟦para 2 deleted⟧ fully",
        "⟦table 1!A1⟧ Item  ⟦B1⟧ Price",
        "⟦table 1!A2⟧ Tea  ⟦B2⟧ 4",
        "⟦image 1⟧ alt text: a red chart",
        "⟦para 3⟧ Yours",
        "⟦header 1 para 1⟧ Confidential",
        "⟦comment 1⟧ Ada: Is this right?",
    )
    assert "tracked changes: 1 insertions, 1 deletions" in "\n".join(letter.notes)
    assert "macros: never run" in "\n".join(letter.notes)


def test_a_notebook_keeps_outputs_apart_from_cells() -> None:
    book = rendered("a.ipynb", makers.notebook())
    assert book.shown == (
        "⟦cell 1 line 1⟧ # Title",
        "⟦cell 1 line 2⟧ Text",
        "⟦cell 2 line 1⟧ x = 42",
        "⟦cell 2 line 2⟧ print(x)",
        "⟦cell 2 output 1 line 1⟧ 42",
        "⟦cell 2 output 2 line 1⟧ (image/png, 4 characters)",
        "⟦cell 2 output 2 line 2⟧ <Figure>",
        "⟦cell 3 line 1⟧ plot()",
        "⟦cell 4 line 1⟧ import x",
    )
    assert book.notes == (
        "code, not run: cell 3",
        "cells were run in another order than they stand in",
        "text, not code: cell 1",
    )


def test_slides_come_in_the_order_of_the_presentation() -> None:
    assert rendered("a.pptx", makers.slides()).shown == (
        "⟦slide 1 line 1⟧ First",
        "⟦slide 1 image 1⟧ alt text: a map",
        "⟦slide 2 line 1⟧ Second",
        "⟦slide 2 image 1⟧ alt text: a map",
    )


def test_a_picture_says_its_type_size_and_description_and_nothing_of_what_it_shows() -> None:
    picture = rendered("a.png", makers.png(Description="sales\x00by month"))
    assert picture.shown[:2] == ("⟦type⟧ PNG", "⟦size⟧ 64 × 32 pixels")
    assert "sales" in picture.shown[2]
    assert not picture.complete


def test_cells_of_plain_tables_know_the_line_of_the_text_they_stand_in() -> None:
    table = rendered("a.csv", b'name;qty\n"two\nlines";3\n\nlast;5\n')
    place = table.find("B3")
    assert place is not None
    assert (place[1] and place[1].value, place[0].at) == ("5", 5)
    assert table.is_text


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("report.txt", makers.workbook(), "xlsx"),
        ("report.xlsx", b"just text\n", None),
        ("paper", makers.pdf(["x"]), "pdf"),
        ("run.csv", makers.png(), "image"),
        ("a.xlsx", makers.letter(), "docx"),
        ("a.bin", b"\0\1\2", None),
        ("empty.csv", b"", None),
    ],
)
def test_bytes_decide_what_a_file_is_before_its_name(name: str, data: bytes, kind: str | None) -> None:
    assert kind_of(name, data) == kind


def test_a_rendering_survives_storage() -> None:
    book = rendered("a.xlsx", makers.workbook())
    assert from_json(to_json(book)) == book


class Memory(dict[str, bytes]):
    def load(self, key: str) -> bytes | None:
        return self.get(key)

    def save(self, key: str, data: bytes) -> None:
        self[key] = data


def test_a_content_is_read_once_and_then_taken_from_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, data = Memory(), makers.workbook()
    first = Documents(memory).render("a.xlsx", data)
    monkeypatch.setattr("judges.documents.read_apart", lambda *_: pytest.fail("read again"))
    assert Documents(memory).render("other name.xlsx", data) == first
