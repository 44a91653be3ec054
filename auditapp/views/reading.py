"""What a reader shows of one trajectory, for leads and for blind reviewers alike.

`Reading` is the allow-list: nothing of model, agent, verifier or source can be in it, and this module may not import
where those are stored. `base` is the address below which the parts are fetched, so that each area has its own.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from django.http import Http404, QueryDict
from django.utils.safestring import SafeString

from auditapp import blobs
from auditapp.models.datasets import Task, TaskRubric, Trajectory
from auditapp.templatetags.outline import (
    ROWS_PER_PART,
    STEPS_PER_CHUNK,
    WHOLE_UP_TO,
    depth,
    failed,
    outline_html,
    step_codes,
)
from auditapp.templatetags.textlines import LineKind, Span, Text, diff_kinds, gap_words, visible
from judges.display import safe_name
from judges.patterns import Hit, Pattern, PatternError, compile_pattern, search_texts
from judges.records import PARTS, Action, Attachment, Observation, Part, Requirement, StepRecord, StepRow
from judges.trajindex import StepPlace, step_texts

MAX_ITEMS = 40
MAX_LINES = 2_000
MAX_HITS = 300
HIT_CONTEXT = 16
HIT_OFFSET = 60
MAX_SPAN = 10_000_000
_STORED = re.compile(r"[\w./-](?:[\w./ -]*[\w./-])?", re.ASCII)
_FIGURES = re.compile(r"[A-Fa-f0-9]*")
_DELETED_ARGUMENTS = {"old_str", "old_string", "old_text", "old"}
_INSERTED_ARGUMENTS = {"new_str", "new_string", "new_text", "new"}
_PART_WORDS: Mapping[Part, str] = {
    "message": "message",
    "reasoning": "reasoning",
    "action": "call",
    "observation": "result",
}
_PAIRING_WORDS: Mapping[str, tuple[str, str]] = {
    "position": ("by position", "paired with its call by its position, as no id says which call it answers"),
    "single": ("the only one", "paired with its call as there is one call and one result"),
    "shared": ("shared", "one result for several calls"),
    "none": ("unpaired", "nothing says which call it answers"),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """One trajectory as a blind reader may see it. None is "not recorded"."""

    base: str
    environment: str
    task: str
    instruction: str | None
    steps: blobs.BlobSteps | None
    deliverable: blobs.BlobTree | None
    initial: blobs.BlobTree | None
    reference: blobs.BlobTree | None = None
    rubric: tuple[Requirement, ...] = ()
    rubric_origin: str = ""
    show_hints: bool = False

    @property
    def total(self) -> int:
        return 0 if self.steps is None else len(self.steps)


def read_trajectory(trajectory: Trajectory, *, base: str, with_reference: bool, show_hints: bool) -> Reading:
    """The reading of a stored trajectory; the caller has decided what its reader may see."""
    rubric = trajectory.task.rubrics.order_by("-number").first()
    shown = read_task(trajectory.task, base=base, rubric=rubric, with_reference=with_reference)
    return replace(with_work(shown, trajectory), show_hints=show_hints)


def read_task(task: Task, *, base: str, rubric: TaskRubric | None, with_reference: bool) -> Reading:
    """The reading of a task without any work on it."""
    return Reading(
        base=base,
        environment=safe_name(task.environment.name),
        task=safe_name(task.name),
        instruction=blobs.get_text(task.instruction_blob) if task.instruction_blob else None,
        steps=None,
        deliverable=None,
        initial=blobs.tree(task.initial_tree),
        reference=blobs.tree(task.reference_tree) if with_reference else None,
        rubric=tuple(Requirement(**item) for item in rubric.requirements) if rubric else (),
        rubric_origin=rubric.get_origin_display() if rubric else "",
    )


def with_work(shown: Reading, trajectory: Trajectory) -> Reading:
    """The reading of a task with the steps and the deliverable of one trajectory."""
    return replace(
        shown,
        steps=blobs.BlobSteps(trajectory.steps_blob) if trajectory.steps_blob else None,
        deliverable=blobs.tree(trajectory.deliverable_tree),
    )


# --- places


@dataclass(frozen=True, slots=True)
class Place:
    """A cited place as the address gives it: a step, a part, an item, lines; whatever is missing is the whole."""

    step: str = ""
    part: Part | None = None
    item: int = 1
    lines: Span | None = None

    def lines_of(self, locator: str, part: Part, item: int) -> Span | None:
        """The cited lines, if this is the cited text."""
        if (self.step, self.part, self.item) != (locator, part, item):
            return None
        return self.lines or Span(1, MAX_SPAN)


def place_of(query: QueryDict) -> Place:
    """The place in an address; what is malformed there is as if it was missing."""
    part = next((part for part in PARTS if part == query.get("part")), None)
    return Place(query.get("step", ""), part, number_of(query, "item"), span_of(query.get("lines", "")))


def span_of(text: str) -> Span | None:
    """Lines written as `12` or `12-14`; None for anything else."""
    first, _, last = text.partition("-")
    if not (first.isdecimal() and len(first) < 9 and (not last or (last.isdecimal() and len(last) < 9))):
        return None
    return Span(max(1, int(first)), max(int(first), int(last or first), 1))


def number_of(query: QueryDict, key: str, default: int = 1) -> int:
    """A positive number in an address, else the default."""
    text = query.get(key, "")
    return max(1, int(text)) if text.isdecimal() and len(text) < 9 else default


# --- outline


@dataclass(frozen=True, slots=True)
class OutlinePart:
    """Rows of the outline with the locators of the first and the last; no `html` where they follow on demand."""

    number: int
    first: str
    last: str
    html: SafeString


@dataclass(frozen=True, slots=True)
class Outline:
    """The outline as a page begins with it; `codes` says of every step what the keys need to know."""

    codes: str
    rows_per_part: int
    parts: Sequence[OutlinePart]


def outline(reading: Reading, number: int) -> Outline:
    """The outline whole; of a long trajectory the rows around chunk `number`, as 10,000 rows are slow to lay out."""
    if reading.steps is None:
        return Outline("", WHOLE_UP_TO, ())
    digest, locators = reading.steps.digest, reading.steps.locators
    size = _rows_per_part(reading)
    wanted = number * STEPS_PER_CHUNK // size
    parts = [
        OutlinePart(part, first, last, _outline_rows(digest, part, size) if part == wanted else SafeString(""))
        for part, (first, last) in enumerate(_ends(locators, size))
    ]
    return Outline(_codes(digest), size, parts)


def outline_part(reading: Reading, number: int) -> SafeString:
    """The rows of one part of the outline; Http404 where there is no such part."""
    size = _rows_per_part(reading)
    if reading.steps is None or not 0 <= number * size < max(1, reading.total):
        raise Http404
    return _outline_rows(reading.steps.digest, number, size)


def _rows_per_part(reading: Reading) -> int:
    return WHOLE_UP_TO if reading.total <= WHOLE_UP_TO else ROWS_PER_PART


@lru_cache(maxsize=64)
def _outline_rows(digest: str, number: int, size: int) -> SafeString:
    """Content under a digest never changes, and rows take longer to write than to send."""
    return outline_html(blobs.BlobSteps(digest).rows(number * size, (number + 1) * size))


@lru_cache(maxsize=64)
def _codes(digest: str) -> str:
    steps = blobs.BlobSteps(digest)
    starts = range(0, len(steps), ROWS_PER_PART)  # a part at a time: so many rows at once are slow to collect
    return step_codes(row for start in starts for row in steps.rows(start, start + ROWS_PER_PART))


def chunk_count(reading: Reading) -> int:
    return -(-reading.total // STEPS_PER_CHUNK)


def chunk_of(reading: Reading, place: Place) -> int:
    """The chunk that holds the place, the first where there is no such step."""
    position = None if reading.steps is None else reading.steps.position(place.step)
    return (position or 0) // STEPS_PER_CHUNK


# --- steps


@dataclass(frozen=True, slots=True)
class Gap:
    """Lines left out, to be fetched by their numbers."""

    span: Span
    words: str


@dataclass(frozen=True, slots=True)
class Block:
    """One item of one part of a step as it is shown: runs of lines and the gaps between them."""

    step: str
    part: Part
    item: int
    total: int
    runs: Sequence[SafeString | Gap]
    cited: bool
    badge: str = ""
    note: tuple[str, str] = ("", "")
    exit_code: int | None = None
    attachments: tuple[Attachment, ...] = ()

    @property
    def word(self) -> str:
        return _PART_WORDS[self.part]

    @property
    def is_reasoning(self) -> bool:
        return self.part == "reasoning"


@dataclass(frozen=True, slots=True)
class ShownStep:
    """A step with its blocks; `left_out` counts items past the first forty of its `longest` part."""

    row: StepRow
    timestamp: str | None
    attachments: tuple[Attachment, ...]
    blocks: Sequence[Block]
    left_out: int
    longest: Part
    is_target: bool
    hints: Sequence[str] = field(default=())

    @property
    def locator(self) -> str:
        return self.row.locator

    @property
    def depth(self) -> int:
        return depth(self.row.locator)

    @property
    def failed(self) -> bool:
        return failed(self.row)

    @property
    def size(self) -> int:
        return sum(map(sum, self.row.sizes.values()))


def chunk(reading: Reading, number: int, place: Place) -> list[ShownStep]:
    """The steps of one chunk; raises Http404 where there is no such chunk."""
    if reading.steps is None or not 0 <= number < max(1, chunk_count(reading)):
        raise Http404
    start = number * STEPS_PER_CHUNK
    rows = reading.steps.rows(start, start + STEPS_PER_CHUNK)
    steps = reading.steps.iterate(start, start + STEPS_PER_CHUNK)
    hints = reading.show_hints
    return [shown_step(step, row, place, hints=hints) for step, row in zip(steps, rows, strict=True)]


def shown_step(step: StepRecord, row: StepRow, place: Place, *, hints: bool) -> ShownStep:
    """One step: reasoning, message, then each call followed by its results, then results that answer no call here."""
    longest: Part = "action" if len(step.actions) >= len(step.observations) else "observation"
    items = _count(step, longest)
    return ShownStep(
        row=row,
        timestamp=step.timestamp,
        attachments=step.attachments,
        blocks=list(_blocks(step, place)),
        left_out=max(0, items - MAX_ITEMS),
        longest=longest,
        is_target=place.step == step.locator,
        hints=[flag.replace("_", " ") for flag in row.flags] if hints else (),
    )


def _blocks(step: StepRecord, place: Place) -> Iterator[Block]:
    if step.reasoning:
        yield _block(step, "reasoning", 1, place)
    if step.message:
        yield _block(step, "message", 1, place)
    badges = _badges(step.actions)
    answered: set[int] = set()
    for number, action in enumerate(step.actions[:MAX_ITEMS], 1):
        yield _block(step, "action", number, place, badge=str(number))
        for item in _answers(step, action, number, badges):
            answered.add(item)
            yield _result(step, item, place, badge=str(number))
    for item in range(1, min(len(step.observations), MAX_ITEMS) + 1):
        if item not in answered:
            yield _result(step, item, place, badge="")
    if place.step == step.locator and place.part and MAX_ITEMS < place.item <= _count(step, place.part):
        yield _block(step, place.part, place.item, place, badge=str(place.item))


def _badges(actions: Sequence[Action]) -> dict[str, int]:
    """Call id to number; an id that occurs twice belongs to the first."""
    return {action.call_id: number for number, action in reversed(list(enumerate(actions, 1))) if action.call_id}


def _answers(step: StepRecord, action: Action, number: int, badges: Mapping[str, int]) -> list[int]:
    if not action.call_id or badges.get(action.call_id) != number:
        return []
    observations = enumerate(step.observations[:MAX_ITEMS], 1)
    return [item for item, observation in observations if observation.call_id == action.call_id]


def _result(step: StepRecord, item: int, place: Place, *, badge: str) -> Block:
    observation = step.observations[item - 1]
    return _block(step, "observation", item, place, badge=badge, note=_pairing(step, observation), of=observation)


def _pairing(step: StepRecord, observation: Observation) -> tuple[str, str]:
    return _PAIRING_WORDS.get(observation.pairing, ("", "")) if step.actions else ("", "")


def _block(
    step: StepRecord,
    part: Part,
    item: int,
    place: Place,
    *,
    badge: str = "",
    note: tuple[str, str] = ("", ""),
    of: Observation | None = None,
) -> Block:
    text = text_of_item(step, part, item, place)
    return Block(
        step=step.locator,
        part=part,
        item=item,
        total=len(text),
        runs=runs(text),
        cited=text.cited is not None,
        badge=badge,
        note=note,
        exit_code=of.exit_code if of else None,
        attachments=of.attachments if of else (),
    )


def text_of_item(step: StepRecord, part: Part, item: int, place: Place) -> Text:
    """The full text of one item with its diff and citation marks; Http404 where there is none."""
    if not 0 < item <= _count(step, part):
        raise Http404
    raw, cited = _raw(step, part, item), place.lines_of(step.locator, part, item)
    replaced = replaced_lines(step.actions[item - 1]) if part == "action" else {}
    if replaced:
        return Text(raw, replaced, cited, signed=True)
    return Text(raw, diff_kinds(raw.split("\n")) if "@@" in raw or "*** Begin Patch" in raw else {}, cited)


def _count(step: StepRecord, part: Part) -> int:
    """As many as `step.texts(part)` has, which writes out every one of them: a step may have thousands of calls."""
    if part in ("action", "observation"):
        return len(step.actions if part == "action" else step.observations)
    return int(bool(step.message if part == "message" else step.reasoning))


def _raw(step: StepRecord, part: Part, item: int) -> str:
    if part == "action":
        return step.actions[item - 1].text
    if part == "observation":
        return step.observations[item - 1].text
    return step.message if part == "message" else step.reasoning


def replaced_lines(action: Action) -> dict[int, LineKind]:
    """Lines of a `str_replace` call that hold the old and the new text; nothing for any other call."""
    if isinstance(action.arguments, str) or not _DELETED_ARGUMENTS.intersection(action.arguments):
        return {}
    kinds: dict[int, LineKind] = {}
    line = 1
    for key, value in action.arguments.items():
        count = len(Action("", {key: value}).text.split("\n")) - 1
        kind = _replaced_kind(key)
        body = range(line + 2, line + 1 + count) if count > 1 else range(line + 1, line + 2)
        if kind:
            kinds |= dict.fromkeys(body, kind)
        line += count
    return kinds


def _replaced_kind(key: str) -> LineKind:
    return "del" if key in _DELETED_ARGUMENTS else "ins" if key in _INSERTED_ARGUMENTS else ""


def runs(text: Text, shown: Sequence[Span] | None = None) -> list[SafeString | Gap]:
    """Shown lines and gaps in turn, to the end of the text."""
    parts: list[SafeString | Gap] = []
    next_line = 1
    for span in visible(text) if shown is None else shown:
        if span.first > next_line:
            parts.append(_gap(next_line, span.first - 1))
        parts.append(text.html(span))
        next_line = span.last + 1
    if next_line <= len(text):
        parts.append(_gap(next_line, len(text)))
    return parts


def _gap(first: int, last: int) -> Gap:
    return Gap(Span(first, last), gap_words(Span(first, last)))


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some lines of one item, for a gap that is opened."""

    step: str
    part: Part
    item: int
    items: int
    total: int
    runs: Sequence[SafeString | Gap]

    @property
    def word(self) -> str:
        return _PART_WORDS[self.part]


