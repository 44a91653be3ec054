"""Error pages: what happened, what to do, the id to quote."""

import sys

import structlog
from django.core.exceptions import BadRequest, RequestDataTooBig, TooManyFieldsSent
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from auditapp.blobs import MissingBlobError


def not_understood(_request: HttpRequest, exception: Exception) -> HttpResponse:
    """A request that cannot be read; the page asks nothing of it, as asking again would fail again."""
    told = isinstance(exception, (BadRequest, RequestDataTooBig, TooManyFieldsSent))
    return render(None, "errors/400.html", {"reason": str(exception) if told else ""}, status=400)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001 (it may name what exists)
    """The same page for what does not exist and for what belongs to others."""
    return render(request, "errors/404.html", status=404)


def not_allowed(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A member without the role; the reason names the role that would do."""
    return render(request, "errors/403.html", {"reason": str(exception)}, status=403)


def not_from_here(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001 (Django's words are for its log)
    """A form without this session's token: sent from elsewhere, or from a page that is older than the session."""
    told = "The form you sent does not belong to this session. Go back, load the page anew and send it again."
    return render(request, "errors/403.html", {"reason": told}, status=403)


def broken(_request: HttpRequest) -> HttpResponse:
    """Our own fault; the page asks neither database nor session."""
    request_id = structlog.contextvars.get_contextvars().get("request_id", "")
    error = sys.exc_info()[1]
    missing = str(error) if isinstance(error, MissingBlobError) else ""
    return render(None, "errors/500.html", {"request_id": request_id, "missing": missing}, status=500)
