"""How the command fails: mistakes in what it is given, damaged files, errors of ours; and in which words."""

from __future__ import annotations

import gzip
import json
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpu_wcoj import datasets
from gpu_wcoj.cli.main import main
from tests.helpers.command_line import TRIANGLE, complaint
from tests.helpers.long_tests import IS_LONG


def test_a_pipe_is_named_once(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    rules = "h(a) :- e(a), !z(a)."
    for option in ("--input", "--changes"):
        arguments = ["run", "-e", rules, "--input", f"e={tmp_path / 'pipe'}", option, f"z={tmp_path / 'link'}"]
        assert "are the same pipe, which can be read once only" in complaint(capfd, *arguments)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["run"], "a program is either a file or a text after -e"),
        (
            ["run", "-e", TRIANGLE],
            r"unknown relation 'edge' \(line 1, column 22\)\n.*\n.*\n.*\n  Give --input edge=PATH",
        ),
        (
            ["run", "-e", "h(a) :- e(a, _), !ee(a).", "--input", "e=GRAPH"],
            "unknown relation 'ee'(?s:.*)Did you mean 'e'",
        ),
        (
            ["run", "-e", "h(a) :- e(a, _), !ee(a).", "--changes", "e=GRAPH"],
            "unknown relation 'ee'(?s:.*)--changes ee=PATH",
        ),
        (["explain", "-e", "h(a) :- e(a, _), !ee(a).", "--input", "e=GRAPH"], "unknown relation 'ee'"),
        (
            ["run", "-e", "h(a) :- e(a, _), !ee(a).", "--input", "eee=GRAPH"],
            "unknown relation 'eee'.\n.*reads are: 'e', 'ee'",
        ),
        (["run", "--input", "edge=GRAPH"], "a program is either a file or a text after -e"),
        (["run", "GRAPH", "-e", TRIANGLE, "--input", "edge=GRAPH"], "Give exactly one of the two"),
        (["run", "nothing.dl", "--input", "edge=GRAPH"], "nothing.dl' cannot be read: No such file"),
        (["run", "-e", TRIANGLE, "--input", "GRAPH"], "does not say which file"),
        (["run", "-e", TRIANGLE, "--input", "egde=GRAPH"], "unknown relation 'egde'.\n.*Did you mean 'edge'"),
        (["run", "-e", TRIANGLE, "--input", "triangle=GRAPH"], "unknown relation 'triangle'"),
        (["run", "-e", TRIANGLE, "--input", "edge=GRAPH", "--input", "edge=GRAPH?skip=1"], "have different options"),
        (["run", "-e", TRIANGLE, "--changes", "edge=GRAPH", "--changes", "edge=GRAPH?skip=1"], "different options"),
        (["run", "-e", "select(x) :- e(x, _).", "--input", "e=GRAPH"], "Say which: --language 'sql' or --language"),
        (["run", "-e", TRIANGLE, "edge=GRAPH"], "Name files of relations by --input edge="),
        (["convert", "GRAPH", "/dev/null/x.csv"], "cannot be written: .*\n  Name a file that can\\.\n"),
        (["run", "-e", "SELECT * FROM 'nothing.csv'"], "There is no file 'nothing.csv'"),
        (["run", "-e", "SELECT * FROM 'none/*.csv'"], "no file matches 'none/[*].csv'"),
        (["run", "-e", f"SELECT * FROM '{'a' * 300}.csv'"], "There is no file 'aaa"),
        (
            ["convert", "GRAPH", "x.feather"],
            "output 'x.feather' is not supported.\n  Name a file that ends in .parquet",
        ),
        (["convert", "nothing.csv", "x.csv"], "'nothing.csv' cannot be read"),
        (["run", "-e", TRIANGLE, "--input", "edge=nothing"], "'nothing' cannot be read"),
        (["run", "-e", TRIANGLE, "--input", "edge=GRAPH?tick=0"], "--input is one tick"),
        (["run", "-e", TRIANGLE, "--input", "edge=GRAPH?columns=0"], "relation 'edge' has 2 columns"),
        (["run", "-e", TRIANGLE, "--input", "edge=GRAPH?weight=0"], "relation 'edge' has 2 columns"),
        (["run", "-e", TRIANGLE, "--changes", "edge=GRAPH", "--tick-rows", "0"], "--tick-rows=0 is not allowed"),
        (["run", "-e", TRIANGLE, "--input", "edge=GRAPH", "--tick-rows", "5"], "--input is one tick"),
        (["run", "-e", TRIANGLE, "--changes", "edge=GRAPH", "--tick-rows", "x"], '"x" into int'),
        (["run", "-e", TRIANGLE, "--input", "edge=GRAPH", "--backend", "gpu"], 'Choose from: "auto", "cpu", "cuda"'),
        (["run", "-e", TRIANGLE, "--input", "edge=GRAPH", "--threads", "0"], "threads"),
        (["run", "-e", TRIANGLE, "--input", "edge=GRAPH", "--memory", "lots"], "'lots' is not an amount of memory"),
        (["run", "-e", TRIANGLE, "--input", "edge=GRAPH", "--memory", "1"], "the budget is 1 B"),
        (["run", "-e", TRIANGLE, "--input", "edge=GRAPH", "--count", "--output", "x"], "--count produces no rows"),
        (["run", "-e", TRIANGLE, "--input", "edge=GRAPH", "--output", "/dev/null/x"], "cannot be written"),
        (["run", "-e", TRIANGLE, "--inptu", "edge=GRAPH"], "Did you mean --input"),
        (["run", "-e", "t(a, b :- e(a, b).", "--input", "e=GRAPH"], "line 1, column"),
        (["run", "-e", "t(a, x) :- e(a, b).", "--input", "e=GRAPH"], "variable 'x' in the head"),
        (["explain"], "a program is either a file"),
        (["explain", "-e", ""], "no rule"),
        (["rnu"], 'Did you mean "run"'),
        (["generate", "payments", "--output", "/dev/null/x"], "cannot be written"),
        (["generate", "rmat", "--output", "x", "--scale", "99"], "scale=99 is not allowed: expected 1 to 31"),
    ],
)
def test_mistakes(capfd: pytest.CaptureFixture[str], graph: Path, arguments: list[str], match: str):
    assert re.search(match, complaint(capfd, *(part.replace("GRAPH", str(graph)) for part in arguments)))


