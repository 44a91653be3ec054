"""`manage.py judge`: one object on stdout, the rest on stderr, exit codes that scripts can rely on."""

import io
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest
import redis
from django.conf import settings
from django.core.management import call_command
from django.utils import timezone

from auditapp import judging
from auditapp.models.judgments import JudgeConfig, JudgeRun, Judgment
from auditapp.models.samples import Sample
from judges.messages import TurnRequest
from judges.providers.scripted import ScriptedProvider, Turn
from tests.auditapp.looks import GOOD, LOOK, answer, make_world

__all__ = ["answer"]
Answer = Callable[..., ScriptedProvider]
pytestmark = pytest.mark.django_db(transaction=True)
RULES = 'name = "rules"\nprovider = "rules"\nsandbox = "none"\n'


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "judge.toml"
    path.write_text(RULES)
    return path


def judge(*arguments: object, dataset: str = "release") -> tuple[int, dict[str, Any], str]:
    """Exit code, what stdout said as JSON, and stderr."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.raises(SystemExit) as end:
        call_command("judge", "--dataset", dataset, "--json", *map(str, arguments), stdout=out, stderr=err)
    return int(end.value.code or 0), orjson.loads(out.getvalue() or b"{}"), err.getvalue()


def test_judges_everything_in_this_process(config: Path) -> None:
    make_world(3)
    code, said, _ = judge("--config", config, "--inline", "--threads", 2)
    assert code == 0
    assert (said["state"], said["states"], said["planned"], said["size"]) == ("done", {"completed": 3}, 3, 3)
    assert said["config"] == JudgeConfig.objects.get().digest
    assert JudgeConfig.objects.get().source == RULES


def test_again_is_a_no_op(config: Path) -> None:
    make_world(3)
    first = judge("--config", config, "--inline")
    assert judge("--config", config, "--inline")[:2] == first[:2]
    assert Judgment.objects.count() == 3


def test_a_part_of_the_population_is_drawn_with_the_seed(config: Path) -> None:
    make_world(6)
    _, said, err = judge("--config", config, "--inline", "--sample-size", 4, "--seed", 5)
    assert (said["size"], said["seed"], said["draw"]) == (4, 5, 1)
    assert "4 drawn" in err
    _, larger, _ = judge("--config", config, "--inline", "--sample-size", 5, "--seed", 5)
    assert (larger["draw"], larger["planned"], larger["reused"]) == (2, 1, 4)
    assert Sample.objects.count() == 2


def test_replicates_are_judged_and_the_label_is_the_first(config: Path) -> None:
    make_world(2)
    _, said, _ = judge("--config", config, "--inline", "--repeat", 3)
    assert said["states"] == {"completed": 6}
    assert sum(said["decisions"].values()) == 2


def test_failures_are_listed_with_exit_code_1_and_tried_again_on_request(config: Path) -> None:
    version = make_world(2)
    version.tasks.update(instruction_blob=None)
    code, said, _ = judge("--config", config, "--inline")
    assert code == 1
    assert [(row["trajectory"], row["reason"]) for row in said["failed"]] == [
        ("t0-0", "input_invalid"),
        ("t0-1", "input_invalid"),
    ]
    assert judge("--config", config, "--inline")[0] == 1
    assert Judgment.objects.filter(executions__isnull=False).distinct().count() == 2
    judge("--config", config, "--inline", "--retry-failed")
    assert sum(judgment.executions.count() for judgment in Judgment.objects.all()) == 4


def test_without_a_worker_it_says_so_and_keeps_the_queue(config: Path) -> None:
    make_world(2)
    code, said, err = judge("--config", config)
    redis.from_url(settings.REDIS_URL).flushdb()
    assert code == 0
    assert "No worker judges" in err
    assert "--inline" in err
    assert (said["state"], said["states"]) == ("running", {"queued": 2})


def test_a_run_that_a_lead_paused_stays_so_until_it_is_resumed(config: Path) -> None:
    make_world(2)
    judge("--config", config)
    redis.from_url(settings.REDIS_URL).flushdb()
    assert judging.pause_run(JudgeRun.objects.get(), by=None)
    for mode in ("--inline", "--wait", "--budget-usd=5"):
        code, said, err = judge("--config", config, mode)
        assert (code, said["state"], said["states"]) == (1, "paused", {"queued": 2})
        assert "paused (asked_for): --resume" in err
    code, said, _ = judge("--config", config, "--inline", "--resume")
    assert (code, said["state"], said["states"]) == (0, "done", {"completed": 2})


def test_a_run_that_its_budget_paused_ends_with_1_and_goes_on_with_a_higher_one(config: Path, answer: Answer) -> None:
    answer([replace(turn, cost=Decimal("0.10")) for turn in GOOD], worst=Decimal("0.10"))
    make_world(2)
    options = ("--config", config, "--inline", "--threads", 1)
    code, said, _ = judge(*options, "--budget-usd", "0.40")
    assert (code, said["state"], said["reason"]) == (1, "paused", "budget_reached")
    assert said["states"] == {"completed": 1, "queued": 1}
    assert judge(*options, "--budget-usd", "0.40")[:2] == (code, said)
    code, said, _ = judge(*options, "--budget-usd", "0.60")
    assert (code, said["state"], said["states"]) == (0, "done", {"completed": 2})


def test_a_cancelled_run_is_not_done(config: Path, answer: Answer) -> None:
    def cancel(_request: TurnRequest) -> Turn:
        judging.cancel_run(JudgeRun.objects.get(), by=None, now=timezone.now())
        return LOOK

    answer([cancel, *GOOD[1:]])
    make_world(2)
    code, said, _ = judge("--config", config, "--inline", "--threads", 1)
    assert (code, said["state"], said["states"]) == (1, "cancelled", {"cancelled": 2})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset": "nope"}, "There is no dataset nope. Known: release."),
        ({"size": 9}, "ask for at most 2"),
        ({"seed": -1}, "a seed is a whole number"),
        ({"toml": 'name = "x"\nprovider = "anthropic"\n'}, "there is no default model"),
        ({"toml": "name = "}, "cannot be read as TOML"),
        ({"repeat": 0}, "at least one replicate"),
        ({"budget": "NaN"}, "a budget above 0"),
        ({"budget": "-1"}, "a budget above 0"),
        ({"budget": "1e12"}, "a budget above 0"),
    ],
)
def test_unusable_input_ends_with_2_and_a_reason(config: Path, change: dict[str, Any], message: str) -> None:
    make_world(2)
    config.write_text(change.get("toml", RULES))
    options = ["--config", config, "--sample-size", change.get("size", 2), "--seed", change.get("seed", 0)]
    options += ["--repeat", change.get("repeat", 1), "--inline"]
    options += ["--budget-usd", change["budget"]] if "budget" in change else []
    code, said, err = judge(*options, dataset=change.get("dataset", "release"))
    assert (code, list(said)) == (2, ["error"])
    assert message in said["error"]
    assert message in err
    assert not Judgment.objects.exists()
