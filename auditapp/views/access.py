"""Who may see what: every page fetches its object here, so that a foreign one does not exist.

Not a member: 404, as for an unknown name. A member without the role: 403, saying which role opens the page. This module
knows only `models.datasets`; pages of other objects pass their own query set and the path to the dataset.
"""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest

from auditapp.models.datasets import Dataset, DatasetVersion, Membership, Role, Trajectory

ANY = (Role.LEAD, Role.REVIEWER, Role.VIEWER)
READERS = (Role.LEAD, Role.VIEWER)
LEADS = (Role.LEAD,)

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class Access:
    """A dataset as one member sees it; templates get it as `access`."""

    dataset: Dataset
    role: Role

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
            names = " or ".join(role.label for role in allowed)
            raise PermissionDenied(
                f"This page is for a {names} of the dataset {self.dataset.name}; you are a {self.role.label}."
            )
        return self


def access_to(request: HttpRequest, dataset: Dataset, *, roles: Iterable[Role] = READERS) -> Access:
    """The caller's membership of `dataset`; 404 where there is none."""
    membership = Membership.objects.filter(dataset=dataset, user__id=request.user.pk or 0).first()
    if membership is None:
        raise Http404
    return Access(dataset, Role(membership.role)).require(roles)


def may_create(request: HttpRequest) -> bool:
    """Whether the caller may begin a dataset: who leads one may, or who was given the right to add one.

    A reviewer of any dataset may not: importing the same data would show what has to stay hidden from them.
    """
    roles = set(Membership.objects.filter(user__id=request.user.pk or 0).values_list("role", flat=True))
    if Role.REVIEWER in roles:
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
