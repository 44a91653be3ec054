"""Imports into the database: idempotent, contained, whole or not at all."""

import errno
import json
import os
import shutil
import time
import zipfile
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import IntegrityError
from django.db.models import F
from django.utils import timezone

from auditapp import blobs, ingest, ingest_writer, ledger, supervisor, tasks
from auditapp.importers import ImportOptions
from auditapp.ingest import ImportRefusedError, create_batch, ingest_path, open_version, run_import
from auditapp.ingest_writer import BatchWriter, ImportReport
from auditapp.ledger import worker_name
from auditapp.models.datasets import Dataset, DatasetVersion, Environment, Membership, Task, Trajectory
from auditapp.models.events import AuditEvent
from auditapp.models.sources import ImportBatch, ImportNotice, ImportState, TrajectorySource
from auditapp.processes import held_folder
from judges.records import TaskRecord, TrajectoryRecord, Usage, VerifierRecord

pytestmark = pytest.mark.django_db


def write_case(folder: Path, *, reward: float = 1.0, text: str = "done", task: str = "sum", **extra: str) -> Path:
    """A case folder with one step; `extra` adds files by path, with / written as __."""
    status = "pass" if reward >= 1 else "fail"
    about = {"task_id": task, "environment": "env", "agent": "a", "model": "m", "attempt": 1}
    steps = [{"step_id": 1, "source": "agent", "message": text}]
    document = {"schema_version": "ATIF-v1.7", "agent": {"name": "a", "version": "1"}, "steps": steps}
    files = {
        "case.json": json.dumps({**about, "verifier": {"status": status, "reward": reward}}),
        "instruction.md": "Add the numbers.",
        "trajectory.json": json.dumps(document),
        "deliverable/out.txt": text,
        **{name.replace("__", "/"): content for name, content in extra.items()},
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return folder


def version(name: str = "d", **options: Any) -> DatasetVersion:
    return open_version(name, "1", options=ImportOptions(**options), by=None)


def load(path: Path, target: DatasetVersion | None = None) -> dict[str, Any]:
    _, report = ingest_path(target or version(), path, options=ImportOptions())
    return report.to_json()


def test_a_case_becomes_a_trajectory_with_its_hidden_half_apart(tmp_path: Path) -> None:
    report = load(write_case(tmp_path / "one"))
    assert (report["found"], report["imported"], report["failed"]) == (1, 1, [])
    trajectory = Trajectory.objects.select_related("source", "task").get()
    assert trajectory.steps_blob
    assert trajectory.deliverable_tree
    assert trajectory.n_steps == 1
    assert blobs.BlobSteps(trajectory.steps_blob).read(0).message == "done"
    assert blobs.BlobTree(trajectory.deliverable_tree).read("out.txt") == b"done"
    assert (trajectory.source.verifier_status, trajectory.source.reward) == ("pass", 1.0)
    assert trajectory.task.instruction_blob
    assert blobs.get_text(trajectory.task.instruction_blob) == "Add the numbers."


def strangers() -> int:
    """Hidden halves that name another task than their trajectory."""
    return TrajectorySource.objects.exclude(task=F("trajectory__task")).count()


def test_the_hidden_half_knows_the_task_however_its_rows_came_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        write_case(tmp_path / name, task=name)
    load(tmp_path / "one")
    bulk, tries = TrajectorySource.objects.bulk_create, []

    def refused_once(rows: list[TrajectorySource]) -> Any:
        tries.append(len(rows))
        if len(tries) == 1:
            raise IntegrityError("somebody else imports into the same version")
        return bulk(rows)

    monkeypatch.setattr(TrajectorySource.objects, "bulk_create", refused_once)
    load(tmp_path)
    assert len(tries) > 1
    assert TrajectorySource.objects.count() == 3
    assert strangers() == 0


def test_importing_twice_changes_nothing(tmp_path: Path) -> None:
    write_case(tmp_path / "one")
    load(tmp_path)
    before = list(Trajectory.objects.values())
    report = load(tmp_path)
    assert (report["found"], report["imported"], report["duplicates"]) == (1, 0, 1)
    assert list(Trajectory.objects.values()) == before


def test_the_same_id_with_other_content_is_refused_and_asks_for_a_version(tmp_path: Path) -> None:
    write_case(tmp_path / "one")
    load(tmp_path)
    write_case(tmp_path / "one", text="something else")
    report = load(tmp_path)
    assert report["imported"] == 0
    assert "--dataset-version" in report["failed"][0]["reason"]
    stored = Trajectory.objects.get()
    assert stored.steps_blob
    assert blobs.BlobSteps(stored.steps_blob).read(0).message == "done"


def test_another_reward_is_other_content(tmp_path: Path) -> None:
    write_case(tmp_path / "one", reward=0.0)
    load(tmp_path)
    write_case(tmp_path / "one", reward=1.0)
    assert load(tmp_path)["failed"]
    assert TrajectorySource.objects.get().reward == 0.0


def test_equal_attempts_under_two_ids_are_two_trajectories(tmp_path: Path) -> None:
    write_case(tmp_path / "one")
    write_case(tmp_path / "two")
    assert load(tmp_path)["imported"] == 2
    first, second = Trajectory.objects.all()
    assert first.steps_blob == second.steps_blob
    assert first.task_id == second.task_id


def test_one_bad_case_does_not_touch_the_others(tmp_path: Path) -> None:
    write_case(tmp_path / "good")
    (write_case(tmp_path / "bad") / "trajectory.json").write_text("{", encoding="utf-8")
    (write_case(tmp_path / "worse") / "case.json").write_text("[", encoding="utf-8")
    report = load(tmp_path)
    assert TrajectorySource.objects.filter(source_id__endswith="good").exists()
    assert any("worse" in failure["path"] for failure in report["failed"])
    assert Trajectory.objects.count() == report["imported"]


def test_a_record_that_cannot_be_stored_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(_path: Path, _options: ImportOptions) -> Iterator[TrajectoryRecord]:
        task, verifier = TaskRecord("t", "e"), VerifierRecord("none")
        yield TrajectoryRecord("good", task, verifier)
        yield TrajectoryRecord("x" * 301, task, verifier)
        yield TrajectoryRecord("nul\x00", task, verifier)
        raise RuntimeError("a fault in the reader")

    monkeypatch.setitem(ingest.FORMATS, "case", parse)
    _, report = ingest_path(version(), tmp_path, options=ImportOptions(), format_name="case")
    assert report.imported == 1
    assert [failure["reason"].split(":")[0] for failure in report.failed] == [
        "could not be stored",
        "could not be stored",
        "the reader stopped here",
    ]
    assert TrajectorySource.objects.get().source_id == "good"


@pytest.mark.parametrize("number", [-1, 2**31, 2**63, 2**64, 10**400])
def test_a_count_that_none_can_be_is_unknown_and_costs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def parse(_path: Path, _options: ImportOptions) -> Iterator[TrajectoryRecord]:
        task, verifier, used = TaskRecord("t", "e"), VerifierRecord("pass"), Usage(input_tokens=number, output_tokens=7)
        yield TrajectoryRecord("odd", task, verifier, attempt=number, training_step=number, usage=used)
        yield TrajectoryRecord("good", task, verifier, attempt=2)

    monkeypatch.setitem(ingest.FORMATS, "case", parse)
    _, report = ingest_path(version(), tmp_path, options=ImportOptions(), format_name="case")
    assert (report.imported, report.failed) == (2, [])
    odd = TrajectorySource.objects.get(source_id="odd")
    fits = 0 <= number < 2**63
    assert (odd.attempt, odd.output_tokens) == (None, 7)
    assert {odd.training_step, odd.input_tokens} == {number if fits else None}
    notices = ImportNotice.objects.filter(trajectory=odd.trajectory_id, code="number_out_of_range")
    assert sorted(notices.values_list("locator", flat=True)) == (
        ["attempt"] if fits else ["attempt", "input_tokens", "training_step"]
    )


@pytest.mark.parametrize("cost", [-0.01, 1e8, 1e308, float("inf")])
def test_a_cost_that_none_can_be_is_unknown_and_its_row_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cost: float
) -> None:
    def parse(_path: Path, _options: ImportOptions) -> Iterator[TrajectoryRecord]:
        yield TrajectoryRecord("odd", TaskRecord("t", "e"), VerifierRecord("pass"), usage=Usage(cost_usd=cost))

    monkeypatch.setitem(ingest.FORMATS, "case", parse)
    _, report = ingest_path(version(), tmp_path, options=ImportOptions(), format_name="case")
    assert (report.imported, report.warnings) == (1, {"number_out_of_range": 1})
    assert TrajectorySource.objects.get().cost_usd is None


