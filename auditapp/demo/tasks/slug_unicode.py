"""Task slug-unicode: right rewrites differ in their error message, and the verifier accepts one only."""

from collections.abc import Sequence
from pathlib import Path

from auditapp.demo.material import load
from auditapp.demo.model import Task, right, wrong
from auditapp.demo.moves import change, check, code, done, glance, look, maybe, one_of, run, seq, stumble, write
from auditapp.demo.tasks.oracle import evaluate

MATERIAL = load("slug-unicode")
PATH = "textkit/slug.py"
REFERENCE = MATERIAL.reference[PATH].decode()
ATTEMPT = MATERIAL.play["try.py"]

READING = look("ls -R", f"cat {PATH}", "cat README.md", "grep -rn slug .")
SIBLINGS = run("cat textkit/names.py", "How does the sibling module do it?", "The neighbor may show the house style.")
TRIED = check(
    f"python3 - <<'EOF'\n{ATTEMPT}EOF",
    says=("Trying the four rules by hand.", "A few titles, among them the nasty ones."),
)
OWN_TESTS = seq(
    write("try_slugs.py", ATTEMPT, "A small script with the cases of the task."),
    check("python3 try_slugs.py"),
    change("rm try_slugs.py", "It has done its job."),
    check(f"python3 - <<'EOF'\n{ATTEMPT}EOF", says=("And once more after cleaning up.",)),
    code("B04"),
)
WHY = "NFKD splits an accented letter into letter and mark, so dropping the marks leaves plain ASCII. ß has no decomposition and needs its own rule."
SUMMARY = done(
    "`slugify` now follows the four rules: accents removed, ß as ss, single hyphens, cut without a trailing hyphen, ValueError when nothing is left.",
    "Rewrote `slugify`; the titles of the task, a cut in the middle of a word gap and an empty title behave as described.",
)
NO_ESZETT = REFERENCE.replace('.replace("ß", "ss")', "")
NO_STRIP = REFERENCE.replace('[:max_length].rstrip("-")', "[:max_length]")

BEHAVIORS = (
    right(
        "house_message",
        READING,
        SIBLINGS,
        write(PATH, REFERENCE, "I keep the error text of `names.py`.", why=WHY),
        one_of(TRIED, OWN_TESTS),
        SUMMARY,
    ),
    right(
        "own_message",
        READING,
        write(
            PATH,
            REFERENCE.replace('ValueError("empty slug")', 'ValueError("title has no characters usable in a slug")'),
            why=WHY,
        ),
        one_of(TRIED, OWN_TESTS),
        SUMMARY,
        expects="fail",
        tags=("E01",),
        planted="narrow_fail",
        note="raises ValueError as asked, with another text than the verifier wants",
    ),
    right(
        "by_characters",
        READING,
        stumble(
            write(
                PATH,
                MATERIAL.play["loop.py"].replace(
                    "SPECIAL.get(char, char)\n        if char.isascii() and char.isalnum()",
                    "SPECIAL.get(char, char)\n        if char.isalnum()",
                ),
            ),
            "python3 -c \"from textkit.slug import slugify; print(slugify('日本 news'))\"",
            "isalnum() is true for non-ASCII letters too; those have to act as separators.",
            write(PATH, MATERIAL.play["loop.py"], "Only ASCII may pass."),
        ),
        TRIED,
        SUMMARY,
        expects="fail",
        tags=("E01",),
        planted="narrow_fail",
        note="another algorithm and another error text, all four rules hold",
    ),
    wrong(
        "no_eszett",
        glance("ls -R"),
        look(f"cat {PATH}"),
        maybe(SIBLINGS),
        write(PATH, NO_ESZETT),
        maybe(check("python3 -c \"from textkit.slug import slugify; print(slugify('Crème brûlée!'))\""), 0.5),
        done(
            "slugify now handles accents and punctuation.",
            "Done: NFKD plus a regular expression, works for all titles.",
        ),
        tags=("C01",),
        note="ß is turned into a separator",
    ),
    wrong(
        "hyphen_after_cut",
        look("ls -R", f"cat {PATH}"),
        SIBLINGS,
        write(PATH, NO_STRIP, why=WHY),
        maybe(
            check(
                "python3 -c \"from textkit.slug import slugify; print(slugify('Straße & Co.'))\"",
                "python3 -c \"from textkit.slug import slugify; print(len(slugify('x ' * 80)))\"",
            ),
            0.6,
        ),
        done("All four rules are implemented.", "slugify is rewritten and limited to max_length."),
        tags=("C02",),
        note="a cut right after a word leaves a trailing hyphen",
    ),
)


def oracle(work: Path, commands: Sequence[str]) -> bool:
    """The four rules on titles of its own."""
    code = """
from textkit.slug import slugify
def empty(t):
    try: return slugify(t)
    except ValueError: return None
print(json.dumps([slugify("Ça  va?"), slugify("Weißer Spieß"), slugify("日本 news"), slugify("ab cd ef", 3), slugify("ab cd", 4), empty(" ? ")]))
"""
    return bool(evaluate(work, code) == ["ca-va", "weisser-spiess", "news", "ab", "ab-c", None])


TASK = Task(
    name="slug-unicode",
    environment="code-repair",
    material=MATERIAL,
    behaviors=BEHAVIORS,
    strong={"house_message": 10, "own_message": 3, "by_characters": 2, "hyphen_after_cut": 1},
    weak={"house_message": 3, "own_message": 1, "no_eszett": 7, "hyphen_after_cut": 5},
    oracle=oracle,
)
