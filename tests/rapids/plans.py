"""What of ours Spark plans, by name: each has to run on the GPU whole.

Add to `PLANS` whatever makes a DataFrame of a DataFrame. A plan gets the session and an empty folder of its own, and
reads from Parquet: rows that come from the driver are no plan of the GPU's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gpu_wcoj.spark as gws
from tests.spark.cdc_formats import CASES, Case

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from gpu_wcoj.spark.cluster.driver import CellRun


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
    from gpu_wcoj.spark.cluster.exchange import EXCHANGE

    rows = normalised(CASES["debezium"], spark, folder)
    spark.conf.set(EXCHANGE, "expressions")  # as the plugin makes it, which a test that only asks does not run
    with opened(layout, program, rows, folder) as run:
        return run.frame({"edge": rows}, 0)


def to_cells(layout: str, is_exchanged: bool, spark: SparkSession, folder: Path) -> DataFrame:
    """Normalised and routed, with heavy values, and perhaps exchanged; no function of Python's."""
    from gpu_wcoj.spark.cluster.exchange import exchange_rows as sent
    from gpu_wcoj.spark.cluster.exchange import route_rows

    rows = normalised(CASES["debezium"], spark, folder)
    heavy = {0: {"b": [7, 9]}} if layout == "hypercube" else None
    with opened(layout, TWO_STAGES, rows, folder, heavy) as run:
        there = route_rows(run.rows({"edge": rows}), run.plan, run.columns)
        return sent(there, 4) if is_exchanged else there


def opened(layout: str, program: str, rows: DataFrame, folder: Path, heavy: Any = None) -> CellRun:
    from gpu_wcoj.spark.cluster.driver import CellOptions, CellRun

    return CellRun.open(
        program, {"edge": rows.schema}, CellOptions(layout, 4, heavy=heavy), checkpoint=folder / "checkpoint",
        output=folder / "output",
    )  # fmt: skip


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
    "cells, replicated in two stages": partial(on_cells, "replicated", TWO_STAGES),
    **{
        f"cells, {layout}, {'exchanged' if is_exchanged else 'routed'}": partial(to_cells, layout, is_exchanged)
        for layout in ("hypercube", "replicated")
        for is_exchanged in (False, True)
    },
    "join in one shot": joined,
}

_PARCELS = "rows between stages are binary bodies, which the plugin hands to Python on the CPU"
KEPT: dict[str, str] = {
    "cells, hypercube in two stages": _PARCELS,
    "cells, replicated in two stages": _PARCELS,
}
"""Which plans are not yet taken whole, and why."""
