"""The shipped demo archive, read once for all tests."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from auditapp.demo.archive import TruthRow, read_archive, read_truth
from auditapp.demo.material import under
from auditapp.demo.shell import write_tree


class Shipped:
    """Files of the archive by path and the rows of the truth table."""

    def __init__(self, files: Mapping[str, bytes], rows: list[TruthRow]) -> None:
        self.files, self.rows = files, rows

    def json(self, path: str) -> Any:
        return json.loads(self.files[path])

    def commands(self, row: TruthRow) -> list[str]:
        """Shell commands of a trajectory, in order."""
        steps = self.json(f"{row.case}/trajectory.json")["steps"]
        calls = [call for step in steps for call in step.get("tool_calls", ())]
        return [call["arguments"]["command"] for call in calls if call["function_name"] == "bash"]

    def deliverable(self, row: TruthRow) -> dict[str, bytes]:
        return under(self.files, f"{row.case}/deliverable")

    def unpack(self, row: TruthRow, folder: Path) -> Path:
        """The deliverable of a case as a folder."""
        write_tree(folder, self.deliverable(row))
        return folder


@pytest.fixture(scope="session")
def shipped() -> Shipped:
    return Shipped(read_archive(), read_truth())
