"""A judge against itself: its spread, and what difference between two models it can show."""

from django.http import HttpRequest, HttpResponse

from auditapp.views.numbers import numbers_for, page


def consistency(request: HttpRequest, name: str) -> HttpResponse:
    """How much of a judge's answer is noise."""
    numbers = numbers_for(request, name)
    return page(request, numbers, "numbers/consistency.html", {})
