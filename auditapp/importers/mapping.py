"""The mapping file: a TOML document that says which field of a JSON row is what.

A field is a dotted path ("verifier.reward"), or a table with one of `path`, `value` (a constant) and `template`
("{benchmark}/{task}"). A table may add a `map` from recorded to meant values, `nulls`, the values that stand for
nothing recorded, and a `default` for that case.
"""

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from auditapp.importers.lenient import UnreadableError, is_storable, json_text, storable_text
from auditapp.importers.rows import open_regular
from judges.records import Json

LabelKind = Literal["human", "judge"]
SHIPPED = Path(__file__).parent / "mappings"
_LONGEST = 2**20
_MOST_SLOTS = 20
_LONGEST_TEXT = 2**20
_SLOT = re.compile(r"\{([^{}]*)\}")
_INDEX = re.compile(r"-?\d{1,6}")


class MappingError(Exception):
    """A mapping that cannot be used; the message names the file and the key."""


class UnmappedValueError(UnreadableError):
    """A recorded value that the mapping says nothing about; the message names the key and the value."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Rule(_Strict):
    """How one field is found in a row."""

    path: str | None = None
    value: Json = None
    template: str | None = None
    map: dict[str, Json] | None = None
    default: Json = None
    nulls: frozenset[str] = frozenset()

    @field_validator("value", "map", "default")
    @classmethod
    def _storable(cls, given: Json) -> Json:
        if not _is_json(given):
            raise ValueError("TOML can spell what JSON cannot hold, as nan, dates and numbers beyond 64 bits: quote it")
        return given

    @model_validator(mode="after")
    def _one_origin(self) -> "Rule":
        if len({"path", "value", "template"} & self.model_fields_set) != 1:
            raise ValueError("give exactly one of path, value and template")
        if self.template and len(_SLOT.findall(self.template)) > _MOST_SLOTS:
            raise ValueError(f"a template has at most {_MOST_SLOTS} places in braces")
        return self

    def find(self, row: Json, *, key: str) -> Json:
        """The meant value, None where nothing is recorded; raises UnmappedValueError for a value `map` lacks."""
        found = self._recorded(row, key)
        if found is None or plain_text(found) in self.nulls:
            return self.default
        if self.map is None:
            return found
        name = plain_text(found)
        if name not in self.map:
            known = ", ".join(sorted(self.map))
            raise UnmappedValueError(f"{key}: the value {name[:80]!r} is not in its map (which has {known})")
        return self.map[name]

    def _recorded(self, row: Json, key: str) -> Json:
        if self.path is not None:
            return value_at(row, self.path)
        if self.template is None:
            return self.value
        slots = _SLOT.findall(self.template)
        parts = {slot: value_at(row, slot) for slot in slots}
        if any(part is None for part in parts.values()):
            return None
        texts = {slot: plain_text(part) for slot, part in parts.items()}
        # Before it is made: a few repeated slots would turn one large field into all the memory there is.
        if len(self.template) + sum(len(texts[slot]) for slot in slots) > _LONGEST_TEXT:
            raise UnreadableError(f"{key}: the template makes a text of more than {_LONGEST_TEXT:,} characters")
        return _SLOT.sub(lambda match: texts[match[1]], self.template)


def _is_json(value: Json) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return is_storable(value)


def value_at(row: Json, path: str) -> Json:
    """The value at a dotted path, None where there is none; a number steps into a list, negative from its end."""
    found = row
    for part in path.split("."):
        if isinstance(found, Mapping):
            found = found.get(part)
        elif isinstance(found, list) and _INDEX.fullmatch(part) and -len(found) <= int(part) < len(found):
            found = found[int(part)]
        else:
            return None
    return found


def plain_text(value: Json) -> str:
    """Text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json_text(value)


def _as_rule(value: Any) -> Any:
    return {"path": value} if isinstance(value, str) else value


Found = Annotated[Rule, BeforeValidator(_as_rule)]


class ActionRules(_Strict):
    """The action of a step: `name` and `arguments` apart, or one `call` such as click('12') to take apart."""

    name: Found | None = None
    arguments: Found | None = None
    call: Found | None = None


class StepRules(_Strict):
    """Where the steps are: a list of objects with fields, or of chat messages.

    `empty = "not_recorded"` is for sources that write an empty list where they have none.
    """

    path: str
    style: Literal["fields", "messages"] = "fields"
    empty: Literal["recorded", "not_recorded"] = "recorded"
    source: Found = Rule(value="agent")
    message: Found | None = None
    reasoning: Found | None = None
    observation: Found | None = None
    timestamp: Found | None = None
    action: ActionRules | None = None


