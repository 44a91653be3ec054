"""Reads what the loop shows: frames, numbered lines, file listings, signals. The counterpart of tools and dossier.

A frame's lines carry a gutter, so nothing in the material can end or open a frame; text outside of frames is ours.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

Json = Any
_OPEN = re.compile(r"┌([0-9a-f]{6}) UNTRUSTED (.*)")
_NUMBERED = re.compile(r"\s*(\d+)│(.*)")
_LISTED = re.compile(r"\s*(\d+) (file\+x|[a-z_]+) +(new|changed|same)? *(.*)")
_REQUIREMENT = re.compile(r"([\w.-]+): (.+)")
_CUT = re.compile(r"⟦\d+ more characters in this line⟧$")


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame: its title and its lines without the gutter."""

    title: str
    lines: tuple[str, ...]

    def numbered(self) -> dict[int, str]:
        """Displayed lines by their numbers; lines that were cut are left out, as they cannot be quoted whole."""
        found = (_NUMBERED.fullmatch(line) for line in self.lines)
        return {int(item[1]): item[2] for item in found if item and not _CUT.search(item[2])}


def frames(text: str) -> list[Frame]:
    """All frames of a text in order."""
    found: list[Frame] = []
    mark, title, lines = "", "", list[str]()
    for line in text.split("\n"):
        opened = _OPEN.fullmatch(line)
        if not mark and opened:
            mark, title, lines = opened[1], opened[2], []
        elif mark and line.startswith(f"{mark}│"):
            lines.append(line[len(mark) + 1 :])
        elif mark and line == f"└{mark} END":
            found.append(Frame(title, tuple(lines)))
            mark = ""
    return found


@dataclass(frozen=True, slots=True)
class Listed:
    """A file of a listing; `change` is new, changed or same against the start, empty where that is not known."""

    path: str
    size: int
    kind: str
    change: str


def listing(lines: Sequence[str]) -> list[Listed]:
    """The files of a listing; ones with a note behind the name are no readable files."""
    found = (_LISTED.fullmatch(line) for line in lines)
    return [Listed(item[4], int(item[1]), item[2], item[3] or "") for item in found if item]


@dataclass(frozen=True, slots=True)
class Opening:
    """What the first message says. A listing is None where the folder was not recorded or is not shown.

    `complete` is false where files of the deliverable or signals were left out for length: then nothing is absent.
    """

    instruction: Mapping[int, str]
    requirements: Mapping[str, str]
    reference: Sequence[Listed] | None
    initial: Sequence[Listed] | None
    deliverable: Sequence[Listed] | None
    signals: Sequence[Mapping[str, Json]]
    steps_recorded: bool
    complete: bool


def read_opening(text: str) -> Opening:
    """Parse the task and the trial block."""
    by_title = {frame.title.split(":")[0]: frame for frame in reversed(frames(text))}
    instruction = by_title.get("instruction")
    signals = by_title.get("signals")
    rows = [_json(line) for line in signals.lines] if signals and signals.lines != ("none",) else []
    return Opening(
        instruction=instruction.numbered() if instruction else {},
        requirements=dict(_requirements(text)),
        reference=_files(by_title.get("reference")),
        initial=_files(by_title.get("initial")),
        deliverable=_files(by_title.get("deliverable")),
        signals=[row for row in rows if row is not None],
        steps_recorded="overview" in by_title,
        complete=None not in rows and _is_whole(by_title.get("deliverable")),
    )


def _files(frame: Frame | None) -> list[Listed] | None:
    return listing(frame.lines) if frame else None


def _is_whole(frame: Frame | None) -> bool:
    """Whether a listing shows as many files as its title counts."""
    counted = re.search(r": (\d+) files", frame.title) if frame else None
    return frame is None or (counted is not None and len(listing(frame.lines)) == int(counted[1]))


def _requirements(text: str) -> Iterator[tuple[str, str]]:
    """The list between its heading and the next one, outside of frames."""
    inside = False
    for line in text.split("\n"):
        if line.startswith("REQUIREMENTS ("):
            inside = True
        elif line.startswith("REFERENCE ("):
            return
        elif inside and (found := _REQUIREMENT.fullmatch(line)):
            yield found[1], found[2]


def _json(line: str) -> Mapping[str, Json] | None:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None  # the middle of a long list was left out
    return row if isinstance(row, dict) else None
