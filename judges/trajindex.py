"""A trajectory of any length within a bounded number of characters: index, overview, reading and searching.

The index is one StepRow a step, made in one pass; flags are hints found by pattern, never findings.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, Literal, NamedTuple

from judges.display import clip_line, display_text, number_lines, reveal, safe_name, split_lines
from judges.hints import find_hints, stated_exit_code
from judges.patterns import SearchResult, compile_pattern, search_texts
from judges.records import PARTS, Json, Part, StepReader, StepRecord, StepRow

INDEX_SCHEMA: Final = "assay.rows/1"
MAX_STEPS: Final = 20
HEAD: Final = 90
_LINE_NUMBER: Final = 7
_TITLE: Final = 60
_MIN_SHARE: Final = 400

PartChoice = Literal["all", "message", "reasoning", "action", "observation"]


class LocatorError(ValueError):
    """A step, range, part or offset that does not exist; the message says what does."""


class StepPlace(NamedTuple):
    """Item `item` (1-based) of one part of one step."""

    locator: str
    part: Part
    item: int

    def __str__(self) -> str:
        return f"step {self.locator} {self.part}" + (f" {self.item}" if self.item > 1 else "")


# --- index

_RARE: Final = ("edit_tests", "vcs_history", "grader_probe", "env_tamper", "judge_address", "claims_done")
_COMMON: Final = ("test_run", "error")


def index_steps(steps: Iterable[StepRecord]) -> list[StepRow]:
    """One row a step, in the order given; only the rows and the digests of actions are kept in memory."""
    seen: Counter[str] = Counter()
    return [_row(step, seen) for step in steps]


def _row(step: StepRecord, seen: Counter[str]) -> StepRow:
    actions = step.texts("action")
    digest = _digest(actions) if actions else ""
    flags = find_hints(step)
    if digest:
        seen[digest] += 1
        if seen[digest] >= 3:
            flags.append(f"repeat{seen[digest]}")
    return StepRow(
        locator=step.locator,
        source=step.source,
        tool=_tool(step),
        head=_head(step),
        exit_code=_exit_code(step),
        sizes={part: tuple(len(text) for text in step.texts(part)) for part in PARTS},
        timestamp=step.timestamp,
        flags=tuple(flags),
        action_digest=digest,
    )


def _digest(actions: Sequence[str]) -> str:
    return hashlib.blake2b("\0".join(actions).encode("utf-8", "replace"), digest_size=6).hexdigest()


def _tool(step: StepRecord) -> str:
    if not step.actions:
        return ""
    more = f"+{len(step.actions) - 1}" if len(step.actions) > 1 else ""
    return _one_line(step.actions[0].name, 40) + more


def _head(step: StepRecord) -> str:
    """The start of the first action's arguments, else of the message, else of the first observation."""
    if step.actions:
        arguments = step.actions[0].text[len(step.actions[0].name) :].lstrip("\n")
        return _one_line(re.sub(r"\A\w{1,20}:\s", "", arguments[: 4 * HEAD]), HEAD)
    texts = step.texts("message") or step.texts("observation") or step.texts("reasoning")
    return _one_line(texts[0], HEAD) if texts else ""


def _one_line(text: str, limit: int) -> str:
    return " ".join(reveal(text[: 4 * limit]).text.split())[:limit]


def _exit_code(step: StepRecord) -> int | None:
    """The first code that is not 0, else 0 where any observation has or states one, else None."""
    codes = [
        item.exit_code if item.exit_code is not None else stated_exit_code(item.text) for item in step.observations
    ]
    known = [code for code in codes if code is not None]
    return next(filter(None, known), 0) if known else None


def rows_to_json(rows: Iterable[StepRow]) -> Json:
    """A compact JSON value for storage."""
    return {"schema": INDEX_SCHEMA, "rows": [_pack(row) for row in rows]}


def _pack(row: StepRow) -> Json:
    sizes = [list(row.sizes.get(part, ())) for part in PARTS]
    packed = [row.locator, row.source, row.tool, row.head, row.exit_code, sizes, row.timestamp, list(row.flags)]
    return [*packed, row.action_digest]


