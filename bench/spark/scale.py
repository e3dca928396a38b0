"""``python -m bench.spark.scale``: one engine beside cells, each in a process of its own; see `main`."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pyarrow.parquet as pq
from cyclopts import App
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import gpu_wcoj.spark as gws
from bench.engine import machine
from bench.engine.graph import Edges
from bench.spark import graphs
from bench.spark.metered import Metered, metered, processor_seconds
from bench.spark.queries import CLIQUE, TRIANGLE
from bench.spark.streaming import write_stream
from gpu_wcoj import datasets

RESULTS = Path(__file__).parents[1] / "results"
Pattern = Literal["triangles", "triangles per vertex", "4-cliques"]
PROGRAMS: dict[Pattern, str] = {
    "triangles": TRIANGLE.program,
    "triangles per vertex": f"SELECT x.src, count(*) AS n FROM {TRIANGLE.joins} GROUP BY x.src",
    "4-cliques": CLIQUE.program,
}
TICKS = {"ticks of 1,000": (1000, 6), "ticks of 100,000": (100_000, 3)}
"""Rows and number of the ticks of a view; the first one warms up."""
LOADED = 0.9
"""Share of the edges that are there before the stream."""
SESSION = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4", "spark.executor.memory": "2g"}

app = App(name="python -m bench.spark.scale")


@app.default
def main(
    *,
    scale: int = 18,
    edges: int | None = None,
    master: str = "local[2]",
    cells: int = 2,
    rounds: int = 3,
    counts: Sequence[Pattern] = ("triangles", "triangles per vertex"),
    views: Sequence[Pattern] = ("triangles",),
    threads: int | None = None,
    sql: bool = False,
    limit: float = 600.0,
    output: Path = RESULTS,
) -> None:
    """Count patterns of an R-MAT graph and keep patterns up to date, in one engine and on cells.

    Both run in alternating rounds, in new processes each; memory is that of the process and of all below it. A count is
    run twice in a process, and the second run is measured.

    Parameters
    ----------
    scale, edges
        Of the graph: 2 ** scale vertices, and 16 edges a vertex if no number is given, before duplicates are dropped.
    master
        Of Spark, such as ``local-cluster[2,1,6144]``.
    cells
        Cells of the layout hypercube.
    counts, views
        Patterns that are counted, and those of views.
    threads
        Of one engine, by default one a core. A cell has one.
    sql
        Whether Spark SQL counts the triangles, once.
    limit
        Seconds after which a query is cancelled.
    output
        The folder that the record goes to.
    """
    console = Console(width=150)
    described = machine.describe(("numpy", "pyarrow", "numba", "pyspark"))
    found: dict[str, list[dict[str, Any]]] = {"one engine": [], "cells": []}
    with tempfile.TemporaryDirectory(prefix="gpu_wcoj-bench-") as place:
        rows = datasets.undirected(datasets.rmat(scale, edges or 16 << scale, 1))
        write_graph(rows, Path(place))
        settings = {"folder": place, "master": master, "limit": limit, "counts": counts, "views": views}
        ways: dict[str, dict[str, Any]] = {
            "one engine": {"threads": threads}, "cells": {"layout": "hypercube", "cells": cells},
        }  # fmt: skip
        for i in range(rounds):
            for how, options in ways.items():
                got = run_apart({**settings, "options": options, "sql": sql and i == 0 and how == "one engine"})
                found[how].append(got)
                console.print(f"round {i + 1}, {how}: {json.dumps([got['seconds'], got['processor_seconds']])}")
    check_answers(found)
    print_table(console, found)
    names = (*counts, *(f"{name} view" for name in views))
    name = f"spark-scale{scale}-{master.split('[', maxsplit=1)[0]}-{'-'.join(names).replace(' ', '-')}"
    about = {"scale": scale, "edges": len(rows), "master": master, "cells": cells, "threads": threads}
    console.print(f"Written to {machine.store(output, name, described, about=about, rounds=found)}")


def write_graph(rows: Edges, folder: Path) -> None:
    """Write the loaded edges, and the files of the streams."""
    split = int(len(rows) * LOADED)
    pq.write_table(graphs.table(rows[:split]), folder / "loaded.parquet")
    for name, (n_rows, n_ticks) in TICKS.items():
        ticks = [rows[split + i * n_rows : split + (i + 1) * n_rows] for i in range(n_ticks)]
        write_stream([tick for tick in ticks if len(tick)], folder / name)


def run_apart(settings: dict[str, Any]) -> dict[str, Any]:
    """Measure in a new process; return its answers, seconds and peak memory."""
    command = [sys.executable, "-m", "bench.spark.scale", "measure", json.dumps(settings)]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ)
    got: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return got


@app.command
def measure(settings: str, /) -> None:
    """Measure one way in this process, and print the results as JSON."""
    chosen = json.loads(settings)
    conf = {**SESSION, "spark.master": chosen["master"]}
    spark = gws.local_session("bench", memory="6g", conf=conf)
    options = chosen["options"]
    folder = Path(chosen["folder"])
    loaded = spark.read.parquet(str(folder / "loaded.parquet"))
    got: dict[str, Metered] = {}
    for name in chosen["counts"]:
        run = partial(count, spark, PROGRAMS[name], loaded, options)
        run()
        got[name] = metered(spark, run, chosen["limit"])
    if chosen["sql"]:
        loaded.createOrReplaceTempView("edge")
        query = f"SELECT count(*) AS n FROM {TRIANGLE.joins}"
        got["Spark SQL, triangles"] = metered(spark, lambda: spark.sql(query).collect()[0]["n"], chosen["limit"])
    seconds = {name: one.seconds for name, one in got.items()}
    processor = {name: one.processor_seconds for name, one in got.items()}
    progress: dict[str, Any] = {}
    for pattern in chosen["views"]:
        for ticks in TICKS:
            name = f"{pattern}, {ticks}"
            used = processor_seconds()
            took, progress[name] = keep_up(spark, PROGRAMS[pattern], folder / ticks, loaded, options)
            processor[name] = processor_seconds() - used
            seconds |= {f"{name}: {part}": value for part, value in took.items()}
    spark.stop()
    print(json.dumps({
        "answers": {name: one.result for name, one in got.items()},
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "processor_seconds": {name: round(value, 3) for name, value in processor.items()},
        "shuffle_bytes": {name: one.shuffle_bytes for name, one in got.items()},
        "peak_bytes": {name: one.peak_bytes for name, one in got.items()},
        "progress": progress,
    }))  # fmt: skip


def count(spark: SparkSession, program: str, loaded: Any, options: dict[str, Any]) -> int:
    """Return the number of rows of a program's answer."""
    return gws.count(spark, program, {"edge": loaded}, **options).popitem()[1]


