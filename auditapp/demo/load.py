"""The demo data set in the database: two logins, the trajectories, a census of them and a run of the rules judge.

Each part may be repeated; what is there already is left as it is.
"""

import json
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.contrib.auth.models import User

from auditapp.importers import ImportOptions
from auditapp.ingest import ingest_path, open_version
from auditapp.judging import create_judge_run, ensure_config
from auditapp.models.datasets import Dataset, DatasetVersion, Membership, Role
from auditapp.models.judgments import JudgeRun
from auditapp.models.sources import ImportBatch, ImportState
from auditapp.sampling import draw_sample, freeze_frame
from auditapp.stats.allocation import Plan
from judges.config import load_config

ARCHIVE = Path(__file__).with_name("demo.tar.gz")
DATASET = "demo"
SEED = 20261129
NOTE = (
    "Two scripted agents on small tasks, made for a first look: commands and verifiers really ran, and it is known "
    "which verdicts are wrong, because they were planted. No language model and no person took part: people's grades "
    "are a script's."
)
LOGINS = {"lead": Role.LEAD, "reviewer": Role.REVIEWER}
RULES = settings.BASE_DIR / "judges" / "rules.toml"
Say = Callable[[str], None]


def logins() -> dict[str, str]:
    """The demo's users with their passwords, made once and kept in a file only this account may read."""
    path = settings.ASSAY_HOME / "demo_logins.json"
    if not path.exists():
        made = {name: secrets.token_urlsafe(9) for name in LOGINS}
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            json.dump(made, file)
    kept: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    for name, password in kept.items():
        user, created = User.objects.get_or_create(username=name)
        if created:
            user.set_password(password)
            user.save()
    return kept


def prepare() -> dict[str, str]:
    """The dataset, empty, and the logins that may see it, so that the first page has something to say."""
    made = logins()
    version = open_version(DATASET, "1", options=ImportOptions(), by=None)
    Dataset.objects.filter(pk=version.dataset_id).update(note=NOTE)
    for name, role in LOGINS.items():
        user = User.objects.get(username=name)
        Membership.objects.get_or_create(dataset=version.dataset, user=user, defaults={"role": role})
    return made


def load(*, say: Say) -> JudgeRun:
    """Import the data, draw a census and plan the run of the rules judge."""
    version = _imported(say)
    sample = draw_sample(freeze_frame(version, by=None), Plan("census"), seed=SEED, by=None)
    config = ensure_config(load_config(RULES), by=None, source=RULES.read_text(encoding="utf-8"))
    return create_judge_run(sample, config, by=None)


def _imported(say: Say) -> DatasetVersion:
    options = ImportOptions()
    version = open_version(DATASET, "1", options=options, by=None)
    if version.imports.filter(state=ImportState.DONE).exists():
        return version

    def progress(batch: ImportBatch) -> None:
        say(f"Demo data: {batch.imported} trajectories imported")

    ingest_path(version, ARCHIVE, options=options, format_name="case", progress=progress)
    return version
