"""What the three wire formats share: clients that trust nothing of the environment, sending, reading hostile JSON."""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Annotated, Any, Final, Protocol, TypeVar

import httpx2
import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from judges.endpoints import Endpoint
from judges.messages import AssistantMessage, Message, ToolMessage, TurnReply, TurnRequest
from judges.providers import faults
from judges.providers.faults import Concession, Fault

Json = Any
CONNECT_S: Final = 10.0
# All that a request may carry: neither telemetry of a library nor headers that an environment variable adds.
_HEADERS: Final = frozenset(
    (
        *("host", "accept", "accept-encoding", "connection", "user-agent", "content-type", "content-length"),
        *("transfer-encoding", "authorization", "x-api-key", "anthropic-version"),
        "x-stainless-raw-response",  # how the libraries themselves remember to hand out the response unparsed
    )
)
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_INT64: Final = 2**63
T = TypeVar("T", bound="Shape")


# What a server says it counted: a number that could be one, so that none can undo a budget.
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]


class Shape(BaseModel):
    """A part of a response as we read it; what else is there is ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True)


@dataclass(frozen=True, slots=True)
class Answer:
    """A response that is a JSON object."""

    body: Mapping[str, Json]
    request_id: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A turn as read. `long_writes` are cache writes kept for an hour; `counted` is False where usage is our guess."""

    reply: TurnReply
    long_writes: int = 0
    counted: bool = True


class Wire(Protocol):
    """One wire format: builds a request from neutral messages, sends it, reads the answer."""

    @property
    def name(self) -> str:
        """The format, as stored with what the model said."""
        ...

    def body(self, request: TurnRequest, without: frozenset[Concession]) -> dict[str, Json]:
        """The arguments of the call."""
        ...

    def send(self, body: Mapping[str, Json], timeout_s: float) -> Answer:
        """One attempt; raises Fault."""
        ...

    def read(self, answer: Answer, request: TurnRequest) -> Reading:
        """The turn in an answer; raises Fault where there is none."""
        ...

    def models(self, timeout_s: float) -> Answer:
        """The list of models that the server offers; raises Fault."""
        ...


@dataclass(frozen=True, slots=True)
class Settings:
    """What a format is used with: a place, a model, and how it is to answer."""

    endpoint: Endpoint
    model: str
    effort: str
    max_output_tokens: Count


# --- clients


def timeout(seconds: float) -> httpx2.Timeout:
    """The time a call may take, of which connecting may take a little."""
    return httpx2.Timeout(seconds, connect=min(seconds, CONNECT_S))


def http_client(sdk: ModuleType, endpoint: Endpoint) -> Any:
    """The HTTP client of an SDK: no proxies or certificates from the environment, no redirects, known headers only."""

    def only_ours(request: httpx2.Request) -> None:
        for name in [name for name in request.headers if name.lower() not in _HEADERS]:
            del request.headers[name]
        key = endpoint.key.get_secret_value()
        for name, value in (("authorization", f"Bearer {key}"), ("x-api-key", key)):
            if name in request.headers:
                del request.headers[name]
                request.headers.update({name: value} if key else {})

    return sdk.DefaultHttpxClient(trust_env=False, follow_redirects=False, event_hooks={"request": [only_ours]})


@lru_cache(maxsize=32)
def _client(make: Callable[[Endpoint], Any], endpoint: Endpoint, _process: int) -> Any:
    return make(endpoint)


def shared_client(make: Callable[[Endpoint], Any], endpoint: Endpoint) -> Any:
    """One client per place, key and process: connections are kept, and none is shared across a fork."""
    return _client(make, endpoint, os.getpid())


def send(sdk: ModuleType, call: Callable[[], Any], endpoint: Endpoint) -> Answer:
    """Make one call through an SDK; whatever it raises becomes a Fault without the key in it.

    Callers hand their request over as `extra_body`: it is sent as it was built, and the SDK does not walk through a
    long history to convert it, which took up to 25 ms of a call.
    """
    try:
        response = call().http_response
    except sdk.APITimeoutError:  # a kind of connection error, so it comes first
        raise Fault("provider_outage", f"no answer from {endpoint.host} in time") from None
    except sdk.APIConnectionError as error:
        unsent = isinstance(error.__cause__, httpx2.ConnectError)
        raise Fault("provider_outage", _connection(error, endpoint), is_free=unsent) from None
    except sdk.APIStatusError as error:
        found = error.response
        body, headers = _lenient(_clean(found, endpoint)), _headers(found, endpoint)
        raise faults.from_response(found.status_code, body, headers) from None
    except (sdk.APIError, httpx2.HTTPError) as error:
        raise Fault("provider_outage", f"{type(error).__name__} from {endpoint.host}") from None
    return _answer(response, endpoint)


