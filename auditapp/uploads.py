"""Where uploaded files go, and how large a request may be."""

from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadhandler import TemporaryFileUploadHandler


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
