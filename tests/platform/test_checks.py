"""The start-up checks find what is wrong, say what to do, and are quiet otherwise."""

from pathlib import Path
from typing import Any

import pytest

from auditapp import checks


def test_a_sound_machine_has_nothing_to_report() -> None:
    assert checks.data_folder_is_writable() == []
    assert checks.import_roots_exist() == []
    assert checks.broker_answers() == []


def test_a_missing_data_folder_or_root_is_named(settings: Any, tmp_path: Path) -> None:
    settings.ASSAY_HOME = tmp_path / "gone"
    settings.ASSAY_IMPORT_ROOTS = [tmp_path, tmp_path / "typo"]
    (error,) = checks.data_folder_is_writable()
    (warning,) = checks.import_roots_exist()
    assert str(tmp_path / "gone") in error.msg
    assert "ASSAY_HOME" in error.hint
    assert str(tmp_path / "typo") in warning.msg


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "unix:///nowhere/socket", "nonsense"])
def test_a_broker_that_does_not_answer_is_an_error(settings: Any, url: str) -> None:
    settings.REDIS_URL = url
    (error,) = checks.broker_answers()
    assert "does not answer" in error.msg
