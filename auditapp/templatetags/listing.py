"""Addresses of filter chips."""

from django import template
from django.template.context import RequestContext

from auditapp.templatetags.shell import query

register = template.Library()


@register.simple_tag(takes_context=True)
def chip(context: RequestContext, key: str, value: str = "") -> str:
    """The current address with one filter set, or taken out when the value is empty."""
    return query(context, **{key: value})
