"""The reader in a real browser: keys, chunks on demand, citations that land, light and dark, wide and narrow."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from auditapp.models.datasets import Role, Trajectory
from judges.records import Action, Observation, StepRecord
from tests.auditapp.population import add_trajectory
from tests.auditapp.reader_world import make_member, make_world
from tests.browser.conftest import SignIn, overflow, serious_violations

pytestmark = pytest.mark.django_db(transaction=True)

TABS = ["", "?step=4&part=observation&item=2&lines=200-201#cite", "deliverable/", "task/", "verifier/", "reference/"]
TABS += ["recording/", "search/?q=page", "deliverable/?path=app/paging.py&against=initial"]


@pytest.fixture
def trajectory() -> Trajectory:
    return make_world()


@pytest.fixture
def reader(trajectory: Trajectory, sign_in: SignIn) -> Page:
    return sign_in(make_member(trajectory.version.dataset, Role.LEAD))


@pytest.fixture
def long(trajectory: Trajectory) -> Trajectory:
    steps = [
        StepRecord(
            str(number),
            "agent",
            f"message {number}",
            actions=(Action("bash", {"command": f"run {number}"}, "c"),) if number % 10 == 0 else (),
            observations=(Observation("x\n" * 20, "c", "explicit", int(number == 140)),) if number % 10 == 0 else (),
        )
        for number in range(1, 201)
    ]
    return add_trajectory(trajectory.task, "long", steps=steps)


def _address(live_server: Any, trajectory: Trajectory, tail: str = "") -> str:
    return f"{live_server.url}/t/{trajectory.public_id}/{tail}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_every_tab_is_accessible_and_fits(
    reader: Page, live_server: Any, trajectory: Trajectory, scheme: Any, width: int
) -> None:
    reader.set_viewport_size({"width": width, "height": 900})
    reader.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    for tail in TABS:
        reader.goto(_address(live_server, trajectory, tail))
        assert serious_violations(reader) == [], tail
        assert overflow(reader) == 0, tail


def test_a_citation_lands_on_its_line(reader: Page, live_server: Any, trajectory: Trajectory) -> None:
    reader.goto(_address(live_server, trajectory, "?step=4&part=observation&item=2&lines=200-201#cite"))
    expect(reader.locator("#cite")).to_be_in_viewport()
    assert reader.locator(".l.cited").all_inner_texts() == ["PASSED test_200", "PASSED test_201"]


def test_a_deep_link_loads_the_chunk_it_needs(reader: Page, live_server: Any, long: Trajectory) -> None:
    reader.goto(_address(live_server, long, "#s180"))
    expect(reader.locator("#s180")).to_be_in_viewport()
    expect(reader.locator("#outline a[aria-current]").locator("b")).to_have_text("180")


def test_keys_move_by_step_call_error_and_number(reader: Page, live_server: Any, long: Trajectory) -> None:
    reader.goto(_address(live_server, long))
    for keys, step in (
        ("j", "s1"),
        ("j", "s2"),
        ("k", "s1"),
        ("t", "s10"),
        ("e", "s140"),
        ("t", "s150"),
        ("T", "s140"),
    ):
        reader.keyboard.press(keys)
        expect(reader.locator(f"#{step}")).to_be_focused()
    for key in ("g", "7", "7", "Enter"):
        reader.keyboard.press(key)
    expect(reader.locator("#s77")).to_be_focused()
    expect(reader.locator("#s77")).to_be_in_viewport()


def _steps(count: int, *, failed: int) -> list[StepRecord]:
    called = (Action("bash", {"command": "run"}, "c"),)
    return [
        StepRecord(
            str(number),
            "agent",
            f"message {number}",
            actions=called if number % 1_000 == 0 else (),
            observations=(Observation("x", "c", "explicit", 1),) if number == failed else (),
        )
        for number in range(1, count + 1)
    ]


@pytest.fixture
def endless(trajectory: Trajectory) -> Trajectory:
    return add_trajectory(trajectory.task, "endless", steps=_steps(3_010, failed=2_600))


def test_the_outline_of_a_long_trajectory_comes_as_it_is_looked_at(
    reader: Page, live_server: Any, endless: Trajectory
) -> None:
    reader.goto(_address(live_server, endless))
    assert reader.locator("#outline a").count() < 600
    height = reader.evaluate("document.getElementById('outline').scrollHeight")
    for keys, step in (("t", "1000"), ("T", ""), ("e", "2600"), ("t", "3000"), ("k", "2999")):
        reader.keyboard.press(keys)
        if step:
            expect(reader.locator(f"#s{step}")).to_be_focused()
            expect(reader.locator("#outline a[aria-current] b")).to_have_text(step)
            expect(reader.locator("#outline a[aria-current]")).to_be_in_viewport()
    reader.evaluate("document.getElementById('outline').scrollTop = 24 * 1510")
    row = reader.locator("#outline-6 a").nth(20)
    expect(row.locator("b")).to_have_text("1521")
    row.click()
    expect(reader.locator("#s1521")).to_be_focused()
    expect(reader.locator("#s1521")).to_be_in_viewport()
    assert height - 6_000 < reader.evaluate("document.getElementById('outline').scrollHeight") <= height


def test_a_part_of_the_outline_that_does_not_come_stays_a_link(
    reader: Page, live_server: Any, endless: Trajectory
) -> None:
    reader.goto(_address(live_server, endless))
    reader.route("**/chunk/*/?outline", lambda route: route.fulfill(status=422))
    reader.evaluate("document.getElementById('outline').scrollTop = 24 * 2000")
    link = reader.locator("#outline-8 a")
    expect(link).to_have_text("Steps 2001 to 2250")
    link.click()
    expect(reader.locator("#s2001")).to_be_focused()


def test_keys_leave_fields_dialogs_and_modifiers_alone(reader: Page, live_server: Any, long: Trajectory) -> None:
    reader.goto(_address(live_server, long))
    reader.keyboard.press("j")
    reader.keyboard.press("Control+j")
    expect(reader.locator("#s1")).to_be_focused()
    reader.keyboard.press("/")
    reader.keyboard.type("jte?")
    expect(reader.locator("#q")).to_have_value("jte?")
    reader.keyboard.press("Escape")
    reader.keyboard.press("?")
    expect(reader.locator("#keys")).to_be_visible()
    reader.keyboard.press("j")
    reader.locator("#keys-on").uncheck()
    reader.locator("#keys button").click()
    reader.keyboard.press("j")
    expect(reader.locator("#outline a[aria-current] b")).to_have_text("1")


def test_finding_goes_through_hits(reader: Page, live_server: Any, long: Trajectory) -> None:
    reader.goto(_address(live_server, long))
    reader.keyboard.press("/")
    reader.keyboard.type("run 1")
    expect(reader.locator(".found a")).to_have_count(11)
    reader.keyboard.press("Enter")
    expect(reader.locator("#found-at")).to_have_text("1 / 11")
    expect(reader.locator("#cite")).to_have_text("command: run 10")
    reader.keyboard.press("Shift+Enter")
    expect(reader.locator("#found-at")).to_have_text("11 / 11")
    expect(reader.locator("#cite")).to_have_text("command: run 190")
    expect(reader.locator("#cite")).to_be_in_viewport()


def test_a_held_key_ends_where_it_should(reader: Page, live_server: Any, long: Trajectory) -> None:
    reader.goto(_address(live_server, long))
    for _ in range(60):
        reader.keyboard.down("j")
    reader.keyboard.up("j")
    expect(reader.locator("#s60")).to_be_focused()


def test_folded_lines_open_in_place(reader: Page, live_server: Any, trajectory: Trajectory) -> None:
    reader.goto(_address(live_server, trajectory, "#s4"))
    reader.locator("#s4 .gap").click()
    expect(reader.locator('#s4 .lines[data-part="observation"][data-item="2"] .l')).to_have_count(461)


def test_the_theme_can_be_switched_and_stays(reader: Page, live_server: Any, trajectory: Trajectory) -> None:
    reader.emulate_media(color_scheme="light")
    reader.goto(_address(live_server, trajectory))
    reader.locator("[data-theme-toggle]").click()
    reader.reload()
    assert reader.evaluate("document.documentElement.dataset.theme") == "dark"
    assert reader.evaluate("getComputedStyle(document.body).colorScheme") == "dark"


def test_the_reader_works_without_scripts(
    browser: Any, reader: Page, live_server: Any, long: Trajectory, endless: Trajectory
) -> None:
    context = browser.new_context(java_script_enabled=False, storage_state=reader.context.storage_state())
    page = context.new_page()
    page.goto(_address(live_server, endless))
    page.get_by_role("navigation", name="Steps").get_by_role("link", name="Steps 2001 to 2250").click()
    expect(page.locator("#s2001")).to_be_in_viewport()
    expect(page.locator("#outline a b").first).to_have_text("2001")
    page.goto(_address(live_server, long))
    page.get_by_role("link", name="Steps 101 to 125").click()
    expect(page.locator("#s101")).to_be_in_viewport()
    page.locator("#q").fill("run 190")
    page.get_by_role("button", name="Find").click()
    page.locator(".found a").first.click()
    expect(page.locator("#cite")).to_have_text("command: run 190")
    context.close()


def test_an_ended_session_leads_to_the_login(reader: Page, live_server: Any, long: Trajectory) -> None:
    reader.goto(_address(live_server, long))
    reader.context.clear_cookies()
    reader.keyboard.press("/")
    reader.keyboard.type("run 1")
    expect(reader.get_by_role("heading", name="Log in")).to_be_visible()
    expect(reader.locator("#outline")).to_have_count(0)
