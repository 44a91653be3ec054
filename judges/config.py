"""A judge config: everything chosen that can change a label, read from TOML and identified by one digest."""

import hashlib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from judges import prompts, toolschemas
from judges.budget import Limits
from judges.display import DISPLAY_VERSION
from judges.documents import RENDERER_VERSION
from judges.endpoints import DEFAULT_URLS, origin_of
from judges.errors import ConfigError
from judges.limiter import RateLimits
from judges.records import content_digest
from judges.signals import SIGNALS_VERSION
from judges.taxonomy import taxonomy

ProviderName = Literal["rules", "scripted", "anthropic", "openai", "openai_chat"]
SandboxKind = Literal["bwrap", "none"]
LOOP_VERSION = "loop/2"
RUBRIC_RULES_VERSION = "rubric/1"
RULES_VERSION = "rules/2"
WIRE_VERSION = "wire/1"
EFFORTS = {
    "anthropic": ("low", "medium", "high", "xhigh", "max"),
    "openai": ("none", "minimal", "low", "medium", "high", "xhigh", "max"),
}
Json = Any


class JudgeConfig(BaseModel):
    """What a lead chooses. There is no default provider and no default model: a label says who gave it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=80, pattern=r"^[^\x00-\x1f\x7f]+$")
    provider: ProviderName
    model: str = ""
    base_url: str = ""
    effort: str = ""
    max_output_tokens: int = Field(default=16_000, ge=256, le=10_000_000)
    timeout_s: int = Field(default=300, ge=1, le=3_600)
    sandbox: SandboxKind = "bwrap"
    script: str = ""
    limits: Limits = Limits()
    rate: RateLimits = RateLimits()

    @model_validator(mode="after")
    def _complete(self) -> "JudgeConfig":
        found = list(_contradictions(self.model_dump(exclude={"limits"})))
        if found:
            raise ValueError("\n".join(found))
        return self

    @field_validator("base_url")
    @classmethod
    def _plain_address(cls, given: str) -> str:
        if given:
            try:
                origin_of(given)
            except ConfigError as error:
                raise ValueError(str(error)) from None
        return given.rstrip("/")

    @property
    def url(self) -> str:
        """The base address of requests, empty where none are made."""
        return self.base_url or DEFAULT_URLS.get(self.provider, "")

    @property
    def host(self) -> str:
        """The host requests go to, empty where none are made."""
        return origin_of(self.url)[1] if self.url else ""

    def request_settings(self) -> Json:
        """What goes into every request beside messages and tools."""
        return {"model": self.model, "effort": self.effort, "max_output_tokens": self.max_output_tokens}

    def identity(self) -> Json:
        """The JSON whose digest identifies this judge; neither `name` nor `rate` can change what it says."""
        chosen = self.model_dump(mode="json", exclude={"name", "rate"})
        return {"schema": "assay.judge/1", "chosen": chosen, "parts": _parts(self)}

    def digest(self) -> str:
        """Hexadecimal SHA-256 of all that is chosen: model, limits, prompts, tools, taxonomy, rules, display."""
        return content_digest(self.identity())


def _parts(config: JudgeConfig) -> Json:
    """What this build adds to the choice: a change of any of these is another judge."""
    parts = {
        "loop": LOOP_VERSION,
        "prompts": prompts.digest(),
        "tools": toolschemas.digest(),
        "taxonomy": [taxonomy().version, taxonomy().digest],
        "rubric_rules": RUBRIC_RULES_VERSION,
        "display": DISPLAY_VERSION,
        "documents": RENDERER_VERSION,
        "signals": SIGNALS_VERSION,
    }
    if config.provider == "rules":
        parts["rules"] = RULES_VERSION
    if config.provider in DEFAULT_URLS or config.provider == "openai_chat":
        parts["wire"] = WIRE_VERSION
    if config.script:
        parts["script"] = _file_digest(config.script)
    return parts


def _file_digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise ConfigError(f"script {path} cannot be read: {error.strerror}") from error


def load_config(path: Path) -> JudgeConfig:
    """Read a TOML file; ConfigError says which key is wrong and which are known."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, not TOML, numbers without end
        raise ConfigError(f"{path.name}: cannot be read as TOML: {error}") from error
    return parse_config(raw, name=path.name)


def parse_config(raw: Json, *, name: str = "judge config") -> JudgeConfig:
    """Validate a mapping; ConfigError lists every problem."""
    try:
        return JudgeConfig.model_validate(raw)
    except ValidationError as error:
        found = [problem for item in error.errors() for problem in _problems(item)]
    if isinstance(raw, Mapping):  # pydantic looks at the whole only where every part is right
        found += [problem for problem in _contradictions(raw) if problem not in found]
    raise ConfigError(f"{name}: {'; '.join(found)}", found)


def _contradictions(raw: Mapping[str, Json]) -> Iterator[str]:
    """What is wrong between keys that may each be right; a key of a wrong type counts as left out."""
    keys = ("provider", "model", "base_url", "effort", "script")
    given = {key: value for key in keys if isinstance(value := raw.get(key), str)}
    provider, effort, known = given.get("provider", ""), given.get("effort", ""), get_args(ProviderName)
    if provider not in known:
        return
    if provider == "scripted" and not given.get("script"):
        yield "provider scripted needs script = <file of turns>"
    if provider not in ("rules", "scripted") and not given.get("model"):
        yield f"provider {provider} needs model = <name>; there is no default model"
    if provider == "rules" and (given.get("model") or given.get("base_url") or effort):
        yield "provider rules asks no model: leave out model, base_url and effort"
    if provider == "openai_chat" and not given.get("base_url"):
        yield "provider openai_chat needs base_url = <address of the server, mostly ending in /v1>"
    efforts = EFFORTS.get(provider, ())
    if effort and efforts and effort not in efforts:
        yield f"effort {effort!r}: provider {provider} knows {', '.join(efforts)}"


def _problems(item: Any) -> list[str]:
    """One error of pydantic in words; that of the whole config holds several."""
    where = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        part: Any = None if len(item["loc"]) == 1 else JudgeConfig.model_fields[item["loc"][0]].annotation
        known = JudgeConfig.model_fields if part is None else getattr(part, "model_fields", ())
        return [f"unknown key {where!r}; known: {', '.join(_known(known))}"]
    if item["type"] == "missing":
        return [f"{where} is missing"]
    message = str(item["msg"]).removeprefix("Value error, ")
    return [f"{where}: {message}"] if where else message.split("\n")


def _known(names: Iterable[str]) -> list[str]:
    return sorted(names)
