"""Import trajectories from files, folders and archives."""

import logging
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import orjson
from django.core.management.base import BaseCommand
from django.db.models import QuerySet

from auditapp.importers import FORMATS, ImportOptions
from auditapp.ingest import ImportRefusedError, discard_unused, ingest_path, open_version
from auditapp.ingest_writer import ImportReport
from auditapp.management.arguments import finite, given_path
from auditapp.models.datasets import DatasetVersion
from auditapp.models.sources import ImportBatch


class Command(BaseCommand):
    """Exit 0 done, 1 done with failures listed, 2 unusable input."""

    help = (
        "Import trajectories: Harbor jobs, ATIF, tau-bench, case folders, JSON Lines; or a zip or tar of any of them."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("paths", nargs="+", type=given_path, metavar="PATH")
        parser.add_argument("--dataset", required=True)
        parser.add_argument("--dataset-version", default="1")
        parser.add_argument("--tasks", type=given_path, help="folder of task folders (instruction, tests, solution)")
        parser.add_argument("--format", default="auto", choices=["auto", *FORMATS])
        parser.add_argument(
            "--mapping", type=given_path, help="TOML file that says which field is what, or a shipped one by name"
        )
        parser.add_argument("--pass-threshold", type=finite, default=1.0)
        parser.add_argument("--partial-as", choices=["fail", "exclude"], default="exclude")
        parser.add_argument("--verifier", help="name of the reward or scorer to use where there are several")
        parser.add_argument("--environment", help="environment of all trajectories, instead of what the format says")
        parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")

    def handle(self, *_args: Any, **wanted: Any) -> None:
        logging.disable(logging.INFO)  # what it would say is in the report
        options = ImportOptions(
            tasks=wanted["tasks"],
            pass_threshold=wanted["pass_threshold"],
            partial_as=wanted["partial_as"],
            verifier=wanted["verifier"],
            environment=wanted["environment"],
            mapping=wanted["mapping"],
        )
        total = ImportReport(wanted["dataset"])
        try:
            _require(wanted["tasks"])
            is_new = not _versions(wanted).exists()
            version = open_version(wanted["dataset"], wanted["dataset_version"], options=options, by=None)
        except ImportRefusedError as error:
            self.stderr.write(str(error))
            if wanted["json"]:
                self.stdout.write(orjson.dumps({"error": str(error)}).decode())
            sys.exit(2)
        refused = [not self._one(path, version, options, wanted, total) for path in wanted["paths"]]
        self._print(total, as_json=wanted["json"])
        if all(refused):
            if is_new:
                discard_unused(version)
            sys.exit(2)
        if not version.dataset.members.exists():
            name = version.dataset.name
            self.stderr.write(f"Nobody can open {name} in the browser yet: manage.py grant USER {name} lead")
        sys.exit(1 if total.failed else 0)

    def _one(
        self, path: Path, version: DatasetVersion, options: ImportOptions, wanted: dict[str, Any], total: ImportReport
    ) -> bool:
        """Import one path and add what it did to the total; False when the path as a whole was unusable."""
        try:
            _, report = ingest_path(
                version, path, options=options, format_name=wanted["format"], progress=self._progress
            )
        except ImportRefusedError as error:
            self.stderr.write(f"{path}: {error}")
            total.failed.append({"path": str(path), "reason": str(error)})
            return False
        total.add(report)
        return report.found > len(report.failed)

    def _progress(self, batch: ImportBatch) -> None:
        if self.stderr.isatty():
            self.stderr.write(f"\r{batch.found} found, {batch.imported} imported", ending="")

    def _print(self, total: ImportReport, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(orjson.dumps(total.to_json()).decode())
            return
        self.stdout.write(f"{total.found} found, {total.imported} imported, {total.duplicates} duplicates")
        self.stdout.write("verifier: " + ", ".join(f"{count} {name}" for name, count in total.verifier.items()))
        for code, count in sorted(total.warnings.items()):
            self.stdout.write(f"warning {code}: {count}")
        for failure in total.failed:
            self.stderr.write(f"failed {failure['path']}: {failure['reason']}")


def _versions(wanted: dict[str, Any]) -> QuerySet[DatasetVersion]:
    return DatasetVersion.objects.filter(dataset__name=wanted["dataset"], name=wanted["dataset_version"])


def _require(path: Path | None) -> None:
    if path is not None and not path.exists():
        raise ImportRefusedError(f"{path} does not exist.")
