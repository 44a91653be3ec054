"""Labels of every origin in one relation, and the rulings that change outcomes."""

import csv
import json
from collections import Counter
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command

from auditapp.importers import ImportOptions
from auditapp.ingest import ingest_path, open_version
from auditapp.ingest_labels import import_labels
from auditapp.models.datasets import DatasetVersion
from auditapp.models.events import AuditEvent
from auditapp.models.labels import ImportedLabel, labels
from auditapp.relabel import count_not_run_as
from tests.auditapp.population import add_trajectory, make_task, make_version

pytestmark = pytest.mark.django_db


@pytest.fixture
def version() -> DatasetVersion:
    made = make_version()
    task = make_task(made)
    for source_id, status in (("p", "pass"), ("f", "fail"), ("n", "none"), ("half", "partial")):
        add_trajectory(task, source_id, status)
    return made


def write_labels(path: Path, *rows: tuple[str, str, str]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["source_id", "labeler", "decision"])
        writer.writerows(rows)
    return path


def test_outcomes_follow_from_verifier_and_decision(version: DatasetVersion, tmp_path: Path) -> None:
    path = write_labels(
        tmp_path / "l.csv",
        ("p", "anna", "not_satisfied"),
        ("f", "anna", "satisfied"),
        ("n", "anna", "satisfied"),
        ("half", "anna", "satisfied"),
        ("f", "ben", "unsure"),
    )
    report = import_labels(version, path, kind="human", mapping=None, by=None)
    assert (report.found, report.imported, report.failed) == (5, 5, [])
    found = {
        (row.trajectory.source.source_id, row.labeler): (row.acceptable, row.outcome, row.outcome_reason)
        for row in labels(version).select_related("trajectory__source")
    }
    assert found == {
        ("p", "anna"): ("no", "false_pass", ""),
        ("f", "anna"): ("yes", "false_fail", ""),
        ("n", "anna"): ("yes", None, "verifier_none"),
        ("half", "anna"): ("yes", None, "verifier_partial"),
        ("f", "ben"): ("unknown", None, "cannot_tell"),
    }
    assert ImportedLabel.objects.filter(integrity__isnull=False).count() == 0


def test_repairs_are_counted_in_what_the_command_prints(
    version: DatasetVersion, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "l.csv"
    path.write_bytes(b'source_id,labeler,decision\np,"ann,satisfied\nf,Ren\xe9,satisfied\nn,b\0,satisfied\n')
    options = ["--dataset", version.dataset.name, "--kind", "human"]
    call_command("import_labels", str(path), *options, "--json")
    report = json.loads(capsys.readouterr().out)
    assert (report["imported"], report["failed"]) == (3, [])
    assert report["warnings"] == {"not_utf8": 1, "nul_character": 1, "stray_quote": 1}
    assert set(ImportedLabel.objects.values_list("labeler", flat=True)) == {"ann", "Ren\xe9", "b\u2400"}
    assert AuditEvent.objects.get(action="labels_imported").detail["warnings"] == report["warnings"]
    call_command("import_labels", str(path), *options)
    assert "warning stray_quote: 1" in capsys.readouterr().out


def test_the_same_label_again_is_a_duplicate_and_another_is_refused(version: DatasetVersion, tmp_path: Path) -> None:
    first = write_labels(tmp_path / "1.csv", ("p", "anna", "satisfied"))
    import_labels(version, first, kind="human", mapping=None, by=None)
    again = import_labels(version, first, kind="human", mapping=None, by=None)
    assert (again.imported, again.duplicates) == (0, 1)
    other = write_labels(tmp_path / "2.csv", ("p", "anna", "not_satisfied"), ("unknown", "anna", "satisfied"))
    refused = import_labels(version, other, kind="human", mapping=None, by=None)
    assert [failure["path"] for failure in refused.failed] == ["p", "unknown"]
    endless = write_labels(tmp_path / "3.csv", ("x" * 100_000, "anna", "satisfied"))
    assert import_labels(version, endless, kind="human", mapping=None, by=None).failed[0]["path"] == "x" * 300
    assert ImportedLabel.objects.get().decision == "satisfied"


def test_a_ruling_on_verifiers_that_never_ran_changes_outcomes_and_is_logged(tmp_path: Path) -> None:
    version, user = make_version(), User.objects.create(username="lead")
    task = make_task(version)
    late = add_trajectory(
        task, "late", "invalid", verifier_reason="verifier_did_not_run", **{"recorded_status": "fail"}
    )
    add_trajectory(task, "other", "invalid", verifier_reason="reward_invalid", **{"recorded_status": "fail"})
    path = write_labels(tmp_path / "l.csv", ("late", "anna", "satisfied"), ("other", "anna", "satisfied"))
    import_labels(version, path, kind="human", mapping=None, by=None)
    assert set(labels(version).values_list("outcome", flat=True)) == {None}

    assert count_not_run_as(version, recorded=True, by=user) == 1
    late.source.refresh_from_db()
    assert late.source.verifier_status == "fail"
    outcomes = dict(labels(version).values_list("trajectory__source__source_id", "outcome"))
    assert outcomes == {"late": "false_fail", "other": None}

    assert count_not_run_as(version, recorded=False, by=user) == 1
    assert set(labels(version).values_list("outcome", flat=True)) == {None}
    assert AuditEvent.objects.filter(actor=user).count() == 2


def test_human_against_verifier_equals_the_raw_file(shared_data: Path) -> None:
    folder = shared_data / "agentrewardbench_dev"
    mapping = Path("auditapp/importers/mappings/agentrewardbench_dev.toml")
    version = open_version("arb", "1", options=ImportOptions(), by=None)
    ingest_path(version, folder / "rollouts.jsonl", options=ImportOptions(mapping=mapping), format_name="jsonl")
    report = import_labels(version, folder / "rollouts.jsonl", kind="human", mapping=mapping, by=None)
    assert report.failed == []
    stored = Counter(
        labels(version)
        .filter(source="imported_human")
        .values_list("trajectory__source__verifier_status", "decision")
        .order_by()
    )
    rows = [json.loads(line) for line in (folder / "rollouts.jsonl").read_text(encoding="utf-8").splitlines()]
    assert version.trajectories.count() == len(rows)
    assert version.trajectories.filter(steps_blob__isnull=True).count() == sum(not row["steps"] for row in rows)
    said = {"Successful": "satisfied", "Unsuccessful": "not_satisfied", "Unsure": "cannot_tell"}
    raw: Counter[tuple[str, str]] = Counter()
    for row in rows:
        reward = row["verifier"]["cum_reward"]
        status = "pass" if reward >= 1 else "partial" if reward > 0 else "fail"
        raw.update((status, said[human["success"]]) for human in row["human"])
    assert stored == raw
    judged = import_labels(version, folder / "judgments.jsonl", kind="judge", mapping=mapping, by=None)
    assert (judged.imported, judged.failed) == (236, [])


def test_the_command_says_how_it_went(
    version: DatasetVersion, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_labels(tmp_path / "l.csv", ("p", "anna", "satisfied"))
    call_command("import_labels", str(path), "--dataset", version.dataset.name, "--kind", "human", "--json")
    assert json.loads(capsys.readouterr().out) == {
        "dataset": "release",
        "found": 1,
        "imported": 1,
        "duplicates": 0,
        "failed": [],
        "warnings": {},
    }
    with pytest.raises(SystemExit) as ended:
        call_command("import_labels", str(path), "--dataset", "nothing", "--kind", "human")
    assert ended.value.code == 2
