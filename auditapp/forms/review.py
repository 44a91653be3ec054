"""What a reviewer's page sends: the answers so far, read leniently, as a draft holds whatever there is.

What an answer must have is checked by `grading`, once it is submitted.
"""

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import QueryDict
from pydantic import ValidationError

from auditapp.grading import LONGEST_QUOTE, MOST_EVIDENCE, Answers
from auditapp.models.reviews import Grade
from judges.verdict import Citation

REQUIREMENT = "requirement-"
_TEXTS = ("decision", "integrity", "confidence", "note", "answer", "text")
_UNSTORABLE = re.compile(r"[\x00\ud800-\udfff]")
"""NUL and halves of surrogate pairs, which JSON can spell and PostgreSQL cannot keep."""
_LARGEST = 2**31 - 1
"""Lines and items are counted from 1; numbers beyond are of no text, and exports cannot write those beyond 64 bits."""
_PLACE = tuple(name for name in Citation.model_fields if name != "id")


class UnreadableEvidence(ValueError):
    """The list of citations is not one that the page makes; nothing of it was kept."""


def read_answers(data: QueryDict) -> Answers:
    """The answers in a posted form; raises UnreadableEvidence."""
    texts = {name: text_of(data, name) for name in _TEXTS}
    requirements = {
        storable(key.removeprefix(REQUIREMENT)): text_of(data, key)
        for key, value in data.items()
        if key.startswith(REQUIREMENT) and value
    }
    return Answers(
        **texts,
        requirements=requirements,
        evidence=read_evidence(data.get("evidence", "")),
        tags=sorted({storable(tag) for tag in data.getlist("tags")}),
        seconds=_number(data.get("seconds", "")),
    )


def text_of(data: QueryDict, name: str) -> str:
    """What was typed into a field, with line ends as they are stored."""
    return storable(data.get(name, "").replace("\r\n", "\n"))


def storable(text: str) -> str:
    """The text with NUL made visible, which PostgreSQL keeps neither in text nor in JSON."""
    return text.replace("\x00", "\ufffd")


def read_evidence(text: str) -> list[dict[str, Any]]:
    """Locators with quotes, as the judge's citations are; raises UnreadableEvidence."""
    try:
        rows = json.loads(text or "[]")
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list) or len(rows) > 2 * MOST_EVIDENCE:
        raise UnreadableEvidence("The list of citations could not be read. Load the page anew and cite again.")
    return [_locator(row) for row in rows]


def _locator(row: Any) -> dict[str, Any]:
    try:
        place = {name: row[name] for name in _PLACE}
        citation = Citation.model_validate({"id": "E1", **place})
    except (ValidationError, KeyError, TypeError) as error:
        raise UnreadableEvidence("A citation could not be read. Take it out and cite the line again.") from error
    if not all(0 <= number <= _LARGEST for number in (citation.item, citation.line_start, citation.line_end)):
        raise UnreadableEvidence("A citation names a line that no text has. Take it out and cite the line again.")
    if len(citation.target) > 1200 or len(citation.quote) > LONGEST_QUOTE:
        raise UnreadableEvidence("A citation is too long. Take it out and cite the lines that matter.")
    if _UNSTORABLE.search(citation.target + citation.quote):
        raise UnreadableEvidence("A citation holds characters that no text has. Take it out and cite the line again.")
    return citation.model_dump(exclude={"id"})


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 9 else None


def read_token(data: QueryDict) -> uuid.UUID | None:
    """What names one press of "submit"; None where it is none."""
    try:
        return uuid.UUID(data.get("token", ""))
    except ValueError:
        return None


def content_of(answers: Answers) -> dict[str, Any]:
    """The answers as a draft holds them."""
    content = {name: getattr(answers, name) for name in Answers.__dataclass_fields__}
    return content | {
        "requirements": dict(answers.requirements),
        "evidence": [dict(item) for item in answers.evidence],
        "tags": list(answers.tags),
    }


def from_content(content: Mapping[str, Any]) -> Answers:
    """The answers of a draft."""
    return Answers(**{name: content[name] for name in Answers.__dataclass_fields__ if name in content})


def from_grade(grade: Grade) -> Answers:
    """The answers of a stored grade, to be edited."""
    stored = {name: getattr(grade, name) or "" for name in _TEXTS}
    evidence: Sequence[dict[str, Any]] = [{name: item[name] for name in _PLACE} for item in grade.evidence]
    return Answers(**stored, requirements=grade.requirements, evidence=evidence, tags=grade.tags, seconds=grade.seconds)
