"""Rows of JSON of any shape, a trajectory each; a mapping file says which field is what."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_args

import re2

from auditapp.importers.chat_steps import call_arguments, chat_steps
from auditapp.importers.containment import contained
from auditapp.importers.lenient import (
    Repairs,
    UnreadableError,
    as_float,
    as_int,
    as_name,
    as_objects,
    as_text,
    is_storable,
    json_text,
    load_object,
    storable_text,
)
from auditapp.importers.mapping import (
    ActionRules,
    MappingError,
    MappingFile,
    Rule,
    StepRules,
    TrajectoryRules,
    VerifierRules,
    fits,
    load_mapping,
    plain_text,
    shipped_label_kind,
    shipped_mappings,
    shipped_names,
    value_at,
)
from auditapp.importers.options import ImportOptions, Limits
from auditapp.importers.rows import BadRow, Row, files_of, rows_of, unless_all_bad
from judges.records import (
    VERIFIER_STATUSES,
    Action,
    Json,
    Observation,
    Original,
    ParseFailure,
    Source,
    StepRecord,
    TaskRecord,
    TrajectoryRecord,
    Usage,
    VerifierRecord,
)
from judges.safefs import MemoryTree

SUFFIXES = (".jsonl", ".ndjson", ".json")
_CALL = re.compile(r"\s*([A-Za-z_][\w.]{0,99})\((.*)\)\s*", re.DOTALL)

_SEVERAL = re2.compile(r"\)\s*\n\s*[A-Za-z_][\w.]*\(")  # linear in any text


def parse(path: Path, options: ImportOptions) -> Iterator[TrajectoryRecord | ParseFailure]:
    """The rows of one file, or of all below a folder, by the mapping given or else the shipped one that fits."""
    files = files_of(path, SUFFIXES)
    if not files:
        yield ParseFailure(storable_text(path.name), "this folder has no .jsonl, .ndjson or .json file")
    for name, file in files:
        shown = storable_text(name)
        try:
            rules = _rules(file, options)
        except (MappingError, UnreadableError) as error:
            yield ParseFailure(shown, str(error))
        else:
            yield from unless_all_bad(_parse_file(shown, file, rules=rules, options=options), name=shown)


def _rules(path: Path, options: ImportOptions) -> TrajectoryRules:
    mapping = load_mapping(options.mapping) if options.mapping else _shipped(path, options)
    if mapping.trajectory is None:
        raise MappingError("the mapping has no [trajectory] part, so it can import labels only")
    return mapping.trajectory


def _shipped(path: Path, options: ImportOptions) -> MappingFile:
    row = first_row(path, options)
    for _, mapping in shipped_mappings():
        if fits(mapping.trajectory, row):
            return mapping
    if kind := shipped_label_kind(row):
        raise MappingError(f"holds {kind} labels and no trajectories: import it with import_labels --kind {kind}")
    found, known = ", ".join(sorted(row)[:20]), ", ".join(shipped_names())
    raise MappingError(f"needs a mapping file: its first row has {found}, which fits no shipped mapping ({known})")


def first_row(path: Path, options: ImportOptions) -> dict[str, Json]:
    """The first row of a file; raises UnreadableError with the reason where there is none to read."""
    first = next(rows_of(path, options.limits), None)
    if not isinstance(first, Row):
        raise UnreadableError(first.reason if first else "has no rows")
    return load_object(first.raw, name="the first row", repairs=Repairs(), limits=options.limits)


def _parse_file(
    name: str, path: Path, *, rules: TrajectoryRules, options: ImportOptions
) -> Iterator[TrajectoryRecord | ParseFailure]:
    for row in rows_of(path, options.limits):
        locator = f"{name}#{row.number}" if row.number else name
        if isinstance(row, BadRow):
            yield ParseFailure(locator, row.reason)
        else:
            yield contained(locator, partial(_record, row, rules=rules, options=options))


class Fields:
    """The fields of one row by their rules, each of the type its place needs."""

    def __init__(self, row: Json, *, prefix: str, repairs: Repairs) -> None:
        self.row = row
        self._prefix = prefix
        self.repairs = repairs

    def value(self, rule: Rule | None, key: str) -> Json:
        return None if rule is None else rule.find(self.row, key=f"{self._prefix}.{key}")

    def needed(self, rule: Rule, key: str) -> str:
        """A name that must be there; raises UnreadableError where it is not."""
        found = self.value(rule, key)
        if found is None or found == "":
            raise UnreadableError(f"{self._prefix}.{key}: nothing is recorded at {_origin(rule)}")
        return storable_text(plain_text(found))[:500]

    def storable(self, rule: Rule, key: str) -> Json:
        found = self.value(rule, key)
        return found if is_storable(found) else json_text(found)

    def name(self, rule: Rule | None, key: str) -> str:
        return as_name(self.value(rule, key), at=key, repairs=self.repairs)

    def text(self, rule: Rule | None, key: str) -> str | None:
        found = self.value(rule, key)
        return None if found is None else as_text(found, at=key, repairs=self.repairs)

    def number(self, rule: Rule | None, key: str) -> float | None:
        return as_float(self.value(rule, key), at=key, repairs=self.repairs)

    def whole(self, rule: Rule | None, key: str) -> int | None:
        return as_int(self.value(rule, key), at=key, repairs=self.repairs)

    def files(self, rules: Mapping[str, Rule] | None, key: str) -> MemoryTree | None:
        """Named texts as a tree; None where none of them is recorded."""
        found = {name: self.value(rule, f"{key}.{name}") for name, rule in (rules or {}).items()}
        files: dict[str, bytes] = {}
        left = Limits().json_bytes  # as a row may have: many names for one large field would multiply it
        for name, value in found.items():
            if value is not None:
                files[name] = plain_text(value).encode()
                left -= len(files[name])
            if left < 0:
                raise UnreadableError(f"{self._prefix}.{key}: the files are larger than {Limits().json_bytes:,} bytes")
        return MemoryTree(files) if files else None


def _origin(rule: Rule) -> str:
    return repr(rule.path if rule.path is not None else rule.template)


def _record(row: Row, *, rules: TrajectoryRules, options: ImportOptions) -> TrajectoryRecord:
    repairs, flags = Repairs(), Repairs()
    data = load_object(row.raw, name="row", repairs=repairs, limits=options.limits)
    fields = Fields(data, prefix="trajectory", repairs=repairs)
    steps = _steps(data, rules.steps, repairs=repairs, flags=flags)
    return TrajectoryRecord(
        source_id=fields.needed(rules.source_id, "source_id"),
        task=_task(fields, rules, options=options),
        verifier=_verifier(data, rules.verifier, options=options, repairs=repairs),
        steps=steps or (),
        steps_recorded=steps is not None,
        deliverable=fields.files(rules.deliverable, "deliverable"),
        agent=fields.name(rules.agent, "agent"),
        agent_version=fields.name(rules.agent_version, "agent_version"),
        model=fields.name(rules.model, "model"),
        effort=fields.name(rules.effort, "effort"),
        attempt=fields.whole(rules.attempt, "attempt"),
        training_step=fields.whole(rules.training_step, "training_step"),
        usage=_usage(fields, rules),
        started_at=fields.text(rules.started_at, "started_at"),
        finished_at=fields.text(rules.finished_at, "finished_at"),
        exception=fields.text(rules.exception, "exception") or "",
        extra={name: fields.storable(rule, f"extra.{name}") for name, rule in rules.extra.items()},
        warnings=repairs.notices(),
        flags=flags.notices(),
        originals=(Original("row.json", MemoryTree({"row.json": row.raw}), "row.json"),),
    )


def _task(fields: Fields, rules: TrajectoryRules, *, options: ImportOptions) -> TaskRecord:
    return TaskRecord(
        task_id=fields.needed(rules.task_id, "task_id"),
        environment=options.environment or fields.needed(rules.environment, "environment"),
        instruction=fields.text(rules.instruction, "instruction"),
        reference=fields.files(rules.reference, "reference"),
    )


def _usage(fields: Fields, rules: TrajectoryRules) -> Usage:
    return Usage(
        input_tokens=fields.whole(rules.input_tokens, "input_tokens"),
        cached_tokens=fields.whole(rules.cached_tokens, "cached_tokens"),
        output_tokens=fields.whole(rules.output_tokens, "output_tokens"),
        cost_usd=fields.number(rules.cost_usd, "cost_usd"),
    )


def _verifier(data: Json, rules: VerifierRules, *, options: ImportOptions, repairs: Repairs) -> VerifierRecord:
    """A recorded status counts before the reward; what makes a row invalid counts before both."""
    fields = Fields(data, prefix="trajectory.verifier", repairs=repairs)
    reward = fields.number(rules.reward, "reward")
    stated = fields.value(rules.status, "status")
    status = next((status for status in VERIFIER_STATUSES if status == stated), options.status(reward))
    if stated is not None and status != stated:
        known = ", ".join(VERIFIER_STATUSES)
        raise UnreadableError(f"trajectory.verifier.status: {plain_text(stated)[:80]!r} is none of {known}; map it")
    record = VerifierRecord(
        status=status,
        reward=reward,
        rewards={} if reward is None else {"reward": reward},
        streams=fields.files(rules.output, "output"),
    )
    reason = fields.value(rules.invalid, "invalid")
    return replace(record, status="invalid", reason=plain_text(reason)[:500]) if reason else record


def _steps(data: Json, rules: StepRules | None, *, repairs: Repairs, flags: Repairs) -> list[StepRecord] | None:
    """The steps, None where they were not recorded."""
    found = value_at(data, rules.path) if rules else None
    if rules is None or found is None or (rules.empty == "not_recorded" and not found):
        return None
    if rules.style == "messages":
        return chat_steps(found, repairs=repairs, flags=flags)
    items = as_objects(found, at=rules.path, repairs=repairs)
    return [_step(item, rules, locator=str(number), repairs=repairs) for number, item in enumerate(items, start=1)]


def _step(item: Json, rules: StepRules, *, locator: str, repairs: Repairs) -> StepRecord:
    fields = Fields(item, prefix=f"trajectory.steps ({locator})", repairs=repairs)
    observed = fields.text(rules.observation, "observation")
    action = _action(fields, rules.action) if rules.action else None
    paired = action is not None and observed is not None
    return StepRecord(
        locator=locator,
        source=_source(fields.value(rules.source, "source"), locator=locator, repairs=repairs),
        message=fields.text(rules.message, "message") or "",
        reasoning=fields.text(rules.reasoning, "reasoning") or "",
        actions=() if action is None else (action,),
        observations=() if observed is None else (Observation(observed, None, "single" if paired else "none"),),
        timestamp=fields.text(rules.timestamp, "timestamp"),
    )


def _source(value: Json, *, locator: str, repairs: Repairs) -> Source:
    for source in get_args(Source):
        if value == source:
            return source  # type: ignore[no-any-return]
    repairs.add("unknown_source", locator, plain_text(value)[:60])
    return "unknown"


def _action(fields: Fields, rules: ActionRules) -> Action | None:
    call = fields.text(rules.call, "action.call")
    if call:
        match = None if _SEVERAL.search(call) else _CALL.fullmatch(call)
        return Action(match[1], match[2]) if match else Action("action", call)
    name = fields.name(rules.name, "action.name")
    if not name:
        return None
    arguments = fields.value(rules.arguments, "action.arguments")
    return Action(name, call_arguments(arguments, at="action.arguments", repairs=fields.repairs))
