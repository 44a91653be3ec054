"""`python -m judges`: one case folder in, one judgment out."""

import json
from pathlib import Path

import pytest

from judges.__main__ import main
from judges.casefolder import CaseFolderError, load_case
from tests.judges.cases import GOOD, NARROW, SHOP

STEP = {
    "step_id": 1,
    "source": "agent",
    "message": [{"type": "text", "text": "Looking."}],
    "tool_calls": [{"tool_call_id": "c", "function_name": "bash", "arguments": {"command": "cat shop.py"}}],
    "observation": {"results": [{"source_call_id": "c", "content": "def total(items):"}]},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    case = tmp_path / "case"
    for name, text in {
        "case.json": json.dumps({"task_id": "shop", "verifier": {"status": "fail", "reward": 0}}),
        "instruction.md": "Write total(items) in shop.py.\nIt must round to 2 decimals.\n",
        "rubric.json": json.dumps([{"id": "R1", "requirement": "rounds to 2 decimals"}]),
        "trajectory.json": json.dumps({"schema_version": "ATIF-v1.6", "steps": [STEP]}),
        "deliverable/shop.py": SHOP,
        "verifier/stdout": "VERIFIER\nE  assert total([Item(1.5, 2)]) == 3.0\n",
        "script.json": json.dumps(
            [
                {"calls": [{"name": "submit_verdict", "arguments": GOOD}]},
                {"calls": [{"name": "submit_attribution", "arguments": NARROW}]},
            ]
        ),
    }.items():
        path = case / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    config = f'name = "s"\nprovider = "scripted"\nsandbox = "none"\nscript = "{case / "script.json"}"\n'
    (case / "judge.toml").write_text(config)
    return case


def test_a_case_folder_is_judged_and_printed_as_one_json_object(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(folder), "--config", str(folder / "judge.toml"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["status"], report["decision"], report["outcome"]) == ("completed", "satisfied", "false_fail")
    assert [check["ok"] for check in report["checks"]] == [True, True, True]
    assert report["provenance"]["provider"] == "scripted"


def test_people_get_a_few_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder), "--config", str(folder / "judge.toml")]) == 0
    assert "decision satisfied, integrity none, acceptable yes" in capsys.readouterr().out


def test_a_failed_judgment_exits_with_one(folder: Path) -> None:
    (folder / "instruction.md").unlink()
    assert main([str(folder), "--config", str(folder / "judge.toml")]) == 1


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("case.json", None, "case.json is missing"),
        ("case.json", "{", "no JSON"),
        ("case.json", "[]", "must be an object"),
        ("case.json", '{"verifier": {"status": "maybe"}}', "verifier status"),
        ("case.json", '{"task_dir": "../nowhere"}', "is no folder"),
        ("rubric.json", "{}", None),
        ("rubric.json", "[1]", "must be a list"),
        ("trajectory.json", "[]", "no list of steps"),
        ("judge.toml", 'name = "x"', "provider is missing"),
    ],
)
def test_unusable_input_exits_with_two_and_says_why(
    folder: Path, name: str, text: str | None, why: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / name).unlink() if text is None else (folder / name).write_text(text)
    code = main([str(folder), "--config", str(folder / "judge.toml")])
    assert code == (2 if why else 0)
    assert (why or "") in capsys.readouterr().err


def test_missing_folders_are_not_recorded_and_empty_ones_are_empty(folder: Path) -> None:
    (folder / "initial").mkdir()
    case = load_case(folder).case
    assert case.initial is not None
    assert (list(case.initial.entries()), case.reference) == ([], None)
    (folder / "trajectory.json").unlink()
    assert load_case(folder).case.steps_recorded is False


def test_links_out_of_the_folder_are_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"steps": []}')
    (folder / "trajectory.json").unlink()
    (folder / "trajectory.json").symlink_to(tmp_path / "secret")
    assert load_case(folder).case.steps_recorded is False
    (folder / "case.json").unlink()
    (folder / "case.json").symlink_to(tmp_path / "secret")
    with pytest.raises(CaseFolderError, match=r"case\.json is missing"):
        load_case(folder)
