"""Pages for leads in a real browser: accessible in light and dark, wide and narrow; evidence leads to its line."""

import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from playwright.sync_api import Page, expect

from auditapp import ingest, judging
from auditapp.models.datasets import Membership
from auditapp.models.judgments import JudgeRun, JudgmentTag
from auditapp.models.labels import Label
from auditapp.models.reviews import HeldOutSet, ReviewRound, RoundReviewer
from auditapp.models.sources import ImportBatch
from tests.auditapp.looks import GOOD, answer, make_run, make_world
from tests.auditapp.test_ingest import write_case
from tests.browser.conftest import SignIn, overflow, serious_violations

__all__ = ["answer"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(answer: Callable[..., Any]) -> JudgeRun:
    """Three judged trajectories, a fourth still queued."""
    made = make_run(make_world(4, status="fail"))
    answer(GOOD)
    for judgment in judging.queued_ids(made)[:3]:
        judging.execute_judgment(judgment)
    looked_at = made.judgments.filter(state="completed")
    tagged = [(look, code) for look in looked_at for code in ("B01", "B06", "C08")]
    JudgmentTag.objects.bulk_create(
        JudgmentTag(judgment=look, code=code, role="primary", phase=1, kept=True) for look, code in tagged
    )
    return made


@pytest.fixture
def lead(run: JudgeRun, sign_in: SignIn) -> Page:
    user = User.objects.create_user("lead")
    Membership.objects.create(dataset=run.sample.frame.version.dataset, user=user, role="lead")
    return sign_in(user)


def addresses(run: JudgeRun) -> list[str]:
    label = Label.objects.filter(outcome="false_fail").first()
    assert label is not None
    names = ("dataset", "trajectories", "imports", "import-new", "samples", "sample-new", "runs", "run-new", "labels")
    return [
        "/",
        *(reverse(name, args=["release"]) for name in (*names, "export")),
        reverse("label", args=[label.public_id]),
        reverse("run", args=[run.public_id]),
        reverse("sample", args=[run.sample.public_id]),
        reverse("import", args=[ImportBatch.objects.get().public_id]),
        reverse("taxonomy"),
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_every_page_is_accessible_and_fits(
    lead: Page, live_server: Any, run: JudgeRun, scheme: Any, width: int
) -> None:
    lead.emulate_media(color_scheme=scheme)
    lead.set_viewport_size({"width": width, "height": 900})
    for address in addresses(run):
        lead.goto(live_server.url + address)
        assert lead.locator("h1").count() == 1, address
        assert not serious_violations(lead), address
        assert overflow(lead) <= 0, address
        for narrower in {1440: (1280, 1000), 390: ()}[width]:
            lead.set_viewport_size({"width": narrower, "height": 900})
            assert overflow(lead) <= 0, (address, narrower)
        lead.set_viewport_size({"width": width, "height": 900})


@pytest.mark.parametrize("width", [390, 320])
@pytest.mark.parametrize(
    ("name", "role", "kind", "rows"),
    [
        ("anna", "lead", "practice", 2),  # their own reviews beside the user, the areas of the dataset in a row below
        ("carl-friedrich.von-weizsaecker", "reviewer", "blind", 1),  # a name gives way
    ],
)
def test_my_reviews_stands_in_the_first_row_of_a_narrow_bar(
    run: JudgeRun, sign_in: SignIn, live_server: Any, width: int, name: str, role: str, kind: str, rows: int
) -> None:
    version = run.sample.frame.version
    user = User.objects.create_user(name)
    Membership.objects.create(dataset=version.dataset, user=user, role=role)
    opened = ReviewRound.objects.create(version=version, number=1, title="One", seed=1, kind=kind, state="open")
    RoundReviewer.objects.create(round=opened, user=user)
    page = sign_in(user)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(live_server.url + reverse("dataset", args=["release"]))
    bar, nav = page.locator(".bar").bounding_box(), page.get_by_role("navigation", name="Reviewing")
    beside = page.locator(".bar-end").bounding_box(), page.locator(".brand").bounding_box()
    mine = nav.bounding_box()
    assert bar
    assert mine
    for other in beside:
        assert other
        assert abs(other["y"] + other["height"] / 2 - mine["y"] - mine["height"] / 2) <= 3
        assert other["x"] >= 0
        assert other["x"] + other["width"] <= width
    assert nav.evaluate("nav => nav.scrollWidth <= nav.clientWidth")  # nothing of it is cut
    assert page.locator(".bar").evaluate("bar => bar.scrollWidth <= bar.clientWidth")
    assert bar["height"] < 24 + rows * 40


@pytest.mark.parametrize("width", [1280, 390])
def test_the_definition_of_a_tag_opens_inside_the_page(lead: Page, live_server: Any, width: int) -> None:
    lead.set_viewport_size({"width": width, "height": 700})
    lead.goto(live_server.url + reverse("labels", args=["release"]))
    lead.get_by_text("C08", exact=True).first.hover()
    note = lead.get_by_role("tooltip").filter(visible=True)
    assert "unverified success" in note.inner_text()
    box = note.bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert overflow(lead) <= 0


def test_from_home_to_the_cited_line(lead: Page, live_server: Any) -> None:
    lead.goto(live_server.url)
    lead.get_by_role("link", name="All labels").click()
    lead.locator("tbody tr").nth(1).click()
    expect(lead.get_by_role("heading", level=1)).to_contain_text("false fail")
    lead.get_by_role("link", name=re.compile("the total is 42 dollars")).first.click()
    cited = lead.locator("#cite")
    expect(cited).to_contain_text("the total is 42 dollars")
    expect(cited).to_be_in_viewport()


def test_progress_shows_itself_and_ends(lead: Page, live_server: Any, run: JudgeRun) -> None:
    lead.goto(live_server.url + reverse("run", args=[run.public_id]))
    expect(lead.locator("#run-progress strong").first).to_have_text("3 / 4")
    for judgment in judging.queued_ids(run):
        judging.execute_judgment(judgment)
    expect(lead.locator("#run-progress strong").first).to_have_text("4 / 4", timeout=10_000)
    expect(lead.locator("#run-progress[hx-trigger]")).to_have_count(0)


def test_a_filter_is_an_address(lead: Page, live_server: Any) -> None:
    lead.goto(live_server.url + reverse("labels", args=["release"]))
    lead.get_by_role("link", name=re.compile("^false fail")).first.click()
    expect(lead).to_have_url(re.compile(r"\?outcome=false_fail$"))
    expect(lead.locator("tbody tr")).to_have_count(3)
    lead.get_by_role("navigation", name="Filters").get_by_title("Take this filter out").click()
    expect(lead).to_have_url(re.compile(r"/labels/$"))
    lead.get_by_role("link", name="queued").click()  # what waits is named, and shown when asked for
    expect(lead.locator("tbody tr")).to_have_count(1)


def test_enter_in_a_field_of_a_held_out_set_presses_the_button_of_its_part(
    lead: Page, live_server: Any, run: JudgeRun
) -> None:
    lead.goto(live_server.url + reverse("round-held-out-new", args=["release"]))
    lead.get_by_label("Hold out, % of tasks").fill("100")
    lead.get_by_label("Seed").fill("7")
    lead.get_by_label("Seed").press("Enter")
    expect(lead.get_by_text("Recorded with it: chosen at random with seed 7")).to_be_visible()
    lead.get_by_label("Name contains").fill("no such task")
    lead.get_by_label("Name contains").press("Enter")
    expect(lead.get_by_text("No task passes this filter")).to_be_visible()
    lead.get_by_label("Name", exact=True).fill("final")
    lead.get_by_label("Name", exact=True).press("Enter")
    expect(lead.get_by_role("heading", name="final", level=1)).to_be_visible()
    assert HeldOutSet.objects.get().name == "final"
    expect(lead.get_by_text("with seed 7")).to_be_visible()


def test_an_upload_shows_its_progress_and_opens_its_import(
    lead: Page, live_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("auditapp.tasks.enqueue_import", lambda batch: ingest.run_import(batch.id))
    write_case(tmp_path / "one")
    with zipfile.ZipFile(tmp_path / "job.zip", "w") as archive:
        for path in (tmp_path / "one").rglob("*"):
            archive.write(path, path.relative_to(tmp_path))
    lead.goto(live_server.url + reverse("import-first"))
    lead.get_by_label("Dataset").fill("../bad")
    lead.get_by_label("Archive or file").set_input_files(tmp_path / "job.zip")
    lead.get_by_role("button", name="Import").click()
    expect(lead.locator(".errorlist").first).to_be_visible()
    lead.get_by_label("Dataset").fill("mine")
    lead.get_by_label("Archive or file").set_input_files(tmp_path / "job.zip")
    lead.get_by_role("button", name="Import").click()
    expect(lead.get_by_role("heading", level=1)).to_contain_text("job.zip")
    expect(lead.locator("#import-progress")).to_contain_text("Imported")
