"""Web server and workers on one machine."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.checks import Tags
from django.core.management.base import BaseCommand

from auditapp import supervisor
from auditapp.management.arguments import port


class Command(BaseCommand):
    """Run everything on this machine until Ctrl-C."""

    help = "Run web server, workers and, unless REDIS_URL is set, the broker, on this machine, until Ctrl-C."

    requires_system_checks = (Tags.files,)  # the others import every page, which only the web server needs

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=port, default=8000, help="port on 127.0.0.1 (default 8000)")

    def handle(self, *_args: Any, **options: Any) -> None:
        sys.exit(supervisor.run(port=options["port"], say=self._say))

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
