"""Engines read plain Parquet files themselves, in tasks and in micro-batches; the rows are those that Spark reads."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as sf

import gpu_wcoj.spark as gws
from gpu_wcoj.spark.files import _pieces_of, map_rows, plain_stream
from gpu_wcoj.spark.sources import HASH, Reading, Sources, digest_of, sources_of
from tests.spark.file_streams import run, stream_of, write_stream


def same(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def test_rows_of_plain_files(spark: Any, tmp_path: Path) -> None:
    for i in range(3):
        table = pa.table({"a": range(i * 100, i * 100 + 100), "b": [f"t{n % 7}" for n in range(100)], "c": [1.5] * 100})
        pq.write_table(table, tmp_path / f"{i}.parquet", row_group_size=30)
    files = spark.read.parquet(str(tmp_path))
    renamed = files.select(sf.col("b").alias("a"), sf.col("a").alias("x y"), "c")
    for frame in (files, renamed, files.select("c", "a")):
        pieces = _pieces_of(frame)
        assert pieces is not None
        assert len(pieces) == spark.sparkContext.defaultParallelism
        found = map_rows(frame, same, frame.schema).toArrow()
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, frame.toArrow().to_pylist()))
        assert found.num_rows == 300
    for frame in (
        files.where("a > 5"),
        files.select((sf.col("a") + 1).alias("a")),
        files.select(sf.lit(1).alias("a")),
        spark.read.schema("a int, b string").parquet(str(tmp_path)),  # of another type than in the files
    ):
        assert _pieces_of(frame) is None
    doubled = files.where("a < 7").select((2 * sf.col("a")).alias("a"))
    assert sorted(map_rows(doubled, same, doubled.schema).toArrow()["a"].to_pylist()) == [0, 2, 4, 6, 8, 10, 12]


def random_rows(rnd: random.Random, n: int) -> pa.Table:
    """Rows of most types, with nulls."""

    def some(kind: pa.DataType, draw: Any) -> pa.Array:
        return pa.array([None if rnd.random() < 0.2 else draw() for _ in range(n)], kind)

    return pa.table(
        {
            "long": some(pa.int64(), lambda: rnd.randrange(-(1 << 63), 1 << 63)),
            "text": some(pa.string(), lambda: "ä" * rnd.randrange(40)),
            "tiny": some(pa.int8(), lambda: rnd.randrange(-128, 128)),
            "short": some(pa.int16(), lambda: rnd.randrange(-(1 << 15), 1 << 15)),
            "int": some(pa.int32(), lambda: rnd.randrange(-(1 << 31), 1 << 31)),
            "flag": some(pa.bool_(), lambda: rnd.random() < 0.5),
            "real": some(pa.float64(), lambda: rnd.choice([0.0, -0.0, float("nan"), rnd.gauss(0, 1)])),
            "day": some(pa.date32(), lambda: rnd.randrange(30_000)),
            "time": some(pa.timestamp("us", "UTC"), lambda: rnd.randrange(10**15)),
            "weight": pa.array([rnd.choice([-1, 1, 2]) for _ in range(n)], pa.int32()),
        }
    )


def test_micro_batches_of_plain_files(spark: Any, tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rnd = random.Random(seed)
    write_stream(tmp_path / "a", [random_rows(rnd, n) for n in (7, 0, 50)])
    write_stream(tmp_path / "b", [pa.table({"x": [1, 2], "y": ["a", None]})])
    kinds = "long bigint, text string, tiny tinyint, short smallint, int int, flag boolean, real double, day date"
    first = stream_of(spark, tmp_path / "a", f"{kinds}, time timestamp, weight int")
    second = stream_of(spark, tmp_path / "b", "x bigint, y string").select("y", sf.col("x").alias("y z"))
    readings = {"a": (Reading(), Reading()), "b": (Reading(), Reading("append"))}
    united = Sources(sources_of({"a": first, "b": second}, ("a", "b"), readings)).united
    assert united is not None
    counts = []

    def compare(frame: Any, batch: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        found = united._read_files(spark, query, batch)
        assert found is not None
        rows = frame.toArrow()
        assert (found.count, found.digest) == (rows.num_rows, digest_of(rows[HASH].to_numpy()))
        expected = united.split(rows)
        assert found.tables.keys() == expected.keys()
        for name, table in found.tables.items():
            assert table.column_names == expected[name].column_names
            assert sorted(map(str, table.to_pylist())) == sorted(map(str, expected[name].to_pylist()))
        counts.append(found.count)

    query = united.frame.writeStream.foreachBatch(compare).option("checkpointLocation", str(tmp_path / "c"))
    query.trigger(availableNow=True).start().awaitTermination()
    assert counts == [9, 0, 50]


def test_streams_that_spark_reads(spark: Any, tmp_path: Path) -> None:
    write_stream(tmp_path / "a", [pa.table({"x": [1], "y": [2]})])
    stream = stream_of(spark, tmp_path / "a", "x bigint, y bigint")
    assert plain_stream(stream.select("y")) is not None
    csv = spark.readStream.schema("x bigint").csv(str(tmp_path / "a"))
    decimals = stream_of(spark, tmp_path / "a", "x decimal(9, 2)")
    several = (stream.where("x > 0"), stream.selectExpr("x + 1 AS x"), stream.distinct(), stream.union(stream))
    for frame in (csv, decimals, *several):
        assert plain_stream(frame) is None


def test_a_tick_of_plain_files_starts_no_job(spark: Any, tmp_path: Path) -> None:
    write_stream(tmp_path / "in", [pa.table({"a": [i, i + 1], "b": [i + 1, i]}) for i in range(3)])
    stream = stream_of(spark, tmp_path / "in", "a bigint, b bigint")
    view = gws.maintain({"e": stream}, "both(a, b) :- e(a, b), e(b, a).", checkpoint=tmp_path / "c", changes="append")
    query = view.start("availableNow")
    view.wait()
    assert view.answers == {"both": 6}
    assert [report["numInputRows"] for report in query.recentProgress if report["numInputRows"]] == [2, 2, 2]
    assert not spark.sparkContext.statusTracker().getJobIdsForGroup(str(query.runId))
    plan = query._jsq.explainInternal(False)
    assert "LocalTableScan <empty>" in plan
    assert "FileScan" not in plan


def test_spark_reads_the_files_of_a_plain_stream_that_this_process_cannot(spark: Any, tmp_path: Path) -> None:
    """Both readers give the same rows with the same checksum; Spark's expressions check the weights."""
    rows = {"a": [1, 2, 3], "b": [2, 1, None], "weight": [1, 1, 2]}
    narrow = pa.schema([("a", pa.int32()), ("b", pa.int64()), ("weight", pa.int64())])
    tables = [pa.table(rows), pa.table(rows, schema=narrow)]
    write_stream(tmp_path / "in", tables)
    stream = stream_of(spark, tmp_path / "in", "a bigint, b bigint, weight bigint")
    united = Sources(sources_of({"e": stream.select("b", "a", "weight")}, ("e",), {"e": (Reading(), Reading())})).united
    assert united is not None
    assert HASH not in united.stream.columns
    found = []

    def read(frame: Any, batch: int) -> None:
        query = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        found.append((united._read_files(spark, query, batch), united.read(frame, spark, query, batch)))

    query = united.stream.writeStream.foreachBatch(read).option("checkpointLocation", str(tmp_path / "c"))
    query.trigger(availableNow=True).start().awaitTermination()
    (direct, first), (by_spark, second) = found
    assert direct == first
    assert by_spark is None
    assert (second.count, second.digest) == (first.count, first.digest)
    assert second.tables["e"].to_pylist() == first.tables["e"].to_pylist()
    write_stream(tmp_path / "in", [pa.table({**rows, "weight": [1, None, 1]})], first=2)
    view = gws.maintain({"e": stream}, "r(a, b) :- e(a, b).", checkpoint=tmp_path / "checkpoint", changes="weight")
    with pytest.raises(Exception, match="weight"):
        run(view)
    assert view.answers == {"r": 3}
    assert [report["numInputRows"] for report in view.query.recentProgress][:2] == [3, 3]
