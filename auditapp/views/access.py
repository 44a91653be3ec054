"""Who may see what: every page fetches its object here, so that a foreign one does not exist.

Not a member: 404, as for an unknown name. A member without the role: 403, saying which role opens the page. Whoever is
assigned to a blind round that is not released is a reviewer until it is, whatever else they are. This module knows only
`models.datasets` and `models.reviews`; pages of other objects pass their own query set and the path to the dataset.
"""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from django.core.exceptions import PermissionDenied
from django.db.models import Exists, F, Model, OuterRef, Q, QuerySet
from django.http import Http404, HttpRequest

from auditapp.models.datasets import Dataset, DatasetVersion, Membership, Role, Trajectory
from auditapp.models.reviews import Exclusion, ExclusionReason, ReviewRound, RoundKind, RoundState, Slot, SlotState
from auditapp.review import bar_from_tasks

ANY = (Role.LEAD, Role.REVIEWER, Role.VIEWER)
READERS = (Role.LEAD, Role.VIEWER)
LEADS = (Role.LEAD,)

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Access:
    """A dataset as one member sees it; templates get it as `access`.

    `blinding` is the round that makes a reviewer of them until it is released; `steers` says that they are a lead even
    so, and keep the pages of rounds.
    """

    dataset: Dataset
    role: Role
    blinding: ReviewRound | None = None
    steers: bool = False

    @property
    def is_lead(self) -> bool:
        return self.role is Role.LEAD

    @property
    def sees_hidden(self) -> bool:
        """Verifier, model and source may be shown."""
        return self.role in READERS

    def require(self, roles: Iterable[Role]) -> "Access":
        """Raise PermissionDenied unless the member has one of the roles."""
        allowed = tuple(roles)
        if self.role not in allowed:
            if self.blinding is not None:
                raise PermissionDenied(_why_blind(self.dataset, self.blinding))
            names = " or ".join(role.label for role in allowed)
            raise PermissionDenied(
                f"This page is for a {names} of the dataset {self.dataset.name}; you are a {self.role.label}."
            )
        return self

    def require_steering(self) -> "Access":
        """Raise PermissionDenied unless the member is a lead, assigned to a round or not."""
        return self if self.steers else self.require(LEADS)


def _why_blind(dataset: Dataset, round: ReviewRound) -> str:
    ends = "when your own texts are in" if round.kind == RoundKind.COLD_READ else "when a lead closes and releases it"
    return (
        f"You are assigned to the review round “{round.title}” of the dataset {dataset.name}, which is "
        f"{round.get_state_display()}. What the verifier, the judge and others said is closed to you until it ends: "
        f"{ends}."
    )


def access_to(request: HttpRequest, dataset: Dataset, *, roles: Iterable[Role] = READERS) -> Access:
    """The caller's membership of `dataset`; 404 where there is none."""
    membership = Membership.objects.filter(dataset=dataset, user__id=request.user.pk or 0).first()
    if membership is None:
        raise Http404
    blinding = blinding_rounds(request).filter(version__dataset=dataset).first()
    return access_of(dataset, Role(membership.role), blinding).require(roles)


def access_of(dataset: Dataset, role: Role, blinding: ReviewRound | None) -> Access:
    """What a role opens, which is no more than a reviewer's while a round blinds them."""
    return Access(dataset, role if blinding is None else Role.REVIEWER, blinding, steers=role is Role.LEAD)


def blinding_rounds(request: HttpRequest) -> QuerySet[ReviewRound]:
    """Rounds of the caller that are to stay blind, newest first, each with the id of its `dataset`.

    A blind round is until its release, a cold read while there is an instruction that they have still to read.
    """
    return _blinding(request.user.pk or 0)


def leads_who_see(dataset: Dataset) -> list[str]:
    """The names of its leads whom no round blinds."""
    leads = Membership.objects.filter(dataset=dataset, role=Role.LEAD).select_related("user").order_by("user__username")
    kept = (lead for lead in leads if not _blinding(lead.user_id).filter(version__dataset=dataset).exists())
    return [lead.user.get_username() for lead in kept]


def _blinding(user: int) -> QuerySet[ReviewRound]:
    unread = Slot.objects.filter(round=OuterRef("pk"), state__in=(SlotState.FREE, SlotState.LEASED))
    theirs = unread.filter(Q(assigned=None) | Q(assigned__id=user))
    blind = Q(kind=RoundKind.BLIND, state__in=(RoundState.DRAWN, RoundState.OPEN, RoundState.CLOSED))
    cold = Q(Exists(theirs), kind=RoundKind.COLD_READ, state__in=(RoundState.DRAWN, RoundState.OPEN))
    rounds = ReviewRound.objects.filter(blind | cold, reviewers__user__id=user)
    return rounds.annotate(dataset=F("version__dataset")).order_by("-pk")


def record_exposure(request: HttpRequest, *tasks: int, reason: str = ExclusionReason.SAW_VERDICT) -> None:
    """Keep whoever sees verdicts on tasks, or the verifier of one, from grading them; a second look writes nothing."""
    user: Any = request.user
    known = set(Exclusion.objects.filter(user=user, task__in=tasks).values_list("task", flat=True))
    if unknown := set(tasks) - known:
        bar_from_tasks(user, sorted(unknown), reason=reason)


def may_create(request: HttpRequest) -> bool:
    """Whether the caller may begin a dataset: who leads one may, or who was given the right to add one.

    A reviewer of any dataset may not, nor whoever a round makes one: importing the same data would show what has to
    stay hidden from them.
    """
    roles = set(Membership.objects.filter(user__id=request.user.pk or 0).values_list("role", flat=True))
    if Role.REVIEWER in roles or blinding_rounds(request).exists():
        return False
    return Role.LEAD in roles or request.user.has_perm("auditapp.add_dataset")


def dataset_for(request: HttpRequest, name: str, *, roles: Iterable[Role] = READERS) -> Access:
    """The dataset of this name, if the caller is a member of it in one of the roles."""
    dataset = Dataset.objects.filter(name=name).first()
    if dataset is None:
        raise Http404
    return access_to(request, dataset, roles=roles)


def version_for(request: HttpRequest, access: Access) -> DatasetVersion:
    """The version that `?version=` names, else the newest one; 404 where there is none."""
    versions = access.dataset.versions.order_by("-id")
    name = request.GET.get("version")
    found = (versions.filter(name=name) if name else versions).first()
    if found is None:
        raise Http404
    return found


def object_for(
    request: HttpRequest, objects: QuerySet[M], public_id: uuid.UUID, path: str, *, roles: Iterable[Role] = READERS
) -> tuple[Access, M]:
    """The object of `public_id` and the access to its dataset; `path` leads there, as in "version__dataset"."""
    found = objects.select_related(path).filter(public_id=public_id).first()
    if found is None:
        raise Http404
    owner: Any = found
    for step in path.split("__"):
        owner = getattr(owner, step)
    return access_to(request, owner, roles=roles), found


def trajectory_for(
    request: HttpRequest, public_id: uuid.UUID, *, roles: Iterable[Role] = READERS
) -> tuple[Access, Trajectory]:
    """The trajectory with its task and environment loaded, and the access to its dataset."""
    objects = Trajectory.objects.select_related("task__environment")
    return object_for(request, objects, public_id, "version__dataset", roles=roles)
