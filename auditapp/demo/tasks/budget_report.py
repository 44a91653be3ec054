"""Task budget-report: three files must agree, and the verifier checks all of them."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path

from auditapp.demo.material import load
from auditapp.demo.model import Task, right, wrong
from auditapp.demo.moves import (
    change,
    check,
    done,
    edit,
    look,
    maybe,
    one_of,
    run,
    seq,
    stumble,
)
from auditapp.demo.tasks.oracle import read_json, read_text

MATERIAL = load("budget-report")
REFERENCE = {path: body.decode() for path, body in MATERIAL.reference.items()}
READING = look("ls", "cat budget.csv", "cat summary.json", "cat report.md")
CSV_BY_HAND = seq(
    edit(
        "budget.csv",
        "Travel,3500,2800,2600,4100,13000\n",
        "Travel,2000,2000,2000,2000,8000\n",
        "Travel first.",
        why="4 x 2,000 = 8,000 for Travel.",
    ),
    edit(
        "budget.csv",
        "Licences,1900,0,1900,0,3800\n",
        "Licences,1900,0,1900,0,3800\nTraining,0,1500,1500,1200,4200\n",
        "The new line Training.",
    ),
)
TOTALS = edit(
    "budget.csv",
    "Total,50500,47900,51300,50900,200600\n",
    "Total,49000,48600,52200,50000,199800\n",
    "And the sums of the columns.",
    why="Q1 42000+3100+2000+1900 = 49000; Q2 42000+3100+2000+0+1500 = 48600; Q3 43500+3300+2000+1900+1500 = 52200; Q4 50000. Together 199800.",
)
WRONG_TOTALS = edit(
    "budget.csv",
    "Total,50500,47900,51300,50900,200600\n",
    "Total,49000,48600,52200,50000,195600\n",
    "And the sums of the columns.",
)
FIXED_TOTALS = edit("budget.csv", "50000,195600\n", "50000,199800\n", "The grand total lacked Training.")
ADD = r"""python3 -c "
import csv
rows = list(csv.DictReader(open('budget.csv')))
body, total = rows[:-1], rows[-1]
for c in ('q1', 'q2', 'q3', 'q4', 'total'):
    s = sum(int(r[c]) for r in body)
    print(c, s, total[c], 'ok' if s == int(total[c]) else 'MISMATCH')
