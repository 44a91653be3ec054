"""Everything a third party needs to recompute sample and estimates, as one file."""

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from auditapp.bundle import BundleError, write_bundle
from auditapp.management.arguments import out_path
from auditapp.management.commands.estimate import config_named, sample_named, version_named


class Command(BaseCommand):
    """Exit 0 done, 2 unusable input."""

    help = "Write frame, sample, labels, draws of rounds and estimates to a zip that verify_bundle checks."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dataset", required=True)
        parser.add_argument("--dataset-version", help="the newest when not given")
        parser.add_argument("--sample", help="id of a sample; that of the judge's newest run when not given")
        parser.add_argument("--config", help="digest of a judge, or its beginning; the newest run's when not given")
        parser.add_argument("--out", required=True, type=out_path, metavar="FILE")

    def handle(self, *_args: Any, **wanted: Any) -> None:
        try:
            version = version_named(wanted["dataset"], wanted["dataset_version"])
            sample = sample_named(version, wanted["sample"]) if wanted["sample"] else None
            config = config_named(wanted["config"]) if wanted["config"] else None
            about = write_bundle(version, wanted["out"], config=config, sample=sample)
        except (LookupError, BundleError) as error:
            self.stderr.write(str(error))
            sys.exit(2)
        except OSError as error:
            self.stderr.write(f"{wanted['out']} cannot be written: {error.strerror or error}")
            sys.exit(2)
        self.stdout.write(f"{wanted['out']}: frame {about['frame_digest']}, seed {about['sample']['seed']}")