class VerifierRules(_Strict):
    """What the verifier said: its reward, its status where that is recorded too, and what makes it invalid."""

    reward: Found | None = None
    status: Found | None = None
    invalid: Found | None = None
    output: dict[str, Found] = Field(default_factory=dict)


class TrajectoryRules(_Strict):
    """The fields of a trajectory; files are named texts; `requires` are paths that tell its rows from others."""

    requires: tuple[str, ...] = ()
    source_id: Found
    task_id: Found
    environment: Found
    instruction: Found | None = None
    agent: Found | None = None
    agent_version: Found | None = None
    model: Found | None = None
    effort: Found | None = None
    attempt: Found | None = None
    training_step: Found | None = None
    started_at: Found | None = None
    finished_at: Found | None = None
    exception: Found | None = None
    input_tokens: Found | None = None
    cached_tokens: Found | None = None
    output_tokens: Found | None = None
    cost_usd: Found | None = None
    deliverable: dict[str, Found] | None = None
    reference: dict[str, Found] | None = None
    extra: dict[str, Found] = Field(default_factory=dict)
    verifier: VerifierRules = VerifierRules()
    steps: StepRules | None = None


class LabelRules(_Strict):
    """The fields of a label. Where a row holds a list of them, `each` is its path: `source_id` is the row's then.

    `tags` is a list or words in a text, `tag_if` says per code which field being true means it.
    """

    requires: tuple[str, ...] = ()
    source_id: Found
    labeler: Found
    decision: Found
    each: str | None = None
    integrity: Found | None = None
    tags: Found | None = None
    tag_if: dict[str, Found] = Field(default_factory=dict)
    note: Found | None = None
    created_at: Found | None = None


class MappingFile(_Strict):
    """A whole mapping: trajectories, labels or both."""

    title: str = ""
    trajectory: TrajectoryRules | None = None
    labels: dict[LabelKind, LabelRules] = Field(default_factory=dict)


def fits(rules: TrajectoryRules | LabelRules | None, row: Json) -> bool:
    """Whether a row has all the paths that mark the rows these rules are for, be their values null."""
    return rules is not None and bool(rules.requires) and all(_has(row, path) for path in rules.requires)


def may_fit(mapping: MappingFile, keys: Collection[str]) -> bool:
    """Whether a row of which only the keys are known can be one of this mapping's."""
    parts = (mapping.trajectory, *mapping.labels.values())
    return any(part and {path.partition(".")[0] for path in part.requires} <= set(keys) for part in parts)


def _has(row: Json, path: str) -> bool:
    *parents, last = path.split(".")
    holder = value_at(row, ".".join(parents)) if parents else row
    return isinstance(holder, Mapping) and last in holder


def load_mapping(path: Path) -> MappingFile:
    """Read a mapping file, or the shipped one of that name; raises MappingError that names the key that is wrong."""
    shipped = SHIPPED / f"{path}.toml"
    if len(path.parts) == 1 and shipped.is_file() and not path.exists():
        path = shipped
    try:
        with open_regular(path) as file:
            raw = file.read(_LONGEST + 1)
        if len(raw) > _LONGEST:
            raise MappingError(f"mapping {path.name} is larger than {_LONGEST:,} bytes")
        return MappingFile.model_validate(tomllib.loads(raw.decode("utf-8-sig")))
    except ValidationError as error:
        raise MappingError(f"mapping {path.name}: {_first(error)}") from None
    except (UnreadableError, OSError) as error:
        raise MappingError(f"mapping {path.name} {error}; shipped mappings: {', '.join(shipped_names())}") from None
    except (ValueError, RecursionError) as error:  # ValueError: not UTF-8, not TOML, numbers without end
        raise MappingError(f"mapping {path.name} is not valid TOML: {error}") from None


def shipped_names() -> list[str]:
    """The names of the mappings that come with Assay."""
    return sorted(path.stem for path in SHIPPED.glob("*.toml"))


def shipped_mappings() -> Iterator[tuple[str, MappingFile]]:
    """Name and content of each mapping that comes with Assay."""
    for name in shipped_names():
        yield name, load_mapping(Path(name))


def shipped_label_kind(row: Json) -> LabelKind | None:
    """The kind of labels a row holds and nothing else, by the shipped mappings."""
    for _, mapping in shipped_mappings():
        for kind, rules in mapping.labels.items():
            if fits(rules, row) and not fits(mapping.trajectory, row):
                return kind
    return None


def _first(error: ValidationError) -> str:
    """The first problem with its key, and how many more there are."""
    details = error.errors(include_url=False, include_input=False)
    key = ".".join(str(part) for part in details[0]["loc"]) or "the file"
    more = f" (and {len(details) - 1} more)" if len(details) > 1 else ""
    return storable_text(f"{key}: {details[0]['msg'].removeprefix('Value error, ')}{more}")
