"""The demo tasks by name: one module of behaviors and an oracle each, with its files in material/."""

from importlib import import_module
from pathlib import Path

from auditapp.demo.model import Task


def _tasks() -> dict[str, Task]:
    names = sorted(path.stem.replace("-", "_") for path in (Path(__file__).parent / "material").glob("*.txtar"))
    modules = [import_module(f"{__name__}.{name}") for name in names]
    return {module.TASK.name: module.TASK for module in modules}


TASKS = _tasks()
