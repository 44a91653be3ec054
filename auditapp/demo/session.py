"""One attempt of a scripted agent: it runs commands, sees what they print, and leaves an ATIF trajectory."""

import difflib
import random
from dataclasses import dataclass, field
from typing import Any

from auditapp.demo.model import STRONG, Agent
from auditapp.demo.shell import Output, Shell

SYSTEM = (
    "You work in a Linux shell on the files in /workspace. Tools: bash (without network) and edit_file. "
    "When the task is done, answer with a short summary of what you did."
)


@dataclass(slots=True)
class Facts:
    """What happened in the session, for the behavior codes of the truth table."""

    looked: bool = False
    edited: bool = False
    checked: bool = False  # by something that could fail, since the last edit
    inspected: bool = False  # the result was looked at, since the last edit
    codes: set[str] = field(default_factory=set)

    def saw_relevant_material(self) -> None:
        if not self.edited:
            self.looked = True

    def changed_something(self) -> None:
        if self.looked and not self.edited:
            self.codes.add("B01")
        self.edited, self.checked, self.inspected = True, False, False

    def finished(self, *, claims: bool) -> None:
        if self.edited and self.checked:
            self.codes.add("B03")
        elif self.edited and claims and not self.inspected:
            self.codes.add("B06")


class Session:
    """The agent's hands: every method adds steps to the trajectory from what really happened."""

    def __init__(self, shell: Shell, *, agent: Agent, instruction: str, rng: random.Random) -> None:
        self.shell, self.agent, self.rng = shell, agent, rng
        self.facts = Facts()
        self.commands: list[str] = []
        self.steps: list[dict[str, Any]] = []
        self._why = ""
        self._add({"source": "system", "message": SYSTEM})
        self._add({"source": "user", "message": instruction})

    @property
    def strong(self) -> bool:
        return self.agent == STRONG

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def think(self, why: str) -> None:
        """Reasoning that goes with the next step; the weak agent seldom shows any."""
        if why and self.chance(0.8 if self.strong else 0.35):
            self._why = why

    def say(self, message: str) -> None:
        """A step without a tool call."""
        self._agent_step(message, [])

    def bash(self, *commands: str, say: str = "") -> Output:
        """Run commands as the tool calls of one step; the output of the last one."""
        outputs = [self.shell.run(command) for command in commands]
        self.commands += commands
        calls = [("bash", {"command": command}, output) for command, output in zip(commands, outputs, strict=True)]
        self._agent_step(say, calls)
        return outputs[-1]

    def write(self, path: str, text: str, *, say: str = "") -> None:
        """Write a whole file with the edit tool."""
        target = self.shell.work / path
        before = target.read_text() if target.exists() else None
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        shown = f"created {path} ({text.count(chr(10))} lines)" if before is None else _diff(path, before, text)
        self._agent_step(say, [("edit_file", {"path": path, "content": text}, Output(shown, 0))])

    def replace(self, path: str, old: str, new: str, *, say: str = "") -> bool:
        """Replace one passage with the edit tool; false, with the error shown, unless it occurs exactly once."""
        target = self.shell.work / path
        before = target.read_text()
        found = before.count(old)
        if found == 1:
            target.write_text(before.replace(old, new))
            output = Output(_diff(path, before, before.replace(old, new)), 0)
        else:
            output = Output(
                f"error: old_str occurs {found} times in {path}, expected exactly once; nothing was changed", 1
            )
        self._agent_step(say, [("edit_file", {"path": path, "old_str": old, "new_str": new}, output)])
        return found == 1

    def _agent_step(self, message: str, calls: list[tuple[str, dict[str, str], Output]]) -> None:
        step: dict[str, Any] = {
            "source": "agent",
            "model_name": self.agent.model,
            "reasoning_effort": self.agent.effort,
            "message": message,
        }
        if self._why:
            step["reasoning_content"], self._why = self._why, ""
        if calls:
            ids = [f"call_{len(self.steps) + 1}_{number}" for number in range(1, len(calls) + 1)]
            step["tool_calls"] = [
                {"tool_call_id": i, "function_name": name, "arguments": arguments}
                for i, (name, arguments, _) in zip(ids, calls, strict=True)
            ]
            step["observation"] = {
                "results": [_result(i, output) for i, (_, _, output) in zip(ids, calls, strict=True)]
            }
        self._add(step)

    def _add(self, step: dict[str, Any]) -> None:
        self.steps.append({"step_id": len(self.steps) + 1, **step})


def _result(call_id: str, output: Output) -> dict[str, Any]:
    text = output.text.rstrip("\n")
    shown = f"{text}\n[exit code {output.code}]" if text else f"[exit code {output.code}]"
    return {"source_call_id": call_id, "content": shown, "extra": {"exit_code": output.code}}


def _diff(path: str, before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), f"a/{path}", f"b/{path}", lineterm="")
    return "\n".join(lines) or f"{path}: no change"