def excerpt(reading: Reading, place: Place) -> Excerpt:
    """At most 2,000 of the lines that the place names; what is left of them is a gap again."""
    position = None if reading.steps is None else reading.steps.position(place.step)
    if reading.steps is None or position is None or place.part is None:
        raise Http404
    step = reading.steps.read(position)
    text = text_of_item(step, place.part, place.item, Place())
    wanted = place.lines or Span(1, MAX_SPAN)
    first, last = min(wanted.first, len(text)), min(wanted.last, len(text))
    shown = Span(first, min(last, first + MAX_LINES - 1))
    parts: list[SafeString | Gap] = [text.html(shown)] if len(text) else []
    if shown.last < last:
        parts.append(_gap(shown.last + 1, last))
    return Excerpt(step.locator, place.part, place.item, _count(step, place.part), len(text), parts)


@dataclass(frozen=True, slots=True)
class Slot:
    """A chunk by its number, with the locators of its first and last step."""

    number: int
    first: str
    last: str


def chunk_slots(reading: Reading) -> list[Slot]:
    """All chunks in order, to be filled when they come into view."""
    if reading.steps is None:
        return []
    ends = _ends(reading.steps.locators, STEPS_PER_CHUNK)
    return [Slot(number, first, last) for number, (first, last) in enumerate(ends)]


