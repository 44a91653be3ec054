"""What commands refuse of their arguments: in one line, with exit 2, and before anything is done."""

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import BaseCommand, load_command_class

from auditapp.models.datasets import Dataset, DatasetVersion

pytestmark = pytest.mark.django_db


def refused(name: str, *arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What a command says last where it ends with exit 2, as on a terminal."""
    command: BaseCommand = load_command_class("auditapp", name)
    command._called_from_command_line = True
    with pytest.raises(SystemExit) as ended:
        wanted = vars(command.create_parser("manage.py", name).parse_args(arguments))
        command.execute(*wanted.pop("args", ()), **wanted)
    assert ended.value.code == 2
    return capsys.readouterr().err.strip().rpartition("\n")[2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["import_trajectories", "", "--dataset", "d"], "is empty"),
        (["import_trajectories", "x", "--dataset", "d", "--tasks", ""], "is empty"),
        (["import_trajectories", "x", "--dataset", "d", "--pass-threshold", "nan"], "no number to compare with"),
        (["import_trajectories", "x", "--dataset", "d", "--pass-threshold=-inf"], "no number to compare with"),
        (["import_labels", "", "--dataset", "d", "--kind", "human"], "is empty"),
        (["export_labels", "--dataset", "d", "--out", ""], "is empty"),
        (["export_bundle", "--dataset", "d", "--out", ""], "is empty"),
        (["verify_bundle", ""], "is empty"),
        (["verify_bundle", "x" * 300], "cannot be looked at: File name too long"),
        (["export_labels", "--dataset", "d", "--out", "x" * 300], "cannot be looked at: File name too long"),
        (["judge", "--dataset", "d", "--config", ""], "is empty"),
        (["judge", "--dataset", "d", "--config", "judges/rules.toml", "--sample-size", "0"], "give 1 or more"),
        (["judge", "--dataset", "d", "--config", "judges/rules.toml", "--threads", "0"], "give 1 or more"),
        (["serve", "--port", "99999"], "is no port"),
        (["demo", "--port", "0"], "is no port"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(
    arguments: Sequence[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refused(*arguments, capsys=capsys)
    assert not Dataset.objects.exists()


@pytest.mark.parametrize("name", ["export_labels", "export_bundle"])
def test_no_device_or_pipe_is_replaced_by_a_file(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe")
    said = refused(name, "--dataset", "d", "--out", str(tmp_path / "pipe"), capsys=capsys)
    assert "no regular file" in said
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("name", ["", "a\nb", "x" * 151])
def test_no_account_is_made_of_a_name_that_none_can_have(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Dataset.objects.create(name="d")
    assert "cannot be the name of an account" in refused("grant", name, "d", "lead", "--create", capsys=capsys)
    assert not User.objects.exists()


@pytest.mark.parametrize(
    "arguments", [["export_labels", "--out", "x.csv"], ["import_labels", "x.csv", "--kind", "human"]]
)
def test_a_version_that_is_not_there_is_named(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    DatasetVersion.objects.create(dataset=Dataset.objects.create(name="d"), name="1")
    said = refused(*arguments, "--dataset", "d", "--dataset-version", "2", capsys=capsys)
    assert "No dataset 'd' with version '2'" in said
