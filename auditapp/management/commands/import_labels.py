"""Import labels made elsewhere."""

import sys
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

import orjson
from django.core.management.base import BaseCommand

from auditapp.ingest_labels import import_labels
from auditapp.management.arguments import given_path
from auditapp.models.datasets import DatasetVersion


class Command(BaseCommand):
    """Exit 0 done, 1 done with failures listed, 2 unusable input."""

    help = "Import human or judge labels made elsewhere, keyed by the source_id of trajectories already imported."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=given_path, metavar="FILE")
        parser.add_argument("--dataset", required=True)
        parser.add_argument("--dataset-version", help="the newest when not given")
        parser.add_argument("--kind", required=True, choices=["human", "judge"])
        parser.add_argument(
            "--mapping", type=given_path, help="TOML file that says which field is what, or a shipped one by name"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")

    def handle(self, *_args: Any, **wanted: Any) -> None:
        version = newest_version(wanted["dataset"], wanted["dataset_version"])
        if version is None or not wanted["file"].is_file():
            named = f" with version {wanted['dataset_version']!r}" if wanted["dataset_version"] else ""
            dataset = f"dataset {wanted['dataset']!r}{named}: import it first"
            self.stderr.write(f"No {dataset if version is None else 'file ' + str(wanted['file'])}.")
            sys.exit(2)
        report = import_labels(version, wanted["file"], kind=wanted["kind"], mapping=wanted["mapping"], by=None)
        if wanted["json"]:
            self.stdout.write(orjson.dumps(asdict(report)).decode())
        else:
            self.stdout.write(f"{report.found} found, {report.imported} imported, {report.duplicates} duplicates")
            for code, count in report.warnings.items():
                self.stdout.write(f"warning {code}: {count}")
            for failure in report.failed:
                self.stderr.write(f"failed {failure['path']}: {failure['reason']}")
        if report.failed:
            sys.exit(1 if report.imported or report.duplicates else 2)


def newest_version(dataset: str, name: str | None) -> DatasetVersion | None:
    """The named version of a dataset, or its newest; None where there is none."""
    versions = DatasetVersion.objects.filter(dataset__name=dataset)
    if name:
        versions = versions.filter(name=name)
    return versions.select_related("dataset").order_by("-id").first()
