"""Every label of a version as CSV, JSON Lines or Parquet: streamed, one row a label, columns in a fixed order.

Stratum and weight of a judge's label are those of the draw of the newest run of its config that holds the trajectory:
the draw that an estimate by that judge is of. A label that was reused thus has the weight of the draw that reuses it.
A grade of a released round has the weight that rates give it: that of the sample's draw times that of the cell which
all released rounds of the sample drew from together, whichever drew it. Where two people graded an item, each label
carries it. Labels made elsewhere were not drawn here, and have none.
"""

import csv
import io
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
from django.db.models import F, QuerySet

from auditapp.consistency import looks_again
from auditapp.heldout import of_held_out
from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import CitedEvidence, JudgeRun, JudgmentTag
from auditapp.models.labels import ImportedLabel, Label, LabelSource, calibrated, labels
from auditapp.models.rounds import ItemDraw, ReviewLabel
from auditapp.models.samples import Sample, SampleUnit, Stratum
from auditapp.observations import phases

SCHEMA = "assay.labels/1"
CHUNK = 1000
INTEGERS = (
    "attempt",
    "training_step",
    "replicate",
    "n_citations",
    "n_citations_verified",
    "input_tokens",
    "output_tokens",
)
FLOATS = ("inclusion_probability", "weight", "reward", "cost_usd")
COLUMNS = (
    *("schema", "dataset", "dataset_version", "frame_digest", "environment", "task", "task_digest", "verifier_digest"),
    *("trajectory_id", "source_id", "content_sha256", "model", "agent", "effort", "attempt", "training_step"),
    *("stratum", "inclusion_probability", "weight", "verifier_status", "reward", "label_source", "judge_digest"),
    *("judge_model", "replicate", "reviewer", "status", "reason", "decision", "integrity", "acceptable", "outcome"),
    *("decision_after", "calibrated", "confidence", "capability_tags", "environment_tags", "behavior_tags"),
    *("hack_tags", "n_citations", "n_citations_verified", "evidence", "cost_usd", "input_tokens", "output_tokens"),
    "created_at",
)
TAG_COLUMNS = {"C": "capability_tags", "E": "environment_tags", "B": "behavior_tags", "H": "hack_tags"}
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "'")
Row = dict[str, Any]

_FIELDS = {
    "dataset": "version__dataset__name",
    "dataset_version": "version__name",
    "environment": "trajectory__task__environment__name",
    "task": "trajectory__task__name",
    "task_digest": "trajectory__task__content_sha256",
    "verifier_digest": "trajectory__task__verifier_sha256",
    "trajectory_id": "trajectory__public_id",
    "source_id": "trajectory__source__source_id",
    "content_sha256": "trajectory__content_sha256",
    "model": "trajectory__source__model",
    "agent": "trajectory__source__agent",
    "effort": "trajectory__source__effort",
    "attempt": "trajectory__source__attempt",
    "training_step": "trajectory__source__training_step",
    "verifier_status": "trajectory__source__verifier_status",
    "reward": "trajectory__source__reward",
    "label_source": "source",
    "judge_digest": "config__digest",
    "replicate": "replicate",
    "status": "state",
    "decision": "decision",
    "integrity": "integrity",
    "acceptable": "acceptable",
    "outcome": "outcome",
    "decision_after": "decision_after",
    "confidence": "confidence",
    "n_citations": "n_citations",
    "n_citations_verified": "n_citations_verified",
    "cost_usd": "cost_usd",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "created_at": "created_at",
}
_FIRST_PHASE = ("sample_id", "trajectory_id", "inclusion_probability")
_KEYS = ("key", "trajectory_id", "judgment_id", "config_id", "config__model", "config__provider")


def label_rows(
    version: DatasetVersion, *, with_evidence: bool, with_held_out: bool = False, only: QuerySet[Label] | None = None
) -> Iterator[Row]:
    """Yield every label of a version by origin and age, or those of `only`; unknown values are None.

    Evidence can quote the hidden reference: give `with_evidence` to leads alone. Labels of tasks that are held out from
    training are left out unless they are asked for.
    """
    compared = calibrated(version)
    chosen = labels(version) if only is None else only.order_by()
    chosen = chosen if with_held_out else chosen.exclude(of_held_out(version))
    for source in LabelSource.values:
        query = chosen.filter(source=source).order_by("key")
        values = iter(query.values(*_KEYS, "labeler", "reason", "outcome_reason", *_FIELDS.values()).iterator(CHUNK))
        while chunk := list(islice(values, CHUNK)):
            yield from _complete(chunk, compared, with_evidence=with_evidence)


