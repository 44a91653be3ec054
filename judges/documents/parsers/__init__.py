"""What reads hostile documents. Runs in a confined process of its own and imports nothing of the rest of the judge.

Standard output is lines of JSON: ["line", address, text, [[cell, value, formula], ...], text line], ["note", text],
["part"] where something was left out, and at last ["end"]. What is missing after a kill is missing, never made up.
"""

import os
import resource
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Final

from .page import Full, Page, Unreadable

READERS: Final = {
    "xlsx": "spreadsheet",
    "csv": "delimited",
    "tsv": "delimited",
    "pdf": "pdf",
    "docx": "word",
    "pptx": "slides",
    "notebook": "notebook",
    "image": "image",
}


def main(folder: str, kind: str, *limits: str) -> None:
    """Read `folder`/data as `kind` and print what is in it; `limits`: seconds of processor time, bytes of memory."""
    _confine(*map(int, limits))
    with os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogatepass") as out:
        _silence()
        sys.modules["numpy"] = None  # type: ignore[assignment]  # openpyxl would load it, slowly, and needs nothing of it
        page = Page(out)
        with open(os.path.join(folder, "data"), "rb") as stream:
            data = stream.read()
        _read(import_module(f".{READERS[kind]}", __package__).read, data, page)
        page.end()


def _read(reader: Callable[[bytes, Page], None], data: bytes, page: Page) -> None:
    try:
        reader(data, page)
    except Full:
        return
    except Unreadable as reason:
        page.fail(str(reason))
    except MemoryError:
        page.fail("it needs more memory than a document is given")
    except Exception as error:
        page.fail(f"it is damaged, or no document of this kind ({type(error).__name__})")


def _confine(seconds: int, memory: int) -> None:
    """Holds where there is no sandbox around this process, too; a lower limit that is set already stays."""
    limits = ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory), (resource.RLIMIT_FSIZE, 0))
    for name, wanted in limits:
        _, hard = resource.getrlimit(name)
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(name, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.setrecursionlimit(2_000)


def _silence() -> None:
    """Libraries print warnings; the only thing to be read here is what a page writes."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
