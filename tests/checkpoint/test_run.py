"""gpu-wcoj run --checkpoint: killed at any moment, the same command finishes the work as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpu_wcoj as gw
from gpu_wcoj.cli.main import main

TRIANGLE = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."
COMMAND = [sys.executable, "-m", "gpu_wcoj.cli.main"]
N_TICKS, FEWER_TICKS = 20, 12
WITHOUT_LOADING = {**os.environ, "GPU_WCOJ_COMPILE": "never"}
"""Lets a process begin at once, on NumPy's kernels, which answer the same."""


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = random.Random(0)
    path = tmp_path_factory.mktemp("stream") / "changes.parquet"
    rows = [(rng.randrange(20), rng.randrange(20), rng.choice([1, 1, -1]), i // 20) for i in range(20 * N_TICKS)]
    pq.write_table(pa.table(dict(zip(["a", "b", "w", "t"], zip(*rows, strict=True), strict=True))), path)
    return path


def arguments(stream: Path, folder: Path | None, output: Path | None = None) -> list[str]:
    options = ["run", "-e", TRIANGLE, "--changes", f"edge={stream}?columns=a,b&weight=w&tick=t", "--backend", "cpu"]
    options += ["--json", "--threads", "1"]
    options += [] if folder is None else ["--checkpoint", str(folder)]
    return options + ([] if output is None else ["--output", str(output)])


def lines(text: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in text.splitlines()]
    for line in found:
        line.pop("seconds", None)
        line.pop("peak_rss_bytes", None)
    return found


def run(capfd: pytest.CaptureFixture[str], *options: Any) -> list[dict[str, Any]]:
    assert main(arguments(*options)) == 0, capfd.readouterr().err
    return lines(capfd.readouterr().out)


def refused(capfd: pytest.CaptureFixture[str], options: list[str]) -> str:
    capfd.readouterr()
    assert main(options) == 2
    return capfd.readouterr().err


def content(output: Path) -> dict[str, Any]:
    return {path.name: pq.read_table(path).to_pydict() for path in sorted((output / "triangle").iterdir())}


@pytest.mark.long
def test_killed_again_and_again(stream: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    wanted = run(capfd, stream, None, tmp_path / "whole")
    rng = random.Random(0)
    printed: list[dict[str, Any]] = []
    kills = 0
    for stop in (5, 13, 2 * N_TICKS):
        command = [*COMMAND, *arguments(stream, tmp_path / "checkpoint", tmp_path / "output")]
        process = subprocess.Popen(
            command, env=WITHOUT_LOADING, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        shown = []
        for line in process.stdout:
            shown.append(line)
            if len(shown) + len(printed) >= stop:
                time.sleep(rng.random() * 0.01)
                process.kill()
                break
        out, err = process.communicate()
        done = lines("".join(shown) + (out if out.endswith("\n") or not out else out.rpartition("\n")[0]))
        printed += [line for line in done if not printed or line.get("tick", N_TICKS) > printed[-1]["tick"]]
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, err
        kills += 1
    assert kills >= 1
    # A kill between a commit and its line loses the line, and nothing else.
    shown_ticks = [line["tick"] for line in printed[:-1]]
    assert [line for line in wanted[:-1] if line["tick"] in shown_ticks] == printed[:-1]
    assert len(shown_ticks) >= N_TICKS - kills
    assert printed[-1] == wanted[-1]
    assert content(tmp_path / "output") == content(tmp_path / "whole")
    again = run(capfd, stream, tmp_path / "checkpoint", tmp_path / "output")
    assert again == wanted[-1:]


def test_a_longer_file_goes_on_where_the_shorter_one_ended(
    stream: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = pq.read_table(stream)
    short = tmp_path / "short.parquet"
    pq.write_table(table.slice(0, 20 * FEWER_TICKS), short)
    wanted = run(capfd, stream, None)
    first = run(capfd, short, tmp_path / "checkpoint")
    rest = run(capfd, stream, tmp_path / "checkpoint")
    assert first[:-1] + rest == wanted
    said = refused(capfd, arguments(short, tmp_path / "checkpoint"))
    assert f"holds {N_TICKS} ticks, and the files have {FEWER_TICKS}" in said


def test_another_folder_of_output_is_refused(stream: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    table, short, place = pq.read_table(stream), tmp_path / "short.parquet", tmp_path / "checkpoint"
    pq.write_table(table.slice(0, 20 * FEWER_TICKS), short)
    run(capfd, short, place, tmp_path / "output")
    assert "is not the one that this run has written" in refused(capfd, arguments(stream, place, tmp_path / "new"))
    said = refused(capfd, arguments(stream, tmp_path / "other", tmp_path / "output"))
    assert "holds files already" in said  # and the folder is still that of the first run
    (tmp_path / "output" / "triangle" / f".tick-{FEWER_TICKS:09}.parquet.tmp").touch()  # as a kill leaves it
    run(capfd, short, place, tmp_path / "output")
    pq.write_table(table.slice(0, 20 * (FEWER_TICKS + 1)), short)
    run(capfd, short, place)
    said = refused(capfd, arguments(stream, place, tmp_path / "output"))
    assert f"{FEWER_TICKS + 1} ticks of the checkpoint ran without it" in said


def test_a_checkpoint_of_a_program_is_none_of_a_run(
    stream: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = gw.Program(TRIANGLE)
    program.step({name: [(1, 2)] for name in program.inputs})
    program.checkpoint(tmp_path / "checkpoint")
    assert "is not that of a run over files" in refused(capfd, arguments(stream, tmp_path / "checkpoint"))


@pytest.mark.long
def test_a_file_grows_by_one_tick_again_and_again(
    stream: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Totals go on from those that are stored; every opening finds what the one before wrote."""
    table, wanted = pq.read_table(stream), run(capfd, stream, None)
    grown, shown = tmp_path / "grown.parquet", []
    for n_ticks in (FEWER_TICKS, FEWER_TICKS + 1, FEWER_TICKS + 2, N_TICKS - 2, N_TICKS):
        pq.write_table(table.slice(0, 20 * n_ticks), grown)
        *ticks, total = run(capfd, grown, tmp_path / "checkpoint")
        shown += ticks
    assert [*shown, total] == wanted


@pytest.mark.drawn("tick")
@pytest.mark.parametrize("tick", [0, N_TICKS - 2, N_TICKS - 1])
def test_other_rows_are_refused(stream: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], tick: int) -> None:
    run(capfd, stream, tmp_path / "checkpoint")
    table = pq.read_table(stream)
    column = table.column("a").to_pylist()
    column[20 * tick] += 1
    other = tmp_path / "other.parquet"
    pq.write_table(table.set_column(0, "a", pa.array(column)), other)
    said = refused(capfd, arguments(other, tmp_path / "checkpoint"))
    if tick == 0:
        assert f"the first {N_TICKS} ticks differ" in said
    else:
        assert f"holds batch {tick} of query 'gpu-wcoj run'" in said


def test_other_programs_and_folders_are_refused(
    stream: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run(capfd, stream, tmp_path / "checkpoint", tmp_path / "output")
    options = arguments(stream, tmp_path / "checkpoint")
    assert "in its semantics" in refused(capfd, [*options, "--bag"])
    options[options.index(TRIANGLE)] = "two(a, c) :- edge(a, b), edge(b, c)."
    assert "in its program" in refused(capfd, options)
    (tmp_path / "output" / "triangle" / "tick-000000077.parquet").touch()
    said = refused(capfd, arguments(stream, tmp_path / "checkpoint", tmp_path / "output"))
    assert f"which the run that goes on at tick {N_TICKS} has not written" in said
    said = refused(capfd, arguments(stream, tmp_path / "new", tmp_path / "output"))
    assert "holds files already" in said
    said = refused(capfd, [*arguments(stream, None), "--checkpoint", "s3://b/c"])
    assert "expected a path of a local or mounted file system" in said


def test_inputs_are_the_first_tick(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "graph.txt").write_text("1 2\n2 3\n1 3\n")
    options = ["run", "-e", TRIANGLE, "--input", f"edge={tmp_path / 'graph.txt'}", "--json", "--backend", "cpu"]
    options += ["--checkpoint", str(tmp_path / "checkpoint")]
    for n_lines in (2, 1, 1):
        assert main(options) == 0
        found = lines(capfd.readouterr().out)
        assert len(found) == n_lines
        assert found[-1]["total"] == {"triangle": 1}
    assert len([name for name in os.listdir(tmp_path / "checkpoint") if name.startswith("run")]) == 1
