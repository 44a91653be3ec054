"""The servers that tests run on are real."""

import os

import pytest
import redis
from django.conf import settings
from django.db import connection


@pytest.mark.django_db
def test_database_is_the_one_asked_for(pytestconfig: pytest.Config) -> None:
    wanted = {"sqlite": "sqlite", "postgres": "postgresql"}[pytestconfig.getoption("db")]
    with connection.cursor() as cursor:
        cursor.execute("select sqlite_version()" if wanted == "sqlite" else "show server_version")
        version = cursor.fetchone()[0]
    assert connection.vendor == wanted
    assert int(version.split(".")[0]) >= {"sqlite": 3, "postgresql": 14}[wanted]


def test_broker_answers() -> None:
    assert redis.from_url(settings.REDIS_URL).ping() is True


def test_no_api_key_reaches_the_tests() -> None:
    assert not {"ANTHROPIC_API_KEY", "OPENAI_API_KEY"} & set(os.environ)
