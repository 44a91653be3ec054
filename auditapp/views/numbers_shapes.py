"""The page of shapes."""

from django.http import HttpRequest, HttpResponse

from auditapp.views.numbers import numbers_for, page


def shapes(request: HttpRequest, name: str) -> HttpResponse:
    """The page of shapes of one version."""
    return page(request, numbers_for(request, name), "numbers/shapes.html", {})
