"""The command line: what it prints, what it writes, and how it fails."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpu_wcoj import datasets
from gpu_wcoj.cli import main
from gpu_wcoj.progress import LateBar

TRIANGLE = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."
ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-m", "gpu_wcoj.cli"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "graph.txt"
    path.write_text("1 2\n2 3\n1 3\n3 4\n2 4\n")
    return path


def run_json(capfd: pytest.CaptureFixture[str], *arguments: object) -> tuple[list[dict], dict]:
    """The lines of JSON for the ticks, and the last one."""
    assert main(["run", *map(str, arguments), "--json"]) == 0, capfd.readouterr().err
    printed = capfd.readouterr()
    assert printed.err == ""
    *ticks, total = map(json.loads, printed.out.splitlines())
    return ticks, total


def complaint(capfd: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The message of a run that fails as it should: one paragraph, no traceback, nothing on standard output."""
    assert main(list(map(str, arguments))) == 2
    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("gpu-wcoj: ")
    assert printed.err.endswith("\n")
    assert "\n\n" not in printed.err
    assert "Traceback" not in printed.err
    assert "internal error" not in printed.err
    return printed.err


def write_stream(path: Path, rows: list[tuple[int, int, int, int]]) -> Path:
    pq.write_table(pa.table(dict(zip(("src", "dst", "weight", "tick"), zip(*rows, strict=True), strict=True))), path)
    return path


STREAM = [(1, 2, 1, 3), (2, 3, 1, 3), (1, 3, 1, 5), (3, 4, 1, 5), (2, 4, 1, 5), (2, 3, -1, 8), (9, 9, -1, 9)]


def test_inputs_are_the_first_tick(capfd: pytest.CaptureFixture[str], graph: Path):
    ticks, total = run_json(capfd, "-e", TRIANGLE, "--input", f"edge={graph}")
    assert len(ticks) == 1
    assert list(ticks[0]) == ["tick", "changes", "seconds"]
    assert ticks[0]["tick"] == 0
    assert ticks[0]["changes"] == {"triangle": {"inserted": 2, "deleted": 0}}
    assert ticks[0]["seconds"] > 0
    assert list(total) == ["total", "ticks", "seconds", "peak_rss_bytes"]
    assert total["total"] == {"triangle": 2}
    assert total["ticks"] == 1
    assert total["seconds"] >= ticks[0]["seconds"]
    assert 10_000_000 < total["peak_rss_bytes"] < 100_000_000_000


@pytest.mark.parametrize("mode", [[], ["--count"]])
def test_changes_by_tick_column(capfd: pytest.CaptureFixture[str], tmp_path: Path, mode: list[str]):
    path = write_stream(tmp_path / "s.parquet", STREAM)
    ticks, total = run_json(capfd, "-e", TRIANGLE, "--changes", f"edge={path}?weight=weight&tick=tick", *mode)
    counts = [(tick["changes"]["triangle"]["inserted"], tick["changes"]["triangle"]["deleted"]) for tick in ticks]
    assert counts == [(0, 0), (2, 0), (0, 2), (0, 0)]
    assert [tick["tick"] for tick in ticks] == [0, 1, 2, 3]
    assert total["total"] == {"triangle": 0}


def test_changes_by_rows_after_an_input(capfd: pytest.CaptureFixture[str], tmp_path: Path, graph: Path):
    path = write_stream(tmp_path / "s.parquet", [(1, 4, 1, 0), (2, 3, -1, 0), (2, 3, 1, 0)])
    spec = f"edge={path}?columns=src,dst&weight=weight"
    ticks, total = run_json(capfd, "-e", TRIANGLE, "--input", f"edge={graph}", "--changes", spec, "--tick-rows", 1)
    counts = [tuple(tick["changes"]["triangle"].values()) for tick in ticks]
    assert counts == [(2, 0), (2, 0), (0, 2), (2, 0)]
    assert total["total"] == {"triangle": 4}


def test_files_without_rows(capfd: pytest.CaptureFixture[str], tmp_path: Path, graph: Path):
    (tmp_path / "none.csv").write_text("src,dst,weight\n")
    (tmp_path / "none.txt").write_text("")
    given = ["-e", TRIANGLE, "--input", f"edge={graph}"]
    ticks, total = run_json(capfd, *given, "--changes", f"edge={tmp_path / 'none.csv'}")
    assert (len(ticks), total["total"]) == (1, {"triangle": 2})
    ticks, total = run_json(capfd, "-e", TRIANGLE, "--changes", f"edge={tmp_path / 'none.csv'}", "--tick-rows", 5)
    assert (ticks, total["total"]) == ([], {"triangle": 0})
    empty = f"edge={tmp_path / 'none.csv'}?columns=src,dst"
    ticks, total = run_json(capfd, "-e", TRIANGLE, "--input", empty, "--changes", f"edge={graph}")
    assert ([tick["changes"]["triangle"]["inserted"] for tick in ticks], total["total"]) == ([0, 2], {"triangle": 2})
    alone = ["-e", "alone(a) :- edge(a, _), !edge(_, a), !gone(a).", "--input", f"edge={graph}"]
    for none in ("none.txt", "none.csv?columns=src"):
        _, total = run_json(capfd, *alone, "--input", f"gone={tmp_path / none}")
        assert total["total"] == {"alone": 1}
        assert main(["explain", *alone, "--input", f"gone={tmp_path / none}", "--analyze"]) == 0
        assert "gone" in capfd.readouterr().out


