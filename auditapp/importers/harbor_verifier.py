"""What the verifier of a Harbor trial said, from sources that may disagree and are therefore kept apart."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from auditapp.importers.bootstrap import set_up_failure
from auditapp.importers.harbor_layout import Part, Trial
from auditapp.importers.harbor_policy import leaves_reward_valid
from auditapp.importers.lenient import Repairs, UnreadableError, as_objects, dig, loads
from auditapp.importers.options import ImportOptions
from auditapp.importers.trees import joined, read_member
from judges.records import FileTree, Json, Notice, VerifierRecord, VerifierStatus

Rewards = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Sources:
    """Rewards by the file that tells them; None where there is no such file or it tells none."""

    result: Rewards | None
    txt: Rewards | None
    json: Rewards | None

    def files(self) -> dict[str, Rewards]:
        """The reward files that tell something, by name."""
        found = {"reward.txt": self.txt, "reward.json": self.json}
        return {name: rewards for name, rewards in found.items() if rewards}

    def to_json(self) -> Json:
        """For display: which file told what."""
        told = {"result.json": self.result, **self.files()}
        return {name: dict(rewards) for name, rewards in told.items() if rewards is not None}


def read_verifier(
    trial: Trial, sources: Mapping[str, Sources], *, options: ImportOptions, flags: Repairs
) -> VerifierRecord:
    """The verdict of a trial, or why there is none; `sources` is `reward_sources(trial)`."""
    streams = _streams(trial)
    if trial.result is None:
        return VerifierRecord("none", "incomplete", streams=streams)
    rewards = sources[""].result or {}
    reward = primary_reward(rewards, name=options.verifier)
    invalid = _invalid(trial, has_rewards=bool(rewards))
    if invalid is not None:
        return VerifierRecord("invalid", invalid.code, reward, rewards, streams, invalid)
    if reward is None:
        reason = _why_no_reward(trial, rewards, name=options.verifier)
        status: VerifierStatus = "invalid" if reason == "reward_not_a_number" else "none"
        return VerifierRecord(status, reason, None, rewards, streams)
    failed = set_up_failure(streams, limits=options.limits)
    if failed is not None and failed.proven and reward <= 0:
        return VerifierRecord("invalid", "verifier_did_not_run", reward, rewards, streams, failed.line)
    if failed is not None:
        flags.add("verifier_bootstrap_failure", failed.line.locator, failed.line.detail)
    _flag_oddities(reward, streams=streams, flags=flags)
    return VerifierRecord(options.status(reward), "", reward, rewards, streams)


def _flag_oddities(reward: float, *, streams: FileTree | None, flags: Repairs) -> None:
    if reward < 0:
        flags.add("negative_reward", "result.json", f"{reward}: often written when a verifier crashed")
    if streams is None or not streams.entries():
        flags.add("verifier_output_missing", "verifier")


def primary_reward(rewards: Rewards, *, name: str | None) -> float | None:
    """The reward that counts: the named one, else `reward`, else the only one; None where that leaves a choice."""
    if name is not None:
        return rewards.get(name)
    if "reward" in rewards:
        return rewards["reward"]
    return next(iter(rewards.values())) if len(rewards) == 1 else None


def _why_no_reward(trial: Trial, rewards: Rewards, *, name: str | None) -> str:
    recorded = dig(trial.result or {}, "verifier_result", "rewards")
    if rewards:
        wanted = f"no reward is called {name}" if name else "several rewards"
        trial.repairs.add("reward_ambiguous", "result.json", f"{wanted}; name one of: {', '.join(sorted(rewards))}")
        return "reward_not_chosen"
    if isinstance(recorded, dict) and recorded:
        return "reward_not_a_number"
    if dig(trial.config, "verifier", "disable") is True or trial.config.get("install_only") is True:
        return "verifier_disabled"
    return "no_reward"


def _invalid(trial: Trial, *, has_rewards: bool) -> Notice | None:
    """The recorded exception that makes a reward count for nothing; its code is the exception's type."""
    for where, info in recorded_exceptions(trial):
        if not leaves_reward_valid(info):
            kind = str(info.get("exception_type") or "unknown")[:100]
            message = str(info.get("exception_message") or "").strip().split("\n")[0]
            return Notice(kind, where, message[:300])
    if has_rewards and trial.result is not None and trial.result.get("reward_valid") is False:
        return Notice("reward_invalid", "result.json", "reward_valid is false")
    return None


def recorded_exceptions(trial: Trial) -> Iterator[tuple[str, dict[str, Json]]]:
    """Place and `exception_info` of the trial and of each of its steps."""
    result = trial.result or {}
    if isinstance(result.get("exception_info"), dict):
        yield "result.json", result["exception_info"]
    for step in step_results(trial):
        if isinstance(step.get("exception_info"), dict):
            yield f"result.json step {str(step.get('step_name'))[:60]}", step["exception_info"]


def step_results(trial: Trial) -> list[dict[str, Json]]:
    """The results of a multi-step trial; empty for single-step ones."""
    return as_objects(dig(trial.result or {}, "step_results"), at="result.json step_results", repairs=trial.repairs)


