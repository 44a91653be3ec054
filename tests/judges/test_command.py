"""`python -m judges`: one case folder in, one judgment out."""

import json
import tarfile
from pathlib import Path

import pytest

from judges.__main__ import main
from judges.casefolder import CaseFolderError, load_case
from tests.judges.cases import GOOD, NARROW, SHOP

DEMO = Path(__file__).resolve().parents[2] / "auditapp/demo/demo.tar.gz"
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
    code = main([str(folder), "--config", str(folder / "judge.toml"), "--json"])
    assert code == (2 if why else 0)
    said = capsys.readouterr()
    assert (why or "") in said.err
    assert (why or "") in json.loads(said.out).get("error", "")


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


def release(tmp_path: Path, folder: Path, task_dir: object) -> Path:
    """The case as one of many in a release, its instruction kept once in tasks/shop."""
    case, task = tmp_path / "release/cases/code/shop/a-1", tmp_path / "release/tasks/shop"
    for place in (case.parent, task):
        place.mkdir(parents=True)
    folder.rename(case)
    (case / "instruction.md").rename(task / "instruction.md")
    (case / "case.json").write_text(json.dumps({"task_id": "shop", "task_dir": task_dir}))
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret/instruction.md").write_text("A letter of somebody else.")
    (tmp_path / "release/link").symlink_to(tmp_path / "secret")
    return case


def test_files_of_a_task_are_read_from_the_folder_its_cases_share(folder: Path, tmp_path: Path) -> None:
    case = release(tmp_path, folder, "../../../../tasks/shop")
    assert (load_case(case).case.instruction or "").startswith("Write total(items)")


@pytest.mark.parametrize(
    ("task_dir", "why"),
    [
        ("../../../../../secret", "leads out of release"),
        ("x/../../../../../../secret", "leads out of release"),
        ("/etc", "must be a relative path"),
        (7, "must be a relative path"),
        (["../../../../tasks/shop"], "must be a relative path"),
        ("tasks\0", "must be a relative path"),
        ("../../../../link", "is no folder"),
        ("../../../../tasks/none", "is no folder"),
        ("../../../../tasks/shop/instruction.md", "is no folder"),
    ],
)
def test_a_task_dir_out_of_the_release_or_through_a_link_is_refused(
    folder: Path, tmp_path: Path, task_dir: object, why: str
) -> None:
    with pytest.raises(CaseFolderError, match=why):
        load_case(release(tmp_path, folder, task_dir))


def test_a_case_of_the_demo_is_read_as_it_is_unpacked(tmp_path: Path) -> None:
    wanted = ("cases/code-repair/contacts-merge/scripted-strong-01/", "tasks/contacts-merge/")
    with tarfile.open(DEMO) as archive:
        members = [member for member in archive if member.name.startswith(wanted)]
        archive.extractall(tmp_path, members, filter="data")
    loaded = load_case(tmp_path / wanted[0])
    assert loaded.case.instruction
    assert loaded.case.rubric
    assert None not in (loaded.case.deliverable, loaded.case.initial, loaded.case.reference)
    assert loaded.revealed.verifier.status in ("pass", "fail")
