"""Recompute sample and estimates from a bundle; needs no database."""

import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

import orjson
from django.core.management.base import BaseCommand

from auditapp.bundle import BundleError
from auditapp.bundle_check import verify
from auditapp.management.arguments import given_path


class Command(BaseCommand):
    """Exit 0 everything matches, 1 something does not, 2 no bundle."""

    help = "Check a bundle: sample and draws from digests and seeds, estimates from the labels in it."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=given_path, metavar="FILE")
        parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")

    def handle(self, *_args: Any, **wanted: Any) -> None:
        try:
            checks = verify(wanted["file"])
        except BundleError as error:
            self.stderr.write(str(error))
            sys.exit(2)
        ok = all(check.ok for check in checks)
        if wanted["json"]:
            self.stdout.write(orjson.dumps({"ok": ok, "checks": [asdict(check) for check in checks]}).decode())
        else:
            for check in checks:
                self.stdout.write(f"{'matches' if check.ok else 'DIFFERS'}  {check.name}: {check.detail}")
        if not ok:
            sys.exit(1)
