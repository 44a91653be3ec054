"""What a file or folder is, by its content, with a reason people can check."""

import json
import os
import zipfile
from pathlib import Path

import pytest

from auditapp.importers.detect import Detection, detect
from auditapp.importers.options import ImportOptions

OPTIONS = ImportOptions()
TAU = {"task_id": 0, "reward": 1.0, "info": {}, "traj": [], "trial": 0}
ATIF = {"schema_version": "ATIF-v1.6", "agent": {"name": "a", "version": "1"}, "steps": []}
HARBOR = {"id": "1", "task_name": "t", "trial_name": "t__1", "verifier_result": None}


def found(path: Path, text: str) -> Detection:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return detect(path, OPTIONS)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("any.json", [TAU, TAU], "tau_bench"),
        ("any.json", TAU, "tau_bench"),
        ("any.jsonl", TAU, "tau_bench"),
        ("trajectory.json", ATIF, "atif"),
        ("result.json", HARBOR, "harbor"),
        ("case.json", {"task_id": "x"}, "case"),
        ("x.traj", {"trajectory": [], "history": [], "info": {}}, "swe_agent"),
        ("x.json", {"trajectory": [], "info": {}}, "swe_agent"),
        ("log.json", {"version": 2, "status": "success", "eval": {}}, "inspect"),
    ],
)
def test_a_file_is_known_by_its_keys(tmp_path: Path, name: str, value: object, expected: str) -> None:
    detection = found(tmp_path / name, json.dumps(value))
    assert detection.format == expected
    assert name in detection.reason


def test_the_name_alone_decides_nothing(tmp_path: Path) -> None:
    assert found(tmp_path / "result.json", '{"a": 1}').format is None
    assert found(tmp_path / "trajectory.json", json.dumps([TAU])).format == "tau_bench"


def test_a_broken_file_is_still_known_so_that_its_reader_can_say_what_is_wrong(tmp_path: Path) -> None:
    assert found(tmp_path / "r.json", json.dumps([TAU])[:-20]).format == "tau_bench"
    assert found(tmp_path / "t.json", "\ufeff" + json.dumps(ATIF)[:-3] + ' "x": NaN').format == "atif"


