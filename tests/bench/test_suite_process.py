"""Processes of contenders end whatever happens, and say why; and what they take of memory is their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="the extra 'bench' is not installed")

from bench.suite.catalogue import Spec, made, tiny
from bench.suite.harness import Limits, measured, record_of
from bench.suite.judge import Expected
from bench.suite.process import Process, StoppedError
from tests.helpers.suite_contenders import worker

psutil = pytest.importorskip("psutil", reason="the extra 'bench' is not installed")
pytestmark = [
    pytest.mark.long,  # test_suite.py runs contenders in processes, too
    pytest.mark.skipif(sys.platform != "linux", reason="it is told of Linux only"),
]
ROOT = Path(__file__).parents[2]
PARENT = """
import sys, time
from bench.suite.process import Process
from tests.helpers.suite_contenders import worker

if __name__ == "__main__":
    process = Process(worker, None, 1, is_loaded=sys.argv[1] == "loaded")
    print(*process.ask("pids", 60)["pids"], flush=True)
    process.tell(sys.argv[2])
    time.sleep(0.3)
    sys.stdin.readline()
"""


def gone(pids):
    return not psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=20)[1]


@pytest.mark.parametrize(
    ("begins", "command"),
    [("loaded", "compute and let nobody else"), ("loaded", "sleep"), ("fresh", "compute and let nobody else")],
)
def test_what_a_run_has_started_ends_with_it(begins, command, tmp_path):
    (tmp_path / "parent.py").write_text(PARENT)
    run = subprocess.Popen(
        [sys.executable, str(tmp_path / "parent.py"), begins, command],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with run:
        pids = [*map(int, run.stdout.readline().split()), *(one.pid for one in psutil.Process(run.pid).children())]
        assert len(pids) >= 3
        assert all(map(psutil.pid_exists, pids))
        run.kill()
    assert gone(pids)


@pytest.mark.parametrize("is_loaded", [True, False])
def test_what_takes_too_long_ends_with_all_that_it_has_started(is_loaded):
    with Process(worker, None, 1, is_loaded=is_loaded) as process:
        pids = process.ask("pids", 60)["pids"]
        with pytest.raises(StoppedError, match="stopped after 0.2 s"):
            process.ask("compute and let nobody else", 0.2)
        assert gone(pids)


def test_what_has_ended_leaves_nobody_behind():
    with Process(worker, None, 1) as process:
        pids = process.ask("pids", 60)["pids"]
    assert gone(pids)


def test_a_contender_whose_server_is_gone_is_ended_too():
    with Process(worker, None, 1) as process:
        pids = process.ask("pids", 60)["pids"]
        psutil.Process(pids[0]).parent().kill()
        with pytest.raises(StoppedError, match="stopped after 0.2 s"):
            process.ask("compute", 0.2)
        assert gone(pids)
    with Process(worker, None, 1) as process:
        assert process.ask("pids", 60)["pids"]


def test_the_engines_contenders_begin_with_its_kernels_and_others_without():
    with Process(worker, None, 1) as loaded, Process(worker, None, 1, is_loaded=False) as fresh:
        assert loaded.ask("kernels", 60)["n"] >= 20
        assert fresh.ask("kernels", 60)["n"] == 0


def test_what_cannot_begin_says_why():
    with Process(worker, "what is not there", 1) as process, pytest.raises(StoppedError) as stopped:
        process.ask("pids", 60)
    assert str(stopped.value) == "its process ended with 1: ValueError: there is no task 'what is not there'"


def test_signals_are_a_contenders_own():
    with Process(worker, None, 1) as process:
        assert process.ask("handlers", 60) == {"SIGINT": "default_int_handler", "SIGTERM": "SIG_DFL"}
        os.kill(process.pid, signal.SIGTERM)
        with pytest.raises(StoppedError, match="its process ended with -15"):
            process.ask("pids", 60)


def test_what_a_state_takes_is_no_less_than_it_says():
    spec = Spec("triangle", "rmat", {"scale": 15, "edges": 400_000}, 1_000, "mixed", 1)
    limits = Limits(60, 0.1, 1)
    runs, _ = measured(made(spec), made(tiny(spec)), ("wcoj", "binary"), limits, Expected, lambda _: None)
    for run in runs:
        record = record_of(run, made(spec), 1, None, None)
        assert record.state_bytes > 3_000_000
        assert record.state_bytes <= record.peak_bytes - record.before_bytes <= 10 * record.state_bytes
