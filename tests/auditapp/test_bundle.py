"""A bundle is recomputed without a database, whatever was altered in it is found, and hostile files are refused."""

import io
import shutil
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import orjson
import pytest
from django.core.management import call_command
from django.db import connection

from auditapp import bundle as bundle_module
from auditapp import rounds
from auditapp.bundle import BundleError, write_bundle
from auditapp.bundle_check import verify
from auditapp.models.datasets import DatasetVersion
from auditapp.models.labels import ImportedLabel
from auditapp.models.reviews import Slot
from auditapp.sampling import draw_sample, freeze_frame
from auditapp.stats.allocation import Plan
from tests.auditapp.looks import make_run
from tests.auditapp.population import make_version
from tests.auditapp.round_world import NOW, make_people, make_release, make_round, work_off
from tests.auditapp.test_estimate import grade

KEEP = tuple[str, bytes]


@pytest.fixture
def version(db: None) -> DatasetVersion:
    """A judged census with a released and extended round, a label made elsewhere, and a source id like a formula."""
    made = make_release(tasks=4)
    made.trajectories.get(source__source_id="t0-0").source.__class__.objects.filter(source_id="t0-0").update(
        source_id="=t0-0"
    )
    people = make_people(made, "anna", "bob")
    drawn = make_round(made, people, size=14)
    rounds.extend_round(drawn, size=6, by=None)

    def decide(slot: Slot, _user: Any) -> str:
        return "not_satisfied" if slot.item.number % 4 == 0 else "satisfied"

    assert work_off(drawn, people, decide)
    rounds.close_round(drawn, by=None, now=NOW)
    rounds.release_round(drawn, by=None, now=NOW)
    graded = set(drawn.items.values_list("trajectory", flat=True))
    left = made.trajectories.exclude(pk__in=graded).exclude(source__source_id="=t0-0").select_related("source")
    earlier, later = (row.source.source_id for row in left[:2])
    grade(made, {earlier: "no"}, labeler="earlier")
    ImportedLabel.objects.update(created_at=drawn.created_at - timedelta(hours=1))
    grade(made, {later: "no"}, labeler="later")
    return made


@pytest.fixture
def bundle(version: DatasetVersion, tmp_path: Path) -> Path:
    path = tmp_path / "bundle.zip"
    write_bundle(version, path)
    return path


