"""Error pages: what happened, what to do, the id to quote."""

import structlog
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 (it may name what exists)
    """The same page for what does not exist and for what belongs to others."""
    return render(request, "errors/404.html", status=404)


def not_allowed(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A member without the role; the reason names the role that would do."""
    return render(request, "errors/403.html", {"reason": str(exception)}, status=403)


def broken(_request: HttpRequest) -> HttpResponse:
    """Our own fault; the page asks neither database nor session."""
    request_id = structlog.contextvars.get_contextvars().get("request_id", "")
    return render(None, "errors/500.html", {"request_id": request_id}, status=500)