" """.strip()
SUMMARY = edit(
    "summary.json",
    '    "Travel": 13000,\n    "Licences": 3800\n  },\n  "total": 200600,\n',
    '    "Travel": 8000,\n    "Licences": 3800,\n    "Training": 4200\n  },\n  "total": 199800,\n',
    "Now the dashboard summary.",
)
REPORT = seq(
    edit(
        "report.md",
        "**200,600 EUR**. Salaries account for 85.2 %",
        "**199,800 EUR**. Salaries account for 85.6 %",
        "The sentence in the report.",
        why="171,000 / 199,800 = 85.59 %, so 85.6 %.",
    ),
    edit(
        "report.md",
        "| Travel | 13,000 |\n| Licences | 3,800 |\n| **Total** | **200,600** |",
        "| Travel | 8,000 |\n| Licences | 3,800 |\n| Training | 4,200 |\n| **Total** | **199,800** |",
        "And its table.",
    ),
)
AGREE = check(
    "grep -rn '200,600\\|200600\\|13,000\\|13000' . ; grep -n '199,800\\|199800' *",
    f"{ADD}\ngrep -n '199' summary.json report.md",
    says=("Do all three files agree now?", "Any old figure left?"),
)
SCRIPT = """import csv
import json
import re

rows = [r for r in csv.DictReader(open("budget.csv")) if r["line"] != "Total"]
quarters = ["q1", "q2", "q3", "q4"]
for r in rows:
    if r["line"] == "Travel":
        r.update({q: 2000 for q in quarters})
rows.append(dict(line="Training", q1=0, q2=1500, q3=1500, q4=1200))
for r in rows:
    r["total"] = sum(int(r[q]) for q in quarters)
total = dict(line="Total", **{c: sum(int(r[c]) for r in rows) for c in quarters + ["total"]})
with open("budget.csv", "w", newline="") as f:
    w = csv.DictWriter(f, ["line", *quarters, "total"], lineterminator="\\n")
    w.writeheader()
    w.writerows([*rows, total])
s = json.load(open("summary.json"))
s["lines"] = {r["line"]: r["total"] for r in rows}
s["total"] = total["total"]
json.dump(s, open("summary.json", "w"), indent=2)
t = open("report.md").read()
t = t.replace("200,600", f"{total['total']:,}").replace("85.2 %", f"{100 * rows[0]['total'] / total['total']:.1f} %")
t = t.replace("| Travel | 13,000 |", "| Travel | 8,000 |").replace("| **Total**", "| Training | 4,200 |\\n| **Total**")
open("report.md", "w").write(t)
print(total)
"""
FINISH = done(
    "All three files follow the decision: Travel 8,000, Training 4,200, overall 199,800 EUR, Salaries 85.6 %. Column sums were checked.",
    "Budget updated in `budget.csv`, `summary.json` and `report.md`; the totals agree at 199,800.",
)
BEHAVIORS = (
    right(
        "by_hand",
        READING,
        CSV_BY_HAND,
        one_of(TOTALS, stumble(WRONG_TOTALS, ADD, "The grand total is off by 4,200: Training.", FIXED_TOTALS)),
        SUMMARY,
        REPORT,
        AGREE,
        FINISH,
    ),
    right(
        "by_script",
        READING,
        change(
            f"python3 - <<'PY'\n{SCRIPT}PY",
            "One script computes everything from the quarters, so nothing can drift apart.",
            why="Every other figure follows from the quarter columns. I compute them once and write all three files.",
        ),
        maybe(run("cat budget.csv summary.json")),
        AGREE,
        FINISH,
    ),
    wrong(
        "share_forgotten",
        look("ls", "cat budget.csv", "cat report.md"),
        CSV_BY_HAND,
        TOTALS,
        SUMMARY,
        edit("report.md", "**200,600 EUR**", "**199,800 EUR**", "The sentence in the report."),
        edit(
            "report.md",
            "| Travel | 13,000 |\n| Licences | 3,800 |\n| **Total** | **200,600** |",
            "| Travel | 8,000 |\n| Licences | 3,800 |\n| Training | 4,200 |\n| **Total** | **199,800** |",
        ),
        maybe(AGREE, 0.5),
        done("All totals are updated in the three files.", "The three files agree on 199,800 EUR."),
        tags=("C01",),
        note="the share of Salaries still says 85.2 %",
    ),
    wrong(
        "sums_not_updated",
        look("ls", "cat budget.csv"),
        CSV_BY_HAND,
        run("cat summary.json"),
        SUMMARY,
        run("cat report.md"),
        REPORT,
        done("Travel and Training are changed everywhere.", "Updated the CSV, the summary and the report as decided."),
        tags=("C01",),
        planted="claimed_without_check",
        note="the row Total of budget.csv keeps the old sums",
    ),
    wrong(
        "report_left",
        look("ls", "cat budget.csv", "cat summary.json"),
        CSV_BY_HAND,
        TOTALS,
        SUMMARY,
        maybe(check(ADD)),
        done(
            "The budget now has Travel at 8,000 and Training at 4,200, 199,800 in total.",
            "CSV and JSON are updated. Done.",
        ),
        tags=("C01",),
        note="report.md was not touched",
    ),
)


def oracle(work: Path, commands: Sequence[str]) -> bool:
    """Recomputes every figure from the quarters of the decided lines."""
    quarters = {
        "Salaries": (42000, 42000, 43500, 43500),
        "Hosting": (3100, 3100, 3300, 3300),
        "Travel": (2000,) * 4,
        "Licences": (1900, 0, 1900, 0),
        "Training": (0, 1500, 1500, 1200),
    }
    total = sum(map(sum, quarters.values()))
    rows = {
        row[0]: [int(cell) for cell in row[1:]]
        for row in list(csv.reader(read_text(work / "budget.csv").splitlines()))[1:]
    }
    table = {
        **{name: [*values, sum(values)] for name, values in quarters.items()},
        "Total": [*map(sum, zip(*quarters.values(), strict=True)), total],
    }
    report, summary = read_text(work / "report.md"), read_json(work / "summary.json") or {}
    share = f"{100 * sum(quarters['Salaries']) / total:.1f} %"
    in_report = (
        report.count(f"{total:,}") == 2
        and share in report
        and re.search(r"Training \| 4,200", report)
        and re.search(r"Travel \| 8,000", report)
    )
    lines = {name: sum(values) for name, values in quarters.items()}
    return (
        rows == table
        and bool(in_report)
        and summary.get("lines") == lines
        and summary.get("total") == total
        and summary.get("largest_line") == "Salaries"
    )


TASK = Task(
    name="budget-report",
    environment="linked-document",
    material=MATERIAL,
    behaviors=BEHAVIORS,
    strong={"by_hand": 7, "by_script": 7, "share_forgotten": 2},
    weak={"by_hand": 3, "by_script": 1, "share_forgotten": 5, "sums_not_updated": 4, "report_left": 3},
    oracle=oracle,
)
