"""The command as a process: what it loads, standard input, Ctrl-C, a reader that goes away, a bar on terminals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from gpu_wcoj.cli import run as progress
from gpu_wcoj.cli import run as runner
from gpu_wcoj.cli.main import main
from gpu_wcoj.cli.run import LateBar
from gpu_wcoj.files import formats
from tests.helpers.command_line import COMMAND, ENVIRONMENT, TRIANGLE


@pytest.mark.drawn("name")
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


def test_a_program_reads_chosen_columns_of_standard_input(tmp_path: Path):
    program = tmp_path / "p.dl"
    program.write_text(
        """
        .decl a(x: symbol, y: number)
        .input a(IO=stdin, columns="3:0", delimiter=",")
        .decl b(x: symbol, y: number)
        b(x, y) :- a(x, y), y > 1.
        .output b(IO=stdout)
        """
    )
    text = "1,-,-,one\n2,-,-,two\n"
    done = subprocess.run([*COMMAND, "run", str(program)], env=ENVIRONMENT, input=text, capture_output=True, text=True)
    assert "\ntwo\t2\n" in done.stdout, done.stderr
    assert "one" not in done.stdout


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
    code = f"import sys, gpu_wcoj.cli.main; print(*sorted({heavy} & {{*sys.modules}}))"
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


class Recorded(LateBar):
    """A bar that also keeps what it was told."""

    told: ClassVar[list[tuple]] = []

    def update(self, what: str, done: float | None, total: float | None = 1.0, answer_rows=None) -> None:
        self.told.append((what, done, total))
        super().update(what, done, total, answer_rows)


@pytest.mark.drawn("form")
@pytest.mark.parametrize("form", ["parquet", "csv", "blocks"])
def test_the_bar_counts_rows_that_ticks_have_taken(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path, form: str
):
    monkeypatch.setattr(runner, "LateBar", Recorded)
    monkeypatch.setattr(Recorded, "told", [])
    table = pa.table({"src": range(100, 125), "dst": range(200, 225)})
    if form == "parquet":
        pq.write_table(table, tmp_path / "e.parquet")
    else:
        pa_csv.write_csv(table, tmp_path / "e.csv")
        monkeypatch.setattr(formats, "BLOCK_BYTES", 64 if form == "blocks" else formats.BLOCK_BYTES)
    (tmp_path / "b.csv").write_text("n\n1\n2\n")
    path = next(tmp_path.glob("e.*"))
    options = ["--input", f"b={tmp_path}/b.csv", "--changes", f"e={path}", "--tick-rows", 10, "--json"]
    assert main(["run", "-e", "h(x) :- e(x, _), b(_).", *map(str, options)]) == 0
    capfd.readouterr()
    doing, *told = Recorded.told
    assert doing == ("reading", None, 1.0)
    assert [(what[:6], what.partition(": ")[2], done) for what, done, _ in told] == [
        ("tick 1", "joining", 0), ("tick 1", "reading", 2), ("tick 2", "joining", 2), ("tick 2", "reading", 12),
        ("tick 3", "joining", 12), ("tick 3", "reading", 22), ("tick 4", "joining", 22), ("tick 4", "reading", 27),
    ]  # fmt: skip
    unknown = {"parquet": 0, "csv": 2, "blocks": 6}[form]  # the last block is read with the last tick
    assert [" of 4:" in what for what, *_ in told] == [False] * unknown + [True] * (8 - unknown)
    assert [total for *_, total in told] == [None] * unknown + [27] * (8 - unknown)


def test_the_bar_shows_no_share_of_an_unknown_total(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    monkeypatch.setattr(progress, "DELAY_SECONDS", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    for total, share in ((None, ""), (3000, "66%, "), (2001, "99%, "), (2000, "100%, ")):
        capfd.readouterr()  # what the bar before has shown at its end
        with LateBar("rows") as bar:
            bar.update("tick 2", 2000, total)
            while "tick 2" not in (shown := capfd.readouterr().err):
                time.sleep(0.01)
        assert f" {share}2,000 rows" in shown
        assert ("left:" in shown) == (total is not None)


def test_the_package_is_the_command():
    command = [sys.executable, "-m", "gpu_wcoj", "explain", "-e", "h(x) :- r(x, y), r(y, x)."]
    assert "delta path 1" in subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_the_disk_cuts_off_is_an_error(tmp_path: Path, unbuffered: str):
    resource = pytest.importorskip("resource")
    with (tmp_path / "r.csv").open("w") as file:
        file.write("x,y\n" + "".join(f"{row},{row * row}\n" for row in range(20_000)))
    command = [*COMMAND, "run", "-e", "h(x, y) :- r(x, y).", "--input", f"r={tmp_path / 'r.csv'}", "--format", "csv"]
    environment = {**ENVIRONMENT, "PYTHONUNBUFFERED": unbuffered}
    lengths = {}
    for limit in (100_000, resource.RLIM_INFINITY):
        with (tmp_path / "out.csv").open("wb") as out:
            done = subprocess.run(
                command, env=environment, stdout=out, stderr=subprocess.PIPE, text=True,
                preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
            )  # fmt: skip
        lengths[limit] = done.returncode, len((tmp_path / "out.csv").read_bytes()), "File too large" in done.stderr
    assert lengths[100_000] == (2, 100_000, True)
    assert lengths[resource.RLIM_INFINITY] == (0, len((tmp_path / "r.csv").read_bytes()), False)


def test_an_output_folder_is_not_named_like_an_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "r.csv").write_text("x\n1\n")
    arguments = ["run", "-e", "h(x) :- r(x).", "--input", f"r={tmp_path / 'r.csv'}", "--output", "h=out.csv"]
    assert main(arguments) == 2
    assert "--output='h=out.csv' is not allowed: expected a folder" in capsys.readouterr().err
    assert not Path("h=out.csv").exists()
