"""A loopback provider that speaks Messages, Responses and Chat Completions to the real libraries.

A session is a script of its own under its own address, so tests share a server and no state:
`http://127.0.0.1:PORT/s/<session>` for Messages, with `/v1` after it for the other two.
"""

import contextlib
import itertools
import json
import socket
import struct
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.fakes import formats, rules
from tests.fakes.cache import PrefixCache
from tests.fakes.steps import Answers, Step, error

Json = Any
_ids = itertools.count(1)
ROUTES = ("messages", "responses", "chat/completions")


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    route: str
    headers: dict[str, str]
    body: Json
    raw: bytes


@dataclass
class Session:
    """One script. After its end every request is an error, unless the last step repeats."""

    name: str
    address: str
    steps: Sequence[Answers]
    repeat: bool = False
    key: str = ""
    models: Sequence[str] | None = ("fake-judge",)
    cache: PrefixCache = field(default_factory=PrefixCache)
    seen: list[Seen] = field(default_factory=list)
    used: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, provider: str) -> str:
        """The base URL for a provider of a judge config."""
        return self.address if provider == "anthropic" else f"{self.address}/v1"

    @property
    def origin(self) -> str:
        return self.address.split("/s/")[0]

    def next(self, body: Json) -> Step:
        with self.lock:
            index, self.used = self.used, self.used + 1
        if index >= len(self.steps) and not (self.repeat and self.steps):
            return error(500, "the script has ended")
        step = self.steps[min(index, len(self.steps) - 1)]
        return step(body) if callable(step) else step


class FakeProvider:
    """The server; use it as a context."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        handler = type("BoundHandler", (_Handler,), {"provider": self})
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.http.shutdown()
        self.http.server_close()

    def session(self, *steps: Answers, **more: Any) -> Session:
        name = f"t{next(_ids)}"
        self.sessions[name] = Session(name, f"{self.origin}/s/{name}", steps, **more)
        return self.sessions[name]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    provider: FakeProvider

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        session, route = self._place()
        if session is None or route != "models" or session.models is None:
            return self._send(404, {"error": {"type": "not_found_error", "message": "no such page"}})
        if session.key and not self._authorised(session):
            return self._send(401, formats.error_body("messages", error(401, "invalid x-api-key")))
        models = [
            {"id": name, "type": "model", "object": "model", "created": 0, "owned_by": "x"} for name in session.models
        ]
        return self._send(200, {"object": "list", "data": models, "has_more": False})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        session, route = self._place()
        if session is None or route not in ROUTES:
            return self._send(404, {"error": {"type": "not_found_error", "message": self.path}})
        body = json.loads(raw)
        session.seen.append(Seen(route, {k.lower(): v for k, v in self.headers.items()}, body, raw))
        if session.key and not self._authorised(session):
            return self._send(401, formats.error_body(route, error(401, "invalid x-api-key")))
        if why := rules.problem(route, body):
            return self._send(400, formats.error_body(route, error(400, why)))
        return self._play(session, route, session.next(body), body)

    def _play(self, session: Session, route: str, step: Step, body: Json) -> None:
        time.sleep(step.hang_s)
        if step.disconnect:
            return self._reset()
        if step.body is not None:
            return self._send(step.status, step.body, step.headers)
        if step.status != 200:
            return self._send(step.status, formats.error_body(route, step), step.headers)
        return self._send(200, formats.answer(route, step, body, session.cache), step.headers)

    def _place(self) -> tuple[Session | None, str]:
        parts = self.path.split("?")[0].strip("/").split("/")
        session = self.provider.sessions.get(parts[1]) if len(parts) > 2 and parts[0] == "s" else None
        return session, "/".join(parts[2:]).removeprefix("v1/")

    def _authorised(self, session: Session) -> bool:
        given = (self.headers.get("authorization", ""), self.headers.get("x-api-key", ""))
        return given[0] == f"Bearer {session.key}" or given[1] == session.key

    def _send(self, status: int, body: Json, headers: dict[str, str] | None = None) -> None:
        kind = "text/html" if isinstance(body, str) else "application/json"
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        number = f"req_fake_{next(_ids):06d}"
        own = {"content-type": kind, "content-length": str(len(data)), "request-id": number, "x-request-id": number}
        with contextlib.suppress(OSError):  # the other side may have gone
            self.send_response(status)
            for name, value in {**own, **(headers or {})}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

    def _reset(self) -> None:
        """Close without a goodbye."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()
