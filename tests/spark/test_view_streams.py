"""Real graphs and streams through views, beside the engine alone and joins of Spark's own."""

from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from tests.spark.file_streams import TRIANGLE, alone, assert_same, write_stream

EITHER = "e(a, b) :- edge(a, b), a < b. e(a, b) :- edge(b, a), a < b. "
UNDIRECTED = EITHER + "triangle(a, b, c) :- e(a, b), e(b, c), e(a, c)."
INCLUDES = """
    triangle(a, b, c) :- include(a, b), include(b, c), include(a, c).
    path(a, b, c) :- include(a, b), include(b, c).
"""


def maintained(spark, folder: Path, relation: str, schema: str, program: str, files: int, **options):
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder / "changes"))
    view = gws.maintain({relation: stream}, program, checkpoint=folder / "checkpoint", output=folder / "out", **options)
    view.start("availableNow")
    view.wait()
    return view


def cut(table: pa.Table, parts: int) -> list[pa.Table]:
    bounds = np.arange(parts + 1) * table.num_rows // parts
    return [table.slice(start, stop - start) for start, stop in pairwise(bounds)]


def test_wiki_vote_in_ten_batches(spark, shared_data, tmp_path):
    path = shared_data / "graphs" / "wiki-Vote.txt.gz"
    rows = np.loadtxt(path, dtype=np.int64, comments="#")
    edges = pa.table({"src": rows[:, 0], "dst": rows[:, 1]})
    tables = write_stream(tmp_path / "changes", cut(edges, 10))
    view = maintained(spark, tmp_path, "edge", "src bigint, dst bigint", TRIANGLE, 1, changes="append")
    whole = spark.createDataFrame(edges)
    whole.createOrReplaceTempView("edge")
    joined = spark.sql(
        "SELECT x.src AS a, x.dst AS b, y.dst AS c, 1L AS weight FROM edge x JOIN edge y ON x.dst = y.src "
        "JOIN edge z ON z.src = x.src AND z.dst = y.dst"
    ).toArrow()
    assert joined.num_rows > 500_000
    assert_same(gws.read_output(spark, tmp_path / "out").drop("batch").toArrow(), joined)
    weighted = [table.append_column("weight", pa.repeat(pa.scalar(1), table.num_rows)) for table in tables]
    expected, _ = alone(TRIANGLE, [{"edge": table} for table in weighted], "triangle")
    assert_same(gws.read_output(spark, tmp_path / "out").toArrow(), expected)
    assert view.answers == {"triangle": joined.num_rows}
    assert gws.count(spark, TRIANGLE, {"edge": whole}) == {"triangle": joined.num_rows}


def test_mathoverflow_in_100_files(spark, shared_data, tmp_path):
    """Ten files a batch, to save time: ten batches."""
    names = pa_csv.ReadOptions(column_names=["src", "dst", "time"])
    table = pa_csv.read_csv(
        shared_data / "streams" / "sx-mathoverflow.txt.gz", names, pa_csv.ParseOptions(delimiter=" ")
    )
    edges = table.sort_by("time").select(["src", "dst"])  # the file is not quite in order
    tables = write_stream(tmp_path / "changes", cut(edges, 100))
    view = maintained(spark, tmp_path, "edge", "src bigint, dst bigint", UNDIRECTED, 10, changes="append")
    assert view.answers == {"triangle": 1_403_919}
    assert view.progress["batch"] == 9
    batches = [pa.concat_tables(tables[start : start + 10]) for start in range(0, 100, 10)]
    weighted = [table.append_column("weight", pa.repeat(pa.scalar(1), table.num_rows)) for table in batches]
    expected, _ = alone(UNDIRECTED, [{"edge": table} for table in weighted], "triangle")
    assert_same(gws.read_output(spark, tmp_path / "out").toArrow(), expected)


def test_includes_with_deletions_and_strings(spark, shared_data, tmp_path):
    """461 commits in 47 files, five files a batch; the rows of a batch are in order. Targets are resolved to files."""
    commits: dict[str, list[tuple[int, str, str]]] = {}
    with gzip.open(shared_data / "streams" / "souffle_include_stream.tsv.gz", "rt") as lines:
        for line in lines:
            commit, _time, weight, file, target = line.rstrip("\n").split("\t")
            commits.setdefault(commit, []).append((int(weight), file, target))
    files = {file for rows in commits.values() for _, file, _ in rows}
    meant = {"/".join(file.split("/")[i:]): file for file in sorted(files) for i in range(file.count("/") + 1)}
    rows = [
        (file, meant.get(target, target), weight, number)
        for number, (weight, file, target) in enumerate(row for rows in commits.values() for row in rows)
    ]
    sizes = np.cumsum([0, *(len(one) for one in commits.values())])
    bounds = [*sizes[::10], sizes[-1]]
    table = pa.table(dict(zip(("file", "target", "weight", "at"), map(list, zip(*rows, strict=True)), strict=True)))
    tables = write_stream(
        tmp_path / "changes",
        [table.slice(start, stop - start) for start, stop in pairwise(bounds)],
    )
    schema = "file string, target string, weight bigint, at bigint"
    view = maintained(spark, tmp_path, "include", schema, INCLUDES, 5, changes="weight", order_by="at")
    assert (len(tables), view.progress["batch"]) == (47, 9)

    present: set[tuple[str, str]] = set()
    for file, target, weight, _ in rows:
        (present.add if weight > 0 else present.discard)((file, target))
    assert sum(weight < 0 for _, _, weight, _ in rows) == 13_604
    assert len(present) == view.program.count("include")
    after: dict[str, list[str]] = {}
    for file, target in present:
        after.setdefault(file, []).append(target)
    paths = {(a, b, c) for a, b in present for c in after.get(b, ())}
    wanted = {"path": paths, "triangle": {path for path in paths if (path[0], path[2]) in present}}
    batches = [pa.concat_tables(tables[start : start + 5]) for start in range(0, 47, 5)]
    ordered = [batch.rename_columns({"at": "_order_1"}) for batch in batches]
    for name, answer in wanted.items():
        state = gws.read_output(spark, tmp_path / "out", name, state=True).toArrow().to_pydict()
        *columns, weights = state.values()
        assert set(weights) == {1}
        assert set(zip(*columns, strict=True)) == answer
        expected, _ = alone(INCLUDES, [{"include": batch} for batch in ordered], name)
        assert (expected["weight"].to_numpy() < 0).sum() > 1000
        assert_same(gws.read_output(spark, tmp_path / "out", name).toArrow(), expected)
