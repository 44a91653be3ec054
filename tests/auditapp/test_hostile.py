"""What no page sends: NUL in addresses, tokens of others. It is refused with a reason, and nothing is stored of it.

And what a release may hold to attack its readers: it is shown for what it is, on every page, and can be cited.
"""

import json
import re
import time
import uuid
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from auditapp import grading, review, rounds
from auditapp.forms.review import UnreadableEvidence, read_evidence
from auditapp.models.datasets import Membership, Role, Trajectory
from auditapp.models.reviews import Attribution, Flag, Grade, Slot
from auditapp.review import ReviewError
from auditapp.views.evidence import checked
from auditapp.views.reading import read_trajectory
from judges.display import display_lines
from tests.auditapp.hostile_world import FILES, import_hostile
from tests.auditapp.population import add_trajectory, make_task, make_version
from tests.auditapp.reader_world import make_member
from tests.auditapp.round_world import make_release
from tests.auditapp.rounds import NOW, good, make_reviewers, make_round

pytestmark = pytest.mark.django_db


@pytest.fixture
def lead() -> Client:
    version = make_release(tasks=2)
    user = User.objects.create_user("lea", password="not used")
    Membership.objects.create(dataset=version.dataset, user=user, role=Role.LEAD)
    client = Client()
    client.force_login(user)
    return client


