"""The field that chooses people."""

from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

LONGEST_ID = 18
"""Digits of a number that every database takes; SQLite fails on a longer one where it looks for several at once."""


class PeopleField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]  # no subscript at run time
    """Members to choose from, who are given once the form knows its dataset; an id without end is an unknown one."""

    def __init__(self, **options: Any) -> None:
        super().__init__(User.objects.none(), widget=forms.CheckboxSelectMultiple, **options)

    def label_from_instance(self, obj: User) -> str:
        """The name, and whether they can answer at all."""
        return obj.get_username() if obj.has_usable_password() else f"{obj.get_username()} (cannot log in)"

    def clean(self, value: Any) -> Any:
        """The people of these ids; raises ValidationError for any other."""
        for one in value or ():
            if len(str(one)) > LONGEST_ID:
                told = {"value": f"{str(one)[:LONGEST_ID]}…"}
                raise ValidationError(self.error_messages["invalid_choice"], code="invalid_choice", params=told)
        return super().clean(value)
