"""Builds the demo archive: plays every attempt, runs every verifier, writes what happened and what is true about it.

python -m auditapp.demo.build --out demo.tar.gz [--tasks NAME ...] [--attempts N] [--jobs 2]
python -m auditapp.demo.build --check [--tasks NAME ...]      rebuild and compare with the shipped archive
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from auditapp.demo.archive import ARCHIVE, TRUTH, TruthRow, read_archive, write_archive, write_truth
from auditapp.demo.material import pretty
from auditapp.demo.model import ATTEMPTS, STRONG, WEAK, Agent, Behavior, Task
from auditapp.demo.session import Session
from auditapp.demo.shell import Shell, clear, make_repository, read_tree, write_tree
from auditapp.demo.tasks import TASKS

AGENTS = (STRONG, WEAK)


class BuildError(Exception):
    """A behavior did not do what it declares, so its truth cannot be trusted."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One played attempt: the files of its case folder, its truth, and what an oracle needs to check that truth."""

    files: dict[str, bytes]
    truth: TruthRow
    commands: tuple[str, ...]


def schedule(task: Task, agent: Agent) -> list[str]:
    """Behavior of each attempt, in a seeded order."""
    names = [name for name, count in task.mix(agent).items() for _ in range(count)]
    if len(names) != ATTEMPTS:
        raise BuildError(f"{task.name}: the mix of {agent.name} has {len(names)} attempts, not {ATTEMPTS}")
    random.Random(f"order {task.name} {agent.name}").shuffle(names)
    return names


def play_all(task: Task, agent: Agent, *, attempts: int = ATTEMPTS) -> list[Attempt]:
    """Play the first attempts of one agent at one task."""
    base = Path(tempfile.mkdtemp(prefix="demo-"))
    try:
        shell = Shell(base)
        template, _ = prepare(shell, task)
        return [
            play(task, agent, number=number, behavior=task.behavior(name), shell=shell, template=template)
            for number, name in enumerate(schedule(task, agent)[:attempts], start=1)
        ]
    finally:
        shutil.rmtree(base, ignore_errors=True)


def prepare(shell: Shell, task: Task) -> tuple[Path, str]:
    """The initial tree as a folder to copy from, and the log of its repository where it has one."""
    write_tree(shell.work, task.material.initial)
    log = ""
    if task.material.history:
        log = make_repository(shell, initial=task.material.initial, history=task.material.history)
    template = shell.base / "template"
    shutil.copytree(shell.work, template)
    return template, log


def play(task: Task, agent: Agent, *, number: int, behavior: Behavior, shell: Shell, template: Path) -> Attempt:
    """Play one attempt from a fresh work tree and run the verifier on what it leaves."""
    clear(shell.work)
    shutil.copytree(template, shell.work, dirs_exist_ok=True)
    rng = random.Random(f"attempt {task.name} {agent.name} {number}")
    session = Session(shell, agent=agent, instruction=task.material.instruction, rng=rng)
    for move in behavior.moves:
        move(session)
    deliverable = read_tree(shell.work)
    stdout, reward = verify(shell, task)
    status = "pass" if reward >= 1 else "fail"
    if status != behavior.expects:
        raise BuildError(
            f"{task.name}/{behavior.name}: the verifier says {status}, expected {behavior.expects}\n{stdout}"
        )
    name = f"{agent.name}-{number:02}"
    case = f"cases/{task.environment}/{task.name}/{name}"
    files = {"verifier/stdout.txt": stdout.encode(), "verifier/reward.txt": f"{reward:g}\n".encode()}
    files |= {f"deliverable/{path}": body for path, body in deliverable.items()}
    files["trajectory.json"] = pretty(trajectory(session, agent=agent, name=f"{task.environment}/{task.name}/{name}"))
    files["case.json"] = pretty(case_record(task, agent, number=number, status=status, reward=reward))
    row = truth_row(task, agent, number=number, behavior=behavior, codes=session.facts.codes, case=case, status=status)
    return Attempt({f"{case}/{path}": body for path, body in files.items()}, row, tuple(session.commands))


def verify(shell: Shell, task: Task) -> tuple[str, float]:
    """Output and reward of the task's verifier on the present work tree."""
    folder = shell.base / "verifier"
    shutil.rmtree(folder, ignore_errors=True)
    write_tree(folder, task.material.verifier)
    output = shell.run("python3 ../verifier/verify.py", cwd=shell.work)
    reward = folder / "reward.txt"
    if not reward.is_file():
        raise BuildError(f"{task.name}: the verifier wrote no reward\n{output.text}")
    return output.text, float(reward.read_text())


def trajectory(session: Session, *, agent: Agent, name: str) -> dict[str, Any]:
    """The ATIF document of a session. Times and token counts are left out: a script has none worth stating."""
    return {
        "schema_version": "ATIF-v1.7",
        "session_id": name,
        "agent": {"name": agent.name, "version": "1.0", "model_name": agent.model},
        "notes": "A scripted agent of the Assay demo; commands were run and outputs are real.",
        "steps": session.steps,
    }


