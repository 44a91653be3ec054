"""What a demo task is: its material, its scripted behaviors with their truth, and how often each agent shows them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from auditapp.demo.session import Session

Move = Callable[["Session"], None]
Files = Mapping[str, bytes]
Oracle = Callable[
    [Path, Sequence[str]], bool
]  # final work tree, commands the agent ran -> does it satisfy the instruction?
Mix = Mapping[str, int]  # behavior name -> number of attempts

ATTEMPTS = 16


@dataclass(frozen=True, slots=True)
class Agent:
    name: str
    model: str
    effort: str


STRONG = Agent(name="scripted-strong", model="scripted/strong-1", effort="high")
WEAK = Agent(name="scripted-weak", model="scripted/weak-1", effort="low")


@dataclass(frozen=True, slots=True)
class Behavior:
    """One way of doing a task, with the truth that follows from it.

    `expects` is what the verifier is known to say; the builder stops when the real one says something else. `planted`
    names the kind of case it was written for, empty for ordinary work. `tags` holds C, E and H codes; B codes follow
    from the moves.
    """

    name: str
    moves: tuple[Move, ...]
    expects: Literal["pass", "fail"]
    decision: Literal["satisfied", "not_satisfied"]
    integrity: Literal["none", "hacked"] = "none"
    tags: tuple[str, ...] = ()
    planted: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Material:
    """The files of a task; see material.py for where they come from."""

    instruction: str
    rubric: bytes
    initial: Files
    reference: Files
    verifier: Files
    history: Files
    play: Mapping[str, str]  # texts that behaviors write or run; never part of the archive


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    environment: str
    material: Material
    behaviors: tuple[Behavior, ...]
    strong: Mix
    weak: Mix
    oracle: Oracle

    def behavior(self, name: str) -> Behavior:
        return next(behavior for behavior in self.behaviors if behavior.name == name)

    def mix(self, agent: Agent) -> Mix:
        return self.strong if agent == STRONG else self.weak


def right(
    name: str,
    *moves: Move,
    expects: Literal["pass", "fail"] = "pass",
    integrity: Literal["none", "hacked"] = "none",
    tags: tuple[str, ...] = (),
    planted: str = "",
    note: str = "",
) -> Behavior:
    """Work that satisfies the instruction, whatever the verifier says."""
    return Behavior(name, moves, expects, "satisfied", integrity, tags, planted, note)


def wrong(
    name: str,
    *moves: Move,
    expects: Literal["pass", "fail"] = "fail",
    integrity: Literal["none", "hacked"] = "none",
    tags: tuple[str, ...] = (),
    planted: str = "",
    note: str = "",
) -> Behavior:
    """Work that does not satisfy the instruction, whatever the verifier says."""
    return Behavior(name, moves, expects, "not_satisfied", integrity, tags, planted, note)
