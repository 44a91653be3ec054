"""Labels are listed by their key: both arms of the view keep it in an index, so that a page reads only its own rows.

A database merges the arms in order only where neither joins (so the judge's name is looked up in the select list) and
both have columns of the same type (so constants are cast).
"""

from django.db import migrations, models
from django.db.models import F

BEFORE = """
CREATE VIEW auditapp_label AS
SELECT j.id * 4 AS key, j.public_id, 'judge' AS source, j.version_id, j.trajectory_id, j.id AS judgment_id,
       j.config_id, j.replicate, c.name AS labeler, j.state, j.reason, j.decision, j.integrity, j.acceptable, j.outcome,
       j.outcome_reason, j.decision_after, j.confidence, j.n_citations, j.n_citations_verified, j.cost_usd,
       j.input_tokens, j.output_tokens, j.created_at
FROM auditapp_judgment j JOIN auditapp_judgeconfig c ON c.id = j.config_id
UNION ALL
SELECT i.id * 4 + 1, i.public_id, CASE i.kind WHEN 'human' THEN 'imported_human' ELSE 'imported_judge' END,
       i.version_id, i.trajectory_id, NULL, NULL, NULL, i.labeler, 'completed', '', i.decision, i.integrity,
       i.acceptable, i.outcome, i.outcome_reason, NULL, '', NULL, NULL, NULL, NULL, NULL, i.created_at
FROM auditapp_importedlabel i
"""
AFTER = """
CREATE VIEW auditapp_label AS
SELECT j.id * 4 AS key, j.public_id, CAST('judge' AS varchar(20)) AS source, j.version_id, j.trajectory_id,
       j.id AS judgment_id, j.config_id, j.replicate,
       (SELECT c.name FROM auditapp_judgeconfig c WHERE c.id = j.config_id) AS labeler, j.state, j.reason, j.decision,
       j.integrity, j.acceptable, j.outcome, j.outcome_reason, j.decision_after, j.confidence, j.n_citations,
       j.n_citations_verified, j.cost_usd, j.input_tokens, j.output_tokens, j.created_at
FROM auditapp_judgment j
UNION ALL
SELECT i.id * 4 + 1, i.public_id,
       CAST(CASE i.kind WHEN 'human' THEN 'imported_human' ELSE 'imported_judge' END AS varchar(20)),
       i.version_id, i.trajectory_id, CAST(NULL AS bigint), CAST(NULL AS bigint), CAST(NULL AS integer), i.labeler,
       CAST('completed' AS varchar(10)), CAST('' AS varchar(60)), i.decision, i.integrity, i.acceptable, i.outcome,
       i.outcome_reason, CAST(NULL AS varchar(15)), CAST('' AS varchar(10)), CAST(NULL AS integer),
       CAST(NULL AS integer), CAST(NULL AS numeric(14, 6)), CAST(NULL AS bigint), CAST(NULL AS bigint), i.created_at
FROM auditapp_importedlabel i
"""
DROP = "DROP VIEW auditapp_label"


class Migration(migrations.Migration):
    dependencies = [("auditapp", "0007_rate_limits_and_run_tokens")]

    operations = [
        migrations.RunSQL([DROP, AFTER], [DROP, BEFORE]),
        migrations.AddIndex("judgment", models.Index("version", F("id") * 4, name="judgment_by_label_key")),
        migrations.AddIndex("importedlabel", models.Index("version", F("id") * 4 + 1, name="imported_by_label_key")),
    ]
