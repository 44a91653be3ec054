"""The form of acceptance criteria; percentages on the page, shares in the rows."""

from typing import Any

from django import forms

from auditapp.criteria import Limits
from auditapp.models.estimates import AcceptanceCriteria

PERCENT: dict[str, Any] = {"required": False, "min_value": 0.01, "max_value": 100, "step_size": 0.01}
PRIMARY = (("false_pass", "false passes among passes"), ("false_fail", "false fails among fails"))


class CriteriaForm(forms.Form):
    """Limits that the ends of intervals are held to; an empty field asks for nothing."""

    primary = forms.ChoiceField(
        label="Primary rate", choices=PRIMARY, help_text="The one figure that this audit is about, declared beforehand."
    )
    false_pass_upper = forms.FloatField(
        label="False passes among passes, at most (%)",
        help_text="Met when the upper end of the interval is below it.",
        **PERCENT,
    )
    false_fail_upper = forms.FloatField(
        label="False fails among fails, at most (%)",
        help_text="Met when the upper end of the interval is below it.",
        **PERCENT,
    )
    kappa_lower = forms.FloatField(
        label="Agreement of judge and people beyond chance (κ), at least",
        required=False,
        min_value=-1,
        max_value=0.99,
        step_size=0.01,
        help_text="Met when the lower end of the interval is above it. From −1 to 1; 0.6 is often asked for.",
    )
    coverage = forms.FloatField(
        label="The estimate is about at least (%) of the population",
        help_text="Strata that nobody graded are not in an estimate.",
        **PERCENT,
    )

    def limits(self) -> Limits:
        """What these fields ask for."""
        data = self.cleaned_data
        shares = {name: None if data[name] is None else data[name] / 100 for name in _SHARES}
        return Limits(primary=data["primary"], kappa_lower=data["kappa_lower"], **shares)


_SHARES = ("false_pass_upper", "false_fail_upper", "coverage")


def initial(found: AcceptanceCriteria | None) -> dict[str, Any]:
    """The fields of criteria in force."""
    if found is None:
        return {"primary": "false_pass"}
    shares = {name: getattr(found, name) for name in _SHARES}
    percent = {name: None if share is None else round(share * 100, 6) for name, share in shares.items()}
    return {"primary": found.primary, "kappa_lower": found.kappa_lower, **percent}
