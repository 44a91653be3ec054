"""The builder gives what ships, and refuses behaviors whose declared truth does not hold."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from auditapp.demo.build import BuildError, differences, main, play_all, schedule, shared_files
from auditapp.demo.material import parse_txtar
from auditapp.demo.model import ATTEMPTS, STRONG, WEAK, Agent
from auditapp.demo.moves import done, edit, loop
from auditapp.demo.shell import Shell, make_repository
from auditapp.demo.tasks import TASKS
from tests.demo.conftest import Shipped

BUILT_WITH = (3, 11)
same_python = pytest.mark.skipif(
    sys.version_info[:2] != BUILT_WITH, reason="error texts of other Python versions differ from the shipped ones"
)


@same_python
@pytest.mark.parametrize("agent", [STRONG, WEAK])
@pytest.mark.parametrize("name", ["refund-confirm", "ttl-cache"])
def test_rebuilding_gives_the_shipped_bytes(name: str, agent: Agent, shipped: Shipped) -> None:
    attempts = play_all(TASKS[name], agent, attempts=3)
    truth = {row.case: row for row in shipped.rows}
    assert len(attempts) == 3
    for attempt in attempts:
        assert differences(attempt.files, dict(shipped.files)) == []
        assert attempt.truth == truth[attempt.truth.case]


@pytest.mark.parametrize("name", sorted(TASKS))
def test_shared_files_are_the_shipped_ones(name: str, shipped: Shipped) -> None:
    assert differences(shared_files(TASKS[name]), dict(shipped.files)) == []


def test_a_behavior_that_the_verifier_contradicts_stops_the_build() -> None:
    task = TASKS["port-typo"]
    liar = replace(task.behavior("checked"), expects="fail")
    with pytest.raises(BuildError, match="port-typo/checked: the verifier says pass, expected fail"):
        play_all(replace(task, behaviors=(liar, task.behavior("unchecked"))), STRONG, attempts=1)


def test_a_mix_that_is_not_sixteen_attempts_stops_the_build() -> None:
    with pytest.raises(BuildError, match="15 attempts, not 16"):
        schedule(replace(TASKS["port-typo"], strong={"checked": 15}), STRONG)


def test_an_edit_of_a_passage_that_is_not_there_stops_the_build() -> None:
    task = TASKS["port-typo"]
    moves = (edit("config/printer.ini", "port = 4711", "port = 9100"), done("Done."))
    with pytest.raises(ValueError, match=r"port = 4711"):
        play_all(replace(task, behaviors=(replace(task.behavior("checked"), moves=moves),)), STRONG, attempts=1)


def test_behavior_codes_follow_from_what_was_done() -> None:
    task = TASKS["port-typo"]
    moves = (loop("python3 bin/print_label.py"), *task.behavior("unchecked").moves)
    mix = {"unchecked": ATTEMPTS}
    changed = replace(task, behaviors=(replace(task.behavior("unchecked"), moves=moves),), weak=mix)
    [attempt] = play_all(changed, WEAK, attempts=1)
    assert attempt.truth.tags == ("B01", "B06", "B07")


def test_check_compares_a_part_with_the_archive(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert (
        main(["--check", "--tasks", "port-typo", "--attempts", "1", "--jobs", "1", "--out", str(tmp_path / "x")]) == 0
    )
    assert "0 differences" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_commands_see_nothing_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SECRET", "hush")
    output = Shell(tmp_path).run("echo ${SOME_SECRET:-none} $TZ; pwd; exit 3")
    assert (output.text, output.code) == ("none UTC\n/workspace\n", 3)


def test_a_repository_is_the_same_each_time(tmp_path: Path) -> None:
    initial, history = {"a.txt": b"now\n"}, {"10@main/COMMIT_MSG": b"Old\n", "10@main/a.txt": b"old\n"}
    logs = {make_repository(Shell(tmp_path / name), initial=initial, history=history) for name in ("one", "two")}
    assert len(logs) == 1
    assert (tmp_path / "one/workspace/a.txt").read_bytes() == b"now\n"


def test_txtar_parts_keep_their_bytes() -> None:
    assert parse_txtar("comment\n-- a/b.txt --\none\n\n-- empty --\n-- c --\n-- not a header\n") == {
        "a/b.txt": b"one\n\n",
        "empty": b"",
        "c": b"-- not a header\n",
    }
