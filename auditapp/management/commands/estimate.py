"""Every number the pages show, as text or as one JSON object."""

import sys
import uuid
from argparse import ArgumentParser
from typing import Any

import orjson
from django.core.management.base import BaseCommand

from auditapp.estimation import first_rate, renew
from auditapp.management.commands.import_labels import newest_version
from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import JudgeConfig
from auditapp.models.samples import Sample

SHORTEST_DIGEST = 6
EXTENDED = "A round was extended: the intervals that hold all the same, which the pages show, are under anytime."


class Command(BaseCommand):
    """Exit 0 done, 2 unusable input."""

    help = "Estimate how often the verifier of a dataset is wrong, with intervals, from the labels there are."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dataset", required=True)
        parser.add_argument("--dataset-version", help="the newest when not given")
        parser.add_argument("--sample", help="id of a sample; that of the judge's newest run when not given")
        parser.add_argument("--config", help="digest of a judge, or its beginning; the newest run's when not given")
        parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")

    def handle(self, *_args: Any, **wanted: Any) -> None:
        try:
            version = version_named(wanted["dataset"], wanted["dataset_version"])
            sample = sample_named(version, wanted["sample"]) if wanted["sample"] else None
            config = config_named(wanted["config"]) if wanted["config"] else None
        except LookupError as error:
            self.stderr.write(str(error))
            sys.exit(2)
        try:
            found = renew(version, config=config, sample=sample).payload
        except OSError as error:
            self.stderr.write(f"The figures cannot be stored: {error.strerror}.")
            sys.exit(2)
        if wanted["json"]:
            self.stdout.write(orjson.dumps(found).decode())
            if any("rounds" in rate for rate in found["anytime"].values()):
                self.stderr.write(EXTENDED)
        else:
            self.stdout.write("\n".join(_lines(found)))


def version_named(dataset: str, name: str | None) -> DatasetVersion:
    """The named version, or the newest; LookupError says what there is not."""
    version = newest_version(dataset, name)
    if version is None:
        raise LookupError(f"No dataset {dataset!r}{f' with version {name!r}' if name else ''}: import it first.")
    return version


def sample_named(version: DatasetVersion, wanted: str) -> Sample:
    """The sample of this id; LookupError names those there are."""
    samples = Sample.objects.filter(frame__version=version).select_related("frame")
    try:
        return samples.get(public_id=uuid.UUID(wanted))
    except (ValueError, Sample.DoesNotExist):
        known = ", ".join(str(found) for found in samples.values_list("public_id", flat=True)[:10]) or "none"
        raise LookupError(f"{version} has no sample {wanted!r}. Known: {known}.") from None


def config_named(wanted: str) -> JudgeConfig:
    """The one judge whose digest begins so; LookupError where it is not one."""
    found = list(JudgeConfig.objects.filter(digest__startswith=wanted.lower())[:2])
    if len(wanted) < SHORTEST_DIGEST or len(found) != 1:
        raise LookupError(f"{len(found)} judges have a digest that begins with {wanted!r}; give more of it.")
    return found[0]


def _lines(found: dict[str, Any]) -> list[str]:
    """The two rates with what they rest on; the rest is in --json."""
    lines = [f"{found['dataset']} {found['dataset_version']}: {found['drawn']} of {found['population']} trajectories"]
    for key, name in (("false_pass", "False passes among passes"), ("false_fail", "False fails among fails")):
        rate = first_rate(found, key)
        if "insufficient" in rate:
            lines.append(f"{name}: not estimable, {rate['insufficient']}")
            continue
        interval = f"{rate['estimate']:.1%} ({rate['low']:.1%} to {rate['high']:.1%})"
        stopped = ", valid although a round was extended" if "rounds" in rate else ""
        lines.append(f"{name}: {interval}, n = {rate['n']}, {rate['missing']} missing, by {rate['labels']}{stopped}")
    return lines
