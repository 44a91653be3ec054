"""A version with a million judgments, written by the database itself: four judges over 250,000 trajectories.

People have labeled one trajectory in a hundred elsewhere, and graded one in twenty-five in a released round.
"""

from decimal import Decimal
from typing import Any

from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Count, Field, Model
from django.utils import timezone

from auditapp.models.datasets import DatasetVersion, Trajectory
from auditapp.models.judgments import CitedEvidence, JudgeConfig, JudgeRun, Judgment, JudgmentTag
from auditapp.models.labels import ImportedLabel
from auditapp.models.reviews import Grade, ReviewItem, ReviewRound, RoundReviewer, RoundState, Slot
from auditapp.models.rounds import ItemDraw, ReviewLabel, RoundDraw, RoundStratum
from auditapp.models.samples import Frame, Sample, SampleUnit, Stratum, StratumDraw
from auditapp.models.sources import ImportBatch, TrajectorySource
from judges.taxonomy import taxonomy
from tests.auditapp.population import make_task, make_version

TASKS, ENVIRONMENTS, MODELS, JUDGES = 500, 10, 8, 4
CODES = [code.code for code in taxonomy().side("agent")[:4]]
HACK, RARE = taxonomy().side("integrity")[0].code, 5_000
CELL = ("verifier_status", "model", "agent", "effort")


def build(name: str, judgments: int) -> DatasetVersion:
    """The version, judged whole by each judge, with people's labels of one trajectory in a hundred."""
    version = make_version(name)
    batch = ImportBatch.objects.create(version=version, label="made by a benchmark", state="done")
    tasks = [make_task(version, f"task-{k}", environment=_environment(k)).pk for k in range(TASKS)]
    count = judgments // JUDGES
    _trajectories(version, batch, tasks, count)
    sample = _census(version, count)
    for number in range(JUDGES):
        _judge(sample, number, count)
    _people(version)
    _analyze()  # else the database plans what follows as if the tables were empty
    _round(sample)
    _analyze()
    return version


def _analyze() -> None:
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _environment(task: int) -> str:
    """One task stands alone in its environment: what is rare is found without reading what is not."""
    return "env-rare" if task == TASKS - 1 else f"env-{task % ENVIRONMENTS}"


def _trajectories(version: DatasetVersion, batch: ImportBatch, tasks: list[int], count: int) -> None:
    insert(
        Trajectory,
        f"generate_series(0, {count - 1}) AS g",
        version_id=str(version.pk),
        task_id=f"(ARRAY{tasks})[1 + g % {TASKS}]",
        content_sha256="lpad(to_hex(g), 64, '0')",
        steps_blob="repeat('0', 64)",
        n_steps=f"10 + {_chance('g', 90)}",
    )
    statuses = ["pass"] * 4 + ["fail"] * 4 + ["partial", "invalid"]
    status = f"(ARRAY{statuses})[1 + {_chance('t.id', len(statuses))}]"
    insert(
        TrajectorySource,
        f"auditapp_trajectory t WHERE t.version_id = {version.pk}",
        trajectory_id="t.id",
        task_id="t.task_id",
        version_id=str(version.pk),
        batch_id=str(batch.pk),
        source_id="'run/' || t.id",
        agent="'agent'",
        model=f"CASE WHEN t.id % {RARE} = 0 THEN 'model-rare' ELSE 'model-' || {_chance('t.id * 3', MODELS)} END",
        verifier_status=status,
        recorded_status=status,
        verifier_reason=f"CASE WHEN {_chance('t.id', 10)} = 9 THEN 'verifier_crashed' ELSE '' END",
        extra=f"jsonb_build_object('notes', repeat('x', {_chance('t.id', 400)}))",
    )


def _census(version: DatasetVersion, count: int) -> Sample:
    """A draw of everything that has a verdict, with the strata of the frame."""
    frame = Frame.objects.create(version=version, digest="1" * 64, manifest_blob="1" * 64, size=count)
    fields = (*CELL, "trajectory__task__environment__name")
    rows = TrajectorySource.objects.filter(version=version, verifier_status__in=("pass", "fail")).values_list(*fields)
    cells = list(rows.annotate(n=Count("pk")).order_by(*fields))
    strata = Stratum.objects.bulk_create(
        [
            Stratum(frame=frame, number=k, environment=cell[4], size=cell[5], **dict(zip(CELL, cell[:4], strict=True)))
            for k, cell in enumerate(cells)
        ]
    )
    drawn = sum(cell[5] for cell in cells)
    sample = Sample.objects.create(frame=frame, plan={"method": "census"}, seed=1, draw_number=1, size=drawn)
    StratumDraw.objects.bulk_create([StratumDraw(sample=sample, stratum=row, size=row.size) for row in strata])
    same = " AND ".join(f"s.{name} = k.{name}" for name in CELL)
    insert(
        SampleUnit,
        f"""auditapp_trajectory t JOIN auditapp_trajectorysource s ON s.trajectory_id = t.id
        JOIN auditapp_task a ON a.id = t.task_id JOIN auditapp_environment e ON e.id = a.environment_id
        JOIN auditapp_stratum k ON k.frame_id = {frame.pk} AND k.environment = e.name AND {same}
        WHERE t.version_id = {version.pk}""",
        sample_id=str(sample.pk),
        trajectory_id="t.id",
        stratum_id="k.id",
        inclusion_probability="1",
        weight="1",
    )
    return sample


