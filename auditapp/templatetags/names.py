"""Names that a release or an agent gave, as pages show them."""

from django import template

from judges.display import safe_name

register = template.Library()


@register.filter
def visible(name: object) -> str:
    """A name on one line, with marks for what turns the text around or draws nothing; a long one loses its middle."""
    return "" if name is None else safe_name(str(name))
