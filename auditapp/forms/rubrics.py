"""The form of a task's requirements: a row each, an empty row takes one away."""

from dataclasses import dataclass
from typing import Any

from django import forms

from auditapp.models.datasets import TaskRubric
from auditapp.rubrics import MOST_CHARACTERS
from judges.records import Requirement
from judges.rubric import MOST

SPARE = 3


@dataclass(frozen=True, slots=True)
class Row:
    """The fields of one requirement, for the template."""

    code: str
    text: forms.BoundField
    binding: forms.BoundField


class RubricForm(forms.Form):
    """Requirements to edit. `base` is the version that was shown, so that two leads do not overwrite each other."""

    base = forms.IntegerField(widget=forms.HiddenInput)

    def __init__(self, *args: Any, rubric: TaskRubric | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rubric = rubric
        self.before = [Requirement(**row) for row in rubric.requirements] if rubric else []
        self.fields["base"].initial = rubric.number if rubric else 0
        self._count = max(len(self.before), min(MOST, len(self.before) + SPARE))
        for index, code in enumerate(self._codes()):
            known = self.before[index] if index < len(self.before) else None
            self.fields[f"text{index}"] = forms.CharField(
                required=False,
                max_length=MOST_CHARACTERS,
                initial=known.text if known else "",
                label=f"Requirement {code}",
                widget=forms.Textarea(attrs={"rows": 2}),
            )
            self.fields[f"binding{index}"] = forms.BooleanField(
                required=False, initial=bool(known and known.format_binding), label=f"{code} binds a format"
            )

    def _codes(self) -> list[str]:
        """The ids that are there, then the next free ones: an id stays with its row."""
        codes = [row.id for row in self.before]
        taken, number = set(codes), 0
        while len(codes) < self._count:
            number += 1
            if f"R{number}" not in taken:
                codes.append(f"R{number}")
        return codes

    @property
    def rows(self) -> list[Row]:
        """The rows to render."""
        return [Row(code, self[f"text{index}"], self[f"binding{index}"]) for index, code in enumerate(self._codes())]

    def clean(self) -> dict[str, Any]:
        """Put the `requirements` together from the rows that hold a text."""
        data: dict[str, Any] = super().clean() or {}
        if data.get("base") != self.fields["base"].initial:
            self.add_error(
                None, "Somebody changed the requirements meanwhile. Load the page anew and edit that version."
            )
        data["requirements"] = [
            Requirement(code, " ".join(text.split()), bool(data.get(f"binding{index}")))
            for index, code in enumerate(self._codes())
            if (text := data.get(f"text{index}", "")).strip()
        ]
        return data