def _ends(locators: Sequence[str], size: int) -> list[tuple[str, str]]:
    """The first and the last locator of every `size` steps."""
    starts = range(0, len(locators), size)
    return [(locators[start], locators[min(start + size, len(locators)) - 1]) for start in starts]


def missing(place: Place, shown: Sequence[ShownStep]) -> str:
    """Words for a cited place that does not exist; "" where it does, or where none is asked for."""
    if not place.step:
        return ""
    step = next((step for step in shown if step.is_target), None)
    if step is None:
        return f"There is no step {place.step[:40]} in this trajectory."
    if place.part is None:
        return ""
    block = next((block for block in step.blocks if block.cited), None)
    where = f"step {place.step}, {_PART_WORDS[place.part]} {place.item}"
    if block is None:
        return f"There is no such text: {where}."
    if place.lines and place.lines.first > block.total:
        return f"There is no line {place.lines.first} in {where}: it has {block.total:,} lines."
    return ""


# --- search


@dataclass(frozen=True, slots=True)
class FoundHit:
    """A hit with the text around it, on one line."""

    place: StepPlace
    line: int
    before: str
    match: str
    after: str

    @property
    def word(self) -> str:
        return _PART_WORDS[self.place.part]


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found; `stopped` early says that there may be more, `error` why a pattern was refused."""

    query: str
    hits: Sequence[FoundHit] = ()
    total: int = 0
    stopped: bool = False
    error: str = ""

    @property
    def n_steps(self) -> int:
        """Steps among the listed hits."""
        return len({hit.place.locator for hit in self.hits})


def find(reading: Reading, query: str, *, pattern: bool, budget_s: float = 5.0) -> Found:
    """Search all displayed text of the steps for a literal text, or a pattern; letter case is ignored."""
    if not query or reading.steps is None:
        return Found(query)
    try:
        found = compile_pattern(query if pattern else quote_pattern(query))
    except PatternError as error:
        return Found(query, error=str(error))
    words = "" if pattern else telling_words(query)
    steps = reading.steps.holding(words) if words else reading.steps.iterate()
    result = search_texts(found, step_texts(steps), max_hits=MAX_HITS, budget_s=budget_s)
    hits = [_hit(hit, found) for hit in result.hits]
    return Found(query, hits, result.total, not result.complete)


def quote_pattern(text: str) -> str:
    """A pattern that finds the text itself."""
    return "".join(char if char.isalnum() or ord(char) > 127 else f"\\x{ord(char):02x}" for char in text)


def telling_words(text: str) -> str:
    """The longest part of `text` that is stored as it is displayed (see `BlobSteps.holding`); "" where none tells much.

    Marks of display say "ctl", and characters and counts in hexadecimal and decimal figures: none of that is stored.
    """
    words = max(_STORED.findall(text), key=len, default="")
    return "" if len(words) < 3 or words.lower() == "ctl" or _FIGURES.fullmatch(words) else words


def _hit(hit: Hit[StepPlace], pattern: Pattern) -> FoundHit:
    """The text around a hit, cut so that the match itself is in sight: it begins at most 60 characters in."""
    spans = [span for span in pattern.finditer(hit.text) if span[0] <= HIT_OFFSET]
    start, end = spans[-1] if spans else (0, 0)
    before = hit.text[max(0, start - HIT_CONTEXT) : start]
    cut = "…" if start > HIT_CONTEXT else ""
    return FoundHit(hit.where, hit.line, cut + before, hit.text[start:end], hit.text[end:])


def instruction_text(reading: Reading, cited: Span | None) -> Text | None:
    """The instruction as numbered lines; None where it was not recorded."""
    return None if reading.instruction is None else Text(reading.instruction, cited=cited)