def changed(bundle: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """The same bundle with files changed and digests as they were."""
    path = bundle.with_name("changed.zip")
    with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return path


def failing(path: Path) -> set[str]:
    return {check.name for check in verify(path) if not check.ok}


def test_everything_is_recomputed_and_matches(bundle: Path, django_db_blocker: Any) -> None:
    with django_db_blocker.block():
        checks = verify(bundle)
    assert [check for check in checks if not check.ok] == []
    names = {check.name for check in checks}
    assert {"frame digest", "sample", "draw of round 1", "draw of round 1, extension 1", "estimate corrected"} <= names
    with zipfile.ZipFile(bundle) as archive:
        reported = orjson.loads(archive.read("estimates.json"))
    assert reported["human_only"]["false_pass"]["method"].startswith("people by the cell")
    assert reported["false_pass"]["labels"] == "judge corrected by people"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("after", ["_current", "observe", "_units"])
def test_labels_that_come_while_it_is_written_are_in_all_of_it_or_in_nothing(
    after: str, version: DatasetVersion, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = getattr(bundle_module, after)

    def meanwhile(*args: Any, **options: Any) -> Any:
        made = step(*args, **options)
        made = made if after != "_units" else list(made)
        elsewhere = Thread(target=grade_all)
        elsewhere.start()
        elsewhere.join()
        return made

    def grade_all() -> None:
        everything = version.trajectories.values_list("source__source_id", flat=True)
        grade(version, dict.fromkeys(everything, "no"), labeler="meanwhile")
        connection.close()

    monkeypatch.setattr(bundle_module, after, meanwhile)
    write_bundle(version, tmp_path / "b.zip")
    assert failing(tmp_path / "b.zip") == set()
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        assert (b"meanwhile" in archive.read("labels.csv")) == (after == "_current")
    monkeypatch.undo()
    grade(version, {"t1-0": "yes"}, labeler="afterwards")  # what can be written is as before


def test_a_part_of_a_frame_is_recomputed_too(db: None, tmp_path: Path) -> None:
    version = make_release(tasks=3)
    frame = freeze_frame(version, by=None)
    draw_sample(frame, Plan("proportional", 10), seed=5, by=None)
    sample = draw_sample(frame, Plan("proportional", 10), seed=2**63 - 1, by=None)
    run = make_run(version)
    run.sample = sample
    run.save()
    about = write_bundle(version, tmp_path / "b.zip")
    assert about["sample"]["draw"] == 2
    assert failing(tmp_path / "b.zip") == set()


@pytest.mark.parametrize(
    ("file", "old", "new", "found"),
    [
        ("labels.csv", b"not_satisfied,none,no", b"satisfied,none,yes", {"files", "estimate false_pass"}),
        (
            "estimates.json",
            b'"false_pass":{"estimate":0.',
            b'"false_pass":{"estimate":0.9',
            {"files", "estimate false_pass"},
        ),
        ("bundle.json", b'"seed": "7"', b'"seed": "8"', {"draw of round 1"}),
        ("bundle.json", b'"size": 32', b'"size": 31', {"sample"}),
        ("frame.json", b'"version":"1"', b'"version":"2"', {"files", "frame digest"}),
        ("units.csv", b"1.0,1.0", b"0.5,2.0", {"files", "inclusion probabilities"}),
        ("units.csv", b",before ", b",", {"files", "cells"}),
        ("units.csv", b",later ", b",before ", {"files", "estimate note"}),
        ("units.csv", b",yes,", b",no,", {"files", "cells"}),
    ],
)
def test_what_was_altered_is_found(bundle: Path, file: str, old: bytes, new: bytes, found: set[str]) -> None:
    def alter(name: str, data: bytes) -> bytes:
        if name != file:
            return data
        assert old in data, data[:3000]
        return data.replace(old, new)

    assert found <= failing(changed(bundle, alter))


def test_another_seed_would_have_drawn_another_part(db: None, tmp_path: Path) -> None:
    version = make_release(tasks=3)
    sample = draw_sample(freeze_frame(version, by=None), Plan("proportional", 10), seed=5, by=None)
    run = make_run(version)
    run.sample = sample
    run.save()
    write_bundle(version, tmp_path / "b.zip")
    other = changed(
        tmp_path / "b.zip", lambda n, d: d.replace(b'"seed": "5"', b'"seed": "6"') if n == "bundle.json" else d
    )
    assert failing(other) == {"sample"}


def _zip(*files: tuple[str, bytes], packed: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packed) as archive:
        for name, content in files:
            archive.writestr(name, content)
    return buffer.getvalue()


ABOUT = b'{"schema": "assay.bundle/1"}'


@pytest.mark.parametrize(
    "content",
    [
        b"no zip at all",
        _zip(),
        _zip(("bundle.json", b"[1]")),
        _zip(("bundle.json", b"{")),
        _zip(("bundle.json", ABOUT)),
        _zip(("bundle.json", ABOUT), ("../outside.json", b"{}")),
        _zip(("bundle.json", ABOUT), ("/etc/passwd", b"{}")),
        _zip(("bundle.json", ABOUT), ("rounds/../../x.json", b"{}")),
        _zip(("bundle.json", b'{"schema":"assay.bundle/1","files":[]}'), ("frame.json", b"[]")),
        _zip(("bundle.json", b"[" * 100_000 + b"]" * 100_000)),
        _zip(*((f"rounds/{number:064x}.json", b"{}") for number in range(1001))),
        _zip(("bundle.json", ABOUT), packed=zipfile.ZIP_LZMA),
        _zip(("bundle.json", ABOUT), packed=zipfile.ZIP_LZMA).replace(b"]\x00\x00\x80\x00", b"\xff" * 5),
        _zip(("bundle.json", ABOUT), ("fr\xe4me.json", b"[]")).replace("\xe4".encode(), b"\xe4\xe4"),
    ],
)
def test_what_is_no_bundle_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    with pytest.raises(BundleError):
        verify(path)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.zip"
    path.write_bytes(_zip(("bundle.json", ABOUT), ("labels.csv", b"0" * 5_000_000)))
    monkeypatch.setattr("auditapp.bundle_check.LARGEST", 1_000_000)
    with pytest.raises(BundleError, match="would take more"):
        verify(path)


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("bundle.json", lambda d: d.replace(b'"seed": "0"', b'"seed": "-1"')),
        ("bundle.json", lambda d: d.replace(b'"seed": "0"', b'"seed": null')),
        ("bundle.json", lambda d: d.replace(b'"method": "census"', b'"method": "nothing"')),
        ("units.csv", lambda d: d.replace(b"source_id,", b"another,", 1)),
        ("units.csv", lambda d: d + b"short,line\r\n"),
        ("frame.json", lambda d: d.replace(b'"strata":[', b'"strata":[7,', 1)),
        ("labels.csv", lambda d: d[: len(d) // 2] + b"\xff\xfe"),
    ],
)
def test_a_malformed_bundle_is_refused_with_a_reason(bundle: Path, file: str, change: Callable[[bytes], bytes]) -> None:
    with pytest.raises(BundleError):
        verify(changed(bundle, lambda name, data: change(data) if name == file else data))


def run(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command(*arguments, stdout=out, stderr=err)
    except SystemExit as end:
        return int(str(end.code)), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def test_the_commands_say_what_matches_and_end_with_it(version: DatasetVersion, tmp_path: Path) -> None:
    path = tmp_path / "b.zip"
    code, out, err = run("export_bundle", "--dataset", version.dataset.name, "--out", str(path))
    assert (code, err) == (0, "")
    assert freeze_frame(version, by=None).digest in out
    code, out, err = run("verify_bundle", str(path), "--json")
    assert (code, err, orjson.loads(out)["ok"]) == (0, "", True)
    worse = changed(
        path, lambda n, d: d.replace(b"satisfied,none,yes", b"not_satisfied,none,no") if n == "labels.csv" else d
    )
    code, out, _ = run("verify_bundle", str(worse))
    assert code == 1
    assert "DIFFERS  files: altered or missing: labels.csv" in out
    assert run("verify_bundle", str(tmp_path / "absent.zip"))[0] == 2
    assert run("export_bundle", "--dataset", "absent", "--out", str(path))[0] == 2
    assert run("export_bundle", "--dataset", version.dataset.name, "--out", str(tmp_path / "no" / "b.zip"))[0] == 2


def test_without_a_sample_there_is_nothing_to_recompute(db: None, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no sample"):
        write_bundle(make_version(), tmp_path / "b.zip")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_what_was_there(version: DatasetVersion, bundle: Path, monkeypatch: Any) -> None:
    before = bundle.read_bytes()
    monkeypatch.setattr("auditapp.bundle.csv_lines", lambda _rows: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_bundle(version, bundle)
    assert bundle.read_bytes() == before
    assert [path.name for path in bundle.parent.iterdir()] == [bundle.name]
    shutil.rmtree(bundle.parent)
