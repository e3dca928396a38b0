"""The command where streams are closed, nobody reads on, names are not UTF-8, or signals are ignored."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[1]
COPY = ["-e", "h(a, b) :- e(a, b)."]
N_ROWS = 600_000


def run(*arguments: object, around: str = "{}", **environment: str) -> subprocess.CompletedProcess[str]:
    """The command within a line of the shell, on NumPy's kernels, with which a process begins at once."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = shlex.join(
        [sys.executable, "-m", "gpu_wcoj.cli.main", *(os.fsdecode(os.fspath(one)) for one in arguments)]
    )
    return subprocess.run(
        ["bash", "-c", os.fsencode(around.format(command))],
        env={**os.environ, "GPU_WCOJ_COMPILE": "never", "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("small") / "e.parquet"
    pq.write_table(pa.table({"a": np.arange(1000), "b": np.arange(1000)}), path)
    return path


def total(done: subprocess.CompletedProcess[str]) -> int:
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout.splitlines()[-1])["total"]["h"]


def test_a_damaged_file_is_refused_where_nobody_learns_how_the_reading_process_ended(tmp_path):
    path = tmp_path / "e.parquet"
    table = pa.table({"a": np.arange(N_ROWS), "b": np.arange(N_ROWS)})
    pq.write_table(table, path, write_page_checksum=True, row_group_size=N_ROWS // 3, compression="none")
    data = bytearray(path.read_bytes())
    data[len(data) * 3 // 4] ^= 1
    path.write_bytes(data)
    done = run("run", *COPY, "--changes", f"e={path}", "--json", around="trap '' CHLD; exec {}")
    assert done.returncode == 2
    assert "e.parquet' is damaged or not Parquet" in done.stderr


def test_a_reading_process_that_just_ends_is_an_error(small, monkeypatch):
    from gpu_wcoj.errors import InputFileError
    from gpu_wcoj.files import binary
    from gpu_wcoj.files.reader import read_table
    from gpu_wcoj.files.spec import parse_input

    half = "import sys; sys.path.insert(0, sys.argv[2]); import gpu_wcoj.files.binary as child; "
    half += "old = child._open_parquet; "
    half += "child._open_parquet = lambda source: (lambda names, n, read: (names, 2 * n, read))(*old(source)); "
    monkeypatch.setattr(binary, "_COMMAND", half + "sys.exit(child.main(sys.argv[1]))")
    with pytest.raises(InputFileError, match=r"ended with status 0, after 1000 of 2000 rows"):
        read_table(parse_input(f"e={small}"), 2, 1 << 30)


@pytest.mark.long
def test_standard_error_is_closed(small):
    assert total(run("run", *COPY, "--input", f"e={small}", "--json", around="{} 2>&-")) == 1000


def test_standard_output_is_closed(small, tmp_path):
    done = run("run", *COPY, "--changes", f"e={small}", "--output", tmp_path / "out", around="{} >&-")
    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / "out").iterdir())
    wrong = run("run", *COPY, "--input", "e=none.parquet", around="{} >&-")
    assert wrong.returncode == 2
    assert "none.parquet" in wrong.stderr


def test_what_a_terminal_cannot_show_is_escaped():
    done = run("explain", "-e", 'h(a, b) :- e(a, b), a != "日本".', PYTHONIOENCODING="latin-1")
    assert (done.returncode, done.stderr) == (0, "")
    assert r'a != "\u65e5\u672c"' in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are Unicode there")
def test_a_file_whose_name_is_not_utf_8(small, tmp_path):
    path = tmp_path / os.fsdecode(b"p\xff.parquet")
    path.write_bytes(small.read_bytes())
    assert total(run("run", *COPY, "--input", f"e={path}", "--json")) == 1000


@pytest.mark.long
def test_an_ascii_locale(small, tmp_path):
    path = tmp_path / "größe.parquet"
    path.write_bytes(small.read_bytes())
    done = run("run", *COPY, "--input", f"e={path}", "--json", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", LC_ALL="C")
    assert total(done) == 1000


@pytest.mark.drawn("form")
@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_a_pipe_is_refused_for_what_is_read_from_files_only(tmp_path, form):
    os.mkfifo(tmp_path / "pipe")
    done = run("run", *COPY, "--input", f"e={tmp_path / 'pipe'}?format={form}")
    assert done.returncode == 2
    assert f"is a pipe, and '{form}' is read from files only" in done.stderr


@pytest.mark.long
def test_where_numba_is_told_to_compile_nothing_numpy_does_it(small):
    done = run("run", *COPY, "--input", f"e={small}", "--json", NUMBA_DISABLE_JIT="1", GPU_WCOJ_COMPILE="wait")
    assert done.returncode == 0
    assert "NUMBA_DISABLE_JIT is set): the NumPy kernels are used" in done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["total"] == {"h": 1000}
