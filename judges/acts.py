"""What each action of a trajectory did, told from its words: edit, read, test, look into history. Any tool naming.

An act is what was attempted; `failed` says whether its observation shows that it did not work. Nothing is guessed:
what is not recognised is "other" or "run".
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import re2

from judges.hints import stated_exit_code
from judges.records import Action, Observation, StepRecord
from judges.shell import Command, commands

Kind = Literal[
    "edit", "create", "delete", "read", "list", "test", "check", "build", "run", "vcs_read", "vcs_write",
    "install", "network", "wait", "plan", "message", "noop", "other",
]  # fmt: skip
Json = Any
_EDGE = 6_000
_ERROR_EDGE = 3_000
_GLANCE = 100
_COMMENT_KEYS = ("description:", "timeout:", "duration:", "security_risk:")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_EDITOR_COMMANDS: dict[str, Kind] = {
    "view": "read",
    "create": "create",
    "str_replace": "edit",
    "insert": "edit",
    "undo_edit": "edit",
}
# Commands of agents whose editor is driven by lines like those of a shell.
_EDITOR_LINES: dict[str, Kind] = {
    **dict.fromkeys(("edit", "insert", "append"), "edit"),
    **dict.fromkeys(("open", "search_dir", "search_file"), "read"),
    "create": "create",
    "find_file": "list",
}
_SHELL_TOOL = re.compile(r"bash|shell|terminal|command|^(?:exec|execute|run|cmd|sh)$|keystroke|run_in|exec_", re.I)
_SHELL_KEYS = ("command", "cmd", "keystrokes", "script", "commands", "input", "code")
_PATH_KEYS = ("path", "file_path", "filename", "file_name", "file", "target_file", "notebook_path", "filepath")
_EDIT_TOOL = re.compile(r"(?:^|_)(?:multi)?(?:edit|str_replace|replace|insert|patch|apply)|^(?:notebook)?edit$", re.I)
_CREATE_TOOL = re.compile(r"(?:^|_)(?:write|create|save)(?:$|_|file)", re.I)
_READ_TOOL = re.compile(r"(?:^|_)(?:read|open|view|cat)(?:$|_|file)|^(?:grep|search_file|search_dir)$", re.I)
_LIST_TOOL = re.compile(r"(?:^|_)(?:list|ls|glob|find|tree)(?:$|_|file|dir)", re.I)
_PLAN_TOOL = re.compile(r"todo|plan|task_tracker", re.I)
_WAIT_TOOL = re.compile(r"wait|sleep|taskoutput|bashoutput|poll", re.I)

_READERS = _words("cat head tail less more bat nl grep egrep rg ag awk xxd hexdump od strings jq cut zcat")
_LISTERS = _words(
    "ls find tree pwd wc file stat du which type whereis locate df id whoami uname env printenv ps pgrep date"
)
_RUNNERS = _words("pytest py.test tox nox jest vitest mocha ctest rspec phpunit nosetests bats")
_TEST_TEXT = re.compile(
    r"^(?:python[\d.]*|uv run|poetry run|pipenv run)(?: -[a-zA-Z]+)*(?: python[\d.]*)?(?: -m)? "
    r"(?:pytest|unittest|nose2?|doctest|tox)\b"
    r"|^(?:npm|yarn|pnpm|bun)(?: run)? test|^npx (?:jest|vitest|mocha|playwright test)"
    r"|^(?:go|cargo|dotnet|mix|swift|stack|cabal|deno|zig build|bazel) (?:test|nextest)\b"
    r"|^(?:mvn|gradle|gradlew|sbt)\b.* (?:test|verify|check)\b"
    r"|^(?:make|just|task|rake|ninja|bundle exec (?:rake|rspec)) ?(?:\S+ )*(?:test\w*|check|rspec)\b"
)
_TEST_FILE = re.compile(
    r"(?:^|[/_.-])(?:tests?|specs?)(?:$|[/_.-])|(?:^|/)test[A-Z_]\w*\.|_test\.\w+$|conftest\.py$", re.I
)
_SCRIPT_TEST = re.compile(r"(?:^|/)(?:run_?)?tests?[\w-]*\.(?:py|sh|js|ts|rb|pl|R)$|_tests?\.(?:py|sh|js|rb)$", re.I)
_BUILDERS = _words("make cmake gcc g++ cc clang javac rustc tsc coqc ghc ninja mypy ruff eslint ocamlc dune")
_BUILD_TEXT = re.compile(r"^(?:go|cargo|npm run|yarn|dotnet|stack|cabal) (?:build|vet|check|lint)\b|-m py_compile\b")
_INSTALLERS = re.compile(
    r"^(?:pip[\d.]*|uv pip|python[\d.]* -m pip|apt(?:-get)?|apk|yum|dnf|brew|conda|gem|cargo|go|npm|yarn|pnpm|opam"
    r"|poetry|uv) (?:-\S+ )*(?:install|add|get|update|upgrade|i|ci)\b"
)
_VCS_READ = frozenset({"log", "show", "reflog", "cat-file", "rev-list", "fsck", "blame", "whatchanged", "shortlog"})
_VCS_WRITE = _words(
    "commit init checkout switch restore reset revert apply merge rebase cherry-pick stash push pull am rm mv"
)
_LOCAL = re.compile(r"localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\]")
_SINKS = re.compile(r"^(?:/dev/|&|\d+$|$)")
_WRITES = re.compile(
    r"open\([^()\n]+,\s*[\"'][wax]|\.write_(?:text|bytes)\(|\.to_(?:csv|json|excel)\(|shutil\.(?:copy|move)"
)
_NAMES_FILE = re.compile(r"(?:open|Path|to_csv|to_json)\(\s*[\"']([^\"'\n]+)[\"']")
# A script that compares and has a word for the case that the comparison fails.
_COMPARES = re2.compile(r"(?i)(?:==|!=|<=|>=)[^\n]*\b(?:mismatch|fail\w*|wrong|differs?|bad|error)\b")
_ASSERTS = re2.compile(r"(?m)^[ \t]*assert\b|[;:] *assert\b")
_FAILED = re2.compile(
    rb"(?m)^Exit code [1-9]|<tool_use_error>|\[error\] tool reported failure|command not found|^E(?:rror|RROR)\b"
    rb"|Traceback \(most recent call last\)|No such file or directory|exit(?:ed with)? code:? [1-9]"
    rb"|syntax error near|String to replace not found|No replacement was performed|requested permissions to"
    rb"|Your proposed edit has introduced"
)

_BACKGROUND = re.compile(r"running in (?:the )?background", re.I)


@dataclass(frozen=True, slots=True)
class Act:
    """One thing an action did. `item` counts actions of the step from 1, `line` the lines of the action's rendering.

    `output` is the raw text of the observation (the middle of a long one left out), None where none belongs to the
    action. `failed` is whether it shows that the action did not work; None where it is missing or says only that
    something began. `same_action` and `same_output` are equal for actions that do, and observations that say, the same.
    """

    kind: Kind
    at: str
    item: int
    line: int
    text: str
    paths: tuple[str, ...] = ()
    output: str | None = None
    observation: int = 0
    failed: bool | None = None
    same_action: str = ""
    same_output: str = ""

    @property
    def worked(self) -> bool:
        """Whether there is an observation and it shows no failure."""
        return self.failed is False


def is_test_path(path: str) -> bool:
    """Whether a path looks like tests, test configuration or fixtures."""
    return _TEST_FILE.search(path) is not None


def acts_of(step: StepRecord) -> list[Act]:
    """All acts of one step in order; empty for a step that is not the agent's."""
    if step.source not in ("agent", "unknown"):
        return []
    return [act for index in range(len(step.actions)) for act in _acts_of_action(step, index)]


