"""Asks a provider a few small things before a run spends money, and says in words what is wrong.

`python -m judges.providers.probe judge.toml [--json]`: exit 0 where a judge can work with it, 1 where it cannot,
2 where the config cannot be read.
"""

import argparse
import difflib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Literal

import orjson

from judges.config import JudgeConfig, load_config
from judges.endpoints import VENDOR_KEYS, Endpoint, endpoint
from judges.errors import ConfigError, HandBack, JudgmentFailed
from judges.messages import ToolSchema, TurnReply, TurnRequest, UserMessage
from judges.pricing import find_price
from judges.providers.faults import Fault
from judges.providers.model import ModelProvider, open_model, open_wire
from judges.providers.retry import JUDGMENT_RETRIES
from judges.toolschemas import tool_schemas

Json = Any
State = Literal["ok", "note", "failed"]
ECHO: Final = "echo"
# A long request fills the context that a judge may use, up to this many tokens, with the check word at its front.
LONGEST_TOKENS: Final = 30_000
_TOKENS_A_LINE: Final = 3
_WORD: Final = "heliotrope-4719"
_TOOL: Final = ToolSchema(
    ECHO,
    "Give back the check word.",
    {
        "type": "object",
        "properties": {"word": {"type": "string"}},
        "required": ["word"],
        "additionalProperties": False,
    },
)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: `ok`, a `note` that is no obstacle, or `failed` with what to do."""

    name: str
    state: State
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """What was found; a judge can work where nothing failed."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return not any(check.state == "failed" for check in self.checks)


def probe(config: JudgeConfig, *, environ: Mapping[str, str] | None = None) -> Report:
    """Look at key, model, tools, context and price with a short call, and of a server of one's own a long one."""
    if not config.url:
        return Report((Check("provider", "ok", f"provider {config.provider} asks no model"),))
    known = os.environ if environ is None else environ
    checks = []
    for check in _checks(config, known):
        checks.append(check)
        if check.state == "failed":
            break
    return Report(tuple(checks))


def _checks(config: JudgeConfig, environ: Mapping[str, str]) -> Iterator[Check]:
    """Each check, the next one only where the one before was no failure."""
    try:
        place = endpoint(config.url, environ)
        yield Check(
            "settings", "ok", f"{place.origin} is allowed, {'with its key' if _has_key(place) else 'without a key'}"
        )
        yield _price(config, place, environ)
        yield _model(config, place)
        yield from _tools(open_model(config, environ), config)
    except ConfigError as error:
        yield Check("settings", "failed", str(error))


def _has_key(place: Endpoint) -> bool:
    return bool(place.key.get_secret_value())


def _price(config: JudgeConfig, place: Endpoint, environ: Mapping[str, str]) -> Check:
    price = find_price(url=place.url, host=place.host, model=config.model, environ=environ)
    if price is not None:
        return Check("price", "ok", f"price known from {price.source}")
    text = (
        f"the price of {config.model} at {place.host} is unknown: costs are shown as unknown, limits in dollars do not "
        "hold and limits in tokens do. A table of prices named by ASSAY_PRICES makes it known"
    )
    return Check("price", "note", text)


def _model(config: JudgeConfig, place: Endpoint) -> Check:
    """Whether the server lists the model; a server that has no list is asked for a turn all the same."""
    try:
        names = _names(open_wire(config, place).models(min(30.0, config.timeout_s)).body)
    except Fault as fault:
        if fault.reason == "provider_config" and ("HTTP 404" in fault.detail or "HTTP 405" in fault.detail):
            return Check("model", "note", f"{place.origin} has no list of models to compare with")
        return Check("server", "failed", _words(fault.reason, fault.detail, config))
    if config.model in names:
        return Check("model", "ok", f"{config.model} is among the {len(names)} models listed")
    close = difflib.get_close_matches(config.model, names, 3, 0.5) or names[:3]
    text = f"{config.model} is not among the {len(names)} models listed (near: {', '.join(close) or 'none'})"
    return Check("model", "note", f"{text}; some servers take other names too")


def _names(body: Json) -> list[str]:
    rows = body.get("data")
    return [str(row["id"]) for row in rows if isinstance(row, dict) and "id" in row] if isinstance(rows, list) else []


