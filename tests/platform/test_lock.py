"""The lock files say what pyproject.toml asks for, in full, with hashes and without the address of an index."""

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUNTIME = [Requirement(line) for line in PROJECT["project"]["dependencies"]]
ALL = RUNTIME + [Requirement(line) for line in PROJECT["dependency-groups"]["test"]]


def locked(name: str) -> dict[str, Version]:
    """Read the packages that this platform takes from a lock."""
    lines = re.findall(r"^([\w.-]+==[^\\\n]+)", (ROOT / name).read_text(), re.MULTILINE)
    wanted = [each for each in map(Requirement, lines) if each.marker is None or each.marker.evaluate()]
    return {canonicalize_name(each.name): Version(next(iter(each.specifier)).version) for each in wanted}


@pytest.mark.parametrize(("name", "roots"), [("requirements.lock", RUNTIME), ("requirements-test.lock", ALL)])
def test_lock_is_what_the_project_asks_for_and_all_of_it(name: str, roots: list[Requirement]) -> None:
    versions = locked(name)
    todo, seen = [root for root in roots if root.marker is None or root.marker.evaluate()], set()
    while todo:
        requirement = todo.pop()
        key = canonicalize_name(requirement.name)
        assert key in versions, f"{requirement} is not in {name}: run `make lock`"
        assert requirement.specifier.contains(versions[key], prereleases=True), f"{requirement}: run `make lock`"
        seen.add(key)
        todo += [each for each in _needs(key, requirement.extras) if canonicalize_name(each.name) not in seen]
    assert set(versions) == seen, "packages that nothing asks for: run `make lock`"


def _needs(name: str, extras: set[str]) -> list[Requirement]:
    try:
        lines = distribution(name).requires or []
    except PackageNotFoundError:
        pytest.fail(f"{name} is locked and not installed: run scripts/bootstrap.py --test")
    found = map(Requirement, lines)
    return [
        each for each in found if each.marker is None or any(each.marker.evaluate({"extra": e}) for e in ("", *extras))
    ]


def test_tests_run_on_the_versions_that_ship() -> None:
    assert locked("requirements.lock").items() <= locked("requirements-test.lock").items()


def test_the_small_model_is_locked_alone_without_what_it_asks_for() -> None:
    asked = [Requirement(line) for line in PROJECT["dependency-groups"]["llm"]]
    versions = locked("requirements-llm.lock")
    assert set(versions) == {canonicalize_name(each.name) for each in asked}, "run `make lock`"
    assert all(each.specifier.contains(versions[canonicalize_name(each.name)]) for each in asked), "run `make lock`"


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-test.lock", "requirements-llm.lock"])
def test_lock_has_hashes_and_no_address(name: str) -> None:
    text = (ROOT / name).read_text()
    assert "//" not in text
    assert not re.search(r"^\s*--(?!hash)", text, re.MULTILINE)
    for block in re.split(r"\n(?=\S)", text.strip()):
        assert "--hash=sha256:" in block, block


def test_this_python_is_one_the_project_supports() -> None:
    assert sys.version_info >= (3, 11)
