"""What the scorers of an Inspect sample said: which one is the verifier, its reward, and the proof of it."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from auditapp.importers.lenient import Repairs, UnreadableError, as_object, json_text
from auditapp.importers.options import ImportOptions
from judges.records import Json, Notice, VerifierRecord
from judges.safefs import MemoryTree

# As Inspect's own value_to_float reads them.
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def read_verifier(
    data: Mapping[str, Json], events: Sequence[Json], *, options: ImportOptions, repairs: Repairs, flags: Repairs
) -> VerifierRecord:
    """The verdict of a sample; raises UnreadableError where several scorers leave the choice to a person."""
    scores = as_object(data.get("scores"), at="scores", repairs=repairs)
    values = dict(_values(scores, repairs=repairs))
    name = _chosen(values, options.verifier)
    rewards = {key: value for key, value in values.items() if value is not None}
    reward = values[name] if name else None
    _flag(scores, events, flags=flags)
    streams = _streams(scores, events, limit=options.limits.text_bytes, repairs=repairs)
    proof = _invalid(data, is_scored=bool(scores))
    if proof is not None:
        return VerifierRecord("invalid", proof.code, reward, rewards, streams, proof)
    reason = "" if reward is not None else "unscored" if scores else "no_score"
    return VerifierRecord(options.status(reward), reason, reward, rewards, streams)


def _values(scores: Mapping[str, Json], *, repairs: Repairs) -> Iterator[tuple[str, float | None]]:
    """Each value by the name of its scorer; those of a scorer that gives several are `scorer/value`."""
    for name, score in scores.items():
        value = score.get("value") if isinstance(score, dict) else score
        if isinstance(value, dict):
            for key, item in value.items():
                yield f"{name}/{key}", _number(item, at=f"scores.{name}.{key}", repairs=repairs)
        else:
            yield name, _number(value, at=f"scores.{name}", repairs=repairs)


def _number(value: Json, *, at: str, repairs: Repairs) -> float | None:
    """The reward a score stands for; None where it stands for none."""
    if value is None:
        return None  # NaN, which is how a scorer says that it did not score
    if isinstance(value, str):
        value = _LETTERS.get(value, _WORDS.get(value.lower(), value))
    try:
        number = float(value) if isinstance(value, (str, int, float)) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if math.isfinite(number):
        return number
    repairs.add("reward_not_a_number", at, json_text(value)[:100])
    return None


def _chosen(values: Mapping[str, float | None], wanted: str | None) -> str | None:
    """The value that is the verifier's: the named one, else the only one; None where nothing was scored."""
    if not values:
        return None
    named = [name for name in values if wanted in (None, name, name.partition("/")[0])]
    if wanted in values:
        return wanted
    if len(named) == 1:
        return named[0]
    names = ", ".join(sorted(values))
    if wanted is not None and not named:
        raise UnreadableError(f"has no scorer named {wanted!r}; its scorers are: {names}")
    raise UnreadableError(f"has several scorers; name the verifier with --verifier, one of: {names}")


def _invalid(data: Mapping[str, Json], *, is_scored: bool) -> Notice | None:
    """Why no reward may count: a person said so, or the sample broke before anything was scored."""
    invalidation = data.get("invalidation")
    if invalidation:
        return Notice("invalidated", "invalidation", _told(invalidation, "reason"))
    if data.get("error") and not is_scored:
        return Notice("verifier_did_not_run", "error", _told(data["error"], "message"))
    return None


def _told(value: Json, key: str) -> str:
    text = value.get(key) if isinstance(value, dict) else value
    return (text if isinstance(text, str) else json_text(value))[:500]


def exception(data: Mapping[str, Json]) -> str:
    """What ended the attempt other than the agent: an error, else a limit; empty where neither was recorded."""
    if data.get("error"):
        return _told(data["error"], "message")
    limit = data.get("limit")
    if isinstance(limit, dict):
        return f"limit reached: {limit.get('type')} {limit.get('limit')}"
    return f"limit reached: {json_text(limit)[:100]}" if limit else ""


def score_edits(data: Mapping[str, Json]) -> dict[str, Json]:
    """The history of each score that people changed; its first item is what the scorer had said."""
    scores = data.get("scores")
    found = scores.items() if isinstance(scores, dict) else ()
    histories = ((name, score.get("history")) for name, score in found if isinstance(score, dict))
    return {name: history for name, history in histories if history}


def _flag(scores: Mapping[str, Json], events: Iterable[Json], *, flags: Repairs) -> None:
    for name, history in score_edits({"scores": scores}).items():
        first = history[0].get("value") if isinstance(history, list) and isinstance(history[0], dict) else None
        flags.add("score_edited", f"scores.{name}", f"the scorer had said {json_text(first)[:100]}")
    asked = sum(event.get("event") == "score" and event.get("intermediate") is True for event in events)
    if asked:
        # An agent with several tries is told whether the last one was right.
        flags.add("verifier_asked_during_run", "", f"{asked} times")


def _streams(scores: Mapping[str, Json], events: Sequence[Json], *, limit: int, repairs: Repairs) -> MemoryTree | None:
    files = {}
    if scores:
        files["scores.txt"] = "".join(f"{line}\n" for line in _lines(scores)).encode()
    if events:
        files["scorer_events.jsonl"] = b"".join(_within(events, limit, repairs))
    return MemoryTree(files) if files else None


def _lines(scores: Mapping[str, Json]) -> Iterator[str]:
    """Each field of a score from a line of its own, so that a citation can name it."""
    for name, score in scores.items():
        fields = score.items() if isinstance(score, dict) else [("value", score)]
        for key, value in fields:
            yield f"{name}.{key}: {value if isinstance(value, str) else json_text(value)}"


def _within(events: Iterable[Json], limit: int, repairs: Repairs) -> Iterator[bytes]:
    for number, event in enumerate(events, start=1):
        line = json_text(event).encode() + b"\n"
        limit -= len(line)
        if limit < 0:
            repairs.add("verifier_output_cut", "scorer_events.jsonl", f"from event {number} on")
            return
        yield line
