"""The form that lets a judge look again."""

from decimal import Decimal
from typing import Any

from django import forms

from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import JudgeConfig
from auditapp.models.samples import Sample


class RepeatForm(forms.Form):
    """Which judge, on which draw or part of it, how many looks."""

    judge = forms.ModelChoiceField(JudgeConfig.objects.none(), empty_label=None, to_field_name="digest")
    sample = forms.ModelChoiceField(
        Sample.objects.none(), empty_label=None, to_field_name="public_id", label="Of which draw"
    )
    size = forms.IntegerField(
        min_value=2,
        initial=60,
        label="Trajectories",
        help_text="A random part of the draw, with the draw's own seed. As many as it holds or more take all of it.",
    )
    looks = forms.IntegerField(
        min_value=2, max_value=50, initial=5, help_text="At each of them; looks made already are not made anew."
    )
    budget_usd = forms.DecimalField(
        required=False,
        min_value=Decimal("0.0001"),
        max_digits=12,
        decimal_places=4,
        label="Budget in US dollars",
        help_text="Empty for none.",
    )

    def __init__(self, *args: Any, version: DatasetVersion, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        runs = {"runs__sample__frame__version": version}
        _offer(self.fields["judge"], JudgeConfig.objects.filter(**runs).distinct().order_by("-id"))
        samples = Sample.objects.filter(frame__version=version, part_of=None, judge_runs__isnull=False)
        _offer(self.fields["sample"], samples.distinct().order_by("-size"))
        self.fields["sample"].label_from_instance = _name  # type: ignore[attr-defined]


def _offer(field: forms.Field, rows: Any) -> None:
    assert isinstance(field, forms.ModelChoiceField)  # noqa: S101  (declared above)
    field.queryset = rows


def _name(sample: Sample) -> str:
    return f"draw {sample.draw_number}: {sample.size:,} trajectories"
