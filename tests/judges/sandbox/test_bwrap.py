"""The sandbox against escapes, floods and leaks, run for real as the current user and, where we are root, as nobody."""

import json
import os
import re
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from judges.safefs import MemoryTree
from judges.sandbox import NoSandbox, RunResult, SandboxUnavailableError, open_sandbox
from judges.sandbox.bwrap import BwrapSandbox, Limits

Run = Callable[..., RunResult]
ROOT = Path(__file__).resolve().parents[3]
NOBODY = 65534
TREE = MemoryTree({"shop.py": b"print('shop')\n"})

pytestmark = pytest.mark.skipif(not BwrapSandbox().probe().ok, reason=BwrapSandbox().probe().reason or "no sandbox")


def run_as_nobody(command: str, timeout_s: float = 20) -> RunResult:
    """In a child process with its own uid, an interpreter it may read and nothing of our environment."""
    argv = ["/usr/bin/python3", "-m", "tests.judges.sandbox.run_one", command, str(timeout_s)]
    packages = os.pathsep.join([str(ROOT), sysconfig.get_path("purelib")])
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": packages, "ASSAY_TEST_CANARY": CANARY}
    where = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/tmp"}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60, **where)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr[-2000:]
    return RunResult(**json.loads(done.stdout))


CANARY = "canary-value-that-must-not-leak"
MANY_FORKS = """
import os, time
for number in range(300):
    try:
        if not os.fork():
            time.sleep(20)
    except OSError:
        print('stopped at', number, flush=True)
        os._exit(0)
"""


