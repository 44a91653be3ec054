"""Requirements of tasks: versions, freezing, the reference's policy, and drafts from the instruction alone."""

from collections.abc import Callable
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from auditapp import blobs, exchanges, judging, rubrics
from auditapp.cases import add_rubric
from auditapp.models.datasets import RubricOrigin, Task, TaskRubric
from auditapp.models.events import AuditEvent
from auditapp.models.exchanges import Exchange
from auditapp.models.judgments import Judgment
from judges.config import JudgeConfig as Config
from judges.messages import UserMessage
from judges.providers.scripted import Turn
from judges.records import Requirement
from tests.auditapp.looks import CONFIG, GOOD, INSTRUCTION, answer, make_run, make_world
from tests.auditapp.population import make_task, make_version
from tests.auditapp.test_exchanges import no_broker, use
from tests.auditapp.test_pages import member

__all__ = ["answer", "no_broker"]
pytestmark = pytest.mark.django_db
TWO = [Requirement("R1", "answer.txt holds the total."), Requirement("R2", "It names a currency.", format_binding=True)]


def drafted(*texts: str) -> Turn:
    rows = [{"quote": INSTRUCTION, "requirement": text, "format_binding": False} for text in texts]
    return Turn([("submit_rubric", {"requirements": rows})])


DRAFT = drafted("answer.txt exists.", "It holds the total.", "The total is that of the invoice.")


def form(task: Task, *texts: str, **changes: Any) -> dict[str, Any]:
    newest = rubrics.newest(Task.objects.get(pk=task.pk))
    rows = {f"text{index}": text for index, text in enumerate(texts)}
    return {"base": newest.number if newest else 0, **rows, **changes}


# --- pages


def test_task_pages_are_for_members_in_their_roles() -> None:
    version = make_version()
    task = make_task(version)
    steer = reverse("task-steer", args=[task.public_id])
    for address in (reverse("tasks", args=["release"]), reverse("task", args=[task.public_id])):
        assert member(None, "stranger").get(address).status_code == 404
        assert member(version, "reviewer").get(address).status_code == 403
        assert member(version, "viewer").get(address).status_code == 200
        assert member(version, "lead").get(address).status_code == 200
    for role in ("viewer", "reviewer"):
        assert member(version, role).post(steer, {"do": "freeze"}).status_code == 403
        assert member(version, role).post(reverse("task", args=[task.public_id]), form(task, "x")).status_code == 403
        assert member(version, role).post(reverse("drafts", args=["release"])).status_code == 403
    assert not TaskRubric.objects.exists()


def test_the_list_counts_trajectories_and_names_the_origin_of_requirements() -> None:
    version = make_world(3, tasks=2)
    rubrics.set_requirements(Task.objects.get(name="invoice-0"), TWO, by=None)
    page = member(version, "lead").get(reverse("tasks", args=["release"]))
    first, second = sorted(page.context["page"].rows, key=lambda task: task.name)
    assert dict(first.counts) == {"pass": 3, "fail": 0, "partial": 0, "none": 0, "invalid": 0}
    assert (first.rubric.origin, second.rubric) == ("edited", None)
    assert "edited by a lead" in page.content.decode()
    assert page.context["n_missing"] == 1


def test_the_number_of_queries_does_not_grow_with_tasks(django_assert_max_num_queries: Any) -> None:
    version = make_world(1, tasks=12)
    for task in Task.objects.all():
        rubrics.set_requirements(task, TWO, by=None)
    client = member(version, "lead")
    with django_assert_max_num_queries(16):
        client.get(reverse("tasks", args=["release"]))


def test_hostile_instructions_and_requirements_are_text() -> None:
    version = make_version()
    task = make_task(version, instruction_blob=blobs.put_text("<script>alert(1)</script>\u202e"))
    rubrics.set_requirements(task, [Requirement("R1", "<img src=x onerror=1>")], by=None)
    page = member(version, "lead").get(reverse("task", args=[task.public_id])).content.decode()
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "⟦U+202E⟧" in page


# --- editing