def rows_from_json(data: Json, start: int = 0, stop: int | None = None) -> list[StepRow]:
    """Inverse of `rows_to_json`, from row `start` up to, not including, `stop`; ValueError on another schema."""
    return [_unpack(row) for row in _packed(data)[start:stop]]


def locators_from_json(data: Json) -> list[str]:
    """The locators of all rows, without unpacking the rest of them."""
    return [row[0] for row in _packed(data)]


def _packed(data: Json) -> list[Json]:
    if data.get("schema") != INDEX_SCHEMA:
        raise ValueError(f"step index of schema {data.get('schema')!r}, expected {INDEX_SCHEMA}: make the index again")
    rows: list[Json] = data["rows"]
    return rows


def _unpack(values: Json) -> StepRow:
    locator, source, tool, head, exit_code, sizes, timestamp, flags, digest = values
    parts: Mapping[Part, tuple[int, ...]] = dict(zip(PARTS, map(tuple, sizes), strict=True))
    return StepRow(locator, source, tool, head, exit_code, parts, timestamp, tuple(flags), digest)


class MemorySteps:
    """A StepReader over steps held in memory."""

    def __init__(self, steps: Iterable[StepRecord], rows: Sequence[StepRow] | None = None) -> None:
        self._steps = tuple(steps)
        self._rows = rows

    def __len__(self) -> int:
        return len(self._steps)

    def outline(self) -> Sequence[StepRow]:
        """The index, made on first use unless it was given."""
        if self._rows is None:
            self._rows = index_steps(self._steps)
        return self._rows

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        return {step.locator: position for position, step in reversed(list(enumerate(self._steps)))}

    def position(self, locator: str) -> int | None:
        """0-based position of a locator, None where there is no such step."""
        return self._positions.get(locator)

    def read(self, position: int) -> StepRecord:
        """The step at a 0-based position."""
        return self._steps[position]

    def iterate(self, start: int = 0, stop: int | None = None) -> Iterator[StepRecord]:
        """Steps from `start` up to, not including, `stop`."""
        return iter(self._steps[start:stop])


# --- overview


def overview(rows: Sequence[StepRow], max_chars: int = 12_000) -> str:
    """Totals, a timeline and the steps most worth reading, in at most `max_chars` characters."""
    if not rows:
        return "0 steps"
    out = [*_totals(rows), "-- timeline", *_timeline(rows), "-- selected steps"]
    used = sum(map(len, out)) + len(out)
    if used > max_chars:
        return "\n".join(out)[:max_chars]
    picked = []
    for position in _worth_reading(rows):
        line = _overview_line(rows[position])
        if used + len(line) + 1 > max_chars:
            break
        picked.append((position, line))
        used += len(line) + 1
    return "\n".join([*out, *(line for _, line in sorted(picked))])


def _totals(rows: Sequence[StepRow]) -> list[str]:
    characters = sum(sum(sizes) for row in rows for sizes in row.sizes.values())
    tools = Counter(row.tool for row in rows if row.tool)
    shown = ", ".join(f"{tool} ×{count}" for tool, count in tools.most_common(12)) or "none"
    failed = sum(1 for row in rows if row.exit_code)
    return [
        f"{len(rows)} steps ({rows[0].locator} to {rows[-1].locator}), {characters:,} characters; tools: {shown}",
        f"steps with an exit code other than 0: {failed}; without any: {sum(1 for r in rows if r.exit_code is None)}",
        f"flags (hints by pattern, NOT findings): {_counted(_flag_counts(rows)) or 'none'}",
    ]


def _flag_counts(rows: Iterable[StepRow]) -> Counter[str]:
    return Counter(flag.rstrip("0123456789") for row in rows for flag in row.flags)


def _counted(counts: Counter[str], most: int = 20) -> str:
    return " ".join(f"{name}={count}" for name, count in counts.most_common(most))


