"""Pictures: type, size and the descriptions stored in them. Pixels are never decoded, nothing is recognised."""

import io
import warnings
from typing import Final

from PIL import ExifTags, Image, UnidentifiedImageError

from .page import Page, Unreadable

_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF")
_DESCRIBED: Final = ("ImageDescription", "XPTitle", "XPComment", "Artist", "Copyright", "Software", "DateTime")
_MOST_TEXTS: Final = 40


def read(data: bytes, page: Page) -> None:
    """Write what the head of the file says."""
    Image.MAX_IMAGE_PIXELS = None  # no pixel is ever decoded
    warnings.simplefilter("ignore")
    try:
        picture = Image.open(io.BytesIO(data), formats=_FORMATS)
    except UnidentifiedImageError as error:
        raise Unreadable("it is no picture of a known type, or damaged") from error
    page.line("type", str(picture.format))
    page.line("size", f"{picture.width} × {picture.height} pixels")
    if (frames := getattr(picture, "n_frames", 1)) > 1:
        page.line("frames", str(frames))
    for name, text in _texts(picture)[:_MOST_TEXTS]:
        page.line(f"text {name}", " ".join(text.split()))
    page.note("what a picture shows is not read")
    page.partial()


def _texts(picture: Image.Image) -> list[tuple[str, str]]:
    """Descriptions in the head: PNG texts and comments, then EXIF."""
    found = [(str(name), value) for name, value in picture.info.items() if name not in ("exif", "icc_profile", "xmp")]
    exif = {ExifTags.TAGS.get(tag, ""): value for tag, value in picture.getexif().items()}
    found += [(name, exif[name]) for name in _DESCRIBED if name in exif]
    decoded = ((name, value.decode("utf-8", "replace") if isinstance(value, bytes) else value) for name, value in found)
    return [(name[:60], value.replace("\0", "")) for name, value in decoded if isinstance(value, str) and value.strip()]
