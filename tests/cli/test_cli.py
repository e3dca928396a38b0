"""The command line: what it reads, what it prints, and what it writes."""

from __future__ import annotations

import itertools
import re
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import gpu_wcoj as gw
from gpu_wcoj import datasets
from gpu_wcoj.cli import answers
from gpu_wcoj.cli.main import main
from gpu_wcoj.zset.zset import ZSet
from tests.helpers.command_line import TRIANGLE, complaint, run_json, write_stream

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


@pytest.mark.drawn("mode")
@pytest.mark.parametrize("mode", [[], ["--count"]])
def test_changes_by_tick_column(capfd: pytest.CaptureFixture[str], tmp_path: Path, mode: list[str]):
    path = write_stream(tmp_path / "s.parquet", STREAM)
    ticks, total = run_json(capfd, "-e", TRIANGLE, "--changes", f"edge={path}?weight=weight&tick=tick", *mode)
    counts = [(tick["changes"]["triangle"]["inserted"], tick["changes"]["triangle"]["deleted"]) for tick in ticks]
    assert counts == [(0, 0), (2, 0), (0, 2), (0, 0)]
    assert [tick["tick"] for tick in ticks] == [0, 1, 2, 3]
    assert total["total"] == {"triangle": 0}


def test_changes_by_rows_after_an_input(capfd: pytest.CaptureFixture[str], tmp_path: Path, graph: Path):
    path = write_stream(tmp_path / "s.csv", [(1, 4, 1, 0), (2, 3, -1, 0), (2, 3, 1, 0)])
    spec = f"edge={path}?columns=src,dst&weight=weight"
    ticks, total = run_json(capfd, "-e", TRIANGLE, "--input", f"edge={graph}", "--changes", spec, "--tick-rows", 1)
    counts = [tuple(tick["changes"]["triangle"].values()) for tick in ticks]
    assert counts == [(2, 0), (2, 0), (0, 2), (2, 0)]
    assert total["total"] == {"triangle": 4}


def boxed(text: str) -> list[tuple[int, ...]]:
    """The rows of integers in a box."""
    lines = (re.findall(r"-?\d+", line) for line in text.splitlines() if line.startswith("│"))
    return [tuple(map(int, cells)) for cells in lines if cells and "triangle" not in cells]


