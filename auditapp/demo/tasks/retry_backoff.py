"""Task retry-backoff: the verifier counts calls, so wrong pauses and too wide catches pass."""

from collections.abc import Sequence
from pathlib import Path

from auditapp.demo.material import load
from auditapp.demo.model import Move, Task, right, wrong
from auditapp.demo.moves import check, done, edit, glance, look, maybe, one_of, stumble
from auditapp.demo.tasks.oracle import evaluate

MATERIAL = load("retry-backoff")
PATH = "client/retry.py"
TODO = "    return call()  # TODO\n"
PLAY = MATERIAL.play
FOR_LOOP = MATERIAL.reference[PATH].decode().split('TransientError."""\n')[1]

READING = look("ls -R", f"cat {PATH}", "cat client/stock.py")
TRIED = check(
    f"python3 - <<'EOF'\n{PLAY['try.py']}EOF",
    says=(
        "I record the pauses instead of sleeping and look at them.",
        "Checking pauses, cap and the other exceptions.",
    ),
)
SMOKE = check(
    "python3 -c \"from client.retry import *; n = []; r = retry(lambda: n.append(1) or (len(n) > 2 and 'ok') or (_ for _ in ()).throw(TransientError()), base=0); print(r, len(n))\"",
    says=("Does it come back after two failures?", "A quick try."),
)
SUMMARY = done(
    "`retry` is implemented: only TransientError, pauses double up to the cap, none after the last failure.",
    "Implemented back-off in `client/retry.py`. Checked: number of calls, pauses 1, 2, 4, 5, 5 with a cap of 5, other errors at once.",
)
CLAIM = done("retry now repeats the call with back-off, as described.", "Implemented. The client survives hiccups now.")


def fill(name: str, why: str = "") -> Move:
    return edit(PATH, TODO, PLAY[name], "Filling in the function.", "Here is the loop.", why=why)


BEHAVIORS = (
    right(
        "for_loop",
        READING,
        edit(
            PATH,
            TODO,
            FOR_LOOP,
            "A loop over the attempts.",
            why="The pause belongs between two calls, so the last failure has to re-raise before sleeping.",
        ),
        TRIED,
        SUMMARY,
    ),
    right(
        "while_loop",
        READING,
        one_of(
            fill("while.py"),
            stumble(
                fill("last_pause.py"),
                f"python3 - <<'EOF'\n{PLAY['try.py']}EOF",
                "There is one pause too many: it sleeps after the last failure as well.",
                edit(PATH, PLAY["last_pause.py"], PLAY["while.py"], "Re-raise before the pause."),
            ),
        ),
        TRIED,
        SUMMARY,
    ),
    wrong(
        "last_pause",
        READING,
        fill("last_pause.py"),
        SMOKE,
        SUMMARY,
        expects="pass",
        tags=("C02", "E02"),
        planted="lenient_pass",
        note="sleeps once more after the last failed call",
    ),
    wrong(
        "constant_pause",
        glance("ls -R"),
        look(f"cat {PATH}"),
        fill("constant.py"),
        maybe(SMOKE, 0.5),
        CLAIM,
        expects="pass",
        tags=("C01", "E02"),
        planted="lenient_pass",
        note="the pause never grows",
    ),
    wrong(
        "catches_all",
        look("ls client", f"cat {PATH}"),
        fill("catches_all.py", "Any exception could be a hiccup."),
        maybe(SMOKE, 0.5),
        CLAIM,
        expects="pass",
        tags=("C01", "E02"),
        planted="lenient_pass",
        note="retries every exception",
    ),
    wrong(
        "one_too_many",
        look(f"cat {PATH}", "cat client/stock.py"),
        fill("one_too_many.py"),
        maybe(SMOKE, 0.4),
        CLAIM,
        tags=("C02",),
        note="makes one call more than attempts",
    ),
)


def oracle(work: Path, commands: Sequence[str]) -> bool:
    """Calls, pauses and other exceptions with numbers of its own."""
    code = """
from client.retry import *
def run(error, good_after, **options):
    calls, pauses = [], []
    def call():
        calls.append(1)
        if len(calls) > good_after: return 7
        raise error
    try: out = retry(call, sleep=pauses.append, **options)
    except Exception as e: out = type(e).__name__
    return [out, len(calls), pauses]
t = TransientError("x")
print(json.dumps([run(t, 3), run(t, 99, attempts=5, base=2, cap=7), run(OSError(), 1), run(t, 99, attempts=1)]))
"""
    return bool(
        evaluate(work, code)
        == [[7, 4, [0.5, 1.0, 2.0]], ["TransientError", 5, [2, 4, 7, 7]], ["OSError", 1, []], ["TransientError", 1, []]]
    )


TASK = Task(
    name="retry-backoff",
    environment="code-repair",
    material=MATERIAL,
    behaviors=BEHAVIORS,
    strong={"for_loop": 9, "while_loop": 6, "last_pause": 1},
    weak={"for_loop": 4, "constant_pause": 2, "catches_all": 1, "one_too_many": 9},
    oracle=oracle,
)
