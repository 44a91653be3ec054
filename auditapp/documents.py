"""The rendering of documents that judge and reader share, kept in the blob storage so that each is read once."""

from auditapp import blobs
from judges.documents import Documents


def documents() -> Documents:
    """A renderer with the memory of this installation."""
    return Documents(blobs.Derived())
