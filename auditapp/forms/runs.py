"""The form of a judge run."""

from decimal import Decimal
from typing import Any

from django import forms

from auditapp.configs import shipped_configs
from auditapp.forms.configs import chosen_config, read_config, version_name
from auditapp.models.datasets import Dataset
from auditapp.models.exchanges import ConfigVersion
from auditapp.models.samples import Sample
from judges.errors import ConfigError


class RunForm(forms.Form):
    """One judge config over one sample."""

    sample = forms.ModelChoiceField(Sample.objects.none(), empty_label=None, to_field_name="public_id")
    judge = forms.ChoiceField(help_text="What a label rests on is identified by the digest of its config.")
    upload = forms.FileField(required=False, label="Or a judge config", help_text="A TOML file; it is checked first.")
    replicates = forms.IntegerField(
        min_value=1,
        max_value=50,
        initial=1,
        help_text="Replicate 0 is the label; more of them measure how steady the judge is.",
    )
    budget_usd = forms.DecimalField(
        required=False,
        min_value=Decimal("0.0001"),
        max_digits=12,
        decimal_places=4,
        label="Budget in US dollars",
        help_text="Empty for none.",
    )

    def __init__(self, *args: Any, dataset: Dataset, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        samples = Sample.objects.filter(frame__version__dataset=dataset, part_of=None).select_related("frame__version")
        field = self.fields["sample"]
        assert isinstance(field, forms.ModelChoiceField)  # noqa: S101  (declared above)
        field.queryset = samples.order_by("-id")
        field.label_from_instance = _sample_name  # type: ignore[assignment]
        choice = self.fields["judge"]
        assert isinstance(choice, forms.ChoiceField)  # noqa: S101  (declared above)
        stored = ConfigVersion.objects.filter(dataset=dataset).select_related("config").order_by("name", "-number")
        choice.choices = [
            *((f"shipped:{name}", f"{name} (comes with Assay)") for name in shipped_configs()),
            *((f"stored:{row.config.digest}", version_name(row)) for row in stored),
        ]

    def clean(self) -> dict[str, Any]:
        """Read the chosen config; every problem of an uploaded one is named."""
        data: dict[str, Any] = super().clean() or {}
        try:
            if data.get("upload"):
                data["source"] = data["upload"].read(1_000_000).decode("utf-8")
                data["config"] = read_config(data["source"], data["upload"].name)
            elif "judge" in data:
                data["source"], data["config"] = chosen_config(data["judge"])
        except (ConfigError, UnicodeDecodeError) as error:
            self.add_error("upload" if data.get("upload") else "judge", str(error))
        return data


class BudgetForm(forms.Form):
    """What a run may spend in all, what it has spent included."""

    budget_usd = forms.DecimalField(
        required=False,
        min_value=Decimal("0.0001"),
        max_digits=12,
        decimal_places=4,
        label="Budget in US dollars",
        help_text="What is spent already counts. Empty for none.",
    )


def _sample_name(sample: Sample) -> str:
    return f"version {sample.frame.version.name}, draw {sample.draw_number}: {sample.size} of {sample.frame.size}"
