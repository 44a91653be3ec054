"""Names and sentences that a release or an agent gave, as pages show them."""

from django import template

from judges.display import display_text, safe_name

register = template.Library()


@register.filter
def visible(name: object) -> str:
    """A name on one line, with marks for what turns the text around or draws nothing; a long one loses its middle."""
    return "" if name is None else safe_name(str(name))


@register.filter
def revealed(text: object) -> str:
    """A text of any length with the same marks, for what is shown outside of numbered lines."""
    return "" if text is None else display_text(str(text))
