"""What each number means: the methodology of this program as a page, so that the name of a number can lead there."""

import re
from functools import cache
from itertools import pairwise
from pathlib import Path

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

SOURCE = Path(settings.BASE_DIR) / "docs" / "methodology" / "README.md"


def methodology(request: HttpRequest) -> HttpResponse:
    """Each formula with its assumptions; every section has the anchor that GitHub gives it."""
    if not SOURCE.exists():
        raise Http404
    text, sections = _read(SOURCE.read_text(encoding="utf-8"))
    return render(request, "numbers/methodology.html", {"text": text, "sections": sections})


@cache
def _read(source: str) -> tuple[SafeString, tuple[tuple[str, str], ...]]:
    """The HTML of our own text under its title, and its sections; raw HTML in it is escaped."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(source.partition("\n")[2])
    sections = []
    for opened, inside in pairwise(tokens):
        if opened.type == "heading_open":
            anchor = anchor_of(inside.content)
            opened.attrSet("id", anchor)
            sections.append((anchor, inside.content))
    return mark_safe(markdown.renderer.render(tokens, markdown.options, {})), tuple(sections)  # noqa: S308 (our own)


def anchor_of(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip())
