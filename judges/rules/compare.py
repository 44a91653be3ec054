"""Compares a folder with a reference after normalising. Runs by itself in the sandbox: standard library only.

Usage: compare.py REFERENCE FOLDER. One line a reference file: `SAME digest bytes path` where the bytes are equal,
`SAME digest spelling path` where only the spelling differs, `DIFFERENT path` or `MISSING path`.
"""

import csv
import hashlib
import io
import json
import math
import pathlib
import re
import sys
from typing import Any

NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.])")


def number(text: str) -> str:
    """One spelling for each number: 3, 3.0 and 3e0 are the same; digits of identifiers are left alone."""
    value = float(text)
    return f"{value:.12g}" if math.isfinite(value) else text


def normal_json(value: Any) -> Any:
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return ["number", number(repr(value))]  # a number is never equal to its digits in quotes
    if isinstance(value, list):
        return [normal_json(item) for item in value]
    return {key: normal_json(item) for key, item in value.items()}


def normal_csv(text: str) -> list[list[str]]:
    rows = csv.reader(io.StringIO(text), csv.Sniffer().sniff(text[:4096], ",;\t|"))
    return [[NUMBER.sub(lambda found: number(found[0]), cell.strip()) for cell in row] for row in rows if any(row)]


def normal_text(text: str) -> list[str]:
    lines = [" ".join(line.split()) for line in text.split("\n")]
    return [NUMBER.sub(lambda found: number(found[0]), line) for line in lines if line]


def normal_code(text: str) -> list[str]:
    """Indentation and numbers mean something in sources: only line ends and blanks at the end are forgiven."""
    return [line.rstrip() for line in text.strip("\n").split("\n")]


def normal(path: str, data: bytes) -> Any:
    """A value that is equal for equal content."""
    try:
        text = data.decode("utf-8").lstrip("\ufeff").replace("\r\n", "\n")
    except UnicodeDecodeError:
        return data.hex()
    suffix = pathlib.PurePosixPath(path).suffix.lower()
    try:
        if suffix == ".json":
            return normal_json(json.loads(text))
        if suffix in (".csv", ".tsv"):
            return normal_csv(text)
    except (ValueError, RecursionError, csv.Error):
        pass
    return normal_text(text) if suffix in (".md", ".txt", "") else normal_code(text)


def main(reference: str, folder: str) -> None:
    for path in sorted(item for item in pathlib.Path(reference).rglob("*") if item.is_file()):
        name = path.relative_to(reference).as_posix()
        if name.startswith("checks/"):
            continue
        other = pathlib.Path(folder, name)
        if not other.is_file():
            print("MISSING", name)
            continue
        print(compared(name, path.read_bytes(), other.read_bytes()))


def compared(name: str, expected: bytes, found: bytes) -> str:
    """The line for a file that is there."""
    value = normal(name, expected)
    if value != normal(name, found):
        return f"DIFFERENT {name}"
    digest = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
    return f"SAME {digest} {'bytes' if expected == found else 'spelling'} {name}"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
