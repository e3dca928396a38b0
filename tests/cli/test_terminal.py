"""The command in a terminal: rows, progress, Ctrl-C, widths, colours; and in pipes."""

from __future__ import annotations

import codecs
import csv
import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pyarrow as pa
import pytest

from gpu_wcoj.cli.answers import AnswerRows
from gpu_wcoj.cli.main import main
from gpu_wcoj.zset.zset import ZSet
from tests.helpers.command_line import COMMAND, ENVIRONMENT, TRIANGLE, complaint

RING = "1 2\n2 3\n1 3\n3 4\n"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A command whose standard streams are a pseudo-terminal."""

    def __init__(self, *arguments, columns=80, environment=None, stdout=None):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        inherited = {key: value for key, value in ENVIRONMENT.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            [*COMMAND, *map(str, arguments)], env={**inherited, "TERM": "xterm-256color", **(environment or {})},
            stdin=slave, stdout=slave if stdout is None else stdout, stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.text, self.decoder = "", codecs.getincrementaldecoder("utf-8")()

    def write(self, data):
        """Type some bytes."""
        os.write(self.master, data)

    def read_until(self, pattern, seconds=30.0, begin=0):
        """Wait until what the terminal got from a place on matches the pattern."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text[begin:]):
            is_over = self.process.poll() is not None
            if not self._read(0.1) and (is_over or time.monotonic() > end):
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"{pattern!r} is not in {ESCAPE.sub('', self.text)[-2000:]!r}")
        return self.text

    def finish(self, seconds=60.0):
        """Return the exit status, and all that the terminal got, without escape sequences."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end
            self._read(0.1)
        while self._read(0.1):
            pass
        os.close(self.master)
        return self.process.returncode, ESCAPE.sub("", self.text).replace("\r\n", "\n")

    def _read(self, seconds):
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.master, 1 << 16)
        except OSError:  # the other end is closed
            return False
        self.text += self.decoder.decode(data)
        return bool(data)


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    (tmp_path / "graph.txt").write_text(RING)
    return tmp_path / "graph.txt"


@pytest.mark.drawn("columns")
@pytest.mark.parametrize("columns", [80, 200])
def test_rows_fit_the_terminal(tmp_path: Path, columns: int):
    names = [f"column_{i}" for i in range(24)]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n" + ",".join(f"value {i} of it" for i in range(24)) + "\n")
    head = f"wide({', '.join(names)}) :- t({', '.join(names)})."
    spec = f"t={tmp_path / 'wide.csv'}?header=yes"
    status, text = Terminal("run", "-e", head, "--input", spec, columns=columns).finish()
    assert status == 0, text
    answer = text.partition("wide: 1 row\n")[2]
    assert all(len(line) <= columns for line in answer.splitlines())
    box = answer.partition("└")[0].splitlines()
    assert {len(line) for line in box} == {len(box[0])}
    assert len(box[0]) > 0.8 * columns


def test_rows_their_number_and_no_colour(graph: Path):
    hops = "hop(a, c) :- edge(a, b), edge(b, c). name(a, b) :- edge(a, b), a > 2. .output hop .output name"
    run = Terminal("run", "-e", hops, "--input", f"edge={graph}", "--limit", "2")
    status, text = run.finish()
    assert status == 0
    assert "hop: 2 of 3 rows\n┌─────┬─────┐\n│   a │   c │\n│ int │ int │\n├─────┼─────┤\n" in text
    assert "name: 1 row\n" in text
    assert not re.search(
        r"\x1b\[(3|4|9|10)\d", run.text.partition("hop: 2")[2]
    )  # colours are for the bar, on standard error
    quiet = Terminal("run", "-e", hops, "--input", f"edge={graph}", environment={"NO_COLOR": "1"})
    assert quiet.finish()[0] == 0
    assert not re.search(r"\x1b\[(3|4|9|10)\d", quiet.text)


def test_the_bar_has_ticks_of_ticks_the_rest_of_the_time_and_first_rows(tmp_path: Path):
    (tmp_path / "s.txt").write_text("".join(f"{i % 500} {(i * 7) % 499}\n" for i in range(600_000)))
    run = Terminal("run", "-e", TRIANGLE, "--changes", f"edge={tmp_path / 's.txt'}", "--tick-rows", "20", columns=150)
    run.read_until(r"tick [\d,]+ of 30,000: (joining|reading)")
    run.read_until(r"\d+%, [\d,]+ rows, [\d,]+ rows/s")
    run.read_until("left:")
    run.read_until(r"triangle\(\d+, \d+, \d+\)")
    os.kill(run.process.pid, signal.SIGINT)
    status, text = run.finish()
    assert status == 130
    assert text.rstrip().endswith("gpu-wcoj: interrupted.")


def test_ctrl_c_of_the_terminal(tmp_path: Path):
    stream = tmp_path / "pipe"
    os.mkfifo(stream)
    run = Terminal("run", "-e", TRIANGLE, "--changes", f"edge={stream}", "--output", tmp_path / "out")
    with stream.open("w") as file:
        file.flush()
        run.read_until("reading")
        os.killpg(run.process.pid, signal.SIGINT)  # as the terminal does, for the reader of files too
        status, text = run.finish()
    assert status == 130
    assert "Traceback" not in text
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []


class TestPipes:
    @pytest.fixture(autouse=True)
    def captured(self, capfdbinary, monkeypatch):
        self.streams, self.monkeypatch = capfdbinary, monkeypatch

    def run(self, *arguments, text=b""):
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        status = main(["run", *map(str, arguments)])
        printed = self.streams.readouterr()
        assert (status, printed.err) == (0, b"")
        return printed.out

    def test_a_table_is_as_wide_as_its_rows(self, tmp_path: Path):
        (tmp_path / "t.csv").write_text("a,b\n" + "x" * 30 + "," + ",".join(["y" * 30]) + "\n")
        head = "wide(a, b, a1, b1, a2) :- t(a, b), a1 = a, b1 = b, a2 = a."
        text = self.run("-e", head, "--input", f"t={tmp_path / 't.csv'}?header=yes").decode()
        assert "\x1b" not in text
        assert " │ ".join(["x" * 30, "y" * 30, "x" * 30, "y" * 30, "x" * 30]) in text

    def test_formats(self, graph: Path):
        arguments = ("-e", "hop(a, c) :- edge(a, b), edge(b, c).", "--input", f"edge={graph}", "--format")
        rows = [(1, 3), (1, 4), (2, 4)]
        for form, delimiter in (("csv", ","), ("tsv", "\t")):
            lines = list(csv.reader(io.StringIO(self.run(*arguments, form).decode()), delimiter=delimiter))
            assert lines == [["a", "c"], *([str(a), str(c)] for a, c in rows)]
        lines = self.run(*arguments, "json").decode().splitlines()
        assert [json.loads(line) for line in lines] == [{"a": a, "c": c} for a, c in rows]
        markdown = self.run(*arguments, "markdown", "--limit", "1").decode()
        assert markdown == "| a | c |\n| --- | --- |\n| 1 | 3 |\n"
        table = pa.ipc.open_stream(self.run(*arguments, "arrow")).read_all()
        assert table.to_pydict() == {"a": [1, 1, 2], "c": [3, 4, 4]}

    def test_texts_that_need_quotes_and_nulls(self, tmp_path: Path):
        (tmp_path / "t.csv").write_text('a,b\n"x,""y""",1\n"| z",\n')
        arguments = ("-e", "select a, b from t", "--language", "sql", "--input", f"t={tmp_path / 't.csv'}?header=yes")
        printed = self.run(*arguments, "--format", "csv").decode().splitlines()
        assert list(csv.reader(printed)) == [["a", "b"], ['x,"y"', "1"], ["| z", ""]]
        printed = self.run(*arguments, "--format", "markdown").decode().splitlines()
        assert printed[2:] == ['| x,"y" | 1 |', "| \\| z |  |"]
        assert json.loads(self.run(*arguments, "--format", "json").splitlines()[1]) == {"a": "| z", "b": None}

    def test_a_program_from_standard_input_and_several_texts(self, graph: Path):
        program = b"hop(a, c) :- edge(a, b), edge(b, c)."
        expected = self.run("-e", program.decode(), "--input", f"edge={graph}", "--format", "csv")
        assert self.run("-", "--input", f"edge={graph}", "--format", "csv", text=program) == expected
        texts = ("-e", "hop(a, c) :- edge(a, b), edge(b, c).", "-e", "far(a) :- hop(a, _).")
        assert self.run(*texts, "--input", f"edge={graph}", "--format", "csv") == b"a\n1\n2\n"

    @pytest.mark.parametrize("option", [("--output", "-"), ("--output=-",)])
    def test_changes_to_standard_output(self, tmp_path: Path, option):
        (tmp_path / "s.csv").write_text("src,dst,w\n1,2,1\n2,3,1\n3,4,1\n2,3,-1\n")
        hop = "hop(a, c) :- edge(a, b), edge(b, c)."
        arguments = ("-e", hop, "--changes", f"edge={tmp_path / 's.csv'}?weight=w", "--tick-rows", "2", *option)
        assert self.run(*arguments).decode() == "a,c,weight,tick\n1,3,1,0\n1,3,-1,1\n"
        lines = self.run(*arguments, "--format", "json").decode().splitlines()
        assert json.loads(lines[1]) == {"a": 1, "c": 3, "weight": -1, "tick": 1}

    def test_matches_of_a_motif(self, graph: Path):
        arguments = ("-e", "(a)-[]->(b); (b)-[]->(c)", "--language", "motif", "--input", f"edges={graph}", "--format")
        assert self.run(*arguments, "csv", "--show", "a.id,c.id").decode().splitlines()[0] == "a.id,c.id"
        assert json.loads(self.run(*arguments, "json").splitlines()[0])["a"] == {"id": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "csv"], "--format csv and the answers 'out', 'into' cannot be combined"),
        (["--output", "-", "--format", "arrow"], "--output - and --format arrow cannot be combined"),
        (["--limit", "-1"], "--limit=-1 is not allowed"),
    ],
)
def test_what_cannot_be_printed(capfd: pytest.CaptureFixture[str], graph: Path, arguments, message):
    text = "out(a) :- edge(a, _). into(b) :- edge(_, b). .output out .output into"
    assert message in complaint(capfd, "run", "-e", text, "--input", f"edge={graph}", *arguments)


def test_a_program_and_rows_cannot_both_be_standard_input(capfd: pytest.CaptureFixture[str]):
    said = complaint(capfd, "run", "-", "--input", "edge=-")
    assert "a program from standard input and 'edge=/dev/stdin' cannot be combined" in said


def test_arrow_is_not_for_terminals(graph: Path):
    run = Terminal("run", "-e", TRIANGLE, "--input", f"edge={graph}", "--format", "arrow")
    status, text = run.finish()
    assert status == 2
    assert "--format arrow and a terminal cannot be combined" in text


def test_rows_that_are_followed():
    rows = AnswerRows(2)
    rows.follow("h", ZSet.from_rows([((1, "a"), 1), ((2, None), 3)]))
    assert rows.rows("h") == [(1, "a"), (2, None)]
    rows.follow("h", ZSet.from_rows([((1, "a"), -1), ((2, None), -1)]))
    assert rows.rows("h") == [(2, None), (2, None)]
    assert rows.lines(5) == ["h(2, null)"]
