"""Grades of released rounds are labels: a third arm of the view, with keys of its own, in an index as the others."""

from django.db import migrations

BEFORE = """
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
AFTER = (
    BEFORE
    + """UNION ALL
SELECT r.id * 4 + 2, r.public_id, CAST(r.kind AS varchar(20)), r.version_id, r.trajectory_id, CAST(NULL AS bigint),
       CAST(NULL AS bigint), CAST(NULL AS integer), r.labeler, CAST('completed' AS varchar(10)),
       CAST('' AS varchar(60)), r.decision, r.integrity, r.acceptable, r.outcome, r.outcome_reason,
       CAST(NULL AS varchar(15)), r.confidence, r.n_citations, r.n_citations_verified, CAST(NULL AS numeric(14, 6)),
       CAST(NULL AS bigint), CAST(NULL AS bigint), r.created_at
FROM auditapp_reviewlabel r
"""
)
DROP = "DROP VIEW auditapp_label"


class Migration(migrations.Migration):
    dependencies = [("auditapp", "0009_review_and_estimates")]

    operations = [migrations.RunSQL([DROP, AFTER], [DROP, BEFORE])]