def _acts_of_action(step: StepRecord, index: int) -> Iterator[Act]:
    number, seen = observation_of(step, index)
    failed = None if seen is None else _failed(seen)
    same_action = _digest(_without_comments(step.actions[index].text))
    same_output = _digest(seen.text if seen else "")
    for kind, line, text, paths in _classify(step.actions[index]):
        output = None if seen is None else _clipped(seen.text, _EDGE if kind in ("test", "check") else _GLANCE)
        yield Act(kind, step.locator, index + 1, line, text, paths, output, number, failed, same_action, same_output)


def _clipped(text: str, edge: int) -> str:
    return text if len(text) <= 2 * edge else f"{text[:edge]}\n{text[-edge:]}"


def _failed(seen: Observation) -> bool | None:
    """Whether an observation shows a failure; None where it says only that something began."""
    if _BACKGROUND.search(seen.text[:300]):
        return None
    code = seen.exit_code if seen.exit_code is not None else stated_exit_code(seen.text)
    if code:
        return True
    return _FAILED.search(_clipped(seen.text, _ERROR_EDGE).encode("utf-8", "replace")) is not None


def _without_comments(rendering: str) -> str:
    """The action without what does not change what it does: descriptions, time limits, blanks."""
    lines = rendering.split("\n")
    return " ".join(" ".join(line for line in lines if not line.startswith(_COMMENT_KEYS)).split())


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def observation_of(step: StepRecord, index: int) -> tuple[int, Observation | None]:
    """The 1-based number and the observation of action `index`: by call id, else by position, else the only one."""
    call_id = step.actions[index].call_id
    for number, seen in enumerate(step.observations, 1):
        if call_id is not None and seen.call_id == call_id:
            return number, seen
    if len(step.observations) == len(step.actions) and all(seen.call_id is None for seen in step.observations):
        return index + 1, step.observations[index]
    if len(step.observations) == len(step.actions) == 1:
        return 1, step.observations[0]
    return 0, None


