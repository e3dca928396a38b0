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
