"""``python -m bench.spark``: see `main`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from cyclopts import App
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

import gpu_wcoj.spark as gws
from bench.engine import machine
from bench.engine.graph import STANDARD, by_degree
from bench.spark import graphs
from bench.spark.metered import Metered, metered
from bench.spark.queries import MOTIF, QUERIES, TRIANGLE, Query, read_all
from bench.spark.streaming import keep_up, median_batch, overhead, sql_delta

RESULTS = Path(__file__).parents[1] / "results"

app = App(name="python -m bench.spark")


@app.default
def main(
    *,
    scale: int = STANDARD[0],
    edges: int = STANDARD[1],
    seed: int = STANDARD[2],
    limit: float = 600.0,
    memory: str = "8g",
    cliques: bool = True,
    streams: bool = True,
    output: Path = RESULTS,
) -> None:
    """Measure one-shot joins and views beside Spark SQL's binary joins, all in one session.

    Parameters
    ----------
    scale, edges, seed
        Of the R-MAT graph.
    limit
        Seconds after which a query of Spark SQL is cancelled.
    memory
        Of the JVM.
    cliques
        Whether 4-cliques are measured, too.
    streams
        Whether views are measured.
    output
        The folder that the JSON goes to.
    """
    console = Console(width=150)
    described = machine.describe(("numpy", "pyarrow", "numba", "pyspark"))
    cores = os.cpu_count() or 1
    spark = gws.local_session("bench", memory=memory, conf={"spark.sql.shuffle.partitions": str(4 * cores)})
    rows: list[dict[str, Any]] = []

    with tempfile.TemporaryDirectory(prefix="gpu_wcoj-bench-") as place:
        folder = Path(place)
        small = graphs.rmat(10, 8000, 1, folder)
        chosen = [small, graphs.rmat(scale, edges, seed, folder)]
        if (epinions := graphs.epinions(folder)) is not None:
            chosen.append(epinions)
        for graph in chosen:
            for query in QUERIES if cliques else (TRIANGLE,):
                for one in _one_shot(spark, graph, query, limit):
                    if graph is not small:
                        rows.append(one)
                        console.print(
                            f"{one['graph']} {one['query']}: {one['how']}: {one['answer']}, {one['seconds']} s"
                        )
        kept: dict[str, Any] = {}
        if streams:
            graph = chosen[1]
            for name, n_rows in (("1,000 rows", 1000), ("1 %", len(graph.edges) // 100)):
                found = keep_up(spark, TRIANGLE, graph.edges, n_rows, 6, folder / f"view-{n_rows}")
                kept[name] = found
                console.print(f"{graph.name} view, batches of {name}: median {median_batch(found):.3f} s, "
                              f"engine {median_batch(found, 'engine'):.3f} s")  # fmt: skip
                ranked = by_degree(graph.edges)
                pq.write_table(graphs.table(ranked[:-n_rows]), folder / "before.parquet")
                pq.write_table(graphs.table(ranked[-n_rows:]), folder / "delta.parquet")
                got = metered(
                    spark, partial(sql_delta, spark, folder / "before.parquet", folder / "delta.parquet"), limit
                )
                kept[f"Spark SQL, delta joins, {name}"] = vars(got)
                console.print(f"{graph.name} Spark SQL, delta joins of {name}: {got.result}, {got.seconds:.2f} s")
            kept["overhead, 200,000 changes"] = overhead(spark, 200_000, 6, folder / "overhead")
    _print(console, rows, kept)
    day, commit = str(described["date"])[:10], str(described["commit"]).replace("+", "-")
    path = output / f"spark-{day}-{commit}-scale{scale}.json"
    about = {**described, "spark": spark.version, "memory": memory, "load_after": os.getloadavg()[0]}
    machine.write_json(path, {"machine": about, "joins": rows, "views": kept})
    console.print(f"Written to {path}")
    spark.stop()


def _one_shot(spark: SparkSession, graph: graphs.Graph, query: Query, limit: float) -> Iterator[dict[str, Any]]:
    """The whole answer, counted and listed, by the engine and by Spark SQL in either order of vertices."""
    frame = spark.read.parquet(str(graph.paths["as given"]))

    def counted() -> int:
        return gws.count(spark, query.program, {"edge": frame}).popitem()[1]

    def joined() -> int:
        return read_all(gws.join(spark, query.program, {"edge": frame}))

    def counted_motif() -> int:
        return gws.count(spark, MOTIF, {"edges": frame}).popitem()[1]

    def counted_matches() -> int:
        return gws.find(frame, MOTIF).count()

    def matched() -> int:
        return read_all(gws.find(frame, MOTIF).selectExpr("a.id AS a", "b.id AS b", "c.id AS c"))

    def sql(select: str) -> DataFrame:
        return spark.sql(f"SELECT {select} FROM {query.joins}")

    def sql_count() -> int:
        return int(sql("count(*) AS n").collect()[0]["n"])

    def noted(how: str, got: Metered) -> dict[str, Any]:
        if got.result is not None and got.result != known:
            raise SystemExit(f"{graph.name}, {query.name}, {how}: {got.result:,}, and the engine counts {known:,}.")
        return {
            "graph": graph.name, "query": query.name, "how": how, "answer": got.result,
            "seconds": round(got.seconds, 4), "shuffle_bytes": got.shuffle_bytes, "peak_bytes": got.peak_bytes,
            "load": os.getloadavg()[0],
        }  # fmt: skip

    got = metered(spark, counted, limit)
    known = got.result
    yield noted("gws.count", got)
    if query is TRIANGLE:
        yield noted("gws.join, all rows read by Spark", metered(spark, joined, limit))
        yield noted("gws.count of the motif", metered(spark, counted_motif, limit))
        yield noted("gws.find, counted by Spark", metered(spark, counted_matches, limit))
        yield noted("gws.find, all rows read by Spark", metered(spark, matched, limit))
    for order, path in graph.paths.items():
        spark.read.parquet(str(path)).createOrReplaceTempView("edge")
        yield noted(f"Spark SQL count, vertices {order}", metered(spark, sql_count, limit))
    if query is TRIANGLE:
        got = metered(spark, lambda: read_all(sql(query.rows)), limit)
        yield noted("Spark SQL, all rows, vertices by degree", got)


def _print(console: Console, rows: list[dict[str, Any]], kept: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("graph", "query", "how", "answer", "seconds", "x", "shuffle", "peak"):
        table.add_column(column, justify="left" if column in ("graph", "query", "how") else "right")
    for row in rows:
        ours = "gws.join" if "all rows" in row["how"] else "gws.count"
        base = next(
            (one["seconds"] for one in rows
             if (one["graph"], one["query"]) == (row["graph"], row["query"]) and one["how"].startswith(ours)), None
        )  # fmt: skip
        table.add_row(
            row["graph"], row["query"], row["how"], "stopped" if row["answer"] is None else f"{row['answer']:,}",
            f"{row['seconds']:.2f}", "" if base is None else f"{row['seconds'] / base:.1f}",
            f"{row['shuffle_bytes'] / 1e6:,.0f} MB", f"{row['peak_bytes'] / 1e9:.1f} GB",
        )  # fmt: skip
    console.print(table)
    for name, found in kept.items():
        if isinstance(found, list):
            stages = ", ".join(f"{stage} {median_batch(found, stage):.3f}" for stage in found[0]["seconds"])
            console.print(f"{name}: median seconds of a batch: {stages}")


if __name__ == "__main__":
    app()