_Found = tuple[Kind, int, str, tuple[str, ...]]


def _classify(action: Action) -> Iterator[_Found]:
    arguments = action.arguments
    script = _script(action.name, arguments)
    if script is not None:
        yield from _shell(action, script)
    else:
        yield _tool(action, arguments if isinstance(arguments, Mapping) else {})


def _script(name: str, arguments: Mapping[str, Json] | str) -> str | None:
    if isinstance(arguments, str):
        return arguments if _SHELL_TOOL.search(name) else None
    if any(key in arguments for key in _PATH_KEYS) and arguments.get("command") in _EDITOR_COMMANDS:
        return None
    keys = _SHELL_KEYS if _SHELL_TOOL.search(name) else ("keystrokes",)
    for key in keys:
        value = arguments.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            return value[-1] if len(value) == 3 and value[1] in ("-c", "-lc") else " ".join(value)
    return None


def _tool(action: Action, arguments: Mapping[str, Json]) -> _Found:
    name = action.name
    paths = tuple(value for key in _PATH_KEYS if isinstance(value := arguments.get(key), str))
    command = arguments.get("command")
    line = _first_line(action.text, paths[0] if paths else "")
    if isinstance(command, str) and command in _EDITOR_COMMANDS:
        return _EDITOR_COMMANDS[command], line, f"{command} {paths[0]}", paths
    text = f"{name} {paths[0]}" if paths else name
    patterns: tuple[tuple[re.Pattern[str], Kind], ...] = (
        (_PLAN_TOOL, "plan"), (_WAIT_TOOL, "wait"), (_EDIT_TOOL, "edit"), (_CREATE_TOOL, "create"),
        (_READ_TOOL, "read"), (_LIST_TOOL, "list"),
    )  # fmt: skip
    for pattern, kind in patterns:
        # A tool of the task's own world (book_flight, update_order) has no path: it is no edit of files.
        if pattern.search(name) and (paths or kind in ("plan", "wait")):
            return kind, line, text, paths
    return "other", line, text, paths


def _shell(action: Action, script: str) -> Iterator[_Found]:
    offset = _first_line(action.text, script)
    found = commands(script)
    if not found:
        yield "noop", offset, "", ()
    elif found[0].name in _EDITOR_LINES:
        # The lines after it are the new text, not commands.
        yield _EDITOR_LINES[found[0].name], offset, found[0].text, _editor_paths(found[0])
        return
    for command in found:
        for kind, paths in _shell_acts(command):
            yield kind, offset + command.line, command.text, paths


def _editor_paths(command: Command) -> tuple[str, ...]:
    """The path of `create` and `open`; the other editor commands work on the file that is open."""
    return command.operands[:1] if command.name in ("create", "open") else ()


def _first_line(rendering: str, value: str) -> int:
    """The 1-based line of the action's rendering on which an argument's value begins."""
    at = rendering.find(value) if value else -1
    return 1 if at < 0 else rendering.count("\n", 0, at) + 1


