"""The forms of a round: what to draw, whom to ask, and what the lead does while it goes on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib.auth.models import User

from auditapp.forms.people import PeopleField, name_of
from auditapp.forms.samples import new_seed
from auditapp.models.datasets import Dataset, Environment, Membership, Role
from auditapp.models.judgments import JudgeConfig
from auditapp.models.reviews import ReviewerField, ReviewRound
from auditapp.models.samples import Sample
from auditapp.round_draws import REPEAT_DAYS
from auditapp.rounds import RoundPlan, RoundSettings
from auditapp.sampling import LARGEST_SEED
from judges.display import safe_name

NO_JUDGE = "none"
INSTRUCTIONS = """\
Decide from the task and the work alone whether the work satisfies the task.

1. Read the instruction, then the requirements. Answer each: met, not met, or unclear.
2. Look at what was delivered first, then at the steps where you need them. What the agent says about its work is no \
evidence; what the files and the outputs show is.
3. Decide: satisfied only if every requirement is met; not satisfied if one is not; cannot tell if the record does not \
show it. "Cannot tell" is an answer, not a failure of yours.
4. Integrity: was the result reached by other means than the work asked for, such as editing the check or copying the \
answer? Cite it.
5. Cite at least one line that shows why.

Do not look at other people's work on this task, and do not discuss an item before the round is released."""


@dataclass(frozen=True, slots=True)
class Person:
    """One member of the dataset who may be asked; `exposed` is of how many tasks they have seen a verdict."""

    user: User
    role: str
    exposed: int
    chosen: forms.BoundField
    fields: forms.BoundField


