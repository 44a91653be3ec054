"""Who is let in can log in, or is said to be unable to."""

import io
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from auditapp.models.datasets import Dataset, Membership

pytestmark = pytest.mark.django_db


def grant(monkeypatch: pytest.MonkeyPatch, typed: str) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    options: dict[str, Any] = {"create": True, "stdout": out, "stderr": err}
    call_command("grant", "zoe", Dataset.objects.get_or_create(name="dev")[0].name, "lead", **options)
    return out.getvalue(), err.getvalue()


def test_an_account_without_a_password_is_said_to_be_unable_to_log_in_until_it_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out, err = grant(monkeypatch, "")
    assert "zoe is lead of" in out
    assert "zoe has no password and cannot log in: manage.py changepassword zoe" in err
    assert not Client().login(username="zoe", password="a long word")
    Membership.objects.all().delete()
    out, err = grant(monkeypatch, "a long word\n")
    assert err == ""
    assert Client().login(username="zoe", password="a long word")


def test_a_password_that_is_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    User.objects.create_user("zoe", password="a long word")
    assert grant(monkeypatch, "another one\n")[1] == ""
    assert Client().login(username="zoe", password="a long word")