def test_a_row_that_the_database_refuses_costs_itself_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def parse(_path: Path, _options: ImportOptions) -> Iterator[TrajectoryRecord]:
        task, verifier = TaskRecord("t", "e"), VerifierRecord("none")
        yield TrajectoryRecord("good", task, verifier)
        yield TrajectoryRecord("bad", task, verifier, extra={"x": float("nan")})
        yield TrajectoryRecord("fine", task, verifier)

    monkeypatch.setitem(ingest.FORMATS, "case", parse)
    batch, report = ingest_path(version(), tmp_path, options=ImportOptions(), format_name="case")
    assert [failure["path"] for failure in report.failed] == ["bad"]
    assert sorted(TrajectorySource.objects.values_list("source_id", flat=True)) == ["fine", "good"]
    assert (batch.state, batch.imported, batch.failed) == ("done", 2, 1)


def test_a_full_disk_ends_the_import_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        write_case(tmp_path / f"c{number}", text=f"text {number}")
    store = blobs._store

    def full(digest: str, content: Any) -> str:
        if Trajectory.objects.exists():  # the first is in
            raise OSError(errno.ENOSPC, "No space left on device")
        return store(digest, content)

    monkeypatch.setattr(ingest, "CHUNK", 1)
    monkeypatch.setattr(blobs, "_store", full)
    target = version()
    with pytest.raises(ImportRefusedError, match="The disk is full"):
        load(tmp_path, target)
    batch = ImportBatch.objects.get()
    assert (batch.state, batch.imported, batch.failed) == ("failed", 1, 0)
    assert "make room" in batch.reason
    monkeypatch.undo()
    again = load(tmp_path, target)
    assert (again["imported"], again["duplicates"], again["failed"]) == (2, 1, [])