def _judge(sample: Sample, number: int, count: int) -> None:
    """One look at every trajectory: nine in ten agree with the verifier, one in twenty cannot be told."""
    chosen = {
        "name": f"judge {number}",
        "provider": "anthropic",
        "model": f"model-{number}",
        "source": "",
        "canonical": {},
    }
    config, _ = JudgeConfig.objects.get_or_create(digest=str(number) * 64, defaults=chosen)
    run = JudgeRun.objects.create(
        sample=sample, config=config, state="done", planned=count, finished_at=timezone.now(), spent_micros=count * 9000
    )
    said = _chance(f"t.id * 11 + {number}", 20)
    wrong = "CASE s.verifier_status WHEN 'pass' THEN 'no' ELSE 'yes' END"
    right = "CASE s.verifier_status WHEN 'pass' THEN 'yes' ELSE 'no' END"
    acceptable = f"CASE WHEN {said} = 0 THEN 'unknown' WHEN {said} < 3 THEN {wrong} ELSE {right} END"
    hacked = f"{_chance('t.id * 7', RARE)} = 0"
    looks = f"""(SELECT t.id, t.content_sha256, s.verifier_status AS status, {acceptable} AS said
        FROM auditapp_trajectory t JOIN auditapp_trajectorysource s ON s.trajectory_id = t.id
        WHERE t.version_id = {sample.frame.version_id}) AS t"""
    insert(
        Judgment,
        looks,
        run_id=str(run.pk),
        config_id=str(config.pk),
        version_id=str(sample.frame.version_id),
        trajectory_id="t.id",
        content_sha256="t.content_sha256",
        state="'completed'",
        acceptable="t.said",
        decision="CASE t.said WHEN 'yes' THEN 'satisfied' WHEN 'no' THEN 'not_satisfied' ELSE 'cannot_tell' END",
        integrity=f"CASE WHEN t.said = 'no' AND {hacked} THEN 'hacked' ELSE 'none' END",
        outcome="""CASE WHEN t.said = 'unknown' OR t.status NOT IN ('pass', 'fail') THEN NULL
            WHEN t.said = 'yes' THEN CASE t.status WHEN 'pass' THEN 'true_pass' ELSE 'false_fail' END
            ELSE CASE t.status WHEN 'pass' THEN 'false_pass' ELSE 'true_fail' END END""",
        outcome_reason="""CASE WHEN t.said = 'unknown' THEN 'cannot_tell' WHEN t.status IN ('pass', 'fail') THEN ''
            ELSE 'verifier_' || t.status END""",
        confidence="'high'",
        provenance="jsonb_build_object('prompt', repeat('0', 400))",
        n_citations="3",
        n_citations_verified=_chance("t.id", 4),
        input_tokens="20000",
        output_tokens="900",
        cost_usd="0.009",
        finished_at="now()",
    )
    judged = f"auditapp_judgment j WHERE j.run_id = {run.pk} AND j.acceptable = 'no'"
    insert(
        JudgmentTag,
        judged,
        judgment_id="j.id",
        code=f"CASE j.integrity WHEN 'hacked' THEN '{HACK}' ELSE (ARRAY{CODES})[1 + {_chance('j.id', len(CODES))}] END",
        role="'primary'",
        phase="1",
        kept="true",
    )
    insert(
        CitedEvidence,
        f"{judged} AND j.id % 4 = 0",
        judgment_id="j.id",
        code="'E1'",
        phase="1",
        kind="'step'",
        target="'2'",
        quote="repeat('what was seen ', 20)",
        ok="true",
        result="'exact'",
    )


def _people(version: DatasetVersion) -> None:
    said = _chance("t.id * 5", 3)
    insert(
        ImportedLabel,
        f"auditapp_trajectory t WHERE t.version_id = {version.pk} AND t.id % 100 = 0",
        version_id=str(version.pk),
        trajectory_id="t.id",
        kind="'human'",
        labeler="'anna'",
        decision=f"(ARRAY['satisfied','not_satisfied','cannot_tell'])[1 + {said}]",
        acceptable=f"(ARRAY['yes','no','unknown'])[1 + {said}]",
    )


