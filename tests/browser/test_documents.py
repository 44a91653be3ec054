"""Documents in a real browser: the cited place is in view, nothing overflows, pictures load when they are opened."""

from typing import Any, Literal

import pytest
from playwright.sync_api import Page

from auditapp import blobs
from auditapp.models.datasets import Role, Trajectory
from judges.safefs import MemoryTree
from tests.auditapp.population import add_trajectory, make_task, make_version
from tests.auditapp.reader_world import make_member
from tests.browser.conftest import SignIn, overflow, serious_violations
from tests.judges.documents import makers

pytestmark = pytest.mark.django_db(transaction=True)

FILES = {
    "budget.xlsx": makers.workbook(),
    "long.csv": b"day,visits,note\n" + b"".join(b"%d,%d,a note on this day\n" % (n, n * 7) for n in range(390)),
    "paper.pdf": makers.pdf(["\n".join(f"Line {n} of the report" for n in range(1, 50)), "Signed"]),
    "run.ipynb": makers.notebook(),
    "letter.docx": makers.letter(),
    "plot.png": makers.png(640, 320),
}


@pytest.fixture
def trajectory(transactional_db: Any) -> Trajectory:
    deliverable = blobs.put_tree(MemoryTree(FILES))
    return add_trajectory(make_task(make_version("release"), "report"), "one", "pass", deliverable=deliverable)


@pytest.fixture
def lead(sign_in: SignIn, trajectory: Trajectory) -> Page:
    return sign_in(make_member(trajectory.version.dataset, Role.LEAD))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize(
    "query",
    [
        "path=budget.xlsx%23P%26L 2026!B2",
        "path=long.csv%23B333",
        "path=paper.pdf&lines=44",
        "path=run.ipynb",
        "path=letter.docx",
        "path=plot.png",
    ],
)
def test_a_document_is_readable_and_its_cited_place_in_view(
    lead: Page, live_server: Any, trajectory: Trajectory, query: str, width: int, scheme: Literal["light", "dark"]
) -> None:
    lead.set_viewport_size({"width": width, "height": 900})
    lead.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    lead.goto(f"{live_server.url}/t/{trajectory.public_id}/deliverable/?{query}#cite")
    assert overflow(lead) == 0
    if cited := lead.query_selector("#cite"):
        box = cited.bounding_box()
        assert box is not None
        assert 0 <= box["y"] <= 900
        assert 0 <= box["x"] <= width
    assert not serious_violations(lead)


def test_a_picture_is_fetched_when_it_is_opened_and_not_before(
    lead: Page, live_server: Any, trajectory: Trajectory
) -> None:
    asked: list[str] = []
    lead.on("request", lambda request: asked.append(request.url) if "picture=1" in request.url else None)
    lead.goto(f"{live_server.url}/t/{trajectory.public_id}/deliverable/?path=plot.png")
    lead.wait_for_load_state("networkidle")
    assert asked == []
    with lead.expect_response(lambda answer: "picture=1" in answer.url) as answer:
        lead.click(".picture summary")
    assert answer.value.status == 200
    assert lead.evaluate("image => image.decode().then(() => image.naturalWidth)", lead.query_selector("img")) == 640
    assert len(asked) == 1