def test_not_recorded_is_kept_apart_from_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from judges.safefs import MemoryTree

    def parse(_path: Path, _options: ImportOptions) -> Iterator[TrajectoryRecord]:
        task, verifier = TaskRecord("t", "e"), VerifierRecord("none")
        yield TrajectoryRecord("nothing", task, verifier, steps_recorded=False)
        yield TrajectoryRecord("empty", task, verifier, deliverable=MemoryTree({}))

    monkeypatch.setitem(ingest.FORMATS, "case", parse)
    ingest_path(version(), tmp_path, options=ImportOptions(), format_name="case")
    nothing = Trajectory.objects.get(source__source_id="nothing")
    empty = Trajectory.objects.get(source__source_id="empty")
    assert (nothing.steps_blob, nothing.n_steps, nothing.deliverable_tree) == (None, None, None)
    assert empty.n_steps == 0
    assert empty.deliverable_tree
    assert blobs.BlobTree(empty.deliverable_tree).entries() == ()
    assert nothing.source.reward is None


def test_an_interrupted_import_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "CHUNK", 2)
    for name in "abcde":
        write_case(tmp_path / name)
    batch = create_batch(version(), label="x", options={"path": str(tmp_path)}, by=None)
    written = ingest_writer.BatchWriter.write

    def dies(self: Any, chunk: Any) -> None:
        written(self, chunk)
        if Trajectory.objects.count() >= 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(ingest_writer.BatchWriter, "write", dies)
    with pytest.raises(KeyboardInterrupt):
        run_import(batch.id)
    ImportBatch.objects.update(state="running", worker=GONE)  # what a killed worker leaves behind
    monkeypatch.setattr(ingest_writer.BatchWriter, "write", written)
    run_import(batch.id)
    batch.refresh_from_db()
    assert (batch.state, batch.found, batch.imported, batch.duplicates) == ("done", 5, 5, 0)
    assert Trajectory.objects.count() == 5


