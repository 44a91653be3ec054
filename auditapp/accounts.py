"""Who asks: the session and the account that every request begins with, read by prepared queries."""

from datetime import datetime
from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.contrib.sessions.backends import db
from django.contrib.sessions.models import Session
from django.db.models import QuerySet
from django.utils import timezone

from auditapp.prepared import Prepared


def _sessions(key: str, now: datetime) -> QuerySet[Session]:
    return Session.objects.filter(session_key=key, expire_date__gt=now)


def _users(pk: int) -> QuerySet[User]:
    return User.objects.filter(pk=pk)


_SESSIONS, _USERS = Prepared(_sessions), Prepared(_users)


class SessionStore(db.SessionStore):
    """Sessions in the database."""

    def _validate_session_key(self, key: str | None) -> bool:
        """Keys are letters and digits; a cookie can say anything, and PostgreSQL is not asked for a NUL."""
        whole: Any = super()
        return key is not None and key.isascii() and key.isalnum() and bool(whole._validate_session_key(key))

    def _get_session_from_db(self) -> Session | None:
        found = _SESSIONS.first(key=self.session_key, now=timezone.now())
        if found is None:
            self._session_key = None
        return found


class Backend(ModelBackend):
    """Accounts with passwords."""

    def get_user(self, user_id: Any) -> User | None:
        """The account of a session; None for one that may not log in any more."""
        user = _USERS.first(pk=user_id)
        return user if user is not None and self.user_can_authenticate(user) else None
