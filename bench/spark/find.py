"""``python -m bench.spark.find``: a motif by `gws.find` beside Spark SQL's joins, in one session; see `main`."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cyclopts import App
from pyspark.sql import SparkSession
from rich.console import Console

import gpu_wcoj.spark as gws
from bench.engine import machine
from bench.engine.graph import STANDARD
from bench.spark import graphs
from bench.spark.metered import metered
from bench.spark.queries import MOTIF, TRIANGLE, read_all

RESULTS = Path(__file__).parents[1] / "results"
FIND, SQL = "gws.find", "Spark SQL"
Runs = dict[str, dict[str, Callable[[], int]]]

app = App(name="python -m bench.spark.find")


@app.default
def main(
    *,
    scale: int = STANDARD[0],
    edges: int = STANDARD[1],
    seed: int = STANDARD[2],
    rounds: int = 3,
    kinds: Sequence[str] = ("counted", "listed"),
    order: str = "by degree",
    limit: float = 600.0,
    memory: str = "6g",
    record: Path | None = None,
    output: Path = RESULTS,
) -> None:
    """Find the triangles of an R-MAT graph by `gws.find` and by Spark SQL's joins, in alternating rounds.

    The first rounds are on a small graph and not recorded. A round that counts lets Spark count the matches; a round
    that lists lets Spark read all of them.

    Parameters
    ----------
    scale, edges, seed
        Of the R-MAT graph.
    rounds
        Number of times that each way is measured for each kind.
    kinds
        ``counted`` and ``listed``, or one of the two.
    order
        Order of the vertices: ``by degree``, in which binary joins have smaller results, or ``as given``.
    limit
        Seconds after which a query of Spark SQL is cancelled.
    memory
        Of the JVM.
    record
        A record of the same graph, order and commit that the rounds are added to.
    output
        The folder that a new record goes to.
    """
    console = Console(width=150)
    described = machine.describe(("numpy", "pyarrow", "numba", "pyspark"))
    graph = {"scale": scale, "edges": edges, "seed": seed, "vertices": order}
    rows: list[dict[str, Any]] = []
    if record is not None:
        stored = json.loads(record.read_text())
        if (stored["graph"], stored["machine"]["commit"]) != (graph, described["commit"]):
            raise SystemExit(f"'{record}' is of another graph or commit.")
        described, rows = stored["machine"], stored["rounds"]
    conf = {"spark.sql.shuffle.partitions": str(4 * (os.cpu_count() or 1))}
    spark = gws.local_session("bench", memory=memory, conf=conf)
    with tempfile.TemporaryDirectory(prefix="gpu_wcoj-bench-") as place:
        folder = Path(place)
        for _ in range(2):
            list(measure(spark, runs_of(spark, graphs.rmat(10, 8000, 1, folder).paths[order]), kinds, limit))
        runs = runs_of(spark, graphs.rmat(scale, edges, seed, folder).paths[order])
        for number in range(rounds):
            for row in measure(spark, runs, kinds, limit, is_reversed=number % 2 == 1):
                rows.append(row)
                console.print(f"{row['kind']}, {row['way']}: {row['answer']}, {row['seconds']} s")
    spark.stop()
    for kind, (by_find, by_sql) in medians(rows).items():
        console.print(f"{kind}: {FIND} {by_find:.2f} s, {SQL} {by_sql:.2f} s, x {by_sql / by_find:.1f}")
    name = f"spark-find{scale}"
    path = machine.store(record.parent if record else output, name, described, graph=graph, rounds=rows)
    console.print(f"Written to {path}")


def runs_of(spark: SparkSession, path: Path) -> Runs:
    """Return what is measured, by kind and way: functions that return the number of triangles."""
    frame = spark.read.parquet(str(path))
    frame.createOrReplaceTempView("edge")

    def by_sql(select: str) -> Any:
        return spark.sql(f"SELECT {select} FROM {TRIANGLE.joins}")

    return {
        "counted": {
            FIND: lambda: gws.find(frame, MOTIF).count(),
            SQL: lambda: int(by_sql("count(*) AS n").collect()[0]["n"]),
        },
        "listed": {
            FIND: lambda: read_all(gws.find(frame, MOTIF).selectExpr("a.id AS a", "b.id AS b", "c.id AS c")),
            SQL: lambda: read_all(by_sql(TRIANGLE.rows)),
        },
    }


def measure(
    spark: SparkSession, runs: Runs, kinds: Sequence[str], limit: float, *, is_reversed: bool = False
) -> Iterator[dict[str, Any]]:
    """Run each way once for each kind; the answers must be equal."""
    for kind in kinds:
        answers = set()
        for way in reversed(runs[kind]) if is_reversed else runs[kind]:
            got = metered(spark, runs[kind][way], limit)
            answers |= set() if got.result is None else {got.result}
            if len(answers) > 1:
                raise SystemExit(f"{kind}: the two ways have found {sorted(answers)} triangles.")
            yield {
                "kind": kind, "way": way, "answer": got.result, "seconds": round(got.seconds, 3),
                "shuffle_bytes": got.shuffle_bytes, "peak_bytes": got.peak_bytes, "load": os.getloadavg()[0],
            }  # fmt: skip


def medians(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """Return the median seconds of both ways, by kind."""
    seconds: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        seconds.setdefault(row["kind"], {}).setdefault(row["way"], []).append(row["seconds"])
    return {kind: (statistics.median(ways[FIND]), statistics.median(ways[SQL])) for kind, ways in seconds.items()}


if __name__ == "__main__":
    app()