def test_an_import_that_was_taken_over_stops_and_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        write_case(tmp_path / f"upload/c{number}", task=f"t{number}")
    batch = create_batch(version(), label="x", options={"path": f"{tmp_path}/upload", "staged": str(tmp_path)}, by=None)
    write = BatchWriter.write

    def loses(self: BatchWriter, chunk: Any) -> None:
        write(self, chunk)
        ImportBatch.objects.update(worker="other:1:1", found=7)

    monkeypatch.setattr(BatchWriter, "write", loses)
    run_import(batch.id)
    batch.refresh_from_db()
    assert (batch.state, batch.worker, batch.found, batch.finished_at) == ("running", "other:1:1", 7, None)
    assert (Trajectory.objects.count(), tmp_path.exists()) == (50, True)


GONE = worker_name().rpartition(":")[0] + ":4194305"  # no process has such an id


def test_an_import_that_ends_worker_after_worker_fails_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_case(tmp_path / "upload" / "one")
    batch = create_batch(version(), label="x", options={"path": f"{tmp_path}/upload", "staged": str(tmp_path)}, by=None)

    def killed(batch: ImportBatch, *_: Any, **__: Any) -> None:
        ImportBatch.objects.filter(id=batch.id).update(worker=GONE)
        raise KeyboardInterrupt

    monkeypatch.setattr(ingest, "run_batch", killed)
    monkeypatch.setattr(ingest.shutil, "rmtree", lambda *_, **__: None)  # a worker that was killed clears nothing
    for attempt in range(3):
        assert ingest.forgotten_imports(now=timezone.now()) == [batch.id], attempt
        with pytest.raises(KeyboardInterrupt):
            run_import(batch.id)
    monkeypatch.undo()
    run_import(batch.id)
    batch.refresh_from_db()
    assert (batch.state, batch.lost_workers, Trajectory.objects.count()) == ("failed", 3, 0)
    assert batch.reason.startswith("3 workers ended")
    assert batch.finished_at
    assert not tmp_path.exists()
    assert ingest.forgotten_imports(now=timezone.now()) == []
    run_import(batch.id)
    assert ImportBatch.objects.get().lost_workers == 3


def test_an_import_that_waits_is_cancelled_with_its_upload(tmp_path: Path) -> None:
    write_case(tmp_path / "upload" / "one")
    batch = create_batch(version(), label="x", options={"path": f"{tmp_path}/upload", "staged": str(tmp_path)}, by=None)
    assert ingest.cancel_import(batch, by=None, now=timezone.now())
    assert not tmp_path.exists()
    run_import(batch.id)
    batch.refresh_from_db()
    assert (batch.state, batch.found, Trajectory.objects.count()) == ("cancelled", 0, 0)
    assert not ingest.cancel_import(batch, by=None, now=timezone.now())
    assert AuditEvent.objects.filter(action="import_cancelled").count() == 1


def test_an_import_that_runs_stops_when_cancelled_and_keeps_what_it_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        write_case(tmp_path / f"upload/c{number}", task=f"t{number}")
    batch = create_batch(version(), label="x", options={"path": f"{tmp_path}/upload", "staged": str(tmp_path)}, by=None)
    write = BatchWriter.write

    def cancelled(self: BatchWriter, chunk: Any) -> None:
        write(self, chunk)
        assert ingest.cancel_import(self.batch, by=None, now=timezone.now())
        assert tmp_path.exists()  # it is still being read

    monkeypatch.setattr(BatchWriter, "write", cancelled)
    run_import(batch.id)
    batch.refresh_from_db()
    assert (batch.state, Trajectory.objects.count(), tmp_path.exists()) == ("cancelled", 50, False)


@pytest.mark.parametrize("worker", [worker_name(), GONE], ids=["alive", "gone"])
def test_the_upload_of_a_cancelled_import_goes_once_its_worker_is_gone(tmp_path: Path, worker: str) -> None:
    write_case(tmp_path / "upload" / "one")
    batch = create_batch(version(), label="x", options={"path": f"{tmp_path}/upload", "staged": str(tmp_path)}, by=None)
    running = {"state": ImportState.RUNNING, "heartbeat_at": timezone.now(), "worker": worker_name()}
    ImportBatch.objects.filter(id=batch.id).update(**running)
    assert ingest.cancel_import(batch, by=None, now=timezone.now())
    ImportBatch.objects.filter(id=batch.id).update(worker=worker)  # killed before it noticed, or still at it
    run_import(batch.id)  # what it had taken is delivered again
    batch.refresh_from_db()
    assert (batch.state, Trajectory.objects.count(), tmp_path.exists()) == ("cancelled", 0, worker != GONE)


