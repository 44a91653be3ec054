"""Task churn-rate: the base of the rate is open, the verifier knows one."""

from collections.abc import Sequence
from pathlib import Path

from auditapp.demo.material import load
from auditapp.demo.model import Task, right, wrong
from auditapp.demo.moves import check, done, glance, inspect, look, maybe, script
from auditapp.demo.tasks.oracle import near, read_json

MATERIAL = load("churn-rate")
AT_START = MATERIAL.play["churn.py"]
DURING = AT_START.replace('if row["joined"] < START and', 'if row["joined"] < END and')
WITH_TRIALS = AT_START.replace('        if row["plan"] == "trial":\n            continue\n', "")
EVER = AT_START.replace(
    '        if row["joined"] < START and (not row["cancelled"] or row["cancelled"] >= START):\n            customers += 1\n            cancelled += START <= row["cancelled"] < END\n',
    '        customers += 1\n        cancelled += START <= row["cancelled"] < END\n',
)

READING = look(
    "ls -R",
    "head -6 data/customers.csv",
    "cut -d, -f2 data/customers.csv | sort | uniq -c",
    "grep -c ',2026-02-[0-9]*$' data/customers.csv",
)
CROSS = check(
    'awk -F, \'$2 != "trial" && $4 ~ /^2026-02/\' data/customers.csv | wc -l; awk -F, \'NR > 1 && $2 != "trial" && $3 < "2026-02-01" && ($4 == "" || $4 >= "2026-02-01")\' data/customers.csv | wc -l',
    says=("Both counts with awk.", "Cross-check of the counts."),
)
CROSS_DURING = check(
    'awk -F, \'NR > 1 && $2 != "trial" && $3 < "2026-03-01" && ($4 == "" || $4 >= "2026-02-01")\' data/customers.csv | wc -l',
    says=("The base once more, with awk.",),
)
SEE = inspect("cat out/churn.json")

BEHAVIORS = (
    right(
        "at_start",
        READING,
        script(
            "churn.py",
            AT_START,
            "Relating the cancellations to the customers at the start of the month.",
            why="Churn is usually related to the customers one had at the beginning of the period.",
        ),
        maybe(CROSS, 0.8),
        SEE,
        done(
            "5 of the 36 paying customers at the start of February cancelled: 13.9 %.",
            "Churn in February was 13.9 % (5 of 36); trials are left out.",
        ),
    ),
    right(
        "during",
        READING,
        script(
            "churn.py",
            DURING,
            "Everyone who was a paying customer in February counts.",
            why="The share of paying customers who cancelled in February: those who joined in February were paying customers as well, so they belong to the base.",
        ),
        CROSS_DURING,
        maybe(SEE),
        done(
            "5 of the 44 customers who paid at some time in February cancelled: 11.4 %. I counted those who joined during the month.",
            "Churn was 11.4 %: 5 of the 44 paying customers of February.",
        ),
        expects="fail",
        tags=("E05",),
        planted="ambiguous_instruction",
        note="relates to all who paid in February; the instruction leaves the base open",
    ),
    wrong(
        "with_trials",
        glance("ls -R"),
        look("head -4 data/customers.csv"),
        script("churn.py", WITH_TRIALS, "Count customers and cancellations."),
        maybe(SEE, 0.6),
        done("The churn rate is in `out/churn.json`.", "Done: churn for February is written."),
        tags=("C01",),
        note="trial customers are counted",
    ),
    wrong(
        "ever",
        look("ls -R", "head -5 data/customers.csv"),
        script("churn.py", EVER),
        SEE,
        done("5 customers cancelled in February; the rate is written.", "`out/churn.json` is there."),
        tags=("C02",),
        note="relates to everyone in the table, including those who left before February",
    ),
)


def oracle(work: Path, commands: Sequence[str]) -> bool:
    """Either base is right, and the rate must follow from it."""
    rows = [line.split(",") for line in (work / "data/customers.csv").read_text().splitlines()[1:]]
    paying = [(joined, left or "9999") for _, plan, joined, left in rows if plan != "trial"]
    found = read_json(work / "out/churn.json") or {}
    bases = [
        sum(joined < end and left >= "2026-02-01" for joined, left in paying) for end in ("2026-02-01", "2026-03-01")
    ]
    gone = sum("2026-02-01" <= left < "2026-03-01" for _, left in paying)
    return (
        found.get("cancelled") == gone
        and found.get("customers") in bases
        and near(found.get("churn_percent"), 100 * gone / found["customers"], 0.0501)
    )


TASK = Task(
    name="churn-rate",
    environment="data-analysis",
    material=MATERIAL,
    behaviors=BEHAVIORS,
    strong={"at_start": 10, "during": 5, "ever": 1},
    weak={"at_start": 11, "during": 1, "with_trials": 3, "ever": 1},
    oracle=oracle,
)