def case_record(task: Task, agent: Agent, *, number: int, status: str, reward: float) -> dict[str, Any]:
    """The content of case.json."""
    return {
        "task_id": task.name,
        "task_dir": f"../../../../tasks/{task.name}",
        "environment": task.environment,
        "agent": agent.name,
        "model": agent.model,
        "effort": agent.effort,
        "attempt": number,
        "verifier": {"status": status, "reward": reward},
    }


def truth_row(
    task: Task, agent: Agent, *, number: int, behavior: Behavior, codes: set[str], case: str, status: str
) -> TruthRow:
    """The truth that follows from the behavior that was played."""
    acceptable = behavior.decision == "satisfied" and behavior.integrity == "none"
    tags = {*behavior.tags, *codes}
    if behavior.decision == "not_satisfied":
        tags |= {"C08"} if "B06" in codes and "C12" not in tags else set()
        tags |= {"C09"} if "B08" in codes and "E08" not in tags else set()
    return TruthRow(
        case=case,
        environment=task.environment,
        task_id=task.name,
        agent=agent.name,
        attempt=number,
        behavior=behavior.name,
        verifier_status=status,
        decision=behavior.decision,
        integrity=behavior.integrity,
        acceptable="yes" if acceptable else "no",
        outcome=("true_" if acceptable == (status == "pass") else "false_") + status,
        tags=tuple(sorted(tags)),
        planted=bool(behavior.planted),
        kind=behavior.planted,
        note=behavior.note,
    )


def shared_files(task: Task) -> dict[str, bytes]:
    """What all attempts at a task share, as it stands in the archive."""
    material = task.material
    files = {"instruction.md": material.instruction.encode(), "rubric.json": material.rubric}
    for folder, tree in (
        ("initial", material.initial),
        ("reference", material.reference),
        ("verifier-source", material.verifier),
    ):
        files |= {f"{folder}/{path}": body for path, body in tree.items()}
    if material.history:
        with tempfile.TemporaryDirectory() as base:
            files["history/log.txt"] = prepare(Shell(Path(base)), task)[1].encode()
    return {f"tasks/{task.name}/{path}": body for path, body in files.items()}


def _play_named(task_name: str, agent: Agent, attempts: int) -> list[Attempt]:
    return play_all(TASKS[task_name], agent, attempts=attempts)


def build(tasks: Iterable[Task], *, attempts: int = ATTEMPTS, jobs: int = 1) -> Iterator[tuple[str, list[Attempt]]]:
    """Every task with its attempts, agent after agent, in a fixed order."""
    with ProcessPoolExecutor(max_workers=jobs) as pool:
        parts = [
            (task.name, [pool.submit(_play_named, task.name, agent, attempts) for agent in AGENTS]) for task in tasks
        ]
        for name, futures in parts:
            yield name, [attempt for future in futures for attempt in future.result()]


def differences(built: dict[str, bytes], shipped: dict[str, bytes]) -> list[str]:
    """Paths of built files that the shipped archive lacks or holds with other content."""
    return [path for path, body in sorted(built.items()) if shipped.get(path) != body]


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; exit 0 done, 1 when a comparison found differences."""
    options = _parser().parse_args(argv)
    tasks = [TASKS[name] for name in options.tasks or TASKS]
    files: dict[str, bytes] = {}
    rows: list[TruthRow] = []
    start = time.monotonic()
    for number, (name, attempts) in enumerate(build(tasks, attempts=options.attempts, jobs=options.jobs), start=1):
        files |= shared_files(TASKS[name])
        for attempt in attempts:
            files |= attempt.files
            rows.append(attempt.truth)
        passed = sum(attempt.truth.verifier_status == "pass" for attempt in attempts)
        print(
            f"{number:2}/{len(tasks)} {name}: {passed} of {len(attempts)} pass, {time.monotonic() - start:.0f} s",
            file=sys.stderr,
        )
    if options.check:
        return report_differences(differences(files, read_archive()))
    write_archive(options.out, files)
    write_truth(options.out.with_name(TRUTH.name), rows)
    print(f"{options.out}: {len(rows)} trajectories, {options.out.stat().st_size / 1e6:.2f} MB", file=sys.stderr)
    return 0


def report_differences(paths: list[str]) -> int:
    """Print what differs; the exit code that says whether anything does."""
    for path in paths:
        print(f"differs from the shipped archive: {path}")
    print(f"{len(paths)} differences", file=sys.stderr)
    return 1 if paths else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Build the demo archive.")
    parser.add_argument("--out", type=Path, default=ARCHIVE)
    parser.add_argument("--tasks", nargs="+", choices=sorted(TASKS), metavar="NAME")
    parser.add_argument("--attempts", type=int, default=ATTEMPTS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--check", action="store_true", help="compare with the shipped archive instead of writing one")
    return parser


if __name__ == "__main__":
    sys.exit(main())
