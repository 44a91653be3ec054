"""The embedded default with data to look at."""

import logging
import sys
import time
from argparse import SUPPRESS, ArgumentParser
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand

from auditapp import supervisor, tasks
from auditapp.demo.grades import grade_demo
from auditapp.demo.load import load, prepare
from auditapp.judging import progress
from auditapp.management.arguments import port
from auditapp.models.judgments import JudgeRun, RunState


class Command(BaseCommand):
    """Load the demo data, judge them and serve."""

    help = "Serve Assay on this machine with demo data, judged by fixed rules while you look; Ctrl-C stops it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=port, default=8000, help="port on 127.0.0.1 (default 8000)")
        parser.add_argument("--no-serve", action="store_true", help="load and judge, then end")
        parser.add_argument("--load", action="store_true", help=SUPPRESS)

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["load"]:
            logging.disable(logging.INFO)  # its lines share the terminal with ours
            self._grade(self._load())
        elif options["no_serve"]:
            call_command("migrate", interactive=False, verbosity=0)
            prepare()
            with supervisor.workers():
                run = self._load()
                self._wait(run)
                self._grade(run)
        else:
            job = [sys.executable, "manage.py", "demo", "--load"]
            sys.exit(supervisor.run(port=options["port"], say=self._say, ready=self._ready, job=job))

    def _ready(self, address: str) -> None:
        self._say(f"Log in at {address}/login as")
        for name, password in prepare().items():
            self._say(f"  {name:9} {password}")

    def _load(self) -> JudgeRun:
        run = load(say=self._say)
        tasks.enqueue_run(run)
        counts = progress(run)
        waiting = counts["queued"] + counts["running"]
        self._say(
            f"Demo data: {waiting} judgments to come; the pages show them as they do."
            if waiting
            else "Demo data: ready."
        )
        return run

    def _grade(self, run: JudgeRun) -> None:
        """Once the judge is through: the round of scripted grades is drawn over what it said."""
        while run.state == RunState.RUNNING:
            time.sleep(2)
            run.refresh_from_db()
        if run.state == RunState.DONE:
            grade_demo(run)
            self._say("Demo data: scripted grades are in.")

    def _wait(self, run: JudgeRun) -> None:
        while run.state == RunState.RUNNING:
            time.sleep(2)
            run.refresh_from_db()
            self._say("Demo data: " + ", ".join(f"{n} {state}" for state, n in progress(run).items() if n))

    def _say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
