"""The report on paper and on the screen: two to four pages, no bar, no button; accessible, within its window."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page, expect

from auditapp import judging
from auditapp.models.datasets import DatasetVersion, Membership
from auditapp.models.estimates import AcceptanceCriteria
from tests.auditapp.looks import GOOD, answer, make_run, make_world
from tests.browser.conftest import SignIn, overflow, serious_violations

__all__ = ["answer"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def report(answer: Callable[..., Any], sign_in: SignIn, live_server: Any) -> Page:
    """The report of twelve judged trajectories of three tasks, as a lead sees it."""
    run = make_run(make_world(4, status="pass", tasks=3))
    answer(GOOD)
    for judgment in judging.queued_ids(run):
        judging.execute_judgment(judgment)
    user = User.objects.create_user("lead")
    Membership.objects.create(dataset=run.sample.frame.version.dataset, user=user, role="lead")
    page = sign_in(user)
    page.goto(live_server.url + reverse("report", args=["release"]))
    return page


@pytest.mark.parametrize("paper", ["A4", "Letter"])
def test_it_prints_on_two_to_four_pages(report: Page, paper: str) -> None:
    printed = report.pdf(format=paper)
    assert 2 <= len(re.findall(rb"/Type /Page\b(?!s)", printed)) <= 4


def test_on_paper_there_is_no_bar_no_button_and_no_form(report: Page) -> None:
    expect(report.locator(".bar")).to_be_visible()
    report.emulate_media(media="print")
    for gone in (".bar", ".crumbs", ".foot", ".head-action", "main .button", "main button"):
        for found in report.locator(gone).all():
            expect(found).to_be_hidden()
    for kept in (".answer .first", "#rates", "#verify"):
        expect(report.locator(kept).first).to_be_visible()
    split = report.locator("main table").evaluate_all(
        "all => all.filter(t => getComputedStyle(t).breakInside !== 'avoid').length"
    )
    assert split == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_it_is_accessible_and_fits(report: Page, scheme: Any, width: int) -> None:
    report.emulate_media(color_scheme=scheme)
    report.set_viewport_size({"width": width, "height": 900})
    assert report.locator("h1").count() == 1
    assert not serious_violations(report)
    assert overflow(report) <= 0


def test_on_a_phone_every_cell_of_a_criterion_is_in_view(report: Page) -> None:
    AcceptanceCriteria.objects.create(
        version=DatasetVersion.objects.get(), false_pass_upper=0.2, false_fail_upper=0.2, kappa_lower=0.6, coverage=0.9
    )
    report.reload()
    report.set_viewport_size({"width": 390, "height": 900})
    cells = report.locator("table.criteria").locator("tbody th, tbody .cell")
    assert cells.count() == 4 * 6
    for cell in cells.all():
        box = cell.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        assert box["width"] >= 150  # no column of single words
        assert cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth + 1")


def test_the_name_of_a_number_leads_to_what_it_means(report: Page) -> None:
    report.get_by_role("link", name="New tasks like these").first.click()
    expect(report).to_have_url(re.compile(r"/methodology/#two-scopes$"))
    expect(report.locator("#two-scopes")).to_be_in_viewport()
