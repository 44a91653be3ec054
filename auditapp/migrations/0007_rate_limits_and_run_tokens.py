from django.db import migrations, models
from django.db.models import Count, Q, Sum


def count(apps, _editor):
    """Runs know the tokens of the calls they made before."""
    calls = apps.get_model("auditapp", "ProviderCall").objects
    runs = apps.get_model("auditapp", "JudgeRun").objects
    ended = calls.exclude(state="reserved").order_by()
    totals = ended.values("execution__judgment__run").annotate(
        input=Sum("input_tokens"),
        cached=Sum("cached_tokens"),
        output=Sum("output_tokens"),
        uncounted=Count("pk", filter=Q(input_tokens__isnull=True)),
    )
    for row in totals:
        runs.filter(pk=row["execution__judgment__run"]).update(
            input_tokens=row["input"] or 0,
            cached_tokens=row["cached"] or 0,
            output_tokens=row["output"] or 0,
            uncounted_calls=row["uncounted"],
        )


class Migration(migrations.Migration):
    dependencies = [("auditapp", "0006_exchanges_and_configs")]

    operations = [
        migrations.AddField("judgeconfig", "rate", models.JSONField(null=True)),
        migrations.AddField("judgerun", "input_tokens", models.PositiveBigIntegerField(default=0)),
        migrations.AddField("judgerun", "cached_tokens", models.PositiveBigIntegerField(default=0)),
        migrations.AddField("judgerun", "output_tokens", models.PositiveBigIntegerField(default=0)),
        migrations.AddField("judgerun", "uncounted_calls", models.PositiveIntegerField(default=0)),
        migrations.AddField("importbatch", "worker", models.CharField(blank=True, default="", max_length=200)),
        migrations.RunPython(count, migrations.RunPython.noop),
    ]
