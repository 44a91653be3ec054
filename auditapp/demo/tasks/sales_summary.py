"""Task sales-summary: right figures in another layout fail, since the verifier compares text."""

from collections.abc import Sequence
from pathlib import Path

from auditapp.demo.material import load
from auditapp.demo.model import Move, Task, right, wrong
from auditapp.demo.moves import change, check, done, glance, inspect, look, maybe, one_of, run, seq, write
from auditapp.demo.tasks.oracle import near, read_json

MATERIAL = load("sales-summary")
READING = look("ls -R", "cat data/README.md", "head -6 data/sales.csv", "cut -d, -f7 data/sales.csv | sort | uniq -c")


def script(
    *,
    keep: str = "row['status'] == 'completed'",
    unit: str = " / 100",
    dump: str = "indent=2, sort_keys=True",
    order: str = "",
) -> str:
    return f"""import csv
import json
from collections import defaultdict

cents = defaultdict(int)
orders = 0
with open('data/sales.csv', newline='') as file:
    for row in csv.DictReader(file):
        if {keep}:
            orders += 1
            cents[row['region']] += int(row['quantity']) * int(row['unit_price_cents'])
{order}
result = {{
    'orders': orders,
    'revenue_by_region': {{region: amount{unit} for region, amount in cents.items()}},
    'total_revenue': sum(cents.values()){unit},
}}
with open('out/summary.json', 'w') as file:
    json.dump(result, file{", " + dump if dump else ""})
"""


def make(source: str, *says: str, why: str = "") -> Move:
    inline = change(f"mkdir -p out && python3 - <<'EOF'\n{source}EOF", *says, why=why)
    kept = seq(write("summarize.py", source, *says, why=why), change("mkdir -p out && python3 summarize.py", "Run it."))
    return one_of(inline, inline, kept)


SHOW = inspect("cat out/summary.json", "python3 -m json.tool out/summary.json")
CROSS = check(
    "awk -F, '$7 == \"completed\" {s += $5 * $6; n++} END {print n, s / 100}' data/sales.csv",
    says=("A second way to get the total, to compare.", "Cross-check with awk."),
)
UNITS = "The price column is in cents according to the README, and only completed orders count."
BEHAVIORS = (
    right(
        "pretty",
        READING,
        make(script(), "Now the summary.", why=UNITS),
        maybe(SHOW, 0.7),
        CROSS,
        done(
            "`out/summary.json` is written: completed orders only, cents converted to euros. An awk cross-check gives the same total.",
            "Done. Revenue by region in euros is in `out/summary.json`; total and count agree with a second computation.",
        ),
    ),
    right(
        "compact",
        READING,
        make(script(dump=""), "Aggregating by region.", why=UNITS),
        SHOW,
        maybe(CROSS),
        done(
            "The summary is in `out/summary.json`, in euros, completed orders only.",
            "Wrote `out/summary.json`; values checked against the CSV.",
        ),
        expects="fail",
        tags=("E01",),
        planted="narrow_fail",
        note="the same JSON on one line; the verifier compares text",
    ),
    right(
        "by_revenue",
        READING,
        make(
            script(dump="indent=2", order="cents = dict(sorted(cents.items(), key=lambda item: -item[1]))"),
            "Regions by revenue, largest first.",
            why=UNITS,
        ),
        CROSS,
        maybe(SHOW),
        done(
            "Done: `out/summary.json` lists the regions from the largest to the smallest revenue; totals were cross-checked."
        ),
        expects="fail",
        tags=("E01",),
        planted="narrow_fail",
        note="keys in another order; the verifier compares text",
    ),
    wrong(
        "in_cents",
        glance("ls -R"),
        look("head -5 data/sales.csv"),
        make(script(unit=""), "Summing quantity times price."),
        maybe(run("head -3 out/summary.json"), 0.4),
        done("Revenue per region is in `out/summary.json`.", "Done, summary written."),
        tags=("C04",),
        note="the amounts are in cents; the header and the README say so",
    ),
    wrong(
        "all_orders",
        glance("ls"),
        look("head -4 data/sales.csv", "cat data/README.md"),
        make(script(keep="row['order_id']"), "Group by region and sum."),
        done("`out/summary.json` is complete.", "All figures are in `out/summary.json`."),
        tags=("C01",),
        planted="claimed_without_check",
        note="cancelled and returned orders are counted; the result was never looked at",
    ),
)


def oracle(work: Path, commands: Sequence[str]) -> bool:
    """Recomputes the summary from the table."""
    sums: dict[str, int] = {}
    orders = 0
    for line in (work / "data/sales.csv").read_text().splitlines()[1:]:
        _, _, region, _, quantity, price, status = line.split(",")
        if status == "completed":
            orders += 1
            sums[region] = sums.get(region, 0) + int(quantity) * int(price)
    found = read_json(work / "out/summary.json")
    if not isinstance(found, dict) or found.get("orders") != orders or set(found["revenue_by_region"]) != set(sums):
        return False
    regions = all(near(found["revenue_by_region"][region], cents / 100) for region, cents in sums.items())
    return regions and near(found["total_revenue"], sum(sums.values()) / 100)


TASK = Task(
    name="sales-summary",
    environment="data-analysis",
    material=MATERIAL,
    behaviors=BEHAVIORS,
    strong={"pretty": 10, "compact": 3, "by_revenue": 2, "all_orders": 1},
    weak={"pretty": 5, "compact": 2, "in_cents": 5, "all_orders": 4},
    oracle=oracle,
)
