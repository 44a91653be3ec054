"""Each template compiles, and none breaks what the content policy forbids."""

import re
from pathlib import Path

import pytest
from django import forms
from django.conf import settings
from django.template.loader import get_template

_FOLDER = Path(settings.BASE_DIR, "templates")
_NAMES = sorted(str(path.relative_to(_FOLDER)) for path in _FOLDER.rglob("*.html"))


@pytest.mark.parametrize("name", _NAMES)
def test_template_compiles(name: str) -> None:
    get_template(name)


@pytest.mark.parametrize("name", _NAMES)
def test_template_has_no_inline_script_style_or_handler_and_trusts_no_text(name: str) -> None:
    text = (_FOLDER / name).read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)(?![^>]*type=.application/json)", text), "inline script"
    assert not re.search(r"<style\b|\sstyle=|\son[a-z]+=|javascript:", text), "inline style or handler"
    assert not re.search(r"\|\s*safe\b|autoescape off", text), "unescaped text"
    assert "hx-on" not in text, "hx-on needs eval"
    assert not re.search(r"""(?:src|href)=["'](?:https?:)?//""", text), "something from elsewhere"


def test_a_box_to_tick_stands_before_its_label_and_other_fields_below_theirs() -> None:
    class Choices(forms.Form):
        shown = forms.BooleanField(help_text="Once.")
        size = forms.IntegerField()

    form = Choices()
    box, size = (get_template("_field.html").render({"field": form[name]}) for name in ("shown", "size"))
    assert box.index("<input") < box.index("<label") < box.index("Once.")
    assert size.index("<label") < size.index("<input")
