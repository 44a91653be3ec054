"""Forms around judge configs: a new one, a dry run, the choice of one that drafts."""

import os
import tomllib
from typing import Any

from django import forms

from auditapp.configs import examples, shipped_configs
from auditapp.judging import stored_config
from auditapp.models.datasets import Dataset, Trajectory
from auditapp.models.exchanges import ConfigVersion
from auditapp.models.judgments import JudgeConfig
from judges.config import JudgeConfig as Config
from judges.config import parse_config
from judges.endpoints import KEYS_VARIABLE, is_near, origin_of, provider_keys
from judges.errors import ConfigError

MOST_BYTES = 100_000
MOST_TRAJECTORIES = 40


class ConfigForm(forms.Form):
    """A judge config as text or as a file; every problem is named."""

    source = forms.CharField(
        required=False,
        strip=False,
        max_length=MOST_BYTES,
        label="Judge config (TOML)",
        widget=forms.Textarea(attrs={"spellcheck": "false", "rows": 24}),
    )
    upload = forms.FileField(
        required=False, label="Or a file", help_text="A TOML file; it is used instead of the text."
    )

    def clean(self) -> dict[str, Any]:
        """Put the validated `config` beside its `source`."""
        data: dict[str, Any] = super().clean() or {}
        field = "upload" if data.get("upload") else "source"
        try:
            if data.get("upload"):
                data["source"] = data["upload"].read(MOST_BYTES).decode("utf-8")
            data["config"] = read_config(data.get("source", ""), "the config")
        except ConfigError as error:
            self.add_error(field, list(error.problems))
        except UnicodeDecodeError:
            self.add_error(field, "The file is not UTF-8 text.")
        return data


class DryRunForm(forms.Form):
    """One trajectory to look at before a run."""

    trajectory = forms.ModelChoiceField(
        Trajectory.objects.none(),
        empty_label=None,
        to_field_name="public_id",
        help_text="The first trajectory of each task; another one by the link on its label.",
    )

    def __init__(self, *args: Any, dataset: Dataset, wanted: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["trajectory"]
        assert isinstance(field, forms.ModelChoiceField)  # noqa: S101  (declared above)
        found = Trajectory.objects.filter(version__dataset=dataset).select_related("task", "source")
        field.queryset = found
        field.label_from_instance = _trajectory_name  # type: ignore[assignment]
        field.choices = [(str(row.public_id), _trajectory_name(row)) for row in _offered(found, wanted)]


def _offered(found: Any, wanted: str) -> list[Trajectory]:
    """The one asked for, then the first of each of the newest version's tasks."""
    first: dict[int, Trajectory] = {}
    newest = found.order_by("-version_id").values_list("version_id", flat=True).first()
    for row in found.filter(version_id=newest).order_by("pk")[: 20 * MOST_TRAJECTORIES]:
        first.setdefault(row.task_id, row)
    asked = _asked(found, wanted)
    return [*asked, *(row for row in list(first.values())[:MOST_TRAJECTORIES] if row not in asked)]


def _asked(found: Any, wanted: str) -> list[Trajectory]:
    try:
        return list(found.filter(public_id=wanted)) if wanted else []
    except (ValueError, forms.ValidationError):
        return []


def _trajectory_name(row: Trajectory) -> str:
    return f"{row.task.name}: {row.source.source_id}"[:160]


class DraftForm(forms.Form):
    """Which config drafts requirements: one that asks a model."""

    config = forms.ModelChoiceField(ConfigVersion.objects.none(), empty_label=None, label="Drafted by")

    def __init__(self, *args: Any, dataset: Dataset, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["config"]
        assert isinstance(field, forms.ModelChoiceField)  # noqa: S101  (declared above)
        rows = ConfigVersion.objects.filter(dataset=dataset).exclude(config__provider="rules").select_related("config")
        field.queryset = rows.order_by("name", "-number")
        field.label_from_instance = version_name  # type: ignore[assignment]


def version_name(version: ConfigVersion) -> str:
    """A version as lists name it: `claude 2 · some-model · 0123abcd`."""
    parts = [f"{version.name} {version.number}", version.config.model, version.config.digest[:12]]
    return " · ".join(part for part in parts if part)


def chosen_config(choice: str) -> tuple[str, Config]:
    """Source and config of a shipped or stored choice; raises ConfigError."""
    kind, _, name = choice.partition(":")
    if kind == "shipped":
        source = shipped_configs()[name].read_text(encoding="utf-8")
        return source, parse_source(source, name)
    row = JudgeConfig.objects.get(digest=name)
    return row.source, stored_config(row)


def example_source(name: str) -> str:
    """The text of a config to start from; empty where there is none of that name."""
    path = examples().get(name)
    return path.read_text(encoding="utf-8") if path else ""


def read_config(source: str, name: str) -> Config:
    """A config that somebody sent; ConfigError says what is wrong.

    It may not make this machine read its files, nor ask what only its network can reach, unless that was allowed.
    """
    config = parse_source(source, name)
    if config.script:
        raise ConfigError("provider scripted plays a file of this machine: it is for tests and the command line")
    if config.base_url:
        _may_be_named(config.base_url)
    return config


def _may_be_named(base_url: str) -> None:
    origin, host = origin_of(base_url)
    if is_near(host) and origin not in provider_keys(os.environ):
        raise ConfigError(
            f"base_url: {origin} is this machine or in its network, so it must be allowed before a config sent from a "
            f'browser may name it: add "{origin}" = "" to {KEYS_VARIABLE}, for the web server and the workers, or '
            "use the command line"
        )


def parse_source(source: str, name: str) -> Config:
    """A config from TOML text; ConfigError says what is wrong."""
    if not source.strip():
        raise ConfigError(f"{name} is empty: paste a config or choose a file")
    try:
        return parse_config(tomllib.loads(source), name=name)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, lists in lists in lists
        raise ConfigError(f"{name} is not TOML: {error}") from error
