"""Keeping up: views fed by files, beside Spark SQL's joins of the change with the rest."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import gpu_wcoj.spark as gws
from bench.engine.graph import Edges
from bench.spark.graphs import table
from bench.spark.queries import Query


def keep_up(
    spark: SparkSession, query: Query, edges: Edges, batch_rows: int, batches: int, folder: Path
) -> list[dict[str, Any]]:
    """Load all edges but those of `batches`, feed these, and give the progress of each batch."""
    split = len(edges) - batch_rows * batches
    folder.mkdir(parents=True)
    pq.write_table(table(edges[:split]), folder / "loaded.parquet")
    write_stream(
        [edges[split + i * batch_rows : split + (i + 1) * batch_rows] for i in range(batches)], folder / "changes"
    )
    stream = spark.readStream.schema("src bigint, dst bigint").option("maxFilesPerTrigger", 1)
    loaded = spark.read.parquet(str(folder / "loaded.parquet"))
    found: list[dict[str, Any]] = []
    # The loaded edges are a relation of their own, as one relation has one source: e is either.
    program = (
        f"edge(a, b) :- loaded(a, b). edge(a, b) :- fed(a, b). {query.program} .output {query.program.split('(')[0]}"
    )
    view = gws.maintain(
        {"loaded": loaded, "fed": stream.parquet(str(folder / "changes"))}, program,
        changes="append", checkpoint=folder / "checkpoint", output=folder / "out", emit_loaded=False,
    )  # fmt: skip
    view.on_batch(found.append)
    view.start("availableNow")
    view.wait()
    return [one for one in found if one["batch"] >= 0]


def median_batch(found: Sequence[dict[str, Any]], stage: str = "batch") -> float:
    """The median seconds of a stage; the first batch warms up."""
    return float(statistics.median(one["seconds"][stage] for one in found[1:] or found))


def sql_delta(spark: SparkSession, before: Path, delta: Path) -> int:
    """The new triangles of inserted edges, by Spark SQL: one join a path, before and after as in the delta rule."""
    spark.read.parquet(str(before)).createOrReplaceTempView("b")
    spark.read.parquet(str(delta)).createOrReplaceTempView("d")
    spark.sql("SELECT * FROM b UNION ALL SELECT * FROM d").createOrReplaceTempView("a")
    paths = (("d", "b", "b"), ("a", "d", "b"), ("a", "a", "d"))
    total = " + ".join(
        f"(SELECT count(*) FROM {x} x JOIN {y} y ON y.src = x.dst JOIN {z} z ON z.src = x.src AND z.dst = y.dst)"
        for x, y, z in paths
    )
    return int(spark.sql(f"SELECT {total} AS n").collect()[0]["n"])


def overhead(spark: SparkSession, rows: int, batches: int, folder: Path) -> list[dict[str, Any]]:
    """Batches of so many changes whose join is trivial: what feeding costs by stage."""
    random = np.random.default_rng(1)
    parts = [random.integers(0, 1 << 40, (rows, 2)) for _ in range(batches)]
    write_stream(parts, folder / "changes")
    stream = spark.readStream.schema("src bigint, dst bigint").option("maxFilesPerTrigger", 1)
    found: list[dict[str, Any]] = []
    view = gws.maintain(
        {"edge": stream.parquet(str(folder / "changes"))}, "path(a, b, c) :- edge(a, b), edge(b, c).",
        changes="append", checkpoint=folder / "checkpoint", output=folder / "out",
    )  # fmt: skip
    view.on_batch(found.append)
    start = time.perf_counter()
    view.start("availableNow")
    view.wait()
    for one in found:
        one["all_batches_seconds"] = time.perf_counter() - start
    return [one for one in found if one["batch"] >= 0]


def write_stream(parts: Sequence[Edges], folder: Path) -> None:
    """Write each part as a Parquet file, in the order in which a stream reads them."""
    folder.mkdir(parents=True)
    for i, part in enumerate(parts):
        path = folder / f"{i:05}.parquet"
        pq.write_table(pa.table(table(part)), path)
        os.utime(path, (1_700_000_000 + i, 1_700_000_000 + i))
