"""Findings a program can make while it imports a Harbor trial: facts with a place, never verdicts."""

import re
from collections.abc import Iterator, Mapping

from auditapp.importers.harbor_layout import Trial
from auditapp.importers.harbor_verifier import keeps_stale_rewards, producer_version, verifier_mode
from auditapp.importers.lenient import Repairs, dig
from judges.records import Action, Json, StepRecord

_ROOT = r"(?<![\w./~-])"
_END = r"(?=[/\s\"'`;|&)\]}:,]|$)"
_PLACES = {
    "verifier_files": re.compile(rf"{_ROOT}/logs/verifier{_END}"),
    "tests": re.compile(rf"{_ROOT}/tests{_END}"),
    "solution": re.compile(rf"{_ROOT}/(?:solution|oracle){_END}"),
    "reward": re.compile(r"\breward\.(?:txt|json)\b"),
}
_MENTIONS = ("/logs/verifier", "/tests", "/solution", "/oracle", "reward.txt", "reward.json")
_WRITING_COMMAND = re.compile(
    r"(?:>{1,2}\s*|\btee\s+(?:-a\s+)?)[\"']?(/[^\s\"';|&)]+|[\w./-]*reward\.(?:txt|json))"
    r"|\b(?:cp|mv|rm|ln|touch|mkdir|chmod|install|rsync|sed\s+-i)\b([^;|&\n]*)"
    r"|\bopen\(\s*[\"']([^\"']+)[\"']\s*,\s*[\"'][wax]"
)
_WRITING_TOOL = re.compile(r"write|edit|create|replace|insert|patch", re.IGNORECASE)
_PATH_ARGUMENTS = ("file_path", "path", "filename", "target_file")
_MULTIPLIERS = (
    "timeout_multiplier",
    "agent_timeout_multiplier",
    "verifier_timeout_multiplier",
    "agent_setup_timeout_multiplier",
    "environment_build_timeout_multiplier",
)


def flag_actions(steps: tuple[StepRecord, ...], *, flags: Repairs) -> None:
    """Flag steps in which the agent touched the verifier's folders, the tests, the solution or a reward file."""
    for step in steps:
        codes = {code for action in step.actions for code in _touched(action)}
        for code in sorted(codes):
            flags.add(code, step.locator)


def _touched(action: Action) -> Iterator[str]:
    text = "\n".join(_texts(action.arguments))
    if not any(mention in text for mention in _MENTIONS):
        return
    written = "\n".join(_written(action, text))
    for place, pattern in _PLACES.items():
        if pattern.search(written):
            yield f"agent_wrote_{place}"
        elif pattern.search(text) and place != "reward":
            yield f"agent_read_{place}"


def _texts(value: Json) -> Iterator[str]:
    """All strings of an argument value, four levels deep: deeper ones are no commands."""
    todo = [(value, 0)]
    while todo:
        item, depth = todo.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping) and depth < 4:
            todo += [(part, depth + 1) for part in item.values()]
        elif isinstance(item, list) and depth < 4:
            todo += [(part, depth + 1) for part in item]


def _written(action: Action, text: str) -> Iterator[str]:
    """Paths an action writes to, as far as its form tells."""
    if _WRITING_TOOL.search(action.name) and isinstance(action.arguments, Mapping):
        for key in _PATH_ARGUMENTS:
            value = action.arguments.get(key)
            if isinstance(value, str):
                yield value
        return
    for match in _WRITING_COMMAND.finditer(text):
        yield next(group for group in match.groups() if group is not None)


def flag_settings(trial: Trial, *, flags: Repairs) -> None:
    """Flag settings that make this trial unlike the others of its task, and a Harbor version with a known gap."""
    for name in _MULTIPLIERS:
        value = trial.config.get(name)
        if isinstance(value, (int, float)) and value != 1:
            flags.add("setting_override", "config.json", f"{name} = {value}")
    for section in ("agent", "environment", "verifier"):
        settings = trial.config.get(section)
        for name, value in settings.items() if isinstance(settings, dict) else ():
            if name.startswith("override_") and value not in (None, [], {}):
                flags.add("setting_override", "config.json", f"{section}.{name} = {str(value)[:60]}")
    if trial.config.get("override_error_policy"):
        flags.add("setting_override", "config.json", "override_error_policy")
    version, mode = producer_version(trial), verifier_mode(trial)
    if keeps_stale_rewards(version, mode):
        flags.add("stale_reward_possible", "lock.json", f"Harbor {version}, {mode or 'shared by default'}")
    if trial.config.get("extra_instructions") or trial.config.get("extra_instruction_paths"):
        flags.add("extra_instructions", "config.json", "the agent was told more than the task says")
    if dig(trial.config, "source_trial"):
        flags.add("judged_again", "config.json", "the verifier ran over the work of another trial")
