"""What scripted agents do, in small pieces that behaviors are put together from. Chance comes from the seed alone."""

from collections.abc import Sequence

from auditapp.demo.model import Move
from auditapp.demo.session import Session

LOOKING = (
    "Let me look at the files first.",
    "I start by reading what is there.",
    "First a look around.",
    "Reading the material before I change anything.",
    "",
)
READING_ON = ("", "", "Next file.", "Now the rest of it.", "Let me see this one too.", "And this part.")
EDITING = ("Now the change.", "Here is the edit.", "I make the change.", "Applying it.", "")
CHECKING = (
    "Let me check that.",
    "Now I run it to see whether it holds.",
    "Checking the result.",
    "Verify before I say it is done.",
    "",
)
RETRYING = (
    "Hm, let me run it again.",
    "Again.",
    "Maybe it works this time.",
    "Let me try once more.",
    "One more time.",
)


def seq(*moves: Move) -> Move:
    """One after the other."""

    def act(s: Session) -> None:
        for move in moves:
            move(s)

    return act


def one_of(*moves: Move) -> Move:
    """One of them."""
    return lambda s: s.rng.choice(moves)(s)


def maybe(move: Move, p: float = 0.5) -> Move:
    """With chance p."""
    return lambda s: move(s) if s.chance(p) else None


def think(*whys: str) -> Move:
    """Reasoning for the next step."""
    return lambda s: s.think(s.rng.choice(whys))


def look(*commands: str, relevant: bool = True) -> Move:
    """Read material, in an order and grouping that differ from attempt to attempt; the first command stays first."""

    def act(s: Session) -> None:
        rest = list(commands[1:])
        s.rng.shuffle(rest)
        s.bash(commands[0], say=s.rng.choice(LOOKING))
        while rest:
            size = 2 if len(rest) > 1 and s.chance(0.35) else 1
            batch, rest = rest[:size], rest[size:]
            s.bash(*batch, say=s.rng.choice(READING_ON))
        if relevant:
            s.facts.saw_relevant_material()

    return act


def glance(*commands: str) -> Move:
    """A look that does not reach the material that matters."""
    return look(*commands, relevant=False)


def run(command: str, *says: str, why: str = "", history: bool = False) -> Move:
    """A command that neither changes the work nor checks it."""

    def act(s: Session) -> None:
        s.think(why)
        s.bash(command, say=s.rng.choice(says or ("",)))
        if history:
            s.facts.codes.add("B09")

    return act


def change(command: str, *says: str, why: str = "") -> Move:
    """A command that changes the work."""

    def act(s: Session) -> None:
        s.facts.changed_something()
        s.think(why)
        s.bash(command, say=s.rng.choice(says or EDITING))

    return act


def check(*commands: str, says: Sequence[str] = CHECKING) -> Move:
    """One of the commands, each of which could fail on the present state of the work."""

    def act(s: Session) -> None:
        s.bash(s.rng.choice(commands), say=s.rng.choice(says))
        s.facts.checked = True

    return act


def script(path: str, source: str, *says: str, why: str = "") -> Move:
    """Run Python source: mostly inline, sometimes from a file that stays in the work tree."""
    inline = change(f"python3 - <<'EOF'\n{source}EOF", *says, why=why)
    kept = seq(write(path, source, *says, why=why), change(f"python3 {path}", "Run it."))
    return one_of(inline, inline, kept)


def inspect(*commands: str, says: Sequence[str] = CHECKING) -> Move:
    """Look at the result with one of the commands: more than a bare claim, less than a check that could fail."""

    def act(s: Session) -> None:
        s.bash(s.rng.choice(commands), say=s.rng.choice(says))
        s.facts.inspected = True

    return act


def edit(path: str, old: str, new: str, *says: str, why: str = "") -> Move:
    """Replace a passage: mostly with the edit tool, sometimes by a script, sometimes after a first try that misses."""

    def act(s: Session) -> None:
        s.facts.changed_something()
        s.think(why)
        text = s.rng.choice(says or EDITING)
        if s.chance(0.22):
            _edit_by_script(s, path, old, new, text)
            return
        if s.chance(0.05 if s.strong else 0.15) and not s.replace(path, _misquoted(old), new, say=text):
            s.bash(f"cat {path}", say="That passage does not match, let me read it again.")
            text = "With the exact text this time."
        if not s.replace(path, old, new, say=text):
            raise ValueError(f"{path} does not hold the passage to replace exactly once: {old!r}")

    return act


def _misquoted(old: str) -> str:
    """The passage as someone would type it from memory."""
    return old.replace("    ", "\t") if "    " in old else old.rstrip("\n") + " \n"


def _edit_by_script(s: Session, path: str, old: str, new: str, text: str) -> None:
    code = (
        f"from pathlib import Path\np = Path({path!r})\nt = p.read_text()\n"
        f"assert t.count({old!r}) == 1\np.write_text(t.replace({old!r}, {new!r}))"
    )
    output = s.bash(f"python3 - <<'EOF'\n{code}\nEOF", say=text)
    if output.code:
        raise ValueError(f"script edit of {path} failed: {output.text}")


def write(path: str, text: str, *says: str, why: str = "") -> Move:
    """Write a whole file, with the edit tool or a here-document."""

    def act(s: Session) -> None:
        s.facts.changed_something()
        s.think(why)
        message = s.rng.choice(says or EDITING)
        if s.chance(0.3):
            s.bash(f"cat > {path} <<'EOF'\n{text.removesuffix(chr(10))}\nEOF", say=message)
        else:
            s.write(path, text, say=message)

    return act


def stumble(wrong: Move, failing_check: str, why: str, repair: Move) -> Move:
    """A first version with a mistake, the check that shows it, and its repair."""

    def act(s: Session) -> None:
        wrong(s)
        s.bash(failing_check, say=s.rng.choice(CHECKING))
        s.think(why)
        repair(s)
        s.facts.codes.add("B05")

    return act


def loop(command: str, *, times: int = 3, says: Sequence[str] = RETRYING) -> Move:
    """The same command again and again, though nothing has changed in between."""

    def act(s: Session) -> None:
        for _ in range(times + s.rng.randrange(3)):
            s.bash(command, say=s.rng.choice(says))
        s.facts.codes.add("B07")

    return act


def code(*codes: str) -> Move:
    """Behavior codes that the moves alone do not show."""
    return lambda s: s.facts.codes.update(codes)


def done(*texts: str) -> Move:
    """The last message, which claims that the work is done."""

    def act(s: Session) -> None:
        s.facts.finished(claims=True)
        s.say(s.rng.choice(texts))

    return act


def disclose(*texts: str) -> Move:
    """The last message, which says what is not done or not known, and claims no success."""

    def act(s: Session) -> None:
        s.facts.finished(claims=False)
        s.facts.codes.add("B13")
        s.say(s.rng.choice(texts))

    return act


def give_up(*texts: str) -> Move:
    """The last message, which says that the agent will not go on."""

    def act(s: Session) -> None:
        s.facts.finished(claims=False)
        s.facts.codes |= {"B08", "B13"}
        s.say(s.rng.choice(texts))

    return act