def test_an_edit_is_a_new_version_that_keeps_ids_and_is_logged() -> None:
    version = make_version()
    task = make_task(version)
    rubrics.set_requirements(task, TWO, by=None)
    client, address = member(version, "lead"), reverse("task", args=[task.public_id])
    data = form(task, "", "It names\r\n a currency.", "It is signed.", binding2="on")
    assert client.post(address, data).status_code == 302
    old, new = TaskRubric.objects.order_by("number")
    assert [row["text"] for row in old.requirements] == [row.text for row in TWO]
    assert new.requirements == [
        {"id": "R2", "text": "It names a currency.", "format_binding": False},
        {"id": "R3", "text": "It is signed.", "format_binding": True},
    ]
    assert (new.number, new.origin, str(new.created_by)) == (2, "edited", "lead")
    assert AuditEvent.objects.filter(action="rubric_set", actor__username="lead").count() == 1
    client.post(address, form(task, "It names a currency.", "It is signed.", binding1="on"))
    assert TaskRubric.objects.count() == 2


@pytest.mark.parametrize(
    ("texts", "words"),
    [((), "0 requirements"), (("same thing", "Same  thing"), "say the same"), (("x" * 1001,), "at most 1000")],
)
def test_a_wrong_edit_says_what_is_wrong_and_stores_nothing(texts: tuple[str, ...], words: str) -> None:
    version = make_version()
    task = make_task(version)
    response = member(version, "lead").post(reverse("task", args=[task.public_id]), form(task, *texts))
    assert response.status_code == 422
    assert words in response.content.decode()
    assert not TaskRubric.objects.exists()


def test_an_edit_of_a_version_that_is_no_longer_the_newest_is_refused() -> None:
    version = make_version()
    task = make_task(version)
    data = form(task, "It is done.")
    rubrics.set_requirements(task, TWO, by=None)
    response = member(version, "lead").post(reverse("task", args=[task.public_id]), data)
    assert response.status_code == 422
    assert "changed the requirements meanwhile" in response.content.decode()


def test_a_frozen_list_stays_until_the_freeze_is_lifted() -> None:
    version = make_version()
    task = make_task(version)
    client, steer = member(version, "lead"), reverse("task-steer", args=[task.public_id])
    client.post(steer, {"do": "freeze"})
    task.refresh_from_db()
    assert task.rubric_frozen_at is None
    rubrics.set_requirements(task, TWO, by=None)
    client.post(steer, {"do": "freeze"})
    with pytest.raises(rubrics.RubricError, match="frozen"):
        rubrics.set_requirements(task, TWO[:1], by=None)
    page = client.get(reverse("task", args=[task.public_id])).content.decode()
    assert "Store as a new version" not in page
    assert client.post(reverse("task", args=[task.public_id]), form(task, "New.")).status_code == 422
    client.post(steer, {"do": "unfreeze"})
    assert rubrics.set_requirements(task, TWO[:1], by=None).number == 2
    done = AuditEvent.objects.exclude(action="rubric_set").order_by("pk").values_list("action", flat=True)
    assert list(done) == ["rubric_frozen", "rubric_unfrozen"]


def test_a_lead_chooses_when_a_judge_sees_the_reference() -> None:
    version = make_version()
    task = make_task(version)
    client, steer = member(version, "lead"), reverse("task-steer", args=[task.public_id])
    for policy in ("never", "never", "phase2"):
        assert client.post(steer, {"do": policy}).status_code == 302
    assert client.post(steer, {"do": "always"}).status_code == 404
    task.refresh_from_db()
    assert task.reference_policy == "phase2"
    details = AuditEvent.objects.order_by("pk").values_list("detail", flat=True)
    assert list(details) == [{"from": "phase1", "to": "never"}, {"from": "never", "to": "phase2"}]


def test_judgments_keep_the_list_they_answered(answer: Callable[..., Any]) -> None:
    version = make_world(2)
    task = Task.objects.get()
    first = rubrics.set_requirements(task, TWO[:1], by=None)
    run = make_run(version)
    answer(GOOD)
    ids = judging.queued_ids(run)
    judging.execute_judgment(ids[0])
    assert Judgment.objects.get(pk=ids[0]).provenance["rubric"] == first.digest
    rubrics.set_requirements(task, TWO, by=None)
    assert rubrics.answered(task) == {first.digest: 1}
    assert Judgment.objects.get(pk=ids[0]).criteria.count() == 1
    page = member(version, "lead").get(reverse("task", args=[task.public_id])).content.decode()
    assert "Earlier judgments answered an older version" in page


# --- drafts


@pytest.fixture
def model_config() -> Any:
    return judging.ensure_config(CONFIG, by=None)