def test_a_mapping_file_decides_for_rows(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n')
    options = ImportOptions(mapping=tmp_path / "m.toml")
    assert detect(tmp_path / "rows.jsonl", options).format == "jsonl"
    assert detect(tmp_path, options).format == "jsonl"


def test_what_fits_nothing_says_what_was_looked_for_and_what_is_there(tmp_path: Path) -> None:
    detection = found(tmp_path / "x.json", '{"question": 1, "answer": 2}')
    assert detection.format is None
    assert "keys question, answer" in detection.reason
    assert "Looked for: case.json; result.json" in detection.reason


@pytest.mark.parametrize(
    ("body", "words"), [(b"", "empty"), (b"\0" * 600, "NUL"), (b"hello \xff", "start with 'hello"), (b"[" * 9000, "[[")]
)
def test_files_without_json_are_described(tmp_path: Path, body: bytes, words: str) -> None:
    (tmp_path / "x.json").write_bytes(body)
    detection = detect(tmp_path / "x.json", OPTIONS)
    assert detection.format is None
    assert words in detection.reason


def test_a_number_of_thousands_of_digits_does_not_end_the_look(tmp_path: Path) -> None:
    detection = found(tmp_path / "x.jsonl", '{"question": 1, "answer": ' + "9" * 6000 + "}\n")
    assert detection.format is None
    assert "keys question" in detection.reason
    row = json.dumps(TAU)[:-1] + ', "seed": ' + "9" * 6000 + "}"
    assert found(tmp_path / "tau.jsonl", row).format == "tau_bench"


def test_where_not_all_of_a_folder_is_looked_at_its_numbers_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        found(tmp_path / "text" / f"{number}.txt", "x")
        found(tmp_path / "cases" / str(number) / "case.json", "{}")
    assert "only the first" not in detect(tmp_path / "text", OPTIONS).reason
    monkeypatch.setattr("auditapp.importers.detect._LISTED", 3)
    for folder, kind in (("text", None), ("cases", "case")):
        detection = detect(tmp_path / folder, OPTIONS)
        assert detection.format == kind
        assert detection.reason.endswith("(only the first 3 entries were looked at)")


def test_labels_are_sent_to_the_command_for_labels(tmp_path: Path) -> None:
    row = {"benchmark": "b", "agent": "a", "task_id": "t", "judge_run": "r", "judge_model": "m", "status": "success"}
    detection = found(tmp_path / "j.jsonl", json.dumps(row))
    assert detection.format is None
    assert "import_labels --kind judge" in detection.reason


def test_folders_are_known_by_what_is_in_them(tmp_path: Path) -> None:
    found(tmp_path / "harbor/job/t__1/result.json", json.dumps(HARBOR))
    found(tmp_path / "harbor/job/t__1/agent/trajectory.json", json.dumps(ATIF))
    found(tmp_path / "atif/deep/trajectory.json", json.dumps(ATIF))
    found(tmp_path / "tau/results.json", json.dumps([TAU]))
    found(tmp_path / "case/one/case.json", "{}")
    for name in ("harbor", "atif", "tau", "case"):
        detection = detect(tmp_path / name, OPTIONS)
        assert (detection.format or "").startswith(name), detection
    assert "job/t__1/result.json" in detect(tmp_path / "harbor", OPTIONS).reason


def test_a_trial_that_never_finished_is_known_by_its_folders(tmp_path: Path) -> None:
    found(tmp_path / "job/t__1/config.json", "{}")
    found(tmp_path / "job/t__1/agent/log.txt", "")
    assert detect(tmp_path, OPTIONS).format == "harbor"


def test_a_mixed_folder_names_the_other_formats(tmp_path: Path) -> None:
    for name, value in (("a.json", [TAU]), ("b.json", [TAU]), ("c.json", ATIF)):
        found(tmp_path / name, json.dumps(value))
    detection = detect(tmp_path, OPTIONS)
    assert detection.format == "tau_bench"
    assert "other files look like atif" in detection.reason


def test_a_folder_without_anything_known_is_counted(tmp_path: Path) -> None:
    assert "no files" in detect(tmp_path, OPTIONS).reason
    found(tmp_path / "a/readme.md", "hello")
    found(tmp_path / "a/other.md", "hello")
    detection = detect(tmp_path, OPTIONS)
    assert detection.format is None
    assert "2 files (2 .md)" in detection.reason


def test_links_lead_nowhere(tmp_path: Path) -> None:
    found(tmp_path / "elsewhere/results.json", json.dumps([TAU]))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/results.json").symlink_to(tmp_path / "elsewhere/results.json")
    (tmp_path / "folder/more").symlink_to(tmp_path / "elsewhere")
    assert detect(tmp_path / "folder", OPTIONS).format is None


def test_archives_fifos_and_nothing_at_all_are_told_apart(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("results.json", json.dumps([TAU]))
    os.mkfifo(tmp_path / "fifo.json")
    assert "zip archive" in detect(tmp_path / "a.zip", OPTIONS).reason
    assert "not a regular file" in detect(tmp_path / "fifo.json", OPTIONS).reason
    assert "cannot be opened" in detect(tmp_path / "missing.json", OPTIONS).reason


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("harbor_tb2", "harbor"),
        ("atif", "atif"),
        ("tau_bench", "tau_bench"),
        ("agentrewardbench_dev", "jsonl"),
        ("agentrewardbench_dev/rollouts.jsonl", "jsonl"),
        ("other/tb_airline_taubench.json", "tau_bench"),
        ("inspect", "inspect"),
        ("inspect/browser.json", "inspect"),
        ("inspect/ais_decoder_chunked.eval", "inspect"),
        ("other/swe_agent", "swe_agent"),
    ],
)
def test_real_releases_are_known(shared_data: Path, path: str, expected: str) -> None:
    assert detect(shared_data / path, OPTIONS).format == expected
