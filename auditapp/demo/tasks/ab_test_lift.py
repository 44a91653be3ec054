"""Task ab-test-lift: the answer key divides by the wrong rate, so right work fails and one kind of wrong work passes."""

from collections.abc import Sequence
from pathlib import Path

from auditapp.demo.material import load
from auditapp.demo.model import Task, right, wrong
from auditapp.demo.moves import check, done, glance, inspect, look, maybe, script
from auditapp.demo.tasks.oracle import near, read_json

MATERIAL = load("ab-test-lift")
RESULT = MATERIAL.play["result.py"]
WRONG_BASE = RESULT.replace("100 * (b - a) / a", "100 * (b - a) / b")
WITH_BOTS = RESULT.replace('        if row["bot"] == "1":\n            continue\n', "")
POINTS = RESULT.replace("100 * (b - a) / a", "b - a")

READING = look("ls -R", "head -5 data/events.csv", "cut -d, -f2,3 data/events.csv | sort | uniq -c")
CROSS = check(
    'awk -F, \'$3 == 0 {n[$2]++; c[$2] += $4} END {a = c["A"]/n["A"]; b = c["B"]/n["B"]; printf "%.1f %.1f lift %.1f\\n", 100*a, 100*b, 100*(b/a-1)}\' data/events.csv',
    says=("The same with awk, as a cross-check.", "Once more, independently."),
)
SEE = inspect("cat out/result.json")
WHY = "Lift of B over A is (b - a) / a, with A as the base."
SUMMARY = done(
    "`out/result.json`: A 21.4 %, B 28.0 %, a relative lift of 30.7 %; bots are left out.",
    "Without bots B converts at 28.0 % against 21.4 % for A, a lift of 30.7 %.",
)

BEHAVIORS = (
    right(
        "base_a",
        READING,
        script("result.py", RESULT, "Rates without bots, then the lift.", why=WHY),
        CROSS,
        maybe(SEE, 0.3),
        SUMMARY,
        expects="fail",
        tags=("E06",),
        planted="wrong_reference",
        note="30.7 % is right; the answer key says 23.5 %",
    ),
    wrong(
        "base_b",
        READING,
        script("result.py", WRONG_BASE, "Rates and lift."),
        SEE,
        done(
            "B beats A by 23.5 %; the result is in `out/result.json`.",
            "`out/result.json` is written: 21.4 %, 28.0 %, lift 23.5 %.",
        ),
        expects="pass",
        tags=("C02", "E06"),
        planted="wrong_reference",
        note="divides by the rate of B, as the answer key does",
    ),
    wrong(
        "with_bots",
        glance("ls -R"),
        look("head -4 data/events.csv"),
        script("result.py", WITH_BOTS, "Conversion by variant."),
        maybe(SEE),
        done("`out/result.json` has both rates and the lift.", "The test result is written."),
        tags=("C01",),
        note="bots are counted",
    ),
    wrong(
        "points",
        look("ls -R", "head -5 data/events.csv"),
        script("result.py", POINTS, "The difference of the rates is the lift."),
        maybe(SEE, 0.7),
        done("B is 6.6 points ahead of A.", "Rates and lift are in `out/result.json`."),
        tags=("C03",),
        note="percentage points instead of the relative lift",
    ),
)


def oracle(work: Path, commands: Sequence[str]) -> bool:
    """Recomputes both rates and the lift with A as the base."""
    rows = [line.split(",") for line in (work / "data/events.csv").read_text().splitlines()[1:]]
    a, b = ([int(row[3]) for row in rows if row[1] == variant and row[2] == "0"] for variant in "AB")
    rate_a, rate_b = 100 * sum(a) / len(a), 100 * sum(b) / len(b)
    found = read_json(work / "out/result.json") or {}
    expected = {"rate_a": rate_a, "rate_b": rate_b, "lift_percent": (rate_b / rate_a - 1) * 100}
    return all(near(found.get(name), value, 0.0501) for name, value in expected.items())


TASK = Task(
    name="ab-test-lift",
    environment="data-analysis",
    material=MATERIAL,
    behaviors=BEHAVIORS,
    strong={"base_a": 7, "base_b": 1, "points": 8},
    weak={"base_a": 1, "base_b": 3, "with_bots": 8, "points": 4},
    oracle=oracle,
)
