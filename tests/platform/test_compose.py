"""What docker-compose.yml starts, started as plain processes on a real PostgreSQL and a real Redis-protocol broker.

No image is built here: the commands, the environment by file and the health checks are those of the file.
"""

import os
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from django.conf import settings
from django.db import connection

from tests.platform.conftest import ROOT, Product, wait_until

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service.get("image") == "assay"}
IMAGE_COMMAND: list[str] = yaml.safe_load((ROOT / "Dockerfile").read_text().split("\nCMD ")[1])


def test_every_service_that_stays_has_a_health_check_or_says_why_not() -> None:
    unchecked = {name for name, service in SERVICES.items() if "healthcheck" not in service}
    assert unchecked == {"migrate", "beat"}


def test_our_services_give_up_their_rights_and_get_secrets_by_file() -> None:
    assert OURS
    for service in OURS.values():
        assert service["cap_drop"] == ["ALL"]
        assert service["read_only"] is True
        assert "no-new-privileges:true" in service["security_opt"]
        assert {"SECRET_KEY_FILE", "DATABASE_PASSWORD_FILE"} <= set(service["environment"])
        assert not {"SECRET_KEY", "DATABASE_PASSWORD"} & set(service["environment"])
    assert "\nUSER 10001\n" in (ROOT / "Dockerfile").read_text()


def test_queues_of_the_workers_are_those_of_the_settings() -> None:
    commands = [service.get("command", []) for service in OURS.values()]
    queues = {queue for words in commands if "-Q" in words for queue in words[words.index("-Q") + 1].split(",")}
    routed = {route["queue"] for route in settings.CELERY_TASK_ROUTES.values()}
    assert queues == routed | {settings.CELERY_TASK_DEFAULT_QUEUE}


class Stack:
    """The services of the file as processes, with the addresses of the test servers put in."""

    def __init__(self, product: Product, database: str) -> None:
        self.product = product
        password, key = product.home / "password", product.home / "key"
        password.write_text("any")
        key.write_text("from a file")
        product.environment |= {
            **{name: str(value) for name, value in OURS["web"]["environment"].items() if "$" not in str(value)},
            "DATABASE_URL": database,
            "DATABASE_PASSWORD_FILE": str(password),
            "SECRET_KEY_FILE": str(key),
            "REDIS_URL": settings.REDIS_URL,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def command(self, name: str) -> list[str]:
        words = OURS[name].get("command", IMAGE_COMMAND)
        port = f"127.0.0.1:{self.product.port}"
        return [word.replace("0.0.0.0:8000", port).replace("/tmp", str(self.product.home)) for word in words]

    def start(self, name: str) -> None:
        with (self.product.home / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                self.command(name), cwd=ROOT, env=self.product.environment, stdout=log, stderr=log
            )

    def healthy(self, name: str) -> bool:
        kind, *words = OURS[name]["healthcheck"]["test"]
        if kind == "CMD-SHELL":
            host = os.uname().nodename
            words = shlex.split(words[0].replace("$$HOSTNAME", host))
        words = [word.replace("127.0.0.1:8000", f"127.0.0.1:{self.product.port}") for word in words]
        return self.product.run(*words).returncode == 0


@pytest.fixture
def stack(product: Product, db: None) -> Iterator[Stack]:
    if connection.vendor != "postgresql":
        pytest.skip("production is PostgreSQL: runs with --db postgres")
    server = os.environ["DATABASE_URL"]
    name = f"compose_{secrets.token_hex(4)}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"create database {name}")
    stack = Stack(product, server.rsplit("/", 1)[0] + "/" + name)
    yield stack
    for process in stack.processes.values():
        process.kill()
        process.wait(10)
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"drop database {name} with (force)")


def test_the_services_start_turn_healthy_do_work_and_stop(stack: Stack) -> None:
    migrated = stack.product.run(*stack.command("migrate"))
    assert migrated.returncode == 0, migrated.stderr
    for name in ("web", "judge-worker", "cpu-worker", "beat"):
        stack.start(name)
    for name in ("web", "judge-worker", "cpu-worker"):
        wait_until(lambda name=name: stack.healthy(name), f"health of {name}")
    stack.product.enqueue("judge_slowly", "j")
    stack.product.enqueue("compute_slowly", "c")
    wait_until(lambda: stack.product.lines("starts") == ["c", "j"], "both tasks started")
    (stack.product.home / "go").touch()
    wait_until(lambda: stack.product.lines("ends") == ["c", "j"], "both tasks done")
    began = time.monotonic()
    for process in stack.processes.values():
        process.terminate()
    codes = {name: process.wait(30) for name, process in stack.processes.items()}
    assert codes == dict.fromkeys(codes, 0)
    assert time.monotonic() - began < 30