def test_an_import_that_was_cancelled_as_it_was_taken_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_case(tmp_path / "one")
    batch = create_batch(version(), label="x", options={"path": str(tmp_path)}, by=None)
    taken = ingest._claimed
    monkeypatch.setattr(
        ingest,
        "_claimed",
        lambda batch_id, *, now: taken(batch_id, now=now) and ingest.cancel_import(batch, by=None, now=now),
    )
    run_import(batch.id)
    batch.refresh_from_db()
    assert (batch.state, Trajectory.objects.count()) == ("cancelled", 0)


def test_an_import_that_was_ended_from_outside_stays_so(tmp_path: Path) -> None:
    batch = create_batch(version(), label="x", options={}, by=None)
    ImportBatch.objects.filter(id=batch.id).update(state="failed", reason="ended")
    assert not BatchWriter(batch, ImportReport("d")).save_counts(ImportState.DONE)
    batch.refresh_from_db()
    assert (batch.state, batch.reason) == ("failed", "ended")


@pytest.mark.django_db(transaction=True)
def test_unpacking_for_long_keeps_the_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "BEAT_S", 0.05)
    monkeypatch.setattr(ingest, "heart", ledger.Heart(ingest._held))  # that of the process may be between two beats
    write_case(tmp_path / "c")
    beats: list[datetime | None] = []

    def unpacks(path: Path) -> Any:
        began = ImportBatch.objects.get().heartbeat_at
        end = time.monotonic() + 10
        while (beat := ImportBatch.objects.get().heartbeat_at) == began and time.monotonic() < end:
            time.sleep(0.02)
        beats.extend([began, beat])
        return nullcontext((path, ()))

    monkeypatch.setattr(ingest, "_opened", unpacks)
    load(tmp_path / "c")
    began, beat = beats
    assert began is not None
    assert beat is not None
    assert beat > began


def test_an_upload_that_is_refused_is_not_kept(tmp_path: Path) -> None:
    staged = tmp_path / "staged"
    (staged / "data").mkdir(parents=True)
    (staged / "data" / "x.bin").write_bytes(b"\x00garbage")
    wanted: dict[str, object] = {"path": str(staged / "data" / "x.bin"), "staged": str(staged), "format": "auto"}
    batch = create_batch(version(), label="x.bin", options=wanted, by=None)
    run_import(batch.id)
    batch.refresh_from_db()
    assert batch.state == "failed"
    assert batch.reason
    assert not staged.exists()


def test_a_task_brought_later_completes_what_was_missing(tmp_path: Path) -> None:
    write_case(tmp_path / "first" / "one")
    load(tmp_path / "first")
    assert Task.objects.get().reference_tree is None
    write_case(tmp_path / "second" / "two", reference__answer="42")
    load(tmp_path / "second")
    task = Task.objects.get()
    assert task.reference_tree
    assert blobs.BlobTree(task.reference_tree).read("answer") == b"42"


def test_a_task_whose_instruction_differs_keeps_the_first_and_says_so(tmp_path: Path) -> None:
    write_case(tmp_path / "a")
    write_case(tmp_path / "b", **{"instruction.md": "Multiply the numbers."})
    assert load(tmp_path)["warnings"] == {"task_instruction_differs": 1}
    assert ImportNotice.objects.get().code == "task_instruction_differs"


def test_settings_of_a_version_cannot_change_under_it() -> None:
    version(pass_threshold=1.0)
    with pytest.raises(ImportRefusedError, match="--dataset-version"):
        version(pass_threshold=0.5)


@pytest.mark.parametrize("name", ["", "../up", "a b", "x" * 101, "-x", "a\n"])
def test_unusable_names_are_refused_before_anything_is_made(name: str) -> None:
    with pytest.raises(ImportRefusedError):
        version(name)
    assert not DatasetVersion.objects.exists()


def test_whoever_makes_a_dataset_leads_it() -> None:
    user = User.objects.create(username="u")
    target = open_version("mine", "1", options=ImportOptions(), by=user)
    assert Membership.objects.get(dataset=target.dataset, user=user).role == "lead"