def _answer(response: httpx2.Response, endpoint: Endpoint) -> Answer:
    """Some servers put an error into a response that says it is fine."""
    headers = _headers(response, endpoint)
    request_id = faults.request_id(headers)
    body = _lenient(_clean(response, endpoint))
    if not isinstance(body, Mapping):
        raise Fault("invalid_response", f"no JSON object but: {str(body)[:200]!r}", request_id=request_id)
    if _is_deep(body):
        raise Fault("invalid_response", "nested too deeply to be stored", request_id=request_id)
    error = body.get("error")
    if error and not any(body.get(part) for part in ("choices", "content", "output")):
        code = error.get("code") if isinstance(error, Mapping) else None
        raise faults.from_response(code if isinstance(code, int) else 200, body, headers)
    return Answer(body, request_id)


def _is_deep(body: Json) -> bool:
    try:
        orjson.dumps(body)
    except TypeError:
        return True
    return False


def _clean(response: httpx2.Response, endpoint: Endpoint) -> bytes:
    """The body; a server that repeats the key does not get it into our records."""
    key = endpoint.key.get_secret_value().encode()
    content: bytes = response.content
    return content.replace(key, b"[key]") if key else content


def _headers(response: httpx2.Response, endpoint: Endpoint) -> dict[str, str]:
    """The headers, names in lower case, without the key."""
    key = endpoint.key.get_secret_value()
    return {name: value.replace(key, "[key]") if key else value for name, value in response.headers.items()}


def _connection(error: Exception, endpoint: Endpoint) -> str:
    cause = error.__cause__
    return f"no connection with {endpoint.origin}: {type(cause).__name__ if cause else ''} {cause or error}"


def _lenient(content: bytes) -> Json:
    """JSON as plain as it can be stored, else text."""
    try:
        return orjson.loads(content)
    except ValueError:
        pass
    try:
        return plain(json.loads(content))  # lone surrogates and numbers that only Python reads
    except (ValueError, RecursionError):
        return content[:4_000].decode("utf-8", "replace")


# --- reading


def read(shape: type[T], answer: Answer) -> T:
    """An answer in a known shape; Fault (invalid_response) where it has another."""
    try:
        return shape.model_validate(answer.body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Fault("invalid_response", f"{where}: {first['msg']}", request_id=answer.request_id) from None


def arguments(raw: Json) -> tuple[Mapping[str, Json] | None, str]:
    """Tool arguments as an object, or None and why not; text is parsed by us, never repaired."""
    try:
        given = orjson.loads(raw or "{}") if isinstance(raw, str) else raw
        orjson.dumps(given)  # what is nested deeper than this writes could not be stored
    except ValueError as error:
        return None, f"arguments are not valid JSON: {error}"
    except TypeError:
        return None, "arguments are nested too deeply"
    return (given, "") if isinstance(given, dict) else (None, "arguments must be a JSON object")


def plain(value: Json) -> Json:
    """JSON that UTF-8 and 64-bit integers can hold; the rest becomes text."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {plain(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, int) and not -_INT64 <= value < _INT64 else value


# --- sizes


def input_bound(request: TurnRequest) -> int:
    """Input tokens that a request can come to at most, taking two bytes a token for what was not counted yet."""
    counted, later = 0, list(request.messages)
    for index, message in enumerate(request.messages):
        if isinstance(message, AssistantMessage) and (known := counted_tokens(message)):
            counted, later = known, list(request.messages[index + 1 :])
    fixed = 0 if counted else len(request.system.encode()) + sum(len(str(tool.parameters)) for tool in request.tools)
    return counted + (fixed + sum(map(size, later))) // 2


def counted_tokens(message: AssistantMessage) -> int:
    """All tokens of the call that gave this message, 0 where the server did not say."""
    tokens = message.native.get("tokens") if isinstance(message.native, Mapping) else 0
    return tokens if isinstance(tokens, int) else 0


def size(message: Message) -> int:
    """Bytes of a message's text."""
    return sum(len(text.encode("utf-8", "replace")) for text in texts(message))


def texts(message: Message) -> Sequence[str]:
    """The texts of a message."""
    if isinstance(message, AssistantMessage):
        return (message.text, *(f"{call.name} {call.arguments}" for call in message.calls))
    return [result.text for result in message.results] if isinstance(message, ToolMessage) else message.blocks


def native_of(message: AssistantMessage, wire: str, part: str) -> Json:
    """What a format stored with a message, None where another format did."""
    native = message.native
    return native.get(part) if isinstance(native, Mapping) and native.get("wire") == wire else None


def encoded(given: Mapping[str, Json] | None) -> str:
    """Tool arguments as a history may hold them; what was no JSON object is an empty one."""
    return orjson.dumps(dict(given or {})).decode()


def sent_name(name: str) -> str:
    """A tool's name as a history may hold it: a model can make up names that a service refuses for ever after."""
    return _NOT_IN_NAMES.sub("_", name)[:64] or "unnamed"
