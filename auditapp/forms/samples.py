"""The form of a draw."""

import secrets
from typing import Any

from django import forms

from auditapp.sampling import LARGEST_SEED
from auditapp.stats.allocation import METHODS, Plan

_TITLES = {
    "census": "census: every trajectory of the frame",
    "proportional": "proportional to the size of the stratum",
    "equal": "equal over the strata",
    "fixed": "the same fixed number in every stratum",
    "neyman": "Neyman: more where earlier labels leave more doubt",
}


def new_seed() -> int:
    """A seed nobody chose; whoever wants to give one, gives it."""
    return secrets.randbelow(2**31)


class DrawForm(forms.Form):
    """How many to draw from each stratum, and with which seed."""

    method = forms.ChoiceField(choices=[(name, _TITLES[name]) for name in METHODS], initial="proportional")
    size = forms.IntegerField(
        required=False, min_value=1, help_text="In all; per stratum for the fixed method. Not used by a census."
    )
    floor = forms.IntegerField(required=False, min_value=0, initial=2, help_text="Neyman: at least so many a stratum.")
    cap = forms.IntegerField(required=False, min_value=1, help_text="Neyman: at most so many a stratum.")
    seed = forms.IntegerField(
        min_value=0,
        max_value=LARGEST_SEED,
        initial=new_seed,
        help_text="The frame is frozen already, so the seed cannot be chosen to fit. A buyer may give it.",
    )

    def clean(self) -> dict[str, Any]:
        """Every method but a census needs a size."""
        data: dict[str, Any] = super().clean() or {}
        if data.get("method") not in (None, "census") and data.get("size") is None and "size" not in self.errors:
            self.add_error("size", "Say how many to draw.")
        return data

    def plan(self, rates: tuple[float, ...]) -> Plan:
        """The plan these fields ask for; `rates` are the expected shares by stratum that Neyman's method needs."""
        data = self.cleaned_data
        method, size = data["method"], data.get("size")
        if method == "census":
            return Plan("census")
        if method == "neyman":
            return Plan("neyman", size, rates=rates, floor=data.get("floor") or 0, cap=data.get("cap"))
        return Plan(method, size)