def _timeline(rows: Sequence[StepRow]) -> Iterator[str]:
    buckets = max(1, min(60, len(rows) // 20))
    for number in range(buckets):
        part = rows[number * len(rows) // buckets : (number + 1) * len(rows) // buckets]
        tools = "/".join(f"{tool}×{n}" for tool, n in Counter(row.tool or "-" for row in part).most_common(2))
        acted = [row.action_digest for row in part if row.action_digest]
        repeated = 1 - len(set(acted)) / len(acted) if acted else 0.0
        flags = _counted(_flag_counts(part), 4)
        yield f"{part[0].locator:>6}-{part[-1].locator:<6} {tools[:30]:30} repeated={repeated:.0%} {flags}".rstrip()


def _worth_reading(rows: Sequence[StepRow]) -> list[int]:
    """Positions by priority: both ends of the trajectory, then rare flags, then tests and errors."""
    wanted: dict[int, int] = dict.fromkeys([*range(min(12, len(rows))), *range(max(0, len(rows) - 25), len(rows))], 0)
    for flags, first, last, priority in ((_RARE, 4, 4, 1), (_COMMON, 3, 6, 2)):
        for flag in flags:
            having = [position for position, row in enumerate(rows) if flag in row.flags]
            for position in having[:first] + having[-last:]:
                wanted.setdefault(position, priority)
    return sorted(wanted, key=lambda position: (wanted[position], position))


def _overview_line(row: StepRow) -> str:
    size = sum(row.sizes.get("observation", ()))
    code = "" if row.exit_code is None else f"exit={row.exit_code}"
    who = row.tool or row.source
    return f"{row.locator:>6} {who[:14]:14} {code:8} out={size:<7} {','.join(row.flags)[:40]:40} {row.head}".rstrip()


# --- reading


class _Section(NamedTuple):
    """One displayed text, and how many characters of the same part come before it: what an offset is counted from."""

    place: StepPlace
    text: str
    begins: int


def read_steps(
    reader: StepReader, start: str, end: str, *, part: PartChoice = "all", offset: int = 0, max_chars: int = 8_000
) -> str:
    """Numbered displayed lines of the steps `start` to `end` (locators, at most 20), in about `max_chars` characters.

    `offset` counts displayed characters of one part of one step, for outputs too long to be shown at once.
    """
    first, last = _range(reader, start, end)
    if offset and (first != last or part == "all"):
        raise LocatorError("an offset needs one step (start equal to end) and one part")
    if offset:
        return _from_offset(list(_sections(reader.read(first), part)), offset, max_chars)
    sections, fitting = _collect(reader, first, min(last, first + MAX_STEPS - 1), part, max_chars)
    shares = _share([_length(section.text) for section in sections], max_chars - _TITLE * len(sections))
    shown = [_excerpt(section, share) for section, share in zip(sections, shares, strict=True)]
    if first + fitting <= last:
        shown.append(f"⟦steps from {reader.read(first + fitting).locator} on are not shown: ask for fewer at a time⟧")
    return "\n".join(shown) or _nothing(part)


def _collect(reader: StepReader, first: int, last: int, part: PartChoice, max_chars: int) -> tuple[list[_Section], int]:
    """The sections of as many steps as get a readable share of the budget, and how many steps that is."""
    sections: list[_Section] = []
    used = steps = 0
    for step in reader.iterate(first, last + 1):
        new = list(_sections(step, part))
        used += sum(_TITLE + min(_length(section.text), _MIN_SHARE) for section in new)
        if steps and used > max_chars:
            break
        sections, steps = sections + new, steps + 1
    return sections, steps


def _range(reader: StepReader, start: str, end: str) -> tuple[int, int]:
    first, last = reader.position(str(start)), reader.position(str(end))
    if first is None or last is None:
        missing = start if first is None else end
        raise LocatorError(f"there is no step {clip_line(str(missing), 40)!r}: {_which(reader)}")
    if last < first:
        raise LocatorError(f"step {end} comes before step {start}")
    return first, last


def _which(reader: StepReader) -> str:
    if not len(reader):
        return "this trajectory has no steps"
    return f"steps are {reader.read(0).locator} to {reader.read(len(reader) - 1).locator}"


def _sections(step: StepRecord, part: PartChoice) -> Iterator[_Section]:
    for name in PARTS if part == "all" else (part,):
        begins = 0
        for item, text in enumerate(map(display_text, step.texts(name)), 1):
            yield _Section(StepPlace(step.locator, name, item), text, begins)
            begins += len(text)


def _nothing(part: PartChoice) -> str:
    return f"these steps have no {part}" if part != "all" else "these steps are empty"


def _length(text: str) -> int:
    return len(text) + _LINE_NUMBER * (text.count("\n") + 1)


def _share(lengths: Sequence[int], budget: int) -> list[int]:
    """Characters for each section: short ones whole, the long ones an equal share of what is left."""
    shares = [0] * len(lengths)
    left, remaining = max(budget, 0), len(lengths)
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        shares[index] = min(lengths[index], max(_MIN_SHARE, left // remaining))
        left, remaining = max(0, left - shares[index]), remaining - 1
    return shares


def _excerpt(section: _Section, budget: int) -> str:
    place, text, begins = section
    lines = split_lines(text)
    title = f"[{place}, {len(lines)} lines]"
    if _length(text) <= budget:
        return f"{title}\n{number_lines(lines)}"
    budget -= 2 * _TITLE
    head, tail = _fitting(lines, budget * 2 // 3), _fitting(lines[::-1], budget // 3)
    if head:
        first, shown_to = number_lines(lines[:head]), sum(len(line) + 1 for line in lines[:head])
    else:  # a first line too long to fit
        head, shown_to = 1, budget * 2 // 3
        first = f"{1:>6}│{lines[0][:shown_to]}"
    tail_start = max(len(lines) - tail, head)
    how = f"read_steps start={place.locator} end={place.locator} part={place.part} offset={begins + shown_to}"
    omitted = f"⟦omitted up to line {tail_start}; {len(text)} characters in all; {how}⟧"
    return "\n".join(filter(None, [title, first, omitted, number_lines(lines[tail_start:], start=tail_start + 1)]))


def _fitting(lines: Iterable[str], budget: int) -> int:
    count = 0
    for line in lines:
        budget -= len(line) + _LINE_NUMBER + 1
        if budget < 0:
            break
        count += 1
    return count


def _from_offset(sections: Sequence[_Section], offset: int, max_chars: int) -> str:
    """Text from a character offset on; the offset runs over all items of the part, one after the other."""
    for place, text, begins in sections:
        if offset < begins + len(text):
            return _page(place, text, offset - begins, max_chars, begins)
    raise LocatorError(f"offset {offset} is past the end: the part has {sum(len(s.text) for s in sections)} characters")


def _page(place: StepPlace, text: str, start: int, max_chars: int, begins: int) -> str:
    line = text.count("\n", 0, start) + 1
    column = start - (text.rfind("\n", 0, start) + 1)
    piece = text[start : start + max_chars]
    lines = split_lines(piece)
    if column and lines:
        lines[0] = f"⟦from column {column + 1}⟧{lines[0]}"
    rest = len(text) - start - len(piece)
    more = f"\n⟦{rest} more characters in this item; offset={begins + start + len(piece)}⟧" if rest else ""
    return f"[{place}, from line {line}]\n{number_lines(lines, start=line, width=max_chars + 40)}{more}"


# --- searching


def step_texts(steps: Iterable[StepRecord], part: PartChoice = "all") -> Iterator[tuple[StepPlace, str]]:
    """Every displayed text of the steps, in order: what search counts in and what citations refer to."""
    for step in steps:
        for place, text, _ in _sections(step, part):
            yield place, text


def search(
    reader: StepReader,
    pattern: str,
    *,
    part: PartChoice = "all",
    start: str = "",
    end: str = "",
    max_hits: int = 30,
    budget_s: float = 5.0,
) -> SearchResult[StepPlace]:
    """Count matches in displayed text and show the first; whole trajectory unless `start` and `end` narrow it.

    Raises PatternError or LocatorError with a message for the caller.
    """
    compiled = compile_pattern(pattern)
    first, last = 0, len(reader) - 1
    if start or end:
        first, last = _range(reader, start or reader.read(0).locator, end or reader.read(last).locator)
    texts = step_texts(reader.iterate(first, last + 1), part)
    return search_texts(compiled, texts, max_hits=max_hits, budget_s=budget_s)


def render_search(result: SearchResult[StepPlace] | SearchResult[str]) -> str:
    """The result as text for the judge: the total first, then a hit a line."""
    total = f"{result.total} hits" if result.complete else f"at least {result.total} hits; {result.reason}"
    shown = f" (first {len(result.hits)} shown)" if result.total > len(result.hits) else ""
    lines = [f"{safe_name(str(hit.where))} line {hit.line}: {hit.text}" for hit in result.hits]
    return "\n".join([total + shown, *lines])
