"""Fixtures and markers for all tests."""

import os
from pathlib import Path
from typing import Any

import pytest
from django.test import TransactionTestCase

_ROOT = Path(__file__).resolve().parent.parent
_DATABASE_FIXTURES = {"db", "transactional_db", "live_server", "django_db_setup"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark by place and by need (`db`); benchmarks and the small model run only with -m bench and -m llm."""
    for item in items:
        folders = item.path.relative_to(_ROOT).parts
        for name in ("browser", "bench", "llm"):
            if name in folders:
                item.add_marker(name)
        if _needs_database(item):
            item.add_marker("db")
    for name in ("bench", "llm"):
        if name not in (config.option.markexpr or ""):
            config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker(name)])
            items[:] = [item for item in items if not item.get_closest_marker(name)]


def _needs_database(item: pytest.Item) -> bool:
    cls = getattr(item, "cls", None)
    return (
        item.get_closest_marker("django_db") is not None
        or bool(_DATABASE_FIXTURES.intersection(getattr(item, "fixturenames", ())))
        or (isinstance(cls, type) and issubclass(cls, TransactionTestCase))
    )


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real releases used by some tests; they are not part of the repository."""
    path = Path(os.environ.get("ASSAY_TEST_DATA", _ROOT.parent / "shared" / "data"))
    if not path.is_dir():
        pytest.skip(f"no real data at {path}; ASSAY_TEST_DATA names another place")
    return path


def _chromium() -> str | None:
    """Find the browser that `scripts/chromium.py` or the system has installed."""
    cached = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "assay", "chromium", "chromium")
    places = [os.environ.get("ASSAY_CHROMIUM"), "/usr/bin/chromium", str(cached)]
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    """Launch the Chromium that is there; without one, skip unless ASSAY_REQUIRE_BROWSER says it must be."""
    path = _chromium()
    if path is None:
        message = "no Chromium: run scripts/chromium.py, or set ASSAY_CHROMIUM"
        pytest.fail(message) if os.environ.get("ASSAY_REQUIRE_BROWSER") else pytest.skip(message)
    flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--font-render-hinting=none"]
    return {"executable_path": path, "args": flags, "headless": True}