def _complete(chunk: Sequence[Mapping[str, Any]], compared: Set[int | str], *, with_evidence: bool) -> Iterator[Row]:
    judgments = [row["judgment_id"] for row in chunk if row["judgment_id"]]
    grades = _grades(chunk)
    tags = _tags(chunk, judgments) | {key: _tag_columns(grade.tags) for key, grade in grades.items()}
    evidence = _evidence(judgments, grades) if with_evidence else {}
    units, places = _units(chunk), _places(grades)
    for values in chunk:
        row: Row = dict.fromkeys(COLUMNS)
        row |= {column: values[field] for column, field in _FIELDS.items()}
        row |= {"schema": SCHEMA, "reason": values["reason"] or values["outcome_reason"]}
        row |= _origin(values, compared) | tags.get(values["key"], {}) | places.get(values["key"], {})
        row |= units.get((values["config_id"], values["trajectory_id"]), {})
        row["evidence"] = evidence.get(values["key"])
        row["trajectory_id"] = str(values[_FIELDS["trajectory_id"]])
        yield row


def _origin(values: Mapping[str, Any], compared: Set[int | str]) -> Row:
    if values["source"] == LabelSource.JUDGE:
        model = values["config__model"] or values["config__provider"]
        return {"judge_model": model, "calibrated": values["config_id"] in compared}
    if values["source"] == LabelSource.IMPORTED_JUDGE:
        return {"judge_model": values["labeler"], "calibrated": values["labeler"] in compared}
    return {"reviewer": values["labeler"]}


