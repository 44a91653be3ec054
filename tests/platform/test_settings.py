"""What the environment decides, and what happens when it says nothing."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
_INHERITED = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}


def settings_with(tmp_path: Path, *names: str, **environment: str) -> dict[str, Any]:
    """Read settings in a process of its own, with this environment and no other."""
    read = f"[getattr(settings, name) for name in {names}]"
    script = f"import json; from django.conf import settings; print(json.dumps({read}, default=str))"
    done = run(script, tmp_path, **environment)
    assert done.returncode == 0, done.stderr
    return dict(zip(names, json.loads(done.stdout), strict=True))


def run(script: str, home: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    return python(["-c", script], home, **environment)


def python(arguments: Sequence[str], home: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    variables = {**_INHERITED, "ASSAY_HOME": str(home), "DJANGO_SETTINGS_MODULE": "auditapp.settings", **environment}
    command = [sys.executable, *arguments]
    return subprocess.run(command, check=False, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60)


def test_with_nothing_set_the_product_is_local_and_safe(tmp_path: Path) -> None:
    found = settings_with(
        tmp_path,
        "DEBUG",
        "ALLOWED_HOSTS",
        "DATABASES",
        "CELERY_BROKER_URL",
        "ASSAY_IMPORT_ROOTS",
        "SESSION_COOKIE_SECURE",
    )
    assert found["DEBUG"] is False
    assert set(found["ALLOWED_HOSTS"]) == {"localhost", "127.0.0.1", "[::1]"}
    assert found["DATABASES"]["default"]["NAME"] == str(tmp_path / "db.sqlite3")
    assert found["DATABASES"]["default"]["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert found["CELERY_BROKER_URL"] == f"redis+socket://{tmp_path}/broker.sock"
    assert found["ASSAY_IMPORT_ROOTS"] == []
    assert found["SESSION_COOKIE_SECURE"] is False


@pytest.mark.parametrize("url", ["postgres://x@127.0.0.1:1/x", ""])
def test_a_command_says_in_a_line_that_the_database_cannot_be_used(tmp_path: Path, url: str) -> None:
    others = {"DATABASE_URL": url, "SECRET_KEY": "x"} if url else {}  # else a new one, without tables
    done = python(["manage.py", "estimate", "--dataset", "release"], tmp_path, **others)
    assert (done.returncode, done.stdout) == (2, "")
    assert "The database cannot be used: " in done.stderr
    assert "manage.py migrate" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.db  # so that it runs where there is one
def test_a_postgres_database_without_tables_is_told_in_a_line_too(tmp_path: Path) -> None:
    url = os.environ.get("DATABASE_URL", "")  # the tables of tests are in another one beside it
    if not url.startswith("postgres"):
        pytest.skip("needs --db postgres")
    done = python(["manage.py", "estimate", "--dataset", "release"], tmp_path, DATABASE_URL=url, SECRET_KEY="x")
    assert (done.returncode, done.stdout) == (2, "")
    assert "The database cannot be used: " in done.stderr
    assert "Traceback" not in done.stderr


def test_the_secret_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    first = settings_with(tmp_path, "SECRET_KEY")["SECRET_KEY"]
    assert len(first) >= 50
    assert settings_with(tmp_path, "SECRET_KEY")["SECRET_KEY"] == first
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o600
    assert settings_with(tmp_path / "other", "SECRET_KEY")["SECRET_KEY"] != first
    assert stat.S_IMODE((tmp_path / "other").stat().st_mode) == 0o700


def test_secrets_come_from_files_too(tmp_path: Path) -> None:
    files = {"SECRET_KEY": "from a file", "DATABASE_PASSWORD": "p@ss/word", "REDIS_URL": "redis://:pw@broker:6379/1"}
    for name, content in files.items():
        (tmp_path / name).write_text(content + "\n")
    found = settings_with(
        tmp_path,
        *("SECRET_KEY", "DATABASES", "CELERY_BROKER_URL", "CACHES"),
        DATABASE_URL="postgres://assay@db:5432/assay",
        **{f"{name}_FILE": str(tmp_path / name) for name in files},
    )
    assert found["SECRET_KEY"] == "from a file"
    assert found["DATABASES"]["default"]["PASSWORD"] == "p@ss/word"
    assert found["DATABASES"]["default"]["HOST"] == "db"
    assert found["CELERY_BROKER_URL"] == files["REDIS_URL"]
    assert found["CACHES"]["default"]["LOCATION"] == files["REDIS_URL"]


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ({"SECRET_KEY_FILE": "/nowhere/key"}, "SECRET_KEY_FILE names /nowhere/key, which cannot be read"),
        ({"DATABASE_URL": "postgres://assay@db/assay"}, "Set SECRET_KEY or SECRET_KEY_FILE"),
    ],
)
def test_what_is_missing_is_named(tmp_path: Path, environment: dict[str, str], complaint: str) -> None:
    done = run("from django.conf import settings; settings.DEBUG", tmp_path, **environment)
    assert done.returncode != 0
    assert complaint in done.stderr


def test_a_folder_of_sockets_names_a_database(tmp_path: Path) -> None:
    url = "postgres://me@%2Frun%2Fpostgresql/assay"
    found = settings_with(tmp_path, "DATABASES", DATABASE_URL=url, SECRET_KEY="x")
    assert found["DATABASES"]["default"]["HOST"] == "/run/postgresql"


def test_tls_makes_cookies_secure_and_leaves_health_checks_plain(tmp_path: Path) -> None:
    found = settings_with(
        tmp_path,
        *("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SECURE_HSTS_SECONDS", "SECURE_REDIRECT_EXEMPT"),
        ASSAY_TLS="1",
    )
    assert found["SESSION_COOKIE_SECURE"] is True
    assert found["CSRF_COOKIE_SECURE"] is True
    assert found["SECURE_HSTS_SECONDS"] > 0
    assert "^healthz$" in found["SECURE_REDIRECT_EXEMPT"]


def test_a_socket_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    home = tmp_path / ("x" * 120)
    socket = Path(settings_with(home, "EMBEDDED_BROKER_SOCKET")["EMBEDDED_BROKER_SOCKET"])
    try:
        os.chown(socket.parent, 65534, 65534)
        done = run("from django.conf import settings; settings.DEBUG", home)
        assert "belongs to somebody else. Set ASSAY_HOME to a shorter path." in done.stderr
    finally:
        socket.parent.rmdir()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ASSAY_HOME", "/dev/null", "Set ASSAY_HOME to a folder that may be written to."),
        ("DATABASE_URL", "release", "DATABASE_URL is no address of PostgreSQL"),
        ("DATABASE_URL", "oracle://x:secret@y/z", "DATABASE_URL is no address of PostgreSQL"),
        ("DATABASE_URL", "postgres://x:99999999/y", "DATABASE_URL is no address of PostgreSQL"),
        ("ASSAY_JUDGE_THREADS", "many", "ASSAY_JUDGE_THREADS is no whole number from 1."),
        ("ASSAY_MAX_UPLOAD_BYTES", "0", "ASSAY_MAX_UPLOAD_BYTES is no whole number from 1."),
        ("LOG_LEVEL", "loud", "LOG_LEVEL is none of"),
    ],
)
def test_a_setting_that_cannot_be_used_ends_a_command_with_a_line(
    tmp_path: Path, name: str, value: str, words: str
) -> None:
    done = python(["manage.py", "estimate", "--dataset", "release"], **{"home": tmp_path} | {name: value})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("The settings cannot be used: ")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert "secret" not in done.stderr


def test_logs_are_json_on_stderr_and_leave_stdout_alone(tmp_path: Path) -> None:
    script = "import django; django.setup(); import structlog; structlog.get_logger('auditapp.x').info('hi', n=1)"
    done = run(script, tmp_path)
    assert done.stdout == ""
    line = json.loads(done.stderr)
    assert (line["event"], line["n"], line["level"], line["logger"]) == ("hi", 1, "info", "auditapp.x")