def of(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.mark.parametrize(
    ("page", "key"),
    [
        *(("trajectories", key) for key in ("version", "model", "before")),
        *(("labels", key) for key in ("version", "tag")),
        *(("numbers-rows", key) for key in ("environment", "model", "other", "hack")),
        ("numbers", "judge"),
        ("round-held-out-new", "version"),
    ],
)
def test_nul_in_an_address_is_no_server_error(lead: Client, page: str, key: str) -> None:
    found = lead.get(reverse(page, args=["release"]), {key: "a\x00b"})
    assert found.status_code == 400
    assert "NUL" in found.content.decode()


@pytest.mark.parametrize("number", ["x", "-1", "1.5", "\u00b2", "9" * 30])
def test_a_replicate_that_is_no_number_finds_nothing(lead: Client, number: str) -> None:
    asked = {"replicate": number}
    page = lead.get(reverse("labels", args=["release"]), asked)
    assert (page.status_code, list(page.context["page"].rows)) == (200, [])
    assert lead.get(reverse("export", args=["release"]), asked).context["n"] == 0
    for kind in ("csv", "jsonl"):
        rows = b"".join(lead.get(reverse("export", args=["release"]), asked | {"format": kind}).streaming_content)
        assert rows.count(b"\n") == (kind == "csv")


def test_nul_in_the_name_of_a_dataset_is_no_server_error(lead: Client) -> None:
    assert lead.get("/d/rel%00ease/").status_code == 400


def held(trajectories: int = 2, **fields: object) -> tuple[Slot, User, User]:
    """The first slot of an open round, held by one of two reviewers."""
    task = make_task(make_version("release"), "task")
    work = [add_trajectory(task, f"t{number}", "pass") for number in range(trajectories)]
    ann, ben = make_reviewers(task.version, "ann", "ben")
    slot = review.claim_next_slot(make_round(work, [ann, ben], copies=2, **fields), by=ann, now=NOW)
    assert isinstance(slot, Slot)
    return slot, ann, ben


def claimed(slot: Slot, by: User) -> Slot:
    found = review.claim_next_slot(slot.round, by=by, now=NOW)
    assert isinstance(found, Slot)
    return found


def test_a_token_of_another_item_stores_nothing_and_says_so() -> None:
    slot, ann, _ = held()
    token = uuid.uuid4()
    grading.submit_grade(slot, good(), token=token, by=ann, now=NOW)
    following = claimed(slot, ann)
    with pytest.raises(ReviewError, match="another item"):
        grading.submit_grade(following, good(decision="not_satisfied"), token=token, by=ann, now=NOW)
    assert Grade.objects.get().slot == slot
    grading.submit_grade(following, good(decision="not_satisfied"), token=uuid.uuid4(), by=ann, now=NOW)
    assert Grade.objects.count() == 2


def test_a_token_of_another_reviewer_stores_nothing_and_says_so() -> None:
    slot, ann, ben = held()
    token = uuid.uuid4()
    grading.submit_grade(slot, good(), token=token, by=ann, now=NOW)
    other = claimed(slot, ben)
    evidence = '[{"kind":"step","target":"1","part":"message","item":1,"line_start":1,"line_end":1,"quote":"done"}]'
    sent = {"decision": "satisfied", "integrity": "none", "evidence": evidence, "token": str(token)}
    found = of(ben).post(reverse("review-submit", args=[other.public_id]), sent, headers={"HX-Request": "true"})
    assert (found.status_code, Grade.objects.count()) == (422, 1)
    assert "out of date" in found.json()["problem"]


def test_no_tag_is_added_after_the_labels_are_made() -> None:
    slot, ann, _ = held()
    grading.submit_grade(slot, good(), token=uuid.uuid4(), by=ann, now=NOW)
    slot.refresh_from_db()
    grading.open_attribution(slot, by=ann, now=NOW)
    rounds.close_round(slot.round, by=None, now=NOW)
    rounds.release_round(slot.round, by=None, now=NOW)
    with pytest.raises(ReviewError, match="released"):
        grading.submit_attribution(review.slot_for(slot.public_id, by=ann), [], "late", by=ann, now=NOW)
    assert Attribution.objects.get().submitted_at is None


def test_nul_in_a_resolution_is_made_visible(lead: Client) -> None:
    task = make_task(Membership.objects.get(user__username="lea").dataset.versions.get(), "another")
    (ann,) = make_reviewers(task.version, "ann")
    slot = review.claim_next_slot(make_round([add_trajectory(task, "t", "pass")], [ann]), by=ann, now=NOW)
    assert isinstance(slot, Slot)
    flag = review.flag_slot(slot, reason="broken", by=ann, now=NOW)
    address = reverse("round-flag", args=[slot.round.public_id, flag.pk])
    assert lead.post(address, {"do": "free", "resolution": "a\x00b"}).status_code == 302
    assert Flag.objects.get().resolution == "a\ufffdb"


@pytest.mark.parametrize("number", [-1, 2**31, 10**30])
@pytest.mark.parametrize("field", ["item", "line_start", "line_end"])
def test_a_line_that_no_text_has_is_not_cited(field: str, number: int) -> None:
    place = {"kind": "step", "target": "1", "part": "message", "item": 1, "line_start": 1, "line_end": 1}
    with pytest.raises(UnreadableEvidence, match="no text has"):
        read_evidence(json.dumps([{**place, "quote": "done", field: number}]))


def test_a_form_from_elsewhere_is_refused_on_a_page_of_ours(lead: Client) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = lead.cookies
    found = strict.post(reverse("visit-dismiss", args=["release"]))
    assert found.status_code == 403
    assert "load the page anew" in found.content.decode()
    assert 'rel="stylesheet"' in found.content.decode()


@pytest.mark.parametrize("kind", ["invite", "triage", "audit"])
def test_an_id_without_end_is_nobody(lead: Client, kind: str) -> None:
    task = make_task(Membership.objects.get(user__username="lea").dataset.versions.get(), "another")
    opened = make_round([add_trajectory(task, "t", "pass")], make_reviewers(task.version, "ann"))
    make_reviewers(task.version, "ben")
    sent = {"do": "invite", "title": "T", "size": "1", "seed": "1", "users": "9" * 30, "reviewers": "9" * 30}
    steer, new = reverse("round-steer", args=[opened.public_id]), reverse("round-new", args=["release"])
    found = lead.post(steer if kind == "invite" else f"{new}?kind={kind}", sent)
    assert found.status_code == 422
    assert kind != "invite" or "is no member of the dataset" in found.content.decode()
    assert opened.reviewers.count() == 1


# --- a trajectory that attacks its readers


@pytest.fixture
def attack(tmp_path: Path) -> Trajectory:
    return import_hostile(tmp_path / "case")


@pytest.fixture
def reader(attack: Trajectory) -> Client:
    return of(make_member(attack.version.dataset, Role.LEAD))


@pytest.fixture
def reviewed(attack: Trajectory) -> tuple[Slot, Client]:
    (ann,) = make_reviewers(attack.version, "ann")
    slot = review.claim_next_slot(make_round([attack], [ann]), by=ann, now=NOW)
    assert isinstance(slot, Slot)
    return slot, of(ann)


PARTS = ["", "deliverable/", "task/", "chunk/0/", "search/?q=globalThis", "lines/?step=10&part=action&item=2999"]
PARTS += [f"deliverable/?path={quote(name)}" for name in FILES]
PARTS += [f"deliverable/?path={quote(name)}&view=text" for name in FILES]
PARTS += ["lines/?step=6&part=observation&item=1&lines=31-200000", "?step=6&part=observation&item=1&lines=150000#cite"]
HIDING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)


