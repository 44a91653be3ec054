"""Slides: the lines of each slide in its order, what its pictures are said to show, and the speaker's notes."""

from typing import Any

from .page import Page, Unreadable
from .zipped import Package, attribute, local, relations

Element = Any
_PRESENTATION = "ppt/presentation.xml"


def read(data: bytes, page: Page) -> None:
    """Write the slides in the order of the presentation."""
    package = Package(data)
    root = package.xml(_PRESENTATION)
    if root is None:
        raise Unreadable("it has no presentation part")
    package.remark(page, "ppt")
    targets = relations(package, _PRESENTATION)
    ids = [_relation(element) for element in root.iter() if local(element) == "sldId"]
    for number, name in enumerate((targets.get(item, "") for item in ids), 1):
        slide = package.xml(name)
        if slide is None:
            page.fail(f"slide {number} is missing from the archive")
            continue
        if attribute(slide, "show") in ("0", "false"):
            page.note(f"slide {number} is hidden in the presentation; it is shown here")
        page.lines(f"slide {number} line", _text(slide))
        _pictures(slide, number, page)
        for part in relations(package, name).values():
            if "notesSlide" in part and (notes := package.xml(part)) is not None:
                page.lines(f"slide {number} notes line", _text(notes))


def _relation(element: Element) -> str:
    """The id of the relation; the plain `id` beside it is a number of the slide's own."""
    return next((value for key, value in element.attrib.items() if key.endswith("}id")), "")


def _text(root: Element) -> str:
    """One line for each paragraph."""
    return "\n".join(
        "".join(_piece(item) for item in paragraph.iter()) for paragraph in root.iter() if local(paragraph) == "p"
    )


def _piece(element: Element) -> str:
    kind = local(element)
    return element.text or "" if kind == "t" else " " if kind in ("br", "tab") else ""


def _pictures(slide: Element, number: int, page: Page) -> None:
    pictures = [element for element in slide.iter() if local(element) == "pic"]
    for index, picture in enumerate(pictures, 1):
        described = (attribute(item, "descr") for item in picture.iter() if local(item) == "cNvPr")
        words = next(filter(None, described), "")
        page.line(f"slide {number} image {index}", f"alt text: {words}" if words else "no alt text")