def test_a_draft_reads_the_instruction_alone_and_becomes_the_first_version(
    monkeypatch: pytest.MonkeyPatch, model_config: Any
) -> None:
    version = make_world(1)
    provider = use(monkeypatch, DRAFT)
    (exchange,) = rubrics.plan_drafts(version, model_config, by=None)
    assert exchanges.execute_exchange(exchange.pk)
    exchange.refresh_from_db()
    rubric = TaskRubric.objects.get()
    assert (exchange.state, exchange.rubric, rubric.origin, rubric.number) == ("completed", rubric, "drafted", 1)
    assert [row["id"] for row in rubric.requirements] == ["R1", "R2", "R3"]
    (message,) = provider.requests[0].messages
    assert isinstance(message, UserMessage)
    assert INSTRUCTION in message.blocks[0]
    assert "42 dollars" not in str(provider.requests[0])
    page = member(version, "lead").get(reverse("exchange", args=[exchange.public_id])).content.decode()
    assert "The total is that of the invoice." in page
    assert "submit_rubric" in page
    assert not rubrics.undrafted(version).exists()


def test_the_missing_ones_are_drafted_and_no_others(no_broker: list[Any], model_config: Any) -> None:
    version = make_world(1, tasks=5)
    by_name = {task.name: task for task in Task.objects.all()}
    rubrics.set_requirements(by_name["invoice-0"], TWO, by=None)
    Task.objects.filter(name="invoice-1").update(instruction_blob=None)
    add_rubric(by_name["invoice-2"], TWO[:1], number=1, origin=RubricOrigin.DEFAULT, by=None)
    rubrics.set_frozen(by_name["invoice-2"], True, by=None, now=timezone.now())
    add_rubric(by_name["invoice-3"], TWO[:1], number=1, origin=RubricOrigin.DEFAULT, by=None)
    from auditapp.configs import register

    stored = register(version.dataset, model_config, by=None)
    client = member(version, "lead")
    address = reverse("drafts", args=["release"])
    client.post(address, {"config": stored.pk})
    assert sorted(exchange.task.name for exchange in no_broker) == ["invoice-3", "invoice-4"]
    client.post(address, {"config": stored.pk})
    assert len(no_broker) == 2
    page = client.get(reverse("tasks", args=["release"]))
    assert page.context["n_missing"] == 0
    assert b"hx-trigger" in page.content
    Exchange.objects.update(state="completed")
    progress = client.get(reverse("drafts-progress", args=["release"]))
    assert progress.headers["HX-Refresh"] == "true"


def test_rules_are_not_offered_for_drafting(no_broker: list[Any]) -> None:
    version = make_world(1)
    from auditapp.configs import register

    rules = register(version.dataset, judging.ensure_config(Config(name="rules", provider="rules"), by=None), by=None)
    client = member(version, "lead")
    client.post(reverse("drafts", args=["release"]), {"config": rules.pk})
    assert no_broker == []
    assert "Drafting asks a model" in client.get(reverse("tasks", args=["release"])).content.decode()


def test_a_draft_does_not_replace_what_a_lead_wrote_meanwhile(
    monkeypatch: pytest.MonkeyPatch, model_config: Any
) -> None:
    version = make_world(1)
    use(monkeypatch, DRAFT)
    (exchange,) = rubrics.plan_drafts(version, model_config, by=None)
    mine = rubrics.set_requirements(Task.objects.get(), TWO, by=None)
    exchanges.execute_exchange(exchange.pk)
    exchange.refresh_from_db()
    assert (exchange.state, exchange.rubric, list(TaskRubric.objects.all())) == ("completed", None, [mine])
    assert "not taken" in exchange.detail


def test_a_list_that_stays_wrong_is_a_failed_draft_and_no_rubric(
    monkeypatch: pytest.MonkeyPatch, model_config: Any
) -> None:
    version = make_world(1)
    use(monkeypatch, *[drafted("Only one.")] * 3)
    (exchange,) = rubrics.plan_drafts(version, model_config, by=None)
    exchanges.execute_exchange(exchange.pk)
    exchange.refresh_from_db()
    assert (exchange.state, exchange.reason, exchange.calls.count()) == ("failed", "invalid_output", 3)
    assert not TaskRubric.objects.exists()
    assert rubrics.undrafted(version).exists()
