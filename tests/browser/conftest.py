"""A real browser on the real pages: signed in, watched for errors and for anything it fetches elsewhere."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import ConsoleMessage, Page

# Playwright's sync interface runs an event loop in this thread, which Django takes for an async context.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "1")

SignIn = Callable[[User], Page]


@pytest.fixture
def watched(page: Page, live_server: Any) -> Iterator[Page]:
    """A page that fails its test if a script breaks, the content policy is hit or another host is asked."""
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("console", lambda message: _note_error(message, trouble))
    page.on("request", lambda request: _note_foreign(request.url, live_server.url, trouble))
    yield page
    assert not trouble


def _note_error(message: ConsoleMessage, trouble: list[str]) -> None:
    if message.type == "error" and "status of 422" not in message.text:  # a form that was refused, as it should be
        trouble.append(message.text)


def _note_foreign(url: str, own: str, trouble: list[str]) -> None:
    if not url.startswith((own, "data:", "about:", "blob:")):
        trouble.append(f"asked another host: {url}")


@pytest.fixture
def sign_in(watched: Page, live_server: Any) -> SignIn:
    """Give the page the session of a user."""

    def as_user(user: User) -> Page:
        client = Client()
        client.force_login(user)
        value = client.cookies[settings.SESSION_COOKIE_NAME].value
        watched.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": value, "url": live_server.url}])
        return watched

    return as_user


def serious_violations(page: Page) -> list[str]:
    """What axe finds that is serious or critical, a line each."""
    found = Axe().run(page).response["violations"]
    serious = [item for item in found if item["impact"] in ("serious", "critical")]
    return [f"{item['id']}: {node['target']} {node['failureSummary']}" for item in serious for node in item["nodes"]]


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    width: int = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    return width
