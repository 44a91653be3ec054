"""Error pages: what happened, what to do, the id to quote."""

import sqlite3
import sys
from collections.abc import Callable

import psycopg.errors
import structlog
from django.core.exceptions import BadRequest, RequestDataTooBig, TooManyFieldsSent
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from auditapp.blobs import MissingBlobError, has_no_room

RETRY_AFTER_S = 10


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


def buttons_say_so(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: an address of a button that is opened as a page, as after a log-in, says so instead of nothing."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        if response.status_code != 405 or request.method != "GET":
            return response
        page = render(request, "errors/405.html", status=405)
        page["Allow"] = response["Allow"]
        return page

    return middleware


def broken(_request: HttpRequest) -> HttpResponse:
    """Our own fault, or what Assay stands on is away or full; the page asks neither database nor session."""
    request_id = structlog.contextvars.get_contextvars().get("request_id", "")
    error = sys.exc_info()[1]
    is_full, missing = _is_full(error), str(error) if isinstance(error, MissingBlobError) else ""
    context = {"request_id": request_id, "missing": missing, "is_full": is_full}
    if is_full:
        return render(None, "errors/503.html", context, status=507)
    if _is_away(error):
        answer = render(None, "errors/503.html", context, status=503)
        answer["Retry-After"] = RETRY_AFTER_S
        return answer
    return render(None, "errors/500.html", context, status=500)


def _is_away(error: BaseException | None) -> bool:
    """Whether the database did not answer. SQLite says the same of a statement it does not understand."""
    is_wrong = getattr(error and error.__cause__, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
    return isinstance(error, (OperationalError, InterfaceError)) and not is_wrong


def _is_full(error: BaseException | None) -> bool:
    """Whether a disk or a quota had no room left, under our files or under the database's."""
    cause = error.__cause__ if error else None  # Django's own errors say no more than that it is operational
    is_full = getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return has_no_room(error) or is_full or isinstance(cause, psycopg.errors.DiskFull)
