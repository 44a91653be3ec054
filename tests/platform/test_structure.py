"""Rules of structure that no other tool holds."""

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(path for top in ("judges", "auditapp", "scripts") for path in (ROOT / top).rglob("*.py"))
FORBIDDEN = {"utils.py", "helpers.py", "managers.py", "services", "repositories"}
LONGEST = 40


def test_nothing_is_named_for_being_left_over() -> None:
    assert not [path for path in SOURCES if FORBIDDEN.intersection(path.relative_to(ROOT).parts)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_function_is_longer_than_a_screen(path: Path) -> None:
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    too_long = {each.name: _length(each) for each in functions if _length(each) > LONGEST}
    assert not too_long


def _length(function: ast.FunctionDef) -> int:
    return (function.end_lineno or 0) - function.lineno + 1


def test_repository_holds_no_large_or_generated_file() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], check=False, cwd=ROOT, capture_output=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    large = [path for path in paths if path.is_file() and path.stat().st_size > 8_000_000]
    generated = [path for path in paths if {"__pycache__", "node_modules", ".venv", "staticfiles"} & set(path.parts)]
    assert not large
    assert not generated
