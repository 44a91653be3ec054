"""From a record to the rows of a trajectory; bodies are stored on the way."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from auditapp import blobs
from auditapp.importers import ImportOptions
from auditapp.models.datasets import DatasetVersion, Trajectory
from auditapp.models.sources import ImportBatch, ImportNotice, NoticeKind, TrajectorySource
from judges.records import FileEntry, FileTree, Notice, Original, ParseFailure, TrajectoryRecord, content_digest

NOTICES_PER_TRAJECTORY = 50
_SMALL, _LARGE = 2**31 - 1, 2**63 - 1  # as PostgreSQL holds whole numbers
_MOST = {"attempt": _SMALL, "training_step": _LARGE}
_MOST_USED = dict.fromkeys(("input_tokens", "cached_tokens", "output_tokens"), _LARGE) | {"cost_usd": 10**8 - 1}


def put_tree(tree: FileTree | None) -> str | None:
    """The digest of a stored tree; None for one that was not recorded."""
    return None if tree is None else blobs.put_tree(tree)


def countable(record: TrajectoryRecord) -> TrajectoryRecord:
    """The record with each count or cost that is below 0 or in no column unknown, and a warning that says which."""
    odd, odd_used = _no_counts(record, _MOST), _no_counts(record.usage, _MOST_USED)
    if not odd and not odd_used:
        return record
    said = ((name, f"{number} cannot be; unknown now") for name, number in (odd | odd_used).items())
    warnings = (*record.warnings, *(Notice("number_out_of_range", *told) for told in said))
    unknown: dict[str, Any] = dict.fromkeys(odd)
    unknown_used: dict[str, Any] = dict.fromkeys(odd_used)
    return replace(record, usage=replace(record.usage, **unknown_used), warnings=warnings, **unknown)


def _no_counts(holder: object, most: Mapping[str, int]) -> dict[str, float]:
    found = {name: getattr(holder, name) for name in most}
    return {name: number for name, number in found.items() if number is not None and not 0 <= number <= most[name]}


def trajectory_row(record: TrajectoryRecord, version: DatasetVersion, streams: str | None) -> Trajectory:
    """The unsaved blind half of a trajectory, its bodies stored; its task is set by the caller."""
    steps = blobs.put_steps(record.steps) if record.steps_recorded else None
    deliverable = put_tree(record.deliverable)
    content = {
        "task": record.task.task_id,
        "steps": steps and steps.digest,
        "deliverable": deliverable,
        "verifier": [record.verifier.reward, dict(record.verifier.rewards), streams],
        "subject": [record.agent, record.agent_version, record.model, record.effort, record.attempt],
    }
    return Trajectory(
        version=version,
        content_sha256=content_digest(content),
        steps_blob=steps.digest if steps else None,
        n_steps=steps.count if steps else None,
        n_characters=steps.characters if steps else None,
        deliverable_tree=deliverable,
    )


def source_row(record: TrajectoryRecord, batch: ImportBatch, streams: str | None) -> TrajectorySource:
    """The unsaved hidden half; raises ValueError for a source id that could not be found again."""
    verifier, usage = record.verifier, record.usage
    options = ImportOptions(pass_threshold=batch.version.pass_threshold)
    return TrajectorySource(
        version=batch.version,
        batch=batch,
        source_id=_source_id(record.source_id),
        agent=storable(record.agent, 200),
        agent_version=storable(record.agent_version, 100),
        model=storable(record.model, 200),
        effort=storable(record.effort, 50),
        attempt=record.attempt,
        training_step=record.training_step,
        is_control=record.is_control,
        verifier_status=verifier.status,
        verifier_reason=storable(verifier.reason, 200),
        # What an invalid verdict would have counted as; any other stands as it was recorded.
        recorded_status=options.status(verifier.reward) if verifier.status == "invalid" else verifier.status,
        proof_locator=storable(verifier.proof.locator if verifier.proof else "", 300),
        proof=storable(verifier.proof.detail if verifier.proof else "", 1000),
        reward=verifier.reward,
        rewards=dict(verifier.rewards),
        verifier_tree=streams,
        original_tree=put_tree(_OriginalFiles(record.originals)) if record.originals else None,
        exception=storable(record.exception, 200),
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=usage.cost_usd,
        started_at=storable(record.started_at or "", 40),
        finished_at=storable(record.finished_at or "", 40),
        flags=sorted({flag.code for flag in record.flags}),
        extra=dict(record.extra),
    )


def _source_id(text: str) -> str:
    """The name by which a trajectory is found again; one that had to be cut would not be the same name."""
    if not text or len(text) > 300 or storable(text, 300) != text:
        raise ValueError(f"its source id {text[:60]!r} is empty, longer than 300 characters or holds a NUL")
    return text


class _OriginalFiles:
    """The files of a record as they came, as one tree."""

    def __init__(self, originals: Sequence[Original]) -> None:
        self.originals = {original.name: original for original in originals}

    def entries(self) -> list[FileEntry]:
        return [FileEntry(name, 0) for name in sorted(self.originals)]

    def read(self, path: str, *, limit: int | None = None) -> bytes:
        original = self.originals[path]
        return original.tree.read(original.path, limit=limit)


def notice_rows(
    trajectory: Trajectory, batch: ImportBatch, warnings: Sequence[Notice], flags: Sequence[Notice]
) -> Iterator[ImportNotice]:
    """The unsaved notices of a trajectory, at most 50 of a kind; the counts of the batch hold them all."""
    for kind, notices in ((NoticeKind.WARNING, warnings), (NoticeKind.FLAG, flags)):
        for notice in notices[:NOTICES_PER_TRAJECTORY]:
            yield _notice(notice, kind, trajectory, batch)


def _notice(notice: Notice, kind: NoticeKind, trajectory: Trajectory, batch: ImportBatch) -> ImportNotice:
    return ImportNotice(
        batch=batch,
        trajectory=trajectory,
        kind=kind,
        code=storable(notice.code, 60),
        locator=storable(notice.locator, 300),
        detail=storable(notice.detail, 500),
    )


def conflict(source_id: str, stored: str, digest: str, version: DatasetVersion) -> ParseFailure:
    """Why the same id with other content is refused."""
    return ParseFailure(
        source_id,
        f"{version} already holds this id with other content (stored {stored[:12]}, here {digest[:12]}). "
        "Nothing was changed; import it as a new version with --dataset-version.",
    )


def storable(text: str, limit: int) -> str:
    """Text that every database takes: NUL and lone surrogates made visible, cut at `limit` with an ellipsis."""
    clean = text.replace("\x00", "␀").encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