def test_what_a_killed_import_had_unpacked_goes_with_the_next_and_that_of_a_running_one_stays(tmp_path: Path) -> None:
    write_case(tmp_path / "data/one")
    archive = Path(shutil.make_archive(str(tmp_path / "a"), "zip", tmp_path / "data"))
    rooms = settings.ASSAY_HOME / "unpacked"
    with held_folder(rooms) as running:
        (running / "archive").mkdir()
        (rooms / "killed/archive").mkdir(parents=True)
        assert load(archive)["imported"] == 1
        assert (running / "archive").is_dir()
        assert not (rooms / "killed").exists()
    assert not running.exists()


def test_a_server_that_starts_leaves_what_a_command_has_unpacked(tmp_path: Path) -> None:
    with held_folder(tmp_path / "unpacked") as running:
        (tmp_path / "unpacked/killed").mkdir()
        (tmp_path / "tmp").mkdir()
        (tmp_path / "tmp/left").touch()
        assert list(supervisor._scratch(tmp_path).iterdir()) == []
        assert list((tmp_path / "unpacked").iterdir()) == [running]


def test_uploads_that_no_import_waits_for_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "is_empty", lambda _queue: False)
    now = timezone.now()
    lost, waits, fresh = (ingest.staging_folder() for _ in range(3))
    for folder in (lost, waits, fresh):
        (folder / "data").mkdir(parents=True)
    for folder in (lost, waits):
        os.utime(folder, (now.timestamp() - 7200,) * 2)
    create_batch(version(), label="x", options={"path": str(waits / "data"), "staged": str(waits)}, by=None)
    tasks.reconcile()
    assert [folder.exists() for folder in (lost, waits, fresh)] == [False, True, True]


def test_archives_are_unpacked_read_and_cleared_away(tmp_path: Path) -> None:
    write_case(tmp_path / "cases" / "one")
    with zipfile.ZipFile(tmp_path / "job.zip", "w") as archive:
        for path in (tmp_path / "cases").rglob("*"):
            archive.write(path, path.relative_to(tmp_path))
        archive.writestr("../escape.txt", "x")
    report = load(tmp_path / "job.zip")
    assert report["imported"] == 1
    assert [failure["path"] for failure in report["failed"]] == ["../escape.txt"]
    assert not list((settings.ASSAY_HOME / "unpacked").iterdir())


def test_an_archive_of_a_folder_is_that_folder(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_case(tmp_path / "job" / name)
    load(tmp_path / "job")
    shutil.make_archive(str(tmp_path / "packed"), "gztar", tmp_path, "job")
    report = load(tmp_path / "packed.tar.gz")
    assert (report["imported"], report["duplicates"]) == (0, 2)


def test_a_folder_without_trajectories_is_unusable_and_leaves_a_failed_batch(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello", encoding="utf-8")
    with pytest.raises(ImportRefusedError):
        load(tmp_path)
    batch = ImportBatch.objects.get()
    assert batch.state == "failed"
    assert batch.reason


# --- the command


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any] | None, str]:
    with pytest.raises(SystemExit) as ended:
        call_command("import_trajectories", *arguments, "--json")
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), json.loads(out) if out else None, err


def test_the_command_prints_one_object_and_its_exit_code_says_how_it_went(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_case(tmp_path / "good" / "one", reward=0.0)
    code, report, _ = run(capsys, str(tmp_path / "good"), "--dataset", "c")
    assert code == 0
    assert report == {
        "dataset": "c",
        "found": 1,
        "imported": 1,
        "duplicates": 0,
        "failed": [],
        "warnings": {},
        "verifier": {"pass": 0, "fail": 1, "partial": 0, "none": 0, "invalid": 0},
    }
    (write_case(tmp_path / "mixed" / "bad") / "case.json").write_text("[", encoding="utf-8")
    write_case(tmp_path / "mixed" / "fine")
    assert run(capsys, str(tmp_path / "mixed"), "--dataset", "c2")[0] == 1
    assert run(capsys, str(tmp_path / "nowhere"), "--dataset", "c3")[0] == 2
    code, report, err = run(capsys, str(tmp_path / "good"), "--dataset", "c", "--pass-threshold", "0.5")
    assert (code, list(report or {})) == (2, ["error"])
    assert report is not None
    assert "--dataset-version" in report["error"]
    assert "--dataset-version" in err


@pytest.mark.parametrize("refused", ["nothing there", "no format", "unknown tasks", "every record"])
def test_a_refused_command_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: str) -> None:
    (tmp_path / "notes.txt").write_text("hello", encoding="utf-8")
    (write_case(tmp_path / "bad") / "case.json").write_text("[", encoding="utf-8")
    arguments = {
        "nothing there": [str(tmp_path / "nowhere")],
        "no format": [str(tmp_path / "notes.txt")],
        "unknown tasks": [str(tmp_path / "bad"), "--tasks", str(tmp_path / "nowhere")],
        "every record": [str(tmp_path / "bad"), str(tmp_path / "nowhere")],
    }[refused]
    code, report, _ = run(capsys, *arguments, "--dataset", "new")
    assert code == 2
    assert report
    left = (Dataset, DatasetVersion, ImportBatch, Environment, Task)
    assert [model.objects.count() for model in left] == [0] * len(left)


