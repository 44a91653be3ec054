"""Patterns over long text that an agent wrote are re2's: their time grows with the length, not with its square."""

import re2

from auditapp.importers import atif_steps, jsonl, task_folders
from judges import acts

LONG = 100_000


def test_patterns_over_long_hostile_text_are_linear() -> None:
    patterns = {
        atif_steps._REWARD_TEXT: "reward" + " " * LONG + "x",
        atif_steps._TERMINUS_TASK: "Task Description:\n" + "\n" * LONG + "x",
        jsonl._SEVERAL: "a()" + "\n" * LONG,
        task_folders._CANARY: "#" + " canary" * LONG,
        acts._COMPARES: "== " * LONG,
        acts._ASSERTS: "\n" * LONG,
    }
    for pattern, hostile in patterns.items():
        assert isinstance(pattern, re2._Regexp)
        pattern.search(hostile)  # a pattern that backtracks would not return within the life of this run
