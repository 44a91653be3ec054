"""Run everything CI runs, step after step, and say how long each took.

    .venv/bin/python scripts/check.py          everything; pytest's closing line comes last
    .venv/bin/python scripts/check.py --lint   only what reads the source

A step that fails does not keep the others from running; the exit code is 1 when any failed. Ctrl-C ends them all, 130.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
PYTHON = sys.executable
PYTEST = (PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider")
PARALLEL = ("-n", "2", "--dist", "worksteal")


@dataclass(frozen=True, slots=True)
class Step:
    """A command with the name under which it is reported."""

    name: str
    command: tuple[str, ...]
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def is_pytest(self) -> bool:
        """Tell whether the step ends with pytest's closing line."""
        return self.command[: len(PYTEST)] == PYTEST


@dataclass(frozen=True, slots=True)
class Result:
    """How a step went."""

    step: Step
    code: int
    seconds: float
    output: str


def main() -> int:
    """Run the steps and print the recap."""
    parser = argparse.ArgumentParser(description="Run everything CI runs.")
    parser.add_argument("--lint", action="store_true", help="only what reads the source")
    lint_only = parser.parse_args().lint
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="assay-check-") as home:
        for name in ("DATABASE_URL", "DATABASE_URL_FILE", "REDIS_URL", "REDIS_URL_FILE"):
            os.environ.pop(name, None)  # the checks look at the source, not at somebody's data
        os.environ["ASSAY_HOME"] = home
        steps = lint_steps() if lint_only else [*lint_steps(), *test_steps()]
        results = [run(step) for step in steps]
    _recap(results, time.monotonic() - started)
    return int(any(result.code for result in results))


def lint_steps() -> list[Step]:
    """Everything that reads the source and runs none of it."""
    manage = (PYTHON, "manage.py")
    templates = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("templates/**/*.html"))
    steps = [
        Step("ruff", (str(BIN / "ruff"), "check", ".")),
        Step("format", (str(BIN / "ruff"), "format", "--check", ".")),
        Step("types", (str(BIN / "mypy"),)),
        Step("imports", (str(BIN / "lint-imports"),)),
        Step("django", (*manage, "check", "--fail-level", "ERROR")),
        Step("migrations", (*manage, "makemigrations", "--check", "--dry-run")),
        Step("compose", (*_schema_check(), "docker-compose.yml")),
        Step("dockerfile", (str(BIN / "hadolint"), "Dockerfile")),
    ]
    if templates:
        steps.insert(6, Step("templates", (str(BIN / "djlint"), "--lint", "--quiet", *templates)))
    return steps


def _schema_check() -> tuple[str, ...]:
    return (str(BIN / "check-jsonschema"), "--builtin-schema", "vendor.compose-spec")


def test_steps() -> list[Step]:
    """All tests: on SQLite, then those that touch the database on PostgreSQL, then those in a browser."""
    return [
        Step("tests on SQLite", (*PYTEST, *PARALLEL, "-m", "not browser")),
        Step("tests on PostgreSQL", (*PYTEST, *PARALLEL, "--db", "postgres", "-m", "db and not browser")),
        *_browser_steps(),
    ]


def _browser_steps() -> list[Step]:
    if not list(ROOT.glob("tests/browser/test_*.py")):
        return []
    found = subprocess.run([PYTHON, "scripts/chromium.py"], check=False, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    browser = {"ASSAY_REQUIRE_BROWSER": "1", "ASSAY_CHROMIUM": found.stdout.strip()}
    return [Step("tests in a browser", (*PYTEST, "-m", "browser", "tests/browser"), browser)]


def run(step: Step) -> Result:
    """Run a step; tests show their output as it comes, others only when they fail."""
    print(f"== {step.name}", flush=True)
    started = time.monotonic()
    lines: list[str] = []
    environment = {**os.environ, **step.environment}
    with subprocess.Popen(
        step.command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                lines.append(line)
                if step.is_pytest:
                    print(line, end="", flush=True)
        except KeyboardInterrupt:
            process.communicate()  # Ctrl-C reached it as well, and it puts away what it started
            raise
    seconds = time.monotonic() - started
    output = "".join(lines)
    if process.returncode and not step.is_pytest:
        print(output, end="")
    print(f"   {'FAILED' if process.returncode else 'ok'} in {seconds:.1f} s", flush=True)
    return Result(step, process.returncode, seconds, output)


def _recap(results: list[Result], seconds: float) -> None:
    print("\n== recap")
    for result in results:
        closing = _closing_line(result.output) if result.step.is_pytest else ""
        print(f"   {'FAILED' if result.code else 'ok':6}  {result.seconds:6.1f} s  {result.step.name}  {closing}")
    closings = [_closing_line(result.output) for result in results if result.step.is_pytest]
    if closings:
        print(_sum(closings, seconds))


def _closing_line(output: str) -> str:
    """Find pytest's last line, such as `3 failed, 120 passed in 12.34s`."""
    found = re.findall(r"^=*\s*((?:\d+ \w+(?:, )?)+ in [\d.]+s.*?)\s*=*$", output, re.MULTILINE)
    return found[-1] if found else "1 error in 0.00s (pytest did not finish)"


def _sum(closings: list[str], seconds: float) -> str:
    """Add up the closing lines of all runs, in pytest's own form."""
    counts: dict[str, int] = {}
    for line in closings:
        for number, what in re.findall(r"(\d+) ([a-z]+)", line.split(" in ")[0]):
            counts[what] = counts.get(what, 0) + int(number)
    order = sorted(counts, key=lambda what: (what not in {"failed", "error", "errors"}, what != "passed"))
    text = f" {', '.join(f'{counts[what]} {what}' for what in order)} in {seconds:.2f}s "
    return text.center(80, "=")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("\nStopped by Ctrl-C: not everything was checked.", file=sys.stderr)
        sys.exit(130)
