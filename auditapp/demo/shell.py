"""A work folder in which the commands of a scripted agent, and then the verifier, really run.

Everything that could differ from one build to the next is pinned: environment, dates, locale, hash seed. Paths of the
temporary folder are shown as /workspace, and the seconds that unittest prints as 0.00s; nothing else of an output is
touched.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from auditapp.demo.model import Files

TIMEOUT = 20
DATE = "2026-03-02T09:00:00+00:00"
SECONDS = re.compile(r"^(Ran \d+ tests? in) [\d.]+s$", re.MULTILINE)
IGNORED = {".git", "__pycache__"}


@dataclass(frozen=True, slots=True)
class Output:
    text: str
    code: int


class Shell:
    """Runs bash commands in `base/workspace`, one process each, without anything of the caller's environment."""

    def __init__(self, base: Path) -> None:
        self.base = base.resolve()
        self.work = self.base / "workspace"
        self._make_bin()

    def _make_bin(self) -> None:
        """`python` and `python3` on the path are the interpreter that builds, outside of any virtual environment."""
        for folder in (self.work, self.base / "bin", self.base / "home"):
            folder.mkdir(parents=True, exist_ok=True)
        for name in ("python", "python3"):
            if not (self.base / "bin" / name).is_symlink():
                (self.base / "bin" / name).symlink_to(getattr(sys, "_base_executable", sys.executable))

    def run(self, command: str, *, cwd: Path | None = None) -> Output:
        """What the command printed on both streams, and its exit code."""
        argv = ["bash", "--noprofile", "--norc", "-c", command]
        done = subprocess.run(
            argv,
            cwd=cwd or self.work,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT,
            check=False,
        )
        return Output(text=self._shown(done.stdout.decode(errors="replace")), code=done.returncode)

    def _shown(self, text: str) -> str:
        text = (
            text.replace(str(self.work), "/workspace")
            .replace(str(self.base), "")
            .replace(sys.base_prefix, "/usr/local")
        )
        return SECONDS.sub(r"\1 0.00s", text)

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.base}/bin:/usr/bin:/bin",
            "HOME": f"{self.base}/home",
            "TZ": "UTC",
            "LC_ALL": "C.UTF-8",
            "COLUMNS": "80",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONNOUSERSITE": "1",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_PAGER": "cat",
            "GIT_AUTHOR_NAME": "Dana Ortiz",
            "GIT_AUTHOR_EMAIL": "dana@example.com",
            "GIT_COMMITTER_NAME": "Dana Ortiz",
            "GIT_COMMITTER_EMAIL": "dana@example.com",
            "GIT_AUTHOR_DATE": DATE,
            "GIT_COMMITTER_DATE": DATE,
        }


def write_tree(folder: Path, files: Files) -> None:
    """Write files below a folder; those that begin with `#!` become executable."""
    for path, body in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(body)
        if body.startswith(b"#!"):
            target.chmod(0o755)


def read_tree(folder: Path) -> dict[str, bytes]:
    """Every regular file below a folder by path, without repository and caches."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(_files(folder))}


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and not IGNORED & set(path.relative_to(folder).parts):
            yield path


def clear(folder: Path) -> None:
    """Empty a folder."""
    shutil.rmtree(folder)
    folder.mkdir()


def make_repository(shell: Shell, *, initial: Files, history: Files) -> str:
    """Put the initial tree on `main` with the commits of `history` around it; return its log with all patches.

    History is `<nn>@<branch>/<path>`: commits on main come before the initial tree, others on branches from it.
    """
    names = sorted({path.split("/")[0] for path in history})
    before, after = [n for n in names if n.endswith("@main")], [n for n in names if not n.endswith("@main")]
    shell.run("git init -q -b main")
    for name in before:
        _commit(shell, {**initial, **_overlay(history, name)})
    _commit(shell, {**initial, "COMMIT_MSG": b"Prepare the work tree\n"})
    for name in after:
        shell.run(f"git checkout -q -B {name.split('@')[1]}")
        _commit(shell, {**initial, **_overlay(history, name)})
        shell.run("git checkout -q main")
    return shell.run("git log --all --reverse --topo-order -p --format='commit %H%n    %D%n    %s%n'").text


def _overlay(history: Files, name: str) -> dict[str, bytes]:
    return {path.removeprefix(name + "/"): body for path, body in history.items() if path.startswith(name + "/")}


def _commit(shell: Shell, tree: Files) -> None:
    """One commit that makes the tree exactly this; its message is the file COMMIT_MSG."""
    shell.run("git rm -rqf --ignore-unmatch . ")
    write_tree(shell.work, {path: body for path, body in tree.items() if path != "COMMIT_MSG"})
    message = tree["COMMIT_MSG"].decode().strip()
    (shell.base / "message").write_text(message)
    shell.run("git add -A && git commit -q --allow-empty -F ../message")
