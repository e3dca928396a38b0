"""Tasks of Python read plain Parquet files themselves; the rows are those that Spark reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as sf

from gpu_wcoj.spark.files import _pieces_of, map_rows


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
