"""A reviewer as a script over HTTP: signs in by a session, takes items, answers them, and tries again when cut off."""

import http.client
import json
import re
import uuid
from contextlib import closing
from dataclasses import dataclass, field
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

CITED = [{"kind": "step", "target": "2", "part": "message", "item": 1, "line_start": 1, "line_end": 1, "quote": "done"}]
CSRF = "a" * 32


@dataclass
class Reviewer:
    """Connects anew for each question, as a browser does whose user reads for longer than a server keeps a connection.

    `graded` are the slots whose submit was answered, `refused` the pages that said to try again in a moment.
    """

    user: User
    port: int
    graded: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        client = Client()
        client.force_login(self.user)
        session = client.cookies[settings.SESSION_COOKIE_NAME].value
        self.cookie = f"{settings.SESSION_COOKIE_NAME}={session}; {settings.CSRF_COOKIE_NAME}={CSRF}"

    def ask(self, method: str, path: str, form: dict[str, str] | None = None, **headers: str) -> tuple[int, str, str]:
        """Status, body and where it points to; raises OSError or HTTPException where the server or what is behind it is
        gone."""
        sent = {"Cookie": self.cookie, "X-CSRFToken": CSRF, "Connection": "close", **headers}
        if form is not None:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request(method, path, urlencode(form or {}), sent)
            answer = connection.getresponse()
            body = answer.read().decode()
            if answer.status == 503:
                self.refused.append(body)
                raise ConnectionError(f"try again in {answer.headers['Retry-After']} s")
            return answer.status, body, answer.headers.get("Location", "")

    def claim(self, round_id: uuid.UUID) -> str | None:
        """Address of the item that this reviewer holds now; None at the end of the queue."""
        status, _, place = self.ask("GET", f"/review/{round_id}/next/")
        return place if status == 302 and place.startswith("/review/slots/") else None

    def open(self, address: str) -> None:
        status, _, _ = self.ask("GET", address)
        assert status == 200, (address, status)

    def submit(self, address: str, token: str) -> str:
        """Answer the item; returns the page of the next one."""
        form = {"token": token, "decision": "satisfied", "integrity": "none", "evidence": json.dumps(CITED)}
        status, body, _ = self.ask("POST", f"{address}submit/", form, **{"HX-Request": "true"})
        assert status == 200, (status, body[:300])
        self.graded.append(address)
        return body


def next_address(body: str) -> str | None:
    """The item in the answer to a submit; None where there was no further one."""
    found = re.search(r'action="(/review/slots/[0-9a-f-]+/)submit/"', body)
    return found[1] if found else None