def _shell_acts(command: Command) -> Iterator[tuple[Kind, tuple[str, ...]]]:
    kind, paths = _program(command)
    yield kind, paths
    written = tuple(target for op, target in command.redirects if op in (">", ">>", ">|") and not _SINKS.match(target))
    if written and kind != "noop":
        yield ("create" if kind in ("other", "read", "message") else "edit"), written
    source = f"{command.text}\n{command.body}"
    if kind in ("run", "check") and _WRITES.search(source):
        yield "edit", tuple(_NAMES_FILE.findall(source))


def _program(command: Command) -> tuple[Kind, tuple[str, ...]]:
    name, operands = command.name, command.operands
    if name in ("", ":", "true"):
        return "noop", ()
    if name == "git":
        return _git(command), operands[1:]
    if name == "cd":
        return "noop", ()
    for test, kind in _PROGRAMS:
        if test(command):
            return kind, _operand_paths(name, operands)
    return "other", operands


def _operand_paths(name: str, operands: tuple[str, ...]) -> tuple[str, ...]:
    # The first operand of these is a pattern or a program text.
    return operands[1:] if name in ("grep", "egrep", "rg", "ag", "awk", "sed", "jq") else operands


def _git(command: Command) -> Kind:
    words = [word for word in command.arguments if not word.startswith("-")]
    verb = words[0] if words else ""
    if "-C" in command.arguments and len(words) > 1:
        verb = words[1]
    if verb == "stash" and words[1:2] and words[1] in ("list", "show"):
        return "vcs_read"
    if verb in _VCS_READ:
        return "vcs_read"
    if verb == "clone":
        return "network"
    return "vcs_write" if verb in _VCS_WRITE else "list"


def _is_test(command: Command) -> bool:
    text = " ".join([command.name, *command.arguments])
    if command.name in _RUNNERS or _TEST_TEXT.search(text):
        return not {"--version", "--help", "--collect-only", "--co"} & set(command.arguments)
    runs_script = command.name.startswith("python") or command.name in ("bash", "sh", "node", "ruby", "Rscript", "perl")
    script = next(iter(command.operands), "") if runs_script else command.words[0]
    return _SCRIPT_TEST.search(script) is not None and (runs_script or "/" in script)


def _is_check(command: Command) -> bool:
    if command.name in ("diff", "cmp"):
        return True
    if command.name.endswith(("sum", "sums")) and "-c" in command.arguments:
        return True
    source = "\n".join([*command.arguments, command.body])
    asserts = _ASSERTS.search(source) or _COMPARES.search(source)
    return command.name.startswith("python") and asserts is not None


def _is_run(command: Command) -> bool:
    interpreters = ("node", "ruby", "perl", "php", "java", "Rscript", "sqlite3", "psql", "mysql", "curl", "wget", "nc")
    return command.name.startswith("python") or command.name in interpreters or "/" in command.words[0]


def _is_network(command: Command) -> bool:
    return command.name in ("curl", "wget") and not _LOCAL.search(command.text)


def _is_write(command: Command) -> bool:
    if command.name == "sed":
        return any(re.match(r"-[a-z]*i|--in-place", word) for word in command.arguments)
    return command.name in (
        "tee",
        "patch",
        "truncate",
        "dd",
        "cp",
        "mv",
        "ln",
        "install",
        "chmod",
        "unzip",
        "tar",
        "perl",
    )


_PROGRAMS: tuple[tuple[Any, Kind], ...] = (
    (_is_test, "test"),
    (_is_check, "check"),
    (lambda c: _INSTALLERS.search(f"{c.name} {' '.join(c.arguments)}"), "install"),
    (_is_network, "network"),
    (lambda c: c.name in _BUILDERS or _BUILD_TEXT.search(f"{c.name} {' '.join(c.arguments)}"), "build"),
    (lambda c: c.name in ("sleep", "wait", "tmux", "clear", "reset"), "wait"),
    (lambda c: c.name in ("rm", "rmdir", "shred", "unlink"), "delete"),
    (_is_write, "edit"),
    (lambda c: c.name in _READERS or c.name == "sed", "read"),
    (lambda c: c.name in _LISTERS, "list"),
    (lambda c: c.name in ("echo", "printf"), "message"),
    (_is_run, "run"),
)
