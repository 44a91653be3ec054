"""The view behind `labels()`: one arm per origin. A migration that alters a table of the view drops it first and makes it anew."""

from django.db import migrations

CREATE = """
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


class Migration(migrations.Migration):
    """Create the view."""

    dependencies = [("auditapp", "0001_initial")]

    operations = [migrations.RunSQL(CREATE, "DROP VIEW auditapp_label")]
