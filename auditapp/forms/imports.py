"""The form of an import."""

from pathlib import Path
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError

from auditapp.importers import FORMATS
from auditapp.models.datasets import PartialAs, validate_name


class ImportForm(forms.Form):
    """One archive or file, uploaded or already on the server, and how to read it."""

    dataset = forms.CharField(
        max_length=100,
        validators=[validate_name],
        help_text="A short name, such as tb2, that becomes part of addresses.",
    )
    version = forms.CharField(
        max_length=100,
        initial="1",
        validators=[validate_name],
        help_text="Trajectories are added to a version and never changed; other content needs a new version.",
    )
    upload = forms.FileField(
        required=False,
        label="Archive or file",
        help_text="A zip or tar of Harbor jobs, ATIF, Inspect logs, SWE-agent, tau-bench, case folders or JSON Lines.",
    )
    path = forms.CharField(required=False, label="Or a path on the server")
    format = forms.ChoiceField(
        choices=[("auto", "detect"), *((name, name) for name in FORMATS)],
        help_text="Detection says why it chose a format.",
    )
    mapping = forms.FileField(required=False, help_text="For JSON Lines: a TOML file that says which field is what.")
    environment = forms.CharField(
        required=False, max_length=200, help_text="For all trajectories, instead of what the format says."
    )
    verifier = forms.CharField(
        required=False, max_length=200, help_text="Which reward to use where a trajectory has several."
    )
    pass_threshold = forms.FloatField(initial=1.0, help_text="A reward of at least this is a pass.")
    partial_as = forms.ChoiceField(
        choices=[(PartialAs.EXCLUDE, "are excluded from the rates"), (PartialAs.FAIL, "count as fails")],
        label="Rewards between 0 and the threshold",
        initial=PartialAs.EXCLUDE,
    )

    def __init__(self, *args: Any, dataset: str | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if dataset is not None:
            del self.fields["dataset"]
        if settings.ASSAY_IMPORT_ROOTS:
            roots = ", ".join(str(root) for root in settings.ASSAY_IMPORT_ROOTS)
            self.fields["path"].help_text = f"Inside {roots}."
        else:
            del self.fields["path"]

    def clean_path(self) -> Path | None:
        """A path is read only inside the roots that the settings name, whatever links lead to."""
        text: str = self.cleaned_data["path"]
        if not text:
            return None
        try:
            path = Path(text).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):
            raise ValidationError("There is nothing at this path.") from None
        if not any(path.is_relative_to(root) for root in settings.ASSAY_IMPORT_ROOTS):
            raise ValidationError("There is nothing at this path.")
        return path

    def clean(self) -> dict[str, Any]:
        """Exactly one of upload and path."""
        data: dict[str, Any] = super().clean() or {}
        if bool(data.get("upload")) == bool(data.get("path")) and not self.errors:
            self.add_error("upload", "Choose a file to import." if not data.get("path") else "Give a file or a path.")
        return data
