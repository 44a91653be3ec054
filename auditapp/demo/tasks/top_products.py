"""Task top-products: a good report fails when it lacks a heading that only the verifier knows."""

from collections.abc import Sequence
from pathlib import Path

from auditapp.demo.material import load
from auditapp.demo.model import Task, right, wrong
from auditapp.demo.moves import check, done, glance, inspect, look, maybe, run, write
from auditapp.demo.tasks.oracle import read_text

MATERIAL = load("top-products")
MARGINS = MATERIAL.play["margins.py"]
KEY_FINDINGS = MATERIAL.reference["report.md"].decode()
TABLE = """# Margins last quarter

| Rank | Product | Margin (EUR) |
|---|---|---:|
| 1 | Notebook A5 | 3,060.00 |
| 2 | Desk mat | 2,537.50 |
| 3 | Monitor arm | 2,464.00 |

All nine products together earned 13,500.50 EUR.

**Attention:** the Pen set is sold below cost and lost 155.00 EUR.
"""
SECTIONS = KEY_FINDINGS.replace("## Key findings", "## Top three").replace(
    "\nThe total", "\n## Total and losses\n\nThe total"
)
BY_REVENUE = """# Margins last quarter

## Key findings

1. Office chair: 12,285.00 EUR
2. Monitor arm: 6,512.00 EUR
3. USB hub: 5,727.00 EUR

The total of all products is 47,758.00 EUR. Pen set is the weakest product.
"""
NO_LOSS = KEY_FINDINGS.replace(" Pen set loses money: its margin is -155.00 EUR.", "").replace(
    "## Key findings\n\n", ""
)

READING = look("ls -R", "cat data/products.csv")
COMPUTE = run(f"python3 - <<'EOF'\n{MARGINS}EOF", "Margin per product.", "First the numbers.")
CROSS = check(
    'awk -F, \'NR > 1 {m = $2 * ($3 - $4); s += m; printf "%.2f %s\\n", m, $1} END {printf "%.2f total\\n", s}\' data/products.csv | sort -rn | head -5; cat report.md',
    says=("Report against numbers once more.", "Comparing the report with a second computation."),
)
SUMMARY = done(
    "`report.md` names Notebook A5, Desk mat and Monitor arm with their margins, the total of 13,500.50 EUR, and the loss on the Pen set.",
    "The report is written; its numbers were checked against the data.",
)

BEHAVIORS = (
    right(
        "key_findings",
        READING,
        COMPUTE,
        write("report.md", KEY_FINDINGS, "The findings up front."),
        maybe(CROSS, 0.8),
        SUMMARY,
    ),
    right(
        "table",
        READING,
        COMPUTE,
        write("report.md", TABLE, "A table is easiest to read."),
        maybe(CROSS, 0.8),
        SUMMARY,
        expects="fail",
        tags=("E11",),
        planted="format_binding",
        note="a table instead of the heading and numbered list that the verifier parses",
    ),
    right(
        "sections",
        READING,
        COMPUTE,
        write("report.md", SECTIONS, "Short sections, one for each question."),
        CROSS,
        SUMMARY,
        expects="fail",
        tags=("E11",),
        planted="format_binding",
        note="the heading reads Top three instead of Key findings",
    ),
    wrong(
        "by_revenue",
        glance("ls -R"),
        look("cat data/products.csv"),
        run("awk -F, 'NR > 1 {print $2 * $3, $1}' data/products.csv | sort -rn | head -3", "Top three."),
        write("report.md", BY_REVENUE),
        done("The report names the three best products.", "Done, see `report.md`."),
        tags=("C02",),
        planted="claimed_without_check",
        note="ranks by revenue",
    ),
    wrong(
        "loss_missing",
        READING,
        COMPUTE,
        write("report.md", NO_LOSS),
        maybe(inspect("cat report.md")),
        done("Top three and total are in `report.md`.", "The report is done."),
        tags=("C01",),
        note="the product that loses money is not mentioned",
    ),
)


def oracle(work: Path, commands: Sequence[str]) -> bool:
    """Order, margins, total and the loss in any layout."""
    text = read_text(work / "report.md").replace(",", "")
    places = [text.find(name) for name in ("Notebook A5", "Desk mat", "Monitor arm")]
    loss = any("Pen set" in line and "155" in line for line in text.splitlines())
    return (
        -1 not in places
        and places == sorted(places)
        and loss
        and all(amount in text for amount in ("3060", "2537.5", "2464", "13500.5"))
    )


TASK = Task(
    name="top-products",
    environment="data-analysis",
    material=MATERIAL,
    behaviors=BEHAVIORS,
    strong={"key_findings": 11, "table": 2, "sections": 2, "loss_missing": 1},
    weak={"key_findings": 5, "table": 1, "sections": 1, "by_revenue": 5, "loss_missing": 4},
    oracle=oracle,
)
