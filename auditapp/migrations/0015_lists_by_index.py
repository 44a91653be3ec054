"""Lists find what is rare by an index, and the task of a trajectory stands beside its verdict, so that both are counted without a join."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import F, Q

TASKS = """
UPDATE auditapp_trajectorysource
SET task_id = (SELECT t.task_id FROM auditapp_trajectory t WHERE t.id = auditapp_trajectorysource.trajectory_id)
"""
KEY = F("id") * 4


def _task(**options):
    to = {"to": "auditapp.task", "on_delete": django.db.models.deletion.PROTECT, "related_name": "+"}
    return models.ForeignKey(db_index=False, **to, **options)


class Migration(migrations.Migration):
    dependencies = [("auditapp", "0014_parts_of_samples")]

    operations = [
        migrations.AddField("trajectorysource", "task", _task(null=True)),
        migrations.RunSQL(TASKS, migrations.RunSQL.noop),
        migrations.AlterField("trajectorysource", "task", _task()),
        migrations.RemoveIndex("trajectorysource", "source_by_status"),
        migrations.AddIndex(
            "trajectorysource",
            models.Index(
                fields=["version", "verifier_status", "verifier_reason", "is_control"], name="source_by_verdict"
            ),
        ),
        migrations.AddIndex(
            "trajectorysource", models.Index(fields=["task", "verifier_status"], name="source_by_task")
        ),
        migrations.AddIndex(
            "trajectorysource", models.Index(fields=["version", "trajectory", "source_id"], name="source_by_name")
        ),
        migrations.AddIndex(
            "trajectorysource",
            models.Index(fields=["version", "trajectory"], name="source_control", condition=Q(is_control=True)),
        ),
        migrations.AddIndex("importedlabel", models.Index("version", "labeler", KEY + 1, name="imported_by_labeler")),
        migrations.RemoveIndex("judgment", "judgment_version_outcome"),
        migrations.RemoveIndex("judgment", "judgment_run_queue"),
        migrations.AddIndex(
            "judgment", models.Index(fields=["run", "state", "id", "cost_usd"], name="judgment_run_queue")
        ),
        migrations.AddIndex(
            "judgment",
            models.Index(
                fields=["run", "state", "replicate", "outcome", "outcome_reason", "reason"], name="judgment_run_tally"
            ),
        ),
        migrations.AddIndex("judgment", models.Index("version", "config", KEY, name="judgment_by_judge")),
        migrations.AddIndex("judgment", models.Index("version", "outcome", "config", KEY, name="judgment_by_outcome")),
        migrations.AddIndex(
            "judgment", models.Index("version", "reason", KEY, name="judgment_by_reason", condition=~Q(reason=""))
        ),
        migrations.AddIndex(
            "judgment",
            models.Index("version", "outcome_reason", KEY, name="judgment_by_open", condition=~Q(outcome_reason="")),
        ),
        migrations.AddIndex(
            "judgment", models.Index("version", KEY, name="judgment_hacked", condition=Q(integrity="hacked"))
        ),
        migrations.AddIndex(
            "judgment",
            models.Index(
                fields=["config", "acceptable", "trajectory"], name="judgment_by_answer", condition=Q(replicate=0)
            ),
        ),
        migrations.AddIndex(
            "judgment",
            models.Index(fields=["config", "trajectory"], name="judgment_again", condition=Q(replicate__gt=0)),
        ),
    ]
