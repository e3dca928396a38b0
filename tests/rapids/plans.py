"""What of ours Spark plans, by name: each has to run on the GPU whole.

Add to `PLANS` whatever makes a DataFrame of a DataFrame. A plan gets the session and an empty folder of its own, and
reads from Parquet: rows that come from the driver are no plan of the GPU's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import gpu_wcoj.spark as gws
from tests.spark.changes import CASES, Case

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def stored(spark: SparkSession, folder: Path, case: Case) -> DataFrame:
    """The changes of a case, read from Parquet."""
    path = str(folder / "changes")
    spark.createDataFrame(case.rows, case.schema).coalesce(1).write.parquet(path)
    return spark.read.parquet(path)


def normalised(case: Case, spark: SparkSession, folder: Path) -> DataFrame:
    arguments = {"order_by": "place", **case.arguments, "key": ["src", "dst"]}
    return gws.normalise(stored(spark, folder, case), case.changes, **arguments)


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows through Python and back, as the engine on an executor takes and gives them."""
    yield from batches


def exchanged(case: Case, spark: SparkSession, folder: Path) -> DataFrame:
    """Normalised, hashed over tasks, and through a function over batches of Arrow."""
    rows = normalised(case, spark, folder)
    return rows.repartition(4, "src").mapInArrow(same, rows.schema)


def on_cells(layout: str, program: str, spark: SparkSession, folder: Path) -> DataFrame:
    """Normalised, routed to cells, exchanged, and through the function that runs their engines."""
    from gpu_wcoj.spark.cells.commit import CellRun

    rows = normalised(CASES["debezium"], spark, folder)
    place = str(folder / "checkpoint")
    output = str(folder / "output")
    with CellRun.open(program, {"edge": rows.schema}, checkpoint=place, output=output, layout=layout, cells=4) as run:
        return run.frame({"edge": rows}, 0)


def joined(spark: SparkSession, folder: Path) -> DataFrame:
    """The answer of a join in one shot, as Spark reads it."""
    rows = stored(spark, folder, CASES["append"]).select("src", "dst")
    return gws.join(spark, TRIANGLE, {"edge": rows}, path=folder / "answer")


TRIANGLE = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."
TWO_STAGES = "far(a, c) :- edge(a, b), edge(b, c). farther(a, d) :- far(a, c), edge(c, d)."

PLANS: dict[str, Callable[[SparkSession, Path], DataFrame]] = {
    **{f"normalise, {name}": partial(normalised, case) for name, case in CASES.items()},
    "normalise, repartition and mapInArrow": partial(exchanged, CASES["debezium"]),
    "cells, hypercube": partial(on_cells, "hypercube", TRIANGLE),
    "cells, hypercube in two stages": partial(on_cells, "hypercube", TWO_STAGES),
    "cells, replicated": partial(on_cells, "replicated", TRIANGLE),
    "join in one shot": joined,
}

KEPT: dict[str, str] = {
    "cells, hypercube in two stages": "the plugin takes no structs from Python, and rows between two stages hold some",
}
"""Which plans are not yet taken whole, and why."""
