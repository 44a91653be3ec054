"""Acceptance criteria: what is in force, and the form that states new ones."""

from collections.abc import Iterable
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from auditapp.criteria import CriteriaError, criteria_in_force, first_draw, set_criteria
from auditapp.forms.criteria import CriteriaForm, initial
from auditapp.models.estimates import AcceptanceCriteria
from auditapp.views.access import LEADS, READERS, dataset_for, version_for
from auditapp.views.tables import Table, about_version, csv_asked


def criteria(request: HttpRequest, name: str) -> HttpResponse:
    """Criteria of a version, every earlier statement of them, and whether they stood before the first draw."""
    access = dataset_for(request, name, roles=READERS)
    version = version_for(request, access)
    now = criteria_in_force(version)
    form = CriteriaForm(request.POST or None, initial=initial(now))
    if request.method == "POST" and access.require(LEADS) and form.is_valid():
        try:
            set_criteria(version, form.limits(), by=_user(request))
        except CriteriaError as error:
            form.add_error(None, str(error))
        else:
            messages.success(request, "These criteria are in force now.")
            return redirect(f"{request.path}?version={version.name}")
    stated = AcceptanceCriteria.objects.filter(version=version).select_related("created_by").order_by("-pk")
    drawn = first_draw(version)
    context: dict[str, Any] = {
        "access": access,
        "dataset": access.dataset,
        "version": version,
        "form": form,
        "drawn": drawn,
        "stated": [(row, drawn is None or row.created_at < drawn) for row in stated],
    }
    return csv_asked(request, about_version(version), [_table(context["stated"])]) or render(
        request, "numbers/criteria.html", context, status=422 if form.errors else 200
    )


def _table(stated: Iterable[tuple[AcceptanceCriteria, bool]]) -> Table:
    limits = ("primary", "false_pass_upper", "false_fail_upper", "kappa_lower", "coverage")
    rows = [(row.created_at, _name(row), before, *(getattr(row, limit) for limit in limits)) for row, before in stated]
    return Table("criteria", ("stated_at", "by", "before_first_draw", *limits), rows)


def _name(row: AcceptanceCriteria) -> str | None:
    return row.created_by.get_username() if row.created_by else None


def _user(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # noqa: S101  (every page asks for a login)
    return request.user
