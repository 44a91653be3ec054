"""Documents in the reader: what is shown of them, where citations land, and how their bytes leave the server."""

import re
from types import SimpleNamespace

import pytest
from django.test import Client

from auditapp import blobs
from auditapp.documents import documents
from auditapp.models.datasets import Role, Trajectory
from auditapp.templatetags.citations import citation_url
from judges.safefs import MemoryTree
from tests.auditapp.population import add_trajectory, make_task, make_version
from tests.auditapp.reader_world import make_member
from tests.judges.documents import makers

pytestmark = pytest.mark.django_db

FILES = {
    "book.xlsx": makers.workbook(),
    "paper.pdf": makers.pdf(["Revenue 2026\nTotal <b>42</b>", "Signed"]),
    "scan.pdf": makers.pdf([""]),
    "data.csv": b'name,qty\n"two\nlines",3\nlast,5\n',
    "note.ipynb": makers.notebook(),
    "letter.docx": makers.letter(),
    "a b&c.png": makers.png(),
    "fake.png": b"<script>alert(1)</script>\0\1",
    "drawing.svg": b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
    "long.csv": b"n\n" + b"".join(b"%d\n" % number for number in range(1_000)),
    "endless.csv": b"n\n" * 20_500,
    'evil"\r\nX-Injected: 1.xlsx': makers.workbook(),
}


@pytest.fixture
def trajectory() -> Trajectory:
    deliverable = blobs.put_tree(MemoryTree(FILES))
    initial = blobs.put_tree(MemoryTree({"paper.pdf": makers.pdf(["Revenue 2026\nTotal 41", "Signed"])}))
    task = make_task(make_version("release"), "report", initial_tree=initial)
    return add_trajectory(task, "one", "pass", deliverable=deliverable)


@pytest.fixture
def lead(trajectory: Trajectory) -> Client:
    client = Client()
    client.force_login(make_member(trajectory.version.dataset, Role.LEAD))
    return client


def body(client: Client, trajectory: Trajectory, **query: str) -> str:
    response = client.get(f"/t/{trajectory.public_id}/deliverable/", query)
    assert response.status_code == 200
    return response.content.decode()


def test_a_sheet_is_a_table_with_the_address_of_each_cell(lead: Client, trajectory: Trajectory) -> None:
    page = body(lead, trajectory, path="book.xlsx")
    assert '<td data-at="P&amp;L 2026!B2" class="num">100.5</td>' in page
    assert "(no value stored)<code>=B2-C2</code>" in page
    assert "sheet secret is hidden" in page
    assert '<th scope="col">D</th>' in page


def test_pages_and_cells_are_numbered_lines_and_never_markup(lead: Client, trajectory: Trajectory) -> None:
    page = body(lead, trajectory, path="paper.pdf")
    assert "<h3>page 2</h3>" in page
    assert 'data-n="2" data-at="page 1 line 2" data-line="2">Total &lt;b&gt;42&lt;/b&gt;</div>' in page
    assert 'data-at="cell 2 output 1 line 1"' in body(lead, trajectory, path="note.ipynb")
    assert 'data-n="para 2 deleted"' in body(lead, trajectory, path="letter.docx")


@pytest.mark.parametrize(
    ("query", "marked"),
    [
        ({"path": "book.xlsx#P&L 2026!B2"}, '<td data-at="P&amp;L 2026!B2" class="num cited" id="cite">100.5</td>'),
        ({"path": "book.xlsx", "lines": "6"}, '<tr data-line="6" class="cited" id="cite"><th scope="row">7</th>'),
        ({"path": "paper.pdf", "lines": "3-3"}, 'data-at="page 2 line 1" data-line="3" id="cite">Signed'),
        ({"path": "paper.pdf#page 2 line 1"}, 'data-at="page 2 line 1" data-line="3" id="cite">Signed'),
        ({"path": "data.csv", "lines": "4"}, '<tr data-line="4" class="cited" id="cite"><th scope="row">3</th>'),
        ({"path": "long.csv#A777"}, '<td data-at="A777" class="num cited" id="cite">775</td>'),
    ],
)
def test_the_cited_place_is_marked(lead: Client, trajectory: Trajectory, query: dict[str, str], marked: str) -> None:
    page = body(lead, trajectory, **query)
    assert marked in page
    assert page.count('id="cite"') == 1