def keep_up(
    spark: SparkSession, program: str, changes: Path, loaded: Any, options: dict[str, Any]
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    """Load a view and feed it a file a tick; return seconds, and the progress of each batch."""
    stream = spark.readStream.schema("src bigint, dst bigint").option("maxFilesPerTrigger", 1).parquet(str(changes))
    batches: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="gpu_wcoj-bench-") as place:
        view = gws.maintain(
            {"edge": [loaded, stream]},
            program,
            changes="append",
            checkpoint=Path(place) / "checkpoint",
            **options,
        )
        view.on_batch(batches.append)
        query = view.start("availableNow")
        view.wait()
        added = [one["durationMs"]["addBatch"] / 1000 for one in query.recentProgress if one["numInputRows"]]
    load = next(one["seconds"]["batch"] for one in batches if one["batch"] < 0)
    return {"load": load, "addBatch, median": statistics.median(added[1:] or added)}, batches


def check_answers(found: dict[str, list[dict[str, Any]]]) -> None:
    """Raise if two runs have counted another number."""
    numbers: dict[str, set[int]] = {}
    for runs in found.values():
        for run in runs:
            for name, answer in run["answers"].items():
                numbers.setdefault(name.removeprefix("Spark SQL, "), set()).update([] if answer is None else [answer])
    for name, different in numbers.items():
        if len(different) > 1:
            raise SystemExit(f"{name}: the runs have counted {sorted(different)}.")


def print_table(console: Console, found: dict[str, list[dict[str, Any]]]) -> None:
    """Print medians, and those of cells over those of one engine."""
    table = Table(box=None, pad_edge=False)
    for column in ("", "one engine", "cells", "cells / one engine"):
        table.add_column(column, justify="right" if column else "left")

    def add(name: str, unit: float, of: str, label: str) -> None:
        one, cells = (median([run[of][name] for run in runs if name in run[of]]) for runs in found.values())
        ratio = "" if one is None or cells is None else f"{cells / one:.2f}"
        shown = ["" if value is None else f"{value / unit:.2f}" for value in (one, cells)]
        table.add_row(f"{name}, {label}", *shown, ratio)

    for of, label, unit in (
        ("seconds", "s", 1.0), ("processor_seconds", "s of processors", 1.0), ("peak_bytes", "GB", 1e9),
    ):  # fmt: skip
        for name in found["one engine"][0][of]:
            add(name, unit, of, label)
    console.print(table)


def median(values: Sequence[float]) -> float | None:
    """Return the median; None for no values."""
    return statistics.median(values) if values else None


if __name__ == "__main__":
    app()