def test_a_refused_command_leaves_a_dataset_that_was_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    version("old")
    assert run(capsys, str(tmp_path / "nowhere"), "--dataset", "old")[0] == 2
    assert run(capsys, str(tmp_path / "nowhere"), "--dataset", "old", "--dataset-version", "2")[0] == 2
    assert list(DatasetVersion.objects.values_list("dataset__name", "name")) == [("old", "1")]


def test_hostile_files_end_in_lines_not_in_tracebacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_case(tmp_path / "fine")
    os.mkfifo(tmp_path / "fine" / "deliverable" / "pipe")
    os.symlink("/etc/passwd", tmp_path / "fine" / "deliverable" / "link")
    deep = write_case(tmp_path / "deep")
    (deep / "trajectory.json").write_text("[" * 100_000, encoding="utf-8")
    sparse = write_case(tmp_path / "sparse")
    with (sparse / "trajectory.json").open("wb") as file:
        file.truncate(1 << 30)
    odd = write_case(tmp_path / "odd")
    (odd / "trajectory.json").write_text(
        '{"schema_version":"ATIF-v1.7","agent":{"name":"a\\u0000","version":"1"},'
        '"steps":[{"step_id":1,"source":"agent","message":"nul \\u0000 lone \\ud800","metrics":{"cost_usd":NaN}}]}',
        encoding="utf-8",
    )
    code, report, _ = run(capsys, str(tmp_path), "--dataset", "hostile")
    assert report is not None
    assert code in (0, 1)
    assert report["found"] == 4
    for failure in report["failed"]:
        assert failure["path"]
        assert failure["reason"]
    assert TrajectorySource.objects.filter(source_id__endswith="fine").exists()
    tree = Trajectory.objects.get(source__source_id__endswith="fine").deliverable_tree
    assert tree
    kinds = {entry.path: entry.kind for entry in blobs.BlobTree(tree).entries()}
    assert kinds == {"link": "symlink", "out.txt": "file", "pipe": "special"}


@pytest.mark.parametrize(("folder", "counts"), [("harbor_tb2", (30, 30)), ("tau_bench", (100, 100))])
def test_real_releases_import_whole_and_again_as_duplicates(
    shared_data: Path, capsys: pytest.CaptureFixture[str], folder: str, counts: tuple[int, int]
) -> None:
    code, report, _ = run(capsys, str(shared_data / folder), "--dataset", "real")
    assert report is not None
    assert (code, report["found"], report["imported"], report["failed"]) == (0, *counts, [])
    code, report, _ = run(capsys, str(shared_data / folder), "--dataset", "real")
    assert report is not None
    assert (report["imported"], report["duplicates"]) == (0, counts[0])


def test_verifiers_that_never_ran_are_invalid_with_the_line_that_proves_it(shared_data: Path) -> None:
    load(shared_data / "harbor_tb2")
    trials = TrajectorySource.objects.filter(verifier_reason="verifier_did_not_run")
    assert trials.exists()
    for trial in trials:
        assert (trial.verifier_status, trial.recorded_status) == ("invalid", "fail")
        name, _, line = trial.proof_locator.rpartition(":")
        assert trial.verifier_tree
        streams = blobs.BlobTree(trial.verifier_tree)
        path = next(entry.path for entry in streams.entries() if entry.path.endswith(name.rsplit("/", 1)[-1]))
        lines = streams.read(path).decode("utf-8", "replace").split("\n")
        assert trial.proof.strip() in lines[int(line) - 1]
