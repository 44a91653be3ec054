"""How many rows stand behind a figure, by the figures of each stratum: no list has to be gone through to be counted."""

from collections.abc import Mapping, Sequence

from auditapp.sections.figures import YES_NO, Json

PLACES = {"verdict": "verifier_status"} | {name: name for name in ("environment", "model", "agent", "effort")}
"""What an address may narrow a list by, and what a stratum calls it."""
_WHO = {"people_said": "human", "judge_said": "judge"}


def rows_counted(strata: Sequence[Json], wanted: Mapping[str, str], *, failing: Sequence[str]) -> int | None:
    """How many units of `by_stratum` a list that is narrowed like this holds; None where its figures do not tell.

    `failing` are the verdicts that "fail" stands for.
    """
    place = {PLACES[key]: value for key, value in wanted.items() if key in PLACES}
    said = [row for row in wanted.items() if row[0] not in PLACES]
    if len(said) > 1 or not all(key in _WHO for key, _ in said):
        return None
    inside = [row for row in strata if all(_is(row, key, value, failing) for key, value in place.items())]
    found = [_said(row, *said[0]) if said else row["drawn"] for row in inside]
    return None if None in found else sum(n for n in found if n is not None)


def _is(row: Json, key: str, value: str, failing: Sequence[str]) -> bool:
    return row[key] in failing if (key, value) == (PLACES["verdict"], "fail") else bool(row[key] == value)


def _said(row: Json, key: str, answer: str) -> int | None:
    """How many of a stratum got this answer; "wrong" counts the one that contradicts the verdict.

    A judge was to look at every unit: those of which it gave no answer are among the undecided, and not "unknown".
    """
    found = row[_WHO[key]]
    decided, wrong = found["decided"], found["wrong"]
    answered = found["looked_at"] if key == "people_said" else found["answered"]
    if answer in YES_NO:
        return int(wrong if answer == ("no" if row["verifier_status"] == "pass" else "yes") else decided - wrong)
    known = {"decided": decided, "any": answered, "unknown": answered - decided}
    return known.get(answer, row["drawn"] - decided if (key, answer) == ("judge_said", "undecided") else None)
