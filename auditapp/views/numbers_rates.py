"""Error rates: the primary rate first, both directions in every reading, and where the verifier is wrong."""

from django.http import HttpRequest, HttpResponse

from auditapp.views.numbers import numbers_for, page


def error_rates(request: HttpRequest, name: str) -> HttpResponse:
    """How often the verifier is wrong, in which direction, how sure that is, and what would narrow it."""
    numbers = numbers_for(request, name)
    return page(request, numbers, "numbers/rates.html", {})
