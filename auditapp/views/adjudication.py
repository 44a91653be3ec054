"""What an adjudicator reads of the grades that differ: two versions, A and B, without names, in an order that is drawn.

It is part of the blind half: neither judge nor verifier can be reached from here.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

from auditapp.models.answers import Decision, Integrity
from auditapp.models.reviews import Grade, Slot, SlotRole

LABELS = "ABCDEFGH"
STATUSES = {"met": "met", "not_met": "not met", "unclear": "unclear"}


@dataclass(frozen=True, slots=True)
class Cited:
    """A citation of a version, with its place in the reader of the slot; "" where no page holds it."""

    kind: str
    target: str
    part: str
    item: int
    line_start: int
    line_end: int
    quote: str
    ok: bool
    address: str


@dataclass(frozen=True, slots=True)
class Version:
    """One reviewer's answer, without a word of who gave it."""

    label: str
    decision: str
    integrity: str
    requirements: list[tuple[str, str]]
    tags: list[str]
    evidence: list[Cited]
    confidence: str
    note: str


def versions(slot: Slot, *, base: str) -> list[Version]:
    """The grades of an adjudication's item; empty for every other slot. `base` is the address of the slot."""
    if slot.role != SlotRole.ADJUDICATE:
        return []
    grades = Grade.objects.filter(slot__item=slot.item_id, slot__role=SlotRole.GRADE, current=True).select_related(
        "slot"
    )
    shuffled = sorted(grades.filter(acceptable__isnull=False), key=lambda grade: _key(slot, grade))
    return [_version(label, grade, base) for label, grade in zip(LABELS, shuffled, strict=False)]


def _key(slot: Slot, grade: Grade) -> bytes:
    """By the seed: another order from item to item, the same at every look."""
    return hashlib.sha256(f"{slot.round.seed}|{slot.item.number}|{grade.slot.copy}".encode("ascii")).digest()


def _version(label: str, grade: Grade, base: str) -> Version:
    return Version(
        label=label,
        decision=str(Decision(grade.decision or "").label),
        integrity=str(Integrity(grade.integrity or "").label),
        requirements=[(code, STATUSES.get(said, said)) for code, said in grade.requirements.items()],
        tags=sorted(grade.tags),
        evidence=[_cited(row, base) for row in grade.evidence],
        confidence=grade.confidence,
        note=grade.note,
    )


def _cited(row: Mapping[str, Any], base: str) -> Cited:
    place: dict[str, Any] = {name: row.get(name, "") for name in ("kind", "target", "part", "quote")}
    place |= {name: int(row.get(name) or 0) for name in ("item", "line_start", "line_end")}
    return Cited(**place, ok=bool(row.get("ok")), address=_address(place, base))


def _address(place: Mapping[str, Any], base: str) -> str:
    first, last = place["line_start"], max(place["line_start"], place["line_end"])
    lines = {"lines": f"{first}-{last}" if last > first else str(first)} if first > 0 else {}
    target = place["target"]
    if place["kind"] == "step":
        if place["part"] in ("", "none"):
            return f"{base}?{urlencode({'step': target})}#s{quote(target, safe=':')}"
        inner = {"step": target, "part": place["part"], "item": str(max(1, place["item"]))}
        return f"{base}?{urlencode(inner | lines)}#cite"
    if place["kind"] == "file":
        root, _, path = target.partition("/")
        root, path = (root, path) if root in ("deliverable", "initial") else ("deliverable", target)
        return f"{base}deliverable/?{urlencode({'root': root, 'path': path} | lines)}#cite"
    return f"{base}task/?{urlencode(lines)}#cite" if place["kind"] == "instruction" else ""