def _tags(chunk: Sequence[Mapping[str, Any]], judgments: Sequence[int]) -> dict[int, Row]:
    codes: defaultdict[int, list[str]] = defaultdict(list)
    for judgment, code in JudgmentTag.objects.filter(judgment__in=judgments, kept=True).values_list("judgment", "code"):
        codes[judgment * 4].append(code)
    imported = [row["key"] // 4 for row in chunk if row["key"] % 4 == 1]
    for label, made in ImportedLabel.objects.filter(id__in=imported).values_list("id", "tags"):
        codes[label * 4 + 1].extend(made)
    return {key: _tag_columns(made) for key, made in codes.items()}


def _tag_columns(codes: Iterable[str]) -> Row:
    by_side: defaultdict[str, set[str]] = defaultdict(set)
    for code in codes:
        by_side[code[:1]].add(code)
    return {column: " ".join(sorted(by_side[side])) or None for side, column in TAG_COLUMNS.items()}


def _grades(chunk: Sequence[Mapping[str, Any]]) -> dict[int, ReviewLabel]:
    """By key: the released grades among the rows."""
    ids = [row["key"] // 4 for row in chunk if row["key"] % 4 == 2]
    return {label.pk * 4 + 2: label for label in ReviewLabel.objects.filter(id__in=ids).select_related("grade__slot")}


def _places(grades: Mapping[int, ReviewLabel]) -> dict[int, Row]:
    """By key: where a graded item stands in its sample and in the draw of its round; nothing where no sample was."""
    items = {label.grade.slot.item_id for label in grades.values()}
    drawn = ItemDraw.objects.filter(item__in=items).select_related("stratum__stratum__frame", "stratum__draw__sample")
    by_item = {draw.item_id: draw for draw in drawn}
    samples = {draw.stratum.draw.sample for draw in by_item.values() if draw.stratum.draw.sample}
    shares = {sample.pk: _shares(sample) for sample in samples}
    trajectories = [label.trajectory_id for label in grades.values()]
    units = SampleUnit.objects.filter(sample__in=samples, trajectory__in=trajectories)
    first = {(sample, trajectory): p for sample, trajectory, p in units.values_list(*_FIRST_PHASE)}
    found = {}
    for key, label in grades.items():
        draw = by_item.get(label.grade.slot.item_id)
        of = draw.stratum.draw.sample_id if draw else None
        if draw and of and label.trajectory_id in shares[of]:
            probability = first[of, label.trajectory_id] * shares[of][label.trajectory_id]
            found[key] = _place(draw.stratum.stratum, probability)
    return found


def _shares(sample: Sample) -> dict[int, float]:
    """By trajectory that released rounds drew: the share of its cell that they drew, all of them together.

    A later round or an extension draws from what earlier ones left; what it drew given that is no weight to add up by.
    """
    people = phases(sample)
    strata = dict(SampleUnit.objects.filter(sample=sample).values_list("trajectory_id", "stratum_id"))
    cells = {unit: (stratum, people.cells.get(unit, "")) for unit, stratum in strata.items()}
    size = Counter(cells.values())
    drawn = Counter(cells[unit] for unit in people.drawn if unit in cells)
    return {unit: drawn[cells[unit]] / size[cells[unit]] for unit in people.drawn if unit in cells}


def _place(stratum: Stratum, probability: float) -> Row:
    """The probability of both phases together, and its inverse."""
    return {
        "frame_digest": stratum.frame.digest,
        "stratum": str(stratum),
        "inclusion_probability": probability,
        "weight": 1 / probability,
    }


def _evidence(judgments: Sequence[int], grades: Mapping[int, ReviewLabel]) -> dict[int, str]:
    """By key: what a label cites, with the result of each check."""
    cited: defaultdict[int, list[Row]] = defaultdict(list)
    fields = ("code", "kind", "target", "part", "item", "line_start", "line_end", "quote", "ok", "result")
    for row in CitedEvidence.objects.filter(judgment__in=judgments).order_by("id").values("judgment_id", *fields):
        cited[row.pop("judgment_id") * 4].append(row)
    cited |= {key: label.grade.evidence for key, label in grades.items() if label.grade.evidence}
    return {key: orjson.dumps(rows).decode() for key, rows in cited.items()}


def _units(chunk: Sequence[Mapping[str, Any]]) -> dict[tuple[int, int], Row]:
    """By config and trajectory: the unit in the draw of the config's newest run that has it."""
    configs = {row["config_id"] for row in chunk} - {None}
    trajectories = [row["trajectory_id"] for row in chunk if row["config_id"]]
    runs = JudgeRun.objects.filter(config__in=configs).exclude(looks_again())
    units = SampleUnit.objects.filter(sample__judge_runs__in=runs, trajectory__in=trajectories)
    rows = units.order_by("sample__judge_runs").annotate(config_id=F("sample__judge_runs__config"))
    return {
        (unit.config_id, unit.trajectory_id): {
            "frame_digest": unit.stratum.frame.digest,
            "stratum": str(unit.stratum),
            "inclusion_probability": unit.inclusion_probability,
            "weight": unit.weight,
        }
        for unit in rows.select_related("stratum__frame")  # a newer run replaces an older one
    }


# --- writing


def neutralise(text: str) -> str:
    """Text that no spreadsheet takes for a formula: an apostrophe goes before a risky start or another apostrophe."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def restore(text: str) -> str:
    """Inverse of `neutralise`."""
    return text.removeprefix("'")


def csv_lines(rows: Iterable[Row]) -> Iterator[str]:
    """Header and rows as CSV text, a chunk at a time; None is an empty field, numbers stay numbers."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(COLUMNS)
    for count, row in enumerate(rows, 1):
        writer.writerow([_cell(row[column]) for column in COLUMNS])
        if count % 200 == 0:
            yield _drain(buffer)
    yield _drain(buffer)


def _drain(buffer: io.StringIO) -> str:
    text = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return text


def _cell(value: object) -> object:
    plain = _plain(value)
    return neutralise(plain) if isinstance(plain, str) else plain


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, Decimal) else value


def jsonl_lines(rows: Iterable[Row]) -> Iterator[str]:
    """One JSON object a line, unknown values null, text as it is."""
    for row in rows:
        evidence = row["evidence"] and orjson.loads(row["evidence"])
        yield orjson.dumps({**_with_plain_cost(row), "evidence": evidence}).decode() + "\n"


def _with_plain_cost(row: Row) -> Row:
    return {**row, "cost_usd": None if row["cost_usd"] is None else float(row["cost_usd"])}


class _Parts(io.RawIOBase):
    """A file to write whose content is taken away in between; it goes on counting where it is."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._written += len(part)
        return len(part)

    def tell(self) -> int:
        return self._written

    def take(self) -> bytes:
        """What was written since the last time."""
        taken, self._parts = b"".join(self._parts), []
        return taken


def parquet_parts(rows: Iterable[Row]) -> Iterator[bytes]:
    """A typed Parquet file in parts, each as soon as its rows are read."""
    file = _Parts()
    for _ in _row_groups(rows, file):
        yield file.take()
    yield file.take()


def _row_groups(rows: Iterable[Row], file: _Parts) -> Iterator[None]:
    """Write typed Parquet; stops after each group of rows, and ends with the file's footer."""
    import pyarrow as pa  # noqa: PLC0415  (loads 100 MB that only this format needs)
    import pyarrow.parquet as pq  # noqa: PLC0415

    kinds = dict.fromkeys(INTEGERS, pa.int64()) | dict.fromkeys(FLOATS, pa.float64()) | {"calibrated": pa.bool_()}
    kinds["created_at"] = pa.timestamp("us", tz="UTC")
    schema = pa.schema([(column, kinds.get(column, pa.string())) for column in COLUMNS])
    source = iter(rows)
    with pq.ParquetWriter(file, schema) as writer:
        while chunk := list(islice(source, CHUNK)):
            writer.write_table(pa.Table.from_pylist([_with_plain_cost(row) for row in chunk], schema=schema))
            yield


def write_file(version: DatasetVersion, path: Path, *, kind: str, with_held_out: bool = False) -> None:
    """Write an export with evidence to `path`; it appears whole or not at all. Raises OSError."""
    part = path.with_name(f".{path.name}.part")
    rows = label_rows(version, with_evidence=True, with_held_out=with_held_out)
    try:
        if kind == "parquet":
            with part.open("wb") as file:
                file.writelines(parquet_parts(rows))
        else:
            with part.open("w", encoding="utf-8", newline="") as out:
                out.writelines(csv_lines(rows) if kind == "csv" else jsonl_lines(rows))
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
