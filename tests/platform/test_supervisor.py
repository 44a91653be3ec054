"""One command runs everything, survives the death of any part, and leaves nothing behind."""

import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.platform.conftest import ROOT, Product, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc to find processes")

WORKER, BROKER, WEB = "worker -n {}@", "valkey", "gunicorn"


def workers_are_ready(product: Product) -> bool:
    logs = [product.home / "logs" / f"{name}.log" for name in ("judge", "cpu")]
    return all(log.exists() and "ready." in log.read_text() for log in logs)


def test_serves_the_first_page_and_stops_on_sigterm_with_no_process_left(product: Product) -> None:
    product.start()
    wait_until(lambda: workers_are_ready(product), "workers ready")
    assert product.stop() == 0
    assert product.pids() == []
    assert product.said().splitlines()[-2:] == ["Stopping ...", "Stopped."]


def test_a_stop_during_the_start_is_a_clean_stop(product: Product) -> None:
    with product.output.open("ab") as output:
        product.process = subprocess.Popen(product.serve(), cwd=ROOT, env=product.environment, stdout=output)
    wait_until(lambda: product.pids(WEB), "web starting")
    assert product.stop() == 0
    assert product.pids() == []
    assert product.said().splitlines()[-1] == "Stopped."


def test_a_second_start_says_who_runs_and_leaves_the_first_alone(product: Product) -> None:
    product.start()
    second = product.run(*product.serve())
    assert second.returncode == 1
    assert f"already running: http://127.0.0.1:{product.port}, process {product.process.pid}" in second.stderr
    assert "Traceback" not in second.stderr
    assert product.is_up()


def test_a_port_in_use_is_named_and_nothing_is_started(product: Product) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", product.port))
        other.listen()
        done = product.run(*product.serve())
    assert done.returncode == 1
    assert f"Port {product.port} cannot be used" in done.stderr
    assert "Traceback" not in done.stderr
    assert product.pids() == []


def test_a_killed_worker_starts_again_with_its_work_and_without_that_of_others(product: Product) -> None:
    product.start()
    product.enqueue("judge_slowly", "a", "b", "c")
    product.enqueue("compute_slowly", "other")
    wait_until(lambda: len(product.lines("starts")) == 4, "four starts")
    left = [product.home / "tmp" / name / "left" for name in ("judge", "cpu")]
    for file in left:
        file.touch()
    product.kill(WORKER.format("judge"))
    wait_until(lambda: len(product.lines("starts")) == 7, "the three of the dead worker started again")
    (product.home / "go").touch()
    wait_until(lambda: len(product.lines("ends")) >= 4, "four ends")
    time.sleep(0.5)
    assert product.lines("ends") == ["a", "b", "c", "other"]
    assert product.lines("starts") == ["a", "a", "b", "b", "c", "c", "other"]
    assert [file.exists() for file in left] == [False, True]
    assert "judge ended unexpectedly (SIGKILL)" in product.said()
    assert "3 unfinished tasks put back" in product.said()


def test_a_killed_compute_worker_takes_its_busy_child_along_and_repeats_its_task(product: Product) -> None:
    product.start()
    product.enqueue("compute_slowly", "x")
    wait_until(lambda: product.lines("starts") == ["x"], "start")
    product.kill(WORKER.format("cpu"))
    wait_until(lambda: product.lines("starts") == ["x", "x"], "second start")
    (product.home / "go").touch()
    wait_until(lambda: product.lines("ends"), "end")
    time.sleep(0.5)
    assert product.lines("ends") == ["x"]


def test_a_killed_broker_and_web_server_come_back_and_keep_what_was_queued(product: Product) -> None:
    product.start()
    wait_until(lambda: workers_are_ready(product), "workers ready")
    product.enqueue("compute_slowly", "first", "queued")
    wait_until(lambda: product.lines("starts") == ["first"], "start")
    time.sleep(1.2)  # the broker writes its file every second
    left = product.home / "uploads" / "half"
    left.mkdir()
    (left / "bundle.zip").write_bytes(b"labels")
    product.kill(BROKER)
    product.kill(WEB)
    (product.home / "go").touch()
    wait_until(lambda: {"first", "queued"} <= set(product.lines("ends")), "both done")
    wait_until(product.is_up, "web again")
    assert list(left.parent.iterdir()) == []
    assert product.stop() == 0
    assert product.pids() == []


def test_a_killed_supervisor_leaves_no_orphan(product: Product) -> None:
    product.start()
    product.enqueue("judge_slowly", "j")
    product.enqueue("compute_slowly", "c")
    wait_until(lambda: len(product.lines("starts")) == 2, "both busy")
    product.process.kill()
    wait_until(lambda: product.pids() == [], "no process left", within_s=30)


def test_ctrl_c_stops_busy_workers_soon_and_their_work_runs_after_the_next_start(product: Product) -> None:
    product.start()
    product.enqueue("judge_slowly", "long")
    wait_until(lambda: product.lines("starts") == ["long"], "start")
    began = time.monotonic()
    assert product.stop(signal.SIGINT) == 0
    assert time.monotonic() - began < 30
    assert product.pids() == []
    product.start()
    (product.home / "go").touch()
    wait_until(lambda: product.lines("ends") == ["long"], "the end of the interrupted task")


def test_a_data_folder_with_a_path_too_long_for_a_socket_works(product: Product) -> None:
    product.home = product.home / ("x" * 120)
    product.environment["ASSAY_HOME"] = str(product.home)
    product.start()
    product.enqueue("judge_slowly", "far")
    wait_until(lambda: product.lines("starts") == ["far"], "start")
    assert product.stop() == 0
    assert product.pids() == []


def test_a_job_runs_once_beside_the_server_which_outlives_its_failure(product: Product, tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent(f"""
        import sys, django
        django.setup()
        from auditapp import supervisor
        job = [sys.executable, "-c", "print('loading'); raise SystemExit(3)"]
        ready = lambda address: print("ready at", address, flush=True)
        sys.exit(supervisor.run(port={product.port}, ready=ready, job=job))
        """)
    )
    product.environment["PYTHONPATH"] = "."
    product.start([sys.executable, str(script)])
    wait_until(lambda: "failed (exit code 3); the rest goes on." in product.said(), "word of the failure")
    assert product.said().count("loading\n") == 1
    assert f"ready at http://127.0.0.1:{product.port}" in product.said()
    assert product.is_up()


def test_a_command_gets_workers_of_its_own_when_no_server_runs(product: Product) -> None:
    (product.home / "go").touch()
    script = """
        import django, pathlib, time
        django.setup()
        from auditapp import supervisor
        from tests.platform import tasks
        with supervisor.workers():
            tasks.judge_slowly.delay("mine")
            while not pathlib.Path(r"{home}", "ends").exists():
                time.sleep(0.05)
    """
    done = product.run(sys.executable, "-c", textwrap.dedent(script.format(home=product.home)))
    assert done.returncode == 0, done.stderr
    assert product.lines("ends") == ["mine"]
    assert product.pids() == []