class Tags(HTMLParser):
    """Elements and attributes that a page really has, and the displayed lines by step, part, item and number."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.lines: dict[tuple[str, str, int, int], str] = {}
        self.holder: tuple[str, str, int] | None = None
        self.line: tuple[str, str, int, int] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if found.get("data-step") and found.get("data-part"):
            self.holder = (str(found["data-step"]), str(found["data-part"]), int(found["data-item"] or 0))
        if found.get("data-n") and self.holder:
            self.line = (*self.holder, int(found["data-n"] or 0))
            self.lines[self.line] = ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "div":
            self.line = None

    def handle_data(self, data: str) -> None:
        if self.line:
            self.lines[self.line] += data


def assert_harmless(page: str, *, base: str) -> None:
    """Nothing of the agent became an element or an attribute, and nothing in the page is invisible."""
    page = re.sub(r' data-path="[^"]*"', "", page)  # what a citation names a file by; it is seen by no one
    hiding = HIDING.search(page)
    assert not hiding, page[max(0, hiding.start() - 60) : hiding.end() + 20]
    for tag, attrs in Tags(page).tags:
        assert tag not in {"iframe", "object", "embed", "base", "style", "image"}, attrs
        data = attrs.get("type") == "application/json"
        assert tag != "script" or data or (attrs.get("src") or "").startswith("/static/")
        assert tag != "img" or (attrs.get("src") or "").startswith(base)
        for name, value in attrs.items():
            assert name != "style"
            assert not name.startswith(("on", "hx-on", "data-hx")), (tag, attrs)
            if name in ("href", "src", "action", "hx-get", "hx-post"):
                assert re.match(r"[/?#]", value or ""), (tag, name, value)
            if name in ("hx-get", "hx-post"):
                assert (value or "").startswith(base)


def test_no_page_of_the_reader_obeys_what_it_shows(reader: Client, attack: Trajectory) -> None:
    base = f"/t/{attack.public_id}/"
    for part in [
        *PARTS,
        "verifier/",
        "recording/",
        "reference/",
        "recording/?path=case.json",
        "verifier/?path=out%E2%80%AE.txt",
    ]:
        found = reader.get(base + part)
        assert found.status_code == 200, part
        assert len(found.content) < 1_000_000, part
        assert_harmless(found.content.decode(), base=base)


def test_a_file_of_any_name_opens_and_can_be_cited_by_it(reader: Client, attack: Trajectory) -> None:
    shown = read_trajectory(attack, base="", with_reference=False, show_hints=True)
    for name, text in FILES.items():
        page = reader.get(f"/t/{attack.public_id}/deliverable/", {"path": name, "view": "text"}).content.decode()
        assert f' data-path="{escape(name)}"' in page, name
        quoted = as_cited(display_lines(text)[0])
        place = {"kind": "file", "target": f"deliverable/{name}", "part": "none", "item": 0, "line_start": 1}
        (found,) = checked(shown, [{**place, "line_end": 1, "quote": quoted}])
        assert found["ok"], (name, found["detail"])


def test_no_page_of_a_review_obeys_what_it_shows(reviewed: tuple[Slot, Client]) -> None:
    slot, ann = reviewed
    base = reverse("review-slot", args=[slot.public_id])
    for part in PARTS:
        found = ann.get(base + part)
        assert found.status_code == 200, part
        assert len(found.content) < 1_000_000, part
        assert_harmless(found.content.decode(), base=base)


@pytest.mark.parametrize("address", ["trajectories", "tasks", "labels", "dataset", "numbers", "report"])
def test_no_list_turns_around_where_a_name_does(reader: Client, attack: Trajectory, address: str) -> None:
    found = reader.get(reverse(address, args=["release"]))
    assert found.status_code == 200
    assert_harmless(found.content.decode(), base="/")


def as_cited(text: str) -> str:
    """What the page quotes of a line (see `cut` in review-cite.js)."""
    if len(text) <= 400:
        return text
    return text[:400] if text[400].isspace() else re.sub(r"[^\s\"'`;()\[\]{}]*\Z", "", text[:400]).rstrip()


def test_every_shown_line_can_be_cited_as_it_stands(reader: Client, attack: Trajectory) -> None:
    base = f"/t/{attack.public_id}/"
    shown = read_trajectory(attack, base=base, with_reference=False, show_hints=True)
    lines = Tags(reader.get(base).content.decode()).lines
    lines |= Tags(reader.get(f"{base}?step=6&part=observation&item=1&lines=150000-150001").content.decode()).lines
    cited = {place: as_cited(text.strip()) for place, text in lines.items() if len("".join(text.split())) >= 8}
    assert len([text for text in cited.values() if not text]) == 1  # of the message of nothing but <
    cited = {place: text for place, text in cited.items() if text}
    assert {place[0] for place in cited} >= {str(number) for number in range(1, 14)} - {"7"}
    places = [
        {"kind": "step", "target": at, "part": part, "item": item, "line_start": line, "line_end": line, "quote": text}
        for (at, part, item, line), text in cited.items()
    ]
    refused = [
        (item["target"], item["quote"][:80], item["detail"]) for item in checked(shown, places) if not item["ok"]
    ]
    assert refused == []


@pytest.mark.parametrize("name", FILES, ids=range(len(FILES)))
def test_a_file_of_any_name_comes_as_it_is_and_is_saved_as_a_file(
    reader: Client, attack: Trajectory, name: str
) -> None:
    found = reader.get(f"/t/{attack.public_id}/file/deliverable/", {"path": name})
    assert found.content == FILES[name].encode()
    header = found["Content-Disposition"]
    assert header.startswith("attachment; filename")
    assert not HIDING.search(header + unquote(header))
    assert (found["Content-Type"], found["X-Content-Type-Options"]) == ("application/octet-stream", "nosniff")


def test_a_step_of_thousands_of_calls_costs_no_more_than_what_is_shown(reader: Client, attack: Trajectory) -> None:
    address = f"/t/{attack.public_id}/"
    reader.get(address)
    started = time.process_time()
    page = reader.get(address).content.decode()
    assert time.process_time() - started < 1
    assert "2,960 more calls or results of this step" in page
    assert "199,960" in page or "show 199,960 more lines" in page
    assert "4998034 more characters in this line" in page


NAME = re.compile(r"\{\{ ([a-z_.]*(?:task|environment)\.name)((?:\|[^}|]+)*) \}\}")


def test_templates_mark_what_hides_in_the_name_of_a_task() -> None:
    """A name comes from a release: what turns it around or draws nothing is shown."""
    bare = [
        (path.name, found[0])
        for path in Path(settings.BASE_DIR / "templates").rglob("*.html")
        for found in NAME.finditer(path.read_text())
        if not {"visible", "urlencode"} & set(found[2].split("|"))
    ]
    assert bare == []