def _tools(model: ModelProvider, config: JudgeConfig) -> Iterator[Check]:
    """A short request with all tools; of a server of one's own, a long one too: some drop the front of a prompt."""
    own_server = config.provider == "openai_chat" and model.origin not in VENDOR_KEYS
    lines = min(config.limits.context_tokens, LONGEST_TOKENS) // _TOKENS_A_LINE
    for name, size in (("tools", 0), *([("context", lines)] if own_server else [])):
        model.retrier.retries = JUDGMENT_RETRIES - 1  # one is enough to look
        try:
            reply = model.complete(_request(size))
        except JudgmentFailed as failure:
            yield Check(name, "failed", _words(failure.reason, failure.detail, config))
            return
        except HandBack as wait:
            yield Check(name, "failed", f"the account is rate limited now, try again in {wait.seconds:.0f} s: {wait}")
            return
        yield _called(name, reply, model)


def _request(lines: int) -> TurnRequest:
    system = f"The check word is {_WORD}. Call the tool {ECHO} with the check word, and nothing else."
    filler = "\n".join(f"line {number}" for number in range(lines))
    text = f"Some lines that say nothing.\n{filler}\nNow call {ECHO} with the check word."
    return TurnRequest(system, (*tool_schemas(), _TOOL), (UserMessage((text,)),))


def _called(name: str, reply: TurnReply, model: ModelProvider) -> Check:
    """What the answer to a request for the check word shows."""
    if reply.stop == "refusal":
        return Check(name, "failed", f"the model refuses a harmless request: {reply.detail}")
    if reply.stop == "max_tokens":
        return Check(name, "failed", "the answer was cut off: raise max_output_tokens")
    call = next((call for call in reply.calls if call.name == ECHO), None)
    if call is None:
        said = f"it said {reply.text[:80]!r}" if not reply.calls else f"it called {reply.calls[0].name!r}"
        return Check(name, "failed", f"the model did not call the tool it was asked to call; {said}. {_NO_TOOLS}")
    if call.arguments is None:
        return Check(name, "failed", f"the model's tool call cannot be read: {call.error}. {_NO_TOOLS}")
    if _WORD not in str(call.arguments.get("word")):
        text = "the model did not know a word from the front of the prompt: the server drops what it has no room for. "
        return Check(name, "failed", text + "Raise its context length (Ollama: OLLAMA_CONTEXT_LENGTH; llama.cpp: -c)")
    return _working(name, reply, model)


def _working(name: str, reply: TurnReply, model: ModelProvider) -> Check:
    notes = [f"without {', '.join(sorted(model.without))}"] if model.without else []
    notes += ["the server counts no tokens: they are guessed, at most"] if model.guessed_usage else []
    size = f"{reply.usage.input} input tokens, answered by {reply.model or 'a model without a name'}"
    return Check(name, "note" if notes else "ok", "; ".join([f"the tool was called ({size})", *notes]))


_NO_TOOLS: Final = (
    "A judge works by tools: choose a model that can call them, and start vLLM with --enable-auto-tool-choice and "
    "--tool-call-parser, llama.cpp with --jinja"
)
_WAYS: Final = {
    "provider_quota": "the account has no money or quota left: ",
    "provider_rate_limited": "the account is rate limited now, try later: ",
    "context_exceeded": "the model's context is too small for a judge: ",
    "provider_outage": "no usable answer, is the server running and the base_url right? ",
    "invalid_response": "the answer is not in the format of this provider, is base_url right? ",
    "refused": "the provider refuses a harmless request: ",
}


def _words(reason: str, detail: str, config: JudgeConfig) -> str:
    hint = ""
    if "HTTP 404" in detail and config.base_url:
        hint = f" (base_url {config.url}: for anthropic it ends before /v1, for the others mostly with it)"
    return f"{_WAYS.get(reason, '')}{detail}{hint}"


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m judges.providers.probe", description="Check a judge's provider.")
    parser.add_argument("config", type=Path, help="judge config (TOML)")
    parser.add_argument("--json", action="store_true", help="one JSON object on standard output and nothing else")
    arguments = parser.parse_args(argv)
    try:
        report = probe(load_config(arguments.config))
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if arguments.json:
        print(orjson.dumps({"ok": report.ok, **asdict(report)}).decode())
    else:
        print("\n".join(f"{check.state:7}{check.name:10}{check.text}" for check in report.checks))
    return 0 if report.ok else 1


if __name__ == "__main__":
    sys.exit(main())
