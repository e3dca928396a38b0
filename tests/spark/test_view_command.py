"""The command ``gpu-wcoj spark run``, the example script, and what `make run` does."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from gpu_wcoj.cli.main import main
from gpu_wcoj.errors import InputFileError
from tests.spark.file_streams import TRIANGLE, alone, assert_same, payments, write_stream

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "spark_triangles.py"


@pytest.mark.skipif("TEST_SPARK" not in os.environ, reason="starts another Java; make test-spark runs it")
def test_run_again_goes_on(spark, tmp_path, capsys):
    """First in a process of its own, then in this one, which finds the files that came in between."""
    tables = payments(3, 600, 100)
    write_stream(tmp_path / "changes", tables[:2])
    arguments = [
        "spark", "run", "-e", TRIANGLE, "--json", "--max-files", "1",
        "--source", f"edge={tmp_path}/changes?columns=src,dst&weight=weight",
        "--checkpoint", str(tmp_path / "checkpoint"), "--output", str(tmp_path / "out"),
    ]  # fmt: skip
    command = [sys.executable, "-m", "gpu_wcoj.cli.main", *arguments, "--master", "local[2]"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    write_stream(tmp_path / "changes", tables[2:], first=2)
    capsys.readouterr()
    assert main(arguments) == 0
    found = [[json.loads(line) for line in text.splitlines()] for text in (done.stdout, capsys.readouterr().out)]
    assert [line["batch"] for lines in found for line in lines[:-1]] == [-1, 0, 1, 2]
    expected, engine = alone(TRIANGLE, [{"edge": table} for table in tables], "triangle")
    assert found[-1][-1] == {"total": {"triangle": engine.count("triangle")}}
    assert_same(gws.read_output(spark, tmp_path / "out").toArrow(), expected)


def test_in_this_session_with_a_table_order_and_csv(spark, tmp_path, capsys):
    (tmp_path / "edges").mkdir()
    (tmp_path / "edges" / "1.csv").write_text("when,from,to,op\n2,a,b,insert\n1,a,b,delete\n3,b,c,insert\n")
    write_stream(tmp_path / "names", [pa.table({"c0": ["c"], "c1": ["Cy"]})])
    status = main(
        ["spark", "run", "-e", "p(a, n) :- e(a, b), e(b, c), name(c, n).", "--changes", "op",
         "--source", f"e={tmp_path}/edges?columns=from,to&tick=when&format=csv",
         "--table", f"name={tmp_path}/names", "--checkpoint", str(tmp_path / "checkpoint")]
    )  # fmt: skip
    printed = capsys.readouterr()
    assert status == 2
    assert "no column 'op'" in printed.err
    (tmp_path / "edges" / "1.csv").write_text("when,from,to,w\n2,a,b,1\n1,a,b,-1\n3,b,c,1\n")
    arguments = [
        "spark", "run", "-e", "p(a, n) :- e(a, b), e(b, c), name(c, n).",
        "--source", f"e={tmp_path}/edges?columns=from,to&tick=when&weight=w&format=csv",
        "--table", f"name={tmp_path}/names", "--checkpoint", str(tmp_path / "checkpoint"),
    ]  # fmt: skip
    assert main(arguments) == 0
    assert re.fullmatch(
        r"batch -1: 0 changes.*; p 0\nbatch 0: 3 changes in .* s; p 1\np: 1 row\n",
        capsys.readouterr().out.replace("batch -1: 1 changes", "batch -1: 0 changes"),
    )


def run_csv(tmp_path, options, *, more=()):
    return main(
        ["spark", "run", "-e", "h(a, b) :- e(a, b).", "--source", f"e={tmp_path}/edges?format=csv{options}",
         "--checkpoint", str(tmp_path / "checkpoint"), "--output", str(tmp_path / "out"), *more]
    )  # fmt: skip


def test_csv_without_a_header_and_with_other_separators(spark, tmp_path, capsys):
    (tmp_path / "edges").mkdir()
    (tmp_path / "edges" / "1.csv").write_text("1;2\n2;3\n3;4\n")
    assert run_csv(tmp_path, "&header=no&sep=;") == 0, capsys.readouterr().err
    (tmp_path / "edges" / "2.csv").write_text("3000000000;5\n")
    assert run_csv(tmp_path, "&header=no&sep=;") == 0, capsys.readouterr().err
    rows = gws.View.restore(tmp_path / "checkpoint").relation("h").to_dict()
    assert rows == {(1, 2): 1, (2, 3): 1, (3, 4): 1, (3000000000, 5): 1}


def test_csv_without_rows(spark, tmp_path, capsys):
    (tmp_path / "edges").mkdir()
    (tmp_path / "edges" / "1.csv").write_text("a,b\n1,2\n2,3\n")
    (tmp_path / "none.csv").write_text("a,n\n")
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "1.csv").write_text("a\n")
    source = ["--source", f"e={tmp_path}/edges?format=csv", "--json"]
    sql = ["-e", "SELECT a FROM e WHERE a NOT IN (SELECT a FROM z)", "--language", "sql"]
    for at, program in enumerate((["-e", "h(a) :- e(a, _), !z(a)."], sql)):
        options = [*source, "--table", f"z={tmp_path}/none.csv?format=csv&weight=n", "--checkpoint", f"{tmp_path}/{at}"]
        assert main(["spark", "run", *program, *options]) == 0, capsys.readouterr().err
        assert list(json.loads(capsys.readouterr().out.splitlines()[-1])["total"].values()) == [2]
    arguments = ["spark", "run", "-e", "h(a) :- e(a).", "--source", f"e={tmp_path}/later?format=csv"]
    assert main([*arguments, "--checkpoint", f"{tmp_path}/c"]) == 2
    assert "column names and no rows yet" in capsys.readouterr().err


def test_a_first_line_of_csv_that_may_be_a_row_is_asked_for(spark, tmp_path, capsys):
    (tmp_path / "edges").mkdir()
    for text in ("ann,bo\nbo,cy\n", "1,2\n3,4\n"):
        (tmp_path / "edges" / "1.csv").write_text(text)
        assert run_csv(tmp_path, "") == 2
        assert "may be column names or a row.\n  Pass header=yes or header=no." in capsys.readouterr().err
    (tmp_path / "edges" / "1.csv").write_text("x,y\nann,bo\n")
    declared = [".decl e(x: symbol, y: symbol)\nh(a, b) :- e(a, b).", "--source", f"e={tmp_path}/edges?format=csv"]
    assert main(["spark", "run", "-e", *declared, "--checkpoint", f"{tmp_path}/c", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["total"] == {"h": 1}


@pytest.mark.parametrize("later", ["b,a\n70,7\n", "a,b\n4,x\n", "a,b\n4\n"])
def test_csv_that_later_is_another_stops_and_nothing_is_guessed(spark, tmp_path, capsys, later):
    (tmp_path / "edges").mkdir()
    (tmp_path / "edges" / "1.csv").write_text("a,b\n1,2\n")
    assert run_csv(tmp_path, "") == 0, capsys.readouterr().err
    (tmp_path / "edges" / "2.csv").write_text(later)
    assert run_csv(tmp_path, "") == 2
    assert gws.View.restore(tmp_path / "checkpoint").relation("h").to_dict() == {(1, 2): 1}
    assert run_csv(tmp_path, "&skip=1") == 2
    assert "on Spark, text files have the options header and sep only" in capsys.readouterr().err


def test_a_table_and_a_folder_of_one_relation(spark, tmp_path, capsys):
    write_stream(tmp_path / "first", [pa.table({"a": [1, 2], "b": [2, 3]})])
    write_stream(tmp_path / "changes", [pa.table({"a": [3, 1], "b": [4, 2], "w": [1, -1]})])
    status = main(
        ["spark", "run", "-e", "p(a, c) :- e(a, b), e(b, c).", "--table", f"e={tmp_path}/first",
         "--source", f"e={tmp_path}/changes?weight=w", "--layout", "hypercube", "--cells", "2",
         "--checkpoint", str(tmp_path / "checkpoint")]
    )  # fmt: skip
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert re.fullmatch(r"batch -1: .*; p 1\nbatch 0: 2 changes in .* s; p 1\np: 1 row\n", printed.out)
    assert gws.View.restore(tmp_path / "checkpoint").relation("p").rows() == [((2, 4), 1)]


def test_a_view_in_sql(spark, tmp_path, capsys):
    """Its file says which language it is in; equal rows count as often as they stand there."""
    write_stream(tmp_path / "changes", [pa.table({"a": [1, 2, 2], "b": [2, 3, 3], "w": [1, 1, 1]})])
    (tmp_path / "hops.sql").write_text("CREATE VIEW hop AS SELECT e.a, f.b AS c FROM e JOIN e AS f ON e.b = f.a")
    status = main(
        ["spark", "run", str(tmp_path / "hops.sql"), "--source", f"e={tmp_path}/changes?weight=w",
         "--checkpoint", str(tmp_path / "checkpoint")]
    )  # fmt: skip
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert printed.out.endswith("hop: 2 rows\n")
    assert gws.View.restore(tmp_path / "checkpoint").relation("hop").rows() == [((1, 3), 2)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--source", "e=nowhere"], "'nowhere' does not exist"),
        (["--source", "f={tmp}"], "unknown relation 'f'"),
        (["--source", "e={tmp}", "--source", "e={tmp}"], "relation 'e' is given twice"),
        (["--source", "e={tmp}", "--layout", "hypercube", "--cells", "65"], "cells=65 is not allowed"),
        (["--source", "e={tmp}?format=arrow"], "Use format=parquet or format=csv"),
        (["--source", "e={tmp}?columns=src,dts"], "no column 'dts'"),
        (["--source", "e={tmp}", "--max-files", "0"], "--max-files=0 is not allowed"),
    ],
)
def test_what_cannot_be_run_is_said(spark, tmp_path, capsys, arguments, message):
    write_stream(tmp_path, payments(1, 50, 50))
    given = [one.replace("{tmp}", str(tmp_path)) for one in arguments]
    place = str(tmp_path / "checkpoint")
    assert main(["spark", "run", "-e", "p(a) :- e(a, b).", *given, "--checkpoint", place]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "checkpoint").exists()


def test_a_wrong_row_is_said_without_a_stack_trace(spark, tmp_path, capsys):
    nothing = pa.table({"src": [1], "dst": [2], "weight": pa.array([None], pa.int64())})
    write_stream(tmp_path / "changes", [nothing])
    place = str(tmp_path / "checkpoint")
    source = f"e={tmp_path}/changes?weight=weight"
    assert main(["spark", "run", "-e", "p(a) :- e(a, b).", "--source", source, "--checkpoint", place]) == 2
    assert capsys.readouterr().err.splitlines() == ["gpu-wcoj: the column 'weight' of weights is null."]


def test_example(spark, tmp_path, monkeypatch, capsys):
    """In this process, with the session that is there, which goes on."""
    tables = write_stream(tmp_path / "changes", payments(3, 600, 100))
    arguments = [str(tmp_path / name) for name in ("changes", "checkpoint", "out")]
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), *arguments])
    monkeypatch.setattr("pyspark.sql.SparkSession.stop", lambda session: None)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert capsys.readouterr().out.splitlines()[-2:] == triangles_printed(tables)


@pytest.mark.skipif("TEST_SPARK" not in os.environ, reason="starts another Java; make test-spark runs it")
def test_example_by_spark_submit(tmp_path):
    tables = write_stream(tmp_path / "changes", payments(3, 600, 100))
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [Path(sys.executable).parent / "spark-submit", "--master", "local[2]", "--conf", "spark.ui.enabled=false",
         "--conf", f"spark.sql.warehouse.dir={tmp_path / 'warehouse'}", EXAMPLE,
         tmp_path / "changes", tmp_path / "checkpoint", tmp_path / "out"],
        env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-2:] == triangles_printed(tables)


def triangles_printed(tables: list[pa.Table]) -> list[str]:
    """What the example prints at its end."""
    _, engine = alone(TRIANGLE, [{"edge": table} for table in tables], "triangle")
    n = engine.count("triangle")
    return [f"{n:,} triangles", f"{n:,} by the output"]


def test_payments_come_as_files_in_order(tmp_path):
    place = ["--output", str(tmp_path / "p")]
    assert main(["generate", "payments", "--transfers", "500", "--files", "4", *place]) == 0
    paths = sorted((tmp_path / "p").iterdir())
    times = [path.stat().st_mtime for path in paths]
    assert len(paths) == 4
    assert times == sorted(set(times))
    assert main(["generate", "payments", "--files", "4", *place]) == 2
    assert main(["generate", "payments", "--files", "0", "--output", str(tmp_path / "q")]) == 2


def test_what_spark_says_is_cut_to_its_first_line():
    from gpu_wcoj.spark.command import _readable

    assert isinstance(_readable(ValueError("")), InputFileError)
    assert str(_readable(ValueError("one\ntwo"))) == "Spark: one"


def test_a_relation_without_a_folder_is_refused_before_spark_starts(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("gpu_wcoj.spark.command._session", lambda *_: pytest.fail("Spark was started"))
    arguments = ["spark", "run", "-e", "p(a) :- e(a, b), !ee(a).", "--source", f"e={tmp_path}"]
    assert main([*arguments, "--checkpoint", str(tmp_path / "checkpoint")]) == 2
    said = capsys.readouterr().err
    assert "unknown relation 'ee' (line 1, column 19)" in said
    assert "Did you mean 'e'?\n  Give --source ee=PATH or --table ee=PATH." in said
