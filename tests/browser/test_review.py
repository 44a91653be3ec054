"""A reviewer's day in a real browser: by keyboard alone, in two tabs, without a connection, too late."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from playwright.sync_api import Browser, Page, Route, expect

from auditapp.models.datasets import Trajectory
from auditapp.models.reviews import Draft, Grade, ReviewItem, ReviewRound, RoundReviewer, Skip, Slot, VerifierGuess
from judges.records import Action, Observation, StepRecord
from tests.auditapp.population import add_trajectory
from tests.auditapp.reader_world import make_world, steps
from tests.auditapp.review_world import add_item, make_reviewer, make_round
from tests.browser.conftest import SignIn, overflow, serious_violations

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def trajectory() -> Trajectory:
    return make_world()


@pytest.fixture
def ana(trajectory: Trajectory) -> User:
    return make_reviewer(trajectory.version, "ana")


@pytest.fixture
def round_(trajectory: Trajectory, ana: User) -> ReviewRound:
    """An open round of three items, with instructions and the reference."""
    made = make_round(trajectory.version, ana, instructions="Count files only.", shows_reference=True)
    add_item(made, trajectory)
    for name in ("second", "third"):
        add_item(made, add_trajectory(trajectory.task, name, steps=steps()))
    return made


@pytest.fixture
def desk(round_: ReviewRound, ana: User, sign_in: SignIn, live_server: Any) -> Iterator[Page]:
    """The page of the first item."""
    page = sign_in(ana)
    page.goto(live_server.url + reverse("review-next", args=[round_.public_id]))
    page.get_by_role("button", name="I have read them").click()
    expect(page.locator("#evidence")).to_have_value("[]")
    yield page
    quiet(page)


@pytest.fixture
def unwatched(round_: ReviewRound, ana: User, page: Page, live_server: Any) -> Iterator[Page]:
    """The same where failing requests are what is tested, so that the console may complain."""
    client = Client()
    client.force_login(ana)
    client.post(reverse("review-instructions", args=[round_.public_id]))
    value = client.cookies[settings.SESSION_COOKIE_NAME].value
    page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": value, "url": live_server.url}])
    page.goto(live_server.url + reverse("review-next", args=[round_.public_id]))
    expect(page.locator("#evidence")).to_have_value("[]")
    yield page
    page.context.set_offline(False)
    quiet(page)


def quiet(page: Page) -> None:
    """Let no draft of a closing page reach a database that is being emptied."""
    page.route("**/draft/", lambda route: route.fulfill(json={"saved": "2026-11-29T14:03:22Z"}))
    page.wait_for_load_state("networkidle")


def ready(page: Page) -> None:
    """Until the scripts of an item that was loaded are there: keys before that are lost."""
    expect(page.locator("#evidence")).not_to_have_value("")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def evidence(page: Page) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(page.locator("#evidence").input_value())
    return found


def test_a_whole_review_by_keyboard_alone(round_: ReviewRound, ana: User, sign_in: SignIn, live_server: Any) -> None:
    page = sign_in(ana)
    page.goto(live_server.url)
    page.get_by_role("link", name="Begin").focus()
    press(page, "Enter")
    page.get_by_role("button", name="I have read them").focus()
    press(page, "Enter")
    expect(page.locator("#steps .step").first).to_be_visible()
    page.wait_for_load_state("networkidle")  # keys work once the scripts are there
    press(page, "t", "e")
    expect(page.locator("#s4")).to_be_focused()
    press(page, "/")
    page.keyboard.type("test_7")
    expect(page.locator(".found a")).not_to_have_count(0)
    press(page, "Enter")
    expect(page.locator("#cite")).to_contain_text("PASSED test_7")
    press(page, "Shift+Tab", "Shift+Tab")  # out of the field, which keeps what was found
    press(page, "c")
    expect(page.locator("#chips li")).to_contain_text("step 4 · “PASSED test_7”")
    press(page, "Shift+Digit1", "Shift+Digit1", "2", "4", "x")
    page.keyboard.type("wrong logic")
    press(page, "Enter", "Escape", "n")
    page.keyboard.type("Off by one; 1 2 3 s f u change nothing here.")
    expect(page.locator("#receipt")).to_contain_text("Saved")
    press(page, "Control+Enter")
    expect(page).to_have_title("paging · Assay")
    expect(page.locator(".where strong")).to_have_text("1 / 3")
    grade = Grade.objects.get()
    assert (grade.decision, grade.integrity, grade.tags) == ("not_satisfied", "none", ["C02"])
    assert grade.requirements == {"R1": "not_met"}
    assert grade.note.startswith("Off by one; 1 2 3")
    assert [item["ok"] for item in grade.evidence] == [True]
    expect(page.locator("#chips li")).to_have_count(0)
    expect(page.locator("#grade input:checked")).to_have_count(0)

    with page.expect_navigation():
        press(page, "u")
    ready(page)
    expect(page.locator("#note")).to_have_value(grade.note)
    press(page, "1", "Control+Enter")
    expect(page.locator("#wrong-decision")).to_contain_text("R1 is not met. Change one.")
    expect(page.locator("#q-decision")).to_be_focused()
    press(page, "Shift+Digit1", "Control+Enter")
    expect(page.locator(".where strong")).to_have_text("1 / 3")
    expect(page.locator("#note")).to_have_value("")
    assert Grade.objects.get(current=True).decision == "satisfied"

    press(page, "s")
    expect(page.locator("#skip-reason")).to_be_focused()
    page.keyboard.type("not mine")
    with page.expect_navigation():
        press(page, "Enter")
    ready(page)
    expect(page.locator(".where strong")).to_have_text("1 / 3")
    assert Skip.objects.get().reason == "not mine"
    press(page, "3", "6", "Control+Enter")
    expect(page.get_by_role("heading", name="Done: nothing is left for you")).to_be_visible()
    expect(page.get_by_role("heading", name="Done: nothing is left for you")).to_be_focused()


def test_a_refused_answer_leads_to_what_is_missing(desk: Page) -> None:
    press(desk, "Control+Enter")
    expect(desk.locator("#q-decision")).to_be_focused()
    expect(desk.locator("#wrong-decision")).to_have_text("Decide whether the work satisfies the task.")
    press(desk, "1", "Control+Enter")
    expect(desk.locator("#q-integrity")).to_be_focused()
    press(desk, "4", "Control+Enter")
    expect(desk.locator("#q-evidence")).to_be_focused()
    expect(desk.locator("#wrong-evidence")).to_contain_text("Cite at least one line")
    press(desk, "j", "c")
    expect(desk.locator("#wrong-evidence")).to_be_hidden()
    press(desk, "Control+Enter")
    expect(desk.locator(".where strong")).to_have_text("1 / 3")
    assert Grade.objects.count() == 1


def test_enter_leads_to_the_first_hit_even_before_it_is_found(desk: Page) -> None:
    press(desk, "/")
    desk.keyboard.type("test_7")
    press(desk, "Enter")
    expect(desk.locator("#cite")).to_contain_text("PASSED test_7")
    expect(desk.locator("#found-at")).to_contain_text("1 /")


def test_tags_are_found_by_words_in_any_order_or_said_to_be_none(desk: Page) -> None:
    press(desk, "x")
    desk.keyboard.type("logic wrong")
    expect(desk.locator(".tag-row:visible .mono")).to_have_text(["C02"])
    desk.keyboard.type(" zebra")
    expect(desk.locator("#tag-none")).to_be_visible()
    press(desk, "Enter")
    expect(desk.locator("#tags-chosen li")).to_have_count(0)
    desk.locator("#tag-find").fill("")
    expect(desk.locator("#tag-none")).to_be_hidden()


def test_a_cold_read_is_written_by_keyboard(trajectory: Trajectory, sign_in: SignIn, live_server: Any) -> None:
    cem = make_reviewer(trajectory.version, "cem")
    made = make_round(trajectory.version, cem, kind="cold_read")
    ReviewItem.objects.create(round=made, number=1, task=trajectory.task)
    Slot.objects.create(round=made, item=made.items.get(), position=1)
    page = sign_in(cem)
    page.goto(live_server.url + reverse("review-next", args=[made.public_id]))
    page.wait_for_load_state("networkidle")
    press(page, "?")
    expect(page.locator("#keys")).to_contain_text("write what the instruction asks for")
    expect(page.locator("#keys")).not_to_contain_text("hack")
    press(page, "Escape", "Control+Enter")
    expect(page.locator("#wrong-text")).to_contain_text("Write down what the instruction asks for.")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.type("A sorted list.")
    expect(page.locator("#wrong-text")).to_be_hidden()
    press(page, "Escape", "1")
    page.keyboard.type(" Without doubles.")
    press(page, "Control+Enter")
    expect(page.get_by_role("heading", name="Done: nothing is left for you")).to_be_visible()
    assert "Without doubles." in Grade.objects.get().text
    quiet(page)


def test_selected_text_is_cited_with_whole_words(desk: Page) -> None:
    desk.evaluate("""() => {
        const line = document.querySelector('#s2 .l').firstChild;
        getSelection().setBaseAndExtent(line, 2, line, 22);
    }""")
    press(desk, "c")
    [cited] = evidence(desk)
    assert cited["quote"] == "Pages are numbered from"
    assert (cited["kind"], cited["target"], cited["part"], cited["line_start"]) == ("step", "2", "message", 1)


def test_a_selection_over_lines_keeps_signs_and_numbers_out(desk: Page) -> None:
    desk.evaluate("""() => {
        const lines = [...document.querySelectorAll('#s5 .lines[data-part=action] .l')];
        getSelection().setBaseAndExtent(lines[2], 0, lines[3], lines[3].childNodes.length);
    }""")
    press(desk, "c")
    [cited] = evidence(desk)
    assert cited["quote"] == "new_str:     return (n - 1) * 10\nold_str:     return n * 10"
    assert (cited["line_start"], cited["line_end"]) == (3, 4)


def test_a_line_is_chosen_by_key_and_a_step_by_itself_gives_its_result(desk: Page) -> None:
    press(desk, "j", "j", "j", "c")
    press(desk, "J", "J", "J", "c")
    first, second = evidence(desk)
    assert (first["target"], first["part"], first["quote"]) == ("3", "observation", "app")
    assert (second["target"], second["part"], second["line_start"]) == ("3", "action", 2)


def test_a_line_of_a_file_is_cited_and_its_chip_leads_back(desk: Page) -> None:
    desk.get_by_role("navigation", name="Parts of the item").get_by_role("link", name="Deliverable").click()
    desk.locator("#panel-deliverable .file-list a", has_text="long.log").click()
    desk.locator('#panel-deliverable .l[data-n="7"]').click()
    press(desk, "c")
    [cited] = evidence(desk)
    assert (cited["kind"], cited["target"], cited["quote"]) == ("file", "deliverable/long.log", "line 7")
    press(desk, "[")
    expect(desk.locator("#panel-steps")).not_to_have_class("panel away")
    desk.locator("#chips a").click()
    expect(desk.locator("#panel-deliverable #cite")).to_have_text("line 7")
    expect(desk.locator("#panel-deliverable #cite")).to_be_in_viewport()
    press(desk, "1", "4", "Control+Enter")
    expect(desk.locator(".where strong")).to_have_text("1 / 3")
    assert Grade.objects.get().evidence[0]["ok"] is True


def test_a_chip_of_a_step_scrolls_there_and_flashes(desk: Page) -> None:
    press(desk, "j", "c", "g", "1", "0", "Enter")
    expect(desk.locator("#s10")).to_be_focused()
    desk.locator("#chips a").click()
    expect(desk.locator("#s1 .l.cited")).to_be_in_viewport()


@pytest.fixture
def long_desk(trajectory: Trajectory, ana: User, sign_in: SignIn, live_server: Any) -> Iterator[Page]:
    """The page of an item of 200 steps, with another of as many behind it."""
    made = make_round(trajectory.version, ana)
    for name in ("one", "other"):
        long = [StepRecord(str(number), "agent", f"{name} {number}") for number in range(1, 201)]
        add_item(made, add_trajectory(trajectory.task, name, steps=long))
    page = sign_in(ana)
    page.goto(live_server.url + reverse("review-next", args=[made.public_id]))
    expect(page.locator("#evidence")).to_have_value("[]")
    yield page
    quiet(page)


def test_steps_come_when_their_pane_is_scrolled(long_desk: Page) -> None:
    last = long_desk.locator("#chunk-7")
    expect(last).to_have_class("chunk pending")
    long_desk.locator("#panel-steps").evaluate("panel => { panel.scrollTop = panel.scrollHeight; }")
    expect(last).to_have_class("chunk")
    expect(long_desk.locator("#chunk-3")).to_have_class("chunk pending")


def test_steps_that_come_late_do_not_land_in_the_next_item(long_desk: Page) -> None:
    held: list[Route] = []
    long_desk.route("**/chunk/7/", lambda route: held.append(route))  # noqa: PLW0108  (no builtin may be a handler)
    press(long_desk, "g", "2", "0", "0", "Enter")
    expect(long_desk.locator("#outline a[aria-current] b")).to_have_text("200")
    press(long_desk, "3", "6")
    with long_desk.expect_event("requestfailed") as dropped:
        press(long_desk, "Control+Enter")
    assert dropped.value.url.endswith("/chunk/7/")
    expect(long_desk.locator(".where strong")).to_have_text("1 / 2")
    expect(long_desk.locator("#chunk-7")).to_have_class("chunk pending")
    assert len(held) == 1
    long_desk.unroute_all(behavior="ignoreErrors")


@pytest.fixture
def timed(ana: User, round_: ReviewRound, page: Page, live_server: Any) -> Iterator[Page]:
    """The page of the first item under a clock that the test moves."""
    client = Client()
    client.force_login(ana)
    client.post(reverse("review-instructions", args=[round_.public_id]))
    value = client.cookies[settings.SESSION_COOKIE_NAME].value
    page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": value, "url": live_server.url}])
    page.clock.install()
    page.clock.pause_at(timezone.now())  # before the page: stopped later, the clock lets a timer go off too early
    page.goto(live_server.url + reverse("review-next", args=[round_.public_id]))
    expect(page.locator("#evidence")).to_have_value("[]")
    yield page
    quiet(page)


def seconds(page: Page) -> int:
    """The seconds that the form would send."""
    return int(page.locator("input[name=seconds]").input_value() or 0)


def test_the_time_of_an_item_has_no_idle_minutes_in_it(timed: Page) -> None:
    press(timed, "j")
    before = seconds(timed)
    timed.clock.run_for(40_000)
    assert seconds(timed) - before == 40
    press(timed, "j")
    timed.clock.run_for(600_000)
    idle = seconds(timed)
    assert 59 <= idle - before - 40 <= 60  # the minute after which no move counts as idle
    press(timed, "j")
    timed.clock.run_for(10_000)
    assert seconds(timed) - idle == 10
    minutes, rest = divmod(idle + 10, 60)
    expect(timed.locator("#timer")).to_have_text(f"{minutes}:{rest:02}")


def test_an_open_item_is_held_every_minute_until_it_is_lost(timed: Page, trajectory: Trajectory) -> None:
    beats: list[str] = []
    timed.on("request", lambda request: beats.append(request.url) if request.url.endswith("/heartbeat/") else None)
    before = Slot.objects.get(state="leased").lease_until
    with timed.expect_response("**/heartbeat/") as beat:
        timed.clock.run_for(60_000)
    assert beat.value.ok
    after = Slot.objects.get(state="leased").lease_until
    assert before
    assert after
    assert after > before
    expect(timed.locator("#problem")).to_be_hidden()
    Slot.objects.filter(state="leased").update(reviewer=make_reviewer(trajectory.version, "bo"))
    timed.clock.run_for(60_000)
    expect(timed.locator("#problem")).to_contain_text("This item is no longer yours: its time ran out")
    asked = len(beats)
    timed.clock.run_for(300_000)
    press(timed, "3", "6", "Control+Enter")
    expect(timed.locator("#problem")).to_contain_text("Not submitted. This item is no longer yours")
    assert len(beats) == asked
    assert not Grade.objects.exists()


def test_the_next_item_is_read_ahead_once_and_stays_free(timed: Page) -> None:
    asked: list[str] = []
    timed.on("request", lambda request: asked.append(request.url) if request.url.endswith("/ahead/") else None)
    with timed.expect_response("**/ahead/") as ahead:
        timed.clock.run_for(3_000)
    assert ahead.value.status == 204
    timed.clock.run_for(60_000)
    assert len(asked) == 1
    assert Slot.objects.filter(state="leased").count() == 1


def test_tabs_keep_the_form_and_the_place(desk: Page) -> None:
    press(desk, "n")
    desk.keyboard.type("kept")
    press(desk, "Escape", "g", "8", "Enter")
    expect(desk.locator("#s8")).to_be_in_viewport()
    before = desk.locator("#panel-steps").evaluate("panel => panel.scrollTop")
    for key in "]]]":
        press(desk, key)
    expect(desk.locator("#panel-reference")).to_contain_text("One valid solution")
    press(desk, "]")
    assert desk.locator("#panel-steps").evaluate("panel => panel.scrollTop") == before
    expect(desk.locator("#note")).to_have_value("kept")


def test_keys_of_the_steps_lead_there_from_the_other_parts(desk: Page) -> None:
    press(desk, "]", "/")
    desk.keyboard.type("sif")  # on any other part each of these would be a key of its own
    expect(desk.locator("#panel-steps")).to_be_visible()
    expect(desk.locator("#q")).to_have_value("sif")
    expect(desk.locator("dialog[open]")).to_have_count(0)
    press(desk, "Escape")
    desk.goto(f"{desk.url.partition('?')[0]}deliverable/")  # where the steps have not been loaded yet
    expect(desk.locator("#panel-deliverable")).to_be_visible()
    press(desk, "/")
    expect(desk.locator("#q")).to_be_focused()
    press(desk, "Escape", "]", "g", "8", "Enter")
    expect(desk.locator("#s8")).to_be_in_viewport()
    desk.goto(f"{desk.url.partition('?')[0]}task/")
    press(desk, "g")
    expect(desk.locator("#panel-steps")).to_be_visible()
    expect(desk.locator("#said")).to_contain_text("Go to step")


@pytest.mark.parametrize("answer", [None, '<p id="none">Steps: not recorded</p>'])
def test_keys_of_steps_that_do_not_come_ask_for_them_once(unwatched: Page, answer: str | None) -> None:
    """Each key would be given to a reader that is not there, which would ask for the steps again without end."""
    base = unwatched.url.partition("?")[0]
    unwatched.goto(f"{base}task/")
    ready(unwatched)
    asked: list[Route] = []

    def refuse(route: Route) -> None:
        asked.append(route)
        route.abort() if answer is None else route.fulfill(body=answer)

    unwatched.route(base, refuse)
    press(unwatched, "j")
    expect(unwatched.locator("#panel-steps .notice.error" if answer is None else "#none")).to_be_visible()
    unwatched.wait_for_timeout(300)
    assert len(asked) == 1
    press(unwatched, "2")
    expect(unwatched.locator("#q-decision input").nth(1)).to_be_checked()
    unwatched.unroute(base)


def test_keys_pressed_while_the_steps_come_answer_nothing(unwatched: Page) -> None:
    base = unwatched.url.partition("?")[0]
    unwatched.goto(f"{base}task/")
    ready(unwatched)
    held: list[Route] = []
    unwatched.route(base, lambda route: held.append(route))  # noqa: PLW0108  (no builtin may be a handler)
    press(unwatched, "/", "s", "2", "j")
    expect(unwatched.locator("#panel-steps")).to_have_attribute("aria-busy", "true")
    expect(unwatched.locator("dialog[open], #grade :checked[type=radio]")).to_have_count(0)
    assert len(held) == 1
    held[0].continue_()
    expect(unwatched.locator("#q")).to_be_focused()


def test_what_is_typed_is_on_the_server_and_comes_back(desk: Page) -> None:
    press(desk, "2", "n")
    desk.keyboard.type("half a thought")
    expect(desk.locator("#receipt")).to_have_text(re.compile(r"Saved \d\d:\d\d:\d\dZ"))
    assert Draft.objects.get().content["note"] == "half a thought"
    desk.reload()
    expect(desk.locator("#note")).to_have_value("half a thought")
    expect(desk.locator("input[name=decision][value=not_satisfied]")).to_be_checked()


def test_keys_leave_fields_and_dialogs_alone_and_can_be_switched_off(desk: Page) -> None:
    press(desk, "?")
    expect(desk.locator("#keys")).to_be_visible()
    press(desk, "1", "c", "s")
    expect(desk.locator("#skip")).not_to_be_visible()
    desk.locator("#keys-on").uncheck()
    desk.locator("#keys button").click()
    press(desk, "1", "j", "s", "i")
    expect(desk.locator("#grade input:checked")).to_have_count(0)
    expect(desk.locator("#instructions")).not_to_be_visible()
    press(desk, "Control+Enter")
    expect(desk.locator("#q-decision")).to_be_focused()


def test_digits_work_by_place_and_letters_of_altgr_are_no_digits(desk: Page) -> None:
    azerty = "key => document.body.dispatchEvent(new KeyboardEvent('keydown', {...key, bubbles: true}))"
    desk.evaluate(azerty, {"key": "é", "code": "Digit2"})
    expect(desk.locator("input[name=decision][value=not_satisfied]")).to_be_checked()
    desk.evaluate(azerty, {"key": "1", "code": "Digit1", "shiftKey": True})
    expect(desk.locator("input[name=requirement-R1][value=met]")).to_be_checked()
    desk.evaluate(azerty, {"key": "@", "code": "Digit4", "modifierAltGraph": True, "ctrlKey": True, "altKey": True})
    expect(desk.locator("input[name=integrity]:checked")).to_have_count(0)


def test_two_tabs_show_the_same_item(unwatched: Page, round_: ReviewRound, live_server: Any) -> None:
    other = unwatched.context.new_page()
    other.goto(live_server.url + reverse("review-next", args=[round_.public_id]))
    assert other.url.split("?")[0] == unwatched.url.split("?")[0]
    ready(other)
    press(unwatched, "3", "6", "Control+Enter")
    expect(unwatched.locator(".where strong")).to_have_text("1 / 3")
    with other.expect_response("**/heartbeat/") as beat:
        other.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    assert beat.value.status == 409
    expect(other.locator("#problem")).to_contain_text("You have submitted this item, perhaps in another window")
    assert Grade.objects.count() == 1
    other.close()


def test_two_reviewers_who_race_for_the_last_item_do_not_both_get_it(
    unwatched: Page, round_: ReviewRound, trajectory: Trajectory, browser: Browser, live_server: Any
) -> None:
    bo = make_reviewer(trajectory.version, "bo")
    RoundReviewer.objects.create(round=round_, user=bo)
    client = Client()
    client.force_login(bo)
    client.post(reverse("review-instructions", args=[round_.public_id]))
    value = client.cookies[settings.SESSION_COOKIE_NAME].value
    other = browser.new_context().new_page()
    other.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": value, "url": live_server.url}])
    other.goto(live_server.url + reverse("review-next", args=[round_.public_id]))
    ready(other)
    assert other.url.split("?")[0] != unwatched.url.split("?")[0]
    press(unwatched, "3", "6")
    press(other, "3", "6")
    press(unwatched, "Control+Enter")  # the key comes back before the answer does, so both are on their way at once
    press(other, "Control+Enter")
    ends = [page.get_by_role("heading", name="Nothing for you now") for page in (unwatched, other)]
    expect(unwatched.locator(".where strong").or_(ends[0]).first).not_to_have_text("0 / 3")
    expect(other.locator(".where strong").or_(ends[1]).first).not_to_have_text("0 / 3")
    assert sorted(end.count() for end in ends) == [0, 1]
    last = Slot.objects.get(state="leased")
    assert last.reviewer_id == (bo.pk if ends[0].count() else User.objects.get(username="ana").pk)
    assert Grade.objects.values("slot__reviewer").distinct().count() == Grade.objects.count() == 2
    quiet(other)
    other.context.close()


def test_a_lost_connection_is_said_and_nothing_is_lost(unwatched: Page) -> None:
    unwatched.context.set_offline(True)
    press(unwatched, "3", "6", "n")
    unwatched.keyboard.type("written on a train")
    expect(unwatched.locator("#receipt")).to_contain_text("Not saved. The server cannot be reached. Trying again.")
    press(unwatched, "Control+Enter")
    expect(unwatched.locator("#problem")).to_contain_text("Not submitted. The server cannot be reached.")
    assert not Grade.objects.exists()
    unwatched.context.set_offline(False)
    expect(unwatched.locator(".where strong")).to_have_text("1 / 3", timeout=15_000)
    assert Grade.objects.get().note == "written on a train"


@pytest.mark.parametrize(("status", "means"), [(503, "cannot reach its database"), (507, "disk of the server is full")])
def test_a_server_without_its_database_or_room_is_said_and_nothing_is_lost(
    unwatched: Page, status: int, means: str
) -> None:
    unwatched.route(
        "**/submit/", lambda route: route.fulfill(status=status, content_type="text/html", body="<h1>no</h1>")
    )
    press(unwatched, "3", "6", "Control+Enter")
    expect(unwatched.locator("#problem")).to_contain_text(means)
    assert not Grade.objects.exists()
    unwatched.unroute("**/submit/")
    press(unwatched, "Control+Enter")
    expect(unwatched.locator(".where strong")).to_have_text("1 / 3", timeout=15_000)
    assert Grade.objects.count() == 1


def test_a_late_answer_keeps_the_text_and_says_so(unwatched: Page, round_: ReviewRound, trajectory: Trajectory) -> None:
    press(unwatched, "3", "6", "n")
    unwatched.keyboard.type("took too long")
    expect(unwatched.locator("#receipt")).to_contain_text("Saved")
    Slot.objects.filter(state="leased").update(reviewer=make_reviewer(trajectory.version, "bo"))
    press(unwatched, "Control+Enter")
    expect(unwatched.locator("#problem")).to_contain_text("someone else has this item now. Your text is kept")
    expect(unwatched.locator("#problem")).to_be_focused()
    expect(unwatched.locator("#note")).to_have_value("took too long")
    assert not Grade.objects.exists()
    assert Draft.objects.get().kept


def test_a_guess_takes_one_key_or_none(desk: Page) -> None:
    Slot.objects.update(asks_guess=True)
    press(desk, "3", "6", "Control+Enter")
    expect(desk.locator("#guess")).to_be_visible()
    press(desk, "Enter")  # one press too many is no guess
    expect(desk.locator("#guess-title")).to_be_focused()
    press(desk, "2")
    expect(desk.locator("#guess")).to_have_count(0)
    expect(desk.locator("#grade input:checked")).to_have_count(0)
    press(desk, "3", "6", "Control+Enter")
    expect(desk.locator("#guess")).to_be_visible()
    press(desk, "Escape")
    expect(desk.locator("#guess")).to_have_count(0)
    press(desk, "j")
    expect(desk.locator("#s1")).to_be_focused()
    assert [guess.guess for guess in VerifierGuess.objects.all()] == ["fail"]


def test_the_panes_can_be_resized_by_key_and_stay_so(desk: Page) -> None:
    splitter = desk.locator("#splitter")
    width = desk.locator("#work").bounding_box()
    splitter.focus()
    press(desk, "ArrowLeft", "ArrowLeft", "ArrowLeft")
    narrower = desk.locator("#work").bounding_box()
    assert width
    assert narrower
    assert narrower["width"] < width["width"] - 40
    press(desk, "End")
    form = desk.locator("#grade").bounding_box()
    assert form
    assert form["width"] >= 399
    desk.reload()
    expect(splitter).to_have_attribute("aria-valuenow", splitter.get_attribute("aria-valuenow") or "")
    again = desk.locator("#grade").bounding_box()
    assert again
    assert abs(again["width"] - form["width"]) < 2


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_every_page_of_a_reviewer_is_accessible_and_fits(
    desk: Page, round_: ReviewRound, live_server: Any, scheme: Any, width: int
) -> None:
    desk.set_viewport_size({"width": width, "height": 900})
    desk.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    base = desk.url.split("?")[0]
    press(desk, "2", "5", "j", "c")
    expect(desk.locator("#receipt")).to_contain_text("Saved")
    tails = ["", "deliverable/", "task/", "reference/", "skip/", "flag/", "search/?q=page"]
    others = [reverse("review"), reverse("review-instructions", args=[round_.public_id]), "/d/release/"]
    for address in [*(base + tail for tail in tails), *(live_server.url + tail for tail in others)]:
        desk.goto(address)
        assert serious_violations(desk) == [], address
        assert overflow(desk) == 0, address
    desk.goto(base)
    ready(desk)
    for key in ("?", "i"):
        press(desk, key)
        assert serious_violations(desk) == [], key
        press(desk, "Escape")
    press(desk, "3", "6", "Control+Enter")
    expect(desk.locator(".where strong")).to_have_text("1 / 3")
    assert serious_violations(desk) == []
    desk.goto(f"{base}after/")
    assert serious_violations(desk) == []
    desk.get_by_role("button", name="Lock my grade").click()
    expect(desk.get_by_role("heading", name="What the verifier said")).to_be_visible()
    assert serious_violations(desk) == []
    assert overflow(desk) == 0


def test_the_tabs_work_without_scripts(browser: Any, desk: Page, live_server: Any) -> None:
    context = browser.new_context(java_script_enabled=False, storage_state=desk.context.storage_state())
    page = context.new_page()
    page.goto(desk.url)
    page.get_by_role("link", name="Deliverable").click()
    page.locator(".file-list a", has_text="README.md").click()
    expect(page.locator("#panel-deliverable .l").first).to_have_text("Paging")
    page.get_by_role("link", name="Skip s").click()
    expect(page.get_by_role("heading", name="Skip this item")).to_be_visible()
    context.close()


def test_ten_thousand_steps_open_and_can_be_read_at_once(
    trajectory: Trajectory, ana: User, sign_in: SignIn, live_server: Any
) -> None:
    made = make_round(trajectory.version, ana)
    long = [
        StepRecord(
            str(number),
            "agent",
            f"message {number}",
            actions=(Action("bash", {"command": f"run {number}"}, "c"),),
            observations=(Observation(f"output {number}\n" * 40, "c", "explicit", 0),),
        )
        for number in range(1, 10_001)
    ]
    add_item(made, add_trajectory(trajectory.task, "long", steps=long))
    page = sign_in(ana)
    page.goto(live_server.url + reverse("review"))
    page.goto(live_server.url + reverse("review-next", args=[made.public_id]))
    page.reload()
    expect(page.locator("#evidence")).to_have_value("[]")
    assert page.locator("*").count() < 6_000  # what is not looked at is not laid out
    press(page, "g", "9", "9", "9", "9", "Enter")
    # Not `expect`: where an element is not there yet it describes the whole page, which takes the browser seconds.
    page.locator("#s9999:focus").wait_for(timeout=5_000)
    expect(page.locator("#outline a[aria-current] b")).to_have_text("9999")
    press(page, "c")
    expect(page.locator("#chips li")).to_contain_text("step 9999 · “output 9999")
