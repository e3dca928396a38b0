"""Reading what a view has written: whole batches, and nothing else."""

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
    """The changes that a view has written as Parquet, with their weights and the id of their batch.

    Only batches that are committed are seen, each whole and once, whatever crashed while they were written.

    Parameters
    ----------
    path
        The `output` of the view.
    relation
        Which of the program's outputs; it can be left out where there is one.
    state
        The rows of the answer after the last batch instead, with their weights: the sum of all changes.
    since
        Only batches after the one with this id. Tables that were loaded before the first batch are batch -1.

    Raises
    ------
    UsageError, UnknownRelationError
        If there is no output, or it is not said which one.
    CheckpointDamagedError
        If a file is missing or has another size than was written.
    """
    if state and since is not None:
        raise UsageError(
            f"since={since} gives changes, state=True the rows after all of them.\n  Leave out one of the two."
        )
    files, schemas = Listing(Path(fspath(path)).expanduser().absolute()).files(since)
    if relation is None:
        if len(schemas) != 1:
            raise UsageError(f"there are the outputs {listed(schemas)}.\n  Name one: relation=...")
        (relation,) = schemas
    elif relation not in schemas:
        raise UnknownRelationError(relation, schemas, "outputs")
    schema = StructType.fromJson(schemas[relation])
    names = []
    for file, size in files[relation]:
        size_on_disk = file.stat().st_size if file.exists() else None
        if size_on_disk != size:
            what = "is missing" if size_on_disk is None else f"has {size_on_disk:,} bytes, and {size:,} were written"
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