def test_a_program_that_is_no_text(capfd: pytest.CaptureFixture[str], tmp_path: Path, graph: Path):
    (tmp_path / "p.dl").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in complaint(capfd, "run", tmp_path / "p.dl", "--input", f"edge={graph}")


def test_types_that_do_not_join(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "g.txt").write_text("1 a\n2 b\n")
    assert "join" in complaint(capfd, "run", "-e", TRIANGLE, "--input", f"edge={tmp_path / 'g.txt'}")


def test_an_output_folder_is_tried_before_work_starts(capfd: pytest.CaptureFixture[str], graph: Path, tmp_path: Path):
    (tmp_path / "file").write_text("")
    spec = f"edge={tmp_path / 'nothing'}"
    assert "file" in complaint(capfd, "run", "-e", TRIANGLE, "--input", spec, "--output", tmp_path / "file")


def test_ticks_before_a_bad_row_stay(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    text = "".join(f"{i % 50} {i % 49} 1\n" for i in range(1_200_000))  # more than one block of lines
    (tmp_path / "s.txt").write_text(text + "1 2 x\n")
    spec = f"edge={tmp_path / 's.txt'}?weight=2"
    out = tmp_path / "out"
    arguments = ["run", "-e", TRIANGLE, "--changes", spec, "--tick-rows", 500_000, "--output", out, "--json"]
    assert main(list(map(str, arguments))) == 2
    printed = capfd.readouterr()
    assert "line 1200001: 'x' is not an integer" in printed.err
    ticks = [json.loads(line) for line in printed.out.splitlines()]
    files = sorted(path.name for path in (out / "triangle").iterdir())
    changed = [tick["tick"] for tick in ticks if any(tick["changes"]["triangle"].values())]
    assert files == [f"tick-{tick:09}.parquet" for tick in changed]
    assert changed[0] == 0
    assert "total" not in ticks[-1]


@pytest.mark.drawn("form", share=4)
@pytest.mark.parametrize("form", ["parquet", "arrow", "arrows", "txt.gz"])
def test_hostile_files(capfd: pytest.CaptureFixture[str], tmp_path: Path, form: str):
    """Truncated files and files with checksums and a flipped bit end in a message; no file ends in anything worse."""
    table = pa.table({"src": np.arange(500) % 40, "dst": np.arange(500) % 37, "weight": np.ones(500, np.int64)})
    path = tmp_path / f"g.{form}"
    if form == "parquet":
        pq.write_table(table, path, write_page_checksum=True, row_group_size=100)
    elif form == "txt.gz":
        path.write_bytes(
            gzip.compress("".join("{} {} {}\n".format(*row.values()) for row in table.to_pylist()).encode())
        )
    else:
        with {"arrow": pa.ipc.new_file, "arrows": pa.ipc.new_stream}[form](path, table.schema) as writer:
            writer.write_table(table, max_chunksize=100)
    whole = path.read_bytes()
    random = np.random.default_rng(7)
    arguments = ["run", "-e", TRIANGLE, "--changes", f"edge={path}?weight=2", "--tick-rows", "100", "--count", "--json"]
    assert main(arguments) == 0
    assert json.loads(capfd.readouterr().out.splitlines()[-1])["ticks"] == 5
    for attempt in range(8) if IS_LONG else (0, 3):
        data = bytearray(whole)
        if attempt < 3:
            del data[int(random.integers(len(data))) :]
        else:
            data[random.integers(len(data))] ^= 1 << random.integers(8)
        path.write_bytes(bytes(data))
        status = main(arguments)
        printed = capfd.readouterr()
        assert status == 2 or (printed.err == "" and attempt >= 3)
        assert not re.search("Traceback|internal error|\n\n", printed.err)
        ticks = printed.out.splitlines()
        if status == 2:
            assert str(path) in printed.err
            assert not any("total" in json.loads(line) for line in ticks)
        if form == "txt.gz":
            assert ticks == [] or status == 0


def test_messages_do_not_steer_the_terminal(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "g.txt").write_bytes(b"1 2\n3 \x1b[2Jx\n")
    message = complaint(capfd, "run", "-e", TRIANGLE, "--input", f"edge={tmp_path / 'g.txt'}")
    assert "\x1b" not in message
    assert "\\x1b[2Jx" in message


def test_a_mistake_of_ours_is_no_traceback(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    def fail(*_arguments: object, **_options: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(datasets, "rmat", fail)
    arguments = ["generate", "rmat", "--output", "x"]
    assert main(arguments) == 2
    assert "internal error, ZeroDivisionError: by zero" in capfd.readouterr().err
    monkeypatch.setenv("GPU_WCOJ_DEBUG", "1")
    with pytest.raises(ZeroDivisionError, match="by zero"):
        main(arguments)
    for error, status, text in ((MemoryError(), 2, "out of memory"), (KeyboardInterrupt(), 130, "interrupted")):
        monkeypatch.setattr(datasets, "rmat", lambda *_a, error=error, **_k: (_ for _ in ()).throw(error))
        assert main(arguments) == status
        assert text in capfd.readouterr().err
