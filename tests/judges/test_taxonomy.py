import pytest

from judges import prompts
from judges.budget import Limits
from judges.dossier import system_text
from judges.taxonomy import taxonomy
from judges.toolschemas import tool_schemas


def test_version_one_has_all_codes_with_examples() -> None:
    codes = taxonomy().codes
    assert taxonomy().version == "taxonomy/1"
    sides = {side: len(taxonomy().side(side)) for side in ("agent", "environment", "process", "integrity")}
    assert sides == {"agent": 13, "environment": 12, "process": 15, "integrity": 8}
    assert [code.code for code in codes.values() if not (code.yes and code.no)] == ["C00", "E00"]
    assert [code.code for code in codes.values() if code.note_required] == ["C00", "E00"]


def test_environment_codes_belong_to_the_phase_after_the_reveal() -> None:
    assert {code.code[0] for code in taxonomy().for_judge("blind")} == {"C", "B", "H"}
    assert {code.code[0] for code in taxonomy().for_judge("attribution")} == {"E", "H"}


def test_reviewers_see_codes_that_need_the_verifier_only_after_their_grade() -> None:
    blind = {code.code for code in taxonomy().for_review(["blind"])}
    assert not blind & {"E01", "E02", "E03", "E07", "E11", "B01"}
    assert {"C01", "E08", "H01"} <= blind
    assert "B01" in {code.code for code in taxonomy().for_review(["blind", "audit"])}


def test_the_system_text_holds_every_code_and_no_placeholder() -> None:
    text = system_text(Limits())
    assert all(f"{code} " in text for code in taxonomy().codes)
    assert "{{" not in text


def test_prompts_refuse_missing_and_unknown_placeholders() -> None:
    with pytest.raises(prompts.PromptError, match=r"without a value \['submit'\]"):
        prompts.render("no_call")
    with pytest.raises(prompts.PromptError, match=r"unknown \['extra'\]"):
        prompts.render("no_call", submit="x", extra="y")
    with pytest.raises(prompts.PromptError, match="no prompt"):
        prompts.load("nothing")


def test_values_are_not_scanned_for_placeholders() -> None:
    assert prompts.render("no_call", submit="{{submit}}").endswith("with {{submit}}.")


def test_tool_schemas_are_closed_and_have_no_optional_property() -> None:
    for tool in tool_schemas():
        for schema in (tool.parameters, *tool.parameters.get("$defs", {}).values()):
            assert schema["additionalProperties"] is False
            assert set(schema["required"]) == set(schema["properties"])
    assert [tool.name for tool in tool_schemas() if tool.strict] == ["submit_verdict", "submit_attribution"]
