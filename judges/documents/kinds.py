"""What kind of document bytes are: by what is in them first, by the name only where bytes cannot tell."""

from typing import Final, Literal, get_args

from judges.safefs import is_text

Kind = Literal["xlsx", "docx", "pptx", "pdf", "image", "notebook", "csv", "tsv", "office"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
MAX_DOCUMENT: Final = 16 << 20
PICTURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
_OTHER_PICTURES: Final = (b"BM", b"II*\0", b"MM\0*")
_ARCHIVED: Final[tuple[tuple[bytes, Kind], ...]] = (
    (b"xl/workbook.xml", "xlsx"),
    (b"word/document.xml", "docx"),
    (b"ppt/presentation.xml", "pptx"),
)
_OLD_OFFICE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_BY_ENDING: Final[dict[str, Kind]] = {
    **dict.fromkeys(("xlsx", "xlsm", "xltx"), "xlsx"),
    **dict.fromkeys(("docx", "docm", "dotx"), "docx"),
    **dict.fromkeys(("pptx", "pptm", "ppsx"), "pptx"),
    **dict.fromkeys(("png", "jpg", "jpeg", "gif", "webp", "bmp", "tif", "tiff"), "image"),
    **dict.fromkeys(("xls", "doc", "ppt"), "office"),
    "pdf": "pdf",
    "ipynb": "notebook",
    "csv": "csv",
    "tsv": "tsv",
}


def kind_by_name(name: str) -> Kind | None:
    """What the ending of a name promises, None for plain files."""
    return _BY_ENDING.get(name.rpartition(".")[2].lower())


def kind_of(name: str, data: bytes) -> Kind | None:
    """What `data` is; the name decides only between kinds of text. None for plain text and for what is not rendered."""
    promised = kind_by_name(name)
    if data.startswith(b"PK\x03\x04"):
        return next((kind for mark, kind in _ARCHIVED if mark in data), _damaged(promised, ("xlsx", "docx", "pptx")))
    if b"%PDF-" in data[:1024] and (promised == "pdf" or data.startswith(b"%PDF-")):
        return "pdf"
    if picture_type(data) or (promised == "image" and data.startswith(_OTHER_PICTURES)):
        return "image"
    if data.startswith(_OLD_OFFICE):
        return "office"
    if is_text(data):
        return promised if data.strip() and promised in ("csv", "tsv", "notebook") else None
    return _damaged(promised, ("xlsx", "docx", "pptx", "pdf", "image"))


def _damaged(promised: Kind | None, kinds: tuple[Kind, ...]) -> Kind | None:
    """A binary file with such a name is looked at, so that it is said what is wrong with it."""
    return promised if promised in kinds else None


def picture_type(data: bytes) -> str:
    """The media type of a picture that browsers show, by its first bytes; empty for all else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media for mark, media in PICTURES if data.startswith(mark)), "")