def test_texts_may_follow_a_file_without_rows(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "none.csv").write_text("a,b\n")
    (tmp_path / "names.csv").write_text("a,b\nx,y\ny,z\n")
    names = f"e={tmp_path / 'names.csv'}?columns=a,b"
    arguments = ["-e", "h(a, c) :- e(a, b), e(b, c).", "--input", f"e={tmp_path / 'none.csv'}?header=yes"]
    _, total = run_json(capfd, *arguments, "--changes", names, "--checkpoint", tmp_path / "c")
    assert total["total"] == {"h": 1}


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


def test_a_pipe_is_named_once(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    rules = "h(a) :- e(a), !z(a)."
    for option in ("--input", "--changes"):
        arguments = ["run", "-e", rules, "--input", f"e={tmp_path / 'pipe'}", option, f"z={tmp_path / 'link'}"]
        assert "are the same pipe, which can be read once only" in complaint(capfd, *arguments)


def test_counting_where_only_a_net_can_be_counted(capfd: pytest.CaptureFixture[str], graph: Path):
    ends = "ends(a, c) :- edge(a, b), edge(b, c)."
    ticks, total = run_json(capfd, "-e", ends, "--input", f"edge={graph}", "--count", "--bag")
    assert ticks[0]["changes"] == {"ends": {"net": 4}}
    assert total["total"] == {"ends": 4}


def test_bag_keeps_weights(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    path = write_stream(tmp_path / "s.parquet", [(1, 2, 2, 0), (2, 3, 3, 0), (1, 3, 1, 0)])
    _, total = run_json(capfd, "-e", TRIANGLE, "--changes", f"edge={path}?weight=weight&tick=tick", "--bag", "--count")
    assert total["total"] == {"triangle": 6}


def test_several_relations_and_a_program_file(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    (tmp_path / "p.dl").write_text("% a program\nreach(x, name) :- e(x, y), label(y, name).\n")
    (tmp_path / "e.csv").write_text("from,to\n1,2\n2,3\n")
    (tmp_path / "l.tsv").write_text("2\ttwo\n3\tthree\n")
    ticks, total = run_json(
        capfd, tmp_path / "p.dl",
        "--changes", f"e={tmp_path / 'e.csv'}", "--changes", f"label={tmp_path / 'l.tsv'}?header=no", "--tick-rows", 1,
    )  # fmt: skip
    assert [tick["changes"]["reach"]["inserted"] for tick in ticks] == [1, 1]
    assert total["total"] == {"reach": 2}


def test_output_holds_the_changes_of_every_tick(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    path = write_stream(tmp_path / "s.parquet", STREAM)
    out = tmp_path / "deep" / "out"
    run_json(capfd, "-e", TRIANGLE, "--changes", f"edge={path}?weight=weight&tick=tick", "--output", out)
    files = sorted(file.relative_to(out).as_posix() for file in out.rglob("*") if file.is_file())
    assert files == ["triangle/tick-000000001.parquet", "triangle/tick-000000002.parquet"]
    first, second = (pq.read_table(out / file) for file in files)
    assert first.column_names == ["a", "b", "c", "weight", "tick"]
    assert sorted(zip(*first.to_pydict().values(), strict=True)) == [(1, 2, 3, 1, 1), (2, 3, 4, 1, 1)]
    assert sorted(zip(*second.to_pydict().values(), strict=True)) == [(1, 2, 3, -1, 2), (2, 3, 4, -1, 2)]
    message = complaint(capfd, "run", "-e", TRIANGLE, "--changes", f"edge={path}?weight=2&tick=3", "--output", out)
    assert "holds files already" in message


def test_output_can_be_fed_back(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    path = write_stream(tmp_path / "s.parquet", STREAM[:5])
    out = tmp_path / "out"
    run_json(capfd, "-e", TRIANGLE, "--changes", f"edge={path}?weight=weight&tick=tick", "--output", out)
    corner = "corner(a) :- t(a, _, _)."
    spec = f"t={out / 'triangle' / 'tick-000000001.parquet'}?weight=weight&tick=tick"
    _, total = run_json(capfd, "-e", corner, "--changes", spec)
    assert total["total"] == {"corner": 2}


def test_the_table(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    path = write_stream(tmp_path / "s.parquet", STREAM)
    assert main(["run", "-e", TRIANGLE, "--changes", f"edge={path}?weight=weight&tick=tick"]) == 0
    printed = capfd.readouterr()
    assert printed.err == ""
    assert re.search(r"relation +│ inserted │ deleted │ total", printed.out)
    assert re.search(r"triangle +│ +2 │ +2 │ +0 ", printed.out)
    assert "4 ticks in " in printed.out
    assert "1 rows of 'edge' changed nothing" in printed.out


def test_explain(capfd: pytest.CaptureFixture[str]):
    assert main(["explain", "-e", TRIANGLE]) == 0
    assert "edge" in capfd.readouterr().out


def test_generated_payments_run(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    path = tmp_path / "new" / "payments.parquet"
    sizes = ["--transfers", "2000", "--accounts", "400", "--tick-rows", "500"]
    assert main(["generate", "payments", "--output", str(path), *sizes]) == 0
    stream = datasets.payments(2000, 400, tick_rows=500)
    ticks, total = run_json(capfd, "-e", TRIANGLE, "--changes", f"edge={path}?weight=weight&tick=tick")
    assert len(ticks) == stream["tick"][-1] + 1
    present: set[tuple[int, int]] = set()
    for src, dst, weight in zip(stream["src"].tolist(), stream["dst"].tolist(), stream["weight"].tolist(), strict=True):
        (present.add if weight > 0 else present.remove)((src, dst))
    after: dict[int, set[int]] = {}
    for src, dst in present:
        after.setdefault(src, set()).add(dst)
    wanted = sum(len(after[a] & after.get(b, set())) for a, b in present)
    assert total["total"] == {"triangle": wanted}
    assert sum(tick["changes"]["triangle"]["deleted"] for tick in ticks) > 0


def test_generated_rmat(tmp_path: Path):
    sizes = ["--scale", "8", "--edges", "2000", "--seed", "5"]
    assert main(["generate", "rmat", "--output", str(tmp_path / "a.parquet"), *sizes]) == 0
    assert main(["generate", "rmat", "--output", str(tmp_path / "b.parquet"), *sizes, "--undirected"]) == 0
    directed = datasets.rmat(8, 2000, 5)
    for name, graph in (("a", directed), ("b", datasets.undirected(directed))):
        table = pq.read_table(tmp_path / f"{name}.parquet")
        assert table.column_names == ["src", "dst"]
        assert np.array_equal(np.stack([column.to_numpy() for column in table.columns], axis=1), graph)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["run"], "nothing to run on"),
        (["run", "--input", "edge=GRAPH"], "a program is a file, or a text after -e"),
        (["run", "GRAPH", "-e", TRIANGLE, "--input", "edge=GRAPH"], "Give one of the two"),
        (["run", "nothing.dl", "--input", "edge=GRAPH"], "nothing.dl' cannot be read: No such file"),
        (["run", "-e", TRIANGLE, "--input", "GRAPH"], "does not say which file"),
        (["run", "-e", TRIANGLE, "--input", "egde=GRAPH"], "no relation 'egde'.\n.*Did you mean 'edge'"),
        (["run", "-e", TRIANGLE, "--input", "triangle=GRAPH"], "no relation 'triangle'"),
        (["run", "-e", TRIANGLE, "--input", "edge=GRAPH", "--input", "edge=GRAPH"], "--input names .*'edge' twice"),
        (["run", "-e", TRIANGLE, "--changes", "edge=GRAPH", "--changes", "edge=GRAPH"], "--changes names"),
        (["run", "-e", TRIANGLE, "--input", "edge=nothing"], "'nothing' cannot be read"),
        (["run", "-e", TRIANGLE, "--input", "edge=GRAPH?tick=0"], "--input is one tick"),
        (["run", "-e", TRIANGLE, "--input", "edge=GRAPH?columns=0"], "relation 'edge' has 2 columns"),
        (["run", "-e", TRIANGLE, "--input", "edge=GRAPH?weight=0"], "relation 'edge' has 2 columns"),
        (["run", "-e", TRIANGLE, "--changes", "edge=GRAPH", "--tick-rows", "0"], "--tick-rows is 0"),
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
        (["explain"], "a program is a file"),
        (["explain", "-e", ""], "no rule"),
        (["rnu"], 'Did you mean "run"'),
        (["generate", "payments", "--output", "/dev/null/x"], "cannot be written"),
        (["generate", "rmat", "--output", "x", "--scale", "99"], "the scale is 99"),
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
    for attempt in range(8):
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


def test_help_and_version(capfd: pytest.CaptureFixture[str]):
    assert main(["--version"]) == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", capfd.readouterr().out)
    assert main(["run", "--help"]) == 0
    printed = capfd.readouterr().out
    for option in ("-e", "--input", "--changes", "--tick-rows", "--count", "--output", "--backend", "--threads",
                   "--bag", "--json"):  # fmt: skip
        assert option in printed


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
