"""What holds for every page."""

import re
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from auditapp.wsgi import application
from tests.addresses import addresses
from tests.auditapp.population import make_version
from tests.auditapp.test_pages import member

_OPEN = {"login", "healthz", "readyz"}


@pytest.mark.django_db
def test_every_page_but_the_login_asks_for_a_login() -> None:
    from django.conf import settings

    assert "django.contrib.auth.middleware.LoginRequiredMiddleware" in settings.MIDDLEWARE
    open_pages = {each.name for each in addresses() if not getattr(each.view, "login_required", True)}
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


CHARSETS = ["utf-16", "utf-16-le", "utf-7", "latin-1", "hex", "base64", "zlib", "idna", "undefined", "no-such", "\xff"]
FORMS = ["application/x-www-form-urlencoded", "multipart/form-data; boundary=XX", "application/json"]
PART = b'--XX\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n--XX--\r\n'


def examples() -> list[str]:
    """One address of every page, of things that need not exist."""
    samples = {"uuid": str(UUID(int=0)), "str": "x", "slug": "x", "int": "1", "path": "x"}
    found = [re.sub(r"<(\w+):\w+>", lambda kind: samples[kind[1]], each.route) for each in addresses()]
    assert len(found) > 40
    return [f"/{route}" for route in found]


@pytest.mark.django_db
@pytest.mark.parametrize(("form", "charset"), [*product(FORMS[:1], CHARSETS), *product(FORMS[1:], CHARSETS[:1])])
def test_text_in_another_charset_is_refused_on_every_page(
    form: str, charset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django.test.client.WSGIRequest", application.request_class)
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    for address in examples():
        for method in ("GET", "POST"):
            answer = client.generic(
                method, address, "a=é".encode("utf-16"), content_type=f"{form}; charset={charset}", QUERY_STRING="q=%ff"
            )
            assert answer.status_code == 400, (method, address)
            assert "cannot be read" in answer.content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize("form", [*FORMS, f"{FORMS[0]}; charset=UTF-8", "multipart/form-data", "", "é/é; é=é"])
@pytest.mark.parametrize(
    "body",
    [
        b"a=b",
        b"\xff\xfe=\xff",
        b"do=%00&name=%ff%fe&dataset=%ed%a0%80",
        "do=é".encode("utf-16"),
        PART % (b"dataset", b"\xff\xfe\x00"),
        PART % (b"\xff\x00", b"x"),
        PART % (b'upload"; filename="\xff\x00.zip', b"\x00"),
        PART.replace(b"\r\n\r\n", b"\r\nContent-Transfer-Encoding: base64\r\n\r\n") % (b"dataset", b"!"),
        b"a=b&" * 3_000,
    ],
)
def test_a_body_that_is_no_form_is_no_fault_of_ours(form: str, body: bytes) -> None:
    lead = member(make_version(), "lead")
    names = ("config-new", "import-new", "frame-freeze", "sample-new", "run-new", "drafts", "rule-not-run")
    pages = ["/login", "/password", "/import/", *(reverse(name, args=["release"]) for name in names)]
    for client in (lead, Client()):
        client.raise_request_exception = False
        for address in pages:
            answer = client.generic("POST", address, body, content_type=form)
            assert answer.status_code < 500, (address, answer.status_code)


@pytest.mark.django_db
def test_a_body_that_is_too_large_is_told_so(client: Client, settings: Any) -> None:
    settings.ASSAY_MAX_UPLOAD_BYTES = 1_000_000
    answer = client.post("/login", {"file": SimpleUploadedFile("a.zip", b"x" * 2_000_000)})
    assert "larger than the limit of 1 MB" in answer.content.decode()
