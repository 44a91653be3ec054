"""Judge configs of a dataset: stored with every problem named, numbered, compared, tried before spending."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from auditapp import configs, exchanges, judging, rubrics
from auditapp.models.datasets import DatasetVersion, Trajectory
from auditapp.models.events import AuditEvent
from auditapp.models.exchanges import ConfigVersion, Exchange
from auditapp.models.judgments import JudgeConfig, JudgeRun
from auditapp.sampling import draw_sample, freeze_frame
from auditapp.stats.allocation import Plan
from judges.config import load_config
from judges.endpoints import endpoint, origin_of
from tests.auditapp.looks import make_run, make_world
from tests.auditapp.population import make_version
from tests.auditapp.test_exchanges import no_broker, use
from tests.auditapp.test_pages import member
from tests.auditapp.test_rubrics import DRAFT

__all__ = ["no_broker"]
pytestmark = pytest.mark.django_db
FIRST = 'name = "mine"\nprovider = "anthropic"\nmodel = "some-model"\n'
SECOND = FIRST + "\n[limits]\nturns = 12\n"


def store(version: Any, source: str) -> ConfigVersion:
    response = member(version, "lead").post(reverse("config-new", args=[version.dataset.name]), {"source": source})
    assert response.status_code == 302
    return ConfigVersion.objects.get(dataset=version.dataset, config__digest=response.url.rstrip("/").split("/")[-1])  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "viewer"), [("configs", 200), ("config-new", 403)])
def test_pages_of_configs_are_for_members_in_their_roles(name: str, viewer: int) -> None:
    version = make_version()
    address = reverse(name, args=["release"])
    assert member(None, "stranger").get(address).status_code == 404
    assert member(version, "reviewer").get(address).status_code == 403
    assert member(version, "viewer").get(address).status_code == viewer
    assert member(version, "lead").get(address).status_code == 200


def test_versions_of_one_name_are_numbered_and_the_same_judge_is_no_new_one() -> None:
    version = make_version()
    assert [store(version, source).number for source in (FIRST, SECOND, FIRST)] == [1, 2, 1]
    assert JudgeConfig.objects.count() == 2
    assert AuditEvent.objects.filter(action="config_registered").count() == 2
    renamed = FIRST.replace("mine", "other")
    assert (store(version, renamed).name, ConfigVersion.objects.count()) == ("mine", 2)
    page = member(version, "lead").get(reverse("configs", args=["release"])).content.decode()
    assert page.count("some-model") == 2


def test_a_config_of_one_dataset_does_not_exist_in_another() -> None:
    store(make_version("mine"), FIRST)
    other = make_version("other")
    digest = JudgeConfig.objects.get().digest
    assert member(other, "lead").get(reverse("config", args=["other", digest])).status_code == 404
    start = member(other, "lead").get(reverse("config-new", args=["other"]) + f"?from={digest}")
    assert "some-model" not in start.content.decode()


def test_every_problem_of_a_config_is_named_and_nothing_is_stored() -> None:
    version = make_version()
    bad = 'provider = "openai_chat"\nturnz = 3\n[limits]\nturns = 1\n'
    response = member(version, "lead").post(reverse("config-new", args=["release"]), {"source": bad})
    assert response.status_code == 422
    problems = response.context["form"].errors["source"]
    assert len(problems) == 5
    page = response.content.decode()
    for words in ("name is missing", "turnz", "limits.turns", "no default model", "needs base_url"):
        assert words in page, words
    assert not JudgeConfig.objects.exists()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("", "is empty"),
        ("name = ", "is not TOML"),
        ('name = "x"\nprovider = "scripted"\nscript = "/etc/hostname"\n', "for tests and the command line"),
        ('name = "x"\nprovider = "openai_chat"\nmodel = "m"\nbase_url = "http://a@b/"\n', "base_url"),
    ],
)
def test_what_cannot_be_a_config_is_refused(source: str, words: str) -> None:
    version = make_version()
    response = member(version, "lead").post(reverse("config-new", args=["release"]), {"source": source})
    assert response.status_code == 422
    assert words in response.content.decode()
    upload = SimpleUploadedFile("judge.toml", source.encode() or b"\xff")
    assert member(version, "lead").post(reverse("config-new", args=["release"]), {"upload": upload}).status_code == 422
    assert not ConfigVersion.objects.exists()


NEAR = [
    "http://127.0.0.1:6379",
    "http://localhost:8000/v1",
    "http://[::1]:8000",
    "http://10.0.0.5:8000/v1",
    "http://169.254.169.254",
    "http://0.0.0.0",
    "http://broker",
    "http://2130706433",
    "http://metadata.google.internal",
]


class TestNearHosts:
    """What only this machine and its network reach is not to be asked by whoever can edit a config in a browser."""

    def source(self, url: str) -> str:
        return f'name = "x"\nprovider = "openai_chat"\nmodel = "m"\nbase_url = "{url}"\n'

    def posted(self, version: DatasetVersion, url: str, way: str) -> tuple[Any, str]:
        """The answer to a config sent in one of the ways, and the field that tells what is wrong with it."""
        lead, upload = member(version, "lead"), SimpleUploadedFile("judge.toml", self.source(url).encode())
        new = reverse("config-new", args=["release"])
        if way == "run":
            sample = draw_sample(freeze_frame(version, by=None), Plan("census"), seed=0, by=None)
            data = {"sample": sample.public_id, "judge": "shipped:rules", "replicates": 1, "upload": upload}
            return lead.post(reverse("run-new", args=["release"]), data), "upload"
        if way == "file":
            return lead.post(new, {"upload": upload}), "upload"
        return lead.post(new, {"source": self.source(url)}), "source"

    @pytest.mark.parametrize("way", ["text", "file", "run"])
    @pytest.mark.parametrize("url", NEAR)
    def test_they_are_refused_in_place_and_nothing_is_stored(self, url: str, way: str) -> None:
        response, field = self.posted(make_world(1), url, way)
        assert response.status_code == 422
        assert "ASSAY_PROVIDER_KEYS" in str(response.context["form"].errors[field])
        assert not JudgeConfig.objects.exists()

    @pytest.mark.parametrize("way", ["text", "file", "run"])
    @pytest.mark.parametrize("url", NEAR)
    def test_they_are_taken_where_the_environment_names_them(
        self, url: str, way: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ASSAY_PROVIDER_KEYS", json.dumps({origin_of(url)[0]: ""}))
        response, _ = self.posted(make_world(1), url, way)
        assert response.status_code == 302
        assert JudgeConfig.objects.count() == 1

    def test_another_port_of_a_named_host_is_another_host(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ASSAY_PROVIDER_KEYS", '{"http://127.0.0.1:8000": ""}')
        assert self.posted(make_version(), "http://127.0.0.1:6379", "text")[0].status_code == 422

    def test_a_public_host_may_be_stored_and_workers_say_whether_it_may_be_asked(self) -> None:
        assert self.posted(make_version(), "https://models.example.org/v1", "text")[0].status_code == 302

    @pytest.mark.parametrize("url", ["http://127.0.0.1:8000/v1", "http://localhost:8000", "https://[::1]"])
    def test_the_command_line_is_free_to_ask_this_machine(self, url: str, tmp_path: Path) -> None:
        path = tmp_path / "judge.toml"
        path.write_text(self.source(url))
        assert endpoint(load_config(path).base_url, {}).url == url


@pytest.mark.parametrize("name", ["rules", "claude", "gpt", "local"])
def test_one_can_start_from_what_comes_with_the_product(name: str) -> None:
    page = (
        member(make_version(), "lead").get(reverse("config-new", args=["release"]) + f"?from={name}").content.decode()
    )
    assert f"name = &quot;{name}&quot;" in page


def test_two_versions_are_compared_by_text_and_by_identity() -> None:
    version = make_version()
    old, new = store(version, FIRST), store(version, SECOND)
    assert [(change.part, change.before, change.after) for change in configs.changes(old.config, new.config)] == [
        ("chosen.limits.turns", "30", "12")
    ]
    address = reverse("config-diff", args=["release", old.config.digest, new.config.digest])
    page = member(version, "viewer").get(address).content.decode()
    assert "chosen.limits.turns" in page
    assert 'class="l ins"' in page
    assert "turns = 12" in page
    assert member(version, "reviewer").get(address).status_code == 403
    detail = member(version, "lead").get(reverse("config", args=["release", new.config.digest])).content.decode()
    assert address in detail
    assert "What was learnt" not in detail
    assert "Nothing yet: it is learnt when the judge answers" in detail


def test_a_run_makes_its_config_known_to_the_dataset_and_any_known_one_can_be_chosen(
    no_broker: list[Any], monkeypatch: Any
) -> None:
    version = make_world(1)
    run = make_run(version)
    known = ConfigVersion.objects.get()
    assert (known.config, known.dataset) == (run.config, version.dataset)
    stored = store(version, SECOND)
    monkeypatch.setattr("auditapp.tasks.enqueue_run", lambda _run: None)
    form = {
        "sample": run.sample.public_id,
        "judge": f"stored:{stored.config.digest}",
        "replicates": "1",
        "budget_usd": "",
    }
    response = member(version, "lead").post(reverse("run-new", args=["release"]), form)
    assert response.status_code == 302
    assert JudgeRun.objects.order_by("-pk")[0].config == stored.config


def test_a_lead_begins_a_dry_run_or_a_probe(no_broker: list[Any]) -> None:
    version = make_world(1)
    stored = store(version, FIRST)
    address = reverse("config-ask", args=["release", stored.config.digest])
    trajectory = Trajectory.objects.get().public_id
    lead = member(version, "lead")
    assert member(version, "viewer").post(address, {"do": "probe"}).status_code == 403
    assert lead.get(address).status_code == 405
    assert lead.post(address, {"do": "nonsense"}).status_code == 404
    assert lead.post(address, {"do": "probe"}).status_code == 302
    assert lead.post(address, {"do": "dry_run", "trajectory": trajectory}).status_code == 302
    assert [exchange.kind for exchange in no_broker] == ["probe", "dry_run"]
    other = make_world(1, name="other")
    foreign = Trajectory.objects.get(version=other).public_id
    for wrong in (foreign, "nonsense", ""):
        lead.post(address, {"do": "dry_run", "trajectory": wrong})
    assert Exchange.objects.count() == 2


def test_a_config_of_another_build_is_said_to_be_one_and_still_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    version = make_world(1)
    stored = store(version, FIRST)
    monkeypatch.setattr("judges.prompts.digest", lambda: "another build")
    judging._config.cache_clear()
    page = member(version, "lead").get(reverse("config", args=["release", stored.config.digest])).content.decode()
    assert "made by another version of the judge" in page
    again = store(version, FIRST)
    assert (again.name, again.number) == ("mine", 2)
    use(monkeypatch, DRAFT)
    (draft,) = rubrics.plan_drafts(version, stored.config, by=None)
    exchanges.execute_exchange(draft.pk)
    trajectory = Trajectory.objects.get()
    dry_run = exchanges.ask_dry_run(version.dataset, stored.config, trajectory, by=None)
    exchanges.execute_exchange(dry_run.pk)
    states = dict(Exchange.objects.values_list("kind", "state"))
    assert states == {"draft": "completed", "dry_run": "failed"}
    judging._config.cache_clear()
