"""Exports: one row a label, columns in order, nothing a spreadsheet would run, nothing lost on the way."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from defusedcsv import csv as defused
from django.core.management import call_command
from hypothesis import given
from hypothesis import strategies as st

from auditapp import exports, judging
from auditapp.exports import COLUMNS, csv_lines, jsonl_lines, label_rows, neutralise, parquet_parts, restore
from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import Judgment
from auditapp.models.labels import ImportedLabel
from auditapp.sampling import draw_sample
from auditapp.stats.allocation import Plan
from tests.auditapp.looks import GOOD, answer, make_run, make_world

__all__ = ["answer"]
DESIGNED = (
    "schema dataset dataset_version frame_digest environment task task_digest verifier_digest trajectory_id source_id "
    "content_sha256 model agent effort attempt training_step stratum inclusion_probability weight verifier_status "
    "reward label_source judge_digest judge_model replicate reviewer status reason decision integrity acceptable "
    "outcome decision_after calibrated confidence capability_tags environment_tags behavior_tags hack_tags n_citations "
    "n_citations_verified evidence cost_usd input_tokens output_tokens created_at"
)


@pytest.fixture
def world(db: None, answer: Callable[..., Any]) -> DatasetVersion:
    """Two judged trajectories, one still queued, and a human label."""
    version = make_world(3)
    run = make_run(version)
    answer(GOOD)
    for judgment in judging.queued_ids(run)[:2]:
        judging.execute_judgment(judgment)
    trajectory = Judgment.objects.order_by("id").first().trajectory  # type: ignore[union-attr]
    ImportedLabel.objects.create(
        version=version,
        trajectory=trajectory,
        kind="human",
        labeler="=cmd|' /C calc'!A0",
        decision="not_satisfied",
        acceptable="no",
        outcome="false_pass",
        tags=["C02", "B07"],
    )
    return version


def table(version: DatasetVersion, **options: Any) -> list[dict[str, str]]:
    rows = label_rows(version, with_evidence=True, **options)
    return list(csv.DictReader(io.StringIO("".join(csv_lines(rows)), newline="")))


def test_columns_are_those_others_script_against() -> None:
    assert " ".join(COLUMNS) == DESIGNED


def test_every_label_is_a_row_and_an_unfinished_one_has_no_decision(world: DatasetVersion) -> None:
    rows = table(world)
    assert [row["label_source"] for row in rows] == ["judge"] * 3 + ["imported_human"]
    assert [row["status"] for row in rows] == ["completed", "completed", "queued", "completed"]
    assert [row["decision"] for row in rows] == ["satisfied", "satisfied", "", "not_satisfied"]
    assert [row["outcome"] for row in rows] == ["true_pass", "true_pass", "", "false_pass"]
    assert {row["schema"] for row in rows} == {"assay.labels/1"}
    assert [row["calibrated"] for row in rows] == ["false"] * 3 + [""]
    assert [row["inclusion_probability"] for row in rows] == ["1.0", "1.0", "1.0", ""]
    assert rows[3]["capability_tags"] == "C02"
    assert rows[3]["behavior_tags"] == "B07"


def test_evidence_is_whole_and_only_there_when_asked_for(world: DatasetVersion) -> None:
    first = table(world)[0]
    cited = json.loads(restore(first["evidence"]))
    assert cited[0]["quote"] == "the total is 42 dollars"
    assert (first["n_citations"], first["n_citations_verified"]) == (str(len(cited)), str(len(cited)))
    assert {row["evidence"] for row in label_rows(world, with_evidence=False)} == {None}


def test_formulas_are_neutralised_and_come_back(world: DatasetVersion) -> None:
    hostile = table(world)[3]["reviewer"]
    assert hostile.startswith("'=")
    assert restore(hostile) == "=cmd|' /C calc'!A0"


@given(st.text())
def test_neutralising_loses_nothing_and_leaves_no_formula(text: str) -> None:
    safe = neutralise(text)
    assert restore(safe) == text
    assert not safe.startswith(("=", "+", "-", "@", "\t", "\r"))


@given(st.text(alphabet="=+-@|%'a1 \t", min_size=1))
def test_what_a_known_library_escapes_is_escaped_here(text: str) -> None:
    escaped = io.StringIO()
    defused.writer(escaped).writerow([text])
    plain = io.StringIO()
    csv.writer(plain).writerow([text])
    if escaped.getvalue() != plain.getvalue() and text[0] not in "|%":
        assert neutralise(text) != text


def test_json_lines_and_parquet_hold_the_same_rows(world: DatasetVersion) -> None:
    import pyarrow.parquet as pq

    lines = [json.loads(line) for line in jsonl_lines(label_rows(world, with_evidence=True))]
    written = b"".join(parquet_parts(label_rows(world, with_evidence=True)))
    columns = pq.read_table(io.BytesIO(written)).to_pylist()
    assert [tuple(line) for line in lines] == [COLUMNS] * 4
    for line, row in zip(lines, columns, strict=True):
        assert line["decision"] == row["decision"]
        assert line["trajectory_id"] == row["trajectory_id"]
        assert line["weight"] == row["weight"]
    assert lines[3]["reviewer"] == "=cmd|' /C calc'!A0"
    assert lines[2]["decision"] is None


def test_parquet_goes_out_while_rows_are_read(world: DatasetVersion, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    monkeypatch.setattr(exports, "CHUNK", 2)
    read = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal read
        for row in label_rows(world, with_evidence=True):
            read += 1
            yield row

    parts = parquet_parts(rows())
    first = next(parts)
    assert first.startswith(b"PAR1")
    assert read == 2
    assert pq.ParquetFile(io.BytesIO(first + b"".join(parts))).metadata.num_row_groups == 2


def test_a_reused_label_has_the_weight_of_the_draw_that_reuses_it(db: None, answer: Callable[..., Any]) -> None:
    version = make_world(8)
    census = make_run(version)
    answer(GOOD)
    for judgment in judging.queued_ids(census):
        judging.execute_judgment(judgment)
    part = draw_sample(census.sample.frame, Plan("equal", 2), seed=1, by=None)
    assert judging.create_judge_run(part, census.config, by=None).planned == 0
    drawn = {str(row) for row in part.units.values_list("trajectory__public_id", flat=True)}
    weights = {row["trajectory_id"]: row["weight"] for row in table(version)}
    assert {weights[trajectory] for trajectory in drawn} == {"4.0"}
    assert {weight for trajectory, weight in weights.items() if trajectory not in drawn} == {"1.0"}


def test_the_number_of_queries_does_not_grow_with_the_rows(
    world: DatasetVersion, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(20):
        assert len(list(label_rows(world, with_evidence=True))) == 4


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_the_command_writes_a_whole_file_or_none(world: DatasetVersion, tmp_path: Path, kind: str) -> None:
    out = tmp_path / f"labels.{kind}"
    call_command("export_labels", "--dataset", world.dataset.name, "--out", str(out), "--format", kind)
    assert out.stat().st_size > 100
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_the_command_names_what_is_missing(db: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        call_command("export_labels", "--dataset", "nothing", "--out", str(tmp_path / "x.csv"))
    assert ended.value.code == 2
    assert "nothing" in capsys.readouterr().err
