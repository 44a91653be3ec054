"""The prompts, one file each. Rendering is strict: an unknown or a missing placeholder is an error, never left in."""

import re
from functools import cache
from pathlib import Path

from judges.errors import JudgeError
from judges.records import content_digest

DRAFTING = frozenset({"rubric", "rubric_task", "rubric_again"})
_FOLDER = Path(__file__).parent
_PLACEHOLDER = re.compile(r"\{\{([^{}]*)\}\}")


class PromptError(JudgeError):
    """A prompt whose placeholders and values do not match."""


@cache
def load(name: str) -> str:
    """The raw text of a prompt; raises PromptError where there is none of that name."""
    path = _FOLDER / f"{name}.txt"
    if not path.is_file():
        raise PromptError(f"no prompt {name!r}")
    return path.read_text(encoding="utf-8").rstrip("\n")


def render(name: str, **values: str | int) -> str:
    """The prompt with each `{{placeholder}}` replaced once; values are never scanned for placeholders."""
    text = load(name)
    wanted = set(_PLACEHOLDER.findall(text))
    if wanted != set(values):
        raise PromptError(
            f"prompt {name!r}: without a value {sorted(wanted - set(values))}, unknown {sorted(set(values) - wanted)}"
        )
    return _PLACEHOLDER.sub(lambda match: str(values[match.group(1)]), text)


@cache
def digest() -> str:
    """Hexadecimal SHA-256 over the prompts of a judge."""
    return content_digest({name: load(name) for name in _names() - DRAFTING})


@cache
def drafting_digest() -> str:
    """Hexadecimal SHA-256 over the prompts that draft a rubric: a change of them is no other judge."""
    return content_digest({name: load(name) for name in DRAFTING})


def _names() -> set[str]:
    return {path.stem for path in _FOLDER.glob("*.txt")}
