"""Forms of the rounds that ask for no decision: triage, cold read, audit; and of what a lead makes of a cold read."""

from typing import Any

from django import forms

from auditapp.forms.heldout import reviewers_of
from auditapp.forms.people import PeopleField
from auditapp.forms.samples import new_seed
from auditapp.models.datasets import Dataset
from auditapp.models.reviews import RoundKind
from auditapp.round_draws import RoundSettings
from auditapp.sampling import LARGEST_SEED
from auditapp.taskrounds import LONGEST_NOTE, RULINGS

INSTRUCTIONS = {
    RoundKind.TRIAGE: """\
Find out what these tasks and their verdicts are worth. Nothing is hidden from you here: read the instruction, the \
reference and the verifier, and look at what the attempts were failed or passed for.

Hard: the verdicts are right, and few attempts or none are a correct solution. Broken: a correct solution would fail, \
a wrong one would pass, or the task cannot be done as it is asked. Cannot tell: the record does not show it.

Opening the verifier and the trials keeps you from grading this task blind from then on.""",
    RoundKind.COLD_READ: """\
You see an instruction and nothing else. Write down what it asks for, as if you had to do it: what has to be there in \
the end, in which form, and what it leaves open. Do not guess at how it will be checked.""",
    RoundKind.AUDIT: """\
Read the whole trajectory, from the first step to the last, and note how the agent went about it. Give tags for what \
you see and write what they do not say. No decision is asked for; whether the work is right is another round.""",
}
SIZES = {RoundKind.TRIAGE: 50, RoundKind.COLD_READ: 20, RoundKind.AUDIT: 50}


class TaskRoundForm(forms.Form):
    """How many, whom to ask, and what they are told."""

    title = forms.CharField(max_length=200)
    size = forms.IntegerField(min_value=1, max_value=100_000)
    reviewers = PeopleField()
    instructions = forms.CharField(
        required=False,
        max_length=20_000,
        widget=forms.Textarea(attrs={"rows": 10}),
        help_text="Shown once, before the first item.",
    )
    seed = forms.IntegerField(min_value=0, max_value=LARGEST_SEED, initial=new_seed)
    tasks = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, kind: str, dataset: Dataset, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kind = kind
        self.fields["reviewers"].queryset = reviewers_of(dataset)  # type: ignore[attr-defined]
        self.fields["size"].label = "How many trajectories" if kind == RoundKind.AUDIT else "How many tasks"

    @property
    def settings(self) -> RoundSettings:
        """What reviewers see. A triage shows the reference, a cold read nothing but the instruction."""
        return RoundSettings(
            kind=self.kind,
            instructions=self.cleaned_data["instructions"],
            shows_reference=self.kind == RoundKind.TRIAGE,
            repeat_share=0,
            guess_share=0,
        )


class RulingForm(forms.Form):
    """How a reader's text stands to rubric and verifier."""

    ruling = forms.ChoiceField(
        label="Between the instruction as the reader understood it, the rubric and the verifier",
        choices=RULINGS.items(),
        widget=forms.RadioSelect,
        help_text="To miss something is not to ask for what the instruction asks; to ask for more is to go beyond it. "
        "Where several hold, choose the gravest and name the others in the note.",
    )
    note = forms.CharField(
        required=False,
        max_length=LONGEST_NOTE,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text="What is missing or not checked, or what is asked for beyond the instruction.",
    )