def test_a_citation_by_address_leads_to_its_cell(lead: Client, trajectory: Trajectory) -> None:
    cited = SimpleNamespace(
        kind="file", target="deliverable/book.xlsx#P&L 2026!B2", part="none", item=0, line_start=2, line_end=2
    )
    address = citation_url(trajectory.public_id, cited)
    page = lead.get(address.partition("#")[0]).content.decode()
    assert 'class="num cited" id="cite">100.5' in page


def test_a_place_that_is_not_there_is_said(lead: Client, trajectory: Trajectory) -> None:
    assert "There is no place <code>Z9</code>" in body(lead, trajectory, path="book.xlsx#Z9")
    assert "There is no place <code>line 900</code>" in body(lead, trajectory, path="paper.pdf", lines="900")


def test_long_tables_come_in_pages_that_follow_each_other(lead: Client, trajectory: Trajectory) -> None:
    first = body(lead, trajectory, path="long.csv")
    assert (first.count("<tr data-line"), "Lines 401-800" in first) == (400, True)
    second = body(lead, trajectory, path="long.csv", show="401-800")
    assert re.findall(r"Lines (\d+-\d+)", second) == ["1-400", "801-1001"]


def test_plain_tables_can_be_read_as_the_text_they_are(lead: Client, trajectory: Trajectory) -> None:
    page = body(lead, trajectory, path="data.csv", view="text")
    assert '<div class="l" data-n="3">lines&quot;,3</div>' in page
    assert "As a document" in page


def test_a_line_beyond_what_is_shown_as_a_table_is_shown_as_text(lead: Client, trajectory: Trajectory) -> None:
    page = body(lead, trajectory, path="endless.csv", lines="20400")
    assert '<div class="l cited" data-n="20400" id="cite">n</div>' in page


def test_documents_are_compared_by_what_is_in_them(lead: Client, trajectory: Trajectory) -> None:
    page = body(lead, trajectory, path="paper.pdf", against="initial")
    assert "<b>−</b>[page 1 line 2] Total 41" in page
    assert "<b>+</b>[page 1 line 2] Total &lt;b&gt;42&lt;/b&gt;" in page


def test_what_could_not_be_read_is_said(lead: Client, trajectory: Trajectory) -> None:
    assert "no text on page 1" in body(lead, trajectory, path="scan.pdf")
    assert "not read: it is no picture of a known type" in body(lead, trajectory, path="fake.png")


def test_a_picture_is_a_placeholder_until_it_is_opened(lead: Client, trajectory: Trajectory) -> None:
    page = body(lead, trajectory, path="a b&c.png")
    assert "64 × 32 pixels" in page
    assert '<img src="' in page.partition('<details class="picture">')[2].partition("</details>")[0]
    assert 'loading="lazy"' in page


def test_a_picture_is_sent_by_what_it_is_and_can_do_nothing(lead: Client, trajectory: Trajectory) -> None:
    response = lead.get(f"/t/{trajectory.public_id}/file/deliverable/", {"path": "a b&c.png", "picture": "1"})
    assert response["Content-Type"] == "image/png"
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert response.content == FILES["a b&c.png"]


@pytest.mark.parametrize("path", ["fake.png", "drawing.svg", "book.xlsx", "../etc/passwd"])
def test_nothing_but_a_picture_is_shown_as_one(lead: Client, trajectory: Trajectory, path: str) -> None:
    address = f"/t/{trajectory.public_id}/file/deliverable/"
    assert lead.get(address, {"path": path, "picture": "1"}).status_code == 404


def test_a_download_is_an_attachment_under_a_harmless_name(lead: Client, trajectory: Trajectory) -> None:
    name = next(name for name in FILES if name.startswith("evil"))
    response = lead.get(f"/t/{trajectory.public_id}/file/deliverable/", {"path": name})
    assert response["Content-Disposition"].startswith("attachment; filename")
    assert not re.search(r"[\r\n]", response["Content-Disposition"])
    assert (response["Content-Type"], response["X-Content-Type-Options"]) == ("application/octet-stream", "nosniff")
    assert response.content == FILES[name]


def test_a_document_is_read_once_for_all_processes(trajectory: Trajectory, monkeypatch: pytest.MonkeyPatch) -> None:
    data = makers.notebook() + b" "
    first = documents().render("a.ipynb", data)
    monkeypatch.setattr("judges.documents.read_apart", lambda *_: pytest.fail("read again"))
    assert documents().render("b.ipynb", data) == first
