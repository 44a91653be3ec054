"""Types of arguments that several commands take; what they refuse ends a command with one line and exit 2."""

import math
from argparse import ArgumentTypeError
from pathlib import Path


def given_path(text: str) -> Path:
    """A path; an empty one, as a variable that is not set gives, would be the folder one is in."""
    if not text:
        raise ArgumentTypeError("is empty: name a file or a folder")
    path = Path(text)
    try:
        path.exists()
    except (OSError, ValueError) as error:  # a name too long or with a NUL, a folder that may not be looked into
        raise ArgumentTypeError(f"{text[:200]!r} cannot be looked at: {error.args[-1]}") from None
    return path


def out_path(text: str) -> Path:
    """Where to write a file that replaces an earlier one, never a device or a pipe."""
    path = given_path(text)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise ArgumentTypeError(f"{text} is no regular file, and writing would replace it: name a new file")
    return path


def positive(text: str) -> int:
    """A whole number from 1."""
    number = int(text)
    if number < 1:
        raise ArgumentTypeError(f"{text} is too few: give 1 or more")
    return number


def port(text: str) -> int:
    """A port to listen at."""
    number = int(text)
    if not 1 <= number <= 65_535:
        raise ArgumentTypeError(f"{text} is no port: give a number from 1 to 65535")
    return number


def finite(text: str) -> float:
    """A number."""
    number = float(text)
    if not math.isfinite(number):
        raise ArgumentTypeError(f"{text} is no number to compare with")
    return number
