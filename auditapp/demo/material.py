"""Reading the files of a task from one text file in txtar form: `-- path --` on a line of its own opens each file.

One file per task keeps deliberately broken sources, logs and tests away from linters and test collectors. `rubric.txt`
has one requirement a line: its id and its text.
"""

import hashlib
import json
import re
from pathlib import Path

from auditapp.demo.model import Files, Material

FOLDER = Path(__file__).parent / "tasks" / "material"
OPENING = re.compile(r"^-- (\S.*?) --\n", re.MULTILINE)


def parse_txtar(text: str) -> dict[str, bytes]:
    """Files of a txtar text by path; what stands before the first opening line is a comment."""
    parts = OPENING.split(text)[1:]
    return {path: body.encode() for path, body in zip(parts[::2], parts[1::2], strict=True)}


def under(files: Files, folder: str) -> dict[str, bytes]:
    """The files below a folder, with the folder taken off their paths."""
    return {
        path.removeprefix(folder + "/"): body for path, body in sorted(files.items()) if path.startswith(folder + "/")
    }


def rubric(text: str) -> list[dict[str, str | bool]]:
    """The requirements of a task, drafted from its instruction alone; none of them binds a format it does not state."""
    rules = [line.split(" ", 1) for line in text.splitlines()]
    return [{"id": name, "requirement": requirement, "format_binding": False} for name, requirement in rules]


def with_checklib(reference: Files, *, rules: list[dict[str, str | bool]], initial: Files) -> Files:
    """The reference, with what its checks need beside them where it has any."""
    if "checks/check.py" not in reference:
        return reference
    texts = {str(rule["id"]): rule["requirement"] for rule in rules}
    originals = {path: hashlib.sha256(body).hexdigest() for path, body in initial.items()}
    return {
        **reference,
        "checks/checklib.py": (FOLDER / "checklib.py.txt").read_bytes(),
        "checks/requirements.json": pretty(texts),
        "checks/originals.json": pretty(originals),
    }


def pretty(value: object) -> bytes:
    """JSON as a person would want to read it."""
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def load(name: str) -> Material:
    """Material of one task."""
    files = parse_txtar((FOLDER / f"{name}.txtar").read_text(encoding="utf-8"))
    rules = rubric(files["rubric.txt"].decode())
    initial = under(files, "initial")
    return Material(
        instruction=files["instruction.md"].decode(),
        rubric=pretty(rules),
        initial=initial,
        reference=with_checklib(under(files, "reference"), rules=rules, initial=initial),
        verifier=under(files, "verifier"),
        history=under(files, "history"),
        play={path: body.decode() for path, body in under(files, "play").items()},
    )
