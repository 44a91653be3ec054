import pytest

from judges.shell import commands


def words(script: str) -> list[str]:
    return [command.text for command in commands(script)]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("cd /app && python3 -m pytest -q 2>&1 | tail -5", ["cd /app", "python3 -m pytest -q", "tail -5"]),
        (": pytest -q", [": pytest -q"]),
        ("> pip3 install x", ["install x"]),
        ("FOO=1 timeout 5 sudo -E ./run.sh 'a b'", ["./run.sh a b"]),
        ("bash -lc 'cd x; git log --all' # git show", ["cd x", "git log --all"]),
        ("if [ -f x ]; then echo $(git log | head); fi", ["[ -f x ]", "echo $(git log | head)", ""]),
        ("ls\\\n -la", ["ls -la"]),
        ("a&b", ["a", "b"]),
        ("echo 'never closed", []),
        ("# git log\nls", ["ls"]),
    ],
)
def test_simple_commands_are_found_as_a_shell_would(script: str, expected: list[str]) -> None:
    assert words(script) == expected


def test_a_here_document_is_a_body_and_not_a_command() -> None:
    first, second = commands("cat > a.py <<'EOF'\nimport os; git log\nEOF\npython3 a.py")
    assert (first.text, first.redirects[0], first.body) == ("cat", (">", "a.py"), "import os; git log")
    assert (second.text, second.line) == ("python3 a.py", 3)


def test_a_long_hostile_script_takes_no_time() -> None:
    assert commands("(" * 200_000) == []
    assert len(commands('"' + "\\" * 100_000)) <= 1