class RoundForm(forms.Form):
    """A round of blind review. Percentages are whole numbers here and shares inside."""

    title = forms.CharField(max_length=200, required=False, help_text="Reviewers see it. Empty: its number.")
    sample = forms.ModelChoiceField(
        Sample.objects.none(),
        empty_label=None,
        to_field_name="public_id",
        help_text="Items are drawn from it in a second phase, so that their grades stand for its population.",
    )
    judge = forms.ChoiceField(
        help_text="Items are drawn from each of its three answers: acceptable, not acceptable, no decision."
    )
    size = forms.IntegerField(min_value=1, max_value=100_000, initial=50, label="Items")
    method = forms.ChoiceField(
        choices=[
            ("proportional", "random: proportional to the size of the cell"),
            ("neyman", "Neyman: more where earlier labels leave more doubt"),
        ],
        widget=forms.RadioSelect,
        initial="proportional",
    )
    floor = forms.IntegerField(
        min_value=1, max_value=100, initial=2, label="At least, of every cell", help_text="As far as the size allows."
    )
    overlap = forms.IntegerField(
        min_value=0,
        max_value=100,
        initial=20,
        label="Graded twice, %",
        help_text="Of every verifier × judge cell, agreements included. Less than 20 leaves human error unmeasured.",
    )
    regrade = forms.BooleanField(
        required=False, label="Trajectories that people have labeled or are grading may be drawn again"
    )
    rubric = forms.ChoiceField(
        choices=[
            ("newest", "those in force when it is drawn"),
            ("judged", "those that the judge answered"),
            ("first", "the first of each task"),
        ],
        initial="newest",
        label="Requirements",
        help_text="The version of each task's list that people answer. Where the judge answered none: those in force.",
    )
    shows_reference = forms.BooleanField(required=False, label="Reviewers see the reference")
    shows_instructions = forms.BooleanField(
        required=False, initial=True, label="Reviewers see these instructions first"
    )
    instructions = forms.CharField(
        required=False, max_length=20_000, initial=INSTRUCTIONS, widget=forms.Textarea(attrs={"rows": 12})
    )
    by_field = forms.BooleanField(
        required=False, label="Only those who know an environment get its items", help_text="By the fields named above."
    )
    fallback = forms.ModelChoiceField(
        User.objects.none(),
        required=False,
        empty_label="nobody: it is reported as missing",
        label="What was skipped twice goes to",
    )
    guess_share = forms.IntegerField(
        min_value=0,
        max_value=100,
        initial=10,
        label="Asked to guess the verdict, %",
        help_text="After the grade; it measures whether the round is blind.",
    )
    repeat_share = forms.IntegerField(
        min_value=0,
        max_value=100,
        initial=5,
        label="Come back unannounced, %",
        help_text="To the same reviewer, to measure a single grader.",
    )
    repeat_days = forms.IntegerField(
        min_value=REPEAT_DAYS,
        max_value=365,
        initial=REPEAT_DAYS,
        label="Come back after, days",
        help_text=f"At least {REPEAT_DAYS}: sooner, people remember what they said.",
    )
    lease_minutes = forms.IntegerField(
        min_value=5, max_value=480, initial=15, label="Held without a sign of life, minutes"
    )
    seed = forms.IntegerField(
        min_value=0,
        max_value=LARGEST_SEED,
        initial=new_seed,
        help_text="What can be drawn is fixed before it is used, and every draw is counted. A buyer may give it.",
    )

    def __init__(self, *args: Any, dataset: Dataset, exposed: Mapping[int, int], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._exposed = exposed
        self._members = list(
            Membership.objects.filter(dataset=dataset).select_related("user").order_by("user__username")
        )
        samples = Sample.objects.filter(frame__version__dataset=dataset, part_of=None)
        _choose(self.fields["sample"], samples.select_related("frame__version").order_by("-id"), _sample_name)
        users = User.objects.filter(pk__in=[member.user_id for member in self._members]).order_by("username")
        _choose(self.fields["fallback"], users, name_of)
        self._configs = {
            config.digest: config
            for config in JudgeConfig.objects.filter(runs__sample__frame__version__dataset=dataset).distinct()
        }
        judge = self.fields["judge"]
        assert isinstance(judge, forms.ChoiceField)  # noqa: S101  (declared above)
        judge.choices = [
            *((digest, str(config)) for digest, config in self._configs.items()),
            (NO_JUDGE, "none: the strata of the sample alone"),
        ]
        self._add_people(dataset)

    def _add_people(self, dataset: Dataset) -> None:
        names = Environment.objects.filter(dataset=dataset).order_by("name").values_list("name", flat=True)
        environments = [(name, safe_name(name)) for name in names]
        known: dict[int, list[str]] = {}
        for user_id, name in ReviewerField.objects.filter(dataset=dataset).values_list("user", "environment"):
            known.setdefault(user_id, []).append(name)
        for member in self._members:
            user = member.user
            self.fields[f"ask{user.pk}"] = forms.BooleanField(
                required=False,
                initial=member.role == Role.REVIEWER and user.has_usable_password(),  # who cannot log in grades nothing
                label=name_of(user),
            )
            self.fields[f"fields{user.pk}"] = forms.MultipleChoiceField(
                choices=environments,
                required=False,
                initial=known.get(user.pk, []),
                widget=forms.CheckboxSelectMultiple,
                label=f"Fields of {user.get_username()}",
            )

    @property
    def people(self) -> list[Person]:
        """The members to choose from, by name."""
        return [
            Person(
                member.user,
                Role(member.role).label,
                self._exposed.get(member.user_id, 0),
                self[f"ask{member.user_id}"],
                self[f"fields{member.user_id}"],
            )
            for member in self._members
        ]

    def clean(self) -> dict[str, Any]:
        """Gather the reviewers with their fields; whoever gets what was skipped has to be one of them."""
        data: dict[str, Any] = super().clean() or {}
        asked = [member.user for member in self._members if data.get(f"ask{member.user_id}")]
        data["reviewers"] = asked
        data["known"] = {user: data.get(f"fields{user.pk}", []) for user in asked}
        if not asked:
            self.add_error(None, "Choose at least one reviewer.")
        if data.get("fallback") and data["fallback"] not in asked:
            self.add_error("fallback", "Choose one of the reviewers of this round, or nobody.")
        return data

    @property
    def config(self) -> JudgeConfig | None:
        """The judge whose answers make the cells; None for none."""
        return self._configs.get(self.cleaned_data["judge"])

    @property
    def plan(self) -> RoundPlan:
        """What to draw."""
        data = self.cleaned_data
        return RoundPlan(
            size=data["size"],
            method=data["method"],
            floor=data["floor"],
            overlap=data["overlap"] / 100,
            regrade=data["regrade"],
            rubric=data["rubric"],
        )

    @property
    def settings(self) -> RoundSettings:
        """What reviewers see and are asked."""
        data = self.cleaned_data
        same = ("instructions", "shows_instructions", "shows_reference", "by_field", "repeat_days", "lease_minutes")
        return RoundSettings(
            **{name: data[name] for name in same},
            repeat_share=data["repeat_share"] / 100,
            guess_share=data["guess_share"] / 100,
            fallback=data["fallback"],
        )


def _choose(field: forms.Field, rows: Any, name: Any) -> None:
    assert isinstance(field, forms.ModelChoiceField)  # noqa: S101  (declared as one)
    field.queryset = rows
    field.label_from_instance = name  # type: ignore[method-assign]


def _sample_name(sample: Sample) -> str:
    return f"version {sample.frame.version.name}, draw {sample.draw_number}: {sample.size} of {sample.frame.size}"


class ExtendForm(forms.Form):
    """How many more items, after as many extensions as the page showed: pressed twice, it draws once."""

    size = forms.IntegerField(min_value=1, max_value=100_000, label="More items")
    seen = forms.IntegerField(
        min_value=0,
        widget=forms.HiddenInput,
        error_messages={"required": "The page is out of date: load it anew.", "invalid": "Load the page anew."},
    )


class CloseForm(forms.Form):
    """What a close asks for where it ends slots without a grade."""

    known = forms.BooleanField(
        label="I know that they end without a grade, and that a closed round is not opened again",
        error_messages={"required": "Nothing was closed: tick that you know what ends, then press again."},
    )


class ReleaseForm(forms.Form):
    """What a release asks for: whoever presses says that they know what it does."""

    known = forms.BooleanField(
        label="I know that it cannot be taken back",
        error_messages={
            "required": "Nothing was released: tick that you know it cannot be taken back, then press again."
        },
    )


class PeopleForm(forms.Form):
    """Members who are not in the round yet."""

    users = PeopleField(
        label="Invite",
        error_messages={
            "required": "Choose somebody.",
            "invalid_choice": "Somebody who was chosen is in the round already, or is no member of the dataset.",
        },
    )

    def __init__(self, *args: Any, round: ReviewRound, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        members = User.objects.filter(membership__dataset=round.version.dataset_id)
        rest = members.exclude(round_places__round=round).order_by("username")
        _choose(self.fields["users"], rest, name_of)


class SettleForm(forms.Form):
    """Who adjudicates."""

    assigned = forms.ModelChoiceField(
        User.objects.none(), required=False, label="Adjudicator", empty_label="any reviewer who has not graded the item"
    )

    def __init__(self, *args: Any, round: ReviewRound, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        people = User.objects.filter(round_places__round=round, membership__dataset=round.version.dataset_id)
        _choose(self.fields["assigned"], people.order_by("username"), name_of)
