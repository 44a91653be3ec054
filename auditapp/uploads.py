"""What of a request is read: text that is UTF-8, uploads that go to files, bodies that are not too large."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.exceptions import BadRequest, RequestDataTooBig
from django.core.files.uploadhandler import TemporaryFileUploadHandler
from django.core.handlers.asgi import ASGIRequest
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpRequest, HttpResponse
from django.utils.http import parse_header_parameters

_ALIASES = {"utf-8", "utf8", "us-ascii"}


class _Utf8(HttpRequest):
    """Django would decode body and query with whatever codec a request names, and fail while it makes the request."""

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        self.content_type, self.content_params = parse_header_parameters(meta.get("CONTENT_TYPE", ""))


class Utf8WSGIRequest(_Utf8, WSGIRequest):
    """A request that is read as UTF-8; what names another charset is refused with a page."""


class Utf8ASGIRequest(_Utf8, ASGIRequest):
    """The same for ASGI."""


def utf8_only(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Refuse requests that name another charset than the one they are read in, and addresses that hold NUL.

    No address of a page does, and PostgreSQL fails on it wherever it looks for a name.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        charset = (request.content_params or {}).get("charset", "utf-8")
        if charset.strip().lower() not in _ALIASES:
            raise BadRequest(f"It says that its text is {charset[:40]!r}, and only UTF-8 is read.")
        if "\x00" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
            raise BadRequest("Its address holds a NUL character, which no name here has.")
        return get_response(request)

    return middleware


class BoundedUploadHandler(TemporaryFileUploadHandler):
    """Streams uploads to disk and refuses a body over ASSAY_MAX_UPLOAD_BYTES before reading it.

    The declared length is enough: Django reads no further than Content-Length, and takes its absence as zero.
    """

    def handle_raw_input(self, input_data: Any, META: Any, content_length: int, *args: Any, **kwargs: Any) -> None:  # noqa: N803
        """Check the length of the body before the first byte of it is parsed."""
        if content_length > settings.ASSAY_MAX_UPLOAD_BYTES:
            limit = settings.ASSAY_MAX_UPLOAD_BYTES // 1_000_000
            raise RequestDataTooBig(f"The upload is larger than the limit of {limit} MB (ASSAY_MAX_UPLOAD_BYTES).")
        super().handle_raw_input(input_data, META, content_length, *args, **kwargs)
