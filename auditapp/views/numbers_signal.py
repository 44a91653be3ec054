"""The page of signal."""

from django.http import HttpRequest, HttpResponse

from auditapp.views.numbers import numbers_for, page


def signal(request: HttpRequest, name: str) -> HttpResponse:
    """The page of signal of one version."""
    return page(request, numbers_for(request, name), "numbers/signal.html", {})
