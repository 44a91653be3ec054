"""Write every label of a dataset to a file."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from auditapp import exports
from auditapp.heldout import left_out
from auditapp.management.arguments import out_path
from auditapp.management.commands.import_labels import newest_version


class Command(BaseCommand):
    """Exit 0 done, 2 unusable input."""

    help = "Export every label of a dataset, one row a label, evidence included (it can quote the hidden reference)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dataset", required=True)
        parser.add_argument("--dataset-version", help="the newest when not given")
        parser.add_argument("--out", required=True, type=out_path)
        parser.add_argument("--format", default="csv", choices=["csv", "jsonl", "parquet"])
        parser.add_argument("--with-held-out", action="store_true", help="labels of held-out tasks, too")

    def handle(self, *_args: Any, **wanted: Any) -> None:
        version = newest_version(wanted["dataset"], wanted["dataset_version"])
        if version is None:
            named = f" with version {wanted['dataset_version']!r}" if wanted["dataset_version"] else ""
            self.stderr.write(f"No dataset {wanted['dataset']!r}{named}: import it first.")
            sys.exit(2)
        try:
            exports.write_file(version, wanted["out"], kind=wanted["format"], with_held_out=wanted["with_held_out"])
        except OSError as error:
            self.stderr.write(f"{wanted['out']} cannot be written: {error.strerror}.")
            sys.exit(2)
        missing = left_out(version)
        if missing.labels and not wanted["with_held_out"]:
            self.stderr.write(
                f"Left out: {missing.labels:,} labels of {missing.tasks:,} tasks that are held out from training; "
                "--with-held-out writes them, too."
            )
