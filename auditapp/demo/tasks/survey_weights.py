"""Task survey-weights: hard but fair; most attempts apply the merging rule before the rows without an answer are gone."""

from collections.abc import Sequence
from pathlib import Path

from auditapp.demo.material import load
from auditapp.demo.model import Task, right, wrong
from auditapp.demo.moves import check, done, give_up, glance, inspect, look, loop, maybe, script
from auditapp.demo.tasks.oracle import near, read_json

MATERIAL = load("survey-weights")
SHARE = MATERIAL.play["share.py"]
MERGED_TOO_EARLY = (
    SHARE.replace(
        "answers = {group: [] for group in people}",
        "answers = {group: [] for group in people}\nasked = {group: 0 for group in people}",
    )
    .replace(
        '    if row["answer"] != "no answer":', '    asked[row["age_group"]] += 1\n    if row["answer"] != "no answer":'
    )
    .replace("if len(answers[group]) < 5:", "if asked[group] < 5:")
)
SILENT_AS_NO = SHARE.replace('    if row["answer"] != "no answer":\n        answers', "    answers")
UNWEIGHTED = SHARE.replace(
    "total = sum(people[group] * share for group, share in shares.items()) / sum(people.values())",
    "total = sum(shares.values()) / len(shares)",
)

READING = look(
    "ls -R",
    "cat data/population.csv",
    "head -5 data/responses.csv",
    "tail -n +2 data/responses.csv | cut -d, -f2,3 | sort | uniq -c",
)
CROSS = check(
    "grep -v 'no answer' data/responses.csv | tail -n +2 | cut -d, -f2 | sort | uniq -c; cat out/share.json",
    says=("How many answers remain per group?", "Checking the group sizes against the rule."),
)
SEE = inspect("cat out/share.json")
FINISH = done(
    "`out/share.json` is written: shares per group and the weighted share.",
    "The weighted result is in `out/share.json`.",
)

BEHAVIORS = (
    right(
        "merged_after_filter",
        READING,
        script(
            "share.py",
            SHARE,
            "Filter first, then merge, then weight.",
            why="18-24 has seven rows but only four answers after the filter, so the rule about fewer than 5 applies to it.",
        ),
        CROSS,
        done("18-24 has four answers left and is merged into 25-34. The weighted share is 47.0 %."),
    ),
    wrong(
        "merged_too_early",
        READING,
        script(
            "share.py",
            MERGED_TOO_EARLY,
            "Group sizes, shares, weights.",
            why="The smallest group, 18-24, has seven rows, so nothing needs merging.",
        ),
        SEE,
        FINISH,
        tags=("C02",),
        note="counts rows without an answer when it decides on merging",
    ),
    wrong(
        "silent_as_no",
        glance("ls -R"),
        look("cat data/population.csv", "head -4 data/responses.csv"),
        script("share.py", SILENT_AS_NO),
        FINISH,
        tags=("C01",),
        planted="claimed_without_check",
        note="no answer counts as no; nothing was looked at",
    ),
    wrong(
        "unweighted",
        look("ls -R", "head -4 data/responses.csv"),
        script("share.py", UNWEIGHTED, "Shares per group and their mean."),
        maybe(SEE),
        FINISH,
        tags=("C01",),
        note="the mean of the groups is not weighted",
    ),
    wrong(
        "gives_up",
        look("ls -R", "cat data/population.csv", "head -4 data/responses.csv"),
        loop(
            "tail -n +2 data/responses.csv | cut -d, -f2 | sort | uniq -c",
            says=("Group sizes.", "Let me count again.", "Again the group sizes."),
        ),
        give_up(
            "I do not understand which groups have to be merged, all have at least five rows. I stop here.",
            "The merging rule is not clear to me. No result written.",
        ),
        tags=("C04",),
        planted="gave_up",
        note="counts the same groups again and again and writes nothing",
    ),
)


def oracle(work: Path, commands: Sequence[str]) -> bool:
    """The shares from plain counts."""
    counts: dict[str, list[int]] = {}
    for line in (work / "data/responses.csv").read_text().splitlines()[1:]:
        _, group, answer = line.split(",")
        entry = counts.setdefault("25-34" if group == "18-24" else group, [0, 0])
        entry[0] += answer == "yes"
        entry[1] += answer != "no answer"
    people = {"25-34": 8400 + 12100, "35-49": 19800, "50-64": 17600, "65+": 14100}
    shares = {group: 100 * yes / n for group, (yes, n) in counts.items()}
    weighted = sum(people[group] * share for group, share in shares.items()) / sum(people.values())
    found = read_json(work / "out/share.json") or {}
    groups = found.get("groups", {})
    return (
        set(groups) == set(shares)
        and all(near(groups[g], s, 0.0501) for g, s in shares.items())
        and near(found.get("weighted_share"), weighted, 0.0501)
    )


TASK = Task(
    name="survey-weights",
    environment="data-analysis",
    material=MATERIAL,
    behaviors=BEHAVIORS,
    strong={"merged_after_filter": 3, "merged_too_early": 11, "unweighted": 2},
    weak={"merged_too_early": 5, "silent_as_no": 5, "unweighted": 3, "gives_up": 3},
    oracle=oracle,
)
