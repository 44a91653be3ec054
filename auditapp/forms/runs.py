"""The form of a judge run."""

import tomllib
from pathlib import Path
from typing import Any

from django import forms
from django.conf import settings

from auditapp.models.datasets import Dataset
from auditapp.models.judgments import JudgeConfig
from auditapp.models.samples import Sample
from judges.config import JudgeConfig as Config
from judges.config import parse_config
from judges.errors import ConfigError


def shipped_configs() -> dict[str, Path]:
    """The configs that come with the product, by file name."""
    return {
        path.stem: path for path in sorted((settings.BASE_DIR / "judges").glob("*.toml")) if path.stem != "taxonomy"
    }


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
        required=False, min_value=0, decimal_places=4, label="Budget in US dollars", help_text="Empty for none."
    )

    def __init__(self, *args: Any, dataset: Dataset, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        samples = Sample.objects.filter(frame__version__dataset=dataset).select_related("frame__version")
        field = self.fields["sample"]
        assert isinstance(field, forms.ModelChoiceField)  # noqa: S101  (declared above)
        field.queryset = samples.order_by("-id")
        field.label_from_instance = _sample_name  # type: ignore[assignment]
        choice = self.fields["judge"]
        assert isinstance(choice, forms.ChoiceField)  # noqa: S101  (declared above)
        stored = JudgeConfig.objects.filter(runs__sample__frame__version__dataset=dataset).distinct().order_by("-id")
        choice.choices = [
            *((f"shipped:{name}", f"{name} (comes with Assay)") for name in shipped_configs()),
            *((f"stored:{row.digest}", f"{row.name} · {row.digest[:12]}") for row in stored),
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


def _sample_name(sample: Sample) -> str:
    return f"version {sample.frame.version.name}, draw {sample.draw_number}: {sample.size} of {sample.frame.size}"


def chosen_config(choice: str) -> tuple[str, Config]:
    """Source and config of a shipped or stored choice; raises ConfigError."""
    kind, _, name = choice.partition(":")
    if kind == "shipped":
        source = shipped_configs()[name].read_text(encoding="utf-8")
    else:
        source = JudgeConfig.objects.get(digest=name).source
    return source, read_config(source, name)


def read_config(source: str, name: str) -> Config:
    """A config from TOML text; ConfigError says what is wrong."""
    try:
        return parse_config(tomllib.loads(source), name=name)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{name} is not TOML: {error}") from error