def test_rows_that_were_inserted_and_stayed_are_shown(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    path = write_stream(tmp_path / "s.csv", [*STREAM, (1, 2, 1, 10), (2, 3, 1, 10), (1, 4, 1, 10)])
    run = ["run", "-e", TRIANGLE, "--changes", f"edge={path}?weight=weight&tick=tick"]
    assert main([*run, "--limit", "5"]) == 0
    printed = capfd.readouterr().out
    assert "triangle: 4 rows" in printed
    rows = [row for row in boxed(printed) if len(row) == 3][:4]
    assert sorted(rows) == [(1, 2, 3), (1, 2, 4), (1, 3, 4), (2, 3, 4)]
    assert main([*run, "--output", str(tmp_path / "out"), "--limit", "1"]) == 0
    printed = capfd.readouterr().out
    assert "triangle: 1 of 4 rows" in printed
    assert [row for row in boxed(printed) if row in rows] == [rows[0]]
    assert main([*run, "--limit", "0"]) == 0
    assert "triangle:" not in capfd.readouterr().out


def test_rows_that_were_deleted_again_are_not_shown(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    path = write_stream(tmp_path / "s.csv", STREAM)
    assert main(["run", "-e", TRIANGLE, "--changes", f"edge={path}?weight=weight&tick=tick"]) == 0
    assert "triangle: 0 rows\n" in capfd.readouterr().out


def test_first_lines_leave_out_rows_that_were_deleted_again():
    followed = answers.AnswerRows(1)
    followed.follow("h", ZSet.from_rows([((1,), 1), ((2,), 1)]))
    followed.follow("h", ZSet.from_rows([((1,), -1)]))
    assert followed.lines(1) == ["h(2)"]
    assert followed.rows("h") == [(2,)]


def test_rows_are_read_again_if_too_few_of_those_that_were_followed_stay(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
):
    n = 2 * answers.CANDIDATES
    rows = [(i, i, 1, 0) for i in range(2 * n)] + [(i, i, -1, 1) for i in range(n)]
    path = write_stream(tmp_path / "s.csv", rows)
    stream = f"edge={path}?weight=weight&tick=tick"
    assert main(["run", "-e", "h(a) :- edge(a, _).", "--changes", stream, "--limit", "2"]) == 0
    printed = capfd.readouterr().out
    assert f"h: 2 of {n} rows" in printed
    assert boxed(printed)[:2] == [(n,), (n + 1,)]


@pytest.mark.parametrize(
    "others",
    [["--limit", "-1"], ["--limit", "2", "--count"], ["--limit", "2", "--json"], ["--format", "csv", "--json"]],
)
def test_a_number_of_rows_that_cannot_be_shown_is_refused(capsys: pytest.CaptureFixture[str], graph: Path, others):
    assert main(["run", "-e", TRIANGLE, "--input", f"edge={graph}", *others]) == 2
    assert "--limit" in capsys.readouterr().err


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


def test_counting_where_only_a_net_can_be_counted(capfd: pytest.CaptureFixture[str], graph: Path):
    ends = "ends(a, c) :- edge(a, b), edge(b, c)."
    ticks, total = run_json(capfd, "-e", ends, "--input", f"edge={graph}", "--count", "--bag")
    assert ticks[0]["changes"] == {"ends": {"net": 4}}
    assert total["total"] == {"ends": 4}


def test_bag_keeps_weights(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    path = write_stream(tmp_path / "s.csv", [(1, 2, 2, 0), (2, 3, 3, 0), (1, 3, 1, 0)])
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
    path = write_stream(tmp_path / "s.csv", STREAM)
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
    path = write_stream(tmp_path / "s.csv", STREAM[:5])
    out = tmp_path / "out"
    run_json(capfd, "-e", TRIANGLE, "--changes", f"edge={path}?weight=weight&tick=tick", "--output", out)
    corner = "corner(a) :- t(a, _, _)."
    spec = f"t={out / 'triangle' / 'tick-000000001.parquet'}?weight=weight&tick=tick"
    _, total = run_json(capfd, "-e", corner, "--changes", spec)
    assert total["total"] == {"corner": 2}


def test_the_table(capfd: pytest.CaptureFixture[str], tmp_path: Path):
    path = write_stream(tmp_path / "s.csv", STREAM)
    assert main(["run", "-e", TRIANGLE, "--changes", f"edge={path}?weight=weight&tick=tick"]) == 0
    printed = capfd.readouterr()
    assert printed.err == ""
    assert re.search(r"relation +│ inserted │ deleted │ total", printed.out)
    assert re.search(r"triangle +│ +2 │ +2 │ +0 ", printed.out)
    assert "4 ticks in " in printed.out
    assert "1 row of 'edge' changed nothing" in printed.out


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


def test_help_and_version(capfd: pytest.CaptureFixture[str]):
    assert main(["--version"]) == 0
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*\n", capfd.readouterr().out)
    assert main(["run", "--help"]) == 0
    printed = capfd.readouterr().out
    for option in ("-e", "-c", "--input", "--changes", "--tick-rows", "--count", "--output", "--backend", "--threads",
                   "--bag", "--json"):  # fmt: skip
        assert option in printed
    for words in ("RELATION=PATH?option=value&...", "--input e=edges.csv", "format=parquet|arrow|json|csv|tsv|text",
                  "'edge.csv'", '.input edge(filename="edge.csv", delimiter=",")'):  # fmt: skip
        assert " ".join(words.split()) in " ".join(printed.split())


@pytest.mark.parametrize("command", [("run",), ("warm",), ("spark", "run"), ("bench",), ("repl",)])
def test_paragraphs_of_help_are_filled(capfd, command):
    """A line ends where the terminal does, or a paragraph."""
    assert main([*command, "--help"]) == 0
    above = capfd.readouterr().out.partition("╭")[0]
    for paragraph in above.strip().split("\n\n"):
        lines = paragraph.split("\n")
        for line, after in itertools.pairwise(lines):
            assert len(line.rstrip()) + 1 + len(after.split()[0]) > 80, paragraph


def test_doctor_says_what_is_installed_and_how_to_get_the_rest(capsys, monkeypatch):
    parts = (("numpy", "", ""), ("not-a-distribution", "tests", "pip install it"))
    monkeypatch.setattr(sys.modules["gpu_wcoj.cli.main"], "_PARTS", parts)
    assert main(["doctor"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["gpu_wcoj"] == gw.__version__
    assert lines["numpy"] == np.__version__
    assert lines["not-a-distribution"] == "missing, for tests: pip install it"
    assert "kernels" in lines["CPU"]
    assert lines["GPU"]
    assert lines["Java"]


def test_doctor_works_without_numba(capsys, monkeypatch):
    """The command is most wanted where something is missing."""
    installed = metadata.version

    def version(name):
        if name == "numba":
            raise metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(sys.modules["gpu_wcoj.cli.main"], "version", version)
    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr("cpu_fallback.compilation.has_numba", lambda: False)
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out
    assert "missing, for fast kernels for the CPU: pip install numba" in lines
    assert "those of NumPy, as numba is missing" in lines
