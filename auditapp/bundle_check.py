"""Verify a bundle without a database: sample and draws of rounds from digests and seeds, estimates from labels.

A bundle comes from anywhere. Nothing of it is unpacked or run; names, sizes and shapes are checked before use.
"""

import csv
import hashlib
import io
import math
import struct
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import orjson

from auditapp.bundle import LATE, SCHEMA, UNIT_COLUMNS, BundleError
from auditapp.estimation import recomputable
from auditapp.estimation_inputs import code_sha256
from auditapp.exports import COLUMNS, restore
from auditapp.models.labels import PEOPLE, LabelSource
from auditapp.observations import Cell, Cohort, Observations, Said, Unit
from auditapp.sampling import LARGEST_SEED, draw_keys
from auditapp.stats.allocation import Plan, allocate
from judges.records import Json

LARGEST, MOST_FILES, CLOSE = 2 * 1024**3, 1000, 1e-9
MALFORMED = (
    *(KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError, MemoryError),
    csv.Error,
)
DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, RuntimeError, EOFError, OSError, ValueError, MemoryError)
CELL = ("verifier_status", "model", "agent", "effort", "environment")


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was recomputed: whether it came out as the bundle says, and what was found."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """The files of a bundle, all of them digested and those of JSON read."""

    about: Json
    content: dict[str, bytes]

    def json(self, name: str) -> Json:
        return _json(self.content[name], name)

    def rows(self, name: str, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
        """The rows of a CSV file with exactly these columns, text as it was before it was made safe."""
        reader = csv.DictReader(io.StringIO(self.content[name].decode("utf-8"), newline=""), strict=True)
        if tuple(reader.fieldnames or ()) != columns:
            raise BundleError(f"{name} does not have the columns of this version of the program.")
        for row in reader:
            if None in row or None in row.values():
                raise BundleError(f"Line {reader.line_num} of {name} is not whole.")
            yield {key: restore(value) for key, value in row.items()}


def verify(path: Path) -> list[Check]:
    """What a bundle says against what follows from it. Raises BundleError for a file that is no bundle."""
    bundle = read_bundle(path)
    try:
        return list(_checks(bundle))
    except BundleError:
        raise
    except MALFORMED as error:
        raise BundleError(f"The bundle is malformed: {type(error).__name__}: {str(error)[:200]}") from error


def read_bundle(path: Path) -> Bundle:
    """Read all files into memory; BundleError for anything but plain files of known names and bearable size."""
    csv.field_size_limit(10_000_000)
    try:
        with zipfile.ZipFile(path) as archive:
            content = {info.filename: archive.read(info) for info in _allowed(archive)}
    except BundleError:
        raise
    except DAMAGED as error:
        raise BundleError(f"{path.name} cannot be read as a zip: {error}") from error
    about = _json(content.get("bundle.json", b""), "bundle.json")
    if not isinstance(about, dict) or about.get("schema") != SCHEMA:
        raise BundleError(f"{path.name} is no bundle of the kind {SCHEMA}.")
    return Bundle(about, content)


def _allowed(archive: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    found = archive.infolist()
    names = [info.filename for info in found]
    if len(found) > MOST_FILES or len(set(names)) != len(names):
        raise BundleError("The zip has too many files, or two of one name.")
    strange = [name for name in names if not _is_known(name)]
    if strange:
        raise BundleError(f"The zip holds a file that no bundle has: {strange[0][:100]!r}.")
    # The other methods of zipfile unpack a whole block at once, however large it becomes.
    if any(info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for info in found):
        raise BundleError("The zip is packed in a way that no bundle is: its files are to be stored or deflated.")
    if sum(info.file_size for info in found) > LARGEST:
        raise BundleError(f"Unpacked it would take more than {LARGEST // 1024**3} GB.")
    return found


def _is_known(name: str) -> bool:
    if name in ("bundle.json", "frame.json", "units.csv", "labels.csv", "estimates.json"):
        return True
    stem = name.removeprefix("rounds/").removesuffix(".json")
    return name == f"rounds/{stem}.json" and len(stem) == 64 and set(stem) <= set("0123456789abcdef")


def _json(data: bytes, name: str) -> Json:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise BundleError(f"{name} is missing or no JSON.") from error


# --- the checks


def _checks(bundle: Bundle) -> Iterator[Check]:
    yield _files(bundle)
    yield _frame(bundle)
    yield _sample(bundle)
    for about in bundle.about["rounds"]:
        yield from _round(bundle, about)
    yield _probabilities(bundle)
    yield _cells(bundle)
    yield from _estimates(bundle)


def _files(bundle: Bundle) -> Check:
    found = {name: hashlib.sha256(data).hexdigest() for name, data in bundle.content.items() if name != "bundle.json"}
    said = bundle.about["files"]
    wrong = sorted(name for name in found.keys() | said.keys() if found.get(name) != said.get(name))
    return Check("files", not wrong, f"altered or missing: {', '.join(wrong)}" if wrong else f"{len(found)} files")


def _frame(bundle: Bundle) -> Check:
    digest, said = hashlib.sha256(bundle.content["frame.json"]).hexdigest(), bundle.about["frame_digest"]
    manifest = bundle.json("frame.json")
    sizes = [len(list(units)) for _, units in groupby(manifest["units"], key=lambda unit: unit[2])]
    whole = sizes == [stratum["size"] for stratum in manifest["strata"]]
    same = manifest["dataset"] == bundle.about["dataset"] and manifest["version"] == bundle.about["version"]
    ok = digest == said and whole and same
    return Check("frame digest", ok, f"{digest}, {len(manifest['units'])} trajectories in {len(sizes)} strata")


def _seed(text: str) -> int:
    seed = int(text)
    if not 0 <= seed <= LARGEST_SEED:
        raise BundleError(f"{text[:40]} is no seed.")
    return seed


def _sample(bundle: Bundle) -> Check:
    """The units of each stratum with the smallest keys, sizes by the plan."""
    manifest, about = bundle.json("frame.json"), bundle.about["sample"]
    sizes = allocate(Plan.from_json(about["plan"]), [int(stratum["size"]) for stratum in manifest["strata"]])
    members = groupby(manifest["units"], key=lambda unit: unit[2])
    drawn: set[tuple[str, str]] = set()
    for size, (number, units) in zip(sizes, members, strict=True):
        ids = [unit[0] for unit in units]
        keys = draw_keys(bundle.about["frame_digest"], _seed(about["seed"]), int(number), len(ids))
        drawn |= {(ids[place], str(number)) for place in np.argsort(keys, kind="stable")[:size]}
    listed = [(row["source_id"], row["drawn"]) for row in bundle.rows("units.csv", UNIT_COLUMNS) if row["drawn"]]
    ok = len(listed) == len(drawn) == about["size"] and set(listed) == drawn
    return Check("sample", ok, f"{len(drawn)} trajectories from seed {about['seed']}, {_place(about)}")


def _place(about: Json) -> str:
    """Which draw of how many; a part of one is no draw of its own."""
    whole = about.get("part_of")
    named = f"part of draw {whole['draw']}" if whole else f"draw {about['draw']}"
    return f"{named} of {about['draws']}"


def _probabilities(bundle: Bundle) -> Check:
    """Inclusion probabilities n_h / N_h and their inverses."""
    sizes = {str(stratum["number"]): stratum["size"] for stratum in bundle.json("frame.json")["strata"]}
    drawn: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in bundle.rows("units.csv", UNIT_COLUMNS):
        if row["drawn"]:
            drawn[row["drawn"]].append((float(row["inclusion_probability"]), float(row["weight"])))
    wrong = sum(
        not (_close(probability, len(rows) / sizes[number]) and _close(weight, sizes[number] / len(rows)))
        for number, rows in drawn.items()
        for probability, weight in rows
    )
    return Check("inclusion probabilities", not wrong, f"{wrong} are wrong" if wrong else "n_h / N_h in every stratum")


def _round(bundle: Bundle, about: Json) -> Iterator[Check]:
    """Each draw of a round: the units of each cell with the smallest keys, out of the manifest of its pool."""
    for extension, draw in enumerate(about["draws"]):
        name = f"rounds/{draw['manifest']}.json"
        manifest = bundle.json(name)
        intact = hashlib.sha256(bundle.content[name]).hexdigest() == draw["manifest"]
        wrong = 0
        for number, (cell, pool) in enumerate(zip(draw["cells"], manifest["cells"], strict=True), 1):
            keys = draw_keys(draw["manifest"], _seed(about["seed"]), number, len(pool["units"]))
            chosen = np.argsort(keys, kind="stable")[: int(cell["drawn"])]
            same = (cell["stratum"], cell["answer"], cell["size"]) == (
                pool["stratum"],
                pool["answer"],
                len(pool["units"]),
            )
            wrong += not same or sorted(pool["units"][place] for place in chosen) != cell["units"]
        count = sum(len(cell["units"]) for cell in draw["cells"])
        ok = intact and not wrong and manifest["frame"] == bundle.about["frame_digest"]
        which = f"round {about['number']}" + (f", extension {extension}" if extension else "")
        yield Check(f"draw of {which}", ok, f"{count} items from seed {about['seed']}, {wrong} cells differ")


def _cells(bundle: Bundle) -> Check:
    """The cell of every drawn unit that people were drawn from, as `observations.phases` makes it from labels."""
    rounds = bundle.about["rounds"]
    judges = list(dict.fromkeys(about["judge"] for about in rounds if about["judge"]))
    drawn = {
        unit: cell["answer"]
        for about in rounds
        for draw in about["draws"]
        for cell in draw["cells"]
        for unit in cell["units"]
    }
    said: dict[tuple[str, str], str] = {}
    labeled: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
    for row in bundle.rows("labels.csv", COLUMNS):
        if row["label_source"] in (*PEOPLE, LabelSource.ADJUDICATED):
            labeled[row["source_id"]].add((row["label_source"], row["created_at"]))
        elif int(row["replicate"] or 0) == 0 and row["acceptable"]:
            said[row["judge_digest"], row["source_id"]] = row["acceptable"]
    first = min((datetime.fromisoformat(about["drawn_at"]).replace(microsecond=0) for about in rounds), default=None)
    manifests = [draw["manifest"] for about in rounds for draw in about["draws"]]
    regraded = any(bundle.json(f"rounds/{manifest}.json")["regrade"] for manifest in manifests)

    def cells_of(unit: str) -> set[str]:
        if first is None:
            return {""}
        by_judges = " ".join(said.get((judge, unit), "unknown") for judge in judges)
        cell = (drawn.get(unit) if len(judges) == 1 else "") or by_judges
        marks = _marks(labeled[unit], first, drawn=unit in drawn, regraded=regraded) if unit in labeled else {""}
        return {f"{mark}{cell}" for mark in marks}

    units = [row for row in bundle.rows("units.csv", UNIT_COLUMNS) if row["drawn"]]
    wrong = sum(row["phase"] not in cells_of(row["source_id"]) for row in units)
    return Check(
        "cells", not wrong, f"{wrong} units are in another" if wrong else f"{len(units)} units by their labels"
    )


def _marks(labels: set[tuple[str, str]], first: datetime, *, drawn: bool, regraded: bool) -> set[str]:
    """What may stand before the cell of a unit with people's labels.

    Times are known to the second, and of a grade it is not said when its round was drawn: then both are possible.
    """
    made = [datetime.fromisoformat(at) for source, at in labels if source == LabelSource.IMPORTED_HUMAN]
    if made and min(made) < first:
        return {"before "}
    if drawn and not regraded:
        return {""}
    unsure = len(made) < len(labels) or min(made) == first
    return {"" if drawn else LATE} | ({"before "} if unsure else set())


# --- the estimates


def _estimates(bundle: Bundle) -> Iterator[Check]:
    reported = bundle.json("estimates.json")
    made = orjson.loads(orjson.dumps(recomputable(observations(bundle))))
    same_code = bundle.about["code_sha256"] == code_sha256()
    yield Check("estimators", same_code, "the same source" if same_code else "another version of the program made it")
    for key, found in made.items():
        where = next(_differences(found, reported.get(key), key), None)
        yield Check(f"estimate {key}", where is None, "equal" if where is None else f"differs at {where}")


def _differences(found: Json, said: Json, path: str) -> Iterator[str]:
    if isinstance(found, dict) and isinstance(said, dict):
        for key in found.keys() | said.keys():
            yield from _differences(found.get(key), said.get(key), f"{path}.{key}")
    elif isinstance(found, list) and isinstance(said, list) and len(found) == len(said):
        for number, (one, other) in enumerate(zip(found, said, strict=True)):
            yield from _differences(one, other, f"{path}[{number}]")
    elif not _same(found, said):
        yield path


def _same(found: Json, said: Json) -> bool:
    numbers = isinstance(found, (int, float)) and isinstance(said, (int, float))
    return _close(found, said) if numbers else found == said


def _close(found: float, said: float) -> bool:
    return math.isclose(found, said, rel_tol=CLOSE, abs_tol=CLOSE)


def observations(bundle: Bundle) -> Observations:
    """What a database would have told, from units and labels."""
    said = _said(bundle)
    tasks: dict[str, int] = {}
    late = 0
    units: defaultdict[str, list[Unit]] = defaultdict(list)
    for number, row in enumerate(bundle.rows("units.csv", UNIT_COLUMNS)):
        cell = cast(Cell, tuple(row[field] for field in CELL))
        is_late = row["phase"].startswith(LATE)
        late += is_late
        spoken = said[row["source_id"]] | ({"people": [], "settled": []} if is_late else {})
        unit = Unit(
            trajectory=number,
            task=tasks.setdefault(row["task"], len(tasks)),
            cell=cell,
            phase=row["phase"].removeprefix(LATE),
            steps=int(row["steps"]) if row["steps"] else None,
            **{part: tuple(spoken.get(part, ())) for part in ("looks", "people", "judges", "settled")},
        )
        units[row["drawn"]].append(unit)
    strata = bundle.json("frame.json")["strata"]
    cohorts = tuple(_cohort(stratum, units[str(stratum["number"])]) for stratum in strata)
    judge = bundle.about["judge"]
    config: Any = SimpleNamespace(**judge) if judge else None
    failing = tuple(bundle.about["failing"])
    nothing: Any = None
    drawn_by = len(bundle.about["rounds"])
    return Observations(nothing, nothing, config, failing, cohorts, tuple(units[""]), drawn_by, late)


def _cohort(stratum: Json, units: list[Unit]) -> Cohort:
    cell = cast(Cell, tuple(str(stratum[field]) for field in CELL))
    if any(unit.cell != cell for unit in units):
        raise BundleError(f"units.csv and frame.json differ on what stratum {stratum['number']} holds.")
    return Cohort(cell, int(stratum["size"]), tuple(units))


def _said(bundle: Bundle) -> defaultdict[str, dict[str, list[Said]]]:
    """By source id and kind of labeler, in the order that observations have."""
    judge = (bundle.about["judge"] or {}).get("digest")
    found: defaultdict[str, dict[str, list[Said]]] = defaultdict(dict)
    for row in sorted(bundle.rows("labels.csv", COLUMNS), key=_order):
        part = _part(row, judge)
        if part:
            labeler = row["judge_model"] if row["label_source"] == LabelSource.IMPORTED_JUDGE else row["reviewer"]
            answers = (row[field] or None for field in ("acceptable", "decision", "integrity", "decision_after"))
            found[row["source_id"]].setdefault(part, []).append(Said(labeler, *answers))
    return found


def _order(row: dict[str, str]) -> tuple[int, str]:
    """Adjudicated labels stay in the order of the file, which is that of their age."""
    if row["label_source"] == LabelSource.ADJUDICATED:
        return 0, ""
    return int(row["replicate"] or 0), row["reviewer"] or row["judge_model"]


def _part(row: dict[str, str], judge: str | None) -> str | None:
    source = row["label_source"]
    if source in PEOPLE:
        return "people"
    if source == LabelSource.ADJUDICATED:
        return "settled"
    if source == LabelSource.IMPORTED_JUDGE:
        return "judges"
    return "looks" if row["judge_digest"] == judge else None
