"""Every table that a page shows is a file, too, with the rows that the page has."""

import csv
import io
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from auditapp import heldout, rounds
from auditapp.models.datasets import DatasetVersion, Role
from auditapp.models.reviews import RoundKind
from auditapp.views.tables import HEAD
from tests.auditapp import round_world
from tests.auditapp.population import add_trajectory, make_task
from tests.auditapp.rounds import make_reviewers
from tests.auditapp.test_heldout import LATER, TODAY
from tests.auditapp.test_taskrounds import STEPS, ask
from tests.auditapp.walk import client_of, paths

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

TEMPLATES = Path("templates")
IS_FILE = "data-csv"
NO_FILE = {
    "heldout/new.html": "a form to choose tasks in",
    "heldout/draw.html": "what a draw would take, before it is drawn",
    "rounds/new.html": "a form to choose reviewers in",
    "rounds/_planned.html": "what a round would ask, before it is drawn",
    "rounds/_close.html": "what closing would end, before it is pressed; the round's own file has it",
    "samples/new.html": "what a draw would take, before it is drawn",
    "review/_trials.html": "for who reviews, where nothing is taken away",
    "labels/labels.html": "its rows are exported whole, as labels",
    "numbers/methodology.html": "what is written there, and no data",
}


class Tables(HTMLParser):
    """The tables of a page: the name of the file that each one is in, its own or that of what stands around it."""

    def __init__(self) -> None:
        super().__init__()
        self.around: list[tuple[str, str | None]] = []
        self.found: list[str | None] = []
        self.offered: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.around.append((tag, given.get(IS_FILE)))
        if tag == "table":
            self.found.append(next((name for _, name in reversed(self.around) if name), None))
        if tag == "a" and "download" in given:
            self.offered |= set(re.findall(r"[?&]csv=([\w-]+)", given.get("href") or ""))

    def handle_endtag(self, tag: str) -> None:
        while self.around and self.around.pop()[0] != tag:
            pass


def shown(text: str) -> Tables:
    page = Tables()
    page.feed(text)
    return page


def uncovered(answer: Any) -> list[str]:
    """What is wrong with the tables of a page: no file where there should be one, or none offered."""
    page = shown(answer.content.decode())
    without = sum(name is None for name in page.found)
    if without and not {str(template.name) for template in answer.templates} & NO_FILE.keys():
        return [f"{without} of {len(page.found)} tables are no file"]
    return [f"{name} is not offered" for name in {name for name in page.found if name} - page.offered]


@pytest.fixture
def version() -> DatasetVersion:
    """A release with all there can be a table of: a released blind round, one of every other kind, a held-out set."""
    made = round_world.make_release()
    for number in range(4):
        task = make_task(made, f"unsolved {number}")
        add_trajectory(task, f"u{number}-0", "fail", steps=STEPS)
        add_trajectory(task, f"u{number}-2", "fail", steps=STEPS)
    people = round_world.make_people(made, "ann", "bob")
    first = round_world.make_round(made, people)
    round_world.work_off(first, people, lambda slot, user: "satisfied" if slot.pk % 3 else "not_satisfied")
    rounds.close_round(first, by=None, now=round_world.NOW)
    rounds.release_round(first, by=None, now=round_world.NOW)
    for kind in (RoundKind.TRIAGE, RoundKind.COLD_READ, RoundKind.AUDIT):
        ask(made, kind, people)
    heldout.hold_out(made, {made.tasks.all()[0].pk: "dev"}, name="kept", refresh_on=LATER, today=TODAY, by=None)
    return made


def test_every_table_of_a_lead_is_a_file_with_its_rows(version: DatasetVersion) -> None:
    (lead,) = make_reviewers(version, "lead", role=Role.LEAD)
    client, missing, files = client_of(lead), [], 0
    for name, path in paths(version):
        answer = client.get(path)
        if answer.status_code != 200 or not answer["Content-Type"].startswith("text/html"):
            continue
        missing += [f"{name} {path}: {what}" for what in uncovered(answer)]
        for table in shown(answer.content.decode()).offered:
            file = client.get(path, {"csv": table})
            assert file.status_code == 200, (path, table)
            rows = list(csv.reader(io.StringIO(file.content.decode())))
            assert rows[0][: len(HEAD)] == list(HEAD), (path, table)
            assert {len(row) for row in rows} == {len(rows[0])}, (path, table)
            files += 1
    assert missing == [], "\n".join(missing)
    assert files > 30


def test_every_template_says_which_file_its_table_is_in_or_why_there_is_none() -> None:
    silent = {
        str(path.relative_to(TEMPLATES))
        for path in TEMPLATES.rglob("*.html")
        if path.parent.name != "charts"  # the page that draws it names the file
        for tag in re.findall(r"<table[^>]*>", path.read_text())
        if IS_FILE not in tag
    }
    assert silent <= NO_FILE.keys()