@pytest.fixture(params=["current user", "nobody"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setenv("ASSAY_TEST_CANARY", CANARY)
    if request.param == "nobody":
        same = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
        if os.geteuid() != 0 or not os.path.exists(same):
            pytest.skip("needs root and a system Python of the same version")
        yield run_as_nobody
        return
    with BwrapSandbox().session({"deliverable": TREE}) as session:
        yield lambda command, timeout_s=20: session.run(command, timeout_s=timeout_s)


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def python(code: str) -> str:
    return f'python3 -c "{code}"'


def test_runs_a_command_over_the_case_and_returns_output_and_exit_code(run: Run) -> None:
    result = run("python3 /case/deliverable/shop.py; exit 3")
    assert (result.output, result.exit_code, result.why_stopped) == ("shop\n", 3, None)


def test_a_listener_of_the_host_cannot_be_reached(run: Run, listener: int) -> None:
    result = run(python(f"import socket; socket.create_connection(('127.0.0.1', {listener}), 2)"))
    assert result.exit_code != 0
    assert "refused" in result.output


@pytest.mark.parametrize("address", ["('192.0.2.1', 80)", "('1.1.1.1', 53)"])
def test_there_is_no_way_out_of_the_machine(run: Run, address: str) -> None:
    result = run(python(f"import socket; socket.create_connection({address}, 2)"))
    assert result.exit_code != 0
    assert "unreachable" in result.output


def test_names_are_not_resolved(run: Run) -> None:
    assert "gaierror" in run(python("import socket; socket.getaddrinfo('example.com', 80)")).output


@pytest.mark.parametrize(
    "target", ["/case/x", "/case/deliverable/shop.py", "/usr/x", "/x", "/etc/x", "/dev/x", "/root/x"]
)
def test_nothing_but_the_scratch_folders_can_be_written(run: Run, target: str) -> None:
    result = run(f"echo x > {target}; ls {target}; echo kept > $HOME/y && cat $HOME/y")
    assert result.output.endswith("kept\n")
    assert re.search(r"Read-only|Permission denied|nonexistent|Directory", result.output, re.I)


def test_secrets_of_the_host_are_not_there(run: Run) -> None:
    result = run("cat /etc/shadow /etc/passwd /proc/1/root/etc/shadow /root/.ssh/id_rsa; ls /home /var /opt")
    assert result.exit_code != 0
    assert "root:" not in result.output


def test_the_environment_of_the_host_is_visible_nowhere(run: Run) -> None:
    result = run("env; cat /proc/*/environ | tr '\\0' '\\n'; grep -a canary /proc/*/environ /proc/*/cmdline")
    assert CANARY not in result.output
    assert "HOME=/scratch" in result.output


def test_processes_of_the_host_are_not_visible(run: Run) -> None:
    assert int(run("ls -d /proc/[0-9]* | wc -l").output) < 8


def test_the_command_is_not_root_and_holds_no_capability(run: Run) -> None:
    result = run("id -u; grep -E 'CapEff|NoNewPrivs' /proc/self/status")
    assert not result.output.startswith("0\n")
    assert "CapEff:\t0000000000000000" in result.output
    assert "NoNewPrivs:\t1" in result.output


def test_nothing_can_be_mounted(run: Run) -> None:
    assert run("mount -t tmpfs none /scratch").exit_code != 0


def test_a_new_user_namespace_opens_no_way_to_the_network(run: Run, listener: int) -> None:
    code = f"import socket; socket.create_connection(('127.0.0.1', {listener}), 2)"
    result = run(f"unshare -Urn {python(code)} || {python(code)}")
    assert result.exit_code != 0


def test_more_memory_than_allowed_is_refused(run: Run) -> None:
    result = run(python("x = bytearray(1 << 30); print('got it')"))
    assert "MemoryError" in result.output
    assert "got it" not in result.output


def test_the_memory_of_all_processes_together_is_watched(run: Run) -> None:
    code = "import os, time; [os.fork() for _ in range(3)]; x = bytearray(b'x') * (200 << 20); time.sleep(20)"
    result = run(python(code))
    assert result.why_stopped == "memory"
    assert result.exit_code is None


def test_scratch_space_is_bounded(run: Run) -> None:
    result = run("for f in /scratch/a /tmp/b /dev/shm/c; do head -c 100000000 /dev/zero > $f; stat -c %s $f; done")
    sizes = [int(line) for line in result.output.split("\n") if line.isdigit()]
    assert len(sizes) == 3
    assert max(sizes) <= 64 << 20


def test_the_number_of_processes_is_bounded(run: Run) -> None:
    result = run(f"cat > /scratch/f.py <<'EOF'\n{MANY_FORKS}EOF\nexec python3 /scratch/f.py", timeout_s=10)
    assert int(result.output.split()[-1]) < 64


def processes_with(marker: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in entry.read_bytes():
                found.append(entry.parent.name)
        except OSError:
            continue
    return found


def test_a_fork_bomb_ends_with_the_time_limit_and_leaves_no_process(run: Run) -> None:
    marker = f"bomb-{time.monotonic_ns()}"
    started = time.monotonic()
    result = run(f"b() {{ : {marker}; b | b & }}; b; sleep 30", timeout_s=2)
    assert result.why_stopped == "timeout"
    assert time.monotonic() - started < 15
    assert processes_with(marker) == []


def test_a_daemon_in_a_session_of_its_own_does_not_survive(run: Run) -> None:
    marker = f"{time.monotonic_ns()}"[-9:]
    result = run(f"setsid sleep 9{marker} >/dev/null 2>&1 & sleep 0.2; echo started")
    assert result.output == "started\n"
    assert processes_with(f"9{marker}") == []


def test_a_flood_of_output_is_cut(run: Run) -> None:
    result = run("yes")
    assert (result.why_stopped, result.truncated, len(result.output)) == ("output", True, 1 << 20)


def test_output_that_is_no_text_is_shown_as_bytes(run: Run) -> None:
    assert run("printf 'a\\377b'").output == "a\\xffb"


def test_time_is_limited_even_when_the_output_is_closed(run: Run) -> None:
    result = run("exec >/dev/null 2>&1; sleep 30", timeout_s=1)
    assert (result.why_stopped, result.exit_code) == ("timeout", None)
    assert result.seconds < 5


def test_a_killed_command_still_has_an_exit_code(run: Run) -> None:
    assert run("kill -9 $$").exit_code == 137


def test_each_run_starts_from_an_empty_work_folder() -> None:
    with BwrapSandbox().session({"deliverable": TREE}) as session:
        session.run("touch left-over; cp /case/deliverable/shop.py .")
        assert session.run("pwd; ls").output == "/scratch\n"


def test_a_folder_to_be_hidden_is_empty_even_below_a_bound_one() -> None:
    below_packages = sysconfig.get_path("purelib") + "/pip"
    with BwrapSandbox(hidden=(below_packages,)).session({}) as session:
        result = session.run(f"ls {below_packages}; ls {sysconfig.get_path('purelib')} | wc -l")
    assert "Permission denied" in result.output or result.output.strip().isdigit()
    assert "__init__.py" not in result.output


def test_the_data_folder_is_not_visible(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path))
    (tmp_path / "secret").write_text("x")
    with BwrapSandbox().session({}) as session:
        assert session.run(f"cat {tmp_path}/secret").exit_code != 0


def test_names_from_the_deliverable_cannot_act_on_the_shell_or_leave_the_folder(tmp_path: Path) -> None:
    tree = MemoryTree({"$(touch pwned).py": b"1", "-rf": b"2", "../outside": b"3", "a\nb": b"4"})
    with BwrapSandbox().session({"deliverable": tree}) as session:
        listing = session.run(["ls", "-b", "/case/deliverable"]).output
        assert [path for path, _ in session.skipped["deliverable"]] == ["../outside"]
    assert listing == "$(touch\\ pwned).py\n-rf\na\\nb\n"


def test_a_command_that_does_not_exist_is_a_result_and_a_folder_that_does_not_is_a_refusal() -> None:
    with BwrapSandbox().session({}) as session:
        assert session.run(["no-such-program"]).exit_code == 127
        with pytest.raises(SandboxUnavailableError, match="no-such-folder"):
            session.run("true", cwd="/no-such-folder")


def test_the_files_of_a_closed_session_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with BwrapSandbox().session({"deliverable": TREE}) as session:
        assert len(list(tmp_path.iterdir())) == 1
        session.run("true")
    assert list(tmp_path.iterdir()) == []


def test_a_tree_over_the_limit_is_laid_out_as_far_as_it_goes_and_says_so() -> None:
    tree = MemoryTree({"a": b"x" * 100, "b": b"y" * 100})
    with BwrapSandbox(limits=Limits(tree=150)).session({"deliverable": tree}) as session:
        assert session.skipped["deliverable"] == (("b", "over the size limit"),)


def test_without_a_sandbox_nothing_runs_and_the_reason_is_told() -> None:
    for sandbox in (open_sandbox("none"), open_sandbox("docker"), NoSandbox("no user namespaces here")):
        assert not sandbox.probe().ok
        with pytest.raises(SandboxUnavailableError, match=re.escape(sandbox.probe().reason)):
            sandbox.session({"deliverable": TREE})


def test_the_probe_runs_for_real() -> None:
    assert open_sandbox("bwrap").probe().ok