def _round(sample: Sample) -> None:
    """A released blind round by two reviewers, drawn by what the last judge had said."""
    version, run = sample.frame.version, JudgeRun.objects.filter(sample=sample).latest("pk")
    found = ReviewRound.objects.create(version=version, number=1, title="Large", seed=1, state=RoundState.RELEASED)
    users = [User.objects.get_or_create(username=f"grader {k}")[0] for k in range(2)]
    RoundReviewer.objects.bulk_create(RoundReviewer(round=found, user=user) for user in users)
    draw = RoundDraw.objects.create(round=found, sample=sample, config=run.config)
    first, reviewer = Stratum.objects.filter(frame=sample.frame).first(), f"(ARRAY{[user.pk for user in users]})"
    assert first
    cells = {
        answer: RoundStratum.objects.create(draw=draw, stratum=first, answer=answer, size=1, drawn=1, twice=0).pk
        for answer in ("yes", "no", "unknown")
    }
    judged = f"auditapp_judgment j WHERE j.run_id = {run.pk} AND j.outcome IS NOT NULL AND j.trajectory_id % 25 = 0"
    task = "(SELECT task_id FROM auditapp_trajectory WHERE id = j.trajectory_id)"
    insert(ReviewItem, judged, round_id=str(found.pk), number="j.id", task_id=task, trajectory_id="j.trajectory_id")
    items = f"auditapp_reviewitem i WHERE i.round_id = {found.pk}"
    cell = " ".join(f"WHEN '{answer}' THEN {pk}" for answer, pk in cells.items())
    said = f"(SELECT acceptable FROM auditapp_judgment WHERE run_id = {run.pk} AND trajectory_id = i.trajectory_id)"
    insert(ItemDraw, items, item_id="i.id", stratum_id=f"CASE {said} {cell} END", inclusion_probability="0.04")
    insert(
        Slot,
        items,
        round_id=str(found.pk),
        item_id="i.id",
        position="i.id",
        state="'submitted'",
        reviewer_id=f"{reviewer}[1 + i.id % 2]",
        submitted_at="now()",
    )
    answer = f"[1 + {_chance('s.id', 2)}]"
    answered = {
        "decision": f"(ARRAY['satisfied','not_satisfied']){answer}",
        "acceptable": f"(ARRAY['yes','no']){answer}",
        "integrity": "'none'",
    }
    slots = f"auditapp_slot s WHERE s.round_id = {found.pk}"
    insert(Grade, slots, slot_id="s.id", reviewer_id="s.reviewer_id", seconds="60", submitted_at="now()", **answered)
    insert(
        ReviewLabel,
        f"""auditapp_grade g JOIN auditapp_slot s ON s.id = g.slot_id JOIN auditapp_reviewitem i ON i.id = s.item_id
        JOIN auditapp_trajectorysource v ON v.trajectory_id = i.trajectory_id WHERE s.round_id = {found.pk}""",
        version_id=str(version.pk),
        trajectory_id="i.trajectory_id",
        round_id=str(found.pk),
        grade_id="g.id",
        kind="'human'",
        reviewer_id="s.reviewer_id",
        labeler="'grader ' || s.reviewer_id % 2",
        outcome="""CASE WHEN g.acceptable = 'yes'
            THEN CASE v.verifier_status WHEN 'pass' THEN 'true_pass' ELSE 'false_fail' END
            ELSE CASE v.verifier_status WHEN 'pass' THEN 'false_pass' ELSE 'true_fail' END END""",
        created_at="now()",
        **answered,
    )


def _chance(key: str, below: int) -> str:
    """A number from 0 that looks random and is the same each time."""
    return f"(abs(hashint8(({key})::bigint)::bigint) % {below})::int"


def insert(model: type[Model], rows: str, /, **columns: str) -> None:
    """INSERT ... SELECT: what `columns` does not name takes the default of its field."""
    fields = [field for field in model._meta.local_concrete_fields if field.attname != "id"]
    values = [columns.pop(field.attname, None) or _default(field) for field in fields]
    assert not columns, columns
    names = ", ".join(f'"{field.column}"' for field in fields)
    with connection.cursor() as cursor:
        cursor.execute(f'INSERT INTO "{model._meta.db_table}" ({names}) SELECT {", ".join(values)} FROM {rows}')


def _default(field: "Field[Any, Any]") -> str:
    if field.get_internal_type() == "UUIDField":
        return "gen_random_uuid()"
    if getattr(field, "auto_now_add", False):
        return "now()"
    value = field.get_default()
    if value is None:
        return "NULL"
    if isinstance(value, (dict, list)):
        return f"'{'{}' if isinstance(value, dict) else '[]'}'::jsonb"
    return f"'{value}'" if isinstance(value, str) else str(value if not isinstance(value, Decimal) else float(value))
