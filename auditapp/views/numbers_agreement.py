"""Agreement: people with people, each judge with people, over time, and the cases on which they differ."""

from django.http import HttpRequest, HttpResponse

from auditapp.views.numbers import numbers_for, page


def agreement(request: HttpRequest, name: str) -> HttpResponse:
    """Who agrees with whom, and on what not."""
    numbers = numbers_for(request, name)
    return page(request, numbers, "numbers/agreement.html", {})
