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


PLANS: dict[str, Callable[[SparkSession, Path], DataFrame]] = {
    **{f"normalise, {name}": partial(normalised, case) for name, case in CASES.items()},
    "normalise, repartition and mapInArrow": partial(exchanged, CASES["debezium"]),
}
