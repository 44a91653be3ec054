"""Documents made by code: ordinary ones, and ones made to hurt whoever opens them."""

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import openpyxl
from PIL import Image, PngImagePlugin
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

Json = Any
_W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_WP = 'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"'


def archive(parts: Mapping[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as package:
        for name, content in parts.items():
            package.writestr(name, content)
    return out.getvalue()


def workbook() -> bytes:
    """Two sheets, one of them hidden; formulas, merged cells, hidden rows and columns, text that looks like more."""
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "P&L 2026"
    sheet.append(["Month", "Revenue", "Cost", "Profit"])
    sheet.append(["January", 100.5, 40, "=B2-C2"])
    sheet.append(["two\nlines ⟦B9⟧ 3", 200, True, None])
    sheet["A4"], sheet["A6"] = "=not a formula", "Total"
    sheet["A4"].data_type = "s"
    sheet.merge_cells("A6:B6")
    sheet.row_dimensions[3].hidden = True
    sheet.column_dimensions["C"].hidden = True
    hidden = book.create_sheet("secret")
    hidden.sheet_state, hidden["B7"] = "hidden", 42
    return saved(book)


def saved(book: Any) -> bytes:
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def computed(value: str) -> bytes:
    """A workbook whose formula in B1 has a stored value, as spreadsheet programs write it."""
    book = openpyxl.Workbook()
    book.active["A1"], book.active["B1"] = 41, "=A1+1"
    parts = unpacked(saved(book))
    sheet = parts["xl/worksheets/sheet1.xml"].replace(b"<v />", f"<v>{value}</v>".encode())
    assert value.encode() in sheet
    return archive({**parts, "xl/worksheets/sheet1.xml": sheet})


def unpacked(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        return {name: package.read(name) for name in package.namelist()}


def long_workbook(rows: int) -> bytes:
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("long")
    for number in range(rows):
        sheet.append([number])
    return saved(book)


def bomb_workbook() -> bytes:
    """A few hundred kilobytes that unpack to half a gigabyte of blanks."""
    parts = unpacked(workbook())
    return archive({**parts, "xl/worksheets/sheet1.xml": b" " * (512 << 20)})


def word(body: str, **parts: str) -> bytes:
    document = f"<w:document {_W} {_WP}><w:body>{body}</w:body></w:document>"
    return archive({"word/document.xml": document, **{f"word/{name}.xml": part for name, part in parts.items()}})


def paragraph(text: str) -> str:
    return f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>"


def letter() -> bytes:
    table = "".join(
        f"<w:tr>{''.join(f'<w:tc>{paragraph(cell)}</w:tc>' for cell in row)}</w:tr>"
        for row in (("Item", "Price"), ("Tea", "4"))
    )
    changed = (
        "<w:p><w:r><w:t>We agree</w:t></w:r><w:ins><w:r><w:t> not</w:t></w:r></w:ins>"
        "<w:del><w:r><w:delText> fully</w:delText></w:r></w:del></w:p>"
    )
    picture = (
        '<w:p><w:r><w:drawing><wp:inline><wp:docPr id="1" descr="a red chart"/></wp:inline></w:drawing></w:r></w:p>'
    )
    body = f"{paragraph('Dear Ms Ito')}<w:p/>{changed}<w:tbl>{table}</w:tbl>{picture}{paragraph('Yours')}"
    header = f"<w:hdr {_W}>{paragraph('Confidential')}</w:hdr>"
    comments = f'<w:comments {_W}><w:comment w:author="Ada">{paragraph("Is this right?")}</w:comment></w:comments>'
    return word(body, header1=header, comments=comments, vbaProject="x")


def billion_laughs() -> bytes:
    entities = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    document = (
        f'<!DOCTYPE d [<!ENTITY l0 "ha">{entities}]><w:document {_W}><w:body>{paragraph("&l11;")}</w:body></w:document>'
    )
    return archive({"word/document.xml": document})


def pdf(pages: Sequence[str], *, password: str | None = None) -> bytes:
    """A page for each text, a line of it for each line; an empty text makes a page that only draws."""
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for text in pages:
        page = writer.add_blank_page(612, 792)
        stream = DecodedStreamObject()
        shown = " T* ".join(f"({line}) Tj" for line in text.split("\n"))
        stream.set_data(f"BT /F1 12 Tf 14 TL 72 720 Td {shown} ET".encode() if text else b"0 0 100 100 re f")
        page[NameObject("/Contents")] = writer._add_object(stream)
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
    if password is not None:
        writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def png(width: int = 64, height: int = 32, **texts: str) -> bytes:
    out, info = io.BytesIO(), PngImagePlugin.PngInfo()
    for name, text in texts.items():
        info.add_text(name, text)
    Image.new("RGB", (width, height), "red").save(out, "PNG", pnginfo=info)
    return out.getvalue()


def notebook() -> bytes:
    printed = {"output_type": "stream", "text": ["42\n"]}
    drawn = {"output_type": "display_data", "data": {"image/png": "aaaa", "text/plain": ["<Figure>"]}}
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "\n", "Text"]},
        {"cell_type": "code", "source": "x = 42\n\nprint(x)", "execution_count": 3, "outputs": [printed, drawn]},
        {"cell_type": "code", "source": "plot()", "execution_count": None, "outputs": []},
        {"cell_type": "code", "source": "import x", "execution_count": 1, "outputs": []},
    ]
    return json.dumps({"cells": cells, "nbformat": 4}).encode()


def slides() -> bytes:
    a, p = 'xmlns:a="urn:a"', 'xmlns:p="urn:p" xmlns:r="urn:r"'
    ids = '<p:sldId id="256" r:id="R2"/><p:sldId id="257" r:id="R1"/>'
    presentation = f"<p:presentation {p}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>"
    relations = "".join(f'<Relationship Id="R{n}" Target="slides/slide{n}.xml"/>' for n in (1, 2))
    parts = {
        "ppt/presentation.xml": presentation,
        "ppt/_rels/presentation.xml.rels": f"<Relationships>{relations}</Relationships>",
    }
    for number, text in ((1, "Second"), (2, "First")):
        picture = '<p:pic><p:nvPicPr><p:cNvPr id="2" descr="a map"/></p:nvPicPr></p:pic>'
        parts[f"ppt/slides/slide{number}.xml"] = (
            f"<p:sld {p} {a}><a:p><a:r><a:t>{text}</a:t></a:r></a:p>{picture}</p:sld>"
        )
    return archive(parts)
