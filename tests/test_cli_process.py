"""The command as a process: what it loads, standard input, Ctrl-C, a reader that goes away, a bar on terminals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpu_wcoj.progress import LateBar
from tests.command import COMMAND, ENVIRONMENT, TRIANGLE


@pytest.mark.parametrize("name", ["-", "/dev/stdin"])
def test_standard_input(name: str):
    command = [*COMMAND, "run", "-e", TRIANGLE, "--json", "--input"]
    text = "src,dst\n1,2\n2,3\n1,3\n"
    done = subprocess.run(
        [*command, f"edge={name}?format=csv"], env=ENVIRONMENT, input=text, capture_output=True, text=True
    )
    assert json.loads(done.stdout.splitlines()[-1])["total"] == {"triangle": 1}, done.stderr
    done = subprocess.run([*command, f"edge={name}"], env=ENVIRONMENT, input=text, capture_output=True, text=True)
    assert done.returncode == 2
    assert "if it is CSV, say 'edge=/dev/stdin?format=csv'" in done.stderr


def test_ctrl_c(tmp_path: Path):
    stream = tmp_path / "pipe"
    os.mkfifo(stream)
    command = [*COMMAND, "run", "-e", TRIANGLE, "--changes", f"edge={stream}", "--output", str(tmp_path / "out")]
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    with stream.open("w") as file:  # opens when the command reads, so all is loaded and it waits for rows
        file.flush()
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=30)
    assert process.returncode == 130
    assert message == "gpu-wcoj: interrupted.\n"
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


def test_a_reader_that_goes_away(tmp_path: Path):
    """The ticks behind it are not taken, so the status is no success: that of a process that SIGPIPE has ended."""
    stream = tmp_path / "s.txt"
    stream.write_text("".join(f"{i} {i + 1}\n" for i in range(3000)))
    run = subprocess.Popen(
        [*COMMAND, "run", "-e", "h(a) :- edge(a, b).", "--changes", f"edge={stream}", "--tick-rows", "1", "--json"],
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert run.stdout is not None
    assert run.stderr is not None
    assert json.loads(run.stdout.readline())["tick"] == 0
    run.stdout.close()
    assert run.stderr.read() == ""
    run.stderr.close()
    assert run.wait(timeout=60) == 141


def test_starting_loads_nothing_heavy():
    heavy = {"pyarrow", "numba", "lark", "pandas", "polars", "duckdb", "rich.table"}
    code = f"import sys, gpu_wcoj.cli; print(*sorted({heavy} & {{*sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_a_bar_is_shown_late_and_on_terminals_only(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    with LateBar() as bar:
        time.sleep(0.7)
        bar.update("tick 3", 0.5)
    assert capfd.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with LateBar() as bar:
        bar.update("tick 3", 0.5)
    assert "tick 3" not in capfd.readouterr().err
    with LateBar() as bar:
        bar.update("tick 4", 0.5)
        time.sleep(0.9)
        bar.update("tick 5", None)
        time.sleep(0.3)
    shown = capfd.readouterr().err
    assert "tick 4" in shown
    assert "tick 5" in shown


def test_the_package_is_the_command():
    command = [sys.executable, "-m", "gpu_wcoj", "explain", "-e", "h(x) :- r(x, y), r(y, x)."]
    assert "delta path 1" in subprocess.run(command, capture_output=True, text=True, check=True).stdout
