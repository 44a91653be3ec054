"""Forms of held-out sets: which tasks, for how long, and a round of what is new on them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.http import QueryDict

from auditapp.forms.people import PeopleField
from auditapp.forms.review import text_of
from auditapp.forms.samples import new_seed
from auditapp.models.datasets import Dataset, Role, Task
from auditapp.models.reviews import HeldOutPart
from auditapp.sampling import LARGEST_SEED

PART = "part-"
MOST_SHOWN = 200
SOLVED = {
    "none": "no verdict is a pass",
    "some": "some verdicts are passes",
    "all": "every verdict is a pass",
}


class HoldOutForm(forms.Form):
    """Name and date of a set."""

    name = forms.CharField(max_length=100)
    refresh_on = forms.DateField(
        label="Refresh on",
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        help_text="From this day on the pages ask for a fresh set. Held-out tasks age: they leak, and models catch up.",
    )


class ShareForm(forms.Form):
    """A random share of the tasks of every environment."""

    share = forms.FloatField(label="Hold out, % of tasks", min_value=0.01, max_value=100, initial=20)
    test_share = forms.FloatField(label="Of these into test, %", min_value=0, max_value=100, initial=50)
    seed = forms.IntegerField(min_value=0, max_value=LARGEST_SEED, initial=new_seed)


class PostponeForm(forms.Form):
    """Another date for a set."""

    refresh_on = HoldOutForm.base_fields["refresh_on"]


@dataclass(frozen=True, slots=True)
class Choosing:
    """The list of tasks as it was sent: what it is filtered by, and the part of each chosen task by its id."""

    environment: str
    text: str
    solved: str
    parts: Mapping[int, str]

    def shows(self, task: Any) -> bool:
        """Whether the filters let a task through, which carries its counts `n_pass` and `n_counted`."""
        if self.environment and task.environment.name != self.environment:
            return False
        if self.text and self.text.casefold() not in task.name.casefold():
            return False
        return not self.solved or self.solved == solved(task)


def solved(task: Any) -> str:
    """Whether none, some or all of the verdicts that count are passes; "" where there is none."""
    if not task.n_counted:
        return ""
    return "none" if not task.n_pass else "all" if task.n_pass == task.n_counted else "some"


def read_choosing(data: QueryDict, tasks: Iterable[Task]) -> Choosing:
    """What was chosen so far, whether or not the task is in the list that was shown; unknown ids are passed over."""
    by_id = {str(task.public_id): task.pk for task in tasks}
    hidden = (pair.partition(":") for pair in data.get("chosen", "").split())
    said = {public_id: part for public_id, _, part in hidden}
    said |= {key.removeprefix(PART): str(part) for key, part in data.items() if key.startswith(PART)}
    parts = {by_id[key]: part for key, part in said.items() if key in by_id and part in HeldOutPart.values}
    environment, text, wanted = (text_of(data, key).strip() for key in ("environment", "q", "solved"))
    return Choosing(environment, text, wanted, parts)


FILTERS = ("environment", "q", "solved")
"""How the filters of the list are named in an address, and in what is kept of a draw."""


def written(share: Mapping[str, Any], choosing: Choosing) -> str:
    """A random share as one field that sends it along: its numbers, and the filters it was drawn among."""
    return json.dumps(
        {**share, **dict(zip(FILTERS, (choosing.environment, choosing.text, choosing.solved), strict=True))}
    )


def read_drawn(text: str) -> dict[str, Any] | None:
    """What `written` wrote; None for anything else."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return None
    form = ShareForm(said) if isinstance(said, dict) else None
    if form is None or not form.is_valid():
        return None
    return {**form.cleaned_data, **{name: str(said.get(name) or "") for name in FILTERS}}


def unshown(choosing: Choosing, tasks: Sequence[Task], shown: Sequence[Task]) -> str:
    """The choices that the list does not show, as one field that sends them along."""
    listed = {task.pk for task in shown}
    rows = (task for task in tasks if task.pk in choosing.parts and task.pk not in listed)
    return " ".join(f"{task.public_id}:{choosing.parts[task.pk]}" for task in rows)


class NewTrajectoriesForm(forms.Form):
    """A round over trajectories on held-out tasks that nobody has graded."""

    title = forms.CharField(max_length=200)
    size = forms.IntegerField(label="How many trajectories", min_value=1)
    reviewers = PeopleField()
    overlap = forms.FloatField(
        label="Graded twice, %",
        min_value=0,
        max_value=100,
        initial=20,
        help_text="Of every verifier status, by two people who do not know of each other.",
    )
    shows_reference = forms.BooleanField(label="Reviewers see the reference", required=False)
    instructions = forms.CharField(
        required=False, widget=forms.Textarea(attrs={"rows": 4}), help_text="Shown once, before the first item."
    )
    seed = forms.IntegerField(min_value=0, max_value=LARGEST_SEED, initial=new_seed)

    def __init__(self, *args: Any, dataset: Dataset, **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["reviewers"].queryset = reviewers_of(dataset)  # type: ignore[attr-defined]


def reviewers_of(dataset: Dataset) -> Any:
    """Who can be asked to grade: reviewers and leads of the dataset."""
    members = User.objects.filter(membership__dataset=dataset, membership__role__in=(Role.REVIEWER, Role.LEAD))
    return members.order_by("username")
