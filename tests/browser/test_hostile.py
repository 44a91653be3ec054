"""A trajectory that attacks its readers, in a real browser: nothing of it runs, asks elsewhere or leaves its box."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Page, expect

from auditapp import review
from auditapp.models.datasets import Role, Trajectory
from auditapp.models.reviews import Grade, Slot
from tests.auditapp.hostile_world import FILES, import_hostile
from tests.auditapp.reader_world import make_member
from tests.auditapp.review_world import add_item, make_reviewer, make_round
from tests.browser.conftest import SignIn, overflow, serious_violations

pytestmark = pytest.mark.django_db(transaction=True)

PARTS = ["", "deliverable/", "task/", "search/?q=globalThis", "lines/?step=9&part=action&item=1"]
PARTS += [f"deliverable/?path={quote(name)}" for name in FILES]
# What is wider than the window, unless something around it clips or scrolls.
OUTSIDE = """() => {
  const wide = document.documentElement.clientWidth + 1;
  const clipped = (element) => {
    for (let at = element.parentElement; at; at = at.parentElement) {
      if (getComputedStyle(at).overflowX !== "visible") return true;
    }
    return false;
  };
  return [...document.querySelectorAll("main *")]
    .filter((element) => element.getBoundingClientRect().right > wide && !clipped(element))
    .map((element) => `${element.tagName}.${element.className}`);
}"""


@pytest.fixture
def attack(tmp_path: Path) -> Trajectory:
    return import_hostile(tmp_path / "case")


@pytest.fixture
def ann(attack: Trajectory) -> User:
    return make_reviewer(attack.version, "ann")


@pytest.fixture
def slot(attack: Trajectory, ann: User) -> Slot:
    made = make_round(attack.version, ann)
    add_item(made, attack)
    found = review.claim_next_slot(made, by=ann, now=timezone.now())
    assert isinstance(found, Slot)
    return found


def assert_harmless(page: Page, address: str) -> None:
    page.goto(address)
    assert page.evaluate("globalThis.owned === undefined"), address
    assert overflow(page) == 0, address
    assert page.evaluate(OUTSIDE) == [], address
    took = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    assert took < 10_000, address  # a tenth of a second alone; what grows with the square takes minutes


@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_runs_and_nothing_leaves_its_box(
    attack: Trajectory, sign_in: SignIn, live_server: Any, width: int
) -> None:
    page = sign_in(make_member(attack.version.dataset, Role.LEAD))
    page.set_viewport_size({"width": width, "height": 900})
    base = live_server.url + reverse("trajectory", args=[attack.public_id])
    for part in [*PARTS, "verifier/", "recording/"]:
        assert_harmless(page, base + part)
    for name in ("trajectories", "tasks", "dataset"):
        assert_harmless(page, live_server.url + reverse(name, args=["release"]))


@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_runs_in_a_review_either(slot: Slot, ann: User, sign_in: SignIn, live_server: Any, width: int) -> None:
    page = sign_in(ann)
    page.set_viewport_size({"width": width, "height": 900})
    base = live_server.url + reverse("review-slot", args=[slot.public_id])
    for part in PARTS:
        assert_harmless(page, base + part)
    page.goto(base)
    assert serious_violations(page) == []


def test_what_attacks_can_be_cited_and_what_cannot_says_so(
    slot: Slot, ann: User, sign_in: SignIn, live_server: Any
) -> None:
    page = sign_in(ann)
    page.goto(live_server.url + reverse("review-slot", args=[slot.public_id]))
    expect(page.locator("#evidence")).to_have_value("[]")
    said = {3: "Cited step 3", 5: "Cited step 5 · “start of the line”", 7: "a word without end", 8: "Cited step 8"}
    for step, words in {1: "Cited step 1", 2: "Cited step 2", **said, 10: "Cited step 10", 13: "Cited step 13"}.items():
        for key in ("g", *str(step), "Enter"):
            page.keyboard.press(key)
        page.locator(f"#s{step}:focus").wait_for()
        page.keyboard.press("c")
        expect(page.locator("#cite-said")).to_contain_text(words)
    page.locator("#s8 .lines[data-part=action] .l").nth(1).click()
    page.keyboard.press("c")
    expect(page.locator("#chips li")).to_have_count(8)
    for key in ("1", "4", "Control+Enter"):
        page.keyboard.press(key)
    expect(page.locator("#review")).to_have_count(0)
    evidence = Grade.objects.get().evidence
    assert len(evidence) == 8
    assert [item for item in evidence if not item["ok"]] == []
