"""Reading the output of a view: committed batches only."""

from __future__ import annotations

from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from gpu_wcoj.errors import CheckpointDamagedError, UnknownRelationError, UsageError, entry_point, listed
from gpu_wcoj.spark.listing import Listing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@entry_point
def read_output(
    spark: SparkSession,
    path: str | PathLike[str],
    relation: str | None = None,
    *,
    state: bool = False,
    since: int | None = None,
) -> DataFrame:
    """Return the changes that a view wrote as Parquet, with weights and batch ids.

    The result has committed batches only, each completely and once, also after crashes during writing.

    Parameters
    ----------
    path
        The `output` of the view.
    relation
        One of the program's outputs; optional if there is only one.
    state
        Return the rows of the answer after the last batch instead, with their weights: the sum of all changes.
    since
        Only batches after the one with this id. Tables that were loaded before the first batch are batch -1.

    Raises
    ------
    UsageError, UnknownRelationError
        If the folder has no output, or several and `relation` is not given.
    CheckpointDamagedError
        If a file is missing or has the wrong size.
    """
    if state and since is not None:
        raise UsageError.conflict(
            f"since={since}", "state=True", "Leave one of the two out.",
            "since selects changes, and state returns the rows after all changes",
        )  # fmt: skip
    files, schemas = Listing(Path(fspath(path)).expanduser().absolute()).files(since)
    if relation is None:
        if len(schemas) != 1:
            raise UsageError.with_parts(
                f"the folder '{path}' has the outputs {listed(schemas)}",
                subject="relation", expected="one output", remedy="Name one: relation=...",
            )  # fmt: skip
        (relation,) = schemas
    elif relation not in schemas:
        raise UnknownRelationError(relation, schemas, "outputs")
    schema = StructType.fromJson(schemas[relation])
    names = []
    for file, size in files[relation]:
        size_on_disk = file.stat().st_size if file.exists() else None
        if size_on_disk != size:
            what = (
                "is missing"
                if size_on_disk is None
                else f"has the wrong size: got {size_on_disk:,} bytes, expected {size:,}"
            )
            raise CheckpointDamagedError(file, what)
        names.append(str(file))
    if names:
        rows = spark.read.schema(schema).option("parquet.page.verify-checksum.enabled", "true").parquet(*names)
    else:
        rows = spark.createDataFrame([], schema)
    if not state:
        return rows
    *columns, weight, _batch = schema.names
    quoted = ["`" + name.replace("`", "``") + "`" for name in columns]
    summed = rows.groupBy(*quoted).agg(sf.sum(f"`{weight}`").alias(weight))
    return summed.where(sf.col(f"`{weight}`") != 0)
