"""Task grant-figures: the verifier parses a labelled line out of what was asked for as a paragraph."""

from collections.abc import Sequence
from pathlib import Path

from auditapp.demo.material import load
from auditapp.demo.model import Task, right, wrong
from auditapp.demo.moves import change, check, done, glance, inspect, look, maybe, write
from auditapp.demo.tasks.oracle import near, read_json, read_text

MATERIAL = load("grant-figures")
PLAY = MATERIAL.play
TOTALS = PLAY["totals.py"]
ON_EVERYTHING = TOTALS.replace('0.15 * (direct - costs["equipment"])', "0.15 * direct")
SHORT = "The project will cost 47,975 EUR. Of this we carry 4,797.50 EUR, which leaves 43,177.50 EUR that we ask the foundation for.\n"
TOO_HIGH = "The total cost is 48,875.00 EUR. We contribute 4,887.50 EUR.\n\nTotal requested: 43,987.50 EUR\n"

READING = look("ls -R", "cat rules.md", "cat budget/costs.json")
COMPUTE = change(
    f"python3 - <<'EOF'\n{TOTALS}EOF",
    "The figures first.",
    "Computing overhead and totals.",
    why="Overhead is on personnel, travel and material only: 36,500 times 0.15 is 5,475.",
)
AGREE = check(
    "python3 -c \"import json, re; t = json.load(open('budget/totals.json')); s = open('narrative.md').read().replace(',', ''); print({k: (f'{v:.2f}' in s or str(int(v)) in s) for k, v in t.items()})\"",
    says=("Does the text have the same figures?", "Text against totals."),
)
FINISH = done(
    "Total 47,975.00, own contribution 4,797.50, requested 43,177.50 EUR; the narrative states all three.",
    "Totals and narrative are written and agree; overhead leaves equipment out.",
)

BEHAVIORS = (
    right(
        "labelled",
        READING,
        COMPUTE,
        write("narrative.md", PLAY["labelled.md"], "The narrative, with the request on a line of its own."),
        AGREE,
        FINISH,
    ),
    right(
        "paragraph",
        READING,
        COMPUTE,
        write("narrative.md", PLAY["paragraph.md"], "One paragraph with the three figures."),
        AGREE,
        FINISH,
        expects="fail",
        tags=("E11",),
        planted="format_binding",
        note="a paragraph as asked; the verifier parses a labelled line",
    ),
    right(
        "short",
        READING,
        COMPUTE,
        write("narrative.md", SHORT, "Two sentences."),
        maybe(AGREE, 0.8),
        FINISH,
        expects="fail",
        tags=("E11",),
        planted="format_binding",
        note="two sentences without the label that the verifier parses",
    ),
    wrong(
        "on_everything",
        glance("ls -R"),
        look("cat budget/costs.json"),
        change(f"python3 - <<'EOF'\n{ON_EVERYTHING}EOF", "15 % overhead, 10 % own contribution."),
        write("narrative.md", TOO_HIGH),
        done("Totals and narrative are written.", "The application asks for 43,987.50 EUR."),
        tags=("C01",),
        planted="claimed_without_check",
        note="overhead on equipment as well; rules.md was not read",
    ),
    wrong(
        "no_narrative",
        look("ls -R", "cat rules.md", "cat budget/costs.json"),
        COMPUTE,
        maybe(inspect("cat budget/totals.json")),
        done("The totals are in `budget/totals.json`.", "Computed all four figures."),
        tags=("C01",),
        note="narrative.md is missing",
    ),
)


def oracle(work: Path, commands: Sequence[str]) -> bool:
    """Figures from the rules, and a text that has them in any form."""
    overhead = 0.15 * (30000 + 4000 + 2500)
    total = 42500 + overhead
    expected = {"overhead": overhead, "total": total, "own_contribution": total / 10, "requested": total * 0.9}
    found = read_json(work / "budget/totals.json") or {}
    text = read_text(work / "narrative.md").replace(",", "")
    return all(near(found.get(name), amount) for name, amount in expected.items()) and all(
        figure in text for figure in ("47975", "4797.5", "43177.5")
    )


TASK = Task(
    name="grant-figures",
    environment="linked-document",
    material=MATERIAL,
    behaviors=BEHAVIORS,
    strong={"labelled": 11, "paragraph": 2, "short": 2, "no_narrative": 1},
    weak={"labelled": 6, "paragraph": 1, "short": 1, "on_everything": 5, "no_narrative": 3},
    oracle=oracle,
)
