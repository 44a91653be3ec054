"""Notebooks: source of each cell, and apart from it what its last run printed."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from .page import Page, Unreadable

Json = Any
_SHOWN: Final = 40


def read(data: bytes, page: Page) -> None:
    """Write the cells in order. Outputs are what was stored: nothing is run."""
    try:
        root = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise Unreadable("it is no JSON") from error
    cells = root.get("cells") if isinstance(root, Mapping) else None
    if not isinstance(cells, list):
        raise Unreadable("it has no list of cells (formats before version 4 are not read)")
    numbered = [(number, cell) for number, cell in enumerate(cells, 1) if isinstance(cell, Mapping)]
    code = [(number, cell.get("execution_count")) for number, cell in numbered if cell.get("cell_type") == "code"]
    _say(page, "code, not run", [number for number, count in code if not isinstance(count, int)])
    order = [count for _, count in code if isinstance(count, int)]
    if order != sorted(order):
        page.note("cells were run in another order than they stand in")
    _say(page, "text, not code", [number for number, cell in numbered if cell.get("cell_type") != "code"])
    for number, cell in numbered:
        _cell(number, cell, page)


def _say(page: Page, words: str, numbers: list[int]) -> None:
    if numbers:
        shown = ", ".join(map(str, numbers[:_SHOWN])) + (" and more" if len(numbers) > _SHOWN else "")
        page.note(f"{words}: cell{'s' if len(numbers) > 1 else ''} {shown}")


def _cell(number: int, cell: Mapping[str, Json], page: Page) -> None:
    page.lines(f"cell {number} line", _text(cell.get("source")))
    outputs = cell.get("outputs")
    for index, output in enumerate(outputs if isinstance(outputs, list) else (), 1):
        if isinstance(output, Mapping):
            page.lines(f"cell {number} output {index} line", "\n".join(_output(output)))


def _output(output: Mapping[str, Json]) -> Iterator[str]:
    """The text of an output; what is no text by its type and size."""
    if output.get("output_type") == "error":
        yield f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
        yield from (_text(line) for line in output.get("traceback") or () if isinstance(line, str))
        return
    yield _text(output.get("text"))
    data = output.get("data")
    for media, body in data.items() if isinstance(data, Mapping) else ():
        if media == "text/plain":
            yield _text(body)
        else:
            yield f"({media}, {len(_text(body) if not isinstance(body, Mapping) else json.dumps(body))} characters)"


def _text(value: Json) -> str:
    if isinstance(value, list):
        return "".join(item for item in value if isinstance(item, str))
    return value if isinstance(value, str) else ""
