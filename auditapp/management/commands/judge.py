"""Judge a sample of a dataset."""

import sys
import time
from argparse import ArgumentParser, ArgumentTypeError
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

import orjson
from django.core.management.base import BaseCommand
from django.db import connections
from kombu.exceptions import OperationalError

from auditapp import judging, tasks
from auditapp.celery import app
from auditapp.management.arguments import given_path, positive
from auditapp.models.datasets import DatasetVersion
from auditapp.models.judgments import JudgeRun, JudgmentState, RunState
from auditapp.sampling import SamplingError, draw_sample, freeze_frame
from auditapp.stats.allocation import AllocationError, Plan
from auditapp.supervisor import workers
from judges.config import load_config
from judges.errors import ConfigError

POLL_S = 1.0
PROGRESS_S = 3.0
NO_WORKER = (
    "No worker judges: none answered on the queue 'judge'. Start `manage.py serve` or a worker, "
    "or judge in this process with --inline."
)


class Command(BaseCommand):
    """Exit 0 done, or queued where nobody waits; 1 where a judgment failed or is left undone; 2 unusable input."""

    _next_line = 0.0
    help = "Freeze the population of a dataset, draw a sample from it and have a judge look at each trajectory of it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--dataset", required=True)
        parser.add_argument("--dataset-version", help="the newest one, where none is named")
        parser.add_argument("--config", required=True, type=given_path, help="TOML file of a judge")
        parser.add_argument(
            "--sample-size", type=positive, help="how many, in proportion to the strata; all, if left out"
        )
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--repeat", type=int, default=1, help="looks at each trajectory; the first is the label")
        parser.add_argument("--budget-usd", type=_usd, help="what the run may spend in all")
        parser.add_argument("--retry-failed", action="store_true", help="queue failed judgments of this run again")
        parser.add_argument("--resume", action="store_true", help="go on with this run where it is paused")
        parser.add_argument("--wait", action="store_true", help="return when the run has ended")
        parser.add_argument("--inline", action="store_true", help="judge in this process, without broker and workers")
        parser.add_argument("--threads", type=positive, default=8, help="threads of --inline")
        parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")

    def handle(self, *_args: Any, **wanted: Any) -> None:
        try:
            run = _plan(wanted)
        except (ConfigError, SamplingError, AllocationError, judging.JudgingError, LookupError) as error:
            self._refuse(str(error), as_json=wanted["json"])
        self.stderr.write(_introduction(run))
        if wanted["inline"]:
            self._inline(run, wanted["threads"])
        else:
            self._by_workers(run, wait=wanted["wait"], as_json=wanted["json"])
        run.refresh_from_db()
        summary = judging.summary(run)
        self._print(summary, as_json=wanted["json"])
        sys.exit(_exit_code(summary, waited=wanted["inline"] or wanted["wait"]))

    def _refuse(self, why: str, *, as_json: bool) -> NoReturn:
        self.stderr.write(why)
        if as_json:
            self.stdout.write(orjson.dumps({"error": why}).decode())
        sys.exit(2)

    def _by_workers(self, run: JudgeRun, *, wait: bool, as_json: bool) -> None:
        if run.state != RunState.RUNNING:
            return
        with workers() if wait else nullcontext():
            try:
                tasks.ring(judging.queued_ids(run))
            except OperationalError as error:
                why = f"The broker cannot be reached ({error}): the judgments stay queued. {NO_WORKER}"
                self._refuse(why, as_json=as_json)
            if not _has_worker(within_s=15 if wait else 0):
                if wait:
                    self._refuse(f"{NO_WORKER} The judgments stay queued.", as_json=as_json)
                self.stderr.write(f"{NO_WORKER} The judgments stay queued.")
            if wait:
                self._watch(run)

    def _watch(self, run: JudgeRun) -> None:
        while run.state == RunState.RUNNING:
            time.sleep(POLL_S)
            self._progress(run)
            run.refresh_from_db()

    def _inline(self, run: JudgeRun, threads: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            looks = [pool.submit(_judge_here, judgment_id) for judgment_id in judging.queued_ids(run)]
            for look in as_completed(looks):
                look.result()
                self._progress(run)

    def _progress(self, run: JudgeRun) -> None:
        """Say where the run stands, every few seconds."""
        if time.monotonic() < self._next_line:
            return
        self._next_line = time.monotonic() + PROGRESS_S
        counts = judging.progress(run)
        self.stderr.write(", ".join(f"{number} {state}" for state, number in counts.items() if number))

    def _print(self, summary: dict[str, Any], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(orjson.dumps(summary).decode())
            return
        for part in ("states", "decisions", "outcomes"):
            self.stdout.write(f"{part}: " + ", ".join(f"{number} {name}" for name, number in summary[part].items()))
        for failure in summary["failed"]:
            self.stderr.write(f"failed {failure['trajectory']}: {failure['reason']} {failure['detail']}")


def _exit_code(summary: dict[str, Any], *, waited: bool) -> int:
    """Who waits is told of everything that is not completed; who queues, of what failed or will not be judged."""
    undone = summary["states"].keys() - {JudgmentState.COMPLETED}
    goes_on = summary["state"] == RunState.RUNNING and not waited
    return 1 if summary["failed"] or (undone and not goes_on) else 0


def _plan(wanted: dict[str, Any]) -> JudgeRun:
    """Everything up to the queue; repeating it changes nothing."""
    config = load_config(wanted["config"])
    version = _version(wanted["dataset"], wanted["dataset_version"])
    size = wanted["sample_size"]
    plan = Plan("census") if size is None else Plan("proportional", size)
    sample = draw_sample(freeze_frame(version, by=None), plan, seed=wanted["seed"], by=None)
    stored = judging.ensure_config(config, by=None, source=wanted["config"].read_text(encoding="utf-8"))
    run = judging.create_judge_run(
        sample, stored, by=None, replicates=wanted["repeat"], budget_usd=wanted["budget_usd"]
    )
    if wanted["resume"]:
        judging.resume_run(run, by=None)
    elif wanted["budget_usd"] is not None:
        judging.resume_within_budget(run, by=None)
    if wanted["retry_failed"]:
        judging.retry_failed(run, by=None, lasting=True)
    run.refresh_from_db()
    return run


def _version(dataset: str, name: str | None) -> DatasetVersion:
    versions = DatasetVersion.objects.filter(dataset__name=dataset).select_related("dataset").order_by("-pk")
    found = (versions.filter(name=name) if name else versions).first()
    if found is None:
        known = ", ".join(DatasetVersion.objects.values_list("dataset__name", flat=True).distinct()) or "none"
        wanted = f"{dataset} {name}" if name else dataset
        raise LookupError(f"There is no dataset {wanted}. Known: {known}.")
    return found


def _introduction(run: JudgeRun) -> str:
    sample = run.sample
    paused = f"; paused ({run.reason}): --resume or a higher --budget-usd lets it go on"
    return (
        f"frame {sample.frame.digest[:12]} of {sample.frame.size}, {sample} of "
        f"{sample.frame.draw_count}, {sample.size} drawn; {run.config}: {run.planned} planned, {run.reused} there"
        f"{paused if run.state == RunState.PAUSED else ''}"
    )


def _judge_here(judgment_id: int) -> None:
    try:
        while (wait := judging.execute_judgment(judgment_id)) is not None:
            time.sleep(wait)
    finally:
        connections.close_all()


def _has_worker(*, within_s: float) -> bool:
    """Whether a worker of the judge's queue answers; one that has just been started needs a while."""
    end = time.monotonic() + within_s
    while True:
        queues = app.control.inspect(timeout=1).active_queues() or {}
        if any(queue["name"] == "judge" for served in queues.values() for queue in served):
            return True
        if time.monotonic() > end:
            return False


def _usd(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ArgumentTypeError(f"{text!r} is no amount of US dollars") from None