def _streams(trial: Trial) -> FileTree | None:
    trees = {part.name: part.verifier for part in trial.parts if part.verifier is not None}
    return joined(trees) if trees else None


def reward_sources(trial: Trial, *, options: ImportOptions) -> dict[str, Sources]:
    """Sources by step name; the trial itself has the name "", which for several steps has no reward files."""
    found = {"": Sources(_recorded(trial.result or {}, trial=trial), None, None)}
    results = {str(step.get("step_name")): step for step in step_results(trial)}
    for part in trial.parts:
        result = (trial.result or {}) if not part.name else results.get(part.name, {})
        txt = _reward_txt(part, trial=trial, options=options)
        found[part.name] = Sources(
            _recorded(result, trial=trial), txt, _reward_json(part, trial=trial, options=options)
        )
    return found


def flag_conflicts(trial: Trial, sources: Mapping[str, Sources], *, flags: Repairs) -> None:
    """Flag every step whose reward files tell another reward than `result.json`, or than each other."""
    for name, source in sources.items():
        told = source.files()
        if trial.result is not None and (told or not name) and (name or len(trial.parts) <= 1):
            told = {"result.json": source.result or {}, **told}
        values = list(told.values())
        if any(_differ(values[0], other) for other in values[1:]):
            flags.add("reward_conflict", name, "; ".join(f"{key}: {_shown(value)}" for key, value in told.items()))


def _shown(rewards: Rewards) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in sorted(rewards.items())) or "none"


def _differ(one: Rewards, other: Rewards) -> bool:
    shared = one.keys() & other.keys()
    if not shared:
        return True
    return any(not math.isclose(one[name], other[name], abs_tol=1e-9) for name in shared)


def _recorded(result: Mapping[str, Json], *, trial: Trial) -> Rewards | None:
    rewards = dig(result, "verifier_result", "rewards")
    return _numbers(rewards, at="result.json", repairs=trial.repairs) if isinstance(rewards, dict) else None


def _numbers(rewards: Mapping[str, Json], *, at: str, repairs: Repairs) -> Rewards:
    numbers: dict[str, float] = {}
    for name, value in rewards.items():
        if isinstance(value, (int, float)) and math.isfinite(value):
            numbers[name[:200]] = float(value)
        else:
            repairs.add("reward_not_a_number", at, f"{name[:100]}: {str(value)[:60]}")
    return numbers


def _reward_txt(part: Part, *, trial: Trial, options: ImportOptions) -> Rewards | None:
    raw = _reward_file(part, "reward.txt", trial=trial, options=options)
    if raw is None:
        return None
    try:
        value = float(raw.decode().strip())
    except ValueError:
        trial.repairs.add("reward_not_a_number", "reward.txt", raw[:60].decode("utf-8", "replace"))
        return None
    return _numbers({"reward": value}, at="reward.txt", repairs=trial.repairs)


def _reward_json(part: Part, *, trial: Trial, options: ImportOptions) -> Rewards | None:
    raw = _reward_file(part, "reward.json", trial=trial, options=options)
    if raw is None:
        return None
    try:
        value = loads(raw, name="reward.json", repairs=trial.repairs, limits=options.limits)
    except UnreadableError as error:
        trial.repairs.add("file_not_read", "reward.json", str(error))
        return None
    rewards = value if isinstance(value, dict) else {"reward": value}
    return _numbers(rewards, at="reward.json", repairs=trial.repairs)


def _reward_file(part: Part, name: str, *, trial: Trial, options: ImportOptions) -> bytes | None:
    if part.verifier is None:
        return None
    try:
        return read_member(part.verifier, name, limit=min(options.limits.json_bytes, 2**20))
    except KeyError:
        return None
    except UnreadableError as error:
        trial.repairs.add("file_not_read", name, str(error))
        return None


def producer_version(trial: Trial) -> str:
    """The Harbor version as the lock files tell it; empty where they do not."""
    for lock in (trial.lock, trial.job.lock):
        version = dig(lock, "harbor", "version")
        if isinstance(version, str):
            return version[:40]
    return ""


def verifier_mode(trial: Trial) -> str:
    """`shared`, `separate`, or empty where it was not recorded."""
    recorded = dig(trial.result or {}, "verifier_environment_mode") or dig(trial.lock, "verifier", "environment_mode")
    return recorded if recorded in ("shared", "separate") else ""


def read_first(version: str) -> str:
    """Which reward file this Harbor version believes where both exist; empty where nobody knows."""
    number = _version(version)
    if number is None:
        return ""
    # Somewhere between 0.6.0 and 0.7.1 the order was turned round.
    if number <= (0, 6, 0):
        return "reward.txt"
    return "reward.json" if number >= (0, 7, 1) else ""


def keeps_stale_rewards(version: str, mode: str) -> bool:
    """Whether a reward an agent left behind could have survived until the verifier's was read."""
    number = _version(version)
    return number is not None and (0, 7, 0) <= number < (0, 25, 0) and mode != "separate"


def _version(text: str) -> tuple[int, int, int] | None:
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,6}))?", text)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None
