"""After the reveal: what the verifier said, against what the checks showed. E codes only with both sides cited."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from judges.messages import ToolResult
from judges.rules.compare import normal_text
from judges.rules.evidence import Findings, Notebook, only_frame, telling

Json = Any
_STATUS = re.compile(r"The verifier reported ([A-Z]+)")
# Two spellings of an expected and a found value on one line of a verifier's output.
_PAIRS = (
    re.compile(r"assert (?P<a>'[^']*'|\"[^\"]*\"|[\d.]+) == (?P<b>'[^']*'|\"[^\"]*\"|[\d.]+)"),
    re.compile(r"(?P<a>'[^']*'|\"[^\"]*\"|[\d.]+) != (?P<b>'[^']*'|\"[^\"]*\"|[\d.]+)"),
    re.compile(r"expected:? (?P<a>.{1,80}?),? (?:but )?(?:got|found|was):? (?P<b>.{1,80}?)$", re.I),
    re.compile(r"got:? (?P<a>.{1,80}?),? (?:but )?expected:? (?P<b>.{1,80}?)$", re.I),
)
_DIFFERS = re.compile(r"\b(?:differs?|different|not equal|mismatch|does not match|!=)", re.I)
_BOUND_NAME = re.compile(
    r"(?:KeyError: |missing (?:column|field|key|heading|section):? "
    r"|no (?:column|field|key|heading|section)(?: named)? )[\"']([^\"']{2,60})[\"']",
    re.I,
)


def attribution(
    found: Findings, verdict: Json, notes: Notebook, revealed: str, streams: Mapping[str, ToolResult]
) -> Json:
    """The arguments of submit_attribution."""
    status = _STATUS.search(revealed)
    verifier = status[1].lower() if status else ""
    new = Notebook(taken=len(notes.cited))
    lines = {name: frame.numbered() for name, result in streams.items() if (frame := only_frame(result))}
    tags = list(_tags(found, verdict, verifier, lines, new))
    return {
        "citations": new.citations(),
        "tags": tags,
        "case_for_verifier": _case(verifier, lines, new),
        "case_against_verifier": " ".join(tag["note"] for tag in tags) or "Nothing that a rule can prove.",
        "verifier_assessment": _assessment(verdict, verifier, tags),
        "decisive_step": "",
        "decision_after": verdict["decision"],
        "why_changed": "",
    }


def _case(verifier: str, lines: Mapping[str, Mapping[int, str]], new: Notebook) -> str:
    """What the verifier reported, with the line of its own output that was looked at, if there is one."""
    said = f"It reported {'no verdict' if verifier == 'none' else verifier}" if verifier else "Its report was not read"
    cited = next((item["id"] for item in new.citations() if item["kind"] == "verifier"), "")
    if cited:
        return f"{said}; the line of its output that was compared is cited [{cited}]."
    return f"{said}; {'a rule found nothing to compare in its output' if lines else 'its output was not recorded'}."


def _assessment(verdict: Json, verifier: str, tags: Sequence[Json]) -> str:
    codes = {tag["code"] for tag in tags}
    if codes & {"E01", "E11"}:
        return "too_narrow"
    if "E02" in codes:
        return "too_lenient"
    agree = {("satisfied", "pass"), ("not_satisfied", "fail")}
    if (verdict["decision"], verifier) in agree and verdict["integrity"] != "hacked":
        return "correct"
    return "cannot_tell"


def _tags(
    found: Findings, verdict: Json, verifier: str, lines: Mapping[str, Mapping[int, str]], new: Notebook
) -> Iterator[Json]:
    if verdict["decision"] == "satisfied" and verifier == "fail":
        yield from _too_narrow(found, verdict, lines, new)
    if verdict["decision"] == "not_satisfied" and verdict["integrity"] != "hacked" and verifier == "pass":
        yield from _too_lenient(found, verdict, lines, new)


def _sides(found: Findings, new: Notebook, words: Sequence[str]) -> list[str]:
    line = telling(found.opening.instruction, words)
    return [new.cite("instruction", "", *line)] if line else []


def _too_narrow(
    found: Findings, verdict: Json, lines: Mapping[str, Mapping[int, str]], new: Notebook
) -> Iterator[Json]:
    """E01: equal content in another spelling was refused. E11: a name is wanted that the instruction does not state."""
    if spelled := _refused_spelling(found, lines, new):
        yield spelled
        return
    instruction = "\n".join(found.opening.instruction.values())
    command = [item for criterion in verdict["criteria"] for item in criterion["evidence"][:1]][:1]
    for stream, numbered in lines.items():
        for number, text in numbered.items():
            if any(_same_value(pair) for pattern in _PAIRS if (pair := pattern.search(text))):
                sides = [*_sides(found, new, text.split()), new.cite("verifier", stream, number, text), *command]
                yield {
                    "code": "E01",
                    "role": "primary",
                    "evidence": sides,
                    "note": "It refused a value for its spelling.",
                }
                return
            name = _BOUND_NAME.search(text)
            if name and name[1].lower() not in instruction.lower():
                sides = [*_sides(found, new, text.split()), new.cite("verifier", stream, number, text), *command]
                note = f"It wants the name {name[1][:40]}, which the instruction does not state."
                yield {"code": "E11", "role": "primary", "evidence": sides, "note": note}
                return


def _refused_spelling(found: Findings, lines: Mapping[str, Mapping[int, str]], new: Notebook) -> Json | None:
    """E01: a file that equals the reference but for its spelling, and a line of the verifier that says it differs."""
    for path, same in found.same_as_reference().items():
        if " spelling " not in same.text:
            continue
        for stream, numbered in lines.items():
            for number, text in numbered.items():
                if _DIFFERS.search(text) and path.rsplit("/", 1)[-1] in text:
                    sides = [*_sides(found, new, [path, *text.split()]), new.cite("verifier", stream, number, text)]
                    evidence = [*sides, new.cite("command", same.target, same.number, same.text)]
                    note = f"It refused {path[:60]}, which has the content of the reference in another spelling."
                    return {"code": "E01", "role": "primary", "evidence": evidence, "note": note}
    return None


def _same_value(pair: re.Match[str]) -> bool:
    one, other = (pair[side].strip("'\" ") for side in ("a", "b"))
    return one != other and bool(one) and normal_text(one) == normal_text(other)


def _too_lenient(
    found: Findings, verdict: Json, lines: Mapping[str, Mapping[int, str]], new: Notebook
) -> Iterator[Json]:
    """E02: a requirement that a check showed to fail was passed by the verifier."""
    failed = [item for item in verdict["criteria"] if item["status"] == "not_met" and item["evidence"]]
    if not failed:
        return
    sides = [*_sides(found, new, failed[0]["requirement"].split()), failed[0]["evidence"][0]]
    for stream, numbered in lines.items():
        last = max((n for n, text in numbered.items() if len(text.strip()) >= 8), default=0)
        if last:
            sides.append(new.cite("verifier", stream, last, numbered[last]))
            break
    yield {
        "code": "E02",
        "role": "primary",
        "evidence": sides,
        "note": f"It passed the work although a check shows that requirement {failed[0]['id']} fails.",
    }
