"""What holds for every page."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

_OPEN = {"login", "healthz", "readyz"}


def routes(patterns: list[URLPattern | URLResolver], prefix: str = "") -> list[tuple[str, URLPattern]]:
    found = []
    for each in patterns:
        route = prefix + str(each.pattern)
        found += routes(each.url_patterns, route) if isinstance(each, URLResolver) else [(route, each)]
    return found


@pytest.mark.django_db
def test_every_page_but_the_login_asks_for_a_login() -> None:
    from django.conf import settings

    assert "django.contrib.auth.middleware.LoginRequiredMiddleware" in settings.MIDDLEWARE
    open_pages = {
        pattern.name
        for _route, pattern in routes(get_resolver().url_patterns)
        if not getattr(pattern.callback, "login_required", True)
    }
    assert open_pages <= _OPEN


def test_the_content_policy_allows_nothing_inline_and_nothing_from_elsewhere(client: Client) -> None:
    policy = client.get("/healthz").headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy


@pytest.mark.django_db
def test_a_body_over_the_limit_is_refused(client: Client, settings: Any) -> None:
    settings.ASSAY_MAX_UPLOAD_BYTES = 10_000
    small = client.post("/login", {"file": SimpleUploadedFile("a.zip", b"x" * 1_000)})
    large = client.post("/login", {"file": SimpleUploadedFile("a.zip", b"x" * 20_000)})
    assert small.status_code == 200
    assert large.status_code in {400, 413}
