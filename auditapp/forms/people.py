"""The field that chooses people."""

from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

LONGEST_ID = 18
"""Digits of a number that every database takes; SQLite fails on a longer one where it looks for several at once."""


def name_of(user: User) -> str:
    """The name, and whether they can answer at all."""
    return user.get_username() if user.has_usable_password() else f"{user.get_username()} (cannot log in)"


class PeopleField(forms.ModelMultipleChoiceField):  # type: ignore[type-arg]  # no subscript at run time
    """Members to choose from, who are given once the form knows its dataset; an id without end is an unknown one."""

    def __init__(self, **options: Any) -> None:
        super().__init__(User.objects.none(), widget=forms.CheckboxSelectMultiple, **options)

    def label_from_instance(self, obj: User) -> str:
        """As `name_of` says."""
        return name_of(obj)

    def clean(self, value: Any) -> Any:
        """The people of these ids; raises ValidationError for any other."""
        for one in value or ():
            if len(str(one)) > LONGEST_ID:
                told = {"value": f"{str(one)[:LONGEST_ID]}…"}
                raise ValidationError(self.error_messages["invalid_choice"], code="invalid_choice", params=told)
        return super().clean(value)
