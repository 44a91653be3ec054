"""The page of cost."""

from django.http import HttpRequest, HttpResponse

from auditapp.views.numbers import numbers_for, page


def cost(request: HttpRequest, name: str) -> HttpResponse:
    """The page of cost of one version."""
    return page(request, numbers_for(request, name), "numbers/cost.html", {})
