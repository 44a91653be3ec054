"""A session lasts as long as it says, for an account that may log in."""

from datetime import timedelta

import pytest
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from auditapp.accounts import SessionStore

pytestmark = pytest.mark.django_db


@pytest.fixture
def user() -> User:
    return User.objects.create_user("ana", password="a long word")


@pytest.fixture
def client(user: User) -> Client:
    client = Client()
    assert client.login(username="ana", password="a long word")
    return client


def is_in(client: Client) -> bool:
    answer = client.get("/")
    return answer.status_code == 200 and answer.context["user"].is_authenticated


def test_a_login_is_known_on_the_next_page(client: Client, user: User) -> None:
    assert client.get("/").context["user"] == user
    client.post("/logout")
    assert not is_in(client)


def test_a_session_that_ran_out_or_was_deleted_is_none(client: Client) -> None:
    assert is_in(client)
    Session.objects.update(expire_date=timezone.now() - timedelta(seconds=1))
    assert not is_in(client)
    Session.objects.update(expire_date=timezone.now() + timedelta(days=1))
    client.cookies[settings.SESSION_COOKIE_NAME] = "x" * 32
    assert not is_in(client)


@pytest.mark.parametrize("key", ["abcdefgh\0ijk", "abcdefgh'--", "ünïcödëkey", "x" * 5000, "short", ""])
def test_a_cookie_that_holds_no_key_is_no_session(client: Client, key: str) -> None:
    client.cookies[settings.SESSION_COOKIE_NAME] = key
    assert client.get("/").status_code == 302
    assert SessionStore(key).load() == {}


def test_a_session_of_an_account_or_a_way_in_that_is_gone_leads_to_the_login(client: Client, user: User) -> None:
    session = client.session
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session.save()
    assert client.get("/").status_code == 302
    assert client.login(username="ana", password="a long word")
    user.delete()
    assert client.get("/").status_code == 302


def test_an_account_that_was_closed_or_got_another_password_is_out(client: Client, user: User) -> None:
    user.is_active = False
    user.save()
    assert not is_in(client)
    user.is_active = True
    user.save()
    assert is_in(client)
    user.set_password("another long word")
    user.save()
    assert not is_in(client)


def test_a_wrong_password_logs_nobody_in(user: User) -> None:
    assert not Client().login(username="ana", password="a wrong word")
    assert not Client().login(username="nobody", password="a long word")


def test_a_press_after_the_session_ended_leads_over_the_login_to_a_page_that_says_so(user: User) -> None:
    client, button = Client(), reverse("frame-freeze", args=["mine"])
    asked = client.post(button)
    told = client.post(asked["Location"], {"username": "ana", "password": "a long word"}, follow=True)
    assert told.redirect_chain == [(button, 302)]
    assert (told.status_code, told["Allow"]) == (405, "POST")
    assert "nothing was done: go back to its page and press it again" in told.text
    assert client.put(button).content == b""
